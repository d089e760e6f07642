//! Upgrade of the segments of a data directory that no process has open, all at once: the background of an
//! open store does the same when it has nothing else to do.
//!
//! Each merge takes effect by one change of the manifest. So an upgrade that is killed leaves a whole data
//! directory, and the next one goes on with the files that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use millrace_segment::{SegmentCache, SegmentFile, SegmentFormat};

use crate::check::lock_existing;
use crate::context::StoreContext;
use crate::snapshot;
use crate::state::StoreState;
use crate::state::manifest::Manifest;
use crate::state::open::open;
use crate::tail::FjallTails;
use crate::upkeep::merging::{MergeCandidate, merge};
use crate::{Error, StoreLayout, StoreOptions};

/// Longer than any setting: logs that are kept, and removals, are left to the server, which knows its
/// settings.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Bytes by which a file grows for each version of a document, about: those of the filter of ids.
const GROWTH_BYTES: u64 = 2;

/// Result of [`crate::upgrade_segments`].
#[derive(Debug, Clone, Default)]
pub struct UpgradeReport {
    /// Files that were written again.
    pub upgraded: usize,
    /// Files that had the format before.
    pub current: usize,
    /// Bytes of all files before.
    pub bytes_before: u64,
    /// Bytes of all files after.
    pub bytes_after: u64,
    /// Errors of files that are damaged, and stay as they are.
    pub failures: Vec<Error>,
}

/// Progress of an upgrade, in bytes of the files that are written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpgradeProgress {
    /// Bytes that are done.
    pub done: u64,
    /// Bytes of all of these files.
    pub total: u64,
}

