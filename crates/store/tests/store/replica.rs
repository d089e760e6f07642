//! Replicas: two stores with equal contents of the same buckets agree, and each deletes the buckets that it
//! should not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentVersion, Timestamp};
use millrace_env::{DiskFault, FaultyDisk, RealDisk};
use millrace_store::{Store, StoreOptions, StoreVisit, VersionKey};

use crate::common::{get, id, open, visited};
use crate::late::{NOW, RETENTION, apply, infos, small, version};
use crate::model::{GROUPS, TYPES};
use crate::snapshots::files;
use crate::transfer::{bytes, import};

const BUCKETS: u8 = 2;

fn buckets() -> Vec<BucketId> {
    (0..1 << BUCKETS).map(|bits| BucketId::new(BUCKETS, bits)).collect()
}

fn bucket_of(id_text: &str) -> BucketId {
    BucketId::new(BUCKETS, id(id_text).location().bits())
}

/// Some documents of all types and groups, a third of them written twice, some removed. The later versions
/// are in the second list.
fn versions() -> (Vec<DocumentVersion>, Vec<DocumentVersion>) {
    let mut first = Vec::new();
    let mut second = Vec::new();
    let ids = (0..240).map(|number| {
        format!("id:n:{}:{}:{number}", TYPES[number % TYPES.len()], GROUPS[number / 2 % GROUPS.len()])
    });
    for (number, id) in ids.enumerate() {
        let written = NOW - 100 - number as u64 % 7;
        first.push(version(&id, written, true).0);
        match number % 6 {
            0 | 1 => second.push(version(&id, written + 50, true).0),
            2 => second.push(version(&id, written + 60, false).0),
            _ => {}
        }
    }
    (first, second)
}

/// All versions of a bucket, in pages of `wanted`.
fn listed(store: &Store, bucket: BucketId, wanted: usize) -> Vec<VersionKey> {
    let mut all: Vec<VersionKey> = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .versions(bucket, Timestamp(NOW - RETENTION / 2), after.as_deref(), wanted)
            .expect("the versions are listed");
        assert!(page.versions.len() <= wanted);
        all.extend(page.versions);
        after = page.after;
        if after.is_none() {
            return all;
        }
    }
}

#[test]
fn replicas_agree_whatever_their_files() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [a, b] = directories.each_ref().map(|directory| open(small(directory.path())));
    let (first, second) = versions();
    apply(&a, first.clone());
    apply(&a, second.clone());
    // In reverse order, in pieces, sealed and merged in between.
    for (number, piece) in second.chunks(17).chain(first.chunks(31)).enumerate() {
        apply(&b, piece.to_vec());
        if number % 2 == 0 {
            b.seal().expect("sealed");
            infos(&b, &buckets());
        }
        if number % 5 == 0 {
            b.maintain().expect("maintained");
        }
    }
    assert_eq!(infos(&a, &buckets()), infos(&b, &buckets()));
    for bucket in buckets() {
        assert_eq!(listed(&a, bucket, 7), listed(&b, bucket, 1000), "{bucket}");
        assert!(
            listed(&a, bucket, 7).iter().all(|version| bucket.contains(version.id.location())),
            "{bucket}"
        );
    }
    let total: usize = buckets().into_iter().map(|bucket| listed(&a, bucket, 50).len()).sum();
    assert_eq!(total, 240);
    // A single additional version makes them differ, in its bucket alone.
    let more = "id:n:mail:g=ann:more";
    apply(&a, vec![version(more, NOW - 10, false).0]);
    for bucket in buckets() {
        let same = infos(&a, &[bucket]) == infos(&b, &[bucket]);
        assert_eq!(same, bucket != bucket_of(more), "{bucket}");
    }
}

