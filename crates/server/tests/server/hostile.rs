//! Ten thousand hostile requests: each has an answer that names the problem, and the server survives.

use std::path::Path;

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_fuzz::InputMutator;

use crate::support::{NOTE, SERVICES, TestServer};

/// Number of requests of each kind.
const REQUESTS: u64 = 1250;
/// Number of packages to deploy.
const PACKAGES: u64 = 125;
/// Nesting depth that would overflow a stack of any size if it were followed by recursion.
const DEEP: usize = 200_000;

/// Inputs that the fuzzers keep for one of their targets.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(directory).expect("there is such a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("an input")).collect()
}

/// Encodes bytes as a part of a request line.
fn encoded(bytes: &[u8]) -> String {
    bytes.iter().take(2000).map(|byte| format!("%{byte:02X}")).collect()
}

fn request(kind: u64, input: Vec<u8>) -> OutgoingRequest {
    const DOCUMENT: &str = "/document/v1/n/note/group/ann/1";
    match kind {
        0 => OutgoingRequest::new(Method::POST, DOCUMENT).body("application/json", input),
        1 => OutgoingRequest::new(Method::PUT, DOCUMENT).body("application/json", input),
        2 => OutgoingRequest::new(
            Method::GET,
            format!("/search/?streaming.groupname=ann&yql={}", encoded(&input)),
        ),
        3 => OutgoingRequest::new(Method::POST, "/search/").body("application/json", input),
        4 => OutgoingRequest::new(
            Method::GET,
            format!("/document/v1/?cluster=notes&selection={}", encoded(&input)),
        ),
        5 => OutgoingRequest::new(Method::GET, format!("/document/v1/{}", encoded(&input))),
        6 => OutgoingRequest::new(
            Method::DELETE,
            format!(
                "/document/v1/n/note/docid?cluster=notes&selection=false&continuation={}",
                encoded(&input)
            ),
        ),
        _ => OutgoingRequest::new(Method::POST, "/search/")
            .body("application/json", input)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded"),
    }
}

#[test]
fn every_request_is_answered() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/bob/1", "{\"stars\":1}");
    let kinds = ["document", "document", "yql", "query", "selection", "document", "row", "query"];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = NodeClient::new(&server.url(), HttpProtocol::Http1).expect("an address");
    for (kind, name) in kinds.iter().enumerate() {
        let corpus = corpus(name);
        let mut mutator = InputMutator::new(&corpus, kind as u64);
        for number in 0..REQUESTS {
            let input = mutator.input();
            let shown = String::from_utf8_lossy(&input).into_owned();
            let answer = runtime.block_on(client.send(request(kind as u64, input)));
            let answer = answer.unwrap_or_else(|error| panic!("{name} {number}: {error}: {shown:?}"));
            let status = answer.status.as_u16();
            assert!(
                status != 500 && status != 503,
                "{name} {number}: {status} {}: {shown:?}",
                answer.message()
            );
            assert!(
                status < 400 || answer.message().len() >= 8,
                "{name} {number}: {status} says nothing: {shown:?}"
            );
        }
    }
    for number in 0..PACKAGES {
        let corpus = corpus("services");
        let mut mutator = InputMutator::new(&corpus, number);
        let input = String::from_utf8_lossy(&mutator.input()).into_owned();
        let (status, answer) = server.deploy(&[("services.xml", &input), ("schemas/x.sd", &input)]);
        assert!(status == 400 && answer["message"].is_string(), "{status} {answer}: {input:?}");
    }
    assert_eq!(server.get("/document/v1/n/note/group/bob/1").1["fields"]["stars"], 1);
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let server = TestServer::with_notes();
    let path = "/document/v1/n/note/group/ann/1";
    let lists = "[".repeat(DEEP);
    let objects = "{\"a\":".repeat(DEEP);
    for (begin, inside) in [
        ("", &lists),
        ("", &objects),
        ("{\"fields\":", &lists),
        ("{\"fields\":{\"title\":", &lists),
        ("{\"fields\":{\"tags\":", &objects),
        ("{\"fields\":{\"stars\":{\"assign\":", &lists),
        ("{\"condition\":", &lists),
        ("{\"create\":", &objects),
        ("{\"unknown\":", &lists),
    ] {
        for method in [Method::POST, Method::PUT] {
            let (status, answer) = server.call(method, path, &format!("{begin}{inside}"));
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(status == 400 && message.contains("nested deeper than"), "{begin}: {status} {answer}");
        }
    }
    let (status, answer) = server.call(Method::POST, "/search/", &lists);
    assert_eq!(status, 400, "{answer}");
    for (begin, again) in [
        ("1", "^1"),
        ("attribute(stars)", "{a:0}"),
        ("1", " in [1]"),
        ("1", " in [1] == 1"),
        ("", "("),
        ("", "-"),
        ("", "if("),
    ] {
        let expression = format!("{begin}{}", again.repeat(DEEP));
        let profile =
            format!("rank-profile deep {{ first-phase {{ expression {{\n{expression}\n}} }} }}\n}}");
        let schema = format!("{}{profile}", NOTE.trim_end().trim_end_matches('}'));
        let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", &schema)]);
        assert!(status == 400 && answer["message"].is_string(), "{begin}{again}: {status}");
    }
    let steps = format!("indexing: summary | index{}", " | summary".repeat(DEEP));
    let schema = NOTE.replacen("indexing: summary | index", &steps, 1);
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", &schema)]);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("more than 256 steps"), "{status} {message}");
    assert_eq!(server.get(path).0, 404);
}
