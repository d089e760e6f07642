//! Templates: joined to an index by their order, and shown in one form.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Part of an answer by its path.
#[track_caller]
fn at(answer: &Value, pointer: &str) -> Value {
    answer.pointer(pointer).cloned().unwrap_or_default()
}

#[test]
fn later_templates_count_before_earlier_ones() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /_component_template/red",
        r#"{"template":{"settings":{"index":{"number_of_replicas":1,"refresh_interval":"5s"}},
            "mappings":{"dynamic_templates":[{"a":{"match":"a","mapping":{"type":"ip"}}},{"b":{"match":"b","mapping":{"type":"ip"}}}],
            "properties":{"one.red":{"type":"keyword"},"two.red":{"type":"keyword","ignore_above":9}}}}}"#,
    );
    service.get(
        "PUT /_component_template/blue",
        r#"{"template":{"settings":{"index.number_of_replicas":0},
            "mappings":{"dynamic_templates":[{"b":{"match":"b","mapping":{"type":"long"}}}],
            "properties":{"two":{"properties":{"red":{"type":"text"},"blue":{"type":"text"}}},"one.blue":{"type":"text"}}}}}"#,
    );
    let template = r#""composed_of":["red","blue"],"template":{"settings":{"index":{"priority":1}},"mappings":{"_meta":{"v":1},
        "properties":{"two.blue":{"type":"integer"},"many":{"type":"nested","include_in_root":true}}}}"#;
    service.get("PUT /_index_template/t", &format!(r#"{{"index_patterns":["t-*"],{template}}}"#));
    service.get(
        "PUT /_index_template/s",
        &format!(r#"{{"index_patterns":["s-*"],"data_stream":{{}},{template}}}"#),
    );
    service.get(
        "PUT /t-1",
        r#"{"mappings":{"properties":{"two.blue":{"type":"double"},"many":{"type":"nested","include_in_root":false}}}}"#,
    );
    let index = service.get("GET /t-1", "")["t-1"].take();
    for (pointer, expected) in [
        ("/settings/index/number_of_replicas", json!("0")),
        ("/settings/index/refresh_interval", json!("5s")),
        ("/settings/index/priority", json!("1")),
        ("/mappings/_meta", json!({ "v": 1 })),
        ("/mappings/properties/one/properties/red", json!({ "type": "keyword" })),
        ("/mappings/properties/one/properties/blue", json!({ "type": "text" })),
        ("/mappings/properties/two/properties/red", json!({ "type": "text" })),
        ("/mappings/properties/two/properties/blue", json!({ "type": "double" })),
        ("/mappings/properties/many", json!({ "type": "nested", "include_in_root": false })),
        (
            "/mappings/dynamic_templates",
            json!([{ "a": { "match": "a", "mapping": { "type": "ip" } } }, { "b": { "match": "b", "mapping": { "type": "long" } } }]),
        ),
    ] {
        assert_eq!(at(&index, pointer), expected, "{pointer}: {index}");
    }
    // A value of an object has the field that the name with a dot declares.
    assert_eq!(service.ask("PUT /t-1/_doc/1", r#"{"two":{"blue":"x"}}"#).0, 400);
    assert_eq!(service.ask("PUT /t-1/_mapping", r#"{"properties":{"two.blue":{"type":"text"}}}"#).0, 400);

    // The settings of all parts are those of the indexes of a data stream, too.
    service.get("PUT /_data_stream/s-a", "");
    let streams = service.get("GET /_data_stream/s-a", "");
    let backing = at(&streams, "/data_streams/0/indices/0/index_name");
    let backing = backing.as_str().expect("a name");
    let settings = service.get(&format!("GET /{backing}/_settings"), "")[backing]["settings"]["index"].take();
    let shown = ["number_of_replicas", "refresh_interval", "priority"].map(|name| settings[name].clone());
    assert_eq!(shown, ["0", "5s", "1"].map(Value::from));
}

#[test]
fn the_time_field_of_a_data_stream_is_a_date() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (field, expected) in [
        (r#"{"type":"date","format":"epoch_second"}"#, 200),
        (r#"{"type":"date_nanos"}"#, 200),
        (r#"{"type":"keyword"}"#, 400),
        (r#"{"properties":{}}"#, 400),
    ] {
        let mappings = format!(r#"{{"mappings":{{"properties":{{"@timestamp":{field}}}}}}}"#);
        let template = format!(r#"{{"index_patterns":["t"],"data_stream":{{}},"template":{mappings}}}"#);
        let (status, answer) = service.ask("PUT /_index_template/t", &template);
        assert_eq!(status, expected, "{field}: {answer}");
        if expected == 200 {
            service.get("PUT /_data_stream/t", "");
            service.get("DELETE /_data_stream/t", "");
        }
        // The same in a part that other templates are composed of, before and after these.
        let part = format!(r#"{{"template":{mappings}}}"#);
        let user = r#"{"index_patterns":["u"],"data_stream":{},"composed_of":["part"]}"#;
        service.ask("DELETE /_index_template/u", "");
        service.get("PUT /_component_template/part", &part);
        assert_eq!(service.ask("PUT /_index_template/u", user).0, expected, "{field}");
        service.get("PUT /_component_template/part", r#"{"template":{}}"#);
        service.get("PUT /_index_template/u", user);
        let (status, answer) = service.ask("PUT /_component_template/part", &part);
        assert_eq!(status, expected, "{field}: {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        let text = "but [date,date_nanos] is expected";
        assert_eq!(reason.contains(text), expected == 400, "{field}: {reason}");
    }
}

/// A part may name what another part has.
#[test]
fn what_templates_name_is_in_one_of_their_parts() {
    let directory = directory();
    let service = TestService::open(&directory);
    let field = json!({ "k": { "type": "keyword", "normalizer": "low", "copy_to": "all" } });
    let fields = json!({ "template": { "mappings": { "properties": field } } });
    let named = json!({ "template": {
        "settings": { "analysis": { "normalizer": { "low": { "type": "custom", "filter": "lowercase" } } } },
        "mappings": { "properties": { "all": { "type": "text" } } },
    } });
    service.get("PUT /_component_template/fields", &fields.to_string());
    service.get("PUT /_component_template/named", &named.to_string());
    let of = |parts: &[&str], ignored: &[&str]| {
        json!({ "index_patterns": ["t"], "composed_of": parts, "ignore_missing_component_templates": ignored,
            "template": { "data_stream_options": { "failure_store": { "enabled": true } } } })
    };
    let legacy = json!({ "index_patterns": ["l"], "mappings": { "properties": field } });
    for (request, body, expected) in [
        ("PUT /_index_template/t", of(&["fields"], &[]), "normalizer [low] not found"),
        ("PUT /_index_template/t", of(&["fields", "named", "custom"], &[]), "[custom] that do not exist"),
        ("PUT /_index_template/t", of(&["fields", "named", "custom"], &["custom"]), ""),
        (
            "PUT /_component_template/named",
            json!({ "template": {} }),
            "composable template [t] is invalid: Failed to parse mapping [_doc]: field [k]: normalizer [low] not found",
        ),
        ("PUT /_component_template/custom", json!({ "template": { "settings": { "priority": 3 } } }), ""),
        ("PUT /t", json!({}), ""),
        // A part that a template can do without is removed while it is used.
        ("DELETE /_component_template/custom", json!({}), ""),
        ("DELETE /_component_template/named", json!({}), "as they are still in use"),
        ("PUT /_template/l", legacy, "normalizer [low] not found"),
    ] {
        let (status, answer) = service.ask(request, &body.to_string());
        assert_eq!(status, if expected.is_empty() { 200 } else { 400 }, "{request} {body}: {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(expected), "{request} {body}: {reason}");
    }
    let settings = service.get("GET /t/_settings", "");
    assert_eq!(settings["t"]["settings"]["index"]["priority"], "3");
    service.get("PUT /t/_doc/1", r#"{"k":"ABC"}"#);
    for query in [r#"{"term":{"k":"aBC"}}"#, r#"{"match":{"all":"abc"}}"#] {
        assert_eq!(service.get("GET /t/_count", &format!(r#"{{"query":{query}}}"#))["count"], 1, "{query}");
    }
}

/// Forms that shippers put before they send anything; one that is refused would stop them.
#[test]
fn templates_of_shippers_are_taken() {
    let directory = directory();
    let service = TestService::open(&directory);
    let keyword = json!({ "type": "keyword", "ignore_above": 1024 });
    for (name, request, body) in [
        (
            "Logstash",
            "PUT /_index_template/logstash",
            json!({ "index_patterns": "logstash-*", "version": 80001, "priority": 200, "_meta": { "description": "x" },
                "template": {
                    "settings": { "index.refresh_interval": "5s", "number_of_shards": 1 },
                    "mappings": {
                        "dynamic_templates": [{ "message_field": { "path_match": "message", "match_mapping_type": "string",
                            "mapping": { "type": "text", "norms": false } } }],
                        "properties": { "geoip": { "dynamic": true, "properties": {
                            "location": { "type": "geo_point" }, "latitude": { "type": "half_float" } } } },
                    },
                } }),
        ),
        (
            "Filebeat",
            "PUT /_index_template/filebeat-8.19.0",
            json!({ "index_patterns": ["filebeat-8.19.0"], "priority": 150, "data_stream": {}, "template": {
                "settings": { "index": {
                    "lifecycle": { "name": "filebeat" }, "codec": "best_compression", "number_of_routing_shards": 30,
                    "mapping": { "total_fields": { "limit": 12500 } }, "refresh_interval": "5s",
                    "max_docvalue_fields_search": 200, "query": { "default_field": ["message", "fields.*"] },
                } },
                "mappings": {
                    "_meta": { "beat": "filebeat", "version": "8.19.0" }, "date_detection": false,
                    "dynamic_templates": [
                        { "labels": { "path_match": "labels.*", "match_mapping_type": "string", "mapping": keyword } },
                        { "counts": { "path_match": "counts.*", "match_mapping_type": "*", "mapping": { "type": "{dynamic_type}" } } },
                        { "usage": { "path_match": "usage.*", "mapping": { "type": "scaled_float", "scaling_factor": 1000 } } },
                    ],
                    "properties": {
                        "@timestamp": { "type": "date" }, "message": { "type": "match_only_text" },
                        "url": { "properties": { "full": { "type": "wildcard",
                            "fields": { "text": { "type": "match_only_text" } } } } },
                        "event": { "properties": {
                            "original": { "type": "keyword", "index": false, "doc_values": false, "ignore_above": 1024 },
                            "module": { "type": "constant_keyword" }, "sequence": { "type": "long" } } },
                        "fields": { "type": "object" }, "raw": { "type": "object", "enabled": false },
                        "host": { "type": "alias", "path": "event.module" }, "labels": { "type": "flattened" },
                        "dns": { "type": "nested", "properties": { "answers": keyword, "body": { "type": "text", "norms": false } } },
                    },
                },
            } }),
        ),
        (
            "logs of Elasticsearch",
            "PUT /_component_template/logs-settings",
            json!({ "template": {
                "settings": { "index": {
                    "lifecycle": { "name": "logs" }, "codec": "best_compression", "default_pipeline": "logs@default-pipeline",
                    "mapping": { "ignore_malformed": true, "total_fields": { "ignore_dynamic_beyond_limit": true } },
                    "sort": { "field": ["host.name"], "order": "desc" }, "logsdb": { "add_host_name_field": true },
                } },
                "data_stream_options": { "failure_store": { "enabled": true } },
                "mappings": { "properties": {
                    "@timestamp": { "type": "date_nanos", "ignore_malformed": false },
                    "data_stream.type": { "type": "constant_keyword", "value": "logs" },
                    "cpu": { "type": "double", "time_series_metric": "gauge", "meta": { "unit": "percent" } },
                    "pod": { "type": "keyword", "time_series_dimension": true, "eager_global_ordinals": true },
                } },
            }, "version": 14, "deprecated": false, "_meta": { "managed": true } }),
        ),
        (
            "Zipkin",
            "PUT /_index_template/zipkin-span_template",
            json!({ "index_patterns": "zipkin-span-*", "priority": 0, "template": {
                "settings": { "index.number_of_shards": 5, "index.requests.cache.enable": true },
                "mappings": {
                    "_source": { "excludes": ["_q"] },
                    "dynamic_templates": [{ "strings": { "match": "*", "match_mapping_type": "string",
                        "mapping": { "type": "keyword", "norms": false, "ignore_above": 256 } } }],
                    "properties": {
                        "traceId": { "type": "keyword", "norms": false }, "_q": { "type": "keyword", "norms": false },
                        "timestamp_millis": { "type": "date", "format": "epoch_millis" },
                        "localEndpoint": { "type": "object", "dynamic": false, "properties": { "serviceName": keyword } },
                        "annotations": { "enabled": false }, "tags": { "enabled": false },
                    },
                },
            } }),
        ),
        (
            "Jaeger",
            "PUT /_template/jaeger-span",
            json!({ "index_patterns": "*jaeger-span-*", "aliases": { "jaeger-span-read": {} },
                "settings": { "index.number_of_shards": 5, "index.number_of_replicas": 1, "index.mapping.nested_fields.limit": 50,
                    "index.requests.cache.enable": true },
                "mappings": {
                    "dynamic_templates": [{ "span_tags_map": { "path_match": "tag.*", "mapping": { "type": "keyword", "ignore_above": 256 } } }],
                    "properties": { "tags": { "type": "nested", "dynamic": false, "properties": { "key": keyword } } },
                } }),
        ),
    ] {
        let (status, answer) = service.ask(request, &body.to_string());
        assert_eq!(status, 200, "{name}: {answer}");
    }
    let event = json!({ "@timestamp": "2026-01-31T12:00:00Z", "message": "up", "labels": { "a": "b" }, "usage": { "cpu": 0.5 } });
    for name in ["logstash-a", "filebeat-8.19.0", "x-jaeger-span-1"] {
        let bulk = service.get(&format!("POST /{name}/_bulk"), &format!("{{\"create\":{{}}}}\n{event}\n"));
        assert_eq!(bulk["errors"], false, "{name}: {bulk}");
    }
}

#[test]
fn a_document_of_a_data_stream_has_one_time() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/s", r#"{"index_patterns":["s"],"data_stream":{}}"#);
    service.get(
        "PUT /_index_template/logs",
        r#"{"index_patterns":["logs"],"data_stream":{},"template":{"settings":{"index.mode":"logsdb"}}}"#,
    );
    for (stream, document, expected) in [
        ("s", r#"{"@timestamp":1}"#, ""),
        ("s", r#"{"@timestamp":["2024-01-01"]}"#, ""),
        ("s", "{}", "data stream timestamp field [@timestamp] is missing"),
        ("s", r#"{"@timestamp":null}"#, "data stream timestamp field [@timestamp] is missing"),
        (
            "s",
            r#"{"@timestamp":[1,2]}"#,
            "data stream timestamp field [@timestamp] encountered multiple values",
        ),
        ("logs", "{}", ""),
        ("plain", "{}", ""),
    ] {
        let item =
            service.get(&format!("POST /{stream}/_bulk"), &format!("{{\"create\":{{}}}}\n{document}\n"));
        let item = &item["items"][0]["create"];
        if expected.is_empty() {
            assert_eq!(item["status"], 201, "{stream} {document}: {item}");
            continue;
        }
        let error = &item["error"];
        assert_eq!(
            (&item["status"], &error["type"]),
            (&json!(400), &json!("document_parsing_exception")),
            "{item}"
        );
        assert_eq!(error["reason"], format!("failed to parse: {expected}"), "{document}");
        assert_eq!(error["caused_by"], json!({ "type": "illegal_argument_exception", "reason": expected }));
    }
    let (status, answer) = service.ask("POST /s/_doc", r#"{"n":1}"#);
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("document_parsing_exception")));
    assert_eq!(service.get("GET /s/_count", "")["count"], 2);
}

#[test]
fn settings_of_templates_are_shown_by_their_full_names() {
    let directory = directory();
    let service = TestService::open(&directory);
    let settings = r#""settings":{"number_of_shards":2,"index.refresh_interval":"5s"}"#;
    let nested = json!({ "index": { "number_of_shards": "2", "refresh_interval": "5s" } });
    let flat = json!({ "index.number_of_shards": "2", "index.refresh_interval": "5s" });
    for (path, body, pointer) in [
        ("_template/t", format!(r#"{{"index_patterns":"t-*",{settings}}}"#), "/t/settings"),
        (
            "_index_template/t",
            format!(r#"{{"index_patterns":"u-*","template":{{{settings}}}}}"#),
            "/index_templates/0/index_template/template/settings",
        ),
        (
            "_component_template/t",
            format!(r#"{{"template":{{{settings}}}}}"#),
            "/component_templates/0/component_template/template/settings",
        ),
    ] {
        service.get(&format!("PUT /{path}"), &body);
        assert_eq!(at(&service.get(&format!("GET /{path}"), ""), pointer), nested, "{path}");
        assert_eq!(at(&service.get(&format!("GET /{path}?flat_settings=true"), ""), pointer), flat, "{path}");
    }
}

#[test]
fn templates_are_simulated_without_making_anything() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_template/old", r#"{"index_patterns":["t*","x*"]}"#);
    service.get(
        "PUT /_component_template/part",
        r#"{"template":{"mappings":{"properties":{"c":{"type":"ip"}}}}}"#,
    );
    service.get(
        "PUT /_index_template/low",
        r#"{"index_patterns":"te*","template":{"settings":{"number_of_shards":2},"mappings":{"properties":{"l":{"type":"long"}}}}}"#,
    );
    let given = r#"{"index_patterns":"te*","priority":5,"composed_of":["part"],"template":{"settings":{"index.blocks.write":true},
        "aliases":{"also":{}},"lifecycle":{"data_retention":"7d"}}}"#;
    let low = json!({ "settings": { "index": { "number_of_shards": "2" } },
        "mappings": { "properties": { "l": { "type": "long" } } }, "aliases": {} });
    let new = json!({ "settings": { "index": { "blocks": { "write": "true" } } },
        "mappings": { "properties": { "c": { "type": "ip" } } }, "aliases": { "also": {} },
        "lifecycle": { "enabled": true, "data_retention": "7d", "effective_retention": "7d",
            "retention_determined_by": "data_stream_configuration" } });
    for (request, body, template, overlapping) in [
        ("POST /_index_template/_simulate_index/test", "", &low, vec!["old"]),
        ("POST /_index_template/_simulate_index/test", given, &new, vec!["old", "low"]),
        ("POST /_index_template/_simulate_index/none", given, &Value::Null, vec![]),
        ("POST /_index_template/_simulate/low", "", &low, vec!["old"]),
        ("POST /_index_template/_simulate", given, &new, vec!["old", "low"]),
    ] {
        let answer = service.get(request, body);
        assert_eq!(&at(&answer, "/template"), template, "{request} {body}: {answer}");
        let others = at(&answer, "/overlapping");
        let others: Vec<&str> =
            others.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(others, overlapping, "{request} {body}");
    }
    for (request, body, expected) in [
        ("POST /_index_template/_simulate", "", 400),
        ("POST /_index_template/_simulate/none", "", 404),
        ("POST /_index_template/_simulate", r#"{"index_patterns":"te*"}"#, 400),
        ("POST /_index_template/_simulate", r#"{"index_patterns":"u","composed_of":["none"]}"#, 400),
        ("POST /_index_template/_simulate", r#"{"index_patterns":"u","data_stream":{}}"#, 200),
        (
            "POST /_index_template/_simulate",
            r#"{"index_patterns":"u","data_stream":{},"template":{"mappings":{"properties":{"@timestamp":{"type":"long"}}}}}"#,
            400,
        ),
        ("PUT /_index_template/_x", r#"{"index_patterns":"u"}"#, 400),
        ("PUT /_template/A", r#"{"index_patterns":"u"}"#, 400),
        ("PUT /_component_template/a,b", r#"{"template":{}}"#, 400),
    ] {
        assert_eq!(service.ask(request, body).0, expected, "{request} {body}");
    }
    let names = at(&service.get("GET /_index_template", ""), "/index_templates");
    let names: Vec<&str> =
        names.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["low"]);
    assert_eq!(service.ask("HEAD /test", "").0, 404);
}
