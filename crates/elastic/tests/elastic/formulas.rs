//! Scripts that are formulas: scores of documents, and figures of buckets.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

#[test]
fn scores_are_those_of_formulas() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"v":{"type":"dense_vector","dims":2},"o":{"type":"knn_vector","dimension":2},
            "n":{"type":"long"},"t":{"type":"text"}}}}"#,
    );
    for (id, document) in [
        ("1", json!({ "v": [1, 0], "o": [1, 0], "n": 5, "t": "red" })),
        ("2", json!({ "v": [3, 4], "o": [3, 4], "n": 2, "t": "red" })),
        ("3", json!({ "t": "blue" })),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    let red = json!({ "term": { "t": "red" } });
    let scored = |query: &Value, source: &str| json!({ "script_score": { "query": query, "script": { "source": source, "params": { "w": [0, 2], "two": 2 } } } });
    for (query, expected) in [
        (scored(&red, "cosineSimilarity(params.w, 'v') + 1.0"), json!([["2", 1.8], ["1", 1.0]])),
        (
            scored(&red, "double x = dotProduct(params.w, 'v'); return x + 1;"),
            json!([["2", 9.0], ["1", 1.0]]),
        ),
        (scored(&red, "1 / (1 + l1norm(params.w, doc['o']))"), json!([["1", 0.25], ["2", 0.166]])),
        (
            scored(&json!({ "match_all": {} }), "doc['n'].size() == 0 ? 0 : doc['n'].value * params.two"),
            json!([["1", 10.0], ["2", 4.0], ["3", 0.0]]),
        ),
        (
            json!({ "function_score": { "query": { "constant_score": { "filter": red, "boost": 3 } },
                "script_score": { "script": "_score - 1" }, "boost_mode": "sum" } }),
            json!([["1", 5.0], ["2", 5.0]]),
        ),
        (
            json!({ "script_score": { "query": red, "min_score": 0.3, "script": { "lang": "knn", "source": "knn_score",
                "params": { "field": "o", "query_value": [3, 4], "space_type": "l2" } } } }),
            json!([["2", 1.0]]),
        ),
        (
            json!({ "script_score": { "query": red, "script": { "lang": "knn", "source": "knn_score",
                "params": { "field": "o", "query_value": [3, 4], "space_type": "cosinesimil" } } } }),
            json!([["2", 2.0], ["1", 1.6]]),
        ),
        // Documents without a vector have the score 0.
        (
            json!({ "script_score": { "query": { "match_all": {} }, "script": { "lang": "knn", "source": "knn_score",
                "params": { "field": "o", "query_value": [3, 4], "space_type": "innerproduct" } } } }),
            json!([["2", 26.0], ["1", 4.0], ["3", 0.0]]),
        ),
        (
            scored(
                &json!({ "match_all": {} }),
                "doc['v'].size() == 0 || doc['t'].empty ? 0 : doc['v'].size()",
            ),
            json!([["1", 1.0], ["2", 1.0], ["3", 0.0]]),
        ),
    ] {
        let answer = service.get("POST /a/_search", &json!({ "query": query }).to_string());
        let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
        let found: Vec<(&str, f64)> = hits
            .map(|hit| (hit["_id"].as_str().expect("an id"), hit["_score"].as_f64().expect("a score")))
            .map(|(id, score)| (id, (score * 1_000.0 + 1e-6).floor() / 1_000.0))
            .collect();
        assert_eq!(json!(found), expected, "{query}: {answer}");
    }
    for (query, reason) in [
        (
            scored(&red, "cosineSimilarity(params.w, 'none')"),
            "doesn't have a value for the vector field [none]",
        ),
        (scored(&json!({ "match_all": {} }), "doc['n'].value"), "doesn't have a value for the field [n]"),
        (scored(&red, "_score - 7"), "invalid score"),
        (scored(&red, "for (int i = 0; i < 2; i++) {}"), "is not part of a formula"),
        (json!({ "script_score": { "query": red } }), "requires 'script' field"),
        (json!({ "script_score": { "script": "1" } }), "requires 'query' field"),
        (json!({ "script_score": { "query": red, "script": { "id": "kept" } } }), "[id] of a script"),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &json!({ "query": query }).to_string());
        assert!(status == 400 && answer.to_string().contains(reason), "{query}: {answer}");
    }
}

