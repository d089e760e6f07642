//! The process is killed at random instants during concurrent writes: acknowledged writes are there, and
//! nothing that was not sent.
//!
//! `MILLRACE_KILL_ROUNDS` sets the number of rounds.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use hyper::Method;
use millrace_client::{HttpProtocol, OutgoingRequest};

use crate::support::writers::{ExpectedDocument, TestWriters};
use crate::support::{self, TestServer};

/// Number of concurrent writers.
const WRITERS: usize = 8;

fn rounds() -> u64 {
    std::env::var("MILLRACE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn killed_under_load() {
    let mut server = TestServer::with_notes();
    let mut expected: BTreeMap<String, ExpectedDocument> = BTreeMap::new();
    let mut draw = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..rounds() {
        let writers = TestWriters::start(&server.url(), WRITERS, round);
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writers.wait_for_first();
        std::thread::sleep(Duration::from_millis((draw >> 33) % 600));
        server.kill();
        let acknowledged = writers.stop(&mut expected);
        server.start_again();
        assert!(acknowledged > 0, "round {round}: nothing was written");
        support::writers::check(&server, &mut expected, &format!("round {round}"));
    }
    server.terminate();
    let checked = server.millrace(&["doctor", server.data_dir().to_str().expect("a path of text")]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// A stream of operations is cut by a kill: all up to the last `through` is there.
#[test]
fn a_stream_killed_in_progress_keeps_what_was_acknowledged() {
    check_killed_streams(&mut TestServer::with_notes(), "");
}

/// A kill takes nothing that the system has, synced or not.
#[test]
fn a_stream_killed_before_its_sync_keeps_what_was_acknowledged() {
    let hour = [("MILLRACE_ASYNC_SYNC_MS", "3600000")];
    let mut server = TestServer::start_with(&hour).deploy_notes();
    check_killed_streams(&mut server, "?durability=async");
    // The answer says so, and the metrics.
    let put = "{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"stars\":1}}";
    for (durability, count) in [("async", 1), ("sync", 1)] {
        let request = OutgoingRequest::new(Method::POST, format!("/feed/v1?durability={durability}"))
            .body("application/jsonl", put);
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let said = format!("\"durability\":\"{durability}\"");
        assert!(text.lines().all(|line| line.contains(&said)) && text.lines().count() == 2, "{text}");
        let (_, metrics) = server.get("/metrics/v2/values");
        assert_eq!(metric(&metrics, "millrace.store.deferred_writes"), Some(count), "{metrics}");
    }
}

/// Number of a metric, wherever it is in the answer.
fn metric(found: &serde_json::Value, name: &str) -> Option<u64> {
    match found {
        serde_json::Value::Object(entries) => entries.iter().find_map(|(key, value)| match value.as_f64() {
            Some(number) if key.starts_with(name) => Some(number as u64),
            _ => metric(value, name),
        }),
        serde_json::Value::Array(entries) => entries.iter().find_map(|value| metric(value, name)),
        _ => None,
    }
}

fn check_killed_streams(server: &mut TestServer, parameters: &str) {
    for round in 0..rounds() {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        let head = format!(
            "POST /feed/v1{parameters} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        let answer = BufReader::new(stream.try_clone().expect("a second handle"));
        let writer = std::thread::spawn(move || {
            for first in (1..).step_by(100) {
                let put = |name: u64| {
                    format!("{{\"put\":\"id:n:note:g=r{round}:{name}\",\"fields\":{{\"stars\":{name}}}}}\n")
                };
                let text: String = (first..first + 100).map(put).collect();
                if stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).is_err() {
                    return;
                }
            }
        });
        let (sender, progress) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in answer.lines().map_while(Result::ok) {
                let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                if let Some(through) = line["through"].as_u64() {
                    sender.send(through).expect("the test waits");
                }
                assert!(line.get("status").is_none(), "{line}");
            }
        });
        let first = progress.recv_timeout(Duration::from_secs(60)).expect("the stream makes progress");
        std::thread::sleep(Duration::from_millis(50 + round * 61));
        server.kill();
        writer.join().expect("the writer ends");
        reader.join().expect("the reader ends");
        let through = progress.try_iter().last().unwrap_or(first);
        server.start_again();
        let path = format!("/document/v1/n/note/group/r{round}?wantedDocumentCount=1024&fieldSet=[id]");
        let (mut count, mut continuation) = (0, String::new());
        loop {
            let (status, page) = server.get(&format!("{path}{continuation}"));
            assert_eq!(status, 200, "{page}");
            count += page["documentCount"].as_u64().expect("a number");
            match page["continuation"].as_str() {
                Some(token) => continuation = format!("&continuation={token}"),
                None => break,
            }
        }
        assert!(count >= through, "round {round}: {through} were acknowledged, {count} are there");
        for name in [1, through / 2 + 1, through] {
            assert_eq!(server.get(&format!("/document/v1/n/note/group/r{round}/{name}")).0, 200, "{name}");
        }
    }
}

#[test]
fn stopped_under_load() {
    let mut server = TestServer::with_notes();
    let mut expected: BTreeMap<String, ExpectedDocument> = BTreeMap::new();
    for round in 0..2 {
        let writers = TestWriters::start(&server.url(), WRITERS, round);
        writers.wait_for_first();
        std::thread::sleep(Duration::from_millis(300));
        server.terminate();
        assert!(writers.stop(&mut expected) > 0);
        server.start_again();
        support::writers::check(&server, &mut expected, &format!("round {round}"));
    }
}
