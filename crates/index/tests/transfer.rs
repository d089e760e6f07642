//! Copies that move by file: whole and in slices, beside merges, across restarts, crashes and damage.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millrace_env::{Disk, DiskFault, DiskOperation, FaultyDisk, ObservedDisk, PowerLossDisk, RealDisk};
use millrace_index::{
    BlockCache, CopyExport, CopyImport, CopyParcel, EXPORTS_MAX, Error, FlushMark, HeldExports, IndexChange,
    IndexCopy, IndexOptions, PARCEL_BYTES, ParcelPlace, SliceRange,
};
use millrace_keys::KeyRange;
use proptest::prelude::*;

const DEFINITION: u64 = 7;

/// Bytes of a parcel here: runs of some kilobytes have several.
const SMALL: u64 = 300;

type FoundEntries = BTreeSet<(Vec<u8>, Vec<u8>)>;

fn options_on(directory: &Path, disk: Arc<dyn Disk>, slice: &SliceRange) -> IndexOptions {
    IndexOptions {
        directory: directory.to_owned(),
        definition: DEFINITION,
        slice: slice.clone(),
        disk,
        cache: Arc::new(BlockCache::new(1 << 20)),
    }
}

fn options(directory: &Path) -> IndexOptions {
    options_on(directory, Arc::new(RealDisk), &SliceRange::default())
}

fn open(directory: &Path) -> IndexCopy {
    IndexCopy::open(options(directory)).expect("a copy")
}

fn document(number: u64) -> Vec<u8> {
    format!("document {number:03}").into_bytes()
}

fn change(number: u64, timestamp: u64, keys: impl IntoIterator<Item = u8>) -> IndexChange {
    let keys: BTreeSet<Vec<u8>> = keys.into_iter().map(|key| vec![b'k', key]).collect();
    IndexChange { document: document(number), timestamp, keys: keys.into_iter().collect() }
}

fn all() -> [KeyRange; 1] {
    [KeyRange { low: Vec::new(), high: None }]
}

fn entries(copy: &IndexCopy) -> FoundEntries {
    copy.check().expect("every byte is as it was written");
    let page = copy.scan(&all(), None, 100_000).expect("the runs are sound");
    page.entries.into_iter().map(|entry| (entry.key, entry.document)).collect()
}

/// Entries whose documents are in a slice.
fn within(entries: &FoundEntries, slice: &SliceRange) -> FoundEntries {
    entries.iter().filter(|(_, document)| slice.contains(document)).cloned().collect()
}

/// Flushes a run of versions of one time.
fn round(copy: &IndexCopy, time: u64, documents: u64) {
    let changes = (0..documents).map(|number| change(number, time, [(number * time % 7) as u8, 9]));
    copy.apply(changes.collect()).expect("it fits");
    copy.apply(vec![change(time % documents, time + 1, [])]).expect("it fits");
    copy.flush(FlushMark { complete_until: time, built: time > 1 }).expect("the disk takes it");
}

/// Source with three runs.
fn source(directory: &Path) -> IndexCopy {
    let copy = open(directory);
    (1..=3).for_each(|time| round(&copy, time * 10, 60));
    copy
}

fn directories<const N: usize>() -> [tempfile::TempDir; N] {
    [(); N].map(|()| tempfile::tempdir().expect("a directory"))
}

/// Parcels as they arrive.
fn sent(export: &CopyExport, place: ParcelPlace) -> CopyParcel {
    let parcel = export.parcel(place).expect("the source is sound");
    assert!(parcel.bytes.len() as u64 <= export.header().parcel_bytes);
    CopyParcel::decode(&parcel.encode()).expect("a parcel")
}

/// Receives all parcels that are missing, and publishes.
fn receive(export: &CopyExport, mut import: CopyImport) -> Result<IndexCopy, Error> {
    while let Some(place) = import.next() {
        import.accept(&sent(export, place))?;
    }
    import.finish()
}

