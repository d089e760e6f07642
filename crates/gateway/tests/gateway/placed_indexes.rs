//! Placed indexes over HTTP: any node shows their copies, and passes requests to the leader.

use std::sync::Arc;

use hyper::Method;
use millrace_cluster::{NodeKey, NodeState};
use millrace_index_placement::{
    CopyProgress, IndexNode, NodeCopyReport, NodeCopyReports, PlacedCopy, PlacedCopyState, PlacementOverview,
    PlacementSituation, VerifiedCopy, plan,
};
use serde_json::{Value, json};

use crate::support::TestNodes;

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field due type int { indexing: summary | attribute }
  }
}";

const INDEXES: &str = "<index-service placed='true' copies='1' slices='4'>
  <index name='due' document='note'><key field='due' order='descending'/></index>
  <index name='later' document='note' build='deferred'><key field='due'/></index>
</index-service>";

/// Lets the nodes do what the table says, and the leader plan, until nothing is left to do.
fn settle(nodes: &TestNodes) {
    let wanted = nodes.nodes[0].placed_indexes().reporter().wanted().borrow().indexes.clone();
    let mut overview = nodes.world.placement.lock();
    overview.wanted = wanted;
    let node = |key: u16| IndexNode {
        key: NodeKey(key),
        name: format!("n{key}").into(),
        state: NodeState::Up,
        has_role: true,
        group: Vec::new(),
        reports: std::collections::BTreeMap::new(),
    };
    overview.nodes = (0..2).map(node).collect();
    for _ in 0..10 {
        turn(&mut overview);
    }
}

fn turn(overview: &mut PlacementOverview) {
    let report = |copy: &PlacedCopy| {
        let progress = match copy.state {
            PlacedCopyState::Leaving => CopyProgress::Gone,
            _ => CopyProgress::CaughtUp,
        };
        let verified = Some(VerifiedCopy { ended_ms: 60_000, repaired: u64::from(copy.node.0) });
        NodeCopyReport {
            progress,
            bytes: 1_000,
            entries: 40,
            done: 1.0,
            seconds_left: None,
            lag: Some(90).filter(|_| copy.node == NodeKey(1)),
            verified,
        }
    };
    for node in &mut overview.nodes {
        let own = overview.table.of_node(node.key).map(|(_, copy)| (copy.id, report(copy)));
        let reports = NodeCopyReports { copies: own.collect() };
        node.reports = reports.of_node();
        overview.reports.insert(node.key, reports);
    }
    let (nodes, wanted) = (&overview.nodes, &overview.wanted);
    let plan = plan(&overview.table, &PlacementSituation { nodes, wanted, commands: &[] });
    overview.table = Arc::new(plan.table);
}

fn placed() -> TestNodes {
    let nodes = TestNodes::start(2, NOTE);
    for node in 0..2 {
        nodes.deploy_with(node, NOTE, &[("ext/millrace/indexes.xml", INDEXES)]);
    }
    settle(&nodes);
    nodes
}

fn ask(nodes: &TestNodes, request: &str, body: &str) -> (u16, Value) {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    nodes.config_with(1, Method::from_bytes(method.as_bytes()).expect("a method"), path, body)
}

/// The node of the copy of a slice.
fn place(nodes: &TestNodes, slice: usize) -> String {
    let (_, index) = ask(nodes, "GET /index/v1/notes/due", "");
    index["placement"][slice]["copies"][0]["name"].as_str().expect("a copy").to_owned()
}

