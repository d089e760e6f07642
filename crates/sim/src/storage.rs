//! A node's replicas in memory, with the promises of the real store: what was acknowledged survives, all else may or may not.

use std::cell::RefCell;
use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_cluster::replica::Storage;
use millrace_cluster::{Birth, Content, Failure, ReplicaInfo, Row, RowContent};
use millrace_document::{DocumentId, Drop, DropScope, Timestamp, Version};

/// Replicas by bucket. Only what is durable is here: a row is applied at the moment of its sync.
#[derive(Debug, Default)]
pub struct ModelStorage {
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    replicas: BTreeMap<BucketId, ModelReplica>,
    /// The newest of each scope. They are the node's, and outlive a replica that is deleted.
    drops: Vec<Drop>,
    newest: Timestamp,
}

#[derive(Debug, Default, Clone)]
struct ModelReplica {
    complete: bool,
    versions: BTreeMap<DocumentId, Version>,
}

impl Inner {
    fn info(&self, bucket: BucketId, removals_since: Timestamp) -> Option<ReplicaInfo> {
        let replica = self.replicas.get(&bucket)?;
        let mut checksum = 0_u64;
        for version in replica.versions.values() {
            let removed = version.body.is_none();
            if !removed || version.timestamp >= removals_since {
                let hash = hash(version.id.as_str(), version.timestamp, u8::from(removed));
                checksum = checksum.wrapping_add(hash);
            }
        }
        for drop in self.drops_of(bucket).filter(|drop| drop.timestamp >= removals_since) {
            checksum = checksum.wrapping_add(hash(&format!("{:?}", drop.scope), drop.timestamp, 2));
        }
        let versions = replica.versions.values().map(|version| version.timestamp);
        let newest = versions.chain(self.drops_of(bucket).map(|drop| drop.timestamp)).max();
        let documents = replica.versions.values().filter(|version| version.body.is_some()).count() as u64;
        Some(ReplicaInfo {
            content: Content { documents, checksum, removals_since },
            complete: replica.complete,
            newest: newest.unwrap_or_default(),
        })
    }

    fn drops_of(&self, bucket: BucketId) -> impl Iterator<Item = &Drop> {
        self.drops.iter().filter(move |drop| match &drop.scope {
            DropScope::Group { group, .. } => bucket.intersects(group),
            DropScope::Type(_) => true,
        })
    }

    /// Up to when a document is dropped.
    fn dropped(&self, id: &DocumentId) -> Option<Timestamp> {
        self.drops.iter().filter(|drop| covers(&drop.scope, id)).map(|drop| drop.timestamp).max()
    }

    fn apply(&mut self, bucket: BucketId, content: &RowContent) -> Result<(), Failure> {
        self.newest = self.newest.max(content.timestamp());
        if !self.replicas.contains_key(&bucket) {
            return Err(Failure::NoReplica);
        }
        match content {
            RowContent::Version(version) => {
                let dropped = self.dropped(&version.id).is_some_and(|dropped| version.timestamp <= dropped);
                let replica = self.replicas.entry(bucket).or_default();
                let newer = replica
                    .versions
                    .get(&version.id)
                    .is_none_or(|present| present.timestamp < version.timestamp);
                if newer && !dropped {
                    replica.versions.insert(version.id.clone(), version.clone());
                }
            }
            RowContent::Drop(drop) => match self.drops.iter_mut().find(|known| known.scope == drop.scope) {
                Some(known) if known.timestamp >= drop.timestamp => {}
                known => {
                    match known {
                        Some(known) => known.timestamp = drop.timestamp,
                        None => self.drops.push(drop.clone()),
                    }
                    let gone = |id: &DocumentId, version: &Version| {
                        covers(&drop.scope, id) && version.timestamp <= drop.timestamp
                    };
                    for replica in self.replicas.values_mut() {
                        replica.versions.retain(|id, version| !gone(id, version));
                    }
                }
            },
        }
        Ok(())
    }
}

fn covers(scope: &DropScope, id: &DocumentId) -> bool {
    match scope {
        DropScope::Group { document_type, group } => {
            group == id.group() && document_type.as_ref().is_none_or(|name| name == id.document_type())
        }
        DropScope::Type(name) => name == id.document_type(),
    }
}

