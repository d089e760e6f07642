//! A large group is divided into buckets that can be replicas, and be read, moved, dropped and deleted by
//! themselves. No document is lost, found twice, or in two buckets, regardless of seals and merges before and
//! after.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, DropScope, DroppedScope, Timestamp};
use millrace_store::{Store, StoreTuning, StoreVisit, ViewScope};

use crate::common::{id, open, shown, visited};
use crate::groups::{check_groups, check_sets};
use crate::late::{NOW, apply, infos, small, version};
use crate::transfer::{bytes, import};

const BITS: u8 = 3;
/// Low bits of the group that is divided, and of another one whose documents have the same.
const LOW: u32 = 5;
const GROUPS: [u64; 4] = [5, (1 << 32) + 5, 13, 6];

fn whole() -> BucketId {
    BucketId::new(BITS, u64::from(LOW))
}

/// The buckets beside the one of the divided group.
fn siblings() -> impl Iterator<Item = BucketId> {
    (0..1 << BITS).map(|bits| BucketId::new(BITS, bits)).filter(|bucket| *bucket != whole())
}

fn parts(bits: u8) -> Vec<BucketId> {
    (0..1_u64 << (bits - 32)).map(|part| BucketId::new(bits, part << 32 | u64::from(LOW))).collect()
}

/// Versions of documents of all groups and of none; each ninth is a removal.
fn fill(store: &Store, from: u64, count: u64) {
    let ids =
        (from..from + count).map(|number| format!("id:n:mail:n={}:{number}", GROUPS[number as usize % 4]));
    let ungrouped = (from..from + count / 10).map(|number| format!("id:n:note::{number}"));
    let versions = ids.chain(ungrouped).enumerate();
    apply(store, versions.map(|(at, id)| version(&id, NOW - 400 + at as u64 % 300, at % 9 != 0).0).collect());
}

fn of_scope(store: &Store, scope: ViewScope) -> BTreeMap<String, i64> {
    shown(&*store.view("mail", &scope).expect("a view"))
}

/// Number of rows that a query of each group reads. Pieces of the tail that have removals alone are not read,
/// so it can differ by some where the tail is divided otherwise.
fn rows(store: &Store) -> Vec<usize> {
    let of_group = |group| {
        let view =
            store.view("mail", &ViewScope::Groups(vec![DocumentGroup::Number(group)])).expect("a view");
        view.chunks().iter().map(|chunk| chunk.documents).sum()
    };
    GROUPS.map(of_group).to_vec()
}

fn all(store: &Store, scope: ViewScope) -> Vec<(String, Option<i64>, Timestamp)> {
    visited(store, &StoreVisit { tombstones: true, wanted: 50, scope, ..StoreVisit::all(&["mail", "note"]) })
}

/// Checks the contents of the parts, by every way of reading.
#[track_caller]
fn check_parts(store: &Store, bits: u8, expected: &[(String, Option<i64>, Timestamp)]) {
    let in_order = |mut versions: Vec<(String, Option<i64>, Timestamp)>| {
        versions.sort();
        versions
    };
    let of = |bucket: BucketId| -> Vec<_> {
        expected.iter().filter(|(text, ..)| bucket.contains(id(text).location())).cloned().collect()
    };
    let rest: Vec<_> = of(whole())
        .into_iter()
        .filter(|(text, ..)| !BucketId::new(32, 5).contains(id(text).location()))
        .collect();
    assert_eq!(in_order(all(store, ViewScope::Buckets(vec![whole()]))), in_order(rest));
    for part in parts(bits) {
        assert_eq!(in_order(all(store, ViewScope::Buckets(vec![part]))), in_order(of(part)), "{part}");
        for group in GROUPS.map(DocumentGroup::Number) {
            let found = of_scope(store, ViewScope::GroupsIn(vec![group.clone()], vec![part]));
            let wanted = of(part).into_iter().filter(|(text, ..)| *id(text).group() == group);
            let wanted: BTreeMap<_, _> =
                wanted.filter_map(|(text, number, _)| Some((text, number?))).collect();
            assert_eq!(found, wanted, "{group} in {part}");
        }
    }
    let others: Vec<BucketId> = parts(bits).into_iter().step_by(2).collect();
    for group in GROUPS.map(DocumentGroup::Number) {
        let wanted = expected.iter().filter(|(text, ..)| *id(text).group() == group);
        let of_others =
            wanted.clone().filter(|(text, ..)| others.iter().any(|part| part.contains(id(text).location())));
        let of_others: BTreeMap<_, _> =
            of_others.filter_map(|(text, number, _)| Some((text.clone(), (*number)?))).collect();
        let found = of_scope(store, ViewScope::GroupsIn(vec![group.clone()], others.clone()));
        assert_eq!(found, of_others, "{group} in every other part");
        let wanted: BTreeMap<_, _> =
            wanted.filter_map(|(text, number, _)| Some((text.clone(), (*number)?))).collect();
        assert_eq!(of_scope(store, ViewScope::Groups(vec![group.clone()])), wanted, "{group}");
    }
    for (text, number, timestamp) in expected {
        let found = store.version(&id(text)).expect("read").expect("remembered");
        assert_eq!((found.timestamp, found.body.is_some()), (*timestamp, number.is_some()), "{text}");
    }
    assert_eq!(in_order(all(store, ViewScope::All)), in_order(expected.to_vec()));
    check_groups(store, &["mail", "note"]);
    let set = |of: usize| parts(bits).into_iter().skip(of).step_by(2);
    let sets = [set(0).chain([whole()]).collect(), set(1).chain(siblings()).collect()];
    check_sets(store, &["mail", "note"], &sets);
}

