//! Indexes of a cluster: each node has the entries of its replicas, wherever these move, and a query over all
//! groups finds by them what it finds without.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, node, services, until};
use crate::support::{NOTE, TestServer};

const INDEXES: &str = "<index-service>
  <index name='by-stars' document='note'><key field='stars'/></index>
  <index name='late' document='note' build='deferred'><key field='stars' order='descending'/></index>
</index-service>";

/// Conditions that an index answers; few documents fulfil each.
const CONDITIONS: [&str; 4] = ["stars = 7", "stars > 150", "stars in (3, 5, 500)", "range(stars, 40, 44)"];

fn application() -> String {
    services(2).replace("</documents>", &format!("</documents>{INDEXES}"))
}

/// Feeds notes, each to a group of twenty.
pub fn feed(server: &TestServer, numbers: std::ops::Range<u32>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let line = |number: u32| {
        let id = format!("id:notes:note:g=g{}:{number}", number % 20);
        json!({ "put": id, "fields": { "title": format!("note {number}"), "stars": number } }).to_string()
    };
    let path = directory.path().join("all.jsonl");
    std::fs::write(&path, numbers.map(line).collect::<Vec<_>>().join("\n")).expect("it can be written");
    // Another node may have taken the application only just now, and this one does not have it yet.
    until("the application is here", &true, || {
        let fed = server.millrace(&["feed", path.to_str().expect("a path")]);
        let error = String::from_utf8_lossy(&fed.stderr);
        assert!(fed.status.success() || error.contains("no application is deployed"), "{error}");
        fed.status.success()
    });
}

pub fn query(server: &TestServer, condition: &str, index: &str) -> (u16, Value) {
    let yql = format!("select * from note where {condition}");
    server.query(&[
        ("yql", &*yql),
        ("hits", "400"),
        ("streaming.selection", "true"),
        ("timeout", "60s"),
        ("trace.level", "1"),
        ("index.use", index),
    ])
}

/// Ids of the hits; `None` if some documents could not be read.
pub fn found(server: &TestServer, condition: &str, index: &str) -> Option<BTreeSet<String>> {
    let (status, answer) = query(server, condition, index);
    if status != 200 || answer.pointer("/root/coverage/full") != Some(&json!(true)) {
        return None;
    }
    let hits = answer.pointer("/root/children").and_then(Value::as_array).cloned().unwrap_or_default();
    Some(hits.iter().filter_map(|hit| hit["id"].as_str().map(str::to_owned)).collect())
}

/// Ids of the first hits in the order of the index, which has too many candidates to look at all; `None` if
/// some documents could not be read.
pub fn first_hits(server: &TestServer, index: &str) -> Option<Vec<String>> {
    let (status, answer) = server.query(&[
        ("yql", "select * from note where stars >= 0 and !(stars = 8) order by stars limit 9 offset 2"),
        ("streaming.selection", "true"),
        ("timeout", "60s"),
        ("index.use", index),
        ("index.candidates-max", "3"),
    ]);
    if status != 200 || answer.pointer("/root/coverage/full") != Some(&json!(true)) {
        return None;
    }
    let hits = answer.pointer("/root/children").and_then(Value::as_array).cloned().unwrap_or_default();
    Some(hits.iter().filter_map(|hit| hit["id"].as_str().map(str::to_owned)).collect())
}

/// Values that the index has itself, of the documents that it finds; `None` if some documents could not be
/// read, or the index was not used.
pub fn values(server: &TestServer, index: &str) -> Option<Vec<String>> {
    let (status, answer) = server.query(&[
        ("yql", "select stars from note where stars > 150 order by stars"),
        // The default profile reads the titles.
        ("ranking", "unranked"),
        ("hits", "400"),
        ("streaming.selection", "true"),
        ("timeout", "60s"),
        ("trace.level", "1"),
        ("index.use", index),
    ]);
    let is_covered = answer["trace"].to_string().contains("read from the index alone");
    if status != 200
        || answer.pointer("/root/coverage/full") != Some(&json!(true))
        || is_covered != (index != "none")
    {
        return None;
    }
    let hits = answer.pointer("/root/children").and_then(Value::as_array).cloned().unwrap_or_default();
    Some(hits.iter().map(|hit| format!("{} {}", hit["id"], hit["fields"]["stars"])).collect())
}

/// Checks that the nodes find by the index what they find without, and that it is on each node what the
/// documents there say.
#[track_caller]
fn check(nodes: &[&TestServer], when: &str) {
    for server in nodes {
        for condition in CONDITIONS {
            let mut streamed = None;
            until(&format!("{when}: {condition}"), &true, || {
                streamed = found(server, condition, "none");
                streamed.is_some()
            });
            until(&format!("{when}: {condition}"), &streamed, || found(server, condition, "by-stars"));
        }
        let mut streamed = None;
        until(&format!("{when}: in order"), &true, || {
            streamed = first_hits(server, "none");
            streamed.is_some()
        });
        until(&format!("{when}: in order"), &streamed, || first_hits(server, "by-stars"));
        let mut streamed = None;
        until(&format!("{when}: values"), &true, || {
            streamed = values(server, "none");
            streamed.is_some()
        });
        until(&format!("{when}: values"), &streamed, || values(server, "by-stars"));
        let path = "/index/v1/notes/by-stars/verify";
        let mut compared = Value::Null;
        until(&format!("{when}: compared"), &true, || {
            compared = server.config(Method::POST, path).1;
            compared["complete"] == true
        });
        assert_eq!(compared["differences"], 0, "{when}: {compared}");
        assert!(compared["documents"].as_u64() > Some(0), "{when}: {compared}");
    }
}

