//! Merging: reduces the segments of a bucket, so that a group is in few of them, and reclaims the space of
//! replaced or dropped documents.
//!
//! Small buckets that share their files are merged together, into one file that they share again: a separate
//! file for each would cost a sync for each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millrace_bucket::{BucketId, LocationRange};
use millrace_column::{Column, ColumnForm, ColumnKey, Compression};
use millrace_document::ReversedLocation;
use millrace_env::pace;
use millrace_segment::{MergeInput, MergePolicy, SegmentFile, SegmentFormat};

use crate::context::StoreContext;
use crate::read::columns;
use crate::state::manifest::SegmentRecord;
use crate::state::marks::{DropMark, DropMarks};
use crate::state::{BucketSegment, StoreState, StoredBucket};
use crate::upkeep::maintenance::reaches;
use crate::upkeep::new_segments::NewSegments;
use crate::upkeep::shares::FileShares;
use crate::{Error, StoreLayout};

/// Number of segments of similar size that are merged together.
const FAN_IN: usize = 4;
/// Number of segments that are merged at a time while sealing is behind, so that each document is written
/// again fewer times. It leaves room for larger segments within [`SEGMENTS_MAX`].
const FAN_IN_BEHIND: usize = 8;
/// Maximum ratio of the sizes of two segments of similar size.
const TIER: u64 = 4;
/// Maximum number of segments of a bucket: above it the smallest are merged, independent of their sizes.
const SEGMENTS_MAX: usize = 10;
/// Size in bytes at which no more buckets are added to a merge.
const RUN_BYTES: u64 = 32 << 20;
/// A file is rewritten if buckets have less than 1/`WASTE` of its bytes, unless it is small.
const WASTE: u64 = 4;
const WASTE_MIN_BYTES: u64 = 1 << 20;

/// Number of segments of similar size that are merged together now.
pub(super) fn fan_in(shared: &StoreContext) -> usize {
    if shared.is_behind() { FAN_IN_BEHIND } else { FAN_IN }
}

/// Chooses the segments of a bucket to merge, by index in the list, where `fan_in` of similar size are merged
/// together; empty: none.
pub(crate) fn choose(segments: &[SegmentRecord], last_mark: u64, fan_in: usize) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..segments.len()).collect();
    by_size.sort_by_key(|index| segments[*index].bytes);
    let size = |index: usize| segments[by_size[index]].bytes.max(1);
    // The longest run of one size, from the smallest on: cheap merges first.
    for first in 0..by_size.len() {
        let run = (first..by_size.len()).take_while(|index| size(*index) <= size(first) * TIER).count();
        if run >= fan_in {
            return by_size[first..first + run].to_vec();
        }
    }
    if segments.len() > SEGMENTS_MAX {
        return by_size[..FAN_IN].to_vec();
    }
    // Dropped documents take space until their segment is rewritten.
    by_size.into_iter().find(|index| segments[*index].applied < last_mark).into_iter().collect()
}

/// Buckets, and those of their segments that are to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergeCandidate {
    buckets: Vec<BucketId>,
    /// Numbers of the segments to merge, sorted. Each of the buckets has all of them.
    segments: Vec<u64>,
}

impl MergeCandidate {
    /// The next merge that is of use, in buckets that are awake, also for these marks; `fan_in`: see
    /// [`choose`].
    pub fn next(
        state: &StoreState,
        marks: &[DropMark],
        fan_in: usize,
        awake: impl Fn(&Arc<StoredBucket>) -> bool,
    ) -> Option<MergeCandidate> {
        let chosen = |bucket: &Arc<StoredBucket>| {
            let records: Vec<SegmentRecord> = bucket.segments.iter().map(|segment| segment.record).collect();
            let chosen = choose(&records, last_mark(marks, bucket), fan_in);
            let mut numbers: Vec<u64> = chosen.iter().map(|index| records[*index].number).collect();
            numbers.sort_unstable();
            numbers
        };
        let mut buckets = state.buckets.iter().filter(|bucket| awake(bucket));
        let first =
            buckets.find_map(|bucket| Some((bucket, chosen(bucket))).filter(|(_, of)| !of.is_empty()));
        let Some((first, segments)) = first else { return Self::wasteful(state, awake) };
        let rest = buckets.filter(|bucket| chosen(bucket) == segments);
        Some(Self::of(std::iter::once(first).chain(rest), segments.clone()))
    }

