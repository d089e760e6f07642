//! Sealing: conversion of the rows of the tail to segments.
//!
//! 1. The next generation takes over the writes.
//! 2. The old one's rows are written: the newest version of each document, in columns. Buckets with few rows
//!    share a file with those next to them: a file of its own for each would cost a sync for each.
//! 3. The manifest gets the segments and loses the generation, at once.
//! 4. When the last reader has gone, the generation's files are deleted.
//!
//! Generations are sealed in order, one at a time. Writes do not wait for any of this.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_column::{ColumnForm, ColumnKey, forget_words};
use millrace_document::ReversedLocation;
use millrace_env::{ThreadClass, pace};
use millrace_segment::{ChunkInfo, EncodedChunk, NewChunk, NewColumn, SectionEncoding, SegmentWriter};
use parking_lot::{Condvar, Mutex};

use crate::context::StoreContext;
use crate::read::columns;
use crate::read::tail_rows::is_same_document;
use crate::snapshot::logs;
use crate::state::marks::DropMarks;
use crate::state::{BucketSegment, StoredBucket, TailGeneration, is_of_divided};
use crate::tail::chunk;
use crate::tail::{RowKey, SharedRow, TailSnapshot, TailVersion, is_removal};
use crate::upkeep::new_segments::NewSegments;
use crate::upkeep::ordered::OrderedThreads;
use crate::upkeep::pace::{SHARE_MIN, of_sealing};
use crate::upkeep::rolling::TailRoller;
use crate::upkeep::seal_times::ColumnTimes;
use crate::{Error, StoreLayout};

/// Seals, one generation at a time.
pub(crate) struct TailSealer {
    shared: Arc<StoreContext>,
    roller: Arc<TailRoller>,
    /// Generations that are sealed and that someone may still read.
    retired: Mutex<Vec<Arc<TailGeneration>>>,
    /// Held while the files of those are deleted, and their logs kept, one after another.
    deleting: Mutex<()>,
    /// Set while a generation is being sealed.
    is_sealing: Mutex<bool>,
    /// Notified when the sealing of a generation has ended, with or without success.
    ended: Condvar,
    /// Number of the generation whose segments last found no space, and the bytes that were free before.
    unfitting: Mutex<Option<(u64, u64)>>,
    /// When kept logs that are too old were last looked for, in microseconds of the clock.
    expired_us: AtomicU64,
}

/// The turn to seal a generation, which others wait for.
struct SealTurn<'a>(&'a TailSealer);

impl Drop for SealTurn<'_> {
    fn drop(&mut self) {
        *self.0.is_sealing.lock() = false;
        self.0.ended.notify_all();
    }
}

impl TailSealer {
    pub fn new(shared: Arc<StoreContext>, roller: Arc<TailRoller>) -> Self {
        TailSealer {
            shared,
            roller,
            retired: Mutex::default(),
            deleting: Mutex::default(),
            is_sealing: Mutex::default(),
            ended: Condvar::new(),
            unfitting: Mutex::default(),
            expired_us: AtomicU64::new(0),
        }
    }

    /// Seals when there is a reason to.
    pub fn seal_if_due(&self) -> Result<(), Error> {
        let shared = &self.shared;
        self.expire_logs();
        let state = shared.state();
        let active = &state.generations[0];
        let bytes = active.bytes.load(Ordering::Relaxed);
        let idle_us = shared.options.seal_idle.as_micros() as u64;
        let last_write = shared.counters.last_write_us.load(Ordering::Relaxed);
        let idle = shared.timestamps.now().0.saturating_sub(last_write) >= idle_us;
        let wanted = shared.counters.seal_wanted.swap(false, Ordering::Relaxed);
        let due = bytes >= shared.options.tail_bytes
            || (idle && bytes >= IDLE_SEAL_BYTES_MIN)
            || (wanted && idle_for(shared, IDLE_BEFORE_SEAL_US))
            || self.is_full(active)
            || active.has_rows_of_before(shared.erasures.sealed_before());
        if wanted && !due {
            shared.counters.seal_wanted.store(true, Ordering::Relaxed);
        }
        if idle && !due {
            forget_words();
        }
        drop(state);
        let rolled = if due { self.roller.roll() } else { Ok(()) };
        // The earlier rows can be sealed even if the next generation could not be made.
        let sealed = self.seal_older(u64::MAX);
        rolled.and(sealed)
    }