fn hash(text: &str, timestamp: Timestamp, kind: u8) -> u64 {
    let mut word = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes().chain(timestamp.0.to_le_bytes()).chain([kind]) {
        word = (word ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    word ^ (word >> 29)
}

impl ModelStorage {
    /// All that a replica has that is not in `known`, or all of it; `None` where there is no replica.
    pub fn listing(&self, bucket: BucketId, known: Option<&[RowContent]>) -> Option<Vec<RowContent>> {
        let inner = self.inner.borrow();
        let replica = inner.replicas.get(&bucket)?;
        let drops = inner.drops_of(bucket).cloned().map(RowContent::Drop);
        let versions = replica.versions.values().cloned().map(RowContent::Version);
        Some(drops.chain(versions).filter(|row| known.is_none_or(|known| !known.contains(row))).collect())
    }

    /// What was fetched is taken into the replica.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn install(&self, bucket: BucketId, rows: &[RowContent]) -> Result<(), Failure> {
        let mut inner = self.inner.borrow_mut();
        rows.iter().try_for_each(|row| inner.apply(bucket, row))
    }

    /// Puts a replica there, for tests that begin with one.
    pub(crate) fn plant(&self, bucket: BucketId, complete: bool, rows: &[RowContent]) {
        let replica = ModelReplica { complete, ..ModelReplica::default() };
        self.inner.borrow_mut().replicas.insert(bucket, replica);
        self.install(bucket, rows).expect("it was just put there");
    }

    /// The newest timestamp that counts for a document, and its body.
    pub(crate) fn newest_of(&self, bucket: BucketId, id: &DocumentId) -> Option<Version> {
        self.read(bucket, id).ok().flatten()
    }

    /// All replicas, as a reader of the outcome sees them.
    pub(crate) fn all(&self, removals_since: Timestamp) -> Vec<(BucketId, ReplicaInfo)> {
        let inner = self.inner.borrow();
        let buckets = inner.replicas.keys();
        buckets.filter_map(|bucket| Some((*bucket, inner.info(*bucket, removals_since)?))).collect()
    }

    pub(crate) fn info(&self, bucket: BucketId, removals_since: Timestamp) -> Option<ReplicaInfo> {
        self.inner.borrow().info(bucket, removals_since)
    }
}

impl Storage for ModelStorage {
    fn replicas(
        &self,
        wanted: &dyn Fn(BucketId) -> bool,
        removals_since: Timestamp,
    ) -> Result<Vec<(BucketId, ReplicaInfo)>, Failure> {
        Ok(self.all(removals_since).into_iter().filter(|(bucket, _)| wanted(*bucket)).collect())
    }

    fn replica(&self, bucket: BucketId, removals_since: Timestamp) -> Result<Option<ReplicaInfo>, Failure> {
        Ok(self.info(bucket, removals_since))
    }

    fn exists(&self, bucket: BucketId) -> bool {
        self.inner.borrow().replicas.contains_key(&bucket)
    }

    fn newest(&self) -> Timestamp {
        self.inner.borrow().newest
    }

    fn create(&self, bucket: BucketId, birth: Birth) -> Result<(), Failure> {
        let complete = birth == Birth::Complete;
        let mut inner = self.inner.borrow_mut();
        inner.replicas.entry(bucket).or_insert_with(|| ModelReplica { complete, ..ModelReplica::default() });
        Ok(())
    }

    fn apply(&self, rows: &[&Row]) -> Vec<Result<(), Failure>> {
        rows.iter().map(|row| self.install(row.bucket, std::slice::from_ref(&*row.content))).collect()
    }

    fn read(&self, bucket: BucketId, id: &DocumentId) -> Result<Option<Version>, Failure> {
        let inner = self.inner.borrow();
        let replica = inner.replicas.get(&bucket).ok_or(Failure::NoReplica)?;
        let version = replica.versions.get(id).cloned();
        let dropped = inner.dropped(id);
        Ok(version.or_else(|| Some(Version::removal(id.clone(), dropped?))))
    }

    fn complete(&self, bucket: BucketId) -> Result<(), Failure> {
        let mut inner = self.inner.borrow_mut();
        inner.replicas.get_mut(&bucket).ok_or(Failure::NoReplica)?.complete = true;
        Ok(())
    }

    fn delete(&self, bucket: BucketId, expected: Content) -> Result<(), Failure> {
        let there = self.info(bucket, expected.removals_since);
        if there.is_some_and(|info| info.content != expected) {
            return Err(Failure::Differs);
        }
        self.inner.borrow_mut().replicas.remove(&bucket);
        Ok(())
    }
}
