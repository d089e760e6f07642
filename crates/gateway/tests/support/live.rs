//! Streams whose bodies are sent, and whose answers are read, part by part.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::TestNodes;

/// A stream of operations to a node.
pub struct LiveStream {
    stream: TcpStream,
    answer: BufReader<TcpStream>,
}

impl LiveStream {
    /// Begins a stream with an `Idempotency-Key`.
    pub fn begin(nodes: &TestNodes, node: usize, parameters: &str, key: &str) -> Self {
        let mut stream = TcpStream::connect(&nodes.world.addresses.lock()[node]).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let head = format!(
            "POST /feed/v1?{parameters} HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {key}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        let answer = BufReader::new(stream.try_clone().expect("a second handle"));
        LiveStream { stream, answer }
    }

    /// Sends a part of the body.
    pub fn send(&mut self, text: &str) {
        self.stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).expect("it is sent");
    }

    /// Ends the body, which may not be taken any more.
    pub fn end(&mut self) {
        let _ = self.stream.write_all(b"0\r\n\r\n");
    }

    /// Reads lines up to one with `part`; `None` if the answer ends before.
    pub fn read_until(&mut self, part: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            self.answer.read_line(&mut line).expect("the server answers");
            // The last chunk.
            if line.is_empty() || line == "0\r\n" {
                return None;
            }
            if line.contains(part) {
                return Some(line);
            }
        }
    }
}
