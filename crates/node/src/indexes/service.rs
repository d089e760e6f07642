//! The indexes that a node keeps, and the thread that feeds them.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use millrace_bucket::{BucketId, group_prefix, reversed_location};
use millrace_document::{DocumentGroup, DocumentId, Timestamp};
use millrace_env::{Disk, ThreadClass, run_or_exit};
use millrace_index::{BlockCache, IndexChange};
use millrace_keys::KeyWriter;
use millrace_store::{DroppingScope, Store, VisitedVersion};
use parking_lot::{Mutex, RwLock};

use super::IndexDefinition;
use super::adopting::PendingAdoption;
use super::erasing::IndexErasure;
use super::feed::{IndexFeed, WaitingChange};
use super::following::FollowerSwitch;
use super::notes::NotedChange;
use super::opened::{IndexDirectory, OpenedIndex};
use super::uses::IndexUseCounts;
use super::writing::WriteSchedule;
use crate::Error;

/// Bytes of blocks that all indexes keep in memory.
const CACHE_BYTES: u64 = 32 << 20;

/// Number of changes of all indexes that are made of rows before they are taken in.
const CHANGES_AT_ONCE: usize = 1 << 14;

/// Number of records of documents that are read at a time.
const RECORD_PAGE: usize = 1024;

/// Times that an index has as much in memory as is written at a time, at which it is closed if that fails.
const UNWRITTEN_MAX: usize = 4;

/// Interval at which the thread looks for work without being woken.
const TICK: Duration = Duration::from_secs(1);

/// Pause after an error.
const RETRY: Duration = Duration::from_secs(5);

/// Indexes of a node.
pub struct NodeIndexes {
    inner: Arc<IndexesInner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) uses: IndexUseCounts,
}

pub(super) struct IndexesInner {
    pub place: IndexDirectory,
    pub store: Store,
    pub follower: Arc<FollowerSwitch>,
    pub feed: Arc<IndexFeed>,
    pub erasure: Arc<IndexErasure>,
    indexes: RwLock<Vec<Arc<OpenedIndex>>>,
    pub adoption: Mutex<PendingAdoption>,
    /// Held while changes are taken in, in the order of the feed.
    pub taking: Mutex<TakenUntil>,
    /// Held while stale buckets are read.
    pub rereading: Mutex<()>,
    pub schedule: Mutex<WriteSchedule>,
}

/// Callback for the key and time of each document that has a record, which can break off.
type RecordVisitor<'a> = dyn FnMut(&[u8], u64) -> Result<ControlFlow<()>, Error> + 'a;

/// Progress of taking changes in.
#[derive(Default)]
pub(super) struct TakenUntil {
    /// Rows until then are looked up in the store: they may have been dropped, or the indexes may have
    /// forgotten the removals after them.
    pub looked_up: Timestamp,
}

impl NodeIndexes {
    /// Creates the indexes of a data directory, whose files are on this disk; none is open.
    pub fn new(data_dir: &Path, follower: &Arc<FollowerSwitch>, disk: Arc<dyn Disk>) -> Self {
        let store = follower.store();
        let root = data_dir.join("indexes");
        let feed = Arc::new(IndexFeed::new(root.join("notes")));
        let erasure = Arc::new(IndexErasure::new(root.clone(), Arc::clone(&feed)));
        follower.add_erasure_partner(Arc::clone(&erasure) as Arc<_>);
        let inner = IndexesInner {
            feed,
            erasure,
            place: IndexDirectory { root, disk, cache: Arc::new(BlockCache::new(CACHE_BYTES)) },
            store: store.clone(),
            follower: Arc::clone(follower),
            indexes: RwLock::default(),
            adoption: Mutex::default(),
            taking: Mutex::default(),
            rereading: Mutex::default(),
            schedule: Mutex::new(WriteSchedule::new()),
        };
        if inner.place.root.exists() {
            // What changes before the indexes are open is noted.
            follower.set_own(Some(Arc::clone(&inner.feed) as Arc<_>));
        }
        NodeIndexes { inner: Arc::new(inner), thread: Mutex::new(None), uses: IndexUseCounts::default() }
    }

