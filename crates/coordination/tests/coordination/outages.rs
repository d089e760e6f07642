//! Outages of etcd: killed, frozen, or restored from a backup. Changes that were seen stay known, and none is
//! missed.

use std::sync::Arc;
use std::time::Duration;

use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use millrace_coordination::{
    Coordination, Election, Error, EtcdCoordination, KeyChange, KeyOperation, LeaseKeeper, PrefixWatch,
};
use tokio::time::timeout;

use crate::etcd_process::EtcdProcess;

/// Time limit, longer than any step here takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

fn client(etcd: &EtcdProcess) -> Arc<dyn Coordination> {
    Arc::new(EtcdCoordination::new(&etcd.address(), None).expect("it is an address"))
}

async fn put(coordination: &Arc<dyn Coordination>, key: &str, value: &str) {
    coordination.apply(KeyOperation::put(key, value)).await.expect("it is put");
}

/// Values that a watch reports until one of them is `last`.
async fn values_until(watch: &mut PrefixWatch, last: &str) -> Vec<String> {
    let mut values = Vec::new();
    let told = async {
        while values.last().is_none_or(|value| value != last) {
            for change in watch.next().await {
                match change {
                    KeyChange::Put(entry) => values.push(String::from_utf8_lossy(&entry.value).into_owned()),
                    KeyChange::Deleted { key, .. } => values.push(format!("-{key}")),
                }
            }
        }
    };
    timeout(STEP_TIMEOUT, told).await.expect("it is told in time");
    values
}

#[tokio::test]
async fn a_watch_goes_on_where_it_stopped_when_etcd_was_killed() {
    let Some(mut etcd) = EtcdProcess::start().await else { return };
    let coordination = client(&etcd);
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "a/");
    put(&coordination, "a/1", "one").await;
    assert_eq!(values_until(&mut watch, "one").await, ["one"]);
    etcd.kill();
    let read = coordination.get("a/1").await;
    assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
    // Known entries stay, for as long as the outage lasts.
    assert!(timeout(Duration::from_millis(500), watch.next()).await.is_err());
    assert_eq!(watch.entries().len(), 1);
    etcd.restart().await;
    let other = client(&etcd);
    put(&other, "a/1", "two").await;
    put(&other, "a/2", "three").await;
    other.apply(KeyOperation::Delete("a/1".to_owned())).await.expect("it is deleted");
    put(&other, "a/3", "four").await;
    assert_eq!(values_until(&mut watch, "four").await, ["two", "three", "-a/1", "four"]);
}

#[tokio::test]
async fn a_watch_reads_everything_where_changes_are_forgotten() {
    let Some(etcd) = EtcdProcess::start().await else { return };
    let coordination = client(&etcd);
    put(&coordination, "a/1", "one").await;
    put(&coordination, "a/2", "two").await;
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "a/");
    assert_eq!(values_until(&mut watch, "two").await, ["one", "two"]);
    // The stream has not been opened yet: the following changes are compacted before it is.
    put(&coordination, "a/1", "lost").await;
    put(&coordination, "a/1", "kept").await;
    coordination.apply(KeyOperation::Delete("a/2".to_owned())).await.expect("it is deleted");
    let last = coordination.apply(KeyOperation::put("b", "elsewhere")).await.expect("it is put").revision;
    compact(&etcd, last.0).await;
    assert_eq!(values_until(&mut watch, "kept").await, ["-a/2", "kept"]);
    put(&coordination, "a/3", "three").await;
    assert_eq!(values_until(&mut watch, "three").await, ["three"]);
}

