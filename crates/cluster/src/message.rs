//! Messages between the owner of a bucket and the nodes with its replicas, as values. Transport is the
//! concern of other crates.
//!
//! Their serialized form is part of the protocol ([`PROTOCOL`](crate::PROTOCOL)): fields and variants are
//! written by their order, so fields stay as they are, and new variants come last, in the next protocol. A
//! new field is a new variant.

use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DroppedScope, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ClusterVersion, NodeKey};

/// Header of every request, which lets the receiver recognize requests that do not count any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFence {
    /// The sender.
    pub from: NodeKey,
    /// Version of the cluster state that the sender acts by. A receiver with a newer state refuses the
    /// request; one with an older state fetches the newer one first.
    pub version: ClusterVersion,
    /// Request number; ascending for each sender.
    pub number: u64,
    /// Requests of this sender and version with lower numbers were abandoned: the receiver refuses them from
    /// now on, so that none of them can take effect late.
    pub void_below: u64,
}

/// Digest of a replica's contents. Equal contents have equal values, independent of the layout in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ReplicaContent {
    /// Number of documents.
    pub documents: u64,
    /// Checksum of the ids and timestamps of the newest versions, and of the removals and drops that are
    /// remembered.
    pub checksum: u64,
    /// Approximate earliest time of removals and drops that count: not every node may remember older ones.
    /// The owner chooses it, so that all nodes use the same value.
    pub removals_since: Timestamp,
}

/// Maximum age of removals and drops in comparisons of replicas, up to twice as much.
pub const REMOVALS_COMPARED: Duration = Duration::from_secs(24 * 3600);

/// Minimum time for which every node must remember removals and drops: twice [`REMOVALS_COMPARED`], and as
/// long again for differing clocks and for a node that prunes before another does.
pub const REMOVALS_REMEMBERED: Duration = REMOVALS_COMPARED.saturating_mul(3);

/// A node's report of its replica of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReportedReplica {
    /// Its contents.
    pub content: ReplicaContent,
    /// True if it was filled: it holds all that the bucket held when the replica was created.
    pub complete: bool,
    /// Newest timestamp in it.
    pub newest: Timestamp,
}

/// Initial state of a replica that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaOrigin {
    /// The bucket is new: nothing can be missing.
    Complete,
    /// To be filled from other replicas, which exist.
    Incomplete,
}

/// Content of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RowContent {
    /// A version of a document.
    Version(DocumentVersion),
    /// A drop of many documents at once.
    Drop(DroppedScope),
}

impl RowContent {
    /// Its timestamp.
    pub fn timestamp(&self) -> Timestamp {
        match self {
            RowContent::Version(version) => version.timestamp,
            RowContent::Drop(drop) => drop.timestamp,
        }
    }

    /// Approximate memory size, in bytes.
    pub fn bytes(&self) -> usize {
        const OVERHEAD: usize = 64;
        match self {
            RowContent::Version(version) => {
                OVERHEAD + version.id.as_str().len() + version.body.as_ref().map_or(0, |body| body.len())
            }
            RowContent::Drop(_) => OVERHEAD,
        }
    }
}

/// A row to be sent to a replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicatedRow {
    /// Its bucket.
    pub bucket: BucketId,
    /// Its content; shared by the rows for all replicas.
    #[serde(deserialize_with = "shared_content")]
    pub content: Arc<RowContent>,
    /// State in which the node creates the replica if it does not have it. A row without an origin is refused
    /// by such a node.
    pub origin: Option<ReplicaOrigin>,
}

/// A row that may have reached some replicas when its bucket got another owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnfinishedRow {
    /// Its bucket.
    pub bucket: BucketId,
    /// Content of the row.
    #[serde(deserialize_with = "shared_content")]
    pub content: Arc<RowContent>,
    /// Version of the document on which the decision was based, 0 if there was none: the row may be written
    /// only if no other version has been written since. `None`: it does not depend on an earlier version.
    pub base: Option<Timestamp>,
}

/// Reads the content of a row into its shared place, without the copy that `serde` makes.
fn shared_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<RowContent>, D::Error> {
    RowContent::deserialize(deserializer).map(Arc::new)
}

/// Method by which a replica copies the contents of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PullMode {
    /// Copy everything, as files: this replica is empty or small.
    Whole,
    /// Copy only rows that are missing or older here, found by comparing lists of ids and timestamps.
    Missing,
}

