use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_column::{AlignedBuffer, Column, ColumnKey, plain_bytes};
use millrace_env::{Disk, ReadFile};
use xxhash_rust::xxh3::xxh3_64;

use crate::cache::{CacheEntry, CacheKey, CachedPart};
use crate::chunk::RowLayout;
use crate::format::{BLOCK, FileTrailer, SegmentFormat, header};
use crate::groups::{FENCE_BYTES, FencePage, decode_page, page_before};
use crate::{ChunkInfo, Error, GroupEntry, SegmentCache, TypeSection, catalog};

/// An open segment file. Dropping it closes the file, which may have been unlinked by then.
pub struct SegmentFile {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    number: u64,
    bytes: u64,
    format: SegmentFormat,
    catalog_offset: u64,
    cache: Arc<SegmentCache>,
    sections: Vec<TypeSection>,
}

/// Bytes of the beginning of a column that say how long it is when it is not compressed.
const HEAD_BYTES: usize = 12;
/// Maximum number of chunks of a column in one read.
const READ_CHUNKS: usize = 256;

impl SegmentFile {
    /// Opens a file. `number` identifies it in the cache, so it must be unique among all segments that ever
    /// use the cache.
    ///
    /// # Errors
    /// It cannot be read, or header, trailer or catalog are damaged. Other parts are checked when they are
    /// read.
    pub fn open(disk: &dyn Disk, path: &Path, number: u64, cache: Arc<SegmentCache>) -> Result<Self, Error> {
        let noting = Arc::clone(&cache);
        SegmentFile::read_parts(disk, path, number, cache).inspect_err(|error| noting.note(number, error))
    }

