//! State of the store at an instant: generations of the tail, buckets with their segments, marks. Immutable;
//! each change makes a new one.

pub(crate) mod erasures;
pub(crate) mod manifest;
pub(crate) mod marks;
pub(crate) mod open;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millrace_bucket::{BucketId, LocationRange};
use millrace_document::ReversedLocation;
use millrace_segment::SegmentFile;
use parking_lot::{Mutex, MutexGuard};

use crate::state::manifest::{Manifest, SegmentRecord};
use crate::state::marks::{DropMark, DropMarks};
use crate::tail::{AppendError, TailRows};
use crate::{Error, ViewScope};

/// One instant of the store.
#[derive(Clone)]
pub(crate) struct StoreState {
    /// Number of changes since the store was opened.
    pub version: u64,
    /// The last version with which versions of documents left buckets other than by marks.
    pub reduced_at: u64,
    /// Newest first; writes go to the first.
    pub generations: Vec<Arc<TailGeneration>>,
    /// The generation that takes the writes next; there is nothing in it. The manifest names it before the
    /// others.
    pub spare: Option<Arc<TailGeneration>>,
    /// In the order of keys; together they cover all keys.
    pub buckets: Vec<Arc<StoredBucket>>,
    pub marks: Arc<DropMarks>,
    /// Buckets with a replica here; true if it is complete.
    pub replicas: Arc<BTreeMap<BucketId, bool>>,
}

/// A generation of the tail.
pub(crate) struct TailGeneration {
    pub number: u64,
    pub directory: PathBuf,
    pub tail: Arc<dyn TailRows>,
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    oldest: AtomicU64,
    newest: AtomicU64,
    /// When it took over the writes; 0 where that is unknown, since it was before the start.
    began: AtomicU64,
    /// Held while rows are appended.
    appending: Mutex<()>,
    /// Set at a time without an append in progress: nothing is appended from then on.
    closed: AtomicBool,
}

impl TailGeneration {
    pub fn new(number: u64, directory: PathBuf, tail: Arc<dyn TailRows>) -> Self {
        TailGeneration {
            number,
            directory,
            tail,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            oldest: AtomicU64::new(u64::MAX),
            newest: AtomicU64::new(0),
            began: AtomicU64::new(0),
            appending: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The right to append, while it is held; `None`: it is closed.
    pub fn gate(&self) -> Option<AppendPermit<'_>> {
        let lock = self.appending.lock();
        (!self.is_closed()).then_some(AppendPermit { generation: self, _lock: lock })
    }

    /// Returns true if nothing is appended any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Keeps marks in the log, all or none, durably, unless the generation is closed: then it is as if the
    /// disk were full.
    pub fn append_marks(&self, marks: &[DropMark]) -> Result<(), AppendError> {
        let encoded = |mark: &DropMark| {
            let mut bytes = Vec::new();
            mark.encode(&mut bytes);
            (mark.since, bytes)
        };
        let encoded = marks.iter().map(encoded).collect();
        let Some(gate) = self.gate() else { return Err(AppendError::Full) };
        let outcome = self.tail.append_marks(encoded);
        if outcome.is_err() {
            gate.close();
        }
        outcome
    }

    /// Rows with timestamps in this range come: to be called before they can be seen.
    pub fn expect(&self, oldest: u64, newest: u64) {
        self.oldest.fetch_min(oldest, Ordering::SeqCst);
        self.newest.fetch_max(newest, Ordering::SeqCst);
    }

    /// No row has a lower timestamp.
    pub fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::SeqCst)
    }

    /// No row has a higher timestamp.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// Lets it take over the writes: rows in its log, except those with given times, have later times.
    pub fn begin(&self, now: u64) {
        self.began.store(now, Ordering::SeqCst);
    }

    /// Returns true if neither its log has a mark nor its rows need it.
    pub fn outlives(&self, mark: &DropMark) -> bool {
        self.began.load(Ordering::SeqCst) > mark.since && self.oldest() > mark.timestamp
    }

    /// Returns true if its log can have rows that were written at a time or before; never for the time 0.
    pub fn has_rows_of_before(&self, time: u64) -> bool {
        // Rows that could not be appended may be in the log of a closed one.
        let has_some = self.rows.load(Ordering::SeqCst) > 0 || self.is_closed();
        has_some && time > 0 && (self.began.load(Ordering::SeqCst) <= time || self.oldest() <= time)
    }

    /// Counts rows that were appended.
    pub fn count(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The right to append to a generation.
pub(crate) struct AppendPermit<'g> {
    generation: &'g TailGeneration,
    _lock: MutexGuard<'g, ()>,
}

impl AppendPermit<'_> {
    /// Closes the generation: nothing is appended to it any more.
    pub fn close(self) {
        self.generation.closed.store(true, Ordering::Release);
    }
}

/// A bucket and the segments that hold its documents.
pub(crate) struct StoredBucket {
    pub id: BucketId,
    pub segments: Vec<BucketSegment>,
}