/// A request of the owner of a bucket to a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum NodeRequest {
    /// Asks whether the node is alive and has this version.
    Ping,
    /// Asks for the replicas of buckets that the sender owns. The answer includes all rows accepted before,
    /// and nothing later. It hands the buckets over: a node that has answered refuses the previous owner.
    Owned {
        /// See [`ReplicaContent::removals_since`].
        removals_since: Timestamp,
    },
    /// Asks for the contents of one replica, like [`NodeRequest::Owned`].
    Info {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// See [`ReplicaContent::removals_since`].
        removals_since: Timestamp,
    },
    /// Makes these rows durable.
    Apply(Vec<ReplicatedRow>),
    /// Reads the newest version of a document, which may be a removal.
    Read {
        /// Its bucket.
        bucket: BucketId,
        /// Id of the document.
        id: DocumentId,
    },
    /// Creates an empty, incomplete replica of this bucket if there is none.
    Create(BucketId),
    /// Copies the contents of another node's replica; answered on completion.
    Pull {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// Node of the source replica.
        from: NodeKey,
        /// Method.
        pull: PullMode,
    },
    /// Declares the node's replica of this bucket complete, if its contents are still as expected.
    Complete {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// Expected contents.
        expected: ReplicaContent,
    },
    /// Deletes the node's replica of this bucket, if its contents are still as expected.
    Delete {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// Expected contents.
        expected: ReplicaContent,
    },
    /// Finishes an operation that the sender began as the owner of a bucket that the receiver owns now. For
    /// the distributor of the node; a keeper refuses it.
    Finish(UnfinishedRow),
}

impl NodeRequest {
    /// True if it can take long. Such a request is repeated from time to time, and joins the one that runs.
    pub fn is_long(&self) -> bool {
        matches!(self, NodeRequest::Pull { .. })
    }
}

/// An answer, with the version of the cluster state by which it was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReply {
    /// Version of the answering node.
    pub version: ClusterVersion,
    /// The response.
    pub response: NodeResponse,
}

/// Response of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum NodeResponse {
    /// The request was not considered.
    Refused(FenceRefusal),
    /// Response to [`NodeRequest::Ping`].
    Pong {
        /// True if this confirms the sender's state: only after coordination has been silent for a while.
        votes: bool,
    },
    /// Response to [`NodeRequest::Owned`] and [`NodeRequest::Info`]: the existing replicas.
    Replicas {
        /// Replicas by bucket.
        replicas: Vec<(BucketId, ReportedReplica)>,
        /// Newest timestamp that the node has seen in any bucket.
        newest: Timestamp,
    },
    /// Response to [`NodeRequest::Apply`]: all rows are durable except these, given by their index in the
    /// request.
    Applied(Vec<(usize, NodeFailure)>),
    /// Response to [`NodeRequest::Finish`]: number of replicas on which it is durable.
    Finished(u16),
    /// Response to [`NodeRequest::Read`]: the newest version that is remembered.
    Document(Option<DocumentVersion>),
    /// The request was executed, and the result is durable.
    Done,
    /// The request failed.
    Failed(NodeFailure),
}

/// Reason why a node does not consider a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FenceRefusal {
    /// The request was sent by an older cluster state: fetch the newer one, then ask again.
    Stale,
    /// The request was abandoned by its sender; see [`RequestFence::void_below`].
    Void,
    /// The sender does not own the bucket, by the state that both have.
    NotOwner,
    /// The node takes no part in this cluster state: it was restarted since, or the state marks it down.
    Absent,
    /// An operation that must not be disturbed is in progress; ask again shortly.
    Busy,
    /// The node does not know this kind of request: it runs an older version, and a later state will not ask
    /// it for this.
    Unknown,
}

/// Cause of a failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NodeFailure {
    /// No replica of the bucket.
    #[error("the node has no replica of the bucket")]
    NoReplica,
    /// The replica's contents are not as expected.
    #[error("the replica has changed")]
    Differs,
    /// The disk is full.
    #[error("{reason}")]
    DiskFull {
        /// Full disk, and what to do.
        reason: String,
    },
    /// Too many operations are in progress; try again shortly.
    #[error("the node has too much to do")]
    Overloaded,
    /// The operation was ended because the cluster state changed.
    #[error("the cluster state changed meanwhile")]
    Interrupted,
    /// Any other failure.
    #[error("{reason}")]
    Storage {
        /// Message of the storage.
        reason: String,
    },
}

impl NodeFailure {
    /// The same failure, with the name of its node.
    pub fn at_node(self, node: &str) -> Self {
        match self {
            NodeFailure::DiskFull { reason } => {
                NodeFailure::DiskFull { reason: format!("node {node}: {reason}") }
            }
            NodeFailure::Storage { reason } => {
                NodeFailure::Storage { reason: format!("node {node}: {reason}") }
            }
            other => other,
        }
    }
}
