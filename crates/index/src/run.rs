//! Runs: immutable files with some documents and entries, sorted.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use millrace_env::filter::{KeyHash, may_contain};
use millrace_env::{Disk, ReadFile};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::block::{BlockPosition, RunBytes};
use crate::cache::{BlockCache, BlockKey};
use crate::parcel::{self, PARCEL_BYTES, ParcelSums};
use crate::record::{DocumentRecord, read_bytes, read_number, write_bytes, write_number};

/// First bytes of a run.
pub(crate) const MAGIC: &[u8; 8] = b"MRINDEX1";

/// Length of the trailer: eight numbers, a checksum, the magic bytes again.
const TRAILER: u64 = 8 * 8 + 8 + 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunSection {
    Documents,
    Entries,
}

/// Use of the cache by the reader of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockCaching {
    /// A block that is read stays in the cache.
    Keep,
    /// Blocks that are not in the cache are read past it.
    Bypass,
}

/// Figures of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunCatalog {
    /// Hash of the definition of the index.
    pub definition: u64,
    pub documents: u64,
    /// Entries that are there, and marks of entries that have gone.
    pub live: u64,
    pub gone: u64,
    /// Lowest and highest time of a record.
    pub oldest: u64,
    pub newest: u64,
}

/// Places of the blocks and pages of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RunFence {
    pub documents: Vec<RunPart>,
    pub entries: Vec<RunPart>,
    /// Filter pages: offset and length.
    pub pages: Vec<(u64, u64)>,
}

/// Place of a block in the file, in bytes, with its first key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RunPart {
    pub first: Vec<u8>,
    pub offset: u64,
    pub length: u64,
    /// Number of its filter page; not used for entries.
    pub page: u64,
}

impl RunCatalog {
    pub fn encode(&self, fence: u64, length: u64) -> Vec<u8> {
        let numbers =
            [self.definition, self.documents, self.live, self.gone, self.oldest, self.newest, fence, length];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    /// The catalog, and place and length of the fence.
    fn decode(trailer: &[u8]) -> Option<(Self, u64, u64)> {
        let (numbers, rest) = trailer.split_at_checked(64)?;
        let (checksum, magic) = rest.split_at_checked(8)?;
        if magic != MAGIC || checksum != xxh3_64(numbers).to_le_bytes() {
            return None;
        }
        let number = |at: usize| {
            let bytes = numbers[at * 8..].first_chunk::<8>().expect("64 bytes are eight numbers");
            u64::from_le_bytes(*bytes)
        };
        let catalog = RunCatalog {
            definition: number(0),
            documents: number(1),
            live: number(2),
            gone: number(3),
            oldest: number(4),
            newest: number(5),
        };
        Some((catalog, number(6), number(7)))
    }
}

impl RunFence {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for parts in [&self.documents, &self.entries] {
            write_number(parts.len() as u64, &mut bytes);
            for part in parts {
                write_bytes(&part.first, &mut bytes);
                [part.offset, part.length, part.page]
                    .iter()
                    .for_each(|number| write_number(*number, &mut bytes));
            }
        }
        write_number(self.pages.len() as u64, &mut bytes);
        for (offset, length) in &self.pages {
            write_number(*offset, &mut bytes);
            write_number(*length, &mut bytes);
        }
        bytes
    }

    /// Reads a fence of a file whose blocks end at `end`.
    pub fn decode(mut bytes: &[u8], end: u64) -> Option<Self> {
        let bytes = &mut bytes;
        let mut fence =
            RunFence { documents: parts(bytes, end)?, entries: parts(bytes, end)?, pages: Vec::new() };
        for _ in 0..read_number(bytes)? {
            fence.pages.push(place(bytes, end)?);
        }
        let pages = fence.pages.len() as u64;
        let is_sound = bytes.is_empty() && fence.documents.iter().all(|part| part.page < pages);
        is_sound.then_some(fence)
    }
}

fn parts(bytes: &mut &[u8], end: u64) -> Option<Vec<RunPart>> {
    let mut parts: Vec<RunPart> = Vec::new();
    for _ in 0..read_number(bytes)? {
        let first = read_bytes(bytes)?.to_vec();
        let ((offset, length), page) = (place(bytes, end)?, read_number(bytes)?);
        if parts.last().is_some_and(|last| last.first >= first) {
            return None;
        }
        parts.push(RunPart { first, offset, length, page });
    }
    Some(parts)
}

/// Place of a part with its checksum, inside of the file.
fn place(bytes: &mut &[u8], end: u64) -> Option<(u64, u64)> {
    let (offset, length) = (read_number(bytes)?, read_number(bytes)?);
    let after = offset.checked_add(length)?.checked_add(8)?;
    (after <= end).then_some((offset, length))
}

