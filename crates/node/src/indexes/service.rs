//! The indexes that a node keeps, and the thread that feeds them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_bucket::{BucketId, group_prefix, reversed_location};
use millrace_document::{DocumentGroup, DocumentId, Timestamp};
use millrace_env::{Disk as _, RealDisk, ThreadClass, run_or_exit};
use millrace_index::{BlockCache, FlushMark, IndexChange};
use millrace_keys::KeyWriter;
use millrace_store::{DroppingScope, Store, VisitedVersion};
use parking_lot::{Mutex, RwLock};

use super::IndexDefinition;
use super::erasing::IndexErasure;
use super::feed::{FedChange, IndexFeed};
use super::following::FollowerSwitch;
use super::notes::{MARGIN_US, NotedChange};
use super::opened::{OpenedIndex, remove_directory};
use super::stale::overlap;
use super::uses::IndexUseCounts;
use crate::Error;

/// Bytes of changes in memory after which an index is written to the disk, and bytes of all indexes up to
/// which more may wait: writers feel the work of the disk.
const FLUSH_BYTES: usize = 16 << 20;
const FLUSH_BYTES_OF_ALL: usize = 64 << 20;

/// Maximum number of bytes of documents of a first build that wait in memory to be written to the disk, and
/// about that of all indexes.
const LOAD_BYTES: usize = 64 << 20;
const LOAD_BYTES_OF_ALL: usize = 512 << 20;

/// Time after which changes in memory are written to the disk.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Bytes of blocks that all indexes keep in memory.
const CACHE_BYTES: u64 = 32 << 20;

/// Number of changes of all indexes that are made of rows before they are taken in.
const CHANGES_AT_ONCE: usize = 1 << 14;

/// Number of records of documents that are read at a time.
const RECORD_PAGE: usize = 1024;

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
    root: PathBuf,
    pub store: Store,
    follower: Arc<FollowerSwitch>,
    pub feed: Arc<IndexFeed>,
    pub erasure: Arc<IndexErasure>,
    indexes: RwLock<Vec<Arc<OpenedIndex>>>,
    cache: Arc<BlockCache>,
    /// Held while changes are taken in, in the order of the feed.
    pub taking: Mutex<TakenUntil>,
    /// Held while stale buckets are read.
    pub mending: Mutex<()>,
    flushed: Mutex<Instant>,
}

/// Callback for the key and time of each document that has a record.
type RecordVisitor<'a> = dyn FnMut(&[u8], u64) -> Result<(), Error> + 'a;

/// The same, which can break off.
type RecordWalk<'a> = dyn FnMut(&[u8], u64) -> Result<ControlFlow<()>, Error> + 'a;

/// Progress of taking changes in.
#[derive(Default)]
pub(super) struct TakenUntil {
    /// Rows until then are looked up in the store: they may have been dropped, or the indexes may have
    /// forgotten the removals after them.
    looked_up: Timestamp,
}

impl NodeIndexes {
    /// Creates the indexes of a data directory; none is open.
    pub fn new(data_dir: &Path, follower: &Arc<FollowerSwitch>) -> Self {
        let store = follower.store();
        let root = data_dir.join("indexes");
        let feed = Arc::new(IndexFeed::new(root.join("notes")));
        let erasure = Arc::new(IndexErasure::new(root.clone(), Arc::clone(&feed)));
        follower.add_erasure_partner(Arc::clone(&erasure) as Arc<_>);
        let inner = IndexesInner {
            feed,
            erasure,
            root,
            store: store.clone(),
            follower: Arc::clone(follower),
            indexes: RwLock::default(),
            cache: Arc::new(BlockCache::new(CACHE_BYTES)),
            taking: Mutex::default(),
            mending: Mutex::default(),
            flushed: Mutex::new(Instant::now()),
        };
        if inner.root.exists() {
            // What changes before the indexes are open is noted.
            follower.set_own(Some(Arc::clone(&inner.feed) as Arc<_>));
        }
        NodeIndexes { inner: Arc::new(inner), thread: Mutex::new(None), uses: IndexUseCounts::default() }
    }

