//! Amount of a segment's data by location.

use millrace_bucket::LocationRange;
use millrace_column::{Column, ColumnKey};
use millrace_document::DocumentId;

use crate::cut::{CutChunk, column_extents, visit_chunks};
use crate::ranges::{at_or_after, hull};
use crate::{Error, SegmentFile};

/// Contents of a segment in a range of locations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeMeasure {
    /// Bytes of columns. A chunk that overlaps several ranges counts for each in proportion to its documents;
    /// 0: there is nothing of the range.
    pub bytes: u64,
    /// Document versions that are not removals.
    pub documents: u64,
}

impl RangeMeasure {
    fn add(&mut self, bytes: u64, documents: u32) {
        self.bytes += bytes.max(1);
        self.documents += u64::from(documents);
    }
}

/// Measures the contents of each of these ranges, which are in order and do not overlap.
///
/// Reads the directory, and the ids in chunks that extend beyond the end of a range: those of documents
/// without a group, and of groups that are divided.
///
/// # Errors
/// The segment cannot be read or is damaged.
pub fn measure(segment: &SegmentFile, ranges: &[LocationRange]) -> Result<Vec<RangeMeasure>, Error> {
    let mut measured = vec![RangeMeasure::default(); ranges.len()];
    let Some(hull) = hull(ranges) else { return Ok(measured) };
    for (section, of_section) in segment.sections().iter().enumerate() {
        let mut across = Vec::new();
        visit_chunks(segment, section, hull, |CutChunk { number, info, locations, .. }, row| {
            let bytes =
                column_extents(row, of_section.columns.len()).map(|extent| u64::from(extent.length)).sum();
            let range = at_or_after(ranges, locations.first);
            match ranges.get(range).filter(|range| range.overlaps(locations)) {
                None => {}
                Some(own) if own.covers(locations) => {
                    measured[range].add(bytes, info.documents.saturating_sub(info.removed));
                }
                Some(_) => across.push((number, bytes)),
            }
        })?;
        for (chunk, bytes) in across {
            add_rows(segment, section, chunk, bytes, ranges, &mut measured)?;
        }
    }
    Ok(measured)
}

/// Adds the documents of a chunk one by one.
fn add_rows(
    segment: &SegmentFile,
    section: usize,
    chunk: u32,
    bytes: u64,
    ranges: &[LocationRange],
    measured: &mut [RangeMeasure],
) -> Result<(), Error> {
    let column = |key: &ColumnKey| -> Result<Option<Column>, Error> {
        Ok(segment.columns_uncached(section, key, chunk..chunk + 1)?.pop().flatten())
    };
    let Some(Column::Bytes(ids)) = column(&ColumnKey::id())? else {
        return Err(segment.corrupt(0, "a chunk lacks its ids or timestamps"));
    };
    let removed = column(&ColumnKey::removed())?;
    let is_removed =
        |row| matches!(&removed, Some(Column::Fixed(removed)) if removed.integer(row) == Some(1));
    let row_bytes = bytes / ids.len().max(1) as u64;
    for row in 0..ids.len() {
        let id = ids.get(row).and_then(|id| std::str::from_utf8(id).ok());
        let id = id.and_then(|id| DocumentId::parse(id).ok());
        let id = id.ok_or_else(|| segment.corrupt(0, "a document id is not one"))?;
        let location = id.location().reversed();
        let range = at_or_after(ranges, location);
        if ranges.get(range).is_some_and(|range| range.contains(location)) {
            measured[range].add(row_bytes, u32::from(!is_removed(row)));
        }
    }
    Ok(())
}
