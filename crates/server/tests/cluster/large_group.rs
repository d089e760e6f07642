//! A group that grows too large for one bucket: it is divided, and the nodes share it.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value, json};

use crate::elastic_types::scrolled;
use crate::indexes::values;
use crate::nodes::{TestEtcd, are_ideal, node, put, until, visited};
use crate::support::{NOTE, SERVICES, TestServer};

/// More than the minimum of `bucket-splitting`.
const LARGE: u32 = 1300;

/// Queries of a large group.
const QUERIES: [&str; 4] = [
    "select * from note where title contains 'note' order by stars desc limit 7",
    "select * from note where title contains '11' limit 20",
    "select * from note where stars > 900 order by stars limit 5 offset 3",
    "select * from note where true limit 0 | all(group(stars % 7) order(-count()) each(output(count(), sum(stars))))",
];

const INDEXES: &str =
    "<index-service><index name='by-stars' document='note'><key field='stars'/></index></index-service>";

/// A number, so that a bucket of other groups has the same one.
const LARGE_GROUP: &str = "3";

fn put_large(server: &TestServer, number: u32) {
    let path = format!("/document/v1/n/note/number/{LARGE_GROUP}/{number}");
    let body = json!({ "fields": { "title": format!("note {number}"), "stars": number } }).to_string();
    until(&path, &200, || server.call(Method::POST, &path, &body).0);
}

/// Result of a query of the group, without the details of its execution.
fn found(server: &TestServer, yql: &str) -> Value {
    let parameters = [("yql", yql), ("streaming.userid", LARGE_GROUP), ("timeout", "60s")];
    let (status, mut answer) = server.query(&parameters);
    if let Some(root) = answer["root"].as_object_mut() {
        root.remove("coverage");
    }
    json!([status, answer["root"]])
}

/// Ids of a page of the group from a continuation on, and the continuation after it.
fn page_of_group(server: &TestServer, continuation: Option<&str>) -> (Vec<String>, Option<String>) {
    let from = continuation.map_or(String::new(), |token| format!("&continuation={token}"));
    let path = format!("/document/v1/n/note/number/{LARGE_GROUP}/?wantedDocumentCount=50&timeout=120s{from}");
    let (status, answer) = server.get(&path);
    assert_eq!(status, 200, "{answer}");
    let documents = answer["documents"].as_array().cloned().unwrap_or_default();
    let ids = documents.iter().filter_map(|document| document["id"].as_str().map(str::to_owned)).collect();
    (ids, answer["continuation"].as_str().map(str::to_owned))
}

/// Checks that a visit which began when the group was whole has each document once, and the first ones, which
/// were there then.
fn check_visit(server: &TestServer, begun: &(Vec<String>, Option<String>), documents: u32) {
    let (mut ids, mut continuation) = begun.clone();
    assert!(continuation.is_some(), "a page has fewer documents than there are");
    while let Some(token) = continuation.take() {
        let (more, next) = page_of_group(server, Some(&token));
        ids.extend(more);
        continuation = next;
    }
    let distinct: BTreeSet<String> = ids.iter().cloned().collect();
    assert_eq!(ids.len(), distinct.len(), "each comes once");
    for number in 0..documents {
        let id = format!("id:n:note:n={LARGE_GROUP}:{number}");
        assert!(distinct.contains(&id), "{id} is missing among {} documents", ids.len());
    }
}

/// It is divided, is on all nodes, and is searched as if it were on one; a node is killed meanwhile, and in
/// the end the group is dropped.
#[test]
fn a_group_that_grows_too_large_is_shared_by_the_nodes() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let alone = TestServer::with_notes();
    let services = SERVICES
        .replace("<min-redundancy>1<", "<min-redundancy>2<")
        .replace("</documents>", &format!("</documents>{INDEXES}"))
        .replace("</content>", "<tuning><bucket-splitting max-documents='1024'/></tuning></content>");
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    let early = LARGE / 10;
    let mut begun = (Vec::new(), None);
    for number in 0..LARGE {
        if number == early {
            begun = page_of_group(&nodes[0], None);
        }
        put_large(&nodes[number as usize % 3], number);
        put_large(&alone, number);
    }
    // Other groups, so that a visit covers all; one is in the bucket of the group's number.
    put(&nodes[0], 1, 0);
    let beside = format!("/document/v1/n/note/number/{}/1", 3 + (1 << 20));
    until(&beside, &200, || nodes[0].call(Method::POST, &beside, r#"{"fields":{"title":"beside"}}"#).0);
    let check = |server: &TestServer, when: &str| {
        for yql in QUERIES {
            until(&format!("{when}: {yql}"), &found(&alone, yql), || found(server, yql));
        }
    };
    check(&nodes[1], "whole");
    for server in &nodes {
        until("divided", &Some(1), || server.get("/state/v1/cluster").1["divided_groups"].as_u64());
    }
    until("settled", &true, || are_ideal(&nodes));
    nodes.iter().for_each(|server| check(server, "divided"));
    // Each node answers by its index for its parts alone, though it has the entries of others.
    for server in &nodes {
        let mut streamed = None;
        until("divided: streamed", &true, || {
            streamed = values(server, "none");
            streamed.is_some()
        });
        until("divided: from the entries", &streamed, || values(server, "by-stars"));
    }
    nodes.iter().for_each(|server| check_visit(server, &begun, early));
    for server in &nodes {
        until("read beside it", &200, || server.get(&beside).0);
    }
    let status = nodes[0].millrace(&["status"]).stdout;
    assert!(String::from_utf8_lossy(&status).contains("1 large group is divided"));
    assert_eq!(visited(&nodes[2]).len(), LARGE as usize + 2);
    assert_eq!(scrolled(&nodes[1]).len(), LARGE as usize + 2, "at Elasticsearch's interfaces");

    // Writes and queries continue without one of the nodes.
    nodes[1].kill();
    for number in LARGE..LARGE + 20 {
        put_large(&nodes[0], number);
        put_large(&alone, number);
    }
    check(&nodes[2], "without b");
    nodes[1].start_again();
    nodes.iter().for_each(|server| check(server, "b is back"));
    assert_eq!(visited(&nodes[1]).len(), LARGE as usize + 22);

    let path = format!("/document/v1/n/note/number/{LARGE_GROUP}/?selection=true&cluster=notes&timeout=120s");
    let (status, answer) = nodes[2].call(Method::DELETE, &path, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(u64::from(LARGE) + 20)), "{answer}");
    for server in &nodes {
        until("dropped", &Some(0), || found(server, QUERIES[0])[1]["fields"]["totalCount"].as_u64());
        assert_eq!(visited(server).len(), 2);
    }
}