    /// Keeps these indexes from now on: opens those that are new, builds them in the background, and removes
    /// others once those that replace them are ready. `remembered`: removals of after are remembered. What a
    /// disk refuses is tried again.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn adopt(&self, wanted: &[Arc<IndexDefinition>], remembered: Timestamp) -> Result<(), Error> {
        let inner = &self.inner;
        let has_files = inner.place.root.exists() || inner.is_adoption_left();
        if wanted.is_empty() && inner.all().is_empty() && !has_files {
            return Ok(());
        }
        inner.adopt(wanted, remembered);
        inner.feed.wake();
        let mut thread = self.thread.lock();
        if thread.is_none() && (!wanted.is_empty() || inner.is_adoption_left()) {
            let (weak, feed) = (Arc::downgrade(inner), Arc::clone(&inner.feed));
            let work = move || run_or_exit("the thread of the indexes", || run(&weak, &feed));
            let spawned = thread::Builder::new().name("indexes".to_owned()).spawn(work);
            *thread =
                Some(spawned.map_err(|error| Error::Internal(format!("no thread for indexes: {error}")))?);
        }
        Ok(())
    }

    /// True if an index was opened before: it has a directory.
    pub fn has_files(&self, definition: &IndexDefinition) -> bool {
        OpenedIndex::directory(&self.inner.place.root, definition).exists()
    }

    /// Ends the work, and writes what is in memory.
    pub fn stop(&self) {
        if self.inner.feed.is_stopped() {
            return;
        }
        self.inner.feed.stop();
        // A flush waits for the merge that is under way.
        self.inner.all().iter().for_each(|index| index.copy.end_merges());
        let thread = self.thread.lock().take();
        let other = thread.filter(|thread| thread.thread().id() != thread::current().id());
        if other.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the indexes ended before its time");
        }
        if let Err(error) = self.inner.flush_all() {
            tracing::warn!(%error, "indexes read again what changed when they are opened");
        }
        // Changes until the store is closed are noted.
        self.inner.feed.close();
    }

    pub(super) fn inner(&self) -> &Arc<IndexesInner> {
        &self.inner
    }
}

/// Works until the feed is stopped, or the node is gone.
fn run(inner: &Weak<IndexesInner>, feed: &IndexFeed) {
    ThreadClass::Background.enter();
    let mut pause = Duration::ZERO;
    while feed.wait(pause) {
        let Some(inner) = inner.upgrade() else { return };
        pause = match inner.step() {
            Ok(true) => Duration::ZERO,
            Ok(false) => TICK,
            Err(error) => {
                tracing::error!(%error, "the indexes could not be kept up; it is tried again");
                thread::sleep(RETRY.min(TICK));
                RETRY
            }
        };
    }
}

impl IndexesInner {
    /// All open indexes.
    pub fn all(&self) -> Vec<Arc<OpenedIndex>> {
        self.indexes.read().clone()
    }

    pub fn set(&self, indexes: Vec<Arc<OpenedIndex>>) {
        *self.indexes.write() = indexes;
    }

    /// The index of a name that serves: of two definitions the newer one that is ready, or else the newer.
    pub fn named(&self, name: &str) -> Option<Arc<OpenedIndex>> {
        let mut all: Vec<_> =
            self.all().into_iter().filter(|index| index.definition.name() == name).collect();
        let ready = all.iter().rposition(|index| index.is_ready());
        match ready {
            Some(at) => Some(all.swap_remove(at)),
            None => all.pop(),
        }
    }

    /// The index of the newest definition of a name.
    pub fn newest(&self, name: &str) -> Option<Arc<OpenedIndex>> {
        self.all().into_iter().rfind(|index| index.definition.name() == name)
    }

