use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use millrace_document::{Document, DocumentGroup, DocumentValue};
use millrace_store::{
    DocumentWrite, Error, StoreChange, StoreModification, StoreOptions, StoreTuning, StoreVisit, ViewScope,
    WriteRefusal, WriteRefusalKind,
};

use crate::common::{TestLayout, document, get, id, open, options, put, remove, shown, visited, write};

const A: &str = "id:n:mail:g=ann:1";

fn ann() -> ViewScope {
    ViewScope::Groups(vec![DocumentGroup::Name("ann".to_owned())])
}

fn acknowledged(outcome: Result<millrace_store::CommittedWrite, Error>) {
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
fn what_is_acknowledged_is_visible_before_and_after_sealing_and_reopening() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    put(&store, A, "hello world", 1);
    put(&store, "id:n:mail:g=ann:2", "second", 2);
    put(&store, "id:n:mail:g=bob:1", "other group", 3);
    put(&store, "id:n:note:g=ann:1", "other type", 4);
    let check = |store: &millrace_store::Store, stage: &str| {
        let view = store.view("mail", &ann()).expect("a view");
        let shown: Vec<_> = shown(&*view).into_iter().collect();
        assert_eq!(shown, [(A.to_owned(), 1), ("id:n:mail:g=ann:2".to_owned(), 2)], "{stage}");
        assert_eq!(get(store, "id:n:mail:g=bob:1"), Some(3), "{stage}");
        assert_eq!(get(store, "id:n:mail:g=bob:2"), None, "{stage}");
    };
    check(&store, "in the tail");
    store.seal().expect("sealed");
    check(&store, "in a segment");
    assert_eq!(store.status().tail_rows, 0);
    store.close();
    check(&open(options(directory.path())), "after a restart");
}

#[test]
fn the_newest_version_counts_across_tail_and_segments() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    for round in 0..6 {
        put(&store, A, "round", round);
        put(&store, &format!("id:n:mail:g=ann:r{round}"), "once", round);
        if round == 3 {
            remove(&store, "id:n:mail:g=ann:r1");
        }
        let view = store.view("mail", &ann()).expect("a view");
        assert_eq!(shown(&*view).get(A), Some(&round));
        assert_eq!(shown(&*view).contains_key("id:n:mail:g=ann:r1"), (1..3).contains(&round));
        store.seal().expect("sealed");
        let view = store.view("mail", &ann()).expect("a view");
        assert_eq!(shown(&*view).get(A), Some(&round), "round {round}");
        assert_eq!(get(&store, A), Some(round));
    }
    let before = store.status().segments;
    store.maintain().expect("merged");
    assert!(store.status().segments < before);
    let view = store.view("mail", &ann()).expect("a view");
    assert_eq!(shown(&*view).len(), 6);
    assert_eq!(get(&store, "id:n:mail:g=ann:r1"), None);
}

#[test]
fn a_view_stays_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    put(&store, A, "old", 1);
    store.seal().expect("sealed");
    let view = store.view("mail", &ann()).expect("a view");
    for round in 2..8 {
        put(&store, A, "new", round);
        store.seal().expect("sealed");
    }
    store.maintain().expect("merged");
    store.drop_group(None, &DocumentGroup::Name("ann".to_owned())).expect("dropped");
    store.clear_cache();
    assert_eq!(shown(&*view).get(A), Some(&1));
    assert!(shown(&*store.view("mail", &ann()).expect("a view")).is_empty());
}

