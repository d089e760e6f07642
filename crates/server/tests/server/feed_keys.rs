//! `/feed/v1` with `Idempotency-Key` and `dedupe=body`: a stream that is sent again, until it is answered, is
//! executed once.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use hyper::Method;
use hyper::header::{CONTENT_ENCODING, HeaderName};
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::Value;

use crate::support::{self, TestServer};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A stream that counts how often it is executed.
const COUNTING: &str =
    "{\"update\":\"id:n:note:g=a:1\",\"create\":true,\"fields\":{\"stars\":{\"increment\":1}}}\n";

fn feed(key: Option<&'static str>, body: impl Into<Vec<u8>>) -> OutgoingRequest {
    let request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", body.into());
    match key {
        Some(key) => request.header(KEY, key),
        None => request,
    }
}

fn deduped(body: impl Into<Vec<u8>>) -> OutgoingRequest {
    OutgoingRequest::new(Method::POST, "/feed/v1?dedupe=body").body("application/jsonl", body.into())
}

/// Sends a stream; shows the status, if its answer was kept, and its lines but those of progress.
fn sent(server: &TestServer, request: OutgoingRequest) -> String {
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    let replayed = answer.headers.get("idempotency-replayed").map_or("", |_| " replayed");
    let head = format!("{}{replayed}", answer.status.as_u16());
    if answer.status != 200 {
        return format!("{head} {}", answer.message());
    }
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let lines = text.lines().filter(|line| !line.contains("\"through\"")).map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        match line.get("complete") {
            Some(complete) => format!("complete={complete} ok={} unlisted={}", line["ok"], line["unlisted"]),
            None => format!("{}: {}", line["operation"], line["status"]),
        }
    });
    [head].into_iter().chain(lines).collect::<Vec<_>>().join("; ")
}

/// Number of times that the counting stream was executed.
fn count(server: &TestServer) -> u64 {
    let (_, answer) = server.get("/document/v1/n/note/group/a/1");
    answer["fields"]["stars"].as_u64().unwrap_or_default()
}

#[track_caller]
fn check(found: &str, expected: &str) {
    assert!(found.starts_with(expected), "{found} is not {expected}");
}

const NEW: &str = "200; complete=true ok=1 unlisted=0";
const REPLAYED: &str = "200 replayed; complete=true ok=1 unlisted=0";

#[test]
fn a_stream_with_a_key_is_executed_once_through_restarts() {
    let mut server = TestServer::with_notes();
    check(&sent(&server, feed(Some("a"), COUNTING)), NEW);
    check(&sent(&server, feed(Some("a"), COUNTING)), REPLAYED);
    check(&sent(&server, feed(Some("b"), COUNTING)), NEW);
    check(&sent(&server, feed(None, COUNTING)), NEW);
    check(&sent(&server, deduped(COUNTING)), NEW);
    check(&sent(&server, deduped(COUNTING)), REPLAYED);
    assert_eq!(count(&server), 4);
    server.kill_and_restart();
    for key in ["a", "b"] {
        check(&sent(&server, feed(Some(key), COUNTING)), REPLAYED);
    }
    check(&sent(&server, deduped(COUNTING)), REPLAYED);
    check(
        &sent(&server, feed(Some("a"), "")),
        "409 this Idempotency-Key was used for a stream with another body",
    );
    check(&sent(&server, feed(Some("a"), format!("{COUNTING}\n"))), "409");
    check(&sent(&server, feed(Some("c"), COUNTING)), NEW);
    check(&sent(&server, deduped(format!("{COUNTING}\n"))), NEW);
    server.restart();
    check(&sent(&server, feed(Some("a"), COUNTING)), REPLAYED);
    check(&sent(&server, feed(Some("c"), COUNTING)), REPLAYED);
    check(&sent(&server, deduped("")), "200; complete=true ok=0");
    check(&sent(&server, deduped("")), "200 replayed; complete=true ok=0");
    assert_eq!(count(&server), 6);
    let (_, metrics) = server.get("/metrics/v2/values");
    assert!(metrics.to_string().contains("millrace.feed.repeated"), "{metrics}");
}

