//! State of an index in memory, which can be lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::observed::ObservedFields;
use crate::partitions::PartitionTable;
use crate::storage::StoredSource;

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
    /// True once the index is deleted. Writes are in flight only while it is held for reading, so that none
    /// comes after its documents are dropped.
    is_deleted: RwLock<bool>,
    /// Writes in flight, by the parity of the round in which they began.
    rounds: [RwLock<()>; 2],
    /// Number of the round.
    round: AtomicUsize,
    /// Held while the writes of a round are waited for.
    settling: Mutex<()>,
    /// Partitions of an index in `logs` mode.
    pub(crate) partitions: PartitionTable,
    /// Fields that its documents have, beside those of the mapping.
    pub(crate) observed: ObservedFields,
}

/// Write in flight, for which the deletion of the index waits.
#[derive(Debug)]
pub(crate) struct WriteHold<'h> {
    is_deleted: RwLockReadGuard<'h, bool>,
    _round: RwLockReadGuard<'h, ()>,
}

impl WriteHold<'_> {
    /// True if the index was deleted before.
    pub(crate) fn is_deleted(&self) -> bool {
        *self.is_deleted
    }
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

    /// Has all writes refused that begin later; waits for those that are in flight.
    pub(crate) fn delete(&self) {
        *self.is_deleted.write() = true;
    }

    /// Holds up the deletion of the index until the guard is gone. Sequence numbers are given while there is
    /// one.
    pub(crate) fn hold_deletion(&self) -> WriteHold<'_> {
        self.hold_in(self.round.load(Ordering::SeqCst))
    }

    /// Holds up the deletion in a round, or in a later one if that is over.
    fn hold_in(&self, mut round: usize) -> WriteHold<'_> {
        // A deletion may wait while several guards are taken one after another.
        let is_deleted = self.is_deleted.read_recursive();
        loop {
            let held = self.rounds[round % 2].read_recursive();
            let newest = self.round.load(Ordering::SeqCst);
            if newest == round {
                return WriteHold { is_deleted, _round: held };
            }
            // The next settling waits for the writes of another round.
            drop(held);
            round = newest;
        }
    }

    /// Sequence number of the next write, once all writes with earlier ones are done. Those that begin
    /// meanwhile go on. Blocks, for as long as a write takes: call it without a place in a pool.
    pub(crate) fn settled_seq_no(&self) -> i64 {
        let _one_at_a_time = self.settling.lock();
        let seq_no = self.seq_no();
        // Writes that read the number of the round from now on get no earlier sequence number.
        let round = self.round.fetch_add(1, Ordering::SeqCst);
        drop(self.rounds[round % 2].write());
        seq_no
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

    /// Version with which a document was removed, as long as it is remembered.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_number_settles_when_earlier_writes_are_done() {
        let state = UnflushedState::after(7);
        let earlier = state.hold_deletion();
        assert_eq!(state.next_seq_no(), 7);
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| state.settled_seq_no());
            while state.round.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let later = state.hold_deletion();
            assert_eq!(state.next_seq_no(), 8, "later writes go on");
            assert!(!settled.is_finished(), "the earlier write is in flight");
            drop(earlier);
            assert_eq!(settled.join().expect("the thread ends"), 8);
            assert!(!later.is_deleted());
        });
        assert_eq!(state.settled_seq_no(), 9);
    }

    #[test]
    fn a_write_that_missed_the_end_of_its_round_is_in_the_next() {
        let state = UnflushedState::after(0);
        // A write has read the number of the round, and waits for the processor.
        let read = state.round.load(Ordering::SeqCst);
        state.settled_seq_no();
        let hold = state.hold_in(read);
        assert!(state.rounds[1].try_write().is_none(), "the next settling waits for it");
        assert!(state.rounds[0].try_write().is_some());
        drop(hold);
        assert_eq!(state.settled_seq_no(), 0);
    }
}
