use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_column::View;
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentVersion, DropScope, Timestamp};
use millrace_env::pace::{self, RestPolicy};
use millrace_env::{LatencyHistogram, ThreadClass};
use millrace_segment::{SegmentCache, SegmentFormat};
use parking_lot::Mutex;

use crate::context::{RequestSize, StoreContext};
use crate::read::column_sizes::StoredColumn;
use crate::read::{by_id, column_sizes, groups, sweep, view};
use crate::state::is_of_divided;
use crate::state::locations;
use crate::state::marks::{MarkScope, MarkTime};
use crate::state::open::{DirectoryLock, open};
use crate::tail::{FjallTails, TailFactory};
use crate::upkeep::column_preparer::ColumnPreparer;
use crate::upkeep::maintenance::SeparateArea;
use crate::upkeep::maintenance::StoreMaintenance;
use crate::upkeep::pace::{of_merging, of_preparing, of_rolling, of_sealing};
use crate::upkeep::rolling::TailRoller;
use crate::upkeep::sealing::TailSealer;
use crate::write::batch::RefusedBatch;
use crate::write::commit_rows::TIMESTAMP_LIMIT;
use crate::write::committer::{MODIFIERS, PendingWrites};
use crate::{
    CommitFollower, CommittedWrite, DocumentWrite, Error, RewritePause, StoreLayout, StoreModification,
    StoreOptions, StoreStatus, StoreTuning, StoreVisit, StoredGroup, StoredGroupPage, SweptPage, ViewScope,
    WriteDurability, WriteRefusal, WriteTimes, WriterId,
};

/// The documents of a data directory. Clones share it; when the last one is dropped, it is closed.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

struct StoreInner {
    shared: Arc<StoreContext>,
    writes: Arc<PendingWrites>,
    sealer: Arc<TailSealer>,
    threads: Mutex<StoreThreads>,
    _lock: DirectoryLock,
}

#[derive(Default)]
struct StoreThreads {
    modifiers: Vec<JoinHandle<()>>,
    committer: Option<JoinHandle<()>>,
    background: Vec<JoinHandle<()>>,
}

/// Interval at which the background checks for work without being woken.
const TICK: Duration = Duration::from_millis(100);
/// Delay before failed background work is tried again.
const RETRY: Duration = Duration::from_secs(2);

impl Store {
    /// Opens the store of a data directory, which only one process can have open. Reads no documents.
    ///
    /// # Errors
    /// The directory cannot be read, its manifest or the tail's log is damaged, or it is in use. A damaged
    /// segment is not an error here: its bucket refuses.
    pub fn open(options: StoreOptions, layout: Arc<dyn StoreLayout>) -> Result<Store, Error> {
        Self::open_with(options, layout, Box::new(FjallTails))
    }

    pub(crate) fn open_with(
        options: StoreOptions,
        layout: Arc<dyn StoreLayout>,
        tails: Box<dyn TailFactory>,
    ) -> Result<Store, Error> {
        let lock = DirectoryLock::take(&options.data_dir)?;
        let cache_bytes = if options.paths.is_fast() { options.cache_bytes } else { 0 };
        let cache = Arc::new(SegmentCache::new(cache_bytes / 16 * 11));
        let opened = open(&options, &*tails, &cache)?;
        let shared = Arc::new(StoreContext::new(options, tails, layout, cache, opened));
        let writes = Arc::new(PendingWrites::new(Arc::clone(&shared)));
        let roller = Arc::new(TailRoller::new(Arc::clone(&shared)));
        let sealer = Arc::new(TailSealer::new(Arc::clone(&shared), Arc::clone(&roller)));
        let threads = StoreThreads::start(&shared, &writes, &roller, &sealer)
            .map_err(|error| Error::io("start the store's threads", &error))?;
        Ok(Store {
            inner: Arc::new(StoreInner { shared, writes, sealer, threads: Mutex::new(threads), _lock: lock }),
        })
    }

