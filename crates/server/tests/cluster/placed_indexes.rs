//! Placed indexes of a cluster: their copies are made, moved, evened out and replaced, and queries find by
//! them what they find without.

use std::collections::BTreeMap;

use hyper::Method;
use serde_json::{Value, json};

use crate::indexes::{feed, first_hits, found, query, values};
use crate::nodes::{TestEtcd, count, node, node_with, put, services, until};
use crate::support::{NOTE, TestServer};

const INDEXES: &str = "<index-service placed='true' copies='2' slices='4'>
  <index name='by-stars' document='note'><key field='stars'/></index>
  <index name='late' document='note' build='deferred'><key field='stars' order='descending'/></index>
</index-service>";

/// Conditions that an index answers; few documents fulfil each.
const CONDITIONS: [&str; 3] = ["stars = 7", "stars > 150", "stars in (3, 5, 500)"];

/// Checks that the nodes find by an index what they find without.
#[track_caller]
pub fn check(nodes: &[&TestServer], index: &str, when: &str) {
    for server in nodes {
        for condition in CONDITIONS {
            let mut streamed = None;
            until(&format!("{when}: {condition}"), &true, || {
                streamed = found(server, condition, "none");
                streamed.is_some()
            });
            until(&format!("{when}: {condition}"), &streamed, || found(server, condition, index));
        }
        if index == "by-stars" {
            let mut streamed = None;
            until(&format!("{when}: first hits"), &true, || {
                streamed = first_hits(server, "none");
                streamed.is_some()
            });
            until(&format!("{when}: first hits"), &streamed, || first_hits(server, index));
            let mut streamed = None;
            until(&format!("{when}: values"), &true, || {
                streamed = values(server, "none");
                streamed.is_some()
            });
            until(&format!("{when}: values"), &streamed, || values(server, index));
        }
    }
}

/// Numbers of copies of an index by the names of the nodes, once all copies are in their places: two of each
/// of its four slices.
#[track_caller]
fn balanced(server: &TestServer, when: &str) -> BTreeMap<String, usize> {
    balanced_as(server, when, (4, 2))
}

/// The same of an index with this many slices, and copies of each.
#[track_caller]
pub fn balanced_as(
    server: &TestServer,
    when: &str,
    (slices_wanted, copies_wanted): (usize, usize),
) -> BTreeMap<String, usize> {
    let mut loads = BTreeMap::new();
    until(&format!("{when}: balanced"), &true, || {
        loads.clear();
        let index = server.config(Method::GET, "/index/v1/notes/by-stars").1;
        let slices = index["placement"].as_array().cloned().unwrap_or_default();
        let copies = |slice: &Value| slice["copies"].as_array().cloned().unwrap_or_default();
        for copy in slices.iter().flat_map(copies) {
            *loads.entry(copy["name"].as_str().unwrap_or("").to_owned()).or_default() += 1;
        }
        let is_complete = |slice: &Value| {
            let copies = copies(slice);
            copies.len() == copies_wanted && copies.iter().all(|copy| copy["state"] == "ready")
        };
        slices.len() == slices_wanted
            && slices.iter().all(is_complete)
            && server.config(Method::GET, "/index/v1/rebalance").1["balanced"] == true
    });
    loads
}

pub fn succeeds(server: &TestServer, arguments: &[&str]) -> String {
    let done = server.millrace(arguments);
    let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{arguments:?}: {out}{error}");
    out.into_owned()
}

