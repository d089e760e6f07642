//! Logs at Elasticsearch's interfaces of a cluster: nodes are killed, come back, and drop old partitions.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, node, node_with, services, until};
use crate::support::{NOTE, TestServer, free_port};

/// Documents of a bulk.
const IN_BULK: u64 = 20;

fn call(server: &TestServer, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.call(method, &format!("/elastic{path}"), &body)
}

/// Writes a bulk; returns the numbers of the documents that are acknowledged.
fn bulk(server: &TestServer, number: u64) -> Vec<u64> {
    let numbers = number * IN_BULK..(number + 1) * IN_BULK;
    let line =
        |n: u64| format!("{{\"create\":{{}}}}\n{}\n", json!({ "@timestamp": n, "n": n, "text": "a word" }));
    let body: String = numbers.clone().map(line).collect();
    let (status, answer) = server.call(Method::POST, "/elastic/logs-a-b/_bulk", &body);
    if status != 200 {
        return Vec::new();
    }
    let items = answer["items"].as_array().expect("items").iter();
    let is_written = |item: &Value| item["create"]["status"] == 201;
    items.zip(numbers).filter(|(item, _)| is_written(item)).map(|(_, n)| n).collect()
}

/// Numbers of the documents that a search finds; none if it fails.
fn found(server: &TestServer) -> BTreeSet<u64> {
    let query = json!({ "size": 10_000, "query": { "match": { "text": "word" } } });
    let (status, answer) = call(server, Method::POST, "/logs-a-b/_search", &query);
    let hits = answer["hits"]["hits"].as_array().filter(|_| status == 200).cloned().unwrap_or_default();
    hits.iter().filter_map(|hit| hit["_source"]["n"].as_u64()).collect()
}

/// Checks that searches at these nodes come to find all of these documents.
fn check_found(nodes: &[&TestServer], acknowledged: &BTreeSet<u64>) {
    for server in nodes {
        until("acknowledged documents are found", &0, || acknowledged.difference(&found(server)).count());
    }
}

/// Status of the cluster, and the number of its nodes, as a node says.
fn health_at(server: &TestServer) -> (Value, Value) {
    let answer = call(server, Method::GET, "/_cluster/health", &Value::Null).1;
    (answer["status"].clone(), answer["number_of_nodes"].clone())
}

fn health(status: &str, nodes: u64) -> (Value, Value) {
    (json!(status), json!(nodes))
}

#[test]
fn clients_learn_where_all_nodes_are() {
    let Some(etcd) = TestEtcd::start() else { return };
    let ports = [free_port(), free_port()].map(|port| port.to_string());
    let with_port = |name: &str, port: &str| node_with(&etcd, name, &[("MILLRACE_ELASTIC_PORT", port)]);
    let nodes = [with_port("a", &ports[0]), with_port("b", &ports[1]), node(&etcd, "c")];
    until("deployed", &200, || {
        nodes[0].deploy(&[("services.xml", &services(2)), ("schemas/note.sd", NOTE)]).0
    });
    let address = |port: &String| json!(format!("127.0.0.1:{port}"));
    let expected = json!({ "a": address(&ports[0]), "b": address(&ports[1]), "c": null });
    for server in &nodes {
        until("all nodes are named", &expected, || {
            let answer = call(server, Method::GET, "/_nodes/http", &Value::Null).1;
            let address = |name: &str| answer["nodes"][name]["http"]["publish_address"].clone();
            json!({ "a": address("a"), "b": address("b"), "c": address("c") })
        });
    }
    let local = call(&nodes[2], Method::GET, "/_nodes/_local", &Value::Null).1;
    let named: Vec<&str> = local["nodes"].as_object().expect("nodes").keys().map(String::as_str).collect();
    assert_eq!(named, ["c"], "{local}");
    until("all nodes serve", &health("green", 3), || health_at(&nodes[0]));
}

#[test]
fn logs_outlive_any_one_node_and_are_dropped_on_all() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    until("deployed", &200, || {
        nodes[0].deploy(&[("services.xml", &services(2)), ("schemas/note.sd", NOTE)]).0
    });
    until("settled", &true, || are_ideal(&nodes));
    let template = json!({
        "index_patterns": ["logs-*"],
        "data_stream": {},
        "template": { "settings": { "index.mode": "logsdb" } },
    });
    until("the template", &200, || call(&nodes[0], Method::PUT, "/_index_template/logs", &template).0);
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    let mut write = |nodes: &[&TestServer], acknowledged: &mut BTreeSet<u64>| {
        for server in nodes.iter().cycle().take(12) {
            acknowledged.extend(bulk(server, number));
            number += 1;
        }
    };
    write(&[&nodes[0], &nodes[1], &nodes[2]], &mut acknowledged);
    assert_eq!(acknowledged.len() as u64, 12 * IN_BULK, "nothing is refused while all nodes are there");
    let shards = call(&nodes[0], Method::GET, "/logs-a-b/_settings?flat_settings=true", &Value::Null).1;
    assert!(shards.to_string().contains("\"index.number_of_shards\":\"6\""), "{shards}");
    check_found(&[&nodes[0], &nodes[1], &nodes[2]], &acknowledged);

    // Each is killed in turn, one of them the one with the catalog; writes go on meanwhile.
    for gone in 0..3 {
        nodes[gone].kill();
        let others = [&nodes[(gone + 1) % 3], &nodes[(gone + 2) % 3]];
        let before = acknowledged.len();
        write(&others, &mut acknowledged);
        check_found(&others, &acknowledged);
        until("two nodes serve", &health("yellow", 2), || health_at(others[0]));
        write(&others, &mut acknowledged);
        assert!(acknowledged.len() > before, "writes go on without node {gone}");
        nodes[gone].start_again();
        until("settled", &true, || are_ideal(&nodes));
        until("all nodes serve", &health("green", 3), || health_at(&nodes[gone]));
        check_found(&[&nodes[gone]], &acknowledged);
    }

    let lifecycle = json!({ "data_retention": "1s" });
    until("the lifecycle", &200, || {
        call(&nodes[1], Method::PUT, "/_data_stream/logs-a-b/_lifecycle", &lifecycle).0
    });
    until("dropped", &json!(0), || {
        call(&nodes[2], Method::GET, "/logs-a-b/_count", &Value::Null).1["count"].clone()
    });
    // They are dropped soon, too.
    until("the data stream takes documents on", &true, || {
        write(&[&nodes[0]], &mut acknowledged);
        !found(&nodes[2]).is_empty()
    });
}