    /// Deletes kept logs that are too old, also where nothing is sealed any more: on a full disk, for one.
    fn expire_logs(&self) {
        let StoreContext { options, health, .. } = &*self.shared;
        let now = options.clock.now_us();
        let last = self.expired_us.load(Ordering::Relaxed);
        if options.keep_logs.is_zero() || now.abs_diff(last) < EXPIRING_US {
            return;
        }
        self.expired_us.store(now, Ordering::Relaxed);
        let reason = logs::expire(options).err().map(|error| error.to_string());
        health.record_outcome("delete kept logs", reason);
    }

    /// Seals all rows that exist now. It does not wait for rows that arrive in the meantime.
    pub fn seal(&self) -> Result<(), Error> {
        let state = self.shared.state();
        let active = &state.generations[0];
        let number = active.number;
        let has_rows = active.rows.load(Ordering::Relaxed) > 0 || self.is_full(active);
        drop(state);
        // The number of generations is bounded: sealing the older ones makes room for the next.
        self.seal_older(number)?;
        if has_rows && self.shared.state().generations[0].number == number {
            self.roller.roll()?;
        }
        self.seal_older(number)
    }

    /// Lets the next generation take over the writes.
    #[cfg(test)]
    pub fn roll(&self) -> Result<(), Error> {
        self.roller.roll()
    }

    /// Seals the generations up to this number that take no rows any more, the oldest first; or waits until
    /// others have.
    pub fn seal_older(&self, number: u64) -> Result<(), Error> {
        let outcome = loop {
            let Some((turn, oldest)) = self.turn(number) else { break Ok(()) };
            let rested = || Duration::from_nanos(self.shared.counters.seal_rested_ns.load(Ordering::Relaxed));
            let (began, rested_before) = (Instant::now(), rested());
            let sealed = self.shared.health.guard("seal the tail", || self.seal_generation(&oldest));
            if let Err(error) = sealed {
                break Err(error);
            }
            // Without rests, as sealing goes when it has fallen behind: a rate with them would hold writers
            // back, which would make for longer rests.
            let took = began.elapsed();
            let worked = took.saturating_sub(rested() - rested_before).max(took.mul_f64(SHARE_MIN));
            self.shared.backlog.sealed(oldest.bytes.load(Ordering::Relaxed), worked);
            if !self.shared.is_behind() {
                self.shared.backlog.caught_up();
            }
            self.retired.lock().push(oldest);
            self.shared.counters.seals.fetch_add(1, Ordering::Relaxed);
            // A thread that waits for the rows to be sealed need not wait for the deletion of their files.
            drop(turn);
            self.delete_retired();
            let left = self.shared.state();
            let oldest = left.generations.iter().map(|generation| generation.oldest()).min();
            self.shared.caches.tail_chunks.forget_before(oldest.unwrap_or(u64::MAX));
        };
        self.shared.health.note_space(match &outcome {
            Err(error @ Error::NoSpace { .. }) => Some(error.clone()),
            _ => None,
        });
        self.delete_retired();
        outcome
    }

    /// Returns the oldest generation, if it takes no more rows and its number is not above `number`, and the
    /// turn to seal it. `None`: there is none any more.
    fn turn(&self, number: u64) -> Option<(SealTurn<'_>, Arc<TailGeneration>)> {
        let mut is_sealing = self.is_sealing.lock();
        loop {
            let state = self.shared.state();
            let oldest = state.generations.last().filter(|_| state.generations.len() > 1)?;
            if oldest.number > number {
                return None;
            }
            if !*is_sealing {
                *is_sealing = true;
                return Some((SealTurn(self), Arc::clone(oldest)));
            }
            drop(state);
            self.ended.wait(&mut is_sealing);
        }
    }