#[test]
fn copies_are_placed_moved_and_made_again() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let application = services(2).replace("</documents>", &format!("</documents>{INDEXES}"));
    let files = [("services.xml", &*application), ("schemas/note.sd", NOTE)];
    until("deployed", &200, || nodes[0].deploy(&files).0);
    feed(&nodes[1], 0..160);
    let placed = balanced(&nodes[2], "three nodes");
    assert_eq!(placed.values().sum::<usize>(), 8, "{placed:?}");
    assert!(placed.len() == 3 && placed.values().all(|load| (2..=3).contains(load)), "{placed:?}");
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "fed");
    let scans = nodes.iter().map(|node| node.metric("millrace_index_scan_duration_seconds_count"));
    assert!(scans.sum::<f64>() > 0.0);
    assert!(nodes.iter().all(|node| node.metric("millrace_index_queries_count") > 0.0));
    let (status, answer) = query(&nodes[0], "stars = 7", "late");
    assert!(status == 503 && answer.to_string().contains("deferred"), "{status} {answer}");

    // All is in its place; a request is refused with its reason, and settings are those of the cluster.
    let plan = succeeds(&nodes[1], &["index", "plan"]);
    assert!(plan.contains("none of 8 copies would move"), "{plan}");
    let refused = nodes[1].millrace(&["index", "move", "by-stars", "--from", "a", "--to", "nowhere"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("no node 'nowhere'; the cluster has "), "{error}");
    succeeds(&nodes[1], &["index", "settings", "activation=slice", "transfers-per-node=4"]);
    let settings = succeeds(&nodes[2], &["--format", "json", "index", "settings"]);
    let settings: Value = serde_json::from_str(&settings).expect("JSON");
    assert_eq!((&settings["activation"], &settings["transfers-per-node"]), (&json!("slice"), &json!(4)));

    // A deferred one is built.
    succeeds(&nodes[2], &["index", "build", "late"]);
    succeeds(&nodes[0], &["index", "wait", "--balanced", "--timeout", "120"]);
    check(&[&nodes[0]], "late", "built");
    let compared = succeeds(&nodes[1], &["index", "verify", "by-stars"]);
    assert!(compared.starts_with("by-stars: 0 differences"), "{compared}");

    // A node joins, and is filled: eight copies of each index, two of them there.
    nodes.push(node(&etcd, "d"));
    until("d has joined", &true, || {
        let plan = nodes[3].config(Method::GET, "/index/v1/plan").1;
        plan["nodes"].as_array().is_some_and(|nodes| nodes.len() == 4 && nodes.contains(&json!("d")))
    });
    until("d has copies", &true, || balanced(&nodes[3], "four nodes").contains_key("d"));
    feed(&nodes[3], 160..200);
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "d has joined");

    // An operator moves a copy away and evens out.
    let index = nodes[0].config(Method::GET, "/index/v1/notes/by-stars").1;
    let copies = index["placement"][0]["copies"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = copies.iter().filter_map(|copy| copy["name"].as_str()).collect();
    let to = ["a", "b", "c", "d"].into_iter().find(|name| !names.contains(name)).expect("another node");
    succeeds(&nodes[2], &["index", "move", "by-stars", "--slice", "0", "--from", names[0], "--to", to]);
    until("moved", &true, || {
        balanced(&nodes[1], "a move");
        let index = nodes[1].config(Method::GET, "/index/v1/notes/by-stars").1;
        let copies = index["placement"][0]["copies"].as_array().cloned().unwrap_or_default();
        copies.iter().any(|copy| copy["name"] == to) && copies.iter().all(|copy| copy["name"] != names[0])
    });
    succeeds(&nodes[1], &["index", "rebalance"]);
    succeeds(&nodes[1], &["index", "wait", "--balanced", "--timeout", "120"]);
    let plan = nodes[1].config(Method::GET, "/index/v1/plan").1;
    assert_eq!(plan["moves"], 0, "{plan}");
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "a rebalance");

    // A node is killed: once it is down, its copies are made by the others.
    nodes[1].kill();
    until("without b", &true, || !balanced(&nodes[0], "b was killed").contains_key("b"));
    feed(&nodes[0], 200..240);
    check(&[&nodes[0], &nodes[2], &nodes[3]], "by-stars", "without b");
    let status = succeeds(&nodes[0], &["status"]);
    assert!(!status.contains("rebalance "), "{status}");

    // It comes back, and what was replaced meanwhile goes.
    nodes[1].start_again();
    until("b is back", &true, || balanced(&nodes[1], "b is back").values().sum::<usize>() == 8);
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "b is back");

    // A node retires: its copies move away.
    succeeds(&nodes[0], &["node", "retire", "a"]);
    until("a is empty", &true, || !balanced(&nodes[3], "a retires").contains_key("a"));
    check(&nodes[1..].iter().collect::<Vec<_>>(), "by-stars", "a has retired");
    let three = balanced(&nodes[3], "at last");
    assert!(three.len() == 3 && three.values().sum::<usize>() == 8, "{three:?}");
    let compared = succeeds(&nodes[2], &["index", "verify", "by-stars"]);
    assert!(compared.starts_with("by-stars: 0 differences"), "{compared}");
}

