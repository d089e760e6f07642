//! Log records of OpenTelemetry, from request to answer and to what searches find: text in, text out, in both
//! encodings.

use std::sync::Arc;

use millrace_elastic::{ElasticRequest, ElasticResponse, ElasticService};
use millrace_node::{Node, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::protobuf::{message_of, response_of, status_of};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// A node with its service.
struct OtlpTestService {
    node: Arc<Node>,
    service: ElasticService,
    _directory: TempDir,
}

impl OtlpTestService {
    fn open() -> Self {
        OtlpTestService::open_with(|_| {})
    }

    fn open_with(change: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let mut settings = Settings::new(directory.path().join("data"));
        change(&mut settings);
        let node = Node::open(settings).expect("the node opens");
        OtlpTestService { service: ElasticService::new(Arc::clone(&node)), node, _directory: directory }
    }

    fn answer(&self, request: &str, content_type: &str, body: &[u8]) -> ElasticResponse {
        let (method, target) = request.split_once(' ').expect("a request has a method and a path");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.service.answer(&ElasticRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            content_type: content_type.to_owned(),
            body: body.to_vec(),
            ..ElasticRequest::default()
        })
    }

    /// Status and body of the answer to a request in JSON.
    fn json(&self, request: &str, body: &str) -> (u16, Value) {
        let answer = self.answer(request, JSON, body.as_bytes());
        (answer.status, serde_json::from_slice(&answer.body).expect("the answer is JSON"))
    }

    /// Sends records in an encoding; returns the answer as it is in JSON.
    #[track_caller]
    fn send(&self, content_type: &str, request: &Value) -> Value {
        let is_protobuf = content_type == PROTOBUF;
        let body = if is_protobuf { message_of(request) } else { request.to_string().into_bytes() };
        let answer = self.answer("POST /v1/logs", content_type, &body);
        assert_eq!((answer.status, answer.content_type.as_str()), (200, content_type), "{request}");
        match is_protobuf {
            true => response_of(&answer.body),
            false => serde_json::from_slice(&answer.body).expect("the answer is JSON"),
        }
    }

    /// Documents of an index that match a query, in the order of their times.
    #[track_caller]
    fn find(&self, index: &str, query: &str) -> Vec<Value> {
        let target = format!("GET /{index}/_search?size=1000&sort=@timestamp&q={query}");
        let (status, answer) = self.json(&target, "");
        assert_eq!(status, 200, "{answer}");
        let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
        hits.map(|hit| hit["_source"].clone()).collect()
    }
}

impl Drop for OtlpTestService {
    fn drop(&mut self) {
        self.node.close();
    }
}

/// Request with one resource, one scope and these records.
fn request_of(records: Value) -> Value {
    json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": records }] }] })
}

