use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, NodeFailure, ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica,
};
use millrace_document::{DocumentId, DocumentVersion, Timestamp};

/// Storage of a node's replicas. Every change is durable when a method returns without an error. All methods
/// may be called from several threads.
pub trait ReplicaStorage {
    /// Makes the parts of divided groups ([`ClusterState::spread`]) replicas of their own from now on. The
    /// contents of a bucket that is divided are divided with it: each part is as complete as the whole was,
    /// and without a replica there is no part. Groups that are divided further already stay so, and a second
    /// call changes nothing.
    ///
    /// # Errors
    /// The division cannot be made durable.
    fn divide(&self, state: &ClusterState) -> Result<(), NodeFailure>;

    /// Returns the replicas of the wanted buckets; see [`ReplicaContent::removals_since`].
    ///
    /// # Errors
    /// They cannot be read.
    fn replicas(
        &self,
        wanted: &dyn Fn(BucketId) -> bool,
        removals_since: Timestamp,
    ) -> Result<Vec<(BucketId, ReportedReplica)>, NodeFailure>;

    /// Returns the replica of one bucket; `None` if there is none. See [`ReplicaContent::removals_since`].
    ///
    /// # Errors
    /// It cannot be read.
    fn replica(
        &self,
        bucket: BucketId,
        removals_since: Timestamp,
    ) -> Result<Option<ReportedReplica>, NodeFailure>;

    /// True if there is a replica; cheap.
    fn exists(&self, bucket: BucketId) -> bool;

    /// Reason for which a replica cannot be read, so that its contents are never as expected; `None`: it can,
    /// or there is none.
    fn fault(&self, _bucket: BucketId) -> Option<NodeFailure> {
        None
    }

    /// Newest timestamp seen in any bucket, including buckets deleted since.
    fn newest(&self) -> Timestamp;

    /// Creates an empty replica; an existing one stays as it is. An incomplete replica is recorded as
    /// incomplete before it has its first row.
    ///
    /// # Errors
    /// It cannot be made durable.
    fn create(&self, bucket: BucketId, origin: ReplicaOrigin) -> Result<(), NodeFailure>;

    /// Applies rows to existing replicas, in any order. The newest of several versions of one document
    /// counts, and the same version again changes nothing. The outcomes are in the order of the rows.
    fn apply(&self, rows: &[&ReplicatedRow]) -> Vec<Result<(), NodeFailure>>;

    /// Reads the newest version of a document that is remembered, which may be a removal; a dropped document
    /// counts as removed at the time of the drop.
    ///
    /// # Errors
    /// There is no replica, or it cannot be read.
    fn read(&self, bucket: BucketId, id: &DocumentId) -> Result<Option<DocumentVersion>, NodeFailure>;

    /// Marks the replica as complete.
    ///
    /// # Errors
    /// There is no replica, or the mark cannot be made durable.
    fn complete(&self, bucket: BucketId) -> Result<(), NodeFailure>;

    /// Deletes a replica if its contents are as expected; succeeds if there is none.
    ///
    /// # Errors
    /// The contents differ, or the deletion cannot be made durable.
    fn delete(&self, bucket: BucketId, expected: ReplicaContent) -> Result<(), NodeFailure>;
}
