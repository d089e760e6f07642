//! Cluster states by a letter for each node.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, NodeEntry, NodeHierarchy, NodeKey, NodeState,
    ReplicaDistribution,
};

/// State of nodes that are `u`p, up in their second run (`r`estarted), in `m`aintenance or `d`own.
pub fn state(version: u64, letters: &str, redundancy: u16) -> Arc<ClusterState> {
    let entry = |(key, letter): (usize, char)| {
        let entry = NodeEntry {
            name: format!("n{key}"),
            address: String::new(),
            state: match letter {
                'u' | 'r' => NodeState::Up,
                'm' => NodeState::Maintenance,
                'd' => NodeState::Down,
                other => panic!("'{other}' is not the state of a node: write u, r, m or d"),
            },
            capacity: 1.0,
            incarnation: Incarnation::new(if letter == 'r' { 2 } else { 1 }),
            lease_ended: false,
        };
        (NodeKey(key as u16), entry)
    };
    let nodes: BTreeMap<NodeKey, NodeEntry> = letters.chars().enumerate().map(entry).collect();
    let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
    let distribution = ReplicaDistribution { bits: 8, redundancy, layout };
    let state = ClusterState::new(ClusterVersion::new(version), nodes, distribution);
    Arc::new(state.expect("all nodes of the layout are listed"))
}
