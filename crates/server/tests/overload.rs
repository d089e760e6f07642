//! More requests than there is room for, and a stop while requests are in progress.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use support::TestServer;

/// A client, and a runtime for it on this thread.
fn client(url: &str) -> (tokio::runtime::Runtime, NodeClient) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    (runtime, NodeClient::new(url, HttpProtocol::Http1).expect("an address"))
}

#[test]
fn a_full_queue_answers_429_and_when_to_come_again() {
    let server =
        TestServer::start_with(&[("MILLRACE_THREADS", "1"), ("MILLRACE_QUEUE_MAX", "1")]).deploy_notes();
    for number in 0..200 {
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), "{\"title\":\"some words\"}");
    }
    let (refused, answered) = (AtomicU32::new(0), AtomicU32::new(0));
    let deadline = Instant::now() + Duration::from_secs(120);
    let url = server.url();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let (runtime, client) = client(&url);
                while Instant::now() < deadline
                    && (refused.load(Ordering::SeqCst) < 20 || answered.load(Ordering::SeqCst) < 20)
                {
                    let request = OutgoingRequest::new(Method::GET, "/search/")
                        .parameter("yql", "select * from note where title contains 'words'")
                        .parameter("streaming.groupname", "ann")
                        .parameter("timeout", "60s");
                    let answer = runtime.block_on(client.send(request)).expect("every request is answered");
                    match answer.status.as_u16() {
                        200 => answered.fetch_add(1, Ordering::SeqCst),
                        429 => {
                            assert!(answer.headers.contains_key("retry-after"));
                            assert!(answer.message().contains("try again"), "{}", answer.message());
                            refused.fetch_add(1, Ordering::SeqCst)
                        }
                        other => panic!("{other}: {}", answer.message()),
                    };
                }
            });
        }
    });
    assert!(refused.into_inner() >= 20 && answered.into_inner() >= 20);
    assert_eq!(server.get("/document/v1/n/note/group/ann/1").0, 200);
}

#[test]
fn a_request_in_progress_when_the_server_stops_is_answered() {
    // In this time the rest of the body has to come.
    let mut server = TestServer::start_with(&[("MILLRACE_DRAIN_S", "120")]).deploy_notes();
    let body = "{\"fields\":{\"stars\":7}}";
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let head = format!(
        "POST /document/v1/n/note/group/ann/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(&body.as_bytes()[..10]).expect("sent");
    // A connection whose request has not begun ends with the server.
    support::poll("the server has begun to read", || server.metric("millrace_bodies_bytes") > 0.0);
    server.ask_to_stop();
    support::poll("the port closes", || TcpStream::connect(("127.0.0.1", server.port())).is_err());
    stream.write_all(&body.as_bytes()[10..]).expect("the connection is still there");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.wait_for_end();
    server.start_again();
    assert_eq!(server.get("/document/v1/n/note/group/ann/1").1["fields"]["stars"], 7);
}

#[test]
fn writes_of_long_texts_wait_for_the_sealing_thread() {
    const TEXTS: u32 = 184;
    let server = TestServer::with_notes();
    let next = AtomicU32::new(0);
    let url = server.url();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (runtime, client) = client(&url);
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= TEXTS {
                        return;
                    }
                    // Different words: all of them are split and stored anew while the tail is sealed.
                    let words: Vec<String> = (0..100_000).map(|word| format!("w{number}x{word}")).collect();
                    let body = format!("{{\"fields\":{{\"title\":\"{}\"}}}}", words.join(" "));
                    let path = format!("/document/v1/n/note/group/ann/{number}");
                    let request = OutgoingRequest::new(Method::POST, &path).body("application/json", body);
                    let answer = runtime.block_on(client.send(request)).expect("every request is answered");
                    assert_eq!(answer.status.as_u16(), 200, "{number}: {}", answer.message());
                }
            });
        }
    });
    assert_eq!(server.get("/document/v1/n/note/group/ann/7").0, 200);
}
