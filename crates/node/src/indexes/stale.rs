//! Buckets whose entries may not be those of their documents: versions entered or left them other than by
//! commits, and have not been read yet.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use parking_lot::Mutex;

/// The stale buckets of all indexes.
#[derive(Default)]
pub(super) struct StaleBuckets {
    state: Mutex<StaleState>,
}

#[derive(Default)]
struct StaleState {
    buckets: BTreeMap<BucketId, BucketChanges>,
    turn: StaleRevision,
}

/// Changes of one bucket.
#[derive(Default, Clone, Copy)]
struct BucketChanges {
    /// Number of changes so far: one that is read while another is made stays stale.
    made: u64,
    in_flight: usize,
}

/// State of the stale buckets as a pair of numbers: equal ones tell that no bucket became stale, and none was
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StaleRevision {
    begun: u64,
    read: u64,
}

/// A bucket to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StaleBucket {
    pub bucket: BucketId,
    made: u64,
}

impl StaleBuckets {
    /// A change of these buckets begins.
    pub fn begin(&self, buckets: &[BucketId]) {
        let mut state = self.state.lock();
        state.turn.begun += 1;
        for bucket in buckets {
            state.buckets.entry(*bucket).or_default().in_flight += 1;
        }
    }

    /// A change of these buckets has ended.
    pub fn end(&self, buckets: &[BucketId]) {
        let mut state = self.state.lock();
        state.turn.begun += 1;
        for bucket in buckets {
            let changes = state.buckets.entry(*bucket).or_default();
            changes.made += 1;
            changes.in_flight = changes.in_flight.saturating_sub(1);
        }
    }

    /// These buckets are to be read, also those that were.
    pub fn read_again(&self, buckets: &[BucketId]) {
        let mut state = self.state.lock();
        state.turn.begun += 1;
        for bucket in buckets {
            state.buckets.entry(*bucket).or_default().made += 1;
        }
    }

    /// Buckets to read: those of which no change is in flight.
    pub fn idle(&self) -> Vec<StaleBucket> {
        let state = self.state.lock();
        let idle = state.buckets.iter().filter(|(_, changes)| changes.in_flight == 0);
        idle.map(|(bucket, changes)| StaleBucket { bucket: *bucket, made: changes.made }).collect()
    }

    /// A bucket was read by all indexes. It stays stale if it has changed since it was returned by
    /// [`StaleBuckets::idle`].
    pub fn mark_read(&self, read: StaleBucket) {
        let mut state = self.state.lock();
        let is_current = state
            .buckets
            .get(&read.bucket)
            .is_some_and(|changes| changes.made == read.made && changes.in_flight == 0);
        if is_current {
            state.buckets.remove(&read.bucket);
            state.turn.read += 1;
        }
    }

    /// The stale buckets, and the state that they are of.
    pub fn snapshot(&self) -> (Vec<BucketId>, StaleRevision) {
        let state = self.state.lock();
        (state.buckets.keys().copied().collect(), state.turn)
    }

    pub fn turn(&self) -> StaleRevision {
        self.state.lock().turn
    }

    pub fn len(&self) -> usize {
        self.state.lock().buckets.len()
    }
}

/// True if two buckets have a location in common.
pub(super) fn overlap(one: BucketId, other: BucketId) -> bool {
    one.covers(other) || other.covers(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_stale_until_its_last_change_was_read() {
        let (stale, bucket) = (StaleBuckets::default(), BucketId::new(8, 5));
        stale.begin(&[bucket]);
        assert_eq!((stale.idle(), stale.snapshot().0), (Vec::new(), vec![bucket]), "a change is in flight");
        stale.end(&[bucket]);
        let first = stale.idle()[0];
        let turn = stale.turn();
        stale.begin(&[bucket]);
        stale.end(&[bucket]);
        assert_ne!(stale.turn(), turn);
        stale.mark_read(first);
        assert_eq!(stale.len(), 1, "another change was made meanwhile");
        stale.mark_read(stale.idle()[0]);
        assert_eq!((stale.len(), stale.idle()), (0, Vec::new()));
        stale.begin(&[bucket]);
        stale.read_again(&[bucket]);
        assert_eq!((stale.len(), stale.idle()), (1, Vec::new()), "a change is still in flight");
        stale.end(&[bucket]);
        stale.mark_read(stale.idle()[0]);
        stale.read_again(&[bucket]);
        assert_eq!(stale.idle().len(), 1, "it is to be read by one that has come");
        assert!(overlap(BucketId::new(3, 5), bucket) && !overlap(BucketId::new(3, 4), bucket));
    }
}
