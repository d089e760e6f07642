//! etcd hangs, is killed, or was never reachable.

use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::controller::RequestedNodeState;
use millrace_cluster::{ClusterState, ClusterVersion};
use millrace_coordination::{Coordination, EtcdCoordination, KeyOperation};
use millrace_membership::{ClusterMembership, NodeRole, PackagePublication, Settings};

use crate::etcd_process::EtcdProcess;
use crate::support::{MemberCluster, STEP_TIMEOUT, configuration, reaches, sees, shown};

/// Waits until a node's newest state is confirmed once more.
async fn confirmed(node: &ClusterMembership) {
    let before = node.confirmation();
    let version = || node.states().borrow().as_ref().map(|state| state.version());
    let again = || node.confirmation().filter(|now| Some(*now) != before && Some(now.version) == version());
    while again().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Nodes keep their states while etcd is away for longer than their leases last, and when it comes back.
#[tokio::test]
async fn losing_etcd_takes_no_node_out() {
    let Some(mut etcd) = EtcdProcess::start().await else { return };
    let address = etcd.address();
    let client = || {
        Arc::new(EtcdCoordination::new(&address, None).expect("it is an address")) as Arc<dyn Coordination>
    };
    let cluster = MemberCluster::by(client());
    let patient = |name| {
        let mut settings = cluster.settings(name);
        settings.lease = Duration::from_secs(2);
        // Nodes register again one after the other.
        settings.controller.settling = Duration::from_secs(60);
        settings.controller.grace = Duration::from_secs(60);
        settings
    };
    let join = async |name| ClusterMembership::join(client(), patient(name)).await.expect("it joins");
    let (a, b, c) = (join("a").await, join("b").await, join("c").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b", "c"])))
        .await
        .expect("it is published");
    let before = reaches(&c, "a:up b:up c:up").await;
    confirmed(&c).await;
    assert_eq!((c.coordination_lost_for(), c.serves()), (None, Ok(())));

    etcd.freeze();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let last = c.confirmation();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // There are no confirmations, and all nodes keep the last known state.
    assert_eq!(c.confirmation(), last);
    assert!(last.is_some_and(|last| last.at.elapsed() > Duration::from_secs(1)));
    assert_eq!(c.states().borrow().as_deref(), Some(&*before));
    assert!(c.refresh().await.is_err());
    while c.coordination_lost_for().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(c.serves(), Ok(()), "the cluster goes on as it is");
    etcd.thaw();
    for node in [&a, &b, &c] {
        confirmed(node).await;
        assert_eq!(node.coordination_lost_for(), None);
        let known = node.states().borrow().as_deref().map(shown);
        assert_eq!(known.as_deref(), Some("a:up b:up c:up"));
    }
    etcd.kill();
    tokio::time::sleep(Duration::from_millis(500)).await;
    etcd.restart().await;
    for node in [&a, &b, &c] {
        confirmed(node).await;
    }
    assert_eq!(c.states().borrow().as_deref(), Some(&*before), "states were made without need");
    sees(&c, |snapshot| snapshot.leader.is_some()).await;

    // A node that starts while etcd is away has its last known state.
    c.leave().await;
    drop(c);
    etcd.kill();
    let c = join("c").await;
    assert_eq!(c.states().borrow().as_deref(), Some(&*before));
    assert_eq!(c.confirmation(), None);
    while c.coordination_lost_for().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reason = c.serves().expect_err("the cluster knows its former run").to_string();
    assert!(reason.contains("(etcd) cannot be reached"), "{reason}");
    etcd.restart().await;
    confirmed(&c).await;
}

/// Nodes notice it by themselves, register again, and publish the state that they know.
#[tokio::test]
async fn nodes_go_on_when_etcd_is_restored_from_a_backup() {
    let Some(mut etcd) = EtcdProcess::start().await else { return };
    let address = etcd.address();
    let client = || {
        Arc::new(EtcdCoordination::new(&address, None).expect("it is an address")) as Arc<dyn Coordination>
    };
    let cluster = MemberCluster::by(client());
    let join =
        async |name| ClusterMembership::join(client(), cluster.settings(name)).await.expect("it joins");
    let (a, b) = (join("a").await, join("b").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b", "c"])))
        .await
        .expect("it is published");
    sees(&b, |snapshot| snapshot.package.is_some()).await;
    etcd.kill();
    let backup = etcd.backup();
    etcd.restart().await;
    let c = join("c").await;
    let before = reaches(&c, "a:up b:up c:up").await;
    a.request_state("b", RequestedNodeState::Retired, "to have one more state").await.expect("it is known");
    reaches(&c, "a:up b:retired c:up").await;

    etcd.kill();
    etcd.bring_back(backup);
    etcd.restart().await;
    let late = join("d").await;
    // The requested state is forgotten, and all running nodes take part.
    let after = reaches(&a, "a:up b:up c:up d:up").await;
    assert!(after.version() > before.version(), "{} {}", after.version(), before.version());
    for node in [&a, &b, &c, &late] {
        reaches(node, "a:up b:up c:up d:up").await;
        confirmed(node).await;
        let everybody = ["a", "b", "c", "d"];
        sees(node, |snapshot| everybody.iter().all(|name| snapshot.members.contains_key(*name))).await;
    }
}

/// Each node warns of the application in a restored backup, until one of them deploys again.
#[tokio::test]
async fn operators_are_warned_of_an_older_application_in_a_restored_backup() {
    let Some(mut etcd) = EtcdProcess::start().await else { return };
    let address = etcd.address();
    let client = || {
        Arc::new(EtcdCoordination::new(&address, None).expect("it is an address")) as Arc<dyn Coordination>
    };
    let cluster = MemberCluster::by(client());
    let join =
        async |name| ClusterMembership::join(client(), cluster.settings(name)).await.expect("it joins");
    let (a, b) = (join("a").await, join("b").await);
    let wanted = configuration(["a", "b"]);
    let publish = async |package: &'static [u8], generation, based_on| {
        let publication = PackagePublication {
            generation,
            based_on,
            ..PackagePublication::unconditional(package, &wanted)
        };
        a.publish(publication).await.expect("it is published").generation
    };
    assert_eq!(publish(b"first", 1, 0).await, 1);
    let seen = async |node: &ClusterMembership, wanted: u64| {
        sees(node, |snapshot| snapshot.package.as_ref().is_some_and(|package| package.generation == wanted))
            .await;
    };
    // Coordination counts as away until it has answered again.
    let of_application = |node: &ClusterMembership, active: u64| -> Vec<String> {
        let warnings = node.warnings(active).into_iter();
        warnings.filter(|warning| warning.contains("generation")).collect()
    };
    seen(&b, 1).await;
    etcd.kill();
    let backup = etcd.backup();
    etcd.restart().await;
    assert_eq!(publish(b"second", 2, 1).await, 2);
    for node in [&a, &b] {
        seen(node, 2).await;
        assert!(of_application(node, 2).is_empty());
        // It has activated the first alone as yet: no reason for a warning.
        assert!(of_application(node, 1).is_empty());
    }
    etcd.kill();
    etcd.bring_back(backup);
    etcd.restart().await;
    for node in [&a, &b] {
        seen(node, 1).await;
        let warnings = of_application(node, 2);
        let expected = "has generation 1 of the application, and this node has 2 active";
        assert!(warnings.len() == 1 && warnings[0].contains(expected), "{warnings:?}");
    }
    // The cure that the warning names.
    assert_eq!(publish(b"second", 3, 2).await, 3);
    for node in [&a, &b] {
        seen(node, 3).await;
        assert!(of_application(node, 3).is_empty());
    }
    etcd.kill();
    for node in [&a, &b] {
        while node.warnings(3).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(node.warnings(3)[0].contains("bring etcd back"));
    }
}

/// A leader without the newest state has made another one with the same number.
#[tokio::test]
async fn of_two_states_of_one_number_none_stays() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    let before = reaches(&a, "a:up b:up").await;
    reaches(&b, "a:up b:up").await;
    let mut nodes = before.nodes().clone();
    nodes.values_mut().for_each(|node| node.capacity = 7.0);
    let other = ClusterState::new(before.version(), nodes, before.distribution().clone());
    let other = other.expect("it is a state").to_json();
    cluster.coordination.apply(KeyOperation::put("/millrace/v1/state", other)).await.expect("it is put");
    for node in [&a, &b] {
        let mut states = node.states();
        let newer = |state: &Option<Arc<ClusterState>>| {
            state
                .as_ref()
                .is_some_and(|state| state.version() > before.version() && shown(state) == "a:up b:up")
        };
        let reached = tokio::time::timeout(STEP_TIMEOUT, states.wait_for(newer)).await;
        reached.expect("it goes by a newer one").expect("the node is there");
        confirmed(node).await;
    }
    assert_eq!(a.states().borrow().as_deref(), b.states().borrow().as_deref());
}

/// The former leader has ended: only this node can restore the state.
#[tokio::test]
async fn a_node_with_a_newer_state_restores_it() {
    let cluster = MemberCluster::new();
    let mut settings = cluster.settings("a");
    settings.roles = vec![NodeRole::Gateway, NodeRole::Content];
    let coordination = Arc::clone(&cluster.coordination);
    let a = ClusterMembership::join(coordination, settings).await.expect("it joins");
    let b = cluster.join("b").await;
    b.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    let before = reaches(&a, "a:up b:up").await;
    drop(b);
    let older = before.as_ref().clone().with_version(ClusterVersion::NONE).to_json();
    cluster.coordination.apply(KeyOperation::put("/millrace/v1/state", older)).await.expect("it is put");
    let now = async {
        loop {
            let there = cluster.coordination.get("/millrace/v1/state").await.expect("it is read");
            let there = there.and_then(|entry| ClusterState::from_json(&entry.value).ok());
            if there.as_ref() == Some(&*before) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(STEP_TIMEOUT, now).await.expect("it is brought back");
    confirmed(&a).await;
}

#[tokio::test]
async fn clusters_share_an_etcd_by_their_prefixes() {
    let Some(etcd) = EtcdProcess::start().await else { return };
    let cluster =
        MemberCluster::by(Arc::new(EtcdCoordination::new(&etcd.address(), None).expect("it is an address")));
    let join = async |name: &str, prefix: &str| {
        let settings = Settings { prefix: prefix.to_owned(), ..cluster.settings(name) };
        ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await.expect("it joins")
    };
    let (a, b) = (join("a", "/one").await, join("b", "/one-more/").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration([])))
        .await
        .expect("it is published");
    reaches(&a, "a:up").await;
    sees(&b, |snapshot| snapshot.members.contains_key("b")).await;
    assert!(b.package().is_none() && b.states().borrow().is_none());
}