    /// Finds a file of which little is used: the buckets that still have it get their share of it in another.
    fn wasteful(state: &StoreState, awake: impl Fn(&Arc<StoredBucket>) -> bool) -> Option<MergeCandidate> {
        let mut used: HashMap<u64, (u64, u64)> = HashMap::new();
        for segment in state.buckets.iter().flat_map(|bucket| &bucket.segments) {
            let Ok(opened) = &segment.opened else { continue };
            used.entry(segment.record.number).or_insert((0, opened.bytes())).0 += segment.record.bytes;
        }
        let wasted = |(used, of): &(u64, u64)| *of >= WASTE_MIN_BYTES && used.saturating_mul(WASTE) < *of;
        let (number, _) = used.into_iter().filter(|(_, used)| wasted(used)).min()?;
        Self::of_file(state, number, awake)
    }

    /// A file of an earlier format than this, with the buckets that have it: written again, it has this one.
    pub fn outdated(
        state: &StoreState,
        format: SegmentFormat,
        awake: impl Fn(&Arc<StoredBucket>) -> bool,
    ) -> Option<MergeCandidate> {
        let of_file = |segment: &BucketSegment| segment.opened.as_ref().ok().map(|file| file.format());
        let is_outdated = |segment: &&BucketSegment| of_file(segment).is_some_and(|known| known < format);
        let mut segments = state.buckets.iter().filter(|bucket| awake(bucket)).flat_map(|of| &of.segments);
        let number = segments.find(is_outdated)?.record.number;
        let has = |bucket: &&Arc<StoredBucket>| bucket.has_segment(number) && awake(bucket);
        Some(Self::of(state.buckets.iter().filter(has), vec![number]))
    }

    /// A file, with the buckets that have it, as far as they are awake.
    pub fn of_file(
        state: &StoreState,
        number: u64,
        awake: impl Fn(&Arc<StoredBucket>) -> bool,
    ) -> Option<MergeCandidate> {
        let has = |bucket: &&Arc<StoredBucket>| bucket.has_segment(number) && awake(bucket);
        let run = Self::of(state.buckets.iter().filter(has), vec![number]);
        (!run.buckets.is_empty()).then_some(run)
    }

    /// All segments of a bucket.
    pub fn whole(bucket: &StoredBucket) -> MergeCandidate {
        let mut segments: Vec<u64> = bucket.segments.iter().map(|segment| segment.record.number).collect();
        segments.sort_unstable();
        MergeCandidate { buckets: vec![bucket.id], segments }
    }

    /// The first of these buckets, as many as make one merge.
    fn of<'a>(buckets: impl Iterator<Item = &'a Arc<StoredBucket>>, segments: Vec<u64>) -> MergeCandidate {
        let mut bytes = 0;
        let taken = buckets.take_while(|bucket| {
            let full = bytes >= RUN_BYTES;
            bytes += bytes_of(bucket, &segments);
            !full
        });
        MergeCandidate { buckets: taken.map(|bucket| bucket.id).collect(), segments }
    }

    /// Buckets of the merge.
    pub fn buckets(&self) -> &[BucketId] {
        &self.buckets
    }

    /// Returns the buckets that still exist, with these segments: one may have been split, or lost its
    /// contents.
    fn present<'a>(&'a self, state: &'a StoreState) -> impl Iterator<Item = (usize, &'a Arc<StoredBucket>)> {
        let has_all = |bucket: &StoredBucket| self.segments.iter().all(|number| bucket.has_segment(*number));
        let buckets = state.buckets.iter().enumerate();
        buckets.filter(move |(_, bucket)| self.buckets.contains(&bucket.id) && has_all(bucket))
    }
}

