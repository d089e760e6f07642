//! Fields with vectors, and the documents whose vectors are nearest to one.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

fn ids(answer: &Value) -> String {
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    hits.map(|hit| hit["_id"].as_str().expect("an id")).collect::<Vec<_>>().join(" ")
}

/// A service with two indexes of documents in the plane, the other one in the form of OpenSearch.
fn with_points(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    service.get(
        "PUT /e",
        r#"{"mappings":{"properties":{"t":{"type":"text"},"n":{"type":"long"},
            "v":{"type":"dense_vector","dims":2,"index":true,"similarity":"cosine","index_options":{"type":"hnsw"}},
            "o":{"properties":{"p":{"type":"dense_vector","similarity":"l2_norm"}}}}}}"#,
    );
    service.get(
        "PUT /o",
        r#"{"settings":{"index":{"knn":true}},"mappings":{"properties":{"n":{"type":"long"},"v":{"type":"knn_vector",
            "dimension":2,"method":{"name":"hnsw","space_type":"l2","engine":"faiss","parameters":{"m":16}}}}}}"#,
    );
    for (id, document) in [
        ("1", json!({ "t": "red fox", "n": 1, "v": [1.0, 0.0], "o": { "p": [1, 0] } })),
        ("2", json!({ "t": "blue fox", "n": 2, "v": [3.0, 3.0], "o": { "p": [3, 3] } })),
        ("3", json!({ "t": "red dog", "n": 3, "v": [0.0, 5.0], "o": { "p": [0, 5] } })),
        ("4", json!({ "t": "red cat", "n": 4, "v": [-1.0, 0.0] })),
        ("5", json!({ "t": "red hen", "n": 5 })),
    ] {
        service.get(&format!("PUT /e/_doc/{id}"), &document.to_string());
        service.get(
            &format!("PUT /o/_doc/{id}"),
            &json!({ "n": document["n"], "v": document["v"] }).to_string(),
        );
    }
    service
}

#[test]
fn the_nearest_documents_are_found_in_both_forms() {
    let directory = directory();
    let service = with_points(&directory);
    service.get(
        "POST /_aliases",
        r#"{"actions":[{"add":{"index":"e","alias":"odd","filter":{"terms":{"n":[1,3,5]}}}}]}"#,
    );
    let elastic = |more: Value| {
        let mut knn = json!({ "field": "v", "query_vector": [1, 0.1], "k": 2, "num_candidates": 10 });
        for (name, value) in more.as_object().expect("an object") {
            knn[name] = value.clone();
        }
        json!({ "knn": knn })
    };
    let opensearch = |more: Value| {
        let mut knn = json!({ "vector": [3, 2], "k": 2 });
        for (name, value) in more.as_object().expect("an object") {
            knn[name] = value.clone();
        }
        json!({ "query": { "knn": { "v": knn } } })
    };
    let near_p = json!({ "field": "o.p", "query_vector": [0, 4], "k": 1 });
    for (index, body, expected, total) in [
        ("e", elastic(json!({})), "1 2", 2),
        ("odd", elastic(json!({})), "1 3", 2),
        ("e", elastic(json!({ "filter": { "match": { "t": "red" } } })), "1 3", 2),
        ("e", elastic(json!({ "filter": [{ "match": { "t": "red" } }, { "term": { "n": 4 } }] })), "4", 1),
        ("e", elastic(json!({ "filter": [] })), "1 2", 2),
        ("e", elastic(json!({ "similarity": 0.9, "k": 3 })), "1", 1),
        ("e", json!({ "query": elastic(json!({ "k": 3 })) }), "1 2 3", 3),
        ("e", json!({ "knn": near_p }), "3", 1),
        // A query of its own chooses among those that are nearest.
        (
            "e",
            json!({ "query": { "bool": { "must": elastic(json!({})), "filter": { "term": { "t": "blue" } } } } }),
            "2",
            1,
        ),
        // What the query finds, and what is nearest: two scores of one document are added.
        (
            "e",
            json!({ "query": { "term": { "n": { "value": 5, "boost": 9 } } }, "knn": elastic(json!({}))["knn"] }),
            "5 1 2",
            3,
        ),
        ("e", json!({ "knn": [near_p, elastic(json!({ "k": 1, "boost": 0.1 }))["knn"]] }), "3 1", 2),
        ("e", json!({ "knn": elastic(json!({}))["knn"], "sort": [{ "n": "desc" }] }), "2 1", 2),
        ("e", json!({ "knn": elastic(json!({}))["knn"], "from": 1 }), "2", 2),
        ("e", json!({ "knn": { "field": "v", "query_vector": [1, 0.1] }, "size": 3 }), "1 2 3", 3),
        ("o", opensearch(json!({})), "2 1", 2),
        ("o", opensearch(json!({ "filter": { "range": { "n": { "gte": 3 } } } })), "3 4", 2),
        ("o", opensearch(json!({ "k": null, "max_distance": 8.5 })), "2 1", 2),
        ("o", opensearch(json!({ "k": null, "min_score": 0.4 })), "2", 1),
    ] {
        let answer = service.get(&format!("POST /{index}/_search"), &body.to_string());
        assert_eq!(
            (ids(&answer).as_str(), &answer["hits"]["total"]["value"]),
            (expected, &json!(total)),
            "{body}"
        );
    }
    let answer =
        service.get("POST /e/_search", &elastic(json!({ "query_vector": [1, 0], "k": 1 })).to_string());
    assert_eq!(answer["hits"]["hits"][0]["_score"], 1.0, "{answer}");
    let answer = service.get("POST /o/_search", &opensearch(json!({ "vector": [3, 3], "k": 1 })).to_string());
    assert_eq!(answer["hits"]["hits"][0]["_score"], 1.0, "{answer}");
    let body =
        json!({ "query": elastic(json!({})), "aggs": { "s": { "sum": { "field": "n" } } } }).to_string();
    assert_eq!(service.get("POST /e/_search", &body)["aggregations"]["s"]["value"], 3.0);
    assert_eq!(
        service.get("POST /e/_count", &json!({ "query": elastic(json!({})) }).to_string())["count"],
        2
    );
    let mut page = service.get("POST /e/_search?scroll=1m&size=1", &elastic(json!({})).to_string());
    let mut seen = Vec::new();
    while !ids(&page).is_empty() {
        seen.push(ids(&page));
        page = service.get("POST /_search/scroll", &json!({ "scroll_id": page["_scroll_id"] }).to_string());
    }
    assert_eq!(seen, ["1", "2"]);
}

