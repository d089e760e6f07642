use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::{Error, IdealState};

/// A node that holds data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopologyNode {
    /// Distribution key, permanently assigned to this node.
    pub key: u16,
    /// Share of the data in proportion to other nodes; above 0.
    pub capacity: f64,
}

/// Nodes that fail together (a rack, a zone), or groups of them.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeGroup {
    /// Distribution key, unique among its sibling groups.
    pub key: u16,
    /// Members of the group.
    pub members: GroupMembers,
}

/// Members of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupMembers {
    /// Nodes; replicas are on different nodes.
    Nodes(Vec<TopologyNode>),
    /// Groups, and the distribution of replicas over them.
    Groups(GroupDistribution, Vec<NodeGroup>),
}

impl NodeGroup {
    /// Total capacity of its nodes, available or not. A failure thus moves data within its group, not between
    /// groups.
    pub fn capacity(&self) -> f64 {
        match &self.members {
            GroupMembers::Nodes(nodes) => nodes.iter().map(|node| node.capacity).sum(),
            GroupMembers::Groups(_, groups) => groups.iter().map(NodeGroup::capacity).sum(),
        }
    }

    fn check(&self, redundancy: u16, nodes: &mut HashSet<u16>) -> Result<(), Error> {
        match &self.members {
            GroupMembers::Nodes(members) => members.iter().try_for_each(|node| {
                if !nodes.insert(node.key) {
                    return Err(Error::Key { key: node.key, what: "nodes" });
                }
                if node.capacity > 0.0 && node.capacity.is_finite() {
                    return Ok(());
                }
                Err(Error::Capacity { key: node.key, capacity: node.capacity })
            }),
            GroupMembers::Groups(distribution, groups) => {
                let placed = distribution.fixed.iter().sum();
                if placed > redundancy {
                    let distribution = distribution.to_string();
                    return Err(Error::Redundancy { distribution, placed, redundancy });
                }
                let mut keys = HashSet::new();
                let shares = distribution.shares(redundancy);
                let largest = shares.first().copied().unwrap_or(0);
                groups.iter().try_for_each(|group| {
                    if !keys.insert(group.key) {
                        return Err(Error::Key { key: group.key, what: "groups" });
                    }
                    group.check(largest, nodes)
                })
            }
        }
    }
}

/// Distribution of replicas over groups: a number for each group with a fixed count, `*` for an equal share
/// of the rest. `1|*` means two groups, of which one has one replica and the other all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDistribution {
    fixed: Vec<u16>,
    rest: u16,
}

impl GroupDistribution {
    /// Number of replicas out of `redundancy` for each group, most preferred group first; at most as many
    /// groups as replicas.
    pub(crate) fn shares(&self, redundancy: u16) -> Vec<u16> {
        let rest = redundancy.saturating_sub(self.fixed.iter().sum());
        let parts = (0..self.rest).map(|part| rest / self.rest + u16::from(part < rest % self.rest));
        let mut shares: Vec<u16> =
            self.fixed.iter().copied().chain(parts).filter(|share| *share > 0).collect();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        shares
    }
}

impl FromStr for GroupDistribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || Error::Distribution { text: text.to_owned() };
        let mut distribution = GroupDistribution { fixed: Vec::new(), rest: 0 };
        for part in text.split('|').map(str::trim) {
            match part {
                "*" => distribution.rest = distribution.rest.checked_add(1).ok_or_else(fail)?,
                _ if distribution.rest > 0 => return Err(fail()),
                number => {
                    let number = number.parse().ok().filter(|number| *number > 0 && *number < 1000);
                    distribution.fixed.push(number.ok_or_else(fail)?);
                }
            }
        }
        // A group without a fixed number must exist to take the rest.
        if distribution.rest == 0 || distribution.fixed.len() > 1000 { Err(fail()) } else { Ok(distribution) }
    }
}

impl fmt::Display for GroupDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = self.fixed.iter().map(u16::to_string);
        let parts: Vec<String> = fixed.chain((0..self.rest).map(|_| "*".to_owned())).collect();
        f.write_str(&parts.join("|"))
    }
}

/// Nodes and groups of a cluster, and the number of replicas per bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    redundancy: u16,
    root: NodeGroup,
}

impl Topology {
    /// Validates a tree of groups.
    ///
    /// # Errors
    /// Duplicate keys, capacities that are not positive, distributions that place too many replicas.
    pub fn new(redundancy: u16, root: NodeGroup) -> Result<Self, Error> {
        root.check(redundancy, &mut HashSet::new())?;
        Ok(Topology { redundancy, root })
    }

    /// Number of replicas per bucket if there are enough nodes.
    pub fn redundancy(&self) -> u16 {
        self.redundancy
    }

    /// The ideal state for the nodes for which `available` returns true.
    pub fn ideal(&self, available: impl Fn(u16) -> bool) -> IdealState {
        IdealState::new(self.redundancy, &self.root, &available)
    }
}