    /// Returns true if a generation accepts no rows any more although it is the newest: the disk was full.
    fn is_full(&self, generation: &TailGeneration) -> bool {
        generation.is_closed() && self.shared.health.check_writable().is_ok()
    }

    fn seal_generation(&self, generation: &Arc<TailGeneration>) -> Result<(), Error> {
        let free = self.check_space(generation)?;
        let written = self.write_segments(generation);
        if let Err(Error::NoSpace { .. }) = &written {
            *self.unfitting.lock() = Some((generation.number, free));
        }
        written
    }

    /// Checks that the segments of a generation can fit; returns the bytes free. Where they did not fit, they
    /// are only begun again when clearly more is free: while they are written they take the space from
    /// writers, whose refused writes would start the next attempt at once.
    fn check_space(&self, generation: &TailGeneration) -> Result<u64, Error> {
        let unfitting = self.unfitting.lock().filter(|(number, _)| *number == generation.number);
        // The rows are written once more before their log goes.
        let rows = generation.bytes.load(Ordering::Relaxed);
        let needed = unfitting.map_or(rows, |(_, free)| rows.max(free + free / UNFITTING_MARGIN));
        self.shared.check_space("seal the tail", needed)
    }

    fn write_segments(&self, generation: &Arc<TailGeneration>) -> Result<(), Error> {
        let shared = &self.shared;
        // Another has taken over, but a write may be on its way still: when this returns it has been
        // appended, and the next one finds that the generation is closed.
        if let Some(gate) = generation.gate() {
            gate.close();
        }
        let snapshot = generation.tail.snapshot();
        let (layout, _) = shared.layout();
        let (state, applied) = shared.settled_state();
        let files = NewSegments::new(shared);
        let mut written: Vec<(BucketId, BucketSegment)> = Vec::new();
        // Their pace makes them one core together, and more where generations wait.
        let threads = shared.options.seal_threads;
        let begin = || enter_sealing(shared);
        let runs = runs(&state.buckets, &*snapshot)?;
        // While one file is synced, the next is made. A store of few buckets has one file.
        let files_at_once = threads.min(runs.len().clamp(1, FILES_AT_ONCE)).max(1);
        let at_once = OrderedThreads { name: "store-seal", count: files_at_once, begin: &begin };
        let seal = |run: BucketRun| {
            let (layout, marks) = (&*layout, &state.marks);
            let threads = threads / files_at_once;
            SealRun { shared, threads, layout, run: &run, marks }.run(applied, &files)
        };
        at_once.map(
            &seal,
            |next| runs.into_iter().try_for_each(next),
            |of_run| {
                written.extend(of_run?);
                Ok(())
            },
        )?;
        files.publish(|state| {
            let mut state = state.clone();
            state.generations.retain(|other| other.number != generation.number);
            for (id, segment) in written {
                add(&mut state.buckets, id, &segment);
            }
            Ok(state)
        })
    }

    /// Deletes the files of generations that no one reads any more. Logs are kept in order: while one is
    /// read, those after it wait. One of them may be deleted as soon as it is kept, for its size, and the
    /// earlier one would then name a still later one as the next.
    fn delete_retired(&self) {
        let _one_at_a_time = self.deleting.lock();
        let keeps_logs = !self.shared.options.keep_logs.is_zero();
        let mut waits = false;
        let mut retired = self.retired.lock();
        let (free, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *retired).into_iter().partition(|generation| {
                let is_read = Arc::strong_count(generation) > 1;
                waits |= is_read && keeps_logs;
                !is_read && !waits
            });
        *retired = kept;
        drop(retired);
        for generation in free {
            // One without rows has marks, of drops until now.
            let newest = Some(generation.newest()).filter(|newest| *newest > 0);
            let until = newest.unwrap_or_else(|| self.shared.timestamps.now().0);
            let directory = generation.directory.clone();
            drop(generation);
            let kept = logs::keep(&self.shared.options, &directory, until);
            self.shared
                .health
                .record_outcome("keep the log of a sealed tail", kept.err().map(|error| error.to_string()));
            let outcome = self.shared.tails.delete(&directory);
            self.shared
                .health
                .record_outcome("delete a sealed tail", outcome.err().map(|error| error.to_string()));
        }
    }
}

