//! Snapshots of a cluster: one of the same name and time on every node; one group is restored by the newest
//! versions of all of them.

use std::process::Output;
use std::thread;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, count, node, node_in, node_with, put, services, until};
use crate::support::{NOTE, TestServer, time_passed};

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
    let holding = |node: &&Value| node["snapshots"] == json!(["first"]);
    until("two replicas", &2, || {
        let (_, shown) = nodes[0].get("/group/v1/g7?timeout=20s");
        let receipts = shown["erasure"]["nodes"].as_array().cloned().unwrap_or_default();
        receipts.iter().filter(holding).count()
    });

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

/// Each document is on one node. After the snapshot a node joins, and another gives all of its documents
/// away: what they have of a time, they have together.
#[test]
fn a_time_is_restored_from_all_nodes_though_buckets_moved() {
    let Some(etcd) = TestEtcd::start() else { return };
    let keeping = [("MILLRACE_KEEP_LOGS_S", "3600")];
    let mut nodes: Vec<TestServer> =
        ["a", "b", "c"].iter().map(|name| node_with(&etcd, name, &keeping)).collect();
    let services = services(1);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for number in 0..60 {
        put(&nodes[0], number % 20, number);
    }
    until("placed", &true, || are_ideal(&nodes));
    let made = nodes[0].millrace(&["snapshot", "create", "first"]);
    assert!(made.status.success(), "{}", text(&made));
    let path = |number: u32| format!("/document/v1/notes/note/group/g{}/{number}", number % 20);
    let write = |server: &TestServer, number: u32, title: &str| {
        let body = json!({ "fields": { "title": title } }).to_string();
        until(&path(number), &200, || server.call(Method::POST, &path(number), &body).0);
    };
    let remove =
        |server: &TestServer, path: &str| until(path, &200, || server.call(Method::DELETE, path, "").0);
    (0..20).for_each(|number| write(&nodes[0], number, "second"));
    let retired = nodes[0].millrace(&["node", "retire", "c"]);
    assert!(retired.status.success(), "{}", text(&retired));
    until("it has given all away", &true, || are_ideal(&nodes) && count(&nodes[0]) == Some(60));
    (20..40).for_each(|number| write(&nodes[0], number, "third"));
    (40..45).for_each(|number| remove(&nodes[0], &path(number)));
    remove(&nodes[0], "/group/v1/g19?timeout=20s");
    // The times of a new owner begin up to two seconds above all before it: after some changes of owners they
    // are ahead of the clock.
    thread::sleep(Duration::from_secs(15));
    let at = time_passed();
    (0..60).for_each(|number| write(&nodes[0], number, "later"));

    let title = |server: &TestServer, number: u32| server.get(&path(number)).1["fields"]["title"].clone();
    let expected = |number: u32| match number {
        _ if number % 20 == 19 => Value::Null,
        0..20 => json!("second"),
        20..40 => json!("third"),
        40..45 => Value::Null,
        _ => json!(format!("note {number} of g{}", number % 20)),
    };
    for group in [3, 7, 19] {
        let name = format!("g{group}");
        let restored = nodes[1].millrace(&["snapshot", "restore", "--group", &name, "--at", &at]);
        assert!(restored.status.success(), "{}", text(&restored));
        for number in [group, group + 20, group + 40] {
            until(&path(number), &expected(number), || title(&nodes[0], number));
        }
    }
    assert_eq!(title(&nodes[0], 8), "later", "other groups stay as they are");
    // A node that has joined has its logs from the beginning, and no snapshot.
    let mut joined = node_with(&etcd, "d", &keeping);
    until("placed", &true, || are_ideal(nodes.iter().chain([&joined])));
    let again = joined.millrace(&["snapshot", "restore", "--group", "g8", "--at", &at]);
    assert!(again.status.success(), "{}", text(&again));
    until(&path(8), &expected(8), || title(&nodes[0], 8));
    // Without kept logs it is in the way: writes may be on it alone.
    joined.set_environment_of("MILLRACE_KEEP_LOGS_S", "0");
    joined.restart();
    until("refused", &true, || {
        let refused = nodes[1].millrace(&["snapshot", "restore", "--group", "g9", "--at", &at]);
        !refused.status.success() && text(&refused).contains("node d: it lacks the snapshot 'first'")
    });
    let changed = |what: &str| {
        let changed = nodes[0].millrace(&["node", what, "d"]);
        assert!(changed.status.success(), "{}", text(&changed));
    };
    changed("retire");
    // Four documents of the restored groups were removed before the time.
    until("it has given all away", &true, || are_ideal(&nodes) && count(&nodes[0]) == Some(60 - 4));
    joined.terminate();
    until("removed", &true, || nodes[0].millrace(&["node", "remove", "d"]).status.success());

    // All of it, in new directories.
    let unnamed = restored_in(&nodes[0], &["--at", &at]);
    assert!(
        text(&unnamed.1).contains("all its nodes have to be restored from one snapshot"),
        "{}",
        text(&unnamed.1)
    );
    nodes.iter_mut().for_each(TestServer::terminate);
    let mut again = Vec::new();
    for (server, name) in nodes.iter().zip(["a", "b", "c"]) {
        let (directory, output) = restored_in(server, &["first", "--at", &at]);
        assert!(output.status.success(), "{}", text(&output));
        let data_dir = directory.path().join("data");
        again.push(node_in(&etcd, name, directory, data_dir, &keeping));
    }
    for number in 0..60 {
        until(&path(number), &expected(number), || title(&again[0], number));
    }
    let documents = (0..60).filter(|number| !expected(*number).is_null()).count() as u64;
    until("all of them and no other", &Some(documents), || count(&again[0]));
}

/// Restores a node offline into a new directory.
fn restored_in(server: &TestServer, arguments: &[&str]) -> (tempfile::TempDir, Output) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (from, to) =
        (server.data_dir().display().to_string(), directory.path().join("data").display().to_string());
    let more = ["--from", &from, "--data-dir", &to];
    let output = server.millrace(&[&["snapshot", "restore"], arguments, &more].concat());
    (directory, output)
}