    /// Looks up the documents of an index in the scopes of noted drops: it may have missed these. Breaks off
    /// when the node stops.
    fn look_up_drops(&self, index: &OpenedIndex) -> Result<(), Error> {
        let document_type = &index.definition.config.document_type;
        for note in self.feed.notes.all().iter().filter(|note| note.drops(document_type)) {
            let look_up = &mut |document: &[u8], _: u64| {
                if self.feed.is_stopped() {
                    return Ok(ControlFlow::Break(()));
                }
                let mut taken = self.taking.lock();
                self.settle_held(&mut taken)?;
                self.look_up(index, document).map(ControlFlow::Continue)
            };
            match note {
                NotedChange::Group { group, .. } => self.each_of_group(index, group, look_up)?,
                _ => self.each(index, look_up)?,
            }
        }
        Ok(())
    }

    /// Gives a document the record that it should have by the store. The changes until then were taken in.
    pub fn look_up(&self, index: &OpenedIndex, document: &[u8]) -> Result<(), Error> {
        let version = document_id(document).map(|id| self.store.version(&id)).transpose()?.flatten();
        match version {
            Some(version) => {
                let (id, timestamp) = (version.id.clone(), version.timestamp);
                let found = version.document().map_err(|error| Error::Internal(error.to_string()))?;
                let version = match found {
                    Some(document) => VisitedVersion::Document(document, timestamp),
                    None => VisitedVersion::Removed(id, timestamp),
                };
                index.copy.replace(vec![index.definition.change(&version)])?;
            }
            None => drop(index.copy.forget(&[document.to_vec()])?),
        }
        Ok(())
    }

    /// Calls `each` with the key and time of each document that has a record.
    fn each(&self, index: &OpenedIndex, each: &mut RecordVisitor<'_>) -> Result<(), Error> {
        self.each_after(index, Vec::new(), each)
    }

    /// Calls `each` with the key and time of each document of a group that has a record.
    fn each_of_group(
        &self,
        index: &OpenedIndex,
        group: &str,
        each: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        // Documents without a group are in all places, and have no prefix in common.
        let prefix = DocumentGroup::from_key(group).as_ref().and_then(group_prefix).unwrap_or_default();
        self.each_after(index, prefix.clone(), &mut |document, timestamp| {
            if !document.starts_with(&prefix) {
                return Ok(ControlFlow::Break(()));
            }
            match group_key(document) == Some(group.as_bytes()) {
                true => each(document, timestamp),
                false => Ok(ControlFlow::Continue(())),
            }
        })
    }

    /// Calls `each` with the key and time of each document that has a record, from a key on and in the order
    /// of keys, until it breaks off. Pages are read as they are needed, so that `each` may change the index.
    fn each_after(
        &self,
        index: &OpenedIndex,
        mut from: Vec<u8>,
        each: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        loop {
            let page = index.copy.documents(&from, RECORD_PAGE)?;
            for indexed in &page.documents {
                if each(&indexed.document, indexed.record.timestamp)?.is_break() {
                    return Ok(());
                }
            }
            let Some(last) = page.documents.last().filter(|_| !page.is_last) else { return Ok(()) };
            from = [&last.document[..], &[0]].concat();
        }
    }

    /// Takes in all changes that were acknowledged before the call.
    pub fn settle(&self) -> Result<(), Error> {
        self.settle_held(&mut self.taking.lock())
    }

    /// [`IndexesInner::settle`] while no other thread takes changes in.
    pub fn settle_held(&self, taken: &mut TakenUntil) -> Result<(), Error> {
        let changes = self.feed.take();
        let indexes = self.all();
        let read_again = || indexes.iter().for_each(|index| index.read_again(self.feed.notes.late()));
        if changes.cut {
            read_again();
        }
        let outcome = self.take_in(&indexes, changes.changes, taken);
        if outcome.is_err() {
            // What was taken from the queue is read again.
            read_again();
        }
        outcome
    }

