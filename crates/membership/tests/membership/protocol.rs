//! Data that nodes of other versions have written and read: the keys and values of each protocol are kept.
//!
//! Additions to a value are ignored by programs without them. If they must not be ignored, or if something is
//! removed or changes its meaning, the change belongs to the next protocol, and is written only where that is
//! spoken; see `millrace_cluster::PROTOCOL`.

use std::collections::BTreeSet;

use millrace_cluster::PROTOCOL;
use millrace_cluster::controller::{NodeRegistration, RequestedNodeState};
use millrace_coordination::{KeyCondition, KeyOperation, Transaction};
use millrace_membership::{
    ClusterMembership, CoordinationSnapshot, NodeRole, PackagePublication, PublishedPackage,
};
use serde_json::{Value, json};

use crate::support::{MemberCluster, configuration, reaches, sees};

const KEPT: &str = include_str!("protocol-1.txt");

/// Keys and values.
fn kept() -> impl Iterator<Item = (&'static str, Value)> {
    KEPT.lines().map(|line| {
        let (key, value) = line.split_once(' ').expect("a line is a key and a value");
        (key, serde_json::from_str(value).expect("values are JSON"))
    })
}

/// True if a value has all members of another, with equal values.
fn has_all(value: &Value, of: &Value) -> bool {
    match (value, of) {
        (Value::Object(value), Value::Object(of)) => {
            of.iter().all(|(name, of)| value.get(name).is_some_and(|value| has_all(value, of)))
        }
        (Value::Array(value), Value::Array(of)) => {
            value.len() == of.len() && value.iter().zip(of).all(|(value, of)| has_all(value, of))
        }
        _ => value == of,
    }
}

/// Value of a key in a snapshot, as it is written.
fn written(snapshot: &CoordinationSnapshot, key: &str) -> Value {
    let value = match key.strip_prefix("/millrace/v1/").expect("it is followed").split_once('/') {
        Some(("nodes", name)) => serde_json::to_value(&snapshot.members[name]),
        Some(("wishes", name)) => serde_json::to_value(&snapshot.requested_states[name]),
        _ => match key.rsplit('/').next() {
            Some("state") => {
                let state = snapshot.state.as_ref().expect("it can be read");
                serde_json::from_slice(&state.to_json())
            }
            Some("configuration") => serde_json::to_value(snapshot.configuration.as_deref()),
            Some("assignments") => serde_json::to_value(&snapshot.assignments),
            Some("package") => serde_json::to_value(&snapshot.package),
            Some("reasons") => serde_json::to_value(&snapshot.reasons),
            _ => panic!("what is {key}?"),
        },
    };
    value.expect("it has a JSON form")
}

#[tokio::test]
async fn keys_of_coordination_keep_their_form() {
    let cluster = MemberCluster::new();
    for (key, value) in kept() {
        cluster.coordination.apply(KeyOperation::put(key, value.to_string())).await.expect("it is put");
    }
    let mut settings = cluster.settings("z");
    settings.roles = vec![NodeRole::Gateway];
    let z = ClusterMembership::join(cluster.coordination.clone(), settings).await.expect("it joins");
    let seen = sees(&z, |snapshot| snapshot.members.contains_key("z")).await;
    for (key, value) in kept() {
        let again = written(&seen, key);
        assert!(has_all(&again, &value), "{key}: others know\n{value}\nand are told\n{again}");
    }
    assert_eq!(seen.members["a"].registration.protocol, 1, "whoever says none");
    assert_eq!(seen.state.as_ref().map(|state| state.protocol()), Some(1));
}

#[tokio::test]
async fn nodes_write_where_they_ever_did() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    reaches(&b, "a:up b:up").await;
    for (name, state) in [("a", RequestedNodeState::Maintenance), ("b", RequestedNodeState::Retired)] {
        a.request_state(name, state, "").await.expect("it is known");
    }
    sees(&b, |snapshot| !snapshot.reasons.is_empty()).await;
    let entries = cluster.coordination.list("/millrace/").await.expect("they are listed").1;
    let keys: BTreeSet<&str> = entries.iter().map(|entry| &*entry.key).collect();
    for (key, _) in kept().filter(|(key, _)| !key.ends_with("wishes/c") && !key.ends_with("wishes/d")) {
        assert!(keys.contains(key), "{key} is not among {keys:?}");
    }
    assert!(keys.iter().any(|key| key.starts_with("/millrace/packages/00000000000000000001-")), "{keys:?}");
    assert!(keys.contains("/millrace/v1/leader"));
}

#[tokio::test]
async fn an_older_program_neither_follows_nor_leads_a_newer_cluster() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a"])))
        .await
        .expect("it is published");
    let own = reaches(&a, "a:up").await;
    sees(&a, |snapshot| snapshot.leader.is_some()).await;
    // The others have taken over, and all speak the next protocol.
    let mut newer: Value = serde_json::from_slice(&own.to_json()).expect("it is JSON");
    newer["version"] = json!(own.version().number() + 5);
    newer["protocol"] = json!(PROTOCOL + 1);
    newer["nodes"]["0"]["state"] = json!("something of its own");
    let put = KeyOperation::put("/millrace/v1/state", newer.to_string());
    let put = cluster.coordination.apply(put).await.expect("it is put").revision;
    sees(&a, |snapshot| snapshot.leader.is_none()).await;
    assert_eq!(a.states().borrow().as_ref().map(|state| state.version()), Some(own.version()));
    // After a restart, it knows the last state that it could read.
    drop(a);
    let a = cluster.join("a").await;
    sees(&a, |snapshot| snapshot.members.contains_key("a")).await;
    assert_eq!(a.confirmation(), None);
    // The values of the others are unchanged. Once all values can be read, the node continues.
    newer["protocol"] = json!(PROTOCOL);
    newer["nodes"]["0"]["state"] = json!("up");
    let readable = Transaction::new()
        .when(KeyCondition::Changed("/millrace/v1/state".to_owned(), put))
        .then(KeyOperation::put("/millrace/v1/state", newer.to_string()));
    assert!(cluster.coordination.transact(readable).await.expect("it is asked").held, "it was overwritten");
    sees(&a, |snapshot| snapshot.leader.as_deref() == Some("a")).await;
    let next = reaches(&a, "a:up").await;
    assert!(next.version().number() >= own.version().number() + 5, "{}", next.version());
}

#[test]
fn fields_that_were_added_to_a_protocol_are_optional_and_stay_as_they_are() {
    let package =
        r#"{"generation":7,"id":"7-1","bytes":577,"hash":"c4","dropped":{"memo":1795316001042330}}"#;
    let full = r#"{"address":"b:1","incarnation":5,"adopted":0,"stopping":false,"capacity":1.0,"group":[],"too_large":[],"out_of_space":true,"protocol":1}"#;
    let package_again: PublishedPackage = serde_json::from_str(package).expect("a package");
    let full_again: NodeRegistration = serde_json::from_str(full).expect("a registration");
    assert_eq!(serde_json::to_string(&package_again).expect("JSON"), package);
    assert_eq!(serde_json::to_string(&full_again).expect("JSON"), full);
}
