//! The nodes of a cluster as the planner of copies takes them.

use std::collections::BTreeMap;

use millrace_cluster::NodeKey;
use millrace_index_placement::{IndexNode, PlacementTable};

use super::reports::NodeReports;
use crate::CoordinationSnapshot;

/// Nodes of the cluster state, with their role and their reports.
pub(super) fn nodes(
    snapshot: &CoordinationSnapshot,
    reports: &BTreeMap<String, NodeReports>,
    table: Option<&PlacementTable>,
) -> Vec<IndexNode> {
    let Some(state) = &snapshot.state else { return Vec::new() };
    let leaves = state.distribution().layout.leaves();
    let group_of = |key: NodeKey, name: &str| {
        let leaf = leaves.iter().find(|(_, nodes)| nodes.contains(&key)).map(|(path, _)| path.clone());
        // A node with copies alone is in no group of replicas, but may be in the room of one.
        let assigned = || snapshot.assignments.nodes.get(name).map(|assigned| assigned.group.clone());
        leaf.or_else(assigned).unwrap_or_default()
    };
    let has_copies = |key: NodeKey| table.is_some_and(|table| table.of_node(key).next().is_some());
    let node = |(key, entry): (&NodeKey, &millrace_cluster::NodeEntry)| IndexNode {
        key: *key,
        name: entry.name.as_str().into(),
        state: entry.state,
        // The role of a node that is silent for a moment is the one that it had.
        has_role: snapshot.members.get(&entry.name).map_or_else(|| has_copies(*key), |member| member.indexes),
        group: group_of(*key, &entry.name),
        reports: reports.get(&entry.name).map(|reports| reports.copies.of_node()).unwrap_or_default(),
    };
    state.nodes().iter().map(node).collect()
}
