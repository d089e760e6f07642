//! HTTP as clients use it: two versions, compression, raw bytes in the request line, limits.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hyper::Method;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use millrace_client::{HttpProtocol, OutgoingRequest};

use crate::support::{NOTE, SERVICES, TestServer, poll};

/// Sends bytes unchanged, and returns everything received until the server closes.
fn raw(server: &TestServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    // The server may refuse before it has read everything, and close.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn line(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes()
}

#[test]
fn both_versions_on_one_port() {
    let server = TestServer::with_notes();
    for protocol in [HttpProtocol::Http1, HttpProtocol::Http2] {
        let answer = server.send(&server.url(), protocol, OutgoingRequest::new(Method::GET, "/status.html"));
        assert_eq!(answer.status, 200, "{protocol:?}");
    }
}

#[test]
fn the_request_line_may_hold_utf8_and_be_long() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"smørbrød"}"#);
    let target =
        "/search/?streaming.groupname=ann&timeout=60s&yql=select+*+from+note+where+title+contains+'smørbrød'";
    let answer = raw(&server, &line(target));
    assert!(answer.contains(r#""totalCount":1"#), "{answer}");
    let long = format!("{target}&unused={}", "x".repeat(60_000));
    assert!(raw(&server, &line(&long)).contains(r#""totalCount":1"#));
    assert!(raw(&server, &line(&format!("/?x={}", "y".repeat(100_000)))).starts_with("HTTP/1.1 414"));
    assert!(raw(&server, b"GET /\xff HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 4"));
}

#[test]
fn bodies_are_packed_both_ways() {
    let server = TestServer::with_notes();
    let body = format!(r#"{{"fields":{{"title":"{}"}}}}"#, "word ".repeat(1000));
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut packed = vec![0; compressor.gzip_compress_bound(body.len())];
    let length = compressor.gzip_compress(body.as_bytes(), &mut packed).expect("the bound is large enough");
    packed.truncate(length);
    let path = "/document/v1/n/note/docid/1";
    for encoding in ["gzip", "GZIP", "x-gzip"] {
        let request = OutgoingRequest::new(Method::POST, path)
            .body("application/json", packed.clone())
            .header(CONTENT_ENCODING, encoding);
        assert_eq!(server.send(&server.url(), HttpProtocol::Http2, request).status, 200, "{encoding}");
    }

    let request = OutgoingRequest::new(Method::GET, path).header(ACCEPT_ENCODING, "gzip");
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    assert_eq!(answer.headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()), Some(&b"gzip"[..]));
    let mut plain = vec![0; 10_000];
    let length = Decompressor::new().gzip_decompress(&answer.body, &mut plain).expect("a gzip body");
    assert!(String::from_utf8_lossy(&plain[..length]).contains("word word"));
}

/// Rows: the target and the type of a request, the length of its body, the part that is sent, the status,
/// and true if the connection closes.
#[test]
fn a_refusal_before_the_body_says_that_the_connection_closes() {
    let server = TestServer::with_notes();
    let (json, text) = ("application/json", "text/plain");
    let put = "/document/v1/n/note/docid/1";
    for (target, content_type, length, sent, status, closes) in [
        ("/feed/v1?timeout=soon", json, 530_000, 530_000, 400, true),
        ("/feed/v1?timeout=soon", json, 530_000, 0, 400, true),
        ("/feed/v1", text, 530_000, 1000, 415, true),
        ("/nowhere", json, 530_000, 530_000, 404, true),
        (put, json, 99_999_999, 1000, 413, true),
        // What is small is read after the refusal, and what was received is no obstacle.
        ("/nowhere", json, 9, 9, 404, false),
        (put, json, 2, 2, 400, false),
        (put, json, 50_000, 50_000, 400, false),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(120))).expect("a timeout");
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\ncontent-length: {length}"
        );
        stream.write_all(format!("{head}\r\n\r\n{}", "x".repeat(sent)).as_bytes()).expect("it is sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the head of an answer");
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).to_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {status}")), "{head}: {answer}");
        assert_eq!(answer.contains("\r\nconnection: close\r\n"), closes, "{head}: {answer}");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let server = TestServer::with_notes();
    let head = format!(
        "POST /document/v1/n/note/docid/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        65 << 20
    );
    assert!(raw(&server, head.as_bytes()).starts_with("HTTP/1.1 413"));
}

