//! Document counts of a store: never lower than the actual number, and equal to it once the documents are in
//! one file.

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_store::{Store, StoreOptions, StoreTuning, StoreVisit};

use crate::common::{open, visited};
use crate::late::{NOW, apply, infos, small, version};
use crate::transfer::{bytes, import};

const BITS: u8 = 4;
const CLUSTER_BITS: u8 = 8;

fn options(directory: &std::path::Path) -> StoreOptions {
    let tuning = StoreTuning { split_bits: BITS, split_documents: 100_000, ..small(directory).tuning };
    StoreOptions { tuning, ..small(directory) }
}

fn found(store: &Store) -> u64 {
    let visit = StoreVisit { wanted: 10_000, ..StoreVisit::all(&["mail", "note"]) };
    visited(store, &visit).len() as u64
}

/// Four files of about one size, of mails in groups and of notes without one; each has some versions of
/// documents in the previous one.
fn fill(store: &Store) {
    for round in 0..4_u64 {
        let numbers = round * 500..round * 500 + 600;
        let mails = numbers.clone().map(|number| format!("id:n:mail:g=user{}:{number}", number % 190));
        let notes = numbers.map(|number| format!("id:n:note::{number}"));
        let written = |(at, id): (usize, String)| version(&id, NOW - 400 + round, at % 9 != 0).0;
        apply(store, mails.chain(notes).enumerate().map(written).collect());
        store.seal().expect("sealed");
        let (counted, there) = (store.status().documents, found(store));
        assert!(counted >= there && counted <= there + 300 * (round + 1), "{counted} of {there}");
    }
}

#[test]
fn merging_moving_and_giving_up_buckets_lose_no_document_from_the_count() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(|directory| open(options(directory.path())));
    for store in [&source, &target] {
        store.maintain().expect("split");
    }
    fill(&source);
    source.maintain().expect("merged");
    let status = source.status();
    assert_eq!((status.segments, status.buckets), (1, 1 << BITS));
    assert_eq!(status.documents, found(&source), "after a merge");

    let moving: Vec<BucketId> =
        (0..1 << BITS).filter(|bits| bits % 3 != 0).map(|bits| BucketId::new(BITS, bits)).collect();
    for parcel in source.export(&moving).expect("exported") {
        import(&target, &parcel, &bytes(&parcel)).expect("imported");
    }
    assert_eq!(target.status().documents, found(&target), "of what came");

    let checksums = infos(&source, &moving);
    let given_up: Vec<(BucketId, u64)> =
        moving.iter().zip(checksums).filter_map(|(bucket, info)| Some((*bucket, info?.checksum))).collect();
    let agreed = source.delete_replicas(&given_up, Timestamp(NOW - 1000)).expect("deleted");
    assert!(agreed.into_iter().all(|agreed| agreed));
    // Nothing is counted in memory any more.
    source.close();
    let source = open(options(directories[0].path()));
    assert_eq!(source.status().documents, found(&source), "of what stayed");
    assert!(found(&source) > 0 && found(&target) > found(&source));
}

#[test]
fn splitting_a_bucket_loses_no_document_from_the_count() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    fill(&store);
    store.maintain().expect("split and merged");
    let status = store.status();
    assert!(status.splits > 10, "{} splits", status.splits);
    let there = found(&store);
    assert!(status.documents >= there && status.documents <= there + 300, "{} of {there}", status.documents);
}

#[test]
fn buckets_that_are_split_off_take_only_their_own_documents_out_of_the_count() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(|directory| open(options(directory.path())));
    // Their own buckets are larger than those that move.
    for store in [&source, &target] {
        store.maintain().expect("split");
        fill(store);
        store.maintain().expect("merged");
    }
    let moving: Vec<BucketId> = (0..1 << CLUSTER_BITS)
        .filter(|bits| bits % 3 != 0)
        .map(|bits| BucketId::new(CLUSTER_BITS, bits))
        .collect();
    let checksums = infos(&target, &moving);
    let given_up: Vec<(BucketId, u64)> =
        moving.iter().zip(checksums).filter_map(|(bucket, info)| Some((*bucket, info?.checksum))).collect();
    target.delete_replicas(&given_up, Timestamp(NOW - 1000)).expect("deleted");
    target.close();
    let target = open(options(directories[1].path()));
    assert_eq!(target.status().documents, found(&target), "of what stayed");
    for parcel in source.export(&moving).expect("exported") {
        import(&target, &parcel, &bytes(&parcel)).expect("imported");
    }
    assert_eq!(target.status().documents, found(&target), "with what came back");
    assert_eq!(found(&target), found(&source));
}
