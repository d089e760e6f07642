use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Timestamp, Version};

use crate::{Birth, ClusterState, Content, Failure, ReplicaInfo, Row};

/// Where a node's replicas lie. What returns without an error is durable. All of it may be called from several threads.
pub trait Storage {
    /// From now on the parts of divided groups ([`ClusterState::spread`]) are replicas of their own. What is there of a bucket that is divided is
    /// divided with it: each part is as complete as the whole was, and where there was no replica there is none. Groups that are divided further
    /// already stay so, and a second call changes nothing.
    ///
    /// # Errors
    /// That cannot be made durable.
    fn divide(&self, state: &ClusterState) -> Result<(), Failure>;

    /// The replicas of the buckets that are wanted; see [`Content::removals_since`].
    ///
    /// # Errors
    /// They cannot be read.
    fn replicas(
        &self,
        wanted: &dyn Fn(BucketId) -> bool,
        removals_since: Timestamp,
    ) -> Result<Vec<(BucketId, ReplicaInfo)>, Failure>;

    /// The replica of one bucket; `None` where there is none. See [`Content::removals_since`].
    ///
    /// # Errors
    /// It cannot be read.
    fn replica(&self, bucket: BucketId, removals_since: Timestamp) -> Result<Option<ReplicaInfo>, Failure>;

    /// Whether there is a replica; cheap.
    fn exists(&self, bucket: BucketId) -> bool;

    /// The newest timestamp seen in any bucket, one that was deleted since among them.
    fn newest(&self) -> Timestamp;

    /// Makes an empty replica; one that is there stays as it is. An incomplete one is known to be that before it has its first row.
    ///
    /// # Errors
    /// It cannot be made durable.
    fn create(&self, bucket: BucketId, birth: Birth) -> Result<(), Failure>;

    /// Takes rows into replicas that exist, in any order; of versions of one document the newest counts, and the same one again
    /// changes nothing. The outcomes are in the order of the rows.
    fn apply(&self, rows: &[&Row]) -> Vec<Result<(), Failure>>;

    /// The newest version of a document that is remembered, and be it a removal; one that was dropped with others counts as removed
    /// at the time of the drop.
    ///
    /// # Errors
    /// There is no replica, or it cannot be read.
    fn read(&self, bucket: BucketId, id: &DocumentId) -> Result<Option<Version>, Failure>;

    /// The replica lacks nothing any more.
    ///
    /// # Errors
    /// There is no replica, or that cannot be made durable.
    fn complete(&self, bucket: BucketId) -> Result<(), Failure>;

    /// Deletes a replica, if it is this still; fine if there is none.
    ///
    /// # Errors
    /// It holds something else; that cannot be made durable.
    fn delete(&self, bucket: BucketId, expected: Content) -> Result<(), Failure>;
}
