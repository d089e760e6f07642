//! Snapshots: a directory of links has the store of one instant, whatever happens to the store after.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use millrace_document::{DocumentGroup, Timestamp};
use millrace_env::{
    Disk, DiskFault, DiskOperation, FaultyDisk, ManualClock, ObservedDisk, PowerLossDisk, RealDisk, WallClock,
};
use millrace_store::{
    Error, SnapshotAttachment, SnapshotDescription, SnapshotName, Store, StoreChange, StoreOptions,
    StoreVisit, restore_point, restore_snapshot,
};
use parking_lot::Mutex;

use crate::common::{document, id, open, options, put, remove, visited, wait_until, write};

fn name(text: &str) -> SnapshotName {
    SnapshotName::parse(text).expect("the test's name is one")
}

fn group(name: &str) -> DocumentGroup {
    DocumentGroup::Name(name.to_owned())
}

fn contents(store: &Store) -> BTreeMap<String, i64> {
    let visit = StoreVisit { wanted: 1000, ..StoreVisit::all(&["mail"]) };
    visited(store, &visit).into_iter().filter_map(|(id, number, _)| Some((id, number?))).collect()
}

/// An application of one file.
fn attached() -> Result<(u64, Vec<SnapshotAttachment>), Error> {
    let active =
        SnapshotAttachment { directory: "application", name: "active".to_owned(), bytes: b"7".to_vec() };
    Ok((7, vec![active]))
}

fn create(store: &Store, text: &str) -> Result<SnapshotDescription, Error> {
    store.create_snapshot(&name(text), store.next_timestamp(), attached)
}

fn names(store: &Store) -> Vec<String> {
    let all = store.snapshots().expect("listed").into_iter();
    all.map(|snapshot| snapshot.name.to_string()).collect()
}

/// Files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// Copies all files below a directory.
pub fn copy_all(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).expect("it is below"));
        std::fs::create_dir_all(target.parent().expect("it has one")).expect("made");
        match std::fs::copy(&path, &target) {
            // A thread of the store has removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => drop(copied.expect("copied")),
        }
    }
}

/// Documents in several segments and in the tail, with removals and a dropped group.
fn fill(store: &Store) {
    for round in 0..5 {
        for number in 0..50 {
            put(store, &format!("id:n:mail:g=user{}:{number}", number % 7), "words", round * 100 + number);
        }
        remove(store, &format!("id:n:mail:g=user0:{}", round * 7));
        if round < 4 {
            store.seal().expect("sealed");
        }
    }
    store.drop_group(None, &group("user3")).expect("dropped");
}

