use millrace_column::{Buffer, Column};
use quick_cache::Weighter;

/// Cache of recent reads from segments: decoded columns and directory pages, up to a number of bytes. Shared
/// by all segments.
pub struct Cache {
    entries: quick_cache::sync::Cache<Key, Entry, ByBytes>,
}

/// Statistics of a [`Cache`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Bytes currently held.
    pub bytes: u64,
    /// Reads answered from memory.
    pub hits: u64,
    /// Reads that went to the disk.
    pub misses: u64,
}

/// Identifies a part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub segment: u64,
    pub section: u16,
    pub part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Column { column: u16, chunk: u32 },
    ChunkPage(u32),
    GroupPage(u32),
    Fence,
}

#[derive(Clone)]
pub(crate) enum Entry {
    /// `None`: the chunk has no such column.
    Column(Option<Column>),
    Page(Buffer),
}

#[derive(Clone)]
struct ByBytes;

/// Approximate overhead of an entry in addition to its buffer, in bytes.
const ENTRY_BYTES: u64 = 128;

impl Weighter<Key, Entry> for ByBytes {
    fn weight(&self, _: &Key, entry: &Entry) -> u64 {
        let bytes = match entry {
            Entry::Column(Some(column)) => column.encoded().capacity(),
            Entry::Column(None) => 0,
            Entry::Page(page) => page.capacity(),
        };
        bytes as u64 + ENTRY_BYTES
    }
}

impl Cache {
    /// Creates a cache of at most this many bytes.
    pub fn new(bytes: u64) -> Self {
        // The number of entries is only an estimate of the size of its tables, which grow when they must.
        let entries = (bytes / 32_768).clamp(64, 1 << 16) as usize;
        Cache { entries: quick_cache::sync::Cache::with_weighter(entries, bytes, ByBytes) }
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

    pub(crate) fn get(&self, key: &Key) -> Option<Entry> {
        self.entries.get(key)
    }

    pub(crate) fn insert(&self, key: Key, entry: Entry) {
        self.entries.insert(key, entry);
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({:?})", self.statistics())
    }
}
