//! The rows of the tail of groups that were viewed lately, kept with the masks of the group's segments, and
//! brought up to date with what was written since.
//!
//! Each write sets the number of the latest write for its location, before it begins and after it has ended.
//! A snapshot has all writes of a location if the number is even (no write is in flight) and not above the
//! one that was read before the snapshot. Then the rows are kept, with a number: that of no later write of
//! the location. A view with a later snapshot goes on from there with the keys that were written since, where
//! all of them are remembered ([`WrittenKeys`]); if the state has changed, the rows are carried over first.
//!
//! Only weak references are kept: neither the memory of chunks nor a sealed generation lives longer for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use millrace_bucket::BucketId;
use millrace_segment::ChunkInfo;
use parking_lot::Mutex;
use quick_cache::Weighter;

use crate::Error;
use crate::read::carried_rows::{RecentMasks, RowsState};
use crate::read::group_rows::{GroupRows, TailPart};
use crate::read::masks::{GroupOfBucket, Mask, SegmentChunks};
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot, keep_reaching};
use crate::read::written_keys::WrittenKeys;
use crate::state::StoredBucket;
use crate::tail::chunk::TailChunk;
use crate::tail::{NewRow, RowKey};

/// Number of counters; views of locations that share one pass over each other's rows.
const COUNTERS: usize = 4096;

/// Numbers of the latest writes of all locations. One thread writes.
pub(crate) struct WriteNumbers {
    latest: AtomicU64,
    of_locations: Vec<AtomicU64>,
    written: Mutex<WrittenKeys>,
}

/// A write in flight to some locations.
pub(crate) struct NumberedWrite<'a> {
    numbers: &'a WriteNumbers,
    counters: Vec<usize>,
}

impl Default for WriteNumbers {
    fn default() -> Self {
        let of_locations = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
        WriteNumbers { latest: AtomicU64::new(0), of_locations, written: Mutex::default() }
    }
}

impl WriteNumbers {
    /// Number of the latest write, to be read before a snapshot is taken.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    /// Number of the latest write to a location, if a snapshot has it and no other is in flight. `before`:
    /// [`WriteNumbers::latest`] before the snapshot.
    fn of(&self, location: u32, before: u64) -> Option<u64> {
        let number = self.of_locations[counter(location)].load(Ordering::SeqCst);
        (number.is_multiple_of(2) && number <= before).then_some(number)
    }

    /// Remembers the keys of a location's rows from the next write on.
    fn watch(&self, location: u32) {
        let counter = counter(location);
        let mut written = self.written.lock();
        written.watch(counter, self.of_locations[counter].load(Ordering::SeqCst));
    }

    /// The keys of the rows that were written to a location, and to others with its counter, after the write
    /// of a number, each with the number of its write; `None`: not all of them are remembered. A row that is
    /// in a snapshot is among them.
    fn written_after(&self, location: u32, number: u64) -> Option<Vec<(u64, Arc<[u8]>)>> {
        self.written.lock().after(counter(location), number)
    }

    /// Begins a write of these rows, which ends when the result is dropped. One at a time.
    pub fn begin(&self, rows: &[NewRow]) -> NumberedWrite<'_> {
        let keys = || {
            rows.iter().filter_map(|(key, _)| {
                let location = key.first_chunk::<4>()?;
                Some((counter(u32::from_be_bytes(*location)), &**key))
            })
        };
        let mut counters: Vec<usize> = keys().map(|(counter, _)| counter).collect();
        counters.sort_unstable();
        counters.dedup();
        let write = NumberedWrite { numbers: self, counters };
        // A counter that is watched from this write on has its number already.
        let mut written = self.written.lock();
        let number = write.count();
        assert!(number % 2 == 1, "rows are appended by one thread: no other write is in flight");
        written.add(number, keys());
        drop(written);
        write
    }
}