    fn read_parts(
        disk: &dyn Disk,
        path: &Path,
        number: u64,
        cache: Arc<SegmentCache>,
    ) -> Result<Self, Error> {
        let file = disk.open(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corrupt(path, 0, "the file is not there"),
            _ => Error::Io(error),
        })?;
        let bytes = file.len()?;
        if bytes < 2 * BLOCK as u64 {
            return Err(Error::corrupt(
                path,
                0,
                "the file is shorter than a segment can be; it may have been cut",
            ));
        }
        let mut first = [0; BLOCK];
        let mut last = [0; BLOCK];
        file.read_at(0, &mut [&mut first])?;
        file.read_at(bytes - BLOCK as u64, &mut [&mut last])?;
        let version = u32::from_le_bytes([first[8], first[9], first[10], first[11]]);
        let newest = SegmentFormat::NEWEST;
        if first[..8] == header(newest)[..8] && version > newest.version() && first[8..12] == last[8..12] {
            return Err(Error::Version { path: path.to_owned(), version });
        }
        let format = SegmentFormat::of_version(version).filter(|format| first == header(*format));
        let format =
            format.ok_or_else(|| Error::corrupt(path, 0, "the file does not begin as a segment does"))?;
        let trailer_at = bytes - BLOCK as u64;
        let trailer =
            FileTrailer::decode(&last).map_err(|reason| Error::corrupt(path, trailer_at, reason))?;
        if trailer.format != format {
            return Err(Error::corrupt(path, trailer_at, "the trailer has another version than the header"));
        }
        if trailer.catalog_offset.checked_add(trailer.catalog_length) != Some(trailer_at) {
            return Err(Error::corrupt(path, trailer_at, "the file is not as long as its trailer says"));
        }
        let catalog = AlignedBuffer::fill_with(trailer.catalog_length as usize, |bytes| {
            file.read_at(trailer.catalog_offset, &mut [bytes])
        })?;
        if xxh3_64(&catalog) != trailer.catalog_checksum {
            return Err(Error::corrupt(
                path,
                trailer.catalog_offset,
                "the catalog does not fit its checksum",
            ));
        }
        let sections = catalog::decode(&catalog, format)
            .ok_or_else(|| Error::corrupt(path, trailer.catalog_offset, "the catalog is not one"))?;
        let catalog_offset = trailer.catalog_offset;
        Ok(SegmentFile {
            file,
            path: path.to_owned(),
            number,
            bytes,
            format,
            catalog_offset,
            cache,
            sections,
        })
    }

    /// Its number, which identifies it in the cache.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Version of its format.
    pub fn format(&self) -> SegmentFormat {
        self.format
    }

    /// Contents by document type, sorted.
    pub fn sections(&self) -> &[TypeSection] {
        &self.sections
    }

    /// Lowest timestamp of a version in it.
    pub fn oldest(&self) -> u64 {
        self.sections.iter().map(|section| section.oldest).min().unwrap_or(u64::MAX)
    }

    /// Highest timestamp of a version in it.
    pub fn newest(&self) -> u64 {
        self.sections.iter().map(|section| section.newest).max().unwrap_or(0)
    }

    /// Index of the section of a document type.
    pub fn section(&self, document_type: &str) -> Option<usize> {
        self.sections.binary_search_by(|section| section.document_type.as_str().cmp(document_type)).ok()
    }

    /// Returns the entry of a group. For documents without a group, which can have several entries, use
    /// [`SegmentFile::groups`].
    ///
    /// # Errors
    /// The directory cannot be read or is damaged.
    pub fn group(&self, section: usize, location: u32, group: &str) -> Result<Option<GroupEntry>, Error> {
        let mut found = None;
        self.groups(section, location, |entry| {
            if entry.is_before(location, group) {
                return true;
            }
            if entry.location == location && entry.group == group {
                found = Some(entry);
            }
            false
        })?;
        Ok(found)
    }

    /// Calls `visit` with the entries of the directory in order, until it returns `false`. The first is the
    /// last one that begins before `location`, if there is one: documents without a group may extend past it.
    ///
    /// # Errors
    /// The directory cannot be read or is damaged.
    pub fn groups(
        &self,
        section: usize,
        location: u32,
        mut visit: impl FnMut(GroupEntry) -> bool,
    ) -> Result<(), Error> {
        let fences = self.fences(section)?;
        let pages = fences.len() / FENCE_BYTES;
        let mut before = None;
        for page in page_before(&fences, location)..pages {
            let fence = FencePage::at(&fences, page);
            let bytes = self.page(
                section,
                CachedPart::GroupPage(page as u32),
                fence.offset,
                fence.length,
                fence.checksum,
            )?;
            let entries = decode_page(&bytes)
                .ok_or_else(|| self.corrupt(fence.offset, "a page of the group directory is not one"))?;
            for entry in entries {
                if entry.location < location {
                    before = Some(entry);
                    continue;
                }
                if let Some(before) = before.take()
                    && !visit(before)
                {
                    return Ok(());
                }
                if !visit(entry) {
                    return Ok(());
                }
            }
        }
        if let Some(before) = before {
            visit(before);
        }
        Ok(())
    }

    /// Contents of the chunks in `range`.
    ///
    /// # Errors
    /// The directory cannot be read or is damaged.
    pub fn chunks(&self, section: usize, range: Range<u32>) -> Result<Vec<ChunkInfo>, Error> {
        let mut chunks = Vec::with_capacity(range.len());
        self.rows(section, range, |row| chunks.push(RowLayout::info(row)))?;
        Ok(chunks)
    }

    /// Returns a column of the chunks in `range`, one entry per chunk; `None` if a chunk lacks it. Adjacent
    /// pieces are read together, and stay in the cache.
    ///
    /// # Errors
    /// It cannot be read or is damaged.
    pub fn columns(
        &self,
        section: usize,
        key: &ColumnKey,
        range: Range<u32>,
    ) -> Result<Vec<Option<Column>>, Error> {
        let mut found = Vec::with_capacity(range.len());
        while found.len() < range.len() {
            let first = self.first_columns(section, key, range.start + found.len() as u32..range.end)?;
            if first.is_empty() {
                return Err(self.lacks_chunks(section));
            }
            found.extend(first);
        }
        Ok(found)
    }

    /// Like [`SegmentFile::columns`], for as many of the first chunks as are available at once, at least one:
    /// those in the cache, or those of one read. For columns that are used piece by piece, while they are in
    /// the processor's cache.
    ///
    /// # Errors
    /// It cannot be read or is damaged.
    pub fn first_columns(
        &self,
        section: usize,
        key: &ColumnKey,
        range: Range<u32>,
    ) -> Result<Vec<Option<Column>>, Error> {
        let Some(column) = self.sections[section].column(key) else { return Ok(vec![None; range.len()]) };
        let found: Vec<Option<Column>> =
            range.clone().map_while(|chunk| self.cached(section, column, chunk)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        // The first is missing, even if another thread has read it since.
        let others = range.clone().skip(1).take_while(|chunk| self.cached(section, column, *chunk).is_none());
        let last = range.end.min(range.start + 1 + others.take(READ_CHUNKS - 1).count() as u32);
        let missing = range.start..last;
        self.read_into_cache(section, column, missing)
    }

    /// The column with this index in [`TypeSection::columns`], of one chunk; `None` if the chunk lacks it. It
    /// stays in the cache.
    ///
    /// # Errors
    /// It cannot be read or is damaged.
    pub fn column_at(&self, section: usize, column: usize, chunk: u32) -> Result<Option<Column>, Error> {
        if let Some(found) = self.cached(section, column, chunk) {
            return Ok(found);
        }
        let mut read = self.read_into_cache(section, column, chunk..chunk + 1)?;
        read.pop().ok_or_else(|| self.lacks_chunks(section))
    }

    /// Reads a column of the first of these chunks, as many as one read fetches, into the cache.
    fn read_into_cache(
        &self,
        section: usize,
        column: usize,
        chunks: Range<u32>,
    ) -> Result<Vec<Option<Column>>, Error> {
        let read = self.read_first_columns(section, column, chunks.clone())?;
        for (chunk, column_of) in chunks.zip(&read) {
            let name = self.key(section, CachedPart::Column { column: column as u32, chunk });
            self.cache.insert(name, CacheEntry::Column(column_of.clone()));
        }
        Ok(read)
    }

    /// Error of a chunk that the directory does not have.
    fn lacks_chunks(&self, section: usize) -> Error {
        let offset = self.sections[section].rows_offset;
        self.corrupt(offset, "the chunk directory has fewer chunks than groups name")
    }

    /// A column of a chunk, if it is in the cache; the inner `None` means that the chunk lacks it.
    pub(crate) fn cached(&self, section: usize, column: usize, chunk: u32) -> Option<Option<Column>> {
        match self.cache.get(&self.key(section, CachedPart::Column { column: column as u32, chunk })) {
            Some(CacheEntry::Column(column)) => Some(column),
            _ => None,
        }
    }

    /// Like [`SegmentFile::columns`], for background work: it does not displace entries of the cache.
    ///
    /// # Errors
    /// It cannot be read or is damaged.
    pub fn columns_uncached(
        &self,
        section: usize,
        key: &ColumnKey,
        range: Range<u32>,
    ) -> Result<Vec<Option<Column>>, Error> {
        match self.sections[section].column(key) {
            Some(column) => self.read_columns(section, column, range),
            None => Ok(vec![None; range.len()]),
        }
    }

    /// Like [`SegmentFile::columns_uncached`], for as many of the first chunks as take `bytes` bytes in the
    /// file together, at least one.
    ///
    /// # Errors
    /// It cannot be read or is damaged.
    pub fn columns_within(
        &self,
        section: usize,
        key: &ColumnKey,
        range: Range<u32>,
        bytes: u64,
    ) -> Result<Vec<Option<Column>>, Error> {
        match self.sections[section].column(key) {
            Some(column) => self.read_columns_within(section, column, range, bytes),
            None => Ok(vec![None; range.len()]),
        }
    }

    /// Total bytes of all columns of a chunk, as they are in memory. Reads the beginning of each column that
    /// may be compressed.
    ///
    /// # Errors
    /// The directory or a column cannot be read or is damaged.
    pub fn chunk_bytes(&self, section: usize, chunk: u32) -> Result<u64, Error> {
        let columns = self.sections[section].columns.len();
        let mut extents = Vec::new();
        self.rows(section, chunk..chunk + 1, |row| {
            extents = (0..columns).map(|column| RowLayout::extent(row, column)).collect();
        })?;
        let mut bytes = 0;
        for extent in extents {
            let compressed = self.format >= SegmentFormat::Compressed && extent.length as usize > HEAD_BYTES;
            let plain = if compressed { plain_bytes(&self.read(extent.offset, HEAD_BYTES)?) } else { None };
            bytes += plain.unwrap_or(extent.length.into());
        }
        Ok(bytes)
    }

    /// Bytes in the file of each column of a section, in all chunks.
    ///
    /// # Errors
    /// The directory cannot be read or is damaged.
    pub fn column_bytes(&self, section: usize) -> Result<Vec<u64>, Error> {
        let catalog = &self.sections[section];
        let mut bytes = vec![0; catalog.columns.len()];
        self.rows(section, 0..catalog.chunks, |row| {
            for (column, bytes) in bytes.iter_mut().enumerate() {
                *bytes += RowLayout::extent(row, column).padded_length();
            }
        })?;
        Ok(bytes)
    }

    /// Announces that these bytes will be read soon.
    pub(crate) fn will_need(&self, offset: u64, length: u64) {
        self.file.will_need(offset, length);
    }

    /// Fills consecutive slices with the bytes at an offset.
    pub(crate) fn read_into(&self, offset: u64, slices: &mut [&mut [u8]]) -> Result<(), Error> {
        Ok(self.file.read_at(offset, slices)?)
    }

    /// Appends the bytes at an offset to a vector.
    pub(crate) fn read_onto(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        Ok(self.file.read_onto(offset, length, bytes)?)
    }

    /// Calls `visit` with the rows of the chunk directory in `range`.
    pub(crate) fn rows(
        &self,
        section: usize,
        range: Range<u32>,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let catalog = &self.sections[section];
        let layout = catalog.rows();
        let mut chunk = range.start;
        while chunk < range.end.min(catalog.chunks) {
            let number = chunk / layout.rows_per_page();
            let page = self.chunk_page(section, number)?;
            let end = range.end.min(catalog.chunks).min((number + 1) * layout.rows_per_page());
            (chunk..end).for_each(|chunk| visit(layout.row(&page, chunk)));
            chunk = end;
        }
        Ok(())
    }

    fn chunk_page(&self, section: usize, page: u32) -> Result<AlignedBuffer, Error> {
        let catalog = &self.sections[section];
        let (at, length) = catalog.rows().page(page, catalog.chunks);
        let damage = "a page of the chunk directory does not fit its checksum";
        self.summed_page(section, CachedPart::ChunkPage(page), catalog.rows_offset + at, length, damage)
    }

    /// A page that ends with its checksum, which stays in the cache.
    pub(crate) fn summed_page(
        &self,
        section: usize,
        part: CachedPart,
        offset: u64,
        length: usize,
        damage: &'static str,
    ) -> Result<AlignedBuffer, Error> {
        let key = self.key(section, part);
        if let Some(CacheEntry::Page(page)) = self.cache.get(&key) {
            return Ok(page);
        }
        let page = self.read_summed(offset, length, damage)?;
        self.cache.insert(key, CacheEntry::Page(page.clone()));
        Ok(page)
    }

    /// Reads a page that ends with its checksum.
    pub(crate) fn read_summed(
        &self,
        offset: u64,
        length: usize,
        damage: &'static str,
    ) -> Result<AlignedBuffer, Error> {
        let page = self.read(offset, length)?;
        let (content, checksum) = page.split_at(length - 8);
        if checksum != xxh3_64(content).to_le_bytes() {
            return Err(self.corrupt(offset, damage));
        }
        Ok(page)
    }

    pub(crate) fn fences(&self, section: usize) -> Result<AlignedBuffer, Error> {
        let catalog = &self.sections[section];
        self.page(
            section,
            CachedPart::Fence,
            catalog.fence_offset,
            catalog.fence_length,
            catalog.fence_checksum,
        )
    }

    fn page(
        &self,
        section: usize,
        part: CachedPart,
        offset: u64,
        length: u32,
        checksum: u64,
    ) -> Result<AlignedBuffer, Error> {
        let key = self.key(section, part);
        if let Some(CacheEntry::Page(page)) = self.cache.get(&key) {
            return Ok(page);
        }
        let page = self.read(offset, length as usize)?;
        if xxh3_64(&page) != checksum {
            return Err(self.corrupt(offset, "a page of the group directory does not fit its checksum"));
        }
        self.cache.insert(key, CacheEntry::Page(page.clone()));
        Ok(page)
    }

    /// Reads bytes of the file. The length comes from a checked part, so it does not exceed the file.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<AlignedBuffer, Error> {
        if offset.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(self.corrupt(offset, "a part lies past the end of the file"));
        }
        Ok(AlignedBuffer::fill_with(length, |bytes| self.file.read_at(offset, &mut [bytes]))?)
    }

    pub(crate) fn catalog_offset(&self) -> u64 {
        self.catalog_offset
    }

    fn key(&self, section: usize, part: CachedPart) -> CacheKey {
        CacheKey { segment: self.number, section: section as u32, part }
    }

    /// The error of damage in the file, which is noted.
    pub(crate) fn corrupt(&self, offset: u64, reason: &'static str) -> Error {
        let error = Error::corrupt(&self.path, offset, reason);
        self.cache.note(self.number, &error);
        error
    }
}

impl fmt::Debug for SegmentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({})", self.path.display())
    }
}
