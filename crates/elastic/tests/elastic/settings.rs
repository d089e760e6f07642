//! Settings of indexes and of the cluster: the forms in which they are changed and shown.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

#[test]
fn settings_of_indexes_are_shown_as_they_are_asked_for() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"settings":{"number_of_shards":2,"index":{"routing":{"allocation":{"x":true}}},"index.priority":7}}"#,
    );
    for (target, pointer, expected) in [
        ("a/_settings", "/a/settings/index/number_of_shards", json!("2")),
        ("a/_settings", "/a/settings/index/routing", json!({ "allocation": { "x": "true" } })),
        ("a/_settings", "/a/defaults", Value::Null),
        ("a/_settings", "/a/settings/index/creation_date_string", Value::Null),
        (
            "a/_settings/index.pri*,index.number_of_shards",
            "/a/settings",
            json!({ "index": { "number_of_shards": "2", "priority": "7" } }),
        ),
        ("a/_settings?flat_settings=true", "/a/settings/index.routing.allocation.x", json!("true")),
        (
            "a/_settings?include_defaults=true&flat_settings=true",
            "/a/defaults/index.refresh_interval",
            json!("1s"),
        ),
        ("a/_settings?include_defaults=true", "/a/defaults/index/max_result_window", json!("10000")),
        (
            "a/_settings/index.refresh*?include_defaults=true",
            "/a",
            json!({ "settings": {}, "defaults": { "index": { "refresh_interval": "1s" } } }),
        ),
        ("a?human=true", "/a/settings/index/version/created_string", json!("8.19.0")),
        ("a?include_defaults=true", "/a/defaults/index/hidden", json!("false")),
    ] {
        let answer = service.get(&format!("GET /{target}"), "");
        assert_eq!(answer.pointer(pointer).cloned().unwrap_or_default(), expected, "{target}: {answer}");
    }
    let created =
        service.get("GET /a?human=true", "")["a"]["settings"]["index"]["creation_date_string"].take();
    assert!(created.as_str().is_some_and(|date| date.ends_with('Z')), "{created}");
    // A setting of the index is not shown as a default.
    service.get("PUT /a/_settings", r#"{"refresh_interval":"9s"}"#);
    let shown = service.get("GET /a/_settings/index.refresh*?include_defaults=true", "");
    assert_eq!(shown["a"], json!({ "settings": { "index": { "refresh_interval": "9s" } }, "defaults": {} }));
}

