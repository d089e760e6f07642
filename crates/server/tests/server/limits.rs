//! Limits of services.xml are enforced.

use hyper::Method;
use serde_json::json;

use crate::support::{NOTE, SERVICES, TestServer};

/// A server with the test application, and this added to its content cluster.
fn with(tuning: &str) -> TestServer {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", "{\"title\":\"before\",\"stars\":1}");
    let services = SERVICES.replace("</content>", &format!("{tuning}</content>"));
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    server
}

const PATH: &str = "/document/v1/n/note/group/ann/1";

#[test]
fn operations_larger_than_max_document_size() {
    let server = with("<tuning><max-document-size>1MiB</max-document-size></tuning>");
    let body = |bytes: usize| format!("{{\"fields\":{{\"title\":\"{}\"}}}}", "x ".repeat(bytes / 2));
    for method in [Method::POST, Method::PUT] {
        let (status, answer) = server.call(method, PATH, &body(1 << 20));
        assert_eq!(status, 413, "{answer}");
        assert!(
            answer["message"].as_str().is_some_and(|text| text.contains("max-document-size")),
            "{answer}"
        );
    }
    assert_eq!(server.call(Method::POST, PATH, &body(1_000_000)).0, 200);
}

#[test]
fn a_disk_that_is_fuller_than_its_limit_takes_removes_only() {
    let server = with("<tuning><resource-limits><disk>0</disk></resource-limits></tuning>");
    let (status, answer) = server.call(Method::POST, PATH, "{\"fields\":{}}");
    assert_eq!(status, 507, "{answer}");
    assert!(answer["message"].as_str().is_some_and(|text| text.contains("reserve")), "{answer}");
    assert_eq!(server.get(PATH).1["fields"]["title"], "before");
    assert_eq!(server.call(Method::DELETE, PATH, "").0, 200);
    assert_eq!(server.get(PATH).0, 404);
    let (status, _) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200);
    server.put(PATH, "{}");
}

#[test]
fn query_timeout_counts_whatever_the_request_says() {
    let server = with("<search><query-timeout>0</query-timeout></search>");
    let query =
        [("yql", "select * from note where true"), ("streaming.groupname", "ann"), ("timeout", "20s")];
    let (_, answer) = server.query(&query);
    let error = &answer["root"]["errors"][0];
    assert_eq!(
        (&error["code"], &answer["root"]["fields"]["totalCount"]),
        (&json!(12), &json!(0)),
        "{answer}"
    );
    assert!(error["message"].as_str().is_some_and(|text| text.contains("timeout of 0ns")), "{answer}");
}

#[test]
fn results_take_no_more_memory_than_a_query_may_have() {
    let limits = [("MILLRACE_QUERY_MEMORY_MAX", "2000000"), ("MILLRACE_QUERIES_MEMORY_MAX", "3000000")];
    let server = TestServer::start_with(&limits).deploy_notes();
    let title = "w".repeat(300_000);
    for name in 0..10 {
        server.put(&format!("/document/v1/n/note/group/ann/{name}"), &format!("{{\"title\":\"{title}\"}}"));
    }
    let hits = |hits: &str| {
        let yql = "select title from note where true";
        server.query(&[("yql", yql), ("streaming.groupname", "ann"), ("hits", hits)])
    };
    for _ in 0..3 {
        let (status, answer) = hits("10");
        assert_eq!(status, 400, "{status}");
        let message = answer["root"]["errors"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains("query-memory-max"), "{message}");
        let (status, answer) = hits("3");
        assert_eq!((status, answer["root"]["children"].as_array().map(Vec::len)), (200, Some(3)));
    }
}

#[test]
fn a_query_profile_raises_what_a_query_may_ask_for() {
    let server = TestServer::with_notes();
    let ask = |hits: &str| {
        let query =
            [("yql", "select * from note where true"), ("streaming.groupname", "ann"), ("hits", hits)];
        server.query(&query).0
    };
    assert_eq!((ask("400"), ask("401")), (200, 400));
    let profile = "<query-profile id='default'><field name='maxHits'>500</field></query-profile>";
    let (status, answer) = server.deploy(&[
        ("services.xml", SERVICES),
        ("schemas/note.sd", NOTE),
        ("search/query-profiles/default.xml", profile),
    ]);
    assert_eq!(status, 200, "{answer}");
    assert_eq!((ask("500"), ask("501")), (200, 400));
    let raised = [
        ("yql", "select * from note where true"),
        ("streaming.groupname", "ann"),
        ("hits", "600"),
        ("maxHits", "1000"),
    ];
    assert_eq!(server.query(&raised).0, 400, "a request cannot raise it for itself");
}

#[test]
fn the_bound_of_groupings_is_for_query_profiles_to_raise() {
    let server = TestServer::with_notes();
    server.put(PATH, "{\"title\":\"before\",\"stars\":1}");
    let yql = "select * from note where true | all(group(stars) max(inf) each(group(tags) max(inf) each(output(count()))))";
    let ask = |name: &str| server.query(&[("yql", yql), ("streaming.groupname", "ann"), (name, "-1")]);
    let (status, answer) = ask("grouping.defaultMaxHits");
    assert_eq!(status, 400, "{answer}");
    assert!(answer["root"]["errors"][0]["message"].to_string().contains("in a query profile"), "{answer}");
    for name in
        ["grouping.globalMaxGroups", "grouping.globalmaxgroups", "source.note.grouping.globalMaxGroups"]
    {
        let (status, answer) = ask(name);
        assert_eq!(status, 400, "{name}: {answer}");
        let message = answer["root"]["errors"][0]["message"].to_string();
        assert!(message.contains("must be specified in a query profile"), "{name}: {message}");
    }
    let body = json!({ "yql": yql, "streaming.groupname": "ann", "grouping": { "globalMaxGroups": -1 } });
    let request = millrace_client::OutgoingRequest::new(Method::POST, "/search/")
        .body("application/json", body.to_string());
    let answer = server.send(&server.url(), millrace_client::HttpProtocol::Http1, request);
    assert_eq!(answer.status.as_u16(), 400, "{}", answer.message());

    let profile =
        "<query-profile id='default'><field name='grouping.globalMaxGroups'>-1</field></query-profile>";
    let (status, answer) = server.deploy(&[
        ("services.xml", SERVICES),
        ("schemas/note.sd", NOTE),
        ("search/query-profiles/default.xml", profile),
    ]);
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = ask("grouping.defaultMaxHits");
    assert_eq!((status, &answer["root"]["errors"]), (200, &json!(null)), "{answer}");
    assert_eq!(ask("grouping.globalMaxGroups").0, 400, "the request still cannot say it");
}