/// A member of a record, and the members that it becomes.
const FIELDS: [(&str, &str); 27] = [
    ("{}", "{}"),
    (r#"{"timeUnixNano":"1700000000123456789"}"#, r#"{"@timestamp":"2023-11-14T22:13:20.123456789Z"}"#),
    (
        r#"{"observedTimeUnixNano":"1700000000000000000"}"#,
        r#"{"@timestamp":"2023-11-14T22:13:20Z","observed_timestamp":"2023-11-14T22:13:20Z"}"#,
    ),
    (
        r#"{"timeUnixNano":"1","observedTimeUnixNano":"1700000000000000000"}"#,
        r#"{"@timestamp":"1970-01-01T00:00:00.000000001Z","observed_timestamp":"2023-11-14T22:13:20Z"}"#,
    ),
    (r#"{"timeUnixNano":"18446744073709551615"}"#, r#"{"@timestamp":"2554-07-21T23:34:33.709551615Z"}"#),
    (r#"{"severityNumber":9,"severityText":"Info"}"#, r#"{"severity_number":9,"severity_text":"Info"}"#),
    (r#"{"severityNumber":-3}"#, r#"{"severity_number":-3}"#),
    (r#"{"body":{"stringValue":"a \"word\"\u0000"}}"#, r#"{"body":{"text":"a \"word\"\u0000"}}"#),
    (r#"{"body":{"stringValue":""}}"#, r#"{"body":{"text":""}}"#),
    (r#"{"body":{"boolValue":false}}"#, r#"{"body":{"text":"false"}}"#),
    (r#"{"body":{"intValue":"-7"}}"#, r#"{"body":{"text":"-7"}}"#),
    (r#"{"body":{"doubleValue":1.5}}"#, r#"{"body":{"text":"1.5"}}"#),
    (r#"{"body":{"bytesValue":"AAH/"}}"#, r#"{"body":{"text":"AAH/"}}"#),
    (r#"{"body":{}}"#, "{}"),
    (
        r#"{"body":{"arrayValue":{"values":[{"intValue":"1"},{},{"stringValue":"x"}]}}}"#,
        r#"{"body":{"structured":[1,null,"x"]}}"#,
    ),
    (
        r#"{"body":{"kvlistValue":{"values":[{"key":"a","value":{"kvlistValue":{}}},{"key":"b.c","value":{"boolValue":true}}]}}}"#,
        r#"{"body":{"structured":{"a":{},"b.c":true}}}"#,
    ),
    (
        r#"{"attributes":[{"key":"s","value":{"stringValue":"é"}},{"key":"n","value":{"intValue":"9223372036854775807"}}]}"#,
        r#"{"attributes":{"s":"é","n":9223372036854775807}}"#,
    ),
    (
        r#"{"attributes":[{"key":"d","value":{"doubleValue":"NaN"}},{"key":"i","value":{"doubleValue":"-Infinity"}}]}"#,
        r#"{"attributes":{"d":"NaN","i":"-Infinity"}}"#,
    ),
    (
        r#"{"attributes":[{"key":"a","value":{"arrayValue":{"values":[{"arrayValue":{}}]}}},{"key":"none"}]}"#,
        r#"{"attributes":{"a":[[]],"none":null}}"#,
    ),
    (
        r#"{"attributes":[{"key":"a","value":{"intValue":"1"}},{"key":"a","value":{"intValue":"2"}}]}"#,
        r#"{"attributes":{"a":2}}"#,
    ),
    (r#"{"attributes":[{"value":{"intValue":"1"}}]}"#, r#"{"attributes":{"":1}}"#),
    (r#"{"droppedAttributesCount":4,"flags":1}"#, r#"{"dropped_attributes_count":4,"flags":1}"#),
    (
        r#"{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"}"#,
        r#"{"trace_id":"5b8efff798038103d269b633813fc60c","span_id":"eee19b7ec3c1b174"}"#,
    ),
    (r#"{"traceId":"00000000000000000000000000000000","spanId":""}"#, "{}"),
    (r#"{"traceId":"ab"}"#, r#"{"trace_id":"ab"}"#),
    (r#"{"eventName":"browser.page_view"}"#, r#"{"event_name":"browser.page_view"}"#),
    (
        r#"{"attributes":[{"key":"data_stream.dataset","value":{"stringValue":"generic"}}]}"#,
        r#"{"attributes":{"data_stream.dataset":"generic"}}"#,
    ),
];

#[test]
fn each_field_is_in_the_document_in_both_encodings() {
    let service = OtlpTestService::open();
    for (record, expected) in FIELDS {
        let record: Value = serde_json::from_str(record).expect("the table has JSON");
        let mut expected: Value = serde_json::from_str(expected).expect("the table has JSON");
        for content_type in [PROTOBUF, JSON] {
            assert_eq!(service.send(content_type, &request_of(json!([record]))), json!({}), "{record}");
            let found = service.find("logs-generic-default", "*");
            let mut found = found.into_iter().next().expect("it is stored");
            if expected.get("@timestamp").is_none() {
                let now = found["@timestamp"].as_str().expect("each document has a time");
                assert!(now > "2024" && now < "2200", "the time of a record without one is now: {now}");
                found.as_object_mut().expect("an object").remove("@timestamp");
            }
            expected["data_stream"] = json!({ "type": "logs", "dataset": "generic", "namespace": "default" });
            assert_eq!(found, expected, "{content_type} {record}");
            assert_eq!(service.json("DELETE /_data_stream/logs-generic-default", "").0, 200);
        }
    }
}

#[test]
fn resources_and_scopes_are_in_each_of_their_records() {
    let service = OtlpTestService::open();
    let attribute = |key: &str, text: &str| json!([{ "key": key, "value": { "stringValue": text } }]);
    let record = |number: u64| json!({ "timeUnixNano": (number * 1_000_000).to_string() });
    let request = json!({ "resourceLogs": [
        {
            "resource": { "attributes": attribute("service.name", "a"), "droppedAttributesCount": 2 },
            "schemaUrl": "https://x/1",
            "scopeLogs": [
                {
                    "scope": { "name": "lib", "version": "2", "attributes": attribute("k", "v"), "droppedAttributesCount": 1 },
                    "schemaUrl": "https://x/2",
                    "logRecords": [record(1), record(2)],
                },
                { "logRecords": [record(3)] },
            ],
        },
        { "scopeLogs": [{}, { "logRecords": [record(4)] }] },
        {},
    ] });
    let resource = json!({ "attributes": { "service.name": "a" }, "dropped_attributes_count": 2, "schema_url": "https://x/1" });
    let scope = json!({
        "name": "lib", "version": "2", "attributes": { "k": "v" }, "dropped_attributes_count": 1,
        "schema_url": "https://x/2",
    });
    for content_type in [PROTOBUF, JSON] {
        assert_eq!(service.send(content_type, &request), json!({}));
        let found = service.find("logs-generic-default", "*");
        let parts: Vec<(&Value, &Value)> =
            found.iter().map(|source| (&source["resource"], &source["scope"])).collect();
        let none = &Value::Null;
        assert_eq!(parts, [(&resource, &scope), (&resource, &scope), (&resource, none), (none, none)]);
        assert_eq!(service.find("logs-*", "resource.attributes.service.name:a").len(), 3);
        assert_eq!(service.find("logs-*", "scope.name:lib").len(), 2);
        assert_eq!(service.json("DELETE /_data_stream/logs-generic-default", "").0, 200);
    }
}

#[test]
fn attributes_name_the_data_stream() {
    let service = OtlpTestService::open();
    let long = "x".repeat(150);
    for (record, scope, resource, expected) in [
        ("", "", "", "logs-generic-default"),
        ("dataset=nginx", "", "", "logs-nginx-default"),
        ("dataset=a", "dataset=b namespace=c", "dataset=d namespace=e type=f", "f-a-c"),
        ("", "dataset=b", "dataset=d namespace=pro-d", "logs-b-pro-d"),
        ("dataset=A-b/C", "", "namespace=x:y", "logs-a_b_c-x_y"),
        ("type=_.x", "", "", "x-generic-default"),
        ("type=__", "", "", "logs-generic-default"),
        (&format!("dataset={long} namespace={long}"), "", "", &format!("logs-{0}-{0}", &long[..100])),
    ] {
        let attributes = |text: &str| {
            let all = text.split_whitespace().map(|pair| {
                let (name, value) = pair.split_once('=').expect("the table has pairs");
                json!({ "key": format!("data_stream.{name}"), "value": { "stringValue": value } })
            });
            Value::Array(all.collect())
        };
        let request = json!({ "resourceLogs": [{
            "resource": { "attributes": attributes(resource) },
            "scopeLogs": [{
                "scope": { "attributes": attributes(scope) },
                "logRecords": [{ "attributes": attributes(record) }],
            }],
        }] });
        for content_type in [PROTOBUF, JSON] {
            assert_eq!(service.send(content_type, &request), json!({}), "{record} {scope} {resource}");
        }
        let (status, streams) = service.json("GET /_data_stream", "");
        let names: Vec<&str> = streams["data_streams"]
            .as_array()
            .expect("streams")
            .iter()
            .map(|stream| stream["name"].as_str().expect("a name"))
            .collect();
        assert_eq!((status, names), (200, vec![expected]), "{record} {scope} {resource}");
        assert_eq!(service.find(expected, "*").len(), 2, "{expected}");
        assert_eq!(service.json(&format!("DELETE /_data_stream/{expected}"), "").0, 200);
    }
}

#[test]
fn numbers_of_json_may_be_texts_and_unknown_names_are_passed_over() {
    let service = OtlpTestService::open();
    let body = r#"{"resourceLogs":[{"unknown":[{}],"resource":null,"scopeLogs":[{"scope":null,"logRecords":[
        {"timeUnixNano":1700000000000000000,"severityNumber":"9","severity_text":"passed over","flags":null,
         "traceId":"5B8EFFF798038103D269B633813FC60C","attributes":[{"key":"i","value":{"intValue":7}},
         {"key":"e","value":{"intValue":1e3}},{"key":"n","value":{"stringValue":null,"newValue":1}}],"body":null}]}]},
        {"scopeLogs":null}],"more":{}}"#;
    assert_eq!(service.json("POST /v1/logs", body), (200, json!({})));
    let found = service.find("logs-generic-default", "*");
    assert_eq!(found[0]["@timestamp"], "2023-11-14T22:13:20Z");
    assert_eq!(found[0]["attributes"], json!({ "i": 7, "e": 1000, "n": null }));
    assert_eq!(found[0]["trace_id"], "5b8efff798038103d269b633813fc60c");
    assert_eq!((&found[0]["severity_number"], found[0].get("severity_text")), (&json!(9), None));
}

#[test]
fn a_record_that_cannot_be_read_is_rejected_alone() {
    let service = OtlpTestService::open();
    let (mut deep, mut wide) = (json!({ "stringValue": "x" }), Vec::new());
    for _ in 0..25 {
        deep = json!({ "arrayValue": { "values": [deep] } });
    }
    for _ in 0..40_000 {
        wide.push(json!({ "boolValue": true }));
    }
    let wide = json!({ "arrayValue": { "values": wide } });
    let large = json!({ "stringValue": "x".repeat(1 << 20) });
    for (record, reason) in [
        (json!({ "body": deep }), "a value has more than 24 levels of arrays and maps"),
        (json!({ "body": wide }), "a record, a resource or a scope has more than 32768 values"),
        (json!({ "body": large }), "bytes, and the limit is 1048576"),
    ] {
        for content_type in [PROTOBUF, JSON] {
            let records = json!([{ "severityText": "first" }, record, record, { "severityText": "last" }]);
            let answer = service.send(content_type, &request_of(records));
            let partial = &answer["partialSuccess"];
            assert_eq!(partial["rejectedLogRecords"], "2", "{content_type} {reason}");
            let told = partial["errorMessage"].as_str().expect("a text");
            assert!(told.contains(reason), "{content_type} {told}");
            let found = service.find("logs-generic-default", "*").len();
            assert_eq!(found, 2, "{content_type} {reason}");
            assert_eq!(service.json("DELETE /_data_stream/logs-generic-default", "").0, 200);
        }
    }
    for (record, reason) in [
        (r#"{"timeUnixNano":"soon"}"#, r#"timeUnixNano is not a whole number, but "soon""#),
        (r#"{"timeUnixNano":-1}"#, "timeUnixNano is not a whole number, but -1"),
        (
            r#"{"severityNumber":"SEVERITY_NUMBER_INFO"}"#,
            r#"severityNumber is not a number, but "SEVERITY_NUMBER_INFO""#,
        ),
        (r#"{"body":"text"}"#, r#"a value is not an object such as {"stringValue": …}, but "text""#),
        (r#"{"body":{"intValue":1.5}}"#, "intValue is not a whole number of 64 bits, but 1.5"),
        (r#"{"body":{"bytesValue":"*"}}"#, r#"bytesValue is not base64, but "*""#),
        (r#"{"body":{"boolValue":1}}"#, "boolValue is not true or false, but 1"),
        (r#"{"attributes":{"a":1}}"#, r#"a list is not an array, but {"a":1}"#),
        (r#"{"attributes":[1]}"#, "an attribute is not an object with a key and a value, but 1"),
        (r#"{"traceId":7}"#, "traceId is not a text, but 7"),
        ("7", "a record, a resource or a scope is not an object, but 7"),
        (r#"{"body":{"stringValue":"\ud800"}}"#, "a part of the request cannot be read: "),
    ] {
        let body = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record},{{}}]}}]}}]}}"#);
        let (status, answer) = service.json("POST /v1/logs", &body);
        let partial = &answer["partialSuccess"];
        assert_eq!((status, &partial["rejectedLogRecords"]), (200, &json!("1")), "{record}");
        let told = partial["errorMessage"].as_str().expect("a text");
        assert!(told.starts_with(reason), "{record}: {told}");
    }
}

#[test]
fn a_request_that_is_refused_stores_nothing() {
    let service = OtlpTestService::open();
    let good = message_of(&request_of(json!([{ "severityText": "good" }])));
    let after = |rest: &[u8]| [&good, rest].concat();
    let many = "{},".repeat(20_000);
    let grown = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"k","value":{{"stringValue":"{}"}}}}]}},
        "scopeLogs":[{{"logRecords":[{many}{{}}]}}]}}]}}"#,
        "x".repeat(100_000)
    );
    for (request, content_type, body, status, code, message) in [
        ("POST /v1/logs", PROTOBUF, after(&[0x0a]), 400, 3, "the Protobuf message ends within a field"),
        (
            "POST /v1/logs",
            PROTOBUF,
            after(&[0x0a, 5, 1]),
            400,
            3,
            "Protobuf field 1 has a length of 5 bytes, and 1 are left",
        ),
        (
            "POST /v1/logs",
            PROTOBUF,
            after(&[0x08, 5]),
            400,
            3,
            "Protobuf field 1 (resource_logs) is not one with a length",
        ),
        (
            "POST /v1/logs/",
            PROTOBUF,
            b"{}".to_vec(),
            400,
            3,
            "Protobuf field 15 has wire type 3, which OTLP does not use",
        ),
        ("POST /v1/logs", JSON, b"".to_vec(), 400, 3, "the request is not OTLP in JSON: EOF while parsing"),
        ("POST /v1/logs", JSON, b"[".to_vec(), 400, 3, "the request is not OTLP in JSON: "),
        ("POST /v1/logs", JSON, b"{\"a\":\"\xff\"}".to_vec(), 400, 3, "the body is not UTF-8: "),
        (
            "POST /v1/logs",
            JSON,
            br#"{"resourceLogs":7}"#.to_vec(),
            400,
            3,
            "[resourceLogs] must be an array as OTLP has it in JSON: ",
        ),
        (
            "POST /v1/logs",
            JSON,
            br#"{"resourceLogs":[7]}"#.to_vec(),
            400,
            3,
            "an element of resourceLogs is not OTLP in JSON: ",
        ),
        (
            "POST /v1/logs",
            JSON,
            grown.into_bytes(),
            413,
            8,
            "the records, each with the attributes of its resource,",
        ),
        ("POST /v1/logs", "text/plain", b"{}".to_vec(), 415, 3, "Content-Type [text/plain] is not supported"),
        ("POST /v1/logs", "", b"{}".to_vec(), 415, 3, "Content-Type [] is not supported"),
        ("POST /v1/logs?dataset=a", JSON, b"{}".to_vec(), 400, 3, "request [/v1/logs] takes no parameters"),
        (
            "GET /v1/logs",
            JSON,
            b"".to_vec(),
            405,
            12,
            "Incorrect HTTP method for uri [/v1/logs] and method [GET], allowed: [POST]",
        ),
    ] {
        let answer = service.answer(request, content_type, &body);
        assert_eq!(answer.status, status, "{message}");
        let is_protobuf = content_type == PROTOBUF;
        assert_eq!(answer.content_type, if is_protobuf { PROTOBUF } else { JSON }, "{message}");
        let told = match is_protobuf {
            true => status_of(&answer.body),
            false => serde_json::from_slice(&answer.body).expect("the answer is JSON"),
        };
        assert_eq!(told["code"], code, "{message}");
        let text = told["message"].as_str().expect("a text");
        assert!(text.starts_with(message), "{text}");
        assert_eq!(answer.retry_after_s, None, "{message}");
    }
    assert_eq!(service.json("GET /_data_stream", "").1, json!({ "data_streams": [] }));
    assert_eq!(service.json("GET /_count", "").1["count"], 0);
}