#[test]
fn a_divided_group_is_what_it_was_in_parts() {
    for merged in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = open(small(directory.path()));
        store.create_replicas(&[whole(), BucketId::new(BITS, 6)]).expect("made");
        for round in 0..3 {
            fill(&store, round * 500, 900);
            store.seal().expect("sealed");
        }
        if merged {
            store.maintain().expect("merged");
        }
        fill(&store, 200, 200);
        let before = all(&store, ViewScope::All);
        let info = infos(&store, &[whole()])[0].expect("a replica");
        let rows_before = rows(&store);

        store.divide(BITS, &[(LOW, 34).into()]).expect("divided");
        check_parts(&store, 34, &before);
        let many = |(after, before): (usize, usize)| after > before + 16;
        let is_read_again = rows(&store).into_iter().zip(rows_before).any(many);
        assert!(!is_read_again, "what parts share is read once");
        let replicas: Vec<BucketId> = parts(34).into_iter().chain([whole()]).collect();
        assert!(replicas.iter().all(|bucket| store.has_replica(*bucket)));
        let sum = |infos: Vec<Option<millrace_store::StoredReplica>>| {
            let infos: Vec<_> = infos.into_iter().map(|info| info.expect("a replica")).collect();
            assert!(infos.iter().all(|info| info.complete && info.documents > 0));
            let checksum = infos.iter().fold(0_u64, |sum, info| sum.wrapping_add(info.checksum));
            (infos.iter().map(|info| info.documents).sum::<u64>(), checksum)
        };
        let divided = infos(&store, &replicas);
        assert_eq!(sum(divided.clone()), (info.documents, info.checksum));

        // Again, less far, or after a start: nothing changes.
        store.divide(BITS, &[(LOW, 33).into()]).expect("as it is");
        store.seal().expect("sealed");
        store.maintain().expect("merged");
        check_parts(&store, 34, &before);
        assert_eq!(infos(&store, &replicas), divided);
        std::mem::drop(store);
        store = open(small(directory.path()));
        assert_eq!(infos(&store, &replicas), divided);
        check_parts(&store, 34, &before);

        // Writes from then on, and a part that is divided further after one was deleted.
        fill(&store, 1200, 700);
        check_parts(&store, 34, &all(&store, ViewScope::All));
        store.seal().expect("sealed");
        fill(&store, 1300, 100);
        let after = all(&store, ViewScope::All);
        assert!(after.len() > before.len());
        check_parts(&store, 34, &after);
        store.divide(BITS, &[(LOW, 35).into()]).expect("divided");
        check_parts(&store, 35, &after);
        assert!(parts(35).iter().all(|part| store.has_replica(*part)));
        assert!(!parts(34).iter().any(|part| store.has_replica(*part)));
        store.maintain().expect("merged");
        check_parts(&store, 35, &after);
    }
}

