//! Passes over a section of several sources, in the order of keys.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::Error;
use crate::ahead::BlocksAhead;
use crate::block::{BlockPosition, RunBytes};
use crate::loading::LoadedRows;
use crate::memory::MemoryTable;
use crate::record::{DocumentRecord, EntryRecord};
use crate::run::{BlockCaching, IndexRun, RunSection};

/// A value of a section.
pub(crate) trait SectionRecord: Clone {
    const SECTION: RunSection;

    fn decode(bytes: &[u8]) -> Option<Self>;

    /// The section of a table in memory.
    fn of_table(table: &MemoryTable) -> &BTreeMap<Vec<u8>, Self>;

    /// A pass over the section of rows of a load, from a key on.
    fn loaded<'a>(rows: &'a LoadedRows, from: &[u8]) -> Box<dyn SectionCursor<Self> + 'a>;
}

impl SectionRecord for DocumentRecord {
    const SECTION: RunSection = RunSection::Documents;

    fn decode(bytes: &[u8]) -> Option<Self> {
        DocumentRecord::read(bytes)
    }

    fn of_table(table: &MemoryTable) -> &BTreeMap<Vec<u8>, Self> {
        &table.documents
    }

    fn loaded<'a>(rows: &'a LoadedRows, from: &[u8]) -> Box<dyn SectionCursor<Self> + 'a> {
        Box::new(LoadedDocuments::new(rows, from))
    }
}

impl SectionRecord for EntryRecord {
    const SECTION: RunSection = RunSection::Entries;

    fn decode(bytes: &[u8]) -> Option<Self> {
        EntryRecord::read(bytes)
    }

    fn of_table(table: &MemoryTable) -> &BTreeMap<Vec<u8>, Self> {
        &table.entries
    }

    fn loaded<'a>(rows: &'a LoadedRows, from: &[u8]) -> Box<dyn SectionCursor<Self> + 'a> {
        Box::new(LoadedEntries::new(rows, from))
    }
}

/// Pass over one source; `current` is its next record.
pub(crate) trait SectionCursor<R> {
    fn current(&self) -> Option<(&[u8], &R)>;

    fn advance(&mut self) -> Result<(), Error>;
}

/// Pass over records in memory.
struct MemoryCursor<'a, R> {
    rest: std::collections::btree_map::Range<'a, Vec<u8>, R>,
    current: Option<(&'a Vec<u8>, &'a R)>,
}

impl<R> SectionCursor<R> for MemoryCursor<'_, R> {
    fn current(&self) -> Option<(&[u8], &R)> {
        self.current.map(|(key, record)| (&key[..], record))
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.current = self.rest.next();
        Ok(())
    }
}

/// Pass over the documents of a load.
struct LoadedDocuments<'a> {
    rows: &'a LoadedRows,
    row: usize,
    record: Option<DocumentRecord>,
}

impl<'a> LoadedDocuments<'a> {
    fn new(rows: &'a LoadedRows, from: &[u8]) -> Self {
        let row = rows.row_from(from);
        let record = (row < rows.len()).then(|| rows.record(row));
        LoadedDocuments { rows, row, record }
    }
}

impl SectionCursor<DocumentRecord> for LoadedDocuments<'_> {
    fn current(&self) -> Option<(&[u8], &DocumentRecord)> {
        self.record.as_ref().map(|record| (self.rows.document(self.row), record))
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.row += 1;
        self.record = (self.row < self.rows.len()).then(|| self.rows.record(self.row));
        Ok(())
    }
}

/// Pass over the entries of a load. They are sorted for each pass: an index is read after its load.
struct LoadedEntries {
    rest: std::vec::IntoIter<(Vec<u8>, EntryRecord)>,
    current: Option<(Vec<u8>, EntryRecord)>,
}

