//! Deletions of indexes beside document types.

use serde_json::json;

use crate::service_support::directory;
use crate::types::service;

#[test]
fn no_index_is_deleted_by_a_pattern_that_covers_a_type() {
    let directory = directory();
    let service = service(&directory);
    let actions = |index: &str| format!(r#"{{"actions":[{{"remove_index":{{"index":"{index}"}}}}]}}"#);
    for (expression, covered) in [
        ("*", "Page, note"),
        ("_all", "Page, note"),
        ("no*", "note"),
        ("*e", "Page, note"),
        ("logs,*e,-Page", "note"),
        ("*,-no*", "Page"),
        ("-note,no*", "note"),
    ] {
        service.get("PUT /logs/_doc/1", "{}");
        for (request, body) in [
            (format!("DELETE /{expression}"), String::new()),
            ("POST /_aliases".to_owned(), actions(expression)),
        ] {
            let (status, answer) = service.ask(&request, &body);
            let reason = answer["error"]["reason"].as_str().unwrap_or_default();
            assert!(reason.contains(&format!("document types [{covered}]")), "{expression}: {answer}");
            assert!(reason.contains("nothing was deleted: use a narrower pattern"), "{reason}");
            assert_eq!(
                (status, &answer["error"]["type"]),
                (403, &json!("security_exception")),
                "{request} {body}"
            );
        }
        assert_eq!(service.ask("HEAD /logs", "").0, 200, "{expression}");
    }
    for request in [
        "DELETE /l*",
        "DELETE /*,-note,-Page",
        "DELETE /*?expand_wildcards=closed",
        "DELETE /no*?expand_wildcards=none",
    ] {
        service.get("PUT /logs/_doc/1", "{}");
        assert_eq!(service.ask(request, "").0, 200, "{request}");
        let is_left = request.contains("expand_wildcards");
        assert_eq!(service.ask("HEAD /logs", "").0, if is_left { 200 } else { 404 }, "{request}");
    }
}
