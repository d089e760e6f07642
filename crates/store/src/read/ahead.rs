//! Reading of a column for some chunks of a segment at a time, in a pass over all of them.

use std::collections::HashMap;

use millrace_column::{Column, ColumnKey};
use millrace_segment::SegmentFile;

use crate::Error;

/// Maximum number of chunks of which a column is read together; they are fewer if one read has not all.
const CHUNKS_MAX: u64 = 64;

/// Columns of the next chunks of segments. They are not put into the cache: a pass reads each once.
#[derive(Default)]
pub(crate) struct ColumnsAhead {
    /// Number of documents that the pass still takes; a column is read for about as many.
    pub left: u64,
    /// By the number of the segment, and its section.
    read: HashMap<(u64, usize), Vec<ColumnAhead>>,
}

/// A column of some chunks.
struct ColumnAhead {
    key: ColumnKey,
    first: u32,
    columns: Vec<Option<Column>>,
}

impl ColumnsAhead {
    /// A column of a chunk with so many documents, read together with that of later chunks, about as many as
    /// the pass takes.
    pub fn column(
        &mut self,
        (segment, section, chunk): (&SegmentFile, usize, u32),
        key: &ColumnKey,
        documents: u32,
    ) -> Result<Option<Column>, Error> {
        let of_section = self.read.entry((segment.number(), section)).or_default();
        let known = of_section.iter().position(|known| known.key == *key);
        if let Some(known) = known.map(|known| &of_section[known])
            && let Some(column) = chunk.checked_sub(known.first).and_then(|at| known.columns.get(at as usize))
        {
            return Ok(column.clone());
        }
        let wanted = (self.left / u64::from(documents.max(1))).clamp(1, CHUNKS_MAX) as u32;
        let end = segment.sections()[section].chunks.min(chunk.saturating_add(wanted));
        let columns = segment.first_columns_uncached(section, key, chunk..end)?;
        let column = columns.first().cloned().flatten();
        let read = ColumnAhead { key: key.clone(), first: chunk, columns };
        match known {
            Some(known) => of_section[known] = read,
            None => of_section.push(read),
        }
        Ok(column)
    }
}
