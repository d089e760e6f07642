//! Visiting returns every document once, in pages, slices and streams.

use std::collections::BTreeSet;

use hyper::Method;
use hyper::header::ACCEPT;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::TestServer;

fn server_with(count: usize) -> TestServer {
    let server = TestServer::with_notes();
    for number in 0..count {
        let group = ["ann", "bob"][number % 2];
        server
            .put(&format!("/document/v1/n/note/group/{group}/{number}"), &format!("{{\"stars\":{number}}}"));
    }
    server
}

/// All ids of a visit, page after page.
fn visit(server: &TestServer, path: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut page = path.to_owned();
    loop {
        let (status, answer) = server.get(&page);
        assert_eq!(status, 200, "{answer}");
        let documents = answer["documents"].as_array().expect("a list of documents");
        assert_eq!(answer["documentCount"], json!(documents.len()));
        ids.extend(documents.iter().map(|document| document["id"].as_str().expect("an id").to_owned()));
        match answer["continuation"].as_str() {
            Some(continuation) => page = format!("{path}&continuation={continuation}"),
            None => return ids,
        }
    }
}

#[test]
fn pages_make_up_the_whole() {
    let server = server_with(30);
    for wanted in [1, 7, 1000] {
        let ids = visit(&server, &format!("/document/v1/?cluster=notes&wantedDocumentCount={wanted}"));
        assert_eq!(ids.len(), 30, "in pages of {wanted}");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 30, "in pages of {wanted}");
    }
}

#[test]
fn slices_make_up_the_whole() {
    let server = server_with(30);
    let mut ids = BTreeSet::new();
    let mut count = 0;
    for slice in 0..3 {
        let part = visit(&server, &format!("/document/v1/n/note/docid?slices=3&sliceId={slice}"));
        count += part.len();
        ids.extend(part);
    }
    assert_eq!((count, ids.len()), (30, 30));
}

#[test]
fn paths_and_selections_choose() {
    let server = server_with(10);
    assert_eq!(visit(&server, "/document/v1/n/note/group/bob?x").len(), 5);
    assert_eq!(visit(&server, "/document/v1/other/note/docid?x").len(), 0);
    assert_eq!(visit(&server, "/document/v1/?cluster=notes&selection=note.stars%3E7").len(), 2);
    assert_eq!(visit(&server, "/document/v1/?cluster=notes&selection=id.group%3D%3D'ann'").len(), 5);
}

#[test]
fn streams_end_with_what_was_done() {
    let server = server_with(10);
    let whole = server.get("/document/v1/?cluster=notes&stream=true").1;
    assert_eq!(whole["documents"].as_array().map(Vec::len), Some(10));
    assert_eq!(whole["documentCount"], json!(10));

    let request = OutgoingRequest::new(Method::GET, "/document/v1/?cluster=notes&stream=true")
        .header(ACCEPT, "application/jsonl");
    let answer = server.send(&server.url(), HttpProtocol::Http2, request);
    let lines: Vec<Value> = String::from_utf8_lossy(&answer.body)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    assert_eq!(lines.iter().filter(|line| line.get("put").is_some()).count(), 10);
    assert_eq!(lines.last(), Some(&json!({ "continuation": { "percentFinished": 100.0 } })));
    assert!(lines.contains(&json!({ "sessionStats": { "documentCount": 10 } })));
}

#[test]
fn a_visit_shows_removals_on_request() {
    let server = server_with(2);
    server.call(Method::DELETE, "/document/v1/n/note/group/ann/0", "");
    let documents = |path: &str| server.get(path).1["documents"].clone();
    assert_eq!(documents("/document/v1/?cluster=notes&fieldSet=[id]").as_array().map(Vec::len), Some(1));
    let with = documents("/document/v1/?cluster=notes&includeRemoves=true");
    assert!(with.as_array().expect("a list").contains(&json!({ "remove": "id:n:note:g=ann:0" })), "{with}");
}
