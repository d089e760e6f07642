//! Rescoring and explanations of hits.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

fn service(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"t":{"type":"text"},"n":{"type":"long"}}}}"#);
    for n in 1..=4 {
        service.get(&format!("PUT /a/_doc/{n}"), &json!({ "t": "some words", "n": n }).to_string());
    }
    service
}

/// Ids and scores of the hits of a search.
fn scores(answer: &Value) -> String {
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    let shown = hits.map(|hit| {
        format!("{}={}", hit["_id"].as_str().expect("an id"), hit["_score"].as_f64().expect("a score"))
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_hits_are_scored_again() {
    let directory = directory();
    let service = service(&directory);
    let by_n = json!({ "function_score": { "field_value_factor": { "field": "n" } } });
    let even = json!({ "constant_score": { "filter": { "terms": { "n": [2, 4] } }, "boost": 3 } });
    for (rescore, rest, expected) in [
        (json!({ "window_size": 4, "query": { "rescore_query": by_n } }), json!({}), "4=5 3=4 2=3 1=2"),
        (json!({ "window_size": 2, "query": { "rescore_query": by_n } }), json!({}), "2=3 1=2 3=1 4=1"),
        // That is the order without one.
        (json!({ "query": { "rescore_query": by_n } }), json!({ "sort": ["_score"] }), "4=5 3=4 2=3 1=2"),
        (
            json!({ "window_size": 2, "query": { "rescore_query": by_n, "query_weight": 5, "rescore_query_weight": 10 } }),
            json!({}),
            "2=25 1=15 3=5 4=5",
        ),
        (json!({ "query": { "rescore_query": even } }), json!({}), "2=4 4=4 1=1 3=1"),
        (
            json!({ "query": { "rescore_query": even, "score_mode": "multiply" } }),
            json!({}),
            "2=3 4=3 1=1 3=1",
        ),
        (json!({ "query": { "rescore_query": even, "score_mode": "avg" } }), json!({}), "2=2 4=2 1=1 3=1"),
        (json!({ "query": { "rescore_query": even, "score_mode": "max" } }), json!({}), "2=3 4=3 1=1 3=1"),
        (json!({ "query": { "rescore_query": even, "score_mode": "min" } }), json!({}), "1=1 2=1 3=1 4=1"),
        (json!({ "window_size": 4, "query": { "rescore_query": by_n } }), json!({ "size": 1 }), "4=5"),
        (
            json!({ "window_size": 4, "query": { "rescore_query": by_n } }),
            json!({ "from": 1, "size": 2 }),
            "3=4 2=3",
        ),
        (json!({ "window_size": 4, "query": { "rescore_query": by_n } }), json!({ "size": 0 }), ""),
        (
            json!([
                { "window_size": 4, "query": { "rescore_query": by_n } },
                { "window_size": 2, "query": { "rescore_query": even } },
            ]),
            json!({}),
            "4=8 3=4 2=3 1=2",
        ),
    ] {
        let mut body = json!({ "rescore": rescore });
        body.as_object_mut().expect("an object").extend(rest.as_object().cloned().unwrap_or_default());
        let answer = service.get("POST /a/_search", &body.to_string());
        assert_eq!(scores(&answer), expected, "{body}");
        assert_eq!(answer["hits"]["total"]["value"], 4, "{body}");
    }
}

#[test]
fn rescoring_that_cannot_be_done_is_refused() {
    let directory = directory();
    let service = service(&directory);
    service.get("PUT /few", r#"{"settings":{"index.max_rescore_window":3}}"#);
    service.get("PUT /small", r#"{"settings":{"index.max_result_window":20}}"#);
    let all = json!({ "query": { "rescore_query": { "match_all": {} } } });
    let with = |name: &str, value: Value| {
        let mut rescore = all.clone();
        rescore["query"][name] = value;
        json!({ "rescore": rescore })
    };
    for (request, body, expected) in [
        (
            "/a/_search",
            json!({ "rescore": all, "sort": ["n"] }),
            "Cannot use [sort] option in conjunction with [rescore].",
        ),
        (
            "/a/_search",
            json!({ "rescore": all, "collapse": { "field": "n" } }),
            "cannot use `collapse` in conjunction with `rescore`",
        ),
        ("/a/_search?scroll=1m", json!({ "rescore": all }), "[rescore] is not allowed in a scroll context"),
        ("/a/_search", json!({ "rescore": [] , "query": { "none": {} } }), "unknown query [none]"),
        ("/a/_search", json!({ "rescore": { "window_size": 3 } }), "missing rescore type"),
        ("/a/_search", json!({ "rescore": { "query": {} } }), "needs [rescore_query]"),
        ("/a/_search", with("score_mode", json!("most")), "illegal score_mode [most]"),
        ("/a/_search", with("query_weight", json!("x")), "[query_weight] of [rescore] cannot be"),
        ("/a/_search", with("what", json!(1)), "does not support [what]"),
        ("/a/_search", json!({ "rescore": { "learned": {} } }), "does not support [learned]"),
        (
            "/a/_search",
            json!({ "rescore": { "window_size": 10_001, "query": all["query"] } }),
            "Rescore window [10001] is too large",
        ),
        (
            "/a,few/_search",
            json!({ "rescore": { "window_size": 4, "query": all["query"] } }),
            "It must be less than [3].",
        ),
        (
            "/small/_search",
            json!({ "rescore": { "window_size": 21, "query": all["query"] } }),
            "It must be less than [20].",
        ),
    ] {
        let (status, answer) = service.ask(&format!("POST {request}"), &body.to_string());
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(reason.contains(expected), "{body}: {reason}");
    }
}

#[test]
fn hits_are_explained_by_the_parts_of_the_query() {
    let directory = directory();
    let service = service(&directory);
    let query = json!({ "bool": {
        "must": { "term": { "n": 2 } }, "filter": { "exists": { "field": "t" } },
        "should": [{ "match_all": { "boost": 3 } }, { "term": { "n": 9 } }],
    } });
    let explained = |request: &str, mut body: Value| {
        body["query"] = query.clone();
        service.get(request, &body.to_string())["hits"]["hits"][0]["_explanation"].take()
    };
    let expected = json!({ "value": 4.0, "description": "sum of:", "details": [
        { "value": 1.0, "description": "terms on [n]", "details": [] },
        { "value": 3.0, "description": "product of boost 3 and:", "details": [
            { "value": 1.0, "description": "*:*", "details": [] },
        ] },
    ] });
    assert_eq!(explained("POST /a/_search", json!({ "explain": true })), expected);
    assert_eq!(explained("POST /a/_search?explain=true", json!({})), expected);
    assert_eq!(explained("POST /a/_search", json!({})), Value::Null);
    assert_eq!(explained("POST /a/_search", json!({ "explain": true, "sort": ["n"] })), expected);
    let rescore = json!({ "query": { "rescore_query": { "match_all": {} }, "query_weight": 2 } });
    let rescored = explained("POST /a/_search", json!({ "explain": true, "rescore": rescore }));
    assert_eq!((&rescored["value"], &rescored["details"]), (&json!(9.0), &json!([expected])));
    assert_eq!(service.ask("POST /a/_search", r#"{"explain":1}"#).0, 400);
}

#[test]
fn fields_have_the_formats_of_their_types() {
    let directory = directory();
    let service = service(&directory);
    service.get("PUT /a/_mapping", r#"{"properties":{"d":{"type":"date"}}}"#);
    let asked = |field: &str| json!({ "fields": [{ "field": field, "format": "yyyy/MM/dd" }] });
    for (field, expected) in [("d", 200), ("none", 200), ("*", 200), ("t", 400), ("n", 400)] {
        let (status, answer) = service.ask("POST /a/_search", &asked(field).to_string());
        assert_eq!(status, expected, "{field}: {answer}");
    }
}
