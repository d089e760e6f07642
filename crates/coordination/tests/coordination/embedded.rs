//! The file of the embedded coordination.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_coordination::{Coordination, EmbeddedCoordination, Error, KeyOperation, PrefixWatch};
use millrace_env::{DiskFault, FaultyDisk, PowerLossDisk, RealDisk};

fn open(directory: &Path) -> Arc<dyn Coordination> {
    Arc::new(EmbeddedCoordination::open(directory).expect("it opens"))
}

#[tokio::test]
async fn a_restart_keeps_what_no_lease_holds() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let before = open(directory.path());
    before.apply(KeyOperation::put("a", [0, 255, 10])).await.expect("it is put");
    let lease = before.grant(Duration::from_secs(60)).await.expect("it is granted");
    before.apply(KeyOperation::put_leased("b", "1", lease)).await.expect("it is put");
    let (revision, mut entries) = before.list("").await.expect("they are listed");
    entries.retain(|entry| entry.lease.is_none());
    drop(before);
    let after = open(directory.path());
    assert_eq!(after.list("").await.expect("they are listed"), (revision, entries));
    assert_eq!(after.keep_alive(lease).await, Err(Error::LeaseLost));
    let next = after.apply(KeyOperation::put("c", "1")).await.expect("it is put");
    assert!(next.revision > revision);
}

#[tokio::test]
async fn a_watch_from_a_forgotten_revision_gets_the_difference() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let coordination = open(directory.path());
    let mut watch = PrefixWatch::new(Arc::clone(&coordination), "a");
    watch.next().await;
    for number in 0..1100 {
        coordination.apply(KeyOperation::put("a", number.to_string())).await.expect("it is put");
    }
    let seen = watch.next().await;
    assert_eq!(seen.len(), 1);
    assert_eq!(&*watch.entries()["a"].value, b"1099");
}

#[tokio::test]
async fn what_could_not_be_written_has_not_happened() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = Arc::new(FaultyDisk::new(Arc::new(RealDisk)));
    let embedded = EmbeddedCoordination::open_on(disk.clone(), directory.path()).expect("it opens");
    let coordination: Arc<dyn Coordination> = Arc::new(embedded);
    coordination.apply(KeyOperation::put("a", "1")).await.expect("it is put");
    disk.inject(DiskFault::FailSync);
    let failed = coordination.apply(KeyOperation::put("a", "2")).await;
    assert!(matches!(failed, Err(Error::Disk(_))), "{failed:?}");
    let value = coordination.get("a").await.expect("it is read").expect("it is there").value;
    assert_eq!(&*value, b"1");
    disk.heal();
    coordination.apply(KeyOperation::put("b", "1")).await.expect("it is put");
    let reopened = open(directory.path()).list("").await.expect("they are listed").1;
    assert_eq!(reopened.len(), 2);
}

#[tokio::test]
async fn a_loss_of_power_forgets_nothing_that_was_applied() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let [root, kept, left] = ["root", "kept", "left"].map(|name| place.path().join(name));
    [&root, &kept].iter().for_each(|path| std::fs::create_dir(path).expect("it is made"));
    let disk = Arc::new(PowerLossDisk::new(&root, &kept));
    let embedded = EmbeddedCoordination::open_on(disk.clone(), &root.join("cluster/one")).expect("it opens");
    let coordination: Arc<dyn Coordination> = Arc::new(embedded);
    for round in 1..=3 {
        coordination.apply(KeyOperation::put("a", round.to_string())).await.expect("it is put");
        let left = left.join(round.to_string());
        disk.lose_power(&left).expect("it is copied");
        let value =
            open(&left.join("cluster/one")).get("a").await.expect("it is read").expect("it is there").value;
        assert_eq!(&*value, round.to_string().as_bytes());
    }
}

#[test]
fn a_damaged_file_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("coordination");
    for bytes in [&b""[..], b"{}", b"0123456789abcdef\n{\"revision\":1,\"entries\":[]}"] {
        std::fs::write(&path, bytes).expect("it is written");
        let refused = EmbeddedCoordination::open(directory.path()).err().expect("it is damaged").to_string();
        assert!(refused.contains("coordination is damaged") && refused.contains("backup"), "{refused}");
    }
}

#[tokio::test]
async fn the_file_is_written_as_ever() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("coordination");
    let a = r#"{"key":"a","value":"AP8K","created":2,"changed":3}"#;
    let kept = format!("0aa097098bf2ec09\n{{\"revision\":3,\"entries\":[{a}]}}");
    std::fs::write(&path, kept).expect("it is written");
    let coordination = open(directory.path());
    let (revision, entries) = coordination.list("").await.expect("they are listed");
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((&*entry.key, &*entry.value), ("a", &[0, 255, 10][..]));
    assert_eq!((revision.0, entry.created.0, entry.changed.0), (3, 2, 3));
    coordination.apply(KeyOperation::put("b", "1")).await.expect("it is put");
    let written = std::fs::read_to_string(&path).expect("it is read");
    let b = r#"{"key":"b","value":"MQ==","created":4,"changed":4}"#;
    let expected = format!("{{\"revision\":4,\"entries\":[{a},{b}]}}");
    assert_eq!(written.split_once('\n').expect("a checksum, and the keys").1, expected);
}
