//! `retriever` of a search: another form of its query, of `knn`, and of `rank`.

use serde_json::{Map, Value, json};

use crate::Error;

/// Members of a search that are those of its retriever, if it has one.
const OF_RETRIEVER: [&str; 8] =
    ["query", "knn", "rank", "sort", "search_after", "min_score", "terminate_after", "collapse"];

/// Replaces the retriever in the body of a search by the members that mean what it says.
///
/// # Errors
/// It is malformed, of a kind that is not supported, or stands beside such a member.
pub(crate) fn resolve(body: &mut Map<String, Value>) -> Result<(), Error> {
    let Some(retriever) = body.remove("retriever") else { return Ok(()) };
    if let Some(other) = OF_RETRIEVER.iter().find(|name| body.contains_key(**name)) {
        return Err(Error::Validation(vec![format!("cannot specify [retriever] and [{other}]")]));
    }
    let (kind, members) = parts_of(&retriever)?;
    match kind {
        "standard" => {
            check(kind, members, &["query", "filter", "sort", "search_after", "min_score", "collapse"])?;
            let others = members.iter().filter(|(name, _)| !["query", "filter"].contains(&name.as_str()));
            body.extend(others.map(|(name, value)| (name.clone(), value.clone())));
            body.insert("query".to_owned(), filtered(members, None));
        }
        "knn" => {
            body.insert("knn".to_owned(), Value::Object(members.clone()));
        }
        "rrf" => add_joined(members, body)?,
        other => return Err(unsupported(other)),
    }
    Ok(())
}

/// Adds the queries whose results are joined by their ranks.
fn add_joined(members: &Map<String, Value>, body: &mut Map<String, Value>) -> Result<(), Error> {
    check("rrf", members, &["retrievers", "filter", "rank_constant", "rank_window_size"])?;
    let Some(retrievers) = members.get("retrievers").and_then(Value::as_array) else {
        return Err(Error::Parsing("[retrievers] of [rrf] must be an array".to_owned()));
    };
    let filter = members.get("filter");
    let mut nearest = Vec::new();
    for retriever in retrievers {
        let (kind, own) = parts_of(retriever)?;
        match kind {
            "standard" if body.contains_key("query") => return Err(unsupported("a second standard")),
            "standard" => {
                check(kind, own, &["query", "filter"])?;
                body.insert("query".to_owned(), filtered(own, filter));
            }
            "knn" => {
                let mut own = own.clone();
                if filter.is_some() {
                    let both = clauses_of([own.get("filter"), filter]);
                    own.insert("filter".to_owned(), both);
                }
                nearest.push(Value::Object(own));
            }
            other => return Err(unsupported(other)),
        }
    }
    let of_ranks = members.iter().filter(|(name, _)| name.starts_with("rank_"));
    let of_ranks: Map<String, Value> = of_ranks.map(|(name, value)| (name.clone(), value.clone())).collect();
    body.insert("rank".to_owned(), json!({ "rrf": of_ranks }));
    if !nearest.is_empty() {
        body.insert("knn".to_owned(), Value::Array(nearest));
    }
    Ok(())
}

/// Kind of a retriever, and its members.
fn parts_of(retriever: &Value) -> Result<(&str, &Map<String, Value>), Error> {
    let single = retriever.as_object().filter(|kinds| kinds.len() == 1);
    let parts = single.and_then(|kinds| kinds.iter().next());
    match parts {
        Some((kind, Value::Object(members))) => Ok((kind.as_str(), members)),
        _ => Err(Error::Parsing("a retriever is an object of one kind, with its members".to_owned())),
    }
}

fn check(kind: &str, members: &Map<String, Value>, known: &[&str]) -> Result<(), Error> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(other) => Err(Error::unsupported(&format!("[{other}] of the retriever [{kind}]"))),
        None => Ok(()),
    }
}

fn unsupported(kind: &str) -> Error {
    Error::unsupported(&format!("the retriever [{kind}]"))
}

/// Query of a retriever with its filters, and another one.
fn filtered(members: &Map<String, Value>, filter: Option<&Value>) -> Value {
    let query = members.get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} }));
    match (members.get("filter"), filter) {
        (None, None) => query,
        (own, other) => json!({ "bool": { "must": [query], "filter": clauses_of([own, other]) } }),
    }
}

/// Filters as one list.
fn clauses_of(filters: [Option<&Value>; 2]) -> Value {
    let each = |filter: &Value| match filter {
        Value::Array(several) => several.clone(),
        single => vec![single.clone()],
    };
    Value::Array(filters.into_iter().flatten().flat_map(each).collect())
}
