//! Slots of the documents of a request: the one is taken whose slowest node costs less.
//!
//! The slots of an index in `logs` mode have their partitions on several sets of nodes, each of an owner and
//! the other replicas. Of two drawn slots the cheaper one is picked, by the bytes that are on their way to
//! its nodes and by the times that writes took there. One with a node that owes an answer for long is left
//! out while others are there. What a set has cost is forgotten with time, so that a slow one is tried again.
//!
//! Writes that fail say nothing of these times, and can fail in no time. Each of them costs more than a slow
//! write, for all sets of its owner, and is forgotten in the same way.
//!
//! [`pick`] decides, by plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Nodes of a partition by their keys, the owner first. Empty on a node that runs alone.
pub(crate) type ReplicaNodes = Vec<u16>;

/// Weight of the newest write in the averages of its set.
const WEIGHT: f64 = 0.2;

/// Seconds in which half of what a set has cost is forgotten.
const HALF_LIFE_S: f64 = 5.0;

/// Multiple of the usual time of a write after which its answer is overdue, and the least such time.
const OVERDUE_TIMES: f64 = 4.0;
const OVERDUE_MIN: Duration = Duration::from_millis(250);

/// Time of a write to a set of which nothing is known.
const FIRST_S: f64 = 0.25;

/// Seconds that a write costs that has failed, and the most such writes that count.
const FAILED_S: f64 = 2.0;
const FAILURES_MAX: f64 = 8.0;

/// Sets whose costs are remembered.
const SETS_MAX: usize = 4096;

/// A slot that documents can go to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlotCandidate {
    pub(crate) slot: u32,
    /// Cost in seconds: that of the worst of its sets of nodes.
    pub(crate) cost_s: f64,
    /// True if a node owes an answer for long.
    pub(crate) is_overdue: bool,
}

/// Picks a slot: the cheaper of two, the first of which has its turn by the number `drawn`. `None` if there
/// is none.
pub(crate) fn pick(candidates: &[SlotCandidate], drawn: u64) -> Option<u32> {
    let timely: Vec<&SlotCandidate> = candidates.iter().filter(|candidate| !candidate.is_overdue).collect();
    let drawable = if timely.is_empty() { candidates.iter().collect() } else { timely };
    let count = drawable.len() as u64;
    let first = *drawable.get((drawn % count.max(1)) as usize)?;
    if count == 1 {
        return Some(first.slot);
    }
    // Another one, which differs from request to request in no fixed order.
    let mixed = drawn.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let step = 1 + mixed % (count - 1);
    let second = drawable[((drawn + step) % count) as usize];
    Some(if second.cost_s < first.cost_s { second.slot } else { first.slot })
}

/// Writes that are in flight to sets of nodes, and the times that earlier ones took.
#[derive(Debug, Default)]
pub(crate) struct WriteLoads(Mutex<BTreeMap<ReplicaNodes, ReplicaSetLoad>>);

#[derive(Debug, Default)]
struct ReplicaSetLoad {
    /// Number of the next write.
    next: u64,
    /// Beginnings and bytes of writes in flight, by their numbers: the oldest first.
    running: BTreeMap<u64, (Instant, u64)>,
    times: Option<ReplicaSetTimes>,
    failures: Option<ReplicaSetFailures>,
}

/// Averages over the writes to a set.
#[derive(Debug, Clone, Copy)]
struct ReplicaSetTimes {
    seconds: f64,
    bytes: f64,
    last: Instant,
}

/// Writes to a set that have failed.
#[derive(Debug, Clone, Copy)]
struct ReplicaSetFailures {
    /// Number of them, with those forgotten that were long ago.
    count: f64,
    last: Instant,
}

/// Part of a cost that is not forgotten yet.
fn remembered(cost: f64, last: Instant, now: Instant) -> f64 {
    cost * 0.5_f64.powf(now.saturating_duration_since(last).as_secs_f64() / HALF_LIFE_S)
}

impl ReplicaSetLoad {
    fn bytes(&self) -> u64 {
        self.running.values().map(|(_, bytes)| bytes).sum()
    }

    /// Seconds that a write took, with those forgotten that were long ago.
    fn usual_s(&self, now: Instant) -> f64 {
        self.times.map_or(0.0, |times| remembered(times.seconds, times.last, now))
    }