/// A segment as a bucket sees it: only the bucket's own range of it.
#[derive(Clone)]
pub(crate) struct BucketSegment {
    pub record: SegmentRecord,
    /// The open file, or why it could not be opened: then the bucket refuses, and no other.
    pub opened: Result<Arc<SegmentFile>, Error>,
}

impl BucketSegment {
    /// Returns the segment as part of a bucket that uses `times` more bits, assuming that each part has an
    /// even share. Fractions count as one.
    pub fn halved(&self, times: u32) -> BucketSegment {
        let of = |count: u64| count.div_ceil(1_u64.checked_shl(times).unwrap_or(u64::MAX));
        let SegmentRecord { bytes, documents, .. } = self.record;
        let record = SegmentRecord { bytes: of(bytes), documents: of(documents), ..self.record };
        BucketSegment { record, opened: self.opened.clone() }
    }
}

impl StoredBucket {
    /// The first and the last location in it, reversed and cut to 32 bits. Of a part of a divided group both
    /// are the group's: see [`StoredBucket::reversed_range`].
    pub fn locations(&self) -> (u32, u32) {
        locations(self.id)
    }

    /// The reversed locations in it.
    pub fn reversed_range(&self) -> LocationRange {
        self.id.reversed_range()
    }

    /// Returns true if a reversed location is in it.
    pub fn has(&self, location: ReversedLocation) -> bool {
        self.reversed_range().contains(location)
    }

    /// Returns its intersection with these buckets: all of it, or parts.
    pub fn parts_of(self: &Arc<Self>, wanted: &[BucketId]) -> impl Iterator<Item = Arc<StoredBucket>> {
        wanted.iter().filter_map(|wanted| match is_part(self.id, *wanted) {
            true => Some(Arc::clone(self)),
            false if self.id.covers(*wanted) => {
                Some(Arc::new(StoredBucket { id: *wanted, segments: self.segments.clone() }))
            }
            false => None,
        })
    }

    /// One of its two halves, which is taken to have as much in it as the other.
    pub fn half(&self, id: BucketId) -> Arc<StoredBucket> {
        Arc::new(StoredBucket {
            id,
            segments: self.segments.iter().map(|segment| segment.halved(1)).collect(),
        })
    }

    /// Returns its parts that use `bits` bits; itself if it already uses them. The two halves are assumed to
    /// be of equal size.
    pub fn halved_to(self: &Arc<Self>, bits: u8) -> Vec<Arc<StoredBucket>> {
        if self.id.used_bits() >= bits {
            return vec![Arc::clone(self)];
        }
        let children = self.id.children().into_iter().flatten();
        children.flat_map(|child| self.half(child).halved_to(bits)).collect()
    }

    /// Returns true if it has this segment.
    pub fn has_segment(&self, number: u64) -> bool {
        self.segments.iter().any(|segment| segment.record.number == number)
    }

    /// Its segments.
    pub fn open_segments(&self) -> Result<Vec<&Arc<SegmentFile>>, Error> {
        self.segments.iter().map(|segment| segment.opened.as_ref().map_err(Clone::clone)).collect()
    }

    /// No version in its segments has a higher timestamp; `None` where one of them could not be opened.
    pub fn newest(&self) -> Option<u64> {
        let newest = |segment: &BucketSegment| segment.opened.as_ref().ok().map(|segment| segment.newest());
        self.segments.iter().map(newest).try_fold(0, |highest, newest| Some(highest.max(newest?)))
    }

    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.record.bytes).sum()
    }

    pub fn documents(&self) -> u64 {
        self.segments.iter().map(|segment| segment.record.documents).sum()
    }
}

/// Returns true if one of a store's buckets is, or is a part of, this bucket. The parts of a divided group
/// are not parts of the bucket that it was in.
pub(crate) fn is_part(part: BucketId, of: BucketId) -> bool {
    of.covers(part) && (!is_of_divided(part) || is_of_divided(of))
}

/// Returns true for a bucket of a divided group.
pub(crate) fn is_of_divided(bucket: BucketId) -> bool {
    bucket.used_bits() > BucketId::GROUP_BITS
}

/// The first and the last location of a bucket, reversed and cut to 32 bits.
pub(crate) fn locations(bucket: BucketId) -> (u32, u32) {
    let range = bucket.reversed_range();
    (range.first.high(), range.last.high())
}

impl StoreState {
    /// The same with more marks.
    pub fn with_marks(&self, added: &[DropMark]) -> StoreState {
        let mut marks = (*self.marks).clone();
        added.iter().cloned().for_each(|mark| marks.add(mark));
        StoreState { marks: Arc::new(marks), ..self.clone() }
    }

    /// Returns the state in which the spare takes the writes; `None`: there is no spare.
    pub fn rolled(&self) -> Option<StoreState> {
        let mut state = self.clone();
        state.generations.insert(0, state.spare.take()?);
        Some(state)
    }

