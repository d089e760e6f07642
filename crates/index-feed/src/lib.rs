//! Feed of placed indexes: changes of documents on their way from the nodes that own their buckets to the
//! copies of indexes on other nodes.
//!
//! A copy *mirrors*, for each bucket of its slice, the replica in the store of the bucket's owner. Every
//! acknowledged write is in that store, and was passed to its [`IndexFeedSource`] before it was acknowledged.
//! The source keeps a bounded queue for each index node, and hands it on in batches. The
//! [`IndexFeedFollower`] of the index node turns batches into effects on its copies, and knows what these
//! have.
//!
//! 1. **Follow first, read after.** The follower asks for buckets; the source answers in the queue
//!    ([`FeedChange::Followed`]) as soon as its replica of a bucket has everything acknowledged. All later
//!    changes of the bucket follow in the queue. Then the copy reads the bucket, page by page. A page takes
//!    its place in the queue ([`FeedChange::Page`]): it says what the store has at that position, also of
//!    documents that were written while it was read.
//! 2. **A page replaces.** A record of the copy that the page does not have goes, or is looked up. So a
//!    version that the store of a former owner had, and no other one, does not stay.
//! 3. **Each copy has a time W for each bucket**: below it, the copy has what all replicas of the bucket
//!    have. W advances only by [`FeedChange::Closed`]: when the owner reported on its buckets
//!    ([`OwnerReport`]), it had no earlier write in flight, none that was given up, and all replicas were
//!    found equal. All other changes of a bucket than new rows (late rows, drops, segments that arrive) take
//!    W back until the next closing: another replica may not have them yet.
//! 4. **Each source has a time of disorder for each bucket**: when its replica changed last other than by
//!    new rows, or became one that its owner counts. A copy that follows reads since W if the disorder is not
//!    after it and W is less than a day ago ([`SINCE_US`]), and else the whole bucket. A node that learns of
//!    its first state, or comes back, has the disorder of that moment in all buckets
//!    ([`IndexFeedSource::adopt`]). So no note has to be durable before a write.
//! 5. **Each copy has a mark of the replica that it follows** ([`ReplicaMark`]), also where W cannot advance
//!    or is before the disorder: while an index is new, after drops, as long as replicas differ. A source
//!    counts its *disturbances*, the changes of its replicas other than by new rows; it says the count with
//!    each closing, and for a bucket the number of its last one when it is followed. A copy that has caught
//!    up has what the replica has at the position of the closing. From then on, until the next disturbance
//!    of the replica, only rows come to it that are not late by the clock of the closing. So a copy reads
//!    since the time of the closing if it follows the same run of the same owner, and the last disturbance
//!    of the bucket was counted before the mark. Marks and files of a copy that moves say the same of the
//!    copy that is made of them. They may be ahead of what that one takes in: it gives a mark up with the
//!    next disturbance that it takes in, until the closing after it.
//!
//! A mark does not hold for another owner, whose replica may differ, nor for another run of the process,
//! which has not seen the changes in between. A node that comes back without a restart counts a disturbance
//! of all buckets. Documents of a bucket that is divided were all in the replica of the whole; of a bucket
//! that was joined, some were not, and marks do not hold.
//!
//! W is a clock reading of an owner, from before it looked at its buckets, less [`MARGIN_US`], and a row
//! counts as late half of that time after its timestamp: so clocks may differ by the other half.
//!
//! The writes of a copy and W are lost together in a crash: [`IndexFeedFollower::marks`] is stored with a
//! flush of the copy, and [`IndexFeedFollower::add_copy`] goes on from there.
//!
//! A query that must see every acknowledged write asks the owners for positions, and the copy compares them
//! with what it has ([`IndexFeedFollower::freshness`]): it says yes, or names the buckets that it cannot
//! answer for.
//!
//! Everything here is values and functions of them: no I/O, no threads, no clock. This crate knows neither
//! stores nor indexes: documents are sort keys, and rows are what the caller makes of them. Simulations have
//! copies as maps, which [`records`] changes by the effects.

mod follower;
mod freshness;
mod message;
mod owner_report;
pub mod records;
mod session;
mod source;

pub use follower::{CopyDefinition, FollowEffect, FollowProgress, IndexFeedFollower};
pub use freshness::CopyFreshness;
pub use message::{
    BatchReceipt, CopyMarks, CopyNumber, FeedBatch, FeedChange, FeedCut, FeedPage, FeedRead, FeedReadScope,
    FeedRow, FollowRequest, FollowSession, OwnerPosition, PageContent, ReplicaMark, SourceRun,
};
pub use owner_report::{OwnedReplicaState, OwnerReport, ReportStart};
pub use source::{AdoptedState, FeedQueueSize, IndexFeedSource};

/// Time by which closings are behind the clock of the owner, in microseconds.
pub const MARGIN_US: u64 = 60_000_000;

/// Age from which a row counts as late, in microseconds.
pub const LATE_US: u64 = MARGIN_US / 2;

/// Age from which W does not count, in microseconds: a copy reads all of a bucket, since owners may have
/// forgotten removals that came after W. They remember them for three days at least.
pub const SINCE_US: u64 = 86_400_000_000;

/// Maximum number of bytes that wait for a follower, or are on their way to it.
pub const QUEUE_BYTES: usize = 64 << 20;

/// Maximum number of changes that wait for a follower, or are on their way to it.
pub const QUEUE_ROWS: usize = 262_144;

/// Bytes of a batch: one change more than fits is not in it.
pub const BATCH_BYTES: usize = 1 << 20;

/// Maximum number of batches on their way to a follower.
pub const BATCHES_IN_FLIGHT: usize = 2;

/// Maximum number of documents that are looked up by one request.
pub const LOOKUP_DOCUMENTS: usize = 1024;