    /// Number of writes that have failed, with those forgotten that were long ago.
    fn failures(&self, now: Instant) -> f64 {
        self.failures.map_or(0.0, |failures| remembered(failures.count, failures.last, now))
    }

    /// Notes the end of a write: the time that it took, or that it has failed.
    fn note(&mut self, bytes: u64, end: WriteEnd, now: Instant) {
        match end {
            WriteEnd::Failed => {
                let count = (self.failures(now) + 1.0).min(FAILURES_MAX);
                self.failures = Some(ReplicaSetFailures { count, last: now });
            }
            WriteEnd::Done(took) => {
                let (took_s, bytes) = (took.as_secs_f64(), bytes as f64);
                let before = self.times.unwrap_or(ReplicaSetTimes { seconds: took_s, bytes, last: now });
                self.times = Some(ReplicaSetTimes {
                    seconds: before.seconds + WEIGHT * (took_s - before.seconds),
                    bytes: before.bytes + WEIGHT * (bytes - before.bytes),
                    last: now,
                });
            }
        }
    }

    fn is_overdue(&self, now: Instant) -> bool {
        let Some((began, _)) = self.running.values().next() else { return false };
        let usual_s = self.times.map_or(FIRST_S, |times| times.seconds);
        let bound = OVERDUE_MIN.max(Duration::from_secs_f64(OVERDUE_TIMES * usual_s));
        now.saturating_duration_since(*began) > bound
    }
}

impl WriteLoads {
    /// Notes a write that begins. It is in flight until the first result is dropped; the second one takes its
    /// outcome.
    pub(crate) fn begin(self: &Arc<Self>, nodes: &[u16], bytes: u64) -> (InFlightWrite, WriteToSettle) {
        let now = Instant::now();
        let mut sets = self.0.lock();
        if sets.len() >= SETS_MAX {
            sets.retain(|_, set| !set.running.is_empty());
        }
        let set = sets.entry(nodes.to_vec()).or_default();
        let number = set.next;
        set.next += 1;
        set.running.insert(number, (now, bytes));
        let took = Arc::new(OnceLock::new());
        let (loads, nodes) = (Arc::clone(self), nodes.to_vec());
        let settled = WriteToSettle { loads, nodes: nodes.clone(), bytes, took: Arc::clone(&took) };
        (InFlightWrite { loads: Arc::clone(self), nodes, number, took }, settled)
    }

    /// The candidate that a slot is, whose documents go to these sets of nodes.
    pub(crate) fn candidate(&self, slot: u32, sets: &[ReplicaNodes], now: Instant) -> SlotCandidate {
        let loads = self.0.lock();
        let bytes_at = |node: &u16| -> u64 {
            let with = loads.iter().filter(|(nodes, _)| nodes.contains(node));
            with.map(|(_, set)| set.bytes()).sum()
        };
        // The owner takes documents on, or does not, for all of its sets.
        let failed_s = |owner: Option<&u16>| -> f64 {
            let of_owner = loads.iter().filter(|(nodes, _)| nodes.first() == owner);
            FAILED_S * of_owner.map(|(_, set)| set.failures(now)).fold(0.0, f64::max)
        };
        let mut candidate = SlotCandidate { slot, cost_s: 0.0, is_overdue: false };
        for nodes in sets {
            let failed_s = failed_s(nodes.first());
            candidate.cost_s = candidate.cost_s.max(failed_s);
            let Some(set) = loads.get(nodes) else { continue };
            let usual_s = set.usual_s(now);
            let byte_s = set.times.map_or(0.0, |times| usual_s / times.bytes.max(1.0));
            let busiest = nodes.iter().map(bytes_at).max().unwrap_or_default();
            candidate.cost_s = candidate.cost_s.max(failed_s + usual_s + busiest as f64 * byte_s);
            candidate.is_overdue |= set.is_overdue(now);
        }
        candidate
    }
}

