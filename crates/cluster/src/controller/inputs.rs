use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NodeAssignments;
use crate::{
    ClusterConfiguration, ClusterState, ClusterVersion, DividedGroup, Incarnation, NodeKey, protocol,
};

/// Timeouts of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Time that a node keeps its state after its registration vanished: the length of a short interruption.
    pub grace: Duration,
    /// The same for nodes that were not present when the controller began to lead.
    pub settling: Duration,
    /// Time after that for which an absent node is under maintenance, so that a restart causes no
    /// replication; then it is down.
    pub transition: Duration,
    /// Minimum length of a run; a shorter one counts as a crash.
    pub stable: Duration,
    /// Number of successive crashes without consequences.
    pub crashes_max: u32,
    /// Time that a node must run after one more crash before it is up again; doubled after each further one.
    pub hold: Duration,
    /// Maximum of that time.
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
    /// These settings, with the values of the application package where it has any.
    pub(super) fn configured(&self, configuration: &ClusterConfiguration) -> Settings {
        Settings {
            transition: configuration.transition.unwrap_or(self.transition),
            stable: configuration.stable.unwrap_or(self.stable),
            crashes_max: configuration.crashes_max.unwrap_or(self.crashes_max),
            ..self.clone()
        }
    }
}

/// Report of a running node about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRegistration {
    /// Address for other nodes, as `host:port`.
    pub address: String,
    /// Identifies this run of the process: its start in microseconds since 1970.
    pub incarnation: Incarnation,
    /// The newest state that it acts by, and which voids all promises that it made by earlier states; 0 for
    /// none yet.
    #[serde(default)]
    pub adopted: ClusterVersion,
    /// True if it is about to end, and takes no more requests.
    #[serde(default)]
    pub stopping: bool,
    /// Its share of the data if it is not listed; above 0.
    #[serde(default = "one")]
    pub capacity: f64,
    /// Keys of the groups that it asks to be in if it is not listed, the outermost first.
    #[serde(default)]
    pub group: Vec<u16>,
    /// Groups that it found too large for their buckets, with the bits that these should use.
    #[serde(default)]
    pub too_large: BTreeSet<DividedGroup>,
    /// True if it has had no space for documents for a while. It stays true until the process ends, so that
    /// buckets do not come and go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_space: bool,
    /// The newest protocol that it speaks, see [`PROTOCOL`](crate::PROTOCOL).
    #[serde(default = "protocol::first")]
    pub protocol: u16,
}

fn one() -> f64 {
    1.0
}

/// State of a node requested by an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestedNodeState {
    /// The node serves if it can.
    #[default]
    Up,
    /// The node gives its data away.
    Retired,
    /// The node is absent for a while, and its data is not replicated elsewhere.
    Maintenance,
    /// The node does not serve.
    Down,
    /// The node is no longer in the cluster.
    Removed,
}

impl RequestedNodeState {
    /// All states with their names.
    const NAMES: [(RequestedNodeState, &'static str); 5] = [
        (RequestedNodeState::Up, "up"),
        (RequestedNodeState::Retired, "retired"),
        (RequestedNodeState::Maintenance, "maintenance"),
        (RequestedNodeState::Down, "down"),
        (RequestedNodeState::Removed, "removed"),
    ];
}

impl fmt::Display for RequestedNodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            RequestedNodeState::NAMES.iter().find(|(state, _)| state == self).map_or("", |(_, name)| name),
        )
    }
}

impl FromStr for RequestedNodeState {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = RequestedNodeState::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(state, _)| *state).ok_or_else(|| crate::Error::RequestedState(text.to_owned()))
    }
}

/// Inputs of a step, beside the previous state.
#[derive(Debug, Clone, Copy)]
pub struct ControllerInputs<'a> {
    /// Configuration in the application package.
    pub configuration: &'a ClusterConfiguration,
    /// Nodes that are present, by name.
    pub registrations: &'a BTreeMap<String, NodeRegistration>,
    /// Those of them that have copies of indexes alone: they get no place in the layout.
    pub without_documents: &'a BTreeSet<String>,
    /// Last reports of nodes that are no longer present, as far as received: so a leader knows of nodes that
    /// left before it led, or between two of its steps.
    pub departed: &'a BTreeMap<String, NodeRegistration>,
    /// States requested by operators, by the names of nodes.
    pub requested_states: &'a BTreeMap<String, RequestedNodeState>,
    /// Keys of all nodes that were ever known.
    pub assignments: &'a NodeAssignments,
    /// The newest protocol spoken by all processes that are not among the registrations: those that only lead
    /// or take requests.
    pub protocol: u16,
}

impl ControllerInputs<'_> {
    pub(super) fn requested_state(&self, name: &str) -> RequestedNodeState {
        self.requested_states.get(name).copied().unwrap_or_default()
    }

    /// True if this run of a node is registered.
    pub(super) fn runs(&self, name: &str, incarnation: Incarnation) -> bool {
        self.registrations.get(name).is_some_and(|registration| registration.incarnation == incarnation)
    }

    /// True if a node has copies of indexes alone: as it has registered, or as the previous state has it
    /// while it is away.
    pub(super) fn is_without_documents(
        &self,
        name: &str,
        key: NodeKey,
        previous: Option<&ClusterState>,
    ) -> bool {
        match self.registrations.contains_key(name) {
            true => self.without_documents.contains(name),
            false => previous.is_some_and(|state| {
                let is_known = state.nodes().get(&key).is_some_and(|entry| entry.name == name);
                is_known && !state.takes_buckets(key)
            }),
        }
    }

    /// Groups to be divided further.
    pub(super) fn too_large(&self) -> impl Iterator<Item = DividedGroup> {
        self.registrations.values().flat_map(|registration| registration.too_large.iter().copied())
    }

    /// The newest protocol that all these nodes and all other processes speak; at least the current one. An
    /// absent node counts as speaking the current one, because its version after its return is unknown.
    pub(super) fn common_protocol<'n>(&self, nodes: impl Iterator<Item = &'n str>, spoken: u16) -> u16 {
        let speaks = |name| self.registrations.get(name).map_or(spoken, |registration| registration.protocol);
        nodes.map(speaks).chain([self.protocol]).min().unwrap_or(spoken).max(spoken)
    }

    /// True if a node is listed, present, or known to the cluster state.
    pub(super) fn concerns(&self, name: &str, previous: Option<&ClusterState>) -> bool {
        self.registrations.contains_key(name)
            || self.configuration.nodes.values().any(|node| node.name == name)
            || previous.is_some_and(|state| state.nodes().values().any(|node| node.name == name))
    }
}
