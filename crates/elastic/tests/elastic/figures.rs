//! Figures of indexes and the state of the cluster, as monitoring reads them; terms and explanations.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// A service with the indexes `a`, of two documents, and `b`, which is closed and has an alias.
fn filled(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    let body = r#"{"settings":{"number_of_shards":2,"blocks.write":false},
        "mappings":{"properties":{"k":{"type":"keyword"},"t":{"type":"text"},"n":{"type":"long"}}}}"#;
    service.get("PUT /a", body);
    service.get("PUT /a/_doc/1", r#"{"k":["Ab","abc"],"t":"some words","n":1}"#);
    service.get("PUT /a/_doc/2", r#"{"k":"b","t":"other words","n":2}"#);
    service.get("PUT /b", r#"{"aliases":{"x":{}}}"#);
    service.get("POST /b/_close", "");
    service
}

#[test]
fn figures_are_those_that_are_counted() {
    let directory = directory();
    let service = filled(&directory);
    for (target, path, expected) in [
        ("_stats", "/_all/primaries/docs/count", json!(2)),
        ("_stats", "/_all/total/docs/count", json!(2)),
        ("_stats", "/indices/a/primaries/docs", json!({ "count": 2, "deleted": 0 })),
        ("_stats", "/indices/a/status", json!("open")),
        ("_stats", "/indices/a/total/shard_stats/total_count", json!(2)),
        ("_stats", "/indices/a/total/mappings/total_count", json!(3)),
        ("_stats", "/_shards/total", json!(2)),
        ("_stats?expand_wildcards=all", "/indices/b/status", json!("close")),
        ("a/_stats/docs", "/indices/a/total", json!({ "docs": { "count": 2, "deleted": 0 } })),
        ("a/_stats/d*,mappings", "/_all/total/mappings/total_count", json!(3)),
        ("a/_stats/mappings", "/_all/total/docs", Value::Null),
        ("a/_stats?level=cluster", "/indices", Value::Null),
    ] {
        let answer = service.get(&format!("GET /{target}"), "");
        let found = answer.pointer(path).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{target} {path}: {answer}");
    }
    for (target, status, expected) in [
        ("a/_stats/segments", 400, "it is not counted by index"),
        ("a/_stats/nothing", 400, "unrecognized metric: [nothing]"),
        ("a/_stats?level=shards", 400, "[level=shards]"),
        ("a/_stats?level=x", 400, "was [x]"),
        ("a/_stats?what=x", 400, "unrecognized parameter: [what]"),
        ("none/_stats", 404, "no such index [none]"),
    ] {
        let (found, answer) = service.ask(&format!("GET /{target}"), "");
        assert!(found == status && answer.to_string().contains(expected), "{target}: {answer}");
    }
}

#[test]
fn the_state_has_the_parts_that_are_asked_for() {
    let directory = directory();
    let service = filled(&directory);
    service.get("PUT /a/_block/write", "");
    service.get("PUT /_template/old", r#"{"index_patterns":["o*"]}"#);
    for (target, path, expected) in [
        ("", "/cluster_name", json!("millrace")),
        ("", "/master_node", json!("millrace")),
        ("", "/nodes/millrace/name", json!("millrace")),
        ("", "/metadata/indices/a/state", json!("open")),
        ("", "/metadata/indices/a/settings/index/number_of_shards", json!("2")),
        ("", "/metadata/indices/a/mappings/_doc/properties/k/type", json!("keyword")),
        ("", "/metadata/indices/b/aliases", json!(["x"])),
        ("", "/metadata/indices/b/state", json!("close")),
        ("", "/metadata/templates/old/index_patterns/0", json!("o*")),
        ("", "/routing_table/indices/a/shards/1/0/node", json!("millrace")),
        ("", "/routing_table/indices/a/shards/2", Value::Null),
        ("", "/blocks/indices/a/8/description", json!("index write (api)")),
        ("/blocks", "/metadata", Value::Null),
        ("/metadata,nodes/a", "/metadata/indices/a/system", json!(false)),
        ("/metadata/a", "/metadata/indices/b", Value::Null),
        ("/metadata/a", "/nodes", Value::Null),
        ("/version", "/version", json!(1)),
    ] {
        let answer = service.get(&format!("GET /_cluster/state{target}"), "");
        let found = answer.pointer(path).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{target} {path}: {answer}");
    }
    for (target, status) in
        [("/nothing", 400), ("/metadata/none", 404), ("/metadata/a/b", 400), ("?x=1", 400)]
    {
        assert_eq!(service.ask(&format!("GET /_cluster/state{target}"), "").0, status, "{target}");
    }
}

#[test]
fn terms_are_listed_in_their_order() {
    let directory = directory();
    let service = filled(&directory);
    for (body, expected) in [
        (json!({ "field": "k" }), json!(["Ab", "abc", "b"])),
        (json!({ "field": "k", "string": "a" }), json!(["abc"])),
        (json!({ "field": "k", "string": "AB", "case_insensitive": true }), json!(["Ab", "abc"])),
        (json!({ "field": "k", "size": 2 }), json!(["Ab", "abc"])),
        (json!({ "field": "k", "size": 1, "search_after": "Ab" }), json!(["abc"])),
        (json!({ "field": "k", "index_filter": { "term": { "n": 2 } }, "timeout": "5s" }), json!(["b"])),
        (json!({ "field": "t" }), json!([])),
        (json!({ "field": "missing" }), json!([])),
    ] {
        let answer = service.get("POST /a/_terms_enum", &body.to_string());
        assert_eq!((&answer["terms"], &answer["complete"]), (&expected, &json!(true)), "{body}: {answer}");
    }
    for (body, expected) in [
        (json!({}), "field cannot be null"),
        (json!({ "field": "k", "size": 0 }), "[size] of _terms_enum"),
        (json!({ "field": "k", "case_insensitive": 1 }), "[case_insensitive] is true or false"),
        (json!({ "field": "k", "what": 1 }), "unknown field [what]"),
        (json!({ "field": "k", "index_filter": { "nothing": {} } }), "nothing"),
    ] {
        let (status, answer) = service.ask("POST /a/_terms_enum", &body.to_string());
        assert!(status == 400 && answer.to_string().contains(expected), "{body}: {answer}");
    }
    assert_eq!(service.ask("POST /none/_terms_enum", r#"{"field":"k"}"#).0, 404);
}

#[test]
fn documents_are_explained() {
    let directory = directory();
    let service = filled(&directory);
    let body = r#"{"query":{"bool":{"must":{"match":{"t":"words"}},"should":{"term":{"n":1}}}}}"#;
    let answer = service.get("GET /a/_explain/1", body);
    let explanation = &answer["explanation"];
    assert_eq!(
        (&answer["matched"], &explanation["description"]),
        (&json!(true), &json!("sum of:")),
        "{answer}"
    );
    let details = explanation["details"].as_array().expect("a list");
    let sum: f64 = details.iter().filter_map(|detail| detail["value"].as_f64()).sum();
    assert_eq!((details.len(), explanation["value"].as_f64()), (2, Some(sum)), "{answer}");
    // The score is that of a search.
    let hits = service.get("POST /a/_search", body);
    assert_eq!(hits["hits"]["hits"][0]["_score"], explanation["value"], "{hits}");
    let answer = service.get("GET /a/_explain/2?q=n:1&_source=n", "");
    assert_eq!(
        (&answer["matched"], &answer["get"]["_source"]),
        (&json!(false), &json!({ "n": 2 })),
        "{answer}"
    );
    assert_eq!(answer["explanation"]["value"], 0.0);
    let (status, answer) = service.ask("GET /a/_explain/3?q=n:1", "");
    assert_eq!((status, &answer["matched"]), (404, &json!(false)), "{answer}");
    service.get("PUT /a/_alias/ones", r#"{"filter":{"term":{"n":1}}}"#);
    assert_eq!(service.get("GET /ones/_explain/2?q=t:words", "")["matched"], false);
    for (request, body, expected) in [
        ("GET /a/_explain/1", "", "query is missing"),
        ("GET /a/_explain/1", r#"{"query":{"nothing":{}}}"#, "nothing"),
        ("GET /a/_explain/1", r#"{"query":{"match_all":{}},"size":1}"#, "[size]"),
        ("GET /a/_explain/1", r#"{"query":{"term":{"n":"x"}}}"#, "For input string"),
    ] {
        let (status, answer) = service.ask(request, body);
        assert!(status == 400 && answer.to_string().contains(expected), "{body}: {answer}");
    }
    for (query, expected) in [
        (json!({ "match_all": {} }), "*:*"),
        (json!({ "term": { "n": 1 } }), "n:1"),
        (json!({ "terms": { "n": [1, 2] } }), "n:(1 2)"),
        (json!({ "match_phrase": { "t": "a b" } }), "t:\"a b\""),
        (json!({ "range": { "n": { "gt": 1, "lte": 3 } } }), "n:{1 TO 3]"),
        (json!({ "exists": { "field": "k" } }), "_exists_:k"),
        (
            json!({ "bool": { "filter": { "prefix": { "k": "a" } }, "must_not": { "ids": { "values": ["1"] } } } }),
            "(#k:a* -_id:(1))",
        ),
    ] {
        let body = json!({ "query": query }).to_string();
        let answer = service.get("POST /a/_validate/query?explain=true", &body);
        assert_eq!(answer["explanations"][0]["explanation"], expected, "{body}: {answer}");
    }
}
