//! The cluster controller: computes the next cluster state from the configuration and the present nodes.
//!
//! Each step starts from scratch:
//! 1. Every node that is listed or has registered gets a permanent key ([`NodeAssignments`]).
//! 2. A state is proposed for each node by itself (`node`): from its presence, the length of its absence,
//!    repeated crashes, the state that an operator has requested, and its protocol compared with that of the
//!    others.
//! 3. Nodes that are out of space are retired, so that others take over their data; but not if they are as
//!    many as the others.
//! 4. A group with too few serving nodes is taken out as a whole, unless it is the last one.
//! 5. If too few of the listed nodes serve, everything stays as it was: a fault elsewhere is more likely than
//!    a fault of all these nodes.
//! 6. A node is not taken out of service if it could then continue with others by an earlier state, as a
//!    majority of its nodes that has not received a newer one (`followers`). Present nodes are taken out
//!    later, when others have received a newer state; if the others are absent without notice, everything
//!    stays as it was. An operator who sets them down or removes them confirms that they are not cut off.
//! 7. Groups that nodes have found too large are divided, and stay divided.
//! 8. Once all nodes that are not down speak a newer protocol, it is used from then on.
//! 9. If the result differs from the previous state, it becomes the next one, with the version increased by
//!    one.
//!
//! Several nodes may lead in succession. Knowledge of a leader that is in no state (the number of recent
//! starts of a node) ends with its term; a new leader gives nodes that it has not seen yet some more time.

mod assignments;
mod followers;
mod inputs;
mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use assignments::{NodeAssignment, NodeAssignments};
pub use inputs::{ControllerInputs, NodeRegistration, RequestedNodeState, Settings};
pub use node::removed_reason;

use crate::{
    ClusterConfiguration, ClusterState, ClusterVersion, Error, Incarnation, NodeEntry, NodeHierarchy,
    NodeKey, NodeState, ReplicaDistribution, protocol,
};
use followers::FollowedStates;
use node::{ControllerTurn, NodeRecord, NodeStateProposal};

/// Maximum number of ended leases that can be detected at once: each is a condition of the transaction that
/// publishes the state.
const ENDED_AT_ONCE: usize = 64;

/// Decides on cluster states while it leads.
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    /// Knowledge about each node, by its name.
    records: BTreeMap<String, NodeRecord>,
    /// Time of the first step.
    began: Option<Duration>,
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerStep {
    /// The state to publish; `None` if the previous one is still right.
    pub next: Option<ClusterState>,
    /// Keys of all nodes, to be stored durably before anything that uses them.
    pub assignments: NodeAssignments,
    /// Reasons for which nodes are not up, for people; nodes that are up have no entry.
    pub reasons: BTreeMap<String, String>,
    /// Latest moment of the next step: the time at which the state may change without any event.
    pub wake: Option<Duration>,
}

impl Controller {
    /// Creates a controller that has just become the leader.
    pub fn new(settings: Settings) -> Self {
        Controller { settings, records: BTreeMap::new(), began: None }
    }

    /// Computes the result at the moment `now`, which is counted from any fixed point and never goes back.
    ///
    /// # Errors
    /// The configuration cannot be placed; there are no more keys. The previous state then stays in force.
    pub fn step(
        &mut self,
        now: Duration,
        inputs: &ControllerInputs<'_>,
        previous: Option<&ClusterState>,
    ) -> Result<ControllerStep, Error> {
        let settings = self.settings.configured(inputs.configuration);
        let began = *self.began.get_or_insert(now);
        let spoken = previous.map_or(protocol::first(), ClusterState::protocol);
        let turn = ControllerTurn { now, began, protocol: spoken };
        let assignments = inputs.assignments.extended(inputs, previous)?;
        let mut proposals: BTreeMap<NodeKey, (String, NodeStateProposal)> = BTreeMap::new();
        for (name, assignment) in &assignments.nodes {
            if inputs.requested_state(name) == RequestedNodeState::Removed || !inputs.concerns(name, previous)
            {
                self.records.remove(name);
                continue;
            }
            let entry = previous.and_then(|state| state.nodes().get(&assignment.key));
            let entry = entry.filter(|entry| entry.name == *name);
            let record = self.records.entry(name.clone()).or_insert_with(|| NodeRecord::new(entry, now));
            if let Some(last) = inputs.departed.get(name) {
                record.record_last_report(last);
            }
            let registration = inputs.registrations.get(name);
            let proposal = record.propose(&settings, &turn, registration, entry);
            proposals.insert(
                assignment.key,
                (name.clone(), proposal.with_requested_state(inputs.requested_state(name))),
            );
        }
        let without =
            proposals.iter().filter(|(key, (name, _))| inputs.is_without_documents(name, **key, previous));
        let without: BTreeSet<NodeKey> = without.map(|(key, _)| *key).collect();
        let layout = layout(inputs.configuration, &assignments, &proposals, &without);
        retire_full(&layout, inputs, &mut proposals);
        degrade_groups(&layout, inputs.configuration.group_nodes_min, &mut proposals);
        let followers = FollowedStates::new(inputs, &self.records, previous);
        let cut_off = followers.keep_enough_in_service(inputs, previous, &mut proposals);

        let wake = proposals.values().filter_map(|(_, proposal)| proposal.wake).min();
        let reasons = proposals.values().filter(|(_, proposal)| !proposal.reason.is_empty());
        let mut reasons: BTreeMap<String, String> =
            reasons.map(|(name, proposal)| (name.clone(), proposal.reason.clone())).collect();
        let next = match enough_serve(inputs.configuration, &proposals, &without) && cut_off.is_empty() {
            true => next_state(inputs, &assignments, layout, &proposals, &followers, previous)?,
            false => None,
        };
        for name in cut_off.into_iter().filter(|name| !inputs.registrations.contains_key(name)) {
            let reason = "it is away, as most nodes are, so that the cluster state stays as it is; \
                          if it has ended for good, set it down or remove it";
            reasons.insert(name, reason.to_owned());
        }
        let removed = inputs
            .registrations
            .keys()
            .filter(|name| inputs.requested_state(name) == RequestedNodeState::Removed);
        reasons.extend(removed.map(|name| (name.clone(), removed_reason(name))));
        let next = next.map(|next| next.with_earlier(followers.into_earlier()));
        Ok(ControllerStep { next, assignments, reasons, wake })
    }
}

