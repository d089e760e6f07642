//! Reading of a column's pieces from the file: adjacent ones in one read.

use std::ops::Range;

use millrace_column::{AlignedBuffer, Column, ColumnKey};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{ColumnExtent, RowLayout};
use crate::{Error, SegmentFile};

/// Maximum number of bytes of one read of the disk: while they are checked, the system fetches those after
/// them.
const READ_BYTES: u64 = 1 << 20;

/// Number of bytes from which a piece is read by itself: combining such pieces would save little.
const ALONE_BYTES: u32 = 128 << 10;

/// Maximum number of bytes that are announced to the system as a whole: it can fetch them at once. For more,
/// it detects the sequential reads by itself, and reads ahead better without the announcement.
const ANNOUNCED_BYTES: u64 = 8 << 20;

/// A piece of a chunk, with the chunk's number of documents.
type Piece = (ColumnExtent, u32);

impl SegmentFile {
    /// Reads a column of the chunks in `range` from the file; `None` if a chunk lacks it.
    pub(crate) fn read_columns(
        &self,
        section: usize,
        column: usize,
        range: Range<u32>,
    ) -> Result<Vec<Option<Column>>, Error> {
        self.read_pieces(&self.pieces(section, column, range)?)
    }

    /// Does the same for as many of the first chunks as take `bytes` bytes in the file, at least one.
    pub(crate) fn read_columns_within(
        &self,
        section: usize,
        column: usize,
        range: Range<u32>,
        bytes: u64,
    ) -> Result<Vec<Option<Column>>, Error> {
        let mut pieces = self.pieces(section, column, range)?;
        let mut total = 0;
        let fits = |(place, _): &&Piece| {
            total += place.padded_length();
            total <= bytes
        };
        let fitting = pieces.iter().take_while(fits).count();
        pieces.truncate(fitting.max(1));
        self.read_pieces(&pieces)
    }

    /// Does the same for as many chunks as one read fetches, at least one.
    pub(crate) fn read_first_columns(
        &self,
        section: usize,
        column: usize,
        range: Range<u32>,
    ) -> Result<Vec<Option<Column>>, Error> {
        self.read_first(&self.pieces(section, column, range)?)
    }

    fn read_pieces(&self, pieces: &[Piece]) -> Result<Vec<Option<Column>>, Error> {
        let mut columns = Vec::with_capacity(pieces.len());
        while columns.len() < pieces.len() {
            columns.extend(self.read_first(&pieces[columns.len()..])?);
        }
        Ok(columns)
    }

    /// Announces that a column of the chunks in `range` will be read soon, sequentially, so that the disk can
    /// prefetch it. Does nothing if the first is in the cache.
    pub fn will_read(&self, section: usize, key: &ColumnKey, range: Range<u32>) {
        let Some(column) = self.sections()[section].column(key) else { return };
        if self.cached(section, column, range.start).is_some() {
            return;
        }
        // An unreadable directory is reported when the column is read.
        let Ok(pieces) = self.pieces(section, column, range) else { return };
        let bytes: u64 = pieces.iter().map(|(extent, _)| extent.padded_length()).sum();
        let first = pieces.iter().find(|(extent, _)| extent.length > 0);
        if let Some((first, _)) = first
            && bytes <= ANNOUNCED_BYTES
        {
            self.will_need(first.offset, bytes);
        }
    }

    fn pieces(&self, section: usize, column: usize, range: Range<u32>) -> Result<Vec<Piece>, Error> {
        let mut pieces = Vec::with_capacity(range.len());
        self.rows(section, range, |row| {
            pieces.push((RowLayout::extent(row, column), RowLayout::info(row).documents));
        })?;
        Ok(pieces)
    }

    /// Reads the first pieces, up to the size of one read; none if there are none.
    fn read_first(&self, pieces: &[Piece]) -> Result<Vec<Option<Column>>, Error> {
        let pieces = &pieces[..batch_length(pieces)];
        let Some((first, documents)) = pieces.first() else { return Ok(Vec::new()) };
        if first.length == 0 {
            return Ok(vec![None]);
        }
        if first.length >= ALONE_BYTES {
            return Ok(vec![Some(self.decode(self.read_alone(first)?, first, *documents)?)]);
        }
        let buffers = self.read_contiguous(pieces)?;
        let decode = |(buffer, (extent, documents)): (AlignedBuffer, &Piece)| {
            self.decode(buffer, extent, *documents).map(Some)
        };
        buffers.into_iter().zip(pieces).map(decode).collect()
    }

    fn decode(&self, buffer: AlignedBuffer, extent: &ColumnExtent, documents: u32) -> Result<Column, Error> {
        let column = Column::decode(buffer)
            .map_err(|_| self.corrupt(extent.offset, "a column's bytes are not those of a column"))?;
        if column.len() != documents as usize {
            return Err(self.corrupt(extent.offset, "a column has not as many documents as its chunk"));
        }
        Ok(column)
    }

    /// Reads a large piece into uninitialized memory.
    pub(crate) fn read_alone(&self, extent: &ColumnExtent) -> Result<AlignedBuffer, Error> {
        self.check_bounds(extent.offset, extent.padded_length())?;
        let read = |length, bytes: &mut Vec<u8>| self.read_onto(extent.offset, length, bytes);
        let buffer = AlignedBuffer::read_with(extent.length as usize, read)?;
        self.checked(buffer.padded(), extent)?;
        Ok(buffer)
    }

    /// Reads contiguous pieces.
    fn read_contiguous(&self, pieces: &[Piece]) -> Result<Vec<AlignedBuffer>, Error> {
        let first = pieces[0].0.offset;
        self.check_bounds(first, pieces.iter().map(|(extent, _)| extent.padded_length()).sum())?;
        let lengths: Vec<usize> = pieces.iter().map(|(extent, _)| extent.length as usize).collect();
        AlignedBuffer::fill_many(&lengths, |slices| {
            self.read_into(first, slices)?;
            slices.iter().zip(pieces).try_for_each(|(slice, (extent, _))| self.checked(slice, extent))
        })
    }

    fn check_bounds(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes() => Ok(()),
            _ => Err(self.corrupt(offset, "a column lies past the end of the file")),
        }
    }

    fn checked(&self, bytes: &[u8], extent: &ColumnExtent) -> Result<(), Error> {
        if xxh3_64(bytes) == extent.checksum {
            Ok(())
        } else {
            Err(self.corrupt(extent.offset, "a column does not fit its checksum"))
        }
    }
}

/// Number of the first pieces that are read at once: a chunk that lacks the column and a large piece by
/// themselves, smaller ones with those that follow them in the file.
fn batch_length(pieces: &[Piece]) -> usize {
    let Some((first, _)) = pieces.first() else { return 0 };
    let mut end = first.offset;
    let small = first.length > 0 && first.length < ALONE_BYTES;
    let follow = |(extent, _): &&Piece| {
        let next = small && extent.length > 0 && extent.offset == end && end - first.offset < READ_BYTES;
        end += extent.padded_length();
        next
    };
    pieces.iter().take_while(follow).count().max(1)
}
