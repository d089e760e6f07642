//! Work on segments in the background: a bucket's segments are merged, large buckets are split, marks that nothing needs any
//! more are forgotten, and so are removals. A bucket where this fails rests for a while.
//!
//! What to do is chosen by functions of plain values ([`choose`], [`should_split`]); doing it is another matter.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_column::{Column, ColumnKey, Form};
use millrace_document::Group;
use millrace_segment::{MergeInput, MergePolicy, Writer, merge};

use crate::manifest::SegmentRecord;
use crate::marks::{Mark, MarkScope, Marks};
use crate::new_segments::NewSegments;
use crate::prune::Pruning;
use crate::rests::Rests;
use crate::shared::Shared;
use crate::state::{Bucket, BucketSegment, State, locations};
use crate::{Error, Layout, Tuning};

/// Segments of about one size are merged when there are so many.
const FAN_IN: usize = 4;
/// Two segments are of about one size when neither is so many times the other.
const TIER: u64 = 4;
/// The most segments of a bucket: above it the smallest are merged, whatever their sizes.
const SEGMENTS_MAX: usize = 10;
/// No two buckets share more bits than a group's documents do.
const SPLIT_BITS_MAX: u8 = 32;

/// Which segments of a bucket to merge, by their place in the list; empty: none.
pub(crate) fn choose(segments: &[SegmentRecord], last_mark: u64) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..segments.len()).collect();
    by_size.sort_by_key(|index| segments[*index].bytes);
    let size = |place: usize| segments[by_size[place]].bytes.max(1);
    // The longest run of one size, from the smallest on: cheap merges first.
    for first in 0..by_size.len() {
        let run = (first..by_size.len()).take_while(|place| size(*place) <= size(first) * TIER).count();
        if run >= FAN_IN {
            return by_size[first..first + run].to_vec();
        }
    }
    if segments.len() > SEGMENTS_MAX {
        return by_size[..FAN_IN].to_vec();
    }
    // What was dropped takes space until its segment is written anew.
    by_size.into_iter().find(|index| segments[*index].applied < last_mark).into_iter().collect()
}

/// Whether a bucket is to be split.
pub(crate) fn should_split(bucket: &Bucket, tuning: &Tuning) -> bool {
    bucket.id.used_bits() < SPLIT_BITS_MAX
        && (bucket.bytes() > tuning.split_bytes || bucket.documents() > tuning.split_documents)
}

/// Does the work, one piece at a time.
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    /// Buckets that cannot be split or merged now.
    rests: Rests,
    pruning: Pruning,
}

impl Maintenance {
    pub fn new(shared: Arc<Shared>) -> Self {
        let pruning = Pruning::new(shared.timestamps.now().0);
        Maintenance { shared, rests: Rests::default(), pruning }
    }

    /// Does the most useful piece of work. Returns whether there may be more.
    pub fn tend(&self) -> Result<bool, Error> {
        let shared = &self.shared;
        let state = shared.state();
        let tuning = shared.tuning();
        let now = shared.timestamps.now().0;
        let awake = |bucket: &&Arc<Bucket>| !self.rests.rests(bucket.id, now);
        if self.empty_dropped(&state)? {
            return Ok(true);
        }
        if self.split_to_bits(&state, tuning.split_bits.min(Tuning::SPLIT_BITS_MAX))? {
            return Ok(true);
        }
        for bucket in state.buckets.iter().filter(awake).filter(|bucket| should_split(bucket, &tuning)) {
            if self.or_rest(bucket, self.split(bucket))? {
                return Ok(true);
            }
            // All its documents have one location: until there are others, looking again is of no use.
            self.rests.rest(bucket.id, now);
        }
        for bucket in state.buckets.iter().filter(awake) {
            let records: Vec<SegmentRecord> = bucket.segments.iter().map(|segment| segment.record).collect();
            let chosen = choose(&records, last_mark(&state, bucket));
            if !chosen.is_empty() {
                self.or_rest(bucket, self.merge(bucket, &chosen))?;
                self.rests.forget(bucket.id);
                return Ok(true);
            }
        }
        let horizon = now.saturating_sub(tuning.tombstone_retention.as_micros() as u64);
        let interval = tuning.prune_interval.as_micros() as u64;
        if let Some(pruned) = self.pruning.next(&state, now, interval, horizon)? {
            if let Some(bucket) = state.buckets.iter().find(|bucket| bucket.id == pruned) {
                let all: Vec<usize> = (0..bucket.segments.len()).collect();
                self.or_rest(bucket, self.merge(bucket, &all))?;
            }
            return Ok(true);
        }
        self.forget_marks(&state)
    }