    /// Asserts the invariants of a state, before it is written to a manifest: if they were violated,
    /// documents would be in no bucket, or in two.
    pub fn assert_whole(&self) {
        assert!(!self.generations.is_empty(), "one generation takes the writes");
        let numbers = || self.generations.iter().map(|generation| generation.number);
        assert!(
            numbers().is_sorted_by(|newer, older| newer > older),
            "generations are in order, the newest first"
        );
        assert!(
            self.spare.as_ref().is_none_or(|spare| numbers().all(|number| number < spare.number)),
            "the spare generation is newer than those with rows"
        );
        let mut next = Some(ReversedLocation::FIRST);
        for bucket in &self.buckets {
            let range = bucket.reversed_range();
            assert!(
                next == Some(range.first),
                "the buckets are in order, and the one before {} ends where it begins",
                bucket.id
            );
            next = range.last.next();
        }
        assert!(next.is_none(), "the buckets cover all keys");
    }

    /// The bucket of a reversed location.
    pub fn bucket(&self, location: ReversedLocation) -> &Arc<StoredBucket> {
        let after = self.buckets.partition_point(|bucket| bucket.reversed_range().first <= location);
        &self.buckets[after.saturating_sub(1)]
    }

    /// The buckets that have something of a group of this location: one, unless it is divided.
    pub fn buckets_of(&self, location: u32) -> &[Arc<StoredBucket>] {
        let first = self.buckets.partition_point(|bucket| bucket.locations().1 < location);
        let count = self.buckets[first..].partition_point(|bucket| bucket.locations().0 <= location);
        &self.buckets[first..first + count]
    }

    /// Returns the bucket with `bits` bits that a reversed location is in; the store's own bucket if its
    /// group is divided.
    pub fn bucket_with(&self, bits: u8, reversed: ReversedLocation) -> BucketId {
        let own = self.bucket(reversed).id;
        if is_of_divided(own) { own } else { BucketId::new(bits, reversed.location().bits()) }
    }

    /// Returns the buckets in which documents of a scope can be, or the parts of them, in the order of keys.
    /// Together they cover no more than the scope does, except for groups: those are found in their buckets.
    pub fn within(&self, scope: &ViewScope) -> Vec<Arc<StoredBucket>> {
        let (ViewScope::Buckets(wanted) | ViewScope::GroupsIn(_, wanted)) = scope else {
            return self.buckets.clone();
        };
        // A bucket does not include groups divided off, so the two do not overlap.
        let (mut of_divided, mut others): (Vec<BucketId>, Vec<BucketId>) =
            wanted.iter().partition(|bucket| is_of_divided(**bucket));
        of_divided.sort_unstable_by_key(|bucket| bucket.reversed_range());
        others.sort_unstable_by_key(|bucket| bucket.reversed_range());
        let mut within: Vec<Arc<StoredBucket>> = Vec::new();
        for bucket in &self.buckets {
            let range = bucket.reversed_range();
            for wanted in [&others, &of_divided] {
                let from = wanted.partition_point(|wanted| wanted.reversed_range().last < range.first);
                let reached =
                    wanted[from..].iter().take_while(|wanted| wanted.reversed_range().first <= range.last);
                let reached = reached.count();
                within.extend(bucket.parts_of(&wanted[from..from + reached]));
            }
        }
        within
    }

    /// Returns the manifest of this state.
    pub fn manifest(&self, next_number: u64, clock: u64) -> Manifest {
        Manifest {
            next_number,
            clock,
            generations: self
                .spare
                .iter()
                .chain(&self.generations)
                .map(|generation| generation.number)
                .collect(),
            buckets: self
                .buckets
                .iter()
                .map(|bucket| (bucket.id, bucket.segments.iter().map(|segment| segment.record).collect()))
                .collect(),
            marks: self.marks.list(),
            replicas: self.replicas.iter().map(|(bucket, complete)| (*bucket, *complete)).collect(),
        }
    }

    /// No row in the tail has a lower timestamp.
    pub fn oldest_in_tail(&self) -> u64 {
        self.generations.iter().map(|generation| generation.oldest()).min().unwrap_or(u64::MAX)
    }

    /// The numbers of all segments, each once.
    pub fn segment_numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self
            .buckets
            .iter()
            .flat_map(|bucket| &bucket.segments)
            .map(|segment| segment.record.number)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Bytes of all segment files that could be opened.
    pub fn segment_bytes(&self) -> u64 {
        let segments = self.buckets.iter().flat_map(|bucket| &bucket.segments);
        let bytes: BTreeMap<u64, u64> = segments
            .filter_map(|segment| Some((segment.record.number, segment.opened.as_ref().ok()?.bytes())))
            .collect();
        bytes.values().sum()
    }

    /// Bytes in the tail.
    pub fn tail_bytes(&self) -> u64 {
        self.generations.iter().map(|generation| generation.bytes.load(Ordering::Relaxed)).sum()
    }
}
