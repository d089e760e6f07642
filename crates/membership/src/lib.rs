//! Membership of a node in a cluster.
//!
//! A node that [joins](ClusterMembership::join) registers under its name, bound to a lease. It follows the
//! cluster state, which stays known while coordination is unreachable, and over restarts. If it has the role,
//! it runs for election and publishes cluster states while it leads. Application packages take the same path:
//! the node that receives one [publishes](ClusterMembership::publish) it, and every node notices the newer
//! one and fetches it.
//!
//! The table of copies of placed indexes takes the same path: the leader plans it with
//! `millrace_index_placement`, from the nodes, their reports, the declared indexes and the requests of
//! operators, and every node follows it.
//!
//! [`rest`] shows the cluster in the form of Vespa's `cluster/v2`, and accepts the states that operators
//! request for nodes. [`NodeStats`] is the form in which a node reports its data movement.
//!
//! This crate does not know the contents of a package or a bucket, and sends nothing to other nodes:
//! everything goes through coordination.

mod absence;
mod error;
mod kept;
mod keys;
mod leader;
mod member;
mod membership;
mod notes;
mod packages;
mod placement;
pub mod rest;
mod settings;
mod snapshot;
mod stats;
mod status;

pub use error::Error;
pub use kept::{kept_protocol, resident};
pub use membership::{ClusterMembership, ConfirmedState};
pub use notes::NodeNote;
pub use packages::{PACKAGE_BYTES_MAX, PackagePublication, PublishedPackage};
pub use placement::DeclaredIndexes;
pub use settings::{NodeRole, Settings};
pub use snapshot::{CoordinationSnapshot, RegisteredNode, RequestedStateRecord};
pub use stats::{BucketStats, IdealStateStats, NodeStats, OperationStats, TransferRateStats, TransferStats};
pub use status::NotServing;
