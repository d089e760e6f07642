//! The store as one of several that hold the same buckets: what it has of a bucket, whether that is all, and how it gives it up.

pub(crate) mod counts;
pub(crate) mod transfer;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Drop, DropScope, Group, Timestamp, Version};
use millrace_segment::reaches;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::read::get;
use crate::read::reading::Reading;
use crate::read::visiting::visit;
use crate::replica::counts::{Counting, Span};
use crate::shared::Shared;
use crate::state::marks::MarkScope;
use crate::state::{Bucket, BucketSegment, State, locations};
use crate::tail::RowKey;
use crate::upkeep::sealing::Sealer;
use crate::{Error, Store, ViewScope, Visit, Visited};

/// What a store has of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// Documents.
    pub documents: u64,
    /// Over the ids and timestamps of documents and remembered removals, and over remembered drops of groups: equal where those are equal.
    pub checksum: u64,
    /// No version that the store has seen, of any bucket, has a higher timestamp.
    pub newest: Timestamp,
    /// Whether it has all that it should: [`Store::create_replicas`].
    pub complete: bool,
}

/// A version without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionKey {
    /// Which document.
    pub id: DocumentId,
    /// When it was written.
    pub timestamp: Timestamp,
    /// Whether it is a removal.
    pub removed: bool,
}

/// Newest versions of a bucket's documents, in the order of keys.
#[derive(Debug, Clone, Default)]
pub struct VersionPage {
    /// The versions.
    pub versions: Vec<VersionKey>,
    /// Where the next page begins; `None` at the end. It holds whatever is written, sealed or merged meanwhile.
    pub after: Option<String>,
}

impl Store {
    /// What there is of each of these buckets; `None`: nothing. Removals count that were written at `removals_since` or somewhat
    /// before; where replicas are to be compared, all are asked with one time that is well within the retention of each.
    ///
    /// Costs a look at numbers in memory for each bucket that is sealed and was asked for before; otherwise ids and timestamps are
    /// read, of all its documents the first time, later of the groups that have rows in the tail or were sealed since.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; a bucket uses more than 32 bits.
    pub fn replica_infos(
        &self,
        buckets: &[BucketId],
        removals_since: Timestamp,
    ) -> Result<Vec<Option<ReplicaInfo>>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let counting = counting(shared);
        buckets.iter().map(|bucket| info(shared, &counting, *bucket, removals_since)).collect()
    }

    /// From now on there is a replica of each of these buckets, if only an empty one: complete, or known to lack something until
    /// [`Store::complete_replicas`]. One that is there stays as it is. Durable when it returns.
    ///
    /// # Errors
    /// The manifest cannot be written; a bucket uses more than 32 bits.
    pub fn create_replicas(&self, buckets: &[BucketId], complete: bool) -> Result<(), Error> {
        self.change_replicas(buckets, |replicas, bucket| {
            replicas.entry(bucket).or_insert(complete);
        })
    }

    /// These buckets have all that they should. Durable when it returns.
    ///
    /// # Errors
    /// The manifest cannot be written; a bucket uses more than 32 bits.
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
        buckets.iter().try_for_each(|bucket| check_bits(*bucket))?;
        let changed = |state: &State| {
            let mut replicas = (*state.replicas).clone();
            buckets.iter().for_each(|bucket| change(&mut replicas, *bucket));
            State { replicas: Arc::new(replicas), ..state.clone() }
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

    /// Whether a replica of this bucket was made ([`Store::create_replicas`]). Costs a look at the manifest in memory.
    pub fn has_replica(&self, bucket: BucketId) -> bool {
        self.shared().state().replicas.contains_key(&bucket)
    }

    /// Buckets of so many bits of which there can be something: [`Store::replica_infos`] says what.
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
                let location = RowKey::parse(key)?.location;
                buckets.insert(BucketId::new(bits.min(32), u64::from(location.reverse_bits())));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(buckets.into_iter().collect())
    }

    /// Gives up what there is of these buckets, each only where its checksum is this one. Returns where it was.
    ///
    /// No document is looked at but for the checksum: segments leave the bucket, and files that no bucket has any more are unlinked.
    /// The same versions can come again.
    ///
    /// # Errors
    /// Rows of the tail cannot be sealed, a file cannot be read, the manifest cannot be written; a bucket uses more than 32 bits.
    pub fn delete_replicas(
        &self,
        buckets: &[(BucketId, u64)],
        removals_since: Timestamp,
    ) -> Result<Vec<bool>, Error> {
        self.shared().check_open()?;
        delete(self.shared(), self.sealer(), buckets, removals_since)
    }

    /// The newest versions of a bucket's documents, and of removals those from `removals_since` on: the next `wanted` after the place
    /// that the page before names.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; the place is none; the bucket uses more than 32 bits.
    pub fn versions(
        &self,
        bucket: BucketId,
        removals_since: Timestamp,
        after: Option<&str>,
        wanted: usize,
    ) -> Result<VersionPage, Error> {
        self.shared().check_open()?;
        check_bits(bucket)?;
        versions(self.shared(), bucket, removals_since, after, wanted)
    }

    /// What this store was told of dropped groups ([`Store::apply_drop`]) that reach a bucket, and remembers: as long as removals. Another replica has to
    /// hear of it, since rows from before it can still come there.
    ///
    /// # Errors
    /// The store is closed; the bucket uses more than 32 bits.
    pub fn drops(&self, bucket: BucketId) -> Result<Vec<Drop>, Error> {
        self.shared().check_open()?;
        check_bits(bucket)?;
        Ok(drops(&self.shared().state(), bucket))
    }

    /// The newest version of a document, be it a removal; one that was dropped is a removal of that time. `None` when there is none.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn version(&self, id: &DocumentId) -> Result<Option<Version>, Error> {
        self.shared().check_open()?;
        get::version(self.shared(), id)
    }
}

