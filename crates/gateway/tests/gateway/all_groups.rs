//! Searches of all groups of a document type at Elasticsearch's interfaces of a cluster: every node answers
//! with each document of all nodes once, or refuses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hyper::Method;
use millrace_document::{DocumentVersion, Timestamp};
use millrace_store::{StoreVisit, VisitedVersion};
use serde_json::{Value, json};

use crate::support::TestNodes;

const NOTE: &str = "schema note { document note {
  field title type string { indexing: summary | index }
  field stars type int { indexing: summary | attribute }
} }";

/// Groups that are in one bucket each, and the documents of each.
const GROUPS: u64 = 12;
const OF_EACH: u64 = 5;

/// Documents of a group that is divided, and documents without a group.
const OF_LARGE: u64 = 40;
const OF_NONE: u64 = 6;

const TOTAL: u64 = GROUPS * OF_EACH + OF_LARGE + OF_NONE;

fn call(nodes: &TestNodes, node: usize, request: &str, body: &Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').expect("a request has a method and a path");
    let method: Method = method.parse().expect("a method");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    nodes.call(node, method, &format!("/elastic{path}"), &body)
}

/// Answer to a request that succeeds.
fn answered(nodes: &TestNodes, node: usize, request: &str, body: &Value) -> Value {
    let (status, answer) = call(nodes, node, request, body);
    assert!(status == 200 || status == 201, "{request} {body}: {status} {answer}");
    answer
}

/// Nodes with documents that have different `stars`, from 0 on.
fn with_notes() -> TestNodes {
    let nodes = TestNodes::start(3, NOTE);
    nodes.divide("large", 2);
    let grouped = (0..GROUPS * OF_EACH).map(|number| format!("id:note:note:g=g{}:{number}", number % GROUPS));
    let large = (0..OF_LARGE).map(|number| format!("id:note:note:g=large:{number}"));
    let without = (0..OF_NONE).map(|number| format!("id:note:note::{number}"));
    for (stars, id) in grouped.chain(large).chain(without).enumerate() {
        answered(&nodes, stars % 3, &format!("PUT /note/_doc/{id}"), &json!({ "stars": stars }));
    }
    nodes
}

fn hits_of(answer: &Value) -> Vec<Value> {
    answer["hits"]["hits"].as_array().cloned().unwrap_or_default()
}

fn stars_of(hits: &[Value]) -> Vec<u64> {
    hits.iter().filter_map(|hit| hit["_source"]["stars"].as_u64()).collect()
}

#[test]
fn searches_of_all_groups_have_each_document_once() {
    let nodes = with_notes();
    let all: Vec<u64> = (0..TOTAL).collect();
    let sum = json!({ "sum": { "field": "stars" } });
    for node in 0..3 {
        assert_eq!(answered(&nodes, node, "GET /note/_count", &Value::Null)["count"], TOTAL);
        let above = json!({ "query": { "range": { "stars": { "gte": 10 } } } });
        assert_eq!(answered(&nodes, node, "POST /note/_count", &above)["count"], TOTAL - 10);
        let tables = answered(&nodes, node, "GET /_cat/count/note?format=json", &Value::Null);
        assert_eq!(tables[0]["count"], TOTAL.to_string(), "{tables}");

        let ranked = json!({ "size": 1000, "sort": ["stars"] });
        let found = answered(&nodes, node, "POST /note/_search", &ranked);
        assert_eq!(found["hits"]["total"]["value"], TOTAL);
        assert_eq!((&found["timed_out"], &found["_shards"]["failed"]), (&json!(false), &json!(0)));
        assert_eq!(stars_of(&hits_of(&found)), all);
        let ids: BTreeSet<String> = hits_of(&found).iter().map(|hit| hit["_id"].to_string()).collect();
        assert!(ids.contains("\"id:note:note::0\"") && ids.contains("\"7\""), "{ids:?}");

        let mut after = Value::Null;
        let mut stars = Vec::new();
        loop {
            let mut page = json!({ "size": 7, "sort": [{ "stars": "asc" }] });
            if !after.is_null() {
                page["search_after"] = after;
            }
            let hits = hits_of(&answered(&nodes, node, "POST /note/_search", &page));
            stars.extend(stars_of(&hits));
            match hits.last() {
                Some(hit) => after = hit["sort"].clone(),
                None => break,
            }
        }
        assert_eq!(stars, all, "by search_after");

        let aggregations = json!({ "of_some": sum, "all": { "global": {}, "aggs": { "of_all": sum } } });
        let asked =
            json!({ "size": 0, "query": { "range": { "stars": { "lt": 10 } } }, "aggs": aggregations });
        let found = answered(&nodes, node, "POST /note/_search", &asked)["aggregations"].clone();
        assert_eq!(found["of_some"]["value"].as_f64(), Some(45.0), "{found}");
        let sum_of_all = (TOTAL * (TOTAL - 1) / 2) as f64;
        assert_eq!(found["all"]["of_all"]["value"].as_f64(), Some(sum_of_all), "{found}");
        assert_eq!(found["all"]["doc_count"], TOTAL, "{found}");
    }
}

