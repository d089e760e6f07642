//! Three nodes of one cluster, as processes, with a real etcd: whatever node is asked, the answer is that of the cluster; nodes are killed,
//! and what was acknowledged stays. Passed over where there is no etcd.

mod support;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use support::{NOTE, SERVICES, Server};

/// An etcd of the test's own.
struct Etcd {
    process: Child,
    _directory: tempfile::TempDir,
    url: String,
}

impl Etcd {
    /// `None` where there is none on this machine.
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (client, peer) = (free_port(), free_port());
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let started = Command::new("etcd")
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .arg("--data-dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let url = client.replace("http://", "etcd://");
        match started {
            Ok(process) => Some(Etcd { process, _directory: directory, url }),
            Err(error) => {
                eprintln!("passed over: etcd cannot be started ({error}); install etcd-server");
                None
            }
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It has nothing that anybody needs.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

fn node(etcd: &Etcd, name: &str) -> Server {
    let peer_port = free_port().to_string();
    Server::start_with(&[
        ("MILLRACE_CLUSTER", &etcd.url),
        ("MILLRACE_NAME", name),
        ("MILLRACE_PEER_PORT", &peer_port),
    ])
}

/// Asks until the answer is the expected one; the cluster is about to agree on it.
#[track_caller]
fn until<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, mut ask: impl FnMut() -> T) {
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

/// How many documents a query over all groups finds; none where it fails.
fn count(server: &Server) -> Option<u64> {
    let yql = ("yql", "select * from note where true limit 0");
    let (status, answer) = server.query(&[yql, ("streaming.selection", "true"), ("timeout", "10s")]);
    let full = answer.pointer("/root/coverage/full") == Some(&Value::Bool(true));
    (status == 200 && full).then(|| answer["root"]["fields"]["totalCount"].as_u64()).flatten()
}

fn put(server: &Server, group: u32, number: u32) {
    let path = format!("/document/v1/notes/note/group/g{group}/{number}");
    let body = json!({ "fields": { "title": format!("note {number} of g{group}"), "stars": number } });
    let body = body.to_string();
    until(&path, &200, || server.call(Method::POST, &path, &body).0);
}

/// The ids that a visit over everything finds.
fn visited(server: &Server) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut continuation = None::<String>;
    loop {
        let next = continuation.map_or(String::new(), |token| format!("&continuation={token}"));
        let path = format!("/document/v1/?cluster=notes&wantedDocumentCount=50&timeout=30s{next}");
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

#[test]
fn nodes_answer_as_one_and_lose_nothing_when_they_are_killed() {
    let Some(etcd) = Etcd::start() else { return };
    let mut nodes: Vec<Server> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = SERVICES.replace("<min-redundancy>1<", "<min-redundancy>2<");
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for node in &nodes {
        until("an empty cluster", &Some(0), || count(node));
    }

    let mut written = 0;
    for (number, group) in (0..60).map(|number| (number, number % 20)) {
        put(&nodes[number as usize % 3], group, number);
        written += 1;
    }
    for node in &nodes {
        assert_eq!(count(node), Some(written));
        assert_eq!(visited(node).len() as u64, written);
        let (status, answer) = node.get(
            "/search/?yql=select+*+from+note+where+title+contains+%22note%22&streaming.groupname=g7&timeout=10s",
        );
        assert_eq!((status, answer["root"]["fields"]["totalCount"].as_u64()), (200, Some(3)), "{answer}");
        let (status, answer) = node.get("/document/v1/notes/note/group/g7/27");
        assert_eq!((status, answer["fields"]["stars"].as_u64()), (200, Some(27)), "{answer}");
    }
    let yql =
        "select * from note where true limit 0 | all(group(stars % 2) each(output(count(), sum(stars))))";
    let (_, answer) = nodes[1].query(&[("yql", yql), ("streaming.selection", "true"), ("timeout", "10s")]);
    let groups = answer.pointer("/root/children/0/children/0/children").cloned().unwrap_or_default();
    let sums: Vec<u64> = groups
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group["fields"]["sum(stars)"].as_u64())
        .collect();
    assert_eq!(sums, [870, 900], "{answer}");

    // One is killed; writes go on. What it had is made anew on the others: then another one may go.
    nodes[1].kill();
    for number in 60..80 {
        put(&nodes[0], number % 20, number);
        written += 1;
    }
    until("without b", &Some(written), || count(&nodes[2]));
    until("healed", &true, || is_ideal(&nodes[0], &nodes[2]));
    // It comes back, and has what was written meanwhile; so another one may go.
    nodes[1].start_again();
    until("b is back", &Some(written), || count(&nodes[1]));
    until("balanced", &true, || is_ideal(&nodes[0], &nodes[1]));
    nodes[2].kill();
    until("without c", &Some(written), || count(&nodes[0]));
    until("without c, asked of b", &Some(written), || count(&nodes[1]));

    nodes[2].start_again();
    for number in 80..90 {
        put(&nodes[0], number % 20, number);
        written += 1;
    }
    for node in &nodes {
        until("all are back", &Some(written), || count(node));
        assert_eq!(visited(node).len() as u64, written);
    }

    // A group goes as a whole, on all nodes.
    let path = "/document/v1/notes/note/group/g7?selection=true&cluster=notes&timeout=30s";
    let (status, answer) = nodes[2].call(Method::DELETE, path, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(5)), "{answer}");
    until("a group less", &Some(written - 5), || count(&nodes[0]));
}

#[test]
fn what_no_longer_belongs_is_removed_by_the_owners_on_all_replicas() {
    let Some(etcd) = Etcd::start() else { return };
    let mut nodes: Vec<Server> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = |selection: &str| {
        SERVICES
            .replace("<min-redundancy>1<", "<min-redundancy>2<")
            .replace("<documents>", "<documents garbage-collection='true' garbage-collection-interval='1'>")
            .replace("mode='streaming'/>", &format!("mode='streaming' selection='{selection}'/>"))
    };
    let deploy = |node: &Server, selection: &str| {
        node.deploy(&[("services.xml", &services(selection)), ("schemas/note.sd", NOTE)]).0
    };
    until("deployed", &200, || deploy(&nodes[0], "note.stars &gt;= 0"));
    for number in 0..60 {
        put(&nodes[number as usize % 3], number % 20, number);
    }
    until("all are there", &Some(60), || count(&nodes[1]));
    until("deployed again", &200, || deploy(&nodes[1], "note.stars &gt;= 25"));
    for node in &nodes {
        until("what does not belong has gone", &Some(35), || count(node));
    }
    // Each replica is asked: what one node has alone, when another is gone, is the same.
    for gone in 0..3 {
        nodes[gone].kill();
        let other = &nodes[(gone + 1) % 3];
        until("without one", &Some(35), || count(other));
        nodes[gone].start_again();
        until("back", &Some(35), || count(&nodes[gone]));
        until("ideal", &true, || is_ideal(&nodes[0], &nodes[1]) && is_ideal(&nodes[1], &nodes[2]));
    }
}

/// Whether two nodes act by one state, and have nothing left to do for the buckets that they own.
fn is_ideal(one: &Server, other: &Server) -> bool {
    let version = |server: &Server| {
        let (_, answer) = server.get("/state/v1/cluster");
        let ideal = &answer["ideal"];
        (ideal["distance"] == 0 && ideal["unknown"] == 0 && answer["confirmed"] == true)
            .then(|| answer["version"].as_u64())
            .flatten()
    };
    version(one).is_some_and(|own| own >= 3 && version(other) == Some(own))
}
