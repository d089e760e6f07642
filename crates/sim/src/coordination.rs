//! What coordination does, as far as nodes see it: leases, and the states that the real controller makes of
//! them. It never fails itself, but nodes can be cut off from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::controller::{
    Controller, ControllerInputs, NodeAssignment, NodeAssignments, NodeWish, Registration, Settings,
};
use millrace_cluster::{ClusterConfiguration, ClusterState, NodeKey, PROTOCOL};

use crate::deployments::SimPackage;

/// Longer than a node may act on a confirmation.
const LEASE: Duration = Duration::from_millis(5_000);

/// Leases, wishes, and the state that was published last.
pub(crate) struct SimCoordination {
    controller: Controller,
    configuration: ClusterConfiguration,
    assignments: NodeAssignments,
    /// By name, with the end of the lease.
    registrations: BTreeMap<String, (Registration, Duration)>,
    wishes: BTreeMap<String, NodeWish>,
    /// What all nodes say of groups.
    too_large: BTreeMap<u32, u8>,
    state: Option<Arc<ClusterState>>,
    package: Arc<SimPackage>,
}

impl SimCoordination {
    pub fn new(bits: u8, redundancy: u16) -> Self {
        // No one waits for minutes here.
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
            wishes: BTreeMap::new(),
            too_large: BTreeMap::new(),
            state: None,
            package: Arc::default(),
        }
    }

    pub fn state(&self) -> Option<&Arc<ClusterState>> {
        self.state.as_ref()
    }

    pub fn package(&self) -> &Arc<SimPackage> {
        &self.package
    }

    pub fn publish_package(&mut self, package: Arc<SimPackage>) {
        self.package = package;
    }

    /// A node says that it lives, and which state it has adopted. Whether its run is the newest that is
    /// known.
    pub fn beat(
        &mut self,
        node: NodeKey,
        (incarnation, adopted, out_of_space): (u64, u64, bool),
        now: Duration,
    ) -> bool {
        let name = name(node);
        let registration = Registration {
            address: format!("{name}:1"),
            incarnation,
            adopted,
            stopping: false,
            capacity: 1.0,
            group: Vec::new(),
            too_large: self.too_large.iter().map(|(low, bits)| (*low, *bits)).collect(),
            out_of_space,
            protocol: PROTOCOL,
        };
        let assignment = NodeAssignment { key: node, capacity: 1.0, group: Vec::new() };
        self.assignments.nodes.entry(name.clone()).or_insert(assignment);
        let known = self.registrations.entry(name).or_insert((registration.clone(), now));
        if known.0.incarnation > incarnation {
            return false;
        }
        // A message that was late says nothing new.
        let adopted = if known.0.incarnation == incarnation { known.0.adopted.max(adopted) } else { adopted };
        let out_of_space = out_of_space || (known.0.incarnation == incarnation && known.0.out_of_space);
        *known = (Registration { adopted, out_of_space, ..registration }, known.1.max(now + LEASE));
        true
    }

    pub fn wish(&mut self, node: NodeKey, wish: NodeWish) {
        self.wishes.insert(name(node), wish);
    }

    /// A group has grown, so that its buckets should use so many bits.
    pub fn grows(&mut self, low: u32, bits: u8) {
        self.too_large.insert(low, bits);
    }

    pub fn wishes(&self, wish: NodeWish) -> usize {
        self.wishes.values().filter(|known| **known == wish).count()
    }

    /// The next state, if the controller wants one.
    pub fn publish(&mut self, now: Duration) -> Option<Arc<ClusterState>> {
        let (living, gone): (Vec<_>, Vec<_>) =
            self.registrations.iter().partition(|(_, (_, lease))| *lease > now);
        let said = |(name, (registration, _)): (&String, &(Registration, Duration))| {
            (name.clone(), registration.clone())
        };
        let registrations = living.into_iter().map(said).collect();
        let departed = gone.into_iter().map(said).collect();
        let inputs = ControllerInputs {
            configuration: &self.configuration,
            registrations: &registrations,
            departed: &departed,
            wishes: &self.wishes,
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
