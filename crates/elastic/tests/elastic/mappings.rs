//! Mappings of indexes: those of single fields, and those of the indexes that take writes.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

#[test]
fn mappings_of_fields_are_found_by_name_and_pattern() {
    let directory = directory();
    let service = TestService::open(&directory);
    let mappings = r#"{"mappings":{"properties":{"t1":{"type":"text","fields":{"raw":{"type":"keyword"}}},
        "o":{"properties":{"t1":{"type":"long"},"x":{"type":"ip"}}}}}}"#;
    service.get("PUT /a", mappings);
    service.get("PUT /b", r#"{"mappings":{"properties":{"t2":{"type":"text"}}}}"#);
    for (target, expected) in [
        ("a/_mapping/field/t1", "a:t1"),
        ("a/_mapping/field/t1,none", "a:t1"),
        ("a/_mapping/field/none", "a:"),
        ("_mapping/field/t*", "a:t1,t1.raw b:t2"),
        ("_all/_mapping/field/*", "a:o.t1,o.x,t1,t1.raw b:t2"),
        ("a/_mapping/field/o.*", "a:o.t1,o.x"),
        ("*/_mapping/field/*.raw", "a:t1.raw b:"),
    ] {
        let answer = service.get(&format!("GET /{target}"), "");
        let shown = answer.as_object().expect("indexes").iter().map(|(index, of)| {
            let mut fields: Vec<&str> =
                of["mappings"].as_object().expect("fields").keys().map(String::as_str).collect();
            fields.sort_unstable();
            format!("{index}:{}", fields.join(","))
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{target}");
    }
    let one = service.get("GET /a/_mapping/field/t1.raw", "")["a"]["mappings"]["t1.raw"].take();
    assert_eq!(one, json!({ "full_name": "t1.raw", "mapping": { "raw": { "type": "keyword" } } }));
    let full = service.get("GET /b/_mapping/field/t2?include_defaults=true", "");
    assert_eq!(
        full["b"]["mappings"]["t2"]["mapping"]["t2"],
        json!({ "type": "text", "index": true, "store": false, "analyzer": "default" })
    );
    assert_eq!(service.ask("GET /none/_mapping/field/x", "").0, 404);
}

#[test]
fn mappings_may_be_changed_where_writes_go_alone() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a-1", r#"{"aliases":{"a":{}}}"#);
    service
        .get("PUT /a-2", r#"{"aliases":{"a":{"is_write_index":true},"unwritten":{"is_write_index":false}}}"#);
    service.get("PUT /_index_template/s", r#"{"index_patterns":["s"],"data_stream":{}}"#);
    service.get("PUT /_data_stream/s", "");
    service.get("POST /s/_rollover", "");
    let with = |field: &str| {
        let all = service.get("GET /*/_mapping?expand_wildcards=all", "");
        let indexes = all.as_object().expect("indexes").iter();
        let found = indexes.filter(|(_, of)| !of["mappings"]["properties"][field].is_null());
        found.map(|(name, _)| name.trim_start_matches(".ds-").to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (field, target, expected) in [
        ("f", "a/_mapping", "a-1 a-2"),
        ("g", "a/_mapping?write_index_only=true", "a-2"),
        ("h", "a,a-1/_mapping?write_index_only=true", "a-1 a-2"),
        ("i", "s/_mapping?write_index_only=true", "s-000002"),
        ("j", "a-*/_mapping?write_index_only=true", "a-1 a-2"),
    ] {
        let body = json!({ "properties": { field: { "type": "long" } } }).to_string();
        service.get(&format!("PUT /{target}"), &body);
        assert_eq!(with(field), expected, "{target}");
    }
    let (status, answer) = service.ask("PUT /unwritten/_mapping?write_index_only=true", "{}");
    assert_eq!((status, &answer["error"]["type"]), (400, &Value::from("illegal_argument_exception")));
}

/// The limit is that of the settings, of all parts of an index together.
#[test]
fn an_index_has_as_many_fields_as_its_settings_allow() {
    let directory = directory();
    let service = TestService::open(&directory);
    let fields = |from: usize, to: usize| {
        let all = (from..to).map(|field| (format!("f{field}"), json!({ "type": "long" })));
        Value::Object(all.collect())
    };
    let limited = |limit: usize| json!({ "index.mapping.total_fields.limit": limit });
    for (count, settings, expected) in [
        (1_000, json!({}), 200),
        (1_001, json!({}), 400),
        (1_001, limited(2_000), 200),
        (4, limited(3), 400),
        (3, limited(0), 400),
        (20_001, limited(50_000), 400),
    ] {
        let body = json!({ "settings": settings, "mappings": { "properties": fields(0, count) } });
        let (status, answer) = service.ask("PUT /a", &body.to_string());
        assert_eq!(status, expected, "{count} {settings}: {}", answer["error"]["reason"]);
        service.ask("DELETE /a", "");
    }
    // Large templates of shippers say how many fields they have.
    let template = json!({ "index_patterns": ["b"], "template": {
        "settings": { "index": { "mapping": { "total_fields": { "limit": 3_001 } } } },
        "mappings": { "properties": fields(0, 3_000) },
    } });
    service.get("PUT /_index_template/b", &template.to_string());
    service.get("PUT /b/_doc/1", r#"{"one":1}"#);
    let (status, answer) = service.ask("PUT /b/_doc/2", r#"{"one":1,"two":2}"#);
    assert_eq!((status, &answer["error"]["type"]), (400, &Value::from("illegal_argument_exception")));
    let added = json!({ "properties": fields(3_000, 3_001) }).to_string();
    assert_eq!(service.ask("PUT /b/_mapping", &added).0, 400);
    service.get("PUT /b/_settings", r#"{"index.mapping.total_fields.limit":"3002"}"#);
    service.get("PUT /b/_mapping", &added);
}

/// A field that stands for another is searched as that one; those that stand for each other have no values.
#[test]
fn fields_stand_for_others_and_not_for_each_other() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"n":{"type":"long"},"m":{"type":"alias","path":"n"},
            "x":{"type":"alias","path":"y"},"y":{"type":"alias","path":"x"},"z":{"type":"alias","path":"z"}}}}"#,
    );
    service.get("PUT /a/_doc/1", r#"{"n":7}"#);
    for (field, expected) in [("n", 1), ("m", 1), ("x", 0), ("y", 0), ("z", 0)] {
        let body = json!({ "query": { "term": { field: 7 } } }).to_string();
        assert_eq!(service.get("GET /a/_count", &body)["count"], expected, "{field}");
    }
}

/// Of a field of a type, the indexes that cannot do what others can are listed.
#[test]
fn capabilities_name_the_indexes_without_them() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (index, x, y, z) in [
        (
            "a",
            r#"{"type":"long","index":false}"#,
            r#"{"type":"long","doc_values":false}"#,
            r#"{"type":"long"}"#,
        ),
        (
            "b",
            r#"{"type":"long"}"#,
            r#"{"type":"long","doc_values":false}"#,
            r#"{"type":"ip","index":false}"#,
        ),
    ] {
        let body = format!(r#"{{"mappings":{{"properties":{{"x":{x},"y":{y},"z":{z}}}}}}}"#);
        service.get(&format!("PUT /{index}"), &body);
    }
    let fields = service.get("GET /a,b/_field_caps?fields=*", "")["fields"].take();
    let able = |kind: &str| json!({ "type": kind, "metadata_field": false, "searchable": true, "aggregatable": true });
    let with = |mut capability: Value, members: Value| {
        let all = capability.as_object_mut().expect("an object");
        all.extend(members.as_object().cloned().unwrap_or_default());
        capability
    };
    for (pointer, expected) in [
        ("/x/long", with(able("long"), json!({ "searchable": false, "non_searchable_indices": ["a"] }))),
        ("/y/long", with(able("long"), json!({ "aggregatable": false }))),
        ("/z/long", with(able("long"), json!({ "indices": ["a"] }))),
        ("/z/ip", with(able("ip"), json!({ "searchable": false, "indices": ["b"] }))),
    ] {
        assert_eq!(fields.pointer(pointer), Some(&expected), "{pointer}");
    }
}
