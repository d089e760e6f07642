//! The indexes that a node keeps, and the thread that feeds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_bucket::group_prefix;
use millrace_document::{DocumentGroup, DocumentId, Timestamp};
use millrace_env::{Disk as _, RealDisk, ThreadClass, run_or_exit};
use millrace_index::{BlockCache, IndexChange};
use millrace_store::{Store, VisitedVersion};
use parking_lot::{Mutex, RwLock};

use super::IndexDefinition;
use super::feed::{FedChange, IndexFeed, NotedDrop};
use super::opened::{OpenedIndex, remove_directory};
use crate::Error;

/// Bytes of changes in memory after which an index is written to the disk.
const FLUSH_BYTES: usize = 16 << 20;

/// Time after which changes in memory are written to the disk.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Bytes of blocks that all indexes keep in memory.
const CACHE_BYTES: u64 = 32 << 20;

/// Interval at which the thread looks for work without being woken.
const TICK: Duration = Duration::from_secs(1);

/// Pause after an error.
const RETRY: Duration = Duration::from_secs(5);

/// Indexes of a node.
pub struct NodeIndexes {
    inner: Arc<IndexesInner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct IndexesInner {
    root: PathBuf,
    pub store: Store,
    pub feed: Arc<IndexFeed>,
    indexes: RwLock<Vec<Arc<OpenedIndex>>>,
    cache: Arc<BlockCache>,
    /// Held while changes are taken in, in the order of the feed.
    taking: Mutex<TakenUntil>,
    flushed: Mutex<Instant>,
}

/// Progress of taking changes in.
#[derive(Default)]
struct TakenUntil {
    /// Time of the last commit.
    row: Timestamp,
    /// Latest time of a drop: rows of before may have been dropped.
    drop: Timestamp,
}

impl NodeIndexes {
    /// Creates the indexes of a data directory; none is open.
    pub fn new(data_dir: &Path, store: &Store) -> Self {
        let root = data_dir.join("indexes");
        let inner = IndexesInner {
            feed: Arc::new(IndexFeed::open(root.join("drops"))),
            root,
            store: store.clone(),
            indexes: RwLock::default(),
            cache: Arc::new(BlockCache::new(CACHE_BYTES)),
            taking: Mutex::default(),
            flushed: Mutex::new(Instant::now()),
        };
        NodeIndexes { inner: Arc::new(inner), thread: Mutex::new(None) }
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
                remove_directory(&inner.root)?;
            }
            return Ok(());
        }
        inner.adopt(wanted, remembered)?;
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

    /// Ends the work, and writes what is in memory.
    pub fn stop(&self) {
        self.inner.feed.stop();
        let Some(thread) = self.thread.lock().take() else { return };
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread of the indexes ended before its time");
        }
        if let Err(error) = self.inner.flush_all() {
            tracing::warn!(%error, "indexes read again what changed when they are opened");
        }
        self.inner.store.set_follower(None);
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

