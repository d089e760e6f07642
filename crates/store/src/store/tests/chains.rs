//! Modifications of one document that wait for each other, and are committed together. Those of a batch enter
//! the lane of the document before the first of them runs.

use std::sync::atomic::Ordering;
use std::sync::mpsc;

use millrace_document::{Document, DocumentValue, Timestamp};

use super::{TailBehaviour, holds, id, open, poll};
use crate::{
    CommittedWrite, DocumentWrite, Error, Store, StoreChange, StoreModification, WriteDurability,
    WriteRefusal, WriteRefusalKind, WriterId,
};

type ChainOutcomes = Vec<Result<CommittedWrite, Error>>;

fn counter(value: i32) -> StoreModification {
    StoreModification::Put(Document { id: id(1), fields: vec![("a".into(), DocumentValue::Int(value))] })
}

fn value(document: &Document) -> i32 {
    match document.fields.first() {
        Some((_, DocumentValue::Int(value))) => *value,
        other => panic!("a document of the test has a number, not {other:?}"),
    }
}

/// Adds one to the document, or creates it.
fn add() -> StoreChange {
    let add = |found: Option<Document>| Ok(counter(found.as_ref().map_or(0, value) + 1));
    StoreChange::ModifyContent(Box::new(add))
}

/// Adds one to a document with this value, and refuses others.
fn add_to(expected: i32) -> StoreChange {
    StoreChange::ModifyContent(Box::new(move |found| match found.as_ref().map(value) {
        Some(found) if found == expected => Ok(counter(found + 1)),
        found => Err(WriteRefusal::new(WriteRefusalKind::Condition, format!("it is {found:?}"))),
    }))
}

fn look() -> StoreChange {
    StoreChange::ModifyContent(Box::new(|_| Ok(StoreModification::Nothing)))
}

fn remove() -> StoreChange {
    StoreChange::ModifyContent(Box::new(|_| Ok(StoreModification::Remove)))
}

/// Hands changes of document 1 to the store, as one batch.
fn begin(store: &Store, changes: Vec<StoreChange>) -> mpsc::Receiver<ChainOutcomes> {
    let (sender, outcomes) = mpsc::channel();
    let writes = changes.into_iter().map(|change| DocumentWrite { id: id(1), change }).collect();
    let done = move |outcomes: ChainOutcomes| drop(sender.send(outcomes));
    let taken = store.write_batch(writes, WriterId::default(), WriteDurability::Synced, done);
    assert!(taken.is_ok(), "the store takes the batch");
    outcomes
}

fn modify(store: &Store, changes: Vec<StoreChange>) -> ChainOutcomes {
    begin(store, changes).recv().expect("every batch is answered")
}

fn stored(store: &Store) -> Option<i32> {
    store.get(&id(1)).expect("the store reads").map(|(document, _)| value(&document))
}

#[test]
fn those_that_wait_for_each_other_have_one_sync() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), &TailBehaviour::default());
    let before = store.sync_times().count();
    let outcomes = modify(&store, (0..600).map(|_| add()).collect());
    let syncs = store.sync_times().count() - before;
    assert!((3..=300).contains(&syncs), "a chain is bounded, and has two at least: {syncs}");
    let written: Vec<CommittedWrite> =
        outcomes.into_iter().map(|outcome| outcome.expect("acknowledged")).collect();
    assert!(written.is_sorted_by(|one, next| one.timestamp < next.timestamp), "each has its own time");
    assert!(written.iter().all(|one| one.changed));
    assert_eq!(written.iter().filter(|one| one.existed == Some(false)).count(), 1);
    assert_eq!((stored(&store), store.status().writes_in_flight), (Some(600), 0));
    store.close();
    let store = open(directory.path(), &TailBehaviour::default());
    assert_eq!(stored(&store), Some(600));
    store.seal().expect("sealed");
    assert_eq!(stored(&store), Some(600));
}

