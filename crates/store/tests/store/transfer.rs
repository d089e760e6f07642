//! Buckets move as files: an import yields the exported contents, and only those of the requested buckets.

use std::io;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_env::AppendFile;
use millrace_store::{ExportParcel, Store, StoreTuning, StoreVisit};

use crate::common::{document, get, open, put, visited};
use crate::late::{NOW, apply, infos, small, version};

const BITS: u8 = 3;

fn buckets() -> Vec<BucketId> {
    (0..1 << BITS).map(|bits| BucketId::new(BITS, bits)).collect()
}

/// A parcel as bytes.
#[derive(Default)]
struct ParcelBytes(Vec<u8>);

impl AppendFile for ParcelBytes {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn bytes(parcel: &ExportParcel) -> Vec<u8> {
    let mut bytes = ParcelBytes::default();
    parcel.write_to(0, &mut bytes).expect("read");
    let mut rest = ParcelBytes::default();
    let from = bytes.0.len() / 3;
    parcel.write_to(from as u64, &mut rest).expect("read");
    assert!(rest.0 == bytes.0[from..], "the same bytes from any place on");
    bytes.0
}

pub fn import(store: &Store, parcel: &ExportParcel, bytes: &[u8]) -> Result<(), millrace_store::Error> {
    let mut import = store.import(parcel.shares(), parcel.outline())?;
    for piece in bytes.chunks(1000) {
        import.append(piece)?;
    }
    assert_eq!(import.bytes(), bytes.len() as u64);
    import.arrive()?.install(None)
}

fn fill(store: &Store, from: u64, count: u64) {
    let ids = (from..from + count).map(|number| format!("id:n:mail:g=user{}:{number}", number % 90));
    let ungrouped = (from..from + count / 10).map(|number| format!("id:n:note::{number}"));
    apply(
        store,
        ids.chain(ungrouped)
            .enumerate()
            .map(|(at, id)| version(&id, NOW - 400 + at as u64 % 300, at % 9 != 0).0)
            .collect(),
    );
}

/// All versions in these buckets.
fn versions(store: &Store, buckets: &[BucketId]) -> Vec<(String, Option<i64>, Timestamp)> {
    let visit = StoreVisit { tombstones: true, wanted: 5000, ..StoreVisit::all(&["mail", "note"]) };
    let mut found = visited(store, &visit);
    found.retain(|(id, ..)| {
        let location = crate::common::id(id).location();
        buckets.iter().any(|bucket| bucket.contains(location))
    });
    found
}

#[test]
fn buckets_move_alone_and_together_between_stores_that_split_differently() {
    // Splits of the source and the target, and the buckets that move at a time.
    let cases: [(u8, u8, &[&[usize]]); 4] = [
        (0, 0, &[&[0, 1, 2, 3, 4, 5, 6, 7]]),
        (6, 0, &[&[2], &[5, 3], &[0, 1, 4, 6, 7]]),
        (0, 5, &[&[7, 1], &[0, 2, 3, 4, 5, 6]]),
        (3, 3, &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]]),
    ];
    for (source_bits, target_bits, moves) in cases {
        let directories =
            [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
        let with_bits = |directory: &tempfile::TempDir, bits| {
            let tuning = StoreTuning { split_bits: bits, ..StoreTuning::default() };
            let store = open(millrace_store::StoreOptions { tuning, ..small(directory.path()) });
            store.maintain().expect("split");
            store
        };
        let source = with_bits(&directories[0], source_bits);
        let mut target = with_bits(&directories[1], target_bits);
        for round in 0..3 {
            fill(&source, round * 400, 600);
            source.seal().expect("sealed");
        }
        source.maintain().expect("merged");
        fill(&source, 100, 100);
        let mut there: Vec<BucketId> = Vec::new();
        for numbers in moves {
            let moving: Vec<BucketId> = numbers.iter().map(|number| buckets()[*number]).collect();
            let parcels = source.export(&moving).expect("exported");
            for parcel in &parcels {
                let first = bytes(parcel);
                assert!(parcel.file_bytes().is_none_or(|length| length == first.len() as u64));
                assert!(first == bytes(parcel), "the same bytes each time");
                import(&target, parcel, &first).expect("imported");
            }
            // Later changes of the source take nothing from a parcel.
            there.extend(&moving);
            assert_eq!(
                versions(&target, &buckets()),
                versions(&source, &there),
                "{source_bits} {target_bits} {numbers:?}"
            );
            assert_eq!(infos(&target, &moving), infos(&source, &moving));
        }
        assert_eq!(versions(&source, &buckets()).len(), 1400 + 190, "{source_bits} {target_bits}");
        target.maintain().expect("merged");
        target.close();
        target = with_bits(&directories[1], target_bits);
        assert_eq!(infos(&target, &buckets()), infos(&source, &buckets()));
        assert_eq!(versions(&target, &buckets()), versions(&source, &buckets()));
        let written = put(&target, "id:n:mail:g=user1:1", "text put here", 5);
        assert!(written.timestamp.0 >= NOW, "the clock is above all that came");
    }
}