#[test]
fn results_are_joined_by_their_ranks() {
    let directory = directory();
    let service = with_points(&directory);
    let knn = json!({ "field": "v", "query_vector": [1, 0.1], "k": 3 });
    let red = json!({ "match": { "t": "red" } });
    let marked = json!({ "fields": { "t": {} } });
    let asked = |rrf: Value, size: usize| json!({ "query": red, "knn": knn, "rank": { "rrf": rrf }, "size": size, "highlight": marked });
    // The words find 1 3 4 5, and the vectors 1 2 3.
    for (body, expected, best) in [
        (asked(json!({}), 10), "1 3 2 4 5", 2.0 / 61.0),
        (asked(json!({ "rank_constant": 1, "rank_window_size": 50 }), 10), "1 3 2 4 5", 1.0),
        (asked(json!({ "window_size": 2 }), 2), "1 2", 2.0 / 61.0),
        (json!({ "knn": [knn, knn], "rank": { "rrf": {} } }), "1 2 3", 2.0 / 61.0),
    ] {
        let answer = service.get("POST /e/_search", &body.to_string());
        assert_eq!(ids(&answer), expected, "{body}: {answer}");
        let score = answer["hits"]["max_score"].as_f64().expect("a score");
        assert!((score - best).abs() < 1e-9, "{body}: {score}");
        let shown = &answer["hits"]["hits"][0]["highlight"]["t"][0];
        assert!(body.get("query").is_none() || shown == "<em>red</em> fox", "{answer}");
    }
    let total = service.get("POST /e/_search", &asked(json!({}), 1).to_string());
    assert_eq!(total["hits"]["total"]["value"], 5, "{total}");
    for (body, reason) in [
        (json!({ "query": red, "rank": { "rrf": {} } }), "a minimum of [2] result sets"),
        (json!({ "knn": knn, "rank": { "rrf": {} } }), "a minimum of [2] result sets"),
        (asked(json!({ "rank_window_size": 1 }), 2), "be greater than or equal to [size: 2]"),
        (asked(json!({ "rank_constant": 0 }), 2), "must be from 1 to 10000"),
        (asked(json!({ "most": 0 }), 2), "unknown field [most]"),
        (json!({ "query": red, "knn": knn, "rank": { "sum": {} } }), "[rrf] alone"),
        (
            json!({ "query": red, "knn": knn, "rank": { "rrf": {} }, "sort": "n" }),
            "cannot be used with [sort]",
        ),
    ] {
        let (status, answer) = service.ask("POST /e/_search", &body.to_string());
        assert!(status == 400 && answer.to_string().contains(reason), "{body}: {answer}");
    }
}

