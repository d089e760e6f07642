//! Nodes of one cluster, as processes, with a real etcd.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{SERVICES, TestServer, free_port};

/// The test's own etcd.
pub struct TestEtcd {
    process: Child,
    _directory: tempfile::TempDir,
    /// Address in the nodes' settings.
    pub url: String,
}

impl TestEtcd {
    /// Starts one; `None` if etcd is not installed.
    pub fn start() -> Option<Self> {
        TestEtcd::start_with("http", &[])
    }

    /// Starts one whose clients use this scheme.
    pub fn start_with(scheme: &str, arguments: &[&str]) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (port, peer) = (free_port(), free_port());
        let (client, peer) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let started = Command::new("etcd")
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(arguments)
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .arg("--data-dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let url = client.replace("http", "etcd");
        match started {
            Ok(process) => {
                let etcd = TestEtcd { process, _directory: directory, url };
                // A node does not wait for it for ever.
                until("etcd listens", &true, || TcpStream::connect(("127.0.0.1", port)).is_ok());
                Some(etcd)
            }
            Err(error) => {
                eprintln!("passed over: etcd cannot be started ({error}); install etcd-server");
                None
            }
        }
    }
}

impl Drop for TestEtcd {
    fn drop(&mut self) {
        // Its data is not needed any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a node of the cluster of this etcd.
pub fn node(etcd: &TestEtcd, name: &str) -> TestServer {
    node_with(etcd, name, &[])
}

/// Starts a node with more settings.
pub fn node_with(etcd: &TestEtcd, name: &str, more: &[(&str, &str)]) -> TestServer {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path().join("data");
    node_in(etcd, name, directory, data_dir, more)
}

/// Starts a node over a data directory, which is in `directory`.
pub fn node_in(
    etcd: &TestEtcd,
    name: &str,
    directory: tempfile::TempDir,
    data_dir: PathBuf,
    more: &[(&str, &str)],
) -> TestServer {
    let peer_port = free_port().to_string();
    let own = [("MILLRACE_CLUSTER", &*etcd.url), ("MILLRACE_NAME", name), ("MILLRACE_PEER_PORT", &peer_port)];
    TestServer::start_in(directory, data_dir, &[&own, more].concat())
}

/// Content of services.xml of the test application, with this redundancy.
pub fn services(redundancy: u32) -> String {
    SERVICES.replace("<min-redundancy>1<", &format!("<min-redundancy>{redundancy}<"))
}

/// Repeats a question until the answer is the expected one; the cluster is about to agree on it.
#[track_caller]
pub fn until<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, mut ask: impl FnMut() -> T) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let found = ask();
        if found == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {found:?} is not {expected:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Number of documents that a query over all groups finds; `None` if it fails.
pub fn count(server: &TestServer) -> Option<u64> {
    let yql = ("yql", "select * from note where true limit 0");
    let (status, answer) = server.query(&[yql, ("streaming.selection", "true"), ("timeout", "60s")]);
    let full = answer.pointer("/root/coverage/full") == Some(&Value::Bool(true));
    (status == 200 && full).then(|| answer["root"]["fields"]["totalCount"].as_u64()).flatten()
}

/// Puts a note; retries until it is acknowledged.
pub fn put(server: &TestServer, group: u32, number: u32) {
    let path = format!("/document/v1/notes/note/group/g{group}/{number}");
    let body = json!({ "fields": { "title": format!("note {number} of g{group}"), "stars": number } });
    let body = body.to_string();
    until(&path, &200, || server.call(Method::POST, &path, &body).0);
}

/// Ids that a visit over everything finds.
pub fn visited(server: &TestServer) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut continuation = None::<String>;
    loop {
        let next = continuation.map_or(String::new(), |token| format!("&continuation={token}"));
        let path = format!("/document/v1/?cluster=notes&wantedDocumentCount=50&timeout=120s{next}");
        let (status, answer) = server.get(&path);
        assert_eq!(status, 200, "{answer}");
        let documents = answer["documents"].as_array().cloned().unwrap_or_default();
        for document in documents {
            let id = document["id"].as_str().unwrap_or_default().to_owned();
            assert!(found.insert(id.clone()), "{id} comes once");
        }
        continuation = answer["continuation"].as_str().map(str::to_owned);
        if continuation.is_none() {
            return found;
        }
    }
}

/// True if these nodes act by one state, and have nothing left to do for the buckets that they own. Others
/// may have, of which these have replicas: to be sure of a node's data, name all that run.
pub fn are_ideal<'a>(nodes: impl IntoIterator<Item = &'a TestServer>) -> bool {
    let versions: Vec<Option<u64>> = nodes.into_iter().map(ideal_at).collect();
    versions[0].is_some() && versions.iter().all(|version| *version == versions[0])
}

/// Version of the cluster state by which a node has nothing left to do for the buckets that it owns; `None`
/// while it has.
pub fn ideal_at(server: &TestServer) -> Option<u64> {
    let (_, answer) = server.get("/state/v1/cluster");
    let ideal = &answer["ideal"];
    let settled = ideal["distance"] == 0 && ideal["unknown"] == 0 && answer["confirmed"] == true;
    settled.then(|| answer["version"].as_u64()).flatten()
}