/// Counts what there is now.
pub(crate) fn counting(shared: &Shared) -> Counting<'_> {
    Counting::new(Reading::new(shared), &shared.counts, span(shared))
}

fn span(shared: &Shared) -> Span {
    Span::new(shared.tuning().tombstone_retention)
}

/// A store's buckets use at most 32 bits.
pub(crate) fn check_bits(bucket: BucketId) -> Result<(), Error> {
    if bucket.used_bits() <= 32 {
        return Ok(());
    }
    let reason = "a store's buckets use at most 32 bits; name one of them".to_owned();
    Err(Error::Io { action: format!("look up {bucket}"), reason })
}

/// The store's own buckets that a bucket consists of; where it is a part of one, that part.
pub(crate) fn parts(state: &State, bucket: BucketId) -> Vec<Arc<Bucket>> {
    let whole = state.bucket(locations(bucket).0);
    if whole.id.used_bits() < bucket.used_bits() {
        return vec![part_of(whole, bucket)];
    }
    state.within(&ViewScope::Buckets(vec![bucket]))
}

/// The bucket of so many bits that this one is a part of, or those that are parts of it.
fn with_bits(bucket: BucketId, bits: u8) -> Vec<BucketId> {
    match bucket.children() {
        Some(halves) if bucket.used_bits() < bits => {
            halves.into_iter().flat_map(|half| with_bits(half, bits)).collect()
        }
        _ => vec![BucketId::new(bits.min(bucket.used_bits()), bucket.bits())],
    }
}

/// A part of a bucket, which is taken to have its even share.
fn part_of(whole: &Bucket, id: BucketId) -> Arc<Bucket> {
    let halved = u32::from(id.used_bits() - whole.id.used_bits());
    let mut segments = whole.segments.clone();
    for segment in &mut segments {
        segment.record.bytes = segment.record.bytes.checked_shr(halved).unwrap_or(0).max(1);
        segment.record.documents = segment.record.documents.checked_shr(halved).unwrap_or(0);
    }
    Arc::new(Bucket { id, segments })
}

fn info(
    shared: &Shared,
    counting: &Counting<'_>,
    bucket: BucketId,
    removals_since: Timestamp,
) -> Result<Option<ReplicaInfo>, Error> {
    check_bits(bucket)?;
    let state = &counting.reading().state;
    let mut counts = crate::replica::counts::Counts::default();
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
    Ok(Some(ReplicaInfo { documents: counts.documents, checksum, newest, complete }))
}

/// The remembered drops of groups that reach a bucket.
fn drops(state: &State, bucket: BucketId) -> Vec<Drop> {
    let given = state.marks.list().into_iter().filter(|mark| mark.given);
    given
        .filter_map(|mark| {
            let MarkScope::Group { document_type, group } = mark.scope else { return None };
            let group = Group::from_key(&group)?;
            let scope = DropScope::Group { document_type, group: group.clone() };
            bucket.intersects(&group).then_some(Drop { scope, timestamp: Timestamp(mark.timestamp) })
        })
        .collect()
}

