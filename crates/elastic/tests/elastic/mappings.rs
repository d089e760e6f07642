//! Mappings of indexes: those of single fields, and those of the indexes that take writes.

use serde_json::{Value, json};

use crate::door_support::{TestDoor, directory};

#[test]
fn mappings_of_fields_are_found_by_name_and_pattern() {
    let directory = directory();
    let door = TestDoor::open(&directory);
    let mappings = r#"{"mappings":{"properties":{"t1":{"type":"text","fields":{"raw":{"type":"keyword"}}},
        "o":{"properties":{"t1":{"type":"long"},"x":{"type":"ip"}}}}}}"#;
    door.get("PUT /a", mappings);
    door.get("PUT /b", r#"{"mappings":{"properties":{"t2":{"type":"text"}}}}"#);
    for (target, expected) in [
        ("a/_mapping/field/t1", "a:t1"),
        ("a/_mapping/field/t1,none", "a:t1"),
        ("a/_mapping/field/none", "a:"),
        ("_mapping/field/t*", "a:t1,t1.raw b:t2"),
        ("_all/_mapping/field/*", "a:o.t1,o.x,t1,t1.raw b:t2"),
        ("a/_mapping/field/o.*", "a:o.t1,o.x"),
        ("*/_mapping/field/*.raw", "a:t1.raw b:"),
    ] {
        let answer = door.get(&format!("GET /{target}"), "");
        let shown = answer.as_object().expect("indexes").iter().map(|(index, of)| {
            let mut fields: Vec<&str> =
                of["mappings"].as_object().expect("fields").keys().map(String::as_str).collect();
            fields.sort_unstable();
            format!("{index}:{}", fields.join(","))
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{target}");
    }
    let one = door.get("GET /a/_mapping/field/t1.raw", "")["a"]["mappings"]["t1.raw"].take();
    assert_eq!(one, json!({ "full_name": "t1.raw", "mapping": { "raw": { "type": "keyword" } } }));
    let full = door.get("GET /b/_mapping/field/t2?include_defaults=true", "");
    assert_eq!(
        full["b"]["mappings"]["t2"]["mapping"]["t2"],
        json!({ "type": "text", "index": true, "store": false, "analyzer": "default" })
    );
    assert_eq!(door.ask("GET /none/_mapping/field/x", "").0, 404);
}

#[test]
fn mappings_may_be_changed_where_writes_go_alone() {
    let directory = directory();
    let door = TestDoor::open(&directory);
    door.get("PUT /a-1", r#"{"aliases":{"a":{}}}"#);
    door.get("PUT /a-2", r#"{"aliases":{"a":{"is_write_index":true},"unwritten":{"is_write_index":false}}}"#);
    door.get("PUT /_index_template/s", r#"{"index_patterns":["s"],"data_stream":{}}"#);
    door.get("PUT /_data_stream/s", "");
    door.get("POST /s/_rollover", "");
    let with = |field: &str| {
        let all = door.get("GET /*/_mapping?expand_wildcards=all", "");
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
        door.get(&format!("PUT /{target}"), &body);
        assert_eq!(with(field), expected, "{target}");
    }
    let (status, answer) = door.ask("PUT /unwritten/_mapping?write_index_only=true", "{}");
    assert_eq!((status, &answer["error"]["type"]), (400, &Value::from("illegal_argument_exception")));
}
