//! State shared by the parts of an open store: the current state and its changes, the layout, the clock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_env::{LatencyHistogram, pace};
use millrace_segment::{SegmentCache, SegmentFile, SegmentFormat, SegmentWriter};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::erasure::ErasurePartner;
use crate::health::StoreHealth;
use crate::read::layout_conversion::JoinedColumnCache;
use crate::read::masks::MaskCache;
use crate::read::row_cache::{RecentRowCache, WriteNumbers};
use crate::replica::counts::CountCache;
use crate::snapshot::SnapshotRegistry;
use crate::state::StoreState;
use crate::state::erasures::ErasureLedger;
use crate::state::manifest::{ManifestWriteError, RenameDurability};
use crate::state::marks::{DropMark, MarkScope, MarkTime};
use crate::state::open::OpenedStore;
use crate::tail::chunk::TailChunkCache;
use crate::tail::{AppendError, TailFactory};
use crate::upkeep::column_preparer::FreshGroups;
use crate::upkeep::maintenance::SeparateArea;
use crate::upkeep::seal_times::SealTimes;
use crate::write::backlog::{self, SealBacklog};
use crate::write::follow::FollowerSlot;
use crate::write::rewrites::RewriteGate;
use crate::write::timestamps::TimestampSource;
use crate::{Error, StoreLayout, StoreOptions, StoreTuning};

/// Time without a write or a query after which the store counts as idle: longer than the pauses between
/// requests of clients that keep it busy.
const LULL: Duration = Duration::from_millis(5);

/// Time without a small request after which none is expected.
const SMALL_LULL: Duration = Duration::from_millis(50);

/// Size of a request, of which small ones are to be answered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestSize {
    /// A single write, or a view.
    Small,
    Batch,
}

pub(crate) struct StoreContext {
    pub options: StoreOptions,
    pub tails: Box<dyn TailFactory>,
    pub timestamps: TimestampSource,
    pub caches: ReadCaches,
    pub health: StoreHealth,
    pub counters: StoreCounters,
    pub backlog: SealBacklog,
    pub fresh: FreshGroups,
    pub counts: CountCache,
    pub alarm: BackgroundAlarm,
    pub follower: FollowerSlot,
    opened: Instant,
    pub write_numbers: WriteNumbers,
    pub rewrites: RewriteGate,
    pub erasures: ErasureLedger,
    pub erasure_partner: RwLock<Option<Arc<dyn ErasurePartner>>>,
    pub snapshots: SnapshotRegistry,
    /// Read by every write and query, so without a lock: a thread that holds one can lose its core.
    state: ArcSwap<StoreState>,
    /// Held while a new state is made, so that they are made one after another.
    publishing: Mutex<()>,
    /// Segments that have arrived, and may be given to further buckets: their files keep their names, also if
    /// the buckets that had them give them up.
    arriving: Mutex<BTreeSet<u64>>,
    next_number: AtomicU64,
    layout: RwLock<(Arc<dyn StoreLayout>, u64)>,
    tuning: RwLock<StoreTuning>,
    separate_areas: RwLock<Vec<SeparateArea>>,
    segment_format: RwLock<SegmentFormat>,
}

/// Caches of everything read, within [`StoreOptions::cache_bytes`].
pub(crate) struct ReadCaches {
    pub segments: Arc<SegmentCache>,
    pub masks: MaskCache,
    pub tail_chunks: TailChunkCache,
    pub recent: RecentRowCache,
    pub converted: Arc<JoinedColumnCache>,
}

/// Counters since the start.
#[derive(Default)]
pub(crate) struct StoreCounters {
    pub seals: AtomicU64,
    pub merges: AtomicU64,
    pub splits: AtomicU64,
    /// Segments that the last merge was begun with.
    pub merging: AtomicUsize,
    pub writes_in_flight: AtomicUsize,
    pub bytes_in_flight: AtomicUsize,
    /// Times that writes waited for their commit; `committed` has the times of the commits.
    pub waited: LatencyHistogram,
    pub committed: LatencyHistogram,
    /// Times of commits that went to the change of generations.
    pub rolled: LatencyHistogram,
    /// Rows that were acknowledged before their sync, and the longest time until one, in microseconds.
    pub deferred_rows: AtomicU64,
    pub deferred_us_max: AtomicU64,
    /// Times to append a batch to the log and to sync it.
    pub sync_times: LatencyHistogram,
    /// Rests of all threads that seal, of each as its share of their number.
    pub seal_rested_ns: AtomicU64,
    pub seal_times: SealTimes,
    /// In microseconds of the clock; for telling when the store is idle.
    pub last_write_us: AtomicU64,
    /// Time of the last write or read request, in microseconds since the store was opened.
    used_us: AtomicU64,
    /// Time of the last small request, a single write or a view, in the same unit.
    small_used_us: AtomicU64,
    /// Rows of the tail that reads of groups came upon, once for the key and once for the content.
    pub tail_reads: AtomicU64,
    /// A view had much to go through in the tail.
    pub seal_wanted: AtomicBool,
}