#[test]
fn what_is_written_after_a_look_is_not_dropped_by_what_was_decided_from_it() {
    for sealed_before_the_drop in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = open(options(directory.path()));
        put(&store, A, "seen", 1);
        let seen = put(&store, "id:n:mail:g=ann:2", "seen", 2).timestamp;
        assert_eq!(shown(&*store.view("mail", &ann()).expect("a view")).len(), 2);
        put(&store, A, "written anew", 3);
        put(&store, "id:m:mail:g=ann:1", "of another namespace", 4);
        if sealed_before_the_drop {
            // The segment is newer than what the drop reaches, and does not heed it yet.
            store.seal().expect("sealed");
        }
        let ann_group = DocumentGroup::Name("ann".to_owned());
        store.drop_group_until(&store.pause_rewrites(), "mail", &ann_group, seen).expect("dropped");
        let expected = BTreeMap::from([(A.to_owned(), 3), ("id:m:mail:g=ann:1".to_owned(), 4)]);
        let check = |store: &millrace_store::Store, stage: &str| {
            assert_eq!(shown(&*store.view("mail", &ann()).expect("a view")), expected, "{stage}");
        };
        check(&store, "at once");
        store.close();
        store = open(options(directory.path()));
        check(&store, "after a restart");
        store.maintain().expect("maintained");
        check(&store, "after maintenance");
        store.seal().expect("sealed");
        store.maintain().expect("maintained");
        store.close();
        check(&open(options(directory.path())), "after another restart");
    }
}

#[test]
fn a_group_with_much_in_the_tail_shows_the_newest_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let name = |number: i64| format!("id:n:mail:g=ann:{number}");
    let mut expected = BTreeMap::new();
    for number in 0..1500 {
        put(&store, &name(number), "many words", number);
        expected.insert(name(number), number);
        match number % 300 {
            // Some of the documents in the view are written again and some are removed.
            100 => {
                assert_eq!(shown(&*store.view("mail", &ann()).expect("a view")), expected, "{number}");
                let visited = visited(&store, &StoreVisit { wanted: 70, ..StoreVisit::all(&["mail"]) });
                let visited: BTreeMap<String, i64> =
                    visited.into_iter().map(|(id, number, _)| (id, number.unwrap_or_default())).collect();
                assert_eq!(visited, expected, "{number}");
            }
            200 => {
                for old in (0..number).step_by(37) {
                    put(&store, &name(old), "other words", -old);
                    expected.insert(name(old), -old);
                }
                remove(&store, &name(number / 2));
                expected.remove(&name(number / 2));
            }
            _ => {}
        }
        if number == 700 {
            store.seal().expect("sealed");
        }
    }
    assert_eq!(shown(&*store.view("mail", &ann()).expect("a view")), expected);
    store.seal().expect("sealed");
    assert_eq!(shown(&*store.view("mail", &ann()).expect("a view")), expected);
}

/// Adds one to the number of a document, which is there.
fn increment(found: Option<Document>) -> Result<StoreModification, WriteRefusal> {
    let mut document = found.expect("the counter is there");
    let Some(DocumentValue::Long(number)) = document.get("number").cloned() else { panic!("a number") };
    document.set(&"number".into(), DocumentValue::Long(number + 1));
    Ok(StoreModification::Put(document))
}

#[test]
fn modifications_lose_no_update() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    put(&store, A, "counter", 0);
    let (sender, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (store, sender) = (store.clone(), sender.clone());
            scope.spawn(move || {
                for number in 0..100 {
                    // Some need the version before them, and wait until that is durable.
                    let change = match number % 7 {
                        0 => StoreChange::Modify(Box::new(|found| {
                            increment(found.map(|(document, _)| document))
                        })),
                        _ => StoreChange::ModifyContent(Box::new(increment)),
                    };
                    let sender = sender.clone();
                    store.write(DocumentWrite { id: id(A), change }, move |outcome| {
                        drop(sender.send(outcome))
                    });
                }
            });
        }
        // Blind puts of other documents of the group run beside.
        let beside = store.clone();
        scope.spawn(move || {
            for number in 0..100 {
                put(&beside, &format!("id:n:mail:g=ann:b{number}"), "blind", number);
            }
        });
        let sealer = store.clone();
        scope.spawn(move || (0..3).for_each(|_| sealer.seal().expect("sealed")));
    });
    drop(sender);
    assert_eq!(answers.iter().filter(|outcome| outcome.is_ok()).count(), 400);
    assert_eq!(get(&store, A), Some(400));
}