pub fn settled(nodes: &[&TestServer]) {
    until("ideal", &true, || are_ideal(nodes.iter().copied()));
}

#[test]
fn indexes_move_with_the_replicas() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let files = [("services.xml", &*application()), ("schemas/note.sd", NOTE)];
    until("deployed", &200, || nodes[0].deploy(&files).0);
    let all = |nodes: &[TestServer]| {
        until("three nodes", &true, || {
            let listed = nodes[0].config(Method::GET, "/index/v1/notes/by-stars").1;
            listed["state"] == "ready" && listed["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3)
        })
    };
    all(&nodes);
    feed(&nodes[1], 0..160);
    check(&nodes.iter().collect::<Vec<_>>(), "fed");

    // The trace says which node has used it; the figures are those of all.
    let trace = query(&nodes[2], "stars = 7", "by-stars").1["trace"].to_string();
    for key in 0..3 {
        assert!(trace.contains(&format!("node {key}: index by-stars: ")), "{trace}");
    }
    let automatic = nodes[2].query(&[
        ("yql", "select * from note where stars = 7"),
        ("streaming.selection", "true"),
        ("trace.level", "1"),
    ]);
    assert!(automatic.1["trace"].to_string().contains("index by-stars: "), "{automatic:?}");
    let listed = nodes[1].config(Method::GET, "/index/v1/notes/by-stars").1;
    assert_eq!((&listed["entries"], &listed["progress"]), (&json!(320), &json!(1.0)), "{listed}");
    let names: Vec<&str> =
        listed["nodes"].as_array().into_iter().flatten().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let (status, answer) = query(&nodes[0], "stars = 7", "by-owner");
    assert_eq!(status, 400, "{answer}");

    // A deferred one is built on all nodes.
    let (status, answer) = query(&nodes[0], "stars = 7", "late");
    assert!(status == 503 && answer.to_string().contains("deferred"), "{status} {answer}");
    let built = nodes[2].millrace(&["index", "build", "late"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let waited = nodes[1].millrace(&["index", "wait", "--timeout", "120"]);
    assert!(waited.status.success(), "{}", String::from_utf8_lossy(&waited.stdout));
    let mut streamed = None;
    until("read by streaming", &true, || {
        streamed = found(&nodes[1], "stars = 7", "none");
        streamed.is_some()
    });
    until("found by the deferred one", &streamed, || found(&nodes[1], "stars = 7", "late"));

    // A node is killed: its replicas are recreated by the others.
    nodes[1].kill();
    feed(&nodes[0], 160..200);
    check(&[&nodes[0], &nodes[2]], "b was killed");
    until("the others have everything", &true, || {
        let listed = nodes[2].config(Method::GET, "/index/v1/notes/by-stars").1;
        settled(&[&nodes[0], &nodes[2]]);
        listed["nodes"][1]["state"] == "down" && listed["entries"] == 400
    });
    check(&[&nodes[0], &nodes[2]], "without b");
    let shown = nodes[0].millrace(&["index", "show", "by-stars"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("node b") && shown.contains("down"), "{shown}");

    // It comes back, with an earlier index: its replicas are compared, and some go.
    nodes[1].start_again();
    settled(&nodes.iter().collect::<Vec<_>>());
    check(&nodes.iter().collect::<Vec<_>>(), "b is back");

    // Another node joins, and one retires.
    nodes.push(node(&etcd, "d"));
    until("d has joined", &true, || {
        let listed = nodes[3].config(Method::GET, "/index/v1/notes/by-stars").1;
        listed["nodes"].as_array().is_some_and(|nodes| nodes.len() == 4)
    });
    settled(&nodes.iter().collect::<Vec<_>>());
    check(&nodes.iter().collect::<Vec<_>>(), "d has joined");
    let retired = nodes[0].millrace(&["node", "retire", "a"]);
    assert!(retired.status.success(), "{}", String::from_utf8_lossy(&retired.stderr));
    until("a is empty", &true, || {
        let listed = nodes[3].config(Method::GET, "/index/v1/notes/by-stars").1;
        settled(&nodes.iter().collect::<Vec<_>>());
        listed["nodes"][0]["entries"] == 0
    });
    check(&nodes[1..].iter().collect::<Vec<_>>(), "a has retired");

    // Groups that are dropped leave all nodes.
    let path = "/document/v1/notes/note/group/g7?selection=true&cluster=notes&timeout=30s";
    assert_eq!(nodes[2].call(Method::DELETE, path, "").0, 200);
    check(&[&nodes[2], &nodes[3]], "a group was dropped");
    until("none is found", &Some(BTreeSet::new()), || found(&nodes[2], "stars = 7", "by-stars"));
}
