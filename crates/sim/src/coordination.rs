//! What coordination and the controller do, as far as nodes see it: leases, and states that follow from them. It never fails itself, but
//! nodes can be cut off from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::{ClusterState, Distribution, Layout, NodeEntry, NodeKey, NodeState};

/// Longer than a node may act on a confirmation.
const LEASE: Duration = Duration::from_millis(5_000);

/// Leases, wishes, and the state that was published last.
pub(crate) struct Coordination {
    bits: u8,
    redundancy: u16,
    registered: BTreeMap<NodeKey, Registration>,
    state: Option<Arc<ClusterState>>,
}

struct Registration {
    incarnation: u64,
    lease: Duration,
    wish: NodeState,
}

impl Coordination {
    pub fn new(bits: u8, redundancy: u16) -> Self {
        Coordination { bits, redundancy, registered: BTreeMap::new(), state: None }
    }

    pub fn state(&self) -> Option<&Arc<ClusterState>> {
        self.state.as_ref()
    }

    /// A node says that it lives. Whether its run is the newest that is known.
    pub fn beat(&mut self, node: NodeKey, incarnation: u64, now: Duration) -> bool {
        let lease = now + LEASE;
        let known =
            self.registered.entry(node).or_insert(Registration { incarnation, lease, wish: NodeState::Up });
        if known.incarnation > incarnation {
            return false;
        }
        (known.incarnation, known.lease) = (incarnation, known.lease.max(lease));
        true
    }

    pub fn wish(&mut self, node: NodeKey, wish: NodeState) {
        if let Some(known) = self.registered.get_mut(&node) {
            known.wish = wish;
        }
    }

    pub fn wishes(&self, wish: NodeState) -> usize {
        self.registered.values().filter(|known| known.wish == wish).count()
    }

    /// The next state, if it differs from the one before, and no majority of the nodes before is left behind by it: those could go on
    /// by the old one, without coordination.
    pub fn publish(&mut self, now: Duration) -> Option<Arc<ClusterState>> {
        let nodes: BTreeMap<NodeKey, NodeEntry> = self
            .registered
            .iter()
            .map(|(key, known)| {
                let alive = known.lease > now;
                let state = match known.wish {
                    NodeState::Maintenance => NodeState::Maintenance,
                    wish if alive => wish,
                    _ => NodeState::Down,
                };
                let entry = NodeEntry {
                    name: format!("n{key}"),
                    address: format!("n{key}:1"),
                    state,
                    capacity: 1.0,
                    incarnation: known.incarnation,
                };
                (*key, entry)
            })
            .collect();
        if let Some(before) = &self.state {
            let serve = |key: &&NodeKey| nodes.get(key).is_some_and(|entry| entry.state.serves());
            let still = before.nodes().keys().filter(serve).count();
            if *before.nodes() == nodes || still * 2 < before.nodes().len() {
                return None;
            }
        }
        let layout = Layout::Nodes(nodes.keys().copied().collect());
        let distribution = Distribution { bits: self.bits, redundancy: self.redundancy, layout };
        let version = self.state.as_ref().map_or(1, |state| state.version() + 1);
        let state =
            ClusterState::new(version, nodes, distribution).expect("all nodes of the layout are listed");
        self.state = Some(Arc::new(state));
        self.state.clone()
    }
}
