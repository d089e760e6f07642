//! The slow-query log: a line for each query over the bound, by default without anything that was typed.

use std::path::Path;

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::{TestServer, poll};

const YQL: &str = "select * from note where title contains 'sesame' and stars > 4711 limit 3";

/// A server with these settings, and the file of its log.
fn start(directory: &Path, more: &[(&str, &str)]) -> TestServer {
    let log = directory.join("slow.log");
    let log = [("MILLRACE_SLOW_QUERY_LOG", log.to_str().expect("a path of text"))];
    let server = TestServer::start_with(&[&log, more].concat()).deploy_notes();
    server.put("/document/v1/n/note/group/alibaba/1", r#"{"title":"open sesame","stars":5000}"#);
    server
}

/// Lines of the log, once there are `count`.
fn lines(directory: &Path, count: usize) -> Vec<Value> {
    let read = || std::fs::read_to_string(directory.join("slow.log")).unwrap_or_default();
    poll("the lines are written", || read().lines().count() >= count);
    read().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_line_has_the_shape_of_a_slow_query_and_its_figures() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut server = start(directory.path(), &[("MILLRACE_SLOW_QUERY_MS", "0")]);
    let request = OutgoingRequest::new(Method::GET, "/search/")
        .parameter("yql", YQL)
        .parameter("streaming.groupname", "alibaba")
        .parameter("timeout", "3s")
        .header(
            HeaderName::from_static("traceparent"),
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        );
    assert_eq!(server.send(&server.url(), HttpProtocol::Http1, request).status, 200);
    let everywhere = [("yql", "select * from note where true"), ("streaming.selection", "true")];
    assert_eq!(server.query(&everywhere).0, 200);
    assert_eq!(server.query(&[("yql", "select sesame 4711")]).0, 400);
    // Only queries are in it.
    assert_eq!(server.get("/document/v1/n/note/group/alibaba/1").0, 200);
    server.terminate();
    let lines = lines(directory.path(), 3);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let line = &lines[0];
    for (name, expected) in [
        ("code", json!(200)),
        ("user-principal", json!("anonymous")),
        ("trace-id", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("groups", json!(1)),
        ("sources", json!(["note"])),
        ("shape", json!("AND(title:? stars:>?)")),
        ("hits", json!(3)),
        ("offset", json!(0)),
        ("grouping", json!(0)),
        ("timeout", json!(3.0)),
        ("ranking", Value::Null),
        ("parameters", Value::Null),
    ] {
        assert_eq!(line[name], expected, "{name}: {line}");
    }
    assert_eq!(line["search"]["totalhits"], 1, "{line}");
    assert_eq!(line["search"]["coverage"]["coverage"], 100, "{line}");
    for phase in ["plan", "match", "fill"] {
        assert!(line["phases"][phase].is_f64(), "{phase}: {line}");
    }
    assert!(line["duration"].is_f64() && line["time"].as_f64() > Some(1.7e9), "{line}");
    assert_eq!(lines[1]["groups"], "all", "{}", lines[1]);
    assert_eq!((&lines[2]["code"], &lines[2]["shape"]), (&json!(400), &Value::Null), "{}", lines[2]);
    let text = format!("{lines:?}");
    assert!(!text.contains("sesame") && !text.contains("4711") && !text.contains("alibaba"), "{text}");
}

#[test]
fn texts_are_in_a_line_where_that_is_wanted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let more = [("MILLRACE_SLOW_QUERY_MS", "0"), ("MILLRACE_SLOW_QUERY_LOG_QUERIES", "true")];
    let server = start(directory.path(), &more);
    let long = "x".repeat(5_000);
    let parameters = [("yql", YQL), ("streaming.groupname", "alibaba"), ("note.to.self", long.as_str())];
    assert_eq!(server.query(&parameters).0, 200);
    let line = lines(directory.path(), 1).remove(0);
    assert_eq!(line["parameters"]["yql"], YQL);
    assert_eq!(line["parameters"]["streaming.groupname"], "alibaba");
    let shown = line["parameters"]["note.to.self"].as_str().expect("a text");
    assert_eq!(shown.chars().count(), 2_001, "{shown}");
}

#[test]
fn fast_queries_are_not_logged() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut server = start(directory.path(), &[("MILLRACE_SLOW_QUERY_MS", "3600000")]);
    assert_eq!(server.query(&[("yql", YQL), ("streaming.groupname", "alibaba")]).0, 200);
    server.terminate();
    let log = std::fs::read_to_string(directory.path().join("slow.log"));
    assert_eq!(log.expect("the file is made at the start"), "");
}
