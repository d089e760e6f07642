use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ControllerInputs;
use crate::{ClusterState, Error, NodeHierarchy, NodeKey};

/// Distribution keys of all nodes that were ever known, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeAssignments {
    /// Assignments by node name.
    pub nodes: BTreeMap<String, NodeAssignment>,
}

/// Permanent attributes of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeAssignment {
    /// Its key.
    pub key: NodeKey,
    /// Its share of the data, used if it is not listed.
    pub capacity: f64,
    /// Keys of its groups, used if it is not listed.
    pub group: Vec<u16>,
}

impl NodeAssignments {
    /// Extends the assignments by a key for each listed or present node without one. A listed node gets the
    /// key that it is listed with; the previous holder of that key gets another. A key is not reused for a
    /// second name, as far as is known here.
    pub(super) fn extended(
        &self,
        inputs: &ControllerInputs<'_>,
        previous: Option<&ClusterState>,
    ) -> Result<NodeAssignments, Error> {
        let mut nodes = self.nodes.clone();
        let listed = &inputs.configuration.nodes;
        let mut used: BTreeSet<NodeKey> = listed.keys().copied().collect();
        used.extend(nodes.values().map(|assignment| assignment.key));
        used.extend(previous.into_iter().flat_map(|state| state.nodes().keys().copied()));

        let names: BTreeSet<&str> = listed.values().map(|node| &*node.name).collect();
        nodes.retain(|name, assignment| names.contains(&**name) || !listed.contains_key(&assignment.key));
        for (key, node) in listed {
            let assignment = NodeAssignment { key: *key, capacity: node.capacity, group: Vec::new() };
            nodes.insert(node.name.clone(), assignment);
        }
        // If the assignments were lost, the keys in the state apply.
        for (key, entry) in previous.into_iter().flat_map(ClusterState::nodes) {
            if !listed.contains_key(key) && !nodes.contains_key(&entry.name) {
                let group = group_of(previous, *key);
                nodes.insert(
                    entry.name.clone(),
                    NodeAssignment { key: *key, capacity: entry.capacity, group },
                );
            }
        }
        for (name, registration) in inputs.registrations {
            if names.contains(&**name) {
                continue;
            }
            let capacity = match registration.capacity {
                capacity if capacity > 0.0 && capacity.is_finite() => capacity,
                _ => 1.0,
            };
            if let Some(known) = nodes.get_mut(name) {
                known.capacity = capacity;
                continue;
            }
            let free = used.last().map_or(Some(0), |last| last.0.checked_add(1)).ok_or(Error::Keys)?;
            let asked = &registration.group;
            let leaves = inputs.configuration.layout.leaves();
            let group = match leaves.iter().any(|(path, _)| path == asked) {
                true => asked.clone(),
                false => smallest_group(&inputs.configuration.layout),
            };
            used.insert(NodeKey(free));
            nodes.insert(name.clone(), NodeAssignment { key: NodeKey(free), capacity, group });
        }
        Ok(NodeAssignments { nodes })
    }
}

/// Keys of the groups that a node is in.
fn group_of(state: Option<&ClusterState>, key: NodeKey) -> Vec<u16> {
    let leaves = state.map(|state| state.distribution().layout.leaves()).unwrap_or_default();
    let found = leaves.into_iter().find(|(_, nodes)| nodes.contains(&key));
    found.map_or_else(Vec::new, |(path, _)| path)
}

/// The lowest group with the fewest nodes; the first one on ties.
pub(super) fn smallest_group(layout: &NodeHierarchy) -> Vec<u16> {
    let leaves = layout.leaves();
    let smallest = leaves.into_iter().min_by_key(|(_, nodes)| nodes.len());
    smallest.map_or_else(Vec::new, |(path, _)| path)
}
