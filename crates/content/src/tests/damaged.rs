//! Replicas with damaged files: they are reported as incomplete, and filled from others.

use millrace_cluster::NodeFailure;
use millrace_replication::replica::StorageWork;

use super::*;

/// Damages the oldest file.
fn cut_first_segment(directory: &TempDir) {
    let segments = std::fs::read_dir(directory.path().join("segments")).expect("listed");
    let first = segments.map(|entry| entry.expect("an entry").path()).min().expect("there is one");
    let bytes = std::fs::read(&first).expect("read");
    std::fs::remove_file(&first).expect("removed");
    std::fs::write(&first, &bytes[..bytes.len() / 2]).expect("written");
}

/// Damage in the file of one replica keeps no other from being reported.
#[test]
fn a_damaged_replica_is_reported_as_incomplete_and_filled() {
    let runtime = Runtime::new().expect("a runtime");
    let (source, node) = (ModelledNode::new(&runtime), ModelledNode::new(&runtime));
    let start = start();
    for group in [0, 1] {
        let bucket = bucket_of(group);
        for (of, origin) in [(&source, ReplicaOrigin::Complete), (&node, ReplicaOrigin::Incomplete)] {
            of.replicas.create(bucket, origin).expect("it can be made");
            of.model.create(bucket, origin).expect("a model can be made");
        }
        source.apply(&[version_of(start, group, 0, 1), version_of(start, group, 1, 2)]);
        // Each has a file of its own.
        node.pull(bucket, &source, PullMode::Whole);
        node.replicas.complete(bucket).expect("it is there");
    }
    cut_first_segment(&node.directory);
    let node = node.restart(&runtime);
    let found = node.replicas.replicas(&|_| true, Timestamp(0)).expect("both are reported");
    let shown = found.iter().map(|(bucket, info)| (*bucket, info.complete, info.content.documents));
    assert_eq!(shown.collect::<Vec<_>>(), [(bucket_of(0), false, 0), (bucket_of(1), true, 2)]);
    let contents = [0, 1].map(|_| node.replicas.replica(bucket_of(0), Timestamp(0)).expect("it is reported"));
    assert_eq!(equal(&contents), [true, false, false, true], "it is not made complete as it is");
    let expected = contents[0].expect("it is reported").content;
    let refused = StorageWork::Complete { bucket: bucket_of(0), expected }.run(&*node.replicas);
    let file = |reason: &str| reason.contains(".seg");
    assert!(
        matches!(&refused, NodeResponse::Failed(NodeFailure::Storage { reason }) if file(reason)),
        "its owner shows why: {refused:?}"
    );
    node.replicas.read(bucket_of(0), &id(0, 0)).expect_err("it cannot be read");
    node.pull(bucket_of(0), &source, PullMode::Whole);
    for group in [0, 1] {
        let infos = [&node, &source].map(|of| of.info(bucket_of(group)).0);
        assert_eq!(equal(&infos), [true; 4], "{infos:?}");
    }
    assert!(!node.info(bucket_of(0)).0.expect("it is there").complete, "its owner says when it is");
}

/// A complete replica can be empty: nothing is copied, and the damaged file leaves all the same.
#[test]
fn a_damaged_replica_is_filled_from_an_empty_one() {
    let runtime = Runtime::new().expect("a runtime");
    let (source, node) = (ModelledNode::new(&runtime), ModelledNode::new(&runtime));
    let bucket = bucket_of(0);
    for of in [&source, &node] {
        of.replicas.create(bucket, ReplicaOrigin::Complete).expect("it can be made");
        of.model.create(bucket, ReplicaOrigin::Complete).expect("a model can be made");
    }
    node.apply(&[version_of(start(), 0, 0, 1)]);
    node.replicas.store().seal().expect("sealed");
    cut_first_segment(&node.directory);
    let node = node.restart(&runtime);
    node.pull(bucket, &source, PullMode::Whole);
    let infos = [&node, &source].map(|of| of.info(bucket).0);
    assert_eq!(equal(&infos), [true; 4], "{infos:?}");
}

/// A node that joins a cluster reports also those of its contents that cannot be read.
#[test]
fn damaged_contents_from_before_a_cluster_are_incomplete_replicas() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let replicas = open(&directory);
    replicas.apply(&[&version_of(start(), 0, 0, 1)]).remove(0).expect("it is written");
    replicas.store().seal().expect("sealed");
    drop(replicas);
    cut_first_segment(&directory);
    for _ in 0..2 {
        let found = open(&directory).replicas(&|_| true, Timestamp(0)).expect("all are reported");
        let are_complete: Vec<bool> = found.iter().map(|(_, info)| info.complete).collect();
        assert_eq!(are_complete, [false; 1 << BITS], "the file can have documents of each");
    }
}