    /// Keeps these indexes from now on: opens those that are new, builds them in the background, and removes
    /// others once those that replace them are ready. `remembered`: removals of after are remembered.
    ///
    /// # Errors
    /// A directory cannot be used, or the system refuses a thread.
    pub fn adopt(&self, wanted: &[Arc<IndexDefinition>], remembered: Timestamp) -> Result<(), Error> {
        let inner = &self.inner;
        if wanted.is_empty() && inner.all().is_empty() {
            if inner.root.exists() {
                inner.follower.set_own(None);
                remove_directory(&inner.root)?;
            }
            return Ok(());
        }
        inner.adopt(wanted, remembered)?;
        inner.feed.wake();
        let mut thread = self.thread.lock();
        if thread.is_none() && !wanted.is_empty() {
            let (weak, feed) = (Arc::downgrade(inner), Arc::clone(&inner.feed));
            let work = move || run_or_exit("the thread of the indexes", || run(&weak, &feed));
            let spawned = std::thread::Builder::new().name("indexes".to_owned()).spawn(work);
            *thread =
                Some(spawned.map_err(|error| Error::Internal(format!("no thread for indexes: {error}")))?);
        }
        Ok(())
    }

    /// True if an index was opened before: it has a directory.
    pub fn has_files(&self, definition: &IndexDefinition) -> bool {
        OpenedIndex::directory(&self.inner.root, definition).exists()
    }