#[test]
fn no_value_refuses_a_record() {
    let service = OtlpTestService::open();
    let record = |value: Value| json!({ "attributes": [{ "key": "code", "value": value }] });
    let kinds = [
        json!({ "intValue": "7" }),
        json!({ "stringValue": "2024-01-01" }),
        json!({ "stringValue": "text" }),
        json!({ "kvlistValue": { "values": [{ "key": "a", "value": { "boolValue": true } }] } }),
        json!({ "arrayValue": { "values": [{ "doubleValue": 1.5 }] } }),
    ];
    for content_type in [PROTOBUF, JSON] {
        let records: Vec<Value> = kinds.iter().cloned().map(record).collect();
        assert_eq!(service.send(content_type, &request_of(Value::Array(records))), json!({}));
    }
    assert_eq!(service.find("logs-generic-default", "*").len(), 10);
    for query in ["attributes.code:7", "attributes.code:text", "attributes.code.a:true"] {
        assert_eq!(service.find("logs-generic-default", query).len(), 2, "{query}");
    }
    let status =
        |number: u64| json!({ "attributes": [{ "key": "status", "value": { "intValue": number } }] });
    assert_eq!(service.send(JSON, &request_of(json!([status(99), status(404), status(503)]))), json!({}));
    for (range, expected) in [("%3E=404", 2), ("%3E404", 1), ("%3C100", 1), ("%5B50%20TO%20500%5D", 2)] {
        let query = format!("attributes.status:{range}");
        assert_eq!(service.find("logs-generic-default", &query).len(), expected, "{query}");
    }
    let names = |from: u32| (from..from + 600).map(|n| json!({ "key": format!("k{n}"), "value": {} }));
    let many = [names(0), names(600)].map(|names| json!({ "attributes": names.collect::<Vec<_>>() }));
    assert_eq!(service.send(JSON, &request_of(json!(many))), json!({}));
    // A template of the user's types the attribute, and what does not fit is kept and told.
    let template = r#"{"index_patterns":["logs-typed-*"],"data_stream":{},"template":{"mappings":{"properties":{"attributes":
        {"properties":{"code":{"type":"long"}}}}}}}"#;
    assert_eq!(service.json("PUT /_index_template/typed", template).0, 200);
    let typed = json!({ "key": "data_stream.dataset", "value": { "stringValue": "typed" } });
    let records = kinds.map(|value| json!({ "attributes": [typed, { "key": "code", "value": value }] }));
    let partial = service.send(PROTOBUF, &request_of(json!(records)))["partialSuccess"].clone();
    assert_eq!(partial["rejectedLogRecords"], "0");
    assert_eq!(
        partial["errorMessage"],
        "all records are stored, 3 of them with values that are not found by their fields; data stream \
         [logs-typed-default]: failed to parse field [attributes.code] of type [long]"
    );
    assert_eq!(service.find("logs-typed-default", "*").len(), 5);
    assert_eq!(service.find("logs-typed-default", "attributes.code:7").len(), 1);
}

