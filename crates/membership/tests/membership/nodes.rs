//! Nodes come, stop, end and lead.

use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::controller::RequestedNodeState;
use millrace_cluster::{ClusterConfiguration, ClusterState, DividedGroup};
use millrace_coordination::KeyOperation;
use millrace_membership::{
    ClusterMembership, ConfirmedState, CoordinationSnapshot, Error, NodeRole, PackagePublication,
    RegisteredNode, Settings,
};
use tokio::time::timeout;

use crate::support::{MemberCluster, STEP_TIMEOUT, configuration, reaches, sees, shown};

/// Joins a node that, when it leads, has absent nodes under maintenance for this time.
async fn join_with(cluster: &MemberCluster, name: &str, transition: Duration) -> ClusterMembership {
    let mut settings = cluster.settings(name);
    settings.controller.transition = transition;
    ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await.expect("it joins")
}

#[tokio::test]
async fn nodes_join_stop_and_are_missed() {
    let cluster = MemberCluster::new();
    // Long enough for the test to see what a node is meanwhile.
    let transition = Duration::from_secs(5);
    let a = join_with(&cluster, "a", transition).await;
    let b = join_with(&cluster, "b", transition).await;
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    let both = reaches(&b, "a:up b:up").await;
    assert_eq!(both.nodes()[&b.key().expect("it has a key")].address, "b:19100");
    // An unlisted node.
    let c = join_with(&cluster, "c", transition).await;
    let all = reaches(&b, "a:up b:up c:up").await;
    assert!(all.version() > both.version());
    // A stopping node announces it before it leaves.
    c.stopping().await;
    assert!(reaches(&a, "a:up b:up c:maintenance").await.version() > all.version());
    c.leave().await;
    reaches(&a, "a:up b:up c:down").await;
    // A node that disappears without notice.
    drop(b);
    reaches(&a, "a:up b:maintenance c:down").await;
    reaches(&a, "a:up b:down c:down").await;
    // It comes back at once, under its own name and key.
    let b = cluster.join("b").await;
    reaches(&b, "a:up b:up c:down").await;
}

#[tokio::test]
async fn another_leads_when_the_leader_is_gone() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    sees(&a, |snapshot| snapshot.leader.as_deref() == Some("a")).await;
    a.publish(PackagePublication::unconditional(b"package", &configuration([])))
        .await
        .expect("it is published");
    // It is a majority of the first state by itself, and others know that it has ended only from its
    // announcement.
    reaches(&a, "a:up").await;
    let _b = cluster.join("b").await;
    let mut settings = cluster.settings("g");
    settings.roles = vec![NodeRole::Gateway];
    let gateway =
        ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await.expect("it joins");
    // A node without buckets is not part of the state.
    let before = reaches(&gateway, "a:up b:up").await;
    assert_eq!(gateway.key(), None);
    a.leave().await;
    sees(&gateway, |snapshot| snapshot.leader.as_deref() == Some("b")).await;
    let after = reaches(&gateway, "a:down b:up").await;
    assert!(after.version() > before.version());
}

#[tokio::test]
async fn others_know_what_a_node_has_adopted_and_that_its_lease_has_ended() {
    let cluster = MemberCluster::new();
    let join = async |name| join_with(&cluster, name, Duration::from_secs(600)).await;
    let (a, b, c) = (join("a").await, join("b").await, join("c").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b", "c"])))
        .await
        .expect("it is published");
    let all = reaches(&a, "a:up b:up c:up").await;
    assert!(all.nodes().values().all(|node| !node.lease_ended));
    b.adopted(all.version());
    let adopted = |snapshot: &Arc<millrace_membership::CoordinationSnapshot>| {
        snapshot.members["b"].registration.adopted
    };
    sees(&a, |snapshot| adopted(snapshot) == all.version()).await;
    // It only stops responding; its lease ends by itself.
    drop(b);
    let without = reaches(&c, "a:up b:maintenance c:up").await;
    let ended: Vec<bool> = without.nodes().values().map(|node| node.lease_ended).collect();
    assert_eq!(ended, [false, true, false]);
}

#[tokio::test]
async fn groups_that_a_node_sees_to_be_too_large_are_divided_for_all() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    reaches(&b, "a:up b:up").await;
    let groups = [(7, 39), (u32::MAX, 40)].map(DividedGroup::from);
    a.too_large(groups.into());
    let divided = |state: &ClusterState| state.spread().groups().eq(groups);
    sees(&b, |snapshot| snapshot.state.as_deref().is_some_and(divided)).await;
}

