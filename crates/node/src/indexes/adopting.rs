//! Opening and removal of indexes: those that are wanted are opened, others are removed, and damaged ones are
//! built again. What the disk refuses meanwhile stays to be done, and is tried again.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_document::Timestamp;
use millrace_index::Error as CopyError;

use super::IndexDefinition;
use super::notes::NotedChange;
use super::opened::{OpenedIndex, remove_copy, remove_directory};
use super::service::{IndexesInner, TakenUntil};
use crate::Error;

/// Pause before what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Indexes that are wanted, and what is left to be done for them. It changes while no other thread takes
/// changes in.
#[derive(Default, Clone)]
pub(super) struct PendingAdoption {
    wanted: Vec<Arc<IndexDefinition>>,
    /// Removals of after this time were remembered when the indexes were adopted.
    remembered: Timestamp,
    adopted: Option<Instant>,
    unopened: Vec<UnopenedIndex>,
    /// True if a directory of an index that is not wanted could not be removed.
    has_leftovers: bool,
    failed: Option<Instant>,
}

/// An index that is wanted, and could not be opened.
#[derive(Clone)]
pub(super) struct UnopenedIndex {
    pub definition: Arc<IndexDefinition>,
    /// True if the files in its directory are removed first.
    is_discarded: bool,
    /// True if it is built, also where it is deferred.
    is_requested: bool,
    /// Error of the last attempt.
    pub reason: String,
}

impl PendingAdoption {
    /// Removals of after this time are remembered now.
    fn remembered_now(&self) -> Timestamp {
        let passed = self.adopted.map_or(Duration::ZERO, |adopted| adopted.elapsed());
        Timestamp(self.remembered.0.saturating_add(passed.as_micros() as u64))
    }

    fn is_left(&self) -> bool {
        self.has_leftovers || !self.unopened.is_empty()
    }

    fn is_due(&self) -> bool {
        self.is_left() && self.failed.is_none_or(|failed| failed.elapsed() >= RETRY)
    }

    /// An index that is to be opened: as it was left before, or for the first time.
    fn to_open(&self, definition: &Arc<IndexDefinition>) -> UnopenedIndex {
        let known = self.unopened.iter().find(|known| known.definition.is_same(definition));
        known.cloned().unwrap_or_else(|| UnopenedIndex {
            definition: Arc::clone(definition),
            // What changed while it was not wanted was not noted for files that could not be removed.
            is_discarded: self.has_leftovers,
            is_requested: false,
            reason: String::new(),
        })
    }

    /// A directory could not be removed.
    fn leave(&mut self, error: &CopyError) {
        tracing::error!(%error, "files of an index could not be removed; it is tried again");
        self.has_leftovers = true;
        self.failed = Some(Instant::now());
    }
}

impl IndexesInner {
    /// Keeps these indexes from now on. `remembered`: removals of after are remembered.
    pub fn adopt(&self, wanted: &[Arc<IndexDefinition>], remembered: Timestamp) {
        let mut taken = self.taking.lock();
        let mut pending = self.adoption.lock().clone();
        pending.wanted = wanted.to_vec();
        (pending.remembered, pending.adopted) = (remembered, Some(Instant::now()));
        self.adopt_held(&mut taken, pending);
    }

    /// Tries again what could not be done for the indexes that are wanted.
    pub fn finish_adoption(&self) {
        if !self.adoption.lock().is_due() {
            return;
        }
        let mut taken = self.taking.lock();
        let pending = self.adoption.lock().clone();
        self.adopt_held(&mut taken, pending);
    }

    /// Indexes that are wanted, and could not be opened.
    pub fn unopened(&self) -> Vec<UnopenedIndex> {
        self.adoption.lock().unopened.clone()
    }

    /// True if an index could not be opened, or a directory could not be removed.
    pub fn is_adoption_left(&self) -> bool {
        self.adoption.lock().is_left()
    }

