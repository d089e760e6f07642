//! A store is killed, or loses power, at each operation on files while buckets move to it: it starts again
//! with what it had before or after that operation, and the move can be repeated. An operation that fails
//! instead changes nothing that can be seen, and nothing that was acknowledged.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_env::{Disk, DiskOperation, ObservedDisk, PowerLossDisk, RealDisk};
use millrace_store::{Error, ExportParcel, Store, StoreOptions, StoreVisit};
use parking_lot::{Mutex, MutexGuard};

use crate::common::{TestLayout, get, open, put, visited};
use crate::late::{NOW, apply, infos, small, version};
use crate::transfer::{bytes, import};

/// Maximum number of operations of a start, beyond one for each file that it finds.
const START_OPERATIONS: usize = 24;

/// Step between the operations at which a crash is tried; 1 tries all of them.
const STEP: &str = "MILLRACE_ARRIVAL_STEP";

/// In the bucket that stays.
const OWN: &str = "id:n:mail:n=2:1";

fn step() -> usize {
    std::env::var(STEP).ok().and_then(|step| step.parse().ok()).unwrap_or(3)
}

fn bucket(bits: u64) -> BucketId {
    BucketId::new(1, bits)
}

/// A parcel with its bytes, as they arrive.
struct SentParcel {
    parcel: ExportParcel,
    bytes: Vec<u8>,
}

/// Parcels of both buckets, from a store with two files.
fn parcels(directory: &Path) -> Vec<SentParcel> {
    let source = open(small(directory));
    for round in 0..2 {
        let ids = (0..30).map(|number| format!("id:n:mail:g=user{}:{}", number % 9, number + round * 20));
        let versions = ids.enumerate().map(|(at, id)| version(&id, NOW - 400 + at as u64, at % 7 != 0).0);
        apply(&source, versions.collect());
        source.seal().expect("sealed");
    }
    let parcels = source.export(&[bucket(0), bucket(1)]).expect("exported");
    parcels.into_iter().map(|parcel| SentParcel { bytes: bytes(&parcel), parcel }).collect()
}

/// A step of a move to a store, which acknowledges something.
type MoveStep<'a> = Box<dyn Fn(&Store) -> Result<(), Error> + 'a>;

/// The steps of a move to a store.
fn steps(parcels: &[SentParcel]) -> Vec<MoveStep<'_>> {
    let both = [bucket(0), bucket(1)];
    let mut steps: Vec<MoveStep<'_>> =
        vec![Box::new(move |store: &Store| store.create_incomplete_replicas(&both))];
    for sent in parcels {
        steps.push(Box::new(move |store: &Store| import(store, &sent.parcel, &sent.bytes)));
    }
    steps.push(Box::new(move |store: &Store| store.complete_replicas(&both)));
    steps.push(Box::new(Store::maintain));
    steps.push(Box::new(move |store: &Store| {
        let checksum = infos(store, &[bucket(1)])[0].map_or(0, |info| info.checksum);
        store.delete_replicas(&[(bucket(1), checksum)], Timestamp(0)).map(drop)
    }));
    steps
}

/// All that can be seen of a store: versions, and which replicas are complete.
#[derive(Debug, Clone, PartialEq)]
struct SeenContents {
    versions: BTreeMap<String, Option<i64>>,
    complete: Vec<Option<bool>>,
}

fn seen(store: &Store) -> SeenContents {
    let visit = StoreVisit { tombstones: true, wanted: 5000, ..StoreVisit::all(&["mail"]) };
    let versions = visited(store, &visit).into_iter().map(|(id, number, _)| (id, number)).collect();
    let complete = infos(store, &[bucket(0), bucket(1)]).into_iter().map(|info| Some(info?.complete));
    SeenContents { versions, complete: complete.collect() }
}

/// State that a crash leaves at one instant.
struct CrashImage {
    operation: String,
    /// Number of steps that were acknowledged before.
    acknowledged: usize,
    killed: PathBuf,
    powerless: PathBuf,
}

/// A store whose directory is copied before each operation.
struct RecordedStore {
    root: PathBuf,
    copies: PathBuf,
    forgetful: PowerLossDisk,
    recorded: Mutex<RecordedImages>,
}

