use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use millrace_env::Disk;
use millrace_keys::KeyRange;
use parking_lot::{Mutex, RwLock};

use crate::cursor::SectionPass;
use crate::files::{check_space, remove_others, run_path};
use crate::loading::LoadedRows;
use crate::manifest::CopyManifest;
use crate::memory::MemoryTable;
use crate::merging::{self, MergeDisposal, MergeEnd};
use crate::page::EntryPage;
use crate::record::{DocumentRecord, EntryRecord, IndexChange};
use crate::run::IndexRun;
use crate::run_writer::RunWriter;
use crate::state::CopyState;
use crate::{BlockCache, Error, SliceRange};

/// Options for opening a copy.
#[derive(Clone)]
pub struct IndexOptions {
    /// Directory of the copy; made when it is not there.
    pub directory: PathBuf,
    /// Hash of the definition of the index.
    pub definition: u64,
    /// Documents that the copy may have. What is said about others has no effect.
    pub slice: SliceRange,
    /// Holds the files.
    pub disk: Arc<dyn Disk>,
    /// Cache of the blocks that are read.
    pub cache: Arc<BlockCache>,
}

/// Contents of a copy, as its manifest notes them with a flush. What was noted before stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushMark {
    /// Time up to which the copy has every change, in microseconds since 1970; 0 if that is not known.
    pub complete_until: u64,
    /// True if all documents were taken in.
    pub built: bool,
}

/// A document that has a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedDocument {
    /// Key of the document.
    pub document: Vec<u8>,
    /// Keys of its entries, and the time of the version that has them.
    pub record: DocumentRecord,
}

/// A page of the documents of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentPage {
    /// Documents in their order.
    pub documents: Vec<IndexedDocument>,
    /// True if there are no more.
    pub is_last: bool,
}

/// Figures of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyStatus {
    /// Entries, about: some may have gone, and others may count twice until they are merged.
    pub entries: u64,
    /// Bytes of its runs.
    pub bytes: u64,
    /// Number of its runs.
    pub runs: usize,
    /// Bytes of changes that are not in a run yet.
    pub memory_bytes: usize,
    /// Bytes of loaded documents that are not in a run yet.
    pub loaded_bytes: usize,
    /// Time up to which the runs have every change, in microseconds since 1970.
    pub complete_until: u64,
    /// True once all documents were taken in.
    pub built: bool,
}

/// One copy of an index, or of a slice of one.
pub struct IndexCopy {
    pub(crate) options: IndexOptions,
    pub(crate) state: RwLock<CopyState>,
    /// Held while files are written, with the content of the manifest; `None` once the copy is discarded.
    manifest: Mutex<Option<CopyManifest>>,
    /// True once the copy is to be discarded, when `manifest` may still be held.
    is_discarded: AtomicBool,
    /// True once no merge is to go on.
    are_merges_ended: AtomicBool,
    /// Held while changes are applied, so that each sees the keys that the one before has left.
    applying: Mutex<()>,
    /// Number of exports that are open.
    pub(crate) exports: Arc<AtomicUsize>,
}

impl IndexCopy {
    /// Opens a copy as it was at its last flush, or makes an empty one. A copy of another definition or of
    /// another slice is made empty, and what an import has left unfinished is removed.
    ///
    /// # Errors
    /// The system refuses; a file is damaged ([`Error::is_damage`]).
    pub fn open(options: IndexOptions) -> Result<Self, Error> {
        let directory = &options.directory;
        let failed = |action, error: std::io::Error| Error::io(action, directory, &error);
        options.disk.create_directory(directory).map_err(|error| failed("create", error))?;
        let known = CopyManifest::read(&*options.disk, directory)?;
        let manifest = known
            .filter(|manifest| manifest.definition == options.definition && manifest.slice == options.slice);
        let manifest = match manifest {
            Some(manifest) => manifest,
            None => {
                let (definition, slice) = (options.definition, options.slice.clone());
                let fresh = CopyManifest { definition, slice, ..CopyManifest::default() };
                fresh.write(&*options.disk, directory)?;
                fresh
            }
        };
        let kept: Vec<_> = manifest.runs.iter().map(|run| run_path(directory, *run)).collect();
        remove_others(&*options.disk, directory, &kept)?;
        let runs = manifest.runs.iter().map(|number| {
            let run = IndexRun::open(&*options.disk, &run_path(directory, *number), &options.cache)?;
            match run.catalog.definition == options.definition {
                true => Ok(Arc::new(run)),
                false => Err(Error::damaged(&run.path, "it is of another index")),
            }
        });
        let runs = runs.collect::<Result<Vec<_>, Error>>()?;
        let (complete_until, built) = (manifest.complete_until, manifest.built);
        let state = CopyState { runs, complete_until, built, ..CopyState::default() };
        let (state, manifest) = (RwLock::new(state), Mutex::new(Some(manifest)));
        Ok(IndexCopy {
            options,
            state,
            manifest,
            is_discarded: AtomicBool::new(false),
            are_merges_ended: AtomicBool::new(false),
            applying: Mutex::new(()),
            exports: Arc::default(),
        })
    }

