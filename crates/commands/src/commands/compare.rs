//! `millrace compare`.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::ExitCode;

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Map, Value, json};

use crate::cli::{CompareArguments, NodeArguments};
use crate::commands::query::named;
use crate::error::Error;
use crate::input::CommandInput;
use crate::output::{CommandOutput, counted};

/// Differences of one query between two servers.
#[derive(Debug, PartialEq, Default)]
struct QueryDifference {
    /// Numbers of matching documents, if they differ.
    counts: Option<(u64, u64)>,
    /// The first place, from 1, where the hits differ, with the ids there.
    order: Option<(usize, String, String)>,
    /// Errors in one of the answers.
    errors: Vec<String>,
}

/// Sends the same queries to two servers, and shows where counts or order differ. The exit status is 1 if
/// they do.
pub async fn run(
    node: &NodeArguments,
    arguments: &CompareArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let client = |url: &str| -> Result<NodeClient, Error> {
        Ok(NodeClient::new(url, HttpProtocol::Http1)?.with_timeout(arguments.node_timeout.timeout))
    };
    let (own, other) = (client(&node.url)?, client(&arguments.with)?);
    let mut common = Map::new();
    for parameter in &arguments.parameters {
        let (name, value) = named(parameter)?;
        common.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    let input = CommandInput::open(&arguments.queries)?;
    let (mut queries, mut different) = (0_u64, Vec::new());
    for line in BufReader::new(input.stream).lines() {
        let line = line.map_err(|source| Error::File { path: arguments.queries.clone(), source })?;
        if line.trim().is_empty() {
            continue;
        }
        queries += 1;
        let parameters = parameters(&line, &common)?;
        let found = difference(&answer(&own, &parameters).await?, &answer(&other, &parameters).await?);
        if found != QueryDifference::default() {
            different.push((line, found));
        }
    }
    let lines: Vec<Value> = different.iter().map(|(line, found)| found.as_json(line)).collect();
    let value = json!({ "queries": queries, "different": lines });
    output.print(|| shown(queries, &different), &value);
    Ok(if different.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parameters of a line: a JSON object, `NAME=VALUE`, or YQL; with those of the command line.
fn parameters(line: &str, common: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut all = common.clone();
    if line.trim_start().starts_with('{') {
        let own: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| Error::Argument(format!("'{line}' is not a JSON object: {error}")))?;
        all.extend(own);
        return Ok(all);
    }
    let (name, value) = named(line.trim())?;
    all.insert(name.to_owned(), Value::String(value.to_owned()));
    Ok(all)
}

async fn answer(client: &NodeClient, parameters: &Map<String, Value>) -> Result<Value, Error> {
    let body = Value::Object(parameters.clone()).to_string();
    let request = OutgoingRequest::new(Method::POST, "/search/").body("application/json", body);
    // An answer with an error status is compared like any other.
    Ok(client.send(request).await?.json())
}

fn difference(own: &Value, other: &Value) -> QueryDifference {
    let count =
        |answer: &Value| answer.pointer("/root/fields/totalCount").and_then(Value::as_u64).unwrap_or(0);
    let counts = (count(own), count(other));
    let (own_ids, other_ids) = (ids(own), ids(other));
    let at = (0..own_ids.len().max(other_ids.len())).find(|&at| own_ids.get(at) != other_ids.get(at));
    let id = |ids: &[String], at: usize| ids.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
    QueryDifference {
        counts: (counts.0 != counts.1).then_some(counts),
        order: at.map(|at| (at + 1, id(&own_ids, at), id(&other_ids, at))),
        errors: [("here", own), ("there", other)]
            .into_iter()
            .filter_map(|(side, answer)| Some(format!("{side}: {}", answer.pointer("/root/errors")?)))
            .collect(),
    }
}

/// Ids of the documents found, in order.
fn ids(answer: &Value) -> Vec<String> {
    let hits = answer.pointer("/root/children").and_then(Value::as_array).into_iter().flatten();
    let id = |hit: &Value| {
        let id = hit.pointer("/fields/documentid").or_else(|| hit.get("id"))?.as_str()?;
        (!id.starts_with("group:")).then(|| id.to_owned())
    };
    hits.filter_map(id).collect()
}

impl QueryDifference {
    fn as_json(&self, query: &str) -> Value {
        json!({
            "query": query,
            "counts": self.counts.map(|(own, other)| [own, other]),
            "order": self.order.as_ref().map(|(at, own, other)| json!({ "at": at, "here": own, "there": other })),
            "errors": self.errors,
        })
    }
}

fn shown(queries: u64, different: &[(String, QueryDifference)]) -> String {
    let mut text = format!("{} of {queries} queries differ\n", different.len());
    for (query, found) in different {
        let _ = writeln!(text, "\n{query}");
        if let Some((own, other)) = found.counts {
            let _ = writeln!(
                text,
                "  {} here, {other} there",
                counted(own, "document matches", "documents match")
            );
        }
        if let Some((at, own, other)) = &found.order {
            let _ = writeln!(text, "  hit {at} is {own} here, {other} there");
        }
        for error in &found.errors {
            let _ = writeln!(text, "  error {error}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(count: u64, ids: &[&str]) -> Value {
        let hit = |id: &&str| json!({ "id": id, "fields": { "documentid": id } });
        json!({ "root": { "fields": { "totalCount": count }, "children": ids.iter().map(hit).collect::<Vec<_>>() } })
    }

    #[test]
    fn counts_order_and_errors_are_compared() {
        let own = result(3, &["a", "b", "c"]);
        assert_eq!(difference(&own, &own), QueryDifference::default());
        let other = difference(&own, &result(2, &["a", "c"]));
        assert_eq!(other.counts, Some((3, 2)));
        assert_eq!(other.order, Some((2, "b".to_owned(), "c".to_owned())));
        let shorter = difference(&own, &result(3, &["a", "b"]));
        assert_eq!(shorter.order, Some((3, "c".to_owned(), "nothing".to_owned())));
        let failed = difference(&own, &json!({ "root": { "errors": [{ "message": "x" }] } }));
        assert_eq!(failed.errors, ["there: [{\"message\":\"x\"}]"]);
    }

    #[test]
    fn lines_are_json_yql_or_a_parameter() {
        let common = Map::from_iter([("hits".to_owned(), json!("3"))]);
        let read = |line: &str| Value::Object(parameters(line, &common).expect("a query"));
        assert_eq!(read("{\"yql\": \"y\", \"hits\": 5}"), json!({ "yql": "y", "hits": 5 }));
        assert_eq!(
            read("select * from a where true"),
            json!({ "yql": "select * from a where true", "hits": "3" })
        );
        assert_eq!(read("query=a b"), json!({ "query": "a b", "hits": "3" }));
        assert!(parameters("[1]", &common).is_err());
    }
}
