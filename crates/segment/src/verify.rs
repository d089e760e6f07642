use std::ops::Range;

use millrace_column::{Column, ColumnKey};

use crate::chunk::RowLayout;
use crate::filter::SectionFilter;
use crate::format::BLOCK;
use crate::groups::{FENCE_BYTES, FencePage, decode_page};
use crate::{Error, FileChecksums, SegmentFile};

/// Amount that [`SegmentFile::verify`] read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifiedBytes {
    /// Bytes of the file.
    pub bytes: u64,
    /// Number of document versions.
    pub documents: u64,
}

impl SegmentFile {
    /// Reads every byte of the file and compares it with its checksum; also checks that every byte belongs to
    /// a part, and that counts agree. Adds nothing to the cache.
    ///
    /// # Errors
    /// The first damage.
    pub fn verify(&self) -> Result<VerifiedBytes, Error> {
        self.verify_with(&FileChecksums::new(Vec::new()))
    }

    /// Like [`SegmentFile::verify`], but columns with known checksums are not read.
    ///
    /// # Errors
    /// The first damage.
    pub fn verify_with(&self, known: &FileChecksums) -> Result<VerifiedBytes, Error> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut documents = 0;
        for (number, section) in self.sections().iter().enumerate() {
            let filter = self.verify_filter(number, &mut parts)?;
            let counted = self.verify_chunks(number, known, filter.as_ref(), &mut parts)?;
            if counted != section.documents {
                return Err(self.corrupt(
                    section.rows_offset,
                    "the chunks have not as many documents as the catalog says",
                ));
            }
            documents += counted;
            parts.push(section.rows_offset..section.rows_offset + section.rows().total_bytes(section.chunks));
            self.verify_groups(number, &mut parts)?;
        }
        self.verify_cover(parts)?;
        Ok(VerifiedBytes { bytes: self.bytes(), documents })
    }

    fn verify_chunks(
        &self,
        section: usize,
        known: &FileChecksums,
        filter: Option<&SectionFilter>,
        parts: &mut Vec<Range<u64>>,
    ) -> Result<u64, Error> {
        let catalog = &self.sections()[section];
        let mut documents = 0;
        let (mut damaged, mut unknown) = (None, Vec::new());
        self.rows(section, 0..catalog.chunks, |row| {
            documents += u64::from(RowLayout::info(row).documents);
            for column in 0..catalog.columns.len() {
                let extent = RowLayout::extent(row, column);
                if extent.length == 0 {
                    continue;
                }
                parts.push(extent.offset..extent.offset.saturating_add(extent.padded_length()));
                match known.of_part(extent.offset, extent.padded_length()) {
                    Some(checksum) if checksum == extent.checksum => {}
                    Some(_) => damaged = Some(extent.offset),
                    None if known.is_empty() => {}
                    None => unknown.push(extent),
                }
            }
        })?;
        if let Some(offset) = damaged {
            return Err(self.corrupt(offset, "a column does not fit its checksum"));
        }
        if !known.is_empty() {
            unknown.iter().try_for_each(|extent| self.read_alone(extent).map(drop))?;
            return Ok(documents);
        }
        for key in &catalog.columns {
            for chunk in (0..catalog.chunks).step_by(64) {
                let range = chunk..(chunk + 64).min(catalog.chunks);
                let columns = self.columns_uncached(section, key, range)?;
                columns.iter().flatten().try_for_each(Column::check).map_err(|_| {
                    self.corrupt(catalog.rows_offset, "a block of a compressed column is damaged")
                })?;
                if let Some(filter) = filter.filter(|_| *key == ColumnKey::id())
                    && !columns.iter().flatten().all(|ids| filter.has_all(ids))
                {
                    let lacks = "the filter of a type lacks one of its documents";
                    return Err(self.corrupt(catalog.filter_offset, lacks));
                }
            }
        }
        Ok(documents)
    }

    fn verify_groups(&self, section: usize, parts: &mut Vec<Range<u64>>) -> Result<(), Error> {
        let catalog = &self.sections()[section];
        let fences = self.fences(section)?;
        parts.push(catalog.fence_offset..catalog.fence_offset + fences.len() as u64);
        let mut chunks = 0;
        for page in 0..fences.len() / FENCE_BYTES {
            let fence = FencePage::at(&fences, page);
            parts.push(fence.offset..fence.offset + u64::from(fence.length));
            let bytes = self.read(fence.offset, fence.length as usize)?;
            let damaged = |reason| self.corrupt(fence.offset, reason);
            if xxhash_rust::xxh3::xxh3_64(&bytes) != fence.checksum {
                return Err(damaged("a page of the group directory does not fit its checksum"));
            }
            for entry in
                decode_page(&bytes).ok_or_else(|| damaged("a page of the group directory is not one"))?
            {
                if entry.first_chunk != chunks {
                    return Err(damaged("the groups do not follow each other"));
                }
                chunks += entry.chunks;
            }
        }
        if chunks != catalog.chunks {
            return Err(
                self.corrupt(catalog.fence_offset, "the groups have not as many chunks as the catalog says")
            );
        }
        Ok(())
    }

    /// Checks that the consecutive parts are the file between header and catalog.
    fn verify_cover(&self, mut parts: Vec<Range<u64>>) -> Result<(), Error> {
        parts.retain(|part| !part.is_empty());
        parts.sort_unstable_by_key(|part| part.start);
        let mut at = BLOCK as u64;
        for part in parts {
            if part.start != at {
                return Err(self.corrupt(at, "bytes that belong to no part of the file"));
            }
            at = part.end;
        }
        if at != self.catalog_offset() {
            return Err(self.corrupt(at, "bytes that belong to no part of the file"));
        }
        Ok(())
    }
}