/// Writes all segments of earlier formats again in the format of the options, in a data directory that no
/// process has open. Their documents are laid out by `layout`. Of the options, the format, the disk and
/// `cache_bytes` count.
///
/// # Errors
/// The directory is in use, is not a data directory, or cannot be opened; there is too little space, in which
/// case nothing was begun; a file cannot be written. Files that were written again by then stay so. Damage is
/// part of the report.
pub fn upgrade_segments(
    mut options: StoreOptions,
    layout: Arc<dyn StoreLayout>,
    progress: &mut dyn FnMut(UpgradeProgress),
) -> Result<UpgradeReport, Error> {
    let _lock = lock_existing(&options.data_dir)?;
    if Manifest::read(&*options.disk, &options.data_dir)?.is_none() {
        let reason = "no manifest: this is not a data directory, or its manifest was lost".to_owned();
        return Err(Error::DataDirectory { path: options.data_dir, reason });
    }
    (options.keep_logs, options.keep_logs_bytes) = (FOREVER, u64::MAX);
    options.tuning.tombstone_retention = FOREVER;
    let cache = Arc::new(SegmentCache::new(options.cache_bytes));
    let opened = open(&options, &FjallTails, &cache)?;
    let shared = StoreContext::new(options, Box::new(FjallTails), layout, cache, opened);
    let outdated = outdated_files(&shared)?;
    UpgradeSpace::of(&outdated).check(&shared)?;
    let (state, format) = (shared.state(), shared.segment_format());
    let unreadable = unreadable_files(&state);
    let mut report = UpgradeReport {
        current: state.segment_numbers().len().saturating_sub(outdated.len() + unreadable.len()),
        bytes_before: state.segment_bytes(),
        failures: unreadable.into_values().collect(),
        ..UpgradeReport::default()
    };
    let total = bytes_left(&state, format);
    drop(state);
    for number in outdated.keys() {
        loop {
            let state = shared.state();
            progress(UpgradeProgress { done: total.saturating_sub(bytes_left(&state, format)), total });
            let Some(run) = MergeCandidate::of_file(&state, *number, |_| true) else {
                report.upgraded += 1;
                break;
            };
            drop(state);
            match shared.health.guard("upgrade a segment", || merge(&shared, &run)) {
                Ok(()) => {}
                Err(error @ (Error::Corrupt { .. } | Error::Panicked { .. })) => {
                    report.failures.push(error);
                    break;
                }
                Err(Error::NoSpace { .. }) => {
                    return Err(UpgradeSpace::of(&outdated_files(&shared)?).lacking(&shared)?);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let state = shared.state();
    progress(UpgradeProgress { done: total.saturating_sub(bytes_left(&state, format)), total });
    report.bytes_after = state.segment_bytes();
    Ok(report)
}

/// A file of an earlier format.
struct OutdatedFile {
    bytes: u64,
    /// Bytes by which it grows.
    growth: u64,
    /// True if a snapshot has the file, too, so that its space stays taken.
    is_held: bool,
}

impl OutdatedFile {
    fn of(file: &SegmentFile, held: &BTreeSet<OsString>) -> Self {
        let versions: u64 = file.sections().iter().map(|section| section.documents).sum();
        let is_held = file.path().file_name().is_some_and(|name| held.contains(name));
        OutdatedFile { bytes: file.bytes(), growth: GROWTH_BYTES * versions, is_held }
    }
}

/// The files of an earlier format, by their numbers.
fn outdated_files(shared: &StoreContext) -> Result<BTreeMap<u64, OutdatedFile>, Error> {
    let held = snapshot::segment_names(&*shared.options.disk, &shared.options.data_dir)?;
    let (state, format) = (shared.state(), shared.segment_format());
    let mut outdated = BTreeMap::new();
    for segment in state.buckets.iter().flat_map(|bucket| &bucket.segments) {
        if let Some(file) = segment.opened.as_ref().ok().filter(|file| file.format() < format) {
            outdated.entry(segment.record.number).or_insert_with(|| OutdatedFile::of(file, &held));
        }
    }
    Ok(outdated)
}

/// Errors of the files that cannot be opened, by their numbers.
fn unreadable_files(state: &StoreState) -> BTreeMap<u64, Error> {
    let segments = state.buckets.iter().flat_map(|bucket| &bucket.segments);
    segments.filter_map(|of| Some((of.record.number, of.opened.as_ref().err()?.clone()))).collect()
}

/// Bytes that buckets have in files of an earlier format.
fn bytes_left(state: &StoreState, format: SegmentFormat) -> u64 {
    let segments = state.buckets.iter().flat_map(|bucket| &bucket.segments);
    let left = segments.filter(|of| of.opened.as_ref().is_ok_and(|file| file.format() < format));
    left.map(|segment| segment.record.bytes).sum()
}

/// Space that an upgrade needs, at most: a file and those that take its place are there at the same time, and
/// files that snapshots have stay.
struct UpgradeSpace {
    needed: u64,
    /// Bytes of it for files that snapshots have.
    held: u64,
}

impl UpgradeSpace {
    fn of(outdated: &BTreeMap<u64, OutdatedFile>) -> Self {
        let bytes = |is_held: bool| {
            outdated.values().filter(move |file| file.is_held == is_held).map(|file| file.bytes)
        };
        let growth: u64 = outdated.values().map(|file| file.growth).sum();
        let held: u64 = bytes(true).sum();
        UpgradeSpace { needed: held + bytes(false).max().unwrap_or(0) + growth, held }
    }

    fn check(&self, shared: &StoreContext) -> Result<(), Error> {
        if free_space(shared)? >= self.needed { Ok(()) } else { Err(self.lacking(shared)?) }
    }

    /// The error of an upgrade that finds less.
    fn lacking(&self, shared: &StoreContext) -> Result<Error, Error> {
        let (needed, free) = (self.needed, free_space(shared)?);
        let held = match self.held {
            0 => String::new(),
            held => format!(", {held} of them since snapshots keep the files that it replaces"),
        };
        let reason = format!(
            "the upgrade needs {needed} bytes of free space{held}, and {free} are free; free some and begin it again: it goes \
             on with the files that are left"
        );
        Ok(Error::DataDirectory { path: shared.options.data_dir.clone(), reason })
    }
}

fn free_space(shared: &StoreContext) -> Result<u64, Error> {
    let free = shared.options.disk.free_space(&shared.options.data_dir);
    free.map_err(|error| Error::io("look for free space", &error))
}
