//! Sources of the rows of a copy, from the newest to the oldest.

use std::sync::Arc;

use millrace_keys::KeyRange;

use crate::Error;
use crate::cursor::RunMergeCursor;
use crate::loading::LoadedRows;
use crate::memory::MemoryTable;
use crate::record::{DocumentRecord, EntryRecord};
use crate::run::{IndexRun, hash};

#[derive(Default)]
pub(crate) struct CopyState {
    pub memory: MemoryTable,
    /// Changes on their way to a run.
    pub frozen: Option<Arc<MemoryTable>>,
    /// Documents of a load, each in one row of `loaded`, `frozen_loaded` and the first runs. All other
    /// sources are newer than these.
    pub loaded: LoadedRows,
    /// Documents of a load on their way to a run.
    pub frozen_loaded: Option<Arc<LoadedRows>>,
    /// The last document of the load.
    pub loaded_until: Vec<u8>,
    /// Number of the runs at the start of `runs` that have documents of the load alone.
    pub loaded_runs: usize,
    /// From the oldest to the newest.
    pub runs: Vec<Arc<IndexRun>>,
    pub complete_until: u64,
    pub built: bool,
}

impl CopyState {
    /// Tables in memory, from the newest to the oldest.
    pub fn tables(&self) -> Vec<&MemoryTable> {
        std::iter::once(&self.memory).chain(self.frozen.as_deref()).collect()
    }

    pub fn document(&self, document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
        Ok(self.newest(document)?.filter(|record| !record.is_forgotten()))
    }

    /// Loaded documents that are not in a run.
    pub fn loaded_rows(&self) -> Vec<&LoadedRows> {
        std::iter::once(&self.loaded).chain(self.frozen_loaded.as_deref()).collect()
    }

    /// Record of the newest source that has one.
    fn newest(&self, document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
        if let Some(record) = self.newest_change(document)? {
            return Ok(Some(record));
        }
        if document > &self.loaded_until[..] {
            return Ok(None);
        }
        if let Some(record) = self.loaded_rows().iter().find_map(|rows| rows.find(document)) {
            return Ok(Some(record));
        }
        find_in(&self.runs[..self.loaded_runs], document)
    }

    /// Record of the newest source that has one, those of a load excepted.
    pub fn newest_change(&self, document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
        for table in self.tables() {
            if let Some(record) = table.documents.get(document) {
                return Ok(Some(record.clone()));
            }
        }
        find_in(&self.runs[self.loaded_runs..], document)
    }

    /// Calls `visit` with the live entries of the ranges, from a key on, while it returns `true`.
    pub fn pass(
        &self,
        ranges: &[KeyRange],
        from: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &EntryRecord) -> bool,
    ) -> Result<(), Error> {
        let tables = self.tables();
        let tables: Vec<_> = tables.iter().map(|table| &table.entries).collect();
        let loaded = self.loaded_rows();
        let from = from.unwrap_or_default();
        let mut key = Vec::new();
        for range in ranges {
            if range.high.as_ref().is_some_and(|high| &high[..] <= from) {
                continue;
            }
            let start = if from > &range.low[..] { from } else { &range.low };
            let until = range.high.as_deref();
            let mut cursor =
                RunMergeCursor::<EntryRecord>::new(&tables, &self.runs, &loaded, start, until, true)?;
            while let Some(record) = cursor.next(&mut key)? {
                if !range.contains(&key) {
                    break;
                }
                if record.live && !visit(&key, &record) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Record of the newest of some runs that has one.
fn find_in(runs: &[Arc<IndexRun>], document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
    let hash = hash(document);
    for run in runs.iter().rev() {
        if let Some(record) = run.document(document, hash)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
