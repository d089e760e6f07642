//! Replication: the contents of a bucket in this store, its completeness, and its transfer and removal.

pub(crate) mod counts;
mod damaged;
mod deleting;
mod division;
pub(crate) mod transfer;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{
    DocumentGroup, DocumentId, DocumentVersion, DropScope, DroppedScope, ReversedLocation, Timestamp,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::context::StoreContext;
use crate::read::get;
use crate::read::pieces::RowOrder;
use crate::read::reading::StoreSnapshot;
use crate::replica::counts::{BucketCounting, RemovalSpan, ReplicaCounts};
use crate::state::marks::MarkScope;
use crate::state::{StoreState, StoredBucket, is_of_divided, is_part, locations};
use crate::tail::RowKey;
use crate::upkeep::sealing::TailSealer;
use crate::{Error, Store, ViewScope};

pub use versions::{VersionKey, VersionPage};

/// Contents of a bucket in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredReplica {
    /// Number of documents, without removals.
    pub documents: u64,
    /// Over the ids and timestamps of documents and remembered removals, and over remembered drops of groups:
    /// equal where those are equal.
    pub checksum: u64,
    /// No version that the store has seen, of any bucket, has a higher timestamp.
    pub newest: Timestamp,
    /// True if the replica has all that it should: it was created complete ([`Store::create_replicas`]), or
    /// was completed ([`Store::complete_replicas`]).
    pub complete: bool,
}

impl Store {
    /// Returns the contents of each of these buckets; `None`: nothing. Removals count if they were written at
    /// `removals_since` or slightly before. To compare replicas, pass all of them one time that is well
    /// within the retention of each.
    ///
    /// Costs a lookup of numbers in memory for each bucket that is sealed and was queried before. Otherwise
    /// ids and timestamps are read: the first time of all its documents, later of the groups that have rows
    /// in the tail or were sealed since.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn replica_infos(
        &self,
        buckets: &[BucketId],
        removals_since: Timestamp,
    ) -> Result<Vec<Option<StoredReplica>>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let counting = counting(shared);
        buckets.iter().map(|bucket| info(shared, &counting, *bucket, removals_since)).collect()
    }

    /// Creates an empty, complete replica of each of these buckets that has none; existing ones stay as they
    /// are. Durable when it returns.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn create_replicas(&self, buckets: &[BucketId]) -> Result<(), Error> {
        self.change_replicas(buckets, |replicas, bucket| {
            replicas.entry(bucket).or_insert(true);
        })
    }

    /// [`Store::create_replicas`] for replicas that lack something until [`Store::complete_replicas`].
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn create_incomplete_replicas(&self, buckets: &[BucketId]) -> Result<(), Error> {
        self.change_replicas(buckets, |replicas, bucket| {
            replicas.entry(bucket).or_insert(false);
        })
    }

    /// These buckets have all that they should. Durable when it returns.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn complete_replicas(&self, buckets: &[BucketId]) -> Result<(), Error> {
        self.change_replicas(buckets, |replicas, bucket| {
            replicas.insert(bucket, true);
        })
    }

    fn change_replicas(
        &self,
        buckets: &[BucketId],
        change: impl Fn(&mut BTreeMap<BucketId, bool>, BucketId),
    ) -> Result<(), Error> {
        let shared = self.shared();
        shared.check_open()?;
        let changed = |state: &StoreState| {
            let mut replicas = (*state.replicas).clone();
            buckets.iter().for_each(|bucket| change(&mut replicas, *bucket));
            StoreState { replicas: Arc::new(replicas), ..state.clone() }
        };
        let state = shared.state();
        if changed(&state).replicas == state.replicas {
            return Ok(());
        }
        shared.publish(|state| Ok(changed(state)))
    }

    /// No version that the store has seen, of any bucket, has a higher timestamp.
    pub fn newest(&self) -> Timestamp {
        self.shared().timestamps.last()
    }

    /// A timestamp above those of all versions that the store has seen, and not before the machine's clock.
    pub fn next_timestamp(&self) -> Timestamp {
        self.shared().timestamps.next()
    }

    /// Returns true if a replica of this bucket was made ([`Store::create_replicas`]). Cost: a lookup in the
    /// manifest in memory.
    pub fn has_replica(&self, bucket: BucketId) -> bool {
        self.shared().state().replicas.contains_key(&bucket)
    }

    /// Returns the buckets with `bits` bits that may have contents; [`Store::replica_infos`] describes these.
    ///
    /// # Errors
    /// The tail cannot be read.
    pub fn replica_buckets(&self, bits: u8) -> Result<Vec<BucketId>, Error> {
        let state = self.shared().state();
        let mut buckets: BTreeSet<BucketId> = state.replicas.keys().copied().collect();
        for part in state.buckets.iter().filter(|part| !part.segments.is_empty()) {
            buckets.extend(with_bits(part.id, bits));
        }
        for generation in &state.generations {
            generation.tail.snapshot().range(&[], None, &mut |key, _| {
                let location = RowKey::parse(key)?.reversed_location();
                buckets.insert(state.bucket_with(bits, location));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(buckets.into_iter().collect())
    }

    /// Returns the drops of groups and document types ([`Store::apply_drop`]) that reach a bucket. The store
    /// remembers them as long as removals. Another replica needs them, since rows from before a drop can
    /// still arrive there.
    ///
    /// # Errors
    /// The store is closed.
    pub fn drops(&self, bucket: BucketId) -> Result<Vec<DroppedScope>, Error> {
        self.shared().check_open()?;
        Ok(drops(&self.shared().state(), bucket))
    }

    /// Returns the newest version of a document, which may be a removal; a dropped document is a removal at
    /// the time of the drop. `None` if there is none.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn version(&self, id: &DocumentId) -> Result<Option<DocumentVersion>, Error> {
        self.shared().check_open()?;
        get::version(self.shared(), id)
    }
}

/// Counts the current contents.
pub(crate) fn counting(shared: &StoreContext) -> BucketCounting<'_> {
    BucketCounting::new(StoreSnapshot::new(shared, RowOrder::Keys), &shared.counts, span(shared))
}

