//! Elasticsearch's interfaces of a server: documents of a type, which are the same at all interfaces, and
//! streams of operations.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::{self, TestServer, free_port};

/// Titles that a query of a group finds.
fn titles(server: &TestServer, group: &str) -> Vec<String> {
    let (status, answer) = server
        .query(&[("yql", "select * from note where true order by stars"), ("streaming.groupname", group)]);
    assert_eq!(status, 200, "{answer}");
    let hits = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    hits.iter().map(|hit| hit["fields"]["title"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Ids of the hits that a search finds.
fn ids(answer: &Value) -> Vec<&str> {
    let hits = answer["hits"]["hits"].as_array().expect("hits");
    hits.iter().filter_map(|hit| hit["_id"].as_str()).collect()
}

#[test]
fn clients_learn_where_the_port_is() {
    let server = TestServer::start();
    let (_, answer) = server.get("/elastic/_nodes/http");
    assert_eq!(answer["nodes"]["millrace"]["http"], Value::Null, "there is no port of its own: {answer}");
    assert_eq!(answer["_nodes"], json!({ "total": 1, "successful": 1, "failed": 0 }));

    let port = free_port().to_string();
    for listen in ["127.0.0.1", "0.0.0.0"] {
        let server = TestServer::start_with(&[
            ("MILLRACE_ELASTIC_PORT", &port),
            ("MILLRACE_LISTEN", listen),
            ("MILLRACE_INSECURE", "true"),
        ]);
        let (_, answer) = server.get("/elastic/_nodes/http");
        let address = format!("127.0.0.1:{port}");
        assert_eq!(answer["nodes"]["millrace"]["http"]["publish_address"], json!(address), "{answer}");
    }
    let (status, health) = server.get("/elastic/_cluster/health?wait_for_status=green&wait_for_nodes=1");
    assert_eq!((status, &health["status"], &health["number_of_nodes"]), (200, &json!("green"), &json!(1)));
    let (status, health) = server.get("/elastic/_cluster/health?wait_for_nodes=ge(2)");
    assert_eq!((status, &health["timed_out"]), (408, &json!(true)), "{health}");
    assert_eq!(server.get("/elastic/_cluster/health?wait_for_nodes=many").0, 400);
    let (status, figures) = server.get("/elastic/_cluster/stats");
    assert_eq!((status, &figures["nodes"]["count"]["data"]), (200, &json!(1)), "{figures}");
}

#[test]
fn no_request_of_the_own_port_is_forwarded_by_a_node() {
    let port = free_port().to_string();
    let server = TestServer::start_with(&[("MILLRACE_ELASTIC_PORT", &port)]);
    let base = format!("http://127.0.0.1:{port}");
    let put = || {
        OutgoingRequest::new(Method::PUT, "/notes/_doc/1").body("application/json", r#"{"n":1}"#.to_owned())
    };
    for hop in ["owner 1", "share", "reader", "{}"] {
        let forged = put().header(HeaderName::from_static("millrace-hop"), hop);
        let answer = server.send(&base, HttpProtocol::Http1, forged);
        assert_eq!(answer.status, 403, "{hop}: {:?}", answer.json());
    }
    let answer = server.send(&base, HttpProtocol::Http1, put());
    assert_eq!(answer.status, 201, "{:?}", answer.json());
}

#[test]
fn media_types_that_are_not_json_are_refused() {
    let server = TestServer::start();
    let document = r#"{"n":1}"#;
    for (media_type, status) in [
        ("application/json", 201),
        ("application/vnd.elasticsearch+json; compatible-with=8", 200),
        ("application/vnd.elasticsearch+json; compatible-with=12", 400),
        ("text/plain", 406),
        ("application/x-www-form-urlencoded", 406),
        ("application/cbor", 406),
    ] {
        let request = OutgoingRequest::new(Method::PUT, "/elastic/a/_doc/1").body(media_type, document);
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        assert_eq!(answer.status.as_u16(), status, "{media_type}");
        let body = answer.json();
        match status {
            406 => assert!(body["error"].as_str().is_some_and(|error| error.contains(media_type)), "{body}"),
            400 => assert_eq!(body["error"]["type"], "media_type_header_exception"),
            _ => assert_eq!(body["_id"], "1"),
        }
    }
    let (status, _) = server.get("/elastic/a/_doc/1");
    assert_eq!(status, 200);
}

#[test]
fn answers_repeat_the_name_that_a_client_gave_its_request() {
    let server = TestServer::start();
    let name = HeaderName::from_static("x-opaque-id");
    for path in ["/elastic/", "/elastic/nothing/_search", "/elastic/_search?surprise=1"] {
        let request = OutgoingRequest::new(Method::GET, path).header(name.clone(), "task-7");
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        let repeated = answer.headers.get(&name).and_then(|value| value.to_str().ok());
        assert_eq!(repeated, Some("task-7"), "{path}: {}", answer.status);
    }
}

#[test]
fn documents_are_the_same_at_both_interfaces() {
    let server = TestServer::with_notes();
    let bulk = r#"{"index":{"_index":"note","_id":"1","routing":"ann"}}
{"title":"first words","stars":1,"tags":["a","b"]}
{"create":{"_index":"note","_id":"1","routing":"bob"}}
{"title":"others","stars":2}
{"index":{"_index":"note","_id":"2"}}
{"title":"nowhere"}
"#;
    let (status, answer) = server.call(Method::POST, "/elastic/_bulk", bulk);
    assert_eq!(status, 200, "{answer}");
    let of = |number: usize, action: &str| answer["items"][number][action]["status"].clone();
    assert_eq!((of(0, "index"), of(1, "create"), of(2, "index")), (json!(201), json!(201), json!(400)));

    // By YQL, by a get, and changed there.
    assert_eq!(titles(&server, "ann"), ["first words"]);
    assert_eq!(titles(&server, "bob"), ["others"]);
    let (_, found) = server.query(&[
        ("yql", "select * from note where title contains \"words\""),
        ("streaming.groupname", "ann"),
    ]);
    assert_eq!(found["root"]["fields"]["totalCount"], 1, "{found}");
    let (status, found) = server.get("/document/v1/note/note/group/ann/1");
    assert_eq!((status, &found["fields"]["tags"]), (200, &json!(["a", "b"])), "{found}");
    let before = server.get("/elastic/note/_doc/1?routing=ann").1;
    let update = r#"{"fields":{"title":{"assign":"second words"}}}"#;
    assert_eq!(server.call(Method::PUT, "/document/v1/note/note/group/ann/1", update).0, 200);
    let after = server.get("/elastic/note/_doc/1?routing=ann").1;
    assert_eq!(after["_source"], json!({ "title": "second words", "stars": 1, "tags": ["a", "b"] }));
    assert!(after["_seq_no"].as_i64() > before["_seq_no"].as_i64(), "{before} {after}");

    // The other way round, in another namespace.
    server.put("/document/v1/mail/note/group/ann/7", r#"{"title":"third","stars":3}"#);
    let (_, found) = server.get("/elastic/note/_search?routing=ann&sort=stars");
    assert_eq!(ids(&found), ["1", "id:mail:note:g=ann:7"], "{found}");
    let update = r#"{"doc":{"stars":9}}"#;
    let (status, answer) = server.call(Method::POST, "/elastic/note/_update/id:mail:note:g=ann:7", update);
    assert_eq!((status, &answer["result"]), (200, &json!("updated")), "{answer}");
    assert_eq!(titles(&server, "ann"), ["second words", "third"]);
    let (status, answer) = server.call(Method::DELETE, "/elastic/note/_doc/1?routing=ann", "");
    assert_eq!((status, &answer["result"]), (200, &json!("deleted")), "{answer}");
    assert_eq!(server.get("/document/v1/note/note/group/ann/1").0, 404);
    assert_eq!(titles(&server, "ann"), ["third"]);

    // A search of no group reads the documents of all.
    server.put("/document/v1/note/note/group/bob/3", r#"{"title":"fourth","stars":1}"#);
    server.put("/document/v1/note/note/docid/4", r#"{"title":"fifth","stars":5}"#);
    let (_, found) = server.get("/elastic/note/_search?sort=stars");
    assert_eq!(ids(&found), ["3", "1", "id:note:note::4", "id:mail:note:g=ann:7"], "{found}");
    assert_eq!(server.get("/elastic/note/_count").1["count"], 4);
    assert_eq!(server.get("/elastic/note/_count?routing=bob").1["count"], 2);
    let (_, page) = server.get("/elastic/note/_search?scroll=1m&size=2");
    let next = json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] }).to_string();
    let (_, rest) = server.call(Method::POST, "/elastic/_search/scroll", &next);
    let mut scrolled = [ids(&page), ids(&rest)].concat();
    scrolled.sort_unstable();
    assert_eq!(scrolled, ["1", "3", "id:mail:note:g=ann:7", "id:note:note::4"], "{page} {rest}");
}

/// A request whose body is sent piece by piece, while its answer is read.
struct PiecewiseRequest {
    sender: TcpStream,
    receiver: BufReader<TcpStream>,
}

impl PiecewiseRequest {
    fn open(server: &TestServer, path: &str) -> Self {
        let mut sender = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        sender.write_all(head.as_bytes()).expect("the head is sent");
        let receiver = BufReader::new(sender.try_clone().expect("a socket has two ends"));
        PiecewiseRequest { sender, receiver }
    }

    fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.sender.write_all(chunk.as_bytes()).expect("a piece of the body is sent");
    }

    fn end(&mut self) {
        self.sender.write_all(b"0\r\n\r\n").expect("the end is sent");
    }

    /// Statuses of the items of the next line of the answer; the status of its error, if it has one. `None`
    /// at the end.
    fn line(&mut self) -> Option<Vec<u64>> {
        loop {
            let mut line = String::new();
            let length = self.receiver.read_line(&mut line).expect("the answer comes");
            match line.trim() {
                _ if length == 0 => return None,
                "0" => return None,
                text if text.starts_with('{') => {
                    let line: Value = serde_json::from_str(text).expect("a line is JSON");
                    let status = |item: &Value| item.as_object()?.values().next()?["status"].as_u64();
                    return Some(match line["items"].as_array() {
                        Some(items) => items.iter().filter_map(status).collect(),
                        None => line["status"].as_u64().into_iter().collect(),
                    });
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_stream_is_written_and_answered_while_it_comes() {
    let server = TestServer::with_notes();
    let item = |number: usize| format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"n\":{number}}}\n");
    let count = |index: &str| server.get(&format!("/elastic/{index}/_count")).1["count"].clone();

    // One by one: the answer to each is there before the next is sent.
    let mut stream = PiecewiseRequest::open(&server, "/elastic/a/_bulk/stream");
    for number in 0..3 {
        stream.send(&item(number));
        assert_eq!(stream.line(), Some(vec![201]), "{number}");
        assert_eq!(count("a"), number + 1);
    }
    stream.send(item(3).trim_end());
    stream.end();
    assert_eq!((stream.line(), stream.line()), (Some(vec![201]), None), "the last line needs no newline");

    // In batches, by number and by time.
    let mut stream = PiecewiseRequest::open(&server, "/elastic/a/_bulk/stream?batch_size=2&pretty");
    stream.send(&[item(0), item(1), item(4)].concat());
    assert_eq!(stream.line(), Some(vec![200, 200]));
    stream.end();
    assert_eq!((stream.line(), stream.line()), (Some(vec![201]), None));
    let mut stream = PiecewiseRequest::open(&server, "/elastic/a/_bulk/stream?batch_interval=50ms");
    stream.send(&[item(0), item(5)].concat());
    assert_eq!(stream.line(), Some(vec![200, 201]), "the interval is over before the body");
    stream.end();
    assert_eq!(stream.line(), None);

    // Errors: of an item, of a line that is not an action, of a body that breaks off.
    let mut stream = PiecewiseRequest::open(&server, "/elastic/_bulk/stream");
    stream.send("{\"index\":{\"_index\":\"note\",\"routing\":\"ann\"}}\n{\"stars\":\"x\"}\n");
    assert_eq!(stream.line(), Some(vec![400]));
    stream.send("{\"delete\":{\"_index\":\"a\",\"_id\":\"0\"}}\nno action\n{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}\n");
    assert_eq!((stream.line(), stream.line(), stream.line()), (Some(vec![200]), Some(vec![400]), None));
    assert_eq!(count("a"), 5, "nothing is written after a line that is not an action");
    let (status, _) = server.call(Method::POST, "/elastic/_bulk/stream?batch_size=0", "{}");
    assert_eq!(status, 400);
}

#[test]
fn streams_have_places_and_little_room_while_they_are_idle() {
    // Half of it is for three streams of 3 MB each, of which a client gets two: it leaves a slot to others.
    let server = TestServer::start_with(&[
        ("MILLRACE_BODIES_BYTES_MAX", "18874368"),
        ("MILLRACE_REQUEST_BYTES_MAX", "1048576"),
    ]);
    let server = server.deploy_notes();
    const ITEM: &str = "{\"index\":{}}\n{\"n\":1}\n";
    let mut idle = [(); 2].map(|()| PiecewiseRequest::open(&server, "/elastic/a/_bulk/stream"));
    for stream in &mut idle {
        stream.send(ITEM);
        assert_eq!(stream.line(), Some(vec![201]));
    }
    // The answer to an item may come before its room is given back.
    let little = 2.0 * f64::from(256 << 10);
    support::poll("the streams have little room", || server.metric("millrace_bodies_bytes") == little);
    let (status, answer) = server.call(Method::POST, "/elastic/a/_bulk/stream", ITEM);
    assert_eq!(status, 429, "{answer}");
    let reason = answer["error"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("256 at a time") && reason.contains("9437184 bytes"), "{answer}");
    // Feeds have the same slots.
    let (status, answer) = server.call(Method::POST, "/feed/v1", "");
    assert_eq!(status, 429, "{answer}");
    let (status, answer) = server.call(Method::POST, "/elastic/a/_bulk", ITEM);
    assert_eq!((status, &answer["errors"]), (200, &json!(false)), "{answer}");
    drop(idle);
    support::poll("a slot becomes free", || {
        server.call(Method::POST, "/elastic/a/_bulk/stream", ITEM).0 == 200
    });
}