#[test]
fn retrievers_are_queries_in_another_form() {
    let directory = directory();
    let service = with_points(&directory);
    let knn = json!({ "field": "v", "query_vector": [1, 0.1], "k": 3 });
    let red = json!({ "match": { "t": "red" } });
    let few = json!({ "range": { "n": { "lt": 4 } } });
    let joined = json!([{ "standard": { "query": red } }, { "knn": knn }]);
    for (retriever, expected) in [
        (json!({ "standard": { "query": red } }), "1 3 4 5"),
        (json!({ "standard": { "query": red, "filter": few, "sort": [{ "n": "desc" }] } }), "3 1"),
        (json!({ "standard": { "filter": [few] } }), "1 2 3"),
        (json!({ "knn": knn }), "1 2 3"),
        (json!({ "rrf": { "retrievers": joined } }), "1 3 2 4 5"),
        (json!({ "rrf": { "retrievers": joined, "rank_constant": 1, "filter": few } }), "1 3 2"),
        (json!({ "rrf": { "retrievers": [{ "knn": knn }, { "knn": knn }] } }), "1 2 3"),
    ] {
        let answer = service.get("POST /e/_search", &json!({ "retriever": retriever }).to_string());
        assert_eq!(ids(&answer), expected, "{retriever}: {answer}");
    }
    for (body, reason) in [
        (json!({ "retriever": { "knn": knn }, "query": red }), "cannot specify [retriever] and [query]"),
        (json!({ "retriever": {} }), "an object of one kind"),
        (json!({ "retriever": { "linear": {} } }), "the retriever [linear]"),
        (json!({ "retriever": { "standard": { "most": 1 } } }), "[most] of the retriever [standard]"),
        (json!({ "retriever": { "rrf": {} } }), "[retrievers] of [rrf] must be an array"),
        (
            json!({ "retriever": { "rrf": { "retrievers": [{ "knn": knn }] } } }),
            "a minimum of [2] result sets",
        ),
    ] {
        let (status, answer) = service.ask("POST /e/_search", &body.to_string());
        assert!(status == 400 && answer.to_string().contains(reason), "{body}: {answer}");
    }
}

#[test]
fn the_nearest_object_of_a_document_counts() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /n",
        r#"{"mappings":{"properties":{"p":{"type":"nested","properties":{
            "v":{"type":"dense_vector","dims":1,"similarity":"l2_norm"},"w":{"type":"knn_vector","dimension":1}}}}}}"#,
    );
    for (id, parts) in [("1", [1, 9]), ("2", [4, 3]), ("3", [30, 20])] {
        let parts = parts.map(|n| json!({ "v": [n], "w": [n] }));
        service.get(&format!("PUT /n/_doc/{id}"), &json!({ "p": parts }).to_string());
    }
    let elastic = json!({ "field": "p.v", "query_vector": [8], "k": 2 });
    let nested = |knn: Value| json!({ "query": { "nested": { "path": "p", "query": { "knn": knn } } } });
    for body in [
        json!({ "knn": elastic }),
        nested(elastic.clone()),
        nested(json!({ "p.w": { "vector": [8], "k": 2 } })),
        nested(json!({ "field": "p.v", "query_vector": [8], "k": 2, "boost": 1 })),
    ] {
        let answer = service.get("POST /n/_search", &body.to_string());
        assert_eq!(ids(&answer), "1 2", "{body}");
        assert_eq!(answer["hits"]["hits"][0]["_score"], 0.5, "{body}");
    }
    let mut shown = nested(elastic);
    shown["query"]["nested"]["inner_hits"] = json!({});
    let (status, answer) = service.ask("POST /n/_search", &shown.to_string());
    assert!(status == 400 && answer.to_string().contains("or [inner_hits]"), "{answer}");
}

#[test]
fn the_nearest_of_many_are_found() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /m",
        r#"{"mappings":{"properties":{"v":{"type":"dense_vector","dims":1,"similarity":"l2_norm"}}}}"#,
    );
    // More than are kept at a time, the nearest first in one order and last in the other.
    for begin in (0..10_200).step_by(1_700) {
        let lines: String = (begin..begin + 1_700)
            .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"v\":[{n}]}}\n"))
            .collect();
        assert_eq!(service.get("POST /m/_bulk", &lines)["errors"], false);
    }
    for (wanted, expected) in [(0, "0 1 2"), (10_199, "10199 10198 10197")] {
        let body = json!({ "knn": { "field": "v", "query_vector": [wanted], "k": 3 } }).to_string();
        assert_eq!(ids(&service.get("POST /m/_search", &body)), expected);
    }
}

