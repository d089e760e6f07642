//! Parameters of fields in mappings: what searches, sorting and aggregations make of them, and what is
//! refused.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Ids of the documents that a search body finds, in the order of their ids.
fn found(service: &TestService, body: &Value) -> String {
    let answer = service.get("POST /a/_search", &body.to_string());
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    let mut ids: Vec<&str> = hits.filter_map(|hit| hit["_id"].as_str()).collect();
    ids.sort_unstable();
    ids.join(" ")
}

/// A service with an index of these settings and fields, and documents by their ids.
fn service_with(
    settings: &Value,
    fields: &Value,
    documents: &[(&str, Value)],
) -> (tempfile::TempDir, TestService) {
    let directory = directory();
    let service = TestService::open(&directory);
    let body = json!({ "settings": settings, "mappings": { "properties": fields } });
    service.get("PUT /a", &body.to_string());
    for (id, document) in documents {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    (directory, service)
}

#[test]
fn parameters_that_there_are_do_what_they_say() {
    let settings = json!({ "analysis": { "normalizer": {
        "plain": { "type": "custom", "filter": ["lowercase", "asciifolding"] },
    } } });
    let fields = json!({
        "first": { "type": "keyword", "copy_to": "name" },
        "last": { "type": "keyword", "copy_to": ["name", "any"] },
        "name": { "type": "text" },
        "any": { "type": "keyword", "normalizer": "lowercase" },
        "state": { "type": "keyword", "null_value": "none", "fields": { "raw": { "type": "keyword" } } },
        "count": { "type": "long", "null_value": 7 },
        "city": {
            "type": "keyword", "normalizer": "plain",
            "fields": { "raw": { "type": "keyword" }, "low": { "type": "keyword", "normalizer": "lowercase" } },
        },
        "title": { "type": "text", "fields": { "plain": { "type": "keyword", "normalizer": "plain" } } },
        "parts": { "type": "nested", "properties": { "k": { "type": "keyword", "normalizer": "lowercase" } } },
        "price": { "type": "scaled_float", "scaling_factor": 10 },
        "kind": { "type": "constant_keyword", "value": "log" },
        "whole": { "type": "integer" },
        "short": { "type": "keyword", "ignore_above": 3 },
        "loose": { "type": "long", "ignore_malformed": true },
        "path": { "type": "text", "analyzer": "whitespace" },
        "code": { "type": "text", "analyzer": "keyword", "search_analyzer": "standard" },
        "letters": { "type": "text", "analyzer": "simple" },
    });
    let (_directory, service) = service_with(
        &settings,
        &fields,
        &[
            (
                "1",
                json!({
                    "first": "Ada", "last": "Byron", "state": null, "count": [null, 1], "city": "ÉVREUX", "title": "Été Rouge",
                    "parts": [{ "k": "X" }, { "k": "Y" }], "price": 1.26, "whole": 3.9, "short": "abcd", "loose": "many",
                    "path": "Usr/Bin x", "code": "one", "letters": "a1b",
                }),
            ),
            (
                "2",
                json!({
                    "first": "Bob", "name": "Ada Lee", "state": "open", "city": "evry", "title": "été", "parts": [{ "k": "x" }],
                    "price": 2, "whole": 4, "short": "abc", "loose": 5, "path": "usr/bin", "code": "one two", "letters": "ab",
                }),
            ),
        ],
    );
    for (query, expected) in [
        (json!({ "match": { "name": "ada" } }), "1 2"),
        (json!({ "match": { "name": { "query": "ada byron", "operator": "and" } } }), "1"),
        (json!({ "term": { "any": "BYRON" } }), "1"),
        (json!({ "term": { "first": "ada" } }), ""),
        (json!({ "term": { "state": "none" } }), "1"),
        (json!({ "exists": { "field": "state" } }), "1 2"),
        (json!({ "range": { "count": { "gte": 7 } } }), "1"),
        (json!({ "term": { "count": 1 } }), "1"),
        (json!({ "exists": { "field": "count" } }), "1"),
        (json!({ "term": { "city": "Évreux" } }), "1"),
        (json!({ "terms": { "city": ["EVREUX", "EVRY"] } }), "1 2"),
        (json!({ "prefix": { "city": "ÉV" } }), "1 2"),
        (json!({ "wildcard": { "city": "ÉVR*X" } }), "1"),
        (json!({ "match": { "city": "EVRY" } }), "2"),
        // Fields in it have the values as they were sent.
        (json!({ "term": { "city.raw": "ÉVREUX" } }), "1"),
        (json!({ "term": { "city.raw": "evreux" } }), ""),
        (json!({ "term": { "city.low": "Évreux" } }), "1"),
        (json!({ "exists": { "field": "state.raw" } }), "2"),
        (json!({ "range": { "city": { "gt": "EVREUX" } } }), "2"),
        (json!({ "term": { "title.plain": "ETE ROUGE" } }), "1"),
        (json!({ "term": { "title": "ete" } }), ""),
        (json!({ "term": { "title": "été" } }), "1 2"),
        (json!({ "multi_match": { "query": "ETE", "fields": ["title.*"] } }), "2"),
        (json!({ "nested": { "path": "parts", "query": { "term": { "parts.k": "X" } } } }), "1 2"),
        (
            json!({ "nested": { "path": "parts", "query": { "bool": { "must": [
            { "term": { "parts.k": "X" } }, { "term": { "parts.k": "Y" } },
        ] } } } }),
            "",
        ),
        (json!({ "term": { "price": 1.3 } }), "1"),
        (json!({ "term": { "kind": "log" } }), "1 2"),
        (json!({ "term": { "whole": 3 } }), "1"),
        (json!({ "range": { "whole": { "lte": 3 } } }), "1"),
        (json!({ "prefix": { "short": "abc" } }), "2"),
        (json!({ "exists": { "field": "short" } }), "2"),
        (json!({ "exists": { "field": "loose" } }), "2"),
        (json!({ "prefix": { "loose": "man" } }), ""),
        (json!({ "term": { "_ignored": "loose" } }), "1"),
        (json!({ "match": { "path": "Usr/Bin" } }), "1"),
        (json!({ "match": { "path": "usr" } }), ""),
        (json!({ "match": { "code": "one two" } }), "1"),
        (json!({ "match": { "code": { "query": "one two", "analyzer": "keyword" } } }), "2"),
        (json!({ "query_string": { "query": "code:\"one two\"", "analyzer": "keyword" } }), "2"),
        (json!({ "query_string": { "query": "path:usr\\/bin", "analyzer": "whitespace" } }), "2"),
        (json!({ "match": { "letters": "a" } }), "1"),
        (json!({ "match": { "letters": "a9B" } }), "1"),
    ] {
        assert_eq!(found(&service, &json!({ "query": query })), expected, "{query}");
    }
    // What is shown is what was sent.
    let shown = service.get("POST /a/_search", r#"{"query":{"term":{"city":"evreux"}},"fields":["city"]}"#);
    let hit = &shown["hits"]["hits"][0];
    assert_eq!((&hit["_source"]["city"], &hit["_source"]["state"]), (&json!("ÉVREUX"), &Value::Null));
    assert_eq!((&hit["_source"]["name"], &hit["fields"]["city"]), (&Value::Null, &json!(["ÉVREUX"])));
    let body = json!({
        "size": 0,
        "aggs": {
            "city": { "terms": { "field": "city" } }, "raw": { "terms": { "field": "city.raw" } },
            "plain": { "terms": { "field": "title.plain" } },
            "state": { "terms": { "field": "state" } }, "kind": { "terms": { "field": "kind" } },
            "short": { "terms": { "field": "short" } }, "any": { "terms": { "field": "any" } },
            "price": { "max": { "field": "price" } }, "of_name": { "filter": { "match": { "name": "byron" } } },
        },
    });
    let aggregations = service.get("POST /a/_search", &body.to_string())["aggregations"].take();
    for (name, expected) in [
        ("city", "evreux evry"),
        ("raw", "evry ÉVREUX"),
        ("plain", "ete ete rouge"),
        ("state", "none open"),
        ("kind", "log"),
        ("short", "abc"),
        ("any", "byron"),
    ] {
        let buckets = aggregations[name]["buckets"].as_array().expect("buckets").iter();
        let mut keys: Vec<&str> = buckets.filter_map(|bucket| bucket["key"].as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys.join(" "), expected, "{name}");
    }
    assert_eq!(
        (&aggregations["price"]["value"], &aggregations["of_name"]["doc_count"]),
        (&json!(2.0), &json!(1))
    );
    let sorted = service.get("POST /a/_search", r#"{"sort":[{"city":"desc"}]}"#);
    assert_eq!(sorted["hits"]["hits"][1]["sort"], json!(["evreux"]));
}

/// Columns have the values as they were sent; searches of logs compare them in the same form.
#[test]
fn logs_are_searched_by_the_same_parameters() {
    let directory = directory();
    let service = TestService::open(&directory);
    let mappings = json!({ "properties": {
        "city": { "type": "keyword", "normalizer": "plain" }, "state": { "type": "keyword", "null_value": "none" },
        "first": {
            "type": "keyword", "copy_to": "name", "fields": { "low": { "type": "keyword", "normalizer": "lowercase" } },
        },
        "name": { "type": "text" }, "kind": { "type": "constant_keyword", "value": "log" }, "short": { "type": "keyword", "ignore_above": 3 },
        "seen": { "type": "date", "null_value": "2024-01-02" }, "path": { "type": "text", "analyzer": "simple" },
    } });
    let settings = json!({
        "index.mode": "logsdb",
        "analysis": { "normalizer": { "plain": { "type": "custom", "filter": ["lowercase", "asciifolding"] } } },
    });
    let template = json!({
        "index_patterns": ["logs"], "data_stream": {}, "template": { "settings": settings, "mappings": mappings },
    });
    service.get("PUT /_index_template/logs", &template.to_string());
    let mut lines = String::new();
    for n in 0..40 {
        let document = match n % 2 {
            0 => {
                json!({ "@timestamp": n, "city": "EVREUX", "state": null, "first": "Ada", "short": "abcd", "seen": null, "path": "A1b" })
            }
            _ => {
                json!({ "@timestamp": n, "city": "Paris", "state": "open", "first": "Bob", "short": "abc", "seen": 0, "path": "ab" })
            }
        };
        lines.push_str(&format!("{{\"create\":{{}}}}\n{document}\n"));
    }
    assert_eq!(service.get("POST /logs/_bulk", &lines)["errors"], false);
    // The second time columns are there that the first has made.
    for turn in 0..2 {
        for (query, expected) in [
            (json!({ "term": { "city": "Évreux" } }), 20),
            (json!({ "prefix": { "city": "EV" } }), 20),
            (json!({ "term": { "state": "none" } }), 20),
            (json!({ "exists": { "field": "state" } }), 40),
            (json!({ "match": { "name": "ada" } }), 20),
            (json!({ "term": { "kind": "log" } }), 40),
            (json!({ "prefix": { "short": "abc" } }), 20),
            (json!({ "range": { "seen": { "gte": "2024-01-01" } } }), 20),
            (json!({ "match": { "path": "a9" } }), 20),
            (json!({ "term": { "first.low": "ADA" } }), 20),
            (json!({ "exists": { "field": "_ignored" } }), 20),
            (json!({ "term": { "_ignored": "first" } }), 0),
        ] {
            let body = json!({ "query": query });
            assert_eq!(
                service.get("GET /logs/_count", &body.to_string())["count"],
                expected,
                "{turn} {query}"
            );
        }
        let body = json!({ "size": 0, "aggs": {
            "city": { "terms": { "field": "city" } }, "state": { "terms": { "field": "state" } },
            "kind": { "terms": { "field": "kind" } }, "short": { "terms": { "field": "short" } },
            "days": { "date_histogram": { "field": "seen", "calendar_interval": "day", "min_doc_count": 1 } },
        } });
        let answer = service.get("POST /logs/_search", &body.to_string())["aggregations"].take();
        for (name, expected) in [
            ("city", "evreux=20 paris=20"),
            ("state", "none=20 open=20"),
            ("kind", "log=40"),
            ("short", "abc=20"),
            ("days", "0=20 1704153600000=20"),
        ] {
            let buckets = answer[name]["buckets"].as_array().expect("buckets").iter();
            let mut shown: Vec<String> = buckets
                .map(|bucket| {
                    format!("{}={}", bucket["key"].to_string().trim_matches('"'), bucket["doc_count"])
                })
                .collect();
            shown.sort_unstable();
            assert_eq!(shown.join(" "), expected, "{turn} {name}");
        }
    }
}

#[test]
fn values_are_converted_unless_the_mapping_says_otherwise() {
    let fields = json!({
        "free": { "type": "integer" }, "strict": { "type": "integer", "coerce": false },
        "real": { "type": "double", "coerce": false }, "kind": { "type": "constant_keyword", "value": "log" },
    });
    let (_directory, service) = service_with(&json!({}), &fields, &[]);
    for (document, expected) in [
        (json!({ "free": "1" }), 201),
        (json!({ "free": 1.5 }), 201),
        (json!({ "strict": 1 }), 201),
        (json!({ "strict": "1" }), 400),
        (json!({ "strict": 1.5 }), 400),
        (json!({ "real": 1.5 }), 201),
        (json!({ "real": "1.5" }), 400),
        (json!({ "kind": "log" }), 201),
        (json!({ "kind": "other" }), 400),
    ] {
        let (status, answer) = service.ask("POST /a/_doc", &document.to_string());
        assert_eq!(status, expected, "{document}: {answer}");
    }
}

/// A target of copies is a field like others, and stays in the nested object around both.
#[test]
fn values_are_copied_to_new_fields_and_in_nested_objects() {
    let text = |target: &Value| json!({ "type": "text", "copy_to": target });
    let fields = json!({
        "title": text(&json!(["all", "deep.all"])),
        "people": { "type": "nested", "properties": {
            "first": text(&json!("people.name")), "last": text(&json!(["people.name", "everyone"])),
            "name": { "type": "text", "copy_to": "never" },
        } },
        "everyone": { "type": "text" },
        "fixed": { "dynamic": "strict", "properties": { "k": text(&json!("fixed.none")) } },
        "still": { "dynamic": false, "properties": { "k": text(&json!("still.none")) } },
    });
    let (_directory, service) = service_with(
        &json!({}),
        &fields,
        &[
            (
                "1",
                json!({ "title": "One two", "fixed": { "k": "a" }, "still": { "k": "a" }, "people": [
                    { "first": "Ada", "last": "Byron" }, { "first": "Bob", "last": "Lee", "name": "Robert" },
                ] }),
            ),
            ("2", json!({ "title": ["Three"], "all": "four", "people": { "first": "Ada", "last": "Lee" } })),
        ],
    );
    let both = |first: &str, last: &str| {
        let of = |word: &str| json!({ "match": { "people.name": word } });
        json!({ "nested": { "path": "people", "query": { "bool": { "must": [of(first), of(last)] } } } })
    };
    for (query, expected) in [
        (json!({ "match": { "all": "two" } }), "1"),
        (json!({ "terms": { "all": ["three", "four"] } }), "2"),
        (json!({ "match": { "deep.all": "three" } }), "2"),
        (both("ada", "byron"), "1"),
        (both("ada", "lee"), "2"),
        (both("bob", "robert"), "1"),
        (json!({ "match": { "everyone": { "query": "byron lee", "operator": "and" } } }), "1"),
        (json!({ "exists": { "field": "never" } }), "1"),
        (json!({ "match": { "fixed.none": "a" } }), ""),
        (json!({ "match": { "still.none": "a" } }), ""),
    ] {
        assert_eq!(found(&service, &json!({ "query": query })), expected, "{query}");
    }
    let mapping = service.get("GET /a/_mapping", "");
    let kinds = ["/all/type", "/deep/properties/all/type", "/never/type", "/fixed/properties/none"];
    let kinds =
        kinds.map(|place| mapping["a"]["mappings"]["properties"].pointer(place).and_then(Value::as_str));
    assert_eq!(kinds, [Some("text"), Some("text"), Some("text"), None], "{mapping}");
    assert_eq!(service.get("GET /a/_doc/1", "")["_source"]["all"], Value::Null);
}

/// Searches find what is not shown, as shippers of traces need it for their own fields.
#[test]
fn sources_are_shown_as_the_mapping_says() {
    let directory = directory();
    let service = TestService::open(&directory);
    let document = json!({ "name": "get", "_q": ["error"], "tags": { "a": 1, "key": 2 } });
    for (source, expected) in [
        (json!({}), Some(document.clone())),
        (json!({ "excludes": ["_q", "*.key"] }), Some(json!({ "name": "get", "tags": { "a": 1 } }))),
        (json!({ "includes": "tags" }), Some(json!({ "tags": { "a": 1, "key": 2 } }))),
        (json!({ "enabled": false }), None),
        (json!({ "mode": "disabled" }), None),
    ] {
        service.get("PUT /a", &json!({ "mappings": { "_source": source } }).to_string());
        service.get("PUT /a/_doc/1", &document.to_string());
        let hits = service.get("POST /a/_search", r#"{"query":{"match":{"_q":"error"}}}"#);
        let all = service.get("POST /a/_mget", r#"{"ids":["1"]}"#);
        for shown in [&hits["hits"]["hits"][0], &all["docs"][0], &service.get("GET /a/_doc/1", "")] {
            assert_eq!(shown["_id"], "1", "{source}: {shown}");
            assert_eq!(shown.get("_source"), expected.as_ref(), "{source}: {shown}");
        }
        let body = r#"{"query":{"match_all":{}},"fields":["_q","name"],"docvalue_fields":["_q.keyword"]}"#;
        let of_values = service.get("POST /a/_search", body);
        let fields = &of_values["hits"]["hits"][0]["fields"];
        let is_shown = |name: &str| expected.as_ref().is_some_and(|shown| shown.get(name).is_some());
        for name in ["_q", "name"] {
            assert_eq!(fields.get(name).is_some(), is_shown(name), "{source} {name}: {fields}");
        }
        assert_eq!(fields["_q.keyword"], json!(["error"]), "{source}");
        let updated = service.get("POST /a/_update/1?_source=true", r#"{"doc":{"name":"get","new":null}}"#);
        let of_update = updated["get"].get("_source").map(|shown| shown.get("_q").is_some());
        assert_eq!(of_update, expected.as_ref().map(|_| is_shown("_q")), "{source}: {updated}");
        // The update has changed what is shown, and nothing else.
        let hidden = service.get("POST /a/_count", r#"{"query":{"match":{"_q":"error"}}}"#);
        assert_eq!(hidden["count"], 1, "{source}");
        let (status, shown) = service.ask("GET /a/_source/1?_source_excludes=name", "");
        assert_eq!(status, if expected.is_some() { 200 } else { 404 }, "{source}: {shown}");
        assert_eq!(shown["name"], Value::Null, "{source}: {shown}");
        service.get("DELETE /a", "");
    }
}

/// A setting says for all fields what a parameter says for one. Documents that Elasticsearch takes by it are
/// not lost.
#[test]
fn settings_let_documents_be_taken_that_do_not_fit() {
    let settings = json!({ "index.mapping": {
        "ignore_malformed": true, "total_fields": { "limit": 4, "ignore_dynamic_beyond_limit": true },
    } });
    let fields = json!({ "n": { "type": "long" }, "strict": { "type": "long", "ignore_malformed": false } });
    let (_directory, service) = service_with(&settings, &fields, &[]);
    for (document, expected) in [
        (json!({ "n": "many" }), 201),
        (json!({ "strict": "many" }), 400),
        (json!({ "new": 1 }), 201),
        (json!({ "new": "text" }), 201),
        // Each of these would be two fields.
        (json!({ "a": "x", "b": "y" }), 201),
        (json!({ "a": "x", "n": 5 }), 201),
    ] {
        let (status, answer) = service.ask("POST /a/_doc", &document.to_string());
        assert_eq!(status, expected, "{document}: {answer}");
    }
    for (query, expected) in [
        (json!({ "match_all": {} }), 5),
        (json!({ "term": { "_ignored": "n" } }), 1),
        (json!({ "exists": { "field": "n" } }), 1),
        (json!({ "exists": { "field": "new" } }), 1),
    ] {
        let count = service.get("GET /a/_count", &json!({ "query": query }).to_string());
        assert_eq!(count["count"], expected, "{query}");
    }
    let mapping = service.get("GET /a/_mapping", "");
    assert_eq!(mapping["a"]["mappings"]["properties"]["a"], Value::Null, "{mapping}");

    // The time of a document of a data stream has to be one.
    let template = json!({ "index_patterns": ["s"], "data_stream": {}, "template": {
        "settings": { "index.mapping.ignore_malformed": true },
    } });
    service.get("PUT /_index_template/s", &template.to_string());
    for (document, expected) in [
        (json!({ "@timestamp": 1, "n": 1 }), 201),
        (json!({ "@timestamp": 2, "n": "many" }), 201),
        (json!({ "@timestamp": "soon" }), 400),
    ] {
        let (status, answer) = service.ask("POST /s/_doc", &document.to_string());
        assert_eq!(status, expected, "{document}: {answer}");
    }
}

#[test]
fn fields_are_searched_sorted_and_aggregated_as_their_mapping_allows() {
    let fields = json!({
        "t": { "type": "text", "index": false }, "k": { "type": "keyword", "index": false },
        "n": { "type": "long", "index": false, "doc_values": false }, "d": { "type": "long", "doc_values": false },
    });
    let (_directory, service) =
        service_with(&json!({}), &fields, &[("1", json!({ "t": "x", "k": "x", "n": 1, "d": 1 }))]);
    let agg = |field: &str| json!({ "aggs": { "a": { "terms": { "field": field } } } });
    for (body, expected) in [
        (json!({ "query": { "term": { "k": "x" } } }), ""),
        (json!({ "query": { "term": { "d": 1 } } }), ""),
        (
            json!({ "query": { "match": { "t": "x" } } }),
            "Cannot search on field [t] since it is not indexed.",
        ),
        (
            json!({ "query": { "bool": { "must_not": { "range": { "n": { "gt": 1 } } } } } }),
            "Cannot search on field [n] since it is not indexed nor has doc values.",
        ),
        (json!({ "post_filter": { "term": { "n": 1 } } }), "Cannot search on field [n]"),
        (
            json!({ "sort": ["d"] }),
            "Can't load fielddata on [d] because fielddata is unsupported on fields of type [long]",
        ),
        (json!({ "sort": ["k"] }), ""),
        (agg("d"), "Can't load fielddata on [d]"),
        (agg("k"), ""),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &body.to_string());
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert_eq!(status, if expected.is_empty() { 200 } else { 400 }, "{body}: {answer}");
        assert!(reason.contains(expected), "{body}: {reason}");
    }
    let validated = service.get("GET /a/_validate/query", r#"{"query":{"term":{"n":1}}}"#);
    assert_eq!(validated["valid"], false);
}

#[test]
fn analyzers_that_there_are_not_are_refused_wherever_they_are_named() {
    let (_directory, service) = service_with(&json!({}), &json!({}), &[]);
    for kind in ["query_string", "simple_query_string", "multi_match"] {
        let body = json!({ "query": { kind: { "query": "x", "fields": ["t"], "analyzer": "none" } } });
        assert_eq!(service.ask("POST /a/_search", &body.to_string()).0, 400, "{kind}");
    }
    let body = json!({ "query": { "match": { "t": { "query": "x", "analyzer": "none" } } } });
    let (status, answer) = service.ask("POST /a/_search", &body.to_string());
    assert_eq!(status, 400, "{answer}");
    assert_eq!(service.ask("GET /a/_search?q=x&analyzer=none", "").0, 400);
    assert_eq!(service.ask("GET /a/_search?q=x&analyzer=standard", "").0, 200);
}

#[test]
fn parameters_with_another_meaning_are_refused_and_others_kept() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (field, expected) in [
        (
            json!({ "type": "keyword", "norms": false, "eager_global_ordinals": true, "index_options": "docs" }),
            "",
        ),
        (json!({ "type": "text", "term_vector": "with_positions_offsets", "index_phrases": true }), ""),
        (json!({ "type": "text", "similarity": "boolean", "position_increment_gap": 50, "boost": 1.0 }), ""),
        (json!({ "type": "flattened", "depth_limit": 9, "split_queries_on_whitespace": false }), ""),
        (json!({ "type": "text", "analyzer": "simple", "search_quote_analyzer": "simple" }), ""),
        (json!({ "type": "long", "time_series_metric": "gauge", "meta": { "unit": "ms" } }), ""),
        (json!({ "type": "date", "locale": "en" }), ""),
        (json!({ "type": "keyword", "foo": 1 }), "unknown parameter [foo] on mapper [f] of type [keyword]"),
        (
            json!({ "type": "text", "normalizer": "lowercase" }),
            "unknown parameter [normalizer] on mapper [f] of type [text]",
        ),
        (json!({ "type": "keyword", "analyzer": "standard" }), "unknown parameter [analyzer]"),
        (json!({ "type": "text", "null_value": "x" }), "unknown parameter [null_value]"),
        (json!({ "type": "keyword", "normalizer": "mine" }), "normalizer [mine] not found"),
        (
            json!({ "type": "keyword", "normalizer": "stemmed" }),
            "the filter [porter_stem] of the normalizer [stemmed]",
        ),
        (json!({ "type": "text", "analyzer": "english", "search_quote_analyzer": "keyword" }), ""),
        (
            json!({ "type": "text", "search_analyzer": "mine" }),
            "field [f]: failed to find global analyzer under [mine]",
        ),
        (json!({ "type": "text", "analyzer": 1 }), "[analyzer] cannot be [1]"),
        (json!({ "type": "text", "boost": 2 }), "[boost] is [2], and is supported as [1.0] alone"),
        (json!({ "type": "text", "position_increment_gap": 0 }), "never over two"),
        (json!({ "type": "long", "null_value": "x" }), "[null_value] cannot be [x]"),
        (json!({ "type": "long", "coerce": "maybe" }), "[coerce] cannot be [maybe]"),
        (json!({ "type": "date", "format": "nonsense" }), "[format] cannot be [nonsense]"),
        (json!({ "type": "date", "format": "yyyy||soon" }), "[format] cannot be [yyyy||soon]"),
        (json!({ "type": "long", "script": "1" }), "[script] is not supported"),
        (json!({ "type": "date", "locale": "de" }), "[locale] is [de]"),
        (json!({ "type": "keyword", "meta": { "a": 1 } }), "[meta] cannot be"),
        (json!({ "type": "scaled_float" }), "Field [scaling_factor] is required"),
        (json!({ "type": "keyword", "copy_to": "new" }), ""),
        (
            json!({ "type": "keyword", "copy_to": "new..x" }),
            "[copy_to] of [f] names [new..x], which cannot have",
        ),
        (
            json!({ "type": "nested", "properties": { "k": { "type": "keyword", "copy_to": ["f"] } } }),
            "[copy_to] of [f.k] names [f], which cannot have its values",
        ),
        (
            json!({ "properties": { "k": { "type": "keyword", "copy_to": "f.n.x" }, "n": { "type": "nested" } } }),
            "is trying to copy data from nested object [] to [f.n]",
        ),
        (
            json!({ "type": "text", "fields": { "k": { "type": "keyword", "copy_to": "f" } } }),
            "[copy_to] may not be used in the multi-field [k]",
        ),
    ] {
        let body = json!({
            "settings": { "analysis": { "normalizer": { "stemmed": { "type": "custom", "filter": "porter_stem" } } } },
            "mappings": { "properties": { "f": field } },
        });
        let (status, answer) = service.ask("PUT /a", &body.to_string());
        let error = &answer["error"];
        if expected.is_empty() {
            assert_eq!(status, 200, "{field}: {answer}");
            assert_eq!(service.get("GET /a/_mapping", "")["a"]["mappings"]["properties"]["f"], field);
            service.get("DELETE /a", "");
            continue;
        }
        assert_eq!(
            (status, error["type"].as_str()),
            (400, Some("mapper_parsing_exception")),
            "{field}: {answer}"
        );
        assert!(error["reason"].as_str().unwrap_or_default().contains(expected), "{field}: {error}");
    }
    for (mappings, expected) in [
        (
            json!({ "_source": { "enabled": true, "mode": "stored" }, "dynamic": "strict_allow_templates" }),
            "",
        ),
        (json!({ "_source": { "includes": [], "excludes": [] }, "enabled": false }), ""),
        (json!({ "_source": { "excludes": ["a"], "includes": "b*" } }), ""),
        (json!({ "_source": { "excludes": 1 } }), "[excludes] of [_source] is not supported"),
        (json!({ "_source": { "mode": "half" } }), "[mode] of [_source] is not supported"),
        (json!({ "_source": { "compress": true } }), "[compress] of [_source] is not supported"),
        (json!({ "dynamic": "sometimes" }), "[dynamic] of [_doc] is [sometimes]"),
        (json!({ "properties": { "o": { "dynamic": "no", "properties": {} } } }), "[dynamic] of [o] is [no]"),
    ] {
        let (status, answer) = service.ask("PUT /whole", &json!({ "mappings": mappings }).to_string());
        assert_eq!(status, if expected.is_empty() { 200 } else { 400 }, "{mappings}: {answer}");
        assert!(
            answer["error"]["reason"].as_str().unwrap_or_default().contains(expected),
            "{mappings}: {answer}"
        );
        service.ask("DELETE /whole", "");
    }
    // Templates, and mappings that are changed, are checked in the same way.
    let bad = json!({ "properties": { "f": { "type": "text", "analyzer": "none" } } });
    service.get("PUT /a", "{}");
    let template = json!({ "index_patterns": ["t"], "template": { "mappings": bad } });
    let dynamic =
        json!({ "mappings": { "dynamic_templates": [{ "d": { "match": "*", "mapping": { "foo": 1 } } }] } });
    for (request, body) in
        [("PUT /a/_mapping", &bad), ("PUT /_index_template/t", &template), ("PUT /b", &dynamic)]
    {
        let (status, answer) = service.ask(request, &body.to_string());
        assert_eq!(
            (status, &answer["error"]["type"]),
            (400, &json!("mapper_parsing_exception")),
            "{request}: {answer}"
        );
    }
    let taken = json!({ "mappings": { "dynamic_templates": [{ "d": { "match": "*", "mapping": { "norms": false } } }] } });
    service.get("PUT /b", &taken.to_string());
}
