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
    /// All that were published and that some node may still act by, the newest among them.
    history: Vec<Arc<ClusterState>>,
}

struct Registration {
    incarnation: u64,
    lease: Duration,
    wish: NodeState,
    /// The newest state that this run is known to have.
    version: u64,
}

impl Coordination {
    pub fn new(bits: u8, redundancy: u16) -> Self {
        Coordination { bits, redundancy, registered: BTreeMap::new(), state: None, history: Vec::new() }
    }

    pub fn state(&self) -> Option<&Arc<ClusterState>> {
        self.state.as_ref()
    }

    /// A node says that it lives, and which state it has. Whether its run is the newest that is known.
    pub fn beat(&mut self, node: NodeKey, (incarnation, version): (u64, u64), now: Duration) -> bool {
        let lease = now + LEASE;
        let known = self.registered.entry(node).or_insert(Registration {
            incarnation,
            lease,
            wish: NodeState::Up,
            version,
        });
        if known.incarnation > incarnation {
            return false;
        }
        known.version = if known.incarnation < incarnation { version } else { known.version.max(version) };
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

    /// The next state, if it differs from the one before, and does not leave a majority behind.
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
            if *before.nodes() == nodes || self.leaves_majority_behind(&nodes) {
                return None;
            }
        }
        let layout = Layout::Nodes(nodes.keys().copied().collect());
        let distribution = Distribution { bits: self.bits, redundancy: self.redundancy, layout };
        let version = self.state.as_ref().map_or(1, |state| state.version() + 1);
        let state =
            ClusterState::new(version, nodes, distribution).expect("all nodes of the layout are listed");
        let oldest = self.registered.values().map(|known| known.version).min().unwrap_or_default();
        self.history.retain(|old| old.version() >= oldest);
        self.state = Some(Arc::new(state));
        self.history.extend(self.state.clone());
        self.state.clone()
    }

    /// Whether so many nodes would not serve any more, and may not have heard of a newer state, that they could go on among themselves by an
    /// older one: a majority of its nodes.
    fn leaves_majority_behind(&self, next: &BTreeMap<NodeKey, NodeEntry>) -> bool {
        self.history.iter().any(|old| {
            let behind = |key: &&NodeKey| {
                let serves = next.get(key).is_some_and(|entry| entry.state.serves());
                let may_have_it = self.registered.get(key).is_some_and(|known| {
                    known.version <= old.version()
                        && old.nodes().get(key).is_some_and(|entry| entry.incarnation == known.incarnation)
                });
                !serves && may_have_it
            };
            old.nodes().keys().filter(behind).count() * 2 > old.nodes().len()
        })
    }
}