#[test]
fn settings_of_the_cluster_are_nested_unless_they_are_asked_for_flat() {
    let directory = directory();
    let service = TestService::open(&directory);
    let set = r#"{"transient":{"search":{"max_buckets":9},"action.auto_create_index":"a*"},"persistent":{"x.y":null}}"#;
    let nested = json!({ "search": { "max_buckets": "9" }, "action": { "auto_create_index": "a*" } });
    let flat = json!({ "search.max_buckets": "9", "action.auto_create_index": "a*" });
    let changed = service.get("PUT /_cluster/settings", set);
    assert_eq!(changed, json!({ "acknowledged": true, "persistent": {}, "transient": nested }));
    assert_eq!(service.get("PUT /_cluster/settings?flat_settings=true", set)["transient"], flat);
    assert_eq!(service.get("GET /_cluster/settings", ""), json!({ "persistent": {}, "transient": nested }));
    assert_eq!(service.get("GET /_cluster/settings?flat_settings=true", "")["transient"], flat);
    let cleared = service.get("PUT /_cluster/settings", r#"{"transient":{"search.*":null}}"#);
    assert_eq!(cleared["transient"], json!({}));
    let shown = service.get("GET /_cluster/settings?include_defaults=true", "");
    assert_eq!(
        shown,
        json!({ "persistent": {}, "transient": { "action": { "auto_create_index": "a*" } },
            "defaults": { "search": { "max_buckets": "65535" } } })
    );
    for (body, kind) in [
        ("{}", "action_request_validation_exception"),
        (r#"{"persistent":{},"transient":{}}"#, "action_request_validation_exception"),
        (r#"{"persistant":{"a":1}}"#, "x_content_parse_exception"),
    ] {
        let (status, answer) = service.ask("PUT /_cluster/settings", body);
        assert_eq!((status, answer["error"]["type"].as_str()), (400, Some(kind)), "{body}");
    }
}

/// Of several indexes, the one that allows the least counts.
#[test]
fn searches_have_as_much_as_their_indexes_allow() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", "{}");
    service.get(
        "PUT /b",
        r#"{"settings":{"index.max_slices_per_scroll":2000,"index.max_docvalue_fields_search":2}}"#,
    );
    let slices = |max: u64| json!({ "slice": { "id": 0, "max": max } });
    let fields = |count: usize| json!({ "docvalue_fields": vec!["n"; count] });
    for (indexes, body, expected) in [
        ("a", slices(1_024), 200),
        ("a", slices(1_025), 400),
        ("b", slices(2_000), 200),
        ("b", slices(2_001), 400),
        ("a,b", slices(2_000), 400),
        ("a", fields(100), 200),
        ("a", fields(101), 400),
        ("b", fields(2), 200),
        ("a,b", fields(3), 400),
    ] {
        let (status, answer) = service.ask(&format!("POST /{indexes}/_search?scroll=1m"), &body.to_string());
        assert_eq!(status, expected, "{indexes} {body}: {answer}");
    }
    for (max, expected) in [(1_024, 200), (1_025, 400)] {
        let mut body = slices(max);
        body["query"] = json!({ "match_all": {} });
        let (status, answer) = service.ask("POST /a/_delete_by_query", &body.to_string());
        assert_eq!(status, expected, "{max}: {answer}");
    }
    assert_eq!(service.ask("PUT /a/_settings", r#"{"index.max_slices_per_scroll":0}"#).0, 400);
}

#[test]
fn blocks_refuse_writes_and_nothing_else() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"aliases":{"b":{}}}"#);
    service.get("PUT /a/_doc/1", r#"{"n":1}"#);
    let put = |name: &str, value: bool| json!({ "index": { "blocks": { name: value } } }).to_string();
    for (name, status, block) in [
        ("write", 403, "FORBIDDEN/8/index write (api)"),
        ("read_only", 403, "FORBIDDEN/5/index read-only (api)"),
        ("read_only_allow_delete", 429, "TOO_MANY_REQUESTS/12/index has read-only-allow-delete block"),
    ] {
        service.get("PUT /a/_settings", &put(name, true));
        for (request, body) in [
            ("PUT /a/_doc/2", "{}"),
            ("POST /b/_update/1", r#"{"doc":{}}"#),
            ("DELETE /a/_doc/1", ""),
            ("POST /a/_delete_by_query", r#"{"query":{"match_all":{}}}"#),
        ] {
            let (found, answer) = service.ask(request, body);
            let error = &answer["error"];
            assert_eq!(
                (found, error["type"].as_str()),
                (status, Some("cluster_block_exception")),
                "{request}: {answer}"
            );
            assert_eq!(error["reason"], format!("index [a] blocked by: [{block}];"), "{request}");
        }
        let bulk = service
            .get("POST /_bulk", "{\"index\":{\"_index\":\"a\"}}\n{}\n{\"index\":{\"_index\":\"c\"}}\n{}\n");
        let statuses = [0, 1].map(|at| bulk["items"][at]["index"]["status"].clone());
        assert_eq!(statuses, [json!(status), json!(201)], "{name}");
        assert_eq!(service.get("GET /a/_count", "")["count"], 1, "{name}");
        service.get("PUT /a/_settings", &put(name, false));
        service.get("PUT /a/_doc/1", r#"{"n":2}"#);
    }
    let answer = service.get("PUT /b/_block/write", "");
    assert_eq!(answer["indices"], json!([{ "name": "a", "blocked": true }]));
    assert_eq!(service.ask("PUT /a/_doc/2", "{}").0, 403);
    assert_eq!(service.ask("PUT /a/_block/read", "").0, 400);
    assert_eq!(service.ask("PUT /none/_block/write", "").0, 404);
    assert_eq!(service.ask("PUT /a/_settings", &put("read", true)).0, 400);
    let yes = json!({ "index.blocks.write": "yes" });
    assert_eq!(service.ask("PUT /a/_settings", &yes.to_string()).0, 400);
    let template =
        |settings: Value| json!({ "index_patterns": ["t*"], "template": { "settings": settings } });
    for (settings, expected) in [
        (yes, 400),
        (json!({ "index.blocks.read": true }), 400),
        (json!({ "index.blocks.write": true }), 200),
    ] {
        let (status, answer) = service.ask("PUT /_index_template/t", &template(settings).to_string());
        assert_eq!(status, expected, "{answer}");
    }
    // The write that makes an index is refused, too.
    assert_eq!(service.ask("PUT /t/_doc/1", "{}").0, 403);
    assert_eq!(service.ask("PUT /t/_doc/1", "{}").0, 403);
}

#[test]
fn unknown_settings_of_indexes_are_refused_and_others_kept() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", "{}");
    for (setting, is_known) in [
        ("index.foo", false),
        ("number_of_shard", false),
        ("index.translogs.durability", false),
        ("index.codec", true),
        ("index.translog.durability", true),
        ("index.mapping.coerce", true),
        ("index.logsdb.sort_on_host_name", true),
        ("index.merge_on_flush.enabled", true),
        ("routing.allocation.require.box", true),
        ("index.lifecycle.name", true),
        ("index.analysis.filter.mine.type", true),
        ("index.default_pipeline", true),
    ] {
        let settings = json!({ setting: "x" });
        let template = json!({ "settings": settings });
        let patterns = json!({ "index_patterns": ["t"], "template": template });
        let legacy = json!({ "index_patterns": ["l"], "settings": settings });
        let full =
            if setting.starts_with("index.") { setting.to_owned() } else { format!("index.{setting}") };
        for (request, body) in [
            ("PUT /new", &template),
            ("PUT /a/_settings", &settings),
            ("PUT /_index_template/t", &patterns),
            ("PUT /_component_template/c", &json!({ "template": template })),
            ("PUT /_template/l", &legacy),
        ] {
            let (status, answer) = service.ask(request, &body.to_string());
            assert_eq!(status, if is_known { 200 } else { 400 }, "{request} {body}: {answer}");
            if !is_known {
                assert_eq!(
                    answer["error"]["reason"],
                    format!(
                        "unknown setting [{full}] please check that any required plugins are installed, or check the \
                         breaking changes documentation for removed settings"
                    ),
                    "{request}"
                );
            }
        }
        if is_known {
            let shown = service.get("GET /new/_settings?flat_settings=true", "");
            assert_eq!(shown["new"]["settings"][&full], "x", "{setting}");
            service.get("DELETE /new", "");
        }
        // One that is removed may be any.
        service.get("PUT /a/_settings", &json!({ setting: null }).to_string());
    }
}

/// Of several indexes, the one that allows the least counts.
#[test]
fn pages_reach_as_far_as_their_indexes_allow() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", "{}");
    service.get("PUT /few", r#"{"settings":{"index.max_result_window":5}}"#);
    service.get("PUT /many", r#"{"settings":{"index.max_result_window":20000}}"#);
    for (request, expected) in [
        ("GET /a/_search?size=10000", ""),
        ("GET /a/_search?size=10000&from=1", "less than or equal to: [10000] but was [10001]"),
        ("GET /few/_search?size=3&from=2", ""),
        ("GET /few/_search?size=3&from=3", "less than or equal to: [5] but was [6]"),
        ("GET /many/_search?size=20000", ""),
        ("GET /many/_search?size=20001", "less than or equal to: [20000] but was [20001]"),
        ("GET /many,a/_search?size=20000", "less than or equal to: [10000] but was [20000]"),
        ("GET /a/_search?size=9000000000000000000&from=9000000000000000000", "Result window is too large"),
        (
            "GET /few/_search?size=6&scroll=1m",
            "Batch size is too large, size must be less than or equal to: [5]",
        ),
        ("GET /few/_search?size=5&scroll=1m", ""),
    ] {
        let (status, answer) = service.ask(request, "");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert_eq!(status, if expected.is_empty() { 200 } else { 400 }, "{request}: {answer}");
        assert!(reason.contains(expected), "{request}: {reason}");
    }
    service.get("PUT /few/_settings", r#"{"index.max_result_window":6}"#);
    service.get("GET /few/_search?size=6", "");
    assert_eq!(service.ask("PUT /few/_settings", r#"{"index.max_result_window":0}"#).0, 400);
}