#[test]
fn indexes_that_take_no_records_reject_them_and_others_are_stored() {
    let service = OtlpTestService::open();
    let template = r#"{"index_patterns":["logs-strict-*"],"data_stream":{},"template":{
        "settings":{"index.mode":"standard"},"mappings":{"dynamic":"strict","properties":{"attributes":{"dynamic":"strict","properties":{}}}}}}"#;
    assert_eq!(service.json("PUT /_index_template/strict", template).0, 200);
    assert_eq!(service.json("PUT /logs-closed-default", "{}").0, 200);
    assert_eq!(service.json("POST /logs-closed-default/_close", "").0, 200);
    let record = |dataset: &str| json!({ "attributes": [{ "key": "data_stream.dataset", "value": { "stringValue": dataset } }] });
    for (dataset, reason) in [
        (
            "strict",
            "mapping set to strict, dynamic introduction of [data_stream] within [attributes] is not allowed",
        ),
        ("closed", "closed"),
    ] {
        let answer = service.send(PROTOBUF, &request_of(json!([record(dataset), record("open")])));
        let expected = json!({ "rejectedLogRecords": "1", "errorMessage": reason });
        assert_eq!(answer["partialSuccess"], expected, "{dataset}");
    }
    assert_eq!(service.find("logs-open-default", "*").len(), 2);
}

