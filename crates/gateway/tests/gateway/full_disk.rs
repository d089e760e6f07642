//! A disk that is full while an index is made, built and fed: documents are served, the state of the index
//! says what is wrong, and all goes on by itself once there is room.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_env::{DiskFault, FaultyDisk, RealDisk};
use millrace_gateway::{NodeServer, Settings};
use millrace_node::Node;
use millrace_schema::Application;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::applications::{self, SERVICES};

const INDEX: &str =
    "<index-service><index name='by-title' document='note'><key field='title'/></index></index-service>
  </content>";

const NOTE: &str =
    "schema note { document note { field title type string { indexing: summary | attribute } } }";

/// Time after which a test fails if something does not happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Free bytes in which the manifest of an index fits, and its documents do not.
const LITTLE: u64 = 4096;

/// A server in this process, whose segments and indexes are on a disk with faults.
struct FaultyServer {
    disk: FaultyDisk,
    runtime: Runtime,
    node: Arc<Node>,
    url: String,
    config_url: String,
    _directory: tempfile::TempDir,
}

fn application(services: &str) -> Application {
    applications::application(NOTE, &[("services.xml", services)])
}

impl FaultyServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let disk = FaultyDisk::new(Arc::new(RealDisk));
        let runtime = millrace_gateway::runtime(1, "serve").expect("threads");
        let mut settings = Settings::new(directory.path().to_owned());
        (settings.port, settings.config_port) = (0, 0);
        // Writes are taken as long as their log has room.
        settings.node.disk_reserve = 0;
        settings.node.disk = Arc::new(disk.clone());
        let node = Node::open(settings.node.clone()).expect("it opens");
        node.deploy(application(SERVICES)).expect("it is deployed");
        let (data, config) = runtime.block_on(async {
            let server = NodeServer::bind(Arc::clone(&node), settings).await.expect("ports are free");
            let addresses = server.addresses().expect("they are bound");
            tokio::spawn(server.run(std::future::pending()));
            addresses
        });
        let [url, config_url] = [data, config].map(|address| format!("http://{address}"));
        FaultyServer { disk, runtime, node, url, config_url, _directory: directory }
    }

    fn send(&self, url: &str, request: OutgoingRequest) -> (u16, Value) {
        let client = NodeClient::new(url, HttpProtocol::Http1).expect("an address");
        let answer = self.runtime.block_on(client.send(request.timeout(PATIENCE))).expect("an answer");
        (answer.status.as_u16(), answer.json())
    }

    fn put(&self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let path = format!("/document/v1/notes/note/group/ann/{number}");
            let body = json!({ "fields": { "title": format!("title {number} {}", "x".repeat(100)) } });
            let request = OutgoingRequest::new(Method::POST, path).body("application/json", body.to_string());
            let (status, answer) = self.send(&self.url, request);
            assert_eq!(status, 200, "{answer}");
        }
    }

    fn remove(&self, number: usize) {
        let path = format!("/document/v1/notes/note/group/ann/{number}");
        let (status, answer) = self.send(&self.url, OutgoingRequest::new(Method::DELETE, path));
        assert_eq!(status, 200, "{answer}");
    }

    /// Status and answer of the index.
    fn shown(&self) -> Value {
        let request = OutgoingRequest::new(Method::GET, "/index/v1/notes/by-title");
        let (status, shown) = self.send(&self.config_url, request);
        assert_eq!(status, 200, "{shown}");
        shown
    }

    /// Waits until the index has failed for a reason with this text, while the disk has this much room.
    fn fails_within(&self, remaining: u64, reason: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.disk.inject(DiskFault::Full { remaining });
            let shown = self.shown();
            let is_it = shown["reason"].as_str().is_some_and(|found| found.contains(reason));
            if is_it {
                assert_eq!(shown["state"], "failed", "{shown}");
                return;
            }
            assert!(Instant::now() < deadline, "{reason}: {shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn an_index_goes_on_by_itself_once_the_disk_has_room() {
    let server = FaultyServer::start();
    server.put(0..200);
    server.disk.inject(DiskFault::Full { remaining: 0 });
    let services = SERVICES.replace("</content>", INDEX);
    server.node.deploy(application(&services)).expect("the application is active all the same");
    server.fails_within(0, "the disk is full");
    server.put(200..210);
    let (status, answer) = server
        .send(&server.config_url, OutgoingRequest::new(Method::POST, "/index/v1/notes/by-title/verify"));
    assert_eq!(status, 503, "{answer}");

    // It is made and built, and cannot be written.
    server.fails_within(LITTLE, "are to be written; make room");
    server.put(210..220);
    server.remove(3);
    server.fails_within(LITTLE, "are to be written; make room");

    server.disk.heal();
    let deadline = Instant::now() + PATIENCE;
    let ready = loop {
        let shown = server.shown();
        if shown["state"] == "ready" {
            break shown;
        }
        assert!(Instant::now() < deadline, "{shown}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ready["reason"].is_null() && ready["runs"].as_u64() > Some(0), "{ready}");
    let request = OutgoingRequest::new(Method::POST, "/index/v1/notes/by-title/verify");
    let (status, found) = server.send(&server.config_url, request);
    assert_eq!(
        (status, &found["differences"], &found["documents"]),
        (200, &json!(0), &json!(219)),
        "{found}"
    );
    server.node.close();
}
