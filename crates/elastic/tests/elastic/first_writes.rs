//! First writes to names that have no index: settings of the cluster and templates say which of them make
//! one.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Statuses of the items of a bulk with a document for each index, and the reasons of those that are refused.
fn bulk(service: &TestService, names: &[&str]) -> Vec<(Value, String)> {
    let line = |name: &&str| format!("{}\n{{\"n\":1}}\n", json!({ "index": { "_index": name } }));
    let answer = service.get("POST /_bulk", &names.iter().map(line).collect::<String>());
    let item = |item: &Value| {
        let reason = item["index"]["error"]["reason"].as_str().unwrap_or_default();
        (item["index"]["status"].clone(), reason.to_owned())
    };
    answer["items"].as_array().expect("items").iter().map(item).collect()
}

#[test]
fn first_writes_make_the_indexes_that_settings_and_templates_allow() {
    let directory = directory();
    let service = TestService::open(&directory);
    let set = |kind: &str, value: Value| {
        let body = json!({ (kind): { "action": { "auto_create_index": value } } }).to_string();
        service.ask("PUT /_cluster/settings", &body).0
    };
    for (template, name, allowed) in [("yes", "yes-*", true), ("no", "no-*", false)] {
        let body = json!({ "index_patterns": [name], "allow_auto_create": allowed }).to_string();
        service.get(&format!("PUT /_index_template/{template}"), &body);
    }
    let all = ["log-1", "private-1", "yes-1", "no-1"];
    let delete = || all.iter().for_each(|name| drop(service.ask(&format!("DELETE /{name}"), "")));
    for (persistent, transient, refused) in [
        (Value::Null, Value::Null, [false, false, false, true]),
        (json!("true"), Value::Null, [false, false, false, true]),
        (json!(false), Value::Null, [true, true, false, true]),
        (json!(false), json!("log-*"), [false, true, false, true]),
        (Value::Null, json!("-private*,*"), [false, true, false, true]),
        (json!("log-*"), json!("private-*"), [true, false, false, true]),
    ] {
        assert_eq!((set("persistent", persistent.clone()), set("transient", transient.clone())), (200, 200));
        for ((status, reason), is_refused) in bulk(&service, &all).into_iter().zip(refused) {
            let context = format!("{persistent}, {transient}: {status} {reason}");
            assert_eq!(status, if is_refused { 404 } else { 201 }, "{context}");
            let is_explained = reason.starts_with("no such index [") && reason.contains("] and ");
            assert_eq!(is_explained, is_refused, "{context}");
        }
        for (name, is_refused) in all.iter().zip(refused) {
            assert_eq!(
                service.ask(&format!("GET /{name}"), "").0,
                if is_refused { 404 } else { 200 },
                "{name}"
            );
        }
        delete();
    }
    for value in [json!(""), json!("+"), json!("a,-")] {
        assert_eq!((set("persistent", value.clone()), set("transient", value)), (400, 400));
    }
    assert_eq!(bulk(&service, &["private-1"])[0].0, 201, "what was refused has no effect");
}