impl NumberedWrite<'_> {
    fn count(&self) -> u64 {
        let number = self.numbers.latest.fetch_add(1, Ordering::SeqCst) + 1;
        for counter in &self.counters {
            self.numbers.of_locations[*counter].store(number, Ordering::SeqCst);
        }
        number
    }
}

impl Drop for NumberedWrite<'_> {
    fn drop(&mut self) {
        self.count();
    }
}

/// The counter of a location, by a multiplicative hash.
fn counter(location: u32) -> usize {
    (location.wrapping_mul(0x9E37_79B1) >> 20) as usize % COUNTERS
}

/// A group of a type in a bucket, under a layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RecentGroup {
    bucket: BucketId,
    location: u32,
    layout_number: u64,
    document_type: String,
    group: String,
}

/// Chunks of a group as they were found.
struct RecentRows {
    state: RowsState,
    /// They are those of all writes of the location up to this number, and of no later one.
    number: u64,
    /// Masks of the chunks in segments.
    segments: Vec<RecentMasks>,
    tail: Vec<RecentChunk>,
}

/// A chunk of the tail without its hold on memory.
struct RecentChunk {
    chunk: Weak<TailChunk>,
    info: ChunkInfo,
    newest: Mask,
    live: Mask,
    current: Mask,
}

/// Groups that were viewed lately, up to a number of bytes.
pub(crate) struct RecentRowCache(quick_cache::sync::Cache<RecentGroup, Arc<RecentRows>, RecentRowWeigher>);

/// Overhead of an entry of the cache, in bytes, about.
const ENTRY_BYTES: u64 = 256;
/// Bytes of a chunk of the tail in an entry, with the place of one that is gone, which a weak reference
/// holds; what is in the chunk belongs to another cache.
const TAIL_CHUNK_BYTES: usize = size_of::<RecentChunk>() + size_of::<TailChunk>();
/// Number of entries for which the tables of the cache are made at first; they grow when they must.
const ENTRIES_FIRST: usize = 256;

#[derive(Clone)]
struct RecentRowWeigher;

impl Weighter<RecentGroup, Arc<RecentRows>> for RecentRowWeigher {
    fn weight(&self, name: &RecentGroup, rows: &Arc<RecentRows>) -> u64 {
        let of_mask = |mask: &Mask| mask.as_ref().map_or(0, |words| words.len() * 8);
        let segments = rows
            .segments
            .iter()
            .map(|masks| size_of::<RecentMasks>() + of_mask(&masks.newest) + of_mask(&masks.live));
        let tail = rows.tail.iter().map(|RecentChunk { newest, live, current, .. }| {
            TAIL_CHUNK_BYTES + [newest, live, current].into_iter().map(of_mask).sum::<usize>()
        });
        let names = name.document_type.len() + name.group.len();
        let bytes = segments.chain(tail).sum::<usize>() + names + rows.state.heap_bytes();
        bytes as u64 + ENTRY_BYTES
    }
}

impl RecentRowCache {
    pub fn new(bytes: u64) -> Self {
        RecentRowCache(quick_cache::sync::Cache::with_weighter(ENTRIES_FIRST, bytes, RecentRowWeigher))
    }
}

impl RecentRows {
    fn of(state: RowsState, number: u64, rows: &GroupRows) -> Self {
        let segments = rows.in_segments.iter().filter_map(|part| {
            let ChunkSource::Segment { segment, chunk, .. } = &part.source else { return None };
            let (newest, live) = (part.newest.clone(), part.live.clone());
            Some(RecentMasks { segment: segment.number(), chunk: *chunk, newest, live })
        });
        let tail = rows.tail.iter().map(|part| RecentChunk {
            chunk: Arc::downgrade(&part.chunk),
            info: part.info,
            newest: part.newest.clone(),
            live: part.live.clone(),
            current: part.current.clone(),
        });
        RecentRows { state, number, segments: segments.collect(), tail: tail.collect() }
    }

