//! Forms of answers that clients read by their types.

use serde_json::json;

use crate::service_support::{TestService, directory};

#[test]
fn answers_have_the_forms_that_clients_read() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"dynamic":true,"properties":{"o":{"dynamic":false,"properties":{"dynamic":{"type":"long"}}}}}}"#,
    );
    let mappings = json!({
        "dynamic": "true", "properties": { "o": { "dynamic": "false", "properties": { "dynamic": { "type": "long" } } } },
    });
    assert_eq!(service.get("GET /a/_mapping", "")["a"]["mappings"], mappings);
    assert_eq!(service.get("GET /a", "")["a"]["mappings"], mappings);
    assert_eq!(service.get("GET /_ilm/policy", ""), json!({}));
    for (request, body, status, kind) in [
        ("GET /_ilm/policy/p", "", 404, "resource_not_found_exception"),
        ("POST /a/_search", r#"{"size":"many"}"#, 400, "parsing_exception"),
        ("POST /a/_search", r#"{"size":"-1"}"#, 400, "illegal_argument_exception"),
    ] {
        let (answered, answer) = service.ask(request, body);
        assert_eq!(
            (answered, &answer["error"]["type"]),
            (status, &json!(kind)),
            "{request} {body}: {answer}"
        );
    }
    let lines = "{\"index\":{\"_id\":\"1\"}}\n{\"n\":1}\n{\"index\":{\"_id\":\"2\"}}\n{\"n\":2}\n";
    let written = service.get("POST /a/_bulk?include_source_on_error=false", lines);
    assert_eq!(written["errors"], false, "{written}");
    let page = service.get("POST /a/_search", r#"{"size":"1","from":"1","sort":["_id"]}"#);
    assert_eq!(page["hits"]["hits"][0]["_id"], "2", "{page}");
    assert_eq!(service.ask("GET /a/_search?format=yaml", "").0, 406);
    let highlight = r#"{"highlight":{"fragment_offset":2,"fields":{"t":{}}}}"#;
    assert_eq!(service.ask("POST /a/_search", highlight).0, 200);
}
