//! Sizes of groups: they are those of the documents that a visit finds, whatever the layout in files.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{Store, StoreVisit, StoredGroup, StoredGroupPage, ViewScope};

use crate::common::{id, open, options, put, remove, visited};

/// Compares the sizes of all groups, alone and in pages, with the result of a visit.
#[track_caller]
pub fn check_groups(store: &Store, document_types: &[&str]) {
    let mut expected: BTreeMap<String, (u64, Timestamp)> = BTreeMap::new();
    let visit = StoreVisit { wanted: 5000, ..StoreVisit::all(document_types) };
    for (text, _, timestamp) in visited(store, &visit) {
        let id = id(&text);
        if *id.group() != DocumentGroup::None {
            let (documents, newest) = expected.entry(id.group().key()).or_default();
            *documents += 1;
            *newest = timestamp.max(*newest);
        }
    }
    let size = |found: &StoredGroup| (found.group.key(), (found.documents, found.last_write));
    for wanted in [2, 1000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.groups(document_types, &ViewScope::All, after.as_ref(), wanted).expect("a page");
            assert!(page.groups.len() <= wanted);
            found.extend(page.groups);
            match page.continuation {
                Some(group) => after = Some(group),
                None => break,
            }
        }
        assert!(found.iter().all(|group| group.bytes > 0), "{found:?}");
        assert_eq!(found.len(), expected.len(), "each group once");
        assert_eq!(found.iter().map(size).collect::<BTreeMap<_, _>>(), expected, "pages of {wanted}");
        for group in &found {
            // A merge in between takes replaced versions, and so bytes, away.
            let alone = store.group(document_types, &group.group, None).expect("its size");
            assert_eq!(size(&alone), size(group));
            assert!(alone.bytes > 0, "{alone:?}");
        }
    }
}

/// Compares the groups of all buckets with those of disjoint sets of buckets, which are merged page by page.
#[track_caller]
pub fn check_sets(store: &Store, document_types: &[&str], sets: &[Vec<BucketId>]) {
    let size = |found: StoredGroup| (found.group.key(), found.documents, found.last_write);
    let whole = store.groups(document_types, &ViewScope::All, None, 10_000).expect("a page");
    let whole: Vec<_> = whole.groups.into_iter().map(size).collect();
    for wanted in [1, 3, 10_000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = |set: &Vec<BucketId>| {
                let scope = ViewScope::Buckets(set.clone());
                let page = store.groups(document_types, &scope, after.as_ref(), wanted).expect("a page");
                for group in &page.groups {
                    let alone = store.group(document_types, &group.group, Some(set)).expect("its size");
                    assert_eq!(alone, *group);
                }
                page
            };
            let page = StoredGroupPage::merged(sets.iter().map(page).collect(), wanted);
            assert!(page.groups.len() <= wanted);
            found.extend(page.groups.into_iter().map(size));
            match page.continuation {
                Some(group) => after = Some(group),
                None => break,
            }
        }
        assert_eq!(found, whole, "merged pages of {wanted}");
    }
}

#[test]
fn groups_of_buckets_are_merged_to_those_of_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let halves = [vec![BucketId::new(1, 0)], vec![BucketId::new(1, 1)]];
    let quarters: Vec<_> = (0..4).map(|bits| vec![BucketId::new(2, bits)]).collect();
    for round in 0..2 {
        for number in 0..40 {
            put(&store, &format!("id:n:mail:n={number}:{round}"), "text", 1);
            put(&store, &format!("id:n:note:g=name{}:{number}", number % 7), "text", 1);
        }
        for number in (0..40).step_by(3) {
            remove(&store, &format!("id:n:mail:n={number}:{round}"));
        }
        check_sets(&store, &["mail", "note"], &halves);
        check_sets(&store, &["mail", "note"], &quarters);
        store.seal().expect("sealed");
        check_sets(&store, &["mail", "note"], &quarters);
    }
}

#[test]
fn bytes_of_a_group_follow_its_documents() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let ann = DocumentGroup::Name("ann".to_owned());
    let size = || store.group(&["mail", "note"], &ann, None).expect("its size");
    let bytes = || size().bytes;
    assert_eq!((size().documents, bytes()), (0, 0));
    let text = "word ".repeat(2000);
    put(&store, "id:n:mail:g=ann:1", &text, 1);
    put(&store, "id:n:note:g=ann:1", "short", 1);
    put(&store, "id:n:mail:g=bob:1", &text.repeat(3), 1);
    put(&store, "id:n:mail::1", &text, 1);
    let in_tail = bytes();
    assert!((10_000..20_000).contains(&in_tail), "{in_tail}");
    store.seal().expect("sealed");
    let sealed = bytes();
    assert!((100..30_000).contains(&sealed), "{sealed}");
    assert_eq!(store.group(&["note"], &ann, None).expect("its size").documents, 1);
    remove(&store, "id:n:mail:g=ann:1");
    assert_eq!(size().documents, 1);
    assert!(bytes() > sealed, "the removal is in the tail, and the document in its segment");
    check_groups(&store, &["mail", "note"]);
    store.drop_group(None, &ann).expect("dropped");
    assert_eq!(size().documents, 0);
    check_groups(&store, &["mail", "note"]);
    store.seal().expect("sealed");
    store.maintain().expect("merged");
    assert_eq!(bytes(), 0, "a merge leaves the dropped documents out");
    check_groups(&store, &["mail", "note"]);
}