    /// Replaces the layout of columns. Views use it at once, segments when they are written next.
    pub fn set_layout(&self, layout: Arc<dyn StoreLayout>) {
        self.inner.shared.set_layout(layout);
    }

    /// Writes one document. `done` is called once the write is durable and visible to every later view, or
    /// has failed: on a thread that other writes wait for, or on this one if the write is refused at once. So
    /// it should only pass the answer on.
    pub fn write(
        &self,
        write: DocumentWrite,
        done: impl FnOnce(Result<CommittedWrite, Error>) + Send + 'static,
    ) {
        self.inner.writes.accept(write, Box::new(done));
    }

    /// Writes a batch: the store admits all of it or nothing. `done` gets an outcome for each write, in their
    /// order, when the last of them is as durable as was asked and visible, or has failed; it is called as in
    /// [`Store::write`]. Writes of one document keep their order. Puts and removals that need not wait for an
    /// earlier modification of their documents share one entry of the log and its sync: after a crash either
    /// all of them are there or none.
    ///
    /// Returns the time for this writer to wait before its next batch, because sealing has fallen behind;
    /// usually zero. Writers that wait share the rate of sealing equally; one that does not wait finds the
    /// store overloaded later. The wait may end as soon as [`Store::is_behind`] is false.
    ///
    /// # Errors
    /// The store takes no writes now. Nothing was written, and `done` is not called.
    pub fn write_batch(
        &self,
        writes: Vec<DocumentWrite>,
        writer: WriterId,
        durability: WriteDurability,
        done: impl FnOnce(Vec<Result<CommittedWrite, Error>>) + Send + 'static,
    ) -> Result<Duration, RefusedBatch> {
        self.inner.writes.accept_batch(writes, writer, durability, Box::new(done))
    }

    /// True while sealing has fallen behind so far that batches are held back.
    pub fn is_behind(&self) -> bool {
        self.inner.shared.is_behind()
    }

    /// True if a request waits for the store, or did until just now: then the disk is shared with it.
    pub fn is_in_use(&self) -> bool {
        self.inner.shared.is_in_use()
    }

    /// Writes versions that have their timestamps already: those of other replicas. They may come in any
    /// order, and more than once; of each document the newest counts. All of them are kept or none; `done` is
    /// called as in [`Store::write`]. Timestamps that this store gives are above them from then on.
    pub fn apply(
        &self,
        versions: Vec<DocumentVersion>,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.inner.writes.apply(versions, Box::new(|outcome| done(outcome.map(drop))));
    }

