//! Erasing: what still has bytes of dropped groups is written again without them, before the bound of each
//! erasure.
//!
//! Merges leave out what was dropped, but they come when they are useful, and a file stays as long as any of
//! its buckets uses it. So for an erasure, from half of its time on:
//!
//! 1. Each file with the group that was written before the drop is merged alone, for all of its buckets.
//! 2. The generations of the tail that have rows from before the drop are sealed, and their logs deleted.
//! 3. Copies of cut ends of logs, and kept logs, are deleted.
//! 4. Once nothing of this is left, and the partner of the store has nothing either, the receipt is written.
//!
//! Files can have parts of buckets that do not use them: of replicas that were deleted here, or that came in
//! the file of another. Nothing drops groups in those. So twice within the bound all files are searched for
//! such parts, and files that have some are written again.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_document::DocumentGroup;
use millrace_env::pace;
use millrace_segment::SegmentFile;
use parking_lot::Mutex;

use crate::context::StoreContext;
use crate::snapshot::logs;
use crate::state::erasures::ErasureRecord;
use crate::state::{StoreState, StoredBucket};
use crate::upkeep::merging::MergeCandidate;
use crate::{Error, StoreOptions};

/// Maximum number of erasures that are looked after at a time.
const AT_A_TIME: usize = 256;
/// Longest interval at which erasures are looked after before files are rewritten for them.
const SURVEY: Duration = Duration::from_secs(60);
/// First and longest interval at which an erasure that cannot go on is looked after.
const WAIT_FIRST: Duration = Duration::from_millis(50);
const WAIT_LONGEST: Duration = Duration::from_secs(30);
/// Minimum interval of searches for parts that no bucket has.
const SEARCH_MIN: Duration = Duration::from_secs(5);

/// Time after the first start at which the time of the first search is noted on the disk, at the latest.
const NOTED_AFTER: Duration = Duration::from_secs(3600);

/// Places that can have bytes of a dropped group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DroppedBytes {
    /// Numbers of the segment files with versions from before the drop.
    pub segments: Vec<u64>,
    /// Number of files that cannot be read.
    pub unreadable: u64,
    /// Number of files from before the drop that no bucket has: unfinished arrivals, and what could not be
    /// deleted.
    pub unlisted: u64,
    /// Number of generations of the tail with rows from before the drop.
    pub logs: u64,
}

impl DroppedBytes {
    /// Number of files.
    pub fn files(&self) -> u64 {
        self.segments.len() as u64 + self.unreadable + self.unlisted
    }

    pub fn is_empty(&self) -> bool {
        self.files() == 0 && self.logs == 0
    }
}

/// The files of a store at one instant.
pub(crate) struct StoredFiles {
    /// Segments by number; with the time up to which drops are applied, and the open file.
    segments: BTreeMap<u64, (u64, Option<Arc<SegmentFile>>)>,
    /// Numbers of other files and generations in the directories.
    unlisted_segments: Vec<u64>,
    unlisted_logs: Vec<u64>,
    state: Arc<StoreState>,
}