    /// The chunks of the tail with rows of a time or later, if all are in memory still. Those of sealed
    /// generations need not be.
    fn tail_parts(&self, since: u64) -> Option<Vec<TailPart>> {
        let part = |kept: &RecentChunk| {
            let chunk = kept.chunk.upgrade()?;
            let (newest, live) = (kept.newest.clone(), kept.live.clone());
            Some(TailPart { chunk, info: kept.info, newest, live, current: kept.current.clone() })
        };
        self.tail.iter().filter(|kept| kept.info.newest >= since).map(part).collect()
    }
}

impl RecentRows {
    /// The rows, in the state in which they were found. `segments`: where the chunks in segments are.
    fn with_masks(&self, segments: Vec<SegmentChunks>, tail: Vec<TailPart>) -> GroupRows {
        let mut masks = self.segments.iter();
        let mut in_segments = Vec::with_capacity(self.segments.len());
        for source in &segments {
            for (chunk, info) in &source.chunks {
                let masks = masks.next().expect("the chunks of a group are the same in one state");
                let (newest, live) = (masks.newest.clone(), masks.live.clone());
                let segment = Arc::clone(&source.segment);
                let source = ChunkSource::Segment { segment, section: source.section, chunk: *chunk };
                in_segments.push(ChunkPart { source, info: *info, newest, live });
            }
        }
        GroupRows { segments, in_segments, tail }
    }
}

