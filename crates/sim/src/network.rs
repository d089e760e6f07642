use std::collections::BTreeSet;
use std::time::Duration;

use millrace_cluster::NodeKey;
use millrace_fixtures::SeededRandom;

/// Endpoint of messages: a node, or coordination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SimAddress {
    Node(NodeKey),
    Coordination,
}

/// Network with faults.
#[derive(Debug, Default)]
pub(crate) struct SimNetwork {
    /// Blocked directions, as sender and receiver.
    blocked: BTreeSet<(SimAddress, SimAddress)>,
    /// Lost messages, per thousand.
    pub loss: u64,
    /// Duplicated messages, per thousand.
    pub doubled: u64,
    /// Long delayed messages, per thousand.
    pub delayed: u64,
}

impl SimNetwork {
    /// Arrival times of a message, as delays from now: none if it is lost, several if it is duplicated.
    pub fn carry(&self, from: SimAddress, to: SimAddress, random: &mut SeededRandom) -> Vec<Duration> {
        if from == to {
            return vec![random.micros(1, 20)];
        }
        if self.blocked.contains(&(from, to)) || random.permille(self.loss) {
            return Vec::new();
        }
        let mut once = || {
            if random.permille(self.delayed) {
                random.micros(50_000, 8_000_000)
            } else {
                random.micros(100, 3_000)
            }
        };
        let first = once();
        let second = once();
        if random.permille(self.doubled) { vec![first, second] } else { vec![first] }
    }

    pub fn block(&mut self, from: SimAddress, to: SimAddress) {
        if from != to {
            self.blocked.insert((from, to));
        }
    }

    /// Blocks all messages between the two sides, in both directions.
    pub fn split(&mut self, side: &[SimAddress], other: &[SimAddress]) {
        for a in side {
            for b in other {
                self.block(*a, *b);
                self.block(*b, *a);
            }
        }
    }

    pub fn mend(&mut self) {
        self.blocked.clear();
    }
}
