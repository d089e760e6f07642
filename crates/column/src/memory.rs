use std::collections::HashMap;
use std::ops::Range;

use crate::{Column, ColumnKey, ReadError, View, ViewChunk};

/// A [`View`] of columns in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryView {
    chunks: Vec<ViewChunk>,
    columns: HashMap<ColumnKey, Vec<Option<Column>>>,
}

impl MemoryView {
    /// Creates a view without chunks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk with its columns. Columns of other chunks that this one lacks are absent from it.
    pub fn push(&mut self, chunk: ViewChunk, columns: impl IntoIterator<Item = (ColumnKey, Column)>) {
        let number = self.chunks.len();
        self.chunks.push(chunk);
        for (key, column) in columns {
            let of_chunks = self.columns.entry(key).or_default();
            of_chunks.resize(number, None);
            of_chunks.push(Some(column));
        }
    }
}

impl View for MemoryView {
    fn chunks(&self) -> &[ViewChunk] {
        &self.chunks
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        let columns = self.columns.get(key);
        Ok(range.map(|chunk| columns.and_then(|columns| columns.get(chunk)).cloned().flatten()).collect())
    }
}
