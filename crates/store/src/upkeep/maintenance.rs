//! Background work on segments: buckets' segments are merged, large buckets are split, marks and removals
//! that are no longer needed are forgotten. A bucket for which this fails is paused for a while.
//!
//! Functions of plain values ([`crate::upkeep::merging::choose`], [`should_split`]) choose the work; other
//! functions do it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::DocumentGroup;
use millrace_segment::SegmentFile;
use parking_lot::Mutex;

use crate::context::StoreContext;
use crate::state::marks::{DropMark, DropMarks, MarkScope};
use crate::state::{BucketSegment, StoreState, StoredBucket, is_part};
use crate::upkeep::backoff::BucketBackoff;
use crate::upkeep::erasing::ErasureWork;
use crate::upkeep::merging::{MergeCandidate, fan_in, forgettable_before, merge, note_applied};
use crate::upkeep::prune::RemovalPruning;
use crate::upkeep::shares::FileShares;
use crate::{Error, StoreTuning};

/// An area in which large groups have files of their own: its buckets are split when they are smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeparateArea {
    pub bucket: BucketId,
    /// Bytes above which a bucket of it is split.
    pub split_bytes: u64,
}

/// Returns true if a bucket is to be split.
pub(crate) fn should_split(
    bucket: &StoredBucket,
    tuning: &StoreTuning,
    separate_areas: &[SeparateArea],
) -> bool {
    let is_near = |area: &&SeparateArea| area.bucket.covers(bucket.id) || bucket.id.covers(area.bucket);
    let split_bytes = separate_areas.iter().find(is_near).map_or(tuning.split_bytes, |area| area.split_bytes);
    bucket.id.used_bits() < BucketId::GROUP_BITS
        && (bucket.bytes() > split_bytes || bucket.documents() > tuning.split_documents)
}

/// Time between two removals of dropped segments: those of drops that follow each other closely, as of the
/// partitions of logs, share a manifest.
const SEGMENT_REMOVAL_INTERVAL: Duration = Duration::from_millis(100);

/// Does the work, one piece at a time.
pub(crate) struct StoreMaintenance {
    shared: Arc<StoreContext>,
    /// Buckets on which work failed.
    backoff: BucketBackoff,
    /// Large buckets whose documents have one location, with the segments of which this is known. They are
    /// merged all the same.
    unsplittable: Mutex<HashMap<BucketId, Vec<u64>>>,
    pruning: RemovalPruning,
    erasing: ErasureWork,
    removed: Mutex<Option<LastRemoval>>,
    /// The last piece of work was for an erasure.
    has_erased: AtomicBool,
}

/// The last removal of dropped segments.
#[derive(Clone, Copy)]
struct LastRemoval {
    at: Instant,
    /// Time at which the store learned of the last drop that it was for.
    until: u64,
}

impl StoreMaintenance {
    pub fn new(shared: Arc<StoreContext>) -> Self {
        let pruning = RemovalPruning::new(shared.timestamps.now().0);
        StoreMaintenance {
            shared,
            backoff: BucketBackoff::default(),
            unsplittable: Mutex::default(),
            pruning,
            erasing: ErasureWork::default(),
            removed: Mutex::default(),
            has_erased: AtomicBool::new(false),
        }
    }

    /// Does the most useful piece of work. Returns true if there may be more.
    ///
    /// Erasures and all other work take turns: other work never ends while much is written, and an erasure
    /// has a bound.
    pub fn run_next(&self) -> Result<bool, Error> {
        let has_erased = self.has_erased.swap(false, Ordering::Relaxed);
        if !has_erased && self.erase()? {
            return Ok(true);
        }
        Ok(self.run_others()? || (has_erased && self.erase()?))
    }

    /// Merges a file for an erasure. Returns true if there was one.
    fn erase(&self) -> Result<bool, Error> {
        let now = self.shared.timestamps.now().0;
        let awake = |bucket: &Arc<StoredBucket>| !self.backoff.pauses(bucket.id, now);
        let Some(run) = self.erasing.next(&self.shared, awake)? else { return Ok(false) };
        self.has_erased.store(true, Ordering::Relaxed);
        self.merge(&run)?;
        Ok(true)
    }

