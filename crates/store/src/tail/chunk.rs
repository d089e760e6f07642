//! Rows of the tail as chunks in memory, of the same kind as those of segments.
//!
//! A chunk is named by the keys of its rows, which name versions and so never change their meaning. As long
//! as no row is written in between, the next view of the group finds the chunk and its columns ready.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_column::{CHUNK_DOCS, Column, ColumnKey};
use parking_lot::Mutex;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::read::columns::build;
use crate::read::keyed_hash::KeyedHash;
use crate::tail::TailVersion;
use crate::{Error, StoreLayout};

/// Size in bytes of its rows at which a chunk is closed.
pub(crate) const CHUNK_BYTES: usize = 8 << 20;

/// Rows of one type and one group, each the newest version of its document in the tail, in the order of keys.
pub(crate) struct TailChunk {
    /// Number that no other chunk of the store has.
    pub number: u64,
    pub rows: Vec<TailVersion>,
    /// Bytes of the rows, for caches.
    bytes: usize,
    /// Time of the newest row.
    newest: u64,
    document_type: String,
    layout: Arc<dyn StoreLayout>,
    layout_number: u64,
    built: Mutex<HashMap<ColumnKey, Option<Column>>>,
}

/// A layout, and how often it was set.
pub(crate) type NumberedLayout<'a> = (&'a Arc<dyn StoreLayout>, u64);

impl TailChunk {
    pub fn new(number: u64, document_type: &str, layout: NumberedLayout<'_>, rows: Vec<TailVersion>) -> Self {
        TailChunk {
            number,
            bytes: rows.iter().map(TailVersion::bytes).sum(),
            newest: rows.iter().map(|row| row.timestamp.0).max().unwrap_or(0),
            rows,
            document_type: document_type.to_owned(),
            layout: Arc::clone(layout.0),
            layout_number: layout.1,
            built: Mutex::default(),
        }
    }

    /// Returns true if its rows are those of these keys, and it was built under this layout.
    fn is_of<'a>(&self, layout_number: u64, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
        self.layout_number == layout_number
            && self.rows.len() == keys.len()
            && self.rows.iter().zip(keys).all(|(row, key)| row.key() == key)
    }

    /// A column, built when it is asked for first; `None` when no row has a value in it.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn column(&self, key: &ColumnKey) -> Result<Option<Column>, Error> {
        let mut built = self.built.lock();
        if let Some(column) = built.get(key) {
            return Ok(column.clone());
        }
        let column = build(&*self.layout, &self.document_type, key, &self.rows)?;
        built.insert(key.clone(), column.clone());
        Ok(column)
    }

    /// Builds a column for those that will ask for it. They never wait for this: a thread of the background,
    /// which rests in between, builds it, and what they have built meanwhile stays.
    ///
    /// # Errors
    /// A row cannot be read.
    pub fn prepare(&self, key: &ColumnKey) -> Result<(), Error> {
        if self.built.lock().contains_key(key) {
            return Ok(());
        }
        let column = build(&*self.layout, &self.document_type, key, &self.rows)?;
        self.built.lock().entry(key.clone()).or_insert(column);
        Ok(())
    }
}

/// Bytes in memory that the chunks of `rows` bytes of rows take.
pub(crate) fn memory_of(rows: u64) -> u64 {
    rows * MEMORY_FACTOR
}

/// Returns true if a chunk of rows is full and must end.
pub(crate) fn is_full(rows: usize, bytes: usize) -> bool {
    rows >= CHUNK_DOCS || bytes >= CHUNK_BYTES
}

/// Chunks that views made lately, up to a number of bytes. Not divided into shards: a chunk can take a good
/// part of it, and a shard keeps none that is larger, nor two that are not together smaller.
pub(crate) struct TailChunkCache {
    chunks: quick_cache::sync::Cache<u128, Arc<TailChunk>, TailChunkWeigher>,
    hash: KeyedHash,
    /// Number of chunks that were numbered, whether they are kept or not.
    numbered: AtomicU64,
}

/// Bytes in memory for each byte of the rows, about: the columns built from them. The rows themselves are
/// those of their generation; once that is gone, the chunk is forgotten.
const MEMORY_FACTOR: u64 = 2;
/// Overhead of an entry of the cache, in bytes, about.
const ENTRY_BYTES: u64 = 256;
/// Number of entries for which the tables of the cache are made at first; they grow when they must.
const ENTRIES_FIRST: usize = 256;

#[derive(Clone)]
struct TailChunkWeigher;

impl Weighter<u128, Arc<TailChunk>> for TailChunkWeigher {
    fn weight(&self, _: &u128, chunk: &Arc<TailChunk>) -> u64 {
        memory_of(chunk.bytes as u64) + ENTRY_BYTES
    }
}

impl TailChunkCache {
    pub fn new(bytes: u64) -> Self {
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(ENTRIES_FIRST)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given, which is all that the cache asks for");
        let chunks = quick_cache::sync::Cache::with_options(
            options,
            TailChunkWeigher,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        TailChunkCache { chunks, hash: KeyedHash::new(), numbered: AtomicU64::new(0) }
    }

    /// A number for a new chunk.
    pub fn next_number(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed)
    }