#[test]
fn documents_that_are_not_shown_take_little_memory() {
    let directory = directory();
    let service = TestService::open_small(&directory, 2 << 20);
    service.get("PUT /m", r#"{"mappings":{"properties":{"v":{"type":"dense_vector","dims":1}}}}"#);
    let text = "x".repeat(50_000);
    for n in 1..=100 {
        service.get(&format!("PUT /m/_doc/{n}"), &json!({ "v": [n], "t": text }).to_string());
    }
    let body = json!({ "knn": { "field": "v", "query_vector": [1], "k": 100 }, "size": 1, "_source": ["v"] });
    let answer = service.get("POST /m/_search", &body.to_string());
    assert_eq!((&*ids(&answer), &answer["hits"]["total"]["value"]), ("1", &json!(100)));
}

#[test]
fn malformed_vectors_and_queries_for_them_are_refused() {
    let directory = directory();
    let service = with_points(&directory);
    service.get(
        "PUT /b",
        r#"{"mappings":{"properties":{"v":{"type":"dense_vector","dims":2,"element_type":"byte"}}}}"#,
    );
    for (request, body, reason) in [
        ("PUT /e/_doc/9", json!({ "v": [1, 2, 3] }), "number of dimensions [3]"),
        ("PUT /e/_doc/9", json!({ "v": 1 }), "an array of numbers"),
        ("PUT /e/_doc/9", json!({ "v": ["a", "b"] }), "an array of numbers"),
        ("PUT /o/_doc/9", json!({ "v": [] }), "an array of numbers"),
        ("PUT /b/_doc/9", json!({ "v": [1, 128] }), "between [-128, 127] but found [128]"),
        ("PUT /b/_doc/9", json!({ "v": [1, 0.5] }), "between [-128, 127] but found [0.5]"),
        (
            "PUT /x",
            json!({ "mappings": { "properties": { "v": { "type": "knn_vector" } } } }),
            "Dimension value missing",
        ),
        (
            "PUT /x",
            json!({ "mappings": { "properties": { "v": { "type": "dense_vector", "similarity": "near" } } } }),
            "[similarity] cannot be [near]",
        ),
        (
            "PUT /x",
            json!({ "mappings": { "properties": { "v": { "type": "dense_vector", "element_type": "bit" } } } }),
            "[element_type] is [bit]",
        ),
        (
            "PUT /x",
            json!({ "mappings": { "properties": { "v": { "type": "long", "dims": 3 } } } }),
            "unknown parameter",
        ),
        (
            "POST /e/_search",
            json!({ "knn": { "field": "v", "query_vector": [1] } }),
            "number of dimensions [1]",
        ),
        ("POST /e/_search", json!({ "knn": { "field": "n", "query_vector": [1] } }), "is of type [long]"),
        (
            "POST /e/_search",
            json!({ "knn": { "field": "w", "query_vector": [1] } }),
            "does not exist in the mapping",
        ),
        ("POST /e/_search", json!({ "knn": { "field": "v" } }), "[query_vector] of [knn]"),
        (
            "POST /e/_search",
            json!({ "knn": { "field": "v", "query_vector": [1, "x"] } }),
            "[query_vector] of [knn]",
        ),
        (
            "POST /e/_search",
            json!({ "knn": { "field": "v", "query_vector": [1, 2], "k": 0 } }),
            "[k] of [knn]",
        ),
        (
            "POST /e/_search",
            json!({ "knn": { "field": "v", "query_vector": [1, 2], "k": 5, "num_candidates": 2 } }),
            "cannot be less than [k]",
        ),
        (
            "POST /e/_search",
            json!({ "knn": vec![json!({ "field": "v", "query_vector": [1, 2] }); 11] }),
            "may have 10 queries of the kind [knn]",
        ),
        (
            "POST /e/_search",
            json!({ "knn": { "field": "v", "query_vector_builder": {} } }),
            "does not support [query_vector_builder]",
        ),
        (
            "POST /e/_search",
            json!({ "aggs": { "a": { "filter": { "knn": { "field": "v", "query_vector": [1, 2] } } } } }),
            "[knn] in an aggregation",
        ),
        ("POST /e/_search", json!({ "query": { "term": { "v": 1 } } }), "is kept and shown here"),
        ("POST /e/_search", json!({ "sort": ["v"] }), "neither sorted nor aggregated"),
    ] {
        let (status, answer) = service.ask(request, &body.to_string());
        assert!(status == 400 && answer.to_string().contains(reason), "{request} {body}: {answer}");
    }
    let exists = json!({ "query": { "exists": { "field": "v" } } }).to_string();
    assert_eq!(service.get("POST /e/_count", &exists)["count"], 4);
}