    /// Ends the work, and writes what is in memory.
    pub fn stop(&self) {
        if self.inner.feed.is_stopped() {
            return;
        }
        self.inner.feed.stop();
        let thread = self.thread.lock().take();
        let other = thread.filter(|thread| thread.thread().id() != std::thread::current().id());
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
                std::thread::sleep(RETRY.min(TICK));
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

    fn set(&self, indexes: Vec<Arc<OpenedIndex>>) {
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

    pub fn adopt(&self, wanted: &[Arc<IndexDefinition>], remembered: Timestamp) -> Result<(), Error> {
        let mut taken = self.taking.lock();
        let is_wanted = |index: &IndexDefinition| wanted.iter().any(|definition| definition.is_same(index));
        let mut indexes = self.all();
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
        RealDisk
            .create_directory(&self.root)
            .map_err(|error| Error::Internal(format!("create {}: {error}", self.root.display())))?;
        let (noted, late) = (self.feed.notes.all(), self.feed.notes.late());
        for definition in wanted {
            if indexes.iter().any(|index| index.definition.is_same(definition)) {
                continue;
            }
            let open = || OpenedIndex::open(definition, &self.root, &self.cache, remembered, late);
            let mut index = open()?;
            let dropped = |note: &NotedChange| {
                matches!(note, NotedChange::Type(_)) && note.drops(&definition.config.document_type)
            };
            if noted.iter().any(dropped) {
                drop(index.copy);
                remove_directory(&index.directory)?;
                index = open()?;
            }
            indexes.push(Arc::new(index));
        }
        let types = indexes.iter().map(|index| index.definition.config.document_type.to_string());
        self.feed.follow_types(types.collect());
        self.set(indexes);
        // From here on every commit comes through the feed; everything before can be read in the store.
        let follower = (!self.all().is_empty()).then(|| Arc::clone(&self.feed) as Arc<_>);
        let until = self.follower.set_own(follower);
        taken.looked_up = taken.looked_up.max(until);
        let built = self.all().into_iter().map(|index| index.copy.status()).filter(|status| status.built);
        self.feed.notes.open_rows(Timestamp(built.map(|status| status.complete_until).max().unwrap_or(0)));
        removed.iter().try_for_each(|index| index.discard())?;
        self.remove_others()
    }

    /// Removes directories of indexes that are not open.
    fn remove_others(&self) -> Result<(), Error> {
        let failed =
            |error: std::io::Error| Error::Internal(format!("list {}: {error}", self.root.display()));
        let open: BTreeSet<PathBuf> = self.all().iter().map(|index| index.directory.clone()).collect();
        for path in RealDisk.list(&self.root).map_err(failed)? {
            let path = self.root.join(path);
            if path.is_dir() && !open.contains(&path) {
                remove_directory(&path)?;
            }
        }
        Ok(())
    }

    /// Looks up the documents of an index in the scopes of noted drops: it may have missed these.
    fn look_up_drops(&self, index: &OpenedIndex) -> Result<(), Error> {
        let document_type = &index.definition.config.document_type;
        for note in self.feed.notes.all().iter().filter(|note| note.drops(document_type)) {
            let look_up = &mut |document: &[u8], _: u64| {
                let mut taken = self.taking.lock();
                self.settle_held(&mut taken)?;
                self.look_up(index, document)
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
        self.each_after(index, Vec::new(), &mut |document, timestamp| {
            each(document, timestamp).map(ControlFlow::Continue)
        })
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
            if group_key(document) == Some(group.as_bytes()) {
                each(document, timestamp)?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Calls `each` with the key and time of each document that has a record, from a key on and in the order
    /// of keys, until it breaks off. Pages are read as they are needed, so that `each` may change the index.
    fn each_after(
        &self,
        index: &OpenedIndex,
        mut from: Vec<u8>,
        each: &mut RecordWalk<'_>,
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

    fn take_in(
        &self,
        indexes: &[Arc<OpenedIndex>],
        changes: impl IntoIterator<Item = FedChange>,
        taken: &mut TakenUntil,
    ) -> Result<(), Error> {
        let mut batches: Vec<Vec<IndexChange>> = indexes.iter().map(|_| Vec::new()).collect();
        let (mut writer, mut gathered) = (KeyWriter::default(), 0);
        let apply = |batches: &mut Vec<Vec<IndexChange>>| {
            let mut each = indexes.iter().zip(batches.iter_mut());
            each.try_for_each(|(index, batch)| index.copy.apply(std::mem::take(batch)).map(drop))
        };
        for change in changes {
            match change {
                FedChange::Row(row) => {
                    let is_late = row.timestamp() <= taken.looked_up;
                    if is_late {
                        apply(&mut batches)?;
                    }
                    let document_type = row.document_type();
                    let takes_in = |index: &OpenedIndex| {
                        *index.definition.config.document_type == *document_type && !index.is_deferred()
                    };
                    let taking = indexes.iter().zip(&mut batches).filter(|(index, _)| takes_in(index));
                    if is_late {
                        for (index, _) in taking {
                            self.look_up(index, row.sort_key())?;
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
                        apply(&mut batches)?;
                        gathered = 0;
                    }
                }
                FedChange::Drop(scope, until) => {
                    apply(&mut batches)?;
                    taken.looked_up = taken.looked_up.max(until);
                    indexes.iter().try_for_each(|index| self.drop_scope(index, &scope, until))?;
                }
            }
        }
        Ok(apply(&mut batches)?)
    }

    fn drop_scope(&self, index: &OpenedIndex, scope: &DroppingScope, until: Timestamp) -> Result<(), Error> {
        if !NotedChange::of_drop(scope).drops(&index.definition.config.document_type) {
            return Ok(());
        }
        let remove = |document: &[u8], timestamp: u64| match timestamp <= until.0 {
            true => Ok(index.copy.remove(&[document.to_vec()], until.0).map(|_| ())?),
            false => Ok(()),
        };
        match scope {
            DroppingScope::Group { group, part, .. } => {
                let is_dropped = |document: &[u8]| part.is_none_or(|part| is_in(document, part));
                self.each_of_group(index, group, &mut |document, timestamp| match is_dropped(document) {
                    true => remove(document, timestamp),
                    false => Ok(()),
                })
            }
            DroppingScope::Type(_) => self.each(index, &mut { remove }),
            // Of a range of locations some stay: the store says which.
            DroppingScope::Locations => self.each(index, &mut |document, _| self.look_up(index, document)),
        }
    }

    /// Takes changes in, reads what is missing, writes and merges; `true` if there is more to do at once.
    pub fn step(&self) -> Result<bool, Error> {
        self.settle()?;
        let mended = self.mend();
        let (mut more, mut failed) = (false, None);
        for together in OpenedIndex::reading_together(self.all()) {
            let stepped = self.step_of(&together);
            let failure = stepped.as_ref().err().or(mended.as_ref().err());
            together.iter().for_each(|index| index.note(failure.map(ToString::to_string)));
            // The other indexes go on: documents that cannot be read may be of one type.
            match stepped {
                Ok(has_more) => more |= has_more,
                Err(error) => failed = failed.or(Some(error)),
            }
            if self.feed.is_stopped() {
                return Ok(false);
            }
        }
        if self.flushed.lock().elapsed() >= FLUSH_INTERVAL {
            self.flush_all()?;
        }
        self.erase()?;
        match failed {
            Some(error) if !more => Err(error),
            _ => Ok(mended? || more),
        }
    }

    /// A step of indexes that read the same documents next.
    fn step_of(&self, together: &[Arc<OpenedIndex>]) -> Result<bool, Error> {
        for index in together.iter().filter(|index| index.looks_up_drops()) {
            self.look_up_drops(index)?;
            index.looked_up_drops();
        }
        let more = {
            // A drop that is taken in between the reading and the taking of a page would miss its documents.
            let _one_at_a_time = self.taking.lock();
            OpenedIndex::read_page(together, &self.store)?
        };
        let finished: Vec<_> = together.iter().filter(|index| index.finish_reading()).collect();
        if !finished.is_empty() {
            self.flush_all()?;
            finished.iter().try_for_each(|index| self.retire(index))?;
        }
        together.iter().try_for_each(|index| self.flush_if_large(index))?;
        Ok(more)
    }

    /// Time before which no version will come any more.
    pub fn forgotten(&self, index: &OpenedIndex) -> u64 {
        if index.is_ready() { index.copy.status().complete_until } else { 0 }
    }

    /// Writes what an index has in memory, if that is much. It stays complete up to the same time: later rows
    /// may come in another order than that of their times.
    pub fn flush_if_large(&self, index: &OpenedIndex) -> Result<(), Error> {
        let status = index.copy.status();
        let indexes = self.indexes.read().len().max(1);
        let bytes_max = FLUSH_BYTES.max(FLUSH_BYTES_OF_ALL / indexes);
        let loaded_max = (LOAD_BYTES_OF_ALL / indexes).clamp(FLUSH_BYTES, LOAD_BYTES);
        if status.memory_bytes >= bytes_max || status.loaded_bytes >= loaded_max {
            index.copy.flush(FlushMark { complete_until: 0, built: index.is_ready() })?;
            index.copy.merge(self.forgotten(index))?;
        }
        Ok(())
    }

    /// Writes what all indexes have in memory, and notes how far those that are ready are complete.
    pub fn flush_all(&self) -> Result<(), Error> {
        let indexes = self.all();
        if indexes.is_empty() {
            return Ok(());
        }
        // Rows from before this time that come from now on are noted; all that came before wait in the feed.
        let until = Timestamp(self.store.next_timestamp().0.saturating_sub(MARGIN_US));
        let mut done = self.feed.notes.begin_flush(until);
        let (stale, _) = self.feed.stale.snapshot();
        done.retain(|note, _| {
            note.bucket().is_none_or(|bucket| !stale.iter().any(|stale| overlap(*stale, bucket)))
        });
        self.follower.set_own(Some(Arc::clone(&self.feed) as Arc<_>));
        {
            let mut taken = self.taking.lock();
            self.settle_held(&mut taken)?;
            taken.looked_up = taken.looked_up.max(until);
        }
        for index in &indexes {
            let until = if index.is_ready() { until.0 } else { 0 };
            index.copy.flush(FlushMark { complete_until: until, built: index.is_ready() })?;
            while !self.feed.is_stopped() && index.copy.merge(self.forgotten(index))? {}
        }
        // One that was never built is built from the start after a crash.
        if indexes.iter().all(|index| index.is_ready() || !index.copy.status().built) {
            self.feed.notes.forget(&done);
        }
        *self.flushed.lock() = Instant::now();
        Ok(())
    }

    /// Removes the indexes that this one replaces.
    fn retire(&self, new: &Arc<OpenedIndex>) -> Result<(), Error> {
        let _one_at_a_time = self.taking.lock();
        let all = self.all();
        let own = all.iter().position(|index| Arc::ptr_eq(index, new)).unwrap_or(0);
        let (before, rest) = all.split_at(own);
        let is_old = |index: &&Arc<OpenedIndex>| index.definition.name() == new.definition.name();
        let (old, mut kept): (Vec<_>, Vec<_>) = before.iter().partition(is_old);
        kept.extend(rest);
        self.set(kept.into_iter().cloned().collect());
        Ok(old.iter().try_for_each(|index| index.discard())?)
    }

    /// Discards an index and builds it again.
    pub fn rebuild(&self, index: &Arc<OpenedIndex>) -> Result<(), Error> {
        // A build of it that is under way would go on to write into the directory of the new one.
        index.discard()?;
        let _one_at_a_time = self.taking.lock();
        let mut indexes = self.all();
        indexes.retain(|known| !Arc::ptr_eq(known, index));
        self.set(indexes.clone());
        let fresh = OpenedIndex::open(&index.definition, &self.root, &self.cache, Timestamp(0), None)?;
        fresh.want();
        indexes.push(Arc::new(fresh));
        self.set(indexes);
        Ok(())
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
