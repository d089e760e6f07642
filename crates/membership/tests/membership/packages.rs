//! Application packages.

use std::sync::Arc;

use millrace_cluster::DroppedTypes;
use millrace_coordination::KeyOperation;
use millrace_document::Timestamp;
use millrace_membership::{Error, PACKAGE_BYTES_MAX, PackagePublication};

use crate::support::{MemberCluster, configuration, sees};

/// Bytes that differ from each other.
fn archive(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ seed).collect()
}

#[tokio::test]
async fn a_package_reaches_all_nodes_and_those_that_come_later() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    for (length, generation) in [(1_300_000, 1), (0, 2), (1, 3), (512 << 10, 4)] {
        let archive = archive(length, generation as u8);
        let published = a
            .publish(PackagePublication::unconditional(&archive, &configuration(["a", "b"])))
            .await
            .expect("it is published");
        assert_eq!(published.generation, generation);
        let seen = sees(&b, |snapshot| snapshot.package.as_ref() == Some(&published)).await;
        assert_eq!(seen.configuration.as_deref(), Some(&configuration(["a", "b"])));
        assert!(b.fetch(&published).await.expect("it is fetched") == archive);
        b.activated(generation);
        sees(&a, |snapshot| snapshot.members.get("b").is_some_and(|b| b.generation == generation)).await;
    }
    // Generations that a node has counted by itself are skipped.
    let published = b
        .publish(PackagePublication {
            generation: 40,
            ..PackagePublication::unconditional(b"last", &configuration(["a"]))
        })
        .await
        .expect("it is published");
    assert_eq!(published.generation, 40);
    let c = cluster.join("c").await;
    let seen = sees(&c, |snapshot| snapshot.package.is_some()).await;
    assert_eq!(c.fetch(seen.package.as_ref().expect("it is there")).await.expect("it is fetched"), b"last");
    // No parts of earlier packages remain.
    let left = cluster.coordination.list("/millrace/packages/").await.expect("they are listed").1;
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn of_two_packages_at_a_time_one_is_refused() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let (one, other) = (archive(3 << 20, 1), archive(3 << 20, 2));
    let wanted = configuration([]);
    let (first, second) = tokio::join!(
        a.publish(PackagePublication::unconditional(&one, &wanted)),
        b.publish(PackagePublication::unconditional(&other, &wanted))
    );
    let (winner, archive, loser) = match (first, second) {
        (Ok(package), Err(error)) => (package, one, error),
        (Err(error), Ok(package)) => (package, other, error),
        (first, second) => panic!("{first:?} and {second:?}"),
    };
    assert!(matches!(loser, Error::Conflict(1)), "{loser}");
    assert!(a.fetch(&winner).await.expect("it is fetched") == archive);
    let left = cluster.coordination.list("/millrace/packages/").await.expect("they are listed").1;
    assert_eq!(left.len(), 6);
}

#[tokio::test]
async fn what_is_not_what_was_published_is_refused() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    let published = a
        .publish(PackagePublication::unconditional(&archive(1 << 20, 1), &configuration([])))
        .await
        .expect("it is published");
    let fetched = async || a.fetch(&published).await.err().map(|error| error.to_string()).unwrap_or_default();
    let part = format!("/millrace/packages/{}/000001", published.id);
    cluster.coordination.apply(KeyOperation::put(&*part, vec![0; 512 << 10])).await.expect("it is put");
    assert!(fetched().await.contains("generation 1 of the application cannot be read: its parts do not fit"));
    cluster.coordination.apply(KeyOperation::Delete(part)).await.expect("it is deleted");
    assert!(fetched().await.contains("a part is not there any more"));
    let too_large = a
        .publish(PackagePublication::unconditional(&vec![0; PACKAGE_BYTES_MAX + 1], &configuration([])))
        .await;
    assert!(matches!(too_large, Err(Error::PackageSize { .. })));
    assert_eq!(Arc::clone(&a.snapshots().borrow()).package.as_ref(), Some(&published));
}

#[tokio::test]
async fn a_package_that_was_checked_against_an_older_one_is_refused() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    let wanted = configuration(["a"]);
    let based_on =
        |based_on| PackagePublication { based_on, ..PackagePublication::unconditional(b"package", &wanted) };
    assert_eq!(a.publish(based_on(0)).await.expect("it is the first").generation, 1);
    let stale = a.publish(based_on(0)).await;
    assert!(matches!(stale, Err(Error::Conflict(1))), "{stale:?}");
    assert_eq!(a.publish(based_on(1)).await.expect("it is the next").generation, 2);
    // Coordination was restored from a backup: nodes have a newer package, which this one was checked
    // against.
    let next = PackagePublication { generation: 8, ..based_on(7) };
    assert_eq!(a.publish(next).await.expect("it brings the cluster forward").generation, 8);
}

#[tokio::test]
async fn the_list_of_removed_types_only_grows() {
    let cluster = MemberCluster::new();
    let a = cluster.join("a").await;
    let wanted = configuration(["a"]);
    let publish = async |removals: &[(&str, u64)]| {
        let mut dropped = DroppedTypes::default();
        removals.iter().for_each(|(name, at)| dropped.add(name, Timestamp(*at)));
        let publication = PackagePublication {
            dropped: &dropped,
            ..PackagePublication::unconditional(b"package", &wanted)
        };
        let published = a.publish(publication).await.expect("it is published");
        let dropped = published.dropped.expect("this version tells");
        dropped.iter().map(|(name, at)| format!("{name}:{}", at.0)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(publish(&[]).await, "");
    assert_eq!(publish(&[("memo", 5)]).await, "memo:5");
    assert_eq!(publish(&[("mail", 6), ("memo", 3)]).await, "mail:6 memo:5");
    assert_eq!(publish(&[("memo", 9)]).await, "mail:6 memo:9");
    // A program without the field has published in between; the record then has only the removals that the
    // next publisher knows.
    let key = "/millrace/v1/package";
    let entry = cluster.coordination.get(key).await.expect("it answers").expect("it is there");
    let mut record: serde_json::Value = serde_json::from_slice(&entry.value).expect("JSON");
    record.as_object_mut().expect("an object").remove("dropped");
    cluster.coordination.apply(KeyOperation::put(key, record.to_string())).await.expect("it is put");
    let seen =
        sees(&a, |snapshot| snapshot.package.as_ref().is_some_and(|package| package.dropped.is_none())).await;
    assert_eq!(seen.package.as_ref().map(|package| package.generation), Some(4));
    assert_eq!(publish(&[("memo", 9)]).await, "memo:9");
}
