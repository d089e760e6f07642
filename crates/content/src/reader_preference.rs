use std::collections::BTreeSet;

use millrace_cluster::{ClusterState, NodeKey};
use millrace_node::cluster::BucketReaders;

/// Order in which the nodes that have all of a bucket are asked.
///
/// If nodes are in groups, each with a copy of everything, one group answers a query: that of the node with
/// the request; others are asked only for documents that no node there has. Without groups the owner answers
/// for all documents it has, since it was asked anyway.
pub(crate) struct ReaderPreference {
    near: NodeKey,
    /// Nodes of the group; empty without groups.
    group: BTreeSet<NodeKey>,
    owner: NodeKey,
}

impl ReaderPreference {
    /// Creates the order for requests that came to `near`, about buckets of `owner`.
    pub(crate) fn new(state: &ClusterState, near: NodeKey, owner: NodeKey) -> Self {
        let leaves = state.distribution().layout.leaves();
        let is_own = |leaf: &&(Vec<u16>, &[NodeKey])| leaves.len() > 1 && leaf.1.contains(&near);
        let group = leaves.iter().find(is_own).map(|(_, nodes)| nodes.iter().copied().collect());
        ReaderPreference { near, group: group.unwrap_or_default(), owner }
    }

    /// Sorts the nodes.
    pub(crate) fn sort(&self, readers: &mut BucketReaders) {
        let turn = readers.bucket.bits() as usize;
        let count = readers.nodes.len().max(1);
        // Equally good nodes take turns, bucket by bucket.
        readers.nodes.rotate_left(turn % count);
        readers.nodes.sort_by_key(|node| match self.group.contains(node) {
            true => (0, *node != self.near),
            false => (1, *node != self.owner),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use millrace_bucket::BucketId;
    use millrace_cluster::{
        ClusterVersion, Incarnation, NodeEntry, NodeHierarchy, NodeState, ReplicaDistribution,
    };

    use super::*;

    fn state(layout: NodeHierarchy) -> ClusterState {
        let entry = |key: u16| NodeEntry {
            name: format!("n{key}"),
            address: String::new(),
            state: NodeState::Up,
            capacity: 1.0,
            incarnation: Incarnation::new(1),
            lease_ended: false,
        };
        let nodes: BTreeMap<NodeKey, NodeEntry> = (0..4).map(|key| (NodeKey(key), entry(key))).collect();
        ClusterState::new(
            ClusterVersion::new(1),
            nodes,
            ReplicaDistribution { bits: 8, redundancy: 2, layout },
        )
        .expect("it can be placed")
    }

    #[test]
    fn the_own_group_answers_first_and_without_groups_the_owner() {
        let keys = |keys: &[u16]| keys.iter().copied().map(NodeKey).collect::<Vec<_>>();
        #[track_caller]
        fn check(state: &ClusterState, near: u16, owner: u16, nodes: Vec<NodeKey>, expected: Vec<NodeKey>) {
            let mut readers =
                BucketReaders { bucket: BucketId::new(8, 0), nodes, full: true, soon: false, documents: 0 };
            ReaderPreference::new(state, NodeKey(near), NodeKey(owner)).sort(&mut readers);
            assert_eq!(readers.nodes, expected);
        }
        let flat = state(NodeHierarchy::Nodes(keys(&[0, 1, 2, 3])));
        check(&flat, 0, 2, keys(&[0, 1, 2]), keys(&[2, 0, 1]));
        check(&flat, 0, 3, keys(&[1, 2]), keys(&[1, 2]));
        let groups = vec![(0, NodeHierarchy::Nodes(keys(&[0, 1]))), (1, NodeHierarchy::Nodes(keys(&[2, 3])))];
        let grouped = state(NodeHierarchy::Groups { partitions: "1|*".to_owned(), groups });
        check(&grouped, 0, 2, keys(&[2, 1]), keys(&[1, 2]));
        check(&grouped, 1, 2, keys(&[2, 1, 0]), keys(&[1, 0, 2]));
        check(&grouped, 3, 0, keys(&[0, 1]), keys(&[0, 1]));
    }
}
