//! Questions about queries and names that are asked before a search.

use serde_json::json;

use crate::service_support::{TestService, directory};

#[test]
fn queries_are_validated_and_names_resolved_without_a_search() {
    let directory = directory();
    let service = TestService::open(&directory);
    let body = r#"{"mappings":{"properties":{"n":{"type":"long"}}},"aliases":{"all":{}}}"#;
    for name in ["a", "b"] {
        service.get(&format!("PUT /{name}"), body);
    }
    service.get("POST /b/_close", "");
    service.get("PUT /_index_template/logs", r#"{"index_patterns":["logs-*"],"data_stream":{}}"#);
    service.get("PUT /_data_stream/logs-a", "");
    for (body, expected, part) in [
        ("", true, "\"index\":\"a\""),
        (r#"{"query":{"range":{"n":{"gt":1}}}}"#, true, "\"index\":\"a\""),
        (r#"{"query":{"nothing":{}}}"#, false, "nothing"),
        (r#"{"query":{"match_all":{}},"size":1}"#, false, "request does not support [size]"),
    ] {
        let answer = service.get("POST /a/_validate/query?explain=true", body);
        assert_eq!(answer["valid"], expected, "{body}: {answer}");
        assert!(answer.to_string().contains(part), "{body}: {answer}");
        let answer = service.get("POST /a/_validate/query", body);
        assert!(answer["valid"] == expected && answer["error"].is_null(), "{body}: {answer}");
    }
    assert_eq!(service.ask("GET /none/_validate/query", "").0, 404);
    let open = json!({ "name": "a", "aliases": ["all"], "attributes": ["open"] });
    let closed = json!({ "name": "b", "aliases": ["all"], "attributes": ["closed"] });
    let backing = json!({
        "name": ".ds-logs-a-000001", "attributes": ["hidden", "open"], "data_stream": "logs-a",
    });
    let stream = json!({
        "name": "logs-a", "backing_indices": [".ds-logs-a-000001"], "timestamp_field": "@timestamp",
    });
    let alias = |indices: &[&str]| json!({ "name": "all", "indices": indices });
    for (expression, indices, aliases, streams) in [
        ("a", json!([open]), json!([]), json!([])),
        ("b", json!([closed]), json!([]), json!([])),
        ("all", json!([]), json!([alias(&["a", "b"])]), json!([])),
        ("*", json!([open]), json!([alias(&["a"])]), json!([stream])),
        ("*,-a", json!([]), json!([]), json!([stream])),
        ("logs-*", json!([]), json!([]), json!([stream])),
        (".ds-*", json!([backing]), json!([]), json!([])),
    ] {
        let answer = service.get(&format!("GET /_resolve/index/{expression}"), "");
        let expected = json!({ "indices": indices, "aliases": aliases, "data_streams": streams });
        assert_eq!(answer, expected, "{expression}");
    }
    assert_eq!(service.ask("GET /_resolve/index/none", "").0, 404);
}