/// Makes the calling thread one that seals.
fn enter_sealing(shared: &Arc<StoreContext>) {
    ThreadClass::Background.enter();
    pace::keep(of_sealing(shared, shared.options.seal_threads));
}

/// Maximum number of files that are written at the same time.
const FILES_AT_ONCE: usize = 2;

/// Divisor of the space in which segments did not fit that gives what must be free beyond it.
const UNFITTING_MARGIN: u64 = 8;

/// Time in microseconds between two searches for kept logs that are too old.
const EXPIRING_US: u64 = 10_000_000;

/// An idle tail of fewer bytes stays as it is.
const IDLE_SEAL_BYTES_MIN: u64 = 64 << 10;

/// Time in microseconds without a write after which the tail is sealed at the request of a view that had much
/// to read in it.
const IDLE_BEFORE_SEAL_US: u64 = 200_000;

fn idle_for(shared: &StoreContext, us: u64) -> bool {
    let last_write = shared.counters.last_write_us.load(Ordering::Relaxed);
    shared.timestamps.now().0.saturating_sub(last_write) >= us
}

/// Gives the segment to the bucket; or to its children, if it was split in the meantime: each is assumed to
/// have an even share.
fn add(buckets: &mut [Arc<StoredBucket>], id: BucketId, segment: &BucketSegment) {
    let mut taken = false;
    for bucket in buckets {
        if id.covers(bucket.id) {
            taken = true;
            let mut segments = bucket.segments.clone();
            segments.push(segment.halved(u32::from(bucket.id.used_bits() - id.used_bits())));
            *bucket = Arc::new(StoredBucket { id: bucket.id, segments });
        }
    }
    assert!(taken, "rows are sealed into {id}, which is there, or was split: buckets are never joined");
}

/// Size in bytes of rows at which a file is closed at the end of a bucket.
const FILE_BYTES: u64 = 16 << 20;

/// Buckets one after another that are sealed into one file.
#[derive(Default)]
struct BucketRun {
    /// Buckets with rows.
    buckets: Vec<BucketRows>,
    /// Index of the bucket of the last row.
    last: usize,
    /// The last location of all of them.
    last_location: u32,
    /// The newest row of each document, in the order of keys. They share the memory of the generation, so
    /// that it is walked once: from row to row of it is a way through memory that is in no cache.
    rows: Vec<SharedRow>,
    bytes: u64,
    types: BTreeSet<String>,
}

/// Share of a bucket in a run.
struct BucketRows {
    bucket: BucketId,
    /// Number of documents whose newest row is not a removal.
    documents: u64,
    bytes: u64,
}

