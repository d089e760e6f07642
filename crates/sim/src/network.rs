use std::collections::BTreeSet;
use std::time::Duration;

use millrace_cluster::NodeKey;

use crate::random::Random;

/// A place that messages come from and go to: a node, or coordination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Node(NodeKey),
    Coordination,
}

/// What becomes of messages on their way.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// From, to: nothing comes through.
    blocked: BTreeSet<(Place, Place)>,
    /// Of a thousand messages so many are lost,
    pub loss: u64,
    /// so many come twice,
    pub doubled: u64,
    /// and so many come very late.
    pub delayed: u64,
}

impl Network {
    /// When a message arrives, once for each time that it does, as delays from now.
    pub fn carry(&self, from: Place, to: Place, random: &mut Random) -> Vec<Duration> {
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

    pub fn block(&mut self, from: Place, to: Place) {
        if from != to {
            self.blocked.insert((from, to));
        }
    }

    /// Nothing between the two sides, in either direction.
    pub fn split(&mut self, side: &[Place], other: &[Place]) {
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
