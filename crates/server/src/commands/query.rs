//! `millrace query`.

use std::process::ExitCode;
use std::time::Instant;

use hyper::Method;
use millrace_client::{Client, Protocol, Request};
use serde_json::{Map, Value, json};

use crate::cli::{NodeArguments, Query};
use crate::error::Error;
use crate::output::{Output, print_all};

/// Results in these forms are shown; in any other one they are for somebody else, and go on as they come.
const SHOWN: [&str; 2] = ["json", "default"];

/// Asks, and shows the answer. The exit status is 1 when the answer has errors.
pub async fn run(node: &NodeArguments, arguments: &Query, output: &Output) -> Result<ExitCode, Error> {
    let mut parameters = Map::new();
    for parameter in &arguments.parameters {
        let (name, value) = named(parameter)?;
        parameters.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    let client = Client::new(&node.url, Protocol::Http1)?.patient(arguments.patience.timeout);
    let body = json!(parameters).to_string();
    let request = Request::new(Method::POST, "/search/").body("application/json", body);
    let form = parameters.get("format").or_else(|| parameters.get("presentation.format"));
    if form.and_then(Value::as_str).is_some_and(|form| !SHOWN.contains(&form)) {
        client.stream(request, print_all).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let started = Instant::now();
    let answer = client.send(request).await?;
    let elapsed = started.elapsed();
    let answer = answer.checked()?.json();
    output.print(|| format!("{}\nin {:.1} ms", text(&answer), elapsed.as_secs_f64() * 1e3), &answer);
    let failed = answer.pointer("/root/errors").is_some();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn named(parameter: &str) -> Result<(&str, &str), Error> {
    let yql = parameter.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("select "));
    match parameter.split_once('=') {
        _ if yql => Ok(("yql", parameter)),
        Some((name, value)) => Ok((name, value)),
        None => Err(Error::Argument(format!(
            "'{parameter}' is not a parameter: write NAME=VALUE, or a query that begins with 'select'"
        ))),
    }
}

/// An answer, for people.
pub fn text(answer: &Value) -> String {
    let root = &answer["root"];
    let mut lines = Vec::new();
    for error in root["errors"].as_array().into_iter().flatten() {
        lines.push(format!("error: {}", error["message"].as_str().unwrap_or("unknown")));
    }
    if root["id"] == "token_stream" {
        lines.push(said(root));
        return lines.join("\n");
    }
    let mut number = 0;
    for child in root["children"].as_array().into_iter().flatten() {
        if child.get("fields").is_some() && child.get("children").is_none() {
            number += 1;
            hit(number, child, &mut lines);
        } else {
            group(child, 0, &mut lines);
        }
    }
    lines.push(match root["fields"]["totalCount"].as_u64() {
        Some(0) if root["coverage"]["documents"] == 0 => {
            "0 documents match: there are none to search; is the group written as in the ids?".to_owned()
        }
        Some(1) => "1 document matches".to_owned(),
        count => format!("{} documents match", count.unwrap_or(0)),
    });
    lines.join("\n")
}

/// What a language model has said: each piece of it is a hit of its own.
fn said(root: &Value) -> String {
    let streams = root["children"].as_array().into_iter().flatten();
    let events = streams.flat_map(|stream| stream["children"].as_array().into_iter().flatten());
    let pieces =
        events.filter_map(|event| event["fields"].get("token").or(event["fields"].get("completion")));
    pieces.filter_map(Value::as_str).collect()
}

fn hit(number: usize, hit: &Value, lines: &mut Vec<String>) {
    lines.push(format!("{number:>3}. {}  ({})", shown(&hit["id"]), shown(&hit["relevance"])));
    for (name, value) in hit["fields"].as_object().into_iter().flatten() {
        if matches!(name.as_str(), "sddocname" | "documentid") {
            continue;
        }
        lines.push(format!("     {name}: {}", shortened(&shown(value))));
    }
}

fn group(value: &Value, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let fields: Vec<String> = value["fields"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name} {}", shown(value)))
        .collect();
    let name = value.get("value").or_else(|| value.get("label")).map_or(String::new(), shown);
    if !name.is_empty() {
        lines.push(format!("{indent}{name}  {}", fields.join(", ")).trim_end().to_owned());
    }
    for child in value["children"].as_array().into_iter().flatten() {
        group(child, depth + usize::from(!name.is_empty()), lines);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Text on one line, not too long, with what was found in it between stars.
fn shortened(text: &str) -> String {
    let text = text.replace("<hi>", "*").replace("</hi>", "*").replace("<sep />", " … ");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_for_people() {
        let answer = json!({ "root": { "fields": { "totalCount": 2 }, "children": [
            { "id": "group:root:0", "children": [
                { "id": "grouplist:from", "label": "from", "children": [
                    { "id": "group:string:ann", "value": "ann", "fields": { "count()": 2 } } ] } ] },
            { "id": "id:m:m::1", "relevance": 0.5, "fields": { "sddocname": "m", "subject": "a <hi>b</hi>" } },
        ]}});
        assert_eq!(
            text(&answer),
            "from\n  ann  count() 2\n  1. id:m:m::1  (0.5)\n     subject: a *b*\n2 documents match"
        );
    }

    #[test]
    fn a_group_without_documents() {
        let answer = |documents: u64| {
            text(
                &json!({ "root": { "fields": { "totalCount": 0 }, "coverage": { "documents": documents } } }),
            )
        };
        assert_eq!(answer(3), "0 documents match");
        assert!(answer(0).contains("is the group written as in the ids?"), "{}", answer(0));
    }

    #[test]
    fn answers_of_language_models() {
        let event =
            |field: &str, text: &str| json!({ "id": "1", "relevance": 1.0, "fields": { field: text } });
        let answer = |events: Value| {
            json!({ "root": { "id": "token_stream", "fields": { "totalCount": 0 }, "children": [
                { "id": "event_stream", "children": events } ] } })
        };
        assert_eq!(
            text(&answer(json!([event("token", "At"), event("token", " nine.\n\nBye.")]))),
            "At nine.\n\nBye."
        );
        assert_eq!(text(&answer(json!([event("completion", "At nine.")]))), "At nine.");
    }

    #[test]
    fn parameters() {
        assert_eq!(named("hits=3").expect("a parameter"), ("hits", "3"));
        assert_eq!(named("SELECT * from a where b = 1").expect("YQL").0, "yql");
        assert!(named("hits").is_err());
    }
}