impl StoredFiles {
    /// Lists the files.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn of(shared: &StoreContext) -> Result<Self, Error> {
        let StoreContext { options, .. } = shared;
        let failed = |error: std::io::Error| Error::io("list the files of the store", &error);
        // Listed first: what a new state has by then is not taken for unlisted.
        let numbers = |name: &str| -> Result<Vec<u64>, Error> {
            let paths = options.disk.list(&options.data_dir.join(name)).map_err(failed)?;
            Ok(paths.iter().filter_map(|path| number_of(path)).collect())
        };
        let (mut unlisted_segments, mut unlisted_logs) = (numbers("segments")?, numbers("tail")?);
        let state = shared.state();
        let mut segments = BTreeMap::new();
        for segment in state.buckets.iter().flat_map(|bucket| &bucket.segments) {
            let known = segments
                .entry(segment.record.number)
                .or_insert_with(|| (segment.record.applied, segment.opened.as_ref().ok().map(Arc::clone)));
            known.0 = segment.record.applied.min(known.0);
        }
        unlisted_segments.retain(|number| !segments.contains_key(number));
        let generations = state.spare.iter().chain(&state.generations);
        let listed: Vec<u64> = generations.map(|generation| generation.number).collect();
        unlisted_logs.retain(|number| !listed.contains(number));
        Ok(StoredFiles { segments, unlisted_segments, unlisted_logs, state })
    }

    /// Finds the places that can have dropped bytes of a group.
    pub fn dropped_bytes(&self, group: &str, record: &ErasureRecord) -> DroppedBytes {
        let mut found = DroppedBytes::default();
        let bits = DocumentGroup::from_key(group).and_then(|group| group.location_bits());
        let location = bits.unwrap_or(0).reverse_bits();
        for (number, (applied, segment)) in &self.segments {
            if *applied >= record.dropped {
                continue;
            }
            match segment.as_ref().map(|segment| has_group(segment, location, group)) {
                Some(Ok(true)) => found.segments.push(*number),
                Some(Ok(false)) => {}
                Some(Err(_)) | None => found.unreadable += 1,
            }
        }
        let is_old = |number: &&u64| **number < record.first_number;
        found.unlisted = self.unlisted_segments.iter().filter(is_old).count() as u64;
        let generations = self.state.generations.iter();
        found.logs = self.unlisted_logs.iter().filter(is_old).count() as u64
            + generations.filter(|generation| generation.has_rows_of_before(record.dropped)).count() as u64;
        found
    }
}

impl StoredFiles {
    /// The files with groups of buckets that do not use them. Those that cannot be read are left out.
    fn with_unused_parts(&self) -> VecDeque<u64> {
        let segments = self.segments.iter();
        let open = segments.filter_map(|(number, (_, segment))| Some((*number, segment.as_ref()?)));
        let found = open.filter(|(number, segment)| self.has_unused_part(*number, segment).unwrap_or(false));
        found.map(|(number, _)| number).collect()
    }

    fn has_unused_part(&self, number: u64, segment: &SegmentFile) -> Result<bool, Error> {
        let mut is_unused = false;
        for section in 0..segment.sections().len() {
            segment.groups(section, 0, |entry| {
                pace::step();
                let buckets = self.state.buckets_of(entry.location);
                // Entries of documents without a group go beyond their first location.
                is_unused |= !entry.group.is_empty() && !buckets.iter().all(|of| of.has_segment(number));
                !is_unused
            })?;
        }
        Ok(is_unused)
    }

    /// Returns true if a file that came from another store has a group: earlier drops are not applied in
    /// it.
    fn has_arrived(&self, group: &str) -> bool {
        let bits = DocumentGroup::from_key(group).and_then(|group| group.location_bits());
        let location = bits.unwrap_or(0).reverse_bits();
        let mut arrived = self.segments.values().filter(|(applied, _)| *applied == 0);
        arrived.any(|(_, segment)| {
            segment.as_ref().is_some_and(|segment| has_group(segment, location, group).unwrap_or(false))
        })
    }
}

/// Returns true if a file has versions of a group.
pub(crate) fn has_group_of(segment: &SegmentFile, group: &DocumentGroup) -> Result<bool, Error> {
    let location = group.location_bits().unwrap_or(0).reverse_bits();
    has_group(segment, location, &group.key())
}

