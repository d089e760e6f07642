//! The service from request to answer: text in, text out, over a node in a directory of its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

#[test]
fn bulks_are_written_item_by_item_and_survive_a_restart() {
    let directory = directory();
    let service = TestService::open(&directory);
    let body = r#"{"index":{"_index":"a","_id":"1"}}
{"n":1,"t":"one"}
{"create":{"_index":"a","_id":"1"}}
{"n":2}
{"update":{"_index":"a","_id":"1"}}
{"doc":{"m":2}}
{"index":{"_index":"a","_id":"2"}}
{"n":"x"}
{"delete":{"_index":"a","_id":"9"}}
{"update":{"_index":"a","_id":"8"}}
{"doc":{}}
{"index":{"_index":"B"}}
{}
"#;
    let answer = service.get("POST /_bulk", body);
    let of = |item: &Value| {
        let (action, item) = item.as_object().expect("an item").iter().next().expect("has one action");
        json!([action, item["status"], item.get("result").unwrap_or(&item["error"]["type"])])
    };
    let items: Vec<Value> = answer["items"].as_array().expect("items").iter().map(of).collect();
    assert_eq!(
        Value::Array(items),
        json!([
            ["index", 201, "created"],
            ["create", 409, "version_conflict_engine_exception"],
            ["update", 200, "updated"],
            ["index", 400, "document_parsing_exception"],
            ["delete", 404, "not_found"],
            ["update", 404, "document_missing_exception"],
            ["index", 400, "invalid_index_name_exception"],
        ])
    );
    assert_eq!(answer["errors"], true);
    let seq_no = service.get("GET /a/_doc/1", "")["_seq_no"].as_i64().expect("a number");
    drop(service);
    let service = TestService::open(&directory);
    let found = service.get("GET /a/_doc/1", "");
    assert_eq!(found["_source"], json!({ "n": 1, "t": "one", "m": 2 }));
    assert_eq!((found["_version"].clone(), found["_seq_no"].as_i64()), (json!(2), Some(seq_no)));
    assert_eq!(service.get("GET /a/_mapping", "")["a"]["mappings"]["properties"]["n"]["type"], "long");
    let next = service.get("PUT /a/_doc/3", "{}")["_seq_no"].as_i64().expect("a number");
    assert!(next > seq_no, "sequence numbers are not given twice: {next} after {seq_no}");
}

/// Deletions while a bulk is written: each item is written or refused, and no document is left of an index
/// that is gone.
#[test]
fn an_index_may_be_deleted_while_a_bulk_is_written() {
    const ITEMS: usize = 300;
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_cluster/settings", r#"{"persistent":{"action.auto_create_index":"false"}}"#);
    service.get("PUT /kept", "{}");
    let before = service.stored_documents();
    for round in 0..12 {
        service.get("PUT /gone", "{}");
        let item = |number: usize| {
            let name = if number.is_multiple_of(3) { "kept" } else { "gone" };
            // Some have ids, which are read before they are written.
            let id = if number.is_multiple_of(2) { format!(",\"_id\":\"{number}\"") } else { String::new() };
            let pad = "x".repeat(20_000);
            format!("{{\"index\":{{\"_index\":\"{name}\"{id}}}}}\n{{\"n\":{number},\"pad\":\"{pad}\"}}\n")
        };
        let body: String = (0..ITEMS).map(item).collect();
        let answer = std::thread::scope(|scope| {
            let bulk = scope.spawn(|| service.get("POST /_bulk", &body));
            std::thread::sleep(Duration::from_millis(round));
            service.get("DELETE /gone", "");
            bulk.join().expect("the bulk is answered")
        });
        let items = answer["items"].as_array().expect("items");
        assert_eq!(items.len(), ITEMS);
        for item in items {
            let item = &item["index"];
            let kind = item["error"]["type"].as_str().unwrap_or_default();
            let expected: &[(u64, &str)] = match item["_index"].as_str() {
                Some("kept") => &[(200, ""), (201, "")],
                _ => &[(201, ""), (404, "index_not_found_exception")],
            };
            let status = item["status"].as_u64().expect("a status");
            assert!(expected.contains(&(status, kind)), "{item}");
        }
        assert_eq!(service.ask("GET /gone", "").0, 404, "nothing brings the index back");
        let kept = service.get("GET /kept/_count", "")["count"].as_u64().expect("a count");
        assert_eq!(service.stored_documents(), before + kept as usize, "a deleted index left documents");
    }
}

