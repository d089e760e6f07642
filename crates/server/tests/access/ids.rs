//! Ids below `/person/NAME`: shown without the group, and taken without it.

use hyper::Method;
use hyper::header::{ACCEPT, HeaderName};
use millrace_client::{ClientAnswer, OutgoingRequest};

use super::{ClosedServer, shows_others, shows_own};

/// The commands ask for complete ids by this header, and so does the client of these tests.
const IDS: HeaderName = HeaderName::from_static("millrace-ids");

const COMPLETE: &str = "id:n:note:g=ann:1";
const SHORT: &str = "id:n:note::1";

const YQL: &str = "timeout=60s&yql=select%20*%20from%20note%20where%20true";

/// Requests whose answers have the id of a document of ann's: method, path, body, accepted type.
fn asking() -> Vec<(&'static str, String, &'static str, &'static str)> {
    let grouped = "%20limit%200%20%7C%20all(group(stars)%20each(each(output(summary()))))";
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"executeQuery","arguments":{"yql":"select * from note where true"}}}"#;
    vec![
        ("GET", format!("/search/?{YQL}"), "", ""),
        ("GET", format!("/search/?{YQL}&presentation.format=xml"), "", ""),
        ("GET", format!("/search/?{YQL}{grouped}"), "", ""),
        ("GET", format!("/search/?{YQL}&presentation.summary=brief"), "", ""),
        ("GET", "/document/v1/n/note/docid/1".to_owned(), "", ""),
        ("GET", "/document/v1/n/note/group/ann/1".to_owned(), "", ""),
        ("PUT", "/document/v1/n/note/docid/1".to_owned(), r#"{"fields":{"stars":{"increment":1}}}"#, ""),
        ("PUT", "/document/v1/n/note/docid/1".to_owned(), r#"{"fields":{"no":{"assign":1}}}"#, ""),
        ("GET", "/document/v1/?cluster=notes".to_owned(), "", ""),
        ("GET", "/document/v1/n/note/docid/?stream=true".to_owned(), "", ""),
        ("GET", "/document/v1/n/note/docid/?stream=true".to_owned(), "", "application/jsonl"),
        ("POST", "/feed/v1".to_owned(), r#"{"put":"id:n:note::1","fields":{"no":1}}"#, ""),
        ("POST", "/group/v1/ann/export".to_owned(), "", ""),
        ("POST", "/mcp/".to_owned(), call, ""),
    ]
}

fn start() -> ClosedServer {
    let schema = super::NOTE.replace(
        "rank-profile default",
        "document-summary brief { summary uri { source: documentid } }\n  rank-profile default",
    );
    ClosedServer::start_with(&[("schemas/note.sd", &schema)])
}

#[test]
fn ids_leave_out_the_group_of_the_path_or_of_a_credential_that_asks() {
    let closed = start();
    for (token, prefix, ids, expected) in [
        (closed.all, "/person/ann", "short", SHORT),
        (closed.ann, "/person/ann", "short", SHORT),
        (closed.all, "/person/ann", "complete", COMPLETE),
        // Clients of a server with groups know them, unless they say that they do not.
        (closed.ann, "", "any", COMPLETE),
        (closed.ann, "", "complete", COMPLETE),
        (closed.ann, "", "short", SHORT),
    ] {
        let other = if expected == SHORT { "g=ann" } else { SHORT };
        for (method, path, body, accepted) in asking() {
            let request =
                OutgoingRequest::new(super::method_of(method), format!("{prefix}{path}")).header(IDS, ids);
            let request = if body.is_empty() { request } else { request.body("application/json", body) };
            let request = if accepted.is_empty() { request } else { request.header(ACCEPT, accepted) };
            let answer = closed.send(token, request);
            let text = String::from_utf8_lossy(&answer.body);
            assert!(text.contains(expected), "{prefix} {ids} {method} {path}: {text}");
            assert!(!text.contains(other), "{prefix} {ids} {method} {path}: {text}");
        }
    }
}

#[test]
fn an_id_without_the_group_is_taken_wherever_one_is_named() {
    let closed = start();
    let ask = |method: Method, path: &str, body: &str| -> ClientAnswer {
        let request = OutgoingRequest::new(method, format!("/person/ann{path}")).header(IDS, "short");
        let request =
            if body.is_empty() { request } else { request.body("application/json", body.to_owned()) };
        closed.send(closed.all, request)
    };
    let text = |answer: &ClientAnswer| String::from_utf8_lossy(&answer.body).into_owned();
    let fed = ask(Method::POST, "/feed/v1", r#"{"put":"id:n:note::9","fields":{"title":"ninth","stars":9}}"#);
    assert!(text(&fed).contains("\"ok\":1"), "{}", text(&fed));
    let own = "id%20%3D%3D%20%22id%3An%3Anote%3A%3A9%22";
    let pattern = "id%20%3D%20%22id%3An%3A*%3A%3A9%22";
    for selection in [own, pattern] {
        let path = format!("/document/v1/?cluster=notes&selection={selection}");
        assert_eq!(ask(Method::GET, &path, "").json()["documentCount"], 1, "{selection}");
        let path = format!("/document/v1/n/note/docid/?cluster=notes&selection={selection}");
        let changed = ask(Method::PUT, &path, r#"{"fields":{"stars":{"assign":8}}}"#);
        assert_eq!(changed.json()["documentCount"], 1, "{selection}: {}", text(&changed));
    }
    let found = ask(Method::GET, &format!("/search/?{YQL}&streaming.selection={own}"), "");
    assert_eq!(found.json()["root"]["fields"]["totalCount"], 1, "{}", text(&found));
    let path = format!("/document/v1/n/note/docid/9?condition={own}");
    assert_eq!(ask(Method::PUT, &path, r#"{"fields":{"stars":{"assign":7}}}"#).status, 200);
    let path = format!("/document/v1/n/note/docid/1?condition={own}");
    assert_eq!(ask(Method::PUT, &path, r#"{"fields":{"stars":{"assign":7}}}"#).status, 412);
    let conditional =
        r#"{"update":"id:n:note::9","condition":"id == \"id:n:note::9\"","fields":{"stars":{"assign":6}}}"#;
    let fed = ask(Method::POST, "/feed/v1", conditional);
    assert!(text(&fed).contains("\"ok\":1"), "{}", text(&fed));
    assert_eq!(ask(Method::GET, "/document/v1/n/note/docid/9", "").json()["fields"]["stars"], 6);
    // Another group, named in full, is refused as before.
    let others = "id%20%3D%3D%20%22id%3An%3Anote%3Ag%3Dbob%3A1%22";
    let path = format!("/document/v1/?cluster=notes&selection={others}");
    assert_eq!(ask(Method::GET, &path, "").status, 403);
    // What was exported is restored.
    let exported = text(&ask(Method::POST, "/group/v1/ann/export", ""));
    assert_eq!(exported.lines().count(), 2, "{exported}");
    let path = format!("/document/v1/?cluster=notes&selection={own}");
    assert_eq!(ask(Method::DELETE, &path, "").json()["documentCount"], 1);
    assert_eq!(ask(Method::GET, "/document/v1/n/note/docid/9", "").status, 404);
    let restored = ask(Method::POST, "/group/v1/ann/restore", &exported);
    assert!(text(&restored).contains("\"ok\":2"), "{}", text(&restored));
    assert_eq!(ask(Method::GET, "/document/v1/n/note/group/ann/9", "").status, 200);
    let fed = ask(Method::POST, "/feed/v1", r#"{"remove":"id:n:note::9"}"#);
    assert!(text(&fed).contains("\"ok\":1"), "{}", text(&fed));
    assert_eq!(ask(Method::GET, "/document/v1/n/note/docid/9", "").status, 404);
}

#[test]
fn a_group_by_number_has_an_endpoint_of_its_own() {
    let closed = start();
    let get = |token, path: &str| {
        closed.send(token, OutgoingRequest::new(Method::GET, path.to_owned()).header(IDS, "short"))
    };
    for path in ["/document/v1/n/note/docid/1", "/document/v1/?cluster=notes", &format!("/search/?{YQL}")] {
        let answer = get(closed.all, &format!("/person-number/7{path}"));
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == 200 && shows_others(&answer) && !shows_own(&answer), "{path}: {text}");
        assert!(text.contains(SHORT) && !text.contains("n=7"), "{path}: {text}");
    }
    for (token, path, expected) in [
        (closed.all, "/person-number/7/document/v1/n/note/group/ann/1", 403),
        (closed.all, "/person/7/document/v1/n/note/docid/1", 404),
        (closed.all, "/person/n=7/document/v1/n/note/docid/1", 404),
        (closed.all, "/person-number/ann/document/v1/n/note/docid/1", 404),
        (closed.ann, "/person-number/7/document/v1/n/note/docid/1", 403),
    ] {
        assert_eq!(get(token, path).status, expected, "{path}");
    }
}
