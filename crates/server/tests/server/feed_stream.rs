//! `/feed/v1`: streams of operations, and the lines that answer them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Method;
use hyper::header::CONTENT_ENCODING;
use millrace_client::{HttpProtocol, OutgoingRequest};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::support::{self, NOTE, SERVICES, TestServer};

/// Sends a stream as a whole; returns the lines of its answer without those of progress but the last.
fn feed(server: &TestServer, body: impl Into<Vec<u8>>, encoding: Option<&'static str>) -> Vec<Value> {
    let body: Vec<u8> = body.into();
    let mut request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", body);
    if let Some(encoding) = encoding {
        request = request.header(CONTENT_ENCODING, encoding);
    }
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status.as_u16(), 200, "{text}");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let last = lines.iter().rposition(|line| line.get("through").is_some());
    let is_kept = |(at, line): (usize, &Value)| line.get("through").is_none() || Some(at) == last;
    let kept = lines.iter().enumerate().filter(|(at, line)| is_kept((*at, line)));
    kept.map(|(_, line)| line.clone()).collect()
}

/// Shows the lines of an answer as text, one each: failures as `LINE:COLUMN STATUS ID MESSAGE`.
fn shown(lines: &[Value]) -> Vec<String> {
    let show = |line: &Value| match (line.get("through"), line.get("complete")) {
        (Some(through), _) => format!("through {through} {}", line["offset"]),
        (_, Some(complete)) => {
            let count = |name: &str| line[name].as_u64().expect("a number");
            let message = line["message"].as_str().map_or(String::new(), |text| format!(" {text}"));
            format!(
                "complete={complete} ok={} ignored={} condition={} failed={}{message}",
                count("ok"),
                count("ignored"),
                count("conditionNotMet"),
                count("failed")
            )
        }
        _ => format!(
            "{}: {}:{} {} {} {}",
            line["operation"],
            line["line"],
            line["column"],
            line["status"],
            line["id"].as_str().expect("an id"),
            line["message"].as_str().expect("a message")
        ),
    };
    lines.iter().map(show).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn every_form_of_a_stream_and_every_failure_of_an_operation() {
    let server = TestServer::with_notes();
    #[track_caller]
    fn check(server: &TestServer, body: &str, expected: &[&str]) {
        for encoding in [None, Some("gzip"), Some("zstd")] {
            let bytes = match encoding {
                None => body.as_bytes().to_vec(),
                Some("gzip") => gzip(body.as_bytes()),
                Some(_) => compress_to_vec(body.as_bytes(), CompressionLevel::Fastest),
            };
            let lines = shown(&feed(server, bytes, encoding));
            assert_eq!(lines.len(), expected.len(), "{body}: {lines:#?}");
            for (line, expected) in lines.iter().zip(expected) {
                assert!(line.starts_with(expected), "{body}:\n{line}\nis not\n{expected}");
            }
        }
    }
    let put = r#"{"put":"id:n:note:g=a:1","fields":{"title":"one","stars":1}}"#;
    check(&server, put, &["through 1 60", "complete=true ok=1 ignored=0 condition=0 failed=0"]);
    check(&server, "", &["complete=true ok=0"]);
    check(&server, "[]", &["complete=true ok=0"]);
    check(&server, " \n \n", &["complete=true ok=0"]);
    check(&server, &format!("[{put},\n{put}]"), &["through 2 123", "complete=true ok=2"]);
    check(&server, &format!("\u{feff}{put}\r\n{put}\r\n"), &["through 2 125", "complete=true ok=2"]);
    // What a visit writes.
    check(
        &server,
        r#"{"id":"id:n:note:g=a:1","fields":{"title":"one"}}"#,
        &["through 1", "complete=true ok=1"],
    );
    check(
        &server,
        r#"{"update":"id:n:note:g=a:1","fields":{"stars":{"increment":1}}}
{"update":"id:n:note:g=a:new","create":true,"fields":{"stars":{"assign":1}}}
{"remove":"id:n:note:g=a:new"}"#,
        &["through 3", "complete=true ok=3"],
    );
    // A bad line fails alone.
    check(
        &server,
        &format!("{put}\nrubbish\n{put}\n{{\"put\":\"id:n:note:g=a:2\",\"fields\":{{\n{put}\n"),
        &[
            "2: 2:1 400  this is not an operation",
            "4: 4:1 400  the line ends inside an operation",
            "through 5",
            "complete=true ok=3 ignored=0 condition=0 failed=2",
        ],
    );
    let line = |text: &str| format!("{put}\n{text}\n{put}\n");
    let fails = |text: &str, expected: &str| {
        check(
            &server,
            &line(text),
            &[expected, "through 3", "complete=true ok=2 ignored=0 condition=0 failed=1"],
        );
    };
    fails(r#"{"put":"id:n:note:g=a:1","fields":{"nosuch":1}}"#, "2: 2:");
    fails(r#"{"put":"id:n:note:g=a:1","fields":{"stars":"many"}}"#, "2: 2:");
    fails(r#"{"put":"id:n:nosuch::1","fields":{}}"#, "2: 2:1 400 id:n:nosuch::1 ");
    fails(r#"{"put":"notanid","fields":{}}"#, "2: 2:1 400  document id 'notanid'");
    fails(r#"{"put":"id:n:note::1"}"#, "2: 2:");
    fails(r#"{"remove":"id:n:note::1","condition":"note.stars =="}"#, "2: 2:1 400 id:n:note::1 ");
    // A list ends where the next element is unknown.
    check(
        &server,
        &format!("[{put}, rubbish, {put}]"),
        &["through 1", "complete=false ok=1 ignored=0 condition=0 failed=0 line 1, column 64"],
    );
    check(&server, &format!("[{put}"), &["through 1", "complete=false ok=1"]);
    // Conditions.
    check(
        &server,
        &format!(
            "{put}\n{}\n{}\n{}\n",
            r#"{"put":"id:n:note:g=a:1","condition":"note.stars==2","fields":{"stars":9}}"#,
            r#"{"remove":"id:n:note:g=a:1","condition":"note.stars==2"}"#,
            r#"{"update":"id:n:note:g=a:1","condition":"note.stars==1","fields":{"stars":{"assign":5}}}"#,
        ),
        &[
            "2: 2:1 412 id:n:note:g=a:1 the condition does not hold",
            "3: 3:1 412 id:n:note:g=a:1 the condition does not hold",
            "through 4",
            "complete=true ok=2 ignored=0 condition=2 failed=0",
        ],
    );
    assert_eq!(server.get("/document/v1/n/note/group/a/1").1["fields"]["stars"], 5);
    // An empty one is none, also where the document does not exist.
    check(
        &server,
        r#"{"update":"id:n:note:g=a:9","condition":"","create":true,"fields":{"stars":{"assign":5}}}
{"put":"id:n:note:g=a:10","condition":"","fields":{"stars":9}}
{"remove":"id:n:note:g=a:11","condition":""}"#,
        &["through 3", "complete=true ok=3 ignored=0 condition=0 failed=0"],
    );
    // A long id is not repeated in full.
    let lines =
        feed(&server, format!("{{\"put\":\"id:n:note::{}\",\"fields\":{{}}}}", "x".repeat(70_000)), None);
    let message = lines[0]["message"].as_str().expect("a message");
    assert!(message.len() < 2000 && message.contains("65535"), "{} bytes: {message:.300}", message.len());
}

#[test]
fn operations_on_one_document_keep_their_order() {
    let server = TestServer::with_notes();
    let mut body = String::new();
    for round in 0..300 {
        for name in 0..5 {
            let id = format!("id:n:note:g=a:{name}");
            body += &match (round + name) % 4 {
                0 => format!("{{\"put\":\"{id}\",\"fields\":{{\"stars\":{round}}}}}\n"),
                1 => format!("{{\"update\":\"{id}\",\"fields\":{{\"stars\":{{\"increment\":1}}}}}}\n"),
                2 => {
                    format!("{{\"update\":\"{id}\",\"fields\":{{\"title\":{{\"assign\":\"x{round}\"}}}}}}\n")
                }
                _ => format!("{{\"remove\":\"{id}\",\"condition\":\"note.stars<0\"}}\n"),
            };
        }
    }
    let lines = shown(&feed(&server, body, None));
    assert_eq!(
        lines.last().map(String::as_str),
        Some("complete=true ok=1125 ignored=0 condition=375 failed=0")
    );
    for name in 0..5_u64 {
        // The last round in which the document was put, and what followed.
        let put = (0..300).rev().find(|round| (round + name) % 4 == 0).expect("it was put");
        let increments = (put + 1..300).filter(|round| (round + name) % 4 == 1).count() as u64;
        let (_, answer) = server.get(&format!("/document/v1/n/note/group/a/{name}"));
        assert_eq!(answer["fields"]["stars"], put + increments, "{name}: {answer}");
    }
}

/// Each sees the result of the one before, and many are synced together.
#[test]
fn updates_of_one_document_that_follow_each_other_share_syncs() {
    const UPDATES: u64 = 2000;
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/a/1", "{\"stars\":0}");
    let syncs = || server.metric("millrace_store_sync_duration_seconds_count");
    let before = syncs();
    let update = |number: u64| {
        // Every tenth has a condition that does not hold.
        let expected = if number % 10 == 9 { UPDATES + 1 } else { number - number / 10 };
        format!(
            "{{\"update\":\"id:n:note:g=a:1\",\"condition\":\"note.stars=={expected}\",\"fields\":{{\"stars\":{{\"increment\":1}}}}}}\n"
        )
    };
    let lines = shown(&feed(&server, (0..UPDATES).map(update).collect::<String>(), None));
    let totals = "complete=true ok=1800 ignored=0 condition=200 failed=0";
    assert_eq!(lines.last().map(String::as_str), Some(totals), "{lines:?}");
    assert_eq!(server.get("/document/v1/n/note/group/a/1").1["fields"]["stars"], 1800);
    let synced = syncs() - before;
    assert!(synced < UPDATES as f64 / 4.0, "{synced} syncs");
}

#[test]
fn requests_that_are_not_streams_are_refused_with_the_cure() {
    let server = TestServer::start();
    let call = |method: Method, path: &str, content_type: &'static str, encoding: &'static str| {
        let mut request = OutgoingRequest::new(method, path).body(content_type, "{}");
        if !encoding.is_empty() {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        (answer.status.as_u16(), answer.message())
    };
    let (status, message) = call(Method::POST, "/feed/v1", "application/jsonl", "");
    assert!(status == 503 && message.contains("no application is deployed"), "{status} {message}");
    let server = server.deploy_notes();
    let call = |method: Method, path: &str, content_type: &'static str, encoding: &'static str| {
        let mut request = OutgoingRequest::new(method, path).body(content_type, "{}");
        if !encoding.is_empty() {
            request = request.header(CONTENT_ENCODING, encoding);
        }
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        (answer.status.as_u16(), answer.message())
    };
    let check = |found: (u16, String), status: u16, part: &str| {
        assert!(found.0 == status && found.1.contains(part), "{found:?} is not {status} {part}");
    };
    let json = "application/json";
    check(call(Method::PUT, "/feed/v1", json, ""), 405, "use GET, POST, OPTIONS");
    check(call(Method::GET, "/feed/v1", json, ""), 400, "parameter 'type'");
    check(call(Method::POST, "/feed/v1", "text/plain", ""), 415, "application/json");
    check(call(Method::POST, "/feed/v1", "application/xml", ""), 400, "send JSON lines");
    check(call(Method::POST, "/feed/v1", json, "br"), 400, "send the feed with gzip or zstd");
    check(call(Method::POST, "/feed/v1?durability=fast", json, ""), 400, "parameter 'durability'");
    check(
        call(Method::POST, "/feed/v1?durability=async&dedupe=body", json, ""),
        400,
        "leave out one of the two",
    );
    check(call(Method::POST, "/feed/v1?timeout=soon", json, ""), 400, "parameter 'timeout'");
    for parameter in ["condition=note.stars==1", "create=true"] {
        let path = format!("/feed/v1?{parameter}");
        check(call(Method::POST, &path, json, ""), 400, "it is a member of each operation");
    }
    check(call(Method::POST, "/feed/v1?dryRun=true", json, ""), 400, "a stream is always executed");
    assert_eq!(call(Method::POST, "/feed/v1?dryRun=false", json, "").0, 200);
    assert_eq!(call(Method::OPTIONS, "/feed/v1", json, "").0, 204);
}

#[test]
fn a_packed_stream_that_breaks_keeps_what_came_before() {
    let server = TestServer::with_notes();
    let put = |name: usize| format!("{{\"put\":\"id:n:note:g=a:{name}\",\"fields\":{{\"stars\":{name}}}}}\n");
    let text: String = (0..20_000).map(put).collect();
    let packed = gzip(text.as_bytes());
    let lines = feed(&server, packed[..packed.len() / 2].to_vec(), Some("gzip"));
    let [through, total] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(total["complete"], false);
    assert!(total["message"].as_str().is_some_and(|message| !message.is_empty()), "{total}");
    let through = through["through"].as_u64().expect("a number");
    assert!(through > 1000 && total["ok"] == through, "{lines:?}");
    let there = |name: u64| server.get(&format!("/document/v1/n/note/group/a/{name}")).0;
    assert_eq!((there(0), there(through - 1), there(through)), (200, 200, 404));
    let total = feed(&server, b"not gzip".to_vec(), Some("gzip"));
    assert_eq!(total[0]["complete"], false, "{total:?}");
    // Members that follow each other are one stream.
    let members = [gzip(put(1).as_bytes()), gzip(put(2).as_bytes())].concat();
    assert_eq!(
        shown(&feed(&server, members, Some("GZIP")))[1],
        "complete=true ok=2 ignored=0 condition=0 failed=0"
    );
}

/// Connection over which a stream is sent in parts.
struct RawStream {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl RawStream {
    fn begin(server: &TestServer, head: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let head = format!(
            "POST /feed/v1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/jsonl\r\n{head}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        RawStream { stream, reader }
    }

    fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.stream.write_all(chunk.as_bytes()).expect("it is sent");
    }

    /// Reads lines until one has `part`.
    fn read_until(&mut self, part: &str) -> String {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.reader.read_line(&mut line).expect("a line") > 0, "the answer ends before {part}");
        }
        line
    }
}

#[test]
fn each_part_is_durable_and_answered_before_the_next_is_sent() {
    let server = TestServer::with_notes();
    let mut stream = RawStream::begin(&server, "transfer-encoding: chunked\r\n");
    let mut offset = 0;
    for number in 1..=5 {
        let text = format!("{{\"put\":\"id:n:note:g=a:{number}\",\"fields\":{{\"stars\":{number}}}}}\n");
        stream.send(&text);
        let line = stream.read_until("\"through\"");
        offset += text.len();
        let expected = json!({ "through": number, "offset": offset - 1 });
        assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), expected);
        assert_eq!(server.get(&format!("/document/v1/n/note/group/a/{number}")).0, 200);
    }
    stream.send("{\"put\":\"id:n:note:g=a:6\",");
    drop(stream);
    support::poll("the streams end", || server.get("/document/v1/n/note/group/a/6").0 == 404);
}

#[test]
fn operations_on_a_type_that_is_removed_meanwhile_fail_alone() {
    const APPLICATION: &str = "/application/v2/tenant/default/application/default";
    const PAGE: &str =
        "schema page { document page { field stars type int { indexing: summary | attribute } } }";
    let both = SERVICES.replace("<documents>", "<documents><document type='page' mode='streaming'/>");
    let both = [("services.xml", both.as_str()), ("schemas/note.sd", NOTE), ("schemas/page.sd", PAGE)];
    let server = TestServer::with_notes();
    assert_eq!(server.deploy(&both).0, 200);
    let mut stream = RawStream::begin(&server, "transfer-encoding: chunked\r\nconnection: close\r\n");
    let put = |kind: &str, number: u32| {
        format!("{{\"put\":\"id:n:{kind}:g=a:{number}\",\"fields\":{{\"stars\":{number}}}}}\n")
    };
    stream.send(&put("page", 1));
    stream.read_until("\"through\"");
    // Without a permission to remove the type alone, the application goes and comes back without it.
    assert_eq!(server.config(Method::DELETE, APPLICATION).0, 200);
    assert_eq!(server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]).0, 200);
    stream.send(&[put("page", 2), put("note", 3)].concat());
    let line = stream.read_until("\"status\"");
    assert!(line.contains("\"operation\":2") && line.contains("Document type page does not exist"), "{line}");
    stream.stream.write_all(b"0\r\n\r\n").expect("it is sent");
    let total: Value = serde_json::from_str(&stream.read_until("\"complete\"")).expect("JSON");
    assert_eq!((&total["ok"], &total["failed"]), (&json!(2), &json!(1)), "{total}");
    assert_eq!(server.get("/document/v1/n/note/group/a/3").0, 200);
    assert_eq!(server.deploy(&both).0, 200);
    for number in 1..=2 {
        let path = format!("/document/v1/n/page/group/a/{number}");
        assert_eq!(server.get(&path).0, 404, "the type has come back, and its documents have not");
    }
}

#[test]
fn a_client_that_reads_only_afterwards_gets_a_bounded_answer() {
    let server = TestServer::with_notes();
    // Nine tenths of the lines are failures, more than any buffer on the way has room for.
    let mut text = String::new();
    for number in 0..60_000 {
        match number % 10 {
            0 => text += &format!("{{\"put\":\"id:n:note:g=a:{number}\",\"fields\":{{}}}}\n"),
            _ => {
                text +=
                    &format!("{{\"put\":\"id:n:note:g=a:{number}\",\"fields\":{{\"nosuch{number}\":1}}}}\n")
            }
        }
    }
    let head = format!("content-length: {}\r\nconnection: close\r\n", text.len());
    let mut stream = RawStream::begin(&server, &head);
    stream.stream.write_all(text.as_bytes()).expect("the server reads on");
    let mut answer = String::new();
    stream.reader.read_to_string(&mut answer).expect("an answer");
    let total = answer.lines().find(|line| line.contains("\"complete\"")).expect("totals");
    let total: Value = serde_json::from_str(total).expect("JSON");
    assert_eq!(
        (&total["complete"], &total["ok"], &total["failed"]),
        (&json!(true), &json!(6000), &json!(54_000))
    );
    let listed = answer.lines().filter(|line| line.contains("\"status\":400")).count() as u64;
    assert_eq!(listed + total["unlisted"].as_u64().expect("a number"), 54_000);
    assert!(listed >= 1000, "{listed}");
}

#[test]
fn a_client_that_waits_for_continue_gets_it_first() {
    let server = TestServer::with_notes();
    let text = "{\"put\":\"id:n:note:g=a:1\",\"fields\":{}}\n";
    let head = format!("expect: 100-continue\r\nconnection: close\r\ncontent-length: {}\r\n", text.len());
    let mut stream = RawStream::begin(&server, &head);
    assert_eq!(stream.read_until("HTTP/1.1"), "HTTP/1.1 100 Continue\r\n");
    stream.stream.write_all(text.as_bytes()).expect("it is sent");
    assert_eq!(stream.read_until("HTTP/1.1"), "HTTP/1.1 200 OK\r\n");
    stream.read_until("\"complete\":true");
}

#[test]
fn streams_are_as_many_as_their_memory_allows() {
    // Half of it is for three streams of 3 MB each, of which a client gets two: it leaves a slot to others.
    let server = TestServer::start_with(&[
        ("MILLRACE_BODIES_BYTES_MAX", "18874368"),
        ("MILLRACE_REQUEST_BYTES_MAX", "1048576"),
    ]);
    let server = server.deploy_notes();
    let mut first: Vec<RawStream> =
        (0..2).map(|_| RawStream::begin(&server, "transfer-encoding: chunked\r\n")).collect();
    for (number, stream) in first.iter_mut().enumerate() {
        stream.send(&format!("{{\"put\":\"id:n:note:g=a:{number}\",\"fields\":{{}}}}\n"));
        stream.read_until("\"through\":1");
    }
    let mut third = RawStream::begin(&server, "transfer-encoding: chunked\r\n");
    third.send("{}");
    assert!(third.read_until("HTTP/1.1").contains("429"));
    drop(first);
    support::poll("a slot becomes free", || {
        let request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", "");
        server.send(&server.url(), HttpProtocol::Http1, request).status == 200
    });
}

#[test]
fn large_operations_pass_up_to_the_limit_and_fail_alone_beyond() {
    let server = TestServer::start_with(&[("MILLRACE_REQUEST_BYTES_MAX", "4194304")]).deploy_notes();
    let put = |name: &str, bytes: usize| {
        format!("{{\"put\":\"id:n:note:g=a:{name}\",\"fields\":{{\"title\":\"{}\"}}}}\n", "x".repeat(bytes))
    };
    let text = [put("1", 3 << 20), put("2", 5 << 20), put("3", 3 << 20), put("4", 10)].concat();
    let lines = shown(&feed(&server, text, None));
    assert!(lines[0].starts_with("2: 2:1 400  an operation is larger than 4194304 bytes"), "{lines:?}");
    assert_eq!(lines[2], "complete=true ok=3 ignored=0 condition=0 failed=1");
}
