use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_bucket::{BucketId, DocumentSortKey};
use millrace_document::{Document, DocumentId, DocumentValue, Timestamp};
use proptest::prelude::*;

use super::{NewestVersion, newest_versions};
use crate::Error;
use crate::state::marks::DropMarks;
use crate::state::{StoreState, StoredBucket, TailGeneration};
use crate::tail::{
    AppendError, FjallTails, NewRow, RowDurability, TailFactory, TailFilter, TailRows, TailSnapshot,
    encode_put, encode_removed, row_key,
};

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

/// A state with one generation, whose rows have times up to `newest`.
fn state_of_tail(directory: &Path, tail: Arc<dyn TailRows>, newest: u64) -> StoreState {
    let generation = TailGeneration::new(1, directory.to_owned(), tail);
    generation.expect(1, newest);
    state_of(vec![Arc::new(generation)])
}

/// A state with generations in it, and nothing sealed.
fn state_of(generations: Vec<Arc<TailGeneration>>) -> StoreState {
    let bucket = Arc::new(StoredBucket { id: BucketId::ROOT, segments: Vec::new() });
    let marks = Arc::new(DropMarks::new(&[]));
    StoreState {
        version: 0,
        reduced_at: 0,
        generations,
        spare: None,
        buckets: vec![bucket],
        marks,
        replicas: Arc::default(),
    }
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
    state_of(generations)
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

/// Documents of a batch, and batches: more than the first part of a filter is for.
const BATCH: u32 = 1_000;
const BATCHES: u32 = 20;

/// The time of the one version of a document.
fn time(number: u32) -> u64 {
    u64::from(number) + 1
}

/// Lookups go on while rows are committed, and after the generation was opened again. The documents of each
/// batch are spread over the order of keys.
#[test]
fn lookups_beside_commits_hide_no_document_that_was_committed_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("1");
    let newest_time = time(BATCH * BATCHES);
    let tail = FjallTails.create(&path).expect("created");
    let state_beside = state_of_tail(&path, Arc::clone(&tail), newest_time);
    let committed = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for step in [7, 11, 13_u32] {
            let (state, committed) = (&state_beside, &committed);
            threads.spawn(move || {
                let mut first = 0;
                loop {
                    // What is acknowledged now must be found; what comes meanwhile may be.
                    let before = committed.load(Ordering::Acquire) as u32;
                    first = (first + step) % step.pow(2);
                    let numbers: Vec<u32> =
                        (first..before + BATCH).step_by((before as usize / 100).max(1)).collect();
                    for (number, found) in numbers.iter().zip(newest(state, &numbers, usize::MAX)) {
                        let found = found.map(|found| found.timestamp());
                        let is_missing = found.is_none() && *number >= before;
                        assert!(
                            found == Some(time(*number)) || is_missing,
                            "{number} of {before}: {found:?}"
                        );
                    }
                    if before == BATCH * BATCHES {
                        return;
                    }
                }
            });
        }
        for batch in 0..BATCHES {
            let numbers = batch * BATCH..(batch + 1) * BATCH;
            let rows = numbers.map(|number| row((number, time(number)))).collect();
            tail.append(rows, RowDurability::Written).expect("appended");
            committed.fetch_add(BATCH as usize, Ordering::Release);
        }
    });
    drop((state_beside, tail));
    let opened = state_of_tail(&path, FjallTails.open(&path).expect("opened"), newest_time);
    let numbers: Vec<u32> = (0..BATCH * BATCHES + BATCH).collect();
    for together in numbers.chunks(100) {
        for (number, found) in together.iter().zip(newest(&opened, together, usize::MAX)) {
            let expected = (*number < BATCH * BATCHES).then(|| time(*number));
            assert_eq!(found.map(|found| found.timestamp()), expected, "{number}");
        }
    }
}

/// Counts the snapshots that lookups take.
struct WatchedTail(Arc<dyn TailRows>, AtomicUsize);

impl TailRows for WatchedTail {
    fn append(&self, rows: Vec<NewRow>, durability: RowDurability) -> Result<(), AppendError> {
        self.0.append(rows, durability)
    }

    fn sync(&self) -> Result<(), AppendError> {
        self.0.sync()
    }

    fn append_marks(&self, marks: Vec<(u64, Vec<u8>)>) -> Result<(), AppendError> {
        self.0.append_marks(marks)
    }

    fn marks(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.0.marks()
    }

    fn snapshot(&self) -> Box<dyn TailSnapshot> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.snapshot()
    }

    fn ids(&self) -> &TailFilter {
        self.0.ids()
    }
}

#[test]
fn a_generation_is_searched_for_documents_that_it_can_have() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("1");
    let tail = FjallTails.create(&path).expect("created");
    let rows = (0..BATCH).map(|number| row((number, time(number)))).collect();
    tail.append(rows, RowDurability::Written).expect("appended");
    let watched = Arc::new(WatchedTail(tail, AtomicUsize::new(0)));
    let state = state_of_tail(&path, Arc::clone(&watched) as Arc<dyn TailRows>, time(BATCH));
    let snapshots_for = |numbers: std::ops::Range<u32>, is_there: bool| {
        let before = watched.1.load(Ordering::SeqCst);
        for number in numbers {
            assert_eq!(newest(&state, &[number], usize::MAX)[0].is_some(), is_there, "{number}");
        }
        watched.1.load(Ordering::SeqCst) - before
    };
    assert_eq!(snapshots_for(0..BATCH, true), BATCH as usize);
    let searched = snapshots_for(BATCH..5 * BATCH, false);
    assert!(
        searched < BATCH as usize / 10,
        "the tail was searched {searched} times for what it does not have"
    );
}
