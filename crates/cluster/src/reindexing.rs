//! Reindexing: stored documents run through the indexing statements of the active application again. In a
//! cluster each node does the buckets that it owns, as their owner.
//!
//! 1. The nodes share *notes* in coordination. One, the [`ReindexRecord`], lists what is to be reindexed: the
//!    node that receives a request changes it, if it is still as read. Each node that reindexes writes a
//!    [`NodeReindexMark`] of its progress for each type. It writes it only while the record is the one that
//!    it acts by, so that no mark outlives its reindexing.
//! 2. A node processes the documents of a bucket page by page, while it owns the bucket and has all of it.
//!    Each document that the statements change is written like any other, if it still has the version that
//!    was read. A page counts only if the node owned and had the bucket all the while: otherwise it is done
//!    again, here or by the next owner.
//! 3. When the cluster state changes, the node determines again what it owns; work that others have done
//!    already is not repeated. It stores its mark before it changes anything by the new state: the previous
//!    owner may have followed a newer record, and this one must be known to be the newest.
//! 4. When everything that it owns by a state is done, its mark says so. When all serving nodes say so for
//!    the current state, everything is done: every bucket has an owner.
//! 5. A node rewrites no document under a later time than its stored mark says ([`ReindexWalk::until`]). So a
//!    node that removes a document type halts its reindexing in the record, after which no mark is stored for
//!    it. Then it removes the type as of the latest of these times ([`ReindexNotes::rewritten_until`]). The
//!    removal reaches all rewrites, also those of nodes that learn of it later.
//!
//! Nothing is done while a node is absent: it may have the only copy of a document, or of its newest version,
//! and an older one that is written again would become the newest. Nor does a node that does not have the
//! newest application do anything.
//!
//! [`Reindexer`] decides all of this for one node, without I/O, threads or a clock. A shell drives it so:
//!
//! ```
//! # use std::time::Duration;
//! use millrace_cluster::reindexing::{ReindexEffect, Reindexer};
//! use millrace_cluster::{MachineTime, NodeKey};
//!
//! # let now = MachineTime { monotonic: Duration::ZERO, wall_us: 0 };
//! let mut reindexer = Reindexer::new(NodeKey(0));
//! let mut effects = Vec::new();
//! // With ReindexEvent::State, Application and Notes whenever there are new ones, and with the answers.
//! reindexer.handle(now, Vec::new(), &mut effects);
//! for effect in effects.drain(..) {
//!     match effect {
//!         // To coordination; answered by ReindexEvent::Written.
//!         ReindexEffect::Write { job, guard, notes } => {}
//!         // To the distributor of this node; answered by ReindexEvent::Inspected.
//!         ReindexEffect::Inspect { job, bucket } => {}
//!         // On a thread that may block; answered by ReindexEvent::Walked.
//!         ReindexEffect::Walk { job, walk } => {}
//!     }
//! }
//! // Again at this time, or when there are events.
//! let wake = reindexer.next_wake();
//! # let _ = wake;
//! ```
//!
//! A node without a cluster does not use it: there is nothing to agree on, no owner changes, and its store is
//! one pass from its first document to its last. It keeps the same [`ReindexedTypes`], with the position, in
//! a file.

mod buckets;
mod event;
mod machine;
mod notes;
mod pass;
mod status;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use buckets::ReindexedBuckets;
pub use event::{
    BucketHolders, ReindexEffect, ReindexEvent, ReindexJobId, ReindexObstacle, ReindexWalk, WalkedPage,
};
pub use machine::Reindexer;
pub use notes::{NodeReindexMark, ReindexNotes, ReindexRecord, SharedNote};
pub use status::{ReindexFailure, ReindexReady, ReindexRun, ReindexState, ReindexStatus, ReindexStep};
pub use types::ReindexedTypes;

/// Delay before a failed step is retried, in milliseconds.
pub const GRACE_MS: u64 = 180_000;

/// Document types by content cluster.
pub type ChosenTypes = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// A document type that is being reindexed.
#[derive(Debug, Clone, PartialEq)]
pub struct ReindexTask {
    /// Content cluster.
    pub cluster: Arc<str>,
    /// Document type.
    pub document_type: Arc<str>,
    /// Position at which a single node continues; `None`: at the beginning.
    pub position: Option<String>,
    /// Speed, relative to the default.
    pub speed: f64,
    /// Time of the mark, in milliseconds; distinguishes successive reindexings of a type.
    pub ready_ms: u64,
}

/// The application that a node has active, as far as reindexing depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReindexedApplication {
    /// Its generation.
    pub generation: u64,
    /// Generation of the application that it replaced on this node.
    pub based_on: u64,
    /// Document types of each content cluster.
    pub types: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Types whose indexing statements differ from those of the application that it replaced.
    pub changed: ChosenTypes,
}

impl ReindexedApplication {
    /// True if it has a document type in a content cluster.
    pub fn has(&self, cluster: &str, document_type: &str) -> bool {
        self.types.get(cluster).is_some_and(|types| types.contains(document_type))
    }
}
