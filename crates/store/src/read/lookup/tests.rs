use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use millrace_bucket::{BucketId, DocumentSortKey};
use millrace_document::{Document, DocumentId, DocumentValue, Timestamp};
use proptest::prelude::*;

use super::{NewestVersion, newest_versions};
use crate::state::marks::DropMarks;
use crate::state::{StoreState, StoredBucket, TailGeneration};
use crate::tail::{FjallTails, NewRow, RowDurability, TailFactory, encode_put, encode_removed, row_key};

/// Number of a document, and the timestamp of a version of it.
type NumberedVersion = (u32, u64);

const GROUPS: [&str; 5] = ["mail:g=ann", "mail:n=1", "mail:", "note:g=ann", "note:"];

fn id(number: u32) -> DocumentId {
    let group = GROUPS[number as usize % GROUPS.len()];
    DocumentId::parse(&format!("id:n:{group}:{number}")).expect("the test's id is one")
}

/// A version is the same wherever it comes from.
fn is_removal(timestamp: u64) -> bool {
    timestamp.is_multiple_of(5)
}

fn document(number: u32, timestamp: u64) -> Document {
    let fields = match is_removal(timestamp) {
        true => Vec::new(),
        false => vec![("time".into(), DocumentValue::String(timestamp.to_string()))],
    };
    Document { id: id(number), fields }
}

fn row((number, timestamp): NumberedVersion) -> NewRow {
    let value = match is_removal(timestamp) {
        true => encode_removed(),
        false => encode_put(&document(number, timestamp)),
    };
    (row_key(&DocumentSortKey::new(&id(number)), Timestamp(timestamp)), value)
}

/// A state with these generations, the newest first, and nothing sealed.
fn state(directory: &Path, generations: &[BTreeSet<NumberedVersion>]) -> StoreState {
    let opened = (1..).zip(generations.iter().rev()).map(|(number, versions)| {
        let directory = directory.join(format!("{number}"));
        let tail = FjallTails.create(&directory).expect("created");
        let generation = TailGeneration::new(number, directory, tail);
        versions.iter().for_each(|(_, timestamp)| generation.expect(*timestamp, *timestamp));
        let rows = versions.iter().copied().map(row).collect();
        generation.tail.append(rows, RowDurability::Written).expect("appended");
        Arc::new(generation)
    });
    let mut generations: Vec<_> = opened.collect();
    generations.reverse();
    let bucket = Arc::new(StoredBucket { id: BucketId::ROOT, segments: Vec::new() });
    let marks = Arc::new(DropMarks::new(&[]));
    StoreState { generations, spare: None, buckets: vec![bucket], marks, replicas: Arc::default() }
}

fn newest(state: &StoreState, numbers: &[u32], most_bytes: usize) -> Vec<Option<NewestVersion>> {
    let ids: Vec<DocumentId> = numbers.iter().map(|number| id(*number)).collect();
    let keys: Vec<DocumentSortKey> = ids.iter().map(DocumentSortKey::new).collect();
    let documents: Vec<(&DocumentId, &DocumentSortKey)> = ids.iter().zip(&keys).collect();
    let found = newest_versions(state, &documents, most_bytes).expect("the tail is read");
    assert_eq!(found.len(), numbers.len());
    found
}

fn check(generations: &[BTreeSet<NumberedVersion>], numbers: &[u32]) {
    let directory = tempfile::tempdir().expect("a directory");
    let state = state(directory.path(), generations);
    let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
    for (number, timestamp) in generations.iter().flatten() {
        let known = expected.entry(*number).or_default();
        *known = (*known).max(*timestamp);
    }
    let expected_of = |number: &u32| expected.get(number).copied();
    let timestamp_of = |found: &Option<NewestVersion>| found.as_ref().map(NewestVersion::timestamp);
    let verify = |number: u32, found: Option<NewestVersion>| {
        assert_eq!(timestamp_of(&found), expected_of(&number), "{number}");
        if let Some(found) = found {
            let NewestVersion::InTail(row) = found else { panic!("{number} is in the tail, and is kept") };
            assert_eq!(row.removed, is_removal(row.timestamp.0), "{number}");
            assert_eq!(row.document, document(number, row.timestamp.0), "{number}");
        }
    };
    for (number, found) in numbers.iter().zip(newest(&state, numbers, usize::MAX)) {
        verify(*number, found);
        verify(*number, newest(&state, &[*number], usize::MAX).remove(0));
    }
    let has_any = numbers.iter().any(|number| expected.contains_key(number));
    let of_few_bytes = newest(&state, numbers, 40);
    for (number, found) in numbers.iter().zip(&of_few_bytes) {
        assert_eq!(timestamp_of(found), expected_of(number), "{number}");
    }
    let none_kept = newest(&state, numbers, 0);
    assert_eq!(none_kept.iter().any(Option::is_some), has_any);
    assert!(!none_kept.iter().any(|found| matches!(found, Some(NewestVersion::InTail(_)))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn documents_of_several_generations_are_found_together_as_alone(
        generations in proptest::collection::vec(
            proptest::collection::btree_set((0..60_u32, 1..1000_u64), 0..150),
            1..4,
        ),
        numbers in proptest::collection::btree_set(0..60_u32, 0..60),
    ) {
        check(&generations, &numbers.into_iter().collect::<Vec<u32>>());
    }
}