fn span(shared: &StoreContext) -> RemovalSpan {
    RemovalSpan::new(shared.tuning().tombstone_retention)
}

/// The store's own buckets that a bucket consists of; where it is a part of one, that part.
pub(crate) fn parts(state: &StoreState, bucket: BucketId) -> Vec<Arc<StoredBucket>> {
    let whole = state.bucket(bucket.reversed_range().first);
    if whole.id.used_bits() < bucket.used_bits() {
        return vec![part_of(whole, bucket)];
    }
    state.within(&ViewScope::Buckets(vec![bucket]))
}

/// Returns the bucket with `bits` bits that contains this one, or the buckets with `bits` bits that it
/// contains.
fn with_bits(bucket: BucketId, bits: u8) -> Vec<BucketId> {
    match bucket.children() {
        _ if is_of_divided(bucket) => vec![bucket],
        Some(halves) if bucket.used_bits() < bits => {
            halves.into_iter().flat_map(|half| with_bits(half, bits)).collect()
        }
        _ => vec![BucketId::new(bits.min(bucket.used_bits()), bucket.bits())],
    }
}

/// A part of a bucket, which is taken to have its even share.
fn part_of(whole: &StoredBucket, id: BucketId) -> Arc<StoredBucket> {
    let halved = u32::from(id.used_bits() - whole.id.used_bits());
    Arc::new(StoredBucket {
        id,
        segments: whole.segments.iter().map(|segment| segment.halved(halved)).collect(),
    })
}

fn info(
    shared: &StoreContext,
    counting: &BucketCounting<'_>,
    bucket: BucketId,
    removals_since: Timestamp,
) -> Result<Option<StoredReplica>, Error> {
    let state = &counting.reading().state;
    let mut counts = ReplicaCounts::default();
    for part in parts(state, bucket) {
        counts.add(&counting.bucket(&part)?);
    }
    let created = state.replicas.get(&bucket).copied();
    let span = span(shared);
    if created.is_none() && counts.is_empty(removals_since.0, span) {
        return Ok(None);
    }
    // What was there before it became a replica is all that there was.
    let complete = created.unwrap_or(true);
    let drops = drops(state, bucket).into_iter().filter(|drop| drop.timestamp >= removals_since);
    let checksum = counts.checksum(removals_since.0, span);
    let checksum = drops.fold(checksum, |sum, drop| sum.wrapping_add(drop_sum(&drop)));
    let newest = shared.timestamps.last();
    Ok(Some(StoredReplica { documents: counts.documents, checksum, newest, complete }))
}

