//! Copies of indexes are placed by the leader, made by the nodes, and known to all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_coordination::KeyOperation;
use millrace_index_placement::{
    CopyProgress, DefinitionHash, NodeCopyReport, NodeCopyReports, PlacedCopyState, PlacementAnswer,
    PlacementRequest, PlacementTable, RefusalKind, WantedIndex,
};
use millrace_membership::{ClusterMembership, DeclaredIndexes, Error, NodeRole, PackagePublication};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{MemberCluster, STEP_TIMEOUT, configuration, reaches, sees};

/// Time limit of requests that are answered.
const LONG: Duration = Duration::from_secs(60);

/// Declares one index of four slices, of which each has this number of copies.
fn declared(generation: u64, copies: u8) -> DeclaredIndexes {
    let index = WantedIndex::new(("mail", "due"), DefinitionHash(7), copies, 4).expect("valid numbers");
    DeclaredIndexes { generation, indexes: vec![index] }
}

/// Does at once all that the table gives a node, and reports it, until it is aborted.
fn works(node: &ClusterMembership) -> JoinHandle<()> {
    let (reports, reported) = watch::channel(Arc::new(NodeCopyReports::default()));
    let publishing = node.clone();
    let mut tables = node.placement();
    let node = node.clone();
    tokio::spawn(async move {
        let work = async {
            loop {
                if let (Some(table), Some(own)) = (tables.borrow_and_update().clone(), node.key()) {
                    let of_copy = |copy: &millrace_index_placement::PlacedCopy| {
                        let progress = match copy.state {
                            PlacedCopyState::Leaving => CopyProgress::Gone,
                            _ => CopyProgress::CaughtUp,
                        };
                        NodeCopyReport {
                            progress,
                            bytes: 100,
                            entries: 3,
                            done: 1.0,
                            seconds_left: None,
                            lag: None,
                            verified: None,
                        }
                    };
                    let copies = table.of_node(own).map(|(_, copy)| (copy.id, of_copy(copy))).collect();
                    reports.send_replace(Arc::new(NodeCopyReports { copies }));
                }
                if tables.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(work, publishing.publish_copy_reports(reported));
    })
}

/// Numbers of ready copies by the keys of nodes.
fn loads(table: &PlacementTable) -> BTreeMap<u16, usize> {
    let mut loads = BTreeMap::new();
    for (_, copy) in table.all_copies().filter(|(_, copy)| copy.is_ready()) {
        *loads.entry(copy.node.0).or_default() += 1;
    }
    loads
}

/// Waits until a node knows a table with this number of ready copies on each node, and nothing else.
async fn placed(node: &ClusterMembership, expected: &[(u16, usize)]) -> Arc<PlacementTable> {
    let expected: BTreeMap<u16, usize> = expected.iter().copied().collect();
    let mut tables = node.placement();
    let is_placed = |table: &Option<Arc<PlacementTable>>| {
        table.as_ref().is_some_and(|table| {
            loads(table) == expected
                && table.rebalance().is_none()
                && table.all_copies().all(|(_, copy)| copy.is_ready())
        })
    };
    let reached = match timeout(STEP_TIMEOUT, tables.wait_for(is_placed)).await {
        Ok(table) => table.expect("the node is there").clone(),
        Err(_) => None,
    };
    let known = node.placement().borrow().clone();
    reached.unwrap_or_else(|| panic!("{expected:?} is not reached, but {known:?}"))
}

async fn published<const N: usize>(node: &ClusterMembership, names: [&str; N]) -> u64 {
    let configuration = configuration(names);
    let publication = PackagePublication::unconditional(b"package", &configuration);
    node.publish(publication).await.expect("it is published").generation
}

#[tokio::test]
async fn copies_are_placed_and_known_after_a_restart() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let generation = published(&a, ["a", "b"]).await;
    reaches(&b, "a:up b:up").await;
    let (work_a, _work_b) = (works(&a), works(&b));
    // Without a declaration there is nothing in coordination.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let keys = || async { cluster.coordination.list("/millrace/v1/indexes/").await.expect("it is read").1 };
    assert!(keys().await.is_empty(), "{:?}", keys().await);
    for node in [&a, &b] {
        node.declare_indexes(declared(generation, 2));
    }
    let table = placed(&b, &[(0, 4), (1, 4)]).await;
    assert_eq!(placed(&a, &[(0, 4), (1, 4)]).await.version(), table.version());
    let overview = b.placement_overview();
    let bytes: u64 =
        table.all_copies().filter_map(|(_, copy)| overview.report(copy)).map(|of| of.bytes).sum();
    assert_eq!(bytes, 800, "every node knows the reports of all");
    // A node that cannot reach coordination knows the last table.
    work_a.abort();
    let version = a.placement().borrow().as_ref().map(|table| table.version());
    let kept = cluster.directory("a").join("index-copies");
    let is_kept = || std::fs::read(&kept).is_ok_and(|bytes| bytes == table.to_json());
    for _ in 0..600 {
        if is_kept() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(is_kept(), "it is kept on the disk");
    drop(a);
    let nowhere = MemberCluster::new();
    let mut settings = nowhere.settings("a");
    settings.directory = cluster.directory("a");
    let a = ClusterMembership::join(nowhere.coordination.clone(), settings).await.expect("it joins");
    assert_eq!(a.placement().borrow().as_ref().map(|table| table.version()), version);
}

#[tokio::test]
async fn a_node_that_comes_is_filled_and_one_without_the_role_is_not() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let generation = published(&a, ["a", "b"]).await;
    reaches(&b, "a:up b:up").await;
    let _works = (works(&a), works(&b));
    a.declare_indexes(declared(generation, 2));
    b.declare_indexes(declared(generation, 2));
    placed(&b, &[(0, 4), (1, 4)]).await;
    let mut settings = cluster.settings("c");
    settings.roles = vec![NodeRole::Content];
    let c = ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await.expect("it joins");
    reaches(&b, "a:up b:up c:up").await;
    let registered = sees(&b, |snapshot| snapshot.members.contains_key("c")).await;
    assert!(!registered.members["c"].indexes && registered.members["a"].indexes);
    let d = cluster.join("d").await;
    let _work = works(&d);
    // Eight copies on three nodes: the new one takes one from either.
    placed(&b, &[(0, 3), (1, 3), (3, 2)]).await;
    drop(c);
}

#[tokio::test]
async fn the_next_leader_goes_on_with_the_table() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    sees(&a, |snapshot| snapshot.leader.as_deref() == Some("a")).await;
    let b = cluster.join("b").await;
    let generation = published(&a, ["a", "b"]).await;
    reaches(&b, "a:up b:up").await;
    let (work_a, _work_b) = (works(&a), works(&b));
    a.declare_indexes(declared(generation, 1));
    let before = placed(&b, &[(0, 2), (1, 2)]).await;
    work_a.abort();
    a.leave().await;
    // The next leader does not know the application yet: it leaves the copies as they are.
    sees(&b, |snapshot| snapshot.leader.as_deref() == Some("b")).await;
    let answer = b.ask_leader(PlacementRequest::Stop, LONG).await.expect("an answer");
    let PlacementAnswer::Refused { kind: RefusalKind::Unavailable, reason } = answer else {
        panic!("{answer:?}");
    };
    assert!(reason.contains("the leader, b, does not have generation"), "{reason}");
    assert_eq!(b.placement().borrow().as_ref().map(|table| table.version()), Some(before.version()));
    b.declare_indexes(declared(generation, 1));
    placed(&b, &[(1, 4)]).await;
}

