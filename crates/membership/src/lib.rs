//! Being a node of a cluster.
//!
//! A node that [joins](Membership::join) registers under its name, bound to a lease; follows the cluster
//! state, which stays known while coordination cannot be reached, and over restarts; and, where its roles say
//! so, runs for election and publishes cluster states while it leads. Application packages travel the same
//! way: whoever is given one [publishes](Membership::publish) it, and every node sees that there is a newer
//! one and fetches it.
//!
//! [`rest`] shows the cluster in the form of Vespa's `cluster/v2`, and takes what operators wish.
//! [`NodeFigures`] is the form in which a node tells how its data moves.
//!
//! This crate does not know what is in a package or a bucket, and sends nothing to other nodes: all of it
//! goes through coordination.

mod absence;
mod error;
mod figures;
mod kept;
mod keys;
mod leader;
mod member;
mod membership;
mod notes;
mod packages;
mod picture;
pub mod rest;
mod settings;
mod standing;

pub use error::Error;
pub use figures::{BucketFigures, IdealFigures, NodeFigures, OperationFigures, PaceFigures, TransferFigures};
pub use kept::resident;
pub use membership::{ClusterMembership, ConfirmedState};
pub use notes::NodeNote;
pub use packages::{PACKAGE_BYTES_MAX, PackagePublication, PublishedPackage};
pub use picture::{CoordinationPicture, RegisteredNode, WishRecord};
pub use settings::{NodeRole, Settings};