/// Divides the rows of a generation into runs of buckets.
fn runs(buckets: &[Arc<StoredBucket>], snapshot: &dyn TailSnapshot) -> Result<Vec<BucketRun>, Error> {
    let mut runs: Vec<BucketRun> = Vec::new();
    // No bucket yet: the first row begins one.
    let mut current: Option<&Arc<StoredBucket>> = None;
    snapshot.shared_range(&[], None, &mut |row| {
        pace::short_step();
        let key = RowKey::parse(row.key())?;
        let location = key.reversed_location();
        if !current.is_some_and(|bucket| bucket.has(location)) {
            let after = buckets.partition_point(|bucket| bucket.reversed_range().first <= location);
            let bucket = buckets.get(after.saturating_sub(1)).filter(|bucket| bucket.has(location));
            let bucket =
                bucket.expect("the buckets of a store cover all locations: a row without one would be lost");
            // All rows of one location are in one file.
            let full = |run: &BucketRun| run.bytes >= FILE_BYTES && run.last_location < bucket.locations().0;
            if runs.last().is_none_or(full) {
                runs.push(BucketRun::default());
            }
            let run = runs.last_mut().expect("a run is begun before a bucket is added to it");
            run.go_to(bucket);
            current = Some(bucket);
        }
        let run = runs.last_mut().expect("a run is begun with the first row");
        if run.count(&key, row.value()) {
            run.rows.push(row);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(runs)
}

impl BucketRun {
    /// The next row is of this bucket.
    fn go_to(&mut self, bucket: &StoredBucket) {
        self.last_location = bucket.locations().1;
        // Where groups of one location are divided, the second one begins again at the location's first
        // bucket.
        let of_location = self.buckets.iter().enumerate().rev();
        let mut of_location = of_location.take_while(|(_, rows)| is_of_divided(rows.bucket));
        self.last = match of_location.find(|(_, rows)| rows.bucket == bucket.id) {
            Some((known, _)) => known,
            None => {
                self.buckets.push(BucketRows { bucket: bucket.id, documents: 0, bytes: 0 });
                self.buckets.len() - 1
            }
        };
    }

    /// Counts a row of the last bucket. Returns true if it is the newest of its document.
    fn count(&mut self, key: &RowKey<'_>, value: &[u8]) -> bool {
        let bytes = (key.sort_key.len() + value.len()) as u64;
        self.bytes += bytes;
        // The newest version of a document comes first.
        let is_newest = self.rows.last().is_none_or(|last| !is_same_document(last.key(), key.sort_key));
        let rows = self.buckets.get_mut(self.last).expect("a row is of a bucket that the run has come to");
        rows.documents += u64::from(is_newest && !is_removal(value));
        rows.bytes += bytes;
        if !self.types.contains(key.document_type()) {
            self.types.insert(key.document_type().to_owned());
        }
        is_newest
    }
}

/// The rows of a run in one generation.
struct SealRun<'a> {
    shared: &'a Arc<StoreContext>,
    /// Number of threads that make columns.
    threads: usize,
    layout: &'a dyn StoreLayout,
    run: &'a BucketRun,
    marks: &'a DropMarks,
}

impl SealRun<'_> {
    /// Writes the file. Returns the share of each bucket in it.
    fn run(&self, applied: u64, files: &NewSegments<'_>) -> Result<Vec<(BucketId, BucketSegment)>, Error> {
        let number = self.shared.next_number();
        let mut writer = self.shared.create_segment(number)?;
        for document_type in &self.run.types {
            self.write_type(document_type, &mut writer)?;
        }
        if writer.is_empty() {
            writer.abandon()?;
            return Ok(Vec::new());
        }
        let file = files.finish(number, writer, applied)?;
        let of_bucket = |rows: &BucketRows| {
            let mut segment = file.clone();
            let share = u128::from(file.record.bytes) * u128::from(rows.bytes);
            segment.record.bytes = (share / u128::from(self.run.bytes.max(1))) as u64;
            segment.record.documents = rows.documents;
            (rows.bucket, segment)
        };
        Ok(self.run.buckets.iter().map(of_bucket).collect())
    }

    fn write_type(&self, document_type: &str, writer: &mut SegmentWriter<'_>) -> Result<(), Error> {
        let columns = columns::stored_columns(self.layout, document_type);
        let new_column = |key: &ColumnKey| NewColumn {
            key: key.clone(),
            compression: columns::compression(self.layout, document_type, key),
        };
        writer.begin_section(document_type, columns.iter().map(new_column).collect())?;
        let encoding = writer.encoding().clone();
        let begin = || enter_sealing(self.shared);
        let threads = OrderedThreads { name: "store-seal", count: self.threads, begin: &begin };
        let times = ColumnTimes::new(columns.len());
        let encode = |rows: ChunkRows| self.encode(document_type, &columns, &encoding, &times, &rows);
        let read = |next: &mut dyn FnMut(ChunkRows) -> Result<(), Error>| self.chunks(document_type, next);
        let written = threads.map(&encode, read, |chunk| Ok(writer.add_encoded(chunk?)?));
        self.shared.counters.seal_times.add(document_type, &columns, &times);
        written
    }

    /// Calls `next` with the rows of each chunk: the newest version of each document that was not dropped.
    fn chunks(
        &self,
        document_type: &str,
        next: &mut dyn FnMut(ChunkRows) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut chunk: Option<ChunkRows> = None;
        for row in &self.run.rows {
            pace::short_step();
            let key = RowKey::parse(row.key())?;
            if (self.run.types.len() > 1 && key.document_type() != document_type)
                || key.timestamp.0
                    <= self.marks.dropped_until(document_type, key.reversed_location(), key.group)
            {
                continue;
            }
            if let Some(full) = chunk.take_if(|chunk| !chunk.takes(&key)) {
                next(full)?;
            }
            chunk.get_or_insert_with(|| ChunkRows::new(&key)).add(row, &key);
        }
        chunk.map_or(Ok(()), next)
    }

    /// Makes the columns of a chunk.
    fn encode(
        &self,
        document_type: &str,
        columns: &[ColumnKey],
        encoding: &SectionEncoding,
        times: &ColumnTimes,
        chunk: &ChunkRows,
    ) -> Result<EncodedChunk, Error> {
        let rows = &chunk.rows;
        let documents = columns::encoded(rows)?;
        let timestamps = || rows.iter().map(|row| row.timestamp.0);
        let info = ChunkInfo {
            documents: rows.len() as u32,
            removed: rows.iter().filter(|row| row.removed).count() as u32,
            first_location: chunk.first_location,
            oldest: timestamps().min().unwrap_or(0),
            newest: timestamps().max().unwrap_or(0),
        };
        assert!(columns.iter().any(|key| key.form == ColumnForm::Id), "every chunk has ids");
        // Where the layout panics on a row, or cannot read a value, all are kept as they were written,
        // without columns of fields. Otherwise one document would keep the tail from being sealed, and soon
        // the store would take no writes.
        let mut watch = ColumnWatch::begin(times);
        let build = || {
            columns::build_all(self.layout, document_type, columns, rows, &documents, &mut |at| watch.lap(at))
        };
        let columns = match self.shared.health.guard("make columns of documents", build) {
            Ok(built) => built,
            Err(error) => {
                self.shared.health.note_kept(&error, document_type, &chunk.group);
                columns::keep_all(self.layout, document_type, columns, rows, &documents)?
            }
        };
        let chunk = NewChunk { location: chunk.location, group: &chunk.group, info, columns };
        Ok(chunk.encode(encoding, &mut |at| watch.lap(at)))
    }
}

/// Measures the time that a thread works on one column after another, without its rests.
struct ColumnWatch<'a> {
    times: &'a ColumnTimes,
    last: Instant,
    rested: Duration,
}