#[test]
fn a_snapshot_is_the_store_of_one_instant() {
    let directory = tempfile::tempdir().expect("a directory");
    let (live, target) = (directory.path().join("live"), directory.path().join("restored"));
    let store = open(StoreOptions { maintenance: true, ..options(&live) });
    fill(&store);
    let expected = contents(&store);
    assert_eq!(expected.len(), 50 - 7 - 1, "removed and dropped documents are not there");
    let made = create(&store, "first").expect("made");
    assert_eq!((made.name.as_str(), made.application), ("first", 7));
    assert!(made.files > 0 && made.documents >= 42 && made.bytes > 0, "{made:?}");
    assert!(matches!(create(&store, "first"), Err(Error::SnapshotExists { .. })));
    // The store goes on, and deletes the files that the snapshot has.
    for number in 0..50 {
        remove(&store, &format!("id:n:mail:g=user{}:{number}", number % 7));
    }
    store.seal().expect("sealed");
    store.maintain().expect("merged");
    assert_eq!(contents(&store), BTreeMap::new());
    let snapshot = store.snapshot(&name("first")).expect("listed").expect("it is there");
    assert_eq!(snapshot.description.ok(), Some(made.clone()));
    assert_eq!(restore_snapshot(&snapshot.path, &target).expect("restored"), made);
    let restored = open(options(&target));
    assert_eq!(contents(&restored), expected);
    assert_eq!(std::fs::read(target.join("application/active")).expect("copied"), b"7");
    assert_eq!(restored.erasures().len(), 1, "the dropped group is to be erased there, too");
    // It is a store by itself.
    put(&restored, "id:n:mail:g=user3:1", "again", 7);
    restored.seal().expect("sealed");
    restored.maintain().expect("merged");
    restored.close();
    assert_eq!(contents(&open(options(&target))).len(), expected.len() + 1);
    assert_eq!(contents(&store), BTreeMap::new());
    let report = millrace_store::check(&target).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn snapshots_name_the_groups_and_the_bytes_that_only_they_have() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    assert_eq!(store.snapshot_space().snapshots, 0);
    put(&store, "id:n:mail:g=ann:1", "words", 1);
    create(&store, "one").expect("made");
    put(&store, "id:n:mail:g=bob:1", "words", 2);
    create(&store, "two").expect("made");
    let with = |of: &str| -> Vec<String> {
        let found = store.snapshots_with_group(&group(of)).expect("searched");
        found.into_iter().map(|name| name.to_string()).collect()
    };
    assert_eq!(
        (with("ann"), with("bob"), with("carl")),
        (vec!["one".to_owned(), "two".to_owned()], vec!["two".to_owned()], Vec::new())
    );
    let copies = |name: &str| -> u64 {
        let snapshot = directory.path().join("snapshots").join(name);
        let own = files(&snapshot).into_iter().filter(|path| path.extension().is_none_or(|of| of != "seg"));
        own.map(|path| path.metadata().expect("a file").len()).sum()
    };
    assert_eq!(store.snapshot_space().held_bytes, copies("one") + copies("two"), "segments are shared");
    store.maintain().expect("merged");
    remove(&store, "id:n:mail:g=ann:1");
    store.drop_group(None, &group("bob")).expect("dropped");
    store.erase_within(&group("bob"), Duration::ZERO).expect("noted");
    store.seal().expect("sealed");
    store.maintain().expect("merged");
    assert!(store.delete_snapshot(&name("one")).expect("deleted"));
    assert!(!store.delete_snapshot(&name("one")).expect("looked for"));
    assert_eq!((names(&store), with("ann")), (vec!["two".to_owned()], vec!["two".to_owned()]));
    let space = store.snapshot_space();
    assert_eq!(space.snapshots, 1);
    assert!(space.held_bytes > copies("two"), "merges have replaced what the snapshot holds: {space:?}");
    assert!(store.delete_snapshot(&name("two")).expect("deleted"));
    assert_eq!(store.snapshot_space().held_bytes, 0);
    assert_eq!(files(&directory.path().join("snapshots")), Vec::<PathBuf>::new());
}

/// Of a writer that numbers its documents one after another, a snapshot has a beginning: all that were
/// acknowledged before, and no gap.
#[test]
fn a_snapshot_of_a_store_in_use_has_no_gap() {
    let directory = tempfile::tempdir().expect("a directory");
    let live = directory.path().join("live");
    let store = open(StoreOptions { tail_bytes: 32 << 10, maintenance: true, ..options(&live) });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (writing, stop) = (store.clone(), &stop);
        let writer = scope.spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::SeqCst) {
                let text = format!("id:n:mail:g=user{}:{number}", number % 7);
                let change = StoreChange::Put(document(&text, &"text ".repeat(40), number));
                match write(&writing, &id(&text), change) {
                    Ok(_) => number += 1,
                    // The tail is small, and sealing can fall behind.
                    Err(Error::Overloaded) => std::thread::sleep(Duration::from_millis(1)),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for round in 0..4 {
            std::thread::sleep(Duration::from_millis(100));
            let before = contents(&store).len();
            let of_round = format!("round{round}");
            create(&store, &of_round).expect("made");
            let target = directory.path().join(&of_round);
            restore_snapshot(&live.join("snapshots").join(&of_round), &target).expect("restored");
            let mut numbers: Vec<i64> = contents(&open(options(&target))).into_values().collect();
            numbers.sort_unstable();
            assert!(numbers.len() >= before, "{} of {before}", numbers.len());
            assert_eq!(numbers, (0..numbers.len() as i64).collect::<Vec<_>>());
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("the writer ends");
    });
}