    /// Applies a drop that another replica of a bucket has applied: of the documents in the bucket, if that
    /// is a part of a divided group. Older versions that arrive later are dropped too, as long as removals
    /// are remembered.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn apply_drop(&self, bucket: BucketId, drop: &millrace_document::DroppedScope) -> Result<(), Error> {
        let scope = match &drop.scope {
            DropScope::Group { document_type, group } => MarkScope::Group {
                document_type: document_type.clone(),
                group: group.key(),
                part: is_of_divided(bucket).then_some(bucket),
            },
            DropScope::Type(name) => MarkScope::Type(name.clone()),
        };
        self.mark(vec![scope], MarkTime::Given(drop.timestamp.min(Timestamp(TIMESTAMP_LIMIT))))
    }

    /// Sets the follower of this store's commits and drops; `None` to have none. Returns a time: every
    /// version up to it is visible, and every later one goes to the follower.
    pub fn set_follower(&self, follower: Option<Arc<dyn CommitFollower>>) -> Timestamp {
        let shared = &self.inner.shared;
        shared.follower.set(follower, || shared.timestamps.last())
    }

    /// Returns the document with this id and the time of its write; `None` if there is none.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn get(&self, id: &DocumentId) -> Result<Option<(Document, Timestamp)>, Error> {
        self.get_fields(id, None)
    }

    /// The documents of this type in this scope, as they are now.
    ///
    /// Cost: reads the directories of the segments that can have them, and their ids only if versions in
    /// several places have to be compared.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn view(&self, document_type: &str, scope: &ViewScope) -> Result<Arc<dyn View>, Error> {
        self.inner.shared.check_open()?;
        self.inner.shared.note_use(RequestSize::Small);
        view::view(&self.inner.shared, document_type, scope)
    }

    /// The documents with these ids that are of this type, as they are now; only those in the buckets
    /// `within`, if these are given.
    ///
    /// Cost: reads the directories of the segments, and the ids of the chunks that can have one.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn view_of(
        &self,
        document_type: &str,
        documents: &[DocumentId],
        within: Option<&[BucketId]>,
    ) -> Result<Arc<dyn View>, Error> {
        self.inner.shared.check_open()?;
        self.inner.shared.note_use(RequestSize::Small);
        by_id::view(&self.inner.shared, document_type, documents, within)
    }

    /// Returns the groups after `after` that have documents of these types in a scope of buckets, with their
    /// sizes there. At most `wanted` groups are examined.
    ///
    /// Cost: reads the directories, masks and keys of these groups.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn groups(
        &self,
        document_types: &[&str],
        scope: &ViewScope,
        after: Option<&DocumentGroup>,
        wanted: usize,
    ) -> Result<StoredGroupPage, Error> {
        self.inner.shared.check_open()?;
        groups::page(&self.inner.shared, document_types, scope, after, wanted)
    }

    /// Returns the size of one group, or of its documents in some buckets.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn group(
        &self,
        document_types: &[&str],
        group: &DocumentGroup,
        within: Option<&[BucketId]>,
    ) -> Result<StoredGroup, Error> {
        self.inner.shared.check_open()?;
        groups::one(&self.inner.shared, document_types, group, within)
    }

    /// Returns the number of segment files that have versions of a group. After a merge has left them out for
    /// their own bucket, a file can still have them, as long as another bucket uses the file.
    ///
    /// Cost: reads the directory of each file.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn files_with_group(&self, group: &DocumentGroup) -> Result<u64, Error> {
        self.inner.shared.check_open()?;
        groups::files_with(&self.inner.shared, group)
    }

    /// Drops the documents of a group (of one type, or of all types where that is `None`), at a cost that
    /// does not depend on their number. Writes acknowledged later are not touched.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn drop_group(&self, document_type: Option<&str>, group: &DocumentGroup) -> Result<(), Error> {
        self.drop_groups(document_type, std::slice::from_ref(group))
    }

    /// Drops groups as [`Store::drop_group`] does one, all or none, with one sync.
    ///
    /// # Errors
    /// The drops cannot be made durable.
    pub fn drop_groups(&self, document_type: Option<&str>, groups: &[DocumentGroup]) -> Result<(), Error> {
        let scope = |group: &DocumentGroup| {
            let document_type = document_type.map(str::to_owned);
            MarkScope::Group { document_type, group: group.key(), part: None }
        };
        self.mark(groups.iter().map(scope).collect(), MarkTime::Now)
    }

    /// Suspends rewrites ([`Store::sweep`]) until the returned value is dropped; waits for those in progress.
    /// The calling thread must not sweep meanwhile, nor drop other than with [`Store::drop_group_until`].
    pub fn pause_rewrites(&self) -> RewritePause<'_> {
        self.inner.shared.rewrites.pause()
    }

    /// Drops the documents of a group and type as of the time `until`, which is that of a document of the
    /// group in a view. Later writes are unaffected, so that a decision based on a view still holds when it
    /// is executed. The view was opened during the pause: otherwise a document that it has shown may have
    /// been rewritten since, under a later time.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn drop_group_until(
        &self,
        _pause: &RewritePause<'_>,
        document_type: &str,
        group: &DocumentGroup,
        until: Timestamp,
    ) -> Result<(), Error> {
        let newest = self.inner.shared.timestamps.last();
        assert!(
            until <= newest,
            "a drop until {until:?} is of a time that no view can have shown: {newest:?}"
        );
        let document_type = Some(document_type.to_owned());
        let scope = MarkScope::Group { document_type, group: group.key(), part: None };
        self.put_marks(vec![scope], MarkTime::Until(until))
    }

    /// Drops all documents of a type, as [`Store::drop_group`] does.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn drop_type(&self, document_type: &str) -> Result<(), Error> {
        self.mark(vec![MarkScope::Type(document_type.to_owned())], MarkTime::Now)
    }

    /// Drops all documents of a bucket, as [`Store::drop_group`] does; its files go soon after, without being
    /// read.
    ///
    /// # Errors
    /// The drop cannot be made durable; the bucket is a part of a divided group.
    pub fn drop_bucket(&self, bucket: BucketId) -> Result<(), Error> {
        if is_of_divided(bucket) {
            let reason = "a part of a divided group is dropped with Store::apply_drop".to_owned();
            return Err(Error::Io { action: format!("drop {bucket}"), reason });
        }
        let (first, last) = locations(bucket);
        self.mark(vec![MarkScope::Locations(first, last)], MarkTime::Now)
    }

    pub(crate) fn shared(&self) -> &Arc<StoreContext> {
        &self.inner.shared
    }

    pub(crate) fn sealer(&self) -> &TailSealer {
        &self.inner.sealer
    }

    /// Marks scopes as dropped, between rewrites: a version that was read before is not written again after.
    fn mark(&self, scopes: Vec<MarkScope>, time: MarkTime) -> Result<(), Error> {
        let _pause = self.pause_rewrites();
        self.put_marks(scopes, time)
    }

    fn put_marks(&self, scopes: Vec<MarkScope>, time: MarkTime) -> Result<(), Error> {
        let shared = &self.inner.shared;
        shared.check_open()?;
        shared.mark(scopes, time)?;
        shared.alarm.ring();
        Ok(())
    }

    /// Buckets of the store, in the order of keys.
    pub fn buckets(&self) -> Vec<BucketId> {
        self.inner.shared.state().buckets.iter().map(|bucket| bucket.id).collect()
    }

    /// Applies `decide` to each document of the next page of a visit; a document that is written in the
    /// meantime keeps that write. Callers that pause between pages leave the disk to others.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; `decide` refused a document, and the page is as it was; a write
    /// fails, and part of the page is changed. In each case the same page can be tried again.
    pub fn sweep(
        &self,
        visit: &StoreVisit,
        decide: &dyn Fn(Document) -> Result<StoreModification, WriteRefusal>,
    ) -> Result<SweptPage, Error> {
        sweep::sweep(self, visit, decide)
    }

    /// Replaces the limits that can change while the store is open.
    pub fn set_tuning(&self, tuning: StoreTuning) {
        self.inner.shared.set_tuning(tuning);
        self.inner.shared.alarm.ring();
    }

    /// Splits buckets of these areas, and of no others, at this size in bytes, until the store is closed. So
    /// the drop of a large group there removes files, and merges none.
    pub fn separate_files(&self, areas: impl IntoIterator<Item = BucketId>, split_bytes: u64) {
        let areas = areas.into_iter().map(|bucket| SeparateArea { bucket, split_bytes });
        if self.inner.shared.separate_files(areas.collect()) {
            self.inner.shared.alarm.ring();
        }
    }

    /// Sets the format in which segments are written. Those that exist keep theirs until they are merged.
    pub fn set_segment_format(&self, format: SegmentFormat) {
        self.inner.shared.set_segment_format(format);
    }

    /// Seals all that was written until now; returns when that is done.
    ///
    /// # Errors
    /// A segment or the manifest cannot be written.
    pub fn seal(&self) -> Result<(), Error> {
        self.inner.shared.check_open()?;
        self.inner.sealer.seal()
    }

    /// Merges, splits and prunes until there is nothing more to do; returns when that is done.
    ///
    /// # Errors
    /// A segment cannot be read, or one or the manifest cannot be written.
    pub fn maintain(&self) -> Result<(), Error> {
        self.inner.shared.check_open()?;
        let maintenance = StoreMaintenance::new(Arc::clone(&self.inner.shared));
        while maintenance.run_next()? {}
        Ok(())
    }

    /// Clears the caches, so that the next reads go to the files; for measurements.
    pub fn clear_cache(&self) {
        self.inner.shared.caches.segments.clear();
    }

    /// Columns of all segments with their bytes on the disk, by document type, the largest first. Reads the
    /// directories of all segments, so its cost grows with their number of chunks.
    ///
    /// # Errors
    /// A directory cannot be read or is damaged.
    pub fn stored_columns(&self) -> Result<Vec<StoredColumn>, Error> {
        let shared = &self.inner.shared;
        column_sizes::stored_columns(&shared.state(), &shared.counters.seal_times)
    }

    /// Bytes of the filters of ids in all segments.
    pub fn filter_bytes(&self) -> u64 {
        column_sizes::filter_bytes(&self.inner.shared.state())
    }

    /// Times to append a batch of writes to the log and to sync it.
    pub fn sync_times(&self) -> &LatencyHistogram {
        &self.inner.shared.counters.sync_times
    }

    /// Returns the status of the store.
    pub fn status(&self) -> StoreStatus {
        let shared = &self.inner.shared;
        let state = shared.state();
        let cache = shared.caches.segments.statistics();
        let counters = &shared.counters;
        let rows = state.generations.iter().map(|generation| generation.rows.load(Ordering::Relaxed)).sum();
        StoreStatus {
            documents: state.buckets.iter().map(|bucket| shared.counts.documents(bucket)).sum::<u64>() + rows,
            segment_bytes: state.segment_bytes(),
            buckets: state.buckets.len(),
            replicas: state.replicas.len(),
            incomplete_replicas: state.replicas.values().filter(|complete| !**complete).count(),
            segments: state.segment_numbers().len(),
            tail_rows: rows,
            tail_bytes: state.tail_bytes(),
            cache_bytes: cache.bytes,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            writes_in_flight: counters.writes_in_flight.load(Ordering::Relaxed),
            deferred_rows: counters.deferred_rows.load(Ordering::Relaxed),
            deferred_us_max: counters.deferred_us_max.load(Ordering::Relaxed),
            disk_free: shared.options.disk.free_space(&shared.options.data_dir).unwrap_or(0),
            disk_total: shared.options.disk.total_space(&shared.options.data_dir).unwrap_or(0),
            seals: counters.seals.load(Ordering::Relaxed),
            merges: counters.merges.load(Ordering::Relaxed),
            splits: counters.splits.load(Ordering::Relaxed),
            refusing: shared.health.check_writable().err().map(|error| error.to_string()),
            failures: shared.health.failures(),
            panics: shared.health.panics(),
        }
    }

    /// Returns descriptions of failing work, in sentences; empty if all works. Costs nothing, so that a
    /// health check can call it.
    pub fn failures(&self) -> Vec<String> {
        let health = &self.inner.shared.health;
        let mut failures = health.failures();
        failures.extend(health.check_writable().err().map(|error| error.to_string()));
        if health.panics() > 0 {
            failures.push(format!("{} panics were caught since the start; see the log", health.panics()));
        }
        failures
    }

    /// Returns the durations of writes since the store was opened: for finding the cause of a slow write.
    pub fn write_times(&self) -> WriteTimes {
        let counters = &self.inner.shared.counters;
        let (waited, committed) = (counters.waited.counts(), counters.committed.counts());
        WriteTimes { waited, committed, rolled: counters.rolled.counts() }
    }

    /// Waits for the writes that are in flight, and ends all work. Other clones answer [`Error::Closed`] from
    /// now on.
    pub fn close(self) {
        self.inner.close();
    }
}

