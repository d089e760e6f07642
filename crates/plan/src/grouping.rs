//! Validation of a query's grouping requests.

use std::sync::Arc;

use millrace_grouping::{CheckedGrouping, GroupingRequest, GroupingSchema, Settings};
use millrace_query::Query;
use millrace_schema::Schema;

use crate::{Error, Plan};

/// Grouping request as checked against the schema of a plan. With an error, the schema has no part in its
/// groups.
pub type PlannedGrouping = Result<Arc<CheckedGrouping>, millrace_grouping::Error>;

/// Checks the grouping requests of a query against a schema, in order. `now` is in seconds since 1970.
///
/// # Errors
/// The time zone or the syntax of a request is invalid. See [`check_groupings`] for requests that do not suit
/// the schema.
pub fn groupings(query: &Query, schema: &Schema, now: i64) -> Result<Vec<PlannedGrouping>, Error> {
    let settings = Settings::new(&query.grouping_defaults, now)?;
    let mut groupings = Vec::new();
    for text in &query.grouping {
        for request in GroupingRequest::parse(text)? {
            groupings.push(request.check(&grouping_schema(schema), &settings).map(Arc::new));
        }
    }
    Ok(groupings)
}

/// The parts of a schema to which grouping requests refer.
pub fn grouping_schema(schema: &Schema) -> GroupingSchema<'_> {
    GroupingSchema {
        name: &schema.name,
        fields: schema.fields.iter().map(|(name, field)| (&**name, &field.data_type)).collect(),
        summaries: schema.summaries.keys().map(String::as_str).collect(),
    }
}

/// Checks that each grouping request suits the schema of some plan of the query.
///
/// # Errors
/// The error of the first plan, for a request that suits none.
pub fn check_groupings<'p>(plans: impl Iterator<Item = &'p Plan> + Clone) -> Result<(), Error> {
    let requests = plans.clone().map(|plan| plan.groupings.len()).max().unwrap_or(0);
    for request in 0..requests {
        let mut planned = plans.clone().filter_map(|plan| plan.groupings.get(request));
        if let Some(Err(error)) = planned.clone().next()
            && planned.all(Result::is_err)
        {
            return Err(error.clone().into());
        }
    }
    Ok(())
}