impl StoreSnapshot<'_> {
    /// Returns the chunks of a group in a bucket, where it was viewed before as they were then, with what was
    /// written since. `prefix`: a prefix of the documents' sort keys.
    ///
    /// # Errors
    /// The group cannot be read.
    pub fn recent_group(
        &self,
        group: &GroupOfBucket<'_>,
        bucket: &StoredBucket,
        prefix: &[u8],
    ) -> Result<Vec<ChunkPart>, Error> {
        let is_kept = self.order == RowOrder::Age && self.shared.options.paths.is_fast();
        let name = is_kept.then(|| RecentGroup {
            bucket: bucket.id,
            location: group.location,
            layout_number: self.layout_number,
            document_type: group.document_type.to_owned(),
            group: group.group.to_owned(),
        });
        if let Some(name) = &name
            && let Some(rows) = self.renewed_group(group, bucket, name)?
        {
            self.note_tail_rows(rows.tail.iter().map(|part| part.info.documents as usize).sum());
            return Ok(rows.into_parts());
        }
        let numbers = &self.shared.write_numbers;
        let number = numbers.of(group.location, self.written);
        let found = self.find_group(group.document_type, bucket, group.location, group.group, prefix)?;
        let has_tail = !found.tail.is_empty();
        let parts = self.resolve(group, found)?;
        if let Some(name) = name
            && let Some(number) = number
            && has_tail
        {
            numbers.watch(group.location);
            let rows = GroupRows::new(parts);
            let state = RowsState::of(group, &self.state);
            self.shared.caches.recent.0.insert(name, Arc::new(RecentRows::of(state, number, &rows)));
            return Ok(rows.into_parts());
        }
        Ok(parts)
    }

    /// The rows of a group in a bucket as they were kept, brought up to date; `None`: they are to be found
    /// again.
    fn renewed_group(
        &self,
        group: &GroupOfBucket<'_>,
        bucket: &StoredBucket,
        name: &RecentGroup,
    ) -> Result<Option<GroupRows>, Error> {
        let cache = &self.shared.caches.recent.0;
        let Some(kept) = cache.get(name) else { return Ok(None) };
        // The snapshot has all writes up to this number.
        let complete = self.written & !1;
        if kept.number > complete {
            return Ok(None);
        }
        let numbers = &self.shared.write_numbers;
        let latest = numbers.of(group.location, self.written);
        let written = match latest.is_some_and(|latest| latest <= kept.number) {
            true => Some(Vec::new()),
            false => numbers.written_after(group.location, kept.number),
        };
        let is_same = kept.state.is(&self.state);
        let since = if is_same { 0 } else { kept.state.staying_since(&self.state) };
        let (Some(written), Some(tail)) = (written, kept.tail_parts(since)) else { return Ok(None) };
        let segments = self.find_segments(group.document_type, bucket, group.location, group.group)?;
        let rows = match is_same {
            true => Some(kept.with_masks(segments, tail)),
            false => self.carried_over(group, &kept.state, &kept.segments, segments, tail)?,
        };
        let Some(mut rows) = rows else { return Ok(None) };
        let state = RowsState::of(group, &self.state);
        if written.is_empty() {
            if !is_same {
                cache.insert(name.clone(), Arc::new(RecentRows::of(state, kept.number, &rows)));
            }
            return Ok(Some(rows));
        }
        // Writes that ended after the snapshot was taken may be in it or not: their rows are not kept.
        let (mut ended, mut in_flight) = (Vec::new(), Vec::new());
        for (number, key) in &written {
            let row = RowKey::parse(key)?;
            if row.location == group.location
                && row.group == group.group
                && row.document_type() == group.document_type
                && bucket.has(row.reversed_location())
            {
                if *number < complete { ended.push(&**key) } else { in_flight.push(&**key) }
            }
        }
        if !self.renew(group, &mut rows, &ended, &in_flight)? {
            return Ok(None);
        }
        cache.insert(name.clone(), Arc::new(RecentRows::of(state, complete, &rows)));
        Ok(self.renew(group, &mut rows, &in_flight, &[])?.then_some(rows))
    }

    /// The group's chunks in segments.
    pub fn find_segments(
        &self,
        document_type: &str,
        bucket: &StoredBucket,
        location: u32,
        key: &str,
    ) -> Result<Vec<SegmentChunks>, Error> {
        let mut found = Vec::new();
        for segment in bucket.open_segments()? {
            let Some(section) = segment.section(document_type) else { continue };
            let Some(entry) = segment.group(section, location, key)? else { continue };
            let chunks = entry.first_chunk..entry.first_chunk + entry.chunks;
            let infos = segment.chunks(section, chunks.clone())?;
            let mut chunks: Vec<(u32, ChunkInfo)> = chunks.zip(infos).collect();
            keep_reaching(&mut chunks, bucket);
            found.push(SegmentChunks { segment: Arc::clone(segment), section, chunks });
        }
        Ok(found)
    }

    /// Requests sealing if a view of a request read many rows of the tail.
    pub fn note_tail_rows(&self, rows: usize) {
        if !self.is_ahead && rows * 2 >= millrace_column::CHUNK_DOCS {
            self.shared.counters.seal_wanted.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::RowBytes;

    fn rows(locations: &[u32]) -> Vec<NewRow> {
        locations
            .iter()
            .map(|location| (RowBytes::from(&location.to_be_bytes()[..]), RowBytes::default()))
            .collect()
    }

    #[test]
    fn only_a_snapshot_after_the_latest_write_has_its_number() {
        let numbers = WriteNumbers::default();
        let empty = numbers.latest();
        assert_eq!(numbers.of(7, empty), Some(0));
        let write = numbers.begin(&rows(&[7, 7, 8]));
        let during = numbers.latest();
        assert_eq!(numbers.of(7, during), None, "a write is in flight");
        assert_eq!(numbers.of(9, during), Some(0), "nothing was written there");
        drop(write);
        assert_eq!(numbers.of(7, during), None, "the snapshot may lack the write");
        let after = numbers.latest();
        assert_eq!((numbers.of(7, after), numbers.of(8, after)), (Some(2), Some(2)));
        drop(numbers.begin(&rows(&[9])));
        assert_eq!((numbers.of(7, after), numbers.of(9, after)), (Some(2), None));
    }

    #[test]
    #[should_panic(expected = "no other write is in flight")]
    fn a_second_write_at_the_same_time_is_refused() {
        let numbers = WriteNumbers::default();
        let _first = numbers.begin(&rows(&[7]));
        drop(numbers.begin(&rows(&[8])));
    }
}