impl LoadedEntries {
    fn new(rows: &LoadedRows, from: &[u8]) -> Self {
        let entries: Vec<_> = rows.sorted_entries().filter(|(key, _)| &key[..] >= from).collect();
        let mut rest = entries.into_iter();
        let current = rest.next();
        LoadedEntries { rest, current }
    }
}

impl SectionCursor<EntryRecord> for LoadedEntries {
    fn current(&self) -> Option<(&[u8], &EntryRecord)> {
        self.current.as_ref().map(|(key, record)| (&key[..], record))
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.current = self.rest.next();
        Ok(())
    }
}

/// Pass over a section of a run.
struct RunCursor<'a, R> {
    run: &'a IndexRun,
    block: Arc<RunBytes>,
    /// Number of the next block.
    next: usize,
    ahead: BlocksAhead<'a>,
    position: BlockPosition,
    record: Option<R>,
    caching: BlockCaching,
}

/// Bounds of a pass over a section, and its use of the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionPass<'k, 'a> {
    /// Key at which it begins.
    pub from: &'k [u8],
    /// Key before which it ends; `None`: at the end of the section.
    pub until: Option<&'a [u8]>,
    /// Number of records that it takes, about.
    pub wanted: usize,
    pub caching: BlockCaching,
}

impl<'k, 'a> SectionPass<'k, 'a> {
    /// A pass over all records between two keys, of which none stays in the cache.
    pub fn over_all(from: &'k [u8], until: Option<&'a [u8]>) -> Self {
        SectionPass { from, until, wanted: usize::MAX, caching: BlockCaching::Bypass }
    }
}

/// Pass over a section of a run whose first blocks are announced to the disk.
struct AnnouncedPass<'a> {
    run: &'a IndexRun,
    /// Number of the first block.
    first: usize,
    /// The first block, if it is in the cache: then nothing is announced yet.
    block: Option<Arc<RunBytes>>,
    ahead: BlocksAhead<'a>,
}

impl<'a> AnnouncedPass<'a> {
    /// Announces a pass that begins at a key; `None` if the section is empty.
    fn new<R: SectionRecord>(run: &'a IndexRun, pass: SectionPass<'_, 'a>) -> Option<Self> {
        let SectionPass { from, until, wanted, caching } = pass;
        let first = run.block_of(R::SECTION, from).unwrap_or(0);
        if first == run.parts(R::SECTION).len() {
            return None;
        }
        let block = match caching {
            BlockCaching::Keep => run.sought_block(R::SECTION, first),
            BlockCaching::Bypass => run.cached_block(R::SECTION, first),
        };
        let mut ahead = BlocksAhead::new(run, R::SECTION, first, until, wanted);
        if block.is_none() {
            ahead.announce(first);
        }
        Some(AnnouncedPass { run, first, block, ahead })
    }
}

impl<'a, R: SectionRecord> RunCursor<'a, R> {
    /// Begins an announced pass at its key; `None` if the run ends before it.
    fn new(announced: AnnouncedPass<'a>, from: &[u8], caching: BlockCaching) -> Result<Option<Self>, Error> {
        let AnnouncedPass { run, first, block, mut ahead } = announced;
        let block = match block {
            Some(block) => block,
            None => ahead.read(first, caching)?,
        };
        let position = BlockPosition::default();
        let mut cursor = RunCursor { run, block, next: first + 1, ahead, position, record: None, caching };
        let found = cursor.position.seek(&cursor.block, from).map_err(|_| cursor.malformed())?;
        match found {
            Some(value) => cursor.record = Some(R::decode(value).ok_or_else(|| cursor.malformed())?),
            None => cursor.advance()?,
        }
        Ok(cursor.record.is_some().then_some(cursor))
    }

    /// Goes to the start of the next block.
    fn open_next(&mut self) -> Result<(), Error> {
        self.block = self.ahead.read(self.next, self.caching)?;
        self.next += 1;
        self.position = BlockPosition::default();
        Ok(())
    }

