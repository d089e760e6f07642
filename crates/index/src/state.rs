//! Sources of the rows of a copy, from the newest to the oldest.
//!
//! Changes are taken in under the lock of the state. Readers take their sources under it: what they need of
//! the changes in memory is copied, and all else does not change. They read without it, since a run may have
//! to come from the disk.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use millrace_env::filter::KeyHash;
use millrace_keys::KeyRange;

use crate::Error;
use crate::cursor::{RunMergeCursor, SectionPass, SectionRecord};
use crate::loading::LoadedRows;
use crate::memory::MemoryTable;
use crate::record::{DocumentRecord, EntryRecord};
use crate::run::{BlockCaching, IndexRun};

#[derive(Default)]
pub(crate) struct CopyState {
    pub memory: MemoryTable,
    /// Changes on their way to a run.
    pub frozen: Option<Arc<MemoryTable>>,
    /// Documents of a load, each in one row of `loaded`, `frozen_loaded` and the first runs. All other
    /// sources are newer than these.
    pub loaded: Arc<LoadedRows>,
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

    /// Loaded documents that are not in a run.
    pub fn loaded_rows(&self) -> impl Iterator<Item = &Arc<LoadedRows>> {
        std::iter::once(&self.loaded).chain(&self.frozen_loaded)
    }

    /// True if something was taken in about a document, a load excepted.
    pub fn has_changes(&self) -> bool {
        self.tables().iter().any(|table| !table.is_empty()) || self.runs.len() > self.loaded_runs
    }

    /// Sources of the record of a document.
    pub fn document_sources(&self, document: &[u8]) -> DocumentSources {
        let change = self.tables().iter().find_map(|table| table.documents.get(document)).cloned();
        if change.is_some() {
            return DocumentSources { change, ..DocumentSources::default() };
        }
        let is_loaded = document <= &self.loaded_until[..];
        let loaded = self.loaded_rows().filter(|_| is_loaded).find_map(|rows| rows.find(document));
        let first = if is_loaded && loaded.is_none() { 0 } else { self.loaded_runs };
        DocumentSources {
            change,
            runs: self.runs[self.loaded_runs..].to_vec(),
            loaded,
            loaded_runs: self.runs[first..self.loaded_runs].to_vec(),
        }
    }

    /// Sources of the rows in these ranges from a key on, for a pass that takes at most `limit` of the rows
    /// that count.
    pub fn sources<R: SectionRecord>(
        &self,
        ranges: &[KeyRange],
        from: &[u8],
        limit: usize,
        counts: impl Fn(&[u8], &R) -> bool,
    ) -> SectionSources<R> {
        let (mut memory, mut left) = (BTreeMap::new(), limit);
        'all: for range in ranges {
            let start = (Bound::Included(from.max(&range.low[..])), Bound::Unbounded);
            let rows = R::of_table(&self.memory).range::<[u8], _>(start);
            for (key, record) in rows.take_while(|(key, _)| range.contains(key)) {
                memory.insert(key.clone(), record.clone());
                // No source is newer, so that each of these rows is one that the pass takes. Of those after
                // the last one it may look at the next, to know that there are more.
                if counts(key, record) {
                    if left == 0 {
                        break 'all;
                    }
                    left -= 1;
                }
            }
        }
        SectionSources {
            memory,
            frozen: self.frozen.clone(),
            loaded: self.loaded_rows().filter(|rows| !rows.is_empty()).cloned().collect(),
            runs: self.runs.clone(),
        }
    }
}

/// Sources of the record of one document, at one instant.
#[derive(Default)]
pub(crate) struct DocumentSources {
    /// The newest change in memory; with it nothing else is needed.
    change: Option<DocumentRecord>,
    /// Runs with changes.
    runs: Vec<Arc<IndexRun>>,
    /// Row of a load in memory.
    loaded: Option<DocumentRecord>,
    /// Runs of a load that may have the document.
    loaded_runs: Vec<Arc<IndexRun>>,
}

impl DocumentSources {
    /// Record of the newest source that has one, those of a load excepted.
    pub fn newest_change(&mut self, document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
        match self.change.take() {
            Some(change) => Ok(Some(change)),
            None => find_in(&self.runs, document),
        }
    }

    /// Record of the newest source that has one, unless the document was forgotten.
    pub fn record(mut self, document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
        let newest = match self.newest_change(document)?.or(self.loaded.take()) {
            Some(newest) => Some(newest),
            None => find_in(&self.loaded_runs, document)?,
        };
        Ok(newest.filter(|record| !record.is_forgotten()))
    }
}

/// Record of the newest of some runs that has one.
fn find_in(runs: &[Arc<IndexRun>], document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
    let hash = KeyHash::of(document);
    for run in runs.iter().rev() {
        if let Some(record) = run.document(document, hash)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// Sources of the rows of a section, at one instant.
pub(crate) struct SectionSources<R> {
    /// Changes in memory, as far as the pass needs them.
    memory: BTreeMap<Vec<u8>, R>,
    frozen: Option<Arc<MemoryTable>>,
    loaded: Vec<Arc<LoadedRows>>,
    runs: Vec<Arc<IndexRun>>,
}

impl<R: SectionRecord + 'static> SectionSources<R> {
    /// Begins a pass.
    pub fn cursor<'a>(&'a self, pass: SectionPass<'_, 'a>) -> Result<RunMergeCursor<'a, R>, Error> {
        let frozen = self.frozen.as_deref().map(R::of_table);
        let tables: Vec<_> = std::iter::once(&self.memory).chain(frozen).collect();
        let loaded: Vec<_> = self.loaded.iter().map(|rows| &**rows).collect();
        RunMergeCursor::new(&tables, &self.runs, &loaded, pass)
    }
}

impl SectionSources<EntryRecord> {
    /// Calls `visit` with the live entries of the ranges, from a key on, while it returns `true`; for about
    /// `wanted` of them.
    pub fn pass(
        &self,
        ranges: &[KeyRange],
        from: &[u8],
        wanted: usize,
        visit: &mut dyn FnMut(&[u8], &EntryRecord) -> bool,
    ) -> Result<(), Error> {
        let mut key = Vec::new();
        for range in ranges {
            if range.high.as_ref().is_some_and(|high| &high[..] <= from) {
                continue;
            }
            let (from, until) = (from.max(&range.low[..]), range.high.as_deref());
            let mut cursor = self.cursor(SectionPass { from, until, wanted, caching: BlockCaching::Keep })?;
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
