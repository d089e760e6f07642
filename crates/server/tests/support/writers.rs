//! Clients that write as fast as they can, and remember the acknowledged writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::Value;

use super::{TestServer, poll};

/// Number of documents of each writer.
const DOCUMENTS: u64 = 20;

/// Content of a document; `None`: it is removed.
type State = Option<i64>;

/// Permitted states of a document.
#[derive(Debug, Default, Clone)]
pub struct ExpectedDocument {
    /// State that was acknowledged last.
    sure: State,
    /// States sent after that and not answered: each may have been applied or not.
    perhaps: Vec<State>,
}

/// Running writers.
pub struct TestWriters {
    stop: Arc<AtomicBool>,
    /// Number of acknowledged writes.
    acknowledged: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<(String, State, bool)>>>,
}

impl TestWriters {
    /// Starts `count` writers, each with documents of its own; rounds differ in their writes.
    pub fn start(url: &str, count: usize, round: u64) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..count).map(|writer| {
            let (url, stop, acknowledged) = (url.to_owned(), Arc::clone(&stop), Arc::clone(&acknowledged));
            std::thread::spawn(move || write(&url, writer, round, &stop, &acknowledged))
        });
        TestWriters { threads: threads.collect(), stop, acknowledged }
    }

    /// Waits until a write is acknowledged.
    pub fn wait_for_first(&self) {
        poll("a write is acknowledged", || self.acknowledged.load(Ordering::SeqCst) > 0);
    }

    /// Stops them, and adds their knowledge; returns the number of acknowledged writes.
    pub fn stop(self, expected: &mut BTreeMap<String, ExpectedDocument>) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        let mut acknowledged = 0;
        for thread in self.threads {
            for (path, state, sure) in thread.join().expect("a writer ends") {
                let of = expected.entry(path).or_default();
                if sure {
                    acknowledged += 1;
                    *of = ExpectedDocument { sure: state, perhaps: Vec::new() };
                } else {
                    of.perhaps.push(state);
                }
            }
        }
        acknowledged
    }
}

/// Writes until stopped or refused; returns the writes in order, each with true if it was acknowledged.
fn write(
    url: &str,
    writer: usize,
    round: u64,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> Vec<(String, State, bool)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = NodeClient::new(url, HttpProtocol::Http1).expect("an address");
    let mut sent = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let path = format!("/document/v1/n/note/group/w{writer}/{}", number % DOCUMENTS);
        let value = (round * 1_000_000 + number) as i64;
        // Large ones now and then, so that the tail fills up and is sealed.
        let title = "word ".repeat(if number % 5 == 0 { 8000 } else { 3 });
        let (state, request) = match number % 7 {
            6 => (None, OutgoingRequest::new(Method::DELETE, &path)),
            3 => {
                let body = format!("{{\"create\":true,\"fields\":{{\"stars\":{{\"assign\":{value}}}}}}}");
                (Some(value), OutgoingRequest::new(Method::PUT, &path).body("application/json", body))
            }
            _ => {
                let body = format!("{{\"fields\":{{\"stars\":{value},\"title\":\"{title}\"}}}}");
                (Some(value), OutgoingRequest::new(Method::POST, &path).body("application/json", body))
            }
        };
        let answer = runtime.block_on(client.send(request.timeout(Duration::from_secs(120))));
        let acknowledged = match &answer {
            Ok(answer) if answer.status == 200 => true,
            // It was refused, and changed nothing.
            Ok(answer) if answer.status == 429 || answer.status == 503 || answer.status == 507 => continue,
            Ok(answer) => panic!("{path}: {} {}", answer.status, answer.message()),
            Err(_) => false,
        };
        sent.push((path, state, acknowledged));
        if !acknowledged {
            break;
        }
        count.fetch_add(1, Ordering::SeqCst);
    }
    sent
}

/// Compares the server's documents with the permitted states; the states found are certain from then on.
pub fn check(server: &TestServer, expected: &mut BTreeMap<String, ExpectedDocument>, when: &str) {
    for (path, of) in expected.iter_mut() {
        let (status, answer) = server.get(path);
        let found = match status {
            200 => Some(answer["fields"]["stars"].as_i64().expect("every note of the writers has stars")),
            404 => None,
            _ => panic!("{when}: {path}: {status} {answer}"),
        };
        assert!(
            found == of.sure || of.perhaps.contains(&found),
            "{when}: {path} is {found:?}, expected {of:?}"
        );
        *of = ExpectedDocument { sure: found, perhaps: Vec::new() };
    }
    // A query sees the same documents as single reads.
    let alive = expected.values().filter(|of| of.sure.is_some()).count() as u64;
    let yql = [("yql", "select * from note where true"), ("hits", "0"), ("streaming.selection", "true")];
    let (_, answer) = server.query(&yql);
    assert_eq!(
        answer.pointer("/root/fields/totalCount").and_then(Value::as_u64),
        Some(alive),
        "{when}: {answer}"
    );
}
