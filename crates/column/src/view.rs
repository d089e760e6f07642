use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::{Column, ColumnKey};

/// Choice between a fast and a plain path that must give the same result.
///
/// Tests compare the two; no other code has a reason to use the plain one. It is passed down with the data,
/// never a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecutionPaths {
    /// The fast one where it can be taken.
    #[default]
    Fast,
    /// The plain one always.
    Plain,
}

impl ExecutionPaths {
    /// Returns true if fast paths are allowed.
    pub fn is_fast(self) -> bool {
        self == ExecutionPaths::Fast
    }
}

/// The documents of one type that a request may see, as of one instant.
///
/// They are in chunks; of a store, a chunk holds documents of one group. Superseded versions, removed
/// documents and documents outside the scope are still in their chunk, but not live.
pub trait View: Send + Sync {
    /// The chunks. Their numbers are stable for the lifetime of the view.
    fn chunks(&self) -> &[ViewChunk];

    /// Reads column `key` of the chunks in `range`, one entry per chunk. An entry is `None` if the chunk was
    /// written before the column was first used and the column cannot be derived; no document then has a
    /// value.
    ///
    /// Request all chunks that will be used at once: adjacent ones are read together. A bounded cache keeps
    /// the result.
    ///
    /// # Errors
    /// The file cannot be read, or its checksum does not match.
    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError>;

    /// Reads as many of the first chunks of `range` as one read returns: at least one, if `range` is not
    /// empty. For large columns, processing them before reading more is faster than reading all.
    ///
    /// # Errors
    /// See [`View::columns`].
    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        self.columns(key, range)
    }

    /// Announces that column `key` of these chunks will be read soon, one after another, so that the disk can
    /// start. It does not block; errors are reported by the reads.
    fn will_read(&self, _key: &ColumnKey, _range: Range<usize>) {}

    /// The paths that its readers take.
    fn paths(&self) -> ExecutionPaths {
        ExecutionPaths::Fast
    }

    /// Identity of a chunk, for caches of what is made from its documents; `None` if it has none.
    fn identity(&self, _chunk: usize) -> Option<ChunkIdentity> {
        None
    }
}

/// A pointer to a view is a view.
impl<P> View for P
where
    P: Deref<Target: View> + Send + Sync,
{
    fn chunks(&self) -> &[ViewChunk] {
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

    fn paths(&self) -> ExecutionPaths {
        (**self).paths()
    }

    fn identity(&self, chunk: usize) -> Option<ChunkIdentity> {
        (**self).identity(chunk)
    }
}

/// One chunk of a [`View`].
#[derive(Debug, Clone)]
pub struct ViewChunk {
    /// Number of documents, live or not.
    pub documents: usize,
    /// Live documents: one bit per document, lowest first, in words of 64. `None` if all are live.
    pub live: Option<Vec<u64>>,
}

/// Identity of a chunk of a store, the same in all views. No other chunk has it, and the chunk has the same
/// documents for ever; those that are live differ from view to view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkIdentity {
    /// Chunk of a segment.
    Segment {
        /// Number of the segment.
        segment: u64,
        /// Number of the document type in the segment.
        section: u32,
        /// Number of the chunk among those of the type.
        chunk: u32,
    },
    /// Chunk of rows in memory, by a number of its own.
    Rows(u64),
}

/// A column could not be read. The text gives the file, the position and a remedy.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub String);

/// Views without a common document as one: the chunks of the first, then those of the next.
pub struct JoinedView {
    views: Vec<Arc<dyn View>>,
    chunks: Vec<ViewChunk>,
}

impl JoinedView {
    /// Joins views. A single one is returned as it is.
    pub fn of(mut views: Vec<Arc<dyn View>>) -> Arc<dyn View> {
        match views.pop() {
            Some(only) if views.is_empty() => only,
            last => {
                views.extend(last);
                let chunks = views.iter().flat_map(|view| view.chunks().iter().cloned()).collect();
                Arc::new(JoinedView { views, chunks })
            }
        }
    }

