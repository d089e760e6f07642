//! Requests that run while the cluster changes, none of which may fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use hyper::Method;
use millrace_client::{ClientAnswer, HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::TestServer;

/// Requests to a node, one after another, by a client that sends nothing twice.
pub struct ClientLoad {
    stop: Arc<AtomicBool>,
    /// Number of rounds until now.
    rounds: Arc<AtomicUsize>,
    thread: thread::JoinHandle<(usize, Vec<String>)>,
}

impl ClientLoad {
    /// Writes documents of its own from this number on, changes each twice, and reads it.
    pub fn writing(server: &TestServer, from: u32) -> Self {
        ClientLoad::repeat(server, move |client, round, failed| {
            let number = from + round;
            let path = format!("/document/v1/notes/note/group/g{}/{number}", number % 20);
            let put = json!({ "fields": { "stars": number } });
            let increment = json!({ "fields": { "stars": { "increment": 1 } } });
            let condition = format!("note.stars == {}", number + 1);
            let assign = json!({ "condition": condition, "fields": { "stars": { "assign": number + 2 } } });
            for (method, body) in [(Method::POST, put), (Method::PUT, increment), (Method::PUT, assign)] {
                let request = OutgoingRequest::new(method.clone(), &*path);
                let request = request.body("application/json", body.to_string());
                client.send(request, &format!("{method} {path}"), failed);
            }
            let answer = client.send(OutgoingRequest::new(Method::GET, &*path), &path, failed);
            let stars = answer.map(|answer| answer["fields"]["stars"].clone());
            if stars.as_ref().is_some_and(|stars| *stars != number + 2) {
                failed.push(format!("{path} has {stars:?} stars"));
            }
        })
    }

    /// Repeats a request, whose answer has this value at a pointer.
    pub fn asking(server: &TestServer, path: String, pointer: &'static str, expected: Value) -> Self {
        ClientLoad::repeat(server, move |client, _, failed| {
            let answer = client.send(OutgoingRequest::new(Method::GET, &*path), &path, failed);
            let found = answer.map(|answer| answer.pointer(pointer).cloned());
            if found.as_ref().is_some_and(|found| found.as_ref() != Some(&expected)) {
                failed.push(format!("{path}: {found:?} is not {expected}"));
            }
        })
    }

    fn repeat(
        server: &TestServer,
        round: impl Fn(&LoadClient, u32, &mut Vec<String>) + Send + 'static,
    ) -> Self {
        let (stop, total) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (url, stopped, counter) = (server.url(), Arc::clone(&stop), Arc::clone(&total));
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let client = NodeClient::new(&url, HttpProtocol::Http2).expect("an address");
            let client = LoadClient { runtime: runtime.expect("a runtime"), client };
            let mut failed = Vec::new();
            let mut rounds = 0;
            while !stopped.load(Ordering::SeqCst) {
                round(&client, rounds, &mut failed);
                rounds += 1;
                counter.fetch_add(1, Ordering::SeqCst);
            }
            (rounds as usize, failed)
        });
        ClientLoad { stop, rounds: total, thread }
    }

    /// Number of rounds until now.
    pub fn rounds(&self) -> usize {
        self.rounds.load(Ordering::SeqCst)
    }

    /// Stops it. Returns the number of rounds, each of one document or question, and the failures.
    pub fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it does not panic")
    }
}

struct LoadClient {
    runtime: Runtime,
    client: NodeClient,
}

impl LoadClient {
    /// Sends a request; notes if it fails.
    fn send(&self, request: OutgoingRequest, what: &str, failed: &mut Vec<String>) -> Option<Value> {
        match self.runtime.block_on(self.client.send(request)) {
            Ok(answer) if answer.status == 200 => Some(ClientAnswer::json(&answer)),
            Ok(answer) => {
                failed.push(format!("{what}: {} {}", answer.status, answer.message()));
                None
            }
            Err(error) => {
                failed.push(format!("{what}: {error}"));
                None
            }
        }
    }
}
