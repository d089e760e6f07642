//! Ids of clients whose documents are on their way to partitions.
//!
//! A client that hears nothing sends a request again. If the partition was closed meanwhile, the documents
//! go to the next one, and their ids are looked for in the earlier ones. As long as the earlier request may
//! still write them there, that they are not found means nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time after which a write of unknown outcome is over: its owner has given it up before.
const UNKNOWN_FOR: Duration = Duration::from_secs(65);

/// Time after which no write of another node arrives that had the catalog before: the one above, and the time
/// for which a node may act by an old cluster state, or its clock may be behind.
pub(super) const OTHERS_FOR: Duration = Duration::from_secs(75);

/// Ids that the documents of a write have.
pub(crate) type ExplicitIds = Arc<[String]>;

/// Ids on their way to partitions.
#[derive(Debug, Default)]
pub(crate) struct ArrivingIds(Mutex<ArrivingState>);

#[derive(Debug, Default)]
struct ArrivingState {
    /// Number of the next write.
    next: u64,
    writes: BTreeMap<u64, ArrivingWrite>,
    others: Option<OtherWrites>,
}

/// Writes of another node, which had the catalog before. Their ids are not known here.
#[derive(Debug, Clone, Copy)]
struct OtherWrites {
    /// Number of the last partition that they can go to.
    last: u32,
    /// Time at which they are over.
    until: Instant,
}

#[derive(Debug)]
struct ArrivingWrite {
    /// Number of the partition.
    partition: u32,
    ids: ExplicitIds,
    /// End of a write of unknown outcome. `None`: it is in flight.
    until: Option<Instant>,
}

impl ArrivingState {
    fn forget(&mut self, now: Instant) {
        self.writes.retain(|_, write| write.until.is_none_or(|until| until > now));
    }

    fn begin(&mut self, partition: u32, ids: &ExplicitIds, now: Instant) -> u64 {
        self.forget(now);
        let number = self.next;
        self.next += 1;
        self.writes.insert(number, ArrivingWrite { partition, ids: Arc::clone(ids), until: None });
        number
    }

    fn end(&mut self, number: u64, is_unknown: bool, now: Instant) {
        if !is_unknown {
            self.writes.remove(&number);
        } else if let Some(write) = self.writes.get_mut(&number) {
            write.until = Some(now + UNKNOWN_FOR);
        }
    }

    fn ids_at(&mut self, partitions: &[u32], now: Instant) -> Vec<ExplicitIds> {
        self.forget(now);
        let there = self.writes.values().filter(|write| partitions.contains(&write.partition));
        there.map(|write| Arc::clone(&write.ids)).collect()
    }

    fn note_others(&mut self, last: u32, now: Instant) {
        let last = self.others.map_or(last, |others| others.last.max(last));
        self.others = Some(OtherWrites { last, until: now + OTHERS_FOR });
    }

    fn may_have_others(&self, partition: u32, now: Instant) -> bool {
        self.others.is_some_and(|others| partition <= others.last && now < others.until)
    }
}

impl ArrivingIds {
    /// Notes ids that are on their way to a partition. They are until the result is dropped.
    pub(crate) fn begin(self: &Arc<Self>, partition: u32, ids: &ExplicitIds) -> ArrivingHold {
        let number = self.0.lock().begin(partition, ids, Instant::now());
        ArrivingHold { of: Arc::clone(self), number, is_unknown: false }
    }

    /// Ids on their way to any of these partitions, by write.
    pub(crate) fn ids_at(&self, partitions: &[u32]) -> Vec<ExplicitIds> {
        self.0.lock().ids_at(partitions, Instant::now())
    }

    /// Notes that another node had the catalog before this one. Documents with any ids may be on their way to
    /// the partitions up to this number.
    pub(crate) fn note_others(&self, last: u32) {
        self.0.lock().note_others(last, Instant::now());
    }

    /// True if writes of another node may still be on their way to a partition.
    pub(super) fn may_have_others(&self, partition: u32) -> bool {
        self.0.lock().may_have_others(partition, Instant::now())
    }
}

/// Ids of a write that is in flight.
#[derive(Debug)]
pub(crate) struct ArrivingHold {
    of: Arc<ArrivingIds>,
    number: u64,
    is_unknown: bool,
}

impl ArrivingHold {
    /// Notes that the outcome is not known: the documents may still be written for a while.
    pub(crate) fn note_unknown(&mut self) {
        self.is_unknown = true;
    }
}

impl Drop for ArrivingHold {
    fn drop(&mut self) {
        self.of.0.lock().end(self.number, self.is_unknown, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_on_their_way_until_their_outcome_is_known_or_they_are_given_up() {
        let mut state = ArrivingState::default();
        let now = Instant::now();
        let ids = |name: &str| -> ExplicitIds { [name.to_owned()].into() };
        let first = state.begin(1, &ids("a"), now);
        let second = state.begin(1, &ids("b"), now);
        state.begin(2, &ids("c"), now);
        let names = |state: &mut ArrivingState, partitions: &[u32], after: Duration| -> Vec<String> {
            let found = state.ids_at(partitions, now + after);
            found.iter().flat_map(|ids| ids.iter().cloned()).collect()
        };
        assert_eq!(names(&mut state, &[1], Duration::ZERO), ["a", "b"]);
        assert_eq!(names(&mut state, &[2, 3], Duration::ZERO), ["c"]);
        assert!(names(&mut state, &[], Duration::ZERO).is_empty());
        state.end(first, false, now);
        state.end(second, true, now);
        assert_eq!(names(&mut state, &[1], UNKNOWN_FOR / 2), ["b"], "it may still be written");
        assert!(names(&mut state, &[1], UNKNOWN_FOR).is_empty());
        assert_eq!(names(&mut state, &[2], UNKNOWN_FOR), ["c"], "a write in flight ends by itself");
        assert_eq!(state.writes.len(), 1, "the others are forgotten");
    }

    #[test]
    fn writes_of_another_node_are_possible_for_a_while() {
        let mut state = ArrivingState::default();
        let now = Instant::now();
        assert!(!state.may_have_others(1, now), "no other node had the catalog");
        state.note_others(7, now);
        for (partition, after, expected) in [
            (1, Duration::ZERO, true),
            (7, UNKNOWN_FOR, true),
            (8, Duration::ZERO, false),
            (7, OTHERS_FOR, false),
        ] {
            assert_eq!(
                state.may_have_others(partition, now + after),
                expected,
                "{partition} after {after:?}"
            );
        }
        state.note_others(3, now + OTHERS_FOR / 2);
        assert!(state.may_have_others(7, now + OTHERS_FOR), "a later note takes nothing back");
    }

    #[test]
    fn ids_of_a_write_are_on_their_way_while_it_is_held() {
        let arriving = Arc::new(ArrivingIds::default());
        let held = arriving.begin(7, &["a".to_owned()].into());
        assert_eq!(arriving.ids_at(&[7]).len(), 1);
        drop(held);
        assert!(arriving.ids_at(&[7]).is_empty());
        let mut held = arriving.begin(7, &["a".to_owned()].into());
        held.note_unknown();
        drop(held);
        assert_eq!(arriving.ids_at(&[7]).len(), 1);
    }
}