/// Before each operation on files of a snapshot that is made and deleted, what a kill and what a loss of
/// power leave is kept. In each of them a start finds the whole snapshot or none, and the documents.
#[test]
fn a_crash_leaves_a_whole_snapshot_or_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let (root, kept) = (directory.path().join("live"), directory.path().join("kept"));
    std::fs::create_dir(&root).expect("made");
    std::fs::create_dir(&kept).expect("made");
    let forgetful = PowerLossDisk::new(&root, &kept);
    let recording = Arc::new(AtomicBool::new(false));
    let images = Arc::new(Mutex::new(Vec::<(String, PathBuf)>::new()));
    let observer = {
        let (root, copies) = (root.clone(), directory.path().join("images"));
        let (forgetful, recording, images) = (forgetful.clone(), Arc::clone(&recording), Arc::clone(&images));
        move |operation: DiskOperation, path: &Path| -> io::Result<()> {
            if recording.load(Ordering::SeqCst) {
                let mut images = images.lock();
                let at = images.len();
                let image = copies.join(at.to_string());
                // Each costs a start, so they take turns.
                let loss = if at.is_multiple_of(2) { "killed" } else { "without power" };
                match at.is_multiple_of(2) {
                    true => copy_all(&root, &image),
                    false => forgetful.lose_power(&image)?,
                }
                images.push((format!("{loss} before {operation:?} {}", path.display()), image));
            }
            Ok(())
        }
    };
    let disk: Arc<dyn Disk> = Arc::new(ObservedDisk::new(Arc::new(forgetful), Arc::new(observer)));
    let store = open(StoreOptions { disk, ..options(&root) });
    fill(&store);
    store.seal().expect("sealed");
    let expected = contents(&store);
    recording.store(true, Ordering::SeqCst);
    create(&store, "first").expect("made");
    let made = images.lock().len();
    store.delete_snapshot(&name("first")).expect("deleted");
    recording.store(false, Ordering::SeqCst);
    let images = std::mem::take(&mut *images.lock());
    assert!(made > 10, "{made} images");
    let whole = AtomicUsize::new(0);
    for (at, (instant, image)) in images.iter().enumerate() {
        let again = open(options(image));
        assert_eq!(contents(&again), expected, "{instant}");
        let left = files(&image.join("snapshots"));
        let target = directory.path().join(format!("restored-{at}"));
        match names(&again).as_slice() {
            [] => assert_eq!(left, Vec::<PathBuf>::new(), "{instant}"),
            [one] => {
                whole.fetch_add(1, Ordering::SeqCst);
                let from = image.join("snapshots").join(one);
                restore_snapshot(&from, &target).unwrap_or_else(|error| panic!("{instant}: {error}"));
                assert_eq!(contents(&open(options(&target))), expected, "{instant}");
            }
            more => panic!("{instant}: {more:?}"),
        }
    }
    assert!(whole.load(Ordering::SeqCst) > 0, "the deletion begins with a whole snapshot");
}

#[test]
fn a_flipped_bit_of_any_file_is_found_by_a_restoration() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(&directory.path().join("live")));
    fill(&store);
    create(&store, "first").expect("made");
    let snapshot = directory.path().join("live/snapshots/first");
    let (copy, target) = (directory.path().join("copy"), directory.path().join("restored"));
    copy_all(&snapshot, &copy);
    assert!(files(&copy).len() >= 5, "{:?}", files(&copy));
    for path in files(&copy) {
        let bytes = std::fs::read(&path).expect("read");
        for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(2)] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, &flipped).expect("written");
            let refused = restore_snapshot(&copy, &target).expect_err("a bit is flipped");
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(refused.to_string().contains(&file), "{file}, byte {at}: {refused}");
            assert_eq!(files(&target), Vec::<PathBuf>::new(), "nothing is left");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(restore_snapshot(&copy, &target).is_err(), "{} is missing", path.display());
        std::fs::write(&path, &bytes).expect("written");
    }
    restore_snapshot(&copy, &target).expect("it is whole again");
    let refused = restore_snapshot(&copy, &target).expect_err("it is not empty").to_string();
    assert!(refused.contains("into an empty directory only") && refused.contains("such as '"), "{refused}");
    let refused = restore_snapshot(&target, &copy).expect_err("it is not a snapshot").to_string();
    assert!(refused.contains("it is not a snapshot"), "{refused}");
}

