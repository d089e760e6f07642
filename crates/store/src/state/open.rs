//! Opening of a data directory: the manifest is read, segments are opened, the tail's logs are replayed, and
//! files left half done by a crash are removed. No document is read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_env::{Disk, RealDisk};
use millrace_segment::SegmentCache;

use crate::context::{open_segment, segment_path, sync_generation, tail_path};
use crate::snapshot::{self, logs};
use crate::state::erasures::ErasureLedger;
use crate::state::manifest::Manifest;
use crate::state::marks::DropMarks;
use crate::state::{BucketSegment, StoreState, StoredBucket, TailGeneration};
use crate::tail::{LOG_NAME, RowKey, TailFactory, TailLogFile, marks_of};
use crate::write::timestamps::TimestampSource;
use crate::{Error, StoreOptions};

/// Result of opening a data directory.
pub(crate) struct OpenedStore {
    pub state: StoreState,
    pub next_number: u64,
    pub timestamps: TimestampSource,
    pub erasures: ErasureLedger,
}

/// Opens or makes a data directory.
pub(crate) fn open(
    options: &StoreOptions,
    tails: &dyn TailFactory,
    cache: &Arc<SegmentCache>,
) -> Result<OpenedStore, Error> {
    let disk = &*options.disk;
    let failed = |error: std::io::Error| Error::io("open the data directory", &error);
    disk.create_directory(&options.data_dir.join("segments")).map_err(failed)?;
    disk.create_directory(&options.data_dir.join("tail")).map_err(failed)?;
    let manifest = match Manifest::read(disk, &options.data_dir)? {
        Some(manifest) => manifest,
        None => {
            check_empty(options)?;
            Manifest { next_number: 1, buckets: vec![(BucketId::ROOT, Vec::new())], ..Manifest::default() }
        }
    };
    delete_leftovers(options, tails, &manifest)?;
    snapshot::sweep(options)?;
    let mut next_number = manifest.next_number;
    let mut seen = manifest.clock;
    let mut generations = Vec::new();
    let mut first_is_empty = false;
    let mut marks = manifest.marks;
    for number in &manifest.generations {
        let directory = tail_path(options, *number);
        let generation = TailGeneration::new(*number, directory.clone(), tails.open(&directory)?);
        // The start may have put files in order.
        sync_generation(options, &directory)?;
        let rows = count_rows(&generation)?;
        seen = seen.max(generation.newest());
        let of_generation = marks_of(&*generation.tail)?;
        first_is_empty |= generations.is_empty() && rows == 0 && of_generation.is_empty();
        marks.extend(of_generation);
        generations.push(Arc::new(generation));
    }
    // A spare that never took over is one again.
    let spare = (first_is_empty && generations.len() > 1).then(|| generations.remove(0));
    // Where two of them are about one scope, the later one counts.
    marks.sort_by_key(|mark| mark.timestamp);
    seen = marks.iter().fold(seen, |seen, mark| seen.max(mark.timestamp).max(mark.since));
    if generations.is_empty() {
        let directory = tail_path(options, next_number);
        let tail = tails.create(&directory)?;
        sync_generation(options, &directory)?;
        generations.push(Arc::new(TailGeneration::new(next_number, directory, tail)));
        next_number += 1;
    }
    let within = options.erase_within;
    let erasures = ErasureLedger::open(disk, &options.data_dir, &marks, within, next_number)?;
    for generation in generations.iter().filter(|generation| erasures.may_be_late(generation.oldest())) {
        reopen_late(generation, &erasures, options.clock.now_us(), next_number)?;
    }
    let buckets = manifest
        .buckets
        .into_iter()
        .map(|(id, segments)| {
            let segments = segments.into_iter().map(|record| {
                let opened = open_segment(options, cache, record.number);
                if let Err(error) = &opened {
                    tracing::error!(%error, bucket = %id, "a segment cannot be opened; its bucket refuses");
                }
                BucketSegment { record, opened }
            });
            Arc::new(StoredBucket { id, segments: segments.collect() })
        })
        .collect();
    let replicas = Arc::new(manifest.replicas.into_iter().collect());
    let state = StoreState {
        version: 0,
        reduced_at: 0,
        generations,
        spare,
        buckets,
        marks: Arc::new(DropMarks::new(&marks)),
        replicas,
    };
    // If the manifest names them all, a full disk does not prevent the start.
    if manifest.generations.is_empty() {
        state.manifest(next_number, seen).write(disk, &options.data_dir)?;
    }
    let timestamps = TimestampSource::new(Arc::clone(&options.clock), Timestamp(seen));
    Ok(OpenedStore { state, next_number, timestamps, erasures })
}

/// Without a manifest there must be no segments, and no writes in logs: they would be someone's documents.
fn check_empty(options: &StoreOptions) -> Result<(), Error> {
    let list = |name: &str| {
        let files = options.disk.list(&options.data_dir.join(name));
        files.map_err(|error| Error::io("open the data directory", &error))
    };
    let is_segment = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "seg");
    let mut found = list("segments")?.iter().any(is_segment).then_some("segments");
    for generation in list("tail")? {
        // A crash during the first start leaves a log without writes, or none.
        if generation.join(LOG_NAME).exists() && TailLogFile::of(&generation).has_entries()? {
            found = found.or(Some("logs with writes"));
        }
    }
    match found {
        None => Ok(()),
        Some(found) => Err(Error::DataDirectory {
            path: options.data_dir.clone(),
            reason: format!(
                "there are {found} but no manifest; restore the file 'manifest', or choose another directory"
            ),
        }),
    }
}

