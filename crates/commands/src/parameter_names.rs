//! Check of the names of query parameters, before a query is sent.
//!
//! Over HTTP an unknown parameter is ignored, as in Vespa: proxies add their own. On the command line it is a
//! slip, which changes what is found without a trace.

use std::collections::BTreeSet;

use hyper::{Method, StatusCode};
use millrace_client::{NodeClient, OutgoingRequest};
use millrace_linguistics::did_you_mean;
use millrace_query::{is_read_parameter, parameter_names};
use serde_json::{Map, Value};

use crate::error::Error;

/// Path of the description of the application.
pub const APPLICATION: &str = "/page/application";

/// Checks that each parameter is one of the query API, of the application of the node, or is referred to by
/// the query. A node that does not describe its application is asked everything.
///
/// # Errors
/// A parameter is none of these, or the node does not answer.
pub async fn check(client: &NodeClient, parameters: &Map<String, Value>) -> Result<(), Error> {
    let unknown: Vec<&str> = parameters
        .keys()
        .map(String::as_str)
        .filter(|name| !is_read_parameter(name) && !is_referred_to(name, parameters))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let answer = client.send(OutgoingRequest::new(Method::GET, APPLICATION)).await?;
    if answer.status != StatusCode::OK {
        return Ok(());
    }
    let view = answer.json();
    let names = view["queryParameters"].as_array();
    let own: BTreeSet<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    match unknown.into_iter().find(|name| !is_of_application(name, &own)) {
        Some(name) => Err(Error::Argument(refusal(name, &own))),
        None => Ok(()),
    }
}

/// True if a value refers to this parameter, as in `userInput(@name)`.
fn is_referred_to(name: &str, parameters: &Map<String, Value>) -> bool {
    let texts = parameters.values().filter_map(Value::as_str);
    let mut rests = texts.flat_map(|text| text.split('@').skip(1)).filter_map(|rest| rest.strip_prefix(name));
    rests.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

/// True for the names that the application reads, and for those below them.
fn is_of_application(name: &str, own: &BTreeSet<&str>) -> bool {
    let is_own = |name: &str| own.contains(name) || own.contains(name.to_lowercase().as_str());
    is_own(name) || name.match_indices('.').any(|(end, _)| is_own(&name[..end]))
}

fn refusal(name: &str, own: &BTreeSet<&str>) -> String {
    let own: Vec<String> = own.iter().map(ToString::to_string).collect();
    let built_in = parameter_names().chain(["yql"]).map(str::to_owned);
    let known: Vec<String> = own.into_iter().chain(built_in).collect();
    let hint = did_you_mean(name, known.iter().map(String::as_str));
    format!(
        "'{name}' is not a parameter of queries{hint}: nothing reads it. Write one of the query API, one that a query \
         profile of the application reads, or refer to it in the query, as in userInput(@{name})"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_parameter_is_referred_to_by_its_whole_name() {
        let parameters =
            json!({ "yql": "select * from a where userInput(@text) and b in (@ids)", "text": "x" });
        let parameters = parameters.as_object().expect("an object");
        for (name, expected) in [("text", true), ("ids", true), ("tex", false), ("userInput", false)] {
            assert_eq!(is_referred_to(name, parameters), expected, "{name}");
        }
    }

    #[test]
    fn names_below_those_of_the_application_are_known() {
        let own = BTreeSet::from(["user", "rag"]);
        for (name, expected) in [("user.age", true), ("RAG", true), ("users", false), ("age.user", false)] {
            assert_eq!(is_of_application(name, &own), expected, "{name}");
        }
        assert!(
            refusal("hit", &own).starts_with("'hit' is not a parameter of queries (did you mean 'hits'?)")
        );
    }
}