/// Covers revisions lower than those seen, and revisions that other changes have raised beyond them.
#[tokio::test]
async fn a_watch_starts_over_where_etcd_was_restored_from_a_backup() {
    for others in [0, 20] {
        let Some(mut etcd) = EtcdProcess::start().await else { return };
        let coordination = client(&etcd);
        let mut watch = PrefixWatch::new(Arc::clone(&coordination), "a/");
        put(&coordination, "a/1", "one").await;
        put(&coordination, "a/2", "stays").await;
        etcd.kill();
        let backup = etcd.backup();
        etcd.restart().await;
        for value in ["two", "three", "four"] {
            put(&coordination, "a/1", value).await;
        }
        put(&coordination, "a/3", "new").await;
        assert_eq!(values_until(&mut watch, "new").await, ["four", "stays", "new"]);
        assert_eq!(watch.histories(), 1);
        etcd.kill();
        etcd.bring_back(backup);
        etcd.restart().await;
        let other = client(&etcd);
        for number in 0..others {
            put(&other, "b", &number.to_string()).await;
        }
        put(&other, "a/4", "after").await;
        // First the deleted keys, then the changed ones.
        assert_eq!(values_until(&mut watch, "after").await, ["-a/3", "one", "after"]);
        assert_eq!(watch.histories(), 2);
        put(&other, "a/1", "later").await;
        assert_eq!(values_until(&mut watch, "later").await, ["later"]);
    }
}

async fn compact(etcd: &EtcdProcess, revision: u64) {
    let client = NodeClient::new(&etcd.url(), HttpProtocol::Http1).expect("it is an address");
    let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
    let request =
        OutgoingRequest::new(hyper::Method::POST, "/v3/kv/compaction").body("application/json", body);
    client.send(request).await.and_then(millrace_client::ClientAnswer::checked).expect("it is compacted");
}

/// The holder believes in its lease no longer than etcd does, though it receives no answer.
#[tokio::test]
async fn a_lease_is_lost_when_etcd_stands_still_for_longer_than_it_lasts() {
    let Some(etcd) = EtcdProcess::start().await else { return };
    let coordination = client(&etcd);
    // Longer than a machine under load stands still.
    let ttl = Duration::from_secs(10);
    let lease = LeaseKeeper::grant(Arc::clone(&coordination), ttl).await.expect("it is granted");
    let election = Election::new(Arc::clone(&coordination), "leader");
    let leadership = election.campaign("first", &lease).await.expect("it leads");
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "leader");
    assert_eq!(values_until(&mut watch, "first").await, ["first"]);
    etcd.freeze();
    timeout(STEP_TIMEOUT, lease.lost()).await.expect("it is lost without a word from etcd");
    assert!(lease.kept_alive().is_none());
    let read = coordination.get("leader").await;
    assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
    let write = coordination.apply(KeyOperation::put("a", "1")).await;
    assert!(matches!(write, Err(Error::Unknown { .. })), "{write:?}");
    assert_eq!(watch.entries().len(), 1, "what was seen is forgotten");
    etcd.thaw();
    let next = LeaseKeeper::grant(Arc::clone(&coordination), ttl * 10).await.expect("it is granted");
    let led = timeout(STEP_TIMEOUT, election.campaign("second", &next)).await.expect("it leads in time");
    assert!(led.expect("it leads") != leadership);
    assert_eq!(values_until(&mut watch, "second").await, ["-leader", "second"]);
}

#[tokio::test]
async fn another_member_is_asked_where_one_is_not_there() {
    let Some(etcd) = EtcdProcess::start().await else { return };
    let dead = millrace_env::free_port().expect("a port is free");
    let list = etcd.address().replace("etcd://", &format!("etcd://127.0.0.1:{dead},"));
    let coordination: Arc<dyn Coordination> =
        Arc::new(EtcdCoordination::new(&list, None).expect("they are addresses"));
    put(&coordination, "a/1", "one").await;
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "a/");
    assert_eq!(values_until(&mut watch, "one").await, ["one"]);
}

#[test]
fn what_is_no_address_is_refused() {
    #[track_caller]
    fn check(address: &str, expected: &str) {
        let refused = EtcdCoordination::new(address, None).err().expect("it is refused").to_string();
        assert!(refused.contains(expected) && refused.contains("etcd://host:2379"), "{refused}");
    }
    check("localhost:2379", "does not begin with etcd://");
    check("etcd://", "'' is not a host");
    check("etcd://a:2379,,b:2379", "'' is not a host");
    check("etcd://a:notaport", "'a:notaport' has no number for a port");
    check("etcd://me@a:2379", "more than a host and a port");
    EtcdCoordination::new("etcds://a,[::1]:2380/", None).expect("they are addresses");
}