#[test]
fn a_modification_sees_a_blind_put_before_it_and_not_one_after() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let (sender, answers) = mpsc::channel();
    for number in 0..200 {
        let put = StoreChange::Put(document(A, "blind", number * 10));
        store.write(DocumentWrite { id: id(A), change: put }, acknowledged);
        let sender = sender.clone();
        let change = StoreChange::Modify(Box::new(move |found| {
            let (mut document, _) = found.expect("it is there");
            drop(sender.send((number, document.get("number").cloned())));
            document.set(&"number".into(), DocumentValue::Long(number * 10 + 1));
            Ok(StoreModification::Put(document))
        }));
        store.write(DocumentWrite { id: id(A), change }, acknowledged);
    }
    drop(sender);
    let seen: Vec<_> = answers.iter().collect();
    assert_eq!(seen.len(), 200);
    for (number, found) in seen {
        assert_eq!(found, Some(DocumentValue::Long(number * 10)));
    }
    // The last modification may still be on its way; another one waits for it.
    let last = write(&store, &id(A), StoreChange::Modify(Box::new(|_| Ok(StoreModification::Nothing))))
        .expect("answered");
    assert_eq!((last.existed, last.changed), (Some(true), false));
    assert_eq!(get(&store, A), Some(1991));
}

#[test]
fn refusals_come_back_and_change_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    put(&store, A, "stays", 7);
    let refusal = WriteRefusal::new(WriteRefusalKind::Condition, "the condition is not met");
    let refuse = refusal.clone();
    let outcome = write(&store, &id(A), StoreChange::Modify(Box::new(move |_| Err(refuse))));
    assert!(matches!(outcome, Err(Error::Refused(found)) if found == refusal));
    let outcome = write(&store, &id(A), StoreChange::Modify(Box::new(|_| panic!("a fault of the caller"))));
    assert!(matches!(outcome, Err(Error::Refused(_))));
    let missing = write(
        &store,
        &id("id:n:mail::x"),
        StoreChange::Modify(Box::new(|found| {
            assert!(found.is_none());
            Ok(StoreModification::Nothing)
        })),
    );
    assert_eq!(missing.expect("answered").existed, Some(false));
    assert_eq!(get(&store, A), Some(7));
    let long = format!("id:n:mail:g={}:x", "g".repeat(40_000));
    let outcome = write(&store, &id(&long), StoreChange::Remove);
    assert!(matches!(outcome, Err(Error::IdTooLong { .. })), "{outcome:?}");
}

#[test]
fn fields_that_no_column_holds_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let mut odd = document(A, "x", 1);
    odd.set(&"extra".into(), DocumentValue::Array(vec![DocumentValue::Int(1)]));
    odd.set(&"text".into(), DocumentValue::Long(5));
    write(&store, &odd.id, StoreChange::Put(odd.clone())).expect("acknowledged");
    let unknown = document("id:n:unknown::1", "kept", 2);
    write(&store, &unknown.id, StoreChange::Put(unknown.clone())).expect("acknowledged");
    for round in 0..5 {
        for document in [&odd, &unknown] {
            let (mut found, _) = store.get(&document.id).expect("read").expect("there");
            found.fields.sort_by(|a, b| a.0.cmp(&b.0));
            let mut expected = document.clone();
            expected.fields.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(found, expected, "round {round}");
        }
        put(&store, "id:n:mail:g=ann:other", "more", round);
        store.seal().expect("sealed");
        store.maintain().expect("merged");
    }
}

