//! Every invalid request gets an answer that names the problem.

use hyper::Method;
use serde_json::Value;

use crate::support::{NOTE, SERVICES, TestServer};

#[test]
fn documents_that_cannot_be() {
    let server = TestServer::with_notes();
    let check = |method: Method, path: &str, body: &str, expected: u16, words: &str| {
        let (status, answer) = server.call(method, path, body);
        let message = answer["message"].as_str().unwrap_or("");
        assert!(status == expected && message.contains(words), "{path} {body}: {status} {answer}");
        assert!(answer["pathId"].is_string(), "{answer}");
    };
    let path = "/document/v1/n/note/docid/1";
    check(Method::POST, path, "{", 400, "");
    check(Method::POST, path, r#"{"fields":{"stars":"many"}}"#, 400, "stars");
    check(Method::POST, path, r#"{"fields":{"start":1}}"#, 400, "start");
    check(Method::PUT, path, r#"{"fields":{"stars":{"multipli":1}}}"#, 400, "multipli");
    check(Method::POST, "/document/v1/n/not/docid/1", "{}", 400, "not");
    check(Method::POST, &format!("{path}?condition=note.stars%3E"), r#"{"fields":{}}"#, 400, "condition");
    check(Method::GET, "/document/v1/n/note/what/1", "", 404, "docid");
    check(Method::PATCH, path, "", 405, "PATCH");
    check(Method::GET, "/document/v1/", "", 400, "cluster");
    check(Method::GET, "/document/v1/?cluster=*", "", 400, "no content cluster '*', only 'notes'");
    check(Method::GET, "/document/v1/?cluster=notes&selection=note.x", "", 400, "x");
    check(Method::GET, "/document/v1/?cluster=notes&continuation=zzz", "", 400, "continuation");
    check(Method::GET, "/document/v1/?cluster=notes&slices=2", "", 400, "sliceId");
    check(Method::GET, &format!("{path}?timeout=soon"), "", 400, "timeout");
}

#[test]
fn queries_that_cannot_be() {
    let server = TestServer::with_notes();
    let check = |parameters: &[(&str, &str)], words: &str| {
        let (status, answer) = server.query(parameters);
        let message = answer.pointer("/root/errors/0/message").and_then(Value::as_str).unwrap_or("");
        assert!(status == 400 && message.contains(words), "{parameters:?}: {status} {answer}");
    };
    let group = ("streaming.groupname", "ann");
    check(&[("yql", "select * from note where"), group], "");
    check(&[("yql", "select * from note where titel contains 'x'"), group], "title");
    check(&[("yql", "select * from nope where true"), group], "nope");
    check(&[("yql", "select * from note where true")], "streaming.groupname");
    check(&[("yql", "select * from note where true"), group, ("ranking", "best")], "best");
}

#[test]
fn without_an_application_everything_says_to_deploy() {
    let server = TestServer::start();
    for path in ["/document/v1/n/note/docid/1", "/search/?yql=select", "/state/v1/health", "/status.html"] {
        let request = millrace_client::OutgoingRequest::new(Method::GET, path);
        let answer = server.send(&server.url(), millrace_client::HttpProtocol::Http1, request);
        assert_eq!(answer.status, 503, "{path}");
        assert!(String::from_utf8_lossy(&answer.body).contains("deploy"), "{path}");
    }
}

#[test]
fn a_package_that_cannot_work_changes_nothing() {
    let server = TestServer::with_notes();
    let check = |schema: &str, words: &str| {
        let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", schema)]);
        assert_eq!(
            (status, &answer["error-code"]),
            (400, &Value::from("INVALID_APPLICATION_PACKAGE")),
            "{answer}"
        );
        assert!(answer["message"].as_str().is_some_and(|message| message.contains(words)), "{answer}");
    };
    check(&NOTE.replace("type int", "type integer"), "note.sd:4");
    check(&NOTE.replace("bm25(title)", "bm25(titel)"), "titel");
    check("schema note { document note { ", "note.sd");
    let (_, answer) = server.config(Method::GET, "/application/v2/tenant/default/application/default");
    assert_eq!(answer["generation"], Value::from(1), "the first deployment is still active");
    server.put("/document/v1/n/note/docid/1", r#"{"stars":1}"#);
}
