//! Placed indexes of a node in its cluster: it follows the table of copies, and publishes what it reports.

use std::sync::Arc;

use millrace_cluster::NodeKey;
use millrace_membership::{ClusterMembership, DeclaredIndexes};
use millrace_node::Node;
use millrace_node::indexes::{PlacementLinks, WantedIndexes};

/// Declares the placed indexes of the node's application to its membership, which plans by them while the
/// node leads. Never returns.
pub async fn declare_indexes(node: Arc<Node>, membership: ClusterMembership) {
    let mut wanted = node.placed_indexes().reporter().wanted();
    loop {
        let WantedIndexes { generation, indexes } = (**wanted.borrow_and_update()).clone();
        membership.declare_indexes(DeclaredIndexes { generation, indexes });
        // The sender lives as long as the node.
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Gives the node its copies of indexes, and publishes its reports about them until it leaves.
pub async fn follow_placement(node: &Arc<Node>, membership: &ClusterMembership, own: NodeKey) {
    node.follow_placement(PlacementLinks { own, table: membership.placement() });
    membership.publish_copy_reports(node.placed_indexes().reporter().reports()).await;
}
