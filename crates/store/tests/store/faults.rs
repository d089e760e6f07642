//! Faults of the disk: syncs fail, the disk is full, writes stop halfway.

use std::sync::Arc;

use millrace_env::{Disk, DiskFault, FaultyDisk, ManualClock, RealDisk};
use millrace_store::{Error, StoreChange, StoreOptions, StoreVisit};

use crate::common::{document, get, id, open, options, put, wait_until, write};

const A: &str = "id:n:mail:g=ann:1";

fn faulty(directory: &std::path::Path) -> (FaultyDisk, StoreOptions) {
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let options = StoreOptions { disk: Arc::new(disk.clone()), ..options(directory) };
    (disk, options)
}

#[test]
fn a_full_disk_refuses_puts_and_takes_removes_and_recovers() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, options) = faulty(directory.path());
    let store = open(StoreOptions { disk_reserve: 1 << 20, ..options });
    put(&store, A, "before", 1);
    disk.inject(DiskFault::Full { remaining: 1000 });
    let refused = write(&store, &id(A), StoreChange::Put(document(A, "no", 2)));
    assert!(matches!(refused, Err(Error::DiskFull { free: 1000, .. })), "{refused:?}");
    assert_eq!(get(&store, A), Some(1));
    write(&store, &id(A), StoreChange::Remove).expect("removes still work");
    assert_eq!(get(&store, A), None);
    disk.heal();
    put(&store, A, "after", 3);
    assert_eq!(get(&store, A), Some(3));
}

#[test]
fn sealing_and_merging_that_fail_lose_nothing() {
    let faults = [DiskFault::FailSync, DiskFault::Full { remaining: 300 }, DiskFault::ShortWrite];
    for fault in faults {
        let directory = tempfile::tempdir().expect("a directory");
        let (disk, options) = faulty(directory.path());
        let store = open(options);
        for round in 0..4 {
            put(&store, A, "round", round);
            put(&store, &format!("id:n:mail:g=ann:x{round}"), "one a round", round);
            disk.inject(fault.clone());
            let files = segment_files(directory.path());
            assert!(store.seal().is_err(), "{fault:?}");
            assert_eq!(
                segment_files(directory.path()),
                files,
                "{fault:?}: what was begun gives its space back"
            );
            put(&store, "id:n:mail:g=ann:after", "writes go on", round);
            disk.heal();
            assert_eq!(get(&store, A), Some(round), "{fault:?}");
            store.seal().expect("sealed at the second try");
            assert_eq!(get(&store, A), Some(round), "{fault:?}");
        }
        disk.inject(fault.clone());
        let files = segment_files(directory.path());
        assert!(store.maintain().is_err(), "{fault:?}");
        assert_eq!(segment_files(directory.path()), files, "{fault:?}: what was begun gives its space back");
        disk.heal();
        store.maintain().expect("merged at the second try");
        store.close();
        let store = open(self::options_again(directory.path()));
        assert_eq!((get(&store, A), get(&store, "id:n:mail:g=ann:x2")), (Some(3), Some(2)), "{fault:?}");
        drop(store);
        let report = millrace_store::check(directory.path()).expect("checked");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn segments_that_found_no_space_wait_for_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, options) = faulty(directory.path());
    let store = open(StoreOptions { tail_bytes: 4096, ..options });
    put(&store, A, "a row is smaller than a segment", 1);
    disk.inject(DiskFault::Full { remaining: 1000 });
    let begun = store.seal().expect_err("it does not fit");
    assert!(matches!(&begun, Error::NoSpace { reason, .. } if !reason.contains("bytes free")), "{begun}");
    // The file is gone, and what it took is free again; more than the rows have, which are all that is known
    // at first. The next generation and its manifest have taken some.
    disk.inject(DiskFault::Full { remaining: 500 });
    let not_begun = store.seal().expect_err("it cannot fit now either");
    assert!(not_begun.to_string().contains("500 bytes free"), "{not_begun}");
    assert_eq!(disk.free_space(directory.path()).expect("asked"), 500, "writers have the space");
    disk.heal();
    store.seal().expect("it fits");
    assert_eq!(get(&store, A), Some(1));
}

fn segment_files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    RealDisk.list(&directory.join("segments")).expect("the directory is there")
}

#[test]
fn a_merge_that_failed_in_the_background_is_tried_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, options) = faulty(directory.path());
    let clock = Arc::new(ManualClock::new(1_000_000_000_000));
    let store = open(StoreOptions { maintenance: true, clock: Arc::<ManualClock>::clone(&clock), ..options });
    for round in 0..3 {
        put(&store, A, "round", round);
        store.seal().expect("sealed");
    }
    // Reads of the newest segment are damaged once it is there, so the fourth seal works and the merge does
    // not.
    disk.inject(DiskFault::FlipBit { name_ends: ".seg".to_owned(), offset: 64, bit: 3 });
    put(&store, A, "round", 3);
    store.seal().expect("sealed");
    store.clear_cache();
    wait_until("the merge fails", || !store.status().failures.is_empty());
    assert_eq!(store.status().merges, 0);
    disk.heal();
    clock.set(1_000_000_000_000 + 6_000_000);
    wait_until("the merge is tried again", || store.status().merges == 1);
    wait_until("the failure is over", || store.status().failures.is_empty());
    assert_eq!(get(&store, A), Some(3));
}

/// Nobody else would see it: the requests that find it are answered with it, and the server goes on.
#[test]
fn damage_that_a_read_finds_is_reported_while_the_file_is_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let (disk, options) = faulty(directory.path());
    let store = open(options);
    put(&store, A, "words", 1);
    store.seal().expect("sealed");
    disk.inject(DiskFault::FlipBit { name_ends: ".seg".to_owned(), offset: 64, bit: 3 });
    store.clear_cache();
    let visit = StoreVisit { wanted: 10, ..StoreVisit::all(&["mail"]) };
    let found = store.visit(&visit).expect_err("a column is damaged");
    assert!(matches!(found, Error::Corrupt { .. }), "{found}");
    let is_reported = || {
        let failures = store.status().failures;
        failures.iter().any(|reason| reason.contains(".seg: damaged at byte 64") && reason.contains("doctor"))
    };
    wait_until("the damage is reported", is_reported);
    assert_eq!(store.failures(), store.status().failures);
    disk.heal();
    for round in 2..6 {
        put(&store, A, "words", round);
        store.seal().expect("sealed");
    }
    store.maintain().expect("merged");
    wait_until("another file has its documents", || store.status().failures.is_empty());
    assert_eq!(get(&store, A), Some(5));
}

fn options_again(directory: &std::path::Path) -> StoreOptions {
    options(directory)
}

#[test]
fn too_many_writes_are_refused_and_none_is_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions { queue_writes: 50, ..options(directory.path()) });
    let (sender, answers) = std::sync::mpsc::channel();
    for number in 0..2000 {
        let id_text = format!("id:n:mail:g=ann:{number}");
        let sender = sender.clone();
        let change = StoreChange::Put(document(&id_text, "text", number));
        store.write(millrace_store::DocumentWrite { id: id(&id_text), change }, move |outcome| {
            drop(sender.send((id_text, number, outcome)));
        });
    }
    drop(sender);
    let mut refused = 0;
    for (id_text, number, outcome) in answers {
        match outcome {
            Ok(_) => assert_eq!(get(&store, &id_text), Some(number)),
            Err(Error::Overloaded) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
}
