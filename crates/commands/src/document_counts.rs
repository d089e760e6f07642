//! Exact numbers of documents, by type.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use indicatif::HumanCount;
use millrace_client::{NodeClient, OutgoingRequest};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::noun;

/// Time limit of a count: beyond it, the approximate number of the metrics serves.
const TIMEOUT: &str = "10s";

/// Counts the documents of each schema that the node, or its cluster, has. `None` if the caller may not read
/// all groups, or not all documents can be counted in time.
///
/// # Errors
/// The node does not answer.
pub async fn count_documents(client: &NodeClient) -> Result<Option<BTreeMap<String, u64>>, Error> {
    let view = client.send(OutgoingRequest::new(Method::GET, "/page/application")).await?;
    if view.status != StatusCode::OK {
        return Ok(None);
    }
    let mut counts = BTreeMap::new();
    for schema in view.json()["schemas"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let parameters = json!({
            "yql": "select * from sources * where true", "model.restrict": schema, "hits": 0,
            "streaming.selection": "true", "ranking.profile": "unranked", "timeout": TIMEOUT,
        });
        let request = OutgoingRequest::new(Method::POST, "/search/");
        let answer = client.send(request.body("application/json", parameters.to_string())).await?.json();
        let root = &answer["root"];
        let is_exact = root["coverage"]["full"] == json!(true) && root.get("errors").is_none();
        let Some(count) = root.pointer("/fields/totalCount").and_then(Value::as_u64).filter(|_| is_exact)
        else {
            return Ok(None);
        };
        counts.insert(schema.clone(), count);
    }
    Ok(Some(counts))
}

/// Formats counts, as in `12 documents: 10 mail, 2 note`.
pub fn documents_text(counts: &BTreeMap<String, u64>) -> String {
    let all: u64 = counts.values().sum();
    let of_types = counts.iter().map(|(name, count)| format!("{} {name}", HumanCount(*count)));
    let of_types = of_types.collect::<Vec<_>>().join(", ");
    let colon = if of_types.is_empty() { "" } else { ": " };
    format!("{} {}{colon}{of_types}", HumanCount(all), noun(all, "document", "documents"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_type() {
        let counts = |pairs: &[(&str, u64)]| {
            documents_text(&pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
        };
        assert_eq!(counts(&[]), "0 documents");
        assert_eq!(counts(&[("note", 1)]), "1 document: 1 note");
        assert_eq!(counts(&[("note", 2), ("mail", 12_000)]), "12,002 documents: 12,000 mail, 2 note");
    }
}
