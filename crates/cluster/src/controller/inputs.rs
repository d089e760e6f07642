use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NodeAssignments;
use crate::{ClusterConfiguration, ClusterState, protocol};

/// How patient the controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a node whose registration vanished keeps its state: as long as a short interruption may take.
    pub grace: Duration,
    /// The same for nodes that were not there when the controller began to lead.
    pub settling: Duration,
    /// How long a node that is away after that is under maintenance, so that nothing is made anew for a
    /// restart; then it is down.
    pub transition: Duration,
    /// A run that is shorter than this counts as a crash.
    pub stable: Duration,
    /// Crashes in a row that have no consequences.
    pub crashes_max: u32,
    /// How long a node must run after one crash more before it is up again; twice as long after each further
    /// one.
    pub hold: Duration,
    /// The longest such time.
    pub hold_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            grace: Duration::from_secs(1),
            settling: Duration::from_secs(8),
            transition: Duration::from_secs(10),
            stable: Duration::from_secs(300),
            crashes_max: 2,
            hold: Duration::from_secs(10),
            hold_max: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// These, with what the application package says instead.
    pub(super) fn configured(&self, configuration: &ClusterConfiguration) -> Settings {
        Settings {
            transition: configuration.transition.unwrap_or(self.transition),
            stable: configuration.stable.unwrap_or(self.stable),
            crashes_max: configuration.crashes_max.unwrap_or(self.crashes_max),
            ..self.clone()
        }
    }
}

/// What a node says of itself while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// Where other nodes reach it, as `host:port`.
    pub address: String,
    /// Names this run of the process: the microseconds since 1970 at which it started.
    pub incarnation: u64,
    /// The newest state that it acts by, and by which nothing counts any more that it promised by an earlier
    /// one; 0 for none yet.
    #[serde(default)]
    pub adopted: u64,
    /// It is about to end, and takes no more requests.
    #[serde(default)]
    pub stopping: bool,
    /// Its share of the data where it is not listed; above 0.
    #[serde(default = "one")]
    pub capacity: f64,
    /// The keys of the groups that it wants to be in where it is not listed, the outermost first.
    #[serde(default)]
    pub group: Vec<u16>,
    /// Groups of which it has seen that they are too large for their buckets: the low bits of their
    /// locations, and how many bits their buckets should use.
    #[serde(default)]
    pub too_large: BTreeSet<(u32, u8)>,
    /// It has had no space for documents for a while. It stays so until the process ends, so that buckets do
    /// not come and go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_space: bool,
    /// The newest protocol that it speaks, see [`PROTOCOL`](crate::PROTOCOL).
    #[serde(default = "protocol::first")]
    pub protocol: u16,
}

fn one() -> f64 {
    1.0
}

/// What an operator wishes for a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeWish {
    /// It does what it can.
    #[default]
    Up,
    /// It gives away what it has.
    Retired,
    /// It is away for a while, and nothing is made anew for it.
    Maintenance,
    /// It does not serve.
    Down,
    /// It does not belong to the cluster any more.
    Removed,
}

impl NodeWish {
    /// All of them with their names.
    const NAMES: [(NodeWish, &'static str); 5] = [
        (NodeWish::Up, "up"),
        (NodeWish::Retired, "retired"),
        (NodeWish::Maintenance, "maintenance"),
        (NodeWish::Down, "down"),
        (NodeWish::Removed, "removed"),
    ];
}

impl fmt::Display for NodeWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NodeWish::NAMES.iter().find(|(wish, _)| wish == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for NodeWish {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = NodeWish::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(wish, _)| *wish).ok_or_else(|| crate::Error::Wish(text.to_owned()))
    }
}

/// All that a step looks at, beside the previous state.
#[derive(Debug, Clone, Copy)]
pub struct ControllerInputs<'a> {
    /// What the application package wants.
    pub configuration: &'a ClusterConfiguration,
    /// Who is there, by name.
    pub registrations: &'a BTreeMap<String, Registration>,
    /// What those who are there no more said last, where it was heard: so a leader knows of those who left
    /// before it led, or between two of its steps.
    pub departed: &'a BTreeMap<String, Registration>,
    /// What operators wish, by the nodes' names.
    pub wishes: &'a BTreeMap<String, NodeWish>,
    /// The keys of all nodes that were ever known.
    pub assignments: &'a NodeAssignments,
    /// The newest protocol that everyone speaks who is not among the registrations: whoever leads, and nodes
    /// that have no documents.
    pub protocol: u16,
}

impl ControllerInputs<'_> {
    pub(super) fn wish(&self, name: &str) -> NodeWish {
        self.wishes.get(name).copied().unwrap_or_default()
    }

    /// Whether this run of a node is registered.
    pub(super) fn runs(&self, name: &str, incarnation: u64) -> bool {
        self.registrations.get(name).is_some_and(|registration| registration.incarnation == incarnation)
    }

    /// The groups that are to be divided further.
    pub(super) fn too_large(&self) -> impl Iterator<Item = (u32, u8)> {
        self.registrations.values().flat_map(|registration| registration.too_large.iter().copied())
    }

    /// The newest protocol that all of these nodes speak, and everyone else; at least the one that is spoken.
    /// Of one that is away nobody knows what it will come back with.
    pub(super) fn spoken<'n>(&self, nodes: impl Iterator<Item = &'n str>, spoken: u16) -> u16 {
        let speaks = |name| self.registrations.get(name).map_or(spoken, |registration| registration.protocol);
        nodes.map(speaks).chain([self.protocol]).min().unwrap_or(spoken).max(spoken)
    }

    /// Whether a node is listed, there, or known to the cluster state.
    pub(super) fn concerns(&self, name: &str, previous: Option<&ClusterState>) -> bool {
        self.registrations.contains_key(name)
            || self.configuration.nodes.values().any(|node| node.name == name)
            || previous.is_some_and(|state| state.nodes().values().any(|node| node.name == name))
    }
}