    /// The views that have some of these chunks, each with the part of the range that is its own.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&dyn View, Range<usize>)> {
        let mut first = 0;
        self.views.iter().filter_map(move |view| {
            let (begin, end) = (first, first + view.chunks().len());
            first = end;
            let part = range.start.max(begin)..range.end.min(end);
            (part.start < part.end).then(|| (&**view, part.start - begin..part.end - begin))
        })
    }
}

impl View for JoinedView {
    fn chunks(&self) -> &[ViewChunk] {
        &self.chunks
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        let mut columns = Vec::with_capacity(range.len());
        for (view, part) in self.parts(range) {
            columns.extend(view.columns(key, part)?);
        }
        Ok(columns)
    }

    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        self.parts(range).next().map_or(Ok(Vec::new()), |(view, part)| view.first_columns(key, part))
    }

    fn will_read(&self, key: &ColumnKey, range: Range<usize>) {
        self.parts(range).for_each(|(view, part)| view.will_read(key, part));
    }

    fn paths(&self) -> ExecutionPaths {
        self.views.first().map_or(ExecutionPaths::Fast, |view| view.paths())
    }

    fn identity(&self, chunk: usize) -> Option<ChunkIdentity> {
        let (view, part) = self.parts(chunk..chunk + 1).next()?;
        view.identity(part.start)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::ColumnForm;

    /// View of some chunks, with the ranges that were read.
    struct ReadRanges {
        chunks: Vec<ViewChunk>,
        name: &'static str,
        read: Sender<String>,
    }

    impl View for ReadRanges {
        fn chunks(&self) -> &[ViewChunk] {
            &self.chunks
        }

        fn columns(&self, _: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
            self.read.send(format!("{} {range:?}", self.name)).expect("the test receives it");
            Ok(range.map(|_| None).collect())
        }

        fn identity(&self, chunk: usize) -> Option<ChunkIdentity> {
            self.chunks.get(chunk).map(|chunk| ChunkIdentity::Rows(chunk.documents as u64))
        }
    }

    #[test]
    fn joined_views_are_read_as_one() {
        let (read, ranges) = channel();
        let view = |name, documents: &[usize]| {
            let chunks = documents.iter().map(|count| ViewChunk { documents: *count, live: None });
            Arc::new(ReadRanges { chunks: chunks.collect(), name, read: read.clone() }) as Arc<dyn View>
        };
        let joined = JoinedView::of(vec![view("a", &[1, 2]), view("b", &[]), view("c", &[3, 4, 5])]);
        let documents: Vec<usize> = joined.chunks().iter().map(|chunk| chunk.documents).collect();
        assert_eq!(documents, [1, 2, 3, 4, 5]);
        let identities: Vec<_> = (0..6).map(|chunk| joined.identity(chunk)).collect();
        let expected = (1..6).map(|number| Some(ChunkIdentity::Rows(number)));
        assert_eq!(identities, expected.chain([None]).collect::<Vec<_>>());
        let key = ColumnKey { field: "f".to_owned(), form: ColumnForm::Value };
        let check = |range: Range<usize>, expected: &[&str]| {
            let columns = joined.columns(&key, range.clone()).expect("read");
            assert_eq!(columns.len(), range.len(), "{range:?}");
            assert_eq!(ranges.try_iter().collect::<Vec<_>>(), expected, "{range:?}");
        };
        check(0..5, &["a 0..2", "c 0..3"]);
        check(1..3, &["a 1..2", "c 0..1"]);
        check(3..5, &["c 1..3"]);
        check(2..2, &[]);
        assert_eq!(joined.first_columns(&key, 1..5).expect("read").len(), 1);
        assert_eq!(JoinedView::of(vec![view("a", &[7])]).chunks().len(), 1);
        assert_eq!(JoinedView::of(Vec::new()).chunks().len(), 0);
    }
}
