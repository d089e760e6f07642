//! Interface of a node to its cluster, and routing of requests to the node that can answer them.
//!
//! A request for one document or one group goes to the owner of its bucket: forwarded whole by one hop,
//! unless it arrived there. The owner answers reads itself if it has the whole bucket, and otherwise names
//! the nodes that have: the request then goes to one of them. If no node is known to have everything, because
//! one has come back and is being compared with the others, the owner reads a single document at all of them.
//! A query over several buckets asks the owners for the readers of these buckets, and then asks those nodes,
//! each for its share; see [`crate::search`].
//!
//! A read counts only if nothing has changed meanwhile: see `ReadFence`.
//!
//! This module does not know how a cluster agrees or moves data: the node gets a [`ClusterMember`] and a
//! [`ClusterView`] from the process that runs it.

mod changes;
mod documents;
mod erasures;
mod everyone;
mod forward;
mod group_sizes;
mod indexes;
mod members;
mod pages;
mod placement;
mod readers;
mod route;
mod snapshots;
mod waits;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::{Permit, WantedGroups};
use millrace_bucket::BucketId;
pub use millrace_cluster::reindexing::{BucketHolders, SharedNote};
use millrace_cluster::{ClusterState, ClusterVersion, DropHorizon, DroppedTypes, Incarnation, NodeKey};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, Timestamp};
use millrace_env::LatencyHistogram;
use millrace_index_placement::{PlacementAnswer, PlacementOverview, PlacementRequest};
use millrace_schema::Application;
use millrace_store::{CommittedWrite, DocumentWrite};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use self::changes::{
    ChangeLimits, ConditionalChange, ConditionalEffect, ConflictingState, FailedChange, SettledChange,
    StoredCondition, change_documents, stored_version,
};
pub use self::documents::{
    DocumentsAnswer, DocumentsQuestion, HeldBucket, SentDocument, SentFailure, SentOutcome, SentVersion,
    ask_owners, own_documents, read_bucket,
};
pub use self::erasures::{ErasureQuestion, erasures_of_all, own_erasures};
pub use self::everyone::{ListedAnswer, ListedNode};
pub use self::forward::{
    ForwardAnswer, ForwardKind, ForwardableRequest, NodeAnswer, NodeTransport, OpenedShare, ReadersQuestion,
    ReplicaCompleteness, ShareConversation, ShareStart,
};
pub use self::group_sizes::{
    ClusterGroupSizes, GroupSizesQuestion, WantedSizes, group_sizes, group_sizes_alone, own_group_sizes,
};
pub use self::indexes::{IndexAnswer, IndexName, IndexQuestion, NodeIndexState, indexes_of_all, own_indexes};
pub use self::members::{MemberNode, MemberNodes, MemberRole};
pub use self::pages::{ClusterScan, documents_away};
pub use self::placement::NO_SUCH_BUCKET;
pub(crate) use self::readers::{SilentOwners, readers_of_all};
pub use self::readers::{own_bucket, own_readers};
pub(crate) use self::route::check_held;
pub use self::route::{
    AccessKind, RETRY_PAUSE, ReadFence, RouteBackoff, RouteSubject, RoutingDecision, forward_request,
};
pub use self::snapshots::{
    GroupMoment, ListedSnapshot, SnapshotAnswer, SnapshotQuestion, SnapshotStats, SnapshotVersion,
    SnapshotVersionPage, own_snapshots, snapshots_at, snapshots_of_all,
};
pub(crate) use self::waits::BlockingWaits;
pub use self::waits::wait_for;
pub use crate::metrics::MetricGauge;

/// Node that a request goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeAddress {
    /// This node.
    Local,
    /// Another node.
    Remote(RemoteNode),
}

/// Another node that takes requests from nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteNode {
    /// Its `host:port`.
    pub address: String,
    /// Its run in the cluster state. A process that is not this run, perhaps one of another cluster that has
    /// got the address, does not answer.
    pub incarnation: Incarnation,
    /// Protocol of the cluster state, see [`millrace_cluster::PROTOCOL`].
    pub protocol: u16,
}

impl Display for RemoteNode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Callback for the outcome of a write.
pub type WriteCallback = Box<dyn FnOnce(Result<CommittedWrite, ClusterError>) + Send>;