    /// Notes the error of an index that could not take a change in: it reads again, and others go on.
    fn keep(&self, index: &OpenedIndex, taken: Result<(), Error>) {
        if let Err(error) = taken {
            index.read_again(self.feed.notes.late());
            index.fail(&error);
        }
    }

    fn take_in(
        &self,
        indexes: &[Arc<OpenedIndex>],
        changes: impl IntoIterator<Item = WaitingChange>,
        taken: &mut TakenUntil,
    ) -> Result<(), Error> {
        let mut batches: Vec<Vec<IndexChange>> = indexes.iter().map(|_| Vec::new()).collect();
        let (mut writer, mut gathered) = (KeyWriter::default(), 0);
        let apply = |batches: &mut Vec<Vec<IndexChange>>| {
            for (index, batch) in indexes.iter().zip(batches.iter_mut()) {
                let applied = index.copy.apply(std::mem::take(batch));
                self.keep(index, applied.map(drop).map_err(Error::from));
            }
        };
        for change in changes {
            match change {
                WaitingChange::Row(row) => {
                    let is_late = row.timestamp() <= taken.looked_up;
                    if is_late {
                        apply(&mut batches);
                    }
                    let document_type = row.document_type();
                    let takes_in = |index: &OpenedIndex| {
                        *index.definition.config.document_type == *document_type && !index.is_deferred()
                    };
                    let taking = indexes.iter().zip(&mut batches).filter(|(index, _)| takes_in(index));
                    if is_late {
                        for (index, _) in taking {
                            self.keep(index, self.look_up(index, row.sort_key()));
                        }
                        continue;
                    }
                    row.read(|version| {
                        for (index, batch) in taking {
                            let keys = index.definition.row_keys(version, &mut writer)?.to_vec();
                            let (document, timestamp) = (row.sort_key().to_vec(), row.timestamp().0);
                            batch.push(IndexChange { document, timestamp, keys });
                            gathered += 1;
                        }
                        Ok(())
                    })?;
                    if gathered >= CHANGES_AT_ONCE {
                        apply(&mut batches);
                        gathered = 0;
                    }
                }
                WaitingChange::Drop(scope, until) => {
                    apply(&mut batches);
                    taken.looked_up = taken.looked_up.max(until);
                    for index in indexes {
                        self.keep(index, self.drop_scope(index, &scope, until));
                    }
                }
            }
        }
        apply(&mut batches);
        Ok(())
    }

    fn drop_scope(&self, index: &OpenedIndex, scope: &DroppingScope, until: Timestamp) -> Result<(), Error> {
        if !NotedChange::of_drop(scope).drops(&index.definition.config.document_type) {
            return Ok(());
        }
        let remove = |document: &[u8], timestamp: u64| -> Result<ControlFlow<()>, Error> {
            if timestamp <= until.0 {
                index.copy.remove(&[document.to_vec()], until.0)?;
            }
            Ok(ControlFlow::Continue(()))
        };
        match scope {
            DroppingScope::Group { group, part, .. } => {
                let is_dropped = |document: &[u8]| part.is_none_or(|part| is_in(document, part));
                self.each_of_group(index, group, &mut |document, timestamp| match is_dropped(document) {
                    true => remove(document, timestamp),
                    false => Ok(ControlFlow::Continue(())),
                })
            }
            DroppingScope::Type(_) => self.each(index, &mut { remove }),
            // Of a range of locations some stay: the store says which.
            DroppingScope::Locations => {
                self.each(index, &mut |document, _| self.look_up(index, document).map(ControlFlow::Continue))
            }
        }
    }

