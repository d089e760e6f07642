//! Rows that were acknowledged before they are synced.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::Error;
use crate::context::StoreContext;
use crate::state::TailGeneration;
use crate::tail::AppendError;

/// Rows that are in the log of a generation, and not yet synced. The committer, which alone appends rows,
/// syncs them within [`crate::StoreOptions::deferred_sync`].
pub(super) struct DeferredRows {
    shared: Arc<StoreContext>,
    /// Time from the first of them to their sync: half of what is promised, so that the sync can take the
    /// rest.
    wait: Duration,
    unsynced: Option<UnsyncedGeneration>,
}

/// A generation whose log has rows that are not synced.
struct UnsyncedGeneration {
    generation: Arc<TailGeneration>,
    since: Instant,
}

impl DeferredRows {
    pub fn new(shared: Arc<StoreContext>) -> Self {
        let wait = shared.options.deferred_sync / 2;
        DeferredRows { shared, wait, unsynced: None }
    }

    /// Time of the next sync, if there are rows for one.
    pub fn due(&self) -> Option<Instant> {
        self.unsynced.as_ref().map(|unsynced| unsynced.since + self.wait)
    }

    /// Syncs rows of other generations, before more is appended to this one: of two rows that were not synced
    /// a loss of power never takes the earlier one alone.
    ///
    /// # Errors
    /// They cannot be synced.
    pub fn sync_others(&mut self, generation: &TailGeneration) -> Result<(), Error> {
        if self.unsynced.as_ref().is_some_and(|unsynced| unsynced.generation.number != generation.number) {
            self.sync();
            self.shared.health.check_writable()?;
        }
        Ok(())
    }

    /// Notes that `count` rows were appended to a generation, and not synced.
    pub fn add(&mut self, generation: &Arc<TailGeneration>, count: u64) {
        self.shared.counters.deferred_rows.fetch_add(count, Ordering::Relaxed);
        let added = || UnsyncedGeneration { generation: Arc::clone(generation), since: Instant::now() };
        self.unsynced.get_or_insert_with(added);
    }

    /// Notes that all rows were synced.
    pub fn synced(&mut self) {
        if let Some(unsynced) = self.unsynced.take() {
            self.count_wait(&unsynced);
        }
    }

    fn count_wait(&self, unsynced: &UnsyncedGeneration) {
        let waited_us = unsynced.since.elapsed().as_micros() as u64;
        self.shared.counters.deferred_us_max.fetch_max(waited_us, Ordering::Relaxed);
    }

    /// Syncs what has waited for its time.
    pub fn sync_if_due(&mut self) {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.sync();
        }
    }

    /// Syncs what there is. A sync that fails ends writing.
    pub fn sync(&mut self) {
        let Some(unsynced) = self.unsynced.take() else { return };
        let began = Instant::now();
        let synced = unsynced.generation.tail.sync();
        self.shared.counters.sync_times.record(began.elapsed());
        let reason = match synced {
            Ok(()) => return self.count_wait(&unsynced),
            Err(AppendError::NotDurable(reason)) => reason,
            Err(AppendError::Full) => "no space for rows that were acknowledged before their sync".to_owned(),
        };
        self.shared.health.poison(reason);
    }
}