    fn run_others(&self) -> Result<bool, Error> {
        let shared = &self.shared;
        let state = shared.state();
        let (tuning, separate_areas) = (shared.tuning(), shared.separate_areas());
        let now = shared.timestamps.now().0;
        let awake = |bucket: &&Arc<StoredBucket>| !self.backoff.pauses(bucket.id, now);
        let mut marks = state.marks.list();
        let removed = self.removed.lock().filter(|removed| removed.at.elapsed() < SEGMENT_REMOVAL_INTERVAL);
        match removed {
            // Segments of later drops are soon removed, and until then not merged.
            Some(LastRemoval { until, .. }) => marks.retain(|mark| mark.since <= until),
            None if self.empty_dropped(&state)? => return Ok(true),
            None => {}
        }
        if self.split_to_bits(&state, tuning.split_bits.min(StoreTuning::SPLIT_BITS_MAX))? {
            return Ok(true);
        }
        let segments_of = |bucket: &StoredBucket| -> Vec<u64> {
            bucket.segments.iter().map(|segment| segment.record.number).collect()
        };
        let splittable = |bucket: &&Arc<StoredBucket>| {
            let is_known = || self.unsplittable.lock().get(&bucket.id) == Some(&segments_of(bucket));
            should_split(bucket, &tuning, &separate_areas) && !is_known()
        };
        for bucket in state.buckets.iter().filter(awake).filter(splittable) {
            let split = self.shared.health.guard("split a bucket", || self.split(bucket));
            if self.or_back_off(bucket, split)? {
                return Ok(true);
            }
            // All its documents have one location: until there are others, looking again is of no use.
            let mut unsplittable = self.unsplittable.lock();
            unsplittable.retain(|id, _| state.buckets.iter().any(|bucket| bucket.id == *id));
            unsplittable.insert(bucket.id, segments_of(bucket));
        }
        if let Some(run) = MergeCandidate::next(&state, &marks, fan_in(shared), |bucket| awake(&bucket)) {
            if !note_applied(shared, &state, &run)? {
                self.merge(&run)?;
            }
            return Ok(true);
        }
        let horizon = forgettable_before(&self.shared, &state);
        let interval = tuning.prune_interval.as_micros() as u64;
        if let Some(pruned) = self.pruning.next(&state, now, interval, horizon) {
            if let Some(bucket) = state.buckets.iter().find(|bucket| bucket.id == pruned) {
                self.merge(&MergeCandidate::whole(bucket))?;
            }
            return Ok(true);
        }
        if self.forget_marks(&state)? {
            return Ok(true);
        }
        // Last, and a file at a time: nothing waits for it.
        let format = shared.segment_format();
        let Some(run) = MergeCandidate::outdated(&state, format, |bucket| awake(&bucket)) else {
            return Ok(false);
        };
        self.merge(&run)?;
        Ok(true)
    }

    /// Passes an outcome on; after a failure, the bucket is left alone for a while.
    fn or_back_off<T>(&self, bucket: &StoredBucket, outcome: Result<T, Error>) -> Result<T, Error> {
        if outcome.is_err() {
            self.backoff.record_failure(bucket.id, self.shared.timestamps.now().0);
        }
        outcome
    }

    /// Merges; where that fails, its buckets are left alone for a while, so that others have their turn.
    fn merge(&self, run: &MergeCandidate) -> Result<(), Error> {
        let outcome = self.shared.health.guard("merge segments", || merge(&self.shared, run));
        match &outcome {
            Ok(()) => run.buckets().iter().for_each(|bucket| self.backoff.record_success(*bucket)),
            Err(_) => {
                let now = self.shared.timestamps.now().0;
                run.buckets().iter().for_each(|bucket| self.backoff.record_failure(*bucket, now));
            }
        }
        outcome
    }

