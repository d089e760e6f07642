//! Agreement of nodes: keys with versions, leases, watches, elections.
//!
//! [`Coordination`] is the interface. It has two implementations: [`EmbeddedCoordination`], for one node, in
//! a file of its data directory, and [`EtcdCoordination`], for a cluster. The layers above it are the same
//! for both. A [`LeaseKeeper`] keeps itself alive and reports its loss, a [`PrefixWatch`] loses no change
//! however often it has to reconnect, and the winner of an [`Election`] can prove in every transaction that
//! it still leads.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use millrace_coordination::{KeyCondition, Coordination, EmbeddedCoordination, KeyOperation, Transaction};
//!
//! let directory = tempfile::tempdir()?;
//! let coordination: Arc<dyn Coordination> = Arc::new(EmbeddedCoordination::open(directory.path())?);
//! let first = Transaction::new()
//!     .when(KeyCondition::Absent("color".to_owned()))
//!     .then(KeyOperation::put("color", "green"))
//!     .otherwise(KeyOperation::get("color"));
//! assert!(coordination.transact(first.clone()).await?.held);
//! let second = coordination.transact(first).await?;
//! assert!(!second.held);
//! assert_eq!(&*second.entries(0)[0].value, b"green");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! This crate does not know the meaning of the keys. It is not for documents: a value is at most
//! [`VALUE_BYTES_MAX`] long.

mod coordination;
mod election;
mod embedded;
mod error;
mod etcd;
mod lease;
mod transaction;
mod watch;

pub use coordination::{Answer, Coordination, KeyChanges};
pub use election::{Election, Leadership};
pub use embedded::EmbeddedCoordination;
pub use error::Error;
pub use etcd::EtcdCoordination;
pub use lease::LeaseKeeper;
pub use transaction::{
    KeyChange, KeyCondition, KeyEntry, KeyOperation, LeaseId, OPERATIONS_MAX, StoreRevision, Transaction,
    TransactionOutcome, VALUE_BYTES_MAX,
};
pub use watch::PrefixWatch;