#[test]
fn what_differs_is_found_and_exchanged() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [a, b] = directories.each_ref().map(|directory| open(small(directory.path())));
    let (first, second) = versions();
    apply(&a, first);
    a.seal().expect("sealed");
    apply(&b, second);
    for bucket in buckets() {
        let keys = |store: &Store| -> BTreeMap<String, u64> {
            let keys = listed(store, bucket, 19).into_iter();
            keys.map(|version| (version.id.to_string(), version.timestamp.0)).collect()
        };
        let (of_a, of_b) = (keys(&a), keys(&b));
        for (from, to, of_from, of_to) in [(&a, &b, &of_a, &of_b), (&b, &a, &of_b, &of_a)] {
            let newer =
                of_from.iter().filter(|(id, timestamp)| of_to.get(*id).is_none_or(|other| other < timestamp));
            let bodies = newer.map(|(id_text, timestamp)| {
                let version = from.version(&id(id_text)).expect("read").expect("listed, so it is there");
                assert_eq!(version.timestamp.0, *timestamp, "{id_text}");
                version
            });
            apply(to, bodies.collect());
        }
    }
    assert_eq!(infos(&a, &buckets()), infos(&b, &buckets()));
    assert_eq!(visited(&a, &StoreVisit::all(&TYPES)), visited(&b, &StoreVisit::all(&TYPES)));
}

#[test]
fn a_replica_is_given_up_only_as_it_was_seen_and_can_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    let (first, second) = versions();
    let since = Timestamp(NOW - RETENTION / 2);
    let gone = bucket_of("id:n:mail:g=ann:0");
    for round in 0..3 {
        apply(&store, first.clone());
        store.seal().expect("sealed");
        apply(&store, second.clone());
        if round == 1 {
            store.seal().expect("sealed");
            store.maintain().expect("maintained");
        }
        let before = infos(&store, &buckets());
        let info = infos(&store, &[gone])[0].expect("it is there");
        let all: Vec<_> = visited(&store, &StoreVisit::all(&TYPES));
        let wrong = store.delete_replicas(&[(gone, info.checksum ^ 1)], since).expect("looked at");
        assert_eq!((wrong, visited(&store, &StoreVisit::all(&TYPES))), (vec![false], all.clone()));
        assert_eq!(store.delete_replicas(&[(gone, info.checksum)], since).expect("deleted"), [true]);
        if round == 2 {
            store.close();
            store = open(small(directory.path()));
        }
        assert_eq!(infos(&store, &[gone]), [None]);
        assert_eq!(listed(&store, gone, 10), []);
        let others: Vec<_> = all.into_iter().filter(|(id, ..)| bucket_of(id) != gone).collect();
        assert_eq!(visited(&store, &StoreVisit::all(&TYPES)), others);
        let rest: Vec<_> = buckets().into_iter().filter(|bucket| *bucket != gone).collect();
        let before: Vec<_> = before
            .into_iter()
            .zip(buckets())
            .filter(|(_, bucket)| *bucket != gone)
            .map(|(info, _)| info)
            .collect();
        assert_eq!(infos(&store, &rest), before);
        assert_eq!(get(&store, "id:n:mail:g=ann:2"), None);
    }
    let all: Vec<_> = buckets()
        .into_iter()
        .map(|bucket| (bucket, infos(&store, &[bucket])[0].map_or(0, |info| info.checksum)))
        .collect();
    assert!(store.delete_replicas(&all, since).expect("deleted").iter().all(|deleted| *deleted));
    assert_eq!(store.status().segments, 0, "files that no bucket has are gone");
    store.close();
    assert_eq!(std::fs::read_dir(directory.path().join("segments")).expect("listed").count(), 0);
}

#[test]
fn that_a_replica_is_not_complete_is_remembered() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    let [a, b, ..] = buckets()[..] else { panic!("there are four buckets") };
    let complete = |store: &Store| {
        infos(store, &[a, b]).into_iter().map(|info| info.map(|info| info.complete)).collect::<Vec<_>>()
    };
    assert_eq!(complete(&store), [None, None]);
    store.create_incomplete_replicas(&[a, b]).expect("created");
    store.create_replicas(&[a]).expect("it stays as it is");
    assert_eq!(complete(&store), [Some(false), Some(false)]);
    assert!(store.has_replica(a) && !store.has_replica(buckets()[2]));
    store.complete_replicas(&[a]).expect("completed");
    store.close();
    store = open(small(directory.path()));
    assert_eq!(complete(&store), [Some(true), Some(false)]);
    let known: std::collections::BTreeSet<_> =
        store.replica_buckets(BUCKETS).expect("listed").into_iter().collect();
    assert_eq!(known, [a, b].into());
    let checksum = infos(&store, &[b])[0].expect("created").checksum;
    assert_eq!(store.delete_replicas(&[(b, checksum)], Timestamp(0)).expect("deleted"), [true]);
    assert_eq!(complete(&store), [Some(true), None]);
}