    /// Removes the segments of buckets that were dropped as a whole, or whose groups all were, without
    /// reading more than their directories. Returns true if there were some.
    fn empty_dropped(&self, state: &StoreState) -> Result<bool, Error> {
        if state.marks.is_empty()
            || !state.buckets.iter().any(|bucket| kept_segments(bucket, &state.marks).is_some())
        {
            return Ok(false);
        }
        let mut until = 0;
        self.shared.publish(|state| {
            let mut state = state.clone();
            until = state.marks.list().iter().map(|mark| mark.since).max().unwrap_or(0);
            for bucket in &mut state.buckets {
                if let Some(segments) = kept_segments(bucket, &state.marks) {
                    *bucket = Arc::new(StoredBucket { id: bucket.id, segments });
                }
            }
            Ok(state)
        })?;
        *self.removed.lock() = Some(LastRemoval { at: Instant::now(), until });
        Ok(true)
    }

    /// Splits buckets that use fewer bits, all at once. Returns true if there were some.
    fn split_to_bits(&self, state: &StoreState, bits: u8) -> Result<bool, Error> {
        let split = |bucket: &Arc<StoredBucket>| bucket.id.used_bits() < bits;
        let count = state.buckets.iter().filter(|bucket| split(bucket)).count();
        if count == 0 {
            return Ok(false);
        }
        let halved = |buckets: &[Arc<StoredBucket>]| -> Vec<Arc<StoredBucket>> {
            buckets.iter().flat_map(|bucket| bucket.halved_to(bits)).collect()
        };
        let shares = FileShares::of_split(&state.buckets, &halved(&state.buckets));
        self.shared.publish(|state| {
            let mut state = state.clone();
            state.buckets = halved(&state.buckets);
            shares.set_in(&mut state.buckets);
            Ok(state)
        })?;
        self.shared.counters.splits.fetch_add(count as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Splits a bucket in two; `false`: all its documents have one location, or it has no segments.
    fn split(&self, bucket: &StoredBucket) -> Result<bool, Error> {
        let Some(children) = bucket.id.children() else { return Ok(false) };
        let mut first = u32::MAX;
        let mut last = 0;
        let halves = children.map(|child| bucket.half(child));
        let mut shares = FileShares::default();
        let (begin, end) = bucket.locations();
        for segment in bucket.open_segments()? {
            for (number, section) in segment.sections().iter().enumerate() {
                let mut entries = Vec::new();
                segment.groups(number, begin, |entry| {
                    let inside = entry.location <= end;
                    if inside && (entry.location >= begin || entry.group.is_empty()) {
                        entries.push(entry);
                    }
                    inside
                })?;
                assert!(section.chunks > 0, "sections without chunks are not written");
                for entry in entries {
                    let chunks =
                        segment.chunks(number, entry.first_chunk..entry.first_chunk + entry.chunks)?;
                    for chunk in chunks {
                        let location = chunk.first_location.high();
                        first = first.min(location);
                        last = last.max(location);
                    }
                }
            }
            shares.measure(segment, halves.iter())?;
        }
        if first >= last {
            return Ok(false);
        }
        self.shared.publish(|state| {
            replace(state, bucket.id, |old| {
                // A segment that was sealed in the meantime is not measured: half of it is assumed to be in
                // each. Of the others each has those that it has something of: no file is kept in vain.
                let child = |id| {
                    let shared = old.segments.iter().filter(|segment| !shares.lacks(id, segment));
                    let segments = shared.map(|segment| shares.with_share(id, &segment.halved(1))).collect();
                    StoredBucket { id, segments }
                };
                children.map(child).into()
            })
        })?;
        self.shared.counters.splits.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Forgets marks that are applied in all that they can reach. Returns true if there were some.
    fn forget_marks(&self, state: &StoreState) -> Result<bool, Error> {
        if state.marks.is_empty() {
            return Ok(false);
        }
        // Later rows are newer than the marks, except for marks and rows with given times.
        let retention = self.shared.tuning().tombstone_retention.as_micros() as u64;
        let remembered_from = self.shared.timestamps.now().0.saturating_sub(retention);
        let is_applied = |mark: &DropMark, state: &StoreState| {
            if mark.given && mark.since >= remembered_from {
                return false;
            }
            if matches!(&mark.scope, MarkScope::Group { group, .. } if self.shared.erasures.needs(group)) {
                return false;
            }
            let mut segments = state
                .buckets
                .iter()
                .filter(|bucket| reaches(&mark.scope, bucket))
                .flat_map(|bucket| &bucket.segments);
            tail_is_past(state, mark) && segments.all(|segment| segment.record.applied >= mark.since)
        };
        if !state.marks.list().iter().any(|mark| is_applied(mark, state)) {
            return Ok(false);
        }
        self.shared.publish(|state| {
            let mut new = state.clone();
            let mut marks = (*state.marks).clone();
            marks.retain(|mark| !is_applied(mark, state) || mark.since >= self.shared.timestamps.last().0);
            new.marks = Arc::new(marks);
            Ok(new)
        })?;
        Ok(false)
    }
}

/// Returns true if nothing in the tail needs a mark: each generation took over the writes after it, and has
/// no older rows; or there is one generation, without rows. The spare is always empty.
fn tail_is_past(state: &StoreState, mark: &DropMark) -> bool {
    match &state.generations[..] {
        [only] if only.rows.load(Ordering::Relaxed) == 0 => true,
        generations => generations.iter().all(|generation| generation.outlives(mark)),
    }
}

/// Returns the remaining segments of a bucket of which something was dropped; `None` if all of them stay.
fn kept_segments(bucket: &StoredBucket, marks: &DropMarks) -> Option<Vec<BucketSegment>> {
    let (begin, end) = bucket.locations();
    let covering = marks.locations().filter(|(first, last, _)| *first <= begin && end <= *last);
    let dropped = covering.map(|(.., timestamp)| timestamp).max();
    let last_group_mark = marks.last_group_mark(begin, end);
    if dropped.is_none() && last_group_mark == 0 {
        return None;
    }
    let stays = |segment: &&BucketSegment| match &segment.opened {
        Ok(opened) => {
            dropped.is_none_or(|dropped| opened.newest() > dropped)
                && !(segment.record.applied < last_group_mark && has_only_dropped(opened, bucket, marks))
        }
        // What cannot be read was written before the drop where it does not have it applied.
        Err(_) => dropped.is_none_or(|dropped| segment.record.applied >= dropped),
    };
    let kept: Vec<BucketSegment> = bucket.segments.iter().filter(stays).cloned().collect();
    (kept.len() < bucket.segments.len()).then_some(kept)
}

/// Returns true if all that a bucket has in a segment is of groups that were dropped since.
fn has_only_dropped(segment: &SegmentFile, bucket: &StoredBucket, marks: &DropMarks) -> bool {
    let (begin, end) = bucket.locations();
    let newest = segment.newest();
    segment.sections().iter().enumerate().all(|(number, section)| {
        let mut is_dropped = true;
        let listed = segment.groups(number, begin, |entry| {
            if entry.group.is_empty() && entry.location <= end {
                is_dropped = false;
            } else if (begin..=end).contains(&entry.location) {
                is_dropped = marks.group_dropped_until(&section.document_type, &entry.group) >= newest;
            }
            is_dropped && entry.location <= end
        });
        // A file that cannot be read stays, and is reported where it is read.
        listed.is_ok() && is_dropped
    })
}

/// Returns true if a bucket can have documents in a scope.
pub(crate) fn reaches(scope: &MarkScope, bucket: &StoredBucket) -> bool {
    let (first, last) = bucket.locations();
    match scope {
        MarkScope::Group { part: Some(part), .. } => is_part(bucket.id, *part) || bucket.id.covers(*part),
        MarkScope::Group { group, .. } => {
            let bits = DocumentGroup::from_key(group).and_then(|group| group.location_bits());
            bits.is_none_or(|bits| (first..=last).contains(&bits.reverse_bits()))
        }
        MarkScope::Type(_) => true,
        MarkScope::Locations(from, to) => *from <= last && first <= *to,
    }
}

/// The state with other buckets in place of one; unchanged when that is not there any more.
fn replace(
    state: &StoreState,
    id: BucketId,
    with: impl FnOnce(&StoredBucket) -> Vec<StoredBucket>,
) -> Result<StoreState, Error> {
    let mut state = state.clone();
    if let Some(index) = state.buckets.iter().position(|bucket| bucket.id == id) {
        let old = Arc::clone(&state.buckets[index]);
        state.buckets.splice(index..=index, with(&old).into_iter().map(Arc::new));
    }
    Ok(state)
}