/// A write of a batch, which a permit covers.
pub struct BatchedWrite {
    write: DocumentWrite,
    done: WriteCallback,
}

impl BatchedWrite {
    /// A write, and the callback for its outcome.
    ///
    /// # Panics
    /// The permit does not cover the document: a request was not checked when it was parsed.
    pub fn new(permit: &Permit, write: DocumentWrite, done: WriteCallback) -> Self {
        let wanted = WantedGroups::These(std::slice::from_ref(write.id.group()));
        assert!(permit.covers(wanted), "a request writes a document that its permit does not cover");
        BatchedWrite { write, done }
    }

    /// A write, and the receiver of its outcome. Who waits may leave; the write stands all the same.
    ///
    /// # Panics
    /// As [`BatchedWrite::new`].
    pub fn awaited(
        permit: &Permit,
        write: DocumentWrite,
    ) -> (Self, oneshot::Receiver<Result<CommittedWrite, ClusterError>>) {
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move |outcome| {
            let _ = sender.send(outcome);
        });
        (BatchedWrite::new(permit, write, done), receiver)
    }

    /// The write, and the callback for its outcome.
    pub fn into_parts(self) -> (DocumentWrite, WriteCallback) {
        (self.write, self.done)
    }
}

/// Callback for the newest version of a document, which may be a removal. The error is the reason for which
/// it is not known now.
pub type ReadCallback = Box<dyn FnOnce(Result<Option<DocumentVersion>, ClusterError>) + Send>;

/// Errors of a node's cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Error of the store, as on a single node; nothing was written.
    #[error(transparent)]
    Store(#[from] millrace_store::Error),
    /// The cluster cannot answer, or cannot take a write, now; nothing was written. A later attempt may
    /// succeed.
    #[error("{0}")]
    Unavailable(String),
    /// A replica has no disk space for the write, and none has taken it.
    #[error("{0}")]
    DiskFull(String),
    /// A replica has no disk space for the write, and others may have taken it: then all will have it.
    #[error("{0}")]
    PartlyFull(String),
    /// A replica could not take the write; others may have.
    #[error("{0}")]
    Failed(String),
    /// Not every replica has confirmed the write: some may have it, and then all will.
    #[error("{0}")]
    Unknown(String),
    /// Another application was published meanwhile.
    #[error("{0}")]
    Conflict(String),
}

/// Nodes that have a bucket. Its serialized form is part of the protocol between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketReaders {
    /// The bucket.
    pub bucket: BucketId,
    /// Nodes that have the whole bucket, the best to ask first; if none has, the one that has most of it.
    /// Empty: there are no documents.
    pub nodes: Vec<NodeKey>,
    /// True if they have all of the bucket, as far as it is on nodes that serve.
    pub full: bool,
    /// True if `full` may become true in a moment, so that a caller that needs everything should wait.
    /// Not sent.
    #[serde(skip)]
    pub soon: bool,
    /// Approximate number of documents.
    pub documents: u64,
}

/// Nodes that own buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerNodes {
    /// Version of the cluster state by which they own them.
    pub version: ClusterVersion,
    /// Requested buckets of each node; `None`: all that it owns.
    pub nodes: Vec<(NodeKey, Option<Vec<BucketId>>)>,
}

/// Callback for the writing of notes: true if they were written. The error is the reason for which this is
/// not known.
pub type NoteCallback = Box<dyn FnOnce(Result<bool, ClusterError>) + Send>;

/// A node as its cluster has it: its key, and the run of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnRun {
    /// Key of the node.
    pub key: NodeKey,
    /// Run of its process, as the cluster state has it.
    pub incarnation: Incarnation,
}

/// The relation of a node to a cluster.
#[derive(Clone, Copy)]
pub enum NodeCluster<'a> {
    /// Running alone.
    Alone,
    /// A member without a part yet: the cluster state does not have this run of its process.
    Joining(&'a Arc<dyn ClusterMember>),
    /// A member with its part.
    Joined(&'a Arc<dyn ClusterMember>, &'a Arc<dyn ClusterView>),
}

impl<'a> NodeCluster<'a> {
    /// True if the node runs alone.
    pub fn is_alone(self) -> bool {
        matches!(self, NodeCluster::Alone)
    }

