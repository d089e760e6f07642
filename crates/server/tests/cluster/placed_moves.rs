//! Moves of copies of placed indexes: nodes are killed meanwhile, moves are stopped and go on, and one node
//! takes the place of another.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::Value;

use crate::indexes::feed;
use crate::nodes::{TestEtcd, node, until};
use crate::placed_indexes::{balanced_as, check, declare, succeeds, verified};
use crate::support::TestServer;

/// Names of the first nodes.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three nodes with some notes, and two indexes with one copy of each of eight slices.
fn three_nodes(etcd: &TestEtcd) -> Vec<TestServer> {
    let nodes: Vec<TestServer> = NAMES.iter().map(|name| node(etcd, name)).collect();
    declare(&nodes[0], 1, &["by-stars", "by-tag"]);
    feed(&nodes[1], 0..160);
    at_rest(&nodes[0], "fed");
    nodes
}

/// Waits until both indexes have their copies, one of each slice: those that were moved away go later.
#[track_caller]
fn at_rest(server: &TestServer, when: &str) {
    balanced_as(server, when, (8, 1));
    until(&format!("{when}: one copy of each slice"), &16, || places(server).len());
    succeeds(server, &["index", "wait", "--balanced", "--timeout", "120"]);
}

/// Index, slice and node of each copy.
fn places(server: &TestServer) -> BTreeSet<(String, usize, String)> {
    let of_index = |name: &str| {
        let index = server.config(Method::GET, &format!("/index/v1/notes/{name}")).1;
        let slices = index["placement"].as_array().cloned().unwrap_or_default();
        let copies = slices.into_iter().enumerate().flat_map(|(number, slice)| {
            let copies = slice["copies"].as_array().cloned().unwrap_or_default();
            copies.into_iter().map(move |copy| (number, copy["name"].as_str().unwrap_or_default().to_owned()))
        });
        copies.map(|(number, node)| (name.to_owned(), number, node)).collect::<Vec<_>>()
    };
    ["by-stars", "by-tag"].into_iter().flat_map(of_index).collect()
}

/// Moves of a rebalance that would begin now.
fn planned(server: &TestServer) -> u64 {
    let plan = server.config(Method::GET, "/index/v1/plan").1;
    plan["moves"].as_u64().unwrap_or_else(|| panic!("a plan: {plan}"))
}

/// Role of a node in a move.
#[derive(Clone, Copy)]
enum MovingNode {
    Source,
    Target,
    Leader,
}

/// Kills a node while copies move, starts it again, and checks that all copies are what they should be.
fn survives(killed: MovingNode) {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes = three_nodes(&etcd);
    // Copies move from one node to another one after the other, so that some are at each stage.
    succeeds(&nodes[0], &["index", "settings", "transfers-per-node=1"]);
    let source = places(&nodes[0]).into_iter().next().expect("there are copies").2;
    let target = NAMES.into_iter().find(|name| *name != source).expect("another node").to_owned();
    let moved = places(&nodes[0]).into_iter().filter(|(_, _, node)| *node == source);
    let moved: Vec<(String, usize, String)> = moved.take(3).collect();
    for (index, slice, _) in &moved {
        let slice = slice.to_string();
        succeeds(&nodes[0], &["index", "move", index, "--slice", &slice, "--from", &source, "--to", &target]);
    }
    let killed = match killed {
        MovingNode::Source => source,
        MovingNode::Target => target,
        MovingNode::Leader => {
            let cluster = succeeds(&nodes[0], &["--format", "json", "cluster", "show"]);
            let cluster: Value = serde_json::from_str(&cluster).expect("JSON");
            cluster["leader"].as_str().expect("a node leads").to_owned()
        }
    };
    let at = NAMES.into_iter().position(|name| name == killed).expect("one of the nodes");
    nodes[at].kill();
    let other = (at + 1) % NAMES.len();
    // Queries of the others go on, without the copies that are away.
    until("the others answer", &200, || {
        let yql = ("yql", "select * from note where stars = 7");
        nodes[other].query(&[yql, ("streaming.selection", "true"), ("timeout", "60s")]).0
    });
    nodes[at].start_again();
    feed(&nodes[other], 160..200);
    at_rest(&nodes[other], "it is back");
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "it is back");
    verified(&nodes[other], "by-stars");
    verified(&nodes[other], "by-tag");
    let repaired: f64 = nodes.iter().map(|node| node.metric("millrace_index_repaired_count")).sum();
    assert_eq!(repaired, 0.0, "no copy differed from the documents");
}