/// Returns the bytes of a bucket in these segments.
fn bytes_of(bucket: &StoredBucket, segments: &[u64]) -> u64 {
    let records = bucket.segments.iter().map(|segment| segment.record);
    records.filter(|record| segments.contains(&record.number)).map(|record| record.bytes).sum()
}

/// Time at which the store learned of the last of these marks that reaches into a bucket; 0: none does.
pub(crate) fn last_mark(marks: &[DropMark], bucket: &StoredBucket) -> u64 {
    let reaching = marks.iter().filter(|mark| reaches(&mark.scope, bucket));
    reaching.map(|mark| mark.since).max().unwrap_or(0)
}

/// Files that are read at once for whether drops can reach something in them.
const NOTED_AT_ONCE: usize = 128;

/// Notes that all drops are applied in a segment that was chosen since some are not, if they can drop nothing
/// of it: neither in the buckets of the run nor in a part that no bucket has. Returns true if so: then there
/// is nothing to merge. Other segments of which the same is true share its manifest.
///
/// # Errors
/// The manifest cannot be written.
pub(crate) fn note_applied(
    shared: &StoreContext,
    state: &StoreState,
    run: &MergeCandidate,
) -> Result<bool, Error> {
    let &[number] = &run.segments[..] else { return Ok(false) };
    let marks = state.marks.list();
    let mut file = None;
    for (_, bucket) in run.present(state) {
        for segment in bucket.segments.iter().filter(|segment| segment.record.number == number) {
            let (applied, last) = (segment.record.applied, last_mark(&marks, bucket));
            // One that came from another store is written again, so that it is known as one of this store.
            if applied == 0 || applied >= last {
                return Ok(false);
            }
            file = segment.opened.as_ref().ok();
        }
    }
    // A file that cannot be read is reported by its merge.
    if file.is_none_or(|file| has_dropped(file, &state.marks).unwrap_or(true)) {
        return Ok(false);
    }
    let mut are_past = HashMap::from([(number, true)]);
    let mut last_marks: HashMap<(BucketId, u64), u64> = HashMap::new();
    for bucket in &state.buckets {
        let last = last_mark(&marks, bucket);
        let waits = |segment: &&BucketSegment| (1..last).contains(&segment.record.applied);
        for segment in bucket.segments.iter().filter(waits) {
            let number = segment.record.number;
            if are_past.len() < NOTED_AT_ONCE && !are_past.contains_key(&number) {
                let opened = segment.opened.as_ref();
                let is_past = opened.is_ok_and(|file| matches!(has_dropped(file, &state.marks), Ok(false)));
                are_past.insert(number, is_past);
            }
            if are_past.get(&number) == Some(&true) {
                last_marks.insert((bucket.id, number), last);
            }
        }
    }
    shared.publish(|state| {
        let mut new = state.clone();
        for bucket in &mut new.buckets {
            let last = |segment: &BucketSegment| last_marks.get(&(bucket.id, segment.record.number)).copied();
            if !bucket.segments.iter().any(|segment| last(segment).is_some()) {
                continue;
            }
            let mut segments = bucket.segments.clone();
            for segment in &mut segments {
                segment.record.applied = segment.record.applied.max(last(segment).unwrap_or(0));
            }
            *bucket = Arc::new(StoredBucket { id: bucket.id, segments });
        }
        Ok(new)
    })?;
    Ok(true)
}

/// Returns true if a file has documents that marks can drop.
fn has_dropped(segment: &SegmentFile, marks: &DropMarks) -> Result<bool, Error> {
    let mut is_found = false;
    for (number, section) in segment.sections().iter().enumerate() {
        segment.groups(number, 0, |entry| {
            pace::step();
            is_found |= marks.can_drop(&section.document_type, &entry.group);
            !is_found
        })?;
    }
    Ok(is_found)
}

