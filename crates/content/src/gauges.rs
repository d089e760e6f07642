//! Metrics of a node's part in the cluster, under the names of Vespa's metrics.

use millrace_cluster::{ClusterState, NodeState};
use millrace_node::cluster::MetricGauge;

use crate::ContentNode;

/// All current metrics.
pub(crate) fn of(node: &ContentNode) -> Vec<MetricGauge> {
    let metrics = node.metrics();
    let (incoming, throttle) = (node.incoming(), node.throttle());
    let copying_in: u64 = incoming.iter().map(|transfer| transfer.buckets()).sum();
    let level = |name, description, value: u64| MetricGauge::new(name, description, value as f64);
    let ended = metrics.ended;
    let mut gauges = vec![
        level(
            "vds.idealstate.idealstate_diff",
            "Replicas to be created, filled or deleted until the buckets that this node owns are in their ideal state",
            metrics.distance,
        ),
        level("vds.idealstate.buckets", "Buckets that this node owns", metrics.buckets),
        level(
            "vds.idealstate.buckets_rechecking",
            "Buckets that this node owns and whose replicas are not all known yet",
            metrics.unknown,
        ),
        level(
            "vds.idealstate.buckets_toofewcopies",
            "Buckets with fewer replicas than they should have",
            metrics.too_few,
        ),
        level(
            "vds.idealstate.buckets_toomanycopies",
            "Buckets with more replicas than they should have",
            metrics.too_many,
        ),
        level(
            "vds.idealstate.buckets_notrusted",
            "Buckets whose replicas may differ or be incomplete",
            metrics.diverged,
        ),
        level(
            "vds.idealstate.bucket_replicas_moving_out",
            "Buckets with a replica on a node that should have none",
            metrics.misplaced,
        ),
        level("vds.idealstate.bucket_replicas_copying_in", "Replicas on their way to this node", copying_in),
        level(
            "vds.idealstate.bucket_replicas_copying_out",
            "Replicas that other nodes fetch from this one",
            node.leaving(),
        ),
        level(
            "vds.idealstate.merge_bucket.pending",
            "Merges that wait for capacity of their nodes",
            metrics.merges_pending,
        ),
        level(
            "vds.idealstate.merge_bucket.blocked",
            "Merges that failed and wait for another attempt",
            metrics.merges_blocked,
        ),
        MetricGauge::counted("vds.idealstate.merge_bucket.done_ok", "Completed merges", ended.merges),
        MetricGauge::counted(
            "vds.idealstate.merge_bucket.done_failed",
            "Merges that failed",
            ended.merges_failed,
        ),
        level(
            "vds.idealstate.delete_bucket.pending",
            "Deletions of replicas that wait for capacity of their nodes",
            metrics.deletions_pending,
        ),
        level(
            "vds.idealstate.delete_bucket.blocked",
            "Deletions of replicas that failed and wait for another attempt",
            metrics.deletions_blocked,
        ),
        MetricGauge::counted(
            "vds.idealstate.delete_bucket.done_ok",
            "Completed deletions of replicas",
            ended.deletions,
        ),
        MetricGauge::counted(
            "vds.idealstate.delete_bucket.done_failed",
            "Deletions of replicas that failed",
            ended.deletions_failed,
        ),
        level("millrace.cluster.operations", "Operations on buckets that run", metrics.running),
        level("millrace.cluster.requests", "Clients' operations that this node orders now", metrics.requests),
        MetricGauge::counted(
            "millrace.peer.requests",
            "Requests to other nodes about the buckets that this node owns",
            node.peers().sent(),
        ),
        MetricGauge::counted(
            "millrace.peer.requests_lost",
            "Requests to other nodes without an answer: a connection broke, or could not be made",
            node.peers().lost(),
        ),
        MetricGauge::counted(
            "vds.filestor.allthreads.bytesmerged",
            "Bytes of replicas that this node sent or received",
            throttle.moved(),
        ),
        level(
            "millrace.transfer.bytes_per_second",
            "Bytes of replicas that this node sends and receives in a second",
            throttle.speed(),
        ),
        level(
            "millrace.transfer.limit",
            "Limit of the bytes that it sends and receives in a second, so that requests do not slow down; 0: no limit",
            throttle.limit().unwrap_or(0),
        ),
    ];
    gauges.extend(of_controller(node));
    gauges
}

/// Metrics of the cluster controller. Only the leading one reports nodes, so that a sum over all nodes counts
/// each once.
fn of_controller(node: &ContentNode) -> Vec<MetricGauge> {
    let level = |name, description, value: usize| MetricGauge::new(name, description, value as f64);
    let state = node.membership().states().borrow().clone();
    let leads = node.leads();
    let mut gauges = vec![level(
        "cluster-controller.is-master",
        "Whether this node leads the cluster",
        usize::from(leads),
    )];
    let Some(state) = state.filter(|_| leads) else { return gauges };
    let count = |of: NodeState| in_state(&state, of);
    gauges.extend([
        level("cluster-controller.up.count", "Nodes that are up", count(NodeState::Up)),
        level(
            "cluster-controller.retired.count",
            "Nodes whose replicas move to other nodes",
            count(NodeState::Retired),
        ),
        level(
            "cluster-controller.maintenance.count",
            "Nodes that are away and keep their replicas",
            count(NodeState::Maintenance),
        ),
        level("cluster-controller.down.count", "Nodes that are down", count(NodeState::Down)),
        MetricGauge::counted(
            "cluster-controller.cluster-state-change.count",
            "Cluster states since the cluster began",
            state.version().number(),
        ),
    ]);
    gauges
}

fn in_state(state: &ClusterState, of: NodeState) -> usize {
    state.nodes().values().filter(|node| node.state == of).count()
}