impl StoreContext {
    pub fn new(
        options: StoreOptions,
        tails: Box<dyn TailFactory>,
        layout: Arc<dyn StoreLayout>,
        segments: Arc<SegmentCache>,
        opened: OpenedStore,
    ) -> Self {
        let OpenedStore { state, next_number, timestamps, erasures } = opened;
        let small = options.cache_bytes / 16;
        StoreContext {
            tails,
            timestamps,
            caches: ReadCaches {
                segments,
                masks: MaskCache::new(small / 2),
                converted: Arc::new(JoinedColumnCache::new(small / 2)),
                tail_chunks: TailChunkCache::new(options.cache_bytes / 4),
                recent: RecentRowCache::new(small / 4),
            },
            health: StoreHealth::default(),
            counters: StoreCounters::default(),
            backlog: SealBacklog::default(),
            fresh: FreshGroups::default(),
            opened: Instant::now(),
            counts: CountCache::default(),
            alarm: BackgroundAlarm::default(),
            follower: FollowerSlot::default(),
            write_numbers: WriteNumbers::default(),
            rewrites: RewriteGate::default(),
            erasures,
            erasure_partner: RwLock::default(),
            snapshots: SnapshotRegistry::default(),
            state: ArcSwap::from_pointee(state),
            publishing: Mutex::new(()),
            arriving: Mutex::default(),
            next_number: AtomicU64::new(next_number),
            layout: RwLock::new((layout, 0)),
            tuning: RwLock::new(options.tuning.clone()),
            separate_areas: RwLock::default(),
            segment_format: RwLock::new(options.segment_format),
            options,
        }
    }

    /// Notes a write or read request, which may be small. Returns the time of it.
    pub fn note_use(&self, size: RequestSize) -> Instant {
        let now = Instant::now();
        let used = now.duration_since(self.opened).as_micros() as u64;
        self.counters.used_us.store(used, Ordering::Relaxed);
        if size == RequestSize::Small {
            self.counters.small_used_us.store(used, Ordering::Relaxed);
        }
        now
    }

    /// Returns true if there was a small request a moment ago: more of them are likely to come.
    pub fn has_small_requests(&self) -> bool {
        let used = self.counters.small_used_us.load(Ordering::Relaxed);
        used > 0 && self.opened.elapsed() < Duration::from_micros(used) + SMALL_LULL
    }

    /// Returns true if a request waits for the store, or did until just now.
    pub fn is_in_use(&self) -> bool {
        let used = Duration::from_micros(self.counters.used_us.load(Ordering::Relaxed));
        self.counters.writes_in_flight.load(Ordering::Relaxed) > 0 || self.opened.elapsed() < used + LULL
    }

    /// The state now.
    pub fn state(&self) -> Arc<StoreState> {
        self.state.load_full()
    }

    /// Bytes of the tail, as a number of full generations.
    pub fn generations(&self) -> f64 {
        self.state().tail_bytes() as f64 / self.options.tail_bytes.max(1) as f64
    }

    /// True while sealing has fallen behind so far that batches are held back.
    pub fn is_behind(&self) -> bool {
        backlog::is_behind(self.generations())
    }

    /// Makes a new state from the current one, durably: the manifest first, then for readers. Files of
    /// segments that no bucket has any more lose their names; views that read them still can.
    pub fn publish(
        &self,
        change: impl FnOnce(&StoreState) -> Result<StoreState, Error>,
    ) -> Result<(), Error> {
        Ok(self.try_publish(change)?)
    }

    /// [`StoreContext::publish`] whose error includes if the new state may be the one that the next start
    /// finds.
    pub fn try_publish(
        &self,
        change: impl FnOnce(&StoreState) -> Result<StoreState, Error>,
    ) -> Result<(), ManifestWriteError> {
        let one_at_a_time = self.publishing.lock();
        let gone = self.replace(&self.state(), change)?;
        drop(one_at_a_time);
        self.unlink_segments(&gone);
        Ok(())
    }