/// A write in flight to a set of nodes.
#[derive(Debug)]
pub(crate) struct InFlightWrite {
    loads: Arc<WriteLoads>,
    nodes: ReplicaNodes,
    number: u64,
    /// Time that it took, once it has ended.
    took: Arc<OnceLock<Duration>>,
}

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut sets = self.loads.0.lock();
        let Some(set) = sets.get_mut(&self.nodes) else { return };
        let Some((began, _)) = set.running.remove(&self.number) else { return };
        self.took.get_or_init(|| now.saturating_duration_since(began));
    }
}

/// A write to a set of nodes whose outcome is noted.
#[derive(Debug)]
pub(crate) struct WriteToSettle {
    loads: Arc<WriteLoads>,
    nodes: ReplicaNodes,
    bytes: u64,
    took: Arc<OnceLock<Duration>>,
}

/// End of a write to a set of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WriteEnd {
    Done(Duration),
    Failed,
}

impl WriteToSettle {
    /// Notes the outcome: true if the nodes have not taken documents on, or have not confirmed them.
    pub(crate) fn settle(self, has_failed: bool) {
        let end = match (has_failed, self.took.get()) {
            (true, _) => WriteEnd::Failed,
            (false, Some(took)) => WriteEnd::Done(*took),
            // The time is not known while the request to the nodes goes on.
            (false, None) => return,
        };
        if let Some(set) = self.loads.0.lock().get_mut(&self.nodes) {
            set.note(self.bytes, end, Instant::now());
        }
    }
}

/// Slots that the documents of one request have, by the numbers of their indexes.
#[derive(Debug, Default)]
pub(crate) struct SlotChoices {
    chosen: BTreeMap<u32, ChosenSlot>,
    /// Slots that have refused documents, by index.
    refused: BTreeMap<u32, BTreeSet<u32>>,
    /// Sets of nodes of the first choice: the documents of other indexes go there, too, where they can.
    nodes: Option<BTreeSet<ReplicaNodes>>,
}

/// Slot of the documents of an index in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChosenSlot {
    pub(crate) slot: u32,
    /// Number by which it was drawn.
    pub(crate) drawn: u64,
}

/// Slots that the documents of a request try before they wait.
const TRIES_MAX: usize = 3;

impl SlotChoices {
    /// Slot of the documents of an index that was picked before.
    pub(crate) fn chosen(&self, index: u32) -> Option<ChosenSlot> {
        self.chosen.get(&index).copied()
    }

    /// Picks the slot of the documents of an index. `drawn` is a number that differs from request to request,
    /// `sets` gives the sets of nodes of a slot.
    pub(crate) fn choose(
        &mut self,
        index: u32,
        slots: u32,
        drawn: u64,
        sets: impl Fn(u32) -> Vec<ReplicaNodes>,
        loads: &WriteLoads,
    ) -> ChosenSlot {
        let now = Instant::now();
        let chosen = if slots <= 1 {
            ChosenSlot { slot: 0, drawn }
        } else {
            let refused = self.refused.entry(index).or_default();
            let others = |slot: &u32| !refused.contains(slot);
            let with_sets: Vec<(u32, Vec<ReplicaNodes>)> =
                (0..slots).filter(others).map(|slot| (slot, sets(slot))).collect();
            let is_there = |sets: &[ReplicaNodes]| {
                self.nodes.as_ref().is_some_and(|nodes| sets.iter().all(|set| nodes.contains(set)))
            };
            let any_there = with_sets.iter().any(|(_, sets)| is_there(sets));
            let candidates: Vec<SlotCandidate> = with_sets
                .iter()
                .filter(|(_, sets)| !any_there || is_there(sets))
                .map(|(slot, sets)| loads.candidate(*slot, sets, now))
                .collect();
            let slot = pick(&candidates, drawn).unwrap_or((drawn % u64::from(slots)) as u32);
            ChosenSlot { slot, drawn }
        };
        if self.nodes.is_none() {
            self.nodes = Some(sets(chosen.slot).into_iter().collect());
        }
        self.chosen.insert(index, chosen);
        chosen
    }