#[test]
fn failures_are_repeated_and_streams_that_broke_off_are_not() {
    let server = TestServer::with_notes();
    let text = format!("{COUNTING}rubbish\n{{\"put\":\"id:n:note:g=a:2\",\"fields\":{{\"nosuch\":1}}}}\n");
    let answer = "; 2: 400; 3: 400; complete=true ok=1 unlisted=0";
    check(&sent(&server, feed(Some("a"), &*text)), &format!("200{answer}"));
    check(&sent(&server, feed(Some("a"), &*text)), &format!("200 replayed{answer}"));
    // Lines of many failures are not kept, but counted.
    let text = "rubbish\n".repeat(1000);
    let found = sent(&server, feed(Some("b"), &*text));
    assert!(found.ends_with("unlisted=0"), "{found}");
    let found = sent(&server, feed(Some("b"), &*text));
    let lines = found.matches(": 400").count();
    assert!((10..100).contains(&lines) && found.ends_with(&format!("unlisted={}", 1000 - lines)), "{found}");
    // A list that breaks off is executed again, with whatever body.
    let list = "[{\"put\":\"id:n:note:g=a:2\",\"fields\":{}}";
    check(&sent(&server, feed(Some("c"), list)), "200; complete=false ok=1");
    check(&sent(&server, feed(Some("c"), list)), "200; complete=false ok=1");
    check(&sent(&server, feed(Some("c"), format!("{list}]"))), NEW);
    check(&sent(&server, feed(Some("c"), format!("{list}]"))), REPLAYED);
    check(&sent(&server, feed(Some("c"), list)), "409");
    // The form of a body belongs to it.
    let packed = || feed(Some("c"), "[]").header(CONTENT_ENCODING, "gzip");
    check(&sent(&server, packed()), "409");
    check(&sent(&server, deduped("x").header(KEY, "a")), "400 header Idempotency-Key: dedupe=body");
    let request = OutgoingRequest::new(Method::POST, "/feed/v1?dedupe=id").body("application/jsonl", "");
    check(&sent(&server, request), "400 parameter 'dedupe'");
}

/// Begins a stream with a key, and sends one operation of it.
fn begun(server: &TestServer, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let head = format!(
        "POST /feed/v1 HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {key}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    stream.write_all(format!("{:x}\r\n{COUNTING}\r\n", COUNTING.len()).as_bytes()).expect("it is sent");
    stream
}

#[test]
fn a_key_is_refused_while_its_stream_is_in_progress() {
    let server = TestServer::with_notes();
    let mut stream = begun(&server, "a");
    support::poll("the stream begins", || count(&server) == 1);
    check(&sent(&server, feed(Some("a"), COUNTING)), "409 a stream with this Idempotency-Key");
    check(&sent(&server, feed(Some("b"), COUNTING)), NEW);
    // The connection breaks, and the stream is sent again.
    drop(stream);
    support::poll("the stream ends", || !sent(&server, feed(Some("a"), COUNTING)).starts_with("409"));
    check(&sent(&server, feed(Some("a"), COUNTING)), REPLAYED);
    assert_eq!(count(&server), 3);
    // It ends as it should, and the client leaves without its answer.
    stream = begun(&server, "c");
    support::poll("the stream begins", || count(&server) == 4);
    stream.write_all(b"0\r\n\r\n").expect("it is sent");
    support::poll("the stream ends", || !sent(&server, feed(Some("c"), COUNTING)).starts_with("409"));
    check(&sent(&server, feed(Some("c"), COUNTING)), REPLAYED);
    assert_eq!(count(&server), 4);
}

#[test]
fn keys_are_kept_for_their_time_and_up_to_their_number() {
    let mut server = TestServer::start_with(&[("MILLRACE_FEED_KEYS_MAX", "2")]).deploy_notes();
    check(&sent(&server, feed(Some("a"), COUNTING)), NEW);
    check(&sent(&server, feed(Some("b"), COUNTING)), NEW);
    check(&sent(&server, feed(Some("c"), COUNTING)), "429 no room for the request now");
    check(&sent(&server, deduped(COUNTING)), "429");
    check(&sent(&server, feed(Some("a"), COUNTING)), REPLAYED);
    check(&sent(&server, feed(None, COUNTING)), NEW);
    server.set_environment(&[("MILLRACE_FEED_KEYS_S", "1")]);
    server.restart();
    support::poll("the keys are forgotten", || sent(&server, feed(Some("c"), COUNTING)) == NEW);
    support::poll("the keys are forgotten", || sent(&server, feed(Some("a"), COUNTING)) == NEW);
}

/// The process is killed while a stream is sent again and again until it is answered.
#[test]
fn a_stream_that_is_sent_until_it_is_answered_is_there_once() {
    let mut server = TestServer::with_notes();
    for round in 0..6_u64 {
        let put = |number: usize| {
            format!("{{\"put\":\"id:n:note:g=r{round}:{number}\",\"fields\":{{\"stars\":{number}}}}}\n")
        };
        let text: String = (0..3000).map(put).collect();
        let key = ["k0", "k1", "k2", "k3", "k4", "k5"][round as usize];
        let port = server.port();
        let (body, name) = (text.clone(), key.to_owned());
        let sender = std::thread::spawn(move || {
            // The answer is not read.
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
            let head = format!(
                "POST /feed/v1 HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {name}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            if stream.write_all(head.as_bytes()).is_ok() && stream.write_all(body.as_bytes()).is_ok() {
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        std::thread::sleep(Duration::from_millis(20 + 60 * round));
        server.kill_and_restart();
        sender.join().expect("the sender ends");
        let first = sent(&server, feed(Some(key), &*text));
        assert!(first.ends_with("complete=true ok=3000 unlisted=0"), "{first}");
        check(&sent(&server, feed(Some(key), &*text)), "200 replayed; complete=true ok=3000");
        let (_, answer) = server.query(&[
            ("yql", "select * from note where true"),
            ("streaming.groupname", &format!("r{round}")),
            ("hits", "0"),
        ]);
        assert_eq!(answer["root"]["fields"]["totalCount"], 3000, "{answer}");
    }
}