    /// Has the files in the directory of a copy count as nothing, before they are removed one after the
    /// other: what stays after an error makes an empty copy.
    ///
    /// # Errors
    /// The system refuses. The copy stays.
    pub fn invalidate(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        CopyManifest::remove(disk, directory)
    }

    /// Takes versions of documents in. They may come in any order and again; of each document the newest
    /// counts. Returns the number of those that changed something. Scans see the changes at once; they are
    /// durable after an [`IndexCopy::flush`].
    ///
    /// # Errors
    /// A run cannot be read or is damaged; a key is too long.
    pub fn apply(&self, changes: Vec<IndexChange>) -> Result<usize, Error> {
        self.take_in(changes, |before, change| before.timestamp < change.timestamp)
    }

    /// [`IndexCopy::apply`] for versions that were just read where the documents are: each counts, also in
    /// place of a newer one.
    ///
    /// # Errors
    /// Those of [`IndexCopy::apply`].
    pub fn replace(&self, changes: Vec<IndexChange>) -> Result<usize, Error> {
        self.take_in(changes, is_other)
    }

    /// [`IndexCopy::replace`] for the documents of a first build in their order. Those that nothing was
    /// taken in about are not looked up in what was loaded before, and go to runs below all others, so that
    /// each costs a fraction of a replacement. Scans see them at once, but sort them each time: they are
    /// meant for after the build.
    ///
    /// # Errors
    /// Those of [`IndexCopy::apply`].
    pub fn load(&self, rows: LoadedRows) -> Result<usize, Error> {
        let _one_at_a_time = self.applying.lock();
        (0..rows.len()).try_for_each(|row| rows.check_length(row))?;
        let (loaded_until, has_changes) = {
            let state = self.state.read();
            (state.loaded_until.clone(), state.has_changes())
        };
        let (mut new, mut known) = (Vec::with_capacity(rows.len()), Vec::new());
        let mut until = &loaded_until[..];
        for row in 0..rows.len() {
            let document = rows.document(row);
            if !self.options.slice.contains(document) {
                continue;
            }
            // While no other thread changes documents, there are changes only if there were some before.
            let is_new = until < document && !(has_changes && self.is_changed(document)?);
            if is_new {
                until = document;
                new.push(row);
            } else {
                known.push(rows.change(row));
            }
        }
        let mut state = self.state.write();
        if let Some(last) = new.last() {
            state.loaded_until = rows.document(*last).to_vec();
        }
        match state.loaded.is_empty() && new.len() == rows.len() {
            true => state.loaded = Arc::new(rows),
            false => Arc::make_mut(&mut state.loaded).extend(&rows, &new),
        }
        drop(state);
        Ok(new.len() + self.take_in_held(known, is_other)?)
    }

    /// True if something was taken in about a document, a load excepted.
    fn is_changed(&self, document: &[u8]) -> Result<bool, Error> {
        let mut sources = self.state.read().document_sources(document);
        Ok(sources.newest_change(document)?.is_some())
    }

    /// Changes of documents that the copy may have.
    fn of_slice(&self, changes: Vec<IndexChange>) -> impl Iterator<Item = IndexChange> {
        changes.into_iter().filter(|change| self.options.slice.contains(&change.document))
    }

    fn take_in(
        &self,
        changes: Vec<IndexChange>,
        counts: impl Fn(&DocumentRecord, &IndexChange) -> bool,
    ) -> Result<usize, Error> {
        let _one_at_a_time = self.applying.lock();
        self.take_in_held(changes, counts)
    }

    /// [`IndexCopy::take_in`] while no other thread changes documents.
    fn take_in_held(
        &self,
        changes: Vec<IndexChange>,
        counts: impl Fn(&DocumentRecord, &IndexChange) -> bool,
    ) -> Result<usize, Error> {
        let mut applied = 0;
        for change in self.of_slice(changes) {
            change.check_length()?;
            let before = self.document(&change.document)?;
            if before.as_ref().is_some_and(|before| !counts(before, &change)) {
                continue;
            }
            let record = DocumentRecord { timestamp: change.timestamp, keys: change.keys };
            let former = before.map(|before| before.keys).unwrap_or_default();
            self.state.write().memory.apply(&change.document, record, &former);
            applied += 1;
        }
        Ok(applied)
    }

