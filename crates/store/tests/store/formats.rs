//! Segments of an earlier format.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_document::{DocumentGroup, Timestamp};
use millrace_env::{Disk, DiskFault, DiskOperation, FaultyDisk, ObservedDisk, PowerLossDisk, RealDisk};
use millrace_store::{
    Error, SegmentFormat, SnapshotName, Store, StoreOptions, StoreVisit, UpgradeProgress, UpgradeReport,
    upgrade_segments,
};
use parking_lot::Mutex;

use crate::arrival::copy_tree;
use crate::common::{TestLayout, get, open, options, put, remove, visited};

fn options_of(directory: &std::path::Path, segment_format: SegmentFormat) -> StoreOptions {
    StoreOptions { segment_format, ..options(directory) }
}

fn check(store: &Store) {
    for number in 0..300 {
        assert_eq!(get(store, &format!("id:n:mail:g=ann:{number}")), Some(number), "{number}");
    }
}

#[test]
fn segments_of_an_earlier_format_are_written_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(options_of(directory.path(), SegmentFormat::Plain));
    for number in 0..300 {
        put(&store, &format!("id:n:mail:g=ann:{number}"), &"some words ".repeat(40), number);
    }
    store.seal().expect("sealed");
    store.maintain().expect("there is nothing to do");
    let plain = store.status().segment_bytes;
    drop(store);

    let store = open(options_of(directory.path(), SegmentFormat::Compressed));
    check(&store);
    assert_eq!(store.status().segment_bytes, plain, "nothing happens by itself");
    store.maintain().expect("written again");
    let compressed = store.status().segment_bytes;
    assert!(compressed * 4 < plain, "{compressed} of {plain}");
    check(&store);
    store.maintain().expect("there is nothing to do");
    assert_eq!(store.status().segment_bytes, compressed);

    drop(store);

    let store = open(options_of(directory.path(), SegmentFormat::Filtered));
    check(&store);
    assert_eq!(store.filter_bytes(), 0, "nothing happens by itself");
    store.maintain().expect("written again");
    let (filters, filtered) = (store.filter_bytes(), store.status().segment_bytes);
    assert!(filters > 300 && filtered < compressed + 2 * filters, "{filters} of {filtered}");
    check(&store);
    for number in 300..600 {
        assert_eq!(get(&store, &format!("id:n:mail:g=ann:{number}")), None, "{number}");
    }

    // A cluster with nodes of an earlier version gets segments of its format, and does not turn back others.
    store.set_segment_format(SegmentFormat::Plain);
    store.maintain().expect("there is nothing to do");
    assert_eq!(store.status().segment_bytes, filtered);
}

/// Puts three segments of its format into a store, in which documents were replaced and removed.
fn put_segments(store: &Store) {
    for round in 0..3 {
        let text = "some words ".repeat(40);
        for number in 0..70 {
            put(store, &format!("id:n:mail:g=user{}:{}", number % 5, number + round * 60), &text, round);
        }
        for number in 0..20 {
            put(store, &format!("id:n:mail:g=dropped:{number}"), &text, round);
        }
        remove(store, &format!("id:n:mail:g=user{round}:{round}"));
        store.seal().expect("sealed");
    }
}

/// Fills a store with segments of its format, a dropped group that they have, and rows in the tail. Returns
/// what can be seen of it.
fn fill(store: &Store) -> SeenVersions {
    put_segments(store);
    store.drop_group(None, &DocumentGroup::Name("dropped".to_owned())).expect("dropped");
    put(store, "id:n:mail:g=user1:1", "in the tail", 7);
    seen(store)
}

/// Versions of all documents, removals among them.
type SeenVersions = Vec<(String, Option<i64>, Timestamp)>;

fn seen(store: &Store) -> SeenVersions {
    visited(store, &StoreVisit { tombstones: true, wanted: 5000, ..StoreVisit::all(&["mail"]) })
}

/// Upgrades a data directory to the newest format, and checks that its progress goes on to the end.
fn upgrade(options: StoreOptions) -> Result<UpgradeReport, Error> {
    let mut shown: Vec<UpgradeProgress> = Vec::new();
    let upgraded = upgrade_segments(options, Arc::new(TestLayout), &mut |progress| shown.push(progress));
    assert!(shown.is_sorted_by_key(|progress| progress.done), "{shown:?}");
    let is_done = shown.last().is_some_and(|progress| progress.done == progress.total);
    let is_partly = upgraded.as_ref().is_ok_and(|report| !report.failures.is_empty());
    assert!(is_done || is_partly || upgraded.is_err(), "{shown:?}");
    upgraded
}

fn newest(directory: &Path) -> StoreOptions {
    options_of(directory, SegmentFormat::default())
}

fn segment_files(directory: &Path) -> Vec<PathBuf> {
    RealDisk.list(&directory.join("segments")).expect("the directory is there")
}

/// Formats of the segments of a data directory, as their headers say.
fn versions(directory: &Path) -> Vec<u8> {
    segment_files(directory).iter().map(|path| std::fs::read(path).expect("it can be read")[8]).collect()
}