/// Characters of which compression saves little.
fn noise(mut seed: u64) -> String {
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + ((seed >> 33) % 94) as u8)
    };
    (0..5000).map(next).collect()
}

#[test]
fn what_buckets_have_of_large_files_is_cut_out_of_them() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(|directory| {
        let options = small(directory.path());
        open(millrace_store::StoreOptions { tail_bytes: 64 << 20, ..options })
    });
    let moving: Vec<BucketId> = buckets().into_iter().step_by(2).collect();
    let name = |number: u64| format!("id:n:mail:g=user{}:{number}", number % 90);
    let large = |number: u64| {
        let document = document(&name(number), &noise(number), 5);
        DocumentVersion::put(&document, Timestamp(NOW - 400))
    };
    let mut expected = 0;
    for round in 0..2 {
        let numbers = round * 400..round * 400 + 700;
        let moves = |number: &u64| {
            let location = crate::common::id(&name(*number)).location();
            moving.iter().any(|bucket| bucket.contains(location))
        };
        expected += numbers.clone().filter(moves).count() as u64;
        apply(&source, numbers.map(large).collect());
        source.seal().expect("sealed");
    }
    let parcels = source.export(&moving).expect("exported");
    let sizes: Vec<Option<u64>> = parcels.iter().map(ExportParcel::file_bytes).collect();
    assert!(sizes.len() >= 2 && sizes.iter().all(Option::is_some), "cuts know their sizes: {sizes:?}");
    let identities: Vec<Option<u64>> = parcels.iter().map(ExportParcel::identity).collect();
    let again: Vec<Option<u64>> =
        source.export(&moving).expect("exported").iter().map(ExportParcel::identity).collect();
    assert_eq!(identities, again);
    let shares: u64 = parcels.iter().flat_map(ExportParcel::shares).map(|share| share.documents).sum();
    assert_eq!(shares, expected);
    for parcel in &parcels {
        import(&target, parcel, &bytes(parcel)).expect("imported");
    }
    assert_eq!(versions(&target, &buckets()), versions(&source, &moving));
    assert_eq!(infos(&target, &moving), infos(&source, &moving));
}

#[test]
fn a_parcel_outlives_its_files() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(|directory| open(small(directory.path())));
    fill(&source, 0, 600);
    let before = versions(&source, &buckets());
    let parcels = source.export(&buckets()).expect("exported");
    let all: Vec<_> = buckets()
        .into_iter()
        .map(|bucket| (bucket, infos(&source, &[bucket])[0].map_or(0, |info| info.checksum)))
        .collect();
    let deleted = source.delete_replicas(&all, Timestamp(NOW - 500)).expect("deleted");
    assert_eq!((deleted, source.status().segments), (vec![true; 8], 0));
    for parcel in &parcels {
        import(&target, parcel, &bytes(parcel)).expect("imported");
    }
    assert_eq!(versions(&target, &buckets()), before);
    // And back again, with the same timestamps.
    for parcel in &target.export(&buckets()).expect("exported") {
        import(&source, parcel, &bytes(parcel)).expect("imported");
    }
    assert_eq!(versions(&source, &buckets()), before);
}

