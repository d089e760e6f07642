//! What the owner of a bucket and the nodes with its replicas say to each other, as values. How they travel is not known here.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Drop, Timestamp, Version};

use crate::NodeKey;
use crate::distributor::Unfinished;

/// What comes with every request, so that the receiver can tell a request that still counts from one that does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Who asks.
    pub from: NodeKey,
    /// The version of the cluster state that the sender acts by. A receiver with a newer one refuses; one with an older one
    /// fetches the newer one first.
    pub version: u64,
    /// Ascends with every request of the sender.
    pub number: u64,
    /// Requests of this sender and version with lower numbers were given up: from now on the receiver refuses them, so that
    /// none of them can take effect late.
    pub void_below: u64,
}

/// What a replica holds: equal contents have equal values, however they are laid out in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Content {
    /// Documents that are there.
    pub documents: u64,
    /// Of the ids and timestamps of the newest versions, and of removals and drops that are remembered.
    pub checksum: u64,
    /// Removals and drops count only from this time on, or somewhat before: not every node may remember older ones. The owner chooses it, so that
    /// all are asked for the same.
    pub removals_since: Timestamp,
}

/// What a node says of its replica of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaInfo {
    /// What it holds.
    pub content: Content,
    /// Whether it was filled: it holds all that the bucket held when it was made.
    pub complete: bool,
    /// The newest timestamp in it.
    pub newest: Timestamp,
}

/// How a replica begins that is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Birth {
    /// The bucket is new: there is nothing that it could lack.
    Complete,
    /// There are others that it has to be filled from.
    Incomplete,
}

/// What a row says.
#[derive(Debug, Clone, PartialEq)]
pub enum RowContent {
    /// A version of a document.
    Version(Version),
    /// Documents that are dropped as a whole.
    Drop(Drop),
}

impl RowContent {
    /// Its timestamp.
    pub fn timestamp(&self) -> Timestamp {
        match self {
            RowContent::Version(version) => version.timestamp,
            RowContent::Drop(drop) => drop.timestamp,
        }
    }

    /// About how many bytes it takes to hold it.
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

/// A row on its way to a replica.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The bucket that it belongs to.
    pub bucket: BucketId,
    /// What it says; shared by the rows for all replicas.
    pub content: Arc<RowContent>,
    /// How the replica begins if it is not there; without this, such a row is refused.
    pub birth: Option<Birth>,
}

/// How a replica takes over what another one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pull {
    /// All of it, as files: there is nothing, or little, yet.
    Whole,
    /// Only what is missing or older here, found by comparing lists of ids and timestamps.
    Missing,
}

/// What the owner of a bucket asks of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Are you there, and at this version?
    Ping,
    /// Which replicas of buckets that I own do you have? The answer counts what was taken on before, and nothing later. It is
    /// what hands the buckets over: who has answered refuses the owner before.
    Owned {
        /// As [`Content::removals_since`].
        removals_since: Timestamp,
    },
    /// What does your replica of this bucket hold? As [`Request::Owned`], for one.
    Info {
        /// Which bucket.
        bucket: BucketId,
        /// As [`Content::removals_since`].
        removals_since: Timestamp,
    },
    /// Make these durable.
    Apply(Vec<Row>),
    /// The newest version of a document, and be it a removal.
    Read {
        /// Its bucket.
        bucket: BucketId,
        /// Which document.
        id: DocumentId,
    },
    /// Have a replica of this bucket; where there is none yet, an empty, incomplete one.
    Create(BucketId),
    /// Take over what another node's replica has; answered when that is done.
    Pull {
        /// Of which bucket.
        bucket: BucketId,
        /// From whom.
        from: NodeKey,
        /// How.
        pull: Pull,
    },
    /// Your replica of this bucket lacks nothing any more, if it is still this.
    Complete {
        /// Of which bucket.
        bucket: BucketId,
        /// What it holds.
        expected: Content,
    },
    /// Delete your replica of this bucket, if it is still this.
    Delete {
        /// Of which bucket.
        bucket: BucketId,
        /// What it holds.
        expected: Content,
    },
    /// You own the bucket now: end what I began as its owner, see [`Change::Finish`](crate::distributor::Change::Finish). This one is for the
    /// distributor of the node; a keeper refuses it.
    Finish(Unfinished),
}

impl Request {
    /// Whether it can take long. Such a request is asked again now and then, and joins the one that runs.
    pub fn is_long(&self) -> bool {
        matches!(self, Request::Pull { .. })
    }
}

/// An answer, and the version of the cluster state by which it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The version that the answering node has.
    pub version: u64,
    /// What it says.
    pub response: Response,
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// It did not look at the request.
    Refused(Refused),
    /// To [`Request::Ping`].
    Here {
        /// Whether this confirms the state of who asked: only where coordination has been silent for a while.
        votes: bool,
    },
    /// To [`Request::Owned`] and [`Request::Info`]: the replicas there are.
    Replicas {
        /// By their buckets.
        replicas: Vec<(BucketId, ReplicaInfo)>,
        /// The newest timestamp that the node has seen in any bucket.
        newest: Timestamp,
    },
    /// To [`Request::Apply`]: all rows are durable but for these, by their places in the request.
    Applied(Vec<(usize, Failure)>),
    /// To [`Request::Finish`]: it is durable on so many replicas.
    Finished(u16),
    /// To [`Request::Read`]: the newest version that is remembered.
    Document(Option<Version>),
    /// It is done, and durable.
    Done,
    /// It was not done.
    Failed(Failure),
}

/// Why a node does not look at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The request was sent by an older cluster state: fetch the newer one, then ask again.
    Stale,
    /// The request was given up by its sender: see [`Fence::void_below`].
    Void,
    /// The sender does not own the bucket, by the state that both have.
    NotOwner,
    /// The node takes no part in this cluster state: it was started again since, or the state names it down.
    Absent,
    /// Something that must not be disturbed is under way; ask again shortly.
    Busy,
    /// The node does not know such a request: it runs an older version, and there will be a state by which it is not asked for this.
    Unknown,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no replica of the bucket.
    #[error("the node has no replica of the bucket")]
    NoReplica,
    /// The replica holds something else than was expected.
    #[error("the replica has changed")]
    Differs,
    /// The disk is full.
    #[error("{reason}")]
    DiskFull {
        /// Which disk, and what to do.
        reason: String,
    },
    /// Too much is under way; again shortly.
    #[error("the node has too much to do")]
    Overloaded,
    /// It was ended because the cluster state changed.
    #[error("the cluster state changed meanwhile")]
    Interrupted,
    /// Something else.
    #[error("{reason}")]
    Storage {
        /// What the storage said.
        reason: String,
    },
}

impl Failure {
    /// The same, of a node that is named.
    pub(crate) fn of(self, node: &str) -> Self {
        match self {
            Failure::DiskFull { reason } => Failure::DiskFull { reason: format!("node {node}: {reason}") },
            Failure::Storage { reason } => Failure::Storage { reason: format!("node {node}: {reason}") },
            other => other,
        }
    }
}
