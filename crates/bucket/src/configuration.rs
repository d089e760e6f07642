use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, NodeHierarchy, NodeKey};

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

    /// Maximum number of distribution bits.
    pub const BITS_MAX: u8 = 20;

    /// Checks that the layout and the list have the same nodes, and that the replicas can be placed on them.
    ///
    /// # Errors
    /// Duplicate keys, invalid bits, capacities or partitions, or two nodes with one name.
    pub fn check(&self) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        if let Some(node) = self.nodes.values().find(|node| !names.insert(&node.name)) {
            return Err(Error::Name(node.name.clone()));
        }
        Self::check_bits(self.bits)?;
        let capacity = |key: NodeKey| self.nodes.get(&key).map(|node| node.capacity);
        self.layout.topology(self.redundancy, &capacity).map(|_| ())
    }

    /// Checks a number of distribution bits.
    ///
    /// # Errors
    /// The number is not between 1 and [`ClusterConfiguration::BITS_MAX`].
    pub fn check_bits(bits: u8) -> Result<(), Error> {
        if bits == 0 || bits > Self::BITS_MAX { Err(Error::Bits(bits)) } else { Ok(()) }
    }
}