    /// Opens and removes indexes until those that are wanted are open, as far as the disk permits, while no
    /// other thread takes changes in.
    fn adopt_held(&self, taken: &mut TakenUntil, mut pending: PendingAdoption) {
        let wanted = pending.wanted.clone();
        let is_wanted = |index: &IndexDefinition| wanted.iter().any(|definition| definition.is_same(index));
        let mut indexes = self.all();
        let is_empty = indexes.is_empty();
        let mut removed = Vec::new();
        // One that is replaced serves until the new one is ready; one that is not wanted any more goes.
        indexes.retain(|index| {
            let name = index.definition.name();
            let stays = is_wanted(&index.definition)
                || wanted.iter().any(|definition| definition.name() == name) && index.is_ready();
            if !stays {
                removed.push(Arc::clone(index));
            }
            stays
        });
        let (mut unopened, mut has_files) = (Vec::new(), false);
        for definition in &wanted {
            if indexes.iter().any(|index| index.definition.is_same(definition)) {
                continue;
            }
            let to_open = pending.to_open(definition);
            match self.open(&to_open, pending.remembered_now()) {
                Ok(index) => {
                    has_files |= index.copy.status().built;
                    indexes.push(Arc::new(index));
                }
                Err(error) => {
                    let name = definition.name();
                    tracing::error!(%error, index = name, "an index could not be opened; it is tried again");
                    unopened.push(UnopenedIndex { reason: error.to_string(), ..to_open });
                }
            }
        }
        if has_files {
            // Others may have read the buckets that changed meanwhile, and notes stay until all have.
            self.feed.reread_noted();
        }
        pending.failed = (!unopened.is_empty()).then(Instant::now);
        pending.unopened = unopened;
        pending.has_leftovers = false;
        // Drops are noted for those that are not open yet, too: they may have what was dropped.
        let opened = indexes.iter().map(|index| &index.definition);
        let known = opened.chain(pending.unopened.iter().map(|index| &index.definition));
        self.feed.follow_types(known.map(|index| index.config.document_type.to_string()).collect());
        self.set(indexes);
        // From here on every commit comes through the feed; everything before can be read in the store.
        let until = self.follower.set_own((!wanted.is_empty()).then(|| Arc::clone(&self.feed) as Arc<_>));
        taken.looked_up = taken.looked_up.max(until);
        if pending.unopened.is_empty() {
            let built = self.all().into_iter().map(|index| index.copy.status()).filter(|status| status.built);
            self.feed
                .notes
                .open_rows(Timestamp(built.map(|status| status.complete_until).max().unwrap_or(0)));
        }
        for index in &removed {
            if let Err(error) = index.discard(&*self.place.disk) {
                pending.leave(&error);
            }
        }
        let cleared = match wanted.is_empty() && is_empty {
            true => remove_directory(&self.place.root),
            false => self.remove_others(&pending.unopened),
        };
        if let Err(error) = cleared {
            pending.leave(&error);
        }
        *self.adoption.lock() = pending;
    }

    /// Opens an index; empty, if its files are removed first, or all documents of its type were dropped.
    fn open(&self, index: &UnopenedIndex, remembered: Timestamp) -> Result<OpenedIndex, CopyError> {
        let definition = &index.definition;
        let is_dropped =
            self.feed.notes.all().iter().any(|note| {
                matches!(note, NotedChange::Type(_)) && note.drops(&definition.config.document_type)
            });
        if index.is_discarded || is_dropped {
            remove_copy(&*self.place.disk, &OpenedIndex::directory(&self.place.root, definition))?;
        }
        let opened = OpenedIndex::open(definition, &self.place, remembered, self.feed.notes.late())?;
        if index.is_requested {
            opened.want();
        }
        Ok(opened)
    }

