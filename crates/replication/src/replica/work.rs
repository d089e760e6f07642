use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, NodeFailure, NodeKey, NodeResponse, ReplicaContent, ReplicatedRow, ReportedReplica,
};
use millrace_document::{DocumentId, Timestamp};

use super::ReplicaStorage;

/// Storage work that a [`ReplicaKeeper`](super::ReplicaKeeper) requests.
#[derive(Debug, Clone)]
pub enum StorageWork {
    /// Divide the buckets that the state divides, and report the replicas of the buckets that a node owns.
    Owned {
        /// The state.
        state: Arc<ClusterState>,
        /// The owner.
        owner: NodeKey,
        /// See [`ReplicaContent::removals_since`].
        removals_since: Timestamp,
    },
    /// Report the contents of a bucket's replica.
    Info {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// See [`ReplicaContent::removals_since`].
        removals_since: Timestamp,
    },
    /// Make rows durable.
    Apply(Vec<ReplicatedRow>),
    /// Read the newest version of a document.
    Read {
        /// Its bucket.
        bucket: BucketId,
        /// Id of the document.
        id: DocumentId,
    },
    /// Create an incomplete replica if there is none.
    Create(BucketId),
    /// Mark a replica complete if its contents are still as expected.
    Complete {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// Expected contents.
        expected: ReplicaContent,
    },
    /// Delete a replica if its contents are still as expected.
    Delete {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// Expected contents.
        expected: ReplicaContent,
    },
}

impl StorageWork {
    /// Executes it and returns the response. Blocks until it is durable.
    pub fn run(self, storage: &dyn ReplicaStorage) -> NodeResponse {
        match self {
            StorageWork::Owned { state, owner, removals_since } => {
                let wanted = |bucket| state.owner(bucket) == Some(owner);
                // The division comes before any other work by this state on a bucket that it divides: the
                // owner must learn of it first.
                let divided = storage.divide(&state);
                replicas(storage, divided.and_then(|()| storage.replicas(&wanted, removals_since)))
            }
            StorageWork::Info { bucket, removals_since } => {
                let found = storage.replica(bucket, removals_since);
                replicas(storage, found.map(|info| info.map(|info| (bucket, info)).into_iter().collect()))
            }
            StorageWork::Apply(rows) => NodeResponse::Applied(apply(storage, &rows)),
            StorageWork::Read { bucket, id } => match storage.read(bucket, &id) {
                Ok(version) => NodeResponse::Document(version),
                Err(failure) => NodeResponse::Failed(failure),
            },
            StorageWork::Create(bucket) => {
                done(storage.create(bucket, millrace_cluster::ReplicaOrigin::Incomplete))
            }
            StorageWork::Complete { bucket, expected } => {
                done(expect(storage, bucket, expected).and_then(|()| storage.complete(bucket)))
            }
            StorageWork::Delete { bucket, expected } => done(storage.delete(bucket, expected)),
        }
    }
}

fn done(outcome: Result<(), NodeFailure>) -> NodeResponse {
    match outcome {
        Ok(()) => NodeResponse::Done,
        Err(failure) => NodeResponse::Failed(failure),
    }
}

fn replicas(
    storage: &dyn ReplicaStorage,
    found: Result<Vec<(BucketId, ReportedReplica)>, NodeFailure>,
) -> NodeResponse {
    match found {
        Ok(replicas) => NodeResponse::Replicas { replicas, newest: storage.newest() },
        Err(failure) => NodeResponse::Failed(failure),
    }
}

fn expect(
    storage: &dyn ReplicaStorage,
    bucket: BucketId,
    expected: ReplicaContent,
) -> Result<(), NodeFailure> {
    match storage.replica(bucket, expected.removals_since)? {
        None => Err(NodeFailure::NoReplica),
        Some(info) if info.content != expected => Err(storage.fault(bucket).unwrap_or(NodeFailure::Differs)),
        Some(_) => Ok(()),
    }
}

fn apply(storage: &dyn ReplicaStorage, rows: &[ReplicatedRow]) -> Vec<(usize, NodeFailure)> {
    let mut failed = Vec::new();
    let mut indices = Vec::with_capacity(rows.len());
    let mut taken = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let there = match row.origin {
            _ if storage.exists(row.bucket) => Ok(()),
            Some(origin) => storage.create(row.bucket, origin),
            None => Err(NodeFailure::NoReplica),
        };
        match there {
            Ok(()) => {
                indices.push(index);
                taken.push(row);
            }
            Err(failure) => failed.push((index, failure)),
        }
    }
    if !taken.is_empty() {
        let outcomes = indices.into_iter().zip(storage.apply(&taken));
        failed.extend(outcomes.filter_map(|(index, outcome)| Some((index, outcome.err()?))));
    }
    failed
}
