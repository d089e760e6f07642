//! Scores by functions of documents, and scores that other queries lower.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

fn filled() -> (tempfile::TempDir, TestService) {
    let directory = directory();
    let service = TestService::open(&directory);
    for (id, document) in [
        ("1", json!({ "k": "a", "n": 100, "d": "2024-01-01" })),
        ("2", json!({ "k": "b", "n": 10, "d": "2024-01-11" })),
        ("3", json!({ "k": "a", "n": 1, "d": "2024-01-21", "extra": [4, 9] })),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    (directory, service)
}

/// Ids and scores of the hits of a query.
#[track_caller]
fn scores(service: &TestService, query: &Value) -> String {
    let answer = service.get("POST /a/_search", &json!({ "query": query }).to_string());
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    let shown = hits.map(|hit| {
        let score = hit["_score"].as_f64().expect("a score");
        format!("{}={:.3}", hit["_id"].as_str().unwrap_or_default(), score)
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn functions_and_their_combinations_make_scores() {
    let (_directory, service) = filled();
    let only = |kind: &str| json!({ "term": { "k.keyword": kind } });
    for (members, expected) in [
        (json!({}), "1=1.000 2=1.000 3=1.000"),
        (json!({ "weight": 3 }), "1=3.000 2=3.000 3=3.000"),
        (json!({ "field_value_factor": { "field": "n" } }), "1=100.000 2=10.000 3=1.000"),
        (
            json!({ "field_value_factor": { "field": "n", "modifier": "log", "factor": 10 } }),
            "1=3.000 2=2.000 3=1.000",
        ),
        (
            json!({ "field_value_factor": { "field": "n", "modifier": "reciprocal" }, "weight": 100 }),
            "3=100.000 2=10.000 1=1.000",
        ),
        (
            json!({ "field_value_factor": { "field": "extra", "missing": 1, "modifier": "sqrt" } }),
            "3=2.000 1=1.000 2=1.000",
        ),
        (
            json!({ "functions": [
                { "filter": only("a"), "weight": 2 },
                { "filter": { "range": { "n": { "gte": 10 } } }, "weight": 5 },
            ] }),
            "1=10.000 2=5.000 3=2.000",
        ),
        (
            json!({ "score_mode": "sum", "boost_mode": "replace", "functions": [
                { "filter": only("a"), "weight": 2 },
                { "filter": { "range": { "n": { "gte": 10 } } }, "weight": 5 },
            ] }),
            "1=7.000 2=5.000 3=2.000",
        ),
        (
            json!({ "score_mode": "first", "boost_mode": "sum", "functions": [
                { "filter": only("a"), "weight": 2 }, { "weight": 5 },
            ] }),
            "2=6.000 1=3.000 3=3.000",
        ),
        (
            json!({ "score_mode": "avg", "functions": [
                { "field_value_factor": { "field": "n" }, "weight": 3 },
                { "field_value_factor": { "field": "n", "factor": 2 }, "weight": 1 },
            ] }),
            "1=125.000 2=12.500 3=1.250",
        ),
        (json!({ "query": only("a"), "weight": 2, "max_boost": 1.5 }), "1=1.500 3=1.500"),
        (json!({ "field_value_factor": { "field": "n" }, "min_score": 5 }), "1=100.000 2=10.000"),
        (json!({ "gauss": { "n": { "origin": 10, "scale": 9, "decay": 0.5 } } }), "2=1.000 3=0.500 1=0.000"),
        (
            json!({ "exp": { "d": { "origin": "2024-01-11", "scale": "10d", "decay": 0.25 } } }),
            "2=1.000 1=0.250 3=0.250",
        ),
        (
            json!({ "linear": { "d": { "origin": "2024-01-21", "scale": "10d", "offset": "5d" } } }),
            "3=1.000 2=0.750 1=0.250",
        ),
        (
            json!({ "linear": { "extra": { "origin": 0, "scale": 9 }, "multi_value_mode": "max" } }),
            "1=1.000 2=1.000 3=0.500",
        ),
    ] {
        assert_eq!(scores(&service, &json!({ "function_score": members })), expected, "{members}");
    }
    let boosting = json!({ "boosting": {
        "positive": { "range": { "n": { "gte": 1 } } }, "negative": only("a"), "negative_boost": 0.25,
    } });
    assert_eq!(scores(&service, &boosting), "2=1.000 1=0.250 3=0.250");
    assert_eq!(scores(&service, &json!({ "bool": { "must": [boosting, only("a")] } })), "1=1.250 3=1.250");
    let random = |seed: &Value| {
        let body = json!({ "function_score": { "random_score": { "seed": seed, "field": "_seq_no" } } });
        scores(&service, &body)
    };
    assert_eq!(random(&json!(7)), random(&json!("7")), "a seed gives one order");
    let orders: std::collections::BTreeSet<String> = (0..20).map(|seed| random(&json!(seed))).collect();
    assert_eq!(orders.len(), 20);
}

#[test]
fn functions_that_cannot_be_are_refused() {
    let (_directory, service) = filled();
    for (members, expected) in [
        (json!({ "script_score": { "script": "Math.random()" } }), "[Math.random] is not part of a formula"),
        (json!({ "functions": [{ "filter": { "match_all": {} } }] }), "has no function"),
        (json!({ "functions": [{ "what": {} }] }), "[what]"),
        (json!({ "functions": [{ "weight": "x" }] }), "[weight]"),
        (json!({ "functions": [], "weight": 1 }), "not both"),
        (json!({ "field_value_factor": { "field": "extra" } }), "Missing value for field [extra]"),
        (json!({ "field_value_factor": { "field": "n", "factor": -1 } }), "invalid score"),
        (json!({ "field_value_factor": { "field": "n", "modifier": "cube" } }), "[cube] is not a modifier"),
        (json!({ "gauss": { "n": { "origin": 1 } } }), "needs a [scale]"),
        (json!({ "gauss": { "n": { "scale": 1 } } }), "[origin]"),
        (json!({ "gauss": { "n": { "origin": 1, "scale": 1, "decay": 2 } } }), "decay must be between"),
        (json!({ "exp": { "d": { "scale": "far" } } }), "[scale]"),
        (json!({ "weight": 1, "score_mode": "replace" }), "illegal score_mode [replace]"),
        (json!({ "weight": 1, "boost_mode": "first" }), "illegal boost_mode [first]"),
        (json!({ "weight": 1, "what": 1 }), "does not support [what]"),
    ] {
        let body = json!({ "query": { "function_score": members } }).to_string();
        let (status, answer) = service.ask("POST /a/_search", &body);
        assert_eq!(status, 400, "{members}: {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(expected), "{members}: {answer}");
    }
    let body = json!({ "query": { "boosting": { "positive": { "match_all": {} } } } }).to_string();
    assert_eq!(service.ask("POST /a/_search", &body).0, 400);
}