#[test]
fn scrolls_of_all_groups_go_on_by_other_cluster_states() {
    let nodes = with_notes();
    for sort in ["_doc", "stars"] {
        let asked = json!({ "size": 9, "sort": [sort] });
        let mut page = answered(&nodes, 1, "POST /note/_search?scroll=1m", &asked);
        assert_eq!(page["hits"]["total"]["value"], TOTAL, "{sort}");
        let mut stars = Vec::new();
        while !hits_of(&page).is_empty() {
            stars.extend(stars_of(&hits_of(&page)));
            nodes.world.next_version();
            let next = json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] });
            page = answered(&nodes, stars.len() % 3, "POST /_search/scroll", &next);
        }
        stars.sort_unstable();
        assert_eq!(stars, (0..TOTAL).collect::<Vec<_>>(), "{sort}");
    }
}

#[test]
fn scrolls_have_documents_whose_times_are_ahead_of_the_clock() {
    let nodes = with_notes();
    // As those that a new owner writes first, or one whose clock is ahead.
    for node in &nodes.nodes {
        let store = node.store();
        let pass = StoreVisit { wanted: 100_000, ..StoreVisit::all(&["note"]) };
        let page = store.visit(&pass).expect("the store is read");
        let later = page.visited.iter().filter_map(|visited| match visited {
            VisitedVersion::Document(document, _) => {
                let version = store.version(&document.id).expect("the store is read")?;
                Some(DocumentVersion { timestamp: Timestamp(version.timestamp.0 + 3_000_000), ..version })
            }
            VisitedVersion::Removed(..) => None,
        });
        let (sender, written) = std::sync::mpsc::channel();
        store.apply(later.collect(), move |outcome| sender.send(outcome.is_ok()).expect("the test waits"));
        assert!(written.recv().expect("the store answers"));
    }
    for sort in ["_doc", "stars"] {
        let asked = json!({ "sort": [sort] });
        for node in 0..3 {
            let page = answered(&nodes, node, "POST /note/_search?scroll=1m", &asked);
            assert_eq!(page["hits"]["total"]["value"], TOTAL, "{sort} at node {node}");
        }
    }
}

#[test]
fn pages_of_large_documents_are_whole_while_the_cluster_state_changes() {
    const DOCUMENTS: u32 = 60;
    let nodes = TestNodes::start(3, NOTE);
    // Together they are larger than the pages of all nodes.
    let title = "word ".repeat(25_000);
    for number in 0..DOCUMENTS {
        nodes.put(0, &format!("g{}", number % 9), number, &json!({ "title": title, "stars": number }));
    }
    let count = |node: usize| call(&nodes, node, "GET /note/_count", &Value::Null);
    let has_ended = AtomicBool::new(false);
    let meanwhile: Vec<(u16, Value)> = thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                nodes.world.next_version();
                thread::sleep(Duration::from_millis(150));
            }
        });
        let counts = (0..9).map(|turn| count(turn % 3)).collect();
        has_ended.store(true, Ordering::Relaxed);
        counts
    });
    for (status, answer) in meanwhile {
        assert!(
            status >= 500 || answer["count"] == DOCUMENTS,
            "it is complete or refused: {status} {answer}"
        );
    }
    for node in 0..3 {
        let (status, answer) = count(node);
        assert_eq!((status, &answer["count"]), (200, &json!(DOCUMENTS)), "{answer}");
    }
}

#[test]
fn nodes_of_earlier_versions_are_not_asked_for_all_groups() {
    let nodes = with_notes();
    nodes.world.protocol.store(2, Ordering::SeqCst);
    let searches =
        ["GET /note/_search", "GET /note/_count", "GET /note/_search?scroll=1m", "GET /_cat/count/note"];
    for node in 0..3 {
        for request in searches {
            let (status, answer) = call(&nodes, node, request, &Value::Null);
            let reason = answer["error"]["reason"].as_str().unwrap_or_default();
            let is_refused = status == 400 && reason.contains("name them, or search all groups at /search/");
            assert!(is_refused, "{request}: {status} {answer}");
        }
        let routed = answered(&nodes, node, "GET /note/_count?routing=g1,large", &Value::Null);
        assert_eq!(routed["count"], OF_EACH + OF_LARGE);
    }
}

#[test]
fn searches_of_all_groups_are_refused_while_documents_may_be_away() {
    let nodes = with_notes();
    answered(&nodes, 0, "PUT /plain/_doc/1", &json!({ "a": 1 }));
    nodes.world.is_one_away.store(true, Ordering::SeqCst);
    for node in 0..3 {
        let (status, answer) = call(&nodes, node, "GET /note/_count", &Value::Null);
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        let is_refused = status == 503 && reason.contains("documents may be on nodes that do not serve: n3");
        assert!(is_refused, "{status} {answer}");
    }
    nodes.world.is_one_away.store(false, Ordering::SeqCst);
    assert_eq!(answered(&nodes, 0, "GET /note/_count", &Value::Null)["count"], TOTAL);
}
