use millrace_cluster::NodeKey;
use serde::{Deserialize, Serialize};

/// How a node's data is and moves: what `GET /state/v1/cluster` of a node answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFigures {
    /// The node.
    pub name: String,
    /// Its key, once it has one.
    pub key: Option<NodeKey>,
    /// The version of the cluster state that it acts by; 0 before the first.
    pub version: u64,
    /// Whether it is sure that no newer one is in force.
    pub confirmed: bool,
    /// Its buckets.
    pub buckets: BucketFigures,
    /// Groups of the cluster that were too large for one bucket, and have several.
    #[serde(default)]
    pub divided_groups: u64,
    /// Documents on it, in all replicas: exact where replicas were counted since their files changed, as every merge of replicas does; before,
    /// and of what was written last, versions that newer ones have replaced count as well.
    pub documents: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// What is left to do for the buckets that it owns.
    pub ideal: IdealFigures,
    /// What it receives now.
    pub transfers: Vec<TransferFigures>,
    /// How fast it sends and receives.
    #[serde(default)]
    pub pace: PaceFigures,
    /// How many operations on the buckets that it owns wait or run.
    #[serde(default)]
    pub operations_count: u64,
    /// The first of them, in the order of buckets.
    #[serde(default)]
    pub operations: Vec<OperationFigures>,
}

/// How fast a node moves data, in and out together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceFigures {
    /// Bytes in the last second.
    pub bytes_per_second: u64,
    /// What it may move in a second, so that requests do not suffer, or because of a cap; `None`: as much as it can.
    pub limit: Option<u64>,
    /// Bytes since its start.
    pub bytes: u64,
}

/// An operation on a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationFigures {
    /// Which bucket.
    pub bucket: String,
    /// Why it is needed, for people.
    pub reason: String,
    /// Where it is: `pending`, `delayed` after it failed, or what it does.
    pub progress: String,
    /// Why it failed when it was tried last.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// Counts of buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFigures {
    /// That it orders the writes of.
    pub owned: u64,
    /// That it has a replica of.
    pub replicas: u64,
    /// That it has only a part of.
    pub incomplete: u64,
}

/// How far buckets are from where they should be. All zero: the ideal state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdealFigures {
    /// Operations that are known to be left.
    pub distance: u64,
    /// Buckets with fewer replicas than they should have.
    pub too_few: u64,
    /// Buckets with more.
    pub too_many: u64,
    /// Buckets whose replicas differ or are incomplete.
    pub diverged: u64,
    /// Buckets with a replica where none should be.
    pub misplaced: u64,
    /// Buckets whose replicas are not all known yet.
    pub unknown: u64,
}

impl IdealFigures {
    /// Whether nothing is left to do.
    pub fn is_ideal(&self) -> bool {
        *self == IdealFigures::default()
    }
}

/// Data on its way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferFigures {
    /// From which node.
    pub from: String,
    /// To which one.
    pub to: String,
    /// How many buckets.
    pub buckets: u64,
    /// Why, for people.
    pub reason: String,
    /// What has come.
    pub bytes_done: u64,
    /// What there is in all, as far as is known.
    pub bytes_total: u64,
    /// How fast, over the last seconds.
    pub bytes_per_second: f64,
    /// How long it will take at this rate; `None` where that cannot be said.
    pub eta_s: Option<f64>,
}
