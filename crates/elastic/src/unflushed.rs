//! State of an index in memory, which can be lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::observed::ObservedFields;
use crate::partitions::PartitionTable;
use crate::shelf::StoredSource;

/// Removed documents of an index whose version is remembered, so that a later version is higher.
const TOMBSTONES_MAX: usize = 1 << 16;

/// Writes of an index that a search may not see yet, before all are shown.
const HIDDEN_MAX: usize = 1 << 14;

/// State of an index in memory; it can be lost.
#[derive(Debug, Default)]
pub(crate) struct UnflushedState {
    seq_no: AtomicI64,
    /// Versions of removed documents.
    tombstones: Mutex<HashMap<String, i64>>,
    /// Documents as searches see them, where that differs from the store: with `refresh_interval: -1`, an
    /// index shows its writes when it is refreshed.
    hidden: Mutex<HashMap<String, Option<StoredSource>>>,
    /// True once the index is deleted. Writes are under way only while it is held for reading, so that none
    /// comes after its documents are dropped.
    is_deleted: RwLock<bool>,
    /// Partitions of an index in `logs` mode.
    pub(crate) partitions: PartitionTable,
    /// Fields that its documents have, beside those of the mapping.
    pub(crate) observed: ObservedFields,
}

impl UnflushedState {
    /// Creates the state of an index whose sequence numbers below `seq_no` may have been given.
    pub(crate) fn after(seq_no: i64) -> Self {
        UnflushedState { seq_no: AtomicI64::new(seq_no), ..UnflushedState::default() }
    }

    /// Sequence number that is given next.
    pub(crate) fn seq_no(&self) -> i64 {
        self.seq_no.load(Ordering::Relaxed)
    }

    /// Has all writes refused that begin later; waits for those that are under way.
    pub(crate) fn delete(&self) {
        *self.is_deleted.write() = true;
    }

    /// Holds up the deletion of the index until the guard is gone; the guard is true if the index is deleted
    /// already.
    pub(crate) fn hold_deletion(&self) -> RwLockReadGuard<'_, bool> {
        // A deletion may wait while several guards are taken one after another.
        self.is_deleted.read_recursive()
    }

    /// Next sequence number.
    pub(crate) fn next_seq_no(&self) -> i64 {
        self.seq_no.fetch_add(1, Ordering::Relaxed)
    }

    /// Remembers the version with which a document was removed.
    pub(crate) fn removed(&self, id: &str, version: i64) {
        let mut tombstones = self.tombstones.lock();
        if tombstones.len() >= TOMBSTONES_MAX {
            tombstones.clear();
        }
        tombstones.insert(id.to_owned(), version);
    }

    /// Version with which a document was removed, if it was a while ago; forgets it.
    pub(crate) fn tombstone(&self, id: &str) -> Option<i64> {
        self.tombstones.lock().get(id).copied()
    }

    /// Forgets that a document was removed.
    pub(crate) fn returned(&self, id: &str) {
        self.tombstones.lock().remove(id);
    }

    /// Keeps the version before a write, which searches still see.
    pub(crate) fn hide(&self, id: &str, before: Option<StoredSource>) {
        let mut hidden = self.hidden.lock();
        if hidden.len() >= HIDDEN_MAX {
            hidden.clear();
        }
        hidden.entry(id.to_owned()).or_insert(before);
    }

    /// Shows the writes of one document.
    pub(crate) fn show(&self, id: &str) {
        self.hidden.lock().remove(id);
    }

    /// Shows all writes.
    pub(crate) fn refresh(&self) {
        self.hidden.lock().clear();
    }

    /// True if searches do not see all that the store has.
    pub(crate) fn hides_any(&self) -> bool {
        !self.hidden.lock().is_empty()
    }

    /// Documents as searches see them, where that differs from the store.
    pub(crate) fn hidden(&self) -> HashMap<String, Option<StoredSource>> {
        self.hidden.lock().clone()
    }
}