    fn adopt(&self, wanted: &[Arc<IndexDefinition>], remembered: Timestamp) -> Result<(), Error> {
        let _one_at_a_time = self.taking.lock();
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
        let noted = self.feed.noted_drops();
        for definition in wanted {
            if indexes.iter().any(|index| index.definition.is_same(definition)) {
                continue;
            }
            let mut index = OpenedIndex::open(definition, &self.root, &self.cache, remembered)?;
            let dropped = |drop: &NotedDrop| {
                matches!(drop, NotedDrop::Type(_)) && drop.concerns(&definition.config.document_type)
            };
            if noted.iter().any(dropped) {
                drop(index.copy);
                remove_directory(&index.directory)?;
                index = OpenedIndex::open(definition, &self.root, &self.cache, remembered)?;
            }
            self.recheck(&index, &noted)?;
            indexes.push(Arc::new(index));
        }
        let types = indexes.iter().map(|index| index.definition.config.document_type.to_string());
        self.feed.follow_types(types.collect());
        self.set(indexes);
        // From here on every commit comes through the feed; all of before can be read in the store.
        let follower = (!self.all().is_empty()).then(|| Arc::clone(&self.feed) as Arc<_>);
        self.store.set_follower(follower);
        removed.iter().try_for_each(|index| remove_directory(&index.directory))?;
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

    /// Takes groups out that were dropped while the index may not have learned of it.
    fn recheck(&self, index: &OpenedIndex, noted: &BTreeSet<NotedDrop>) -> Result<(), Error> {
        for drop in noted.iter().filter(|drop| drop.concerns(&index.definition.config.document_type)) {
            let NotedDrop::Group { group, .. } = drop else { continue };
            self.each_of_group(index, group, |document, timestamp| {
                match document_id(document).map(|id| self.store.get(&id)).transpose()? {
                    Some(None) => Ok(index.copy.remove(&[document.to_vec()], timestamp).map(|_| ())?),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// Calls `each` with the key and time of each document of a group that has a record.
    fn each_of_group(
        &self,
        index: &OpenedIndex,
        group: &str,
        mut each: impl FnMut(&[u8], u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let prefix = DocumentGroup::from_key(group).as_ref().and_then(group_prefix).unwrap_or_default();
        let mut from = prefix.clone();
        loop {
            let page = index.copy.documents(&from, 1024)?;
            for indexed in &page.documents {
                if !indexed.document.starts_with(&prefix) {
                    return Ok(());
                }
                if group_key(&indexed.document) == Some(group.as_bytes()) {
                    each(&indexed.document, indexed.record.timestamp)?;
                }
            }
            let Some(last) = page.documents.last().filter(|_| !page.is_last) else { return Ok(()) };
            from = [&last.document[..], &[0]].concat();
        }
    }

    /// Takes in all changes that were acknowledged before the call.
    pub fn settle(&self) -> Result<(), Error> {
        let mut taken = self.taking.lock();
        let changes = self.feed.take();
        let indexes = self.all();
        if changes.cut {
            indexes.iter().for_each(|index| index.read_again());
        }
        let outcome = self.take_in(&indexes, changes.changes, &mut taken);
        if outcome.is_err() {
            // What was taken from the queue is read again.
            indexes.iter().for_each(|index| index.read_again());
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
        let apply = |batches: &mut Vec<Vec<IndexChange>>| {
            let mut each = indexes.iter().zip(batches.iter_mut());
            each.try_for_each(|(index, batch)| index.copy.apply(std::mem::take(batch)).map(drop))
        };
        for change in changes {
            match change {
                FedChange::Row(row) => {
                    let mut version = row.decode()?;
                    taken.row = taken.row.max(row.timestamp());
                    if row.timestamp() <= taken.drop {
                        version = self.after_drops(version)?;
                    }
                    for (index, batch) in indexes.iter().zip(&mut batches) {
                        let is_of_type = *index.definition.config.document_type == *row.document_type();
                        if is_of_type && !index.is_deferred() {
                            batch.push(index.definition.change(&version));
                        }
                    }
                }
                FedChange::Drop(drop, until) => {
                    apply(&mut batches)?;
                    taken.drop = taken.drop.max(until);
                    indexes.iter().try_for_each(|index| self.drop_scope(index, &drop, until))?;
                }
            }
        }
        Ok(apply(&mut batches)?)
    }

    /// A version of before a drop: it counts only if the store still has it.
    fn after_drops(&self, version: VisitedVersion) -> Result<VisitedVersion, Error> {
        let VisitedVersion::Document(document, timestamp) = version else { return Ok(version) };
        Ok(match self.store.get(&document.id)? {
            Some((document, timestamp)) => VisitedVersion::Document(document, timestamp),
            None => VisitedVersion::Removed(document.id, timestamp),
        })
    }

    fn drop_scope(&self, index: &OpenedIndex, drop: &NotedDrop, until: Timestamp) -> Result<(), Error> {
        if !drop.concerns(&index.definition.config.document_type) {
            return Ok(());
        }
        let remove = &mut |document: &[u8], timestamp: u64| match timestamp <= until.0 {
            true => Ok(index.copy.remove(&[document.to_vec()], until.0).map(|_| ())?),
            false => Ok(()),
        };
        match drop {
            NotedDrop::Group { group, .. } => self.each_of_group(index, group, remove),
            NotedDrop::Type(_) => {
                // Of a range of locations some stay: the store says which.
                let mut from = Vec::new();
                loop {
                    let page = index.copy.documents(&from, 1024)?;
                    for indexed in &page.documents {
                        let id = document_id(&indexed.document);
                        let is_gone =
                            || id.map_or(Ok(false), |id| self.store.get(&id).map(|found| found.is_none()));
                        if matches!(drop, NotedDrop::Type(Some(_))) || is_gone()? {
                            remove(&indexed.document, indexed.record.timestamp)?;
                        }
                    }
                    let Some(last) = page.documents.last().filter(|_| !page.is_last) else { return Ok(()) };
                    from = [&last.document[..], &[0]].concat();
                }
            }
        }
    }

    /// Takes changes in, reads what is missing, writes and merges; `true` if there is more to do at once.
    fn step(&self) -> Result<bool, Error> {
        self.settle()?;
        let mut more = false;
        for index in self.all() {
            let stepped = self.step_of(&index);
            index.note(stepped.as_ref().err().map(ToString::to_string));
            more |= stepped?;
            if self.feed.is_stopped() {
                return Ok(false);
            }
        }
        if self.flushed.lock().elapsed() >= FLUSH_INTERVAL {
            self.flush_all()?;
        }
        Ok(more)
    }

    fn step_of(&self, index: &Arc<OpenedIndex>) -> Result<bool, Error> {
        let mut more = {
            // A drop that is taken in between the reading and the taking of a page would miss its documents.
            let _one_at_a_time = self.taking.lock();
            index.read_page(&self.store)?
        };
        if index.finish_reading() {
            self.flush_all()?;
            self.retire(index)?;
        }
        if index.copy.status().memory_bytes >= FLUSH_BYTES {
            self.flush(index)?;
            more |= index.copy.merge(self.forgotten(index))?;
        }
        Ok(more)
    }

    /// Time of before which no version will come any more.
    fn forgotten(&self, index: &OpenedIndex) -> u64 {
        if index.is_ready() { index.copy.status().complete_until } else { 0 }
    }

    /// Writes what an index has in memory.
    fn flush(&self, index: &OpenedIndex) -> Result<(), Error> {
        let until = {
            let taken = self.taking.lock();
            if index.is_ready() { taken.row.0 } else { 0 }
        };
        Ok(index.copy.flush(until, index.is_ready())?)
    }

    /// Writes what all indexes have in memory, and notes how far those that are ready are complete.
    pub fn flush_all(&self) -> Result<(), Error> {
        let indexes = self.all();
        if indexes.is_empty() {
            return Ok(());
        }
        let noted = self.feed.noted_drops();
        // No commit after this gets an earlier timestamp, and all of before it wait in the feed.
        let until = self.store.next_timestamp();
        self.store.set_follower(Some(Arc::clone(&self.feed) as Arc<_>));
        self.settle()?;
        for index in &indexes {
            let until = if index.is_ready() { until.0 } else { 0 };
            index.copy.flush(until, index.is_ready())?;
            while !self.feed.is_stopped() && index.copy.merge(self.forgotten(index))? {}
        }
        if indexes.iter().all(|index| index.is_ready()) {
            self.feed.forget_drops(&noted);
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
        Ok(old.iter().try_for_each(|index| remove_directory(&index.directory))?)
    }

    /// Discards an index and builds it again.
    pub fn rebuild(&self, index: &Arc<OpenedIndex>) -> Result<(), Error> {
        let _one_at_a_time = self.taking.lock();
        let mut indexes = self.all();
        indexes.retain(|known| !Arc::ptr_eq(known, index));
        self.set(indexes.clone());
        remove_directory(&index.directory)?;
        let fresh = OpenedIndex::open(&index.definition, &self.root, &self.cache, Timestamp(0))?;
        fresh.want();
        indexes.push(Arc::new(fresh));
        self.set(indexes);
        Ok(())
    }
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