    /// Takes documents out, as if the copy had never seen them: any version of them can come again. Returns
    /// the number of those that had a record.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn forget(&self, documents: &[Vec<u8>]) -> Result<usize, Error> {
        let _one_at_a_time = self.applying.lock();
        let mut forgotten = 0;
        for document in documents {
            let Some(before) = self.document(document)? else { continue };
            self.state.write().memory.apply(document, DocumentRecord::default(), &before.keys);
            forgotten += 1;
        }
        Ok(forgotten)
    }

    /// Takes out the entries of documents whose newest version is of this time or before. Returns the number
    /// of documents that had entries.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn remove(&self, documents: &[Vec<u8>], until: u64) -> Result<usize, Error> {
        let _one_at_a_time = self.applying.lock();
        let mut removed = 0;
        for document in documents {
            let before = self.document(document)?;
            let Some(before) = before.filter(|before| before.timestamp <= until && !before.keys.is_empty())
            else {
                continue;
            };
            let record = DocumentRecord { timestamp: until, keys: Vec::new() };
            self.state.write().memory.apply(document, record, &before.keys);
            removed += 1;
        }
        Ok(removed)
    }

    /// Returns the record of a document; `None` if there is none.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn document(&self, document: &[u8]) -> Result<Option<DocumentRecord>, Error> {
        let sources = self.state.read().document_sources(document);
        sources.record(document)
    }

    /// Writes what is in memory as a run, and notes what the copy has then.
    ///
    /// # Errors
    /// The system refuses. What was in memory stays there.
    pub fn flush(&self, mark: FlushMark) -> Result<(), Error> {
        let mut manifest = self.manifest.lock();
        let Some(manifest) = manifest.as_mut() else { return Ok(()) };
        while self.flush_loaded(manifest)? {}
        let mut next = manifest.clone();
        next.complete_until = next.complete_until.max(mark.complete_until);
        next.built |= mark.built;
        let frozen = self.freeze();
        let run = match &frozen {
            None => None,
            Some(frozen) => {
                let number = next.add_run(next.runs.len());
                Some(self.write_run(number, frozen.bytes, |writer| frozen.write(writer))?)
            }
        };
        if next != *manifest {
            next.write(&*self.options.disk, &self.options.directory)?;
            *manifest = next;
        }
        let mut state = self.state.write();
        (state.complete_until, state.built) = (manifest.complete_until, manifest.built);
        if state.built {
            // Nothing is loaded below the runs any more.
            state.loaded_runs = 0;
        }
        if let Some(run) = run {
            state.runs.push(Arc::new(run));
            state.frozen = None;
        }
        Ok(())
    }

    /// Writes the loaded documents in memory as a run; `false`: there are none.
    fn flush_loaded(&self, manifest: &mut CopyManifest) -> Result<bool, Error> {
        let (frozen, at) = {
            let mut state = self.state.write();
            if state.frozen_loaded.is_none() && !state.loaded.is_empty() {
                state.frozen_loaded = Some(std::mem::take(&mut state.loaded));
            }
            (state.frozen_loaded.clone(), state.loaded_runs)
        };
        let Some(frozen) = frozen else { return Ok(false) };
        let mut next = manifest.clone();
        let number = next.add_run(at);
        let run = self.write_run(number, frozen.memory_bytes(), |writer| frozen.write(writer))?;
        next.write(&*self.options.disk, &self.options.directory)?;
        *manifest = next;
        let mut state = self.state.write();
        state.runs.insert(at, Arc::new(run));
        state.loaded_runs += 1;
        state.frozen_loaded = None;
        Ok(true)
    }

    /// Sets the changes in memory aside, to be written; also those of a flush that failed. `None`: there are
    /// none.
    fn freeze(&self) -> Option<Arc<MemoryTable>> {
        let mut state = self.state.write();
        if let Some(failed) = state.frozen.take() {
            let newer = std::mem::take(&mut state.memory);
            let mut all = Arc::try_unwrap(failed).unwrap_or_else(|shared| MemoryTable {
                documents: shared.documents.clone(),
                entries: shared.entries.clone(),
                bytes: shared.bytes,
                balance: shared.balance,
            });
            all.documents.extend(newer.documents);
            all.entries.extend(newer.entries);
            all.bytes += newer.bytes;
            all.balance += newer.balance;
            state.memory = all;
        }
        if state.memory.is_empty() {
            return None;
        }
        let frozen = Arc::new(std::mem::take(&mut state.memory));
        state.frozen = Some(Arc::clone(&frozen));
        Some(frozen)
    }

    /// Writes a run of about this many bytes, if they fit on the disk.
    fn write_run(
        &self,
        number: u64,
        bytes: usize,
        write: impl FnOnce(&mut RunWriter<'_>) -> Result<(), Error>,
    ) -> Result<IndexRun, Error> {
        let options = &self.options;
        let path = run_path(&options.directory, number);
        check_space(&*options.disk, &options.directory, bytes as u64)?;
        let mut writer = RunWriter::create(&*options.disk, &path, options.definition)?;
        write(&mut writer)?;
        let sums = writer.finish()?;
        IndexRun::open_written(&*options.disk, &path, &options.cache, sums)
    }

    /// Ends the writing of files, so that the directory can be removed, or be that of another copy. Waits
    /// for a flush in progress; a merge gives up. Later ones do nothing; what they would write stays in
    /// memory.
    pub fn discard(&self) {
        self.is_discarded.store(true, Ordering::SeqCst);
        *self.manifest.lock() = None;
    }

    /// Ends merges, which can take long: one that is under way gives up, and later ones do nothing.
    pub fn end_merges(&self) {
        self.are_merges_ended.store(true, Ordering::SeqCst);
    }

    /// True if merges go on.
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_discarded.load(Ordering::Relaxed) && !self.are_merges_ended.load(Ordering::Relaxed)
    }

    /// Merges runs, if enough are of similar size; `false`: nothing was done. Those of a load wait for its
    /// end. `forget_before`: no version from before this time will be applied any more, so that its removal
    /// need not be remembered.
    ///
    /// # Errors
    /// The system refuses, or a run is damaged. The runs stay as they are.
    pub fn merge(&self, forget_before: u64) -> Result<bool, Error> {
        self.merge_newest(|sizes, loaded| merging::choose(&sizes[loaded..]), forget_before)
    }

    /// Writes all runs as one, so that no file has entries that were replaced or removed. What is in memory
    /// stays there. `forget_before` is that of [`IndexCopy::merge`]. Returns false if merges were ended
    /// ([`IndexCopy::end_merges`]): then the runs may be as they were.
    ///
    /// # Errors
    /// The system refuses, or a run is damaged. The runs stay as they are.
    pub fn compact(&self, forget_before: u64) -> Result<bool, Error> {
        self.merge_newest(|sizes, _| sizes.len(), forget_before)?;
        Ok(!self.are_merges_ended.load(Ordering::SeqCst))
    }

    /// Merges as many of the newest runs as are chosen by the sizes of all, and the number of those of a
    /// load. Returns false if that is none.
    fn merge_newest(
        &self,
        choose: impl FnOnce(&[u64], usize) -> usize,
        forget_before: u64,
    ) -> Result<bool, Error> {
        let mut manifest = self.manifest.lock();
        let Some(manifest) = manifest.as_mut() else { return Ok(false) };
        let (runs, loaded_runs, is_loading) = {
            let state = self.state.read();
            (state.runs.clone(), state.loaded_runs, state.loaded_rows().any(|rows| !rows.is_empty()))
        };
        let count = choose(&runs.iter().map(|run| run.bytes).collect::<Vec<_>>(), loaded_runs);
        if count == 0 || !self.goes_on() {
            return Ok(false);
        }
        let (kept, merged) = runs.split_at(runs.len() - count);
        let bytes: u64 = merged.iter().map(|run| run.bytes).sum();
        check_space(&*self.options.disk, &self.options.directory, bytes)?;
        let mut next = manifest.clone();
        next.runs.truncate(kept.len());
        let number = next.add_run(kept.len());
        let (options, path) = (&self.options, run_path(&self.options.directory, number));
        let is_bottom = kept.is_empty() && !is_loading;
        let disposal = MergeDisposal { is_bottom, forget_before, slice: &options.slice };
        // Those that discard the copy, or stop the node, do not wait for all of it.
        let proceed = || if self.goes_on() { Ok(()) } else { Err(MergeEnd::Unwanted) };
        let (disk, definition) = (&*options.disk, options.definition);
        let sums = match merging::merge_while(disk, &path, definition, merged, disposal, proceed) {
            Ok(sums) => sums,
            Err(MergeEnd::Failed(error)) => return Err(error),
            Err(MergeEnd::Unwanted) => return Ok(false),
        };
        let run = Arc::new(IndexRun::open_written(&*options.disk, &path, &options.cache, sums)?);
        next.write(&*options.disk, &options.directory)?;
        *manifest = next;
        let mut state = self.state.write();
        state.loaded_runs = loaded_runs.min(kept.len());
        state.runs = kept.iter().cloned().chain([run]).collect();
        drop(state);
        // Names that stay are removed at the next opening.
        merged.iter().for_each(|run| drop(options.disk.unlink(&run.path)));
        Ok(true)
    }

    /// Returns the next page of the entries in these ranges, which are sorted and do not overlap. A page is
    /// of one instant.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn scan(
        &self,
        ranges: &[KeyRange],
        continuation: Option<&[u8]>,
        limit: usize,
    ) -> Result<EntryPage, Error> {
        let mut page = EntryPage::default();
        let from = continuation.unwrap_or_default();
        let sources = self.state.read().sources(ranges, from, limit, |_, record: &EntryRecord| record.live);
        // Those who ask for a second page often go on.
        let wanted = if continuation.is_some() { limit.saturating_mul(2) } else { limit };
        sources.pass(ranges, from, wanted, &mut |key, record| {
            if page.entries.len() == limit {
                page.continuation = Some([page.entries.last_whole(), &[0]].concat());
                return false;
            }
            page.entries.push(key, record.key_length.min(key.len()), record.timestamp);
            true
        })?;
        Ok(page)
    }

    /// Counts the entries in these ranges whose documents, by their keys, are `wanted`, up to `limit`.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn count(
        &self,
        ranges: &[KeyRange],
        limit: u64,
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<u64, Error> {
        let counts = |key: &[u8], record: &EntryRecord| {
            record.live && wanted(&key[record.key_length.min(key.len())..])
        };
        let records_max = usize::try_from(limit).unwrap_or(usize::MAX);
        let sources = self.state.read().sources(ranges, &[], records_max, counts);
        let mut count = 0;
        sources.pass(ranges, &[], records_max, &mut |key, record| {
            count += u64::from(counts(key, record));
            count < limit
        })?;
        Ok(count)
    }

    /// Returns the next page of the documents that have a record, from this key on.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn documents(&self, from: &[u8], limit: usize) -> Result<DocumentPage, Error> {
        let all = [KeyRange { low: Vec::new(), high: None }];
        let is_known = |_: &[u8], record: &DocumentRecord| !record.is_forgotten();
        let sources = self.state.read().sources(&all, from, limit, is_known);
        let mut cursor =
            sources.cursor(SectionPass { wanted: limit, ..SectionPass::over_all(from, None) })?;
        let (mut page, mut key) = (DocumentPage::default(), Vec::new());
        while page.documents.len() < limit {
            let Some(record) = cursor.next(&mut key)? else {
                page.is_last = true;
                break;
            };
            if !record.is_forgotten() {
                page.documents.push(IndexedDocument { document: key.clone(), record });
            }
        }
        Ok(page)
    }

    /// Reads every byte of the runs, and checks it.
    ///
    /// # Errors
    /// A run cannot be read or is damaged.
    pub fn check(&self) -> Result<(), Error> {
        let runs = self.state.read().runs.clone();
        runs.iter().try_for_each(|run| run.check())
    }

    /// Figures of the copy.
    pub fn status(&self) -> CopyStatus {
        let state = self.state.read();
        let in_memory: i64 = state.tables().iter().map(|table| table.balance).sum();
        let in_load: usize = state.loaded_rows().map(|rows| rows.entries()).sum();
        let live: u64 = state.runs.iter().map(|run| run.catalog.live).sum();
        let gone: u64 = state.runs.iter().map(|run| run.catalog.gone).sum();
        CopyStatus {
            entries: (live + in_load as u64).saturating_sub(gone).saturating_add_signed(in_memory),
            bytes: state.runs.iter().map(|run| run.bytes).sum(),
            runs: state.runs.len(),
            memory_bytes: state.tables().iter().map(|table| table.bytes).sum(),
            loaded_bytes: state.loaded_rows().map(|rows| rows.memory_bytes()).sum(),
            complete_until: state.complete_until,
            built: state.built,
        }
    }
}

/// True if a version as it is stored differs from a record.
fn is_other(before: &DocumentRecord, change: &IndexChange) -> bool {
    (before.timestamp, &before.keys) != (change.timestamp, &change.keys)
}
