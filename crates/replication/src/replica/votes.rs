use std::collections::BTreeMap;
use std::time::Duration;

use millrace_cluster::{ClusterState, NodeKey, SupersededState};

use crate::confirmation::lapse;

/// Promises of a node to others, made by confirming their state.
///
/// While coordination answers, it alone confirms: a node that it does not answer stops owning before its
/// lease ends. A node votes for others only after it has not heard from coordination for a while. A vote is a
/// promise: until it has lapsed, the node does not answer a new owner if the node that it voted for does not
/// serve any more and so may not know.
#[derive(Debug)]
pub(crate) struct PromisedVotes {
    began: Duration,
    coordination: Option<Duration>,
    given: BTreeMap<NodeKey, Duration>,
}

impl PromisedVotes {
    pub fn new(began: Duration) -> Self {
        PromisedVotes { began, coordination: None, given: BTreeMap::new() }
    }

    /// Records that coordination answered a question sent at this time.
    pub fn coordination(&mut self, asked: Duration) {
        self.coordination = self.coordination.max(Some(asked));
    }

    /// Returns true, and records the promise, if the node votes for `to`.
    pub fn vote(&mut self, to: NodeKey, now: Duration, confirm: Duration) -> bool {
        let votes = self.coordination.is_none_or(|asked| asked + confirm / 2 < now);
        if votes {
            self.given.insert(to, now);
        }
        votes
    }

    /// Time until which no new owner may be answered, by this state.
    pub fn bound_until(&self, state: &ClusterState, confirm: Duration) -> Option<Duration> {
        let given = self.given.iter().filter(|(node, _)| !state.node_state(**node).serves());
        // Promises of the previous run are not known any more. They count if their receiver could be
        // confirmed by an earlier state.
        let serves = |name: &str| state.nodes().values().any(|node| node.name == name && node.state.serves());
        let earlier = state.earlier().iter().flat_map(SupersededState::names);
        let forgotten = earlier.into_iter().any(|name| !serves(name)).then_some(self.began);
        given.map(|(_, at)| *at).chain(forgotten).max().map(|at| at + lapse(confirm))
    }

    /// Time by which all promises so far have lapsed.
    pub fn lapsed_at(&self, confirm: Duration) -> Duration {
        self.given.values().copied().max().unwrap_or_default().max(self.began) + lapse(confirm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_state::test_state;

    #[test]
    fn a_vote_binds_until_it_has_lapsed_while_who_got_it_does_not_serve() {
        let second = Duration::from_secs;
        let confirm = second(4);
        let (all, without) = (test_state("uuu", 2, 1), test_state("uud", 2, 2));
        let later = test_state("uud", 2, 3);
        let without = without.with_earlier(vec![SupersededState::of(&all)]);
        let mut votes = PromisedVotes::new(second(10));
        assert_eq!(votes.bound_until(&all, confirm), None);
        assert_eq!(votes.bound_until(&without, confirm), Some(second(15)), "a run before may have voted");
        assert_eq!(
            votes.bound_until(&later, confirm),
            None,
            "too few are left who could confirm the first state"
        );
        votes.coordination(second(20));
        assert!(!votes.vote(NodeKey(2), second(21), confirm), "coordination speaks for itself");
        assert!(votes.vote(NodeKey(2), second(23), confirm));
        assert!(votes.vote(NodeKey(1), second(25), confirm));
        assert_eq!(
            votes.bound_until(&without, confirm),
            Some(second(28)),
            "what the other got does not count: it serves"
        );
        assert_eq!(votes.bound_until(&all, confirm), None);
    }
}