/// More items than are written together, on few documents: each sees those before it. One that does not fit
/// leaves none of its new fields in the mapping.
#[test]
fn a_large_bulk_is_done_in_its_order() {
    const ITEMS: i64 = 2500;
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /strict",
        r#"{"mappings":{"properties":{"o":{"dynamic":"strict","properties":{"n":{"type":"long"}}}}}}"#,
    );
    let mut body = String::new();
    for item in 0..ITEMS {
        body.push_str(&match item % 5 {
            0 => format!("{{\"index\":{{\"_index\":\"a\",\"_id\":\"same\"}}}}\n{{\"n\":{item}}}\n"),
            1 => "{\"update\":{\"_index\":\"a\",\"_id\":\"same\"}}\n{\"doc\":{\"m\":1}}\n".to_owned(),
            2 => "{\"delete\":{\"_index\":\"a\",\"_id\":\"same\"}}\n".to_owned(),
            3 => format!("{{\"index\":{{\"_index\":\"a\"}}}}\n{{\"n\":{item},\"f{}\":true}}\n", item % 7),
            _ => "{\"index\":{\"_index\":\"strict\"}}\n{\"new\":1,\"o\":{\"other\":1}}\n".to_owned(),
        });
    }
    body.push_str("{\"index\":{\"_index\":\"strict\"}}\n{\"o\":{\"n\":1}}\n");
    let answer = service.get("POST /_bulk", &body);
    let items = answer["items"].as_array().expect("items");
    assert_eq!(items.len() as i64, ITEMS + 1);
    for (at, item) in items[..ITEMS as usize].iter().enumerate() {
        let (_, item) = item.as_object().expect("an item").iter().next().expect("has one action");
        let expected = match at % 5 {
            0 | 3 => json!([201, "created"]),
            1 => json!([200, "updated"]),
            2 => json!([200, "deleted"]),
            _ => json!([400, "strict_dynamic_mapping_exception"]),
        };
        let found = json!([item["status"], item.get("result").unwrap_or(&item["error"]["type"])]);
        assert_eq!(found, expected, "item {at}: {item}");
    }
    assert_eq!(items[ITEMS as usize]["index"]["status"], 201);
    assert_eq!(service.get("GET /a/_count", "")["count"], ITEMS / 5);
    let mapping = service.get("GET /a/_mapping", "");
    let fields = mapping["a"]["mappings"]["properties"].as_object().expect("fields");
    assert_eq!(fields.len(), 9, "{mapping}");
    let mapping = service.get("GET /strict/_mapping", "");
    assert_eq!(mapping["strict"]["mappings"]["properties"].as_object().map(|fields| fields.len()), Some(1));
}

#[test]
fn deleted_indexes_leave_nothing_behind() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"n":1}"#);
    service.get("DELETE /a", "");
    assert_eq!(service.ask("GET /a/_doc/1", "").0, 404);
    service.get("PUT /a/_doc/2", r#"{"n":"text"}"#);
    assert_eq!(service.get("GET /a/_count", "")["count"], 1);
    drop(service);
    let service = TestService::open(&directory);
    assert_eq!(service.get("GET /a/_count", "")["count"], 1);
}

