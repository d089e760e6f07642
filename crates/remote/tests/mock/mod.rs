//! Server with the answers of a test: one request per connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;

/// A listener, until the process ends.
pub struct MockServer(String);

/// A received request.
pub struct MockRequest {
    #[allow(dead_code, reason = "each test looks at what it needs")]
    pub path: String,
    #[allow(dead_code, reason = "each test looks at what it needs")]
    pub authorization: Option<String>,
    body: Vec<u8>,
}

/// The answer to a request.
#[allow(dead_code, reason = "each test answers what it needs")]
pub enum MockReply {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// A stream of events: the messages of the channel, until its sender is dropped.
    Events(Receiver<String>),
    HangUp,
    Silence,
}

#[allow(dead_code, reason = "each test asks for what it needs")]
impl MockRequest {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

#[allow(dead_code, reason = "each test answers what it needs")]
impl MockReply {
    pub fn json(status: u16, body: Value) -> Self {
        Self::bytes(status, body.to_string().into_bytes())
    }

    pub fn bytes(status: u16, body: Vec<u8>) -> Self {
        let length = body.len().to_string();
        MockReply::Answer { status, headers: vec![("content-length", length)], body }
    }

    pub fn header(self, name: &'static str, value: &str) -> Self {
        let MockReply::Answer { status, mut headers, body } = self else { return self };
        headers.retain(|(known, _)| *known != name);
        headers.push((name, value.to_owned()));
        MockReply::Answer { status, headers, body }
    }

    pub fn hang_up() -> Self {
        MockReply::HangUp
    }

    pub fn silence() -> Self {
        MockReply::Silence
    }
}

impl MockServer {
    pub fn start(answer: impl Fn(&MockRequest) -> MockReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
        MockServer(format!("http://{address}"))
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&MockRequest) -> MockReply) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a request");
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().expect("a length"),
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    match answer(&MockRequest { path, authorization, body }) {
        MockReply::Answer { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
            headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
            // The client may have left.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(b"\r\n"));
            let _ = stream.write_all(&body);
        }
        MockReply::Events(events) => {
            let head = "HTTP/1.1 200 x\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            for event in events {
                if stream.write_all(event.as_bytes()).is_err() {
                    return;
                }
            }
        }
        MockReply::HangUp => {}
        // Longer than any test lasts.
        MockReply::Silence => std::thread::sleep(Duration::from_secs(3600)),
    }
}