#[test]
fn any_node_shows_the_copies() {
    let nodes = placed();
    let (status, all) = ask(&nodes, "GET /index/v1/", "");
    assert_eq!(status, 200, "{all}");
    let states = all["indexes"].as_array().expect("a list").iter().map(|index| {
        json!([
            index["name"],
            index["state"],
            index["placed"],
            index["copies-ready"],
            index["entries"],
            index["bytes"],
            index["lag"]
        ])
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [json!(["due", "ready", true, 4, 160, 4_000, 90]), json!(["later", "deferred", true, 0, 0, 0, null])]
    );
    let (_, index) = ask(&nodes, "GET /index/v1/notes/due", "");
    assert_eq!(index["keys"], json!([{ "field": "due", "order": "descending", "several": false }]));
    assert_eq!((&index["progress"], &index["copies-wanted"]), (&json!(1.0), &json!(4)));
    let copies = index["placement"].as_array().expect("slices").iter().map(|slice| slice["copies"].clone());
    for (slice, copies) in copies.enumerate() {
        assert_eq!(copies.as_array().map(Vec::len), Some(1), "slice {slice}: {copies}");
        assert_eq!((&copies[0]["state"], &copies[0]["bytes"]), (&json!("ready"), &json!(1_000)));
        let lag = if copies[0]["node"] == 1 { json!(90) } else { Value::Null };
        assert_eq!((&copies[0]["lag"], &copies[0]["repaired"]), (&lag, &copies[0]["node"]));
        assert_eq!(copies[0]["verified-ms"], 60_000);
    }
    assert_ne!(place(&nodes, 0), place(&nodes, 1), "they are spread over the nodes");
    // A move in progress has its source and its progress.
    let (from, to) = (place(&nodes, 0), place(&nodes, 1));
    let body = json!({ "slice": 0, "from": from, "to": to }).to_string();
    assert_eq!(ask(&nodes, "POST /index/v1/notes/due/move", &body).0, 202);
    let (_, index) = ask(&nodes, "GET /index/v1/notes/due", "");
    let made = &index["placement"][0]["copies"][1];
    assert_eq!(made["state"], "copying", "{index}");
    assert_eq!((&made["from"], &made["replaces"]), (&json!(from), &json!(from)));
    assert_eq!(made["reason"], "the move was asked for");
    assert_eq!(index["state"], "ready", "it serves meanwhile");
    let (_, rebalance) = ask(&nodes, "GET /index/v1/rebalance", "");
    assert_eq!(rebalance["copies"][0]["index"], "due");
    assert_eq!((&rebalance["running"], &rebalance["balanced"]), (&json!(false), &json!(false)));
    settle(&nodes);
    assert_eq!(place(&nodes, 0), to);
    let (_, rebalance) = ask(&nodes, "GET /index/v1/rebalance", "");
    assert_eq!(rebalance["balanced"], true, "{rebalance}");
    let (_, plan) = ask(&nodes, "GET /index/v1/plan", "");
    assert_eq!((&plan["moves"], &plan["least-moves"]), (&json!(1), &json!(1)), "{plan}");
    assert_eq!(plan["pairs"], json!([{ "from": to, "to": from, "moves": 1, "bytes": 1_000 }]));
    let (status, begun) = ask(&nodes, "POST /index/v1/rebalance", "");
    assert_eq!(status, 202, "{begun}");
    let (_, rebalance) = ask(&nodes, "GET /index/v1/rebalance", "");
    assert_eq!((&rebalance["running"], &rebalance["by"]), (&json!(true), &json!("n1")));
    assert_eq!((&rebalance["moves-left"], &rebalance["bytes-left"]), (&json!(1), &json!(1_000)));
    settle(&nodes);
    let places: Vec<String> = (0..4).map(|slice| place(&nodes, slice)).collect();
    assert_eq!(places.iter().filter(|place| **place == from).count(), 2, "{places:?}");
}

#[test]
fn copies_that_have_failed_or_are_missing_have_their_reason() {
    let nodes = placed();
    {
        let mut overview = nodes.world.placement.lock();
        let first = overview.table.all_copies().next().map(|(slice, copy)| (slice.slice, copy.clone()));
        let (slice, copy) = first.expect("a copy");
        assert_eq!(slice, 0);
        let progress = CopyProgress::Failed("no space is left".into());
        let report = NodeCopyReport {
            progress,
            bytes: 0,
            entries: 0,
            done: 0.0,
            seconds_left: None,
            lag: None,
            verified: None,
        };
        let reports = overview.reports.entry(copy.node).or_default();
        reports.copies.insert(copy.id, report);
        let reports = reports.of_node();
        let node = overview.nodes.iter_mut().find(|node| node.key == copy.node).expect("its node");
        node.reports = reports;
    }
    let (_, index) = ask(&nodes, "GET /index/v1/notes/due", "");
    let slice = &index["placement"][0];
    let name = slice["copies"][0]["name"].as_str().expect("a name");
    assert_eq!((&slice["copies"][0]["state"], &slice["missing"]), (&json!("failed"), &json!(1)), "{index}");
    assert_eq!((&index["copies-ready"], &index["copies-wanted"]), (&json!(3), &json!(4)));
    assert_eq!(index["reason"], json!(format!("the copy on {name} has failed: no space is left")));
    for request in ["GET /index/v1/plan", "GET /index/v1/rebalance"] {
        let (_, answer) = ask(&nodes, request, "");
        let failed = json!({
            "content": "notes", "index": "due", "slice": 0, "name": name, "reason": "no space is left",
        });
        assert_eq!(answer["failed"], json!([failed]), "{request}");
        assert_eq!(answer["missing"][0]["copies"], 1, "{request}: {answer}");
        let reason = answer["missing"][0]["reason"].as_str().unwrap_or("");
        assert!(reason.starts_with("slice 0: it is to be made"), "{request}: {answer}");
    }
}

#[test]
fn requests_are_answered_as_the_table_says() {
    let even: Option<fn(&TestNodes)> = None;
    let running: Option<fn(&TestNodes)> = Some(|nodes| {
        let (from, to) = (place(nodes, 0), place(nodes, 1));
        let body = json!({ "slice": 0, "from": from, "to": to }).to_string();
        assert_eq!(ask(nodes, "POST /index/v1/notes/due/move", &body).0, 202);
        settle(nodes);
        assert_eq!(ask(nodes, "POST /index/v1/rebalance", "").0, 202);
    });
    let undeclared: Option<fn(&TestNodes)> = Some(|nodes| {
        (0..2).for_each(|node| nodes.deploy(node, NOTE));
        settle(nodes);
    });
    let older: Option<fn(&TestNodes)> = Some(|nodes| {
        let protocol = millrace_cluster::PLACED_INDEXES - 1;
        nodes.world.protocol.store(protocol, std::sync::atomic::Ordering::SeqCst);
    });
    // For all requests that change nothing.
    let shared = placed();
    for (state, request, body, status, expected) in [
        (even, "GET /index/v1/plan?method=file", "", 200, ""),
        (even, "GET /index/v1/plan?method=magic", "", 400, "'magic': expected auto, file or rebuild"),
        (even, "POST /index/v1/plan", "", 405, "use GET"),
        (even, "DELETE /index/v1/rebalance", "", 409, "a rebalance is not in progress"),
        (even, "PUT /index/v1/rebalance", "", 405, "use GET, POST, DELETE"),
        (even, "PUT /index/v1/settings", r#"{"batch":5}"#, 200, "\"batch\":5"),
        (
            even,
            "PUT /index/v1/settings",
            r#"{"batch":0}"#,
            400,
            "batch: 0: expected a whole number from 1 to 1024",
        ),
        (
            even,
            "PUT /index/v1/settings",
            r#"{"bath":1}"#,
            400,
            "unknown setting 'bath'; expected one of batch",
        ),
        (even, "PUT /index/v1/settings", "batch", 400, "the settings are not a JSON object"),
        (even, "DELETE /index/v1/settings", "", 405, "use GET, PUT"),
        (even, "POST /index/v1/notes/later/build", "", 202, "is to be built"),
        (even, "POST /index/v1/notes/due/rebuild", "", 202, "built again"),
        (even, "POST /index/v1/notes/due/verify", "", 200, "does not keep placed indexes yet"),
        (even, "POST /index/v1/notes/due/burn", "", 404, "no action 'burn'"),
        (even, "POST /index/v1/notes/due/move", "{}", 400, "does not describe a move: missing field `slice`"),
        (
            even,
            "POST /index/v1/notes/due/move",
            r#"{"slice":0,"from":"n0","to":"n9"}"#,
            404,
            "no node 'n9'; the cluster has n0, n1",
        ),
        (
            even,
            "POST /index/v1/notes/due/move",
            r#"{"slice":7,"from":"n0","to":"n1"}"#,
            404,
            "has slices 0 to 3",
        ),
        (even, "POST /index/v1/notes/due/move", r#"{"slice":0,"from":"n0","to":"n0"}"#, 409, "node 0"),
        (even, "GET /index/v1/notes/dew", "", 404, "this server has notes/due, notes/later"),
        (even, "GET /index/v1/notes", "", 404, "/index/v1/settings"),
        (running, "POST /index/v1/rebalance", "", 409, "rebalance 0 runs, with 1 moves left"),
        (running, "DELETE /index/v1/rebalance", "", 202, "No further moves begin"),
        (undeclared, "GET /index/v1/plan", "", 409, "no index is placed"),
        (undeclared, "GET /index/v1/rebalance", "", 409, "no index is placed"),
        (undeclared, "POST /index/v1/rebalance", "", 409, "no index is placed"),
        (undeclared, "GET /index/v1/settings", "", 200, "\"batch\":3"),
        (undeclared, "GET /index/v1/notes/due", "", 404, "this server has none"),
        (older, "POST /index/v1/notes/due/move", "{}", 404, "no index 'due'"),
    ] {
        let changes = state.is_some() || (status < 300 && !request.starts_with("GET"));
        let own = changes.then(placed);
        let nodes = own.as_ref().unwrap_or(&shared);
        state.into_iter().for_each(|change| change(nodes));
        let (found, answer) = ask(nodes, request, body);
        let answer = answer.to_string().replace("\\\"", "\"");
        assert_eq!(found, status, "{request} {body}: {answer}");
        assert!(answer.contains(expected), "{request} {body}: {answer}");
    }
}
