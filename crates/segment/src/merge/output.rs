use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use millrace_column::{CHUNK_DOCS, Column, ColumnForm, ColumnKey};
use millrace_env::pace;

use super::concat::concat_with_gaps;
use super::cursor::MergeCursor;
use super::values::{JoinedValues, damaged, parts};
use super::{CHUNK_BYTES, MergePolicy};
use crate::writer::is_key_column;
use crate::{ChunkInfo, Error, NewChunk, SegmentFile, SegmentWriter};

/// Rows taken for the next chunk.
#[derive(Default)]
pub(super) struct MergedChunkRows {
    /// The chunks that they are of, each once.
    pub(super) chunks: Vec<SourceChunk>,
    pub(super) runs: Vec<RowRun>,
    info: Option<ChunkInfo>,
    bytes: u64,
}

/// A chunk of a source.
pub(super) struct SourceChunk {
    segment: Arc<SegmentFile>,
    section: usize,
    chunk: u32,
    /// Bytes a row takes, about.
    row_bytes: u64,
}

/// Consecutive rows of a chunk. Where those of two chunks alternate, most runs have one row.
pub(super) struct RowRun {
    /// Index of the chunk in [`MergedChunkRows::chunks`].
    pub(super) chunk: usize,
    pub(super) rows: Range<usize>,
}

/// Output of a type: rows of all sources, collected into chunks.
pub(super) struct TypeOutput<'a> {
    pub(super) document_type: &'a str,
    pub(super) columns: &'a [ColumnKey],
    pub(super) policy: &'a dyn MergePolicy,
    pub(super) taken: MergedChunkRows,
}

impl TypeOutput<'_> {
    /// Takes the rows of a group, at which some of the cursors are, one by one.
    pub(super) fn rows_of_group(
        &mut self,
        group: &(u32, String),
        cursors: &mut [MergeCursor],
        writer: &mut SegmentWriter<'_>,
    ) -> Result<(), Error> {
        let mut location = group.0;
        let mut known: Option<(usize, u64)> = None;
        loop {
            pace::short_step();
            // Rows without a group end where a group begins.
            let newest = newest_of_first_key(cursors).filter(|&newest| cursors[newest].stands_in(group));
            let Some(newest) = newest else { break };
            let cursor = &cursors[newest];
            let reversed =
                cursor.reversed_location().expect("a cursor that stands in a group stands at a row");
            let dropped = match known {
                // It differs from one document without a group to the next.
                Some((range, dropped)) if !group.1.is_empty() && range == cursor.range_of(reversed) => {
                    dropped
                }
                _ => self.policy.dropped_until(self.document_type, reversed, &group.1),
            };
            known = Some((cursor.range_of(reversed), dropped));
            let timestamp = cursor.timestamp();
            let forgotten = cursor.is_removed() && timestamp < self.policy.forget_removals_before();
            if timestamp > dropped && !forgotten {
                if self.is_full() {
                    self.flush(location, &group.1, writer)?;
                }
                if self.taken.info.is_none() {
                    location = reversed.high();
                }
                self.take(cursor);
            }
            // The cursor gets its key back: the next one must be above it.
            let key = cursors[newest].sort_key.take();
            for other in cursors.iter_mut().filter(|cursor| cursor.sort_key == key) {
                other.next_row()?;
            }
            cursors[newest].sort_key = key;
            cursors[newest].next_row()?;
        }
        self.flush(location, &group.1, writer)
    }

    fn is_full(&self) -> bool {
        self.taken.info.is_some_and(|info| info.documents as usize >= CHUNK_DOCS)
            || self.taken.bytes >= CHUNK_BYTES
    }

    fn take(&mut self, cursor: &MergeCursor) {
        let timestamp = cursor.timestamp();
        let location = cursor.reversed_location().expect("a cursor that stands in a group stands at a row");
        let info = self.taken.info.get_or_insert(ChunkInfo {
            documents: 0,
            removed: 0,
            first_location: location,
            oldest: timestamp,
            newest: timestamp,
        });
        assert!(info.first_location <= location, "the rows of a chunk come in the order of their keys");
        info.documents += 1;
        info.removed += u32::from(cursor.is_removed());
        info.oldest = info.oldest.min(timestamp);
        info.newest = info.newest.max(timestamp);
        let chunk = self.taken.chunk_of(cursor);
        self.taken.bytes += self.taken.chunks[chunk].row_bytes;
        match self.taken.runs.last_mut() {
            Some(run) if run.chunk == chunk && run.rows.end == cursor.row => run.rows.end += 1,
            _ => self.taken.runs.push(RowRun { chunk, rows: cursor.row..cursor.row + 1 }),
        }
    }

    fn flush(&mut self, location: u32, group: &str, writer: &mut SegmentWriter<'_>) -> Result<(), Error> {
        let taken = std::mem::take(&mut self.taken);
        let Some(info) = taken.info else { return Ok(()) };
        let rows: usize = taken.runs.iter().map(|run| run.rows.len()).sum();
        assert!(rows == info.documents as usize, "a chunk has the rows that were taken for it");
        let values = JoinedValues::new(self, &taken)?;
        let columns: Vec<Option<Column>> = self
            .columns
            .iter()
            .map(|key| match key.form {
                ColumnForm::Value => Ok(values.column(&key.field).cloned()),
                ColumnForm::Overflow => Ok(values.overflow()),
                ColumnForm::Tokens => self.tokens(key, &taken, &values),
                ColumnForm::Id | ColumnForm::Timestamp | ColumnForm::Removed => self.concat(key, &taken),
            })
            .collect::<Result<_, _>>()?;
        writer.add(NewChunk { location, group, info, columns })
    }

    /// A column of each of the chunks that rows are of.
    pub(super) fn columns_of(
        &self,
        key: &ColumnKey,
        taken: &MergedChunkRows,
    ) -> Result<Vec<Option<Column>>, Error> {
        pace::step();
        taken.chunks.iter().map(|chunk| chunk.column(key)).collect()
    }

    /// A column of no field.
    fn concat(&self, key: &ColumnKey, taken: &MergedChunkRows) -> Result<Option<Column>, Error> {
        let columns = self.columns_of(key, taken)?;
        let joined =
            concat_with_gaps(&parts(&columns, taken)).map_err(|error| damaged(taken.segment(), &error))?;
        if joined.is_none() && is_key_column(key) {
            return Err(taken.segment().corrupt(0, "a chunk lacks its ids or timestamps"));
        }
        Ok(joined)
    }

    /// The words of a field, derived where a source lacks them.
    fn tokens(
        &self,
        key: &ColumnKey,
        taken: &MergedChunkRows,
        values: &JoinedValues,
    ) -> Result<Option<Column>, Error> {
        let derive = |value: &Column| self.policy.derive(self.document_type, key, value);
        if values.has_changed(key.root()) {
            return Ok(values.column(key.root()).and_then(derive));
        }
        let mut columns = self.columns_of(key, taken)?;
        if columns.iter().any(Option::is_none) {
            let values = self.columns_of(&ColumnKey::value(key.root()), taken)?;
            for (column, value) in columns.iter_mut().zip(&values) {
                if column.is_none() {
                    *column = value.as_ref().and_then(derive);
                }
            }
        }
        concat_with_gaps(&parts(&columns, taken)).map_err(|error| damaged(taken.segment(), &error))
    }
}

