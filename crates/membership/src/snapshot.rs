use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_cluster::controller::{NodeAssignments, NodeRegistration, RequestedNodeState};
use millrace_cluster::{
    ClusterConfiguration, ClusterState, ClusterVersion, Incarnation, NodeEntry, NodeHierarchy, NodeKey,
    NodeState, PROTOCOL, ReplicaDistribution,
};
use millrace_coordination::{KeyChange, KeyEntry, StoreRevision};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::keys::{ClusterKeys, FollowedSubject};
use crate::placement::{PlacementEntry, PlacementRequestEntry};
use crate::{NodeNote, NodeRole, PublishedPackage};

/// A running node, as it registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredNode {
    /// Part of the record that the controller reads.
    #[serde(flatten)]
    pub registration: NodeRegistration,
    /// Its roles.
    pub roles: Vec<NodeRole>,
    /// URL at which it serves documents and queries.
    pub url: String,
    /// Address of its port of Elasticsearch's interfaces; `None`: it has none, or is of a version that does
    /// not announce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<String>,
    /// Identifies its data directory, to tell apart two nodes with the same name.
    pub home: u64,
    /// Generation of the application that it has activated; 0 for none.
    pub generation: u64,
    /// True if it has the role `index`. Programs that do not know the role could not read it in the list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub indexes: bool,
}

/// State of a node that an operator has requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedStateRecord {
    /// The state.
    #[serde(rename = "wish")]
    pub state: RequestedNodeState,
    /// Reason, in the operator's words.
    pub reason: String,
}

/// The contents of coordination about the cluster, as known at one moment.
#[derive(Debug, Clone, Default)]
pub struct CoordinationSnapshot {
    /// Running nodes, by name.
    pub members: BTreeMap<String, RegisteredNode>,
    /// States requested by operators, by the names of nodes.
    pub requested_states: BTreeMap<String, RequestedStateRecord>,
    /// Other values that nodes share, by name.
    pub notes: BTreeMap<String, NodeNote>,
    /// Configuration of the cluster in the application; `None` before there is one.
    pub configuration: Option<Arc<ClusterConfiguration>>,
    /// The application that should be active.
    pub package: Option<PublishedPackage>,
    /// Keys of all nodes that were ever known.
    pub assignments: NodeAssignments,
    /// Reasons for which nodes are not up, by their names.
    pub reasons: BTreeMap<String, String>,
    /// Name of the leader.
    pub leader: Option<String>,
    /// The cluster state.
    pub state: Option<Arc<ClusterState>>,
    /// Table of copies of indexes.
    pub(crate) placement: PlacementEntry,
    /// Requests to the leader about copies of indexes, by their ids.
    pub(crate) placement_requests: BTreeMap<String, PlacementRequestEntry>,
    /// Keys whose newest values cannot be read, because newer programs have written them. The known values of
    /// these are older.
    pub(crate) unread: BTreeSet<String>,
    /// Last reports of nodes that no longer run, as far as this node has received them.
    pub(crate) departed: BTreeMap<String, NodeRegistration>,
    pub(crate) state_changed: Option<StoreRevision>,
    pub(crate) assignments_changed: Option<StoreRevision>,
    pub(crate) revision: StoreRevision,
    /// History of coordination that the revisions belong to.
    pub(crate) history: u64,
}

impl CoordinationSnapshot {
    /// Snapshot for a node that is in no cluster: it runs, and has all data. Its key is 0, its name empty.
    pub(crate) fn alone(url: &str) -> Self {
        let (key, name) = (NodeKey(0), String::new());
        let entry = NodeEntry {
            name: name.clone(),
            address: String::new(),
            state: NodeState::Up,
            capacity: 1.0,
            incarnation: Incarnation::NEVER,
            lease_ended: false,
        };
        let distribution =
            ReplicaDistribution { bits: 1, redundancy: 1, layout: NodeHierarchy::Nodes(vec![key]) };
        let state = ClusterState::new(ClusterVersion::NONE, BTreeMap::from([(key, entry)]), distribution)
            .expect("one node that is in the list is a topology");
        let registration = NodeRegistration {
            address: String::new(),
            incarnation: Incarnation::NEVER,
            adopted: ClusterVersion::NONE,
            stopping: false,
            capacity: 1.0,
            group: Vec::new(),
            too_large: BTreeSet::new(),
            out_of_space: false,
            protocol: PROTOCOL,
        };
        let member = RegisteredNode {
            registration,
            roles: Vec::new(),
            url: url.to_owned(),
            elastic: None,
            home: 0,
            generation: 0,
            indexes: false,
        };
        CoordinationSnapshot {
            members: BTreeMap::from([(name, member)]),
            state: Some(Arc::new(state)),
            ..CoordinationSnapshot::default()
        }
    }

    /// Name of a node that the cluster state or the configuration contains, or that runs although it was
    /// removed.
    pub fn name_of(&self, key: NodeKey) -> Option<&str> {
        let state = self.state.as_ref().and_then(|state| state.nodes().get(&key)).map(|node| &*node.name);
        let configured = || self.configuration.as_ref()?.nodes.get(&key).map(|node| &*node.name);
        let running = || self.running().find(|(known, _)| *known == key).map(|(_, name)| name);
        state.or_else(configured).or_else(running)
    }