/// Replaces the segments of a run with one merged segment.
pub(crate) fn merge(shared: &StoreContext, run: &MergeCandidate) -> Result<(), Error> {
    // A file with a higher number than there was at the time of a drop leaves out what was dropped.
    let number = shared.next_number();
    let (state, applied) = shared.settled_state();
    let buckets: Vec<Arc<StoredBucket>> = run.present(&state).map(|(_, bucket)| Arc::clone(bucket)).collect();
    let total: u64 = buckets.iter().map(|bucket| bytes_of(bucket, &run.segments)).sum();
    // A single segment is rewritten to reclaim the space of drops: the amount is not known in advance.
    if run.segments.len() > 1 {
        shared.check_space("merge segments", total)?;
    }
    let marks = state.marks.list();
    let policy = StoreMergePolicy {
        shared,
        state: &state,
        layout: shared.layout().0,
        forget: removals_forgotten_before(shared, &state, run),
    };
    shared.counters.merging.store(run.segments.len(), Ordering::Relaxed);
    let mut writer = shared.create_segment(number)?;
    if !millrace_segment::merge(&inputs(&buckets, &run.segments)?, &mut writer, &policy)? {
        return Ok(writer.abandon()?);
    }
    let file = NewSegments::new(shared);
    let merged = if writer.is_empty() {
        writer.abandon()?;
        None
    } else {
        Some(file.finish(number, writer, applied)?)
    };
    let mut shares = FileShares::default();
    if let Some(merged) = &merged {
        shares.measure(merged.opened.as_ref().map_err(Clone::clone)?, buckets.iter())?;
    }
    let mut changed = Vec::new();
    let published = file.publish(|state| {
        let mut new = state.clone();
        if brings_older(state, run, policy.forget) {
            return Err(Error::Closed);
        }
        for (index, bucket) in run.present(state) {
            let stays = |segment: &&BucketSegment| !run.segments.contains(&segment.record.number);
            let mut segments: Vec<BucketSegment> = bucket.segments.iter().filter(stays).cloned().collect();
            segments.extend(merged.iter().map(|merged| shares.with_share(bucket.id, merged)));
            changed.push((bucket.id, last_mark(&marks, bucket)));
            new.buckets[index] = Arc::new(StoredBucket { id: bucket.id, segments });
        }
        if changed.is_empty() { Err(Error::Closed) } else { Ok(new) }
    });
    match published {
        // The segments changed in the meantime: the next choice takes that into account, and the file is
        // deleted.
        Err(Error::Closed) => return Ok(()),
        published => published?,
    }
    shared.counts.merged(&changed, &run.segments, merged.is_some().then_some(number));
    shared.counters.merges.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The time before which removals can be forgotten in a merge: only one of all that the buckets have knows
/// that nothing older would rise again.
fn removals_forgotten_before(shared: &StoreContext, state: &StoreState, run: &MergeCandidate) -> u64 {
    if run.present(state).any(|(_, bucket)| bucket.segments.len() != run.segments.len()) {
        return 0;
    }
    forgettable_before(shared, state)
}

/// Returns the time before which removals need not be remembered, regardless of segments: the tail has
/// nothing older.
pub(crate) fn forgettable_before(shared: &StoreContext, state: &StoreState) -> u64 {
    let retention = shared.tuning().tombstone_retention.as_micros() as u64;
    shared.timestamps.now().0.saturating_sub(retention).min(state.oldest_in_tail())
}

/// Returns true if there is now a version older than the removals that a merge has forgotten.
fn brings_older(state: &StoreState, run: &MergeCandidate, forgotten: u64) -> bool {
    let mut others = run.present(state).flat_map(|(_, bucket)| &bucket.segments);
    let older = |segment: &BucketSegment| {
        !run.segments.contains(&segment.record.number)
            && segment.opened.as_ref().map_or(true, |segment| segment.oldest() < forgotten)
    };
    forgotten > 0 && (state.oldest_in_tail() < forgotten || others.any(older))
}

/// Returns the inputs of a merge: the share of these buckets in these segments; each bucket has all of them.
pub(crate) fn inputs(buckets: &[Arc<StoredBucket>], segments: &[u64]) -> Result<Vec<MergeInput>, Error> {
    let locations: Vec<LocationRange> = buckets.iter().map(|bucket| bucket.reversed_range()).collect();
    let Some(first) = buckets.first() else { return Ok(Vec::new()) };
    let all = buckets.iter().all(|bucket| segments.iter().all(|number| bucket.has_segment(*number)));
    assert!(all, "each bucket of a merge has all its segments: what it lacks would come to it from others");
    let chosen = first.segments.iter().filter(|segment| segments.contains(&segment.record.number));
    chosen
        .map(|segment| {
            let segment = Arc::clone(segment.opened.as_ref().map_err(Clone::clone)?);
            Ok(MergeInput { segment, locations: locations.clone() })
        })
        .collect()
}

/// Merge policy of this store's segments.
pub(crate) struct StoreMergePolicy<'a> {
    pub shared: &'a StoreContext,
    pub state: &'a StoreState,
    pub layout: Arc<dyn StoreLayout>,
    /// Removals from before are forgotten.
    pub forget: u64,
}

