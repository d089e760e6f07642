//! A node with damaged files takes part with what it can read, and has the rest filled from the other nodes.

use std::process::Command;

use hyper::Method;

use crate::nodes::{TestEtcd, are_ideal, count, node, put, services, until};
use crate::support::{MILLRACE, NOTE, TestServer};

/// Number of groups; enough for each node to have replicas of some.
const GROUPS: u32 = 20;

#[test]
fn replicas_that_cannot_be_read_are_filled_from_the_others() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for group in 0..GROUPS {
        put(&nodes[0], group, 1);
    }
    until("replicated", &true, || are_ideal(&nodes));
    // Its documents are in files from then on.
    let (status, answer) = nodes[0].config(Method::POST, "/snapshot/v1/?name=sealed");
    assert_eq!(status, 200, "{answer}");

    nodes[2].terminate();
    for entry in std::fs::read_dir(nodes[2].data_dir().join("segments")).expect("there are segments") {
        let path = entry.expect("it can be listed").path();
        let bytes = std::fs::read(&path).expect("a segment");
        // The snapshot has another name of the file.
        std::fs::remove_file(&path).expect("it can be removed");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("it can be cut");
    }
    let doctor = |node: &TestServer| {
        let doctor = Command::new(MILLRACE).arg("doctor").arg(node.data_dir()).output();
        doctor.expect("the binary runs").status.success()
    };
    assert!(!doctor(&nodes[2]));
    nodes[2].start_again();
    // Each node tells of the buckets that it owns alone.
    until("it has its replicas again", &true, || are_ideal(&nodes));
    for node in &nodes {
        until("all nodes have all", &Some(u64::from(GROUPS)), || count(node));
    }
    nodes[2].terminate();
    assert!(doctor(&nodes[2]), "the damaged files are gone");
}
