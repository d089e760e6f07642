//! Rows of the tail as chunks in memory, of the same kind as those of segments.
//!
//! A chunk is named by the keys of its rows, which name versions and so never change their meaning. As long as no row is written in
//! between, the next view of the group finds the chunk and its columns ready.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use millrace_column::{CHUNK_DOCS, Column, ColumnKey};
use quick_cache::Weighter;
use xxhash_rust::xxh3::Xxh3;

use crate::Layout;
use crate::read::columns::build;
use crate::tail::Row;

/// A chunk is closed when its rows have so many bytes.
pub(crate) const CHUNK_BYTES: usize = 8 << 20;

/// Rows of one type and one group, each the newest version of its document in the tail, in the order of keys.
pub(crate) struct TailChunk {
    pub rows: Vec<Row>,
    /// Bytes of the rows, for caches.
    bytes: usize,
    document_type: String,
    layout: Arc<dyn Layout>,
    built: Mutex<HashMap<ColumnKey, Option<Column>>>,
}

impl TailChunk {
    pub fn new(document_type: &str, layout: Arc<dyn Layout>, rows: Vec<Row>, bytes: usize) -> Self {
        TailChunk { rows, bytes, document_type: document_type.to_owned(), layout, built: Mutex::default() }
    }

    /// A column, built when it is asked for first; `None` when no row has a value in it.
    pub fn column(&self, key: &ColumnKey) -> Option<Column> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = built.get(key) {
            return column.clone();
        }
        let column = build(&*self.layout, &self.document_type, key, &self.rows);
        built.insert(key.clone(), column.clone());
        column
    }
}

/// Where a chunk of rows must end: it is full.
pub(crate) fn is_full(rows: usize, bytes: usize) -> bool {
    rows >= CHUNK_DOCS || bytes >= CHUNK_BYTES
}

/// Chunks that views made lately, up to a number of bytes.
pub(crate) struct TailChunkCache(quick_cache::sync::Cache<u128, Arc<TailChunk>, ByBytes>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<u128, Arc<TailChunk>> for ByBytes {
    fn weight(&self, _: &u128, chunk: &Arc<TailChunk>) -> u64 {
        // The rows as values, and the columns that are built from them: about so many times what they take as rows.
        chunk.bytes as u64 * 4 + 256
    }
}

impl TailChunkCache {
    pub fn new(bytes: u64) -> Self {
        TailChunkCache(quick_cache::sync::Cache::with_weighter(256, bytes, ByBytes))
    }

    pub fn get(&self, name: u128) -> Option<Arc<TailChunk>> {
        self.0.get(&name)
    }

    pub fn insert(&self, name: u128, chunk: Arc<TailChunk>) {
        self.0.insert(name, chunk);
    }
}

/// The name of the chunk of these rows, under a layout.
pub(crate) fn name<'a>(layout_number: u64, keys: impl Iterator<Item = &'a [u8]>) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&layout_number.to_le_bytes());
    for key in keys {
        hasher.update(&(key.len() as u32).to_le_bytes());
        hasher.update(key);
    }
    hasher.digest128()
}