#[test]
fn records_are_found_and_survive_a_rollover() {
    let service = OtlpTestService::open();
    let record = |second: u64, level: &str, text: &str| {
        json!({
            "timeUnixNano": (1_700_000_000_000_000_000 + second * 1_000_000_000).to_string(),
            "severityText": level, "severityNumber": second, "body": { "stringValue": text },
        })
    };
    let records: Vec<Value> = (0..5_000).map(|n| record(n, "INFO", "nothing happened")).collect();
    assert_eq!(service.send(PROTOBUF, &request_of(json!(records))), json!({}));
    assert_eq!(service.json("POST /logs-generic-default/_rollover", "").0, 200);
    let record = record(9_000, "ERROR", "the disk is gone");
    assert_eq!(service.send(JSON, &request_of(json!([record]))), json!({}));
    assert_eq!(service.json("GET /logs-generic-default/_count", "").1["count"], 5_001);
    assert_eq!(service.find("logs-*", "body.text:disk").len(), 1);
    assert_eq!(service.find("logs-*", "severity_text:ERROR").len(), 1);
    assert_eq!(service.find("logs-*", "severity_number:%5B10%20TO%2019%5D").len(), 10);
    assert_eq!(
        service.find("logs-*", "@timestamp:%5B2023-11-14T22:13:20Z%20TO%202023-11-14T22:13:29.5Z%5D").len(),
        10
    );
    let (_, mapping) = service.json("GET /.ds-logs-generic-default-000002/_mapping", "");
    let properties = &mapping[".ds-logs-generic-default-000002"]["mappings"]["properties"];
    assert_eq!(properties["attributes"]["type"], "flattened");
}

