//! `intervals` and `distance_feature` queries: the documents that they find, and their order.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Ids of the documents that a query finds, the best first.
fn found(service: &TestService, query: &Value) -> String {
    let answer = service.get("POST /a/_search", &json!({ "query": query }).to_string());
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    hits.map(|hit| hit["_id"].as_str().expect("an id")).collect::<Vec<_>>().join(" ")
}

fn service(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"t":{"type":"text"},"k":{"type":"keyword"},"d":{"type":"date"},"p":{"type":"geo_point"}}}}"#,
    );
    for (id, text, date) in [
        ("1", json!("the ferry leaves the harbour at noon"), "2024-01-01T00:00:00Z"),
        ("2", json!("a harbour, and a small ferry"), "2024-01-01T12:00:00Z"),
        ("3", json!("ferry harbour"), "2023-12-31T18:00:00Z"),
        ("4", json!(["the ferry", "harbour ferry ferry"]), "2024-02-01T00:00:00Z"),
    ] {
        let document = json!({ "t": text, "k": id, "d": date, "p": [1.0, 2.0] });
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    service.get("PUT /a/_doc/5", r#"{"k":"5"}"#);
    service
}

#[test]
fn words_are_found_by_their_order_and_distance() {
    let directory = directory();
    let service = service(&directory);
    let words = |text: &str| json!({ "match": { "query": text } });
    let sorted = |rule: Value| {
        let mut ids: Vec<String> = found(&service, &json!({ "intervals": { "t": rule } }))
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        ids.sort();
        ids.join(" ")
    };
    let both = |mode: &str, filter: Value| {
        let mut all = json!({ "all_of": { "intervals": [words("ferry"), words("harbour")], "mode": mode } });
        if !filter.is_null() {
            all["all_of"]["filter"] = filter;
        }
        all
    };
    for (rule, expected) in [
        (words("ferry harbour"), "1 2 3 4"),
        (words("Ferry"), "1 2 3 4"),
        (words("none"), ""),
        (words("?!"), ""),
        (json!({ "match": { "query": "ferry harbour", "ordered": true } }), "1 3 4"),
        (json!({ "match": { "query": "ferry harbour", "mode": "ordered" } }), "1 3 4"),
        (json!({ "match": { "query": "ferry harbour", "mode": "ordered", "max_gaps": 0 } }), "3"),
        (json!({ "match": { "query": "ferry harbour", "mode": "ordered", "max_gaps": 2 } }), "1 3"),
        (json!({ "match": { "query": "harbour ferry", "max_gaps": 0 } }), "3 4"),
        (json!({ "match": { "query": "ferry harbour", "mode": "ordered", "max_gaps": -1 } }), "1 3 4"),
        (words("ferry ferry"), "4"),
        (json!({ "match": { "query": "ferry ferry", "max_gaps": 0 } }), "4"),
        (json!({ "match": { "query": "Ferry", "analyzer": "whitespace" } }), ""),
        (json!({ "prefix": { "prefix": "Harb" } }), "1 2 3 4"),
        (json!({ "wildcard": { "pattern": "n?on" } }), "1"),
        (json!({ "regexp": { "pattern": "s.*ll" } }), "2"),
        (json!({ "regexp": { "pattern": "S.*LL" } }), ""),
        (json!({ "regexp": { "pattern": "S.*LL", "case_insensitive": true } }), "2"),
        (json!({ "fuzzy": { "term": "harbor" } }), "1 2 3 4"),
        (json!({ "fuzzy": { "term": "harbor", "prefix_length": 6 } }), ""),
        (json!({ "any_of": { "intervals": [words("noon"), words("small")] } }), "1 2"),
        (both("unordered", Value::Null), "1 2 3 4"),
        (both("ordered", Value::Null), "1 3 4"),
        (both("unordered_no_overlap", Value::Null), "1 2 3 4"),
        (both("unordered", json!({ "containing": words("leaves") })), "1"),
        (both("unordered", json!({ "not_containing": words("leaves") })), "2 3 4"),
        (both("ordered", json!({ "before": words("noon") })), "1"),
        (both("unordered", json!({ "after": words("a") })), "2"),
        (both("unordered", json!({ "overlapping": words("small ferry") })), "2"),
        (both("unordered", json!({ "not_overlapping": words("small ferry") })), "1 3 4"),
        (
            json!({ "match": { "query": "small", "filter": { "contained_by": both("unordered", Value::Null) } } }),
            "2",
        ),
        (
            json!({ "match": { "query": "noon", "filter": { "not_contained_by": both("unordered", Value::Null) } } }),
            "1",
        ),
        (
            json!({ "all_of": { "mode": "ordered", "max_gaps": 1, "intervals": [
                { "any_of": { "intervals": [words("leaves"), words("small")] } }, words("harbour"),
            ] } }),
            "1",
        ),
    ] {
        assert_eq!(sorted(rule.clone()), expected, "{rule}");
    }
    let ranked = found(&service, &json!({ "intervals": { "t": words("ferry harbour") } }));
    assert_eq!(ranked, "4 3 1 2", "more and nearer words come first");
    assert_eq!(found(&service, &json!({ "intervals": { "none": words("x") } })), "");
}

#[test]
fn malformed_intervals_are_refused() {
    let directory = directory();
    let service = service(&directory);
    let many = vec![json!({ "match": { "query": "x" } }); 1_025];
    for (query, expected) in [
        (json!({ "k": { "match": { "query": "x" } } }), "Can only use interval queries on text fields"),
        (json!({}), "needs one field"),
        (json!({ "t": {} }), "needs one rule"),
        (json!({ "t": { "match": { "query": "x" }, "prefix": { "prefix": "x" } } }), "needs one rule"),
        (json!({ "t": { "range": {} } }), "Unknown interval type [range], expecting one of [match, prefix"),
        (json!({ "t": { "match": {} } }), "needs [query]"),
        (json!({ "t": { "match": { "query": "x", "use_field": "u" } } }), "does not support [use_field]"),
        (json!({ "t": { "match": { "query": "x", "mode": "any" } } }), "[mode] of [intervals] is [any]"),
        (json!({ "t": { "match": { "query": "x", "max_gaps": -2 } } }), "[max_gaps]"),
        (json!({ "t": { "match": { "query": "x", "analyzer": "none" } } }), "analyzer [none] not found"),
        (json!({ "t": { "wildcard": { "pattern": "a".repeat(1_001) } } }), "The length of wildcard [1001]"),
        (json!({ "t": { "all_of": { "intervals": [] } } }), "needs an array [intervals]"),
        (json!({ "t": { "all_of": { "intervals": many } } }), "may combine 1024"),
        (json!({ "t": { "match": { "query": "x ".repeat(1_025) } } }), "may combine 1024"),
        (
            json!({ "t": { "match": { "query": "x", "filter": { "script": {} } } } }),
            "does not support [script]; there are [containing",
        ),
    ] {
        let (status, answer) =
            service.ask("POST /a/_search", &json!({ "query": { "intervals": query } }).to_string());
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{expected}: {answer}");
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
}

#[test]
fn documents_are_ranked_by_the_distance_of_their_dates() {
    let directory = directory();
    let service = service(&directory);
    let near = |field: &str, origin: &str, pivot: &str| json!({ "distance_feature": { "field": field, "origin": origin, "pivot": pivot } });
    assert_eq!(found(&service, &near("d", "2024-01-01", "1d")), "1 3 2 4");
    assert_eq!(found(&service, &near("d", "2024-02-02", "1d")), "4 2 1 3");
    assert_eq!(found(&service, &near("none", "2024-02-02", "1d")), "");
    let answer =
        service.get("POST /a/_search", &json!({ "query": near("d", "2024-01-01", "12h") }).to_string());
    let scores: Vec<f64> = answer["hits"]["hits"]
        .as_array()
        .expect("hits")
        .iter()
        .filter_map(|hit| hit["_score"].as_f64())
        .collect();
    assert_eq!((scores[0], scores[2]), (1.0, 0.5), "the pivot has half of the score");
    let must = json!({ "bool": { "filter": { "term": { "k": "4" } }, "should": near("d", "now", "1d") } });
    assert_eq!(found(&service, &must), "4");
    for (query, expected) in [
        (near("p", "2024-01-01", "1d"), "is for fields of dates here, and [p] is of type [geo_point]"),
        (near("p", "1,2", "1km"), "[pivot] of [distance_feature] is [1km]"),
        (near("d", "soon", "1d"), "[origin] of [distance_feature] is not a date: [soon]"),
        (json!({ "distance_feature": { "field": "d", "origin": "now" } }), "Required [pivot]"),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &json!({ "query": query }).to_string());
        assert_eq!(status, 400, "{query}: {answer}");
        assert!(
            answer["error"]["reason"].as_str().unwrap_or_default().contains(expected),
            "{query}: {answer}"
        );
    }
}
