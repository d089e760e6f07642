//! Rollovers: the next index of a data stream or of an alias.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

#[test]
fn a_data_stream_gets_its_next_index_once_a_condition_holds() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", r#"{"index_patterns":["logs*"],"data_stream":{}}"#);
    service.get("PUT /_data_stream/logs", "");
    service.get("POST /logs/_doc", r#"{"@timestamp":1}"#);
    for (request, body, is_done, held) in [
        ("POST /logs/_rollover?dry_run", "", false, json!({})),
        (
            "POST /logs/_rollover",
            r#"{"conditions":{"max_docs":2}}"#,
            false,
            json!({ "[max_docs: 2]": false }),
        ),
        (
            "POST /logs/_rollover?dry_run",
            r#"{"conditions":{"max_docs":1}}"#,
            false,
            json!({ "[max_docs: 1]": true }),
        ),
        (
            "POST /logs/_rollover",
            r#"{"conditions":{"max_docs":9,"max_age":"0s"}}"#,
            true,
            json!({ "[max_docs: 9]": false, "[max_age: 0s]": true }),
        ),
    ] {
        let answer = service.get(request, body);
        assert_eq!(
            (&answer["rolled_over"], &answer["conditions"]),
            (&json!(is_done), &held),
            "{request} {body}"
        );
        assert_eq!(answer["new_index"], ".ds-logs-000002", "{request} {body}");
        let generation = if is_done { 2 } else { 1 };
        assert_eq!(
            service.get("GET /_data_stream/logs", "")["data_streams"][0]["generation"],
            generation,
            "{body}"
        );
    }
    assert_eq!(service.get("POST /logs/_rollover", "{}")["new_index"], ".ds-logs-000003");
}

#[test]
fn an_alias_moves_to_its_next_index() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /_index_template/t",
        r#"{"index_patterns":["moved-*","named-*"],"template":{"settings":{"index.priority":3}}}"#,
    );
    service.get("PUT /moved-9", r#"{"aliases":{"moved":{},"other":{}}}"#);
    service.get("PUT /named-1", r#"{"aliases":{"named":{"is_write_index":true,"filter":{"term":{"n":1}}}}}"#);
    let body = r#"{"settings":{"index.refresh_interval":"7s"},"aliases":{"also":{}},"mappings":{"properties":{"n":{"type":"byte"}}}}"#;
    for (target, old, new) in [
        ("moved/_rollover", "moved-9", "moved-000010"),
        ("named/_rollover", "named-1", "named-000002"),
        ("named/_rollover/named-x", "named-000002", "named-x"),
    ] {
        let answer = service.get(&format!("POST /{target}"), body);
        assert_eq!((&answer["old_index"], &answer["new_index"]), (&json!(old), &json!(new)), "{target}");
        assert_eq!(answer["rolled_over"], true, "{target}");
        let index = service.get(&format!("GET /{new}"), "")[new].take();
        let settings = &index["settings"]["index"];
        assert_eq!(
            (&settings["priority"], &settings["refresh_interval"]),
            (&json!("3"), &json!("7s")),
            "{target}"
        );
        assert_eq!(index["mappings"]["properties"]["n"]["type"], "byte", "{target}");
        let alias = target.split('/').next().expect("a name");
        assert!(index["aliases"][alias].is_object() && index["aliases"]["also"].is_object(), "{index}");
        assert_eq!(service.get(&format!("PUT /{alias}/_doc/1"), r#"{"n":1}"#)["_index"], new);
    }
    // What a request or a template says of the alias does not keep it from writes.
    for alias in ["moved", "named"] {
        let body = json!({ "aliases": { alias: { "is_write_index": false } } }).to_string();
        let new = format!("{alias}-last");
        service.get(&format!("POST /{alias}/_rollover/{new}"), &body);
        assert_eq!(service.get(&format!("PUT /{alias}/_doc/2"), r#"{"n":1}"#)["_index"], new.as_str());
    }
    let aliases = |index: &str| service.get(&format!("GET /{index}/_alias"), "")[index]["aliases"].take();
    assert_eq!(aliases("moved-9"), json!({ "other": {} }));
    assert_eq!(
        aliases("named-1"),
        json!({ "named": { "is_write_index": false, "filter": { "term": { "n": 1 } } } })
    );
    assert_eq!(aliases("named-last")["named"], json!({ "is_write_index": true }));
}

#[test]
fn a_rollover_that_cannot_be_done_changes_nothing() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/s", r#"{"index_patterns":["s"],"data_stream":{}}"#);
    service.get("PUT /_data_stream/s", "");
    service.get("PUT /one", r#"{"aliases":{"a":{},"both":{}}}"#);
    service.get("PUT /two-1", r#"{"aliases":{"b":{"is_write_index":true},"both":{}}}"#);
    service.get("PUT /two-000002", "{}");
    let before = service.get("GET /*/_alias?expand_wildcards=all", "");
    for (request, body, expected) in [
        ("POST /none/_rollover", "", "400 illegal_argument_exception"),
        ("POST /one/_rollover", "", "400 illegal_argument_exception"),
        ("POST /a/_rollover", "", "400 illegal_argument_exception"),
        ("POST /a/_rollover/X", "", "400 invalid_index_name_exception"),
        ("POST /a/_rollover/X?dry_run", "", "400 invalid_index_name_exception"),
        ("POST /b/_rollover", "", "400 resource_already_exists_exception"),
        ("POST /both/_rollover/new-1", "", "400 illegal_argument_exception"),
        ("POST /s/_rollover/new-1", "", "400 illegal_argument_exception"),
        ("POST /s/_rollover", r#"{"settings":{"index.priority":1}}"#, "400 illegal_argument_exception"),
        ("POST /b/_rollover/new-1", r#"{"what":{}}"#, "400 illegal_argument_exception"),
        ("POST /b/_rollover/new-1", r#"{"conditions":{"max_size":"1gb"}}"#, "400 illegal_argument_exception"),
        ("POST /b/_rollover/new-1", r#"{"conditions":{"max_docs":"x"}}"#, "400 x_content_parse_exception"),
        ("POST /b/_rollover/new-1", r#"{"conditions":{"max_age":"soon"}}"#, "400 illegal_argument_exception"),
        (
            "POST /b/_rollover/new-1",
            r#"{"mappings":{"properties":{"n":{"type":"what"}}}}"#,
            "400 mapper_parsing_exception",
        ),
    ] {
        let (status, answer) = service.ask(request, body);
        let kind = answer["error"]["type"].as_str().unwrap_or_default();
        assert_eq!(format!("{status} {kind}"), expected, "{request} {body}: {answer}");
        let after: Value = service.get("GET /*/_alias?expand_wildcards=all", "");
        assert_eq!(after, before, "{request} {body}");
    }
}
