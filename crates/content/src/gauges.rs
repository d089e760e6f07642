//! Metrics of a node's part in the cluster, under the names of Vespa's metrics.

use millrace_cluster::NodeState;
use millrace_node::cluster::MetricGauge;
use millrace_replication::distributor::DistributorMetrics;

use crate::ContentNode;

/// All current metrics.
pub(crate) fn all(node: &ContentNode) -> Vec<MetricGauge> {
    let metrics = node.metrics();
    let mut gauges = ideal_state_gauges(node, &metrics);
    gauges.extend(operation_gauges(&metrics));
    gauges.extend(traffic_gauges(node, &metrics));
    gauges.extend(controller_gauges(node));
    gauges
}

fn level(name: &'static str, description: &'static str, value: u64) -> MetricGauge {
    MetricGauge::new(name, description, value as f64)
}

/// Buckets that this node owns, by the difference between their replicas and their ideal state.
fn ideal_state_gauges(node: &ContentNode, metrics: &DistributorMetrics) -> Vec<MetricGauge> {
    let copying_in: u64 = node.incoming().iter().map(|transfer| transfer.buckets()).sum();
    vec![
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
    ]
}

/// Operations on these buckets: those that wait, those that run, and those that have ended.
fn operation_gauges(metrics: &DistributorMetrics) -> Vec<MetricGauge> {
    let ended = metrics.ended;
    vec![
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
    ]
}

/// Requests and transfers between nodes.
fn traffic_gauges(node: &ContentNode, metrics: &DistributorMetrics) -> Vec<MetricGauge> {
    let throttle = node.throttle();
    vec![
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
    ]
}

/// Metrics of the cluster controller. Only the leading one reports nodes, so that a sum over all nodes counts
/// each once.
fn controller_gauges(node: &ContentNode) -> Vec<MetricGauge> {
    let state = node.membership().states().borrow().clone();
    let leads = node.leads();
    let mut gauges =
        vec![level("cluster-controller.is-master", "Whether this node leads the cluster", u64::from(leads))];
    let Some(state) = state.filter(|_| leads) else { return gauges };
    let count =
        |expected: NodeState| state.nodes().values().filter(|entry| entry.state == expected).count() as u64;
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