    /// [`StoreContext::try_publish`] where versions enter these buckets with the new state.
    pub fn try_publish_arrivals(
        &self,
        buckets: &[BucketId],
        change: impl FnOnce(&StoreState) -> Result<StoreState, Error>,
    ) -> Result<(), ManifestWriteError> {
        let one_at_a_time = self.publishing.lock();
        // Locks are taken in the order publishing, gates, follower, everywhere.
        let follower = self.follower.hold();
        let announced = follower.changing(buckets);
        let changing =
            announced.map_err(|error| ManifestWriteError { error, in_place: RenameDurability::No })?;
        let gone = self.replace(&self.state(), change)?;
        drop(changing);
        drop((follower, one_at_a_time));
        self.unlink_segments(&gone);
        Ok(())
    }

    /// [`StoreContext::publish`] where versions leave these buckets, while no row is appended: the change
    /// sees all rows that exist until it takes effect. Writes are blocked in the meantime.
    pub fn publish_alone(
        &self,
        buckets: &[BucketId],
        change: impl FnOnce(&StoreState) -> Result<StoreState, Error>,
    ) -> Result<(), Error> {
        let gone = {
            let _one_at_a_time = self.publishing.lock();
            let old = self.state();
            let _gates: Vec<_> = old.generations.iter().map(|generation| generation.gate()).collect();
            let follower = self.follower.hold();
            let _changing = follower.changing(buckets)?;
            let reduced = |state: &StoreState| {
                let new = change(state)?;
                Ok(StoreState { reduced_at: state.version + 1, ..new })
            };
            self.replace(&old, reduced)?
        };
        self.unlink_segments(&gone);
        Ok(())
    }

    /// Notes that a segment arrives. Its file keeps its name until [`StoreContext::end_arrival`].
    pub fn begin_arrival(&self, number: u64) {
        self.arriving.lock().insert(number);
    }

    /// Ends the arrival of a segment. Returns true if no bucket has it: the caller deletes its file then.
    pub fn end_arrival(&self, number: u64) -> bool {
        // No state is made meanwhile, so that either this or the state that gives the segment up deletes it.
        let _one_at_a_time = self.publishing.lock();
        self.arriving.lock().remove(&number);
        self.state().segment_numbers().binary_search(&number).is_err()
    }

    /// Puts a new state in the place of this one. Returns the numbers of the segments that no bucket has any
    /// more, and that none can get.
    fn replace(
        &self,
        old: &StoreState,
        change: impl FnOnce(&StoreState) -> Result<StoreState, Error>,
    ) -> Result<Vec<u64>, ManifestWriteError> {
        let new =
            change(old).map_err(|error| ManifestWriteError { error, in_place: RenameDurability::No })?;
        new.assert_whole();
        let manifest = new.manifest(self.next_number.load(Ordering::SeqCst), self.timestamps.last().0);
        manifest.write(&*self.options.disk, &self.options.data_dir)?;
        let kept = new.segment_numbers();
        let mut gone = old.segment_numbers();
        let arriving = self.arriving.lock();
        gone.retain(|number| kept.binary_search(number).is_err() && !arriving.contains(number));
        drop(arriving);
        self.set_state(old, new);
        Ok(gone)
    }

    /// Makes a state that of the store, in the place of this one. One at a time.
    fn set_state(&self, old: &StoreState, mut new: StoreState) {
        new.version = old.version + 1;
        self.state.store(Arc::new(new));
    }

    /// Unlinks segments one after another, while no lock is held: those of many drops take long, and the file
    /// system shares its own log with the syncs of writes. No number is used again.
    fn unlink_segments(&self, numbers: &[u64]) {
        for number in numbers {
            if let Err(error) = self.options.disk.unlink(&self.segment_path(*number)) {
                // The next start deletes segments without a bucket.
                self.health.record_outcome("unlink a segment", Some(error.to_string()));
            }
            pace::step();
        }
    }

    /// Lets the spare generation take over the writes, unless there is none. The manifest names it already,
    /// so no file is touched. Returns true if it did.
    pub fn roll(&self) -> bool {
        let one_at_a_time = self.publishing.lock();
        self.roll_alone(&one_at_a_time)
    }

    /// [`StoreContext::roll`] for threads that must not wait: while another thread makes a new state, nothing
    /// is done.
    pub fn try_roll(&self) -> bool {
        let Some(one_at_a_time) = self.publishing.try_lock() else { return false };
        self.roll_alone(&one_at_a_time)
    }

    fn roll_alone(&self, _one_at_a_time: &MutexGuard<'_, ()>) -> bool {
        let old = self.state();
        let Some(new) = old.rolled() else { return false };
        new.generations[0].begin(self.timestamps.next().0);
        self.set_state(&old, new);
        true
    }