#[derive(Default)]
struct RecordedImages {
    images: Vec<CrashImage>,
    /// `None`: nothing is copied.
    acknowledged: Option<usize>,
    operations: usize,
}

impl RecordedStore {
    fn recorded(&self) -> MutexGuard<'_, RecordedImages> {
        self.recorded.lock()
    }

    fn copy(&self, operation: String) {
        let mut recorded = self.recorded();
        let Some(acknowledged) = recorded.acknowledged else { return };
        recorded.operations += 1;
        if !recorded.operations.is_multiple_of(step()) {
            return;
        }
        let number = recorded.images.len();
        let [killed, powerless] = ["killed", "powerless"].map(|of| self.copies.join(format!("{of}{number}")));
        copy_tree(&self.root, &killed);
        self.forgetful.lose_power(&powerless).expect("copied");
        recorded.images.push(CrashImage { operation, acknowledged, killed, powerless });
    }
}

/// Copies a directory; the blank ends of logs stay holes.
pub fn copy_tree(from: &Path, to: &Path) {
    // A thread of the store can delete a sealed generation of the tail meanwhile: then once more.
    let is_copied = (0..100).any(|_| {
        // There is none the first time.
        let _ = std::fs::remove_dir_all(to);
        let mut copy = Command::new("cp");
        copy.args(["--recursive", "--sparse=always"]).arg(from).arg(to);
        copy.status().expect("cp runs").success()
    });
    assert!(is_copied, "{} is copied", from.display());
}

/// Number of files under a directory.
fn files_in(directory: &Path) -> usize {
    let entries =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("listed").path());
    entries.map(|path| if path.is_dir() { files_in(&path) } else { 1 }).sum()
}

/// Runs the steps on a store of its own, and returns what can be seen before the first and after each.
fn undisturbed(parcels: &[SentParcel]) -> Vec<SeenContents> {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    prepare(&store);
    let mut all = vec![seen(&store)];
    for step in steps(parcels) {
        step(&store).expect("nothing fails");
        all.push(seen(&store));
    }
    all
}

/// Contents of the store before anything arrives.
fn prepare(store: &Store) {
    put(store, OWN, "own text", 1);
    store.seal().expect("sealed");
    put(store, "id:n:mail:n=2:2", "in the tail", 2);
}

#[test]
fn a_crash_at_any_operation_of_a_move_leaves_a_store_that_starts_and_has_everything() {
    let [source, copies, place, kept] = [(); 4].map(|()| tempfile::tempdir().expect("a directory"));
    let parcels = parcels(source.path());
    let expected = undisturbed(&parcels);
    let root = place.path().join("data");
    std::fs::create_dir(&root).expect("made");
    let forgetful = PowerLossDisk::new(&root, kept.path());
    let recorder = Arc::new(RecordedStore {
        root: root.clone(),
        copies: copies.path().to_owned(),
        forgetful: forgetful.clone(),
        recorded: Mutex::default(),
    });
    let observer = Arc::clone(&recorder);
    let observe = move |operation: DiskOperation, path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        observer.copy(format!("before {operation:?} of {name}"));
        Ok(())
    };
    let disk = ObservedDisk::new(Arc::new(forgetful), Arc::new(observe));
    let store = open(StoreOptions { disk: Arc::new(disk), ..small(&root) });
    prepare(&store);
    for (number, step) in steps(&parcels).into_iter().enumerate() {
        recorder.recorded().acknowledged = Some(number);
        step(&store).expect("nothing fails");
        recorder.recorded().acknowledged = Some(number + 1);
        recorder.copy(format!("after step {number}"));
    }
    recorder.recorded().acknowledged = None;
    store.close();
    let images = std::mem::take(&mut recorder.recorded().images);
    assert!(images.len() * step() >= 20, "a move has more operations than {}", images.len());
    for image in &images {
        for directory in [&image.killed, &image.powerless] {
            starts(directory, image, &expected, &parcels);
        }
    }
}

