use millrace_cluster::{ClusterVersion, NodeKey};
use serde::{Deserialize, Serialize};

/// State of a node's data and its transfers: the answer to `GET /state/v1/cluster` of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStats {
    /// Name of the node.
    pub name: String,
    /// Its key, once it has one.
    pub key: Option<NodeKey>,
    /// Version of the cluster state that it acts by; 0 before the first.
    pub version: ClusterVersion,
    /// True if it is certain that no newer one is in force.
    pub confirmed: bool,
    /// Settings of the node that an operator should change.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Its buckets.
    pub buckets: BucketStats,
    /// Number of groups of the cluster that were too large for one bucket, and have several.
    #[serde(default)]
    pub divided_groups: u64,
    /// Number of documents on it, in all replicas. Exact if replicas were counted since their files changed,
    /// as every merge of replicas does; before that, and among the most recent writes, replaced versions
    /// count as well.
    pub documents: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Remaining work for the buckets that it owns.
    pub ideal: IdealStateStats,
    /// Transfers that it receives now.
    pub transfers: Vec<TransferStats>,
    /// Transfer rate, in both directions.
    #[serde(default)]
    pub pace: TransferRateStats,
    /// Number of waiting and running operations on the buckets that it owns.
    #[serde(default)]
    pub operations_count: u64,
    /// The first operations, in the order of buckets.
    #[serde(default)]
    pub operations: Vec<OperationStats>,
}

/// Transfer rate of a node, in both directions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRateStats {
    /// Bytes in the last second.
    pub bytes_per_second: u64,
    /// Limit in bytes per second, for the sake of requests or because of a cap; `None`: unlimited.
    pub limit: Option<u64>,
    /// Bytes since its start.
    pub bytes: u64,
}

/// An operation on a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStats {
    /// Bucket id.
    pub bucket: String,
    /// Reason, for people.
    pub reason: String,
    /// Progress: `pending`, `delayed` after a failure, or the current step.
    pub progress: String,
    /// Cause of its last failure.
    #[serde(default, rename = "trouble")]
    pub failure_cause: Option<String>,
}

/// Counts of buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketStats {
    /// Buckets whose writes it orders.
    pub owned: u64,
    /// Buckets of which it has a replica.
    pub replicas: u64,
    /// Buckets of which it has only a part.
    pub incomplete: u64,
}

/// Distance of buckets from the ideal state, which is all zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdealStateStats {
    /// Number of operations known to remain.
    pub distance: u64,
    /// Buckets with fewer replicas than required.
    pub too_few: u64,
    /// Buckets with more replicas than required.
    pub too_many: u64,
    /// Buckets whose replicas differ or are incomplete.
    pub diverged: u64,
    /// Buckets with a replica on the wrong node.
    pub misplaced: u64,
    /// Buckets whose replicas are not all known yet.
    pub unknown: u64,
}

impl IdealStateStats {
    /// True if no work remains.
    pub fn is_ideal(&self) -> bool {
        *self == IdealStateStats::default()
    }
}

/// Transfer in progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferStats {
    /// Name of the sender.
    pub from: String,
    /// Name of the receiver.
    pub to: String,
    /// Number of buckets.
    pub buckets: u64,
    /// Reason, for people.
    pub reason: String,
    /// Bytes received.
    pub bytes_done: u64,
    /// Total bytes, as far as known.
    pub bytes_total: u64,
    /// Rate over the last seconds.
    pub bytes_per_second: f64,
    /// Remaining seconds at this rate; `None` if unknown.
    pub eta_s: Option<f64>,
}