    /// Notes that the slot of an index has refused documents: the next choice is another one. False if as
    /// many as are tried have refused, or all; from then on each may be tried again.
    pub(crate) fn refuse(&mut self, index: u32, slots: u32) -> bool {
        let Some(ChosenSlot { slot, .. }) = self.chosen.remove(&index) else { return true };
        self.nodes = None;
        let refused = self.refused.entry(index).or_default();
        refused.insert(slot);
        let is_left = refused.len() < TRIES_MAX.min(slots as usize);
        if !is_left {
            refused.clear();
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates as a text: `SLOT=COST`, with `!` if an answer is overdue.
    fn candidates(text: &str) -> Vec<SlotCandidate> {
        let one = |word: &str| {
            let (slot, cost) = word.split_once('=').expect("SLOT=COST");
            let is_overdue = cost.ends_with('!');
            let cost_s = cost.trim_end_matches('!').parse().expect("a number");
            SlotCandidate { slot: slot.parse().expect("a number"), cost_s, is_overdue }
        };
        text.split_whitespace().map(one).collect()
    }

    #[test]
    fn the_cheaper_of_two_is_picked() {
        for (slots, expected) in [
            ("", ""),
            ("4=9", "4 4 4 4"),
            // Without a difference each has its turn.
            ("0=1 1=1 2=1", "0 1 2 0"),
            // The dear one is picked in no pair.
            ("0=9 1=1", "1 1 1 1"),
            ("0=1 1=9", "0 0 0 0"),
            // One that owes an answer is left out while others are there, however cheap it is.
            ("0=0! 1=9", "1 1 1 1"),
            ("0=0! 1=0!", "0 1 0 1"),
        ] {
            let candidates = candidates(slots);
            let picked = (0..4).filter_map(|drawn| pick(&candidates, drawn));
            let picked = picked.map(|slot| slot.to_string()).collect::<Vec<_>>().join(" ");
            assert_eq!(picked, expected, "{slots}");
        }
    }

    #[test]
    fn one_dear_slot_of_many_is_never_picked_and_all_others_are() {
        let candidates = candidates("0=1 1=1 2=50 3=1 4=1 5=1");
        let picked: BTreeSet<u32> = (0..600).filter_map(|drawn| pick(&candidates, drawn)).collect();
        assert_eq!(picked, [0, 1, 3, 4, 5].into());
    }

    #[test]
    fn costs_are_those_of_the_busiest_node_and_are_forgotten() {
        let loads = Arc::new(WriteLoads::default());
        let now = Instant::now();
        let times = |seconds| Some(ReplicaSetTimes { seconds, bytes: 1_000.0, last: now });
        let set = |nodes: &[u16], seconds| {
            let load = ReplicaSetLoad { times: times(seconds), ..ReplicaSetLoad::default() };
            loads.0.lock().insert(nodes.to_vec(), load);
        };
        set(&[0, 1], 0.1);
        set(&[1, 2], 0.1);
        set(&[2, 0], 0.4);
        let cost = |sets: &[&[u16]], after_s: u64| {
            let sets: Vec<ReplicaNodes> = sets.iter().map(|nodes| nodes.to_vec()).collect();
            let found = loads.candidate(0, &sets, now + Duration::from_secs(after_s));
            ((found.cost_s * 1000.0).round(), found.is_overdue)
        };
        assert_eq!(cost(&[&[0, 1]], 0), (100.0, false));
        assert_eq!(cost(&[&[0, 1], &[2, 0]], 0), (400.0, false), "the worst of several sets counts");
        assert_eq!(cost(&[&[5, 6]], 0), (0.0, false), "nothing is known of others");
        assert_eq!(cost(&[&[2, 0]], 5), (200.0, false), "half is forgotten");
        // 2,000 bytes on their way to nodes 1 and 2, twice those of a write, also slow node 1 of another set.
        let (in_flight, _) = loads.begin(&[1, 2], 2_000);
        assert_eq!(cost(&[&[0, 1]], 0), (300.0, false));
        assert_eq!(cost(&[&[1, 2]], 0), (300.0, false));
        assert!(cost(&[&[1, 2]], 1).1, "four times the usual time is over");
        assert!(!cost(&[&[0, 1]], 1).1, "the answer of another set is not owed by this one");
        drop(in_flight);
        assert!(!cost(&[&[1, 2]], 1).1);
    }

    #[test]
    fn writes_that_fail_fast_make_their_set_dear_for_a_time() {
        const SLOW: WriteEnd = WriteEnd::Done(Duration::from_millis(400));
        const FAST: WriteEnd = WriteEnd::Done(Duration::from_millis(1));
        const FAILED: WriteEnd = WriteEnd::Failed;
        let now = Instant::now();
        // Ends of the writes to the sets 0-1, 0-2 and 2-1; seconds; the set that is cheaper then, of the
        // first and the last one.
        type ReplicaSetEnds = &'static [WriteEnd];
        let table: [(ReplicaSetEnds, ReplicaSetEnds, ReplicaSetEnds, u64, u32); 9] = [
            (&[FAST], &[], &[SLOW], 0, 0),
            (&[SLOW], &[], &[FAST], 0, 2),
            (&[FAILED], &[], &[SLOW], 0, 2),
            (&[FAST, FAILED], &[], &[SLOW], 0, 2),
            (&[FAILED, FAILED, FAILED], &[], &[SLOW, SLOW], 0, 2),
            // What one set of an owner refuses, others would.
            (&[FAST], &[FAILED], &[SLOW], 0, 2),
            // Of two that fail, the one that does so more often is dearer.
            (&[FAILED, FAILED], &[], &[FAILED], 0, 2),
            (&[FAILED], &[], &[FAILED, FAILED], 0, 0),
            // It is forgotten: of both alike, so that the first has its turn.
            (&[FAST, FAILED], &[], &[FAST], 600, 0),
        ];
        for (first, of_owner, last, after_s, expected) in table {
            let loads = Arc::new(WriteLoads::default());
            let sets: [ReplicaNodes; 3] = [vec![0, 1], vec![0, 2], vec![2, 1]];
            for (nodes, ends) in sets.iter().zip([first, of_owner, last]) {
                let mut load = ReplicaSetLoad::default();
                ends.iter().for_each(|end| load.note(1_000, *end, now));
                loads.0.lock().insert(nodes.clone(), load);
            }
            let later = now + Duration::from_secs(after_s);
            let candidate = |slot: u32| loads.candidate(slot, &sets[slot as usize..][..1], later);
            let mut candidates = [candidate(0), candidate(2)];
            for candidate in &mut candidates {
                // Beyond a thousandth of a second, the costs are different.
                candidate.cost_s = (candidate.cost_s * 1_000.0).round();
            }
            let case = format!("{first:?} {of_owner:?} {last:?} after {after_s} s");
            assert_eq!(pick(&candidates, 0), Some(expected), "{case}: {candidates:?}");
        }
    }

    #[test]
    fn the_time_of_a_write_that_fails_is_not_counted() {
        let loads = Arc::new(WriteLoads::default());
        for (has_failed, knows_time) in [(true, false), (false, true)] {
            let (in_flight, outcome) = loads.begin(&[1], 10);
            drop(in_flight);
            outcome.settle(has_failed);
            let sets = loads.0.lock();
            let set = &sets[&vec![1_u16]];
            assert_eq!(set.times.is_some(), knows_time);
            assert!(set.failures.is_some() && set.running.is_empty());
        }
        let (_in_flight, outcome) = loads.begin(&[2], 10);
        outcome.settle(false);
        assert!(loads.0.lock()[&vec![2_u16]].times.is_none(), "its time is not known yet");
    }

    #[test]
    fn what_is_refused_tries_two_others_and_what_goes_together_one_set() {
        let loads = WriteLoads::default();
        let sets = |slot: u32| vec![vec![slot as u16 % 3]];
        let mut choices = SlotChoices::default();
        let mut chosen = Vec::new();
        for try_number in 0..4 {
            chosen.push(choices.choose(7, 6, 3, sets, &loads).slot);
            assert_eq!(choices.refuse(7, 6), try_number % 3 != 2, "the third refusal is the last");
        }
        chosen.truncate(3);
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen.len(), 3, "{chosen:?}");

        let mut together = SlotChoices::default();
        let first = together.choose(1, 6, 4, sets, &loads).slot;
        for (index, drawn) in [(2, 0), (3, 1), (4, 2)] {
            let other = together.choose(index, 6, drawn, sets, &loads).slot;
            assert_eq!(other % 3, first % 3, "index {index} goes to the nodes of the first");
        }
        assert_eq!(together.chosen(1).map(|chosen| chosen.slot), Some(first), "a request has one slot");
    }
}
