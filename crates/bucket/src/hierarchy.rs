use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, GroupMembers, NodeGroup, Topology, TopologyNode};

/// Distribution key of a node: permanent, independent of the machine it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeKey(pub u16);

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Nodes, or groups of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeHierarchy {
    /// Replicas are on different nodes of this list.
    Nodes(Vec<NodeKey>),
    /// Replicas are spread over groups.
    Groups {
        /// Number of replicas that each group gets, as in `1|*`.
        partitions: String,
        /// Groups by their distribution keys.
        groups: Vec<(u16, NodeHierarchy)>,
    },
}

impl NodeHierarchy {
    /// The lowest groups, which contain nodes, each with the path of group keys that leads to it.
    pub fn leaves(&self) -> Vec<(Vec<u16>, &[NodeKey])> {
        match self {
            NodeHierarchy::Nodes(nodes) => vec![(Vec::new(), nodes)],
            NodeHierarchy::Groups { groups, .. } => {
                let mut leaves = Vec::new();
                for (key, layout) in groups {
                    for (mut path, nodes) in layout.leaves() {
                        path.insert(0, *key);
                        leaves.push((path, nodes));
                    }
                }
                leaves
            }
        }
    }

    /// Inserts a node into the lowest group at a path of keys; returns `false` if there is no such group.
    pub fn insert(&mut self, path: &[u16], node: NodeKey) -> bool {
        match (self, path) {
            (NodeHierarchy::Nodes(nodes), []) => {
                nodes.push(node);
                true
            }
            (NodeHierarchy::Groups { groups, .. }, [key, path @ ..]) => {
                let group = groups.iter_mut().find(|(group, _)| group == key);
                group.is_some_and(|(_, layout)| layout.insert(path, node))
            }
            _ => false,
        }
    }

    /// Removes the nodes for which `keeps` is false.
    pub fn retain(&mut self, keeps: &impl Fn(NodeKey) -> bool) {
        match self {
            NodeHierarchy::Nodes(nodes) => nodes.retain(|node| keeps(*node)),
            NodeHierarchy::Groups { groups, .. } => {
                groups.iter_mut().for_each(|(_, layout)| layout.retain(keeps))
            }
        }
    }

    /// Topology of these nodes with their capacities.
    ///
    /// # Errors
    /// A node without a capacity, invalid capacities or partitions, duplicate keys.
    pub fn topology(
        &self,
        redundancy: u16,
        capacity: &dyn Fn(NodeKey) -> Option<f64>,
    ) -> Result<Topology, Error> {
        Topology::new(redundancy, self.group(0, capacity)?)
    }

    fn group(&self, key: u16, capacity: &dyn Fn(NodeKey) -> Option<f64>) -> Result<NodeGroup, Error> {
        let members = match self {
            NodeHierarchy::Nodes(keys) => {
                let node = |key: &NodeKey| {
                    let capacity = capacity(*key).ok_or(Error::UnknownNode(*key))?;
                    Ok(TopologyNode { key: key.0, capacity })
                };
                GroupMembers::Nodes(keys.iter().map(node).collect::<Result<_, Error>>()?)
            }
            NodeHierarchy::Groups { partitions, groups } => {
                let partitions = partitions.parse()?;
                let groups = groups.iter().map(|(key, layout)| layout.group(*key, capacity));
                GroupMembers::Groups(partitions, groups.collect::<Result<_, Error>>()?)
            }
        };
        Ok(NodeGroup { key, members })
    }
}
