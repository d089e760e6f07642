//! Model of a node's replicas in memory, with the guarantees of the real store: acknowledged data survives,
//! other data may or may not.
//!
//! A replica is a name with contents, as in a directory. Its rows are durable as soon as they are applied;
//! but its name is only once it is synced: a loss of power, as each crash is one, takes back the names that
//! were made or removed since.

use std::cell::RefCell;
use std::collections::BTreeMap;

use millrace_bucket::{BucketId, DividedGroup};
use millrace_cluster::{
    ClusterState, DroppedTypes, NodeFailure, ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica,
    RowContent,
};
use millrace_document::{DocumentId, DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_replication::replica::ReplicaStorage;

/// A change of a node's replicas, as the feed of placed indexes takes it in.
#[derive(Debug, Clone)]
pub(crate) enum StorageChange {
    /// A row was applied.
    Version(DocumentVersion),
    /// Documents of a scope were dropped in a bucket.
    Drop(BucketId, DroppedScope),
    /// Versions entered or left a replica other than by rows.
    Replica(BucketId),
}

/// Replicas by bucket. Contains only durable data: a row is applied at the moment of its sync.
#[derive(Debug, Default)]
pub struct ModelStorage {
    inner: RefCell<SimReplicas>,
}

#[derive(Debug, Default)]
struct SimReplicas {
    replicas: BTreeMap<BucketId, ModelReplica>,
    /// Newest drop of each scope in each bucket. Drops belong to the node, and outlive a deleted replica.
    drops: Vec<(BucketId, DroppedScope)>,
    /// Groups that are divided here, with the number of bits of their buckets.
    divided: BTreeMap<u32, u8>,
    /// Dropped document types, with the time of the drop.
    types: DroppedTypes,
    /// Dropped types that are reported to other replicas.
    announced_types: DroppedTypes,
    newest: Timestamp,
    /// Replicas whose names were made or removed since the last sync, as a loss of power leaves them.
    unsynced: BTreeMap<BucketId, Option<ModelReplica>>,
    /// A defect: names are not synced when replicas are made.
    forgets_syncs: bool,
    /// Changes since they were taken, if they are recorded.
    changes: Option<Vec<StorageChange>>,
}

#[derive(Debug, Default, Clone)]
struct ModelReplica {
    complete: bool,
    versions: BTreeMap<DocumentId, DocumentVersion>,
}

impl SimReplicas {
    fn info(&self, bucket: BucketId, removals_since: Timestamp) -> Option<ReportedReplica> {
        let replica = self.replicas.get(&bucket)?;
        let mut checksum = 0_u64;
        for version in replica.versions.values() {
            let removed = version.body.is_none();
            if !removed || version.timestamp >= removals_since {
                let hash = hash(version.id.as_str(), version.timestamp, u8::from(removed));
                checksum = checksum.wrapping_add(hash);
            }
        }
        for drop in self.drops_of(bucket).into_iter().filter(|drop| drop.timestamp >= removals_since) {
            checksum = checksum.wrapping_add(hash(&format!("{:?}", drop.scope), drop.timestamp, 2));
        }
        let versions = replica.versions.values().map(|version| version.timestamp);
        let newest = versions.chain(self.drops_of(bucket).iter().map(|drop| drop.timestamp)).max();
        let documents = replica.versions.values().filter(|version| version.body.is_some()).count() as u64;
        Some(ReportedReplica {
            content: ReplicaContent { documents, checksum, removals_since },
            complete: replica.complete,
            newest: newest.unwrap_or_default(),
        })
    }

    /// The newest drop of each scope that reaches into a bucket.
    fn drops_of(&self, bucket: BucketId) -> Vec<&DroppedScope> {
        let mut newest: Vec<&DroppedScope> = Vec::new();
        for (of, drop) in self.drops.iter().filter(|(of, _)| of.covers(bucket)) {
            let reaches = match &drop.scope {
                DropScope::Group { group, .. } => {
                    let is_part = bucket.used_bits() > BucketId::GROUP_BITS;
                    let divided = group.location_bits().is_some_and(|low| self.divided.contains_key(&low));
                    bucket.intersects(group) && is_part == divided
                }
                DropScope::Type(_) => *of == bucket,
            };
            match newest.iter_mut().find(|known| known.scope == drop.scope) {
                _ if !reaches => {}
                Some(known) if known.timestamp >= drop.timestamp => {}
                Some(known) => *known = drop,
                None => newest.push(drop),
            }
        }
        newest
    }

    /// Timestamp up to which a document is dropped.
    fn dropped(&self, id: &DocumentId) -> Option<Timestamp> {
        let reaching = self.drops.iter().filter(|(bucket, drop)| covers(*bucket, &drop.scope, id));
        let with_others = reaching.map(|(_, drop)| drop.timestamp).max();
        with_others.max(self.types.removed_at(id.document_type()))
    }

    /// Makes an empty replica, durably, if there is none.
    fn make(&mut self, bucket: BucketId, complete: bool) {
        if self.replicas.contains_key(&bucket) {
            return;
        }
        self.unsynced.entry(bucket).or_insert(None);
        self.replicas.insert(bucket, ModelReplica { complete, ..ModelReplica::default() });
        if !self.forgets_syncs {
            self.sync_names();
        }
    }

    /// Records a change, if changes are.
    fn record(&mut self, change: impl FnOnce() -> StorageChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    /// Makes the names of all replicas durable.
    fn sync_names(&mut self) {
        self.unsynced.clear();
    }

    /// Divides a bucket's replica into replicas of the parts of a group.
    fn divide(&mut self, whole: BucketId, group: DividedGroup) {
        let Some(mut replica) = self.replicas.remove(&whole) else { return };
        let of_group = group.whole();
        let (parted, rest) = std::mem::take(&mut replica.versions)
            .into_iter()
            .partition(|(id, _): &(DocumentId, DocumentVersion)| of_group.contains(id.location()));
        for part in group.parts() {
            if whole.covers(part) {
                let of_part = |(id, _): &(&DocumentId, &DocumentVersion)| part.contains(id.location());
                let parted: &BTreeMap<DocumentId, DocumentVersion> = &parted;
                let versions = parted.iter().filter(of_part);
                let versions = versions.map(|(id, version)| (id.clone(), version.clone())).collect();
                self.replicas.insert(part, ModelReplica { complete: replica.complete, versions });
            }
        }
        if whole.used_bits() <= BucketId::GROUP_BITS {
            self.replicas.insert(whole, ModelReplica { versions: rest, ..replica });
        }
    }

    /// Drops types in all replicas; the flag is true if other replicas receive the drop.
    fn drop_types(&mut self, dropped: &DroppedTypes, is_announced: bool) {
        for (document_type, at) in dropped.iter() {
            self.newest = self.newest.max(at);
            if self.types.removed_at(document_type).is_none_or(|known| known < at) {
                let scope = DropScope::Type(document_type.to_owned());
                let drop = DroppedScope { scope, timestamp: at };
                self.record(|| StorageChange::Drop(BucketId::ROOT, drop));
            }
            let gone = |id: &DocumentId, version: &DocumentVersion| {
                id.document_type() == document_type && version.timestamp <= at
            };
            for replica in self.replicas.values_mut() {
                replica.versions.retain(|id, version| !gone(id, version));
            }
        }
        self.types.merge(dropped);
        if is_announced {
            self.announced_types.merge(dropped);
        }
    }

    fn apply(&mut self, bucket: BucketId, content: &RowContent) -> Result<(), NodeFailure> {
        self.newest = self.newest.max(content.timestamp());
        if !self.replicas.contains_key(&bucket) {
            return Err(NodeFailure::NoReplica);
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
            RowContent::Drop(DroppedScope { scope: DropScope::Type(name), timestamp }) => {
                let mut dropped = DroppedTypes::default();
                dropped.add(name, *timestamp);
                self.drop_types(&dropped, true);
            }
            RowContent::Drop(drop) => {
                let same =
                    |(of, known): &&mut (BucketId, DroppedScope)| *of == bucket && known.scope == drop.scope;
                match self.drops.iter_mut().find(same) {
                    Some((_, known)) if known.timestamp >= drop.timestamp => return Ok(()),
                    Some((_, known)) => known.timestamp = drop.timestamp,
                    None => self.drops.push((bucket, drop.clone())),
                }
                let gone = |id: &DocumentId, version: &DocumentVersion| {
                    covers(bucket, &drop.scope, id) && version.timestamp <= drop.timestamp
                };
                for replica in self.replicas.values_mut() {
                    replica.versions.retain(|id, version| !gone(id, version));
                }
                self.record(|| StorageChange::Drop(bucket, drop.clone()));
            }
        }
        Ok(())
    }
}

fn covers(bucket: BucketId, scope: &DropScope, id: &DocumentId) -> bool {
    match scope {
        DropScope::Group { document_type, group } => {
            group == id.group()
                && bucket.contains(id.location())
                && document_type.as_ref().is_none_or(|name| name == id.document_type())
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
    /// Content of a replica without the rows in `known`, if given; `None` if there is no replica.
    pub fn listing(&self, bucket: BucketId, known: Option<&[RowContent]>) -> Option<Vec<RowContent>> {
        let inner = self.inner.borrow();
        let replica = inner.replicas.get(&bucket)?;
        let types = inner.announced_types.iter().map(|(name, timestamp)| {
            RowContent::Drop(DroppedScope { scope: DropScope::Type(name.to_owned()), timestamp })
        });
        let drops = inner.drops_of(bucket).into_iter().cloned().map(RowContent::Drop).chain(types);
        let versions = replica.versions.values().cloned().map(RowContent::Version);
        Some(drops.chain(versions).filter(|row| known.is_none_or(|known| !known.contains(row))).collect())
    }

    /// Lets changes be recorded from now on.
    pub(crate) fn record_changes(&self) {
        self.inner.borrow_mut().changes = Some(Vec::new());
    }

    /// Changes since the last call, if they are recorded.
    pub(crate) fn take_changes(&self) -> Vec<StorageChange> {
        self.inner.borrow_mut().changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Newest versions of the wanted documents in all replicas, removals among them.
    pub(crate) fn versions(&self, wanted: impl Fn(&DocumentId) -> bool) -> Vec<DocumentVersion> {
        let inner = self.inner.borrow();
        let mut newest: BTreeMap<&DocumentId, &DocumentVersion> = BTreeMap::new();
        let all = inner.replicas.values().flat_map(|replica| &replica.versions);
        for (id, version) in all.filter(|(id, _)| wanted(id)) {
            let known = newest.entry(id).or_insert(version);
            if known.timestamp < version.timestamp {
                *known = version;
            }
        }
        newest.into_values().cloned().collect()
    }

    /// Documents of a replica: newest versions except removals.
    pub(crate) fn documents(&self, bucket: BucketId) -> Vec<DocumentVersion> {
        let inner = self.inner.borrow();
        let versions = inner.replicas.get(&bucket).into_iter().flat_map(|replica| replica.versions.values());
        versions.filter(|version| version.body.is_some()).cloned().collect()
    }

    /// Sets if the names of replicas are synced when they are made. They are, except for a deliberate defect.
    pub(crate) fn set_names_synced(&self, synced: bool) {
        self.inner.borrow_mut().forgets_syncs = !synced;
    }

    /// Takes back the names that were made or removed since the last sync.
    pub(crate) fn lose_power(&self) {
        let mut inner = self.inner.borrow_mut();
        for (bucket, before) in std::mem::take(&mut inner.unsynced) {
            match before {
                Some(replica) => inner.replicas.insert(bucket, replica),
                None => inner.replicas.remove(&bucket),
            };
        }
    }

    /// Forgets all removals, and all drops of groups: they were made longer ago than they are remembered.
    pub(crate) fn forget_removals(&self) {
        let mut inner = self.inner.borrow_mut();
        for replica in inner.replicas.values_mut() {
            replica.versions.retain(|_, version| version.body.is_some());
        }
        inner.drops.clear();
    }

    /// Removes all data, as an operator does.
    pub(crate) fn empty(&self) {
        let mut inner = self.inner.borrow_mut();
        let (forgets_syncs, changes) = (inner.forgets_syncs, inner.changes.take());
        *inner = SimReplicas { forgets_syncs, changes, ..SimReplicas::default() };
    }

    /// Drops document types, durably.
    pub(crate) fn drop_types(&self, dropped: &DroppedTypes, is_announced: bool) {
        self.inner.borrow_mut().drop_types(dropped, is_announced);
    }

    /// Newest timestamp ever seen here.
    pub(crate) fn newest_seen(&self) -> Timestamp {
        self.inner.borrow().newest
    }

    /// Installs fetched rows into the replica.
    ///
    /// # Errors
    /// The replica no longer exists.
    pub fn install(&self, bucket: BucketId, rows: &[RowContent]) -> Result<(), NodeFailure> {
        let mut inner = self.inner.borrow_mut();
        let installed = rows.iter().try_for_each(|row| inner.apply(bucket, row));
        inner.record(|| StorageChange::Replica(bucket));
        installed
    }

    /// Creates a replica, for tests that begin with one.
    pub(crate) fn create_replica(&self, bucket: BucketId, complete: bool, rows: &[RowContent]) {
        self.inner.borrow_mut().make(bucket, complete);
        self.install(bucket, rows).expect("it was just put there");
    }

    /// Newest timestamp that counts for a document, and its body.
    pub(crate) fn newest_of(&self, bucket: BucketId, id: &DocumentId) -> Option<DocumentVersion> {
        self.read(bucket, id).ok().flatten()
    }

    /// Newest version of a document in any replica, or its removal by a drop.
    pub(crate) fn newest_anywhere(&self, id: &DocumentId) -> Option<DocumentVersion> {
        let inner = self.inner.borrow();
        let versions = inner.replicas.values().filter_map(|replica| replica.versions.get(id)).cloned();
        let dropped = inner.dropped(id).map(|at| DocumentVersion::removal(id.clone(), at));
        versions.chain(dropped).max_by_key(|version| version.timestamp)
    }

    /// Newest version of a document, or its removal by a drop, where there is a replica of its bucket: a node
    /// remembers drops for longer than its replicas.
    pub(crate) fn newest_in_replicas(&self, id: &DocumentId) -> Option<DocumentVersion> {
        let is_there = self.inner.borrow().replicas.keys().any(|bucket| bucket.contains(id.location()));
        if is_there { self.newest_anywhere(id) } else { None }
    }

    /// True if there is a replica of the bucket.
    pub(crate) fn has(&self, bucket: BucketId) -> bool {
        self.exists(bucket)
    }

    /// Documents in a replica of a bucket that is not theirs.
    pub(crate) fn misplaced(&self, bucket_of: impl Fn(&DocumentId) -> BucketId) -> Vec<DocumentId> {
        let inner = self.inner.borrow();
        let of = |(bucket, replica): (&BucketId, &ModelReplica)| {
            let ids = replica.versions.keys().filter(|id| bucket_of(id) != *bucket);
            ids.cloned().collect::<Vec<_>>()
        };
        inner.replicas.iter().flat_map(of).collect()
    }

    /// All replicas, in the form for checks of the outcome.
    pub(crate) fn all(&self, removals_since: Timestamp) -> Vec<(BucketId, ReportedReplica)> {
        let inner = self.inner.borrow();
        let buckets = inner.replicas.keys();
        buckets.filter_map(|bucket| Some((*bucket, inner.info(*bucket, removals_since)?))).collect()
    }

    pub(crate) fn info(&self, bucket: BucketId, removals_since: Timestamp) -> Option<ReportedReplica> {
        self.inner.borrow().info(bucket, removals_since)
    }
}

impl ReplicaStorage for ModelStorage {
    fn divide(&self, state: &ClusterState) -> Result<(), NodeFailure> {
        let mut inner = self.inner.borrow_mut();
        for group in state.spread().groups() {
            let known = inner.divided.get(&group.location).copied();
            if known.is_some_and(|known| known >= group.bits) {
                continue;
            }
            let whole: Vec<BucketId> = match known {
                Some(known) => DividedGroup { bits: known, ..group }.parts().collect(),
                None => vec![group.bucket(state.distribution().bits)],
            };
            whole.into_iter().for_each(|bucket| inner.divide(bucket, group));
            inner.divided.insert(group.location, group.bits);
        }
        // One manifest, which is replaced durably.
        inner.sync_names();
        Ok(())
    }

    fn replicas(
        &self,
        wanted: &dyn Fn(BucketId) -> bool,
        removals_since: Timestamp,
    ) -> Result<Vec<(BucketId, ReportedReplica)>, NodeFailure> {
        Ok(self.all(removals_since).into_iter().filter(|(bucket, _)| wanted(*bucket)).collect())
    }

    fn replica(
        &self,
        bucket: BucketId,
        removals_since: Timestamp,
    ) -> Result<Option<ReportedReplica>, NodeFailure> {
        Ok(self.info(bucket, removals_since))
    }

    fn exists(&self, bucket: BucketId) -> bool {
        self.inner.borrow().replicas.contains_key(&bucket)
    }

    fn newest(&self) -> Timestamp {
        self.inner.borrow().newest
    }

    fn create(&self, bucket: BucketId, origin: ReplicaOrigin) -> Result<(), NodeFailure> {
        self.inner.borrow_mut().make(bucket, origin == ReplicaOrigin::Complete);
        Ok(())
    }

    fn apply(&self, rows: &[&ReplicatedRow]) -> Vec<Result<(), NodeFailure>> {
        let mut inner = self.inner.borrow_mut();
        let mut outcomes = Vec::with_capacity(rows.len());
        for row in rows {
            let outcome = inner.apply(row.bucket, &row.content);
            if outcome.is_ok()
                && let RowContent::Version(version) = &*row.content
            {
                inner.record(|| StorageChange::Version(version.clone()));
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    fn read(&self, bucket: BucketId, id: &DocumentId) -> Result<Option<DocumentVersion>, NodeFailure> {
        let inner = self.inner.borrow();
        let replica = inner.replicas.get(&bucket).ok_or(NodeFailure::NoReplica)?;
        let version = replica.versions.get(id).cloned();
        let dropped = inner.dropped(id);
        Ok(version.or_else(|| Some(DocumentVersion::removal(id.clone(), dropped?))))
    }

    fn complete(&self, bucket: BucketId) -> Result<(), NodeFailure> {
        let mut inner = self.inner.borrow_mut();
        inner.replicas.get_mut(&bucket).ok_or(NodeFailure::NoReplica)?.complete = true;
        Ok(())
    }

    fn delete(&self, bucket: BucketId, expected: ReplicaContent) -> Result<(), NodeFailure> {
        let there = self.info(bucket, expected.removals_since);
        if there.is_some_and(|info| info.content != expected) {
            return Err(NodeFailure::Differs);
        }
        let mut inner = self.inner.borrow_mut();
        let removed = inner.replicas.remove(&bucket);
        inner.unsynced.entry(bucket).or_insert(removed);
        inner.sync_names();
        inner.record(|| StorageChange::Replica(bucket));
        Ok(())
    }
}