fn has_group(segment: &SegmentFile, location: u32, group: &str) -> Result<bool, Error> {
    for section in 0..segment.sections().len() {
        if segment.group(section, location, group)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Number in the name of a file or generation.
fn number_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// Chooses the work for erasures.
#[derive(Default)]
pub(crate) struct ErasureWork {
    surveyed: AtomicU64,
    wait: Mutex<ErasureSchedule>,
    search: Mutex<Option<UnusedPartSearch>>,
}

/// A search for files with parts that no bucket has.
struct UnusedPartSearch {
    began: u64,
    /// Files that were found and are not written again yet.
    found: VecDeque<u64>,
}

/// Time of the next look at erasures.
#[derive(Default)]
struct ErasureSchedule {
    at: u64,
    length: Duration,
    /// Number of lowered bounds that was seen last.
    bounds_lowered: u64,
}

impl ErasureWork {
    /// Returns a merge for an erasure; has the tail sealed, and notes erasures that are finished. `None`:
    /// there is nothing to merge for now.
    ///
    /// # Errors
    /// The directories cannot be listed; the ledger cannot be saved.
    pub fn next(
        &self,
        shared: &StoreContext,
        awake: impl Fn(&Arc<StoredBucket>) -> bool,
    ) -> Result<Option<MergeCandidate>, Error> {
        let now = shared.timestamps.now().0;
        let is_searching = self.search.lock().is_some();
        if shared.erasures.pending() == 0 && !is_searching && !self.is_survey_due(shared, now) {
            return Ok(None);
        }
        {
            let mut wait = self.wait.lock();
            let bounds_lowered = shared.erasures.bounds_lowered();
            // A clock that was set back ends the wait.
            let waits = (wait.at.saturating_sub(WAIT_LONGEST.as_micros() as u64)..wait.at).contains(&now);
            if waits && wait.bounds_lowered == bounds_lowered {
                return Ok(None);
            }
            if wait.bounds_lowered != bounds_lowered {
                *wait = ErasureSchedule { bounds_lowered, ..ErasureSchedule::default() };
            }
        }
        let chosen = match self.look(shared, now, &awake)? {
            None => self.search(shared, now, &awake)?,
            chosen => chosen,
        };
        let mut wait = self.wait.lock();
        match &chosen {
            Some(_) => (wait.at, wait.length) = (0, Duration::ZERO),
            None => {
                wait.length = (wait.length * 2).clamp(WAIT_FIRST, WAIT_LONGEST);
                let longest = now + wait.length.as_micros() as u64;
                wait.at = shared.erasures.next_begin(now).map_or(longest, |begin| begin.min(longest));
            }
        }
        Ok(chosen)
    }

    fn is_survey_due(&self, shared: &StoreContext, now: u64) -> bool {
        let interval = SURVEY.min(shared.options.erase_within / 8).as_micros() as u64;
        now.abs_diff(self.surveyed.load(Ordering::Relaxed)) >= interval
    }

    fn look(
        &self,
        shared: &StoreContext,
        now: u64,
        awake: impl Fn(&Arc<StoredBucket>) -> bool,
    ) -> Result<Option<MergeCandidate>, Error> {
        let is_survey = self.is_survey_due(shared, now);
        let (mut pending, finished): (Vec<_>, Vec<_>) =
            shared.erasures.all().into_iter().partition(|(_, record)| record.is_pending());
        pending.retain(|(_, record)| is_survey || record.begins() <= now);
        pending.sort_by_key(|(_, record)| record.begins());
        pending.truncate(AT_A_TIME);
        if is_survey {
            self.surveyed.store(now, Ordering::Relaxed);
        }
        if pending.is_empty() && (!is_survey || finished.is_empty()) {
            return Ok(None);
        }
        let files = StoredFiles::of(shared)?;
        if is_survey {
            let next_number = shared.next_number();
            for (group, _) in finished.iter().filter(|(group, _)| files.has_arrived(group)) {
                shared.erasures.reopen(group, next_number, now);
            }
        }
        let (mut chosen, mut erased) = (None, Vec::new());
        for (group, record) in &pending {
            let left = files.dropped_bytes(group, record);
            let has_begun = record.begins() <= now;
            let are_logs_erased = match has_begun {
                true => logs::erase_before(&shared.options, record.first_number),
                false => !logs::are_before(&shared.options, record.first_number),
            };
            let has_copies = left.is_empty() && !(delete_copies(shared, record) && are_logs_erased);
            if left.is_empty() && !has_copies {
                match shared.is_erased_by_partner(record.dropped) {
                    true => erased.push((group, record.dropped)),
                    false if has_begun => shared.request_erasure_of_partner(record.dropped),
                    false => {}
                }
            }
            if !has_begun {
                continue;
            }
            if left.logs > 0 {
                shared.erasures.seal_before(record.dropped);
                shared.alarm.ring();
            }
            let file = |number: &u64| MergeCandidate::of_file(&files.state, *number, &awake);
            chosen = chosen.or_else(|| left.segments.iter().find_map(file));
        }
        if !erased.is_empty() {
            sync_removals(&shared.options)?;
        }
        for (group, dropped) in erased {
            shared.erasures.finish(group, dropped, shared.timestamps.now().0);
        }
        let StoreContext { options, .. } = shared;
        shared.erasures.save(&*options.disk, &options.data_dir, now)?;
        Ok(chosen)
    }
}

impl ErasureWork {
    /// Returns a merge of a file with parts that no bucket has, if the search for them is due or in progress.
    fn search(
        &self,
        shared: &StoreContext,
        now: u64,
        awake: impl Fn(&Arc<StoredBucket>) -> bool,
    ) -> Result<Option<MergeCandidate>, Error> {
        let mut search = self.search.lock();
        if search.is_none() {
            let interval = (shared.options.erase_within / 2).max(SEARCH_MIN).as_micros() as u64;
            let since = now.saturating_sub(shared.erasures.searched(now));
            if since < interval {
                // Otherwise the interval would begin again with each start. A store that is open only briefly
                // writes nothing.
                if since >= (interval / 8).min(NOTED_AFTER.as_micros() as u64) {
                    let StoreContext { options, .. } = shared;
                    shared.erasures.save(&*options.disk, &options.data_dir, now)?;
                }
                return Ok(None);
            }
            let files = StoredFiles::of(shared)?;
            *search = Some(UnusedPartSearch { began: now, found: files.with_unused_parts() });
        }
        let Some(in_flight) = search.as_mut() else { return Ok(None) };
        let state = shared.state();
        while let Some(number) = in_flight.found.front() {
            let candidate = MergeCandidate::of_file(&state, *number, &awake);
            if candidate.is_some() {
                return Ok(candidate);
            }
            if state.buckets.iter().any(|bucket| bucket.has_segment(*number)) {
                // Its buckets pause after a failure. The others have their turn.
                in_flight.found.rotate_left(1);
                return Ok(None);
            }
            in_flight.found.pop_front();
        }
        shared.erasures.finish_search(in_flight.began);
        *search = None;
        let StoreContext { options, .. } = shared;
        shared.erasures.save(&*options.disk, &options.data_dir, now)?;
        Ok(None)
    }
}

/// Makes removals of files durable: what a receipt says is erased must not come back with a loss of power.
fn sync_removals(options: &StoreOptions) -> Result<(), Error> {
    let of_data = ["segments", "tail", "torn"].map(|name| options.data_dir.join(name));
    for directory in of_data.into_iter().chain([logs::directory(&options.data_dir)]) {
        if directory.exists() {
            let synced = options.disk.sync_directory(&directory);
            synced.map_err(|error| Error::io("make the removal of files durable", &error))?;
        }
    }
    Ok(())
}

/// Deletes copies of cut ends of logs from before a drop. Returns true if none is left.
fn delete_copies(shared: &StoreContext, record: &ErasureRecord) -> bool {
    let StoreContext { options, .. } = shared;
    // Most directories have none.
    let Ok(copies) = options.disk.list(&options.data_dir.join("torn")) else { return true };
    let generation = |path: &Path| path.file_name()?.to_str()?.split('-').next()?.parse::<u64>().ok();
    let is_old = |path: &&std::path::PathBuf| {
        generation(path).is_none_or(|generation| generation < record.first_number)
    };
    copies.iter().filter(is_old).all(|path| options.disk.unlink(path).is_ok())
}