#[test]
fn status_is_served_in_every_form() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/docid/1", "{}");
    for path in
        ["/", "/ApplicationStatus", "/state/v1/", "/state/v1/config", "/state/v1/version", "/state/v1/health"]
    {
        assert_eq!(server.get(path).0, 200, "{path}");
    }
    for method in [Method::GET, Method::HEAD] {
        let answer = server.send(
            &server.config_url(),
            HttpProtocol::Http1,
            OutgoingRequest::new(method, "/ApplicationStatus"),
        );
        assert_eq!(answer.status, 200);
    }
    assert_eq!(server.get("/model-evaluation/v1/").0, 404, "models are absent");
    assert!(server.get("/").1.to_string().contains("DocumentV1ApiHandler"));
    assert!(server.get("/metrics/v2/values").1.to_string().contains("httpapi_num_puts.count\":1"));
    let services = server.get("/metrics/v1/values").1;
    assert_eq!(services.pointer("/services/0/status/code"), Some(&serde_json::json!("up")), "{services}");
    let answer = server.send(
        &server.url(),
        HttpProtocol::Http1,
        OutgoingRequest::new(Method::GET, "/prometheus/v1/values"),
    );
    let text = String::from_utf8_lossy(&answer.body);
    assert!(text.contains("httpapi_num_puts_count 1"));
    assert!(text.contains("\nfeed_operations_rate "), "{text}");
    for share in ["disk", "memory"] {
        let used = server.metric(&format!("content_proton_resource_usage_{share}_average"));
        assert!(used > 0.0 && used <= 1.0, "{share}: {used}");
    }
    for counted in ["cache_hits", "cache_misses", "seals", "merges", "splits"] {
        let kind = format!("# TYPE millrace_store_{counted}_count counter");
        assert!(text.contains(&kind), "{kind}: {text}");
    }
    for url in [server.url(), server.config_url()] {
        let health =
            server.send(&url, HttpProtocol::Http1, OutgoingRequest::new(Method::GET, "/state/v1/health"));
        let text = String::from_utf8_lossy(&health.body);
        assert!(text.contains("\n  \"status\" : {\n    \"code\" : \"up\"\n  }"), "{text}");
    }
    // The deployment port does not count requests.
    let requests = |health: serde_json::Value| health["metrics"]["values"].as_array().map(Vec::len);
    assert_eq!(requests(server.get("/state/v1/health").1), Some(2));
    assert_eq!(requests(server.config(Method::GET, "/state/v1/health").1), Some(0));
}

#[test]
fn the_bytes_of_fields_are_listed_by_form() {
    let server = TestServer::with_notes();
    for number in 0..100 {
        let text = "a text that is compressed ".repeat(100);
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), &format!("{{\"title\":\"{text}\"}}"));
    }
    let fields = || server.get("/state/v1/fields").1;
    poll("it is sealed", || fields()["bytes"].as_u64() > Some(0));
    let seals = "/nodes/0/services/0/metrics/0/values/millrace.store.seals.count";
    poll("the seal is counted", || {
        let metrics = server.get("/metrics/v2/values").1;
        metrics.pointer(seals).and_then(serde_json::Value::as_f64) > Some(0.0)
    });
    let fields = fields();
    let of_type = &fields["types"][0];
    assert_eq!(of_type["type"], "note");
    let column = |form: &str| {
        let columns = of_type["columns"].as_array().into_iter().flatten();
        let mut columns = columns.filter(|column| column["field"] == "title" && column["form"] == form);
        columns.next().and_then(|column| column["bytes"].as_u64()).unwrap_or(0)
    };
    // There are 260,000 bytes of text, five words 100 times in each.
    assert!((1..60_000).contains(&column("values")), "{fields}");
    assert!((1..200_000).contains(&column("words")), "{fields}");
    let sum: u64 =
        of_type["columns"].as_array().into_iter().flatten().filter_map(|of| of["bytes"].as_u64()).sum();
    assert_eq!(of_type["bytes"].as_u64(), Some(sum));
    let part = |name: &str| fields[name].as_u64().unwrap_or(0);
    assert_eq!(part("bytes"), sum + part("directories") + part("filters"));
    let shown = server.millrace(&["fields"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("title: words") && shown.contains("all segments"), "{shown}");
    assert!(shown.contains("filters of ids"), "{shown}");
}

