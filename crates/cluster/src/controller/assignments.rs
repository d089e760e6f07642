use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Inputs;
use crate::{ClusterState, Error, Layout, NodeKey};

/// The distribution keys of all nodes that were ever known, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignments {
    /// The nodes.
    pub nodes: BTreeMap<String, Assignment>,
}

/// What a node keeps for ever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Its key.
    pub key: NodeKey,
    /// Its share of the data, where it is not listed.
    pub capacity: f64,
    /// The keys of the groups that it is in, where it is not listed.
    pub group: Vec<u16>,
}

impl Assignments {
    /// These, with a key for everyone who is listed or there and has none. A listed node gets the key that it is listed with; whoever had
    /// that one gets another. No key is given to two names one after the other, as far as is known here.
    pub(super) fn extended(
        &self,
        inputs: &Inputs<'_>,
        previous: Option<&ClusterState>,
    ) -> Result<Assignments, Error> {
        let mut nodes = self.nodes.clone();
        let listed = &inputs.configuration.nodes;
        let mut used: BTreeSet<NodeKey> = listed.keys().copied().collect();
        used.extend(nodes.values().map(|assignment| assignment.key));
        used.extend(previous.into_iter().flat_map(|state| state.nodes().keys().copied()));

        let names: BTreeSet<&str> = listed.values().map(|node| &*node.name).collect();
        nodes.retain(|name, assignment| names.contains(&**name) || !listed.contains_key(&assignment.key));
        for (key, node) in listed {
            let assignment = Assignment { key: *key, capacity: node.capacity, group: Vec::new() };
            nodes.insert(node.name.clone(), assignment);
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
            nodes.insert(name.clone(), Assignment { key: NodeKey(free), capacity, group });
        }
        Ok(Assignments { nodes })
    }
}

/// The lowest group with the fewest nodes, the first of several.
pub(super) fn smallest_group(layout: &Layout) -> Vec<u16> {
    let leaves = layout.leaves();
    let smallest = leaves.into_iter().min_by_key(|(_, nodes)| nodes.len());
    smallest.map_or_else(Vec::new, |(path, _)| path)
}