impl MergePolicy for StoreMergePolicy<'_> {
    fn columns(&self, document_type: &str, present: &[ColumnKey]) -> Vec<ColumnKey> {
        let mut columns: Vec<ColumnKey> = match self.layout.columns(document_type) {
            // Values stay though the schema has no such field now: it may have it again. What is derived can
            // be made again.
            Some(known) => known
                .into_iter()
                .chain(present.iter().filter(|key| key.form == ColumnForm::Value).cloned())
                .collect(),
            None => present.to_vec(),
        };
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn layout(&self, document_type: &str, field: &str) -> Option<millrace_column::ValueLayout> {
        self.layout.data_type(document_type, field).as_ref().map(millrace_column::layout)
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column> {
        self.layout.derive(document_type, key, value)
    }

    fn compression(&self, document_type: &str, key: &ColumnKey) -> Compression {
        columns::compression(&*self.layout, document_type, key)
    }

    fn dropped_until(&self, document_type: &str, location: ReversedLocation, group: &str) -> u64 {
        self.state.marks.dropped_until(document_type, location, group)
    }

    fn forget_removals_before(&self) -> u64 {
        self.forget
    }

    fn cancelled(&self) -> bool {
        self.shared.health.closed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of segments; `!` after a size: a mark is not applied in it. Expected: the sizes that are merged.
    fn check(sizes: &str, expected: &str) {
        check_with(FAN_IN, sizes, expected);
    }

    fn check_with(fan_in: usize, sizes: &str, expected: &str) {
        let segments: Vec<SegmentRecord> = sizes
            .split_whitespace()
            .map(|size| SegmentRecord {
                number: 0,
                bytes: size.trim_end_matches('!').parse().unwrap_or(0),
                documents: 0,
                applied: if size.ends_with('!') { 1 } else { 9 },
            })
            .collect();
        let chosen = choose(&segments, 5, fan_in);
        let mut chosen: Vec<u64> = chosen.iter().map(|index| segments[*index].bytes).collect();
        chosen.sort_unstable();
        let chosen: Vec<String> = chosen.iter().map(u64::to_string).collect();
        assert_eq!(chosen.join(" "), expected, "{sizes}");
    }

    #[test]
    fn segments_of_one_size_are_merged() {
        check("", "");
        check("100", "");
        check("100 100 100", "");
        check("100 120 90 300", "90 100 120 300");
        check("1000 10 10 11 10", "10 10 10 11");
        check("1000 3000 100 100", "");
        check("100 100! 100", "100");
        check(
            "1 10 100 1000 10000 100000 1000000 10000000 100000000 1000000000 10000000000",
            "1 10 100 1000",
        );
    }

    #[test]
    fn more_segments_are_merged_together_while_sealing_is_behind() {
        check_with(FAN_IN_BEHIND, "100 120 90 300 100 100 100", "");
        check_with(
            FAN_IN_BEHIND,
            "100 100 100 100 100 100 100 100 900 900",
            "100 100 100 100 100 100 100 100",
        );
        check_with(FAN_IN_BEHIND, "100 100 100 100 100 100 100 900 900 900 9000", "100 100 100 100");
        check_with(FAN_IN_BEHIND, "100 100! 100", "100");
    }
}
