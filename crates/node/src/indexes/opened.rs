//! One index that is open: its copy, and how far it is.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_document::Timestamp;
use millrace_env::Disk;
use millrace_index::{BlockCache, Error as CopyError, IndexCopy, IndexOptions, SliceRange};
use millrace_store::{Store, StoreVisit};
use parking_lot::Mutex;

use super::IndexDefinition;
use super::definition::RowsToLoad;

/// Documents that one step of reading takes: of first builds, times the indexes that are built together, and
/// of others, which look each up. A step finds its place in the store, so the first has larger ones.
const BUILD_PAGE: usize = 1 << 16;
const PAGE: usize = 1024;

/// Bytes of the rows of indexes that read together after which their page ends, and the time from its first
/// row after which it ends: queries that need changes taken in wait for it.
const PAGE_BYTES: usize = 32 << 20;
const PAGE_TIME: Duration = Duration::from_millis(200);

/// Rows of a page after which its time is looked at.
const TIMED_ROWS: usize = 64;

/// Progress of reading, as a counter, that has read everything.
const READ_WHOLE: f64 = 1e6;

/// Pause of an index whose step has failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Directory of indexes, or of copies of placed ones, with the disk and the cache by which they are read.
pub(super) struct IndexDirectory {
    pub root: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub cache: Arc<BlockCache>,
}

/// An open index.
pub(super) struct OpenedIndex {
    pub definition: Arc<IndexDefinition>,
    pub copy: IndexCopy,
    pub directory: PathBuf,
    /// Position in the documents that it still has to read; `None` once it has everything.
    reading: Mutex<Option<ReadPosition>>,
    ready: AtomicBool,
    /// Progress of reading, up to [`READ_WHOLE`].
    progress: AtomicU64,
    /// Time of the first page of the reading in progress.
    began: Mutex<Option<Instant>>,
    /// True if one of its files is damaged, so that it is to be built again.
    pub is_damaged: AtomicBool,
    /// Error of its last step, and the time of it.
    failed: Mutex<Option<(String, Instant)>>,
    /// Error of the last writing of its files.
    pub unwritten: Mutex<Option<String>>,
    /// Time until which dropped documents were erased in its files.
    pub erased: AtomicU64,
}

/// Position in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReadPosition {
    /// Versions of this time and later are read.
    from: Timestamp,
    /// True if removals are read, too: the copy may have what was removed. A build that begins with an empty
    /// copy meets removals through the feed alone.
    removals: bool,
    continuation: Option<String>,
    /// False until a deferred index is wanted.
    wanted: bool,
    /// True if drops may have been missed: documents of the index that are in their scopes are looked up
    /// before others are read.
    looks_up_drops: bool,
}

/// Documents that an index reads next: their type, and the position.
type NextRead = (Arc<str>, ReadPosition);

impl OpenedIndex {
    /// Opens the copy of an index below a directory. One that is damaged, unfinished, or older than removals
    /// are remembered is built again. `late`: rows from that time on may have come since it was written.
    ///
    /// # Errors
    /// A file cannot be read or written; what is there cannot be removed. The files stay.
    pub fn open(
        definition: &Arc<IndexDefinition>,
        place: &IndexDirectory,
        remembered: Timestamp,
        late: Option<Timestamp>,
    ) -> Result<Self, CopyError> {
        let directory = OpenedIndex::directory(&place.root, definition);
        let options = || IndexOptions {
            directory: directory.clone(),
            definition: definition.hash,
            slice: SliceRange::default(),
            disk: Arc::clone(&place.disk),
            cache: Arc::clone(&place.cache),
        };
        let opened = IndexCopy::open(options());
        let is_usable = |copy: &IndexCopy| copy.status().built && complete_from(copy, late) >= remembered;
        let copy = match opened {
            Ok(copy) if is_usable(&copy) => copy,
            Err(error) if !error.is_damage() => return Err(error),
            outcome => {
                if let Err(error) = &outcome {
                    tracing::error!(%error, index = definition.name(), "an index is built again");
                }
                drop(outcome);
                remove_copy(&*place.disk, &directory)?;
                IndexCopy::open(options())?
            }
        };
        let status = copy.status();
        let wanted = status.built || !definition.config.deferred;
        let from = complete_from(&copy, late);
        let (removals, looks_up_drops) = (status.built, status.built);
        let position = ReadPosition { from, removals, continuation: None, wanted, looks_up_drops };
        Ok(OpenedIndex {
            definition: Arc::clone(definition),
            copy,
            directory,
            reading: Mutex::new(Some(position)),
            ready: AtomicBool::new(false),
            progress: AtomicU64::new(0),
            began: Mutex::default(),
            is_damaged: AtomicBool::new(false),
            failed: Mutex::default(),
            unwritten: Mutex::default(),
            erased: AtomicU64::new(0),
        })
    }

