//! Terms of a query that stand in another document: they are read before the query is.

use std::sync::Arc;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value};

use crate::Error;
use crate::fields::all_at;
use crate::kept_hits::{bytes_inside, take};
use crate::query::{CLAUSES_MAX, text_of};
use crate::request::ElasticParameters;
use crate::service::ElasticService;
use crate::single;

/// Lookups of one search.
const LOOKUPS_MAX: usize = 100;

/// Members of a lookup.
const MEMBERS: [&str; 4] = ["index", "id", "path", "routing"];

/// Replaces each lookup in the body of a search by the values that it finds. The result is the memory that
/// they take, and is kept as long as they are.
///
/// # Errors
/// The index does not exist, there are too many lookups or values, or there is no memory for them.
pub(crate) fn resolve(
    service: &ElasticService,
    body: &mut Map<String, Value>,
) -> Result<Arc<QueryMemory>, Error> {
    let memory = service.node.query_memory();
    let mut left = LOOKUPS_MAX;
    body.values_mut().try_for_each(|value| resolve_in(service, value, &mut left, &memory))?;
    Ok(memory)
}

fn resolve_in(
    service: &ElasticService,
    value: &mut Value,
    left: &mut usize,
    memory: &QueryMemory,
) -> Result<(), Error> {
    match value {
        Value::Array(elements) => {
            elements.iter_mut().try_for_each(|one| resolve_in(service, one, left, memory))
        }
        Value::Object(members) => {
            if let Some(Value::Object(terms)) = members.get_mut("terms") {
                for wanted in terms.values_mut() {
                    if let Some(lookup) = lookup_of(wanted) {
                        *left = left.checked_sub(1).ok_or_else(|| {
                            Error::IllegalArgument(format!(
                                "a search may have {LOOKUPS_MAX} lookups of terms"
                            ))
                        })?;
                        let values = Value::Array(values(service, lookup)?);
                        take(memory, bytes_inside(&values))?;
                        *wanted = values;
                    }
                }
            }
            members.values_mut().try_for_each(|one| resolve_in(service, one, left, memory))
        }
        _ => Ok(()),
    }
}

fn lookup_of(value: &Value) -> Option<&Map<String, Value>> {
    let members = value.as_object()?;
    let is_whole = ["index", "id", "path"].iter().all(|name| members.contains_key(*name));
    (is_whole && members.keys().all(|name| MEMBERS.contains(&name.as_str()))).then_some(members)
}

/// Values at the path of a lookup; none if its document does not exist.
fn values(service: &ElasticService, lookup: &Map<String, Value>) -> Result<Vec<Value>, Error> {
    let text = |name: &str| lookup.get(name).map(text_of).unwrap_or_default();
    let routing = lookup.get("routing").map(|routing| ("routing", text_of(routing)));
    let parameters = ElasticParameters::given(routing);
    let Some(document) = single::document(service, &parameters, &text("index"), &text("id"))? else {
        return Ok(Vec::new());
    };
    let values: Vec<Value> = all_at(&document, &text("path")).into_iter().cloned().collect();
    match values.len() > CLAUSES_MAX {
        true => Err(Error::IllegalArgument(format!(
            "The number of terms [{}] used in the Terms Query request has exceeded the allowed maximum of [{CLAUSES_MAX}]",
            values.len()
        ))),
        false => Ok(values),
    }
}
