//! Writing of what the indexes have in memory to the disk, and merging of their files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_document::Timestamp;
use millrace_index::{Error as CopyError, FlushMark};

use super::notes::MARGIN_US;
use super::opened::OpenedIndex;
use super::service::IndexesInner;
use super::stale::overlap;
use crate::Error;

/// Bytes of changes in memory after which an index is written to the disk, and bytes of all indexes up to
/// which more may wait: writers feel the work of the disk.
const FLUSH_BYTES: usize = 16 << 20;
const FLUSH_BYTES_OF_ALL: usize = 64 << 20;

/// Number of bytes of documents of a first build that wait in memory until they are written to the disk, and
/// about the maximum of all indexes. While they are written, as many can come.
const LOAD_BYTES: usize = 32 << 20;
const LOAD_BYTES_OF_ALL: usize = 512 << 20;

/// Time after which changes in memory are written to the disk.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

/// Pause after an error.
const RETRY: Duration = Duration::from_secs(5);

/// Times at which all indexes are written.
pub(super) struct WriteSchedule {
    written: Instant,
    /// True if an index is ready, and its files do not say so.
    is_due: bool,
    /// Time of the last error since then.
    failed: Option<Instant>,
}

impl WriteSchedule {
    pub fn new() -> Self {
        WriteSchedule { written: Instant::now(), is_due: false, failed: None }
    }

    /// Has all indexes written soon.
    pub fn want(&mut self) {
        self.is_due = true;
    }

    fn is_paused(&self) -> bool {
        self.failed.is_some_and(|failed| failed.elapsed() < RETRY)
    }
}

impl IndexesInner {
    /// Writes the indexes, and erases what was dropped in them, where it is time for it. After an error it is
    /// tried again later.
    pub fn write_in_time(&self) {
        let is_due = {
            let schedule = self.schedule.lock();
            if schedule.is_paused() {
                return;
            }
            schedule.is_due || schedule.written.elapsed() >= FLUSH_INTERVAL
        };
        let written = if is_due { self.flush_all() } else { Ok(()) };
        if let Err(error) = written.and_then(|()| self.erase()) {
            tracing::error!(%error, "the indexes could not be written; it is tried again");
            self.note_damage(&error);
            self.schedule.lock().failed = Some(Instant::now());
        }
    }

    /// Time before which no version will come any more.
    pub fn forgotten(&self, index: &OpenedIndex) -> u64 {
        if index.is_ready() { index.copy.status().complete_until } else { 0 }
    }

    /// True if an index has as many times the bytes in memory after which it is written.
    pub fn has_much(&self, index: &OpenedIndex, times: usize) -> bool {
        let status = index.copy.status();
        let indexes = self.all().len().max(1);
        let bytes_max = FLUSH_BYTES.max(FLUSH_BYTES_OF_ALL / indexes);
        let loaded_max = (LOAD_BYTES_OF_ALL / indexes).clamp(FLUSH_BYTES, LOAD_BYTES);
        status.memory_bytes >= bytes_max * times || status.loaded_bytes >= loaded_max * times
    }

    /// True if indexes can load more while what they have is written.
    pub fn has_room_to_load(&self, indexes: &[Arc<OpenedIndex>]) -> bool {
        let loaded: usize = indexes.iter().map(|index| index.copy.status().loaded_bytes).sum();
        loaded < LOAD_BYTES_OF_ALL / 2 && !indexes.iter().any(|index| self.has_much(index, 2))
    }

    /// Writes what an index has in memory. It stays complete up to the same time: later rows may come in
    /// another order than that of their times.
    pub fn flush_early(&self, index: &OpenedIndex) -> Result<(), Error> {
        let flushed = index.copy.flush(FlushMark { complete_until: 0, built: index.is_ready() });
        self.written(index, flushed, |index| index.copy.merge(self.forgotten(index)).map(drop))
    }

    /// Writes what all indexes have in memory, and notes how far those that are ready are complete.
    ///
    /// # Errors
    /// The first error; other indexes are written all the same.
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
        let write = |index: &OpenedIndex| {
            let until = if index.is_ready() { until.0 } else { 0 };
            let flushed = index.copy.flush(FlushMark { complete_until: until, built: index.is_ready() });
            self.written(index, flushed, |index| {
                while !self.feed.is_stopped() && index.copy.merge(self.forgotten(index))? {}
                Ok(())
            })
        };
        let mut written = Ok(());
        for index in &indexes {
            written = written.and(write(index));
        }
        written?;
        // One that was never built is built from the start after a crash; one that is not open may lack
        // everything that is noted, as one that was opened meanwhile.
        let is_open = self.unopened().is_empty();
        if is_open && self.all().iter().all(|index| index.is_ready() || !index.copy.status().built) {
            self.feed.notes.forget(&done);
        }
        *self.schedule.lock() = WriteSchedule::new();
        Ok(())
    }

    /// Merges files of an index, if it was flushed, and notes the error of the two. A merge that fails is
    /// tried again with the next flush; nothing waits for it.
    fn written(
        &self,
        index: &OpenedIndex,
        flushed: Result<(), CopyError>,
        merge: impl FnOnce(&OpenedIndex) -> Result<(), CopyError>,
    ) -> Result<(), Error> {
        let merged = if flushed.is_ok() { merge(index) } else { Ok(()) };
        self.note_written(index, flushed.as_ref().err().or(merged.as_ref().err()));
        Ok(flushed?)
    }

    /// Notes the error of the last writing of an index, or that there was none.
    pub fn note_written(&self, index: &OpenedIndex, error: Option<&CopyError>) {
        *index.unwritten.lock() = error.map(ToString::to_string);
        if let Some(error) = error {
            self.note_damage(&Error::Index(error.clone()));
        }
    }
}