    /// Directory of an index.
    pub fn directory(root: &Path, definition: &IndexDefinition) -> PathBuf {
        root.join(format!("{}@{:016x}", definition.name(), definition.hash))
    }

    /// Removes the directory. The copy serves on from memory and open files, and writes nothing any more.
    pub fn discard(&self, disk: &dyn Disk) -> Result<(), CopyError> {
        self.copy.discard();
        remove_copy(disk, &self.directory)
    }

    /// True if it has every document.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }

    /// True if it waits for a request to build it.
    pub fn is_deferred(&self) -> bool {
        self.position().as_ref().is_some_and(|position| !position.wanted)
    }

    /// Share of the reading that is done, from 0 to 1.
    pub fn progress(&self) -> f64 {
        self.progress.load(Ordering::Relaxed) as f64 / READ_WHOLE
    }

    /// Seconds that the reading in progress should still take; known from 1 % on.
    pub fn seconds_left(&self) -> Option<f64> {
        let progress = self.progress();
        let began = self.began.lock().filter(|_| progress >= 0.01)?;
        Some(began.elapsed().as_secs_f64() * (1.0 - progress) / progress)
    }

    fn position(&self) -> parking_lot::MutexGuard<'_, Option<ReadPosition>> {
        self.reading.lock()
    }

    /// Begins the build of a deferred index; `false` if it was begun already.
    pub fn want(&self) -> bool {
        let mut position = self.position();
        let Some(position) = position.as_mut().filter(|position| !position.wanted) else { return false };
        position.wanted = true;
        true
    }

    /// Changes were lost, rows of `late` and later among them: reads again what changed since the last flush,
    /// or all if it was never complete.
    pub fn read_again(&self, late: Option<Timestamp>) {
        let mut position = self.position();
        self.ready.store(false, Ordering::SeqCst);
        let wanted = position.as_ref().is_none_or(|position| position.wanted);
        let from = complete_from(&self.copy, late);
        // Removals may be among what was lost, also while it is built.
        let (removals, looks_up_drops) = (true, true);
        *position = Some(ReadPosition { from, removals, continuation: None, wanted, looks_up_drops });
        self.progress.store(0, Ordering::Relaxed);
    }

    /// True if documents in the scopes of drops are to be looked up first; the caller does so. If it is made
    /// to read again meanwhile, they are looked up once more.
    pub fn begin_looking_up_drops(&self) -> bool {
        let mut position = self.position();
        let wanted = position.as_mut().filter(|position| position.wanted);
        wanted.is_some_and(|position| std::mem::take(&mut position.looks_up_drops))
    }

    /// The documents in the scopes of drops could not be looked up.
    pub fn look_up_drops_again(&self) {
        if let Some(position) = self.position().as_mut() {
            position.looks_up_drops = true;
        }
    }

    /// Divides indexes into those that read the same documents next, and others, each by itself.
    pub fn reading_together(all: Vec<Arc<OpenedIndex>>) -> Vec<Vec<Arc<OpenedIndex>>> {
        let mut divided: Vec<(Option<NextRead>, Vec<Arc<OpenedIndex>>)> = Vec::new();
        for index in all {
            let next =
                index.next_page().map(|next| (Arc::clone(&index.definition.config.document_type), next));
            let same = match &next {
                Some(_) => divided.iter_mut().find(|(known, _)| *known == next),
                None => None,
            };
            match same {
                Some((_, together)) => together.push(index),
                None => divided.push((next, vec![index])),
            }
        }
        divided.into_iter().map(|(_, together)| together).collect()
    }

    /// Position of the next page, if it reads documents.
    fn next_page(&self) -> Option<ReadPosition> {
        self.position().clone().filter(|position| position.wanted)
    }

    /// True if the next page can be read at once: nothing is to be done before it.
    pub fn reads_on(&self) -> bool {
        self.next_page().is_some_and(|position| !position.looks_up_drops) && !self.is_paused()
    }

    /// Reads the next page of documents for indexes that read the same ones; `true` if there may be more. An
    /// index that cannot take it in notes its error.
    pub fn read_page(together: &[Arc<OpenedIndex>], store: &Store) -> Result<bool, crate::Error> {
        let first = together.first().and_then(|first| Some((first, first.next_page()?)));
        let Some((first, position)) = first else { return Ok(false) };
        if position.looks_up_drops {
            // It was made to read again a moment ago.
            return Ok(true);
        }
        // Those that began again since they were divided, or are done, do not read this page.
        let reads_same = |index: &&Arc<OpenedIndex>| index.next_page().as_ref() == Some(&position);
        let (together, others): (Vec<_>, Vec<_>) = together.iter().partition(reads_same);
        if position.continuation.is_none() {
            together.iter().for_each(|index| *index.began.lock() = Some(Instant::now()));
        }
        let is_build = position.from == Timestamp(0);
        let fields: BTreeSet<String> = together.iter().flat_map(|index| index.definition.fields()).collect();
        let visit = StoreVisit {
            from: position.from,
            tombstones: position.removals,
            continuation: position.continuation.clone(),
            wanted: if is_build { (BUILD_PAGE / together.len()).max(PAGE) } else { PAGE },
            fields: Some(fields.into_iter().collect()),
            ..StoreVisit::all(&[&first.definition.config.document_type])
        };
        let room = if is_build { PAGE_BYTES / together.len() } else { 0 };
        let mut read: Vec<RowsToLoad> = together.iter().map(|_| RowsToLoad::with_capacity(room)).collect();
        // It counts from the first row: finding it may take long, and each page is to be worth that.
        let (mut first_row, mut count) = (None, 0_usize);
        let end = store.visit_rows(&visit, &mut |row| {
            let mut bytes = 0;
            for (index, rows) in together.iter().zip(&mut read) {
                rows.push(&index.definition, row)?;
                bytes += rows.rows.memory_bytes();
            }
            let began: Instant = *first_row.get_or_insert_with(Instant::now);
            count += 1;
            let is_late = count.is_multiple_of(TIMED_ROWS) && began.elapsed() >= PAGE_TIME;
            let is_full = bytes >= PAGE_BYTES || is_late;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        for (index, RowsToLoad { rows, .. }) in together.iter().zip(read) {
            let loaded = match is_build {
                true => index.copy.load(rows),
                false => index.copy.replace(rows.changes().collect()),
            };
            if let Err(error) = loaded {
                // It reads this page again, and the others go on.
                index.fail(&error.into());
                continue;
            }
            index.progress.store((end.progress * READ_WHOLE) as u64, Ordering::Relaxed);
            let next = ReadPosition { continuation: end.continuation.clone(), ..position.clone() };
            *index.position() = end.continuation.is_some().then_some(next);
        }
        Ok(end.continuation.is_some() || !others.is_empty())
    }

    /// Makes it readable, if it has read everything.
    pub fn finish_reading(&self) -> bool {
        // Held until it is readable: it may be made to read again meanwhile.
        let position = self.position();
        if position.is_some() || self.is_ready() {
            return false;
        }
        self.progress.store(READ_WHOLE as u64, Ordering::Relaxed);
        self.ready.store(true, Ordering::SeqCst);
        true
    }

    /// Notes the error of the last step, or that there was none.
    pub fn note(&self, error: Option<String>) {
        *self.failed.lock() = error.map(|error| (error, Instant::now()));
    }

    /// Notes the error of a step. If one of its files is damaged, it is built again.
    pub fn fail(&self, error: &crate::Error) {
        let (name, reason) = (self.definition.name(), error.to_string());
        // Each of many changes can fail.
        if self.failed.lock().as_ref().is_none_or(|(known, _)| *known != reason) {
            tracing::error!(%error, index = name, "an index could not be kept up; it is tried again");
        }
        self.note(Some(reason));
        self.note_damage(error);
    }

    /// Notes that one of its files is damaged, if an error says so. Returns true if it does.
    pub fn note_damage(&self, error: &crate::Error) -> bool {
        let is_own = matches!(
            error,
            crate::Error::Index(CopyError::Damaged { path, .. }) if path.starts_with(&self.directory)
        );
        if is_own {
            self.is_damaged.store(true, Ordering::SeqCst);
        }
        is_own
    }

    /// True shortly after an error: others have their turns.
    pub fn is_paused(&self) -> bool {
        self.failed.lock().as_ref().is_some_and(|(_, at)| at.elapsed() < PAUSE)
    }

    /// Error of its last step, or of the last writing of its files.
    pub fn error(&self) -> Option<String> {
        let failed = self.failed.lock().as_ref().map(|(error, _)| error.clone());
        failed.or_else(|| self.unwritten.lock().clone())
    }
}

/// Time from which a copy lacks versions: 0 before it is built.
fn complete_from(copy: &IndexCopy, late: Option<Timestamp>) -> Timestamp {
    let status = copy.status();
    let from = Timestamp(if status.built { status.complete_until } else { 0 });
    late.map_or(from, |late| from.min(late))
}

/// Removes the directory of a copy. After an error what is left of it counts as nothing, or it stays whole.
pub(super) fn remove_copy(disk: &dyn Disk, directory: &Path) -> Result<(), CopyError> {
    IndexCopy::invalidate(disk, directory)?;
    remove_directory(directory)
}

/// Removes a directory.
pub(super) fn remove_directory(directory: &Path) -> Result<(), CopyError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let reason = format!("{error}; remove it, or let the user of the server write there");
            Err(CopyError::Io { action: "remove", path: directory.to_owned(), reason })
        }
        _ => Ok(()),
    }
}
