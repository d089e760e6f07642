//! Writing of runs.

use std::path::Path;

use millrace_env::filter::{self, KeyHash, PAGE_KEYS};
use millrace_env::{AppendFile, Disk, sync_name};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::block::{BLOCK_BYTES, BlockBuilder};
use crate::parcel::{PARCEL_BYTES, ParcelSums};
use crate::record::{self, DocumentRecord, EntryRecord};
use crate::run::{MAGIC, RunCatalog, RunFence, RunPart, RunSection};

/// Writer of a run: first its documents, then its entries, each in the order of keys. Dropping one that is
/// not finished removes its file, so that its space is free again.
pub(crate) struct RunWriter<'a> {
    path: &'a Path,
    disk: &'a dyn Disk,
    file: Box<dyn AppendFile>,
    offset: u64,
    block: BlockBuilder,
    section: RunSection,
    hashes: Vec<KeyHash>,
    fence: RunFence,
    catalog: RunCatalog,
    value: Vec<u8>,
    sums: ParcelSums,
    is_finished: bool,
}

impl<'a> RunWriter<'a> {
    pub fn create(disk: &'a dyn Disk, path: &'a Path, definition: u64) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::io("create", path, &error);
        let mut sums = ParcelSums::new(PARCEL_BYTES);
        sums.add(MAGIC);
        let mut writer = RunWriter {
            path,
            disk,
            file: disk.create(path).map_err(failed)?,
            offset: MAGIC.len() as u64,
            block: BlockBuilder::default(),
            section: RunSection::Documents,
            hashes: Vec::new(),
            fence: RunFence::default(),
            catalog: RunCatalog { definition, oldest: u64::MAX, ..RunCatalog::default() },
            value: Vec::new(),
            sums,
            is_finished: false,
        };
        writer.file.append(MAGIC).map_err(failed)?;
        Ok(writer)
    }

    pub fn document(&mut self, key: &[u8], record: &DocumentRecord) -> Result<(), Error> {
        self.document_of(key, record.timestamp, record.keys.iter().map(Vec::as_slice))
    }

    /// [`RunWriter::document`] for a record in parts.
    pub fn document_of<'k>(
        &mut self,
        key: &[u8],
        timestamp: u64,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(), Error> {
        assert!(self.section == RunSection::Documents, "a run has its documents before its entries");
        self.catalog.documents += 1;
        self.saw(timestamp);
        self.value.clear();
        record::write_document(timestamp, keys, &mut self.value);
        self.block.add(key, &self.value);
        self.hashes.push(KeyHash::of(key));
        if self.block.bytes.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        if self.hashes.len() >= PAGE_KEYS {
            self.end_page()?;
        }
        Ok(())
    }

    pub fn entry(&mut self, key: &[u8], record: &EntryRecord) -> Result<(), Error> {
        if self.section == RunSection::Documents {
            self.end_page()?;
            self.section = RunSection::Entries;
        }
        match record.live {
            true => self.catalog.live += 1,
            false => self.catalog.gone += 1,
        }
        self.saw(record.timestamp);
        self.value.clear();
        record.write(&mut self.value);
        self.block.add(key, &self.value);
        if self.block.bytes.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn saw(&mut self, timestamp: u64) {
        self.catalog.oldest = self.catalog.oldest.min(timestamp);
        self.catalog.newest = self.catalog.newest.max(timestamp);
    }

    fn end_block(&mut self) -> Result<(), Error> {
        if self.block.bytes.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.block.bytes);
        let first = std::mem::take(&mut self.block.first);
        let (offset, length) = self.append(&mut bytes)?;
        // The next block takes the same memory.
        bytes.clear();
        self.block.bytes = bytes;
        let page = self.fence.pages.len() as u64;
        let part = RunPart { first, offset, length, page };
        match self.section {
            RunSection::Documents => self.fence.documents.push(part),
            RunSection::Entries => self.fence.entries.push(part),
        }
        Ok(())
    }

    /// Ends a page of documents, with its block.
    fn end_page(&mut self) -> Result<(), Error> {
        self.end_block()?;
        if self.hashes.is_empty() {
            return Ok(());
        }
        let mut filter = filter::build(&self.hashes);
        self.hashes.clear();
        let (offset, length) = self.append(&mut filter)?;
        self.fence.pages.push((offset, length));
        Ok(())
    }

    /// Appends bytes to the file, with their checksum, which it adds to them. Returns their place without it.
    fn append(&mut self, bytes: &mut Vec<u8>) -> Result<(u64, u64), Error> {
        let (offset, length) = (self.offset, bytes.len() as u64);
        let checksum = xxh3_64(bytes).to_le_bytes();
        bytes.extend_from_slice(&checksum);
        self.file.append(bytes).map_err(|error| Error::io("write", self.path, &error))?;
        self.sums.add(bytes);
        self.offset += bytes.len() as u64;
        Ok((offset, length))
    }

    /// Completes the run, durably. Returns the checksums of its parcels of the usual length.
    pub fn finish(mut self) -> Result<Vec<u64>, Error> {
        match self.section {
            RunSection::Documents => self.end_page()?,
            RunSection::Entries => self.end_block()?,
        }
        let mut fence = self.fence.encode();
        let (offset, length) = self.append(&mut fence)?;
        let trailer = self.catalog.encode(offset, length);
        let failed = |error: std::io::Error| Error::io("write", self.path, &error);
        self.file.append(&trailer).map_err(failed)?;
        self.sums.add(&trailer);
        self.file.sync().map_err(failed)?;
        sync_name(self.disk, self.path).map_err(failed)?;
        self.is_finished = true;
        Ok(std::mem::replace(&mut self.sums, ParcelSums::new(PARCEL_BYTES)).finish())
    }
}

impl Drop for RunWriter<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error that ended it is reported; what stays is removed at the next opening.
            let _ = self.disk.unlink(self.path);
        }
    }
}
