//! A cluster of which one node runs version 0.1.0: all others speak protocol 1 with each other, until that
//! node is upgraded.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use hyper::Method;
use millrace_cluster::{ClusterState, PROTOCOL};
use millrace_coordination::{Coordination, EtcdCoordination, KeyOperation};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::clients::{create, two_nodes};
use crate::elastic_types::counted;
use crate::keys::token;
use crate::load::ClientLoad;
use crate::nodes::{TestEtcd, count, ideal_at, node, put, services, until, visited};
use crate::support::{MILLRACE, NOTE, TestServer};

/// Registration of a gateway of version 0.1.0, which names no protocol.
const FIRST_VERSION: &str = r#"{"address":"127.0.0.1:1","incarnation":5,"adopted":0,"stopping":false,"capacity":1.0,"group":[],"too_large":[],"roles":["gateway"],"url":"http://127.0.0.1:1","home":7,"generation":0}"#;

/// The keys of a cluster, as its nodes see them.
struct ClusterKeysOnEtcd {
    coordination: Box<dyn Coordination>,
    runtime: Runtime,
}

impl ClusterKeysOnEtcd {
    fn of(etcd: &TestEtcd) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let coordination = EtcdCoordination::new(&etcd.url, None).expect("an address");
        ClusterKeysOnEtcd { coordination: Box::new(coordination), runtime }
    }

    /// Writes a key; retries until etcd, which may be starting, has taken it.
    fn apply(&self, operation: &KeyOperation) {
        let applied = || self.runtime.block_on(self.coordination.apply(operation.clone())).is_ok();
        until("etcd answers", &true, applied);
    }

    /// Registers a gateway of version 0.1.0, which only waits.
    fn first_version_joins(&self) {
        self.apply(&KeyOperation::put("/millrace/v1/nodes/first", FIRST_VERSION));
    }

    fn first_version_leaves(&self) {
        self.apply(&KeyOperation::Delete("/millrace/v1/nodes/first".to_owned()));
    }

    fn published(&self) -> ClusterState {
        let state = self.runtime.block_on(self.coordination.get("/millrace/v1/state")).expect("etcd answers");
        ClusterState::from_json(&state.expect("a state is published").value).expect("it can be read")
    }

    /// Waits until the nodes act by the published state, which names the nodes in these states, and have the
    /// replicas that they should.
    fn settled(&self, nodes: &[&TestServer], states: &str, protocol: u16) {
        let expected = (states.to_owned(), protocol, vec![true; nodes.len()]);
        until("settled", &expected, || {
            let state = self.published();
            let states: Vec<String> =
                state.nodes().values().map(|node| format!("{:?}", node.state).to_lowercase()).collect();
            let version = Some(state.version().number());
            let settled = nodes.iter().map(|node| ideal_at(node) == version).collect();
            (states.join(" "), state.protocol(), settled)
        });
    }
}

const NUMBERS: &str = "select * from note where stars < 1000 limit 0 \
    | all(group(stars % 2) each(max(1) output(count(), sum(stars)) each(output(summary()))))";

/// Sums and best hits of the two groups of [`NUMBERS`]; the whole answer if some documents could not be read.
fn grouped(server: &TestServer) -> Value {
    let (status, answer) = server.query(&[
        ("yql", NUMBERS),
        ("streaming.selection", "true"),
        ("timeout", "60s"),
        ("ranking", "default"),
    ]);
    if status != 200 || answer["root"]["coverage"]["full"] != true {
        return answer;
    }
    let groups = answer.pointer("/root/children/0/children/0/children").and_then(Value::as_array).cloned();
    groups
        .unwrap_or_default()
        .iter()
        .map(|group| {
            let fields = &group["fields"];
            let hits = group.pointer("/children/0/children").and_then(Value::as_array).map_or(0, Vec::len);
            json!([fields["count()"], fields["sum(stars)"], hits])
        })
        .collect()
}

/// Asks every node about the notes 0 to `notes` of 20 groups, in every way that takes the nodes to each
/// other.
fn check(nodes: &[TestServer], notes: u32, when: &str) {
    let of = |odd: u32| (0..notes).filter(move |number| number % 2 == odd);
    let sums = json!([[of(0).count(), of(0).sum::<u32>(), 1], [of(1).count(), of(1).sum::<u32>(), 1]]);
    for (at, node) in nodes.iter().enumerate() {
        let when = format!("{when}, node {at}");
        until(&when, &Some(u64::from(notes)), || count(node));
        until(&when, &sums, || grouped(node));
        assert_eq!(visited(node).len(), notes as usize, "{when}");
        for number in 0..notes {
            let (status, answer) =
                node.get(&format!("/document/v1/notes/note/group/g{}/{number}", number % 20));
            assert_eq!((status, &answer["fields"]["stars"]), (200, &number.into()), "{when}: {answer}");
        }
        let best = [
            ("yql", "select * from note where title contains 'note' order by stars desc limit 3"),
            ("streaming.selection", "true"),
            ("timeout", "60s"),
        ];
        let (_, answer) = node.query(&best);
        let hits = answer["root"]["children"].as_array().cloned().unwrap_or_default();
        let stars: Vec<&Value> = hits.iter().map(|hit| &hit["fields"]["stars"]).collect();
        assert_eq!(stars, [notes - 1, notes - 2, notes - 3], "{when}: {answer}");
        let (_, answer) = node.get("/group/v1/?count=100");
        let groups = answer["groups"].as_array().map_or(0, Vec::len);
        assert_eq!(groups, 20, "{when}: {answer}");
    }
}