    /// The membership of the node; `None`: it runs alone.
    pub fn member(self) -> Option<&'a Arc<dyn ClusterMember>> {
        match self {
            NodeCluster::Alone => None,
            NodeCluster::Joining(member) | NodeCluster::Joined(member, _) => Some(member),
        }
    }

    /// The part of the node; `None`: it runs alone.
    ///
    /// # Errors
    /// It has no part yet.
    pub fn view(self) -> Result<Option<&'a dyn ClusterView>, ClusterError> {
        match self {
            NodeCluster::Alone => Ok(None),
            NodeCluster::Joining(_) => {
                Err(ClusterError::unavailable("this node has no part in the cluster yet"))
            }
            NodeCluster::Joined(_, view) => Ok(Some(&**view)),
        }
    }

    /// Checks that the cluster, if any, counts on the node, so that it serves clients as well as any other
    /// does.
    ///
    /// # Errors
    /// It does not: the reason, for people.
    pub fn serves(self) -> Result<(), ClusterError> {
        self.member().map_or(Ok(()), |member| member.serves())?;
        self.view().map(drop)
    }
}

/// The membership of a node in its cluster, also while it has no part there yet. No call here waits, except
/// the future of [`ClusterMember::publish`].
pub trait ClusterMember: Send + Sync + 'static {
    /// Succeeds if this run of the node serves by the cluster state.
    ///
    /// # Errors
    /// It does not serve: the reason, for people.
    fn serves(&self) -> Result<(), ClusterError>;

    /// Advertised `host[:port]` of each node: requests may be addressed to any of them.
    fn advertised(&self) -> Vec<String>;

    /// Nodes of the cluster, as far as this node knows.
    fn nodes(&self) -> MemberNodes;

    /// Shared notes of the nodes by their names, as far as this node has received them.
    fn notes(&self) -> BTreeMap<String, SharedNote>;

    /// Writes notes (`None` deletes one), if the last change of the note `guard` is `changed` (`None`: there
    /// is no such note). When `done` is called, [`ClusterMember::notes`] returns the notes after the
    /// write, if coordination reports them in time. At most 128 notes at a time, of at most 1 MiB together.
    fn note(
        &self,
        guard: &str,
        changed: Option<u64>,
        notes: Vec<(String, Option<Vec<u8>>)>,
        done: NoteCallback,
    );

    /// Makes an application the active one on all nodes, each of which fetches its archive; returns its
    /// generation.
    fn publish<'a>(&'a self, deployment: ClusterDeployment<'a>) -> Published<'a>;

    /// Placed indexes of the cluster, as far as this node has received them.
    fn placement(&self) -> PlacementOverview;

    /// Passes a request about placed indexes to the leader, and waits for its answer.
    fn ask_leader(&self, request: PlacementRequest, timeout: Duration) -> LeaderAnswer<'_>;

    /// Gauges of the membership, for requests for metrics.
    fn gauges(&self) -> Vec<MetricGauge>;
}