#[test]
fn drops_reach_what_was_written_before_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let fill = |number| {
        for name in
            ["id:n:mail:g=ann:1", "id:n:note:g=ann:1", "id:n:mail:g=bob:1", "id:n:mail::1", "id:n:note::1"]
        {
            put(&store, name, "text", number);
        }
    };
    let left = || -> Vec<String> {
        let visit = millrace_store::StoreVisit::all(&["mail", "note"]);
        let mut ids: Vec<String> =
            visited(&store, &visit).into_iter().map(|(id, ..)| id[5..].to_owned()).collect();
        ids.sort_unstable();
        ids
    };
    let ann_group = DocumentGroup::Name("ann".to_owned());
    for sealed in [false, true] {
        let seal = || {
            if sealed {
                store.seal().expect("sealed");
            }
        };
        fill(1);
        seal();
        store.drop_group(Some("mail"), &ann_group).expect("dropped");
        assert_eq!(left(), ["mail::1", "mail:g=bob:1", "note::1", "note:g=ann:1"]);
        store.drop_group(None, &ann_group).expect("dropped");
        assert_eq!(left(), ["mail::1", "mail:g=bob:1", "note::1"]);
        store.drop_group(None, &DocumentGroup::None).expect("dropped");
        assert_eq!(left(), ["mail:g=bob:1"]);
        put(&store, A, "after the drop", 5);
        assert_eq!(left(), ["mail:g=ann:1", "mail:g=bob:1"]);
        store.drop_type("mail").expect("dropped");
        assert!(left().is_empty());
        fill(2);
        seal();
        store.drop_bucket(millrace_bucket::BucketId::ROOT).expect("dropped");
        assert!(left().is_empty());
        fill(3);
        store.seal().expect("sealed");
        store.maintain().expect("merged");
        assert_eq!(left().len(), 5);
    }
}

#[test]
fn removals_are_remembered_and_then_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(millrace_env::ManualClock::new(1_000_000));
    let store =
        open(millrace_store::StoreOptions { clock: Arc::clone(&clock) as _, ..options(directory.path()) });
    let visit = millrace_store::StoreVisit { tombstones: true, ..millrace_store::StoreVisit::all(&["mail"]) };
    put(&store, A, "to go", 1);
    store.seal().expect("sealed");
    remove(&store, A);
    for _ in 0..2 {
        assert_eq!(visited(&store, &visit).len(), 1);
        assert_eq!(visited(&store, &visit)[0].1, None);
        store.seal().expect("sealed");
    }
    clock.set(1_000_000 + 15 * 24 * 3600 * 1_000_000);
    for number in 0..3 {
        put(&store, "id:n:mail:g=ann:other", "more", number);
        store.seal().expect("sealed");
    }
    store.maintain().expect("merged");
    assert_eq!(visited(&store, &visit).len(), 1, "only the other one");
}

#[test]
fn garbage_is_collected_by_selection() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    for number in 0..600 {
        let group = number % 7;
        let id_text = format!("id:n:mail:n={group}:{number}");
        store.write(
            DocumentWrite { id: id(&id_text), change: StoreChange::Put(document(&id_text, "text", number)) },
            acknowledged,
        );
    }
    put(&store, "id:n:mail:n=1:last", "text", 1001);
    store.seal().expect("sealed");
    // Part of the documents lies in a segment, part in the tail.
    put(&store, "id:n:mail:n=1:after", "text", 1000);
    let mut visit =
        StoreVisit { wanted: 100, fields: Some(vec!["number".to_owned()]), ..StoreVisit::all(&["mail"]) };
    let (mut seen, mut changed, mut progress) = (0, 0, 0.0);
    loop {
        let swept = store
            .sweep(&visit, &|document| match crate::common::number(&document) % 2 {
                1 => Ok(StoreModification::Nothing),
                _ => Ok(StoreModification::Remove),
            })
            .expect("swept");
        assert!(swept.seen <= 100 && swept.progress >= progress && swept.progress <= 1.0, "{swept:?}");
        (seen, changed, progress) = (seen + swept.seen, changed + swept.changed, swept.progress);
        match swept.continuation {
            Some(continuation) => visit.continuation = Some(continuation),
            None => break,
        }
    }
    assert_eq!((seen, changed, progress), (602, 301, 1.0));
    assert_eq!(visited(&store, &StoreVisit::all(&["mail"])).len(), 301);
}

#[test]
fn a_sweep_that_refuses_a_document_changes_nothing_of_the_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    for number in 0..10 {
        put(&store, &format!("id:n:mail:g=ann:{number}"), "text", number);
    }
    let refused =
        store.sweep(&StoreVisit::all(&["mail"]), &|document| match crate::common::number(&document) {
            7 => Err(WriteRefusal::new(WriteRefusalKind::Misfit, "not seven")),
            _ => Ok(StoreModification::Remove),
        });
    let is_refusal = |found: &WriteRefusal| found.kind == WriteRefusalKind::Misfit;
    assert!(matches!(&refused, Err(Error::Refused(found)) if is_refusal(found)), "{refused:?}");
    assert_eq!(visited(&store, &StoreVisit::all(&["mail"])).len(), 10);
}

