use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ClusterState, Distribution, Error, Layout, NodeEntry, NodeKey, NodeState};

/// The cluster as the application package wants it, whoever is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Replicas of each bucket.
    pub redundancy: u16,
    /// The distribution bits that a cluster begins with; they never change after that.
    pub bits: u8,
    /// The nodes that are listed, by their keys; others may join.
    pub nodes: BTreeMap<NodeKey, ConfiguredNode>,
    /// The listed nodes, and the groups that they are in.
    pub layout: Layout,
    /// The share of a group's nodes that must serve, or else none of the group does: 0 to 1. It says nothing where there are no groups.
    pub group_nodes_min: f64,
    /// The share of the listed nodes that must serve, or else the state stays as it is: 0 to 1.
    pub nodes_min: f64,
    /// How long a node that is away is under maintenance before it is down, where the package says it.
    pub transition: Option<Duration>,
    /// How long a node must run, or else it has crashed, where the package says it.
    pub stable: Option<Duration>,
    /// Crashes in a row that have no consequences, where the package says it.
    pub crashes_max: Option<u32>,
}

/// A node as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfiguredNode {
    /// The name that it registers by.
    pub name: String,
    /// Its share of the data, in proportion to that of other nodes; above 0.
    pub capacity: f64,
    /// The names of the groups that it is in, the outermost first, with dots between; empty where there are none.
    pub group: String,
}

impl Default for Configuration {
    /// One replica, on any nodes that come.
    fn default() -> Self {
        Configuration {
            redundancy: 1,
            bits: Self::BITS,
            nodes: BTreeMap::new(),
            layout: Layout::Nodes(Vec::new()),
            group_nodes_min: 0.0,
            nodes_min: 0.0,
            transition: None,
            stable: None,
            crashes_max: None,
        }
    }
}

impl Configuration {
    /// The distribution bits where nobody says how many: 1,024 buckets.
    pub const BITS: u8 = 10;

    /// Checks that the layout and the list have the same nodes, and that the replicas can be placed on them.
    ///
    /// # Errors
    /// Keys that are used twice, capacities or partitions that are none, two nodes of one name.
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
            Distribution { bits: self.bits, redundancy: self.redundancy, layout: self.layout.clone() };
        ClusterState::new(0, nodes, distribution).map(|_| ())
    }
}

impl Layout {
    /// The lowest groups, those that nodes are in, each with the keys of the groups that lead to it.
    pub fn leaves(&self) -> Vec<(Vec<u16>, &[NodeKey])> {
        match self {
            Layout::Nodes(nodes) => vec![(Vec::new(), nodes)],
            Layout::Groups { groups, .. } => {
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

    /// Puts a node into the group that a path of keys leads to; `false` where there is no such lowest group.
    pub(crate) fn insert(&mut self, path: &[u16], node: NodeKey) -> bool {
        match (self, path) {
            (Layout::Nodes(nodes), []) => {
                nodes.push(node);
                true
            }
            (Layout::Groups { groups, .. }, [key, path @ ..]) => {
                let group = groups.iter_mut().find(|(group, _)| group == key);
                group.is_some_and(|(_, layout)| layout.insert(path, node))
            }
            _ => false,
        }
    }

    /// Takes out the nodes for which `keeps` does not hold.
    pub(crate) fn retain(&mut self, keeps: &impl Fn(NodeKey) -> bool) {
        match self {
            Layout::Nodes(nodes) => nodes.retain(|node| keeps(*node)),
            Layout::Groups { groups, .. } => groups.iter_mut().for_each(|(_, layout)| layout.retain(keeps)),
        }
    }
}
