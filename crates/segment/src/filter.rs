//! Filters of the ids in a section: Bloom filters in pages, among which the ids are spread by their hashes.
//!
//! All pages are of one length, which follows from the number of versions, and each ends with its checksum.

use std::ops::Range;

use millrace_column::{AlignedBuffer, Column, ColumnKey};
use millrace_env::filter::{self, KeyHash, PAGE_KEYS};
use millrace_env::{AppendFile, pace};
use xxhash_rust::xxh3::xxh3_64;

use crate::cache::CachedPart;
use crate::directory::append;
use crate::{Error, SegmentFile};

/// Versions from which on a section has a filter: of fewer, the ids are compared as quickly.
const FILTERED_MIN: u64 = 64;

const CHECKSUM_BYTES: usize = 8;

/// Ids that are hashed between two looks at the pace of background work.
const IDS_PER_PACE_CHECK: usize = 1024;

/// Chunks whose ids are read together.
const READ_CHUNKS: u32 = 64;

/// Pages of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterLayout {
    pages: u32,
    /// Bytes of a page without its checksum.
    page_bytes: usize,
}

impl FilterLayout {
    /// The pages for a number of versions; `None`: they are too few for a filter.
    pub fn of(documents: u64) -> Option<Self> {
        if documents < FILTERED_MIN {
            return None;
        }
        let pages = documents.div_ceil(PAGE_KEYS as u64);
        let page_bytes = filter::bytes_of(documents.div_ceil(pages) as usize);
        Some(FilterLayout { pages: u32::try_from(pages).ok()?, page_bytes })
    }

    /// Bytes of a page with its checksum.
    fn stored_bytes(self) -> usize {
        self.page_bytes + CHECKSUM_BYTES
    }

    /// Offset of a page, relative to the first.
    fn at(self, page: u32) -> u64 {
        u64::from(page) * self.stored_bytes() as u64
    }

    /// Bytes of all pages.
    pub fn total_bytes(self) -> u64 {
        self.at(self.pages)
    }
}

/// Writes the filter of these ids; returns its offset, or 0 if they are too few for one.
pub(crate) fn write(ids: &[KeyHash], file: &mut dyn AppendFile, offset: &mut u64) -> Result<u64, Error> {
    let Some(layout) = FilterLayout::of(ids.len() as u64) else { return Ok(0) };
    let mut pages = vec![vec![0_u8; layout.page_bytes]; layout.pages as usize];
    for ids in ids.chunks(IDS_PER_PACE_CHECK) {
        pace::step();
        for id in ids {
            filter::add(&mut pages[id.page(layout.pages) as usize], *id);
        }
    }
    let first = *offset;
    for mut page in pages {
        page.extend(xxh3_64(&page).to_le_bytes());
        append(file, offset, &page)?;
    }
    Ok(first)
}

/// The hashes of a chunk's ids; none if the column is not one of ids.
pub(crate) fn hashes(ids: &Column) -> Vec<KeyHash> {
    let Column::Bytes(ids) = ids else { return Vec::new() };
    (0..ids.len()).map(|row| KeyHash::of(ids.get(row).unwrap_or_default())).collect()
}

/// The hashes of the ids in chunks of a section, given in order.
pub(crate) fn hashes_of(
    segment: &SegmentFile,
    section: usize,
    chunks: &[u32],
) -> Result<Vec<KeyHash>, Error> {
    let mut found = Vec::new();
    for adjacent in chunks.chunk_by(|a, b| a + 1 == *b) {
        for together in adjacent.chunks(READ_CHUNKS as usize) {
            let [first, ..] = *together else { continue };
            let range = first..first + together.len() as u32;
            let columns = segment.columns_uncached(section, &ColumnKey::id(), range)?;
            columns.iter().flatten().for_each(|ids| found.extend(hashes(ids)));
        }
    }
    Ok(found)
}

