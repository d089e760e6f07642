//! The rows of the tail of groups that were viewed lately, kept with the masks of the group's segments as
//! long as nothing is written to the group's location.
//!
//! Each write sets the number of the latest write for its location, before it begins and after it has ended.
//! A snapshot has all writes of a location if the number is even (no write is under way) and not above the
//! one that was read before the snapshot. Two such snapshots with the same number have the same rows.
//!
//! Only weak references are kept: neither the memory of chunks nor a sealed generation lives longer for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use millrace_bucket::BucketId;
use millrace_segment::ChunkInfo;
use quick_cache::Weighter;

use crate::Error;
use crate::read::masks::{GroupOfBucket, Mask, SegmentChunks};
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot, keep_reaching};
use crate::state::{StoreState, StoredBucket};
use crate::tail::KeyValue;
use crate::tail::chunk::TailChunk;

/// Number of counters; locations that share one forget each other's rows.
const COUNTERS: usize = 4096;

/// Numbers of the latest writes of all locations. One thread writes.
pub(crate) struct WriteNumbers {
    latest: AtomicU64,
    of_locations: Vec<AtomicU64>,
}

/// A write under way to some locations.
pub(crate) struct NumberedWrite<'a> {
    numbers: &'a WriteNumbers,
    counters: Vec<usize>,
}

impl Default for WriteNumbers {
    fn default() -> Self {
        let of_locations = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
        WriteNumbers { latest: AtomicU64::new(0), of_locations }
    }
}

impl WriteNumbers {
    /// Number of the latest write, to be read before a snapshot is taken.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    /// Number of the latest write to a location, if a snapshot has it and no other is under way. `before`:
    /// [`WriteNumbers::latest`] before the snapshot.
    fn of(&self, location: u32, before: u64) -> Option<u64> {
        let number = self.of_locations[counter(location)].load(Ordering::SeqCst);
        (number.is_multiple_of(2) && number <= before).then_some(number)
    }

    /// Begins a write of these rows, which ends when the result is dropped. One at a time.
    pub fn begin(&self, rows: &[KeyValue]) -> NumberedWrite<'_> {
        let locations = rows.iter().filter_map(|(key, _)| key.first_chunk::<4>());
        let mut counters: Vec<usize> =
            locations.map(|location| counter(u32::from_be_bytes(*location))).collect();
        counters.sort_unstable();
        counters.dedup();
        let write = NumberedWrite { numbers: self, counters };
        assert!(write.count() % 2 == 1, "rows are appended by one thread: no other write is under way");
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
    /// State of the store, which the weak reference names beyond its life.
    state: Weak<StoreState>,
    number: u64,
    /// Masks of the chunks in segments.
    segments: Vec<(Mask, Mask)>,
    tail: Vec<RecentChunk>,
}

/// A chunk of the tail without its hold on memory.
struct RecentChunk {
    chunk: Weak<TailChunk>,
    info: ChunkInfo,
    newest: Mask,
    live: Mask,
}

/// Groups that were viewed lately, up to a number of bytes.
pub(crate) struct RecentRowCache(quick_cache::sync::Cache<RecentGroup, Arc<RecentRows>, RecentRowWeigher>);

/// Overhead of an entry of the cache, in bytes, about.
const ENTRY_BYTES: u64 = 256;
/// Overhead of the masks of a segment in an entry, in bytes, about.
const SEGMENT_BYTES: usize = 48;
/// Overhead of a chunk of the tail in an entry, in bytes, about; the chunk itself belongs to another cache.
const TAIL_CHUNK_BYTES: usize = 96;
/// Number of entries for which the tables of the cache are made at first; they grow when they must.
const ENTRIES_FIRST: usize = 256;

#[derive(Clone)]
struct RecentRowWeigher;

impl Weighter<RecentGroup, Arc<RecentRows>> for RecentRowWeigher {
    fn weight(&self, name: &RecentGroup, rows: &Arc<RecentRows>) -> u64 {
        let of_mask = |mask: &Mask| mask.as_ref().map_or(0, |words| words.len() * 8);
        let segments =
            rows.segments.iter().map(|(newest, live)| SEGMENT_BYTES + of_mask(newest) + of_mask(live));
        let tail =
            rows.tail.iter().map(|chunk| TAIL_CHUNK_BYTES + of_mask(&chunk.newest) + of_mask(&chunk.live));
        let bytes = segments.chain(tail).sum::<usize>() + name.document_type.len() + name.group.len();
        bytes as u64 + ENTRY_BYTES
    }
}

impl RecentRowCache {
    pub fn new(bytes: u64) -> Self {
        RecentRowCache(quick_cache::sync::Cache::with_weighter(ENTRIES_FIRST, bytes, RecentRowWeigher))
    }
}

