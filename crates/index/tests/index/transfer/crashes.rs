//! Crashes at any write, losses of power, full disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use millrace_env::{Disk, DiskFault, DiskOperation, FaultyDisk, ObservedDisk, PowerLossDisk, RealDisk};
use millrace_index::{
    CopyExport, CopyImport, Error, FlushMark, IndexCopy, IndexOptions, ParcelPosition, SliceRange,
};
use proptest::prelude::*;

use super::common::*;

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
        let disk = FaultyDisk::new(quick_disk());
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

/// Bytes that can be read back after a sync that failed may not be on the disk: the run is written again.
#[test]
fn a_run_whose_sync_fails_comes_again() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let disk = FaultyDisk::new(quick_disk());
    let options = options_on(to.path(), Arc::new(disk.clone()), &SliceRange::default());
    let mut import = CopyImport::open(options, export.header().clone()).expect("it begins");
    while let Some(position) = import.next().filter(|position| position.run < 1) {
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    let start = import.next().expect("the second run");
    disk.inject(DiskFault::FailSync);
    let error = loop {
        let position = import.next().expect("a position");
        if let Err(error) = import.accept(&sent(&export, position)) {
            break error;
        }
    };
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(import.next(), Some(start));
    assert_eq!(names(to.path()), ["00000000.run", "import"]);
    disk.heal();
    assert_eq!(entries(&receive(&export, import).expect("it comes")), entries(&copy));
}

/// A disk that returns other bytes than it was given is not the fault of the source.
#[test]
fn damage_of_the_disk_here_is_not_that_of_the_source() {
    let [from, to] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let disk = FaultyDisk::new(quick_disk());
    let begin = || {
        let options = options_on(to.path(), Arc::new(disk.clone()), &SliceRange::default());
        CopyImport::open(options, export.header().clone()).expect("it begins")
    };
    let mut import = begin();
    while let Some(position) =
        import.next().filter(|position| position.run < 1 || position.offset < 3 * SMALL)
    {
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    drop(import);
    // Of a run that was resumed every byte is read again.
    let mut import = begin();
    assert_eq!(import.next(), Some(ParcelPosition { run: 1, offset: 3 * SMALL }));
    disk.inject(DiskFault::FlipBit { name_ends: "1.part".to_owned(), offset: 700, bit: 3 });
    let error = loop {
        let position = import.next().expect("a position");
        if let Err(error) = import.accept(&sent(&export, position)) {
            break error;
        }
    };
    assert!(error.is_damage(), "{error}");
    assert_eq!(import.next(), Some(ParcelPosition { run: 1, offset: 0 }));
    disk.heal();
    assert_eq!(entries(&receive(&export, import).expect("it comes")), entries(&copy));
}

/// A process that is killed before the sync of a part leaves all of its parcels, but maybe not on the disk.
#[test]
fn a_part_of_an_earlier_process_is_made_durable() {
    let [from, to, kept, after] = directories();
    let copy = source(from.path());
    let export = copy.export(SMALL).expect("an export");
    let machine = Arc::new(PowerLossDisk::new(to.path(), kept.path()));
    let killed = |operation: DiskOperation, path: &Path| {
        let is_part = path.extension().is_some_and(|kind| kind == "part");
        match is_part && operation != DiskOperation::Create {
            true => Err(std::io::Error::other("injected: the process is killed")),
            false => Ok(()),
        }
    };
    let disk = Arc::new(ObservedDisk::new(machine.clone(), Arc::new(killed)));
    let options = |disk| options_on(&to.path().join("copy"), disk, &SliceRange::default());
    let import = CopyImport::open(options(disk), export.header().clone()).expect("it begins");
    receive(&export, import).map(drop).expect_err("it is killed");
    let import = CopyImport::open(options(machine.clone()), export.header().clone()).expect("it goes on");
    assert_eq!(import.next(), Some(ParcelPosition { run: 1, offset: 0 }), "nothing comes twice");
    assert_eq!(entries(&receive(&export, import).expect("it comes")), entries(&copy));
    machine.lose_power(after.path()).expect("the state after it");
    assert_eq!(entries(&open(&after.path().join("copy"))), entries(&copy));
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
        let position = import.next().expect("a position");
        import.accept(&sent(&export, position)).expect("the disk takes it");
    }
    disk.lose_power(after.path()).expect("the state after it");
    let import = begin(&export, &after.path().join("copy"));
    assert_eq!(import.progress().received, 64 * 7);
    assert_eq!(entries(&receive(&export, import).expect("it comes")), entries(&copy));
}

/// Point of a crash: from there on, every write of the disk fails.
#[derive(Debug, Clone, Copy)]
enum CrashPoint {
    /// Operation on names, or sync.
    Operation(u64),
    /// Byte that is appended, since the import began.
    FirstByte(u64),
    /// Byte that is appended, once the import is open.
    Byte(u64),
}

#[derive(Debug, Clone)]
struct TransferCrash {
    point: CrashPoint,
    /// True if the machine crashes, and not the process alone.
    loses_power: bool,
    /// The source writes a run before the transfer goes on; `true`: and merges all.
    source_changes: Option<bool>,
}

