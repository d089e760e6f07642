//! Views of documents by their ids: they show of these documents what a view of their groups shows, and no
//! other document.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion};
use millrace_store::{Store, ViewScope};

use crate::common::{id, open, shown};
use crate::late::{NOW, apply, small, version};

/// Groups of the documents, of which the first has most. Two are in the same location.
const GROUPS: [&str; 5] = ["n=5", "n=4294967301", "n=13", "g=ann", ""];
const COUNT: u64 = 9000;
const BITS: u8 = 3;

fn text(number: u64) -> String {
    let group = if number.is_multiple_of(3) { GROUPS[number as usize / 3 % 5] } else { GROUPS[0] };
    format!("id:n:mail:{group}:{number}")
}

/// Versions of some documents, of which every ninth is a removal. Not all are newer than those before.
/// Removals have odd times and others even ones, so that a version is the same each time it comes.
fn fill(store: &Store, numbers: impl Iterator<Item = u64>, begun: u64) {
    let versions = numbers.map(|number| {
        let there = !(number + begun).is_multiple_of(9);
        let at = NOW - 900 + begun + number * (7 + begun) % 100;
        version(&text(number), at & !1 | u64::from(!there), there).0
    });
    let versions: Vec<DocumentVersion> = versions.collect();
    versions.chunks(1000).for_each(|versions| apply(store, versions.to_vec()));
}

fn all_groups() -> Vec<DocumentGroup> {
    let named = DocumentGroup::Name("ann".to_owned());
    let numbered = [5, (1 << 32) + 5, 13].map(DocumentGroup::Number);
    numbered.into_iter().chain([named, DocumentGroup::None]).collect()
}

/// Compares the views of parts of the documents, in all buckets and in some.
#[track_caller]
fn check(store: &Store, sets: &[Vec<BucketId>], when: &str) {
    let view = |scope| shown(&*store.view("mail", &scope).expect("a view"));
    let whole = view(ViewScope::All);
    assert!(whole.len() > 1000, "{when}");
    let parts: Vec<Vec<u64>> = [(1, 0), (3, 1), (500, 77), (COUNT, 6), (COUNT, 7)]
        .map(|(step, first)| (first..COUNT + 20).step_by(step as usize).collect())
        .into();
    let expected: Vec<BTreeMap<String, i64>> =
        sets.iter().map(|set| view(ViewScope::GroupsIn(all_groups(), set.clone()))).collect();
    for numbers in &parts {
        let when = format!("{when}, {} documents", numbers.len());
        let mut ids: Vec<DocumentId> = numbers.iter().map(|number| id(&text(*number))).collect();
        ids.extend(ids[0..1].to_vec());
        ids.push(id("id:n:note:n=5:1"));
        let of = |all: &BTreeMap<String, i64>| -> BTreeMap<String, i64> {
            let wanted = ids.iter().filter_map(|id| all.get_key_value(id.as_str()));
            wanted.map(|(id, number)| (id.clone(), *number)).collect()
        };
        let found = store.view_of("mail", &ids, None).expect("a view");
        assert_eq!(shown(&*found), of(&whole), "{when}");
        for (buckets, expected) in sets.iter().zip(&expected) {
            let found = store.view_of("mail", &ids, Some(buckets)).expect("a view");
            assert_eq!(shown(&*found), of(expected), "{when}, {buckets:?}");
        }
    }
    // One document: all of its chunks but one are left out, and all other rows of that.
    for (text, number) in whole.iter().step_by(197) {
        let found = store.view_of("mail", &[id(text)], None).expect("a view");
        assert_eq!(found.chunks().len(), 1, "{when}: {text}");
        assert_eq!(shown(&*found), BTreeMap::from([(text.clone(), *number)]), "{when}");
    }
    assert!(store.view_of("note", &[id("id:n:mail:n=5:1")], None).expect("a view").chunks().is_empty());
}

#[test]
fn documents_by_id_are_those_of_their_groups() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    let bucket = |bits| BucketId::new(BITS, bits);
    let halves = [vec![BucketId::new(1, 0)], vec![BucketId::new(1, 1)], vec![bucket(5), bucket(6)], vec![]];
    fill(&store, 0..COUNT, 0);
    check(&store, &halves, "in the tail");
    store.seal().expect("sealed");
    check(&store, &halves, "sealed");
    // Newer and older versions than those before, in the tail and then in a second file.
    fill(&store, (0..COUNT).step_by(5), 50);
    check(&store, &halves, "with newer ones in the tail");
    store.seal().expect("sealed");
    check(&store, &halves, "in two files");
    fill(&store, (3..COUNT).step_by(11), 200);
    check(&store, &halves, "in two files and in the tail");
    store.drop_group(None, &DocumentGroup::Number(13)).expect("dropped");
    store.seal().expect("sealed");
    check(&store, &halves, "without a dropped group");
    store.maintain().expect("merged");
    check(&store, &halves, "merged");
    std::mem::drop(store);
    store = open(small(directory.path()));
    check(&store, &halves, "opened again");

    let parts: Vec<BucketId> = (0..4_u64).map(|part| BucketId::new(34, part << 32 | 5)).collect();
    let sets = [vec![bucket(5)], vec![parts[2]], vec![bucket(5), parts[0], parts[3]], parts.clone()];
    store.create_replicas(&[bucket(5), bucket(6)]).expect("made");
    store.divide(BITS, &[(5, 34).into()]).expect("divided");
    check(&store, &sets, "divided");
    fill(&store, (0..COUNT).step_by(3), 300);
    check(&store, &sets, "divided, with newer ones in the tail");
    store.seal().expect("sealed");
    store.maintain().expect("merged");
    check(&store, &sets, "divided and merged");
}