#[test]
fn small_buckets_share_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let tuning = millrace_store::StoreTuning { split_bits: 10, ..millrace_store::StoreTuning::default() };
    let store = open(millrace_store::StoreOptions { tuning, ..small(directory.path()) });
    store.maintain().expect("split");
    for round in 0..5 {
        let ids =
            (0..3000).map(|number| format!("id:n:mail:g=user{}:{}", number % 1500, round * 3000 + number));
        apply(&store, ids.map(|id| version(&id, NOW, true).0).collect());
        store.seal().expect("sealed");
    }
    let status = store.status();
    assert_eq!((status.buckets, status.segments), (1024, 5), "one file a round, for all buckets");
    store.maintain().expect("merged");
    let status = store.status();
    assert!(status.segments <= 3, "{} files: buckets were merged together", status.segments);
    assert!(status.merges <= 3, "{} merges", status.merges);
    assert_eq!(visited(&store, &StoreVisit { wanted: 5000, ..StoreVisit::all(&["mail"]) }).len(), 15_000);
}

#[test]
fn a_file_goes_with_the_last_replica_that_has_documents_in_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    // Sixteen buckets of four bits share one file; those of some groups have documents in it.
    let of = |name: &str| BucketId::new(4, id(name).location().bits());
    let names: Vec<String> =
        (0..40).map(|number| format!("id:n:mail:g=user{}:{number}", number % 4)).collect();
    apply(&store, names.iter().map(|name| version(name, NOW - 100, true).0).collect());
    store.seal().expect("sealed");
    let mut replicas: Vec<BucketId> = names.iter().map(|name| of(name)).collect();
    replicas.sort_unstable();
    replicas.dedup();
    assert!((2..16).contains(&replicas.len()), "some buckets have documents, and some have none");
    store.create_replicas(&replicas).expect("created");
    for (number, replica) in replicas.iter().enumerate() {
        assert_eq!(store.status().segments, 1, "{number} of {} are gone", replicas.len());
        let info = infos(&store, &[*replica])[0].expect("it has documents");
        let deleted = store.delete_replicas(&[(*replica, info.checksum)], Timestamp(NOW - RETENTION / 2));
        assert_eq!(deleted.expect("deleted"), [true]);
    }
    let files = std::fs::read_dir(directory.path().join("segments")).expect("listed").count();
    assert_eq!((store.status().segments, store.status().documents, files), (0, 0, 0));
}

/// Damage in the file of one replica concerns no other. It is filled from a complete one, and keeps what was
/// written to it since.
#[test]
fn a_damaged_replica_is_filled_again() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("damaged");
    let (mut store, complete) = (open(small(&path)), open(small(&root.path().join("complete"))));
    let (old, young) = ("id:n:mail:g=ann:old", "id:n:mail:g=ann:0");
    let damaged = bucket_of(young);
    let others: Vec<BucketId> = buckets().into_iter().filter(|bucket| *bucket != damaged).collect();
    let (first, second) = versions();
    apply(&complete, first);
    apply(&complete, second);
    let copy = |to: &Store, bucket: BucketId| {
        for parcel in complete.export(&[bucket]).expect("exported") {
            import(to, &parcel, &bytes(&parcel)).expect("imported");
        }
    };
    copy(&store, damaged);
    others.iter().for_each(|bucket| copy(&store, *bucket));
    for (id, timestamp) in [(old, NOW - RETENTION + 100), (young, NOW - 20)] {
        for to in [&store, &complete] {
            apply(to, vec![version(id, timestamp, true).0]);
            to.seal().expect("sealed");
        }
    }
    for to in [&store, &complete] {
        to.create_replicas(&buckets()).expect("made");
    }
    let whole = infos(&complete, &buckets());
    assert_eq!(infos(&store, &buckets()), whole);
    store.give_up_damaged(&buckets()).expect("nothing is damaged");
    assert_eq!(infos(&store, &buckets()), whole);

    store.close();
    let file = files(&path.join("segments")).into_iter().next().expect("that of the first import");
    let content = std::fs::read(&file).expect("read");
    std::fs::write(&file, &content[..content.len() / 2]).expect("cut");
    store = open(small(&path));
    store.replica_infos(&[damaged], Timestamp(0)).expect_err("it cannot be counted");
    store.give_up_damaged(&buckets()).expect("given up");
    store.close();
    let findings = millrace_store::check(&path).expect("checked").findings;
    assert!(findings.is_empty(), "the file is gone: {findings:?}");
    store = open(small(&path));
    assert_eq!(infos(&store, &others), infos(&complete, &others));
    assert!(!infos(&store, &[damaged])[0].expect("it is there").complete);
    // A removal of the old one may have been in the damaged file, and be forgotten elsewhere.
    assert_eq!((get(&store, old), get(&store, young)), (None, i64::try_from(NOW - 20).ok()));
    copy(&store, damaged);
    store.complete_replicas(&[damaged]).expect("completed");
    assert_eq!(infos(&store, &buckets()), whole);
}

