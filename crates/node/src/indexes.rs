//! The indexes of a node: kept beside its documents, fed by its store, read by queries over all groups.
//!
//! The store passes every commit and drop to a feed, before it is acknowledged. A thread takes the
//! changes into the indexes; a query that needs them takes what waits itself first, so it sees every write
//! that was acknowledged before it began. An index that is new, or was open before the process started, reads
//! what it lacks from the store meanwhile: of two versions the newer counts, in whatever order they come.
//! Only an index that has everything is *ready*, and only a ready one is read.
//!
//! Indexes are kept by a node that runs alone.

mod definition;
mod feed;
mod opened;
mod service;
mod status;
mod usage;
mod verify;

pub(crate) use definition::definitions;
pub(crate) use usage::refuse_in_cluster;

pub use definition::IndexDefinition;
pub use service::NodeIndexes;
pub use status::{IndexState, IndexStatus};
pub use usage::{IndexChoice, IndexUse};
pub use verify::IndexDifferences;