/// The cluster, as seen from a node that has a part in it. No call here waits.
pub trait ClusterView: Send + Sync + 'static {
    /// This node.
    fn own(&self) -> OwnRun;

    /// The cluster state that this node knows.
    ///
    /// # Errors
    /// The cluster has no state yet.
    fn state(&self) -> Result<Arc<ClusterState>, ClusterError>;

    /// Address of a node for requests.
    ///
    /// # Errors
    /// The node has not published the address at which it serves documents.
    fn address(&self, node: NodeKey) -> Result<NodeAddress, ClusterError>;

    /// Returns the readers of these buckets, or of all buckets that this node owns, and the version of the
    /// cluster state by which they are. This node owns the buckets, and its cluster state is confirmed. Of
    /// several readers, nodes in the group of `near` come first.
    ///
    /// # Errors
    /// This node does not own them, or does not know their readers yet.
    fn readers(
        &self,
        buckets: Option<&[BucketId]>,
        near: NodeKey,
    ) -> Result<(ClusterVersion, Vec<BucketReaders>), ClusterError>;

    /// Returns the nodes that have a bucket of this node, for reindexing. Unlike that of
    /// [`ClusterView::readers`], the answer includes all serving nodes.
    ///
    /// # Errors
    /// This node does not own it, or not every serving node has reported its replicas.
    fn holders(&self, bucket: BucketId) -> Result<BucketHolders, ClusterError>;

    /// Times of the oldest writes of this node that a replica may lack now, by bucket; 0 for a drop, and
    /// where replicas may differ.
    fn oldest_writes(&self) -> BTreeMap<BucketId, Timestamp>;

    /// True if the cluster state still has this version, and is confirmed: then no other owner has come
    /// between.
    fn confirms(&self, version: ClusterVersion) -> bool;

    /// True if this node has a replica of the bucket, even an empty one.
    fn holds(&self, bucket: BucketId) -> bool;

    /// Reads a document at every replica that may have its newest version: at one, if that is enough. This
    /// node is the owner.
    fn read(&self, id: DocumentId, deadline: Instant, done: ReadCallback);

    /// Writes to all replicas, as [`millrace_store::Store::write`] does to one: one message to each node.
    /// This node is the owner. Puts and removals of one bucket are accepted together or not at all. Each
    /// write has an outcome of its own.
    fn write(&self, writes: Vec<BatchedWrite>, deadline: Instant);

    /// Claims a group, or `part` of it, for a drop: returns the time up to which this node's replica shows
    /// all writes to it.
    ///
    /// # Errors
    /// This node does not own the documents.
    fn drop_horizon(
        &self,
        group: &DocumentGroup,
        part: Option<BucketId>,
    ) -> Result<DropHorizon, ClusterError>;

    /// Waits until this many bytes of copies of indexes may move from or to this node, as replicas do. Called
    /// on a thread that may wait.
    fn pace_transfer(&self, bytes: u64);

    /// Drops a group on all replicas, as [`millrace_store::Store::drop_group_until`] does on one. This node
    /// is the owner. Nothing is dropped if a horizon that it reported no longer holds.
    fn drop_group(&self, dropped: GroupDropRequest, deadline: Instant, done: WriteCallback);

    /// Gauges of this node's part in the cluster, for requests for metrics.
    fn gauges(&self) -> Vec<MetricGauge>;

    /// Times from handing a write to its replicas until enough of them have synced it.
    fn replication_times(&self) -> &LatencyHistogram;
}

/// An application on its way to all nodes of a cluster.
#[derive(Debug)]
pub struct ClusterDeployment<'a> {
    /// The packed files.
    pub archive: Vec<u8>,
    /// Content of the files.
    pub application: &'a Application,
    /// Minimum generation of the application.
    pub generation: u64,
    /// Generation that it was checked against; 0 for none. If another one is active by now, it is refused.
    pub based_on: u64,
    /// Document types that it removes, and those that were removed before as far as this node knows.
    pub dropped: DroppedTypes,
}

/// Future answer of [`ClusterMember::ask_leader`]: the error is the reason for which none came.
pub type LeaderAnswer<'a> = Pin<Box<dyn Future<Output = Result<PlacementAnswer, ClusterError>> + Send + 'a>>;

/// Part of a group to drop.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupDropRequest {
    /// Type of the documents; `None` for all types.
    pub document_type: Option<String>,
    /// The group.
    pub group: DocumentGroup,
    /// Restriction to this bucket, if the group is divided.
    pub part: Option<BucketId>,
    /// Restriction to documents written until then; `None`: all that exist now are dropped.
    pub horizon: Option<DropHorizon>,
}

/// Future answer of [`ClusterMember::publish`]: the error is the reason for which the application is not
/// active.
pub type Published<'a> = Pin<Box<dyn Future<Output = Result<u64, ClusterError>> + Send + 'a>>;

impl ClusterError {
    /// Creates the error of a cluster that cannot answer, or cannot take a write, now.
    pub fn unavailable(reason: &str) -> Self {
        ClusterError::Unavailable(reason.to_owned())
    }
}

impl From<ClusterError> for crate::Error {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Store(error) => error.into(),
            ClusterError::Unavailable(reason) => crate::Error::Unsettled(reason),
            ClusterError::DiskFull(reason) => crate::Error::DiskFull(reason),
            ClusterError::PartlyFull(reason) => crate::Error::PartlyFull(reason),
            ClusterError::Failed(reason) => crate::Error::Internal(reason),
            ClusterError::Unknown(reason) => crate::Error::Unknown(reason),
            ClusterError::Conflict(reason) => crate::Error::Conflict(reason),
        }
    }
}
