//! A node's replicas in memory, with the promises of the real store: what was acknowledged survives, all else may or may not.

use std::cell::RefCell;
use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_cluster::replica::Storage;
use millrace_cluster::{Birth, Content, Failure, ReplicaInfo, Row, RowContent};
use millrace_document::{DocumentId, Drop, DropScope, Timestamp, Version};

/// Replicas by bucket. Only what is durable is here: a row is applied at the moment of its sync.
#[derive(Debug, Default)]
pub(crate) struct ModelStorage {
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    replicas: BTreeMap<BucketId, ModelReplica>,
    newest: Timestamp,
}

#[derive(Debug, Default, Clone)]
struct ModelReplica {
    complete: bool,
    versions: BTreeMap<DocumentId, Version>,
    drops: Vec<Drop>,
}

/// What one replica tells another.
pub(crate) type Listing = Vec<RowContent>;

impl ModelReplica {
    fn info(&self) -> ReplicaInfo {
        let mut checksum = 0_u64;
        let mut newest = Timestamp(0);
        for version in self.versions.values() {
            let removed = u8::from(version.body.is_none());
            checksum = checksum.wrapping_add(hash(version.id.as_str(), version.timestamp, removed));
            newest = newest.max(version.timestamp);
        }
        for drop in &self.drops {
            checksum = checksum.wrapping_add(hash(&format!("{:?}", drop.scope), drop.timestamp, 2));
            newest = newest.max(drop.timestamp);
        }
        let documents = self.versions.values().filter(|version| version.body.is_some()).count() as u64;
        ReplicaInfo { content: Content { documents, checksum }, complete: self.complete, newest }
    }

    /// Up to when a document is dropped.
    fn dropped(&self, id: &DocumentId) -> Option<Timestamp> {
        self.drops.iter().filter(|drop| covers(&drop.scope, id)).map(|drop| drop.timestamp).max()
    }

    fn apply(&mut self, content: &RowContent) {
        match content {
            RowContent::Version(version) => {
                let dropped = self.dropped(&version.id).is_some_and(|dropped| version.timestamp <= dropped);
                let newer = self
                    .versions
                    .get(&version.id)
                    .is_none_or(|present| present.timestamp < version.timestamp);
                if newer && !dropped {
                    self.versions.insert(version.id.clone(), version.clone());
                }
            }
            RowContent::Drop(drop) => {
                if !self.drops.contains(drop) {
                    self.versions
                        .retain(|id, version| !covers(&drop.scope, id) || version.timestamp > drop.timestamp);
                    self.drops.push(drop.clone());
                }
            }
        }
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
    pub fn listing(&self, bucket: BucketId, known: Option<&[RowContent]>) -> Option<Listing> {
        let inner = self.inner.borrow();
        let replica = inner.replicas.get(&bucket)?;
        let drops = replica.drops.iter().cloned().map(RowContent::Drop);
        let versions = replica.versions.values().cloned().map(RowContent::Version);
        Some(drops.chain(versions).filter(|row| known.is_none_or(|known| !known.contains(row))).collect())
    }

    /// What was fetched is taken into the replica, if that is still there.
    pub fn install(&self, bucket: BucketId, rows: &[RowContent]) -> Result<(), Failure> {
        let mut inner = self.inner.borrow_mut();
        let newest = rows.iter().map(RowContent::timestamp).max().unwrap_or_default();
        inner.newest = inner.newest.max(newest);
        let replica = inner.replicas.get_mut(&bucket).ok_or(Failure::NoReplica)?;
        rows.iter().for_each(|row| replica.apply(row));
        Ok(())
    }

    /// Puts a replica there, for tests that begin with one.
    pub fn plant(&self, bucket: BucketId, complete: bool, rows: &[RowContent]) {
        let replica = ModelReplica { complete, ..ModelReplica::default() };
        self.inner.borrow_mut().replicas.insert(bucket, replica);
        self.install(bucket, rows).expect("it was just put there");
    }

    /// The newest timestamp that counts for a document, and its body.
    pub fn newest_of(&self, bucket: BucketId, id: &DocumentId) -> Option<Version> {
        self.read(bucket, id).ok().flatten()
    }

    /// All replicas, as a reader of the outcome sees them.
    pub fn all(&self) -> Vec<(BucketId, ReplicaInfo)> {
        self.inner.borrow().replicas.iter().map(|(bucket, replica)| (*bucket, replica.info())).collect()
    }

    pub fn info(&self, bucket: BucketId) -> Option<ReplicaInfo> {
        self.inner.borrow().replicas.get(&bucket).map(ModelReplica::info)
    }
}

impl Storage for ModelStorage {
    fn replicas(&self, wanted: &dyn Fn(BucketId) -> bool) -> Result<Vec<(BucketId, ReplicaInfo)>, Failure> {
        Ok(self.all().into_iter().filter(|(bucket, _)| wanted(*bucket)).collect())
    }

    fn replica(&self, bucket: BucketId) -> Result<Option<ReplicaInfo>, Failure> {
        Ok(self.info(bucket))
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
        let dropped = replica.dropped(id);
        Ok(version.or_else(|| Some(Version::removal(id.clone(), dropped?))))
    }

    fn complete(&self, bucket: BucketId) -> Result<(), Failure> {
        let mut inner = self.inner.borrow_mut();
        inner.replicas.get_mut(&bucket).ok_or(Failure::NoReplica)?.complete = true;
        Ok(())
    }

    fn delete(&self, bucket: BucketId) -> Result<(), Failure> {
        self.inner.borrow_mut().replicas.remove(&bucket);
        Ok(())
    }
}
