use std::collections::BTreeMap;

use millrace_column::{AlignedBuffer, Column};
use parking_lot::Mutex;
use quick_cache::Weighter;

use crate::Error;

/// Maximum number of segments whose damage is noted.
const DAMAGED_MAX: usize = 64;

/// Cache of recent reads from segments: decoded columns, and pages of directories and filters, up to a number
/// of bytes. Shared by all segments. It also notes the damage that their readers find.
pub struct SegmentCache {
    entries: quick_cache::sync::Cache<CacheKey, CacheEntry, CacheWeigher>,
    damage: Mutex<BTreeMap<u64, String>>,
}

/// Statistics of a [`SegmentCache`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Bytes currently held.
    pub bytes: u64,
    /// Reads answered from memory.
    pub hits: u64,
    /// Reads that went to the disk.
    pub misses: u64,
}

/// Identifies a part of a segment. Numbers of sections and of columns have the width that they have in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    pub segment: u64,
    pub section: u32,
    pub part: CachedPart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CachedPart {
    Column { column: u32, chunk: u32 },
    ChunkPage(u32),
    GroupPage(u32),
    FilterPage(u32),
    Fence,
}

#[derive(Clone)]
pub(crate) enum CacheEntry {
    /// `None`: the chunk has no such column.
    Column(Option<Column>),
    Page(AlignedBuffer),
}

#[derive(Clone)]
struct CacheWeigher;

/// Approximate overhead of an entry in addition to its buffer, in bytes.
const ENTRY_BYTES: u64 = 128;

/// Usual size of an entry, in bytes.
const ENTRY_BYTES_USUAL: u64 = 32 << 10;

impl Weighter<CacheKey, CacheEntry> for CacheWeigher {
    fn weight(&self, _: &CacheKey, entry: &CacheEntry) -> u64 {
        let bytes = match entry {
            CacheEntry::Column(Some(column)) => column.memory_bytes(),
            CacheEntry::Column(None) => 0,
            CacheEntry::Page(page) => page.capacity(),
        };
        bytes as u64 + ENTRY_BYTES
    }
}

impl SegmentCache {
    /// Creates a cache of at most this many bytes.
    pub fn new(bytes: u64) -> Self {
        // Only an estimate of the size of its tables, which grow when they must.
        let entries = (bytes / ENTRY_BYTES_USUAL).clamp(64, 1 << 16) as usize;
        let entries = quick_cache::sync::Cache::with_weighter(entries, bytes, CacheWeigher);
        SegmentCache { entries, damage: Mutex::default() }
    }

    /// Statistics since its creation.
    pub fn statistics(&self) -> CacheStatistics {
        CacheStatistics {
            bytes: self.entries.weight(),
            hits: self.entries.hits(),
            misses: self.entries.misses(),
        }
    }

    /// Removes all entries, for measurements of cold reads.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// The first damage that was found in each segment, by its number; of 64 segments at most. Segments that
    /// are not used any more count as well.
    pub fn damage(&self) -> BTreeMap<u64, String> {
        self.damage.lock().clone()
    }

    /// Notes an error of a segment, if it is damage.
    pub(crate) fn note(&self, segment: u64, error: &Error) {
        if !matches!(error, Error::Corrupt { .. }) {
            return;
        }
        let mut noted = self.damage.lock();
        if noted.len() < DAMAGED_MAX {
            noted.entry(segment).or_insert_with(|| error.to_string());
        }
    }

    pub(crate) fn get(&self, key: &CacheKey) -> Option<CacheEntry> {
        self.entries.get(key)
    }

    pub(crate) fn insert(&self, key: CacheKey, entry: CacheEntry) {
        self.entries.insert(key, entry);
    }
}

impl std::fmt::Debug for SegmentCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({:?})", self.statistics())
    }
}
