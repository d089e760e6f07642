use std::collections::BTreeMap;

use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, NodeEntry, NodeHierarchy, NodeKey, NodeState,
    ReplicaDistribution,
};

/// A state with one letter per node: `u`p, `r`etired, `m`aintenance, `d`own.
pub(crate) fn test_state(states: &str, redundancy: u16, version: u64) -> ClusterState {
    let entry = |key: usize, letter| NodeEntry {
        name: format!("n{key}"),
        address: "localhost:1".to_owned(),
        state: match letter {
            'u' => NodeState::Up,
            'r' => NodeState::Retired,
            'm' => NodeState::Maintenance,
            _ => NodeState::Down,
        },
        capacity: 1.0,
        incarnation: Incarnation::new(1),
        lease_ended: false,
    };
    let nodes: BTreeMap<NodeKey, NodeEntry> =
        states.chars().enumerate().map(|(key, letter)| (NodeKey(key as u16), entry(key, letter))).collect();
    let layout = NodeHierarchy::Nodes(nodes.keys().copied().collect());
    ClusterState::new(
        ClusterVersion::new(version),
        nodes,
        ReplicaDistribution { bits: 8, redundancy, layout },
    )
    .expect("the layout is complete")
}