impl<'a> ColumnWatch<'a> {
    fn begin(times: &'a ColumnTimes) -> Self {
        ColumnWatch { times, last: Instant::now(), rested: pace::rested() }
    }

    /// Adds the time since the last call to a column.
    fn lap(&mut self, column: usize) {
        let (now, rested) = (Instant::now(), pace::rested());
        let rests = rested.saturating_sub(self.rested);
        self.times.add(column, (now - self.last).saturating_sub(rests));
        (self.last, self.rested) = (now, rested);
    }
}

/// Rows of one chunk, at least one.
struct ChunkRows {
    location: u32,
    first_location: ReversedLocation,
    group: String,
    rows: Vec<TailVersion>,
    bytes: usize,
}

impl ChunkRows {
    /// Creates the chunk that begins with the row of this key, without it.
    fn new(first: &RowKey<'_>) -> Self {
        ChunkRows {
            location: first.location,
            first_location: first.reversed_location(),
            group: first.group.to_owned(),
            rows: Vec::new(),
            bytes: 0,
        }
    }

    /// True if the row of this key may be the next one of the chunk.
    fn takes(&self, key: &RowKey<'_>) -> bool {
        self.group == key.group
            && (self.location == key.location || key.group.is_empty())
            && !chunk::is_full(self.rows.len(), self.bytes)
    }

    fn add(&mut self, row: &SharedRow, key: &RowKey<'_>) {
        self.rows.push(TailVersion::new(row.clone(), key.timestamp));
        self.bytes += row.value().len();
    }
}
