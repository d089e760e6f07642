//! Drops while a sweep writes documents again: what was written before a drop is gone after it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use millrace_document::DocumentGroup;
use millrace_store::{
    DocumentWrite, Store, StoreChange, StoreModification, StoreVisit, SweptPage, ViewScope, WriteRefusal,
};

use crate::common::{document, get, id, open, options, put, shown};

const A: &str = "id:n:mail:g=ann:1";

fn ann() -> DocumentGroup {
    DocumentGroup::Name("ann".to_owned())
}

/// Time that a step gets which must not end before another one. A store that lets it end is found out.
const HEAD_START: Duration = Duration::from_millis(200);

/// Writes all documents again, each by a document with its number and a hundred.
fn write_again(store: &Store, decided: &Sender<()>) -> SweptPage {
    let again = |found: millrace_document::Document| -> Result<StoreModification, WriteRefusal> {
        let number = crate::common::number(&found) + 100;
        // Nobody may wait for it any more.
        let _ = decided.send(());
        Ok(StoreModification::Put(document(found.id.as_str(), "again", number)))
    };
    store.sweep(&StoreVisit::all(&["mail"]), &again).expect("swept")
}

#[test]
fn a_document_that_was_shown_before_a_drop_is_not_written_again_before_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let seen = put(&store, A, "seen", 1).timestamp;
    let (sender, decided) = channel();
    std::thread::scope(|scope| {
        let pause = store.pause_rewrites();
        let swept = scope.spawn(|| write_again(&store, &sender));
        decided.recv().expect("a sweep decides");
        let (found, came) = channel::<()>();
        // A sweep that did not wait would be over by then.
        assert_eq!(came.recv_timeout(HEAD_START), Err(RecvTimeoutError::Timeout));
        drop(found);
        assert_eq!(
            shown(&*store.view("mail", &ViewScope::Groups(vec![ann()])).expect("a view")).get(A),
            Some(&1)
        );
        store.drop_group_until(&pause, "mail", &ann(), seen).expect("dropped");
        drop(pause);
        assert_eq!(swept.join().expect("it ends").changed, 0);
    });
    assert_eq!(get(&store, A), None);
}

/// Holds the thread that commits writes, by the answer to one of them, until the returned sender is dropped.
fn hold_commits(store: &Store) -> Sender<()> {
    let (release, released) = channel::<()>();
    let (sender, held) = channel();
    let other = "id:n:mail:g=bob:other";
    let change = StoreChange::Put(document(other, "holds", 9));
    store.write(DocumentWrite { id: id(other), change }, move |_| {
        sender.send(()).expect("the test waits for it");
        // It ends when the sender is dropped.
        let _ = released.recv();
    });
    held.recv().expect("the write is committed");
    release
}

#[track_caller]
fn check_that_it_is_gone(dropped: impl Fn(&Store) + Sync) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    put(&store, A, "text", 1);
    let release = hold_commits(&store);
    let (sender, decided) = channel();
    std::thread::scope(|scope| {
        let swept = scope.spawn(|| write_again(&store, &sender));
        decided.recv().expect("a sweep decides");
        let (sender, over) = channel();
        // The sweep has found the version, and its write waits for the commit.
        while store.status().writes_in_flight < 1 {
            std::thread::yield_now();
        }
        std::thread::sleep(HEAD_START / 4);
        let (store, dropped) = (&store, &dropped);
        scope.spawn(move || {
            dropped(store);
            // The test may have gone on.
            let _ = sender.send(());
        });
        // A drop that did not wait for the write would be over by then.
        let _ = over.recv_timeout(HEAD_START);
        drop(release);
        swept.join().expect("it ends");
    });
    assert_eq!(get(&store, A), None);
}

#[test]
fn a_document_that_is_written_again_during_a_drop_is_dropped() {
    check_that_it_is_gone(|store| {
        store.drop_group(None, &ann()).expect("dropped");
    });
    check_that_it_is_gone(|store| store.drop_type("mail").expect("dropped"));
}
