//! Chunk directory: contents of each chunk of a type, and the offsets of its columns. Rows of fixed size in
//! checked pages.

use millrace_document::ReversedLocation;

use crate::format::{ALIGN, FormatReader};

/// Contents of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Number of document versions.
    pub documents: u32,
    /// Number of removals among them.
    pub removed: u32,
    /// Reversed location of its first document.
    pub first_location: ReversedLocation,
    /// Lowest timestamp in it.
    pub oldest: u64,
    /// Highest timestamp in it.
    pub newest: u64,
}

/// Position of a chunk's column in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ColumnExtent {
    pub offset: u64,
    /// Bytes of the encoded column; the file has zeros after it up to the next multiple of 64. 0: the chunk
    /// has no such column.
    pub length: u32,
    /// Checksum of the bytes including the zeros.
    pub checksum: u64,
}

impl ColumnExtent {
    /// Bytes in the file, including the zeros after the column.
    pub fn padded_length(&self) -> u64 {
        u64::from(self.length).next_multiple_of(ALIGN as u64)
    }
}

const INFO_BYTES: usize = 32;
const EXTENT_BYTES: usize = 20;
const PAGE_BYTES: usize = 16 * 1024;
const CHECKSUM_BYTES: usize = 8;

/// Layout of a type's rows in pages, by its number of columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLayout {
    columns: usize,
}

impl RowLayout {
    pub fn new(columns: usize) -> Self {
        RowLayout { columns }
    }

    pub fn row_bytes(self) -> usize {
        INFO_BYTES + self.columns * EXTENT_BYTES
    }

    pub fn rows_per_page(self) -> u32 {
        (PAGE_BYTES / self.row_bytes()).max(1) as u32
    }

    /// Offset of page `page`, relative to the first, and its length including the checksum.
    pub fn page(self, page: u32, chunks: u32) -> (u64, usize) {
        let full = u64::from(self.rows_per_page()) * self.row_bytes() as u64 + CHECKSUM_BYTES as u64;
        let rows = self.rows_per_page().min(chunks - page * self.rows_per_page());
        (u64::from(page) * full, rows as usize * self.row_bytes() + CHECKSUM_BYTES)
    }

    pub fn pages(self, chunks: u32) -> u32 {
        chunks.div_ceil(self.rows_per_page())
    }

    /// Total bytes of all pages.
    pub fn total_bytes(self, chunks: u32) -> u64 {
        u64::from(chunks) * self.row_bytes() as u64 + u64::from(self.pages(chunks)) * CHECKSUM_BYTES as u64
    }

    /// Row of a chunk in the page that contains it.
    pub fn row(self, page: &[u8], chunk: u32) -> &[u8] {
        let at = (chunk % self.rows_per_page()) as usize * self.row_bytes();
        &page[at..at + self.row_bytes()]
    }

    pub fn info(row: &[u8]) -> ChunkInfo {
        let mut reader = FormatReader::new(row);
        let fields = (|| {
            Some(ChunkInfo {
                documents: reader.u32()?,
                removed: reader.u32()?,
                first_location: ReversedLocation::new(reader.u64()?),
                oldest: reader.u64()?,
                newest: reader.u64()?,
            })
        })();
        fields.expect("a row has room for its info")
    }

    /// Position of a column of the chunk of a row.
    pub fn extent(row: &[u8], column: usize) -> ColumnExtent {
        let mut reader = FormatReader::new(&row[INFO_BYTES + column * EXTENT_BYTES..]);
        let fields = (|| {
            Some(ColumnExtent { offset: reader.u64()?, length: reader.u32()?, checksum: reader.u64()? })
        })();
        fields.expect("a row has room for the extent of each column")
    }

    pub fn encode(info: &ChunkInfo, extents: &[ColumnExtent]) -> Vec<u8> {
        let mut row = Vec::with_capacity(INFO_BYTES + extents.len() * EXTENT_BYTES);
        row.extend(info.documents.to_le_bytes());
        row.extend(info.removed.to_le_bytes());
        row.extend(info.first_location.bits().to_le_bytes());
        row.extend(info.oldest.to_le_bytes());
        row.extend(info.newest.to_le_bytes());
        for extent in extents {
            row.extend(extent.offset.to_le_bytes());
            row.extend(extent.length.to_le_bytes());
            row.extend(extent.checksum.to_le_bytes());
        }
        row
    }
}
