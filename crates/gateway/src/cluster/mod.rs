//! What a gateway asks of the cluster that its node is one of, and how a request finds the node that can answer it.
//!
//! A request for one document or one group goes to the owner of its bucket: by one hop, whole, unless it came there. The owner
//! answers reads itself where it has all of the bucket, and else hands them on to a node that has. A query over several owners'
//! buckets is asked of each; see `search_api::spread`.
//!
//! Nothing here knows how a cluster agrees or moves data: a [`Cluster`] is told to the node by whoever runs it.

mod forward;
mod hop;
mod route;

use std::time::Instant;

use millrace_bucket::BucketId;
use millrace_document::{Group, Location};
use millrace_store::{Write, Written};

pub(crate) use self::forward::{Forwarded, Forwarder};
pub(crate) use self::hop::{Hop, is_unsettled, unsettled};
pub(crate) use self::route::{Access, hand_on};

/// A node that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// This one.
    Here,
    /// The one whose data port is at this `host:port`.
    At(String),
}

/// What is called with the outcome of a write.
pub type Done = Box<dyn FnOnce(Result<Written, WriteError>) + Send>;

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
    /// Not every replica has said that it has the write: some may have it, and then all will.
    #[error("{0}")]
    Unknown(String),
}

/// The cluster, as seen from one of its nodes. Nothing here waits.
pub trait Cluster: Send + Sync + 'static {
    /// Which node orders the writes of documents at this location. An error says why none does now.
    ///
    /// # Errors
    /// No node serves, or this one is cut off.
    fn owner(&self, location: Location) -> Result<Place, String>;

    /// Nodes that have all documents at this location, the best to ask first. Known to the location's owner.
    ///
    /// # Errors
    /// No such node serves now, or this one is not the owner.
    fn readers(&self, location: Location) -> Result<Vec<Place>, String>;

    /// Every node that may own buckets, and the version of the cluster state in which they do.
    ///
    /// # Errors
    /// No node serves, or this one is cut off.
    fn owners(&self) -> Result<(u64, Vec<Place>), String>;

    /// The buckets that this node owns in that version, by the node that they are to be read at.
    ///
    /// # Errors
    /// The cluster state has another version by now, or a bucket cannot be read anywhere.
    fn owned(&self, version: u64) -> Result<Vec<(Place, Vec<BucketId>)>, String>;

    /// The bucket of this location.
    fn bucket(&self, location: Location) -> BucketId;

    /// Writes to all replicas, as [`millrace_store::Store::write`] does to one. This node is the owner.
    fn write(&self, write: Write, deadline: Instant, done: Done);

    /// Drops a group on all replicas, as [`millrace_store::Store::drop_group`] does on one. This node is the owner.
    fn drop_group(&self, document_type: Option<&str>, group: &Group, deadline: Instant, done: Done);
}

impl From<WriteError> for crate::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Store(error) => error.into(),
            WriteError::Unavailable(reason) => crate::Error::Unsettled(reason),
            WriteError::Unknown(reason) => crate::Error::Unknown(reason),
        }
    }
}
