//! A node's statistics about its part in a cluster.

use millrace_cluster::{ClusterState, NodeKey};
use millrace_content::{ContentNode, IncomingTransfer};
use millrace_membership::{
    BucketStats, ClusterMembership, IdealStateStats, NodeStats, OperationStats, TransferRateStats,
    TransferStats,
};
use millrace_node::Node;
use millrace_replication::distributor::{OperationProgress, OperationView};

use crate::cluster::JoinedPart;

/// Maximum number of operations that are listed individually.
const OPERATIONS: usize = 20;

/// Collects the state of the node's data and its transfers.
pub fn stats(node: &Node, membership: &ClusterMembership, part: &JoinedPart) -> NodeStats {
    let status = node.store().status();
    let mut stats = NodeStats {
        name: membership.settings().name.clone(),
        key: membership.key(),
        buckets: BucketStats {
            owned: 0,
            replicas: status.replicas as u64,
            incomplete: status.incomplete_replicas as u64,
        },
        documents: status.documents,
        bytes: status.segment_bytes + status.tail_bytes,
        ..NodeStats::default()
    };
    if let Some(part) = part.get() {
        add_part(&mut stats, part);
        let state = membership.states().borrow().clone();
        stats.divided_groups = state.as_ref().map_or(0, |state| state.spread().groups().count() as u64);
        let incoming = part.incoming();
        let transfers = incoming.iter().map(|of| transfer(of, &stats.name, state.as_deref()));
        stats.transfers = transfers.collect();
    }
    stats
}

fn add_part(stats: &mut NodeStats, part: &ContentNode) {
    let of_buckets = part.metrics();
    (stats.version, stats.confirmed) = part.acting_version();
    stats.buckets.owned = of_buckets.buckets;
    stats.ideal = IdealStateStats {
        distance: of_buckets.distance,
        unknown: of_buckets.unknown,
        too_few: of_buckets.too_few,
        too_many: of_buckets.too_many,
        diverged: of_buckets.diverged,
        misplaced: of_buckets.misplaced,
    };
    let throttle = part.throttle();
    stats.pace = TransferRateStats {
        bytes_per_second: throttle.speed(),
        limit: throttle.limit(),
        bytes: throttle.moved(),
    };
    let mut operations = part.operations();
    stats.operations_count = operations.len() as u64;
    // Running operations first, then failed ones, then waiting ones.
    operations.sort_by_key(|operation| match operation.progress {
        OperationProgress::Pending => 2,
        OperationProgress::Delayed => 1,
        _ => 0,
    });
    stats.operations = operations.into_iter().take(OPERATIONS).map(operation).collect();
}

fn operation(view: OperationView) -> OperationStats {
    let progress = match view.progress {
        OperationProgress::Pending => "pending",
        OperationProgress::Delayed => "delayed",
        OperationProgress::Creating => "creating",
        OperationProgress::Comparing => "comparing",
        OperationProgress::Pulling => "pulling",
        OperationProgress::Completing => "completing",
        OperationProgress::Deleting => "deleting",
    };
    OperationStats {
        bucket: view.bucket.to_string(),
        reason: view.reason,
        progress: progress.to_owned(),
        failure_cause: view.failure_cause,
    }
}

fn transfer(transfer: &IncomingTransfer, to: &str, state: Option<&ClusterState>) -> TransferStats {
    let name = |key: NodeKey| {
        let known = state.and_then(|state| state.nodes().get(&key)).map(|node| node.name.clone());
        known.unwrap_or_else(|| key.to_string())
    };
    let (done, total) = (transfer.bytes(), transfer.total());
    let rate = done as f64 / transfer.began.elapsed().as_secs_f64().max(0.001);
    TransferStats {
        from: name(transfer.from),
        to: to.to_owned(),
        buckets: transfer.buckets(),
        reason: transfer.reason.to_owned(),
        bytes_done: done,
        bytes_total: total,
        bytes_per_second: rate,
        eta_s: (rate > 0.0).then(|| (total - done) as f64 / rate),
    }
}
