//! Cases that hold for every implementation: run over the embedded one and over etcd.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use millrace_coordination::{
    Coordination, Election, EmbeddedCoordination, Error, EtcdCoordination, KeyChange, KeyCondition,
    KeyOperation, LeaseKeeper, PrefixWatch, Transaction, VALUE_BYTES_MAX,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::etcd_process::EtcdProcess;

/// A case; its keys begin with its name, so that all cases can run concurrently in one store.
type Case = fn(Arc<dyn Coordination>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const CASES: &[(&str, Case)] = &[
    ("transactions", |c| Box::pin(transactions(c))),
    ("refusals", |c| Box::pin(refusals(c))),
    ("counting", |c| Box::pin(counting(c))),
    ("leases", |c| Box::pin(leases(c))),
    ("expiry", |c| Box::pin(expiry(c))),
    ("keeping", |c| Box::pin(keeping(c))),
    ("watching", |c| Box::pin(watching(c))),
    ("election", |c| Box::pin(election(c))),
];

/// Time limit, longer than any step here takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Duration of a lease, longer than a machine under load stands still.
const TTL: Duration = Duration::from_secs(10);

async fn check(coordination: Arc<dyn Coordination>) {
    let mut running = JoinSet::new();
    for (name, case) in CASES {
        let case = case(Arc::clone(&coordination));
        running.spawn(
            async move { timeout(STEP_TIMEOUT, case).await.unwrap_or_else(|_| panic!("{name} hangs")) },
        );
    }
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    check(Arc::new(EmbeddedCoordination::open(directory.path()).expect("it opens"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd() {
    let Some(etcd) = EtcdProcess::start().await else { return };
    check(Arc::new(EtcdCoordination::new(&etcd.address(), None).expect("it is an address"))).await;
}

async fn put(coordination: &Arc<dyn Coordination>, key: &str, value: &str) {
    coordination.apply(KeyOperation::put(key, value)).await.expect("it is put");
}

/// Keys with their values that begin with `prefix`, as one string.
async fn shown(coordination: &Arc<dyn Coordination>, prefix: &str) -> String {
    let (_, entries) = coordination.list(prefix).await.expect("they are listed");
    let shown =
        entries.iter().map(|entry| format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)));
    shown.collect::<Vec<_>>().join(" ")
}

async fn transactions(coordination: Arc<dyn Coordination>) {
    let c = &coordination;
    assert_eq!(c.get("t/a").await.expect("it is read"), None);
    let create = Transaction::new()
        .when(KeyCondition::Absent("t/a".to_owned()))
        .then(KeyOperation::put("t/a", "1"))
        .then(KeyOperation::put("t/b", "1"))
        .otherwise(KeyOperation::List("t/".to_owned()));
    let first = c.transact(create.clone()).await.expect("it is done");
    assert!(first.held);
    let second = c.transact(create).await.expect("it is done");
    assert!(!second.held);
    let (a, b) = (&second.entries(0)[0], &second.entries(0)[1]);
    // Both were created at one revision, which is that of the transaction.
    assert_eq!((a.created, b.changed), (first.revision, first.revision));

    // A value changes only for a client that has seen the newest one.
    let swap = |seen, value| {
        let seen = KeyCondition::Changed("t/a".to_owned(), seen);
        Transaction::new().when(seen).then(KeyOperation::put("t/a", value))
    };
    let changed = c.transact(swap(a.changed, "2")).await.expect("it is done");
    assert!(changed.held && changed.revision > first.revision);
    assert!(!c.transact(swap(a.changed, "3")).await.expect("it is done").held);
    assert_eq!(shown(c, "t/").await, "t/a=2 t/b=1");

    // A key that was deleted and put again is another one.
    let same = Transaction::new().when(KeyCondition::Created("t/a".to_owned(), first.revision));
    assert!(c.transact(same.clone()).await.expect("it is done").held);
    c.apply(KeyOperation::Delete("t/a".to_owned())).await.expect("it is deleted");
    assert!(!c.transact(same.clone()).await.expect("it is done").held);
    put(c, "t/a", "4").await;
    assert!(!c.transact(same).await.expect("it is done").held);

    // A prefix selects the keys that begin with it, and no others.
    for key in ["t", "t-", "t/\u{10ffff}", "t0", "u"] {
        put(c, key, "x").await;
    }
    assert_eq!(shown(c, "t/").await, "t/a=4 t/b=1 t/\u{10ffff}=x");
    let keys = c.apply(KeyOperation::Keys("t/".to_owned())).await.expect("they are listed");
    assert!(keys.entries(0).len() == 3 && keys.entries(0).iter().all(|entry| entry.value.is_empty()));
    c.apply(KeyOperation::DeletePrefix("t/".to_owned())).await.expect("they are deleted");
    assert_eq!(shown(c, "t").await, "t=x t-=x t0=x");
}

async fn refusals(coordination: Arc<dyn Coordination>) {
    let refused = async |transaction| coordination.transact(transaction).await.expect_err("it is refused");
    let twice = Transaction::new().then(KeyOperation::put("r/a", "1")).then(KeyOperation::put("r/a", "2"));
    assert!(matches!(refused(twice).await, Error::Refused(reason) if reason.contains("twice")));
    let long = Transaction::new().then(KeyOperation::put("r/a", vec![0; VALUE_BYTES_MAX + 1]));
    assert!(matches!(refused(long).await, Error::Refused(_)));
    assert_eq!(shown(&coordination, "r/").await, "");
    let longest = KeyOperation::put("r/long", vec![255; VALUE_BYTES_MAX]);
    coordination.apply(longest).await.expect("the longest value is taken");
    let read = coordination.get("r/long").await.expect("it is read").expect("it is there");
    assert!(read.value.len() == VALUE_BYTES_MAX && read.value.iter().all(|byte| *byte == 255));
}

/// Many clients add to one number, and no addition is lost.
async fn counting(coordination: Arc<dyn Coordination>) {
    put(&coordination, "count", "0").await;
    let mut adding = JoinSet::new();
    for _ in 0..4 {
        let coordination = Arc::clone(&coordination);
        adding.spawn(async move {
            let mut added = 0;
            while added < 10 {
                let seen = coordination.get("count").await.expect("it is read").expect("it is there");
                let number: u64 = String::from_utf8_lossy(&seen.value).parse().expect("it is a number");
                let add = Transaction::new()
                    .when(KeyCondition::Changed("count".to_owned(), seen.changed))
                    .then(KeyOperation::put("count", (number + 1).to_string()));
                added += u64::from(coordination.transact(add).await.expect("it is done").held);
            }
        });
    }
    adding.join_all().await;
    assert_eq!(shown(&coordination, "count").await, "count=40");
}

/// Keys end with their lease, and nothing can be bound to a lease that has ended.
async fn leases(coordination: Arc<dyn Coordination>) {
    let c = &coordination;
    let lease = LeaseKeeper::grant(Arc::clone(c), TTL * 10).await.expect("it is granted");
    let id = lease.id();
    c.apply(KeyOperation::put_leased("l/a", "1", id)).await.expect("it is put");
    c.apply(KeyOperation::put_leased("l/b", "1", id)).await.expect("it is put");
    assert_eq!(c.get("l/a").await.expect("it is read").and_then(|entry| entry.lease), Some(id));
    // Putting a key without the lease detaches it from the lease.
    put(c, "l/b", "2").await;
    assert!(lease.kept_alive().is_some());
    lease.release().await.expect("it is given back");
    assert_eq!(shown(c, "l/").await, "l/b=2");
    let late = c.apply(KeyOperation::put_leased("l/a", "3", id)).await;
    assert_eq!(late, Err(Error::LeaseLost));
    assert_eq!(c.keep_alive(id).await, Err(Error::LeaseLost));
    assert_eq!(c.revoke(id).await, Ok(()));
    assert_eq!(shown(c, "l/").await, "l/b=2");
}

/// A lease that is not kept alive expires, and watches of its keys see it.
async fn expiry(coordination: Arc<dyn Coordination>) {
    let lease = coordination.grant(TTL).await.expect("it is granted");
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "e/");
    assert_eq!(watch.next().await, []);
    coordination.apply(KeyOperation::put_leased("e/a", "1", lease)).await.expect("it is put");
    assert!(matches!(&watch.next().await[..], [KeyChange::Put(entry)] if entry.lease == Some(lease)));
    assert!(matches!(&watch.next().await[..], [KeyChange::Deleted { key, .. }] if key == "e/a"));
    assert_eq!(coordination.keep_alive(lease).await, Err(Error::LeaseLost));
}

/// A lease that keeps itself alive outlasts its duration, and still reports its loss.
async fn keeping(coordination: Arc<dyn Coordination>) {
    let lease = LeaseKeeper::grant(Arc::clone(&coordination), TTL).await.expect("it is granted");
    coordination.apply(KeyOperation::put_leased("k", "1", lease.id())).await.expect("it is put");
    tokio::time::sleep(TTL * 2).await;
    assert!(lease.kept_alive().is_some());
    assert_eq!(shown(&coordination, "k").await, "k=1");
    coordination.revoke(lease.id()).await.expect("it is ended");
    lease.lost().await;
    assert!(lease.kept_alive().is_none());
}

/// Every change is seen once and in order, those of one transaction together.
async fn watching(coordination: Arc<dyn Coordination>) {
    put(&coordination, "w/before", "1").await;
    put(&coordination, "w", "not watched").await;
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "w/");
    assert!(matches!(&watch.next().await[..], [KeyChange::Put(entry)] if entry.key == "w/before"));
    let writer = {
        let coordination = Arc::clone(&coordination);
        tokio::spawn(async move {
            for number in 0..50 {
                let pair = Transaction::new()
                    .then(KeyOperation::put("w/a", number.to_string()))
                    .then(KeyOperation::put("w/b", number.to_string()));
                coordination.transact(pair).await.expect("it is done");
            }
            coordination.apply(KeyOperation::DeletePrefix("w/".to_owned())).await.expect("it is deleted");
        })
    };
    let mut seen = Vec::new();
    while !watch.entries().is_empty() {
        let changes = watch.next().await;
        let both = watch.entries().get("w/a").map(|entry| &entry.value)
            == watch.entries().get("w/b").map(|entry| &entry.value);
        assert!(both, "a transaction was torn apart");
        seen.extend(changes);
    }
    writer.await.expect("the writer ends");
    let values = seen.iter().filter_map(|change| match change {
        KeyChange::Put(entry) if entry.key == "w/a" => {
            Some(String::from_utf8_lossy(&entry.value).into_owned())
        }
        _ => None,
    });
    assert_eq!(values.collect::<Vec<_>>(), (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(seen.iter().filter(|change| matches!(change, KeyChange::Deleted { .. })).count(), 3);
}

/// One candidate leads at a time, and a former leader can do nothing in its name.
async fn election(coordination: Arc<dyn Coordination>) {
    let lease = || LeaseKeeper::grant(Arc::clone(&coordination), TTL * 10);
    let (first, second) = (lease().await.expect("it is granted"), lease().await.expect("it is granted"));
    let election = Arc::new(Election::new(Arc::clone(&coordination), "leader"));
    let leadership = election.campaign("first", &first).await.expect("it leads");
    // A second campaign is not a second leadership.
    assert_eq!(election.campaign("first", &first).await, Ok(leadership.clone()));
    let waiting = {
        let election = Arc::clone(&election);
        tokio::spawn(async move { (election.campaign("second", &second).await, second) })
    };
    let write = |guard| Transaction::new().when(guard).then(KeyOperation::put("led", "1"));
    let led = async |guard| coordination.transact(write(guard)).await.expect("it is done").held;
    assert!(led(leadership.guard()).await);
    assert_eq!(shown(&coordination, "leader").await, "leader=first");
    assert!(!waiting.is_finished());
    first.release().await.expect("it is given back");
    let (next, second) = waiting.await.expect("it ends");
    let next = next.expect("it leads");
    assert_eq!(shown(&coordination, "leader").await, "leader=second");
    assert!(!led(leadership.guard()).await);
    assert!(led(next.guard()).await);
    // A candidate that has lost its lease does not lead, even if no other one does.
    let id = second.id();
    coordination.revoke(id).await.expect("it is ended");
    assert!(!led(next.guard()).await);
    assert_eq!(election.campaign("second", &second).await, Err(Error::LeaseLost));
}
