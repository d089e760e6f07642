use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ClusterState, Error, NodeEntry, NodeHierarchy, NodeKey, NodeState, ReplicaDistribution};

/// Configuration of the cluster in the application package, independent of the nodes that are present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterConfiguration {
    /// Number of replicas of each bucket.
    pub redundancy: u16,
    /// Initial distribution bits of a cluster; they never change afterwards.
    pub bits: u8,
    /// The listed nodes, by their keys; others may join.
    pub nodes: BTreeMap<NodeKey, ConfiguredNode>,
    /// Layout of the listed nodes: the groups that they are in.
    pub layout: NodeHierarchy,
    /// Minimum share of a group's nodes that must serve, 0 to 1; below it, no node of the group serves. Not
    /// used without groups.
    pub group_nodes_min: f64,
    /// Minimum share of the listed nodes that must serve, 0 to 1; below it, the state stays as it is.
    pub nodes_min: f64,
    /// Time that an absent node is under maintenance before it is down, if the package sets it.
    pub transition: Option<Duration>,
    /// Time that a node must run to count as stable, if the package sets it; a node that ends earlier has
    /// crashed.
    pub stable: Option<Duration>,
    /// Number of successive crashes without consequences, if the package sets it.
    pub crashes_max: Option<u32>,
}

/// A listed node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfiguredNode {
    /// Name that it registers by.
    pub name: String,
    /// Its share of the data, relative to other nodes; above 0.
    pub capacity: f64,
    /// Names of its groups, the outermost first, separated by dots; empty without groups.
    pub group: String,
}

impl Default for ClusterConfiguration {
    /// One replica, on any nodes that join.
    fn default() -> Self {
        ClusterConfiguration {
            redundancy: 1,
            bits: Self::BITS,
            nodes: BTreeMap::new(),
            layout: NodeHierarchy::Nodes(Vec::new()),
            group_nodes_min: 0.0,
            nodes_min: 0.0,
            transition: None,
            stable: None,
            crashes_max: None,
        }
    }
}

impl ClusterConfiguration {
    /// Default number of distribution bits: 1,024 buckets.
    pub const BITS: u8 = 10;

    /// Checks that the layout and the list have the same nodes, and that the replicas can be placed on them.
    ///
    /// # Errors
    /// Duplicate keys, invalid capacities or partitions, or two nodes with one name.
    pub fn check(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        if let Some(node) = self.nodes.values().find(|node| !names.insert(&node.name)) {
            return Err(Error::Name(node.name.clone()));
        }
        let entry = |node: &ConfiguredNode| NodeEntry {
            name: node.name.clone(),
            address: String::new(),
            state: NodeState::Up,
            capacity: node.capacity,
            incarnation: 0,
            lease_ended: false,
        };
        let nodes = self.nodes.iter().map(|(key, node)| (*key, entry(node))).collect();
        let distribution =
            ReplicaDistribution { bits: self.bits, redundancy: self.redundancy, layout: self.layout.clone() };
        ClusterState::new(0, nodes, distribution).map(|_| ())
    }
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
    pub(crate) fn insert(&mut self, path: &[u16], node: NodeKey) -> bool {
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
    pub(crate) fn retain(&mut self, keeps: &impl Fn(NodeKey) -> bool) {
        match self {
            NodeHierarchy::Nodes(nodes) => nodes.retain(|node| keeps(*node)),
            NodeHierarchy::Groups { groups, .. } => {
                groups.iter_mut().for_each(|(_, layout)| layout.retain(keeps))
            }
        }
    }
}