#[tokio::test]
async fn a_node_that_cannot_take_documents_is_replaced() {
    let cluster = MemberCluster::new();
    let (a, b, c) = (cluster.join("a").await, cluster.join("b").await, cluster.join("c").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b", "c"])))
        .await
        .expect("it is published");
    reaches(&a, "a:up b:up c:up").await;
    b.out_of_space();
    let retired = reaches(&a, "a:up b:retired c:up").await;
    // It gives up without an announcement: the others need not wait for its lease to end, although its
    // process is still there.
    b.abandon().await;
    let missed = reaches(&c, "a:up b:down c:up").await;
    assert!(missed.version() > retired.version());
    assert!(b.snapshots().borrow().state.is_some(), "it is still there");
}

#[tokio::test]
async fn requested_states_reach_the_state() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    reaches(&b, "a:up b:up").await;
    let request = async |state| b.request_state("a", state, "for the test").await.expect("it is known");
    assert!(request(RequestedNodeState::Retired).await);
    reaches(&a, "a:retired b:up").await;
    assert!(!request(RequestedNodeState::Retired).await);
    assert!(request(RequestedNodeState::Removed).await);
    reaches(&a, "b:up").await;
    assert!(request(RequestedNodeState::Up).await);
    reaches(&a, "a:up b:up").await;
    let refused =
        b.request_state("c", RequestedNodeState::Up, "").await.expect_err("there is none").to_string();
    assert_eq!(refused, "no node 'c'; the cluster has a, b");
}

/// The node that leads warns of it, and of nothing once there is a node for each replica.
#[tokio::test]
async fn a_cluster_with_fewer_nodes_than_replicas_is_warned_of() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let wanted = ClusterConfiguration { redundancy: 3, ..configuration(["a", "b"]) };
    a.publish(PackagePublication::unconditional(b"package", &wanted)).await.expect("it is published");
    reaches(&a, "a:up b:up").await;
    let warnings = |nodes: &[&ClusterMembership]| -> Vec<String> {
        let all = nodes.iter().flat_map(|node| node.warnings(0));
        all.filter(|warning| warning.contains("min-redundancy")).collect()
    };
    let pause = || tokio::time::sleep(Duration::from_millis(10));
    while warnings(&[&a, &b]).len() != 1 {
        pause().await;
    }
    let warning = warnings(&[&a, &b]).concat();
    assert!(warning.contains("for 3 replicas of each document, and 2 of the nodes"), "{warning}");
    let c = cluster.join("c").await;
    reaches(&c, "a:up b:up c:up").await;
    while !warnings(&[&a, &b, &c]).is_empty() {
        pause().await;
    }
}

#[tokio::test]
async fn a_node_that_was_removed_comes_back_by_itself_only_with_nothing() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a"])))
        .await
        .expect("it is published");
    reaches(&a, "a:up b:up").await;
    b.leave().await;
    a.request_state("b", RequestedNodeState::Removed, "").await.expect("it is removed");
    reaches(&a, "a:up").await;

    // It has data: an operator has to decide.
    let b = cluster.join("b").await;
    let cure = "millrace node up b";
    let snapshot =
        sees(&a, |snapshot| snapshot.reasons.get("b").is_some_and(|reason| reason.contains(cure))).await;
    assert_eq!(snapshot.state.as_deref().map(shown).as_deref(), Some("a:up"));
    sees(&b, |snapshot| snapshot.state.is_some() && !snapshot.requested_states.is_empty()).await;
    assert!(b.serves().is_err_and(|reason| reason.to_string().contains(cure)));
    b.leave().await;
    sees(&a, |snapshot| !snapshot.members.contains_key("b")).await;

    // It has no data: it counts as a new node.
    let empty = Settings { is_empty: true, ..cluster.settings("b") };
    let b = ClusterMembership::join(Arc::clone(&cluster.coordination), empty).await.expect("it joins");
    reaches(&b, "a:up b:up").await;
    assert_eq!(b.serves(), Ok(()));
    // Removed while it runs, it stays out.
    a.request_state("b", RequestedNodeState::Removed, "").await.expect("it is removed");
    reaches(&a, "a:up").await;
    sees(&b, |snapshot| snapshot.reasons.get("b").is_some_and(|reason| reason.contains(cure))).await;
    assert!(b.serves().is_err());
    assert!(a.snapshots().borrow().requested_states.contains_key("b"));
}