/// A removal that was lost with a young file is remembered elsewhere: older files stay.
#[test]
fn damage_of_a_young_file_takes_no_older_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let options = || StoreOptions { disk: Arc::new(disk.clone()), ..small(directory.path()) };
    let (old, young) = ("id:n:mail:g=ann:old", "id:n:mail:g=ann:young");
    let bucket = bucket_of(young);
    let store = open(options());
    for (id, timestamp) in [(old, NOW - RETENTION + 100), (young, NOW - 20)] {
        apply(&store, vec![version(id, timestamp, true).0]);
        store.seal().expect("sealed");
    }
    store.create_replicas(&[bucket]).expect("made");
    store.close();
    let file = files(&directory.path().join("segments")).pop().expect("that of the young one");
    let length = file.metadata().expect("known").len();
    let flip = |offset: u64| {
        let name_ends = file.to_string_lossy().into_owned();
        disk.inject(DiskFault::FlipBit { name_ends, offset, bit: 0 });
    };
    // A byte of the ids or times, which are read after the file was opened.
    let is_of_keys = |offset: &u64| {
        let store = open(options());
        flip(*offset);
        let counted = store.replica_infos(&[bucket], Timestamp(0));
        disk.heal();
        store.close();
        counted.is_err()
    };
    let offset = (64..length).step_by(8).find(is_of_keys).expect("there are some");
    let store = open(options());
    flip(offset);
    store.give_up_damaged(&[bucket]).expect("given up");
    disk.heal();
    assert_eq!((get(&store, old).is_some(), get(&store, young)), (true, None));
    let found = infos(&store, &[bucket])[0].expect("it is there");
    assert_eq!((found.documents, found.complete), (1, false));
}

/// A read that the disk refuses once takes nothing out of a replica.
#[test]
fn a_replica_whose_files_can_be_read_again_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let options = || StoreOptions { disk: Arc::new(disk.clone()), ..small(directory.path()) };
    let store = open(options());
    apply(&store, versions().0);
    store.seal().expect("sealed");
    apply(&store, vec![version("id:n:mail:g=ann:old", NOW - RETENTION + 100, true).0]);
    store.seal().expect("sealed");
    store.create_replicas(&buckets()).expect("made");
    let whole = infos(&store, &buckets());
    // After a start nothing is counted.
    store.close();
    let store = open(options());
    disk.inject(DiskFault::FailReads { count: 1 });
    store.give_up_damaged(&buckets()).expect_err("a read was refused");
    assert_eq!(infos(&store, &buckets()), whole);
    store.give_up_damaged(&buckets()).expect("all can be counted");
    assert_eq!(infos(&store, &buckets()), whole);
}

/// A file of a later version of the program is not damaged: that program can be started again.
#[test]
fn a_file_of_a_later_version_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    apply(&store, versions().0);
    store.seal().expect("sealed");
    store.create_replicas(&buckets()).expect("made");
    store.close();
    let file = files(&directory.path().join("segments")).into_iter().next().expect("there is one");
    let mut bytes = std::fs::read(&file).expect("read");
    // In the header and in the trailer.
    for block in [0, bytes.len() - 64] {
        bytes[block + 8..block + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    std::fs::write(&file, &bytes).expect("written");
    let store = open(small(directory.path()));
    let refused = store.give_up_damaged(&buckets()).expect_err("it is not damaged").to_string();
    assert!(refused.contains("use the program that wrote it"), "{refused}");
    store.close();
    assert!(std::fs::read(&file).expect("it is there") == bytes);
}