    fn malformed(&self) -> Error {
        Error::damaged(&self.run.path, "a block")
    }
}

impl<R: SectionRecord> SectionCursor<R> for RunCursor<'_, R> {
    fn current(&self) -> Option<(&[u8], &R)> {
        self.record.as_ref().map(|record| (&self.position.key[..], record))
    }

    fn advance(&mut self) -> Result<(), Error> {
        loop {
            let read = self.position.next(&self.block);
            match read.map_err(|_| Error::damaged(&self.run.path, "a block"))? {
                Some(value) => {
                    self.record = Some(R::decode(value).ok_or_else(|| self.malformed())?);
                    return Ok(());
                }
                None if self.next == self.run.parts(R::SECTION).len() => {
                    self.record = None;
                    return Ok(());
                }
                None => self.open_next()?,
            }
        }
    }
}

/// Pass over several sources. Of records with one key it returns that of the newest source: a copy writes
/// none that the earlier records forbid.
pub(crate) struct RunMergeCursor<'a, R> {
    /// The newest source first; those that have ended are left out.
    sources: Vec<Box<dyn SectionCursor<R> + 'a>>,
}

impl<'a, R: SectionRecord + 'static> RunMergeCursor<'a, R> {
    /// Begins a pass. Runs are ordered from the oldest to the newest; the tables in memory, from the newest
    /// to the oldest, are newer than runs; rows of a load are older. The blocks of the records of the pass
    /// are announced, of all runs before one is read.
    pub fn new(
        tables: &[&'a BTreeMap<Vec<u8>, R>],
        runs: &'a [Arc<IndexRun>],
        loaded: &[&'a LoadedRows],
        pass: SectionPass<'_, 'a>,
    ) -> Result<Self, Error> {
        let SectionPass { from, caching, .. } = pass;
        let mut sources: Vec<Box<dyn SectionCursor<R> + 'a>> = Vec::with_capacity(tables.len() + runs.len());
        for table in tables {
            let mut rest = table.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
            let current = rest.next();
            sources.push(Box::new(MemoryCursor { rest, current }));
        }
        let announced = runs.iter().rev().map(|run| AnnouncedPass::new::<R>(run, pass));
        let announced: Vec<AnnouncedPass<'a>> = announced.flatten().collect();
        for announced in announced {
            if let Some(cursor) = RunCursor::<R>::new(announced, from, caching)? {
                sources.push(Box::new(cursor));
            }
        }
        sources.extend(loaded.iter().filter(|rows| !rows.is_empty()).map(|rows| R::loaded(rows, from)));
        sources.retain(|source| source.current().is_some());
        Ok(RunMergeCursor { sources })
    }

    /// Writes the next key to `key`, and returns its newest record; `None` at the end.
    pub fn next(&mut self, key: &mut Vec<u8>) -> Result<Option<R>, Error> {
        if let [source] = &mut self.sources[..] {
            // Nothing is to be merged.
            let Some((next, record)) = source.current() else { return Ok(None) };
            key.clear();
            key.extend_from_slice(next);
            let record = record.clone();
            source.advance()?;
            return Ok(Some(record));
        }
        let currents =
            self.sources.iter().enumerate().filter_map(|(at, source)| Some((source.current()?, at)));
        // Of equal keys the first, which is the newest.
        let Some(((lowest, record), first)) =
            currents.min_by(|((one, _), _), ((other, _), _)| one.cmp(other))
        else {
            return Ok(None);
        };
        key.clear();
        key.extend_from_slice(lowest);
        let newest = record.clone();
        let mut ended = false;
        for (at, source) in self.sources.iter_mut().enumerate().skip(first) {
            if at == first || source.current().is_some_and(|(other, _)| other == &key[..]) {
                source.advance()?;
                ended |= source.current().is_none();
            }
        }
        if ended {
            self.sources.retain(|source| source.current().is_some());
        }
        Ok(Some(newest))
    }
}