fn begin(export: &CopyExport, directory: &Path) -> CopyImport {
    CopyImport::open(options(directory), export.header().clone()).expect("the import begins")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().display().to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_copy_goes_on_at_every_parcel() {
    let [from, done] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let (expected, header) = (entries(&copy), export.header());
    assert_eq!((header.complete_until, header.built, header.runs.len()), (30, true, 3));
    let places: Vec<ParcelPlace> =
        std::iter::successors(header.first_place(), |place| header.place_after(*place)).collect();
    assert!(places.len() > 12, "{places:?}");
    for stop in 0..=places.len() {
        let [to] = directories();
        let mut moved = 0;
        for part in [&places[..stop], &places[stop..]] {
            let mut import = begin(&export, to.path());
            assert_eq!(import.progress().received, moved, "nothing comes twice");
            for place in part {
                assert_eq!(import.next(), Some(*place));
                import.accept(&sent(&export, *place)).expect("the disk takes it");
            }
            moved += import.progress().moved;
        }
        assert_eq!(moved, header.bytes());
        assert_eq!(CopyImport::pending(&RealDisk, to.path()).expect("a plan").as_ref(), Some(header));
        let received = receive(&export, begin(&export, to.path())).expect("all is here");
        assert_eq!(entries(&received), expected);
        assert_eq!(received.status(), copy.status());
        assert_eq!(names(to.path()), ["00000000.run", "00000001.run", "00000002.run", "manifest"]);
        drop(received);
        assert_eq!(entries(&open(to.path())), expected);
    }
    let usual = copy.export(PARCEL_BYTES).expect("an export");
    assert_eq!(entries(&receive(&usual, begin(&usual, done.path())).expect("it comes")), expected);
}

/// The checksums that runs have from when they were written are those of their files.
#[test]
fn a_reopened_copy_offers_the_same() {
    let [from] = directories();
    let copy = source(from.path());
    copy.merge(0).expect("the runs are sound");
    let header = copy.export(PARCEL_BYTES).expect("an export").header().clone();
    drop(copy);
    assert_eq!(open(from.path()).export(PARCEL_BYTES).expect("an export").header(), &header);
}

#[test]
fn merges_do_not_disturb_an_export() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let expected = entries(&copy);
    let mut import = begin(&export, to.path());
    let mut time = 40;
    while let Some(place) = import.next() {
        import.accept(&sent(&export, place)).expect("the disk takes it");
        time += 10;
        round(&copy, time, 20);
        copy.merge(0).expect("the runs are sound");
        if time % 50 == 0 {
            copy.compact(0).expect("the runs are sound");
        }
    }
    assert_ne!(entries(&copy), expected);
    let received = import.finish().expect("all is here");
    assert_eq!(entries(&received), expected);
    assert_eq!(received.status().complete_until, 30);
    // It follows from there.
    while time > 40 {
        let changes = (0..20).map(|number| change(number, time, [(number * time % 7) as u8, 9]));
        received.apply(changes.collect()).expect("it fits");
        received.apply(vec![change(time % 20, time + 1, [])]).expect("it fits");
        time -= 10;
    }
    assert_eq!(entries(&received), entries(&copy));
}

/// The source has written and merged runs before the transfer goes on: those that are in both come once.
#[test]
fn another_header_keeps_the_runs_in_common() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    while let Some(place) = import.next().filter(|place| place.run < 2 || place.offset < 3 * SMALL) {
        import.accept(&sent(&export, place)).expect("the disk takes it");
    }
    let received = import.progress().received;
    drop(import);
    round(&copy, 40, 60);
    let export = copy.export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    assert_eq!(import.progress().received, received);
    while let Some(place) = import.next().filter(|place| place.run < 3) {
        import.accept(&sent(&export, place)).expect("the disk takes it");
    }
    drop(import);
    copy.compact(0).expect("the runs are sound");
    let export = copy.export(SMALL).expect("an export");
    let import = begin(&export, to.path());
    assert_eq!(import.progress().received, 0, "a merged run is another one");
    assert_eq!(names(to.path()), ["import"]);
    let received = receive(&export, import).expect("it comes");
    assert_eq!(entries(&received), entries(&copy));
    drop(received);
    assert_eq!(entries(&open(to.path())), entries(&copy));
}

