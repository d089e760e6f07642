//! Storage of replicas in the store.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;

use millrace_bucket::{BucketId, DividedGroup};
use millrace_cluster::{
    ClusterState, NodeFailure, ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica, RowContent,
};
use millrace_document::{DocumentId, DocumentVersion, Timestamp};
use millrace_replication::replica::ReplicaStorage;
use millrace_store::{Error, Store, StoredReplica};

/// Replicas of a store.
pub(crate) struct StoreReplicas {
    store: Store,
    /// Number of bits of the cluster's buckets; 0 before it is known.
    bits: AtomicU8,
}

impl StoreReplicas {
    pub(crate) fn new(store: Store) -> Self {
        StoreReplicas { store, bits: AtomicU8::new(0) }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Adopts the contents of the store as replicas of the cluster's buckets, which have this number of bits.
    /// Contents of a bucket without a replica are from before the store joined a cluster, and complete; from
    /// now on there is a replica only if one was created. Contents that cannot be read become an incomplete
    /// replica, since other nodes have none of it; but once there are replicas, only a former one left them.
    pub(crate) fn adopt(&self, bits: u8) -> Result<(), Error> {
        self.bits.store(bits, Ordering::Relaxed);
        let mut buckets = self.store.replica_buckets(bits)?;
        let is_first = !buckets.iter().any(|bucket| self.store.has_replica(*bucket));
        buckets.retain(|bucket| !self.store.has_replica(*bucket));
        let found = self.infos(buckets, Timestamp(0))?;
        let (readable, damaged): (Vec<CountedBucket>, Vec<CountedBucket>) =
            found.into_iter().partition(|(_, info)| info.is_ok());
        let of = |found: &[CountedBucket]| found.iter().map(|(bucket, _)| *bucket).collect::<Vec<BucketId>>();
        if is_first {
            self.store.create_incomplete_replicas(&of(&damaged))?;
        }
        self.store.create_replicas(&of(&readable))
    }

    /// The contents of those of these buckets that have some, or the error because of which a bucket cannot
    /// be counted: others do not suffer from it.
    fn infos(&self, buckets: Vec<BucketId>, removals_since: Timestamp) -> Result<Vec<CountedBucket>, Error> {
        let count_one = |bucket: BucketId| match self.store.replica_infos(&[bucket], removals_since) {
            Ok(infos) => infos.into_iter().next().flatten().map(|info| Ok((bucket, Ok(info)))),
            Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => Some(Ok((bucket, Err(error)))),
            Err(error) => Some(Err(error)),
        };
        match self.store.replica_infos(&buckets, removals_since) {
            Ok(infos) => {
                let found = buckets.into_iter().zip(infos);
                Ok(found.filter_map(|(bucket, info)| Some((bucket, Ok(info?)))).collect())
            }
            Err(_) => buckets.into_iter().filter_map(count_one).collect(),
        }
    }

    /// The report of a bucket; `None`: it cannot be read, and is not a replica.
    ///
    /// A replica that cannot be read counts as one that has yet to be filled, and has nothing that others
    /// lack: reads do not wait for it. Its checksum is that of no replica, not even its own of a moment ago:
    /// so it is not made complete before it can be read.
    fn report(&self, (bucket, info): CountedBucket, since: Timestamp) -> Option<(BucketId, ReportedReplica)> {
        match info {
            Ok(info) => Some((bucket, converted(info, since))),
            Err(error) => self.store.has_replica(bucket).then(|| {
                tracing::error!(%error, %bucket, "a replica cannot be read; it is filled from another");
                let checksum = self.store.next_timestamp().0;
                let content = ReplicaContent { documents: 0, checksum, removals_since: since };
                (bucket, ReportedReplica { content, complete: false, newest: Timestamp(0) })
            }),
        }
    }
}

/// A bucket with contents, and what it has or why that cannot be counted.
type CountedBucket = (BucketId, Result<StoredReplica, Error>);

fn converted(info: StoredReplica, removals_since: Timestamp) -> ReportedReplica {
    ReportedReplica {
        content: ReplicaContent { documents: info.documents, checksum: info.checksum, removals_since },
        complete: info.complete,
        // The store reports its own newest timestamp; an empty replica has none.
        newest: if info.documents == 0 && info.checksum == 0 { Timestamp(0) } else { info.newest },
    }
}

/// Converts an error of the store for other nodes.
pub(crate) fn failure(error: Error) -> NodeFailure {
    match error {
        Error::DiskFull { .. } | Error::NoSpace { .. } => NodeFailure::DiskFull { reason: error.to_string() },
        Error::Overloaded => NodeFailure::Overloaded,
        other => NodeFailure::Storage { reason: other.to_string() },
    }
}

impl ReplicaStorage for StoreReplicas {
    fn divide(&self, state: &ClusterState) -> Result<(), NodeFailure> {
        let groups: Vec<DividedGroup> = state.spread().groups().collect();
        self.store.divide(state.distribution().bits, &groups).map_err(failure)
    }