    /// Keys of all nodes that the cluster state or the configuration contains, or that run although they were
    /// removed.
    pub fn keys(&self) -> BTreeSet<NodeKey> {
        let known = self.state.iter().flat_map(|state| state.nodes().keys().copied());
        let listed = self.configuration.iter().flat_map(|listed| listed.nodes.keys().copied());
        known.chain(listed).chain(self.running().map(|(key, _)| key)).collect()
    }

    /// Running nodes that have keys.
    fn running(&self) -> impl Iterator<Item = (NodeKey, &str)> {
        let assigned = self.assignments.nodes.iter();
        let running = assigned.filter(|(name, _)| self.members.contains_key(*name));
        running.map(|(name, assignment)| (assignment.key, name.as_str()))
    }

    /// Names of all nodes that run, are listed, or are in the cluster state.
    pub fn names(&self) -> BTreeSet<&str> {
        let listed =
            self.configuration.iter().flat_map(|listed| listed.nodes.values()).map(|node| &*node.name);
        let known = self.state.iter().flat_map(|state| state.nodes().values()).map(|node| &*node.name);
        self.members.keys().map(String::as_str).chain(listed).chain(known).collect()
    }

    /// Applies a change. A value that cannot be read was written by a newer program, and leaves the known one
    /// unchanged.
    pub(crate) fn apply(&mut self, keys: &ClusterKeys, change: &KeyChange) {
        let (key, entry) = match change {
            KeyChange::Put(entry) => (&entry.key, Some(entry)),
            KeyChange::Deleted { key, .. } => (key, None),
        };
        let Some(subject) = keys.subject(key) else { return };
        self.unread.remove(key);
        match (subject, entry) {
            (FollowedSubject::Member(name), Some(entry)) => {
                self.departed.remove(name);
                let member = self.read(entry).map(|member| (name.to_owned(), member));
                self.members.extend(member);
            }
            (FollowedSubject::Member(name), None) => {
                let left = self.members.remove(name);
                self.departed.extend(left.map(|member| (name.to_owned(), member.registration)));
            }
            (FollowedSubject::RequestedState(name), Some(entry)) => {
                let requested = self.read(entry).map(|record| (name.to_owned(), record));
                self.requested_states.extend(requested);
            }
            (FollowedSubject::RequestedState(name), None) => drop(self.requested_states.remove(name)),
            (FollowedSubject::Note(name), Some(entry)) => {
                let note = NodeNote { value: Arc::clone(&entry.value), changed: entry.changed.0 };
                self.notes.insert(name.to_owned(), note);
            }
            (FollowedSubject::Note(name), None) => drop(self.notes.remove(name)),
            (FollowedSubject::Placement, entry) => self.placement.follow(entry),
            (FollowedSubject::PlacementRequest(id), Some(entry)) => {
                self.placement_requests.insert(id.to_owned(), PlacementRequestEntry::read(entry));
            }
            (FollowedSubject::PlacementRequest(id), None) => drop(self.placement_requests.remove(id)),
            (FollowedSubject::Configuration, Some(entry)) => {
                self.configuration = self.read(entry).map(Arc::new).or(self.configuration.take());
            }
            (FollowedSubject::Configuration, None) => self.configuration = None,
            (FollowedSubject::Package, Some(entry)) => {
                self.package = self.read(entry).or(self.package.take())
            }
            (FollowedSubject::Package, None) => self.package = None,
            (FollowedSubject::Assignments, entry) => {
                self.assignments_changed = entry.map(|entry| entry.changed);
                if let Some(assignments) = entry.and_then(|entry| self.read(entry)) {
                    self.assignments = assignments;
                }
            }
            // No decision depends on them, and each leader writes its own.
            (FollowedSubject::Reasons, entry) => {
                let reasons = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok());
                self.reasons = reasons.unwrap_or_default();
            }
            (FollowedSubject::Leader, entry) => {
                self.leader = entry.map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
            }
            (FollowedSubject::State, entry) => {
                self.state_changed = entry.map(|entry| entry.changed);
                match entry.map(read_state) {
                    Some(Ok(state)) => self.state = Some(state),
                    Some(Err(error)) => {
                        tracing::error!(%error, "this node takes no part: it cannot read the cluster state");
                        self.unread.insert(key.clone());
                    }
                    None => {}
                }
            }
        }
    }

    fn read<T: DeserializeOwned>(&mut self, entry: &KeyEntry) -> Option<T> {
        match serde_json::from_slice(&entry.value) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::error!(%error, key = entry.key, "an entry of coordination cannot be read; is this an older program?");
                self.unread.insert(entry.key.clone());
                None
            }
        }
    }
}

/// Reads the cluster state under a key.
pub(crate) fn read_state(entry: &KeyEntry) -> Result<Arc<ClusterState>, millrace_cluster::Error> {
    ClusterState::from_json(&entry.value).map(Arc::new)
}