/// The remembered drops of groups that reach a bucket, and those of types, which reach all.
fn drops(state: &StoreState, bucket: BucketId) -> Vec<DroppedScope> {
    let given = state.marks.list().into_iter().filter(|mark| mark.given);
    given
        .filter_map(|mark| {
            let (document_type, group, part) = match mark.scope {
                MarkScope::Group { document_type, group, part } => (document_type, group, part),
                MarkScope::Type(name) => {
                    let timestamp = Timestamp(mark.timestamp);
                    return Some(DroppedScope { scope: DropScope::Type(name), timestamp });
                }
                MarkScope::Locations(..) => return None,
            };
            let group = DocumentGroup::from_key(&group)?;
            let is_divided =
                |low: u32| state.buckets_of(low.reverse_bits()).iter().any(|bucket| is_of_divided(bucket.id));
            let reaches = bucket.intersects(&group)
                && group.location_bits().is_none_or(|low| is_divided(low) == is_of_divided(bucket))
                && part.is_none_or(|part| part.covers(bucket));
            let scope = DropScope::Group { document_type, group };
            reaches.then_some(DroppedScope { scope, timestamp: Timestamp(mark.timestamp) })
        })
        .fold(Vec::new(), |mut newest: Vec<DroppedScope>, drop| {
            // What was dropped whole can have been dropped in parts since it is divided.
            match newest.iter_mut().find(|known| known.scope == drop.scope) {
                Some(known) => known.timestamp = known.timestamp.max(drop.timestamp),
                None => newest.push(drop),
            }
            newest
        })
}

/// Returns the contribution of a drop to a checksum. The drop of a type contributes 0: every node learns of
/// it with the application package, and nodes of earlier versions do not count it.
fn drop_sum(drop: &DroppedScope) -> u64 {
    let DropScope::Group { document_type, group } = &drop.scope else { return 0 };
    // No id has such bytes.
    let scope = format!("\0{}\0{}", document_type.as_deref().unwrap_or_default(), group.key());
    xxh3_64_with_seed(scope.as_bytes(), drop.timestamp.0)
}

/// Returns true if the tail has rows of a bucket.
pub(crate) fn is_in_tail(state: &StoreState, bucket: BucketId) -> Result<bool, Error> {
    let (first, last) = locations(bucket);
    let to = last.checked_add(1).map(u32::to_be_bytes);
    for generation in &state.generations {
        let snapshot = generation.tail.snapshot();
        // All parts of a divided group have the same locations.
        let mut found = false;
        snapshot.range(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), &mut |key, _| {
            let location = RowKey::parse(key)?.reversed_location();
            let own = state.bucket(location).id;
            found = match is_of_divided(own) {
                true => is_part(own, bucket),
                false => !is_of_divided(bucket) || has(bucket, location),
            };
            Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Seals where the tail has rows of these buckets.
pub(crate) fn seal_buckets(
    shared: &StoreContext,
    sealer: &TailSealer,
    buckets: &[BucketId],
) -> Result<(), Error> {
    let state = shared.state();
    for bucket in buckets {
        if is_in_tail(&state, *bucket)? {
            drop(state);
            return sealer.seal();
        }
    }
    Ok(())
}

/// Returns true if a reversed location is in a bucket.
fn has(bucket: BucketId, location: ReversedLocation) -> bool {
    bucket.reversed_range().contains(location)
}

/// Returns true if one of a store's buckets is part of a replica, or has one in it.
fn is_of_replica(state: &StoreState, part: BucketId) -> bool {
    let mut around = (0..=part.used_bits()).map(|bits| BucketId::new(bits, part.bits()));
    around.any(|bucket| is_part(part, bucket) && state.replicas.contains_key(&bucket))
        || state.replicas.keys().any(|replica| part.covers(*replica))
}

/// The buckets, with one split where it is larger than this bucket, so that no other shares one with it.
pub(crate) fn isolated(buckets: &[Arc<StoredBucket>], bucket: BucketId) -> Vec<Arc<StoredBucket>> {
    let isolate = |of: &Arc<StoredBucket>| match of.id.children() {
        Some(children) if of.id != bucket && of.id.covers(bucket) => {
            let halves: Vec<Arc<StoredBucket>> = children.into_iter().map(|child| of.half(child)).collect();
            isolated(&halves, bucket)
        }
        _ => vec![Arc::clone(of)],
    };
    buckets.iter().flat_map(isolate).collect()
}