#[test]
fn queries_that_use_a_field_are_counted() {
    let mut server = TestServer::with_notes();
    for number in 0..100 {
        let path = format!("/document/v1/n/note/group/ann/{number}");
        let text = "a text that is compressed ".repeat(100);
        server.put(&path, &format!("{{\"title\":\"{text}\",\"stars\":3,\"tags\":[\"some\",\"more\"]}}"));
    }
    let fields = |server: &TestServer| server.get("/state/v1/fields").1;
    poll("it is sealed", || fields(&server)["bytes"].as_u64() > Some(0));
    let uses = |server: &TestServer, name: &str| {
        let fields = fields(server);
        let of_type = fields["types"][0]["fields"].as_array().cloned().unwrap_or_default();
        let field = of_type.into_iter().find(|field| field["field"] == name);
        let count = |kind: &str| field.as_ref().and_then(|field| field["uses"][kind].as_u64());
        ["matched", "ranked", "grouped", "sorted", "shown"].map(|kind| count(kind).unwrap_or(99))
    };
    for field in ["title", "stars", "tags"] {
        assert_eq!(uses(&server, field), [0; 5], "{field}");
    }
    for yql in [
        "select title from note where title contains 'text'",
        "select title from note where stars > 1 order by stars",
    ] {
        let (status, answer) = server.query(&[("yql", yql), ("streaming.groupname", "ann")]);
        assert_eq!((status, answer["root"]["fields"]["totalCount"].as_u64()), (200, Some(100)), "{answer}");
    }
    let counted = |server: &TestServer| {
        assert_eq!(uses(server, "title"), [1, 2, 0, 0, 2]);
        assert_eq!(uses(server, "stars"), [1, 0, 0, 1, 0]);
        assert_eq!(uses(server, "tags"), [0; 5]);
        // The test may run over midnight.
        assert!(matches!(fields(server)["days"].as_u64(), Some(1 | 2)), "{}", fields(server));
    };
    counted(&server);
    let sealed = fields(&server)["types"][0]["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|column| column["sealing_ms"].as_f64())
        .sum::<f64>();
    assert!(sealed > 0.0, "{}", fields(&server));
    let shown = server.millrace(&["fields"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("days counted: "), "{shown}");
    assert!(shown.contains("note.title: matched 1, ranked 2, shown 2; "), "{shown}");
    assert!(shown.contains("note.tags: not used; without it "), "{shown}");
    server.restart();
    counted(&server);
}

#[test]
fn a_server_that_is_alone_warns_of_replicas_that_it_does_not_make() {
    let server = TestServer::start();
    for (redundancy, warned) in [("<redundancy>2</redundancy>", true), ("<redundancy>1</redundancy>", false)]
    {
        let services = SERVICES.replace("<min-redundancy>1</min-redundancy>", redundancy);
        let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
        let log = answer["log"].to_string();
        assert!(
            status == 200 && log.contains("2 replicas of each document") == warned,
            "{redundancy}: {answer}"
        );
    }
}

#[test]
fn paths_of_the_state_may_end_in_a_slash() {
    let server = TestServer::with_notes();
    for path in [
        "/state/v1",
        "/state/v1/health",
        "/state/v1/config",
        "/state/v1/version",
        "/state/v1/metrics",
        "/state/v1/fields",
        "/metrics/v1",
        "/metrics/v1/values",
        "/metrics/v2",
        "/metrics/v2/values",
        "/prometheus/v1",
        "/prometheus/v1/values",
    ] {
        for base in [server.url(), server.config_url()] {
            let status = |path: String| {
                let request = OutgoingRequest::new(Method::GET, path);
                server.send(&base, HttpProtocol::Http1, request).status.as_u16()
            };
            assert_eq!([status(path.to_owned()), status(format!("{path}/"))], [200, 200], "{base}{path}");
        }
    }
    assert_eq!(server.get("/state/v1/nothing/").0, 404);
    for (path, expected) in [("/state/v1", "/state/v1/health"), ("/metrics/v2", "/metrics/v2/values")] {
        let resources = server.get(path).1["resources"].to_string();
        assert!(resources.contains(&format!("\"{expected}\"")), "{path}: {resources}");
    }
}