#[test]
fn documents_have_as_many_of_several_terms_as_is_said() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"k":{"type":"keyword"},"o":{"type":"keyword"},"least":{"type":"long"}}}}"#,
    );
    for (id, document) in [
        ("1", json!({ "k": ["a", "b"], "least": 2 })),
        ("2", json!({ "k": ["a", "b", "c"], "least": 3 })),
        ("3", json!({ "k": "a", "o": ["x", "y"] })),
        ("4", json!({ "least": 0 })),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    let set = |terms: Value, name: &str, minimum: Value| {
        let mut options = json!({ "terms": terms });
        options[name] = minimum;
        json!({ "query": { "terms_set": { "k": options } } }).to_string()
    };
    let (field, script) = ("minimum_should_match_field", "minimum_should_match_script");
    let own_terms = json!({ "source": "Math.max(params.num_terms, doc['k'].size())" });
    for (body, expected) in [
        (set(json!(["a", "b"]), field, json!("least")), "1"),
        (set(json!(["a", "b", "c", "d"]), field, json!("least")), "2 1"),
        (set(json!(["a", "b"]), script, own_terms.clone()), "1"),
        (set(json!(["a"]), script, own_terms), "3"),
        (
            set(
                json!(["a", "c"]),
                script,
                json!({ "source": "params.num_terms - params.less", "params": { "less": 1 } }),
            ),
            "2 1 3",
        ),
        (set(json!(["a", "c"]), script, json!("params.num_terms")), "2"),
        (set(json!(["b", "c"]), "minimum_should_match", json!(1)), "2 1"),
        // One term has to be there.
        (set(json!(["a"]), script, json!("0")), "1 2 3"),
        (set(json!([]), script, json!("0")), ""),
    ] {
        let answer = service.get("POST /a/_search", &body);
        let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
        let found: Vec<&str> = hits.map(|hit| hit["_id"].as_str().expect("an id")).collect();
        assert_eq!(found.join(" "), expected, "{body}: {answer}");
    }
    for (body, reason) in [
        (set(json!("a"), script, json!("1")), "must be an array"),
        (set(json!(["a"]), "minimum", json!(1)), "does not support [minimum]"),
        (json!({ "query": { "terms_set": { "k": { "terms": ["a"] } } } }).to_string(), "needs one of"),
        (set(json!(["a"]), script, json!("doc['k'].values")), "is not part of a formula"),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &body);
        assert!(status == 400 && answer.to_string().contains(reason), "{body}: {answer}");
    }
}

#[test]
fn buckets_have_figures_of_formulas_and_are_chosen_by_them() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"k":{"type":"keyword"},"n":{"type":"long"}}}}"#);
    for (id, (key, number)) in [("x", 1), ("x", 3), ("y", 10), ("z", 0)].into_iter().enumerate() {
        service.get(&format!("PUT /a/_doc/{id}"), &json!({ "k": key, "n": number }).to_string());
    }
    service.get("PUT /a/_doc/none", r#"{"k":"w"}"#);
    let asked = |pipelines: Value| {
        let mut inner = json!({ "s": { "sum": { "field": "n" } }, "m": { "max": { "field": "n" } } });
        for (name, pipeline) in pipelines.as_object().expect("an object") {
            inner[name] = pipeline.clone();
        }
        let terms = json!({ "field": "k", "order": { "_key": "asc" } });
        json!({ "size": 0, "aggs": { "k": { "terms": terms, "aggs": inner } } }).to_string()
    };
    let share = json!({ "bucket_script": {
        "buckets_path": { "sum": "s", "max": "m" }, "script": "params.max / params.sum * 100", "format": "0.0" } });
    for (pipelines, figure, expected) in [
        // Of the sum 0 there is no share, and without a number no maximum.
        (json!({ "b": share }), "value", json!([["w", null], ["x", 75.0], ["y", 100.0], ["z", null]])),
        (
            json!({ "b": share }),
            "value_as_string",
            json!([["w", null], ["x", "75.0"], ["y", "100.0"], ["z", null]]),
        ),
        (
            json!({ "b": { "bucket_script": { "buckets_path": { "sum": "s", "own": "_count" },
                "script": { "lang": "expression", "inline": "sum + own" } } } }),
            "value",
            json!([["w", 1.0], ["x", 6.0], ["y", 11.0], ["z", 1.0]]),
        ),
        (
            json!({ "b": { "bucket_script": { "buckets_path": { "other": "a" }, "script": "params.other + 1" } },
                "a": { "bucket_script": { "buckets_path": { "sum": "s" }, "script": "params.sum * 2" } } }),
            "value",
            json!([["w", 1.0], ["x", 9.0], ["y", 21.0], ["z", 1.0]]),
        ),
        (
            json!({ "c": { "bucket_selector": { "buckets_path": { "sum": "s" },
                "script": "params.sum > 2 && params.sum < 9" } } }),
            "value",
            json!([["x", null]]),
        ),
    ] {
        let body = asked(pipelines);
        let answer = service.get("POST /a/_search", &body);
        let buckets = answer["aggregations"]["k"]["buckets"].as_array().expect("buckets").iter();
        let found: Vec<Value> = buckets.map(|bucket| json!([bucket["key"], bucket["b"][figure]])).collect();
        assert_eq!(json!(found), expected, "{body}: {answer}");
    }
    for (pipeline, reason) in [
        (
            json!({ "bucket_script": { "buckets_path": { "x": "none" }, "script": "params.x" } }),
            "No aggregation found",
        ),
        (
            json!({ "bucket_script": { "buckets_path": { "x": "s" }, "script": "params.y" } }),
            "[params.y] is not part",
        ),
        (json!({ "bucket_script": { "buckets_path": { "x": "s" } } }), "Required [script]"),
        (json!({ "bucket_script": { "script": "1" } }), "[buckets_path] of [b] must be"),
        (json!({ "bucket_selector": { "buckets_path": { "x": 1 }, "script": "1" } }), "is not a text"),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &asked(json!({ "b": pipeline })));
        assert!(status == 400 && answer.to_string().contains(reason), "{pipeline}: {answer}");
    }
}
