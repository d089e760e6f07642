//! `millrace query`.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, StatusCode};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Map, Value, json};

use crate::answer::text;
use crate::cli::{NodeArguments, QueryArguments};
use crate::error::Error;
use crate::output::{CommandOutput, OutputStream};
use crate::parameter_names::{self, APPLICATION};

/// Beginning of a statement.
const SELECT: &str = "select ";

/// Media type of the results that are displayed.
const JSON: &str = "application/json";

/// Runs a query, and shows the answer. The exit status is 1 if the answer has errors, as far as its format is
/// text.
pub async fn run(
    node: &NodeArguments,
    arguments: &QueryArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let mut parameters = parameters_of(&arguments.parameters)?;
    let client = NodeClient::new(&arguments.within.url(node), HttpProtocol::Http1)?
        .with_timeout(arguments.node_timeout.timeout);
    parameter_names::check(&client, &parameters).await?;
    if !output.is_json() {
        show_document_ids(&client, &mut parameters).await?;
    }
    let body = json!(parameters).to_string();
    let request = OutgoingRequest::new(Method::POST, "/search/").body("application/json", body);
    let started = Instant::now();
    let mut received = None;
    let take = |headers: &HeaderMap, piece: &[u8]| {
        received.get_or_insert_with(|| ReceivedAnswer::of_headers(headers)).take(piece);
    };
    client.stream_with_headers(request, take).await?;
    let elapsed = started.elapsed();
    let failed = match received {
        Some(ReceivedAnswer::PassedOn(_, errors)) => errors.is_found,
        Some(ReceivedAnswer::Json(body)) => {
            let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            output.print(|| format!("{}\nin {:.1} ms", text(&answer), elapsed.as_secs_f64() * 1e3), &answer);
            answer.pointer("/root/errors").is_some()
        }
        None => false,
    };
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// An answer in the format that the request or its query profile chose.
enum ReceivedAnswer {
    /// JSON, which is displayed.
    Json(Vec<u8>),
    /// Any other format, which is for another program and is passed through unchanged.
    PassedOn(OutputStream, ErrorMark),
}

impl ReceivedAnswer {
    fn of_headers(headers: &HeaderMap) -> Self {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(JSON);
        match media.split(';').next().unwrap_or(media).trim() {
            JSON => ReceivedAnswer::Json(Vec::new()),
            other => ReceivedAnswer::PassedOn(OutputStream::open(), ErrorMark::of_media(other)),
        }
    }

    fn take(&mut self, piece: &[u8]) {
        match self {
            ReceivedAnswer::Json(body) => body.extend_from_slice(piece),
            ReceivedAnswer::PassedOn(output, errors) => {
                errors.read(piece);
                output.write(piece);
            }
        }
    }
}

/// Search for an error in an answer that is passed on in pieces.
struct ErrorMark {
    /// Bytes that only errors have; empty for formats that are not text.
    mark: &'static [u8],
    /// The last bytes, in which a mark may begin.
    tail: Vec<u8>,
    is_found: bool,
}

impl ErrorMark {
    fn of_media(media: &str) -> Self {
        let mark = match media {
            "text/event-stream" => b"event: error\n".as_slice(),
            "text/xml" => b"<errordetails>".as_slice(),
            _ => b"".as_slice(),
        };
        ErrorMark { mark, tail: Vec::new(), is_found: false }
    }

    fn read(&mut self, piece: &[u8]) {
        if self.mark.is_empty() || self.is_found {
            return;
        }
        self.tail.extend_from_slice(piece);
        self.is_found = self.tail.windows(self.mark.len()).any(|bytes| bytes == self.mark);
        let read = self.tail.len().saturating_sub(self.mark.len() - 1);
        self.tail.drain(..read);
    }
}

/// Parameters of a query. Words that are neither NAME=VALUE nor YQL are what a user would type into a search
/// box: the parameter `query`.
fn parameters_of(arguments: &[String]) -> Result<Map<String, Value>, Error> {
    let mut parameters = Map::new();
    let (named_ones, words): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|argument| named(argument).is_ok());
    for argument in named_ones {
        let (name, value) = named(argument)?;
        parameters.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    if words.is_empty() {
        return Ok(parameters);
    }
    let words = words.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    if let Some(other) = ["query", "yql"].into_iter().find(|name| parameters.contains_key(*name)) {
        return Err(Error::Argument(format!(
            "'{words}' are words to search for beside the parameter {other}: write one of them, or NAME=VALUE"
        )));
    }
    parameters.insert("query".to_owned(), Value::String(words));
    Ok(parameters)
}

/// Asks for the ids by which the other commands know documents, also if the statement lists fields, or the
/// document summary has others: the answers for people show them instead of ids of the index.
async fn show_document_ids(client: &NodeClient, parameters: &mut Map<String, Value>) -> Result<(), Error> {
    let mut lists_fields = false;
    if let Some(Value::String(yql)) = parameters.get_mut("yql") {
        lists_fields = listed_fields(yql).is_some_and(|fields| !fields.contains('*'));
        *yql = with_document_ids(yql);
    }
    let of = |names: [&str; 2]| {
        let is_named = |name: &&String| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        parameters.keys().find(is_named).cloned()
    };
    let (summary, fields) =
        (of(["presentation.summary", "summary"]), of(["presentation.summaryFields", "summaryFields"]));
    if let Some(Value::String(fields)) = fields.and_then(|name| parameters.get_mut(&name)) {
        fields.push_str(",documentid");
        return Ok(());
    }
    let summary = summary.and_then(|name| parameters[&name].as_str().map(str::to_owned));
    let Some(summary) = summary.filter(|summary| !lists_fields && summary != "default") else {
        return Ok(());
    };
    let answer = client.send(OutgoingRequest::new(Method::GET, APPLICATION)).await?;
    if answer.status != StatusCode::OK {
        return Ok(());
    }
    let mut fields = summary_fields(&answer.json(), &summary);
    // The server tells of a summary that is not there.
    if !fields.is_empty() {
        fields.insert("documentid".to_owned());
        let names = fields.into_iter().collect::<Vec<_>>().join(",");
        parameters.insert("presentation.summaryFields".to_owned(), Value::String(names));
    }
    Ok(())
}

/// Fields of a document summary, over the schemas that have it.
fn summary_fields(application: &Value, summary: &str) -> BTreeSet<String> {
    let schemas = application["schemas"].as_object().into_iter().flatten();
    let fields = schemas.filter_map(|(_, schema)| schema["documentSummaries"][summary]["fields"].as_object());
    fields.flatten().map(|(name, _)| name.clone()).collect()
}

/// A statement whose hits have ids of documents, also if it lists fields.
fn with_document_ids(yql: &str) -> String {
    let lacks_ids = |fields: &str| {
        let mut names = fields.split(',').map(str::trim);
        !names.any(|name| matches!(name, "*" | "documentid"))
    };
    match listed_fields(yql) {
        Some(fields) if lacks_ids(fields) => {
            let (select, rest) = yql.trim_start().split_at(SELECT.len());
            format!("{select}documentid, {rest}")
        }
        _ => yql.to_owned(),
    }
}

/// Fields that a statement lists, or `*`; `None` if it is another statement.
fn listed_fields(yql: &str) -> Option<&str> {
    let (select, rest) = yql.trim_start().split_at_checked(SELECT.len())?;
    let (fields, _) = rest.split_once(" from ")?;
    (select.eq_ignore_ascii_case(SELECT) && !fields.is_empty()).then_some(fields)
}

/// Splits a parameter of the command line into name and value.
pub fn named(parameter: &str) -> Result<(&str, &str), Error> {
    let yql = parameter.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("select "));
    match parameter.split_once('=') {
        _ if yql => Ok(("yql", parameter)),
        Some((name, value)) => Ok((name, value)),
        None => Err(Error::Argument(format!(
            "'{parameter}' is not a parameter: write NAME=VALUE, or a query that begins with 'select'"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        assert_eq!(named("hits=3").expect("a parameter"), ("hits", "3"));
        assert_eq!(named("SELECT * from a where b = 1").expect("YQL").0, "yql");
        assert!(named("hits").is_err());
    }

    #[test]
    fn errors_are_found_in_pieces() {
        let events = "event: token\ndata: {\"token\":\"event: error\"}\n\n";
        let xml = "<result><hit>&lt;errordetails&gt;</hit></result>";
        for (media, text, expected) in [
            ("text/event-stream", events.to_owned(), false),
            ("text/event-stream", format!("{events}event: error\ndata: {{}}\n\n"), true),
            ("text/xml", xml.to_owned(), false),
            ("text/xml", format!("<errordetails><error/></errordetails>{xml}"), true),
            ("application/cbor", "<errordetails>".to_owned(), false),
        ] {
            for size in [1, 5, 1000] {
                let mut errors = ErrorMark::of_media(media);
                text.as_bytes().chunks(size).for_each(|piece| errors.read(piece));
                assert_eq!(errors.is_found, expected, "{media} {size} {text}");
            }
        }
    }

    #[test]
    fn hits_have_ids_of_documents() {
        for (yql, expected) in [
            ("select a, b from c where true", "select documentid, a, b from c where true"),
            ("SELECT a from c where true", "SELECT documentid, a from c where true"),
            ("select * from c where true", "select * from c where true"),
            ("select documentid from c where true", "select documentid from c where true"),
            ("sel", "sel"),
        ] {
            assert_eq!(with_document_ids(yql), expected);
        }
    }

    #[test]
    fn fields_of_a_summary() {
        let summary = |fields: Value| json!({ "documentSummaries": { "line": { "fields": fields } } });
        let application = json!({ "schemas": {
            "mail": summary(json!({ "subject": {}, "sent": {} })),
            "file": summary(json!({ "name": {} })),
            "note": { "documentSummaries": {} },
        } });
        let names = |name| summary_fields(&application, name).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names("line"), "name sent subject");
        assert_eq!(names("long"), "");
    }

    #[test]
    fn words_are_what_is_searched_for() {
        let parameters = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            parameters_of(&arguments).map(|parameters| json!(parameters).to_string())
        };
        assert_eq!(
            parameters(&["budget", "hits=3", "plan"]).ok(),
            Some(r#"{"hits":"3","query":"budget plan"}"#.into())
        );
        assert_eq!(parameters(&["budget plan"]).ok(), Some(r#"{"query":"budget plan"}"#.into()));
        for beside in ["query=a", "select * from a where true"] {
            let refused = parameters(&["budget", beside]).expect_err("two queries").to_string();
            assert!(refused.contains("'budget'"), "{refused}");
        }
    }
}