/// A copy that is replaced stays until the other one is complete.
#[test]
fn a_copy_is_replaced_at_once() {
    let [from, to] = directories();
    let copy = source(from.path());
    let before = open(to.path());
    round(&before, 5, 10);
    before.discard();
    let export = copy.export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    while import.next().is_some_and(|place| place.run < 2) {
        let place = import.next().expect("a place");
        import.accept(&sent(&export, place)).expect("the disk takes it");
    }
    let error = import.finish().map(drop).expect_err("parcels are missing");
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    let old = entries(&before);
    begin(&export, to.path()).abandon().expect("it is removed");
    assert_eq!(names(to.path()), ["00000000.run", "manifest"]);
    assert_eq!(entries(&open(to.path())), old);
    let received = receive(&export, begin(&export, to.path())).expect("it comes");
    assert_eq!(entries(&received), entries(&copy));
    assert_eq!(entries(&before), old, "it serves on from open files");
    assert_eq!(names(to.path()), ["00000001.run", "00000002.run", "00000003.run", "manifest"]);
    round(&received, 50, 60);
    drop(received);
    assert_eq!(open(to.path()).status().complete_until, 50);
}

#[test]
fn an_opened_copy_removes_what_an_import_has_left() {
    let [from, to] = directories();
    let export = source(from.path()).export(SMALL).expect("an export");
    let mut import = begin(&export, to.path());
    while let Some(place) = import.next().filter(|place| place.run == 0 || place.offset == 0) {
        import.accept(&sent(&export, place)).expect("the disk takes it");
    }
    drop(import);
    assert_eq!(names(to.path()), ["00000000.run", "00000001.part", "import"]);
    let copy = open(to.path());
    assert_eq!((entries(&copy).len(), copy.status().built), (0, false));
    assert_eq!(names(to.path()), ["manifest"]);
    assert_eq!(CopyImport::pending(&RealDisk, to.path()).expect("no plan"), None);
}

/// Every byte of the source is flipped in turn, and its files are cut everywhere: no copy of it differs from
/// what it was.
#[test]
fn damage_of_the_source_is_found() {
    let [from, to] = directories();
    let expected = entries(&source(from.path()));
    let files = names(from.path());
    let (mut at_source, mut at_target) = (0, 0);
    let mut look = |what: &str| {
        let export = IndexCopy::open(options(from.path())).and_then(|copy| copy.export(SMALL));
        let export = match export {
            Ok(export) => export,
            Err(error) => {
                at_source += 1;
                return assert!(error.is_damage(), "{what}: {error}");
            }
        };
        let import = begin(&export, to.path());
        match receive(&export, import) {
            Ok(copy) => assert_eq!(entries(&copy), expected, "{what}"),
            Err(error) => {
                at_target += 1;
                assert!(matches!(error, Error::DamagedSource { .. }), "{what}: {error}");
            }
        }
    };
    for path in files.iter().map(|name| from.path().join(name)) {
        let content = fs::read(&path).expect("the file");
        for at in (0..content.len()).step_by(41) {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).expect("the disk takes it");
            look(&format!("{} with a bit of byte {at} flipped", path.display()));
            fs::write(&path, &content[..at]).expect("the disk takes it");
            look(&format!("{} cut at {at}", path.display()));
        }
        fs::write(&path, &content).expect("the disk takes it");
    }
    assert!(at_source > 100 && at_target > 100, "{at_source} {at_target}");
}

/// A source that was damaged after its checksums were known does not send the damage.
#[test]
fn damage_of_an_open_source_is_found() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let path = from.path().join("00000001.run");
    let mut content = fs::read(&path).expect("the file");
    content[400] ^= 1;
    fs::write(&path, &content).expect("the disk takes it");
    let place = |run, offset| ParcelPlace { run, offset };
    assert!(export.parcel(place(1, SMALL)).expect_err("it is damaged").is_damage());
    export.parcel(place(1, 0)).expect("another parcel");
    let error = export.parcel(place(1, 1)).expect_err("no parcel begins there");
    assert!(matches!(error, Error::OtherParcel { .. }), "{error}");
}

