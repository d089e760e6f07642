use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use super::{ReindexNotes, ReindexTask, ReindexedApplication};
use crate::{ClusterState, ClusterVersion, NodeKey};

/// Identifies an effect of a [`Reindexer`](super::Reindexer) in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReindexJobId(pub(super) u64);

/// Input of a [`Reindexer`](super::Reindexer).
#[derive(Debug)]
pub enum ReindexEvent {
    /// Cluster state by which this node acts from now on.
    State(Arc<ClusterState>),
    /// Application that is active on this node from now on.
    Application(Arc<ReindexedApplication>),
    /// The shared notes, as this node has received them. They may be old, but are never older than those that
    /// it received before.
    Notes(Arc<ReindexNotes>),
    /// Answer to [`ReindexEffect::Write`].
    Written {
        /// Identifier of the effect.
        job: ReindexJobId,
        /// True if the notes were written, false if the record had changed. The error says that this is not
        /// known: coordination has not answered.
        outcome: Result<bool, ReindexObstacle>,
    },
    /// Answer to [`ReindexEffect::Inspect`].
    Inspected {
        /// Identifier of the effect.
        job: ReindexJobId,
        /// Nodes that have the bucket.
        outcome: Result<BucketHolders, ReindexObstacle>,
    },
    /// Answer to [`ReindexEffect::Walk`].
    Walked {
        /// Identifier of the effect.
        job: ReindexJobId,
        /// The page.
        outcome: Result<WalkedPage, ReindexObstacle>,
    },
}

/// Output of a [`Reindexer`](super::Reindexer): an action for the shell. One at a time: the next effect
/// comes after the answer.
#[derive(Debug)]
pub enum ReindexEffect {
    /// Write notes, if the record still is the one that was read; report with [`ReindexEvent::Written`].
    Write {
        /// Identifier of the effect.
        job: ReindexJobId,
        /// Number of the record's last change ([`ReindexNotes::RECORD`]); `None`: there is none.
        guard: Option<u64>,
        /// Names of the notes with their contents; `None` deletes one.
        notes: Vec<(String, Option<Vec<u8>>)>,
    },
    /// Ask the distributor of this node for the nodes that have a bucket; report with
    /// [`ReindexEvent::Inspected`].
    Inspect {
        /// Identifier of the effect.
        job: ReindexJobId,
        /// The bucket.
        bucket: BucketId,
    },
    /// Process the next page of a bucket's documents; report with [`ReindexEvent::Walked`].
    Walk {
        /// Identifier of the effect.
        job: ReindexJobId,
        /// The page.
        walk: ReindexWalk,
    },
}

/// A page to process: documents of one type in one bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct ReindexWalk {
    /// Document type, and its reindexing.
    pub task: ReindexTask,
    /// The bucket.
    pub bucket: BucketId,
    /// Position in the bucket; `None`: its beginning.
    pub position: Option<String>,
    /// Version of the cluster state by which this node owns the bucket.
    pub version: ClusterVersion,
    /// Time that its documents are not rewritten after.
    pub until: Timestamp,
}

/// Nodes that have a bucket, as its owner knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketHolders {
    /// Version of the cluster state by which they have it.
    pub version: ClusterVersion,
    /// The nodes; empty if there are no documents.
    pub nodes: Vec<NodeKey>,
    /// True if each of them has all documents of the bucket that are on serving nodes.
    pub full: bool,
    /// The newest timestamp that the owner has assigned or seen.
    pub newest: Timestamp,
}

/// A page that was processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedPage {
    /// Position of the next page; `None`: it was the last one.
    pub position: Option<String>,
    /// True if this node has had a replica of the bucket to the end.
    pub holds: bool,
    /// True if the cluster state still had the version of the walk after that, and was confirmed.
    pub confirmed: bool,
}

/// Reason for which an action of the shell has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReindexObstacle {
    /// A retry may succeed in a moment.
    Passing,
    /// A document cannot be processed, or the store fails: the reason is for operators.
    Lasting(String),
}
