//! What a gateway asks of the cluster that its node is one of, and how a request finds the node that can
//! answer it.
//!
//! A request for one document or one group goes to the owner of its bucket: by one hop, whole, unless it came
//! there. The owner answers reads itself where it has all of the bucket, and else names the nodes that have:
//! one of them is asked then. Where none is known to have all, because one has come back and is being
//! compared with the others, the owner reads a single document at all of them. A query over several buckets
//! asks their owners who has them, and then those nodes, each for its share; see `search_api::spread`.
//!
//! What was read counts only if nothing has changed meanwhile: see `Vouch`.
//!
//! Nothing here knows how a cluster agrees or moves data: a [`ClusterView`] is told to the node by whoever
//! runs it.

mod encrypted;
mod forward;
mod hop;
mod readers;
mod route;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use millrace_bucket::BucketId;
use millrace_cluster::distributor::DropHorizon;
use millrace_cluster::{DroppedTypes, NodeKey};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, Location};
use millrace_schema::Application;
use millrace_store::{CommittedWrite, DocumentWrite};

pub(crate) use self::forward::{ForwardedRequest, NodeForwarder};
pub(crate) use self::hop::{ForwardKind, HOP, HasAll, is_unsettled, unsettled};
pub(crate) use self::readers::{READERS_PATH, bucket_of, parts_of, readers_of_all, tell_readers};
pub(crate) use self::route::{
    AccessKind, PATIENCE, ReadFence, RouteBackoff, RouteSubject, RoutingDecision, check_held, hand_on,
};
pub use crate::metrics::MetricGauge;

/// A node that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeAddress {
    /// This one.
    Here,
    /// The one that takes requests from other nodes at this `host:port`.
    At(String),
}

/// What is called with the outcome of a write.
pub type Done = Box<dyn FnOnce(Result<CommittedWrite, WriteError>) + Send>;

/// What is called with what was read: the newest version, which may be a removal. An error says why that is
/// not known now.
pub type ReadDone = Box<dyn FnOnce(Result<Option<DocumentVersion>, String>) + Send>;

/// Why a write through the cluster failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// As on one node; nothing was written.
    #[error(transparent)]
    Store(#[from] millrace_store::Error),
    /// The cluster cannot take the write now. Nothing was written.
    #[error("{0}")]
    Unavailable(String),
    /// A replica has no room for it; others may have taken it.
    #[error("{0}")]
    DiskFull(String),
    /// A replica could not take it; others may have.
    #[error("{0}")]
    Failed(String),
    /// Not every replica has said that it has the write: some may have it, and then all will.
    #[error("{0}")]
    Unknown(String),
}

/// Nodes that have a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketReaders {
    /// Which bucket.
    pub bucket: BucketId,
    /// Each has all of it, the best to ask first; where none has all, the one that has most. Empty: there are
    /// no documents.
    pub nodes: Vec<NodeKey>,
    /// Whether they have all of it, as far as nodes that serve have it.
    pub full: bool,
    /// Whether that may be so in a moment, so that who needs all should wait.
    pub soon: bool,
    /// About how many documents there are.
    pub documents: u64,
}

/// Nodes that own buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerNodes {
    /// The version of the cluster state by which they do.
    pub version: u64,
    /// For each node its buckets of those that were asked for; `None`: all that it owns.
    pub nodes: Vec<(NodeKey, Option<Vec<BucketId>>)>,
}

/// Which documents are on nodes that serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentReach {
    /// All: no node is away.
    All,
    /// Fewer nodes are away than each document has replicas: all but those that were written while other
    /// nodes were.
    Most,
    /// There may be any that are on nodes alone that are away.
    Some,
}

/// What the nodes of a cluster share besides documents, under its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedNote {
    /// What it says.
    pub value: Arc<[u8]>,
    /// Tells one writing of it from the next.
    pub changed: u64,
}

/// What is called when notes are written: whether they were. An error says why that is not known.
pub type Noted = Box<dyn FnOnce(Result<bool, String>) + Send>;