#[test]
fn a_full_disk_asks_to_be_repeated() {
    let service = OtlpTestService::open_with(|settings| settings.disk_reserve = u64::MAX);
    let request = request_of(json!([{ "severityText": "late" }]));
    for content_type in [PROTOBUF, JSON] {
        let body =
            if content_type == PROTOBUF { message_of(&request) } else { request.to_string().into_bytes() };
        let answer = service.answer("POST /v1/logs", content_type, &body);
        assert_eq!((answer.status, answer.retry_after_s), (429, Some(1)));
        let told = match content_type {
            PROTOBUF => status_of(&answer.body),
            _ => serde_json::from_slice(&answer.body).expect("the answer is JSON"),
        };
        assert_eq!(told["code"], 8, "{told}");
        assert!(told["message"].as_str().is_some_and(|text| text.contains("disk")), "{told}");
    }
    assert_eq!(service.json("GET /_count", "").1["count"], 0);
}

#[test]
fn requests_that_fill_the_queue_are_stored_whole() {
    const SENDERS: usize = 14;
    const RECORDS: usize = 2_000;
    let service = OtlpTestService::open();
    let request = request_of(Value::Array(vec![json!({}); RECORDS]));
    let body = message_of(&request);
    assert_eq!(service.send(JSON, &request_of(json!([{}]))), json!({}));
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                let answer = service.answer("POST /v1/logs", PROTOBUF, &body);
                assert_eq!((answer.status, answer.body), (200, Vec::new()));
            });
        }
    });
    let count = service.json("GET /logs-*/_count", "").1["count"].clone();
    assert_eq!(count, SENDERS * RECORDS + 1);
}
