//! Fields that a mapping lacks: by their first values, by templates, and by the mode of their object.

use serde_json::Value;

use crate::service_support::{TestService, directory};

/// Definition of a field after a document was written to an index with a mapping; the type of the error if it
/// was refused.
fn defined(mappings: &str, document: &str, path: &str) -> String {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", &format!("{{\"mappings\":{mappings}}}"));
    let (status, answer) = service.ask("PUT /a/_doc/1", document);
    if status != 201 {
        return format!("{status} {}", answer["error"]["type"].as_str().unwrap_or_default());
    }
    let mut mapping = service.get("GET /a/_mapping", "")["a"]["mappings"].take();
    for part in path.split('.') {
        mapping = mapping["properties"][part].take();
    }
    match mapping {
        Value::Null => "none".to_owned(),
        field => field.to_string(),
    }
}

const TEXT: &str = r#"{"type":"text","fields":{"keyword":{"type":"keyword","ignore_above":256}}}"#;

#[test]
fn new_fields_have_the_types_of_their_first_values() {
    for (mappings, document, expected) in [
        (
            "{}",
            r#"{"n":"2024/01/31"}"#,
            r#"{"type":"date","format":"yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis"}"#,
        ),
        ("{}", r#"{"n":"2024-01-31"}"#, r#"{"type":"date"}"#),
        ("{}", r#"{"n":"7"}"#, TEXT),
        (r#"{"date_detection":false}"#, r#"{"n":"2024-01-31"}"#, TEXT),
        (r#"{"numeric_detection":true}"#, r#"{"n":"7"}"#, r#"{"type":"long"}"#),
        (r#"{"numeric_detection":true}"#, r#"{"n":["7.5"]}"#, r#"{"type":"float"}"#),
        (r#"{"numeric_detection":true}"#, r#"{"n":"7 km"}"#, TEXT),
        (
            r#"{"dynamic_date_formats":["dd.MM.yyyy","MM/yyyy"]}"#,
            r#"{"n":"02/2024"}"#,
            r#"{"type":"date","format":"MM/yyyy"}"#,
        ),
        (r#"{"dynamic_date_formats":["dd.MM.yyyy"]}"#, r#"{"n":"2024-01-31"}"#, TEXT),
    ] {
        assert_eq!(defined(mappings, document, "n"), expected, "{mappings} {document}");
    }
}

#[test]
fn the_first_template_that_matches_defines_a_new_field() {
    let keyword = r#"{"type":"keyword"}"#;
    for (template, document, path, expected) in [
        // By kind.
        (r#"{"match_mapping_type":"string","mapping":{"type":"keyword"}}"#, r#"{"n":"x"}"#, "n", keyword),
        (r#"{"match_mapping_type":"string","mapping":{}}"#, r#"{"n":"x"}"#, "n", r#"{"type":"text"}"#),
        (
            r#"{"match_mapping_type":"string","mapping":{"type":"keyword"}}"#,
            r#"{"n":1}"#,
            "n",
            r#"{"type":"long"}"#,
        ),
        (
            r#"{"match_mapping_type":["long","double"],"mapping":{"type":"double"}}"#,
            r#"{"n":1}"#,
            "n",
            r#"{"type":"double"}"#,
        ),
        (
            r#"{"match_mapping_type":"date","mapping":{"type":"date","ignore_malformed":true}}"#,
            r#"{"n":"2024/01/31"}"#,
            "n",
            r#"{"type":"date","ignore_malformed":true,"format":"yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis"}"#,
        ),
        (
            r#"{"match_mapping_type":"object","mapping":{"type":"nested"}}"#,
            r#"{"n":{"m":1}}"#,
            "n",
            r#"{"type":"nested","properties":{"m":{"type":"long"}}}"#,
        ),
        (
            r#"{"match_mapping_type":"*","unmatch_mapping_type":"object","mapping":{"type":"{dynamic_type}","store":true}}"#,
            r#"{"n":{"m":true}}"#,
            "n.m",
            r#"{"type":"boolean","store":true}"#,
        ),
        (
            r#"{"match_mapping_type":"*","mapping":{"index":false}}"#,
            r#"{"n":{"m":1}}"#,
            "n",
            r#"{"index":false,"properties":{"m":{"index":false,"type":"long"}}}"#,
        ),
        // By name and by path.
        (r#"{"match":"n*","mapping":{"type":"keyword"}}"#, r#"{"o":{"nn":1}}"#, "o.nn", keyword),
        (r#"{"match":["x","n"],"mapping":{"type":"keyword"}}"#, r#"{"n":1}"#, "n", keyword),
        (
            r#"{"match":"*","unmatch":"n","mapping":{"type":"keyword"}}"#,
            r#"{"n":1}"#,
            "n",
            r#"{"type":"long"}"#,
        ),
        (r#"{"path_match":"o.*","mapping":{"type":"keyword"}}"#, r#"{"o.n":1}"#, "o.n", keyword),
        (
            r#"{"path_match":"o.*","path_unmatch":"*.n","mapping":{"type":"keyword"}}"#,
            r#"{"o":{"n":1}}"#,
            "o.n",
            r#"{"type":"long"}"#,
        ),
        (
            r#"{"match_pattern":"regex","match":"n\\d+","mapping":{"type":"keyword"}}"#,
            r#"{"n12":1}"#,
            "n12",
            keyword,
        ),
        (
            r#"{"match":"n","mapping":{"type":"text","fields":{"{name}_raw":{"type":"keyword"}}}}"#,
            r#"{"n":"x"}"#,
            "n",
            r#"{"type":"text","fields":{"n_raw":{"type":"keyword"}}}"#,
        ),
        // A template without conditions is for none, and a field that is there has its type.
        (r#"{"mapping":{"type":"keyword"}}"#, r#"{"n":1}"#, "n", r#"{"type":"long"}"#),
        (
            r#"{"match":"known","mapping":{"type":"keyword"}}"#,
            r#"{"known":1}"#,
            "known",
            r#"{"type":"long"}"#,
        ),
    ] {
        let mappings = format!(
            r#"{{"properties":{{"known":{{"type":"long"}}}},
            "dynamic_templates":[{{"first":{template}}},{{"later":{{"match":"*raw","mapping":{{"type":"ip"}}}}}}]}}"#
        );
        assert_eq!(defined(&mappings, document, path), expected, "{template} {document}");
    }
}

#[test]
fn objects_may_take_new_fields_of_templates_alone() {
    for (mode, document, expected) in [
        ("strict_allow_templates", r#"{"s_n":"x"}"#, r#"{"type":"keyword"}"#),
        ("strict_allow_templates", r#"{"s_n":"x","m":1}"#, "400 strict_dynamic_mapping_exception"),
        ("false_allow_templates", r#"{"s_n":"x","m":1}"#, r#"{"type":"keyword"}"#),
        ("strict", r#"{"s_n":"x"}"#, "400 strict_dynamic_mapping_exception"),
        ("false", r#"{"s_n":"x"}"#, "none"),
    ] {
        let mappings = format!(
            r#"{{"dynamic":"{mode}","dynamic_templates":[{{"s":{{"match":"s_*","mapping":{{"type":"keyword"}}}}}}]}}"#
        );
        assert_eq!(defined(&mappings, document, "s_n"), expected, "{mode} {document}");
    }
}

/// Templates stay in the mapping, come from templates of indexes, and are checked.
#[test]
fn templates_of_fields_are_kept_and_checked() {
    let directory = directory();
    let service = TestService::open(&directory);
    let strings = r#"{"strings":{"match_mapping_type":"string","mapping":{"type":"keyword"}}}"#;
    service.get(
        "PUT /_index_template/t",
        &format!(
            r#"{{"index_patterns":["t-*"],"template":{{"mappings":{{"dynamic_templates":[{strings}]}}}}}}"#
        ),
    );
    service.get("PUT /t-1/_doc/1", r#"{"n":"x"}"#);
    service.get("POST /t-1/_update/1", r#"{"doc":{"m":"y"}}"#);
    let mappings = service.get("GET /t-1/_mapping", "")["t-1"]["mappings"].take();
    assert_eq!(mappings["dynamic_templates"].to_string(), format!("[{strings}]"));
    assert_eq!(
        (&mappings["properties"]["n"]["type"], &mappings["properties"]["m"]["type"]),
        (&Value::from("keyword"), &Value::from("keyword"))
    );

    for templates in [
        r#"{"x":{}}"#,
        r#"["x"]"#,
        r#"[{"x":{"mapping":{}},"y":{"mapping":{}}}]"#,
        r#"[{"x":{"match":"*"}}]"#,
        r#"[{"x":{"match":"*","mapping":{"type":"bogus"}}}]"#,
        r#"[{"x":{"match":"*","mapping":{"properties":{"y":{"type":"bogus"}}}}}]"#,
        r#"[{"x":{"match":"*","mapping":{"type":"text","fields":{"y":{"type":"bogus"}}}}}]"#,
        r#"[{"x":{"match":"*","mapping":{},"what":1}}]"#,
        r#"[{"x":{"match_mapping_type":"text","mapping":{}}}]"#,
        r#"[{"x":{"match_pattern":"regex","match":"(","mapping":{}}}]"#,
        r#"[{"x":{"match_pattern":"glob","match":"x","mapping":{}}}]"#,
    ] {
        let (status, answer) =
            service.ask("PUT /b", &format!(r#"{{"mappings":{{"dynamic_templates":{templates}}}}}"#));
        assert_eq!(
            (status, answer["error"]["type"].as_str()),
            (400, Some("mapper_parsing_exception")),
            "{templates}"
        );
    }
}
