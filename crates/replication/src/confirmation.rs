use std::collections::BTreeMap;
use std::time::Duration;

use millrace_cluster::{ClusterState, NodeKey};

/// Time until which a node may act by its cluster state.
///
/// A node that was frozen or cut off may have missed a newer state. So it may own buckets only if, within the
/// last interval, either coordination reported that no state is newer, or a majority of *all* nodes of the
/// state reported that they have none newer. All nodes count, not only those that serve. Then two sides of a
/// split never both have a majority, as long as no state takes a majority of an earlier one out of service
/// that may still act by it (see [`SupersededState`](millrace_cluster::SupersededState)).
///
/// The time when the question was sent counts, not the arrival of the answer: an answer may have been delayed
/// for long.
#[derive(Debug)]
pub(crate) struct StateConfirmation {
    interval: Duration,
    /// Number of other nodes that must agree besides this one.
    others_needed: usize,
    /// Time at which each other node was asked when it last confirmed the state.
    confirmed_at: BTreeMap<NodeKey, Duration>,
    coordination: Option<Duration>,
    until: Option<Duration>,
}

/// Time on the local clock after which another node's confirmation has lapsed by its clock, which may be
/// slower by a fifth.
pub(crate) fn lapse(confirm: Duration) -> Duration {
    confirm + confirm / 4
}

impl StateConfirmation {
    pub fn new(interval: Duration) -> Self {
        StateConfirmation {
            interval,
            others_needed: usize::MAX,
            confirmed_at: BTreeMap::new(),
            coordination: None,
            until: None,
        }
    }

    /// Starts with a new state, which is unconfirmed.
    pub fn begin(&mut self, state: &ClusterState) {
        self.others_needed = state.nodes().len() / 2;
        self.confirmed_at.clear();
        self.coordination = None;
        self.until = None;
    }

    /// Records that coordination answered a question sent at this time: this state is the newest, and the
    /// node's lease is alive.
    pub fn coordination(&mut self, asked: Duration) {
        self.coordination = self.coordination.max(Some(asked));
        self.settle(asked);
    }

    /// Records that another node, which has this state, answered a question sent at this time.
    pub fn peer(&mut self, node: NodeKey, asked: Duration) {
        let known = self.confirmed_at.entry(node).or_insert(asked);
        *known = asked.max(*known);
        self.settle(asked);
    }

    fn settle(&mut self, now: Duration) {
        let by_peers = match self.others_needed {
            // A single node agrees with itself.
            0 => Some(now),
            needed => {
                let mut times: Vec<Duration> = self.confirmed_at.values().copied().collect();
                times.sort_unstable_by(|a, b| b.cmp(a));
                times.get(needed - 1).copied()
            }
        };
        self.until = self.coordination.max(by_peers).map(|at| at + self.interval);
    }

    /// True if the node may act by its state now.
    pub fn holds(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_state::test_state;

    #[test]
    fn a_majority_of_all_nodes_or_coordination_confirms_for_one_interval() {
        let second = Duration::from_secs;
        let mut confirmation = StateConfirmation::new(second(4));
        confirmation.begin(&test_state("uuudd", 2, 1));
        assert!(!confirmation.holds(second(0)));
        confirmation.peer(NodeKey(1), second(1));
        assert!(!confirmation.holds(second(1)), "two of five are not a majority");
        confirmation.peer(NodeKey(2), second(3));
        assert!(confirmation.holds(second(5)));
        assert!(!confirmation.holds(second(6)), "the older of the two that are needed counts");
        confirmation.coordination(second(6));
        assert!(confirmation.holds(second(10)));
        confirmation.begin(&test_state("uuuud", 2, 2));
        assert!(!confirmation.holds(second(6)), "each state has to be confirmed by itself");
    }
}
