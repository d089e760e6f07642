//! Index of the locations in a file: collected while columns are written, and written after them.

use millrace_column::ColumnKey;
use millrace_env::filter::KeyHash;
use millrace_env::{AppendFile, pace};
use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::{ColumnExtent, RowLayout};
use crate::format::{FileTrailer, SegmentFormat};
use crate::groups::{FencePage, GroupsBuilder};
use crate::{ChunkInfo, Error, TypeSection, catalog, filter};

/// The directories of one type's chunks and groups.
pub(crate) struct ChunkDirectory {
    pub section: TypeSection,
    infos: Vec<ChunkInfo>,
    /// The extents of all columns of all chunks, chunk by chunk.
    pub extents: Vec<ColumnExtent>,
    /// Hashes of the ids of all chunks; of none if the file has no filters, or the chunks no ids.
    pub ids: Vec<KeyHash>,
    groups: GroupsBuilder,
}

impl ChunkDirectory {
    /// Of a type with these columns, which are sorted.
    pub fn new(document_type: &str, columns: Vec<ColumnKey>) -> Self {
        let section = TypeSection {
            document_type: document_type.to_owned(),
            columns,
            documents: 0,
            removed: 0,
            chunks: 0,
            groups: 0,
            oldest: u64::MAX,
            newest: 0,
            rows_offset: 0,
            fence_offset: 0,
            fence_length: 0,
            fence_checksum: 0,
            filter_offset: 0,
        };
        ChunkDirectory {
            section,
            infos: Vec::new(),
            extents: Vec::new(),
            ids: Vec::new(),
            groups: GroupsBuilder::default(),
        }
    }

    /// Adds the next chunk; the caller adds its extents. Returns true if it belongs to another group than the
    /// previous one.
    pub fn add(&mut self, location: u32, group: &str, info: ChunkInfo) -> bool {
        assert!(info.documents > 0, "a chunk without documents is not written");
        assert!(info.removed <= info.documents, "no more versions are removals than there are versions");
        assert!(info.oldest <= info.newest, "the oldest version of a chunk is not newer than its newest");
        let section = &mut self.section;
        let next_group = self.groups.add(location, group, section.chunks);
        section.chunks += 1;
        section.documents += u64::from(info.documents);
        section.removed += u64::from(info.removed);
        section.oldest = section.oldest.min(info.oldest);
        section.newest = section.newest.max(info.newest);
        self.infos.push(info);
        next_group
    }

    /// Writes the directories of all chunks and groups, and the filter of the ids; returns their entry in the
    /// catalog.
    pub fn write(mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<TypeSection, Error> {
        self.write_rows(file, offset)?;
        if self.ids.len() as u64 == self.section.documents {
            self.section.filter_offset = filter::write(&self.ids, file, offset)?;
        }
        self.write_groups(file, offset)
    }

    fn write_rows(&mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<(), Error> {
        self.section.rows_offset = *offset;
        let layout = self.section.rows();
        let columns = self.section.columns.len();
        let expected = self.infos.len() * columns;
        assert!(
            self.extents.len() == expected,
            "the columns of all chunks are written before their directory"
        );
        let rows_per_page = layout.rows_per_page() as usize;
        for (page, infos) in self.infos.chunks(rows_per_page).enumerate() {
            let mut bytes = Vec::with_capacity(infos.len() * layout.row_bytes() + 8);
            for (row, info) in infos.iter().enumerate() {
                let at = (page * rows_per_page + row) * columns;
                bytes.extend(RowLayout::encode(info, &self.extents[at..at + columns]));
            }
            bytes.extend(xxh3_64(&bytes).to_le_bytes());
            append(file, offset, &bytes)?;
        }
        Ok(())
    }

    fn write_groups(mut self, file: &mut dyn AppendFile, offset: &mut u64) -> Result<TypeSection, Error> {
        self.section.groups = self.groups.count;
        let mut fences = Vec::new();
        for (first_location, page) in self.groups.finish() {
            let fence = FencePage {
                first_location,
                offset: *offset,
                length: u32::try_from(page.len())
                    .expect("a page is closed after a few KB, and an entry has at most 64"),
                checksum: xxh3_64(&page),
            };
            fence.encode(&mut fences);
            append(file, offset, &page)?;
        }
        self.section.fence_offset = *offset;
        self.section.fence_length =
            u32::try_from(fences.len()).expect("2^32 groups do not fit into a bucket");
        self.section.fence_checksum = xxh3_64(&fences);
        append(file, offset, &fences)?;
        Ok(self.section)
    }
}

/// Writes catalog and trailer.
pub(crate) fn write_end(
    format: SegmentFormat,
    sections: &[TypeSection],
    file: &mut dyn AppendFile,
    offset: &mut u64,
) -> Result<(), Error> {
    let catalog = catalog::encode(sections, format);
    let trailer = FileTrailer {
        format,
        catalog_offset: *offset,
        catalog_length: catalog.len() as u64,
        catalog_checksum: xxh3_64(&catalog),
    };
    append(file, offset, &catalog)?;
    append(file, offset, &trailer.encode())
}

/// Number of bytes whose writing takes a small part of a millisecond.
const PIECE: usize = 256 << 10;

/// Adds bytes to a file, and counts them.
pub(crate) fn append(file: &mut dyn AppendFile, offset: &mut u64, bytes: &[u8]) -> Result<(), Error> {
    for piece in bytes.chunks(PIECE) {
        pace::step();
        file.append(piece)?;
    }
    *offset += bytes.len() as u64;
    Ok(())
}
