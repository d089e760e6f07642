//! Types of fields: the values that each takes, and the queries, orders and aggregations over them.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Ids of the hits of a search, in their order.
fn ids(answer: &Value) -> String {
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    hits.filter_map(|hit| hit["_id"].as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn types_that_are_kept_are_shown_and_exist() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (field, good, bad) in [
        (
            json!({ "type": "histogram" }),
            json!({ "values": [0.1, 0.2], "counts": [3, 7] }),
            json!({ "values": [1], "counts": [] }),
        ),
        (
            json!({ "type": "aggregate_metric_double", "metrics": ["min", "max"], "default_metric": "max" }),
            json!({ "min": 1, "max": 2.5 }),
            json!({ "min": "x" }),
        ),
        (json!({ "type": "rank_feature", "positive_score_impact": false }), json!(1.5), json!(-1)),
        (json!({ "type": "rank_features" }), json!({ "a": 1 }), json!(1)),
        (json!({ "type": "geo_shape" }), json!({ "type": "point", "coordinates": [1, 2] }), json!(1)),
        (json!({ "type": "shape" }), json!("POINT (1 2)"), json!(true)),
        (json!({ "type": "point" }), json!({ "x": 1, "y": 2 }), Value::Null),
        (json!({ "type": "geo_point" }), json!({ "lat": 1, "lon": 2 }), Value::Null),
        (json!({ "type": "binary" }), json!("AAAA"), Value::Null),
    ] {
        service.get("PUT /a", &json!({ "mappings": { "properties": { "f": field } } }).to_string());
        service.get("PUT /a/_doc/1", &json!({ "f": good, "k": "x" }).to_string());
        service.get("PUT /a/_doc/2", r#"{"k":"x"}"#);
        if !bad.is_null() {
            let (status, answer) = service.ask("PUT /a/_doc/3", &json!({ "f": bad }).to_string());
            assert_eq!(
                (status, &answer["error"]["type"]),
                (400, &json!("document_parsing_exception")),
                "{field}"
            );
        }
        let body = json!({ "query": { "exists": { "field": "f" } }, "fields": ["f"] }).to_string();
        let found = service.get("POST /a/_search", &body);
        assert_eq!(ids(&found), "1", "{field}");
        let hit = &found["hits"]["hits"][0];
        assert_eq!((&hit["_source"]["f"], &hit["fields"]["f"]), (&good, &json!([good])), "{field}");
        for body in [
            json!({ "query": { "term": { "f": "x" } } }),
            json!({ "query": { "match": { "f": "x" } } }),
            json!({ "query": { "range": { "f": { "gte": 1 } } } }),
            json!({ "sort": "f" }),
            json!({ "aggs": { "t": { "terms": { "field": "f" } } } }),
        ] {
            assert_eq!(service.ask("POST /a/_search", &body.to_string()).0, 400, "{field}: {body}");
        }
        // A query over all fields passes it over.
        let all = json!({ "query": { "multi_match": { "query": "x" } } }).to_string();
        assert_eq!(service.get("POST /a/_count", &all)["count"], 2, "{field}");
        let caps = &service.get("GET /a/_field_caps?fields=f", "")["fields"]["f"];
        let kind = field["type"].as_str().expect("a type");
        assert_eq!(
            (&caps[kind]["searchable"], &caps[kind]["aggregatable"]),
            (&json!(false), &json!(false)),
            "{caps}"
        );
        service.get("DELETE /a", "");
    }
}

#[test]
fn fields_of_passed_through_objects_have_short_names() {
    let directory = directory();
    let service = TestService::open(&directory);
    let body = json!({ "mappings": { "properties": {
        "attributes": { "type": "passthrough", "priority": 10, "dynamic": true, "properties": {} },
        "resource": { "properties": { "attributes": { "type": "passthrough", "priority": 20, "dynamic": true } } },
        "level": { "type": "keyword" },
    } } });
    service.get("PUT /a", &body.to_string());
    for (id, document) in [
        ("1", json!({ "attributes": { "http.method": "GET", "host": "one", "n": 1 }, "level": "info" })),
        (
            "2",
            json!({ "attributes": { "host": "two", "level": "debug" }, "resource": { "attributes": { "host": "three" } } }),
        ),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    for (query, expected) in [
        (json!({ "match": { "http.method": "get" } }), "1"),
        (json!({ "match": { "attributes.http.method": "get" } }), "1"),
        (json!({ "term": { "http.method.keyword": "GET" } }), "1"),
        // The object with the higher priority has the name.
        (json!({ "match": { "host": "three" } }), "2"),
        (json!({ "match": { "host": "two" } }), ""),
        (json!({ "match": { "attributes.host": "two" } }), "2"),
        // A field of the document itself comes first.
        (json!({ "term": { "level": "debug" } }), ""),
        (json!({ "term": { "level": "info" } }), "1"),
        (json!({ "range": { "n": { "gte": 1 } } }), "1"),
        (json!({ "exists": { "field": "none" } }), ""),
    ] {
        let found = service.get("POST /a/_search", &json!({ "query": query }).to_string());
        assert_eq!(ids(&found), expected, "{query}");
    }
    let counted = service.get(
        "POST /a/_search",
        r#"{"size":0,"aggs":{"m":{"terms":{"field":"http.method.keyword"}},"n":{"max":{"field":"n"}}}}"#,
    );
    assert_eq!(counted["aggregations"]["m"]["buckets"][0]["key"], "GET", "{counted}");
    assert_eq!(counted["aggregations"]["n"]["value"], 1.0, "{counted}");
    let without = json!({ "mappings": { "properties": { "o": { "type": "passthrough" } } } });
    assert_eq!(service.ask("PUT /b", &without.to_string()).0, 400, "it needs a priority");
}

#[test]
fn versions_and_counts_of_words_are_compared_as_such() {
    let directory = directory();
    let service = TestService::open(&directory);
    let body = json!({
        "settings": { "analysis": { "analyzer": { "few": { "tokenizer": "standard", "filter": ["lowercase", "stop"] } } } },
        "mappings": { "properties": {
            "v": { "type": "version" }, "c": { "type": "counted_keyword" },
            "t": { "type": "text", "fields": {
                "length": { "type": "token_count", "analyzer": "standard", "null_value": 0 },
                "few": { "type": "token_count", "analyzer": "few" },
            } },
        } },
    });
    service.get("PUT /a", &body.to_string());
    for (id, document) in [
        ("1", json!({ "v": "1.10.0", "t": "one two three", "c": ["a", "a"] })),
        ("2", json!({ "v": "1.9.0", "t": "one", "c": "b" })),
        ("3", json!({ "v": "1.10.0-rc.1", "t": "end of the" })),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    for (body, expected) in [
        (json!({ "sort": "v" }), "2 3 1"),
        (json!({ "sort": [{ "v": "desc" }] }), "1 3 2"),
        (json!({ "sort": "v", "search_after": ["1.10.0-rc.1"] }), "1"),
        (json!({ "query": { "range": { "v": { "gt": "1.9", "lt": "1.10.0" } } }, "sort": "v" }), "2 3"),
        (json!({ "query": { "term": { "v": "1.9.0" } } }), "2"),
        (json!({ "query": { "prefix": { "v": "1.10" } }, "sort": "v" }), "3 1"),
        (json!({ "query": { "term": { "t.length": 3 } }, "sort": "v" }), "3 1"),
        (json!({ "query": { "range": { "t.length": { "lt": 2 } } } }), "2"),
        // Positions count, also those of words that are left out before others.
        (json!({ "query": { "term": { "t.few": 1 } }, "sort": "v" }), "2 3"),
        (json!({ "sort": [{ "t.length": "asc" }, "v"] }), "2 3 1"),
        (json!({ "query": { "term": { "c": "a" } } }), "1"),
    ] {
        assert_eq!(ids(&service.get("POST /a/_search", &body.to_string())), expected, "{body}");
    }
    let body = r#"{"size":0,"aggs":{"v":{"terms":{"field":"v"}},"n":{"sum":{"field":"t.length"}}}}"#;
    let counted = service.get("POST /a/_search", body);
    assert_eq!(counted["aggregations"]["v"]["buckets"].as_array().map_or(0, Vec::len), 3, "{counted}");
    assert_eq!(counted["aggregations"]["n"]["value"], 7.0, "{counted}");
}

/// Many values of `terms` are looked up, and find what as many queries for one value each find.
#[test]
fn many_values_find_what_each_of_them_finds() {
    let directory = directory();
    let service = TestService::open(&directory);
    let properties = json!({
        "k": { "type": "keyword" }, "short": { "type": "keyword", "ignore_above": 2 },
        "low": { "type": "keyword", "normalizer": "lowercase" }, "n": { "type": "integer" },
        "x": { "type": "double" }, "t": { "type": "text" },
    });
    service.get("PUT /a", &json!({ "mappings": { "properties": properties } }).to_string());
    let values = [
        json!("a"),
        json!("A"),
        json!("abc"),
        json!("é"),
        json!(""),
        json!(5),
        json!("5"),
        json!(5.0),
        json!(5.5),
        json!(-3),
        json!("7 "),
        json!(9_007_199_254_740_993_i64),
        json!(["b", "abc"]),
        json!([4, 6]),
        json!(null),
    ];
    let mut documents = 0;
    for field in ["k", "short", "low", "n", "x", "t"] {
        for value in &values {
            // Not each value is one of the type.
            let document = json!({ field: value }).to_string();
            let (status, _) = service.ask(&format!("PUT /a/_doc/{documents}"), &document);
            documents += usize::from(status == 201);
        }
    }
    assert!(documents > 50, "{documents}");
    let words = ["a", "b", "abc", "A", "ab", "5", "x", "y", "z", "0", "11"].map(|word| json!(word));
    let numbers = [5, 4, -3, 7, 100, 101, 102, 103, 104, 105].map(|number| json!(number));
    let large = [json!(9_007_199_254_740_992_i64), json!(9_007_199_254_740_993_i64)];
    let fractions = [json!(5.5), json!(5.25)];
    for field in ["k", "short", "low", "t", "n", "x", "_id", "none"] {
        let is_number = ["n", "x"].contains(&field);
        let lists = match is_number {
            false => vec![words.to_vec(), [&words[..], &numbers[..]].concat()],
            true => vec![[&numbers[..], &large[..]].concat(), [&numbers[..], &fractions[..]].concat()],
        };
        for list in lists {
            let search = |query: Value| {
                let body = json!({ "query": query, "size": 1000, "sort": "_id" }).to_string();
                ids(&service.get("POST /a/_search", &body))
            };
            let each: Vec<Value> = list.iter().map(|value| json!({ "term": { field: value } })).collect();
            let expected = search(json!({ "bool": { "should": each } }));
            assert_eq!(search(json!({ "terms": { field: list } })), expected, "{field}: {list:?}");
            assert!(field == "none" || !expected.is_empty(), "{field}: {list:?}");
        }
    }
}