fn crashes() -> impl Strategy<Value = Vec<TransferCrash>> {
    let point = prop_oneof![
        3 => (0..40_u64).prop_map(CrashPoint::Operation),
        1 => (0..600_u64).prop_map(CrashPoint::FirstByte),
        3 => (0..6_000_u64).prop_map(CrashPoint::Byte),
    ];
    let source_changes = prop::option::weighted(0.3, any::<bool>());
    let crash = (point, any::<bool>(), source_changes).prop_map(|(point, loses_power, source_changes)| {
        TransferCrash { point, loses_power, source_changes }
    });
    prop::collection::vec(crash, 0..6)
}

/// A disk that fails from some point on, and the command that sets it.
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

/// Entries that a process finds which opens the directory as a copy now.
fn found_now(directory: &Path, slice: &SliceRange) -> FoundEntries {
    if !directory.is_dir() {
        return FoundEntries::new();
    }
    let [scratch] = directories();
    for name in names(directory) {
        fs::copy(directory.join(&name), scratch.path().join(&name)).expect("copied");
    }
    let options = options_on(scratch.path(), quick_disk(), slice);
    entries(&IndexCopy::open(options).expect("the copy opens"))
}

/// Receives until the crash. Returns the bytes that were here.
fn receive_until(
    export: &CopyExport,
    options: IndexOptions,
    crash: CrashPoint,
    disk: &CrashingDisk,
) -> Result<IndexCopy, u64> {
    match crash {
        CrashPoint::Operation(number) => disk.operations.store(number, Ordering::SeqCst),
        CrashPoint::FirstByte(remaining) => disk.disk.inject(DiskFault::Full { remaining }),
        CrashPoint::Byte(_) => {}
    }
    let mut import = CopyImport::open(options, export.header().clone()).map_err(|_| 0_u64)?;
    if let CrashPoint::Byte(remaining) = crash {
        disk.disk.inject(DiskFault::Full { remaining });
    }
    let mut received = import.progress().received;
    while let Some(position) = import.next() {
        import.accept(&sent(export, position)).map_err(|_| received)?;
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

    /// Crashes at any write, of the process or of the machine, while the source goes on: before the end the
    /// directory is the earlier copy, then one that was sent; after a crash of the process nothing comes
    /// twice.
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
        let mut expected = within(&entries(&copy), &slice);
        let mut export = copy.export(parcel_bytes).expect("an export");
        let mut machines = vec![place, kept];
        let root = |machines: &[tempfile::TempDir]| machines[machines.len() - 2].path().join("copy");
        let mut machine = Arc::new(PowerLossDisk::new(machines[0].path(), machines[1].path()));
        // The contents that the directory may have.
        let mut possible = vec![FoundEntries::new()];
        if replaces {
            let options = options_on(&root(&machines), machine.clone(), &slice);
            let before = IndexCopy::open(options).expect("a copy");
            round(&before, 5, 60);
            possible = vec![entries(&before)];
        }
        let mut least = 0;
        for TransferCrash { point, loses_power, source_changes } in crashes {
            let disk = CrashingDisk::new(machine.clone());
            let options = options_on(&root(&machines), Arc::new(disk.disk.clone()), &slice);
            match receive_until(&export, options, point, &disk) {
                Ok(copy) => {
                    prop_assert_eq!(&entries(&copy), &expected);
                    possible = vec![expected.clone()];
                    least = 0;
                }
                Err(received) => {
                    possible.push(expected.clone());
                    least = received.max(least);
                }
            }
            let found = found_now(&root(&machines), &slice);
            prop_assert!(possible.contains(&found), "{:?}", found);
            if loses_power {
                let [after, kept] = directories();
                machine.lose_power(after.path()).expect("the state after it");
                machine = Arc::new(PowerLossDisk::new(after.path(), kept.path()));
                let directory = after.path().join("copy");
                if directory.is_dir() {
                    // What has survived once does so again.
                    machine.create_directory(&directory).expect("it is there");
                    machine.sync_directory(&directory).expect("it is there");
                }
                machines.extend([after, kept]);
                let found = found_now(&root(&machines), &slice);
                prop_assert!(possible.contains(&found), "{:?}", found);
                least = 0;
            }
            let is_there = root(&machines).is_dir();
            let pending = is_there.then(|| CopyImport::pending(&RealDisk, &root(&machines)).expect("a plan"));
            if let Some(header) = pending.flatten() {
                let options = options_on(&root(&machines), machine.clone(), &slice);
                let import = CopyImport::open(options, header).expect("it goes on");
                prop_assert!(import.progress().received >= least, "{:?} {}", import.progress(), least);
            }
            if let Some(compacts) = source_changes {
                copy.apply(vec![change(least % 60, 100 + least, [compacts.into(), 3])]).expect("it fits");
                let mark = FlushMark { complete_until: copy.status().complete_until + 1, built: true };
                copy.flush(mark).expect("the disk takes it");
                if compacts {
                    copy.compact(0).expect("the runs are sound");
                }
                expected = within(&entries(&copy), &slice);
                export = copy.export(parcel_bytes).expect("an export");
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
