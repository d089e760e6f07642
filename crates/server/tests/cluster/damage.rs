//! A node with a damaged file gives its buckets up. If it stayed registered, it would own buckets that no
//! node serves.

use std::process::Command;

use hyper::Method;

use crate::nodes::{TestEtcd, count, ideal_at, is_ideal, node, put, services, until};
use crate::support::{MILLRACE, NOTE, TestServer};

/// Number of groups; enough for each node to have replicas of some.
const GROUPS: u32 = 20;

#[test]
fn a_node_that_cannot_read_its_replicas_leaves_them_to_the_others() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for group in 0..GROUPS {
        put(&nodes[0], group, 1);
    }
    until("replicated", &true, || {
        let at = ideal_at(&nodes[0]);
        at.is_some() && nodes[1..].iter().all(|node| ideal_at(node) == at)
    });
    // Its documents are in files from then on.
    let (status, answer) = nodes[0].config(Method::POST, "/snapshot/v1/?name=sealed");
    assert_eq!(status, 200, "{answer}");

    nodes[2].terminate();
    for entry in std::fs::read_dir(nodes[2].data_dir().join("segments")).expect("there are segments") {
        let path = entry.expect("it can be listed").path();
        let bytes = std::fs::read(&path).expect("a segment");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("it can be cut");
    }
    let settings = ["MILLRACE_CLUSTER", "MILLRACE_NAME", "MILLRACE_PEER_PORT"];
    let settings = settings.map(|name| (name, nodes[2].setting(name).to_owned()));
    let ended = Command::new(MILLRACE)
        .args(["serve", "--port", "0", "--config-port", "0", "--data-dir"])
        .arg(nodes[2].data_dir())
        .envs(settings)
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(70), "{said}");
    assert!(said.contains("gives its buckets up") && said.contains(".seg: damaged at byte"), "{said}");
    for node in &nodes[..2] {
        until("the others have all", &Some(u64::from(GROUPS)), || count(node));
    }

    // The cure of operations.md.
    std::fs::remove_dir_all(nodes[2].data_dir()).expect("it can be removed");
    nodes[2].start_again();
    until("it has its replicas again", &true, || is_ideal(&nodes[0], &nodes[2]));
    until("it has all", &Some(u64::from(GROUPS)), || count(&nodes[2]));
}