#[test]
fn each_sees_the_result_of_the_one_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), &TailBehaviour::default());
    let (sender, seen) = mpsc::channel();
    let see_version = StoreChange::Modify(Box::new(move |found| {
        let found = found.map(|(document, timestamp)| (value(&document), timestamp));
        sender.send(found).expect("the test waits");
        Ok(StoreModification::Nothing)
    }));
    let faulty = StoreChange::ModifyContent(Box::new(|_| panic!("a fault of the caller")));
    let changes = vec![
        look(),
        add(),
        add_to(1),
        add_to(1),
        look(),
        faulty,
        remove(),
        look(),
        add_to(2),
        add(),
        see_version,
        add(),
    ];
    let outcomes = modify(&store, changes);
    let shown: Vec<String> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(written) => format!("{:?} {}", written.existed, written.changed),
            Err(Error::Refused(refusal)) if refusal.kind == WriteRefusalKind::Condition => {
                refusal.reason.clone()
            }
            Err(Error::Refused(_)) => "a fault".to_owned(),
            Err(other) => panic!("{other}"),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Some(false) false",
            "Some(false) true",
            "Some(true) true",
            "it is Some(2)",
            "Some(true) false",
            "a fault",
            "Some(true) true",
            "Some(false) false",
            "it is None",
            "Some(false) true",
            "Some(true) false",
            "Some(true) true",
        ]
    );
    let time = |at: usize| outcomes[at].as_ref().expect("it is answered").timestamp;
    assert!([1, 2, 6, 9, 11].is_sorted_by(|one, next| time(*one) < time(*next)), "{outcomes:?}");
    assert_eq!([time(0), time(4), time(7)], [Timestamp(0), time(2), Timestamp(0)]);
    assert_eq!(seen.recv().expect("it has run"), Some((1, time(9))), "its version is durable");
    assert_eq!(time(10), time(9));
    assert_eq!(stored(&store), Some(2));
}

/// Those that have changed nothing have seen a version that is not there after a restart.
#[test]
fn a_sync_that_fails_fails_all_of_a_chain() {
    for (name, next) in
        [("no-op", look()), ("refusal", add_to(7)), ("update", add_to(3)), ("removal", remove())]
    {
        let directory = tempfile::tempdir().expect("a directory");
        let tail = TailBehaviour::default();
        let store = open(directory.path(), &tail);
        tail.store(3, Ordering::SeqCst);
        let first = begin(&store, vec![add(), add()]);
        poll("the first chain is being committed", || tail.load(Ordering::SeqCst) == 4);
        let second = begin(&store, vec![add(), next]);
        assert_eq!(stored(&store), None, "nothing is seen before it is acknowledged");
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        tail.store(1, Ordering::SeqCst);
        let first = first.recv().expect("every batch is answered");
        assert!(matches!(&first[..], [Ok(_), Ok(_)]), "{name}: {first:?}");
        let second = second.recv().expect("every batch is answered");
        let is_unknown = |outcome: &Result<_, _>| matches!(outcome, Err(Error::Poisoned { .. }));
        assert!(second.iter().all(is_unknown), "{name}: {second:?}");
        tail.store(0, Ordering::SeqCst);
        assert_eq!(stored(&store), Some(2), "{name}");
        store.close();
        let store = open(directory.path(), &tail);
        assert_eq!(stored(&store), Some(2), "{name}");
        assert!(matches!(&modify(&store, vec![add_to(2), add_to(3)])[..], [Ok(_), Ok(_)]), "{name}");
    }
}

#[test]
fn a_full_disk_refuses_a_chain_as_a_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    modify(&store, vec![add()]);
    tail.store(2, Ordering::SeqCst);
    for (name, next) in [("refusal", add_to(7)), ("removal", remove()), ("no-op", look())] {
        let outcomes = modify(&store, vec![add(), next]);
        let is_full = |outcome: &Result<_, _>| matches!(outcome, Err(Error::DiskFull { .. }));
        assert!(outcomes.iter().all(is_full), "{name}: {outcomes:?}");
        assert!(holds(&store, 1), "{name}");
    }
    tail.store(0, Ordering::SeqCst);
    store.close();
    assert_eq!(stored(&open(directory.path(), &tail)), Some(1));
}
