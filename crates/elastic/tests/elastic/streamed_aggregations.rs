//! Values without documents, and documents of nested objects: what aggregations answer that read other
//! documents than those of their buckets.

use serde_json::{Value, json};

use crate::aggregations::{brief, together};
use crate::service_support::{TestService, directory};

const MAPPINGS: &str = r#"{"mappings":{"properties":{
    "k":{"type":"keyword"},"n":{"type":"integer"},"d":{"type":"date"},
    "c":{"type":"nested","properties":{"stars":{"type":"integer"},"day":{"type":"date"}}}}}}"#;

/// The third one is not found by the query.
const DOCUMENTS: [&str; 4] = [
    r#"{"k":"a","n":7,"d":"2024-01-01","c":[{"stars":5,"day":"2024-01-01"},{"stars":1,"day":"2024-03-01"}]}"#,
    r#"{"k":"b","n":3,"d":"2024-05-01","c":{"stars":5,"day":"2024-01-02"}}"#,
    r#"{"k":"c","n":30,"d":"2024-02-01","c":[{"stars":4},{"stars":4},{"stars":1}]}"#,
    r#"{"k":"d","n":2,"d":"2024-02-01"}"#,
];

#[test]
fn values_without_documents_and_documents_of_objects_are_counted() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", MAPPINGS);
    for (number, document) in DOCUMENTS.iter().enumerate() {
        service.get(&format!("PUT /a/_doc/{number}"), document);
    }
    let back = json!({ "back": { "reverse_nested": {} } });
    let objects = |inside: Value| json!({ "nested": { "path": "c" }, "aggs": inside });
    let keys = json!({ "k": { "terms": { "field": "k" } } });
    let all = json!({ "all": objects(json!({})) });
    for (asked, expected) in [
        (objects(back.clone()), ":3{back=:2}"),
        (
            objects(json!({ "x": { "terms": { "field": "c.stars" }, "aggs": back } })),
            ":3{x=5:2{back=:2} 1:1{back=:1}}",
        ),
        (
            objects(json!({ "x": { "filter": { "range": { "c.stars": { "gte": 1 } } },
                "aggs": { "back": { "reverse_nested": {}, "aggs": keys } } } })),
            ":3{x=:3{back=:2{k=a:1 b:1}}}",
        ),
        (
            objects(json!({ "x": { "filter": { "term": { "c.stars": 5 } },
                "aggs": { "back": { "reverse_nested": {}, "aggs": all } } } })),
            ":3{x=:2{back=:2{all=:3}}}",
        ),
        (
            objects(json!({ "back": { "reverse_nested": {}, "aggs": { "all": objects(back.clone()) } } })),
            ":3{back=:2{all=:3{back=:2}}}",
        ),
        // Objects that are chosen or divided when all are known.
        (
            objects(
                json!({ "x": { "auto_date_histogram": { "field": "c.day", "buckets": 1, "format": "yyyy" },
                "aggs": back } }),
            ),
            ":3{x=2024:3{back=:2}}",
        ),
        (objects(json!({ "x": { "sampler": {}, "aggs": back } })), ":3{x=:3{back=:2}}"),
        (
            json!({ "auto_date_histogram": { "field": "d", "buckets": 1, "format": "yyyy" },
                "aggs": { "x": objects(back.clone()) } }),
            "2024:3{x=:3{back=:2}}",
        ),
        (json!({ "sampler": {}, "aggs": { "x": objects(back.clone()) } }), ":3{x=:3{back=:2}}"),
        (json!({ "global": {}, "aggs": { "x": objects(back.clone()) } }), ":4{x=:6{back=:3}}"),
        (json!({ "terms": { "field": "k", "min_doc_count": 0 } }), "a:1 b:1 d:1 c:0"),
        (
            json!({ "terms": { "field": "k", "min_doc_count": "0", "order": { "_key": "desc" } } }),
            "d:1 c:0 b:1 a:1",
        ),
        (
            json!({ "terms": { "field": "k", "min_doc_count": 0, "order": { "n": "asc" } },
                "aggs": { "n": { "sum": { "field": "n" } } } }),
            "c:0{n=0.0} d:1{n=2.0} b:1{n=3.0} a:1{n=7.0}",
        ),
        (
            json!({ "filter": { "term": { "k": "a" } },
                "aggs": { "x": { "terms": { "field": "k", "min_doc_count": 0, "include": ["a", "c"] } } } }),
            ":1{x=a:1 c:0}",
        ),
        (
            json!({ "terms": { "field": "k", "min_doc_count": 0, "include": ["a", "c"] },
                "aggs": { "x": { "terms": { "field": "n", "min_doc_count": 0, "exclude": [2, 3] } } } }),
            "a:1{x=7:1 30:0} c:0{x=7:0 30:0}",
        ),
        (
            json!({ "global": {}, "aggs": { "x": { "terms": { "field": "k", "min_doc_count": 0 } } } }),
            ":4{x=a:1 b:1 c:1 d:1}",
        ),
        (
            objects(json!({ "x": { "terms": { "field": "c.stars", "min_doc_count": 0 } } })),
            ":3{x=5:2 1:1 4:0}",
        ),
    ] {
        let ask = |aggregations: Value| {
            let query = json!({ "range": { "n": { "lt": 20 } } });
            let body = json!({ "size": 0, "query": query, "aggs": aggregations }).to_string();
            service.get("GET /a/_search", &body)["aggregations"]["o"].clone()
        };
        let alone = ask(json!({ "o": asked }));
        assert_eq!(brief(&alone), expected, "{asked}");
        assert_eq!(alone, ask(json!({ "o": asked, "other": together() })), "{asked}: together");
    }
}

#[test]
fn they_keep_no_documents() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    service.get("PUT /a", r#"{"mappings":{"properties":{"c":{"type":"nested"}}}}"#);
    let text = "x".repeat(4_000);
    let lines = (0..400).map(|n| {
        let key = if n < 200 { n % 7 } else { 9 };
        let document = json!({ "n": n, "k": key, "t": text, "c": [{ "s": 1 }, { "s": 2 }] });
        format!("{{\"index\":{{\"_index\":\"a\",\"_id\":\"{n}\"}}}}\n{document}\n")
    });
    assert_eq!(service.get("POST /_bulk", &lines.collect::<String>())["errors"], false);
    let body = r#"{"size":0,"query":{"range":{"n":{"lt":200}}},"aggs":{
        "k":{"terms":{"field":"k","min_doc_count":0}},
        "all":{"global":{},"aggs":{"k":{"terms":{"field":"k","min_doc_count":0,"size":1}}}},
        "c":{"nested":{"path":"c"},"aggs":{"back":{"reverse_nested":{},"aggs":{"n":{"sum":{"field":"n"}}}}}}}}"#;
    let answer = &service.get("GET /a/_search", body)["aggregations"];
    assert_eq!(brief(&answer["k"]), "0:29 1:29 2:29 3:29 4:28 5:28 6:28 9:0");
    assert_eq!(brief(&answer["all"]), ":400{k=9:200}");
    assert_eq!(brief(&answer["c"]), ":400{back=:200{n=19900.0}}");
}