/// What a drop adds to a checksum.
fn drop_sum(drop: &Drop) -> u64 {
    let DropScope::Group { document_type, group } = &drop.scope else { return 0 };
    // No id has such bytes.
    let scope = format!("\0{}\0{}", document_type.as_deref().unwrap_or_default(), group.key());
    xxh3_64_with_seed(scope.as_bytes(), drop.timestamp.0)
}

/// Whether the tail has rows of a bucket.
pub(crate) fn is_in_tail(state: &State, bucket: BucketId) -> Result<bool, Error> {
    let (first, last) = locations(bucket);
    let to = last.checked_add(1).map(u32::to_be_bytes);
    let mut found = false;
    for generation in &state.generations {
        let snapshot = generation.tail.snapshot();
        snapshot.range(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
    }
    Ok(found)
}

/// Seals where the tail has rows of these buckets.
pub(crate) fn seal_buckets(shared: &Shared, sealer: &Sealer, buckets: &[BucketId]) -> Result<(), Error> {
    let state = shared.state();
    for bucket in buckets {
        if is_in_tail(&state, *bucket)? {
            drop(state);
            return sealer.seal();
        }
    }
    Ok(())
}

/// The numbers of a bucket's segments, part by part.
fn segments_of(state: &State, bucket: BucketId) -> Vec<Vec<u64>> {
    let numbers = |part: Arc<Bucket>| part.segments.iter().map(|segment| segment.record.number).collect();
    parts(state, bucket).into_iter().map(numbers).collect()
}

fn delete(
    shared: &Shared,
    sealer: &Sealer,
    buckets: &[(BucketId, u64)],
    removals_since: Timestamp,
) -> Result<Vec<bool>, Error> {
    let ids: Vec<BucketId> = buckets.iter().map(|(bucket, _)| *bucket).collect();
    ids.iter().try_for_each(|bucket| check_bits(*bucket))?;
    seal_buckets(shared, sealer, &ids)?;
    let counting = counting(shared);
    let mut agreed = Vec::with_capacity(buckets.len());
    for (bucket, expected) in buckets {
        let info = info(shared, &counting, *bucket, removals_since)?;
        agreed.push(info.is_none_or(|info| info.checksum == *expected));
    }
    let counted = Arc::clone(&counting.reading().state);
    drop(counting);
    let idle = idle_parts(&counted, &ids)?;
    let mut gone = Vec::new();
    // No row comes between looking and deleting: it would be lost.
    shared.publish_alone(|state| {
        let mut new = state.clone();
        let mut replicas = (*state.replicas).clone();
        for ((bucket, _), agreed) in buckets.iter().zip(&mut agreed) {
            *agreed = *agreed
                && segments_of(state, *bucket) == segments_of(&counted, *bucket)
                && !is_in_tail(state, *bucket)?;
            if *agreed {
                new.buckets = isolated(&new.buckets, *bucket);
                let inside = |part: &Arc<Bucket>| is_inside(part.id, *bucket);
                for part in new.buckets.iter_mut().filter(|part| inside(part)) {
                    gone.push(part.id);
                    *part = Arc::new(Bucket { id: part.id, segments: Vec::new() });
                }
                replicas.remove(bucket);
            }
        }
        new.replicas = Arc::new(replicas);
        for part in new.buckets.iter_mut().filter(|part| idle.contains_key(&part.id)) {
            let is_idle = |segment: &BucketSegment| idle[&part.id].contains(&segment.record.number);
            let segments = part.segments.iter().filter(|segment| !is_idle(segment)).cloned().collect();
            *part = Arc::new(Bucket { id: part.id, segments });
        }
        Ok(new)
    })?;
    gone.extend(ids);
    shared.counts.forget(&gone);
    Ok(agreed)
}

/// Which segments of these buckets other buckets name without having documents in them, and without being of a replica: what was split has
/// all segments in both halves. When the buckets go, nobody needs these files.
fn idle_parts(state: &State, buckets: &[BucketId]) -> Result<HashMap<BucketId, Vec<u64>>, Error> {
    let mut parts = state.buckets.clone();
    for bucket in buckets {
        parts = isolated(&parts, *bucket);
    }
    let goes = |part: &Arc<Bucket>| buckets.iter().any(|bucket| is_inside(part.id, *bucket));
    let numbers: HashSet<u64> = parts
        .iter()
        .filter(|part| goes(part))
        .flat_map(|part| part.segments.iter().map(|segment| segment.record.number))
        .collect();
    let is_of_replica = |part: &Arc<Bucket>| {
        let mut around = (0..=part.id.used_bits()).map(|bits| BucketId::new(bits, part.id.bits()));
        around.any(|bucket| state.replicas.contains_key(&bucket))
            || state.replicas.keys().any(|replica| is_inside(*replica, part.id))
    };
    let mut idle: HashMap<BucketId, Vec<u64>> = HashMap::new();
    for part in &parts {
        let shared = || part.segments.iter().filter(|segment| numbers.contains(&segment.record.number));
        if shared().next().is_none() || goes(part) || is_of_replica(part) {
            continue;
        }
        for segment in shared() {
            let opened = segment.opened.as_ref().map_err(Clone::clone)?;
            if !reaches(opened, part.locations())? {
                idle.entry(part.id).or_default().push(segment.record.number);
            }
        }
    }
    Ok(idle)
}

/// Whether a bucket is the other or a part of it.
pub(crate) fn is_inside(bucket: BucketId, other: BucketId) -> bool {
    bucket.used_bits() >= other.used_bits() && BucketId::new(other.used_bits(), bucket.bits()) == other
}

/// The buckets, with one split where it is larger than this bucket, so that no other shares one with it.
pub(crate) fn isolated(buckets: &[Arc<Bucket>], bucket: BucketId) -> Vec<Arc<Bucket>> {
    let isolate = |of: &Arc<Bucket>| match of.id.children() {
        Some(children) if of.id != bucket && is_inside(bucket, of.id) => {
            let halves: Vec<Arc<Bucket>> = children.into_iter().map(|child| of.half(child)).collect();
            isolated(&halves, bucket)
        }
        _ => vec![Arc::clone(of)],
    };
    buckets.iter().flat_map(isolate).collect()
}

fn versions(
    shared: &Shared,
    bucket: BucketId,
    removals_since: Timestamp,
    after: Option<&str>,
    wanted: usize,
) -> Result<VersionPage, Error> {
    // A place is a type and a place in a visit of that type alone.
    let after = match after {
        Some(after) => Some(after.split_once('/').ok_or(Error::Continuation)?),
        None => None,
    };
    let types = types_of(&shared.state(), bucket)?;
    let remaining = types.into_iter().filter(|of| after.is_none_or(|(after, _)| of.as_str() >= after));
    let mut page = VersionPage::default();
    for document_type in remaining {
        let continuation = after.filter(|(of, _)| *of == document_type).map(|(_, place)| place.to_owned());
        let found = visit(
            shared,
            &Visit {
                document_types: vec![document_type.clone()],
                scope: ViewScope::Buckets(vec![bucket]),
                from: Timestamp(0),
                to: Timestamp(u64::MAX),
                slice: (0, 1),
                continuation: continuation.filter(|place| !place.is_empty()),
                wanted: wanted - page.versions.len(),
                tombstones: true,
                fields: Some(Vec::new()),
            },
        )?;
        page.versions.extend(found.visited.into_iter().filter_map(|visited| match visited {
            Visited::Document(document, timestamp) => {
                Some(VersionKey { id: document.id, timestamp, removed: false })
            }
            Visited::Removed(id, timestamp) => {
                (timestamp >= removals_since).then_some(VersionKey { id, timestamp, removed: true })
            }
        }));
        if let Some(place) = found.continuation {
            page.after = Some(format!("{document_type}/{place}"));
            break;
        }
        if page.versions.len() >= wanted {
            // The next type from its beginning: the first name after this one.
            page.after = Some(format!("{document_type}\0/"));
            break;
        }
    }
    Ok(page)
}

/// The types of documents that a bucket has.
fn types_of(state: &State, bucket: BucketId) -> Result<BTreeSet<String>, Error> {
    let mut types = BTreeSet::new();
    for part in parts(state, bucket) {
        for segment in part.open_segments()? {
            types.extend(segment.sections().iter().map(|section| section.document_type.clone()));
        }
    }
    let (first, last) = locations(bucket);
    let to = last.checked_add(1).map(u32::to_be_bytes);
    for generation in &state.generations {
        let snapshot = generation.tail.snapshot();
        snapshot.range(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), &mut |key, _| {
            let key = RowKey::parse(key)?;
            if !types.contains(key.document_type()) {
                types.insert(key.document_type().to_owned());
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(types)
}
