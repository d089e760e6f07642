//! Limits of requests in a second, independent of the clients' description of themselves.

mod support;

use hyper::Method;
use serde_json::json;
use support::{NOTE, SERVICES, TestServer};

const QUERY: (&str, &str) = ("yql", "select * from note where true");

/// So small a rate does not fill again while a test runs.
const ONCE: &str = "0.0001";

#[test]
fn a_group_is_counted_whatever_a_query_says_of_its_client() {
    let server = TestServer::start_with(&[("MILLRACE_GROUP_RATE_MAX", ONCE)]).deploy_notes();
    let limits = "<search><chain id='default' inherits='vespa'>
        <searcher id='com.yahoo.search.searchers.RateLimitingSearcher'/></chain></search>";
    let services = SERVICES.replace("<search/>", limits);
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    let ask = |group: &str, more: &[(&str, &str)]| {
        let (status, answer) = server.query(&[&[QUERY, ("streaming.groupname", group)], more].concat());
        (status, answer["root"]["errors"][0]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("ann", &[]).0, 200);
    let ways: [&[(&str, &str)]; 5] = [
        &[],
        &[("rate.id", "somebody"), ("rate.quota", "1")],
        &[("rate.id", "ann"), ("rate.quota", "1e300")],
        &[("rate.id", "ann"), ("rate.quota", "1"), ("rate.cost", "0")],
        &[("rate.id", "ann"), ("rate.quota", "1"), ("rate.dryRun", "true")],
    ];
    for way in ways {
        let (status, message) = ask("ann", way);
        assert_eq!(status, 429, "{way:?}: {message}");
        assert!(message.contains("group 'ann'") && message.contains("--group-rate-max"), "{message}");
    }
    assert_eq!(ask("bob", &[]).0, 200, "another group has its own");
    let (status, answer) = server.get("/document/v1/n/note/group/ann/1");
    assert_eq!(status, 429, "documents count as well: {answer}");
    assert_eq!(server.get("/document/v1/n/note/group/carl/1").0, 404);
    assert_eq!(server.get("/document/v1/n/note/group/carl/1").0, 429);
}

#[test]
fn an_address_is_counted_at_every_endpoint_for_clients() {
    for (method, path, body) in [
        (Method::GET, "/search/?yql=select+*+from+note+where+true&streaming.groupname=ann", ""),
        (Method::GET, "/document/v1/n/note/group/ann/1", ""),
        (Method::GET, "/document/v1/n/note/docid/", ""),
        (Method::POST, "/mcp/", r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#),
        (Method::GET, "/model-evaluation/v1/", ""),
    ] {
        let server = TestServer::start_with(&[("MILLRACE_ADDRESS_RATE_MAX", ONCE)]).deploy_notes();
        let handler = "<handler id='ai.vespa.mcp.McpRequestHandler'/><search/>";
        let services = SERVICES.replace("<search/>", handler);
        let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
        assert_eq!(status, 200, "{answer}");
        let ask = || server.call(method.clone(), path, body);
        assert_ne!(ask().0, 429, "{path}");
        let (status, answer) = ask();
        assert_eq!(status, 429, "{path}: {answer}");
        assert!(answer.to_string().contains("--address-rate-max"), "{path}: {answer}");
        assert_eq!(server.get("/state/v1/health").0, 200, "probes are not counted");
    }
}

#[test]
fn a_rate_that_is_none_is_refused_at_the_start() {
    for rate in ["0", "-1", "inf", "NaN"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["serve", "--data-dir", "/nonexistent/never", &format!("--group-rate-max={rate}")])
            .output()
            .expect("the program runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("group-rate-max"), "{rate}: {message}");
        assert_eq!(json!(output.stdout), json!([]), "{rate}");
    }
}