/// Deploys the application with these indexes, each with eight slices.
pub fn declare(server: &TestServer, copies: usize, names: &[&str]) {
    let key = |name: &str| if name == "by-tag" { "tags" } else { "stars" };
    let index =
        |name: &&str| format!("<index name='{name}' document='note'><key field='{}'/></index>", key(name));
    let indexes: String = names.iter().map(index).collect();
    let service =
        format!("<index-service placed='true' copies='{copies}' slices='8'>{indexes}</index-service>");
    let application = services(2).replace("</documents>", &format!("</documents>{service}"));
    let files = [("services.xml", &*application), ("schemas/note.sd", NOTE)];
    until("deployed", &200, || server.deploy(&files).0);
}

/// Checks that an index is what the documents say.
#[track_caller]
pub fn verified(server: &TestServer, index: &str) {
    let compared = succeeds(server, &["index", "verify", index]);
    assert!(compared.starts_with(&format!("{index}: 0 differences")), "{compared}");
}

#[test]
fn declarations_change_while_copies_move() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    declare(&nodes[0], 1, &["by-stars", "other"]);
    feed(&nodes[1], 0..160);
    balanced_as(&nodes[0], "one copy", (8, 1));

    // A node is filled while an index comes, another goes, all get more copies, and operators interfere.
    nodes.push(node(&etcd, "d"));
    declare(&nodes[1], 2, &["by-stars", "by-tag"]);
    for method in [Method::POST, Method::DELETE, Method::POST] {
        let (status, answer) = nodes[2].config(method.clone(), "/index/v1/rebalance");
        assert!([202, 409, 503].contains(&status), "{method}: {status} {answer}");
    }
    feed(&nodes[0], 160..200);
    balanced_as(&nodes[0], "two copies", (8, 2));
    until("the other has gone", &404, || nodes[1].config(Method::GET, "/index/v1/notes/other").0);
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "two copies");
    verified(&nodes[0], "by-stars");
    verified(&nodes[0], "by-tag");

    // A node that has the only copies of some slices is lost: they are built from the documents.
    declare(&nodes[2], 1, &["by-stars", "by-tag"]);
    let loads = balanced_as(&nodes[0], "one copy again", (8, 1));
    let names = ["a", "b", "c", "d"];
    let lost = names.iter().position(|name| loads.contains_key(*name)).expect("a node has copies");
    nodes[lost].kill();
    let others: Vec<&TestServer> =
        nodes.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, node)| node).collect();
    until("made again", &true, || {
        !balanced_as(others[0], "a node was lost", (8, 1)).contains_key(names[lost])
    });
    check(&others, "by-stars", "a node was lost");
    verified(others[0], "by-stars");
}

