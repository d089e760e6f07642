//! Bulks of more operations than are written together, and bounds of their operations.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

fn line(action: &str, index: &str, id: usize) -> String {
    json!({ (action): { "_index": index, "_id": id.to_string() } }).to_string()
}

/// Puts of documents; each thousandth names an index that cannot be.
fn puts(count: usize) -> String {
    let put = |id: usize| {
        let index = if id % 1_000 == 999 { "_no" } else { "a" };
        format!("{}\n{{\"n\":{id}}}\n", line("index", index, id))
    };
    (0..count).map(put).collect()
}

fn reason(answer: &Value) -> &str {
    answer["error"]["reason"].as_str().unwrap_or_default()
}

#[test]
fn operations_of_several_shares_have_one_answer() {
    let directory = directory();
    let service = TestService::open(&directory);
    let answer = service.get("POST /_bulk?refresh=true", &puts(5_000));
    assert_eq!(answer["errors"], true);
    let items = answer["items"].as_array().expect("items");
    assert_eq!(items.len(), 5_000);
    for (id, item) in items.iter().enumerate() {
        let item = &item["index"];
        assert_eq!(item["_id"], id.to_string(), "{item}");
        assert_eq!(item["status"], if id % 1_000 == 999 { 400 } else { 201 }, "{item}");
    }
    assert_eq!(service.get("GET /a/_count", "")["count"], 4_995);
    let shown = service.get("POST /_bulk?filter_path=items.*.error.type", &puts(1_000));
    assert_eq!(shown["items"].as_array().map(Vec::len), Some(1), "{shown}");
    assert!(shown.get("took").is_none(), "{shown}");
}

#[test]
fn a_malformed_line_of_a_later_share_refuses_the_whole() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (last, expected) in [
        ("{\"what\":{}}\n{}\n", "Malformed action/metadata line [10001]"),
        ("{\"index\":{}}\n{}\n", "index is missing"),
        ("{\"index\":{\"_index\":\"a\"}}\n", "must be terminated by a newline"),
    ] {
        let (status, answer) = service.ask("POST /_bulk", &format!("{}{last}", puts(5_000)));
        assert_eq!(status, 400, "{answer}");
        assert!(reason(&answer).contains(expected), "{answer}");
        assert_eq!(service.ask("HEAD /a", "").0, 404, "nothing of it was written");
    }
}

#[test]
fn a_bulk_has_so_many_operations() {
    let directory = directory();
    let service = TestService::open(&directory);
    let (status, answer) =
        service.ask("POST /_bulk", &format!("{}\n", line("delete", "a", 1)).repeat(100_001));
    assert_eq!(status, 413, "{answer}");
    assert!(reason(&answer).contains("divide it"), "{answer}");
    let routing = "r".repeat(3_000);
    let (status, answer) = service.ask(&format!("POST /_bulk?routing={routing}"), &puts(1));
    assert_eq!(status, 400, "{answer}");
    let long = json!({ "index": { "_index": "a", "routing": "r".repeat(70_000) } });
    let (status, answer) = service.ask("POST /_bulk", &format!("{long}\n{{}}\n"));
    assert_eq!((status, reason(&answer).contains("bytes")), (400, true), "{answer}");
}

/// In memory, a value of two bytes takes many times its size.
#[test]
fn a_document_with_many_values_is_refused_alone() {
    let directory = directory();
    let service = TestService::open(&directory);
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(300_000));
    let text = json!({ "a": ",".repeat(300_000) }).to_string();
    let bulk = format!(
        "{}\n{many}\n{}\n{text}\n{}\n{{\"doc\":{many}}}\n",
        line("index", "a", 1),
        line("index", "a", 2),
        line("update", "a", 2)
    );
    let answer = service.get("POST /_bulk", &bulk);
    let of = |at: usize, action: &str| answer["items"][at][action].clone();
    assert_eq!(of(0, "index")["status"], 400, "{answer}");
    assert!(reason(&of(0, "index")).contains("element-bytes-max"), "{answer}");
    assert_eq!(of(1, "index")["status"], 201, "signs in a text are not values");
    assert_eq!(of(2, "update")["status"], 400, "{answer}");
    for (request, body) in
        [("PUT /a/_doc/3", many.clone()), ("POST /a/_update/2", format!("{{\"doc\":{many}}}"))]
    {
        let (status, answer) = service.ask(request, &body);
        assert_eq!(status, 400, "{request}: {answer}");
        assert!(reason(&answer).contains("element-bytes-max"), "{request}: {answer}");
    }
}

