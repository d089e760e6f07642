//! `hybrid` queries: scores of several queries, joined by the pipeline of the search.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Ids of hits with their scores.
fn hits(answer: &Value) -> Vec<(String, f64)> {
    let hits = answer["hits"]["hits"].as_array().unwrap_or_else(|| panic!("hits: {answer}"));
    let of = |hit: &Value| {
        let id = hit["_id"].as_str().expect("an id").to_owned();
        (id, (hit["_score"].as_f64().expect("a score") * 1e4).round() / 1e4)
    };
    hits.iter().map(of).collect()
}

fn constant(field: &str, value: Value, boost: f64) -> Value {
    json!({ "constant_score": { "filter": { "term": { field: value } }, "boost": boost } })
}

/// Queries with the scores 4, 2 and 1 for the documents 1, 2 and 3, and 5 for 2 and 4.
fn queries() -> Value {
    let first = json!({ "bool": { "should": [constant("n", json!(1), 4.0), constant("n", json!(2), 2.0), constant("n", json!(3), 1.0)] } });
    json!([first, constant("k", json!("b"), 5.0)])
}

#[test]
fn scores_of_queries_are_joined_by_the_pipeline() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"k":{"type":"keyword"}}}}"#);
    for (n, k) in [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a")] {
        service.get(&format!("PUT /a/_doc/{n}"), &json!({ "n": n, "k": k }).to_string());
    }
    let pipeline = |normalization: &str, combination: &str, weights: Value| {
        json!({ "description": "d", "phase_results_processors": [{ "normalization-processor": {
            "normalization": { "technique": normalization },
            "combination": { "technique": combination, "parameters": { "weights": weights } },
        } }] })
    };
    let weighted = pipeline("min_max", "arithmetic_mean", json!([0.8, 0.2]));
    service.get("PUT /_search/pipeline/p", &weighted.to_string());
    let ranks = json!({ "phase_results_processors": [{ "score-ranker-processor": {
        "combination": { "technique": "rrf", "rank_constant": 1 } } }] });
    let hybrid = |members: Value| {
        let mut hybrid = json!({ "queries": queries() });
        for (name, value) in members.as_object().expect("an object") {
            hybrid[name] = value.clone();
        }
        json!({ "query": { "hybrid": hybrid } })
    };
    let plain = hybrid(json!({}));
    let with = |pipeline: &Value| {
        let mut body = plain.clone();
        body["search_pipeline"] = pipeline.clone();
        body
    };
    let filtered = hybrid(json!({ "filter": { "range": { "n": { "gte": 2 } } } }));
    for (target, body, expected) in [
        ("", &plain, json!([["2", 0.6667], ["1", 0.5], ["4", 0.5], ["3", 0.0005]])),
        ("?search_pipeline=_none", &plain, json!([["2", 0.6667], ["1", 0.5], ["4", 0.5], ["3", 0.0005]])),
        ("?search_pipeline=p", &plain, json!([["1", 0.8], ["2", 0.4667], ["4", 0.2], ["3", 0.0008]])),
        ("", &with(&json!("p")), json!([["1", 0.8], ["2", 0.4667], ["4", 0.2], ["3", 0.0008]])),
        ("", &with(&ranks), json!([["2", 0.8333], ["1", 0.5], ["4", 0.3333], ["3", 0.25]])),
        ("", &filtered, json!([["2", 1.0], ["4", 0.5], ["3", 0.0005]])),
    ] {
        let answer = service.get(&format!("POST /a/_search{target}"), &body.to_string());
        assert_eq!(json!(hits(&answer)), expected, "{target} {body}: {answer}");
        assert_eq!(answer["hits"]["total"]["value"], expected.as_array().map_or(0, Vec::len), "{answer}");
    }
    // Documents behind those that count are found, and have no score.
    let shallow = hybrid(json!({ "pagination_depth": 1 }));
    let answer = service.get("POST /a/_search", &shallow.to_string());
    assert_eq!(json!(hits(&answer)), json!([["1", 0.5], ["2", 0.5], ["3", 0.0], ["4", 0.0]]), "{answer}");
    let found = service.get("GET /_search/pipeline/p", "");
    assert_eq!(found["p"], weighted, "{found}");
    service.get("DELETE /_search/pipeline/p", "");
    assert_eq!(service.ask("GET /_search/pipeline/p", "").0, 404);
}

#[test]
fn malformed_hybrids_and_pipelines_are_refused() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"n":1}"#);
    let one = json!({ "match_all": {} });
    let inner = json!({ "hybrid": { "queries": [one] } });
    for (body, expected) in [
        (json!({ "query": { "hybrid": { "queries": [] } } }), "an array of 1 to 5 queries"),
        (json!({ "query": { "hybrid": { "queries": [one, one, one, one, one, one] } } }), "1 to 5 queries"),
        (json!({ "query": { "hybrid": { "queries": [one], "boost": 2 } } }), "does not support [boost]"),
        (json!({ "query": { "hybrid": { "queries": [one], "pagination_depth": 0 } } }), "[pagination_depth]"),
        (json!({ "query": { "bool": { "must": [inner] } } }), "must be a top level query"),
        (json!({ "query": inner, "sort": ["n"] }), "[hybrid] cannot be used with [sort]"),
        (json!({ "query": inner, "search_pipeline": "none" }), "Pipeline none is not defined"),
        (json!({ "query": one, "search_pipeline": { "request_processors": [{}] } }), "[request_processors]"),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &body.to_string());
        assert!(status == 400 && answer.to_string().contains(expected), "{body}: {answer}");
    }
    assert_eq!(service.ask("POST /a/_count", &json!({ "query": inner }).to_string()).0, 400);
    let normalization =
        |parts: Value| json!({ "phase_results_processors": [{ "normalization-processor": parts }] });
    let weights =
        |weights: Value| normalization(json!({ "combination": { "parameters": { "weights": weights } } }));
    for (pipeline, expected) in [
        (json!({ "response_processors": [{ "sort": {} }] }), "[response_processors]"),
        (json!({ "phase_results_processors": [{ "other": {} }] }), "the processor [other]"),
        (normalization(json!({ "normalization": { "technique": "z_score" } })), "[z_score]"),
        (normalization(json!({ "combination": { "technique": "sum" } })), "[sum]"),
        (normalization(json!({ "what": {} })), "[what]"),
        (normalization(json!({ "normalization": { "technique": 1 } })), "an object with a [technique]"),
        (normalization(json!({ "normalization": { "parameters": { "weights": [1.0] } } })), "[weights]"),
        (normalization(json!({ "combination": { "parameters": [] } })), "[parameters] of [combination]"),
        (weights(json!([0.5, 0.6])), "whose sum is 1.0"),
        (weights(json!([2.0, -1.0])), "from 0.0 to 1.0"),
    ] {
        let (status, answer) = service.ask("PUT /_search/pipeline/p", &pipeline.to_string());
        assert!(status == 400 && answer.to_string().contains(expected), "{pipeline}: {answer}");
    }
    let mut body = json!({ "query": inner });
    body["search_pipeline"] = weights(json!([0.5, 0.5]));
    let (status, answer) = service.ask("POST /a/_search", &body.to_string());
    assert!(status == 400 && answer.to_string().contains("must match number of sub-queries [1]"), "{answer}");
}