/// Layout with all nodes in the cluster but those without documents.
fn layout(
    configuration: &ClusterConfiguration,
    assignments: &NodeAssignments,
    proposals: &BTreeMap<NodeKey, (String, NodeStateProposal)>,
    without: &BTreeSet<NodeKey>,
) -> NodeHierarchy {
    let mut layout = configuration.layout.clone();
    layout.retain(&|node| proposals.contains_key(&node) && !without.contains(&node));
    for (key, (name, _)) in proposals {
        if configuration.nodes.contains_key(key) || without.contains(key) {
            continue;
        }
        let group = assignments.nodes.get(name).map_or(&[][..], |assignment| &assignment.group);
        if !layout.insert(group, *key) {
            // Its group no longer exists.
            let smallest = assignments::smallest_group(&layout);
            layout.insert(&smallest, *key);
        }
    }
    layout
}

/// Retires the nodes that are out of space, as long as the others of each group can hold their data.
fn retire_full(
    layout: &NodeHierarchy,
    inputs: &ControllerInputs<'_>,
    proposals: &mut BTreeMap<NodeKey, (String, NodeStateProposal)>,
) {
    let said = |name: &String| inputs.registrations.get(name).or_else(|| inputs.departed.get(name));
    let is_full = |name: &String| said(name).is_some_and(|node| node.out_of_space);
    let others_min = match layout {
        NodeHierarchy::Nodes(_) => usize::from(inputs.configuration.redundancy),
        // Each group has replicas of its own.
        NodeHierarchy::Groups { .. } => 1,
    };
    for (_, nodes) in layout.leaves() {
        let up =
            |key: &&NodeKey| proposals.get(key).is_some_and(|(_, proposal)| proposal.state == NodeState::Up);
        let (full, others): (Vec<NodeKey>, Vec<NodeKey>) = nodes
            .iter()
            .filter(up)
            .partition(|key| proposals.get(key).is_some_and(|(name, _)| is_full(name)));
        if others.len() < full.len().max(others_min) {
            continue;
        }
        for key in full {
            let (_, proposal) = proposals.get_mut(&key).expect("only nodes with a proposal were chosen");
            proposal.state = NodeState::Retired;
            proposal.reason = "its disk is full, so that others take over what it has: make room, or give the cluster another node, \
                                and start it again"
                .to_owned();
        }
    }
}

/// Takes out the groups with too few serving nodes, as long as another one is left.
fn degrade_groups(
    layout: &NodeHierarchy,
    share_min: f64,
    proposals: &mut BTreeMap<NodeKey, (String, NodeStateProposal)>,
) {
    let NodeHierarchy::Groups { .. } = layout else { return };
    let serving = |nodes: &[NodeKey], proposals: &BTreeMap<NodeKey, (String, NodeStateProposal)>| {
        nodes
            .iter()
            .filter(|node| proposals.get(node).is_some_and(|(_, proposal)| proposal.state.serves()))
            .count()
    };
    let mut left = layout.leaves();
    left.retain(|(_, nodes)| serving(nodes, proposals) > 0);
    // The group with the smallest share first.
    let share = |nodes: &[NodeKey], proposals: &_| serving(nodes, proposals) as f64 / nodes.len() as f64;
    left.sort_by(|(_, a), (_, b)| share(a, proposals).total_cmp(&share(b, proposals)));
    let others = left.len().saturating_sub(1);
    for (_, nodes) in left.into_iter().take(others) {
        if share(nodes, proposals) >= share_min {
            return;
        }
        let reason = format!(
            "only {} of {} nodes of its group serve, and {:.0} % must",
            serving(nodes, proposals),
            nodes.len(),
            share_min * 100.0
        );
        for node in nodes {
            if let Some((_, proposal)) = proposals.get_mut(node)
                && proposal.state.serves()
            {
                proposal.state = NodeState::Down;
                proposal.reason.clone_from(&reason);
            }
        }
    }
}