    fn replicas(
        &self,
        wanted: &dyn Fn(BucketId) -> bool,
        removals_since: Timestamp,
    ) -> Result<Vec<(BucketId, ReportedReplica)>, NodeFailure> {
        let bits = self.bits.load(Ordering::Relaxed);
        let mut buckets = self.store.replica_buckets(bits).map_err(failure)?;
        buckets.retain(|bucket| wanted(*bucket));
        let found = self.infos(buckets, removals_since).map_err(failure)?;
        Ok(found.into_iter().filter_map(|found| self.report(found, removals_since)).collect())
    }

    fn replica(
        &self,
        bucket: BucketId,
        removals_since: Timestamp,
    ) -> Result<Option<ReportedReplica>, NodeFailure> {
        let found = self.infos(vec![bucket], removals_since).map_err(failure)?.pop();
        Ok(found.and_then(|found| self.report(found, removals_since)).map(|(_, replica)| replica))
    }

    fn exists(&self, bucket: BucketId) -> bool {
        self.store.has_replica(bucket)
    }

    fn fault(&self, bucket: BucketId) -> Option<NodeFailure> {
        self.store.replica_infos(&[bucket], Timestamp(0)).err().map(failure)
    }

    fn newest(&self) -> Timestamp {
        self.store.newest()
    }

    fn create(&self, bucket: BucketId, origin: ReplicaOrigin) -> Result<(), NodeFailure> {
        let created = match origin {
            ReplicaOrigin::Complete => self.store.create_replicas(&[bucket]),
            ReplicaOrigin::Incomplete => self.store.create_incomplete_replicas(&[bucket]),
        };
        created.map_err(failure)
    }

    fn apply(&self, rows: &[&ReplicatedRow]) -> Vec<Result<(), NodeFailure>> {
        let mut outcomes = vec![Ok(()); rows.len()];
        let mut indices = Vec::with_capacity(rows.len());
        let mut versions = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            match &*row.content {
                RowContent::Version(version) => {
                    indices.push(index);
                    versions.push(version.clone());
                }
                RowContent::Drop(drop) => {
                    outcomes[index] = self.store.apply_drop(row.bucket, drop).map_err(failure);
                }
            }
        }
        let Err(failure) = apply(&self.store, versions) else { return outcomes };
        let removal = |index: usize| match &*rows[index].content {
            RowContent::Version(version) if version.body.is_none() => Some(version),
            _ => None,
        };
        let removals: Vec<DocumentVersion> =
            indices.iter().filter_map(|index| removal(*index)).cloned().collect();
        // Removals make room: they need not wait for it together with the writes.
        let removed = match failure {
            NodeFailure::DiskFull { .. } if removals.len() < indices.len() => apply(&self.store, removals),
            _ => Err(failure.clone()),
        };
        for index in indices {
            outcomes[index] = if removal(index).is_some() { removed.clone() } else { Err(failure.clone()) };
        }
        outcomes
    }

    fn read(&self, bucket: BucketId, id: &DocumentId) -> Result<Option<DocumentVersion>, NodeFailure> {
        match self.store.version(id).map_err(failure)? {
            None if !self.store.has_replica(bucket) => Err(NodeFailure::NoReplica),
            found => Ok(found),
        }
    }

    fn complete(&self, bucket: BucketId) -> Result<(), NodeFailure> {
        self.store.complete_replicas(&[bucket]).map_err(failure)
    }

    fn delete(&self, bucket: BucketId, expected: ReplicaContent) -> Result<(), NodeFailure> {
        let deleted = self.store.delete_replicas(&[(bucket, expected.checksum)], expected.removals_since);
        let deleted = deleted.map_err(failure)?;
        assert!(deleted.len() == 1, "there is an outcome for the one replica that was to be deleted");
        if deleted == [true] { Ok(()) } else { Err(NodeFailure::Differs) }
    }
}

/// Makes versions durable; blocks until they are.
pub(crate) fn apply(store: &Store, versions: Vec<DocumentVersion>) -> Result<(), NodeFailure> {
    if versions.is_empty() {
        return Ok(());
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    store.apply(versions, move |outcome| {
        // The caller waits until this arrives.
        let _ = sender.send(outcome);
    });
    match receiver.recv() {
        Ok(outcome) => outcome.map_err(failure),
        Err(_) => {
            Err(NodeFailure::Storage { reason: "the store has dropped a write; see the log".to_owned() })
        }
    }
}