#[test]
fn all_segments_are_upgraded_at_once() {
    for format in [SegmentFormat::Plain, SegmentFormat::Compressed] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(options_of(directory.path(), format));
        let expected = fill(&store);
        let taken = upgrade(newest(directory.path())).expect_err("the store is open").to_string();
        assert!(taken.contains("another process has it open"), "{taken}");
        drop(store);

        let report = upgrade(newest(directory.path())).expect("upgraded");
        assert_eq!((report.upgraded, report.current), (3, 0), "{report:?}");
        assert!(report.bytes_after < report.bytes_before, "what was dropped is left out: {report:?}");
        assert_eq!(versions(directory.path()), [SegmentFormat::default() as u8; 3]);
        let store = open(newest(directory.path()));
        assert_eq!(seen(&store), expected, "{format:?}");
        assert!(store.filter_bytes() > 0);
        drop(store);
        let found = millrace_store::check(directory.path()).expect("checked");
        assert_eq!(found.findings, []);

        let again = upgrade(newest(directory.path())).expect("there is nothing to do");
        assert_eq!((again.upgraded, again.current), (0, 3), "{again:?}");
        assert_eq!(again.bytes_before, again.bytes_after);
    }
    let empty = tempfile::tempdir().expect("a directory");
    let refused = upgrade(newest(empty.path())).expect_err("it is not a data directory").to_string();
    assert!(refused.contains("no manifest"), "{refused}");
    assert!(!empty.path().join("segments").exists());
}

#[test]
fn an_upgrade_goes_on_after_a_crash_at_any_operation() {
    let [place, copies, kept] = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    let root = place.path().join("data");
    std::fs::create_dir(&root).expect("made");
    let forgetful = PowerLossDisk::new(&root, kept.path());
    let on = |disk: Arc<dyn Disk>, format| StoreOptions { disk, ..options_of(&root, format) };
    let store = open(on(Arc::new(forgetful.clone()), SegmentFormat::Plain));
    let expected = fill(&store);
    store.close();

    let images: Arc<Mutex<Vec<(String, PathBuf)>>> = Arc::default();
    let (recorded, of, to) = (Arc::clone(&images), root.clone(), copies.path().to_owned());
    let powerless = forgetful.clone();
    let observe = move |operation: DiskOperation, path: &Path| -> io::Result<()> {
        let mut recorded = recorded.lock();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = |what: &str| to.join(format!("{what}{}", recorded.len()));
        let (killed, without_power) = (place("killed"), place("powerless"));
        copy_tree(&of, &killed);
        powerless.lose_power(&without_power)?;
        for image in [killed, without_power] {
            recorded.push((format!("before {operation:?} of {name}"), image));
        }
        Ok(())
    };
    let disk = ObservedDisk::new(Arc::new(forgetful), Arc::new(observe));
    let report = upgrade(on(Arc::new(disk), SegmentFormat::default())).expect("upgraded");
    assert_eq!(report.upgraded, 3);

    let images = std::mem::take(&mut *images.lock());
    assert!(images.len() >= 2 * 3 * 5, "each file takes more operations than {}", images.len());
    for (operation, image) in &images {
        let report = upgrade(newest(image)).unwrap_or_else(|error| panic!("{operation}: {error}"));
        assert_eq!(
            (report.upgraded + report.current, report.failures.len()),
            (3, 0),
            "{operation}: {report:?}"
        );
        assert_eq!(
            versions(image),
            [SegmentFormat::default() as u8; 3],
            "{operation}: no other file is left"
        );
        let store = open(newest(image));
        assert_eq!(seen(&store), expected, "{operation}, {}", image.display());
    }
}

#[test]
fn an_upgrade_without_enough_space_is_not_begun() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options_of(directory.path(), SegmentFormat::Plain));
    let expected = fill(&store);
    let largest = store.status().segment_bytes / 2;
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let options = StoreOptions { disk: Arc::new(disk.clone()), ..newest(directory.path()) };
    drop(store);
    disk.inject(DiskFault::Full { remaining: 1000 });
    let refused = upgrade(options.clone()).expect_err("it does not fit").to_string();
    assert!(refused.contains("bytes of free space, and 1000 are free; free some"), "{refused}");
    assert_eq!(versions(directory.path()), [1; 3]);

    // A snapshot keeps all files that are replaced.
    let store = open(options_of(directory.path(), SegmentFormat::Plain));
    let name = SnapshotName::parse("before").expect("a name");
    store.create_snapshot(&name, store.next_timestamp(), || Ok((0, Vec::new()))).expect("made");
    store.close();
    disk.inject(DiskFault::Full { remaining: largest });
    let refused = upgrade(options.clone()).expect_err("it does not fit").to_string();
    assert!(refused.contains("since snapshots keep the files that it replaces"), "{refused}");
    disk.heal();
    let report = upgrade(options).expect("upgraded");
    assert_eq!(report.current + report.upgraded, versions(directory.path()).len(), "{report:?}");
    assert_eq!(seen(&open(newest(directory.path()))), expected);
}

#[test]
fn a_damaged_segment_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options_of(directory.path(), SegmentFormat::Plain));
    put_segments(&store);
    store.close();
    let path = segment_files(directory.path()).swap_remove(1);
    let mut bytes = std::fs::read(&path).expect("it can be read");
    // The first byte after the header is of a column.
    bytes[64] ^= 1;
    std::fs::write(&path, &bytes).expect("it can be written");

    let report = upgrade(newest(directory.path())).expect("the others are upgraded");
    assert_eq!((report.upgraded, report.failures.len()), (2, 1), "{report:?}");
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name of text");
    assert!(report.failures[0].to_string().contains(name), "{:?}", report.failures);
    assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
}