#[test]
fn a_part_moves_and_goes_by_itself() {
    let directories = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let (source, target) = (open(small(directories[0].path())), open(small(directories[1].path())));
    for round in 0..3 {
        fill(&source, round * 500, 900);
        source.seal().expect("sealed");
    }
    source.create_replicas(&[whole()]).expect("made");
    for store in [&source, &target] {
        store.divide(BITS, &[(LOW, 34).into()]).expect("divided");
    }
    fill(&source, 300, 500);
    // Parts, and with one of them the bucket that they were in, from shared files and from files of their
    // own.
    let moves = [vec![parts(34)[2]], vec![whole(), parts(34)[0], BucketId::new(BITS, 6)], vec![parts(34)[3]]];
    for (turn, moving) in moves.iter().enumerate() {
        for parcel in source.export(moving).expect("exported") {
            import(&target, &parcel, &bytes(&parcel)).expect("imported");
        }
        assert_eq!(infos(&target, moving), infos(&source, moving), "{turn}");
        for bucket in moving {
            let of = |store| all(store, ViewScope::Buckets(vec![*bucket]));
            assert_eq!(of(&target), of(&source), "{bucket}");
        }
        source.maintain().expect("merged");
    }
    let lacking = parts(34)[1];
    assert_eq!(infos(&target, &[lacking]), [None]);

    let kept = all(&source, ViewScope::Buckets(vec![lacking]));
    let gone: Vec<(BucketId, u64)> = [whole(), parts(34)[0]]
        .map(|bucket| (bucket, infos(&source, &[bucket])[0].expect("a replica").checksum))
        .into();
    // Rows of a part in the tail do not keep the bucket that it was in.
    fill(&source, 900, 40);
    let tail = all(&source, ViewScope::Buckets(vec![whole()]));
    let wrong = source.delete_replicas(&[(parts(34)[0], 1)], Timestamp(0)).expect("compared");
    assert_eq!(wrong, [false]);
    assert_eq!(all(&source, ViewScope::Buckets(vec![whole()])), tail);
    let now: Vec<(BucketId, u64)> = gone
        .iter()
        .map(|(bucket, _)| (*bucket, infos(&source, &[*bucket])[0].expect("a replica").checksum))
        .collect();
    assert_eq!(source.delete_replicas(&now, Timestamp(0)).expect("given up"), [true, true]);
    assert_eq!(all(&source, ViewScope::Buckets(vec![whole(), parts(34)[0]])), []);
    assert!(all(&source, ViewScope::Buckets(vec![lacking])).len() >= kept.len());
    assert!(source.has_replica(lacking) && !source.has_replica(whole()));
    // A deleted part stays deleted when the others are divided further.
    source.divide(BITS, &[(LOW, 35).into()]).expect("divided");
    let there: Vec<bool> = parts(35).iter().map(|part| source.has_replica(*part)).collect();
    assert_eq!(there, [false, true, true, true, false, true, true, true]);
}

#[test]
fn a_drop_of_a_part_leaves_the_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    fill(&store, 0, 900);
    store.seal().expect("sealed");
    store.divide(BITS, &[(LOW, 33).into()]).expect("divided");
    fill(&store, 800, 300);
    let before = all(&store, ViewScope::All);
    let group = DocumentGroup::Number(5);
    let scope = DropScope::Group { document_type: None, group: group.clone() };
    let dropped = DroppedScope { scope: scope.clone(), timestamp: Timestamp(NOW) };
    store.apply_drop(parts(33)[1], &dropped).expect("dropped");
    let left: Vec<_> = before
        .iter()
        .filter(|(text, ..)| *id(text).group() != group || !parts(33)[1].contains(id(text).location()))
        .cloned()
        .collect();
    assert!(left.len() < before.len());
    for turn in 0..4 {
        let now: BTreeMap<_, _> =
            all(&store, ViewScope::All).into_iter().map(|row| (row.0.clone(), row)).collect();
        assert_eq!(now, left.iter().map(|row| (row.0.clone(), row.clone())).collect(), "{turn}");
        assert_eq!(store.drops(parts(33)[1]).expect("known"), std::slice::from_ref(&dropped));
        assert_eq!([parts(33)[0], whole()].map(|of| store.drops(of).expect("known")), [vec![], vec![]]);
        match turn {
            0 => store.seal().expect("sealed"),
            1 => store.maintain().expect("merged"),
            2 => {
                std::mem::drop(store);
                store = open(small(directory.path()));
            }
            // A version older than the drop that arrives later.
            _ => {
                let late = left.iter().find(|(text, ..)| parts(33)[0].contains(id(text).location()));
                let (text, ..) = late.expect("the other part has something");
                apply(&store, vec![version(text, NOW - 1, true).0]);
                assert_eq!(
                    store.version(&id(text)).expect("read").expect("there").timestamp,
                    Timestamp(NOW - 1)
                );
            }
        }
    }
    // A drop of the whole group before a further division reaches the new parts.
    store.divide(BITS, &[(LOW, 34).into()]).expect("divided");
    let reached: Vec<bool> =
        parts(34).iter().map(|part| !store.drops(*part).expect("known").is_empty()).collect();
    assert_eq!(reached, [false, true, false, true]);
}

#[test]
fn a_group_that_is_too_large_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let tuning = StoreTuning { split_documents: 150, ..StoreTuning::default() };
    let store = open(millrace_store::StoreOptions { tuning, ..small(directory.path()) });
    fill(&store, 0, 400);
    store.seal().expect("sealed");
    store.maintain().expect("split");
    // Two groups of one location have some 200 documents together, others half of that.
    assert_eq!(store.too_large(9, |_| true).expect("looked"), [(LOW, 32).into()]);
    assert_eq!(store.too_large(0, |_| true).expect("looked"), []);
    assert_eq!(store.too_large(9, |bucket| bucket.used_bits() > 32).expect("looked"), []);
    store.divide(BITS, &[(LOW, 33).into()]).expect("divided");
    assert_eq!(store.too_large(9, |_| true).expect("looked"), []);
    store.set_tuning(StoreTuning { split_documents: 20, ..StoreTuning::default() });
    let found = store.too_large(9, |_| true).expect("looked");
    assert!(found.contains(&(LOW, 33).into()), "{found:?}");
}