#[test]
fn a_cluster_with_an_older_node_serves_and_goes_on_when_that_is_upgraded() {
    let Some(etcd) = TestEtcd::start() else { return };
    let keys = ClusterKeysOnEtcd::of(&etcd);
    keys.first_version_joins();
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for node in &nodes {
        until("an empty cluster", &Some(0), || count(node));
    }
    for number in 0..60 {
        put(&nodes[number as usize % 3], number % 20, number);
    }
    check(&nodes, 60, "in protocol 1");
    until("all groups are not searched at Elasticsearch's interfaces", &(400, true), || {
        let (status, answer) = nodes[0].get("/elastic/note/_count");
        (status, answer.to_string().contains("search all groups at /search/"))
    });
    // Replicas move: to a node that comes, and again when one has gone, whose data is then of others.
    nodes.push(node(&etcd, "d"));
    keys.settled(&nodes.iter().collect::<Vec<_>>(), "up up up up", 1);
    nodes[1].kill();
    keys.settled(&[&nodes[0], &nodes[2], &nodes[3]], "up down up up", 1);
    for number in 60..80 {
        put(&nodes[3], number % 20, number);
    }
    nodes[1].start_again();
    keys.settled(&nodes.iter().collect::<Vec<_>>(), "up up up up", 1);
    check(&nodes, 80, "in protocol 1, after moves");

    // The older one is upgraded, while requests run at all nodes.
    let writing = (1..).zip(&nodes).map(|(at, node)| ClientLoad::writing(node, 1_000_000 * at));
    let mut loads: Vec<ClientLoad> = writing.collect();
    let yql = NUMBERS.replace(' ', "+").replace('%', "%25").replace('<', "%3C").replace('|', "%7C");
    let path = format!("/search/?yql={yql}&streaming.selection=true&timeout=60s");
    let sum = "/root/children/0/children/0/children/1/fields/sum(stars)";
    loads.extend(nodes.iter().map(|node| ClientLoad::asking(node, path.clone(), sum, json!(1600))));
    thread::sleep(Duration::from_millis(500));
    keys.first_version_leaves();
    keys.settled(&nodes.iter().collect::<Vec<_>>(), "up up up up", PROTOCOL);
    let before: Vec<usize> = loads.iter().map(ClientLoad::rounds).collect();
    until("all go on", &true, || loads.iter().zip(&before).all(|(load, before)| load.rounds() > *before + 1));
    let mut written = 0;
    for (at, load) in loads.into_iter().enumerate() {
        let (rounds, failed) = load.end();
        assert!(failed.is_empty(), "load {at}: {failed:#?}");
        assert!(rounds > 1, "load {at} hardly ran");
        written += if at < nodes.len() { rounds as u64 } else { 0 };
    }
    until("all are found", &Some(80 + written), || count(&nodes[0]));

    let path = "/document/v1/notes/note/docid?selection=note.stars+%3E=+1000&cluster=notes&timeout=120s";
    let (status, answer) = nodes[0].call(Method::DELETE, path, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(written)), "{answer}");
    check(&nodes, 80, "in the next protocol");
    for node in &nodes {
        until("all groups at Elasticsearch's interfaces", &Some(80), || counted(node));
    }
    nodes[2].kill();
    keys.settled(&[&nodes[0], &nodes[1], &nodes[3]], "up up down up", PROTOCOL);
    check(&nodes[..2], 80, "in the next protocol, after moves");
    // There is no way back, also in the next states.
    keys.first_version_joins();
    nodes[2].start_again();
    keys.settled(&nodes.iter().collect::<Vec<_>>(), "up up up up", PROTOCOL);
}

#[test]
fn a_key_that_an_older_node_cannot_read_is_refused() {
    let Some(etcd) = TestEtcd::start() else { return };
    let keys = ClusterKeysOnEtcd::of(&etcd);
    keys.first_version_joins();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("access.toml");
    let file = file.to_str().expect("a path of text");
    let operator = create(file, &["operator", "--read", "--write", "--deploy", "--admin"]);
    let nodes = two_nodes(&etcd, &[("MILLRACE_ACCESS_FILE", file)]);
    let made = |arguments: &[&str]| token(&nodes[0], operator, arguments);
    let plain = ["create", "ann", "--group", "g1", "--write", "--fed-bytes-max", "1000"];
    until("the node is in the cluster", &true, || made(&plain).is_ok());
    let limits = [["--group-documents-max", "10"], ["--group-bytes-max", "1000"]];
    for limit in &limits {
        let limited = [&["create", "bob", "--group", "g2", "--write"][..], limit].concat();
        let refused = made(&limited).expect_err("a node would not know its limit");
        assert!(refused.contains("upgrade all nodes"), "{refused}");
    }
    // Nodes learn of each other's versions by the state of the cluster of an application.
    let package = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(package.path().join("schemas")).expect("a directory");
    fs::write(package.path().join("services.xml"), services(2)).expect("it is written");
    fs::write(package.path().join("schemas/note.sd"), NOTE).expect("it is written");
    let deployed = Command::new(MILLRACE)
        .args(["deploy", "--config-url", &nodes[0].config_url()])
        .arg(package.path())
        .env("MILLRACE_TOKEN", operator.trim_start_matches("Bearer "))
        .output()
        .expect("the command runs");
    assert!(deployed.status.success(), "{deployed:?}");
    keys.first_version_leaves();
    for limit in &limits {
        let limited = [&["create", "bob", "--group", "g2", "--write"][..], limit].concat();
        until("all nodes know the limit", &true, || made(&limited).is_ok());
    }
}