#[test]
fn removals_are_forgotten_after_their_time_though_nothing_is_merged() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(millrace_env::ManualClock::new(1_000_000_000_000));
    let store = open(StoreOptions {
        clock: Arc::<millrace_env::ManualClock>::clone(&clock),
        ..options(directory.path())
    });
    put(&store, A, "text", 1);
    put(&store, "id:n:mail:g=bob:1", "stays", 2);
    store.seal().expect("sealed");
    remove(&store, A);
    store.seal().expect("sealed");
    store.set_tuning(StoreTuning {
        tombstone_retention: std::time::Duration::from_secs(60),
        prune_interval: std::time::Duration::ZERO,
        ..StoreTuning::default()
    });
    let removals = StoreVisit { tombstones: true, ..StoreVisit::all(&["mail"]) };
    clock.set(1_000_000_000_000 + 59_000_000);
    store.maintain().expect("nothing to forget yet");
    assert_eq!((visited(&store, &removals).len(), store.status().segments), (2, 2));
    clock.set(1_000_000_000_000 + 61_000_000);
    store.maintain().expect("merged");
    assert_eq!((visited(&store, &removals).len(), store.status().segments), (1, 1));
    assert_eq!((get(&store, A), get(&store, "id:n:mail:g=bob:1")), (None, Some(2)));
}

#[test]
fn buckets_use_the_bits_that_are_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    for number in 0..50 {
        put(&store, &format!("id:n:mail:n={number}:x"), "text", number);
    }
    store.seal().expect("sealed");
    store.set_tuning(StoreTuning { split_bits: 5, ..StoreTuning::default() });
    store.maintain().expect("split");
    assert_eq!(store.buckets().len(), 32);
    for number in 0..50 {
        put(&store, &format!("id:n:mail:n={number}:y"), "text", number);
    }
    store.seal().expect("sealed");
    store.close();
    let store = open(options(directory.path()));
    assert_eq!(visited(&store, &StoreVisit::all(&["mail"])).len(), 100);
    assert_eq!(get(&store, "id:n:mail:n=31:x"), Some(31));
}

#[test]
fn only_one_can_have_a_directory_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let second = millrace_store::Store::open(options(directory.path()), Arc::new(TestLayout));
    assert!(matches!(second.err(), Some(Error::DataDirectory { .. })));
    let clone = store.clone();
    store.close();
    assert!(matches!(clone.get(&id(A)), Err(Error::Closed)));
    assert!(matches!(write(&clone, &id(A), StoreChange::Remove), Err(Error::Closed)));
    drop(clone);
    open(options(directory.path()));
}

#[test]
fn marks_are_forgotten_though_writes_never_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions { tail_bytes: 16 << 10, ..options(directory.path()) });
    let marks = || {
        // The manifest has them: it is longer by each.
        std::fs::metadata(directory.path().join("manifest")).expect("it is there").len()
    };
    let text = "words ".repeat(500);
    let mut number = 0;
    let mut write_some = || {
        for _ in 0..10 {
            put(&store, &format!("id:n:mail:g=ann:{}", number % 20), &text, number);
            number += 1;
        }
    };
    write_some();
    store.seal().expect("sealed");
    store.maintain().expect("maintained");
    let without = marks();
    for group in 0..50 {
        let name = format!("a group with a long name, so that its mark is long as well {group}");
        store.drop_group(None, &millrace_document::DocumentGroup::Name(name)).expect("dropped");
    }
    // Rows are in the tail whenever there is a look. The store seals in the background, too, so that a look
    // can come before the rows of the drops' time are sealed.
    for _ in 0..20 {
        for _ in 0..3 {
            write_some();
            store.seal().expect("sealed");
            write_some();
        }
        assert!(store.status().tail_rows > 0);
        store.maintain().expect("maintained");
        assert!(store.status().tail_rows > 0);
        if marks() < without + 2000 {
            return;
        }
    }
    panic!("{} bytes, and {without} before the drops", marks());
}