/// A run that is read.
pub(crate) struct IndexRun {
    pub path: PathBuf,
    pub bytes: u64,
    pub catalog: RunCatalog,
    file: Arc<dyn ReadFile>,
    fence: RunFence,
    /// Place of the fence in the file.
    fence_offset: u64,
    cache: Arc<BlockCache>,
    /// Number in the cache.
    cached: u64,
    /// Checksums of its parcels of the usual length, once they are known.
    sums: OnceLock<Vec<u64>>,
}

/// Bytes that are announced to the disk together where all of a run are read.
const AHEAD_BYTES: u64 = 1 << 20;

impl IndexRun {
    /// Opens a run, and checks its ends.
    pub fn open(disk: &dyn Disk, path: &Path, cache: &Arc<BlockCache>) -> Result<Self, Error> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::damaged(path, "it is missing"),
            _ => Error::io("open", path, &error),
        };
        let file = disk.open(path).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        let mut run = IndexRun {
            path: path.to_owned(),
            bytes,
            catalog: RunCatalog::default(),
            file,
            fence: RunFence::default(),
            fence_offset: 0,
            cache: Arc::clone(cache),
            cached: cache.number(),
            sums: OnceLock::new(),
        };
        let start = bytes.checked_sub(TRAILER).ok_or_else(|| Error::damaged(path, "it is too short"))?;
        let trailer = run.read(start, TRAILER)?;
        let (catalog, offset, length) =
            RunCatalog::decode(&trailer).ok_or_else(|| Error::damaged(path, "its trailer"))?;
        let is_before = offset.checked_add(length).and_then(|end| end.checked_add(8)) == Some(start);
        let fence = if is_before { run.checked(offset, length)? } else { Vec::new() };
        run.fence = RunFence::decode(&fence, offset).ok_or_else(|| Error::damaged(path, "its fence"))?;
        (run.catalog, run.fence_offset) = (catalog, offset);
        Ok(run)
    }

    /// [`IndexRun::open`] for a run that was just written, with the checksums of its parcels.
    pub fn open_written(
        disk: &dyn Disk,
        path: &Path,
        cache: &Arc<BlockCache>,
        sums: Vec<u64>,
    ) -> Result<Self, Error> {
        Ok(IndexRun { sums: OnceLock::from(sums), ..IndexRun::open(disk, path, cache)? })
    }

    /// Checksums of its parcels of this length. If they are not known from when the run was written, every
    /// byte is read and checked: the checksums of parcels would hide earlier damage.
    pub fn parcel_sums(&self, parcel_bytes: u64) -> Result<Vec<u64>, Error> {
        if parcel_bytes == PARCEL_BYTES
            && let Some(known) = self.sums.get()
        {
            return Ok(known.clone());
        }
        let mut sums = ParcelSums::new(parcel_bytes);
        self.read_all(&mut |bytes| sums.add(bytes))?;
        let sums = sums.finish();
        if parcel_bytes == PARCEL_BYTES {
            // Another thread may have set the same ones.
            let _ = self.sums.set(sums.clone());
        }
        Ok(sums)
    }

    /// Reads some of its bytes, as they are in the file.
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let length = usize::try_from(length).map_err(|_| Error::damaged(&self.path, "its lengths"))?;
        let mut bytes = Vec::with_capacity(length);
        self.file
            .read_onto(offset, length, &mut bytes)
            .map_err(|error| Error::io("read", &self.path, &error))?;
        Ok(bytes)
    }

    /// Reads a part and its checksum, and checks it.
    fn with_checksum(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let bytes = self.read(offset, length + 8)?;
        match parcel::checked(&bytes) {
            Some(_) => Ok(bytes),
            None => Err(Error::damaged(&self.path, "a checksum differs")),
        }
    }

    /// Reads a part without its checksum, and checks it.
    fn checked(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = self.with_checksum(offset, length)?;
        bytes.truncate(length as usize);
        Ok(bytes)
    }

    /// A part, from the cache if it was read lately.
    fn part(&self, (offset, length): (u64, u64)) -> Result<Arc<RunBytes>, Error> {
        let key = BlockKey { run: self.cached, offset };
        if let Some(part) = self.cache.get(key) {
            return Ok(part);
        }
        let part = Arc::new(RunBytes::plain(self.checked(offset, length)?));
        self.cache.insert(key, Arc::clone(&part));
        Ok(part)
    }

    pub fn parts(&self, section: RunSection) -> &[RunPart] {
        match section {
            RunSection::Documents => &self.fence.documents,
            RunSection::Entries => &self.fence.entries,
        }
    }

    /// Number of records of a section.
    pub fn records(&self, section: RunSection) -> usize {
        let records = match section {
            RunSection::Documents => self.catalog.documents,
            RunSection::Entries => self.catalog.live.saturating_add(self.catalog.gone),
        };
        usize::try_from(records).unwrap_or(usize::MAX)
    }

    /// A block of a section.
    pub fn block(
        &self,
        section: RunSection,
        number: usize,
        caching: BlockCaching,
    ) -> Result<Arc<RunBytes>, Error> {
        let RunPart { offset, length, .. } = self.parts(section)[number];
        match caching {
            BlockCaching::Keep => self.part((offset, length)),
            BlockCaching::Bypass => Ok(Arc::new(RunBytes::plain(self.checked(offset, length)?))),
        }
    }

    /// A block of a section, if it is in the cache.
    pub fn cached_block(&self, section: RunSection, number: usize) -> Option<Arc<RunBytes>> {
        let offset = self.parts(section)[number].offset;
        self.cache.get(BlockKey { run: self.cached, offset })
    }

    /// A block of a section that is about to be sought in, if it is in the cache. It gets its seek places
    /// there when it is sought in for the second time: most blocks of long scans never are.
    pub fn sought_block(&self, section: RunSection, number: usize) -> Option<Arc<RunBytes>> {
        let known = self.cached_block(section, number)?;
        if known.is_seekable() {
            return Some(known);
        }
        let block = Arc::new(RunBytes::seekable(known.bytes().to_vec()));
        let offset = self.parts(section)[number].offset;
        self.cache.insert(BlockKey { run: self.cached, offset }, Arc::clone(&block));
        Some(block)
    }

    /// Announces blocks of a section, at least one, that are about to be read, so that the disk fetches them
    /// in parallel.
    pub fn will_read(&self, section: RunSection, blocks: Range<usize>) {
        let parts = &self.parts(section)[blocks];
        if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
            self.file.will_need(first.offset, last.offset + last.length + 8 - first.offset);
        }
    }

    /// Number of the block of a section that has a key, if any has.
    pub fn block_of(&self, section: RunSection, key: &[u8]) -> Option<usize> {
        self.parts(section).partition_point(|part| &part.first[..] <= key).checked_sub(1)
    }

    /// Record of a document; `None` if the run has none.
    pub fn document(&self, key: &[u8], hash: KeyHash) -> Result<Option<DocumentRecord>, Error> {
        let Some(number) = self.block_of(RunSection::Documents, key) else { return Ok(None) };
        let page = self.fence.pages[self.fence.documents[number].page as usize];
        if !may_contain(self.part(page)?.bytes(), hash) {
            return Ok(None);
        }
        let block = match self.sought_block(RunSection::Documents, number) {
            Some(block) => block,
            None => self.block(RunSection::Documents, number, BlockCaching::Keep)?,
        };
        let mut position = BlockPosition::default();
        let malformed = || Error::damaged(&self.path, "a block");
        let value = position.seek(&block, key).map_err(|_| malformed())?;
        match value.filter(|_| position.key == key) {
            Some(value) => DocumentRecord::read(value).map(Some).ok_or_else(malformed),
            None => Ok(None),
        }
    }

    /// Reads every byte, and checks it.
    pub fn check(&self) -> Result<(), Error> {
        self.read_all(&mut |_| ())
    }

    /// Calls `each` with all bytes in their order, once they are checked.
    fn read_all(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let first = self.read(0, MAGIC.len() as u64)?;
        if first != MAGIC {
            return Err(Error::damaged(&self.path, "its first bytes"));
        }
        each(&first);
        let start = self.bytes - TRAILER;
        let fence = (self.fence_offset, start - 8 - self.fence_offset);
        let mut announced = 0;
        for (offset, length) in self.places()?.into_iter().chain([fence]) {
            while announced < self.bytes.min(offset + AHEAD_BYTES) {
                self.file.will_need(announced, AHEAD_BYTES);
                announced += AHEAD_BYTES;
            }
            each(&self.with_checksum(offset, length)?);
        }
        let trailer = self.read(start, TRAILER)?;
        if RunCatalog::decode(&trailer).is_none() {
            return Err(Error::damaged(&self.path, "its trailer"));
        }
        each(&trailer);
        Ok(())
    }

    /// Offset and length of each block and page, in their order. Every byte between the first ones and the
    /// fence is of one of them.
    pub fn places(&self) -> Result<Vec<(u64, u64)>, Error> {
        let blocks = self.fence.documents.iter().chain(&self.fence.entries);
        let mut places: Vec<(u64, u64)> = blocks.map(|part| (part.offset, part.length)).collect();
        places.extend_from_slice(&self.fence.pages);
        places.sort_unstable();
        let mut end = MAGIC.len() as u64;
        for (offset, length) in &places {
            if *offset != end {
                return Err(Error::damaged(&self.path, "its fence"));
            }
            end = offset + length + 8;
        }
        match end == self.fence_offset {
            true => Ok(places),
            false => Err(Error::damaged(&self.path, "its fence")),
        }
    }
}
