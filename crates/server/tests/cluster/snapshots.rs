//! Snapshots of a cluster: one of the same name and time on every node; one group is restored by the newest
//! versions of all of them.

use std::process::Output;

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, count, node, put, services, until};
use crate::support::{NOTE, TestServer};

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_node_makes_a_snapshot_of_its_own() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for number in 0..60 {
        put(&nodes[number as usize % 3], number % 20, number);
    }
    for server in &nodes {
        until("all are there", &Some(60), || count(server));
    }
    let made = nodes[1].millrace(&["--format", "json", "snapshot", "create", "first"]);
    assert!(made.status.success(), "{}", text(&made));
    let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let of_nodes = made["nodes"].as_array().expect("a list");
    assert_eq!((of_nodes.len(), &made["complete"]), (3, &json!(true)), "{made}");
    assert!(of_nodes.iter().all(|node| node["time"] == made["time"]), "they have one time: {made}");
    for server in &nodes {
        assert!(server.data_dir().join("snapshots/first/snapshot.json").is_file());
        let shown = server.config(Method::GET, "/snapshot/v1/first").1;
        assert_eq!(
            (&shown["nodes"].as_array().map(Vec::len), &shown["missing"]),
            (&Some(3), &json!([])),
            "{shown}"
        );
        // Those of all replicas, about.
        assert!(shown["documents"].as_u64() > Some(60), "{shown}");
    }

    // Changed, removed and added since.
    let path = |number: u32| format!("/document/v1/notes/note/group/g7/{number}");
    let new = json!({ "fields": { "title": "after" } }).to_string();
    until("changed", &200, || nodes[0].call(Method::POST, &path(7), &new).0);
    until("removed", &200, || nodes[0].call(Method::DELETE, &path(27), "").0);
    until("added", &200, || nodes[0].call(Method::POST, &path(99), &new).0);
    let restored = nodes[2].millrace(&["snapshot", "restore", "first", "--group", "g7"]);
    assert!(text(&restored).contains("4 operations, 0 failed"), "{}", text(&restored));
    let title = |server: &TestServer, number: u32| server.get(&path(number)).1["fields"]["title"].clone();
    until("as before", &(json!("note 7 of g7"), json!("note 27 of g7"), 404), || {
        (title(&nodes[1], 7), title(&nodes[1], 27), nodes[1].get(&path(99)).0)
    });
    // The group is deleted: each node names its snapshot if that has something of it.
    until("deleted", &200, || nodes[0].call(Method::DELETE, "/group/v1/g7?timeout=20s", "").0);
    let (_, shown) = nodes[0].get("/group/v1/g7?timeout=20s");
    let holding = |node: &&Value| node["snapshots"] == json!(["first"]);
    let receipts = shown["erasure"]["nodes"].as_array().cloned().unwrap_or_default();
    assert_eq!(receipts.iter().filter(holding).count(), 2, "two replicas: {shown}");

    // One node is away: nothing is removed because of it.
    nodes[2].kill();
    until("noticed", &true, || {
        let listed = nodes[0].config(Method::GET, "/snapshot/v1/?timeout=3s").1;
        listed["snapshots"][0]["missing"] == json!(["c"])
    });
    let refused = nodes[0].millrace(&["snapshot", "restore", "first", "--group", "g7"]);
    assert!(!refused.status.success() && text(&refused).contains("missing=true"), "{}", text(&refused));
    until("restored by the others", &true, || {
        let missing = ["snapshot", "restore", "first", "--group", "g7", "--missing"];
        nodes[0].millrace(&missing).status.success()
    });
    until("it is back", &json!("note 7 of g7"), || title(&nodes[0], 7));
    let partly = nodes[0].millrace(&["snapshot", "create", "second", "--timeout", "20"]);
    assert!(!partly.status.success() && text(&partly).contains("node c: "), "{}", text(&partly));
    nodes[2].start_again();
    until("listed", &json!(["c"]), || {
        let shown = nodes[1].config(Method::GET, "/snapshot/v1/second").1;
        shown["missing"].clone()
    });
    // A node that has just come back is not asked yet.
    until("deleted everywhere", &true, || {
        nodes[1].millrace(&["snapshot", "delete", "first"]).status.success()
    });
    for server in &nodes {
        assert!(!server.data_dir().join("snapshots/first").exists());
    }
}