#[test]
fn a_bulk_whose_client_has_left_ends_between_shares() {
    let directory = directory();
    let service = TestService::open(&directory);
    let few: String = (0..10).map(|id| format!("{}\n{{}}\n", line("index", "a", id))).collect();
    service.ask_gone("POST /_bulk", &few);
    service.get("POST /a/_refresh", "");
    assert_eq!(service.get("GET /a/_count", "")["count"], 10, "what was begun is written as a whole");
    let (status, answer) = service.ask_gone("POST /_bulk", &puts(5_000).replace("\"_no\"", "\"a\""));
    assert_eq!(status, 408, "{answer}");
    service.get("POST /a/_refresh", "");
    assert_eq!(service.get("GET /a/_count", "")["count"], 2_048, "the first share is written, and no other");
}

/// Documents of `_mget` that cannot be asked for refuse the whole, and are named by their places.
#[test]
fn documents_that_are_asked_for_without_names_are_counted() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (body, expected) in [
        ("{}", "Validation Failed: 1: no documents to get;"),
        (r#"{"ids":[]}"#, "Validation Failed: 1: no documents to get;"),
        (r#"{"ids":["1"]}"#, "Validation Failed: 1: index is missing for doc 0;"),
        (
            r#"{"docs":[{"_index":"a","_id":"1"},{"_id":"2"},{"_index":"a"}]}"#,
            "Validation Failed: 1: index is missing for doc 1;2: id is missing for doc 2;",
        ),
        (
            r#"{"docs":[{"_index":"a","_id":"1","fields":["b"]}]}"#,
            "Unsupported field [fields] used, expected [stored_fields] instead",
        ),
        (
            r#"{"docs":[{"_index":"a","_id":"1","_routing":"b"}]}"#,
            "failed to parse multi get request. unknown field [_routing]",
        ),
    ] {
        let (status, answer) = service.ask("POST /_mget", body);
        assert_eq!((status, answer["error"]["reason"].as_str()), (400, Some(expected)), "{body}");
    }
}

/// Conditions that contradict an operation refuse it: it would be done without them, or never.
#[test]
fn conditions_that_contradict_an_operation_are_refused() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", "{}");
    let seq_no = "if_seq_no=0&if_primary_term=1";
    for (request, body, expected) in [
        (
            "PUT /a/_create/2?version=1&version_type=external",
            "{}",
            "create operations only support internal versioning. use index instead",
        ),
        (
            "PUT /a/_create/2?version=1",
            "{}",
            "create operations do not support explicit versions. use index instead",
        ),
        ("PUT /a/_create/2?SEQ", "{}", "create operations do not support compare and set. use index instead"),
        (
            "POST /a/_update/1?SEQ&retry_on_conflict=1",
            r#"{"doc":{}}"#,
            "compare and write operations can not be retried",
        ),
        (
            "POST /a/_update/2?SEQ",
            r#"{"doc":{},"doc_as_upsert":true}"#,
            "compare and write operations can not be used with upsert",
        ),
        (
            "POST /a/_update/2?SEQ",
            r#"{"doc":{},"upsert":{}}"#,
            "upsert requests don't support `if_seq_no` and `if_primary_term`",
        ),
    ] {
        let (status, answer) = service.ask(&request.replace("SEQ", seq_no), body);
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert_eq!((status, reason), (400, &*format!("Validation Failed: 1: {expected};")), "{request}");
        assert_eq!(service.ask("GET /a/_doc/2", "").0, 404, "{request}");
    }
    let nameless = "{\"index\":{\"version\":3,\"version_type\":\"external\"}}\n{}\n";
    let answer = service.get("POST /a/_bulk", nameless);
    let reason = "Validation Failed: 1: an id must be provided if version type or value are set;";
    assert_eq!(answer["items"][0]["index"]["error"]["reason"], reason);
    let lines = "{\"update\":{\"_id\":\"2\",\"if_seq_no\":0,\"if_primary_term\":1}}\n{\"doc\":{},\"upsert\":{}}\n{\"index\":{\"_id\":\"3\"}}\n{}\n";
    let answer = service.get("POST /a/_bulk", lines);
    let statuses = [&answer["items"][0]["update"]["status"], &answer["items"][1]["index"]["status"]];
    assert_eq!(statuses, [400, 201]);
    let (status, answer) = service.ask(&format!("POST /a/_update/1?{seq_no}"), r#"{"doc":{"n":1}}"#);
    assert_eq!(status, 200, "{answer}");
}