#[test]
fn a_snapshot_that_cannot_be_made_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let linkless = Arc::new(AtomicBool::new(false));
    let faulty = FaultyDisk::new(Arc::new(RealDisk));
    let observer = {
        let linkless = Arc::clone(&linkless);
        move |operation: DiskOperation, _: &Path| match operation {
            DiskOperation::HardLink if linkless.load(Ordering::SeqCst) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            _ => Ok(()),
        }
    };
    let disk: Arc<dyn Disk> = Arc::new(ObservedDisk::new(Arc::new(faulty.clone()), Arc::new(observer)));
    let store = open(StoreOptions { disk, disk_reserve: 1 << 20, ..options(directory.path()) });
    fill(&store);
    store.seal().expect("sealed");
    let left = || files(&directory.path().join("snapshots"));
    linkless.store(true, Ordering::SeqCst);
    let refused = create(&store, "first").expect_err("no links");
    assert!(matches!(refused, Error::NoHardLinks { .. }), "{refused}");
    assert!(refused.to_string().contains("has no hard links"), "{refused}");
    assert_eq!(left(), Vec::<PathBuf>::new());
    linkless.store(false, Ordering::SeqCst);
    faulty.inject(DiskFault::Full { remaining: 1000 });
    let refused = create(&store, "first").expect_err("no room");
    assert!(matches!(refused, Error::DiskFull { free: 1000, .. }), "{refused}");
    faulty.heal();
    faulty.inject(DiskFault::FailSync);
    create(&store, "first").expect_err("nothing is durable");
    assert_eq!(left(), Vec::<PathBuf>::new());
    faulty.heal();
    let refused = store
        .create_snapshot(&name("first"), store.next_timestamp(), || Err(Error::Closed))
        .expect_err("nothing is attached");
    assert!(matches!(refused, Error::Closed), "{refused}");
    assert_eq!((left(), names(&store)), (Vec::new(), Vec::new()));
    create(&store, "first").expect("made");
    assert_eq!(names(&store), ["first"]);
    // A damaged file of the store is no part of a snapshot.
    store.close();
    let segment = files(&directory.path().join("segments")).pop().expect("a segment");
    let bytes = std::fs::read(&segment).expect("read");
    std::fs::remove_file(&segment).expect("removed");
    std::fs::write(&segment, &bytes[..bytes.len() / 2]).expect("written");
    let store = open(options(directory.path()));
    let refused = create(&store, "second").expect_err("damaged");
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
}

/// Documents of a directory that is restored to a time, by name and number.
fn at(live: &Path, time: Timestamp) -> Result<BTreeMap<String, i64>, Error> {
    let target = tempfile::tempdir().expect("a directory");
    restore_point(live, None, target.path(), time)?;
    let store = open(options(target.path()));
    let found = contents(&store);
    // It is a store like any other.
    put(&store, "id:n:mail:g=new:1", "words", 1);
    store.seal().expect("sealed");
    assert_eq!(contents(&store).len(), found.len() + 1);
    store.close();
    let report = millrace_store::check(target.path()).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    Ok(found)
}

/// After each step of puts, removals, drops, seals and restarts, the time and the contents are noted. Each
/// noted time is restored from the snapshot before it and the logs after.
#[test]
fn a_point_in_time_is_restored_from_kept_logs() {
    let directory = tempfile::tempdir().expect("a directory");
    let live = directory.path().join("live");
    let keeping =
        || StoreOptions { keep_logs: Duration::from_secs(3600), maintenance: true, ..options(&live) };
    let mut store = open(keeping());
    let mut noted: Vec<(Timestamp, BTreeMap<String, i64>)> = Vec::new();
    put(&store, "id:n:mail:g=user0:0", "words", 0);
    let before = store.next_timestamp();
    store.create_snapshot(&name("first"), store.next_timestamp(), attached).expect("made");
    for step in 0..60_i64 {
        let id = format!("id:n:mail:g=user{}:{}", step % 5, step % 17);
        match step % 10 {
            3 => drop(remove(&store, &id)),
            5 => store.seal().expect("sealed"),
            7 => store.drop_group(None, &group(&format!("user{}", step % 5))).expect("dropped"),
            9 if step == 29 => drop(create(&store, "second").expect("made")),
            9 => {
                store.close();
                store = open(keeping());
            }
            _ => drop(put(&store, &id, &"words ".repeat(20), step)),
        }
        noted.push((store.next_timestamp(), contents(&store)));
    }
    let refused = at(&live, before).expect_err("all snapshots are later").to_string();
    assert!(refused.contains("it has no such snapshot of a time before"), "{refused}");
    // Each costs a start, so only some are looked at.
    for (time, expected) in noted.iter().step_by(9) {
        let found = at(&live, *time).unwrap_or_else(|error| panic!("{time:?}: {error}"));
        assert_eq!(found, *expected, "{time:?}");
    }
    // From the first snapshot on, over the second.
    let (time, expected) = noted.last().expect("there are some");
    let target = directory.path().join("restored");
    restore_point(&live, Some(&name("first")), &target, *time).expect("restored");
    assert_eq!(contents(&open(options(&target))), *expected);
    // Once logs are not kept, the earlier ones are of no use.
    store.seal().expect("sealed");
    store.close();
    drop(open(options(&live)));
    let refused = at(&live, *time).expect_err("the logs are gone").to_string();
    assert!(refused.contains("the logs of writes after the snapshot are not there"), "{refused}");
}