    /// Drops scopes, all or none, durably: with one sync of the newest generation's log, which has the marks
    /// until a manifest has them. What is dropped was written until now, or until an earlier time.
    pub fn mark(&self, mut scopes: Vec<MarkScope>, time: MarkTime) -> Result<(), Error> {
        let one_at_a_time = self.publishing.lock();
        self.health.check_writable()?;
        let old = self.state();
        if let MarkTime::Given(timestamp) = time {
            self.timestamps.see(timestamp)?;
            scopes.retain(|scope| !old.marks.remembers(scope, timestamp.0));
        }
        if scopes.is_empty() {
            return Ok(());
        }
        let follower = self.follower.hold();
        scopes.iter().try_for_each(|scope| follower.dropping(scope))?;
        let marks = self.new_marks(&scopes, time);
        match old.generations[0].append_marks(&marks) {
            Ok(()) => {
                self.set_state(&old, old.with_marks(&marks));
                for mark in &marks {
                    self.note_erasure(mark);
                    follower.dropped(mark);
                }
                Ok(())
            }
            Err(AppendError::Full) => {
                // The log has no space. A manifest may still fit: it takes the place of the one that is
                // there.
                drop((follower, one_at_a_time));
                let mut made = Vec::new();
                self.publish(|state| {
                    made = self.new_marks(&scopes, time);
                    made.iter().for_each(|mark| self.note_erasure(mark));
                    Ok(state.with_marks(&made))
                })?;
                let follower = self.follower.hold();
                made.iter().for_each(|mark| follower.dropped(mark));
                Ok(())
            }
            Err(AppendError::NotDurable(reason)) => {
                self.health.poison(reason.clone());
                Err(Error::Poisoned { reason })
            }
        }
    }

    /// Records that what a mark drops is to be erased, while no mark is forgotten.
    fn note_erasure(&self, mark: &DropMark) {
        let next_number = self.next_number.load(Ordering::SeqCst);
        self.erasures.record_drop(mark, self.options.erase_within, next_number);
    }

    /// Returns true if the partner has nothing that was dropped until a time.
    pub fn is_erased_by_partner(&self, dropped: u64) -> bool {
        let partner = self.erasure_partner.read().clone();
        partner.is_none_or(|partner| partner.has_erased(Timestamp(dropped)))
    }

    /// Requests the partner to erase documents that were dropped until a time.
    pub fn request_erasure_of_partner(&self, dropped: u64) {
        let partner = self.erasure_partner.read().clone();
        partner.iter().for_each(|partner| partner.erase(Timestamp(dropped)));
    }

    /// Marks, each with a time of its own at which the store learned of it.
    fn new_marks(&self, scopes: &[MarkScope], time: MarkTime) -> Vec<DropMark> {
        let mark = |scope: &MarkScope| {
            let since = self.timestamps.next().0;
            let timestamp = match time {
                MarkTime::Now => since,
                MarkTime::Until(timestamp) | MarkTime::Given(timestamp) => timestamp.0,
            };
            DropMark { scope: scope.clone(), timestamp, since, given: matches!(time, MarkTime::Given(_)) }
        };
        scopes.iter().map(mark).collect()
    }

    /// The state, and a time that separates marks: those that the store learned of until then are in the
    /// state, and later ones have later times.
    pub fn settled_state(&self) -> (Arc<StoreState>, u64) {
        let _one_at_a_time = self.publishing.lock();
        (self.state(), self.timestamps.next().0)
    }

    /// Runs something with the state and a time as of [`StoreContext::settled_state`], while no other state
    /// takes its place.
    pub fn while_settled<T>(&self, run: impl FnOnce(Arc<StoreState>, u64) -> T) -> T {
        let _one_at_a_time = self.publishing.lock();
        run(self.state(), self.timestamps.next().0)
    }