#[tokio::test]
async fn requests_are_answered_by_the_leader_whichever_node_is_asked() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    sees(&a, |snapshot| snapshot.leader.as_deref() == Some("a")).await;
    let b = cluster.join("b").await;
    let generation = published(&a, ["a", "b"]).await;
    reaches(&b, "a:up b:up").await;
    let _works = (works(&a), works(&b));
    let ask = |request| b.ask_leader(request, LONG);
    a.declare_indexes(DeclaredIndexes { generation, indexes: Vec::new() });
    let answer = ask(PlacementRequest::Rebalance { by: "b".to_owned() }).await.expect("an answer");
    let PlacementAnswer::Refused { kind: RefusalKind::Conflict, reason } = answer else {
        panic!("{answer:?}")
    };
    assert!(reason.contains("no index is placed"), "{reason}");
    a.declare_indexes(declared(generation, 1));
    placed(&b, &[(0, 2), (1, 2)]).await;
    let settings = PlacementRequest::settings(br#"{"batch":9}"#).expect("valid settings");
    assert_eq!(ask(settings).await.expect("an answer"), PlacementAnswer::Done);
    assert_eq!(b.placement_overview().table.settings().batch, 9, "who has asked knows the result");
    let slice = {
        let table = b.placement().borrow().clone().expect("a table");
        let (slice, _) = table.all_copies().find(|(_, copy)| copy.node.0 == 0).expect("a copy on a");
        slice.slice
    };
    let copy = format!(r#"{{"slice":{slice},"from":"a","to":"b"}}"#);
    let moved = |copy: &str| PlacementRequest::Move {
        content: "mail".to_owned(),
        name: "due".to_owned(),
        copy: millrace_index_placement::RequestedCopyMove::from_json(copy.as_bytes()).expect("a move"),
    };
    assert_eq!(ask(moved(&copy)).await.expect("an answer"), PlacementAnswer::Done);
    placed(&b, &[(0, 1), (1, 3)]).await;
    let answer = ask(moved(r#"{"slice":0,"from":"a","to":"z"}"#)).await.expect("an answer");
    let PlacementAnswer::Refused { kind: RefusalKind::Unknown, reason } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(reason, "no node 'z'; the cluster has a, b");
    assert_eq!(
        ask(PlacementRequest::Rebalance { by: "b".to_owned() }).await.expect("an answer"),
        PlacementAnswer::Done
    );
    placed(&b, &[(0, 2), (1, 2)]).await;
    let left = cluster.coordination.list("/millrace/v1/indexes/requests/").await.expect("it is read").1;
    assert!(left.is_empty(), "answers are taken away: {left:?}");
}

#[tokio::test]
async fn a_request_that_no_leader_answers_is_withdrawn() {
    let cluster = MemberCluster::new();
    let mut settings = cluster.settings("g");
    settings.roles = vec![NodeRole::Gateway];
    let g = ClusterMembership::join(Arc::clone(&cluster.coordination), settings).await.expect("it joins");
    sees(&g, |snapshot| snapshot.members.contains_key("g")).await;
    let outcome = g.ask_leader(PlacementRequest::Stop, Duration::from_millis(200)).await;
    let error = outcome.expect_err("nobody leads");
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    assert!(error.to_string().contains("has had no leader"), "{error}");
    let left = cluster.coordination.list("/millrace/v1/indexes/").await.expect("it is read").1;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_table_that_coordination_forgets_comes_back_under_a_higher_version() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let generation = published(&a, ["a", "b"]).await;
    reaches(&b, "a:up b:up").await;
    let _works = (works(&a), works(&b));
    a.declare_indexes(declared(generation, 1));
    b.declare_indexes(declared(generation, 1));
    let before = placed(&b, &[(0, 2), (1, 2)]).await;
    let copies =
        |table: &PlacementTable| -> Vec<u64> { table.all_copies().map(|(_, copy)| copy.id.0).collect() };
    let delete = KeyOperation::Delete("/millrace/v1/indexes/copies".to_owned());
    cluster.coordination.apply(delete).await.expect("it is deleted");
    let mut tables = b.placement();
    let newer = |table: &Option<Arc<PlacementTable>>| {
        table.as_ref().is_some_and(|table| table.version() > before.version())
    };
    let after =
        timeout(STEP_TIMEOUT, tables.wait_for(newer)).await.expect("in time").expect("the node is there");
    assert_eq!(copies(after.as_deref().expect("a table")), copies(&before), "no copy is made again");
}

#[tokio::test]
async fn a_table_of_a_newer_program_is_not_touched() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    let generation = published(&a, ["a"]).await;
    reaches(&a, "a:up").await;
    let newer = r#"{"format":2,"copies":"elsewhere"}"#;
    let put = KeyOperation::put("/millrace/v1/indexes/copies", newer);
    cluster.coordination.apply(put).await.expect("it is put");
    sees(&a, |snapshot| snapshot.leader.is_some()).await;
    a.declare_indexes(declared(generation, 1));
    let answer = a.ask_leader(PlacementRequest::Stop, LONG).await.expect("an answer");
    let PlacementAnswer::Refused { kind: RefusalKind::Unavailable, reason } = answer else {
        panic!("{answer:?}");
    };
    assert!(reason.contains("has format 2"), "{reason}");
    let there = cluster.coordination.get("/millrace/v1/indexes/copies").await.expect("it is read");
    assert_eq!(&*there.expect("it is there").value, newer.as_bytes());
    // The node is as good a leader of the cluster as before.
    assert_eq!(a.snapshots().borrow().leader.as_deref(), Some("a"));
}