impl StoreInner {
    fn close(&self) {
        self.shared.health.closed.store(true, Ordering::SeqCst);
        self.shared.alarm.ring();
        let mut threads = std::mem::take(&mut *self.threads.lock());
        // Modifiers hand on to the committer, so they end first.
        self.writes.close();
        threads.modifiers.drain(..).for_each(join);
        self.writes.close_commits();
        threads.committer.take().into_iter().for_each(join);
        threads.background.drain(..).for_each(join);
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Joins a thread. The threads of the store catch the panics of their work, or end the process.
fn join(thread: JoinHandle<()>) {
    // The last clone can be dropped by a callback, on one of these threads itself.
    if thread.thread().id() != thread::current().id() && thread.join().is_err() {
        tracing::error!("a thread of the store ended before its time");
    }
}

impl StoreThreads {
    fn start(
        shared: &Arc<StoreContext>,
        writes: &Arc<PendingWrites>,
        roller: &Arc<TailRoller>,
        sealer: &Arc<TailSealer>,
    ) -> std::io::Result<Self> {
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.to_owned()).spawn(work)
        };
        let mut threads = StoreThreads::default();
        for _ in 0..MODIFIERS {
            let writes = Arc::clone(writes);
            threads.modifiers.push(spawn("store-modify", Box::new(move || writes.run_modifier()))?);
        }
        let committing = Arc::clone(writes);
        let commit = move || {
            ThreadClass::Prompt.enter();
            committing.run_committer();
        };
        threads.committer = Some(spawn("store-commit", Box::new(commit))?);
        let (of, roller) = (Arc::clone(shared), Arc::clone(roller));
        let make = "make a generation of the tail";
        let roll = move || background(&of, of_rolling(&of), make, || roller.prepare_spare().map(|()| false));
        threads.background.push(spawn("store-roll", Box::new(roll))?);
        let (of, sealer) = (Arc::clone(shared), Arc::clone(sealer));
        let seal = move || {
            background(&of, of_sealing(&of, 1), "seal", || {
                of.report_damage();
                sealer.seal_if_due().map(|()| false)
            });
        };
        threads.background.push(spawn("store-seal", Box::new(seal))?);
        if shared.options.prepares_columns() {
            let of = Arc::clone(shared);
            let preparer = ColumnPreparer::new(Arc::clone(shared));
            let make = "make columns of imported groups";
            let prepare =
                move || background(&of, of_preparing(&of), make, || preparer.prepare_due().map(|()| false));
            threads.background.push(spawn("store-prepare", Box::new(prepare))?);
        }
        if shared.options.maintenance {
            let of = Arc::clone(shared);
            let maintenance = StoreMaintenance::new(Arc::clone(shared));
            let maintain =
                move || background(&of, of_merging(&of), "merge and split", || maintenance.run_next());
            threads.background.push(spawn("store-merge", Box::new(maintain))?);
        }
        Ok(threads)
    }
}

/// Works until the store closes: while there is more to do, when the alarm rings, and now and then.
fn background(
    shared: &StoreContext,
    rest: RestPolicy,
    work: &'static str,
    run: impl Fn() -> Result<bool, Error>,
) {
    ThreadClass::Background.enter();
    pace::keep(rest);
    let mut seen = 0;
    while !shared.health.closed.load(Ordering::SeqCst) {
        let wait = match shared.health.guard(work, &run) {
            Ok(true) => continue,
            Ok(false) => {
                shared.health.record_outcome(work, None);
                TICK
            }
            Err(error) => {
                shared.health.record_outcome(work, Some(error.to_string()));
                RETRY
            }
        };
        seen = shared.alarm.wait(seen, wait);
    }
}

mod visits;

#[cfg(test)]
mod tests;
