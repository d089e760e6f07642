//! Paths to which an application binds handlers: their rights, groups and checks are those of the handlers.

use hyper::Method;
use hyper::header::ORIGIN;
use millrace_client::OutgoingRequest;

use super::{ClosedServer, SERVICES, YQL, shows_others, shows_own};

/// An application that binds each handler, queries to all paths.
fn bound_everywhere() -> String {
    SERVICES
        .replace("<search/>", "<search><binding>http://*/*</binding></search>")
        .replace("<document-api/>", "<document-api><binding>http://*/api</binding></document-api>")
        .replace("http://*/mcp/*", "http://*:8080/tools/*")
}

#[test]
fn bound_paths_have_the_rights_of_their_handlers() {
    let closed = ClosedServer::start_with(&[("services.xml", &bound_everywhere())]);
    let query = format!("timeout=60s&yql={}", YQL.replace(' ', "%20"));
    let find = format!("find/a?{query}");
    let (document, of_bob) = ("api/document/v1/n/note/docid/1", "api/document/v1/n/note/group/bob/1");
    for (token, method, path, expected) in [
        ("", Method::GET, format!("/{find}"), 401),
        ("", Method::GET, format!("/{document}"), 401),
        ("", Method::POST, "/tools/a".to_owned(), 401),
        (closed.ann, Method::GET, format!("/{find}"), 200),
        // Queries are answered below their own path too, where nothing is bound.
        (closed.ann, Method::GET, format!("/search/notes?{query}"), 200),
        (closed.ann, Method::GET, format!("/{find}&streaming.groupname=bob"), 403),
        (closed.ann, Method::GET, format!("/{document}"), 200),
        (closed.ann, Method::GET, format!("/{of_bob}"), 403),
        (closed.ann, Method::DELETE, format!("/{of_bob}"), 403),
        (closed.all, Method::GET, format!("/person/ann/{find}"), 200),
        (closed.all, Method::GET, format!("/person/ann/{find}&streaming.groupname=bob"), 403),
        (closed.all, Method::GET, format!("/person/ann/{document}"), 200),
        (closed.all, Method::GET, format!("/person/ann/{of_bob}"), 403),
        // The group of these is lost on the way, or read by a proxy alone: they lead to no handler.
        (closed.all, Method::GET, format!("/person//{find}"), 404),
        (closed.all, Method::GET, format!("/person/%00/{find}"), 404),
        (closed.all, Method::GET, format!("/person/ann?{query}"), 404),
        (closed.all, Method::GET, format!("/person-number/x/{find}"), 404),
        (closed.all, Method::GET, format!("/person/ann/person/bob/{find}"), 404),
        (closed.all, Method::GET, format!("/%70erson/ann/{find}"), 404),
        (closed.all, Method::GET, format!("/person%2Fann/{find}"), 404),
        (closed.all, Method::GET, format!("//person/ann/{find}"), 404),
        (closed.all, Method::GET, format!("/search/../person/ann/{find}"), 404),
        // The node's own paths stay its own, with their rights.
        (closed.ann, Method::GET, "/state/v1/metrics".to_owned(), 403),
        (closed.ann, Method::POST, "/state/v1/cluster/groups".to_owned(), 403),
        (closed.all, Method::GET, "/person/ann/state/v1/metrics".to_owned(), 403),
    ] {
        let answer = closed.ask(token, method.clone(), &path, "");
        assert_eq!(answer.status, expected, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        assert!(!shows_others(&answer), "{method} {path}");
        assert!(expected != 200 || shows_own(&answer), "{method} {path}");
    }
}

#[test]
fn bound_paths_are_checked_as_those_of_their_handlers() {
    let closed = ClosedServer::start_with(&[("services.xml", &bound_everywhere())]);
    let put = || OutgoingRequest::new(Method::POST, "/api/document/v1/n/note/docid/5");
    let body = r#"{"fields":{"title":"five"}}"#.to_owned();
    for (request, expected) in [
        (put().body("text/plain", body.clone()), 415),
        (put().header(ORIGIN, "https://evil.example").body("application/json", body.clone()), 403),
        (put().body("application/json", body), 200),
    ] {
        let answer = closed.send(closed.ann, request);
        assert_eq!(answer.status, expected, "{}", String::from_utf8_lossy(&answer.body));
    }
}