/// Bytes that change in the directory of the import between two of its runs.
#[test]
fn damage_of_the_target_is_found() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let expected = entries(&copy);
    let prepare = |to: &Path| {
        let mut import = begin(&export, to);
        while let Some(place) = import.next().filter(|place| place.run == 0 || place.offset < 3 * SMALL) {
            import.accept(&sent(&export, place)).expect("the disk takes it");
        }
    };
    let [first] = directories();
    prepare(first.path());
    for name in names(first.path()) {
        let length = fs::metadata(first.path().join(&name)).expect("the file").len() as usize;
        for (at, is_cut) in (0..length).step_by(53).flat_map(|at| [(at, false), (at, true)]) {
            let [to] = directories();
            prepare(to.path());
            let path = to.path().join(&name);
            let mut content = fs::read(&path).expect("the file");
            content[at] ^= 1 << (at % 8);
            content.truncate(if is_cut { at } else { length });
            fs::write(&path, &content).expect("the disk takes it");
            let import = begin(&export, to.path());
            if name == "00000001.part" {
                let kept = ParcelPlace { run: 1, offset: at as u64 / SMALL * SMALL };
                assert_eq!(import.next(), Some(kept), "byte {at} of {name}");
            }
            match receive(&export, import).and_then(|copy| copy.check().map(|()| copy)) {
                Ok(copy) => assert_eq!(entries(&copy), expected, "byte {at} of {name}"),
                // A run that was checked is not read again before it is used.
                Err(error) => assert!(error.is_damage() && name == "00000000.run", "{name}: {error}"),
            }
        }
    }
}

#[test]
fn what_does_not_belong_to_a_copy_is_refused() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let other = IndexOptions { definition: DEFINITION + 1, ..options(to.path()) };
    let error = CopyImport::open(other, export.header().clone()).map(drop).expect_err("another index");
    assert!(matches!(error, Error::OtherDefinition { .. }), "{error}");
    assert_eq!(names(to.path()), Vec::<String>::new());

    let mut import = begin(&export, to.path());
    let first = sent(&export, ParcelPlace::default());
    let second = sent(&export, ParcelPlace { run: 0, offset: SMALL });
    let error = import.accept(&second).expect_err("it is not the next one");
    assert!(matches!(error, Error::OtherParcel { .. }), "{error}");
    for at in 0..first.bytes.len() {
        let mut flipped = first.clone();
        flipped.bytes[at] ^= 1 << (at % 8);
        let error = import.accept(&flipped).expect_err("it is damaged");
        assert!(matches!(error, Error::DamagedTransfer { .. }), "{error}");
        flipped.bytes.truncate(at);
        import.accept(&flipped).expect_err("it is cut");
    }
    let longer = CopyParcel { bytes: [&first.bytes[..], &[0]].concat(), ..first.clone() };
    import.accept(&longer).expect_err("it is longer");
    import.accept(&first).expect("it is whole");
    let error = import.accept(&first).expect_err("it has come");
    assert!(matches!(error, Error::OtherParcel { .. }), "{error}");
    assert_eq!(import.next(), Some(second.place));
}

#[test]
fn exports_are_bounded() {
    let [from] = directories();
    let copy = source(from.path());
    let mut held = HeldExports::new(Duration::from_secs(60), 1000);
    let at = Duration::from_secs;
    let numbers: Vec<u64> = (0..EXPORTS_MAX as u64)
        .map(|second| held.add(copy.export(SMALL).expect("an export"), at(second)))
        .collect();
    let error = copy.export(SMALL).map(drop).expect_err("too many");
    assert!(matches!(error, Error::ExportsBusy { .. }), "{error}");
    held.close(numbers[0]);
    copy.export(SMALL).map(drop).expect("one was closed");
    assert!(held.get(numbers[1], at(61)).is_some());
    assert!(held.get(numbers[2], at(63)).is_none(), "it was not read");
    held.expire(at(121));
    assert_eq!(held.len(), 1);
    assert!(held.get(numbers[1], at(122)).is_none() && held.is_empty());
    (0..EXPORTS_MAX).map(|_| copy.export(SMALL).expect("all were closed")).for_each(drop);
}

