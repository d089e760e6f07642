use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::{Error, IdealState};

/// A node that holds data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// Its distribution key: one node's for ever.
    pub key: u16,
    /// Its share of the data, in proportion to that of other nodes; above 0.
    pub capacity: f64,
}

/// Nodes that fail together (a rack, a zone), or groups of such.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its distribution key, its own among the groups beside it.
    pub key: u16,
    /// What is in it.
    pub members: Members,
}

/// What is in a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Members {
    /// Nodes; replicas are on different ones.
    Nodes(Vec<Node>),
    /// Groups, and how replicas spread over them.
    Groups(Distribution, Vec<Group>),
}

impl Group {
    /// The capacity of all nodes in it, whether they are available or not: a failure moves data inside the group that
    /// it happened in, not between groups.
    pub fn capacity(&self) -> f64 {
        match &self.members {
            Members::Nodes(nodes) => nodes.iter().map(|node| node.capacity).sum(),
            Members::Groups(_, groups) => groups.iter().map(Group::capacity).sum(),
        }
    }

    fn check(&self, redundancy: u16, nodes: &mut HashSet<u16>) -> Result<(), Error> {
        match &self.members {
            Members::Nodes(members) => members.iter().try_for_each(|node| {
                if !nodes.insert(node.key) {
                    return Err(Error::Key { key: node.key, what: "nodes" });
                }
                if node.capacity > 0.0 && node.capacity.is_finite() {
                    return Ok(());
                }
                Err(Error::Capacity { key: node.key, capacity: node.capacity })
            }),
            Members::Groups(distribution, groups) => {
                let placed = distribution.fixed.iter().sum();
                if placed > redundancy {
                    let distribution = distribution.to_string();
                    return Err(Error::Redundancy { distribution, placed, redundancy });
                }
                let mut keys = HashSet::new();
                let shares = distribution.shares(redundancy);
                let most = shares.first().copied().unwrap_or(0);
                groups.iter().try_for_each(|group| {
                    if !keys.insert(group.key) {
                        return Err(Error::Key { key: group.key, what: "groups" });
                    }
                    group.check(most, nodes)
                })
            }
        }
    }
}

/// How replicas spread over groups: a number for each group that gets so many, `*` for an equal part of the rest. `1|*` is two
/// groups, of which one has one replica and the other all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    fixed: Vec<u16>,
    rest: u16,
}

impl Distribution {
    /// How many replicas of `redundancy` each group gets, the most preferred group first; no more groups than replicas.
    pub(crate) fn shares(&self, redundancy: u16) -> Vec<u16> {
        let rest = redundancy.saturating_sub(self.fixed.iter().sum());
        let parts = (0..self.rest).map(|part| rest / self.rest + u16::from(part < rest % self.rest));
        let mut shares: Vec<u16> =
            self.fixed.iter().copied().chain(parts).filter(|share| *share > 0).collect();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        shares
    }
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || Error::Distribution { text: text.to_owned() };
        let mut distribution = Distribution { fixed: Vec::new(), rest: 0 };
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
        // Somebody has to take what the numbers leave.
        if distribution.rest == 0 || distribution.fixed.len() > 1000 { Err(fail()) } else { Ok(distribution) }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fixed = self.fixed.iter().map(u16::to_string);
        let parts: Vec<String> = fixed.chain((0..self.rest).map(|_| "*".to_owned())).collect();
        f.write_str(&parts.join("|"))
    }
}

/// The nodes and groups of a cluster, and how many replicas a bucket has.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    redundancy: u16,
    root: Group,
}

impl Topology {
    /// Checks a tree of groups.
    ///
    /// # Errors
    /// Keys that are used twice, capacities that are none, distributions that place too many replicas.
    pub fn new(redundancy: u16, root: Group) -> Result<Self, Error> {
        root.check(redundancy, &mut HashSet::new())?;
        Ok(Topology { redundancy, root })
    }

    /// How many replicas a bucket has where there are enough nodes.
    pub fn redundancy(&self) -> u16 {
        self.redundancy
    }

    /// The ideal state while the nodes for which `available` holds can have data.
    pub fn ideal(&self, available: impl Fn(u16) -> bool) -> IdealState {
        IdealState::new(self.redundancy, &self.root, &available)
    }
}