    /// Removes directories of indexes that are neither open nor to be opened.
    ///
    /// # Errors
    /// The first error; others are removed all the same.
    fn remove_others(&self, unopened: &[UnopenedIndex]) -> Result<(), CopyError> {
        let root = &self.place.root;
        let mut kept: BTreeSet<PathBuf> = self.all().iter().map(|index| index.directory.clone()).collect();
        kept.extend(unopened.iter().map(|index| OpenedIndex::directory(root, &index.definition)));
        let paths = match self.place.disk.list(root) {
            Ok(paths) => paths,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                let (path, reason) = (root.clone(), error.to_string());
                return Err(CopyError::Io { action: "list", path, reason });
            }
        };
        let mut removed = Ok(());
        for path in paths.iter().filter(|path| path.is_dir() && !kept.contains(*path)) {
            removed = removed.and(remove_copy(&*self.place.disk, path));
        }
        removed
    }

    /// Removes the indexes that others replace which are ready, once the files of those say so: a crash
    /// leaves one of the two.
    pub fn retire_replaced(&self) {
        let split = || {
            let (all, wanted) = (self.all(), self.adoption.lock().wanted.clone());
            let is_wanted = |index: &OpenedIndex| wanted.iter().any(|of| of.is_same(&index.definition));
            let is_replaced = |index: &Arc<OpenedIndex>| {
                let replaces = |new: &Arc<OpenedIndex>| {
                    let is_same_name = new.definition.name() == index.definition.name();
                    // What is written before it was complete has no such time.
                    let is_written = new.copy.status().complete_until > 0;
                    is_same_name && is_wanted(new) && new.is_ready() && is_written
                };
                !is_wanted(index) && all.iter().any(replaces)
            };
            all.iter().cloned().partition::<Vec<_>, _>(is_replaced)
        };
        if split().0.is_empty() {
            return;
        }
        let _one_at_a_time = self.taking.lock();
        let (replaced, kept) = split();
        self.set(kept);
        for index in replaced {
            if let Err(error) = index.discard(&*self.place.disk) {
                self.adoption.lock().leave(&error);
            }
        }
    }

    /// Discards an index and builds it again, unless another has taken its place.
    pub fn rebuild(&self, index: &Arc<OpenedIndex>) {
        // A build of it that is in progress would go on to write into the directory of the new one.
        index.copy.discard();
        let mut taken = self.taking.lock();
        let again = UnopenedIndex {
            definition: Arc::clone(&index.definition),
            is_discarded: true,
            is_requested: true,
            reason: "it is to be built again".to_owned(),
        };
        if let Some(pending) = self.take_out(index, again) {
            self.adopt_held(&mut taken, pending);
        }
    }

    /// Builds an index again that could not be opened; `false` if there is none of this name.
    pub fn rebuild_unopened(&self, name: &str) -> bool {
        let _one_at_a_time = self.taking.lock();
        let mut pending = self.adoption.lock();
        let mut unopened = pending.unopened.iter_mut();
        let Some(index) = unopened.find(|index| index.definition.name() == name) else { return false };
        (index.is_discarded, index.is_requested) = (true, true);
        pending.failed = None;
        true
    }

    /// Closes an index whose changes in memory cannot be written and are too many. Later it is opened as its
    /// files are, and reads again what has changed since.
    pub fn close(&self, index: &Arc<OpenedIndex>, error: &Error) {
        index.copy.discard();
        let _one_at_a_time = self.taking.lock();
        let again = UnopenedIndex {
            definition: Arc::clone(&index.definition),
            is_discarded: false,
            is_requested: !index.is_deferred(),
            reason: error.to_string(),
        };
        if let Some(mut pending) = self.take_out(index, again) {
            pending.failed = Some(Instant::now());
            *self.adoption.lock() = pending;
        }
    }

    /// Takes an index out, to be opened again, while no other thread takes changes in; `None` if it is not
    /// there any more. Its directory may be that of another one then.
    fn take_out(&self, index: &Arc<OpenedIndex>, again: UnopenedIndex) -> Option<PendingAdoption> {
        let mut indexes = self.all();
        let at = indexes.iter().position(|known| Arc::ptr_eq(known, index))?;
        indexes.remove(at);
        self.set(indexes);
        let mut pending = self.adoption.lock().clone();
        pending.unopened.push(again);
        Some(pending)
    }

    /// Notes that a file of an index is damaged, so that it is built again.
    pub fn note_damage(&self, error: &Error) {
        for _ in self.all().iter().filter(|index| index.note_damage(error)) {
            self.feed.wake();
        }
    }

    /// Builds indexes again of which a file is damaged.
    pub fn rebuild_damaged(&self) {
        for index in self.all().iter().filter(|index| index.is_damaged.load(Ordering::SeqCst)) {
            tracing::error!(index = index.definition.name(), "an index is damaged, and is built again");
            self.rebuild(index);
        }
    }
}
