//! The group directory: sorted entries in pages of a few KB, and above them a fence with the first location
//! of each page.

use crate::format::{FormatReader, write_text};

/// The chunks of one group of one type. Adjacent documents without a group share one entry, whose location is
/// that of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEntry {
    /// The low 32 bits of the location, reversed.
    pub location: u32,
    /// [`millrace_document::DocumentGroup::key`]; empty for documents without a group.
    pub group: String,
    /// Its first chunk.
    pub first_chunk: u32,
    /// Number of its chunks.
    pub chunks: u32,
}

impl GroupEntry {
    /// Returns true if it is before the position of a group in the order of keys.
    pub fn is_before(&self, location: u32, group: &str) -> bool {
        (self.location, self.group.as_str()) < (location, group)
    }
}

/// Size in bytes at which a page is closed.
const PAGE_BYTES: usize = 4096;

pub(crate) const FENCE_BYTES: usize = 24;

/// A page of the directory, as the fence has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FencePage {
    pub first_location: u32,
    pub offset: u64,
    pub length: u32,
    pub checksum: u64,
}

impl FencePage {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.first_location.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(self.length.to_le_bytes());
        out.extend(self.checksum.to_le_bytes());
    }

    /// The fence of page `page`.
    pub fn at(fences: &[u8], page: usize) -> Self {
        let mut reader = FormatReader::new(&fences[page * FENCE_BYTES..]);
        let fields = (|| {
            Some(FencePage {
                first_location: reader.u32()?,
                offset: reader.u64()?,
                length: reader.u32()?,
                checksum: reader.u64()?,
            })
        })();
        fields.expect("the length of the fence is a multiple of its entries'")
    }
}

/// Returns the first page that can have the last entry at or before a location: the search continues from
/// there.
pub(crate) fn page_before(fences: &[u8], location: u32) -> usize {
    let (mut low, mut high) = (0, fences.len() / FENCE_BYTES);
    while low < high {
        let middle = low + (high - low) / 2;
        if FencePage::at(fences, middle).first_location < location {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.saturating_sub(1)
}

/// Decodes the entries of a page; `None` if its bytes are invalid.
pub(crate) fn decode_page(bytes: &[u8]) -> Option<Vec<GroupEntry>> {
    let mut reader = FormatReader::new(bytes);
    let mut entries = Vec::new();
    while !reader.is_empty() {
        entries.push(GroupEntry {
            location: reader.u32()?,
            group: reader.text()?.to_owned(),
            first_chunk: reader.u32()?,
            chunks: reader.u32()?,
        });
    }
    Some(entries)
}

/// Collects the entries while a segment is written.
#[derive(Default)]
pub(crate) struct GroupsBuilder {
    pages: Vec<(u32, Vec<u8>)>,
    pub last: Option<GroupEntry>,
    pub count: u32,
}

impl GroupsBuilder {
    /// Adds the next chunk, of this group. Returns true if it is another group than before.
    pub fn add(&mut self, location: u32, group: &str, chunk: u32) -> bool {
        if let Some(last) = &mut self.last
            && last.group == group
            && (last.location == location || group.is_empty())
        {
            last.chunks += 1;
            return false;
        }
        self.close();
        self.last = Some(GroupEntry { location, group: group.to_owned(), first_chunk: chunk, chunks: 1 });
        self.count += 1;
        true
    }

    fn close(&mut self) {
        let Some(entry) = self.last.take() else { return };
        if self.pages.last().is_none_or(|(_, page)| page.len() >= PAGE_BYTES) {
            self.pages.push((entry.location, Vec::new()));
        }
        let (_, page) = self.pages.last_mut().expect("a page is begun before an entry is written");
        page.extend(entry.location.to_le_bytes());
        write_text(page, &entry.group);
        page.extend(entry.first_chunk.to_le_bytes());
        page.extend(entry.chunks.to_le_bytes());
    }

    /// The pages in order, each with the location of its first entry.
    pub fn finish(mut self) -> Vec<(u32, Vec<u8>)> {
        self.close();
        self.pages
    }
}