impl RecentRows {
    fn of(state: &Arc<StoreState>, number: u64, parts: &[ChunkPart]) -> Self {
        let mut rows =
            RecentRows { state: Arc::downgrade(state), number, segments: Vec::new(), tail: Vec::new() };
        for ChunkPart { source, info, newest, live } in parts {
            let (newest, live) = (newest.clone(), live.clone());
            match source {
                ChunkSource::Segment { .. } => rows.segments.push((newest, live)),
                ChunkSource::Tail(chunk) => {
                    rows.tail.push(RecentChunk { chunk: Arc::downgrade(chunk), info: *info, newest, live });
                }
            }
        }
        rows
    }

    /// The chunks of the tail, if all are in memory still.
    fn tail_parts(&self) -> Option<Vec<ChunkPart>> {
        let part = |kept: &RecentChunk| {
            let source = ChunkSource::Tail(kept.chunk.upgrade()?);
            let (newest, live) = (kept.newest.clone(), kept.live.clone());
            Some(ChunkPart { source, info: kept.info, newest, live })
        };
        self.tail.iter().map(part).collect()
    }
}

impl StoreSnapshot<'_> {
    /// Returns the chunks of a group in a bucket, those of the tail as they were found last where nothing was
    /// written to it since. `prefix`: a prefix of the documents' sort keys.
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
        let number = if is_kept { self.shared.write_numbers.of(group.location, self.written) } else { None };
        let Some(number) = number else {
            let found = self.find_group(group.document_type, bucket, group.location, group.group, prefix)?;
            return self.resolve(group, found);
        };
        let name = RecentGroup {
            bucket: bucket.id,
            location: group.location,
            layout_number: self.layout_number,
            document_type: group.document_type.to_owned(),
            group: group.group.to_owned(),
        };
        let cache = &self.shared.caches.recent.0;
        if let Some(kept) = cache.get(&name)
            && kept.number == number
            && std::ptr::eq(kept.state.as_ptr(), Arc::as_ptr(&self.state))
            && let Some(tail) = kept.tail_parts()
        {
            let segments = self.find_segments(group.document_type, bucket, group.location, group.group)?;
            let mut masks = kept.segments.iter();
            let mut parts = Vec::with_capacity(kept.segments.len() + tail.len());
            for source in segments {
                for (chunk, info) in source.chunks {
                    let (newest, live) =
                        masks.next().expect("the chunks of a group are the same in one state").clone();
                    let segment = Arc::clone(&source.segment);
                    let source = ChunkSource::Segment { segment, section: source.section, chunk };
                    parts.push(ChunkPart { source, info, newest, live });
                }
            }
            self.note_tail_rows(tail.iter().map(|part| part.info.documents as usize).sum());
            parts.extend(tail);
            return Ok(parts);
        }
        let found = self.find_group(group.document_type, bucket, group.location, group.group, prefix)?;
        let has_tail = !found.tail.is_empty();
        let parts = self.resolve(group, found)?;
        if has_tail {
            cache.insert(name, Arc::new(RecentRows::of(&self.state, number, &parts)));
        }
        Ok(parts)
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

    /// Requests sealing if a view read many rows of the tail.
    pub fn note_tail_rows(&self, rows: usize) {
        if rows * 2 >= millrace_column::CHUNK_DOCS {
            self.shared.counters.seal_wanted.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(locations: &[u32]) -> Vec<KeyValue> {
        locations.iter().map(|location| (location.to_be_bytes().to_vec(), Vec::new())).collect()
    }

    #[test]
    fn only_a_snapshot_after_the_latest_write_has_its_number() {
        let numbers = WriteNumbers::default();
        let empty = numbers.latest();
        assert_eq!(numbers.of(7, empty), Some(0));
        let write = numbers.begin(&rows(&[7, 7, 8]));
        let during = numbers.latest();
        assert_eq!(numbers.of(7, during), None, "a write is under way");
        assert_eq!(numbers.of(9, during), Some(0), "nothing was written there");
        drop(write);
        assert_eq!(numbers.of(7, during), None, "the snapshot may lack the write");
        let after = numbers.latest();
        assert_eq!((numbers.of(7, after), numbers.of(8, after)), (Some(2), Some(2)));
        drop(numbers.begin(&rows(&[9])));
        assert_eq!((numbers.of(7, after), numbers.of(9, after)), (Some(2), None));
    }

    #[test]
    #[should_panic(expected = "no other write is under way")]
    fn a_second_write_at_the_same_time_is_refused() {
        let numbers = WriteNumbers::default();
        let _first = numbers.begin(&rows(&[7]));
        drop(numbers.begin(&rows(&[8])));
    }
}