/// Deletes files that the manifest does not name: a crash came between writing them and naming them, or the
/// other way round.
fn delete_leftovers(
    options: &StoreOptions,
    tails: &dyn TailFactory,
    manifest: &Manifest,
) -> Result<(), Error> {
    let disk = &*options.disk;
    let failed = |error: std::io::Error| Error::io("clean up after the last run", &error);
    let kept: Vec<_> = manifest
        .buckets
        .iter()
        .flat_map(|(_, segments)| segments)
        .map(|segment| segment_path(options, segment.number))
        .collect();
    for path in disk.list(&options.data_dir.join("segments")).map_err(failed)? {
        if !kept.contains(&path) {
            disk.unlink(&path).map_err(failed)?;
        }
    }
    let kept: Vec<_> = manifest.generations.iter().map(|number| tail_path(options, *number)).collect();
    for path in disk.list(&options.data_dir.join("tail")).map_err(failed)? {
        if !kept.contains(&path) {
            // One that was sealed just before. Others no manifest has ever named: they have no writes, and
            // their numbers are given again, to generations whose logs theirs would be taken for.
            let was_named = logs::number_of(&path).is_some_and(|number| number < manifest.next_number);
            if was_named && let Err(error) = logs::keep(options, &path, options.clock.now_us()) {
                tracing::warn!(%error, "the log of a sealed tail is not kept, nor those before it");
            }
            tails.delete(&path)?;
        }
    }
    Ok(())
}

/// Begins erasures again that are finished, and whose groups have older versions than the drop in a
/// generation: they came from another replica, and a crash came before the ledger was saved.
fn reopen_late(
    generation: &TailGeneration,
    erasures: &ErasureLedger,
    now: u64,
    next_number: u64,
) -> Result<(), Error> {
    let mut late = BTreeSet::new();
    generation.tail.snapshot().range(&[], None, &mut |key, _| {
        let key = RowKey::parse(key)?;
        if erasures.is_late(key.group, key.timestamp.0) {
            late.insert(key.group.to_owned());
        }
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    late.iter().for_each(|group| erasures.reopen(group, next_number, now));
    Ok(())
}

/// Counts a generation's rows, and notes their timestamps.
fn count_rows(generation: &TailGeneration) -> Result<u64, Error> {
    let (mut rows, mut bytes) = (0, 0);
    generation.tail.snapshot().range(&[], None, &mut |key, value| {
        rows += 1;
        bytes += (key.len() + value.len()) as u64;
        let timestamp = RowKey::parse(key)?.timestamp.0;
        generation.expect(timestamp, timestamp);
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    generation.count(rows, bytes);
    Ok(rows)
}

/// Keeps other processes out of a data directory, as long as it lives.
pub(crate) struct DirectoryLock {
    _file: std::fs::File,
}

/// A process that was killed lets go of the lock a moment after it is gone.
const LOCK_TRIES: u32 = 20;
/// File in a data directory that the process locks which has it open.
const LOCK: &str = "lock";

impl DirectoryLock {
    /// Takes the lock of a data directory.
    pub fn take(data_dir: &Path) -> Result<Self, Error> {
        let failed = |error: std::io::Error| DirectoryLock::failed(data_dir, &error);
        RealDisk.create_directory(data_dir).map_err(failed)?;
        let path = data_dir.join(LOCK);
        let file = std::fs::File::options().create(true).truncate(false).write(true).open(path);
        DirectoryLock::of(file.map_err(failed)?, data_dir)
    }

    /// Takes the lock of a data directory that is only read. `None` if it has none, so that no process has it
    /// open.
    pub fn take_existing(data_dir: &Path) -> Result<Option<Self>, Error> {
        let path = data_dir.join(LOCK);
        // Network file systems lock only what can be written; in a directory of a medium that is read only,
        // no process has it open.
        let written = std::fs::File::options().write(true).open(&path);
        match written.or_else(|_| std::fs::File::open(&path)) {
            Ok(file) => DirectoryLock::of(file, data_dir).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DirectoryLock::failed(data_dir, &error)),
        }
    }

    fn failed(data_dir: &Path, error: &std::io::Error) -> Error {
        Error::io(&format!("lock {}", data_dir.join(LOCK).display()), error)
    }

    /// Locks the file of a data directory.
    fn of(file: std::fs::File, data_dir: &Path) -> Result<Self, Error> {
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(DirectoryLock { _file: file }),
                Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
                Err(std::fs::TryLockError::Error(error)) => {
                    return Err(DirectoryLock::failed(data_dir, &error));
                }
            }
        }
        Err(Error::DataDirectory {
            path: data_dir.to_owned(),
            reason: "another process has it open; stop that, or choose another directory".to_owned(),
        })
    }
}