#[test]
fn nodes_with_copies_alone_have_no_documents() {
    let Some(etcd) = TestEtcd::start() else { return };
    let start = |name: &str, roles| node_with(&etcd, name, &[("MILLRACE_ROLES", roles)]);
    let mut nodes: Vec<TestServer> =
        ["a", "b"].iter().map(|name| start(name, "gateway,content,controller")).collect();
    nodes.extend(["x", "y"].iter().map(|name| start(name, "gateway,index")));
    let tags = "<index name='by-tag' document='note'><key field='tags'/></index></index-service>";
    let indexes = INDEXES.replace("</index-service>", tags);
    let application = services(2).replace("</documents>", &format!("</documents>{indexes}"));
    let files = [("services.xml", &*application), ("schemas/note.sd", NOTE)];
    until("deployed", &200, || nodes[0].deploy(&files).0);
    until("x is a node", &true, || {
        let plan = nodes[2].config(Method::GET, "/index/v1/plan").1;
        plan["nodes"].as_array().is_some_and(|nodes| nodes.len() == 4)
    });
    // What comes to a node without documents is passed on.
    feed(&nodes[2], 0..160);
    let placed = balanced(&nodes[3], "fed");
    assert_eq!(placed.into_iter().collect::<Vec<_>>(), [("x".to_owned(), 4), ("y".to_owned(), 4)]);
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "fed");
    let compared = succeeds(&nodes[2], &["index", "verify", "by-stars"]);
    assert!(compared.starts_with("by-stars: 0 differences"), "{compared}");

    // As many nodes are away as there are replicas, and no document is.
    nodes[2].kill();
    nodes[3].kill();
    until("all documents are there", &Some(160), || count(&nodes[1]));
    put(&nodes[0], 3, 1_000);
    nodes[2].start_again();
    nodes[3].start_again();
    balanced(&nodes[0], "they are back");
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "they are back");

    // Of two indexes that answer a query the one with fewer entries is asked.
    let tagged = json!({ "fields": { "stars": 5, "tags": ["rare"] } }).to_string();
    let path = "/document/v1/notes/note/group/g1/tagged";
    until("written", &200, || nodes[0].call(Method::POST, path, &tagged).0);
    until("found by the tag", &(true, false), || {
        let (_, answer) = nodes[1].query(&[
            ("yql", "select * from note where stars >= 0 and tags contains 'rare'"),
            ("streaming.selection", "true"),
            ("timeout", "60s"),
            ("trace.level", "1"),
        ]);
        let trace = answer["trace"].to_string();
        (trace.contains("index by-tag: 1 candidates"), trace.contains("index by-stars: "))
    });
}

/// Flips a byte in the middle of each file of entries of a node's copies. Returns their number.
fn damage(server: &TestServer) -> usize {
    let files = |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let copies = files(server.data_dir().join("placed-indexes")).map(|entry| entry.path());
    let runs = copies.filter(|path| path.is_dir()).flat_map(files).map(|entry| entry.path());
    let mut damaged = 0;
    for run in runs.filter(|path| path.extension().is_some_and(|end| end == "run")) {
        let mut bytes = std::fs::read(&run).expect("a file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 16;
        std::fs::write(&run, bytes).expect("the disk takes it");
        damaged += 1;
    }
    damaged
}

#[test]
fn copies_outlive_restarts_damage_and_the_loss_of_etcd() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    declare(&nodes[0], 2, &["by-stars", "by-tag"]);
    feed(&nodes[1], 0..160);
    balanced_as(&nodes[0], "fed", (8, 2));
    let all_agree = |nodes: &[TestServer], when: &str| {
        check(&nodes.iter().collect::<Vec<_>>(), "by-stars", when);
        until(&format!("{when}: no difference"), &true, || {
            nodes[0].millrace(&["index", "verify", "by-stars"]).status.success()
        });
    };
    for at in 0..3 {
        nodes[at].restart();
        let first = 160 + 10 * at as u32;
        feed(&nodes[at], first..first + 10);
        all_agree(&nodes, &format!("node {at} was restarted"));
    }
    // A node that stops has written its copies.
    nodes[1].terminate();
    assert!(damage(&nodes[1]) > 0);
    nodes[1].start_again();
    all_agree(&nodes, "the files of a node were damaged");
    balanced_as(&nodes[0], "made again", (8, 2));
    drop(etcd);
    check(&nodes.iter().collect::<Vec<_>>(), "by-stars", "etcd is away");
}
