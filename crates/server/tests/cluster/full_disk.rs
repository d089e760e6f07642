//! A replica whose disk is full refuses the same requests as a single node, and accepts the rest. The answer
//! names its node; it is 507 only if no other replica has the write. Items of bulks are 429 in both cases.

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, count, node, services, until};
use crate::support::{NOTE, TestServer};

/// Number of groups; enough for each node to have replicas of some.
const GROUPS: u32 = 20;

fn write(node: &TestServer, method: Method, group: u32, stars: u32) -> (u16, Value) {
    let body = match method {
        Method::DELETE => String::new(),
        _ => json!({ "fields": { "stars": stars } }).to_string(),
    };
    node.call(method, &format!("/document/v1/notes/note/group/g{group}/1"), &body)
}

/// Checks that a bulk at a node, for the same documents, says the same of its items: shippers repeat 429.
fn check_bulk(node: &TestServer) {
    let line = |group: u32| {
        let action = json!({ "index": { "_index": "note", "_id": format!("id:notes:note:g=g{group}:1") } });
        format!("{action}\n{}\n", json!({ "stars": 2 }))
    };
    let body: String = (0..GROUPS).map(line).collect();
    let (status, answer) = node.call(Method::POST, "/elastic/_bulk", &body);
    assert_eq!(status, 200, "{answer}");
    let items = answer["items"].as_array().expect("items");
    let (written, refused): (Vec<_>, Vec<_>) =
        items.iter().map(|item| &item["index"]).partition(|item| item["status"] == 200);
    assert!(!written.is_empty() && !refused.is_empty(), "c has replicas of some: {answer}");
    for item in refused {
        let reason = item["error"]["reason"].as_str().unwrap_or_default();
        let is_named = reason.contains("node c") && reason.contains("disk-reserve");
        assert!(item["status"] == 429 && is_named, "{item}");
    }
}

#[test]
fn a_full_disk_on_a_replica_is_named_where_it_refuses_writes() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for group in 0..GROUPS {
        until("written", &200, || write(&nodes[0], Method::POST, group, 1).0);
    }
    // Larger than any disk, so that the reserve cannot be met.
    let settings = ["MILLRACE_CLUSTER", "MILLRACE_NAME", "MILLRACE_PEER_PORT"].map(|name| {
        let value = nodes[2].setting(name).to_owned();
        (name, value)
    });
    let mut settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, &**value)).collect();
    nodes[2].terminate();
    settings.push(("MILLRACE_DISK_RESERVE", "1000000000000000"));
    nodes[2].set_environment(&settings);
    nodes[2].start_again();
    until("c is back", &true, || are_ideal(&nodes));

    let mut refused = Vec::new();
    for group in 0..GROUPS {
        let (status, answer) = write(&nodes[group as usize % 3], Method::POST, group, 2);
        match status {
            200 => {}
            504 | 507 => {
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(message.contains("node c") && message.contains("disk-reserve"), "{message}");
                refused.push(group);
            }
            status => panic!("{status}: {answer}"),
        }
    }
    assert!((1..GROUPS as usize).contains(&refused.len()), "c has replicas of some: {refused:?}");
    for node in &nodes {
        check_bulk(node);
    }
    // Removals make room.
    for group in &refused {
        let (status, answer) = write(&nodes[0], Method::DELETE, *group, 0);
        assert_eq!(status, 200, "{answer}");
    }
    until("the others are there", &Some(u64::from(GROUPS) - refused.len() as u64), || count(&nodes[1]));

    settings.pop();
    nodes[2].terminate();
    nodes[2].set_environment(&settings);
    nodes[2].start_again();
    until("c has room", &true, || are_ideal(&nodes));
    for group in 0..GROUPS {
        until("written again", &200, || write(&nodes[1], Method::POST, group, 3).0);
    }
    until("all are there", &Some(u64::from(GROUPS)), || count(&nodes[2]));
}