    /// Takes changes in, reads what is missing, writes and merges; `true` if there is more to do at once. An
    /// index of which something fails is left alone for a while, and others go on.
    pub fn step(&self) -> Result<bool, Error> {
        self.finish_adoption();
        self.rebuild_damaged();
        self.settle()?;
        let reread = self.reread_stale();
        if let Err(error) = &reread {
            self.note_damage(error);
        }
        // That of one index is noted there.
        let unread = reread.as_ref().err().filter(|error| !matches!(error, Error::Index(_)));
        let mut more = false;
        let awake = self.all().into_iter().filter(|index| !index.is_paused()).collect();
        for together in OpenedIndex::reading_together(awake) {
            let mut able = Vec::with_capacity(together.len());
            for index in together {
                match self.prepare(&index) {
                    Ok(()) => {
                        index.note(unread.map(ToString::to_string));
                        able.push(index);
                    }
                    Err(error) => index.fail(&error),
                }
            }
            more |= self.read_for(&able);
            if self.feed.is_stopped() {
                return Ok(false);
            }
        }
        self.write_in_time();
        self.retire_replaced();
        Ok(reread? || more)
    }

    /// Does what comes before an index reads more.
    fn prepare(&self, index: &Arc<OpenedIndex>) -> Result<(), Error> {
        // What a full disk refuses would pile up in memory.
        if self.has_much(index, 2) {
            self.flush_early(index).inspect_err(|error| {
                if self.has_much(index, UNWRITTEN_MAX) {
                    self.close(index, error);
                }
            })?;
        }
        if index.begin_looking_up_drops() {
            let looked_up = self.look_up_drops(index);
            if looked_up.is_err() || self.feed.is_stopped() {
                index.look_up_drops_again();
            }
            looked_up?;
        }
        Ok(())
    }

    /// True if the next page of indexes that are read together can be read while they are written.
    fn can_read_on(&self, together: &[Arc<OpenedIndex>]) -> bool {
        !self.feed.is_stopped()
            && together.iter().all(|index| index.reads_on())
            && self.has_room_to_load(together)
    }

    /// Reads a page for indexes that read the same documents next, and meanwhile writes those of them that
    /// have much in memory; `true` if there is more. More pages are read while there is something to write,
    /// as far as there is room.
    fn read_for(&self, together: &[Arc<OpenedIndex>]) -> bool {
        let read_page = || {
            // A drop that is taken in between the reading and the taking of a page would miss its documents.
            let _one_at_a_time = self.taking.lock();
            OpenedIndex::read_page(together, &self.store)
        };
        let large: Vec<_> = together.iter().filter(|index| self.has_much(index, 1)).collect();
        let write_large = || {
            for index in &large {
                self.flush_early(index).unwrap_or_else(|error| index.fail(&error));
            }
        };
        let read = match large.is_empty() {
            true => read_page(),
            false => thread::scope(|scope| {
                let writer = thread::Builder::new().name("index-writer".to_owned());
                // Where the system refuses a thread, one comes after the other.
                let writing = writer.spawn_scoped(scope, write_large).inspect_err(|_| write_large());
                let mut read = read_page();
                if let Ok(writing) = writing {
                    while matches!(read, Ok(true)) && !writing.is_finished() && self.can_read_on(together) {
                        read = self.settle().and_then(|()| read_page());
                    }
                    writing.join().unwrap_or_else(|panic| resume_unwind(panic));
                }
                read
            }),
        };
        if let Err(error) = &read {
            together.iter().for_each(|index| index.fail(error));
        }
        for _ in together.iter().filter(|index| index.finish_reading()) {
            self.schedule.lock().want();
        }
        read.unwrap_or(false)
    }
}

/// True if the document of this key lies in a bucket.
pub(super) fn is_in(document: &[u8], bucket: BucketId) -> bool {
    bucket.reversed_range().contains(reversed_location(document))
}

/// Key of the group in the key of a document.
pub(super) fn group_key(document: &[u8]) -> Option<&[u8]> {
    let rest = document.get(4..)?;
    rest.iter().position(|byte| *byte == 0).map(|end| &rest[..end])
}

/// Id in the key of a document.
pub(super) fn document_id(document: &[u8]) -> Option<DocumentId> {
    let rest = document.get(4..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let id = std::str::from_utf8(rest.get(end + 5..)?).ok()?;
    DocumentId::parse(id).ok()
}