/// A full disk: nothing is published, the copy that was there stays, and the import can be repeated.
#[test]
fn a_full_disk_leaves_nothing_that_counts() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let bytes = export.header().bytes();
    let (mut refused, mut failed) = (0, 0);
    for room in (0..2 * bytes).step_by(97) {
        let [to] = directories();
        let disk = FaultyDisk::new(Arc::new(RealDisk));
        let options = || options_on(to.path(), Arc::new(disk.clone()), &SliceRange::default());
        let before = IndexCopy::open(options()).expect("a copy");
        round(&before, 5, 10);
        let old = entries(&before);
        drop(before);
        disk.inject(DiskFault::Full { remaining: room });
        let import = CopyImport::open(options(), export.header().clone());
        let outcome = import.and_then(|import| receive(&export, import)).map(|copy| entries(&copy));
        disk.heal();
        match outcome {
            Ok(found) => assert_eq!(found, entries(&copy)),
            Err(error) => {
                match error {
                    Error::NoSpace { .. } => refused += 1,
                    Error::Io { .. } => failed += 1,
                    _ => panic!("{error}"),
                }
                assert_eq!(entries(&open(to.path())), old, "{room} bytes");
                let import = CopyImport::open(options(), export.header().clone()).expect("it begins");
                assert_eq!(entries(&receive(&export, import).expect("it comes")), entries(&copy));
            }
        }
    }
    assert!(refused > 0 && failed > 0, "{refused} {failed}");
}

/// A part is made durable now and then, so that a loss of power does not take all of it.
#[test]
fn a_loss_of_power_takes_a_bounded_part() {
    let [from, to, kept, after] = directories();
    let copy = source(from.path());
    let export = copy.export(7).expect("an export");
    let disk = Arc::new(PowerLossDisk::new(to.path(), kept.path()));
    let options = options_on(&to.path().join("copy"), disk.clone(), &SliceRange::default());
    let mut import = CopyImport::open(options, export.header().clone()).expect("it begins");
    for _ in 0..100 {
        let place = import.next().expect("a place");
        import.accept(&sent(&export, place)).expect("the disk takes it");
    }
    disk.lose_power(after.path()).expect("the state after it");
    let import = begin(&export, &after.path().join("copy"));
    assert_eq!(import.progress().received, 64 * 7);
    assert_eq!(entries(&receive(&export, import).expect("it comes")), entries(&copy));
}

/// Halves of the documents of [`source`].
fn halves() -> [SliceRange; 2] {
    let middle = document(30);
    [SliceRange { low: Vec::new(), high: Some(middle.clone()) }, SliceRange { low: middle, high: None }]
}

#[test]
fn slices_double() {
    let [from] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let expected = entries(&copy);
    for slice in halves() {
        let [by_file, merged, quarter] = directories();
        let options = |directory: &Path| options_on(directory, Arc::new(RealDisk), &slice);
        let import = CopyImport::open(options(by_file.path()), export.header().clone()).expect("it begins");
        let received = receive(&export, import).expect("it comes");
        assert_eq!(names(by_file.path()), ["00000000.run", "00000001.run", "00000002.run", "manifest"]);
        let written = export.write_slice(options(merged.path())).expect("it is written");
        assert_eq!(names(merged.path()), ["00000000.run", "manifest"]);
        for (half, path) in [(received, by_file.path()), (written, merged.path())] {
            let wanted = within(&expected, &slice);
            assert!(!wanted.is_empty() && wanted.len() < expected.len());
            assert_eq!(entries(&half), wanted);
            assert_eq!((half.status().complete_until, half.status().built), (30, true));
            let documents = half.documents(&[], 1000).expect("sound").documents;
            assert!(documents.iter().all(|found| slice.contains(&found.document)));
            // What is said about documents of others has no effect.
            let others: Vec<_> = (0..60).map(|number| change(number, 99, [1, 2, 3])).collect();
            assert_eq!(half.apply(others.clone()).expect("it fits"), 30);
            assert_eq!(half.replace(others.clone()).expect("it fits"), 0);
            assert_eq!(half.load(others).expect("it fits"), 0);
            assert_eq!(entries(&half).len(), 90);
            // A part of it can be made, and nothing that it lacks.
            let offered = half.export(SMALL).expect("an export");
            let error =
                offered.write_slice(options_on(quarter.path(), Arc::new(RealDisk), &SliceRange::default()));
            assert!(matches!(error.map(drop).expect_err("too much"), Error::OtherSlice));
            drop(half);
            let again = IndexCopy::open(options(path)).expect("a copy");
            assert_eq!(entries(&again), wanted, "the flush of before");
            drop(again);
            assert_eq!(entries(&open(path)).len(), 0, "a copy of other documents is made empty");
        }
    }
}

