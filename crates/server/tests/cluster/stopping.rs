//! A node that is stopped leaves after its last request; the others do without a frozen one.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::load::ClientLoad;
use crate::nodes::{TestEtcd, are_ideal, count, node, put, services, until};
use crate::support::{NOTE, TestServer};

fn three(etcd: &TestEtcd) -> Vec<TestServer> {
    let nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for node in &nodes {
        until("an empty cluster", &Some(0), || count(node));
    }
    nodes
}

#[test]
fn no_request_fails_while_nodes_are_stopped_and_started_one_after_another() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes = three(&etcd);
    let mut written = 0;
    for at in 0..3 {
        let load: Vec<ClientLoad> = (0..6)
            .filter(|client| client % 3 != at)
            .map(|client| {
                ClientLoad::writing(&nodes[client % 3], 1_000_000 * (1 + 6 * at as u32 + client as u32))
            })
            .collect();
        thread::sleep(Duration::from_millis(500));
        nodes[at].terminate();
        thread::sleep(Duration::from_millis(500));
        nodes[at].start_again();
        until("it is back", &true, || are_ideal(&nodes));
        for load in load {
            let (documents, failed) = load.end();
            assert!(failed.is_empty(), "stopping {at}: {failed:#?}");
            written += documents;
        }
    }
    until("all are found", &Some(written as u64), || count(&nodes[0]));
}

/// Sends a signal to a node.
fn signal(server: &TestServer, name: &str) {
    let sent =
        Command::new("kill").args([name, &server.process_id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

#[test]
fn a_query_passes_over_a_node_that_is_frozen_within_its_time() {
    let Some(etcd) = TestEtcd::start() else { return };
    let nodes = three(&etcd);
    for number in 0..40 {
        put(&nodes[0], number % 20, number);
    }
    let yql = ("yql", "select * from note where true limit 0");
    let (status, answer) = loop {
        until("settled", &true, || are_ideal(&nodes));
        signal(&nodes[2], "-STOP");
        let frozen = Instant::now();
        let answered = nodes[0].query(&[yql, ("streaming.selection", "true"), ("timeout", "2s")]);
        // Where the machine was slow, the node may be out of service already.
        if frozen.elapsed() < Duration::from_secs(3) {
            break answered;
        }
        signal(&nodes[2], "-CONT");
    };
    assert_eq!(status, 200, "{answer}");
    // The frozen node owns some of the buckets, and no other node may say yet which nodes have them.
    assert_eq!(answer["root"]["coverage"]["full"], false, "{answer}");
    let found = answer["root"]["fields"]["totalCount"].as_u64().unwrap_or_default();
    assert!((1..40).contains(&found), "{answer}");
    // Another node has the documents that it owns, too.
    for group in 0..20 {
        let group = format!("g{group}");
        let of_group = [("streaming.groupname", &*group), ("timeout", "2s")];
        let (status, answer) = loop {
            let began = Instant::now();
            let answered = nodes[0].query(&[&[yql], &of_group[..]].concat());
            // A slow machine has no time for it.
            if answered.0 == 200 || began.elapsed() < Duration::from_secs(3) {
                break answered;
            }
        };
        assert_eq!((status, &answer["root"]["fields"]["totalCount"]), (200, &2.into()), "{group}: {answer}");
    }
    // Then it is taken out of service, and others have all of its documents.
    until("without the frozen one", &Some(40), || count(&nodes[0]));
    signal(&nodes[2], "-CONT");
    until("with it again", &Some(40), || count(&nodes[2]));
}