#[test]
fn indexes_of_data_streams_are_deleted_but_for_the_one_that_takes_writes() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", r#"{"index_patterns":["logs-*"],"data_stream":{}}"#);
    service.get("POST /logs-a/_bulk", "{\"create\":{}}\n{\"@timestamp\":1,\"n\":1}\n");
    service.get("POST /logs-a/_rollover", "");
    service.get("POST /logs-a/_bulk", "{\"create\":{}}\n{\"@timestamp\":1,\"n\":2}\n");
    let removal = |name: &str| format!(r#"{{"actions":[{{"remove_index":{{"index":"{name}"}}}}]}}"#);
    for name in
        [".ds-logs-a-000002", "logs-a", ".ds-logs-a-000001,logs-a", ".ds-logs-a-000001,.ds-logs-a-000002"]
    {
        assert_eq!(service.ask(&format!("DELETE /{name}"), "").0, 400, "{name}");
        assert_eq!(service.ask("POST /_aliases", &removal(name)).0, 400, "{name}");
    }
    let all = r#"{"actions":[{"remove_index":{}}]}"#;
    assert_eq!(service.ask("POST /_aliases", all).0, 400, "no name is not all");
    service.get("DELETE /logs-*", "");
    service.get("POST /_aliases", &removal("*"));
    assert_eq!(service.get("GET /logs-a/_count", "")["count"], 2, "nothing was deleted");
    service.get("POST /logs-a/_rollover", "");
    service.get("DELETE /.ds-logs-a-000001", "");
    service.get("POST /_aliases", &removal(".ds-logs-a-000002"));
    drop(service);
    let service = TestService::open(&directory);
    let answer = service.get("POST /logs-a/_bulk", "{\"create\":{}}\n{\"@timestamp\":1,\"n\":3}\n");
    assert_eq!(answer["errors"], false, "{answer}");
    assert_eq!(service.get("GET /logs-a/_count", "")["count"], 1);
    let stream = service.get("GET /_data_stream/logs-a", "");
    assert_eq!(stream["data_streams"][0]["indices"].as_array().map(Vec::len), Some(1), "{stream}");
}