/// Place of a crash: from there on, every write of the disk fails.
#[derive(Debug, Clone, Copy)]
enum CrashPlace {
    /// Operation on names, or sync.
    Operation(u64),
    /// Byte that is appended, since the import began.
    FirstByte(u64),
    /// Byte that is appended, once the import is open.
    Byte(u64),
}

fn crashes() -> impl Strategy<Value = Vec<(CrashPlace, bool)>> {
    let place = prop_oneof![
        3 => (0..40_u64).prop_map(CrashPlace::Operation),
        1 => (0..600_u64).prop_map(CrashPlace::FirstByte),
        3 => (0..6_000_u64).prop_map(CrashPlace::Byte),
    ];
    prop::collection::vec((place, any::<bool>()), 0..6)
}

/// A disk that fails from some place on, and the command that sets it.
struct CrashingDisk {
    disk: FaultyDisk,
    operations: Arc<AtomicU64>,
}

impl CrashingDisk {
    fn new(inner: Arc<dyn Disk>) -> Self {
        let operations = Arc::new(AtomicU64::new(u64::MAX));
        let outer: Arc<OnceLock<FaultyDisk>> = Arc::default();
        let (left, dead) = (Arc::clone(&operations), Arc::clone(&outer));
        let observer = move |_: DiskOperation, path: &Path| {
            let has_room = dead
                .get()
                .is_none_or(|disk| disk.free_space(path.parent().unwrap_or(path)).is_ok_and(|free| free > 0));
            let more = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
            match has_room && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok() {
                true => Ok(()),
                false => Err(std::io::Error::other("injected: the process is killed")),
            }
        };
        let disk = FaultyDisk::new(Arc::new(ObservedDisk::new(inner, Arc::new(observer))));
        // It was just made.
        let _ = outer.set(disk.clone());
        CrashingDisk { disk, operations }
    }
}

/// What a process finds that opens the directory as a copy now.
fn found_now(directory: &Path, slice: &SliceRange) -> FoundEntries {
    let [scratch] = directories();
    for name in names(directory) {
        fs::copy(directory.join(&name), scratch.path().join(&name)).expect("copied");
    }
    let options = options_on(scratch.path(), Arc::new(RealDisk), slice);
    entries(&IndexCopy::open(options).expect("the copy opens"))
}

/// Receives until the crash. Returns the bytes that were here.
fn receive_until(
    export: &CopyExport,
    options: IndexOptions,
    crash: CrashPlace,
    disk: &CrashingDisk,
) -> Result<IndexCopy, u64> {
    match crash {
        CrashPlace::Operation(number) => disk.operations.store(number, Ordering::SeqCst),
        CrashPlace::FirstByte(remaining) => disk.disk.inject(DiskFault::Full { remaining }),
        CrashPlace::Byte(_) => {}
    }
    let mut import = CopyImport::open(options, export.header().clone()).map_err(|_| 0_u64)?;
    if let CrashPlace::Byte(remaining) = crash {
        disk.disk.inject(DiskFault::Full { remaining });
    }
    let mut received = import.progress().received;
    while let Some(place) = import.next() {
        import.accept(&sent(export, place)).map_err(|_| received)?;
        received = import.progress().received;
    }
    import.finish().map_err(|_| received)
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(100))
}