/// Buckets that share a file get it one after another, and the first may have merged or lost it by then.
#[test]
fn a_file_that_its_first_bucket_gave_up_is_there_for_the_others() {
    for do_others_follow in [true, false] {
        let directories =
            [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
        let [source, target] = directories.each_ref().map(|directory| open(small(directory.path())));
        fill(&source, 0, 300);
        let parcels = source.export(&buckets()).expect("exported");
        let [parcel] = &parcels[..] else { panic!("one file is one parcel, not {}", parcels.len()) };
        let mut begun = target.import(parcel.shares(), parcel.outline()).expect("begun");
        begun.append(&bytes(parcel)).expect("written");
        let arrived = begun.arrive().expect("it is whole");
        let files = || std::fs::read_dir(directories[1].path().join("segments")).expect("listed").count();
        let all: Vec<BucketId> = parcel.shares().iter().map(|share| share.bucket).collect();
        let (first, others) = all.split_at(1);
        let delete = |store: &Store, replicas: &[BucketId]| {
            let wanted: Vec<(BucketId, u64)> = replicas
                .iter()
                .map(|replica| (*replica, infos(store, &[*replica])[0].map_or(0, |info| info.checksum)))
                .collect();
            let deleted = store.delete_replicas(&wanted, Timestamp(NOW - 500)).expect("deleted");
            assert!(deleted.iter().all(|deleted| *deleted), "{deleted:?}");
        };
        arrived.install(Some(first)).expect("given");
        delete(&target, first);
        assert_eq!((target.status().segments, files()), (0, 1), "others may get it");
        if !do_others_follow {
            drop(arrived);
            assert_eq!(files(), 0);
            continue;
        }
        arrived.install(Some(others)).expect("given");
        drop(arrived);
        target.close();
        let target = open(small(directories[1].path()));
        assert_eq!(versions(&target, others), versions(&source, others));
        delete(&target, others);
        assert_eq!((files(), target.failures()), (0, Vec::new()));
    }
}

#[test]
fn what_was_written_or_dropped_meanwhile_counts() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(|directory| open(small(directory.path())));
    fill(&source, 0, 600);
    source.seal().expect("sealed");
    let group =
        |name: &str| DropScope::Group { document_type: None, group: DocumentGroup::Name(name.to_owned()) };
    // The source has dropped a group that the file still has: the transferred file does not have it.
    source
        .apply_drop(BucketId::ROOT, &DroppedScope { scope: group("user5"), timestamp: Timestamp(NOW) })
        .expect("dropped");
    let parcels = source.export(&buckets()).expect("exported");
    // The target has newer versions than those that arrive, and has dropped another group.
    let (newer, gone) = ("id:n:mail:g=user1:1", "id:n:mail:g=user2:2");
    apply(&target, vec![version(newer, NOW, true).0, version(gone, NOW, false).0]);
    target.seal().expect("sealed");
    target
        .apply_drop(BucketId::ROOT, &DroppedScope { scope: group("user6"), timestamp: Timestamp(NOW) })
        .expect("dropped");
    for parcel in &parcels {
        import(&target, parcel, &bytes(parcel)).expect("imported");
    }
    for maintained in [false, true] {
        assert_eq!(get(&target, newer), Some(NOW as i64), "{maintained}");
        assert_eq!(get(&target, gone), None, "{maintained}");
        let left = versions(&target, &buckets());
        for (group, count) in [(5, 0), (6, 0), (7, 7)] {
            let of_group = left.iter().filter(|(id, ..)| id.contains(&format!("g=user{group}:")));
            assert_eq!(of_group.count(), count, "{maintained} {group}");
        }
        target.maintain().expect("merged");
    }
}

#[test]
fn a_damaged_parcel_changes_nothing() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let [source, target] = directories.each_ref().map(|directory| open(small(directory.path())));
    fill(&source, 0, 300);
    let parcels = source.export(&buckets()).expect("exported");
    let [parcel] = &parcels[..] else { panic!("one file is one parcel, not {}", parcels.len()) };
    let whole = bytes(parcel);
    for at in (0..whole.len()).step_by(whole.len() / 23) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(import(&target, parcel, &damaged).is_err(), "byte {at}");
        assert!(import(&target, parcel, &whole[..at]).is_err(), "cut at {at}");
    }
    drop(target.import(parcel.shares(), parcel.outline()).expect("begun"));
    assert_eq!(versions(&target, &buckets()), []);
    let files = std::fs::read_dir(directories[1].path().join("segments")).expect("listed");
    assert_eq!(files.count(), 0, "nothing is left behind");
    import(&target, parcel, &whole).expect("imported");
    import(&target, parcel, &whole).expect("imported again");
    assert_eq!(versions(&target, &buckets()), versions(&source, &buckets()));
    assert_eq!(infos(&target, &buckets()), infos(&source, &buckets()));
}