    /// Passes an outcome on; after a failure, the bucket rests.
    fn or_rest<T>(&self, bucket: &Bucket, outcome: Result<T, Error>) -> Result<T, Error> {
        if outcome.is_err() {
            self.rests.rest(bucket.id, self.shared.timestamps.now().0);
        }
        outcome
    }

    fn merge(&self, bucket: &Bucket, chosen: &[usize]) -> Result<(), Error> {
        let shared = &self.shared;
        let (state, applied) = shared.settled_state();
        let segments = bucket.open_segments()?;
        let inputs: Vec<MergeInput> = chosen
            .iter()
            .map(|index| MergeInput { segment: Arc::clone(segments[*index]), locations: bucket.locations() })
            .collect();
        let gone: Vec<u64> = chosen.iter().map(|index| bucket.segments[*index].record.number).collect();
        let all = chosen.len() == bucket.segments.len();
        let retention = shared.tuning().tombstone_retention.as_micros() as u64;
        let policy = Policy {
            shared,
            state: &state,
            layout: shared.layout().0,
            // Only a merge of all that the bucket has knows that nothing older would rise again.
            forget: if all { shared.timestamps.now().0.saturating_sub(retention) } else { 0 },
        };
        let number = shared.next_number();
        let mut writer = Writer::create(&*shared.options.disk, &shared.segment_path(number))?;
        if !merge(&inputs, &mut writer, &policy)? {
            return Ok(writer.abandon()?);
        }
        let mut file = NewSegments::new(shared);
        let merged = if writer.is_empty() {
            writer.abandon()?;
            None
        } else {
            Some(file.finish(number, writer, applied)?)
        };
        file.publish(|state| {
            replace(state, bucket.id, |old| {
                let mut segments: Vec<BucketSegment> = old
                    .segments
                    .iter()
                    .filter(|segment| !gone.contains(&segment.record.number))
                    .cloned()
                    .collect();
                segments.extend(merged);
                vec![Bucket { id: old.id, segments }]
            })
        })?;
        shared.counters.merges.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes away the segments of buckets that were dropped as a whole, without reading them. Returns whether there were some.
    fn empty_dropped(&self, state: &State) -> Result<bool, Error> {
        if !state.buckets.iter().any(|bucket| kept_segments(bucket, &state.marks).is_some()) {
            return Ok(false);
        }
        self.shared.publish(|state| {
            let mut state = state.clone();
            for bucket in &mut state.buckets {
                if let Some(segments) = kept_segments(bucket, &state.marks) {
                    *bucket = Arc::new(Bucket { id: bucket.id, segments });
                }
            }
            Ok(state)
        })?;
        Ok(true)
    }

    /// Splits buckets that use fewer bits, all at once and without looking at their documents. Returns whether there were some.
    fn split_to_bits(&self, state: &State, bits: u8) -> Result<bool, Error> {
        let split = |bucket: &Arc<Bucket>| bucket.id.used_bits() < bits;
        let count = state.buckets.iter().filter(|bucket| split(bucket)).count();
        if count == 0 {
            return Ok(false);
        }
        self.shared.publish(|state| {
            let mut state = state.clone();
            state.buckets = state.buckets.iter().flat_map(|bucket| halved_to_bits(bucket, bits)).collect();
            Ok(state)
        })?;
        self.shared.counters.splits.fetch_add(count as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Splits a bucket in two; `false`: all its documents have one location, or it has no segments.
    fn split(&self, bucket: &Bucket) -> Result<bool, Error> {
        let Some(children) = bucket.id.children() else { return Ok(false) };
        let mut first = u32::MAX;
        let mut last = 0;
        let mut shares: Vec<[u64; 2]> = Vec::new();
        let boundary = locations(children[1]).0;
        let (begin, end) = bucket.locations();
        for segment in bucket.open_segments()? {
            let mut share = [0; 2];
            for (number, section) in segment.sections().iter().enumerate() {
                let mut entries = Vec::new();
                segment.groups(number, begin, |entry| {
                    let inside = entry.location <= end;
                    if inside && (entry.location >= begin || entry.group.is_empty()) {
                        entries.push(entry);
                    }
                    inside
                })?;
                debug_assert!(section.chunks > 0, "sections without chunks are not written");
                for entry in entries {
                    let chunks =
                        segment.chunks(number, entry.first_chunk..entry.first_chunk + entry.chunks)?;
                    for chunk in chunks {
                        let location = (chunk.first_location >> 32) as u32;
                        share[usize::from(location >= boundary)] += u64::from(chunk.documents);
                        first = first.min(location);
                        last = last.max(location);
                    }
                }
            }
            shares.push(share);
        }
        if first >= last {
            return Ok(false);
        }
        self.shared.publish(|state| {
            replace(state, bucket.id, |old| {
                let child = |side: usize| {
                    let of = |(index, segment): (usize, &BucketSegment)| {
                        // A segment that was sealed meanwhile is not measured: half of it is taken to be here.
                        let [low, high] = shares.get(index).copied().unwrap_or([1, 1]);
                        let share = if side == 0 { low } else { high };
                        let total = (low + high).max(1);
                        let mut segment = segment.clone();
                        segment.record.bytes = segment.record.bytes * share / total;
                        segment.record.documents = segment.record.documents * share / total;
                        segment
                    };
                    Bucket { id: children[side], segments: old.segments.iter().enumerate().map(of).collect() }
                };
                vec![child(0), child(1)]
            })
        })?;
        self.shared.counters.splits.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Forgets marks that are applied in all that they can reach. Returns whether there were some.
    fn forget_marks(&self, state: &State) -> Result<bool, Error> {
        // Rows that come from now on are newer than the marks.
        let no_rows = state.generations.iter().all(|generation| generation.rows.load(Ordering::Relaxed) == 0);
        if state.marks.is_empty() || !no_rows {
            return Ok(false);
        }
        let is_applied = |mark: &Mark, state: &State| {
            let mut segments = state
                .buckets
                .iter()
                .filter(|bucket| reaches(&mark.scope, bucket))
                .flat_map(|bucket| &bucket.segments);
            segments.all(|segment| segment.record.applied >= mark.timestamp)
        };
        if !state.marks.list().iter().any(|mark| is_applied(mark, state)) {
            return Ok(false);
        }
        self.shared.publish(|state| {
            let mut new = state.clone();
            let mut marks = (*state.marks).clone();
            if state.generations.len() == 1 {
                marks.retain(|mark| {
                    !is_applied(mark, state) || mark.timestamp >= self.shared.timestamps.last().0
                });
            }
            new.marks = Arc::new(marks);
            Ok(new)
        })?;
        Ok(false)
    }
}

/// The parts of a bucket that use so many bits; the bucket itself where it uses them already. Each part is taken to have as
/// much in it as its sibling.
fn halved_to_bits(bucket: &Arc<Bucket>, bits: u8) -> Vec<Arc<Bucket>> {
    if bucket.id.used_bits() >= bits {
        return vec![Arc::clone(bucket)];
    }
    let half = |id| {
        let mut segments = bucket.segments.clone();
        for segment in &mut segments {
            segment.record.bytes = segment.record.bytes.div_ceil(2);
            segment.record.documents = segment.record.documents.div_ceil(2);
        }
        Arc::new(Bucket { id, segments })
    };
    let children = bucket.id.children().into_iter().flatten();
    children.flat_map(|child| halved_to_bits(&half(child), bits)).collect()
}

/// What is left of a bucket's segments when it was dropped as a whole; `None` where all of them stay. A segment that was written
/// before a mark was made, and so does not have it applied, has no rows from after it either.
fn kept_segments(bucket: &Bucket, marks: &Marks) -> Option<Vec<BucketSegment>> {
    let (begin, end) = bucket.locations();
    let covering = marks.locations().filter(|(first, last, _)| *first <= begin && end <= *last);
    let dropped = covering.map(|(.., timestamp)| timestamp).max()?;
    let stays = |segment: &&BucketSegment| segment.record.applied >= dropped;
    let kept: Vec<BucketSegment> = bucket.segments.iter().filter(stays).cloned().collect();
    (kept.len() < bucket.segments.len()).then_some(kept)
}

/// The time of the last mark that reaches into a bucket; 0: none does.
fn last_mark(state: &State, bucket: &Bucket) -> u64 {
    if state.marks.is_empty() {
        return 0;
    }
    let marks = state.marks.list();
    let reaching = marks.iter().filter(|mark| reaches(&mark.scope, bucket));
    reaching.map(|mark| mark.timestamp).max().unwrap_or(0)
}

/// Whether a bucket can have documents in a scope.
fn reaches(scope: &MarkScope, bucket: &Bucket) -> bool {
    let (first, last) = bucket.locations();
    match scope {
        MarkScope::Group { group, .. } => {
            let bits = Group::from_key(group).and_then(|group| group.location_bits());
            bits.is_none_or(|bits| (first..=last).contains(&bits.reverse_bits()))
        }
        MarkScope::Type(_) => true,
        MarkScope::Locations(from, to) => *from <= last && first <= *to,
    }
}

/// The state with other buckets in place of one; unchanged when that is not there any more.
fn replace(state: &State, id: BucketId, with: impl FnOnce(&Bucket) -> Vec<Bucket>) -> Result<State, Error> {
    let mut state = state.clone();
    if let Some(place) = state.buckets.iter().position(|bucket| bucket.id == id) {
        let old = Arc::clone(&state.buckets[place]);
        state.buckets.splice(place..=place, with(&old).into_iter().map(Arc::new));
    }
    Ok(state)
}

/// How segments of this store are merged.
struct Policy<'a> {
    shared: &'a Shared,
    state: &'a State,
    layout: Arc<dyn Layout>,
    forget: u64,
}

impl MergePolicy for Policy<'_> {
    fn columns(&self, document_type: &str, present: &[ColumnKey]) -> Vec<ColumnKey> {
        let mut columns: Vec<ColumnKey> = match self.layout.columns(document_type) {
            // Values stay though the schema has no such field now: it may have it again. What is derived can be made again.
            Some(known) => known
                .into_iter()
                .chain(present.iter().filter(|key| key.form == Form::Value).cloned())
                .collect(),
            None => present.to_vec(),
        };
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column> {
        self.layout.derive(document_type, key, value)
    }

    fn dropped(&self, document_type: &str, location: u32, group: &str) -> u64 {
        self.state.marks.dropped(document_type, location, group)
    }

    fn forget_removals_before(&self) -> u64 {
        self.forget
    }

    fn cancelled(&self) -> bool {
        // Asked once a group: the place to step aside for writers.
        if self.shared.counters.writes_in_flight.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.shared.health.closed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of segments; `!` after a size: a mark is not applied in it. Expected: the sizes that are merged.
    fn check(sizes: &str, expected: &str) {
        let segments: Vec<SegmentRecord> = sizes
            .split_whitespace()
            .map(|size| SegmentRecord {
                number: 0,
                bytes: size.trim_end_matches('!').parse().unwrap_or(0),
                documents: 0,
                applied: if size.ends_with('!') { 1 } else { 9 },
            })
            .collect();
        let mut chosen: Vec<u64> = choose(&segments, 5).iter().map(|index| segments[*index].bytes).collect();
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
}