/// The cluster, as seen from one of its nodes. Nothing here waits but [`ClusterView::publish`], whose answer
/// is to come.
pub trait ClusterView: Send + Sync + 'static {
    /// Whether the cluster counts on this node, so that clients may as well come here as to others.
    ///
    /// # Errors
    /// It does not: why, for people.
    fn serves(&self) -> Result<(), String>;

    /// This node.
    ///
    /// # Errors
    /// It has no part in the cluster yet.
    fn me(&self) -> Result<NodeKey, String>;

    /// Where a node is asked.
    ///
    /// # Errors
    /// It has not said where it serves documents.
    fn place(&self, node: NodeKey) -> Result<NodeAddress, String>;

    /// The `host[:port]` at which each node says that it is reached: requests may be addressed to any of
    /// them.
    fn advertised(&self) -> Vec<String> {
        Vec::new()
    }

    /// Which node orders the writes of documents at this location. An error says why none does now.
    ///
    /// # Errors
    /// No node serves, or this one is cut off.
    fn owner(&self, location: Location) -> Result<NodeAddress, String>;

    /// Which node orders the writes of what is in this bucket. Not every location with its bits is: groups
    /// among them can be divided.
    ///
    /// # Errors
    /// As those of [`ClusterView::owner`]; the cluster state has no such bucket.
    fn owner_of(&self, bucket: BucketId) -> Result<NodeAddress, String>;

    /// The nodes that own the buckets of these groups, or all buckets.
    ///
    /// # Errors
    /// No node serves, or this one is cut off.
    fn owners(&self, groups: Option<&[DocumentGroup]>) -> Result<OwnerNodes, String>;

    /// Who has these buckets, or all those that this node owns; this node owns them, and its cluster state is
    /// confirmed. Of several, nodes in the group of `near` come first. With the version of the cluster state
    /// by which it is so.
    ///
    /// # Errors
    /// This node does not own them, or does not know yet who has them.
    fn readers(
        &self,
        buckets: Option<&[BucketId]>,
        near: NodeKey,
    ) -> Result<(u64, Vec<BucketReaders>), String>;

    /// The nodes that should have a bucket, but for its owner. Whether they have all of it, only the owner
    /// knows.
    ///
    /// # Errors
    /// The cluster has no state yet.
    fn replicas(&self, bucket: BucketId) -> Result<Vec<NodeKey>, String>;

    /// Whether the cluster state still has this version, and is confirmed: then no owner has come between.
    fn vouches(&self, version: u64) -> bool;

    /// Whether this node has something of a bucket, be it an empty replica.
    fn holds(&self, bucket: BucketId) -> bool;

    /// The bucket of this location.
    ///
    /// # Errors
    /// The cluster has no state yet.
    fn bucket(&self, location: Location) -> Result<BucketId, String>;

    /// The buckets that a group's documents are in: several where it is divided; none in particular where
    /// there is no group.
    ///
    /// # Errors
    /// The cluster has no state yet.
    fn buckets_of(&self, group: &DocumentGroup) -> Result<Vec<BucketId>, String>;

    /// All buckets: how many bits those use that are of no divided group, and the buckets of divided groups.
    /// What is in these is in no other.
    ///
    /// # Errors
    /// The cluster has no state yet.
    fn buckets(&self) -> Result<(u8, Vec<BucketId>), String>;

    /// Which documents are on nodes that serve.
    ///
    /// # Errors
    /// The cluster has no state yet.
    fn reach(&self) -> Result<DocumentReach, String>;

    /// The notes that nodes share, by their names, as far as this node has heard of them.
    fn notes(&self) -> BTreeMap<String, SharedNote>;

    /// Writes notes (`None` deletes one), if the one called `guard` was last changed then (`None`: there is
    /// none of the name). When `done` is called, [`ClusterView::notes`] are those after it, where
    /// coordination tells of them in time. At most 128 at a time, of at most 1 MiB together.
    fn note(&self, guard: (&str, Option<u64>), notes: Vec<(String, Option<Vec<u8>>)>, done: Noted);

    /// What this node's part in the cluster counts, for those who ask for metrics.
    fn gauges(&self) -> Vec<MetricGauge>;

    /// Reads a document at every replica that may have its newest version: at one, where that is enough. This
    /// node is the owner.
    fn read(&self, id: DocumentId, deadline: Instant, done: ReadDone);

    /// Writes to all replicas, as [`millrace_store::Store::write`] does to one. This node is the owner.
    fn write(&self, write: DocumentWrite, deadline: Instant, done: Done);

    /// The time up to which this node's replica shows all that was written to a group, or to what is in
    /// `part` of it.
    ///
    /// # Errors
    /// This node does not own the documents.
    fn drop_horizon(&self, group: &DocumentGroup, part: Option<BucketId>) -> Result<DropHorizon, String>;

    /// Drops a group on all replicas, as [`millrace_store::Store::drop_group_until`] does on one. This node
    /// is the owner, and what it has said of the horizon still holds, or nothing is dropped.
    fn drop_group(&self, dropped: DroppedGroup, deadline: Instant, done: Done);

    /// Makes an application the active one on all nodes, each of which fetches its archive; answers its
    /// generation.
    fn publish<'a>(&'a self, deployment: ClusterDeployment<'a>) -> Published<'a>;
}

/// An application on its way to all nodes of a cluster.
#[derive(Debug)]
pub struct ClusterDeployment<'a> {
    /// The packed files.
    pub archive: Vec<u8>,
    /// What they say.
    pub application: &'a Application,
    /// The lowest generation it may get.
    pub generation: u64,
    /// The generation it was checked against; 0 for none. If another one is active by now, it is refused.
    pub based_on: u64,
    /// The document types it removes, and those this node knows to have been removed before.
    pub dropped: DroppedTypes,
}

/// What is dropped of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct DroppedGroup {
    /// The type of the documents.
    pub document_type: String,
    /// The group.
    pub group: DocumentGroup,
    /// Only what is in this bucket, where the group is divided.
    pub part: Option<BucketId>,
    /// Only what was written until then.
    pub horizon: DropHorizon,
}

/// The answer to [`ClusterView::publish`], to come: an error says why the application is not the active one.
pub type Published<'a> = Pin<Box<dyn Future<Output = Result<u64, crate::Error>> + Send + 'a>>;

impl From<WriteError> for crate::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => error.into(),
            WriteError::Unavailable(reason) => crate::Error::Unsettled(reason),
            WriteError::DiskFull(reason) => crate::Error::DiskFull(reason),
            WriteError::Failed(reason) => crate::Error::Internal(reason),
            WriteError::Unknown(reason) => crate::Error::Unknown(reason),
        }
    }
}