#[test]
fn kept_logs_are_bounded_and_go_with_erased_groups() {
    let directory = tempfile::tempdir().expect("a directory");
    let few = StoreOptions {
        keep_logs: Duration::from_secs(3600),
        keep_logs_bytes: 40 << 10,
        maintenance: true,
        ..options(directory.path())
    };
    let store = open(few);
    let logs = || files(&directory.path().join("snapshots/.logs"));
    for round in 0..6 {
        put(
            &store,
            &format!("id:n:mail:g=ann:{round}"),
            &format!("{round} of ten thousand ").repeat(450),
            round,
        );
        store.seal().expect("sealed");
        let bytes: u64 = logs().iter().map(|path| path.metadata().expect("a file").len()).sum();
        assert!(bytes <= 40 << 10, "{:?}", logs());
    }
    assert!(!logs().is_empty() && logs().len() < 6, "{:?}", logs());
    assert!(store.snapshot_space().log_bytes > 0);
    store.drop_group(None, &group("ann")).expect("dropped");
    store.erase_within(&group("ann"), Duration::ZERO).expect("noted");
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while store.pending_erasures() != (0, 0) {
        assert!(std::time::Instant::now() < deadline, "{:?}", store.erasure(&group("ann")));
        std::thread::sleep(Duration::from_millis(10));
    }
    let has_text = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(15).any(|window| window == b"of ten thousand")
    };
    let left: Vec<PathBuf> = files(directory.path()).into_iter().filter(has_text).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

/// On a full disk nothing is sealed, and it would stay full.
#[test]
fn kept_logs_expire_though_nothing_is_sealed() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(20_000 * 24 * 3_600_000_000));
    let own = Arc::clone(&clock) as Arc<dyn WallClock>;
    let keep_logs = Duration::from_secs(60);
    let store = open(StoreOptions { clock: own, keep_logs, ..options(directory.path()) });
    put(&store, "id:n:mail:g=ann:1", "words", 1);
    store.seal().expect("sealed");
    let logs = || files(&directory.path().join("snapshots/.logs")).len();
    wait_until("it is kept", || logs() == 1);
    clock.set(20_001 * 24 * 3_600_000_000);
    wait_until("it is deleted", || logs() == 0);
}

/// A machine that started with a wrong clock, for one. Times of other clocks that are far ahead are refused.
#[test]
fn a_snapshot_is_made_though_the_clock_was_set_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let day = 24 * 3_600_000_000_u64;
    let clock = Arc::new(ManualClock::new(20_000 * day));
    let own = Arc::clone(&clock) as Arc<dyn WallClock>;
    let store = open(StoreOptions { clock: own, ..options(directory.path()) });
    put(&store, "id:n:mail:g=ann:1", "words", 1);
    clock.set(19_000 * day);
    put(&store, "id:n:mail:g=ann:2", "words", 2);
    create(&store, "first").expect("its own timestamps are ahead of its clock");
    let ahead = Timestamp(store.next_timestamp().0 + day);
    let refused = store.create_snapshot(&name("second"), ahead, attached).expect_err("another clock's");
    assert!(matches!(refused, Error::ClockAhead { .. }), "{refused}");
    assert_eq!(names(&store), ["first"]);
}