#[test]
fn copies_are_whole_when_the_source_of_moves_was_killed() {
    survives(MovingNode::Source);
}

#[test]
fn copies_are_whole_when_the_target_of_moves_was_killed() {
    survives(MovingNode::Target);
}

#[test]
fn copies_are_whole_when_the_leader_was_killed_while_they_moved() {
    survives(MovingNode::Leader);
}

#[test]
fn a_rebalance_that_was_stopped_goes_on_with_the_moves_that_are_left() {
    let Some(etcd) = TestEtcd::start() else { return };
    let nodes = three_nodes(&etcd);
    succeeds(&nodes[0], &["index", "settings", "transfers-per-node=1"]);
    // An operator brings the copies of one node to another, all but one: a node without any would get some
    // on its own.
    let of_a: Vec<_> = places(&nodes[0]).into_iter().filter(|(_, _, node)| node == "a").collect();
    for (index, slice, _) in of_a.iter().skip(1) {
        let slice = slice.to_string();
        succeeds(&nodes[1], &["index", "move", index, "--slice", &slice, "--from", "a", "--to", "b"]);
    }
    at_rest(&nodes[0], "moved");
    let (before, moves) = (places(&nodes[0]), planned(&nodes[2]));
    let left = before.iter().filter(|(_, _, node)| node == "a").count();
    assert!(moves > 0 && left == 1, "{moves}: {before:?}");

    succeeds(&nodes[1], &["index", "rebalance"]);
    let stopped = nodes[2].millrace(&["index", "stop"]);
    let stopped = String::from_utf8_lossy(&stopped.stderr).into_owned();
    at_rest(&nodes[0], "stopped");
    let (between, left) = (places(&nodes[0]), planned(&nodes[1]));
    let done = before.difference(&between).count() as u64;
    assert_eq!(done + left, moves, "what has moved stays: {stopped}");
    if left > 0 {
        succeeds(&nodes[2], &["index", "rebalance"]);
        at_rest(&nodes[0], "it went on");
    }
    let after = places(&nodes[0]);
    assert_eq!(before.difference(&after).count() as u64, moves, "each copy has moved once");
    assert_eq!((after.len(), planned(&nodes[0])), (before.len(), 0));
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "it went on");
    verified(&nodes[1], "by-stars");
}

#[test]
fn a_node_takes_the_place_of_one_that_retires() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes = three_nodes(&etcd);
    nodes.push(node(&etcd, "d"));
    succeeds(&nodes[1], &["node", "retire", "a"]);
    feed(&nodes[1], 160..200);
    until("d has the copies of a", &(true, true), || {
        at_rest(&nodes[3], "a retires");
        let names: BTreeSet<String> = places(&nodes[3]).into_iter().map(|(_, _, node)| node).collect();
        (names.contains("d"), !names.contains("a"))
    });
    // Sixteen copies on three nodes.
    let count = |name: &str| places(&nodes[1]).iter().filter(|(_, _, node)| node == name).count();
    assert!(
        ["b", "c", "d"].into_iter().all(|name| (3..=8).contains(&count(name))),
        "{:?}",
        places(&nodes[1])
    );
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "a has retired");
    verified(&nodes[3], "by-stars");
    verified(&nodes[1], "by-tag");
}