/// All pages of a section's filter.
pub(crate) struct SectionFilter {
    layout: FilterLayout,
    pages: Vec<AlignedBuffer>,
}

impl SectionFilter {
    /// True if it has all ids of a chunk.
    pub fn has_all(&self, ids: &Column) -> bool {
        hashes(ids).into_iter().all(|id| {
            let page = &self.pages[id.page(self.layout.pages) as usize];
            filter::may_contain(&page[..self.layout.page_bytes], id)
        })
    }
}

/// Filter of a section, whose pages are taken out of the cache or the file once each.
pub struct FilterReader<'a> {
    segment: &'a SegmentFile,
    section: usize,
    /// `None`: the section has no filter.
    layout: Option<FilterLayout>,
    pages: Vec<Option<AlignedBuffer>>,
}

impl FilterReader<'_> {
    /// Returns false if the section certainly has no version of the document whose id has this hash, not even
    /// a removal.
    ///
    /// # Errors
    /// The filter cannot be read or is damaged.
    pub fn may_have(&mut self, id: KeyHash) -> Result<bool, Error> {
        let Some(layout) = self.layout else { return Ok(true) };
        let number = id.page(layout.pages);
        let known = &mut self.pages[number as usize];
        let page = match known {
            Some(page) => page,
            None => known.insert(self.segment.filter_page(self.section, layout, number)?),
        };
        Ok(filter::may_contain(&page[..layout.page_bytes], id))
    }
}

impl SegmentFile {
    /// Returns true if a section has a filter: [`SegmentFile::may_have`] is true of few other documents then.
    pub fn has_filter(&self, section: usize) -> bool {
        self.sections()[section].filter().is_some()
    }

    /// Returns false if a section certainly has no version of the document whose id has this hash, not even
    /// a removal. Reads one page of its filter, if it has one.
    ///
    /// # Errors
    /// The filter cannot be read or is damaged.
    pub fn may_have(&self, section: usize, id: KeyHash) -> Result<bool, Error> {
        let Some(layout) = self.sections()[section].filter() else { return Ok(true) };
        let page = self.filter_page(section, layout, id.page(layout.pages))?;
        Ok(filter::may_contain(&page[..layout.page_bytes], id))
    }

    /// The filter of a section, to look many ids up.
    pub fn filter_reader(&self, section: usize) -> FilterReader<'_> {
        let layout = self.sections()[section].filter();
        let pages = layout.map_or(0, |layout| layout.pages as usize);
        FilterReader { segment: self, section, layout, pages: vec![None; pages] }
    }

    fn filter_page(&self, section: usize, layout: FilterLayout, page: u32) -> Result<AlignedBuffer, Error> {
        let offset = self.sections()[section].filter_offset.saturating_add(layout.at(page));
        self.summed_page(section, CachedPart::FilterPage(page), offset, layout.stored_bytes(), DAMAGED)
    }

    /// Bytes of the filters of all sections.
    pub fn filter_bytes(&self) -> u64 {
        self.sections().iter().filter_map(|section| section.filter()).map(FilterLayout::total_bytes).sum()
    }

    /// Reads the whole filter of a section, if it has one, and checks it; adds its extent to the parts of
    /// the file.
    pub(crate) fn verify_filter(
        &self,
        section: usize,
        parts: &mut Vec<Range<u64>>,
    ) -> Result<Option<SectionFilter>, Error> {
        let catalog = &self.sections()[section];
        let Some(layout) = catalog.filter() else { return Ok(None) };
        let first = catalog.filter_offset;
        parts.push(first..first.saturating_add(layout.total_bytes()));
        let mut pages = Vec::new();
        for page in 0..layout.pages {
            let offset = first.saturating_add(layout.at(page));
            pages.push(self.read_summed(offset, layout.stored_bytes(), DAMAGED)?);
        }
        Ok(Some(SectionFilter { layout, pages }))
    }
}

const DAMAGED: &str = "a page of a filter of documents does not fit its checksum";
