//! Nodes that may still act by earlier states.

use std::collections::{BTreeMap, BTreeSet};

use super::node::{NodeRecord, NodeStateProposal};
use super::{ControllerInputs, RequestedNodeState};
use crate::{ClusterState, ClusterVersion, NodeKey, SupersededState};

/// States by which enough nodes may still act to continue, including the previous one.
pub(super) struct FollowedStates {
    earlier: Vec<SupersededState>,
    /// Names of nodes that have ended, as reported by themselves or by an operator.
    ended: BTreeSet<String>,
}

impl FollowedStates {
    pub(super) fn new(
        inputs: &ControllerInputs<'_>,
        records: &BTreeMap<String, NodeRecord>,
        previous: Option<&ClusterState>,
    ) -> Self {
        let mut earlier: Vec<SupersededState> =
            previous.into_iter().flat_map(ClusterState::earlier).cloned().collect();
        earlier.extend(previous.map(SupersededState::of));
        for state in &mut earlier {
            let version = state.version();
            state.retain(|name, incarnation| match inputs.registrations.get(name) {
                // A new run registers a version only once no promise of the previous run counts any more.
                Some(registration) if registration.incarnation != incarnation => {
                    registration.adopted == ClusterVersion::NONE
                }
                Some(registration) => registration.adopted <= version,
                None => records.get(name).is_none_or(|record| record.adopted(incarnation) <= version),
            });
        }
        SupersededState::retain_relevant(&mut earlier);
        let stopped = records.iter().filter(|(_, record)| record.stopped());
        let given_up = inputs.requested_states.iter().filter(|(name, requested)| {
            matches!(requested, RequestedNodeState::Down | RequestedNodeState::Removed)
                && !inputs.registrations.contains_key(*name)
        });
        let ended = stopped.map(|(name, _)| name).chain(given_up.map(|(name, _)| name)).cloned().collect();
        FollowedStates { earlier, ended }
    }

    /// Keeps present nodes in service for now, if too many would be taken out of service together. Returns
    /// the names of the nodes that would still be too many.
    pub(super) fn keep_enough_in_service(
        &self,
        inputs: &ControllerInputs<'_>,
        previous: Option<&ClusterState>,
        proposals: &mut BTreeMap<NodeKey, (String, NodeStateProposal)>,
    ) -> Vec<String> {
        let there: Vec<NodeKey> = proposals
            .iter()
            .filter(|(_, (name, proposal))| inputs.runs(name, proposal.incarnation))
            .map(|(key, _)| *key)
            .collect();
        for key in there.into_iter().rev() {
            if self.left_behind(proposals, &self.ended).is_empty() {
                break;
            }
            let before = previous.and_then(|state| state.nodes().get(&key)).map(|entry| entry.state);
            if let Some((_, proposal)) = proposals.get_mut(&key)
                && let Some(before) = before.filter(|before| before.serves())
                && !proposal.state.serves()
            {
                proposal.state = before;
            }
        }
        self.left_behind(proposals, &self.ended)
    }

    /// True if each node that votes may have confirmed has a vote from a serving node that will keep its
    /// promise.
    pub(super) fn votes_are_kept(&self, proposals: &BTreeMap<NodeKey, (String, NodeStateProposal)>) -> bool {
        // A node that has ended may have voted shortly before.
        self.left_behind(proposals, &BTreeSet::new()).is_empty()
    }

    /// True unless too few nodes could vote to confirm an earlier state to the node with this name.
    pub(super) fn may_be_confirmed(&self, name: &str) -> bool {
        self.earlier.iter().flat_map(SupersededState::names).any(|known| known == name)
    }

    /// Nodes that would be taken out and could continue together, without those that have ended; empty if
    /// they are too few.
    fn left_behind(
        &self,
        proposals: &BTreeMap<NodeKey, (String, NodeStateProposal)>,
        ended: &BTreeSet<String>,
    ) -> Vec<String> {
        let serving = proposals.values().filter(|(_, proposal)| proposal.state.serves());
        let serving: BTreeSet<&str> = serving.map(|(name, _)| &**name).collect();
        let out = |name: &str| !serving.contains(name) && !ended.contains(name);
        let going_on = self.earlier.iter().find(|earlier| earlier.can_continue(out));
        going_on.map_or_else(Vec::new, |earlier| {
            earlier.names().filter(|name| out(name)).map(str::to_owned).collect()
        })
    }

    /// The earlier states that the next state carries.
    pub(super) fn into_earlier(self) -> Vec<SupersededState> {
        self.earlier
    }
}
