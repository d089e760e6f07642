//! Storage of replicas in the store.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;

use millrace_bucket::BucketId;
use millrace_cluster::replica::Storage;
use millrace_cluster::{Birth, ClusterState, Content, Failure, ReplicaInfo, Row, RowContent};
use millrace_document::{DocumentId, Timestamp, Version};
use millrace_store::{Error, Store};

/// Replicas of a store.
pub(crate) struct Replicas {
    store: Store,
    /// Number of bits of the cluster's buckets; 0 before it is known.
    bits: AtomicU8,
}

impl Replicas {
    pub(crate) fn new(store: Store) -> Self {
        Replicas { store, bits: AtomicU8::new(0) }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Adopts the contents of the store as replicas of the cluster's buckets, which have this number of bits.
    /// Contents of a bucket without a replica are from before the store joined a cluster, and complete; from
    /// now on there is a replica only if one was created.
    pub(crate) fn adopt(&self, bits: u8) -> Result<(), Error> {
        self.bits.store(bits, Ordering::Relaxed);
        let mut buckets = self.store.replica_buckets(bits)?;
        buckets.retain(|bucket| !self.store.has_replica(*bucket));
        let infos = self.store.replica_infos(&buckets, Timestamp(0))?;
        let found = buckets.into_iter().zip(infos).filter(|(_, info)| info.is_some());
        let found: Vec<BucketId> = found.map(|(bucket, _)| bucket).collect();
        self.store.create_replicas(&found, true)
    }
}

fn converted(info: millrace_store::ReplicaInfo, removals_since: Timestamp) -> ReplicaInfo {
    ReplicaInfo {
        content: Content { documents: info.documents, checksum: info.checksum, removals_since },
        complete: info.complete,
        // The store reports its own newest timestamp; an empty replica has none.
        newest: if info.documents == 0 && info.checksum == 0 { Timestamp(0) } else { info.newest },
    }
}

/// Converts an error of the store for other nodes.
pub(crate) fn failure(error: Error) -> Failure {
    match error {
        Error::DiskFull { .. } | Error::NoSpace { .. } => Failure::DiskFull { reason: error.to_string() },
        Error::Overloaded => Failure::Overloaded,
        other => Failure::Storage { reason: other.to_string() },
    }
}

impl Storage for Replicas {
    fn divide(&self, state: &ClusterState) -> Result<(), Failure> {
        let groups: Vec<(u32, u8)> = state.spread().groups().collect();
        self.store.divide(state.distribution().bits, &groups).map_err(failure)
    }

    fn replicas(
        &self,
        wanted: &dyn Fn(BucketId) -> bool,
        removals_since: Timestamp,
    ) -> Result<Vec<(BucketId, ReplicaInfo)>, Failure> {
        let bits = self.bits.load(Ordering::Relaxed);
        let mut buckets = self.store.replica_buckets(bits).map_err(failure)?;
        buckets.retain(|bucket| wanted(*bucket));
        let infos = self.store.replica_infos(&buckets, removals_since).map_err(failure)?;
        let found = buckets.into_iter().zip(infos);
        Ok(found.filter_map(|(bucket, info)| Some((bucket, converted(info?, removals_since)))).collect())
    }

    fn replica(&self, bucket: BucketId, removals_since: Timestamp) -> Result<Option<ReplicaInfo>, Failure> {
        let found = self.store.replica_infos(&[bucket], removals_since).map_err(failure)?;
        Ok(found.into_iter().next().flatten().map(|info| converted(info, removals_since)))
    }

    fn exists(&self, bucket: BucketId) -> bool {
        self.store.has_replica(bucket)
    }

    fn newest(&self) -> Timestamp {
        self.store.newest()
    }

    fn create(&self, bucket: BucketId, birth: Birth) -> Result<(), Failure> {
        self.store.create_replicas(&[bucket], birth == Birth::Complete).map_err(failure)
    }

    fn apply(&self, rows: &[&Row]) -> Vec<Result<(), Failure>> {
        let mut outcomes = vec![Ok(()); rows.len()];
        let mut places = Vec::with_capacity(rows.len());
        let mut versions = Vec::with_capacity(rows.len());
        for (place, row) in rows.iter().enumerate() {
            match &*row.content {
                RowContent::Version(version) => {
                    places.push(place);
                    versions.push(version.clone());
                }
                RowContent::Drop(drop) => {
                    outcomes[place] = self.store.apply_drop(row.bucket, drop).map_err(failure);
                }
            }
        }
        let Err(failure) = apply(&self.store, versions) else { return outcomes };
        let removal = |place: usize| match &*rows[place].content {
            RowContent::Version(version) if version.body.is_none() => Some(version),
            _ => None,
        };
        let removals: Vec<Version> = places.iter().filter_map(|place| removal(*place)).cloned().collect();
        // Removals make room: they need not wait for it together with the writes.
        let removed = match failure {
            Failure::DiskFull { .. } if removals.len() < places.len() => apply(&self.store, removals),
            _ => Err(failure.clone()),
        };
        for place in places {
            outcomes[place] = if removal(place).is_some() { removed.clone() } else { Err(failure.clone()) };
        }
        outcomes
    }

    fn read(&self, bucket: BucketId, id: &DocumentId) -> Result<Option<Version>, Failure> {
        match self.store.version(id).map_err(failure)? {
            None if !self.store.has_replica(bucket) => Err(Failure::NoReplica),
            found => Ok(found),
        }
    }

    fn complete(&self, bucket: BucketId) -> Result<(), Failure> {
        self.store.complete_replicas(&[bucket]).map_err(failure)
    }

    fn delete(&self, bucket: BucketId, expected: Content) -> Result<(), Failure> {
        let deleted = self.store.delete_replicas(&[(bucket, expected.checksum)], expected.removals_since);
        let deleted = deleted.map_err(failure)?;
        if deleted == [true] { Ok(()) } else { Err(Failure::Differs) }
    }
}

/// Makes versions durable; blocks until they are.
pub(crate) fn apply(store: &Store, versions: Vec<Version>) -> Result<(), Failure> {
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
        Err(_) => Err(Failure::Storage { reason: "the store has dropped a write; see the log".to_owned() }),
    }
}
