//! The indexes of a node: kept beside its documents, fed by its store, read by queries over all groups.
//!
//! The store passes every commit and drop to a feed, before it is acknowledged. A thread takes the
//! changes into the indexes; a query that needs them takes what waits itself first, so it sees every write
//! that was acknowledged before it began. An index that is new, or was open before the process started, reads
//! what it lacks from the store meanwhile: of two versions the newer counts, in whatever order they come.
//! Only an index that has everything is *ready*, and only a ready one is read.
//!
//! In a cluster each node keeps entries for the replicas in its store, and narrows its share of a query by
//! them. Replicas that arrive as segments, or are deleted, pass by the commits: their buckets are *stale*
//! until they were read again, and queries read them as a whole. All that an index would miss after a crash
//! is in a file of notes before it is in the store.

mod adopting;
mod choosing;
mod covering;
mod definition;
mod erasing;
mod feed;
mod following;
mod in_order;
mod notes;
mod opened;
mod placed;
mod rereading;
mod service;
mod stale;
mod status;
mod usage;
mod uses;
mod verify;
mod writing;

#[cfg(test)]
mod tests;

pub(crate) use choosing::IndexPlacing;
pub(crate) use definition::definitions;

pub use covering::CoveringEntries;
pub use definition::IndexDefinition;
pub use following::FollowerSwitch;
pub use in_order::{OrderedEntries, first_entries};
pub use placed::{
    CopyRecords, CopyScan, CopyScanned, KeyedRead, MessageBytes, OwnedDocuments, PlacedAnswer, PlacedIndexes,
    PlacedQuestion, PlacementLinks, PlacementReporter, VersionKeys, WantedIndexes,
};
pub use service::NodeIndexes;
pub use status::{IndexState, IndexStatus};
pub use usage::{CandidateReading, IndexChoice, IndexUse, NarrowedPart, NarrowedScope};
pub use verify::IndexDifferences;
