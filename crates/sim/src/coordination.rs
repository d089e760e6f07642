//! Model of coordination as seen by nodes: leases, and the states made by the real controller. It never fails
//! itself, but nodes can be cut off from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::controller::{
    Controller, ControllerInputs, NodeAssignment, NodeAssignments, NodeRegistration, RequestedNodeState,
    Settings,
};
use millrace_cluster::{ClusterConfiguration, ClusterState, ClusterVersion, Incarnation, NodeKey, PROTOCOL};

use crate::deployments::SimPackage;

/// Length of a lease: longer than a node may act on a confirmation.
const LEASE: Duration = Duration::from_millis(5_000);

/// Report of a node that is alive.
pub(crate) struct NodeHeartbeat {
    /// Run of the process.
    pub incarnation: Incarnation,
    /// Version of the state that the node has adopted.
    pub adopted: ClusterVersion,
    /// True if the node's disk is full.
    pub out_of_space: bool,
}

/// Leases, requested states, and the last published state.
pub(crate) struct SimCoordination {
    controller: Controller,
    configuration: ClusterConfiguration,
    assignments: NodeAssignments,
    /// Registrations by name, each with the end of its lease.
    registrations: BTreeMap<String, (NodeRegistration, Duration)>,
    requested_states: BTreeMap<String, RequestedNodeState>,
    /// Groups reported as too large by any node.
    too_large: BTreeMap<u32, u8>,
    state: Option<Arc<ClusterState>>,
    package: Arc<SimPackage>,
}

impl SimCoordination {
    pub fn new(bits: u8, redundancy: u16) -> Self {
        // Short intervals: the simulation does not wait for minutes.
        let settings = Settings {
            settling: Duration::from_secs(2),
            transition: Duration::from_secs(3),
            crashes_max: u32::MAX,
            ..Settings::default()
        };
        SimCoordination {
            controller: Controller::new(settings),
            configuration: ClusterConfiguration { bits, redundancy, ..ClusterConfiguration::default() },
            assignments: NodeAssignments::default(),
            registrations: BTreeMap::new(),
            requested_states: BTreeMap::new(),
            too_large: BTreeMap::new(),
            state: None,
            package: Arc::default(),
        }
    }

    pub fn state(&self) -> Option<&Arc<ClusterState>> {
        self.state.as_ref()
    }

    /// Wanted number of replicas.
    pub fn redundancy(&self) -> u16 {
        self.configuration.redundancy
    }

    pub fn package(&self) -> &Arc<SimPackage> {
        &self.package
    }

    pub fn publish_package(&mut self, package: Arc<SimPackage>) {
        self.package = package;
    }

    /// Records that a node is alive, and the state that it has adopted. Returns true if its run is the newest
    /// known.
    pub fn record_heartbeat(&mut self, node: NodeKey, heartbeat: &NodeHeartbeat, now: Duration) -> bool {
        let NodeHeartbeat { incarnation, adopted, out_of_space } = *heartbeat;
        let name = name(node);
        let registration = NodeRegistration {
            address: format!("{name}:1"),
            incarnation,
            adopted,
            stopping: false,
            capacity: 1.0,
            group: Vec::new(),
            too_large: self.too_large.iter().map(|(low, bits)| (*low, *bits).into()).collect(),
            out_of_space,
            protocol: PROTOCOL,
        };
        let assignment = NodeAssignment { key: node, capacity: 1.0, group: Vec::new() };
        self.assignments.nodes.entry(name.clone()).or_insert(assignment);
        let known = self.registrations.entry(name).or_insert((registration.clone(), now));
        if known.0.incarnation > incarnation {
            return false;
        }
        // A late message contains no news.
        let adopted = if known.0.incarnation == incarnation { known.0.adopted.max(adopted) } else { adopted };
        let out_of_space = out_of_space || (known.0.incarnation == incarnation && known.0.out_of_space);
        *known = (NodeRegistration { adopted, out_of_space, ..registration }, known.1.max(now + LEASE));
        true
    }

    pub fn request_state(&mut self, node: NodeKey, state: RequestedNodeState) {
        self.requested_states.insert(name(node), state);
    }

    /// Records that a group has grown, so that its buckets should use this number of bits.
    pub fn grows(&mut self, low: u32, bits: u8) {
        self.too_large.insert(low, bits);
    }

    /// Number of nodes for which this state is requested.
    pub fn count_requested(&self, state: RequestedNodeState) -> usize {
        self.requested_states.values().filter(|known| **known == state).count()
    }

    /// Returns the next state, if the controller has one.
    pub fn publish(&mut self, now: Duration) -> Option<Arc<ClusterState>> {
        let (living, gone): (Vec<_>, Vec<_>) =
            self.registrations.iter().partition(|(_, (_, lease))| *lease > now);
        let said = |(name, (registration, _)): (&String, &(NodeRegistration, Duration))| {
            (name.clone(), registration.clone())
        };
        let registrations = living.into_iter().map(said).collect();
        let departed = gone.into_iter().map(said).collect();
        let inputs = ControllerInputs {
            configuration: &self.configuration,
            registrations: &registrations,
            without_documents: &BTreeSet::new(),
            departed: &departed,
            requested_states: &self.requested_states,
            assignments: &self.assignments,
            protocol: PROTOCOL,
        };
        let step = self.controller.step(now, &inputs, self.state.as_deref());
        let step = step.expect("any number of nodes can hold these replicas");
        self.assignments = step.assignments;
        let next = step.next.map(Arc::new)?;
        self.state = Some(Arc::clone(&next));
        Some(next)
    }
}

fn name(node: NodeKey) -> String {
    format!("n{node}")
}
