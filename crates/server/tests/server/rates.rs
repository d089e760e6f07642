//! Limits of requests in a second, independent of the clients' description of themselves.

use std::cell::RefCell;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_client::{ClientAnswer, HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::{self, MILLRACE, NOTE, SERVICES, TestServer, file_of, onnxruntime, services_with};

const QUERY: (&str, &str) = ("yql", "select * from note where true");

/// So small a rate does not fill again while a test runs.
const ONCE: &str = "0.0001";

#[test]
fn a_group_is_counted_whatever_a_query_says_of_its_client() {
    let server = TestServer::start_with(&[("MILLRACE_GROUP_RATE_MAX", ONCE)]).deploy_notes();
    let limits = "<search><chain id='default' inherits='vespa'>
        <searcher id='com.yahoo.search.searchers.RateLimitingSearcher'/></chain></search>";
    let services = SERVICES.replace("<search/>", limits);
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    let ask = |group: &str, more: &[(&str, &str)]| {
        let (status, answer) = server.query(&[&[QUERY, ("streaming.groupname", group)], more].concat());
        (status, answer["root"]["errors"][0]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("ann", &[]).0, 200);
    let ways: [&[(&str, &str)]; 5] = [
        &[],
        &[("rate.id", "somebody"), ("rate.quota", "1")],
        &[("rate.id", "ann"), ("rate.quota", "1e300")],
        &[("rate.id", "ann"), ("rate.quota", "1"), ("rate.cost", "0")],
        &[("rate.id", "ann"), ("rate.quota", "1"), ("rate.dryRun", "true")],
    ];
    for way in ways {
        let (status, message) = ask("ann", way);
        assert_eq!(status, 429, "{way:?}: {message}");
        assert!(message.contains("group 'ann'") && message.contains("--group-rate-max"), "{message}");
    }
    assert_eq!(ask("bob", &[]).0, 200, "another group has its own");
    let (status, answer) = server.get("/document/v1/n/note/group/ann/1");
    assert_eq!(status, 429, "documents count as well: {answer}");
    assert_eq!(server.get("/document/v1/n/note/group/carl/1").0, 404);
    assert_eq!(server.get("/document/v1/n/note/group/carl/1").0, 429);
}

#[test]
fn a_group_has_so_many_requests_in_flight() {
    let server = TestServer::start_with(&[("MILLRACE_GROUP_CONCURRENT_MAX", "1")]).deploy_notes();
    server.put("/document/v1/n/note/group/ann/2", "{}");
    let path = "/document/v1/n/note/group/ann/1";
    // A put whose document does not come. One that meets a look below is refused: the next is not.
    let unfinished = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{");
    let open = || {
        let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
        stream.write_all(unfinished.as_bytes()).expect("it is sent");
        stream
    };
    let streams = RefCell::new(Vec::new());
    support::poll("a put is in flight", || {
        streams.borrow_mut().push(open());
        server.get(path).0 == 429
    });
    let (status, answer) = server.query(&[QUERY, ("streaming.groupname", "ann")]);
    assert_eq!(status, 429, "{answer}");
    let message = answer["root"]["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("group 'ann' has 1 requests in flight"), "{message}");
    assert_eq!(server.get("/document/v1/n/note/group/bob/1").0, 404, "another group has its own");
    assert_eq!(server.query(&[QUERY, ("streaming.groupname", "bob")]).0, 200);
    let export = OutgoingRequest::new(Method::POST, "/group/v1/ann/export");
    let exported = server.send(&server.url(), HttpProtocol::Http1, export);
    let lines = String::from_utf8_lossy(&exported.body);
    assert!(lines.contains("id:n:note:g=ann:2"), "the pages of an export take no turns: {lines}");
    streams.borrow_mut().clear();
    support::poll("the put has ended", || server.get(path).0 == 404);
    assert_eq!(server.query(&[QUERY, ("streaming.groupname", "ann")]).0, 200);
}

#[test]
fn an_address_is_counted_at_every_endpoint_for_clients() {
    for (method, path, body) in [
        (Method::GET, "/search/?yql=select+*+from+note+where+true&streaming.groupname=ann", ""),
        (Method::GET, "/document/v1/n/note/group/ann/1", ""),
        (Method::GET, "/document/v1/n/note/docid/", ""),
        (Method::POST, "/mcp/", r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#),
        (Method::GET, "/model-evaluation/v1/", ""),
    ] {
        let server = TestServer::start_with(&[("MILLRACE_ADDRESS_RATE_MAX", ONCE)]).deploy_notes();
        let handler = "<handler id='ai.vespa.mcp.McpRequestHandler'/><search/>";
        let services = SERVICES.replace("<search/>", handler);
        let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
        assert_eq!(status, 200, "{answer}");
        let ask = || server.call(method.clone(), path, body);
        assert_ne!(ask().0, 429, "{path}");
        let (status, answer) = ask();
        assert_eq!(status, 429, "{path}: {answer}");
        assert!(answer.to_string().contains("--address-rate-max"), "{path}: {answer}");
        assert_eq!(server.get("/state/v1/health").0, 200, "probes are not counted");
    }
}

/// Creates an API key that may read and write, and returns the value of its header.
fn create(server: &TestServer, name: &str, arguments: &[&str]) -> String {
    let token = server.create_token(&[&[name, "--read", "--write"], arguments].concat());
    format!("Bearer {token}")
}

fn send(server: &TestServer, token: &str, request: OutgoingRequest) -> ClientAnswer {
    let token: &'static str = token.to_owned().leak();
    server.send(&server.url(), HttpProtocol::Http1, request.header(AUTHORIZATION, token))
}

/// Waits until the server asks for credentials and accepts a key. It looks at the file each second, and until
/// then takes all requests from its own machine.
fn until_known(server: &TestServer, token: &str) {
    let path = "/document/v1/n/note/group/ann/0";
    // In this order, so that one request of the key is admitted.
    support::poll("the server uses the changed credentials", || server.get(path).0 == 401);
    support::poll("the server accepts the key", || {
        send(server, token, OutgoingRequest::new(Method::GET, path)).status != 401
    });
}

/// A table with one note.
fn table() -> Vec<u8> {
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let batch = RecordBatch::try_from_iter([("id", text("1")), ("title", text("a note of a table"))]);
    let batch = batch.expect("columns of one length");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a schema");
    writer.write(&batch).expect("a batch");
    writer.into_inner().expect("an end")
}

/// Every endpoint at which clients write documents: its name, path, media type and body.
fn interfaces() -> Vec<(&'static str, Method, &'static str, &'static str, Vec<u8>)> {
    let (json, lines) = ("application/json", "application/x-ndjson");
    let put = br#"{"put":"id:n:note:g=ann:1","fields":{"title":"a note"}}"#;
    let log = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a record"}}]}]}]}"#;
    let bulk = b"{\"index\":{\"_index\":\"logs\"}}\n{\"title\":\"x\"}\n";
    vec![
        (
            "put",
            Method::POST,
            "/document/v1/n/note/group/ann/1",
            json,
            br#"{"fields":{"title":"a"}}"#.to_vec(),
        ),
        (
            "update",
            Method::PUT,
            "/document/v1/n/note/group/ann/1",
            json,
            br#"{"fields":{"title":{"assign":"b"}}}"#.to_vec(),
        ),
        (
            "update where",
            Method::PUT,
            "/document/v1/n/note/group/ann/?selection=true&cluster=notes",
            json,
            br#"{"fields":{"title":{"assign":"c"}}}"#.to_vec(),
        ),
        ("stream", Method::POST, "/feed/v1", json, put.to_vec()),
        (
            "table",
            Method::POST,
            "/feed/v1?type=note&namespace=n&groupname=ann",
            "application/vnd.apache.arrow.stream",
            table(),
        ),
        ("restore", Method::POST, "/group/v1/ann/restore", json, put.to_vec()),
        ("person", Method::POST, "/person/ann/feed/v1", json, put.to_vec()),
        ("elastic document", Method::PUT, "/elastic/logs/_doc/1", json, br#"{"title":"x"}"#.to_vec()),
        ("elastic bulk", Method::POST, "/elastic/_bulk", lines, bulk.to_vec()),
        ("elastic type", Method::PUT, "/elastic/note/_doc/3?routing=ann", json, br#"{"title":"x"}"#.to_vec()),
        ("log records", Method::POST, "/v1/logs", json, log.to_vec()),
    ]
}

#[test]
fn written_bytes_are_counted_at_every_interface_by_the_credential() {
    let server = TestServer::with_notes();
    let interfaces = interfaces();
    let limited: Vec<String> =
        interfaces.iter().map(|(name, ..)| create(&server, name, &["--fed-bytes-max", "1"])).collect();
    let free = create(&server, "free", &[]);
    until_known(&server, &free);
    for ((name, method, path, media_type, body), token) in interfaces.into_iter().zip(limited) {
        let ask = |token: &str| {
            let request = OutgoingRequest::new(method.clone(), path).body(media_type, body.clone());
            send(&server, token, request)
        };
        let first = ask(&token);
        assert!(first.status.is_success(), "{name}: {}", String::from_utf8_lossy(&first.body));
        let refused = ask(&token);
        let message = String::from_utf8_lossy(&refused.body).into_owned();
        assert_eq!(refused.status, 429, "{name}: {message}");
        assert!(
            message.contains(&format!("written by '{name}' exceed 1 bytes a second")),
            "{name}: {message}"
        );
        let after = refused.headers["retry-after"].to_str().expect("a number").parse::<u64>();
        assert!(after.is_ok_and(|after| after > 1), "{name}: it owes more than a second's bytes");
        let read = OutgoingRequest::new(Method::GET, "/document/v1/n/note/group/ann/1");
        assert_eq!(send(&server, &token, read).status, 200, "{name}: reads are not limited");
        assert!(ask(&free).status.is_success(), "{name}: another credential has its own limit");
    }
}

#[test]
fn written_bytes_are_counted_by_group_at_every_interface() {
    for (name, method, path, media_type, body) in interfaces() {
        let server = TestServer::start_with(&[("MILLRACE_GROUP_FED_BYTES_MAX", "1")]).deploy_notes();
        let write = |path: &str, body: &[u8]| {
            let request = OutgoingRequest::new(method.clone(), path).body(media_type, body.to_vec());
            server.send(&server.url(), HttpProtocol::Http1, request).status
        };
        assert!(write(path, &body).is_success(), "{name}");
        let put = |group: &str| {
            let fields = r#"{"fields":{"title":"d"}}"#;
            server.call(Method::POST, &format!("/document/v1/n/note/group/{group}/2"), fields)
        };
        let (status, answer) = put("ann");
        // Documents of indexes of Elasticsearch's interfaces belong to no group of a person.
        let is_counted = path.contains("/note/") || !path.contains("elastic") && !path.contains("logs");
        assert_eq!(status == 429, is_counted, "{name}: {answer}");
        assert_eq!(
            answer.to_string().contains("to group 'ann' exceed 1 bytes a second"),
            is_counted,
            "{answer}"
        );
        assert_eq!(put("bob").0, 200, "{name}: another group has its own");
    }
}

#[test]
fn a_stream_beyond_its_limit_is_slowed_down_and_executed_whole() {
    let server = TestServer::with_notes();
    let slow = create(&server, "slow", &["--fed-bytes-max", "1000000"]);
    until_known(&server, &slow);
    // Three pieces, of which the second and the third wait.
    let title = "word ".repeat(20_000);
    let operation = |number: usize| {
        json!({ "put": format!("id:n:note:g=ann:{number}"), "fields": { "title": title } }).to_string()
    };
    let body: Vec<String> = (0..24).map(operation).collect();
    let request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/json", body.join("\n"));
    let answer = send(&server, &slow, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 200, "{text}");
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a line of JSON");
    assert_eq!((&last["complete"], &last["ok"]), (&json!(true), &json!(24)), "{text}");
    let metrics = send(&server, &slow, OutgoingRequest::new(Method::GET, "/metrics"));
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let paced = metrics.lines().find(|line| line.starts_with("millrace_feed_paced")).unwrap_or_default();
    let count = paced.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
    assert!(count.is_some_and(|count| count > 0.0), "{paced}");
}

#[test]
fn a_rate_that_is_none_is_refused_at_the_start() {
    for rate in ["0", "-1", "inf", "NaN"] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["serve", "--data-dir", "/nonexistent/never", &format!("--group-rate-max={rate}")])
            .output()
            .expect("the program runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains("group-rate-max"), "{rate}: {message}");
        assert_eq!(json!(output.stdout), json!([]), "{rate}");
    }
    for (limit, reason) in [
        ("--group-fed-bytes-max=0", "bytes a second above 0"),
        ("--group-concurrent-max=0", "requests above 0"),
    ] {
        let output = Command::new(MILLRACE)
            .args(["serve", "--data-dir", "/nonexistent/never", limit])
            .output()
            .expect("the program runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(reason), "{message}");
    }
}

#[test]
fn operations_that_are_refused_do_not_count_for_the_group_that_they_name() {
    let server = TestServer::start_with(&[("MILLRACE_GROUP_FED_BYTES_MAX", "2000")]).deploy_notes();
    let [ann, bob] = ["ann", "bob"].map(|name| create(&server, name, &["--group", name]));
    until_known(&server, &ann);
    let text = "x".repeat(3_000);
    let line = |number: usize| {
        format!("{{\"put\":\"id:n:note:g=bob:{number}\",\"fields\":{{\"title\":\"{text}\"}}}}\n")
    };
    let lines: String = (0..50).map(line).collect();
    let item = |number: usize| {
        format!(
            "{{\"index\":{{\"_index\":\"note\",\"_id\":\"{number}\",\"routing\":\"bob\"}}}}\n{{\"title\":\"{text}\"}}\n"
        )
    };
    let items: String = (0..50).map(item).collect();
    let fields = format!("{{\"fields\":{{\"title\":\"{text}\"}}}}");
    for (path, media_type, body) in [
        ("/feed/v1", "application/jsonl", &lines),
        ("/group/v1/ann/restore", "application/jsonl", &lines),
        ("/elastic/_bulk", "application/x-ndjson", &items),
        ("/elastic/_bulk/stream", "application/x-ndjson", &items),
        ("/document/v1/n/note/group/bob/1", "application/json", &fields),
        ("/elastic/note/_doc/1?routing=bob", "application/json", &fields),
    ] {
        let answer =
            send(&server, &ann, OutgoingRequest::new(Method::POST, path).body(media_type, body.clone()));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 403 || text.contains("403"), "{path}: {} {text}", answer.status);
        let put = OutgoingRequest::new(Method::POST, "/document/v1/n/note/group/bob/2");
        // It takes no more than what is left of one second.
        let put = put.body("application/json", "{\"fields\":{\"stars\":1}}");
        let answer = send(&server, &bob, put);
        assert_eq!(answer.status, 200, "after {path}: {}", String::from_utf8_lossy(&answer.body));
    }
}

#[test]
fn each_interface_reports_a_limit_in_its_own_form() {
    let server = TestServer::with_notes();
    let key = create(&server, "slow", &["--deploy", "--rate-max", ONCE]);
    until_known(&server, &key);
    let config = server.config_url();
    let key: &'static str = key.leak();
    for (base, method, path, places) in [
        (
            server.url(),
            Method::GET,
            "/search/?yql=select+*+from+note+where+true",
            ["/root/errors/0/message", "/root/errors/0/code"],
        ),
        (server.url(), Method::GET, "/document/v1/n/note/group/ann/1", ["/message", "/pathId"]),
        (server.url(), Method::GET, "/feed/v1", ["/message", "/pathId"]),
        (server.url(), Method::GET, "/group/v1/", ["/message", "/message"]),
        (server.url(), Method::POST, "/mcp/", ["/message", "/message"]),
        (server.url(), Method::GET, "/elastic/note/_search", ["/error/reason", "/error/root_cause/0/type"]),
        (server.url(), Method::POST, "/elastic/_bulk", ["/error/reason", "/status"]),
        (server.url(), Method::POST, "/v1/logs", ["/message", "/code"]),
        (config, Method::GET, "/application/v2/tenant/", ["/message", "/error-code"]),
    ] {
        let request = OutgoingRequest::new(method, path).body("application/json", "{}");
        let answer = server.send(&base, HttpProtocol::Http1, request.header(AUTHORIZATION, key));
        let body = answer.json();
        assert_eq!(answer.status, 429, "{path}: {body}");
        assert!(answer.headers.contains_key("retry-after"), "{path}");
        let reason = body.pointer(places[0]).and_then(Value::as_str).unwrap_or_default();
        assert!(reason.contains("limits.queries of the credential"), "{path}: {body}");
        assert!(body.pointer(places[1]).is_some_and(|value| !value.is_null()), "{path}: {body}");
    }
}

/// A title that takes about 60,000 bytes, also in files.
fn long_title() -> String {
    (0..6_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_string()).collect()
}

/// Every way to change a few bytes of stored documents: its name, request, media type and body.
fn small_changes() -> Vec<(&'static str, Method, &'static str, &'static str, String)> {
    let (json, lines) = ("application/json", "application/x-ndjson");
    let stars = r#"{"fields":{"stars":{"assign":3}}}"#.to_owned();
    let part = r#"{"doc":{"stars":4}}"#.to_owned();
    let update = r#"{"update":"id:n:note:g=ann:1","fields":{"stars":{"assign":1}}}"#.to_owned();
    // Another value than that of the single update, which would change nothing.
    let item =
        "{\"update\":{\"_index\":\"note\",\"_id\":\"1\",\"routing\":\"ann\"}}\n{\"doc\":{\"stars\":6}}\n";
    let copy = r#"{"source":{"index":"big"},"dest":{"index":"copy"}}"#.to_owned();
    let elastic = "/elastic/note/_update/1?routing=ann";
    vec![
        ("update", Method::PUT, "/document/v1/n/note/group/ann/1", json, stars.clone()),
        ("where", Method::PUT, "/document/v1/n/note/group/ann/?selection=true&cluster=notes", json, stars),
        ("stream", Method::POST, "/feed/v1", json, update),
        ("elastic update", Method::POST, elastic, json, part.clone()),
        ("elastic bulk", Method::POST, "/elastic/_bulk", lines, item.to_owned()),
        ("elastic index", Method::POST, "/elastic/big/_update/1", json, part),
        ("by query", Method::POST, "/elastic/big/_update_by_query", json, "{}".to_owned()),
        ("reindex", Method::POST, "/elastic/_reindex", json, copy),
    ]
}

/// Puts the large documents that the small changes are for: one of a type by each interface, and one of an
/// index.
fn put_large(put: impl Fn(&'static str, String) -> u16) {
    let title = long_title();
    for path in ["/elastic/note/_doc/1?routing=ann", "/elastic/big/_doc/1?refresh=true"] {
        let status = put(path, json!({ "title": title }).to_string());
        assert!((200..300).contains(&status), "{path}: {status}");
    }
    let path = "/document/v1/n/note/group/ann/1";
    assert_eq!(put(path, json!({ "fields": { "title": title } }).to_string()), 200, "{path}");
}

#[test]
fn small_changes_count_the_documents_that_they_write_again() {
    let server = TestServer::with_notes();
    let changes = small_changes();
    let limited: Vec<String> =
        changes.iter().map(|(name, ..)| create(&server, name, &["--fed-bytes-max", "1000"])).collect();
    let free = create(&server, "free", &[]);
    until_known(&server, &free);
    let large = |path: &'static str, body: String| {
        let request = OutgoingRequest::new(Method::POST, path).body("application/json", body);
        send(&server, &free, request).status.as_u16()
    };
    put_large(large);
    for ((name, method, path, media_type, body), token) in changes.into_iter().zip(limited) {
        let request = OutgoingRequest::new(method, path).body(media_type, body);
        let answer = send(&server, &token, request);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status.is_success() && !text.contains("\"status\":429"), "{name}: {text}");
        // It owes a minute's bytes now, which few bytes of its own would not make it.
        let fields = r#"{"fields":{"stars":{"assign":5}}}"#;
        let request = OutgoingRequest::new(Method::PUT, "/document/v1/n/note/group/ann/1");
        let answer = send(&server, &token, request.body("application/json", fields));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 429, "{name}: {text}");
        assert!(text.contains(&format!("written by '{name}' exceed 1000 bytes a second")), "{name}: {text}");
    }
}

#[test]
fn small_changes_fill_their_group_with_the_documents_that_they_write_again() {
    for (name, method, path, media_type, body) in small_changes() {
        if path.contains("big") || path.contains("_reindex") {
            // Documents of indexes belong to no group.
            continue;
        }
        let server = TestServer::start_with(&[("MILLRACE_GROUP_BYTES_MAX", "80000")]).deploy_notes();
        let large = json!({ "title": long_title() });
        let (path_of_large, large) = match path.contains("elastic") {
            true => ("/elastic/note/_doc/1?routing=ann", large),
            false => ("/document/v1/n/note/group/ann/1", json!({ "fields": large })),
        };
        let (status, answer) = server.call(Method::POST, path_of_large, &large.to_string());
        assert!((200..300).contains(&status), "{name}: {answer}");
        let change = || {
            let request = OutgoingRequest::new(method.clone(), path).body(media_type, body.clone());
            let answer = server.send(&server.url(), HttpProtocol::Http1, request);
            String::from_utf8_lossy(&answer.body).contains("is full")
        };
        assert_eq!([change(), change(), change()], [false, true, true], "{name}");
    }
}

#[test]
fn small_changes_of_one_request_stop_when_their_group_is_full() {
    let server = TestServer::start_with(&[("MILLRACE_GROUP_BYTES_MAX", "80000")]).deploy_notes();
    let title = long_title();
    server.put("/document/v1/n/note/group/ann/1", &json!({ "title": title }).to_string());
    let update = "{\"update\":\"id:n:note:g=ann:1\",\"fields\":{\"stars\":{\"assign\":1}}}\n";
    let request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", update.repeat(10));
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(text.matches("\"status\":507").count(), 9, "{text}");
    let large = json!({ "title": title }).to_string();
    let (status, answer) = server.call(Method::POST, "/elastic/note/_doc/1?routing=bob", &large);
    assert_eq!(status, 201, "{answer}");
    let item = "{\"update\":{\"_index\":\"note\",\"_id\":\"1\",\"routing\":\"bob\"}}\n";
    let items: String = (0..10).map(|stars| format!("{item}{{\"doc\":{{\"stars\":{stars}}}}}\n")).collect();
    let request = OutgoingRequest::new(Method::POST, "/elastic/_bulk").body("application/x-ndjson", items);
    let answer = server.send(&server.url(), HttpProtocol::Http1, request).json();
    let statuses = answer["items"].as_array().into_iter().flatten().map(|item| &item["update"]["status"]);
    let statuses: Vec<&Value> = statuses.collect();
    assert_eq!(statuses.len(), 10, "{answer}");
    assert_eq!(statuses.iter().filter(|status| **status == &json!(429)).count(), 9, "{answer}");
}

#[test]
fn updates_of_a_stream_do_not_fill_their_group_before_they_are_written() {
    let server = TestServer::start_with(&[("MILLRACE_GROUP_BYTES_MAX", "80000")]).deploy_notes();
    let title = long_title();
    for (group, number, title) in [("ann", 1, title.as_str()), ("bob", 2, "x"), ("ann", 3, "x")] {
        let path = format!("/document/v1/n/note/group/{group}/{number}");
        server.put(&path, &json!({ "title": title }).to_string());
    }
    let [first, second] = [("bob", 2, "y"), ("ann", 3, &title[..30_000])].map(|(group, number, title)| {
        let fields = json!({ "title": { "assign": title } });
        json!({ "update": format!("id:n:note:g={group}:{number}"), "fields": fields })
    });
    let body = format!("{first}\n{second}\n");
    let request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", body);
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a line of JSON");
    assert_eq!(last["ok"], 2, "{text}");
}

/// A server whose notes have a vector of their label.
fn server_with_vectors() -> TestServer {
    onnxruntime();
    let server = TestServer::start();
    let services = services_with(
        "<search/><document-api/>
        <component id='tiny' type='hugging-face-embedder'>
          <transformer-model path='models/model.onnx'/>
          <tokenizer-model path='models/tokenizer.json'/>
          <transformer-token-type-ids/>
        </component>",
    );
    let note = "schema note {
      document note {
        field title type string { indexing: summary }
        field label type string { indexing: summary }
      }
      field vector type tensor<float>(x[16]) { indexing: input label | embed tiny | attribute }
    }";
    let of_crate = |name: &str| file_of(&format!("embedding/tests/data/{name}"));
    let (status, answer) = server.deploy_bytes(&[
        ("services.xml", services.as_bytes()),
        ("schemas/note.sd", note.as_bytes()),
        ("models/model.onnx", &of_crate("model.onnx")),
        ("models/tokenizer.json", &of_crate("tokenizer.json")),
    ]);
    assert_eq!(status, 200, "{answer}");
    server
}

#[test]
fn updates_of_a_stream_that_wait_for_models_are_not_refused_beyond_the_limit() {
    let server = server_with_vectors();
    let slow = create(&server, "slow", &["--fed-bytes-max", "1000"]);
    let free = create(&server, "free", &[]);
    until_known(&server, &free);
    let mut updates = String::new();
    for number in 1..4 {
        let path = format!("/document/v1/n/note/group/ann/{number}");
        let fields = json!({ "fields": { "title": long_title(), "label": "a red letter" } }).to_string();
        let put = OutgoingRequest::new(Method::POST, path).body("application/json", fields);
        assert_eq!(send(&server, &free, put).status, 200);
        let fields = r#"{"label":{"assign":"a blue letter"}}"#;
        updates.push_str(&format!("{{\"update\":\"id:n:note:g=ann:{number}\",\"fields\":{fields}}}\n"));
    }
    // The first of them takes the bytes of a minute, and none is tried again for as long.
    let request =
        OutgoingRequest::new(Method::POST, "/feed/v1?timeout=10s").body("application/jsonl", updates);
    let answer = send(&server, &slow, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a line of JSON");
    assert_eq!((&last["complete"], &last["ok"]), (&json!(true), &json!(3)), "{text}");
}

#[test]
fn vectors_count_at_each_interface() {
    let server = server_with_vectors();
    let interfaces = [
        ("/document/v1/n/note/group/ann/1", r#"{"fields":{"label":"x"}}"#),
        ("/feed/v1", r#"{"put":"id:n:note:g=ann:1","fields":{"label":"x"}}"#),
        ("/elastic/note/_doc/1?routing=ann", r#"{"label":"x"}"#),
    ];
    let limited = interfaces.map(|(path, _)| create(&server, path, &["--fed-bytes-max", "1"]));
    let free = create(&server, "free", &[]);
    until_known(&server, &free);
    for ((path, body), token) in interfaces.into_iter().zip(limited) {
        let write =
            || send(&server, &token, OutgoingRequest::new(Method::POST, path).body("application/json", body));
        assert!(write().status.is_success(), "{path}");
        let refused = write();
        let text = String::from_utf8_lossy(&refused.body);
        // 16 numbers of 4 bytes beside the 50 bytes that are sent at most.
        let wait =
            text.split("try again in ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        assert!(refused.status == 429 && wait.is_some_and(|wait| wait > 60), "{path}: {text}");
    }
}

#[test]
fn each_search_of_a_request_counts_against_the_rate_of_its_credential() {
    let server = TestServer::with_notes();
    let limited = create(&server, "limited", &["--rate-max", ONCE]);
    let free = create(&server, "free", &[]);
    until_known(&server, &free);
    let document = OutgoingRequest::new(Method::PUT, "/elastic/logs/_doc/1?refresh=true");
    let made = send(&server, &free, document.body("application/json", r#"{"title":"x"}"#));
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let searches = "{\"index\":\"logs\"}\n{\"size\":1}\n".repeat(3);
    for (token, expected) in [(&limited, [200, 429, 429]), (&free, [200; 3])] {
        let request = OutgoingRequest::new(Method::POST, "/elastic/_msearch");
        let answer = send(&server, token, request.body("application/x-ndjson", searches.clone())).json();
        let statuses: Vec<&Value> =
            answer["responses"].as_array().into_iter().flatten().map(|found| &found["status"]).collect();
        assert_eq!(json!(statuses), json!(expected), "{answer}");
    }
}
