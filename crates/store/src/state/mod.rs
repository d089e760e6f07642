//! What there is at an instant: generations of the tail, buckets with their segments, marks. Immutable; each change makes a new one.

pub(crate) mod manifest;
pub(crate) mod marks;
pub(crate) mod open;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_bucket::BucketId;
use millrace_segment::Segment;

use crate::state::manifest::{Manifest, SegmentRecord};
use crate::state::marks::{Mark, Marks};
use crate::tail::{AppendError, Tail};
use crate::{Error, ViewScope};

/// One instant of the store.
#[derive(Clone)]
pub(crate) struct State {
    /// Newest first; writes go to the first.
    pub generations: Vec<Arc<Generation>>,
    /// The generation that takes the writes next; there is nothing in it. The manifest names it before the others.
    pub spare: Option<Arc<Generation>>,
    /// In the order of keys; together they cover all keys.
    pub buckets: Vec<Arc<Bucket>>,
    pub marks: Arc<Marks>,
    /// Buckets of which there is a replica here, and whether it is complete.
    pub replicas: Arc<BTreeMap<BucketId, bool>>,
}

/// A generation of the tail.
pub(crate) struct Generation {
    pub number: u64,
    pub directory: PathBuf,
    pub tail: Arc<dyn Tail>,
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    oldest: AtomicU64,
    newest: AtomicU64,
    /// Held while rows are appended.
    appending: Mutex<()>,
    /// Set while nobody appends: nothing is appended from then on.
    closed: AtomicBool,
}

impl Generation {
    pub fn new(number: u64, directory: PathBuf, tail: Arc<dyn Tail>) -> Self {
        Generation {
            number,
            directory,
            tail,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            oldest: AtomicU64::new(u64::MAX),
            newest: AtomicU64::new(0),
            appending: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The right to append, while it is held; `None`: it is closed.
    pub fn gate(&self) -> Option<Gate<'_>> {
        let lock = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.is_closed()).then_some(Gate { generation: self, _lock: lock })
    }

    /// Whether nothing is appended any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Keeps a mark in the log, durably, unless the generation is closed: then it is as if the disk were full.
    pub fn append_mark(&self, mark: &Mark) -> Result<(), AppendError> {
        let Some(gate) = self.gate() else { return Err(AppendError::Full) };
        let mut bytes = Vec::new();
        mark.encode(&mut bytes);
        let outcome = self.tail.append_mark(mark.since, bytes);
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

    /// Counts rows that were appended.
    pub fn count(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The right to append to a generation.
pub(crate) struct Gate<'g> {
    generation: &'g Generation,
    _lock: MutexGuard<'g, ()>,
}

impl Gate<'_> {
    /// From now on nothing is appended.
    pub fn close(self) {
        self.generation.closed.store(true, Ordering::Release);
    }
}

/// A bucket and the segments that hold its documents.
pub(crate) struct Bucket {
    pub id: BucketId,
    pub segments: Vec<BucketSegment>,
}

/// A segment as a bucket sees it: only the bucket's own range of it.
#[derive(Clone)]
pub(crate) struct BucketSegment {
    pub record: SegmentRecord,
    /// The open file, or why it could not be opened: then the bucket refuses, and no other.
    pub opened: Result<Arc<Segment>, Error>,
}

impl Bucket {
    /// The first and the last location in it, reversed and cut to 32 bits.
    pub fn locations(&self) -> (u32, u32) {
        locations(self.id)
    }

    /// One of its two halves, which is taken to have as much in it as the other.
    pub fn half(&self, id: BucketId) -> Arc<Bucket> {
        let mut segments = self.segments.clone();
        for segment in &mut segments {
            segment.record.bytes = segment.record.bytes.div_ceil(2);
            segment.record.documents = segment.record.documents.div_ceil(2);
        }
        Arc::new(Bucket { id, segments })
    }

    /// Whether it has this segment.
    pub fn has_segment(&self, number: u64) -> bool {
        self.segments.iter().any(|segment| segment.record.number == number)
    }

    /// Its segments.
    pub fn open_segments(&self) -> Result<Vec<&Arc<Segment>>, Error> {
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

/// The bucket of at most 32 bits that has these locations.
fn id_of((first, last): (u32, u32)) -> BucketId {
    BucketId::new((first ^ last).leading_zeros() as u8, u64::from(first.reverse_bits()))
}

/// The first and the last location of a bucket, reversed and cut to 32 bits: no bucket here uses more.
pub(crate) fn locations(bucket: BucketId) -> (u32, u32) {
    let (first, last) = bucket.reversed_range();
    ((first >> 32) as u32, (last >> 32) as u32)
}

impl State {
    /// The same with one more mark.
    pub fn with_mark(&self, mark: Mark) -> State {
        let mut marks = (*self.marks).clone();
        marks.add(mark);
        State { marks: Arc::new(marks), ..self.clone() }
    }

    /// The same with the spare taking the writes; `None`: there is no spare.
    pub fn rolled(&self) -> Option<State> {
        let mut state = self.clone();
        state.generations.insert(0, state.spare.take()?);
        Some(state)
    }

    /// The bucket of a location.
    pub fn bucket(&self, location: u32) -> &Arc<Bucket> {
        let after = self.buckets.partition_point(|bucket| bucket.locations().0 <= location);
        &self.buckets[after.saturating_sub(1)]
    }

    /// The buckets in which documents of a scope can be, or the parts of them, in the order of keys. Together they cover no
    /// more than the scope does, but for groups: those are found in their buckets.
    pub fn within(&self, scope: &ViewScope) -> Vec<Arc<Bucket>> {
        let ViewScope::Buckets(wanted) = scope else { return self.buckets.clone() };
        let mut within: Vec<Arc<Bucket>> = Vec::new();
        let mut ranges: Vec<(u32, u32)> = wanted.iter().map(|bucket| locations(*bucket)).collect();
        ranges.sort_unstable();
        for bucket in &self.buckets {
            let (first, last) = bucket.locations();
            let from = ranges.partition_point(|range| range.1 < first);
            for range in ranges[from..].iter().take_while(|range| range.0 <= last) {
                within.push(match (range.0 <= first, last <= range.1) {
                    (true, true) => Arc::clone(bucket),
                    _ => Arc::new(Bucket { id: id_of(*range), segments: bucket.segments.clone() }),
                });
            }
        }
        within
    }

    /// What the manifest says of it.
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
