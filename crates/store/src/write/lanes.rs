//! Order of the writes of one document, if it matters.
//!
//! Blind writes of a document may overtake each other, as long as each is whole. A modification must see all
//! earlier writes and must not be overtaken, or an update would be lost. So every document with writes in
//! progress has a lane: blind writes run side by side; a modification waits until all earlier ones have left,
//! runs alone, and all later ones wait.
//!
//! A lane is found by a hash of the key. If two documents share one, they only wait for each other.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use parking_lot::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SHARDS: usize = 64;

/// Properties of a write that the lanes use.
pub(crate) trait LaneWrite {
    /// The document's key.
    fn key(&self) -> &[u8];
    /// Returns true if it must run alone.
    fn alone(&self) -> bool;
}

/// The lanes of all documents with writes under way.
pub(crate) struct WriteLanes<W> {
    shards: Vec<Mutex<Shard<W>>>,
    /// Drawn at random by each process, so that clients cannot choose keys that share a lane.
    seed: u64,
}

type Shard<W> = HashMap<u64, WriteLane<W>>;

struct WriteLane<W> {
    running: usize,
    alone: bool,
    waiting: VecDeque<W>,
}

impl<W: LaneWrite> WriteLanes<W> {
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        WriteLanes { shards, seed: RandomState::new().hash_one(SHARDS) }
    }

    /// A write comes. Returned: it may run now. Otherwise it waits, and [`WriteLanes::leave`] returns it
    /// later.
    pub fn enter(&self, write: W) -> Option<W> {
        let (mut shard, hash) = self.shard(write.key());
        match shard.entry(hash) {
            Entry::Vacant(free) => {
                free.insert(WriteLane { running: 1, alone: write.alone(), waiting: VecDeque::new() });
                Some(write)
            }
            Entry::Occupied(lane) => lane.into_mut().enter(write),
        }
    }

    /// A write of the document of this key has run. Returns those that may run now.
    pub fn leave(&self, key: &[u8]) -> Vec<W> {
        let (mut shard, hash) = self.shard(key);
        let lane = shard.get_mut(&hash).expect("a write leaves the lane that it entered, once");
        assert!(lane.running > 0, "a write that leaves was running, and was counted when it began");
        lane.running -= 1;
        if lane.running > 0 {
            return Vec::new();
        }
        let Some(first) = lane.waiting.pop_front() else {
            shard.remove(&hash);
            return Vec::new();
        };
        lane.alone = first.alone();
        let mut next = vec![first];
        while !lane.alone && lane.waiting.front().is_some_and(|write| !write.alone()) {
            next.extend(lane.waiting.pop_front());
        }
        lane.running = next.len();
        next
    }

    fn shard(&self, key: &[u8]) -> (MutexGuard<'_, Shard<W>>, u64) {
        let hash = xxh3_64_with_seed(key, self.seed);
        let shard = &self.shards[hash as usize % SHARDS];
        (shard.lock(), hash)
    }
}

impl<W: LaneWrite> WriteLane<W> {
    /// A write comes to a lane that others are in.
    fn enter(&mut self, write: W) -> Option<W> {
        if self.alone || write.alone() || !self.waiting.is_empty() {
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

        fn alone(&self) -> bool {
            self.0.starts_with('m')
        }
    }

    /// Writes enter (`p1`: a put, `m1`: a modification) and leave (`-`); the running ones are recorded, in
    /// turns.
    fn check(steps: &str, expected: &str) {
        let lanes: WriteLanes<NamedLane> = WriteLanes::new();
        let ran: Vec<String> = steps
            .split(' ')
            .map(|step| {
                let runs: Vec<&str> = match step {
                    "-" => lanes.leave(b"key").iter().map(|write| write.0).collect(),
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
}
