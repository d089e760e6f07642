use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;

use crate::block::RunBytes;

/// Cache of recently read blocks and filter pages, up to a number of bytes. Copies share it.
pub struct BlockCache {
    entries: quick_cache::sync::Cache<BlockKey, Arc<RunBytes>, BlockWeigher>,
    next_run: AtomicU64,
}

/// Identifies a part of an open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub run: u64,
    pub offset: u64,
}

#[derive(Clone)]
struct BlockWeigher;

/// Approximate overhead of an entry in addition to its bytes.
const ENTRY_BYTES: u64 = 96;

/// Usual size of a block in memory, in bytes.
const BLOCK_BYTES_USUAL: u64 = 16 << 10;

impl Weighter<BlockKey, Arc<RunBytes>> for BlockWeigher {
    fn weight(&self, _: &BlockKey, part: &Arc<RunBytes>) -> u64 {
        part.memory_bytes() as u64 + ENTRY_BYTES
    }
}

impl BlockCache {
    /// Creates a cache of at most this many bytes.
    pub fn new(bytes: u64) -> Self {
        let blocks = (bytes / BLOCK_BYTES_USUAL).clamp(64, 1 << 16) as usize;
        BlockCache {
            entries: quick_cache::sync::Cache::with_weighter(blocks, bytes, BlockWeigher),
            next_run: AtomicU64::new(0),
        }
    }

    /// Removes all entries, for measurements of cold reads.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// A number that no other open run has.
    pub(crate) fn number(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<RunBytes>> {
        self.entries.get(&key)
    }

    pub(crate) fn insert(&self, key: BlockKey, part: Arc<RunBytes>) {
        self.entries.insert(key, part);
    }
}