    /// A number that no generation and no segment of this directory has or had.
    pub fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::SeqCst)
    }

    pub fn segment_path(&self, number: u64) -> PathBuf {
        segment_path(&self.options, number)
    }

    /// Begins the file of a new segment, in the format that is written now.
    pub fn create_segment(&self, number: u64) -> Result<SegmentWriter<'_>, Error> {
        let path = self.segment_path(number);
        Ok(SegmentWriter::create(&*self.options.disk, &path, self.segment_format())?)
    }

    pub fn open_segment(&self, number: u64) -> Result<Arc<SegmentFile>, Error> {
        open_segment(&self.options, &self.caches.segments, number)
    }

    /// Reports the damage that was found in segments, as long as buckets have these.
    pub fn report_damage(&self) {
        let mut damage = self.caches.segments.damage();
        if !damage.is_empty() {
            let numbers = self.state().segment_numbers();
            damage.retain(|number, _| numbers.binary_search(number).is_ok());
        }
        let found: Vec<String> = damage.into_values().collect();
        let reason = format!("{}; restore the files, or run `millrace doctor`", found.join("; "));
        self.health.record_outcome("read segments", (!found.is_empty()).then_some(reason));
    }

    /// Returns the current layout, and its number, which increases with each change: columns built under one
    /// number are not mixed with those of another.
    pub fn layout(&self) -> (Arc<dyn StoreLayout>, u64) {
        self.layout.read().clone()
    }

    pub fn set_layout(&self, layout: Arc<dyn StoreLayout>) {
        let mut current = self.layout.write();
        *current = (layout, current.1 + 1);
    }

    /// The limits now.
    pub fn tuning(&self) -> StoreTuning {
        self.tuning.read().clone()
    }

    pub fn set_tuning(&self, tuning: StoreTuning) {
        *self.tuning.write() = tuning;
    }

    /// The areas in which large groups have files of their own.
    pub fn separate_areas(&self) -> Vec<SeparateArea> {
        self.separate_areas.read().clone()
    }

    /// Sets these areas. Returns true if they were others.
    pub fn separate_files(&self, areas: Vec<SeparateArea>) -> bool {
        let mut known = self.separate_areas.write();
        let is_new = *known != areas;
        *known = areas;
        is_new
    }

    /// Format of the segments that are written now.
    pub fn segment_format(&self) -> SegmentFormat {
        *self.segment_format.read()
    }

    pub fn set_segment_format(&self, format: SegmentFormat) {
        *self.segment_format.write() = format;
    }

    /// Bytes that must stay free on the disk.
    pub fn disk_reserve(&self) -> u64 {
        let share = 1.0 - self.tuning().disk_used_max.clamp(0.0, 1.0);
        if share == 0.0 {
            return self.options.disk_reserve;
        }
        let total = self.options.disk.total_space(&self.options.data_dir).unwrap_or(0);
        self.options.disk_reserve.max((total as f64 * share) as u64)
    }

    /// Checks that there is room for a file of about `bytes` bytes. If not, the file is not begun: it would
    /// take the remaining space from writers, and fail anyway. Returns the bytes free.
    pub fn check_space(&self, action: &str, bytes: u64) -> Result<u64, Error> {
        let StoreOptions { disk, data_dir, .. } = &self.options;
        let free = disk.free_space(data_dir).map_err(|error| Error::io("look for free space", &error))?;
        if free >= bytes {
            return Ok(free);
        }
        let action = format!("{action} in {}: write {bytes} bytes", data_dir.display());
        Err(Error::NoSpace { action, reason: format!("{free} bytes free") })
    }

    /// Checks that the store is still open.
    pub fn check_open(&self) -> Result<(), Error> {
        if self.health.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }
}

pub(crate) fn segment_path(options: &StoreOptions, number: u64) -> PathBuf {
    options.data_dir.join("segments").join(format!("{number:016}.seg"))
}

pub(crate) fn tail_path(options: &StoreOptions, number: u64) -> PathBuf {
    options.data_dir.join("tail").join(format!("{number:016}"))
}

/// Makes the name of a generation's log durable, and its own name. What is beside the log is made again where
/// it is lost.
pub(crate) fn sync_generation(options: &StoreOptions, directory: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io("make a generation of the tail durable", &error);
    options.disk.sync_directory(directory).map_err(failed)?;
    options.disk.sync_directory(&options.data_dir.join("tail")).map_err(failed)
}

pub(crate) fn open_segment(
    options: &StoreOptions,
    cache: &Arc<SegmentCache>,
    number: u64,
) -> Result<Arc<SegmentFile>, Error> {
    let path = segment_path(options, number);
    Ok(Arc::new(SegmentFile::open(&*options.disk, &path, number, Arc::clone(cache))?))
}

/// Wakes the threads of the background before their time.
#[derive(Default)]
pub(crate) struct BackgroundAlarm {
    rung: Mutex<u64>,
    bell: Condvar,
}

impl BackgroundAlarm {
    pub fn ring(&self) {
        *self.rung.lock() += 1;
        self.bell.notify_all();
    }

    /// Waits for the alarm, at most for `at_most`. `seen` is the result of the last wait.
    pub fn wait(&self, seen: u64, at_most: Duration) -> u64 {
        let mut rung = self.rung.lock();
        self.bell.wait_while_for(&mut rung, |rung| *rung == seen, at_most);
        *rung
    }
}
