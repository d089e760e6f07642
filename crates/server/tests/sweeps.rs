//! Changes of all documents that a selection picks.

mod support;

use hyper::Method;
use serde_json::json;
use support::Server;

fn server() -> Server {
    let server = Server::with_notes();
    for number in 0..10 {
        for (namespace, group) in [("n", "ann"), ("n", "bob"), ("m", "bob")] {
            let path = format!("/document/v1/{namespace}/note/group/{group}/{number}");
            server.put(&path, &format!("{{\"stars\":{number}}}"));
        }
    }
    server
}

/// How many documents there are of a namespace and group.
fn count(server: &Server, namespace: &str, group: &str) -> usize {
    let (_, answer) =
        server.get(&format!("/document/v1/{namespace}/note/group/{group}?wantedDocumentCount=1000"));
    answer["documents"].as_array().expect("a list").len()
}

#[test]
fn delete_where_removes_what_matches_and_nothing_else() {
    let server = server();
    let path = "/document/v1/n/note/group/ann?cluster=notes&selection=note.stars%3C4";
    assert_eq!(server.call(Method::DELETE, path, "").1["documentCount"], json!(4));
    assert_eq!((count(&server, "n", "ann"), count(&server, "n", "bob")), (6, 10));
}

#[test]
fn a_whole_group_goes_at_once_and_no_other_namespace_with_it() {
    let server = server();
    let path = "/document/v1/n/note/group/ann?cluster=notes&selection=true";
    assert_eq!(server.call(Method::DELETE, path, "").1["documentCount"], json!(10));
    assert_eq!(count(&server, "n", "ann"), 0);
    let path = "/document/v1/n/note/group/bob?cluster=notes&selection=true";
    assert_eq!(server.call(Method::DELETE, path, "").1["documentCount"], json!(10));
    assert_eq!((count(&server, "n", "bob"), count(&server, "m", "bob")), (0, 10));
    server.put("/document/v1/n/note/group/ann/new", "{}");
    assert_eq!(count(&server, "n", "ann"), 1, "what is written after the drop stays");
}

#[test]
fn update_where_changes_what_matches() {
    let server = server();
    let path = "/document/v1/n/note/docid?cluster=notes&selection=note.stars%3D%3D5";
    let (status, answer) = server.call(Method::PUT, path, r#"{"fields":{"title":{"assign":"five"}}}"#);
    assert_eq!((status, &answer["documentCount"]), (200, &json!(2)), "{answer}");
    assert_eq!(server.get("/document/v1/n/note/group/bob/5").1["fields"]["title"], json!("five"));
    assert_eq!(server.get("/document/v1/m/note/group/bob/5").1["fields"].get("title"), None);
}

#[test]
fn a_sweep_says_what_it_is_about() {
    let server = server();
    let check = |method: Method, path: &str, expected: &str| {
        let (status, answer) = server.call(method, path, "{}");
        let message = answer["message"].as_str().unwrap_or("");
        assert!(status == 400 && message.contains(expected), "{path}: {status} {answer}");
    };
    check(Method::DELETE, "/document/v1/n/note/docid?cluster=notes", "selection");
    check(Method::DELETE, "/document/v1/n/note/docid?selection=true", "cluster");
    check(Method::PUT, "/document/v1/?cluster=notes&selection=true", "document type");
    check(Method::POST, "/document/v1/?cluster=notes&destinationCluster=x&selection=true", "not supported");
}
