//! Order of the writes of one document, if it matters.
//!
//! A modification must see all earlier writes and must not be overtaken, or an update would be lost. A single
//! write overtakes the batches that wait, but not an earlier write of its document, or the document would
//! keep the older content. So every document with writes in progress has a lane. Blind writes of one queue,
//! which keeps their order, run side by side. A blind write of the other queue waits until those have left. A
//! modification waits for all earlier writes, and runs alone. Writes that come later wait behind those that
//! wait. A modification that runs can take along those that wait directly behind it
//! ([`WriteLanes::take_next`]).
//!
//! A lane is found by a hash of the key. If two documents share one, they only wait for each other.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SHARDS: usize = 64;

/// Properties of a write that the lanes use.
pub(crate) trait LaneWrite {
    /// The document's key.
    fn key(&self) -> &[u8];
    /// Kind of the write, which decides what it can run beside.
    fn kind(&self) -> LaneKind;
}

/// Kind of a write: those of one kind run side by side, except for modifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneKind {
    /// A modification, which runs alone.
    Modification,
    /// A blind write that overtakes batches.
    Single,
    /// A blind write that is queued with the others of its batch. If it waited, it runs as a single one.
    Batched,
}

/// The lanes of all documents with writes in flight.
pub(crate) struct WriteLanes<W> {
    shards: Vec<Mutex<Shard<W>>>,
    /// Drawn at random by each process, so that clients cannot choose keys that share a lane.
    seed: u64,
}

type Shard<W> = HashMap<u64, WriteLane<W>, BuildHasherDefault<LaneHasher>>;

/// Hasher of lanes, which are named by a hash with a seed: it is as good as any of it.
#[derive(Default)]
struct LaneHasher(u64);

impl Hasher for LaneHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("lanes are named by numbers of 64 bits");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct WriteLane<W> {
    running: usize,
    /// Kind of those that run.
    kind: LaneKind,
    waiting: VecDeque<W>,
}

impl<W: LaneWrite> WriteLanes<W> {
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        WriteLanes { shards, seed: RandomState::new().hash_one(SHARDS) }
    }

    /// Enters a write into the lane of its document, and returns it if it may run now. Otherwise it waits,
    /// and [`WriteLanes::leave`] runs it later.
    pub fn enter(&self, write: W) -> Option<W> {
        let (mut shard, hash) = self.shard(write.key());
        match shard.entry(hash) {
            Entry::Vacant(free) => {
                free.insert(WriteLane { running: 1, kind: write.kind(), waiting: VecDeque::new() });
                Some(write)
            }
            Entry::Occupied(lane) => lane.into_mut().enter(write),
        }
    }

    /// Takes a write of the document of this key, which has run, out of its lane. Calls `run` with those that
    /// may run now, before another one can enter.
    pub fn leave(&self, key: &[u8], mut run: impl FnMut(W)) {
        let (mut shard, hash) = self.shard(key);
        let Entry::Occupied(mut entered) = shard.entry(hash) else {
            unreachable!("a write leaves the lane that it entered, once")
        };
        let lane = entered.get_mut();
        assert!(lane.running > 0, "a write that leaves was running, and was counted when it began");
        lane.running -= 1;
        if lane.running > 0 {
            return;
        }
        let Some(first) = lane.waiting.pop_front() else {
            entered.remove();
            return;
        };
        let is_blind = |write: &W| write.kind() != LaneKind::Modification;
        lane.kind = if is_blind(&first) { LaneKind::Single } else { LaneKind::Modification };
        lane.running = 1;
        run(first);
        while lane.kind == LaneKind::Single && lane.waiting.front().is_some_and(is_blind) {
            lane.running += 1;
            lane.waiting.pop_front().into_iter().for_each(&mut run);
        }
    }

    /// Takes the first write that waits in the lane of this key, where a modification runs, if `is_taken` is
    /// true for it. It runs as a part of that modification: both leave together, once.
    pub fn take_next(&self, key: &[u8], is_taken: impl FnOnce(&W) -> bool) -> Option<W> {
        let (mut shard, hash) = self.shard(key);
        let waiting = &mut shard.get_mut(&hash)?.waiting;
        if waiting.front().is_some_and(is_taken) { waiting.pop_front() } else { None }
    }

    fn shard(&self, key: &[u8]) -> (MutexGuard<'_, Shard<W>>, u64) {
        let hash = xxh3_64_with_seed(key, self.seed);
        // The table of a shard uses the lowest bits and the highest ones.
        let shard = &self.shards[(hash >> 32) as usize % SHARDS];
        (shard.lock(), hash)
    }
}

impl<W: LaneWrite> WriteLane<W> {
    /// Enters a write into a lane that others are in.
    fn enter(&mut self, write: W) -> Option<W> {
        let kind = write.kind();
        if kind == LaneKind::Modification || kind != self.kind || !self.waiting.is_empty() {
            self.waiting.push_back(write);
            return None;
        }
        self.running += 1;
        Some(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NamedLane(&'static str);

    impl LaneWrite for NamedLane {
        fn key(&self) -> &[u8] {
            b"key"
        }

        fn kind(&self) -> LaneKind {
            match self.0.as_bytes()[0] {
                b'm' => LaneKind::Modification,
                b'b' => LaneKind::Batched,
                _ => LaneKind::Single,
            }
        }
    }

    /// Writes enter (`p1`: a put, `b1`: one of a batch, `m1`: a modification), leave (`-`), and take along
    /// the next one if it is a modification (`+`); the running ones are recorded, in turns.
    fn check(steps: &str, expected: &str) {
        let lanes: WriteLanes<NamedLane> = WriteLanes::new();
        let ran: Vec<String> = steps
            .split(' ')
            .map(|step| {
                let runs: Vec<&str> = match step {
                    "-" => {
                        let mut runs = Vec::new();
                        lanes.leave(b"key", |write| runs.push(write.0));
                        runs
                    }
                    "+" => {
                        let is_modification = |write: &NamedLane| write.kind() == LaneKind::Modification;
                        lanes.take_next(b"key", is_modification).iter().map(|write| write.0).collect()
                    }
                    name => {
                        lanes.enter(NamedLane(name.to_owned().leak())).iter().map(|write| write.0).collect()
                    }
                };
                if runs.is_empty() { ".".to_owned() } else { runs.join("+") }
            })
            .collect();
        assert_eq!(ran.join(" "), expected, "{steps}");
    }

    #[test]
    fn modifications_run_alone_and_in_order() {
        check("p1 p2 m1 p3 p4 m2 - - - - - -", "p1 p2 . . . . . m1 p3+p4 . m2 .");
        check("m1 m2 p1 - - - p2", "m1 . . m2 p1 . p2");
    }

    #[test]
    fn a_modification_takes_along_those_directly_behind_it() {
        check("m1 m2 m3 p1 m4 + + + - - - +", "m1 . . . . m2 m3 . p1 m4 . .");
        check("m1 + m2 + m3 - -", "m1 . . m2 . m3 .");
    }

    #[test]
    fn writes_of_different_queues_run_in_order() {
        check("b1 b2 p1 p2 - - - -", "b1 b2 . . . p1+p2 . .");
        check("p1 b1 p2 - - -", "p1 . . b1+p2 . .");
        // Those that waited are single writes by then.
        check("p1 b1 - p2 b2 - - -", "p1 . b1 p2 . . b2 .");
        check("b1 m1 b2 p1 - - - -", "b1 . . . m1 b2+p1 . .");
    }
}
