//! Requests as dashboards and data sources send them.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// A service with an index of two documents.
fn with_events(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"t":{"type":"text","fields":{"raw":{"type":"keyword"}}},
            "n":{"type":"long"},"c":{"type":"nested","properties":{"k":{"type":"keyword"}}},
            "o":{"properties":{"p":{"type":"long"}}}}}}"#,
    );
    service.get("PUT /a/_doc/1", r#"{"t":"one","n":1}"#);
    service.get("PUT /a/_doc/2", r#"{"t":"two","n":2}"#);
    service
}

#[test]
fn headers_of_several_searches_have_parameters_of_each() {
    let directory = directory();
    let service = with_events(&directory);
    for (head, expected) in [
        (json!({ "index": ["a", "none"], "ignore_unavailable": true }), json!(2)),
        (
            json!({ "index": ["a", "none"], "ignore_unavailable": "true", "search_type": "query_then_fetch" }),
            json!(2),
        ),
        (json!({ "index": "a", "preference": "x", "request_cache": false, "routing": null }), json!(2)),
        (json!({ "index": "none-*", "allow_no_indices": true }), json!(0)),
        (json!({ "index": ["a", "none"] }), Value::Null),
        (json!({ "index": "none-*", "allow_no_indices": false }), Value::Null),
    ] {
        let answer = service.get("POST /_msearch", &format!("{head}\n{{}}\n"));
        let response = &answer["responses"][0];
        assert_eq!(response["hits"]["total"]["value"], expected, "{head}: {answer}");
        assert_eq!(response["status"], if expected.is_null() { 404 } else { 200 }, "{head}: {answer}");
    }
    let (status, answer) = service.ask("POST /_msearch", "{\"indx\":\"a\"}\n{}\n");
    assert!(status == 400 && answer.to_string().contains("key [indx] is not supported"), "{answer}");
}

#[test]
fn members_that_ask_for_nothing_are_accepted_and_others_are_refused() {
    let directory = directory();
    let service = with_events(&directory);
    for (member, something) in [
        ("script_fields", json!({ "x": { "script": "1" } })),
        ("runtime_mappings", json!({ "n": { "type": "keyword" } })),
        ("suggest", json!({ "text": "one" })),
        ("ext", json!({ "x": {} })),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &json!({ member: {} }).to_string());
        assert_eq!((status, &answer["hits"]["total"]["value"]), (200, &json!(2)), "{member}: {answer}");
        let (status, answer) = service.ask("POST /a/_search", &json!({ member: something }).to_string());
        let reason = format!("[{member}] in a search is not supported");
        assert!(status == 400 && answer.to_string().contains(&reason), "{member}: {answer}");
    }
    assert_eq!(service.ask("POST /a/_search", r#"{"profile":false}"#).0, 200);
    assert_eq!(service.ask("POST /a/_search", r#"{"profile":true}"#).0, 400);
}

#[test]
fn asynchronous_searches_are_complete_when_they_are_answered() {
    let directory = directory();
    let service = with_events(&directory);
    let times = "wait_for_completion_timeout=200ms&keep_alive=60000ms&keep_on_completion=false";
    for path in ["/a/_async_search", "/_async_search"] {
        let answer = service.get(&format!("POST {path}?{times}"), r#"{"query":{"term":{"n":2}}}"#);
        assert_eq!(
            (&answer["is_running"], &answer["is_partial"]),
            (&json!(false), &json!(false)),
            "{answer}"
        );
        assert_eq!(answer["response"]["hits"]["hits"][0]["_id"], "2", "{answer}");
        assert!(answer.get("id").is_none(), "{answer}");
    }
    for (request, reason) in [
        ("POST /a/_async_search?keep_on_completion=true", "keep_on_completion=true"),
        ("POST /a/_async_search?keep_alive=long", "keep_alive"),
        ("POST /none/_async_search", "no such index [none]"),
    ] {
        let (status, answer) = service.ask(request, "");
        assert!([400, 404].contains(&status), "{request}: {status}");
        if !request.ends_with("long") {
            assert!(answer.to_string().contains(reason), "{request}: {answer}");
        }
    }
}

#[test]
fn types_of_fields_are_shown_as_they_are_asked_for() {
    let directory = directory();
    let service = with_events(&directory);
    for (request, body, expected) in [
        ("GET /a/_field_caps?fields=*&filters=-parent&include_empty_fields=false", "", "c.k n o.p t t.raw"),
        ("GET /a/_field_caps?fields=*&filters=-nested,-multifield,-metadata", "", "n o o.p t"),
        ("GET /a/_field_caps?fields=*&filters=%2Bmetadata", "", ""),
        ("GET /a/_field_caps?fields=*&types=long,text", "", "n o.p t"),
        ("POST /a/_field_caps", r#"{"fields":["t*"],"runtime_mappings":{}}"#, "t t.raw"),
        ("POST /a/_field_caps?fields=n", r#"{"index_filter":{"term":{"n":7}}}"#, ""),
    ] {
        let answer = service.get(request, body);
        let fields = answer["fields"].as_object().expect("fields");
        let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), expected, "{request} {body}");
    }
    for (request, body) in [
        ("GET /a/_field_caps?fields=*&filters=-children", ""),
        ("POST /a/_field_caps?fields=*", r#"{"runtime_mappings":{"x":{"type":"long"}}}"#),
        ("POST /a/_field_caps?fields=*", r#"{"what":1}"#),
    ] {
        assert_eq!(service.ask(request, body).0, 400, "{request} {body}");
    }
}

#[test]
fn a_sort_by_a_field_that_no_index_has_is_refused_unless_its_type_is_named() {
    let directory = directory();
    let service = with_events(&directory);
    service.get("PUT /b", r#"{"mappings":{"properties":{"x":{"type":"long"}}}}"#);
    service.get("PUT /b/_doc/3", r#"{"x":1}"#);
    for (request, sort, expected) in [
        ("POST /a/_search", json!(["x"]), None),
        ("POST /a/_search", json!([{ "n": "asc" }, { "x": "desc" }]), None),
        ("POST /a/_search?scroll=1m", json!(["x"]), None),
        ("POST /a/_search", json!([{ "x": { "unmapped_type": "long" } }]), Some("1 2")),
        ("POST /a/_search", json!(["t.raw"]), Some("1 2")),
        ("POST /a/_search", json!([{ "_doc": "desc" }]), Some("2 1")),
        // An index that lacks it beside one that has it has documents without a value.
        ("POST /a,b/_search", json!(["x", "_doc"]), Some("3 1 2")),
        ("POST /none-*/_search", json!(["x"]), Some("")),
    ] {
        let (status, answer) = service.ask(request, &json!({ "sort": sort }).to_string());
        match expected {
            None => {
                let has_reason = answer.to_string().contains("No mapping found for [x] in order to sort on");
                assert!(status == 400 && has_reason, "{request} {sort}: {answer}");
            }
            Some(expected) => {
                let hits = answer["hits"]["hits"].as_array().expect("hits");
                let ids: Vec<&str> = hits.iter().filter_map(|hit| hit["_id"].as_str()).collect();
                assert_eq!(ids.join(" "), expected, "{request} {sort}: {answer}");
            }
        }
    }
}

#[test]
fn options_of_aggregations_may_be_numbers_in_texts() {
    let directory = directory();
    let service = with_events(&directory);
    let percents = r#"{"aggs":{"p":{"percentiles":{"field":"n","percents":["0","100"]}}}}"#;
    let answer = service.get("POST /a/_search", percents);
    assert_eq!(answer["aggregations"]["p"]["values"], json!({ "0.0": 1.0, "100.0": 2.0 }));
    for (text, number) in [
        (json!({ "serial_diff": { "buckets_path": "_count", "lag": "2" } }), json!({ "lag": 2 })),
        (
            json!({ "moving_fn": { "buckets_path": "_count", "window": "2", "shift": "1",
                "script": "MovingFunctions.sum(values)" } }),
            json!({ "window": 2, "shift": 1 }),
        ),
        (json!({ "bucket_sort": { "from": "1", "size": "1" } }), json!({ "from": 1, "size": 1 })),
    ] {
        let asked = |pipeline: &Value| {
            let body = json!({ "size": 0, "aggs": { "h": {
                "histogram": { "field": "n", "interval": 1, "min_doc_count": 0, "extended_bounds": { "min": 0, "max": 5 } },
                "aggs": { "x": pipeline } } } });
            service.get("POST /a/_search", &body.to_string())["aggregations"].clone()
        };
        let mut plain = text.clone();
        for options in plain.as_object_mut().expect("an object").values_mut() {
            for (name, value) in number.as_object().expect("an object") {
                options[name] = value.clone();
            }
        }
        assert_eq!(asked(&text), asked(&plain), "{text}");
    }
    let wrong = r#"{"aggs":{"p":{"percentiles":{"field":"n","percents":["most"]}}}}"#;
    assert_eq!(service.ask("POST /a/_search", wrong).0, 400);
}

#[test]
fn the_age_of_deletion_of_a_policy_is_that_of_data_streams_with_it() {
    let directory = directory();
    let service = TestService::open(&directory);
    let policy = |age: &str| {
        json!({ "policy": { "phases": {
            "hot": { "actions": { "rollover": { "max_age": "30d", "max_primary_shard_size": "50gb" } } },
            "delete": { "min_age": age, "actions": { "delete": {} } },
        } } })
    };
    let warnings = service.warnings("PUT /_ilm/policy/week", &policy("7d").to_string());
    let expected = "the lifecycle policy [week] the age of deletion has an effect, on data streams that are made with it later, and";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
    service.get("PUT /_ilm/policy/beat", r#"{"policy":{"phases":{"hot":{"actions":{}}}}}"#);
    let kept = &service.get("GET /_ilm/policy/week", "")["week"];
    assert_eq!((&kept["policy"], &kept["version"]), (&policy("7d")["policy"], &json!(1)));
    let named = service.get("GET /_ilm/policy", "");
    let named = named.as_object().expect("policies").keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(named.len(), 2, "{named:?}");
    for (stream, policy, own, expected) in [
        ("logs-week", "week", json!({}), json!("7d")),
        ("logs-own", "week", json!({ "lifecycle": { "data_retention": "2d" } }), json!("2d")),
        ("logs-beat", "beat", json!({}), Value::Null),
        ("logs-none", "none", json!({}), Value::Null),
    ] {
        let mut parts = json!({ "settings": { "index": { "lifecycle": { "name": policy } } } });
        for (name, part) in own.as_object().expect("an object") {
            parts[name] = part.clone();
        }
        let template = json!({ "index_patterns": [stream], "data_stream": {}, "template": parts });
        service.get(&format!("PUT /_index_template/{stream}"), &template.to_string());
        service.get(&format!("PUT /_data_stream/{stream}"), "");
        let shown = &service.get(&format!("GET /_data_stream/{stream}"), "")["data_streams"][0];
        assert_eq!(shown["lifecycle"]["data_retention"], expected, "{shown}");
    }
    for (request, body, status) in [
        ("PUT /_ilm/policy/p", json!({}), 400),
        ("PUT /_ilm/policy/p", json!({ "policy": {} }), 400),
        ("PUT /_ilm/policy/p", policy("soon"), 400),
        ("GET /_ilm/policy/p", json!({}), 404),
        ("DELETE /_ilm/policy/p", json!({}), 404),
        ("DELETE /_ilm/policy/week", json!({}), 200),
        ("GET /_ilm/policy/week", json!({}), 404),
    ] {
        assert_eq!(service.ask(request, &body.to_string()).0, status, "{request} {body}");
    }
}

#[test]
fn values_of_the_first_documents_of_a_bucket_are_shown() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"k":{"type":"keyword"},"n":{"type":"long"},"d":{"type":"date"}}}}"#,
    );
    for (id, document) in [
        ("1", r#"{"k":"x","n":1,"d":"2024-01-01"}"#),
        ("2", r#"{"k":"x","n":7,"d":"2024-01-03"}"#),
        ("3", r#"{"k":"y","d":"2024-01-02"}"#),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    for (options, expected) in [
        (
            r#"{"metrics":[{"field":"n"}],"size":"1","sort":[{"d":"desc"}]}"#,
            json!([
                [{ "sort": [1_704_240_000_000_i64], "metrics": { "n": 7 } }],
                [{ "sort": [1_704_153_600_000_i64], "metrics": { "n": null } }],
            ]),
        ),
        (
            r#"{"metrics":{"field":"k"},"size":2,"sort":{"n":"asc"}}"#,
            json!([
                [
                    { "sort": [1], "metrics": { "k": "x" } },
                    { "sort": [7], "metrics": { "k": "x" } },
                ],
                [{ "sort": [null], "metrics": { "k": "y" } }],
            ]),
        ),
    ] {
        let body = format!(
            r#"{{"size":0,"aggs":{{"k":{{"terms":{{"field":"k","order":{{"_key":"asc"}}}},"aggs":{{"t":{{"top_metrics":{options}}}}}}}}}}}"#
        );
        let answer = service.get("POST /a/_search?typed_keys=true", &body);
        let buckets = answer["aggregations"]["sterms#k"]["buckets"].as_array().expect("buckets").iter();
        let tops: Vec<Value> = buckets.map(|bucket| bucket["top_metrics#t"]["top"].clone()).collect();
        assert_eq!(json!(tops), expected, "{options}: {answer}");
    }
    for options in [
        r#"{"metrics":{"field":"n"}}"#,
        r#"{"sort":"n"}"#,
        r#"{"metrics":[{"name":"n"}],"sort":"n"}"#,
        r#"{"metrics":{"field":"n"},"sort":"n","size":101}"#,
        r#"{"metrics":{"field":"n"},"sort":"n","size":"many"}"#,
    ] {
        let body = format!(r#"{{"aggs":{{"t":{{"top_metrics":{options}}}}}}}"#);
        assert_eq!(service.ask("POST /a/_search", &body).0, 400, "{options}");
    }
}