proptest! {
    #![proptest_config(cases())]

    /// Crashes at any write, of the process or of the machine: before the end the directory is the copy of
    /// before, then the one that was sent; and after a crash of the process nothing comes twice.
    #[test]
    fn an_import_survives_crashes(
        documents in prop::collection::vec((0..60_u64, prop::collection::btree_set(0..6_u8, 0..3)), 1..150),
        part in prop::option::of(0..2_usize),
        crashes in crashes(),
        (runs, merged) in (1..5_usize, any::<bool>()),
        replaces in any::<bool>(),
        parcel_bytes in 60..900_u64,
    ) {
        let [from, place, kept] = directories();
        let copy = open(from.path());
        for (time, chunk) in documents.chunks(documents.len().div_ceil(runs)).enumerate() {
            let changes = chunk.iter().map(|(number, keys)| change(*number, time as u64 + 1, keys.clone()));
            copy.apply(changes.collect()).expect("it fits");
            copy.flush(FlushMark { complete_until: 1 + time as u64, built: true }).expect("the disk takes it");
        }
        if merged {
            copy.compact(0).expect("the runs are sound");
        }
        let slice = part.map_or(SliceRange::default(), |part| halves()[part].clone());
        let expected = within(&entries(&copy), &slice);
        let export = copy.export(parcel_bytes).expect("an export");
        let mut machines = vec![place, kept];
        let root = |machines: &[tempfile::TempDir]| machines[machines.len() - 2].path().join("copy");
        let mut machine = Arc::new(PowerLossDisk::new(machines[0].path(), machines[1].path()));
        let before = if replaces {
            let before = IndexCopy::open(options_on(&root(&machines), machine.clone(), &slice)).expect("a copy");
            round(&before, 5, 60);
            entries(&before)
        } else {
            FoundEntries::new()
        };
        let mut least = 0;
        for (crash, loses_power) in crashes {
            let disk = CrashingDisk::new(machine.clone());
            let options = options_on(&root(&machines), Arc::new(disk.disk.clone()), &slice);
            let outcome = receive_until(&export, options, crash, &disk);
            let received = match outcome {
                Ok(copy) => {
                    prop_assert_eq!(&entries(&copy), &expected);
                    export.header().bytes()
                }
                Err(received) => received,
            };
            if root(&machines).is_dir() {
                let found = found_now(&root(&machines), &slice);
                prop_assert!(found == expected || found == before, "{:?}", found);
            }
            least = received.max(least);
            if loses_power {
                let [after, kept] = directories();
                machine.lose_power(after.path()).expect("the state after it");
                machine = Arc::new(PowerLossDisk::new(after.path(), kept.path()));
                machines.extend([after, kept]);
                least = 0;
            }
            // A copy that was published is not received again by this test.
            let pending = match root(&machines).is_dir() {
                true => CopyImport::pending(&RealDisk, &root(&machines)).expect("a directory"),
                false => None,
            };
            if let Some(header) = pending {
                let options = options_on(&root(&machines), machine.clone(), &slice);
                let import = CopyImport::open(options, header).expect("it goes on");
                prop_assert!(import.progress().received >= least, "{:?} {}", import.progress(), least);
            } else {
                least = 0;
            }
        }
        let options = options_on(&root(&machines), machine.clone(), &slice);
        let import = CopyImport::open(options, export.header().clone()).expect("it goes on");
        let received = receive(&export, import).expect("it comes");
        prop_assert_eq!(entries(&received), expected);
        prop_assert_eq!(received.status().complete_until, copy.status().complete_until);
        let mut rest: Vec<PathBuf> = names(&root(&machines)).into_iter().map(PathBuf::from).collect();
        rest.retain(|name| name.extension().is_none_or(|kind| kind != "run"));
        prop_assert_eq!(rest, [PathBuf::from("manifest")]);
    }
}