/// Checks that a store starts from a copy with the contents before or after the step that was in progress,
/// and that the rest of the move succeeds.
fn starts(directory: &Path, image: &CrashImage, expected: &[SeenContents], parcels: &[SentParcel]) {
    let place = format!("{}, in step {}, {}", image.operation, image.acknowledged, directory.display());
    let (files, operations) = (files_in(directory), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&operations);
    let observe = move |_: DiskOperation, _: &Path| {
        counting.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let disk = ObservedDisk::new(Arc::new(RealDisk), Arc::new(observe));
    let options = StoreOptions { disk: Arc::new(disk), ..small(directory) };
    let store = Store::open(options, Arc::new(TestLayout)).unwrap_or_else(|error| panic!("{place}: {error}"));
    let operations = operations.load(Ordering::SeqCst);
    assert!(
        operations <= files + START_OPERATIONS,
        "{place}: a start changes what it finds once, and does no work of its own: {operations} operations, \
         {files} files"
    );
    let found = seen(&store);
    let possible = &expected[image.acknowledged..expected.len().min(image.acknowledged + 2)];
    assert!(possible.contains(&found), "{place}: {found:?} is none of {possible:?}");
    for name in RealDisk.list(&directory.join("segments")).expect("listed") {
        assert!(name.extension().is_some_and(|extension| extension == "seg"), "{place}: {name:?} is left");
    }
    assert_eq!(get(&store, OWN), Some(1), "{place}");
    // What was in flight is done again.
    for step in steps(parcels).iter().skip(image.acknowledged) {
        step(&store).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    assert_eq!(Some(&seen(&store)), expected.last(), "{place}");
    store.close();
    let report = millrace_store::check(directory).expect("checked");
    assert_eq!(report.findings, [], "{place}");
}

/// Runs the steps with the operation of this number failing once. Returns false if there are fewer
/// operations.
fn fail_at(fails: usize, parcels: &[SentParcel], expected: &[SeenContents]) -> bool {
    let place = tempfile::tempdir().expect("a directory");
    // `None`: operations are not counted.
    let counted = Arc::new(Mutex::new(None::<usize>));
    let counting = Arc::clone(&counted);
    let observe = move |operation: DiskOperation, path: &Path| {
        let mut counted = counting.lock();
        let Some(number) = counted.as_mut() else { return Ok(()) };
        *number += 1;
        match *number == fails {
            true => Err(io::Error::other(format!("injected: {operation:?} of {}", path.display()))),
            false => Ok(()),
        }
    };
    let disk = ObservedDisk::new(Arc::new(RealDisk), Arc::new(observe));
    let store = open(StoreOptions { disk: Arc::new(disk), ..small(place.path()) });
    prepare(&store);
    *counted.lock() = Some(0);
    let (mut acknowledged, mut failure) = (0, None);
    for step in steps(parcels) {
        if let Err(error) = step(&store) {
            failure = Some(error.to_string());
            break;
        }
        acknowledged += 1;
    }
    let number = counted.lock().take().unwrap_or_default();
    let name = format!("operation {fails}, step {acknowledged}: {failure:?}");
    assert_eq!(seen(&store), expected[acknowledged], "{name}");
    // Others go on writing.
    let acknowledges_more = crate::common::write(
        &store,
        &crate::common::id("id:n:mail:n=2:3"),
        millrace_store::StoreChange::Put(crate::common::document("id:n:mail:n=2:3", "later", 3)),
    )
    .is_ok();
    store.close();
    let store = open(small(place.path()));
    let mut found = seen(&store);
    assert_eq!(found.versions.remove("id:n:mail:n=2:3"), acknowledges_more.then_some(Some(3)), "{name}");
    let possible = &expected[acknowledged..expected.len().min(acknowledged + 2)];
    assert!(possible.contains(&found), "{name}: {found:?} is none of {possible:?}");
    number >= fails
}

#[test]
fn an_operation_of_a_move_that_fails_loses_nothing_and_can_be_repeated() {
    let source = tempfile::tempdir().expect("a directory");
    let parcels = parcels(source.path());
    let expected = undisturbed(&parcels);
    let tried = (1..).step_by(step()).take_while(|fails| fail_at(*fails, &parcels, &expected)).count();
    assert!(tried * step() >= 20, "a move has more operations than {tried}");
}