/// Each log names the one that followed it, so that one that is lost in between is noticed.
#[test]
fn a_kept_log_that_is_missing_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let live = directory.path().join("live");
    let keeping = || StoreOptions { keep_logs: Duration::from_secs(3600), ..options(&live) };
    let store = open(keeping());
    create(&store, "first").expect("made");
    for round in 0..4 {
        put(&store, &format!("id:n:mail:g=ann:{round}"), "words", round);
        store.seal().expect("sealed");
    }
    let (time, expected) = (store.next_timestamp(), contents(&store));
    store.close();
    let logs = || files(&live.join("snapshots/.logs"));
    // An earlier version did not note which one followed.
    for log in logs() {
        let name = log.file_name().and_then(|name| name.to_str()).expect("it has a name");
        let (earlier, _) = name.rsplit_once('-').expect("it names the next one");
        std::fs::rename(&log, log.with_file_name(format!("{earlier}.jnl"))).expect("renamed");
    }
    open(keeping()).close();
    assert_eq!(at(&live, time).expect("restored"), expected);
    assert!(millrace_store::check(&live).expect("checked").findings.is_empty());
    for missing in &logs()[1..] {
        // A crash came before it was moved to the kept ones.
        let name = missing.file_name().and_then(|name| name.to_str()).expect("it has a name");
        let sealed = live.join("tail").join(&name[..16]);
        std::fs::create_dir(&sealed).expect("made");
        std::fs::rename(missing, sealed.join("0.jnl")).expect("renamed");
        assert_eq!(at(&live, time).expect("restored"), expected);
        std::fs::rename(sealed.join("0.jnl"), missing).expect("renamed");
        std::fs::remove_dir(&sealed).expect("removed");
        let lost = directory.path().join("lost");
        std::fs::rename(missing, &lost).expect("renamed");
        let refused = at(&live, time).expect_err("a log is missing").to_string();
        assert!(refused.contains("the logs of writes after the snapshot are not there"), "{refused}");
        let findings = millrace_store::check(&live).expect("checked").findings;
        assert!(findings.len() == 1 && findings[0].meaning.contains("is not there"), "{findings:?}");
        std::fs::rename(&lost, missing).expect("renamed");
    }
}

/// A log that is read for longer than the one after it: that one is deleted for its size only after it was
/// kept beside the earlier one, which names it.
#[test]
fn logs_are_kept_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let live = directory.path().join("live");
    let keep_logs = Duration::from_secs(3600);
    let store = open(StoreOptions { keep_logs, keep_logs_bytes: 8 << 10, ..options(&live) });
    // The snapshot reads the log of the first write while it is made.
    let attach = || {
        put(&store, "id:n:mail:g=ann:1", "words", 1);
        store.seal().expect("sealed");
        put(&store, "id:n:mail:g=ann:2", &"more than is kept ".repeat(1000), 2);
        store.seal().expect("sealed");
        attached()
    };
    store.create_snapshot(&name("first"), store.next_timestamp(), attach).expect("made");
    put(&store, "id:n:mail:g=ann:3", "words", 3);
    wait_until("no sealed log waits", || {
        store.seal().expect("sealed");
        std::fs::read_dir(live.join("tail")).expect("listed").count() <= 2
    });
    let time = store.next_timestamp();
    store.close();
    let refused = at(&live, time).expect_err("the second one is not kept").to_string();
    assert!(refused.contains("the logs of writes after the snapshot are not there"), "{refused}");
}

/// A crash while a generation is made leaves it without a name, and its number is given again: its log would
/// stand for that of the next one.
#[test]
fn a_generation_that_no_manifest_named_leaves_no_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let (live, other) = (directory.path().join("live"), directory.path().join("other"));
    let keeping = || StoreOptions { keep_logs: Duration::from_secs(3600), ..options(&live) };
    let store = open(keeping());
    put(&store, "id:n:mail:g=ann:1", "words", 1);
    store.close();
    open(options(&other)).close();
    let made = files(&other.join("tail")).into_iter().find(|path| path.ends_with("0.jnl"));
    let made = made.expect("a generation was made");
    let left = live.join("tail/0000000000001000");
    copy_all(made.parent().expect("it is in the generation"), &left);
    let store = open(keeping());
    assert!(!left.exists());
    assert_eq!(files(&live.join("snapshots")), Vec::<PathBuf>::new());
    assert_eq!(contents(&store).len(), 1);
    store.seal().expect("sealed");
    store.close();
    open(keeping()).close();
    let kept = files(&live.join("snapshots"));
    assert_eq!(kept.len(), 1, "that of the writes: {kept:?}");
    // The number of one that was begun beside the writing of a segment is below those that are free.
    let segment = files(&live.join("segments")).pop().expect("that of the writes");
    let left = live.join("tail").join(segment.file_stem().expect("its number"));
    std::fs::create_dir(&left).expect("made");
    std::fs::write(left.join("0.jnl"), "").expect("written");
    open(keeping()).close();
    assert!(!left.exists());
    assert_eq!(files(&live.join("snapshots")), kept);
}