    /// The name of the chunk of these rows, under a layout.
    pub fn name<'a>(&self, layout_number: u64, keys: impl Iterator<Item = &'a [u8]>) -> u128 {
        let mut hasher = self.hash.hasher();
        hasher.update(&layout_number.to_le_bytes());
        for key in keys {
            hasher.update(&(key.len() as u32).to_le_bytes());
            hasher.update(key);
        }
        hasher.digest128()
    }

    /// The chunk of this name, where it has the rows of these keys.
    pub fn get<'a>(
        &self,
        name: u128,
        layout_number: u64,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Option<Arc<TailChunk>> {
        self.chunks.get(&name).filter(|chunk| chunk.is_of(layout_number, keys))
    }

    /// Bytes in memory that its chunks may take.
    pub fn capacity(&self) -> u64 {
        self.chunks.capacity()
    }

    pub fn insert(&self, name: u128, chunk: Arc<TailChunk>) {
        self.chunks.insert(name, chunk);
    }

    /// Forgets the chunks whose rows are all older than the oldest in the tail: no view asks for them.
    pub fn forget_before(&self, oldest: u64) {
        // They are freed after the lock of the cache.
        let gone = Mutex::new(Vec::new());
        self.chunks.retain(|_, chunk| {
            let stays = chunk.newest >= oldest;
            if !stays {
                gone.lock().push(Arc::clone(chunk));
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_bucket::DocumentSortKey;
    use millrace_document::{DocumentId, Timestamp};

    use super::*;
    use crate::read::columns::EmptyLayout;
    use crate::tail::{RowBytes, SharedRow, row_key};

    /// The row of a document, of about 180 bytes.
    fn row(id: &str, timestamp: u64) -> TailVersion {
        let id = DocumentId::parse(id).expect("the test's id is one");
        let timestamp = Timestamp(timestamp);
        let key = row_key(&DocumentSortKey::new(&id), timestamp);
        TailVersion::new(SharedRow::new(key, RowBytes::from(&[0; 120][..])), timestamp)
    }

    #[test]
    fn chunks_that_fit_together_are_kept_together() {
        let layout: Arc<dyn StoreLayout> = Arc::new(EmptyLayout);
        let rows: Vec<TailVersion> =
            (0..4).map(|number| row(&format!("id:n:mail:g=ann:{number}"), 7)).collect();
        let chunk = |row: &TailVersion, number: u64| {
            Arc::new(TailChunk::new(number, "mail", (&layout, 1), vec![row.clone()]))
        };
        let all = rows.iter().map(|row| TailChunkWeigher.weight(&0, &chunk(row, 0))).sum::<u64>();
        let cache = TailChunkCache::new(all + 100);
        for row in &rows {
            cache.insert(cache.name(1, [row.key()].into_iter()), chunk(row, cache.next_number()));
        }
        for (number, row) in rows.iter().enumerate() {
            let name = cache.name(1, [row.key()].into_iter());
            let found = cache.get(name, 1, [row.key()].into_iter()).map(|chunk| chunk.number);
            assert_eq!(found, Some(number as u64), "each has a number of its own");
        }
    }

    #[test]
    fn chunks_of_rows_that_were_sealed_are_forgotten() {
        let layout: Arc<dyn StoreLayout> = Arc::new(EmptyLayout);
        let cache = TailChunkCache::new(1 << 20);
        let [old, new] = [7, 8].map(|timestamp| row("id:n:mail:g=ann:1", timestamp));
        let chunks = [vec![old.clone()], vec![old, new.clone()], vec![new]];
        let names = chunks.each_ref().map(|rows| cache.name(1, rows.iter().map(TailVersion::key)));
        for (name, rows) in names.iter().zip(chunks.clone()) {
            cache.insert(*name, Arc::new(TailChunk::new(0, "mail", (&layout, 1), rows)));
        }
        let is_kept = || {
            let kept = |(name, rows): (&u128, &Vec<TailVersion>)| {
                cache.get(*name, 1, rows.iter().map(TailVersion::key)).is_some()
            };
            names.iter().zip(&chunks).map(kept).collect::<Vec<_>>()
        };
        cache.forget_before(7);
        assert_eq!(is_kept(), [true, true, true]);
        cache.forget_before(8);
        assert_eq!(is_kept(), [false, true, true]);
    }

    #[test]
    fn a_chunk_whose_name_collides_is_not_shown() {
        let cache = TailChunkCache::new(1 << 20);
        let layout: Arc<dyn StoreLayout> = Arc::new(EmptyLayout);
        let of_ann = row("id:n:mail:g=ann:1", 7);
        let key = of_ann.key().to_vec();
        let name = cache.name(1, [key.as_slice()].into_iter());
        cache.insert(name, Arc::new(TailChunk::new(0, "mail", (&layout, 1), vec![of_ann])));
        let get =
            |layout_number, keys: &[&[u8]]| cache.get(name, layout_number, keys.iter().copied()).is_some();
        assert!(get(1, &[&key]));
        let others = [
            ("id:n:mail:g=bob:1", 7),
            ("id:n:mail:g=ann:1", 8),
            ("id:n:mail:g=ann:2", 7),
            ("id:n:mail:g=ann:id:n:mail:g=ann:1", 7),
        ];
        for (id, timestamp) in others {
            assert!(!get(1, &[row(id, timestamp).key()]), "{id} of {timestamp}");
        }
        assert!(!get(2, &[&key]) && !get(1, &[&key, &key]) && !get(1, &[]));
        let hashes =
            [&cache, &TailChunkCache::new(1)].map(|cache| cache.name(1, [key.as_slice()].into_iter()));
        assert_ne!(hashes[0], hashes[1], "each cache has a secret of its own");
    }
}