impl MergedChunkRows {
    /// Index of the chunk that a cursor is in.
    fn chunk_of(&mut self, cursor: &MergeCursor) -> usize {
        let is_current =
            |of: &SourceChunk| of.chunk == cursor.chunk && Arc::ptr_eq(&of.segment, &cursor.segment);
        // Those that the cursors are in are among the last.
        if let Some(known) = self.chunks.iter().rposition(is_current) {
            return known;
        }
        let keys = cursor.keys();
        self.chunks.push(SourceChunk {
            segment: Arc::clone(&cursor.segment),
            section: cursor.section,
            chunk: cursor.chunk,
            row_bytes: keys.chunk_bytes / u64::from(keys.info.documents.max(1)),
        });
        self.chunks.len() - 1
    }

    /// One of the segments that the rows, at least one, are of.
    pub(super) fn segment(&self) -> &SegmentFile {
        &self.chunks[0].segment
    }
}

impl SourceChunk {
    fn column(&self, key: &ColumnKey) -> Result<Option<Column>, Error> {
        Ok(self.segment.columns_uncached(self.section, key, self.chunk..self.chunk + 1)?.pop().flatten())
    }
}

/// Of the rows that have the first key of all, the cursor of the newest.
fn newest_of_first_key(cursors: &[MergeCursor]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, cursor) in cursors.iter().enumerate() {
        let Some(key) = &cursor.sort_key else { continue };
        let better =
            best.is_none_or(|best| match cursors[best].sort_key.as_ref().map(|other| key.cmp(other)) {
                Some(Ordering::Less) => true,
                Some(Ordering::Equal) => cursor.timestamp() > cursors[best].timestamp(),
                _ => false,
            });
        if better {
            best = Some(index);
        }
    }
    best
}
