use std::ops::{Deref, Range};

use crate::{Column, ColumnKey};

/// The documents of one type that a request may see, as they were at one instant.
///
/// They lie in chunks; every chunk holds documents of one group. Versions that a newer one has replaced, removed documents and those
/// outside the scope are still in their chunk, but not live.
pub trait View: Send + Sync {
    /// The chunks. They keep their numbers as long as the view lives.
    fn chunks(&self) -> &[Chunk];

    /// Column `key` of the chunks in `range`, one entry a chunk; `None` where the chunk was written before the column was asked
    /// for and the column cannot be derived, so that no document has a value.
    ///
    /// Ask for as many chunks at once as will be used: neighbours are read together. What was read stays in a bounded cache.
    ///
    /// # Errors
    /// The file cannot be read, or its checksum does not fit.
    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError>;

    /// The same of as many of the first chunks of `range` as come at once: at least one, if `range` has any. To work on them before the next
    /// are read is faster than reading all, where columns are large.
    ///
    /// # Errors
    /// As [`View::columns`].
    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        self.columns(key, range)
    }

    /// Says that column `key` of these chunks will be asked for soon, one after another, so that the disk can begin. Nothing waits for it, and
    /// an error shows when they are asked for.
    fn will_read(&self, _key: &ColumnKey, _range: Range<usize>) {}
}

/// What points to a view is one.
impl<P> View for P
where
    P: Deref<Target: View> + Send + Sync,
{
    fn chunks(&self) -> &[Chunk] {
        (**self).chunks()
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        (**self).columns(key, range)
    }

    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        (**self).first_columns(key, range)
    }

    fn will_read(&self, key: &ColumnKey, range: Range<usize>) {
        (**self).will_read(key, range);
    }
}

/// One chunk of a [`View`].
#[derive(Debug, Clone)]
pub struct Chunk {
    /// How many documents it has, live or not.
    pub documents: usize,
    /// One bit a document, lowest first, in words of 64: those that count. `None` when all do.
    pub live: Option<Vec<u64>>,
}

/// A column could not be read. The text says which file, where, and what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub String);