#[test]
fn aliases_of_a_data_stream_follow_its_indexes() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", r#"{"index_patterns":["logs-*"],"data_stream":{}}"#);
    let write = |target: &str, n: u64| {
        let answer = service.get(
            &format!("POST /{target}/_bulk"),
            &format!("{{\"create\":{{}}}}\n{{\"@timestamp\":1,\"n\":{n}}}\n"),
        );
        assert_eq!(answer["errors"], false, "{target}: {answer}");
        answer["items"][0]["create"]["_index"].as_str().expect("an index").to_owned()
    };
    write("logs-a", 1);
    service.get("PUT /logs-a/_alias/some", r#"{"filter":{"range":{"n":{"gte":2}}}}"#);
    service.get("POST /logs-a/_rollover", "");
    assert_eq!(write("logs-a", 2), ".ds-logs-a-000002");
    assert_eq!(service.get("GET /some/_count", "")["count"], 1, "the filter and the new index count");
    assert_eq!(write("some", 3), ".ds-logs-a-000002");
    // Given to several indexes of one stream, it has one place for writes: the newest.
    service.get("PUT /logs-a/_alias/all", r#"{"is_write_index":true}"#);
    assert_eq!(write("all", 4), ".ds-logs-a-000002");
    service.get("POST /logs-a/_rollover", "");
    assert_eq!(write("all", 5), ".ds-logs-a-000003");
    assert_eq!(service.get("GET /all/_count", "")["count"], 5);
    assert_eq!(service.get("GET /some/_count", "")["count"], 4);
    write("logs-b", 6);
    let second = r#"{"is_write_index":true}"#;
    assert_eq!(service.ask("PUT /logs-b/_alias/all", second).0, 400, "a second stream for writes");
    service.get("DELETE /logs-a/_alias/some", "");
    service.get("POST /logs-a/_rollover", "");
    assert_eq!(service.ask("GET /some/_count", "").0, 404, "a removed alias does not come back");
}

#[test]
fn writes_may_demand_a_data_stream() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", r#"{"index_patterns":["logs-*"],"data_stream":{}}"#);
    service.get("PUT /plain", "{}");
    let statuses = |answer: Value| -> Vec<Value> {
        let items = answer["items"].as_array().expect("items").iter();
        items.map(|item| item["create"]["status"].clone()).collect()
    };
    // What exporters of OpenTelemetry send.
    let items = r#"{"create":{"_index":"logs-a"}}
{"@timestamp":1,"n":1}
{"create":{"_index":"plain"}}
{"@timestamp":1,"n":1}
{"create":{"_index":"new"}}
{"@timestamp":1,"n":1}
{"create":{"_index":"plain","require_data_stream":false}}
{"@timestamp":1,"n":1}
{"create":{"_index":"logs-a","dynamic_templates":{}}}
{"@timestamp":1,"n":1}
{"create":{"_index":"logs-a","dynamic_templates":{"n":"gauge"}}}
{"@timestamp":1,"n":1}
"#;
    let answer = service.get("POST /_bulk?require_data_stream=true", items);
    assert_eq!(json!(statuses(answer)), json!([201, 404, 404, 201, 201, 400]));
    let demanding = r#"{"create":{"_index":"plain","require_data_stream":true}}
{"@timestamp":1,"n":1}
{"create":{"_index":"logs-a","require_data_stream":true}}
{"@timestamp":1,"n":1}
"#;
    assert_eq!(json!(statuses(service.get("POST /_bulk", demanding))), json!([404, 201]));
    assert_eq!(service.ask("POST /plain/_doc?require_data_stream=true", "{}").0, 404);
    assert_eq!(service.ask("POST /logs-a/_doc?require_data_stream=true", r#"{"@timestamp":1}"#).0, 201);
    assert_eq!(service.ask("GET /new", "").0, 404, "a refused write makes no index");
}

#[test]
fn names_have_date_math_at_all_interfaces() {
    let directory = directory();
    let service = TestService::open(&directory);
    // <log-{2024-01-02||/d}>, encoded for a path.
    let path = "%3Clog-%7B2024-01-02%7C%7C%2Fd%7D%3E";
    let name = "<log-{2024-01-02||/d}>";
    assert_eq!(service.get(&format!("PUT /{path}"), "")["index"], "log-2024.01.02");
    let written = service.get(&format!("PUT /{path}/_doc/1"), r#"{"n":1}"#);
    assert_eq!(written["_index"], "log-2024.01.02");
    let items = format!("{{\"index\":{{\"_index\":\"{name}\",\"_id\":\"2\"}}}}\n{{\"n\":2}}\n");
    let bulk = service.get("POST /_bulk", &items);
    assert_eq!(bulk["items"][0]["index"]["_index"], "log-2024.01.02", "{bulk}");
    assert_eq!(service.get(&format!("GET /{path}/_count"), "")["count"], 2);
    assert_eq!(service.get(&format!("GET /log*,-{path}/_count"), "")["count"], 0);
    assert_eq!(service.get(&format!("GET /{path}/_search?q=n:2"), "")["hits"]["total"]["value"], 1);
    let wanted = json!({ "docs": [{ "_index": name, "_id": "1" }] }).to_string();
    assert_eq!(service.get("POST /_mget", &wanted)["docs"][0]["found"], true);
    let lines = format!("{}\n{{}}\n", json!({ "index": name }));
    assert_eq!(service.get("POST /_msearch", &lines)["responses"][0]["hits"]["total"]["value"], 2);
    let actions = json!({ "actions": [{ "add": { "index": name, "alias": "<day-{2024-01-02||/M{MM}}>" } }] });
    service.get("POST /_aliases", &actions.to_string());
    assert_eq!(service.get("GET /day-01/_count", "")["count"], 2);
    let mapping = service.get(&format!("GET /{path}/_mapping"), "");
    assert!(mapping["log-2024.01.02"]["mappings"].is_object(), "{mapping}");
    assert_eq!(service.ask("GET /%3Clog-%7Bnow%3E/_search", "").0, 400, "a date that is not closed");
    assert_eq!(service.ask("PUT /%3Clog-%7Bwhat%7D%3E/_doc/1", "{}").0, 400);
    service.get(&format!("DELETE /{path}"), "");
    assert_eq!(service.ask("GET /log-2024.01.02", "").0, 404);
}

#[test]
fn every_refusal_has_its_type_and_status() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"dynamic":"strict","properties":{"n":{"type":"long"}}},"aliases":{"b":{}}}"#,
    );
    service.get("PUT /a/_doc/1", r#"{"n":1}"#);
    service.get("PUT /c", "{}");
    service.get("PUT /c/_alias/many", "");
    service.get("PUT /a/_alias/many", "");
    service.get("PUT /closed", "{}");
    service.get("POST /closed/_close", "");
    service.get("PUT /_component_template/part", r#"{"template":{}}"#);
    service.get("PUT /_index_template/user", r#"{"index_patterns":["user-*"],"composed_of":["part"]}"#);
    service.get("PUT /_index_template/user", r#"{"index_patterns":["user-*"],"composed_of":["part"]}"#);
    service.get("PUT /_index_template/other", r#"{"index_patterns":["user-*"],"priority":1}"#);
    service.get("PUT /_component_template/unused", r#"{"template":{}}"#);
    service.get("PUT /_index_template/streams", r#"{"index_patterns":["stream-*"],"data_stream":{}}"#);
    service.get("PUT /_data_stream/stream-a", "");
    for (request, body, status, kind) in [
        ("PUT /_index_template/t", r#"{"index_patterns":["x","us*"]}"#, 400, "illegal_argument_exception"),
        (
            "PUT /_index_template/t",
            r#"{"index_patterns":["user-a"],"priority":1}"#,
            400,
            "illegal_argument_exception",
        ),
        ("DELETE /_index_template/streams", "", 400, "illegal_argument_exception"),
        ("DELETE /_index_template/*", "", 400, "illegal_argument_exception"),
        ("DELETE /_component_template/part", "", 400, "illegal_argument_exception"),
        ("DELETE /_component_template/*", "", 400, "illegal_argument_exception"),
        (
            "PUT /_index_template/t",
            r#"{"index_patterns":["t"],"template":{"settings":{"index":{"mode":"bogus"}}}}"#,
            400,
            "illegal_argument_exception",
        ),
        (
            "PUT /_component_template/t",
            r#"{"template":{"settings":{"index.mode":"bogus"}}}"#,
            400,
            "illegal_argument_exception",
        ),
        (
            "PUT /_template/t",
            r#"{"index_patterns":["t"],"settings":{"number_of_shards":0}}"#,
            400,
            "illegal_argument_exception",
        ),
        ("PUT /a", "", 400, "resource_already_exists_exception"),
        ("PUT /b", "", 400, "invalid_index_name_exception"),
        ("PUT /A", "", 400, "invalid_index_name_exception"),
        ("PUT /x", r#"{"what":{}}"#, 400, "parsing_exception"),
        ("PUT /x", r#"{"mappings":{"properties":{"a":{"type":"what"}}}}"#, 400, "mapper_parsing_exception"),
        ("PUT /x", r#"{"mappings":{"properties":{"":{"type":"long"}}}}"#, 400, "illegal_argument_exception"),
        ("PUT /c/_mapping", r#"{"properties":{"a..b":{"type":"long"}}}"#, 400, "illegal_argument_exception"),
        (
            "PUT /x",
            r#"{"mappings":{"properties":{"a.b":{"properties":{"c.d":{"type":"long"}}},"a":{"properties":{"b.c":{"type":"ip"}}}}}}"#,
            400,
            "illegal_argument_exception",
        ),
        ("PUT /x", "{", 400, "json_parse_exception"),
        ("PUT /x", r#"{"settings":{"number_of_shards":0}}"#, 400, "illegal_argument_exception"),
        ("GET /none", "", 404, "index_not_found_exception"),
        ("GET /none/_search", "", 404, "index_not_found_exception"),
        ("DELETE /none", "", 404, "index_not_found_exception"),
        ("DELETE /b", "", 400, "illegal_argument_exception"),
        ("GET /none/_doc/1", "", 404, "index_not_found_exception"),
        ("PUT /a/_create/1", r#"{"n":2}"#, 409, "version_conflict_engine_exception"),
        (
            "PUT /a/_doc/1?if_seq_no=7&if_primary_term=1",
            r#"{"n":2}"#,
            409,
            "version_conflict_engine_exception",
        ),
        ("PUT /a/_doc/1?if_seq_no=-5&if_primary_term=1", r#"{"n":2}"#, 400, "illegal_argument_exception"),
        ("PUT /a/_doc/1?if_seq_no=0", r#"{"n":2}"#, 400, "action_request_validation_exception"),
        (
            "PUT /a/_doc/1?version=1&version_type=external",
            r#"{"n":2}"#,
            409,
            "version_conflict_engine_exception",
        ),
        ("PUT /a/_doc/1?version=1", r#"{"n":2}"#, 400, "action_request_validation_exception"),
        ("PUT /a/_doc/2", r#"{"x":2}"#, 400, "strict_dynamic_mapping_exception"),
        ("PUT /a/_doc/2", r#"{"n":"x"}"#, 400, "document_parsing_exception"),
        ("PUT /a/_doc/2", "[]", 400, "document_parsing_exception"),
        ("PUT /a/_doc/2", "{", 400, "document_parsing_exception"),
        ("PUT /a/_doc/2", "", 400, "action_request_validation_exception"),
        ("PUT /a/_doc/2?pipeline=p", r#"{"n":2}"#, 400, "illegal_argument_exception"),
        ("PUT /a/_doc/2?refresh=soon", r#"{"n":2}"#, 400, "illegal_argument_exception"),
        ("PUT /a/_doc/2?op_type=put", r#"{"n":2}"#, 400, "illegal_argument_exception"),
        ("PUT /many/_doc/2", r#"{"n":2}"#, 400, "illegal_argument_exception"),
        ("PUT /new/_doc/2?require_alias=true", r#"{"n":2}"#, 404, "index_not_found_exception"),
        ("PUT /closed/_doc/1", "{}", 400, "index_closed_exception"),
        ("POST /a/_update/9", r#"{"doc":{}}"#, 404, "document_missing_exception"),
        ("POST /a/_update/1", r#"{"script":"x"}"#, 400, "illegal_argument_exception"),
        ("POST /a/_update/1", "{}", 400, "action_request_validation_exception"),
        ("POST /a/_update/1", r#"{"doc":{"n":3},"if_seq_no":"x"}"#, 400, "x_content_parse_exception"),
        ("DELETE /none/_doc/1", "", 404, "index_not_found_exception"),
        ("POST /_bulk", "", 400, "action_request_validation_exception"),
        ("POST /_bulk", "{}\n", 400, "illegal_argument_exception"),
        ("POST /_bulk", "{\"index\":{\"_index\":\"a\"}}", 400, "illegal_argument_exception"),
        ("POST /_mget", "{}", 400, "action_request_validation_exception"),
        ("GET /a/_search", r#"{"query":{"what":{}}}"#, 400, "parsing_exception"),
        ("GET /a/_search", r#"{"what":1}"#, 400, "parsing_exception"),
        ("GET /a/_search?size=-1", "", 400, "illegal_argument_exception"),
        ("GET /a/_search?size=10001", "", 400, "illegal_argument_exception"),
        ("GET /a/_search?q=(", "", 400, "parsing_exception"),
        ("GET /a/_search?q=/a.b", "", 400, "parsing_exception"),
        ("GET /a/_search", r#"{"search_after":[1]}"#, 400, "illegal_argument_exception"),
        ("GET /a/_search", r#"{"sort":{"n":"up"}}"#, 400, "illegal_argument_exception"),
        ("GET /a/_search", r#"{"sort":{"n":{"order":"up"}}}"#, 400, "illegal_argument_exception"),
        ("GET /a/_search", r#"{"sort":{"n":{"mode":"best"}}}"#, 400, "illegal_argument_exception"),
        ("GET /a/_search", r#"{"sort":{"n":{"bogus":1}}}"#, 400, "x_content_parse_exception"),
        ("GET /a/_search?sort=n:bogus", "", 400, "illegal_argument_exception"),
        ("GET /a/_search?scroll=99d", "", 400, "illegal_argument_exception"),
        (
            "GET /a/_search?scroll=1m",
            r#"{"sort":["n"],"search_after":[1]}"#,
            400,
            "action_request_validation_exception",
        ),
        ("GET /a/_search?scroll=soon", "", 400, "illegal_argument_exception"),
        ("GET /_search/scroll?scroll_id=x&scroll=99d", "", 400, "illegal_argument_exception"),
        ("GET /a/_search", r#"{"aggs":{"x":{"what":{}}}}"#, 400, "parsing_exception"),
        ("GET /a/_count", r#"{"match":{}}"#, 400, "parsing_exception"),
        ("GET /_search/scroll?scroll_id=x", "", 404, "resource_not_found_exception"),
        ("GET /_index_template/x", "", 404, "resource_not_found_exception"),
        ("PUT /_ingest/pipeline/p", r#"{"processors":[{"set":{}}]}"#, 400, "illegal_argument_exception"),
        ("PUT /_index_template/t", r#"{"index_patterns":["t"],"what":1}"#, 400, "parsing_exception"),
        (
            "PUT /_index_template/t",
            r#"{"index_patterns":["t"],"template":{"what":1}}"#,
            400,
            "parsing_exception",
        ),
        ("PUT /_component_template/t", r#"{"template":{},"index_patterns":["t"]}"#, 400, "parsing_exception"),
        ("PUT /_template/t", r#"{"index_patterns":["t"],"priority":1}"#, 400, "parsing_exception"),
        ("PUT /a/_alias/x", r#"{"what":1}"#, 400, "x_content_parse_exception"),
        ("PUT /a/_alias/x", r#"{"filter":{"what":{}}}"#, 400, "parsing_exception"),
        ("PUT /x", r#"{"aliases":{"y":{"what":1}}}"#, 400, "x_content_parse_exception"),
        ("PUT /_data_stream/x", "", 400, "illegal_argument_exception"),
        ("GET /a/_what", "", 400, "illegal_argument_exception"),
        ("GET /_what", "", 400, "illegal_argument_exception"),
    ] {
        let (found, answer) = service.ask(request, body);
        assert_eq!(
            (found, answer["error"]["type"].as_str()),
            (status, Some(kind)),
            "{request} {body}: {answer}"
        );
        assert_eq!(answer["status"], status, "{request}");
        assert_eq!(answer["error"]["root_cause"][0]["type"], kind, "{request}");
    }
    assert_eq!(service.ask("PATCH /a", "").0, 405);
}

#[test]
fn searches_are_sorted_paged_and_aggregated() {
    let directory = directory();
    let service = TestService::open(&directory);
    let lines: String = (0..30)
        .map(|n| {
            format!(
                "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"k\":\"{}\",\"d\":\"2024-01-{:02}\"}}\n",
                n % 3,
                n + 1
            )
        })
        .collect();
    service.get("POST /a/_bulk", &lines);
    let ids = |answer: &Value| -> Vec<String> {
        let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
        hits.map(|hit| hit["_id"].as_str().expect("an id").to_owned()).collect()
    };
    let sorted = service.get("GET /a/_search", r#"{"sort":[{"n":"desc"}],"size":3,"search_after":[28]}"#);
    assert_eq!(ids(&sorted), ["27", "26", "25"]);
    let paged = service.get("GET /a/_search?q=n:%5B10%20TO%2020%5D&sort=n&from=8&size=9", "");
    assert_eq!(
        (ids(&paged), &paged["hits"]["total"]["value"]),
        (vec!["18".into(), "19".into(), "20".into()], &json!(11))
    );
    let body = r#"{"size":0,"aggs":{"k":{"terms":{"field":"k.keyword"},"aggs":{"s":{"stats":{"field":"n"}}}},
        "m":{"date_histogram":{"field":"d","calendar_interval":"month"}}}}"#;
    let aggregated = service.get("GET /a/_search", body);
    let first = &aggregated["aggregations"]["k"]["buckets"][0];
    assert_eq!((&first["doc_count"], &first["s"]["sum"]), (&json!(10), &json!(135.0)));
    let months = &aggregated["aggregations"]["m"]["buckets"];
    assert_eq!(months[0]["key_as_string"], "2024-01-01T00:00:00.000Z");
    let mut page = service.get("GET /a/_search?scroll=1m&size=7&sort=n", "");
    service.get("DELETE /a/_doc/29", "");
    let mut seen = Vec::new();
    while page["hits"]["hits"].as_array().is_some_and(|hits| !hits.is_empty()) {
        seen.extend(ids(&page));
        let id = page["_scroll_id"].as_str().expect("an id").to_owned();
        page = service.get("POST /_search/scroll", &json!({ "scroll_id": id }).to_string());
    }
    assert_eq!(seen, (0..30).map(|n| n.to_string()).collect::<Vec<_>>(), "a scroll shows one instant");
}

#[test]
fn templates_make_data_streams() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /_index_template/logs",
        r#"{"index_patterns":["logs-*"],"data_stream":{},"template":{"mappings":{"properties":{"level":{"type":"keyword"}}}}}"#,
    );
    let body = "{\"create\":{\"_index\":\"logs-a\"}}\n{\"@timestamp\":\"2024-01-01\",\"level\":\"warn\"}\n";
    assert_eq!(service.get("POST /_bulk", body)["errors"], false);
    let body = "{\"index\":{\"_index\":\"logs-a\"}}\n{}\n";
    assert_eq!(service.get("POST /_bulk", body)["items"][0]["index"]["status"], 400);
    service.get("POST /logs-a/_rollover", "");
    let streams = service.get("GET /_data_stream/logs-a", "");
    assert_eq!(streams["data_streams"][0]["indices"].as_array().map(Vec::len), Some(2));
    assert_eq!(service.get("GET /logs-a/_count?q=level:warn", "")["count"], 1);
    service.get("DELETE /_data_stream/logs-a", "");
    assert_eq!(service.ask("GET /logs-a/_count", "").0, 404);
}

#[test]
fn searches_end_at_their_limits() {
    let directory = directory();
    let service = TestService::open(&directory);
    for number in 0..5 {
        service.get(&format!("PUT /a/_doc/{number}"), r#"{"t":"one"}"#);
    }
    let found = service.get("GET /a/_search?terminate_after=2", "");
    assert_eq!((&found["hits"]["total"]["value"], &found["terminated_early"]), (&json!(2), &json!(true)));
    let found = service.get("GET /a/_search?terminate_after=9", "");
    assert_eq!((&found["hits"]["total"]["value"], &found["terminated_early"]), (&json!(5), &json!(false)));
    let found = service.get("GET /a/_search", r#"{"timeout":"0"}"#);
    assert_eq!((&found["hits"]["total"]["value"], &found["timed_out"]), (&json!(0), &json!(true)));
    let whole = r#"{"timeout":"0","allow_partial_search_results":false}"#;
    assert_eq!(service.ask("GET /a/_search", whole).0, 408);
    assert_eq!(service.get("GET /a/_count?terminate_after=3", "")["count"], 3);
    assert_eq!(service.get("GET /a/_count", "").get("terminated_early"), None);
}

#[test]
fn nothing_in_a_request_is_passed_over() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"t":"one"}"#);
    for (request, body) in [
        ("PUT /a/_doc/1?ttl=1d", r#"{"t":"two"}"#),
        ("POST /_bulk?batch=1", "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}\n"),
        ("DELETE /a?dry_run=true", ""),
        ("GET /a/_search?profile=true", ""),
        ("GET /a/_search", r#"{"query":{"term":{"t":{"value":"one","weight":2}}}}"#),
    ] {
        let (status, answer) = service.ask(request, body);
        assert_eq!(status, 400, "{request}: {answer}");
    }
    let found = service.get("GET /a/_search?source={\"query\":{\"ids\":{\"values\":[\"2\"]}}}", "");
    assert_eq!(found["hits"]["total"]["value"], 0, "a query in a parameter counts");
    assert_eq!(service.get("GET /a/_doc/1", "")["_source"]["t"], "one");
}

#[test]
fn templates_have_patterns_that_names_can_match() {
    let directory = directory();
    let service = TestService::open(&directory);
    let template = |patterns: Vec<String>| json!({ "index_patterns": patterns }).to_string();
    for target in ["PUT /_index_template/t", "PUT /_template/t"] {
        service.get(target, &template(vec!["a".repeat(255)]));
        service.get(target, &template(vec!["a*".to_owned(); 1_000]));
        for patterns in [vec!["a".repeat(256)], vec!["a*".to_owned(); 1_001]] {
            let (status, answer) = service.ask(target, &template(patterns));
            assert_eq!(
                (status, answer["error"]["type"].as_str()),
                (400, Some("action_request_validation_exception"))
            );
        }
    }
}

#[test]
fn health_is_asked_for_with_each_number_of_shards() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", "");
    for (shards, is_late) in
        [("all", false), ("index-setting", false), ("0", false), ("1", false), ("9", true)]
    {
        let (_, answer) = service.ask(&format!("GET /_cluster/health?wait_for_active_shards={shards}"), "");
        assert_eq!(answer["timed_out"], is_late, "{shards}: {answer}");
    }
    assert_eq!(service.ask("GET /_cluster/health?wait_for_active_shards=some", "").0, 400);
    // An index that is waited for is not there yet.
    let (status, answer) = service.ask("GET /_cluster/health/none?wait_for_status=yellow", "");
    assert_eq!((status, &answer["status"], &answer["timed_out"]), (408, &json!("red"), &json!(true)));
    service.get("PUT /two", r#"{"settings":{"number_of_shards":2}}"#);
    for (level, shards) in [("cluster", None), ("indices", Some(0)), ("shards", Some(2))] {
        let answer = service.get(&format!("GET /_cluster/health/two?level={level}"), "");
        let index = answer.get("indices").map(|indexes| &indexes["two"]);
        let shown = index.map(|index| index["shards"].as_object().map_or(0, serde_json::Map::len));
        assert_eq!(shown, shards, "{level}: {answer}");
    }
}
