//! Queries in all query languages, planned against the schema.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use millrace_grouping::{GroupingRequest, Settings};
use millrace_plan::{Plan, PlanContext, grouping_schema};
use millrace_query::{Query, QueryLimits, flatten, sorting};

use crate::world::schema;
use crate::{tells, text};

/// A YQL statement, and the end of one.
pub(crate) fn yql(input: &[u8]) {
    let input = text(input);
    plan(BTreeMap::from([("yql".to_owned(), input.to_owned())]));
    plan(BTreeMap::from([("yql".to_owned(), format!("select * from thing where {input}"))]));
}

/// The body of a query as JSON, and text typed by a user.
pub(crate) fn query(input: &[u8]) {
    match flatten(input, 1000) {
        Ok(parameters) => plan(parameters),
        Err(error) => tells(&error),
    }
    let typed = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for grammar in ["all", "any", "web", "phrase", "tokenize", "weakAnd", "linguistics"] {
        plan(BTreeMap::from([typed("query", text(input)), typed("type", grammar)]));
    }
    for name in ["sorting", "select", "timeout", "ranking.features.query(v)", "streaming.selection"] {
        plan(BTreeMap::from([typed("yql", "select * from thing where true"), typed(name, text(input))]));
    }
    if let Err(error) = sorting::parse(text(input)) {
        tells(&error);
    }
}

/// A grouping request.
pub(crate) fn grouping(input: &[u8]) {
    let requests = match GroupingRequest::parse(text(input)) {
        Ok(requests) => requests,
        Err(error) => return tells(&error),
    };
    let settings = Settings::new(&Default::default(), 1_700_000_000).expect("the default time zone is one");
    for request in requests {
        if let Err(error) = request.check(&grouping_schema(schema()), &settings) {
            tells(&error);
        }
    }
}

fn plan(mut parameters: BTreeMap<String, String>) {
    parameters.entry("streaming.groupname".to_owned()).or_insert_with(|| "ann".to_owned());
    let query = match Query::from_parameters(parameters, &QueryLimits::default()) {
        Ok(query) => query,
        Err(error) => return tells(&error),
    };
    let clock = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let context = PlanContext { clock, ..PlanContext::standalone() };
    match Plan::new(Arc::new(query), schema(), &context) {
        Ok(plan) => assert!(!plan.to_string().is_empty(), "a plan is shown"),
        Err(error) => tells(&error),
    }
}
