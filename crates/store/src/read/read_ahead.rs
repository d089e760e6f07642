//! Reading of a column for some chunks of a segment at a time, in a pass over all of them.

use std::collections::HashMap;

use millrace_column::{Column, ColumnKey};
use millrace_segment::SegmentFile;

use crate::Error;

/// Maximum number of chunks of which a column is read together.
const CHUNKS_MAX: u64 = 64;
/// Bytes in the file of what is read together, if that is more than one chunk: those of one read.
const READ_BYTES: u64 = 1 << 20;
/// Bytes in memory of all that is at hand, beyond which it is given up. A pass comes back to few segments.
const HELD_BYTES: usize = 64 << 20;

/// Columns of the next chunks of segments. They are not put into the cache: a pass reads each once.
#[derive(Default)]
pub(crate) struct ColumnsAhead {
    /// Number of documents that the pass still takes; a column is read for about as many.
    pub left: u64,
    /// By the number of the segment, and its section.
    read: HashMap<(u64, usize), Vec<ColumnAhead>>,
    /// Bytes in memory of what was read.
    held: usize,
}

/// A column of some chunks.
struct ColumnAhead {
    key: ColumnKey,
    first: u32,
    columns: Vec<Option<Column>>,
    /// Bytes in memory.
    bytes: usize,
}

impl ColumnsAhead {
    /// A column of a chunk, read together with that of later chunks, about as many as the pass takes.
    pub fn column(
        &mut self,
        (segment, section, chunk): (&SegmentFile, usize, u32),
        key: &ColumnKey,
        documents: u32,
    ) -> Result<Option<Column>, Error> {
        let section_key = (segment.number(), section);
        let known =
            self.read.get(&section_key).and_then(|known| known.iter().find(|known| known.key == *key));
        if let Some(known) = known
            && let Some(column) = chunk.checked_sub(known.first).and_then(|at| known.columns.get(at as usize))
        {
            return Ok(column.clone());
        }
        let wanted = (self.left / u64::from(documents.max(1))).clamp(1, CHUNKS_MAX) as u32;
        let end = segment.sections()[section].chunks.min(chunk.saturating_add(wanted));
        let columns = segment.columns_within(section, key, chunk..end, READ_BYTES)?;
        let column = columns.first().cloned().flatten();
        let bytes = columns.iter().flatten().map(Column::memory_bytes).sum();
        self.hold(section_key, ColumnAhead { key: key.clone(), first: chunk, columns, bytes });
        Ok(column)
    }

    /// Keeps a column in place of what was read of it before.
    fn hold(&mut self, section_key: (u64, usize), read: ColumnAhead) {
        if self.held + read.bytes > HELD_BYTES {
            self.read.clear();
            self.held = 0;
        }
        self.held += read.bytes;
        let of_section = self.read.entry(section_key).or_default();
        match of_section.iter_mut().find(|known| known.key == read.key) {
            Some(known) => {
                self.held -= known.bytes;
                *known = read;
            }
            None => of_section.push(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_hand_is_bounded() {
        let mut ahead = ColumnsAhead::default();
        let mut hold = |segment: u64, field: &str, bytes: usize| {
            let read = ColumnAhead { key: ColumnKey::value(field), first: 0, columns: Vec::new(), bytes };
            ahead.hold((segment, 0), read);
            let count = ahead.read.values().map(Vec::len).sum::<usize>();
            assert_eq!(ahead.held, ahead.read.values().flatten().map(|read| read.bytes).sum::<usize>());
            (count, ahead.held)
        };
        assert_eq!(hold(1, "a", 100), (1, 100));
        assert_eq!(hold(1, "b", 200), (2, 300));
        assert_eq!(hold(1, "a", 50), (2, 250), "in place of the first");
        assert_eq!(hold(2, "a", HELD_BYTES - 250), (3, HELD_BYTES));
        assert_eq!(hold(3, "a", 1), (1, 1), "the others are given up");
        assert_eq!(hold(4, "a", HELD_BYTES + 1), (1, HELD_BYTES + 1), "a large one is alone");
        assert_eq!(hold(5, "a", 2), (1, 2));
    }
}