/// True if enough of the listed nodes serve to declare a state; at least one in any case. Those without
/// documents do not count.
fn enough_serve(
    configuration: &ClusterConfiguration,
    proposals: &BTreeMap<NodeKey, (String, NodeStateProposal)>,
    without: &BTreeSet<NodeKey>,
) -> bool {
    let serves = |key: &NodeKey| proposals.get(key).is_some_and(|(_, proposal)| proposal.state.serves());
    let counted = || proposals.keys().filter(|key| !without.contains(key));
    let listed = counted().filter(|key| configuration.nodes.contains_key(key));
    let (listed, serving) =
        listed.fold((0, 0), |(listed, serving), key| (listed + 1, serving + usize::from(serves(key))));
    counted().any(serves) && serving as f64 >= f64::from(listed) * configuration.nodes_min
}

/// State that follows from the proposals, if it differs from the previous one.
fn next_state(
    inputs: &ControllerInputs<'_>,
    assignments: &NodeAssignments,
    layout: NodeHierarchy,
    proposals: &BTreeMap<NodeKey, (String, NodeStateProposal)>,
    followers: &FollowedStates,
    previous: Option<&ClusterState>,
) -> Result<Option<ClusterState>, Error> {
    let votes_are_kept = followers.votes_are_kept(proposals);
    let before = |key: &NodeKey, proposal: &NodeStateProposal| {
        let entry = previous.and_then(|state| state.nodes().get(key));
        entry.filter(|entry| entry.incarnation == proposal.incarnation)
    };
    let nodes = proposals.iter().map(|(key, (name, proposal))| {
        let listed = inputs.configuration.nodes.get(key).map(|node| node.capacity);
        let assigned = assignments.nodes.get(name).map(|assignment| assignment.capacity);
        let entry = NodeEntry {
            name: name.clone(),
            address: proposal.address.clone(),
            state: proposal.state,
            capacity: listed.or(assigned).unwrap_or(1.0),
            incarnation: proposal.incarnation,
            lease_ended: match before(key, proposal) {
                _ if proposal.incarnation == Incarnation::NEVER => true,
                _ if proposal.state.serves() => false,
                // It was present, or may have been confirmed by votes, when it was taken out; others wait as
                // long as this is possible.
                Some(before) if !before.state.serves() => {
                    let may_act = inputs.runs(name, proposal.incarnation) || followers.may_be_confirmed(name);
                    before.lease_ended || !may_act
                }
                _ => votes_are_kept && !inputs.runs(name, proposal.incarnation),
            },
        };
        (*key, entry)
    });
    let mut nodes: BTreeMap<NodeKey, NodeEntry> = nodes.collect();
    // For the others, the end of the lease is left to a later step.
    let newly = nodes.iter_mut().filter(|(key, entry)| {
        let before = previous.and_then(|state| state.nodes().get(key));
        entry.lease_ended && before.is_some_and(|before| before.state.serves())
    });
    newly.skip(ENDED_AT_ONCE).for_each(|(_, entry)| entry.lease_ended = false);
    let distribution = ReplicaDistribution {
        bits: previous.map_or(inputs.configuration.bits, |state| state.distribution().bits),
        redundancy: inputs.configuration.redundancy,
        layout,
    };
    let version = previous.map_or(ClusterVersion::NONE, ClusterState::version).next();
    let spread = previous.map(|state| state.spread().clone()).unwrap_or_default();
    let there = proposals.values().filter(|(_, proposal)| proposal.state != NodeState::Down);
    let spoken = previous.map_or(protocol::first(), ClusterState::protocol);
    let spoken = inputs.common_protocol(there.map(|(name, _)| &**name), spoken);
    let next = ClusterState::new(version, nodes, distribution)?.with_protocol(spoken);
    let next = next.with_divided_groups(spread.with(inputs.too_large()));
    let same = previous.is_some_and(|previous| {
        previous.distribution() == next.distribution()
            && previous.protocol() == next.protocol()
            && previous.spread() == next.spread()
            && previous.nodes().keys().eq(next.nodes().keys())
            && previous.nodes().values().zip(next.nodes().values()).all(|(before, after)| same(before, after))
    });
    Ok((!same).then_some(next))
}

/// True if nothing has changed that others must know.
fn same(before: &NodeEntry, after: &NodeEntry) -> bool {
    *before == NodeEntry { lease_ended: before.lease_ended, ..after.clone() }
}
