//! A group is deleted while a node is away: every node erases it by itself, that one when it is back.

use hyper::Method;
use serde_json::json;

use crate::nodes::{TestEtcd, count, node_with, put, services, until};
use crate::support::{NOTE, TestServer, files_have};

/// A word that is in no other document.
const WORD: &str = "zyxwvutsrqponm";

#[test]
fn every_node_erases_a_deleted_group_by_itself() {
    let Some(etcd) = TestEtcd::start() else { return };
    let within = [("MILLRACE_ERASE_WITHIN_S", "20")];
    let mut nodes: Vec<TestServer> =
        ["a", "b", "c"].iter().map(|name| node_with(&etcd, name, &within)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for number in 0..40 {
        put(&nodes[number as usize % 3], number % 20, number);
    }
    for number in 0..5 {
        let path = format!("/document/v1/notes/note/group/ann/{number}");
        let body = json!({ "fields": { "title": format!("{WORD} {number}") } }).to_string();
        until(&path, &200, || nodes[number % 3].call(Method::POST, &path, &body).0);
    }
    for node in &nodes {
        until("all are there", &Some(45), || count(node));
    }
    // A cluster does not count the files of a group.
    let shown = nodes[0].millrace(&["group", "show", "ann"]).stdout;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("documents   5") && !shown.contains("files"), "{shown}");
    let with_word = |nodes: &[TestServer]| -> Vec<usize> {
        (0..nodes.len()).filter(|at| files_have(&nodes[*at].data_dir(), WORD)).collect()
    };
    // A look can miss a file that takes the place of another.
    let mut before = Vec::new();
    until("two replicas", &true, || {
        before = with_word(&nodes);
        before.len() >= 2
    });

    let away = before[0];
    let asked = (away + 1) % 3;
    nodes[away].kill();
    let mut receipt = json!(null);
    until("deleted", &200, || {
        let (status, answer) = nodes[asked].call(Method::DELETE, "/group/v1/ann?timeout=20s", "");
        receipt = answer;
        status
    });
    assert_eq!(receipt["erased"], false, "{receipt}");
    assert!(receipt["erasure"]["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{receipt}");
    until("erased by the others", &vec![away], || with_word(&nodes));
    // The receipt is written when a node looks again.
    until("a receipt", &true, || {
        let (_, shown) = nodes[asked].get("/group/v1/ann?timeout=20s");
        let of_nodes = shown["erasure"]["nodes"].as_array().cloned().unwrap_or_default();
        of_nodes.iter().any(|node| node["erased"].is_u64())
    });

    nodes[away].start_again();
    until("erased by the one that was away", &Vec::new(), || with_word(&nodes));
    for node in &nodes {
        until("the others stay", &Some(40), || count(node));
    }
}