#[tokio::test]
async fn a_name_is_one_directorys() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    sees(&a, |snapshot| snapshot.members.contains_key("a")).await;
    let mut settings = cluster.settings("a");
    settings.directory = cluster.directory("elsewhere");
    let refused = ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await;
    assert!(matches!(refused.err(), Some(Error::NameTaken { address, .. }) if address == "a:19100"));
    // A restart does not have to wait until the absence of the previous process is noticed.
    let before = sees(&a, |_| true).await.members["a"].registration.incarnation;
    drop(a);
    let again = cluster.join("a").await;
    let incarnation = |member: &RegisteredNode| member.registration.incarnation;
    sees(&again, |snapshot| snapshot.members.get("a").is_some_and(|a| incarnation(a) > before)).await;
    for name in ["", "a/b", "ü", &"x".repeat(101)] {
        let refused =
            ClusterMembership::join(Arc::clone(&cluster.coordination), cluster.settings(name)).await;
        assert!(matches!(refused.err(), Some(Error::Name(_))), "{name}");
    }
}

#[tokio::test]
async fn the_newest_state_is_confirmed_again_and_again() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a"])))
        .await
        .expect("it is published");
    let version = reaches(&a, "a:up").await.version();
    let mut last = None;
    while last.is_none() {
        last = a.confirmation().filter(|confirmation| confirmation.version == version);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while a.confirmation() == last {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(a.confirmation().map(|confirmation| confirmation.version), Some(version));
}

/// Nodes do not own by a state before it is confirmed.
#[tokio::test]
async fn another_state_is_confirmed_at_once() {
    let cluster = MemberCluster::new();
    let mut settings = cluster.settings("a");
    settings.confirm = Duration::from_secs(3600);
    let a = ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await.expect("it joins");
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b"])))
        .await
        .expect("it is published");
    let b = cluster.join("b").await;
    for (state, expected) in
        [(RequestedNodeState::Up, "a:up b:up"), (RequestedNodeState::Retired, "a:up b:retired")]
    {
        sees(&b, |snapshot| snapshot.names().contains("b")).await;
        b.request_state("b", state, "a test").await.expect("it is known");
        let version = reaches(&a, expected).await.version();
        let mut confirmations = a.confirmations();
        let it = |confirmation: &Option<ConfirmedState>| confirmation.is_some_and(|it| it.version == version);
        let _ = timeout(STEP_TIMEOUT, confirmations.wait_for(it)).await.expect("it is confirmed");
    }
}

/// The leader, whichever node it is, restores the contents that coordination lost, with increasing versions.
#[tokio::test]
async fn versions_continue_after_coordination_was_reset() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    a.publish(PackagePublication::unconditional(b"package", &configuration([])))
        .await
        .expect("it is published");
    let before = reaches(&a, "a:up").await;
    a.leave().await;
    cluster.coordination.apply(KeyOperation::DeletePrefix("/".to_owned())).await.expect("it is emptied");
    let a = cluster.join("a").await;
    assert_eq!(a.states().borrow().as_deref(), Some(&*before));
    a.publish(PackagePublication::unconditional(b"package", &configuration([])))
        .await
        .expect("it is published");
    let mut states = a.states();
    let newer = |version| {
        move |state: &Option<_>| {
            state
                .as_ref()
                .is_some_and(|state: &Arc<millrace_cluster::ClusterState>| state.version() > version)
        }
    };
    let state = states.wait_for(newer(before.version())).await.expect("the node is there").clone();
    assert_eq!(state.map(|state| state.version()), Some(before.version().next()));
    assert_eq!(
        a.refresh().await.expect("it is read").map(|state| state.version()),
        Some(before.version().next())
    );
}

#[tokio::test]
async fn notes_are_written_while_what_was_read_is_true_and_known_to_all() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let note = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
    let text = |snapshot: &CoordinationSnapshot, name: &str| {
        snapshot.notes.get(name).map(|note| String::from_utf8_lossy(&note.value).into_owned())
    };
    let first = [note("plan", "one"), note("plan/a", "begun")];
    assert!(a.note("plan", None, &first).await.expect("it is answered"));
    // The writer knows it at once.
    assert_eq!(text(&a.snapshots().borrow(), "plan/a").as_deref(), Some("begun"));
    assert!(!b.note("plan", None, &[note("plan", "two")]).await.expect("it is answered"));
    let known = Arc::clone(&b.snapshots().borrow());
    assert_eq!(text(&known, "plan").as_deref(), Some("one"), "what there was is known after a refusal");
    let changed = known.notes["plan"].changed;
    let second = [note("plan", "two"), ("plan/a".to_owned(), None)];
    assert!(b.note("plan", Some(changed), &second).await.expect("it is answered"));
    sees(&a, |snapshot| {
        text(snapshot, "plan").as_deref() == Some("two") && text(snapshot, "plan/a").is_none()
    })
    .await;
    assert!(!a.note("plan", Some(changed), &[note("plan/a", "late")]).await.expect("it is answered"));
    assert_eq!(text(&a.snapshots().borrow(), "plan/a"), None);
}
