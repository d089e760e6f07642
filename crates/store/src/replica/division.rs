//! Division of large groups. The store's contents of a divided group move from the bucket of its location to
//! buckets of their own, each of which can be a replica, move and be deleted by itself. That is a change of
//! the manifest; no document is rewritten.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use millrace_bucket::{BucketId, DividedGroup, LocationRange};
use millrace_segment::{CutShare, SegmentCut};

use super::isolated;
use crate::state::{StoreState, StoredBucket, is_of_divided};
use crate::{Error, Store};

impl Store {
    /// Divides the groups of these locations (by the low 32 bits) into buckets that use the given number of
    /// bits, more than 32. A replica of the bucket that a group was in (one that uses `bits`, or a part that
    /// uses fewer bits than the new ones) becomes replicas of the parts, each as complete as the whole. The
    /// bucket itself continues without the contents that are divided off. Groups that are divided this far or
    /// further stay as they are. Durable on return.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn divide(&self, bits: u8, groups: &[DividedGroup]) -> Result<(), Error> {
        let shared = self.shared();
        shared.check_open()?;
        let state = shared.state();
        if undivided(&state, groups).next().is_none() {
            return Ok(());
        }
        let measured = measure(&state, groups);
        drop(state);
        shared.publish(|state| {
            let mut new = state.clone();
            new.replicas = Arc::new(replicas(state, bits, groups));
            new.buckets = buckets(state, groups);
            for bucket in &mut new.buckets {
                let known = |number| measured.get(&(bucket.id, number));
                if bucket.segments.iter().any(|segment| known(segment.record.number).is_some()) {
                    *bucket = Arc::new(with_shares(bucket, known));
                }
            }
            Ok(new)
        })
    }

    /// Groups that are too large for their buckets, by [`StoreTuning`](crate::StoreTuning), though no bucket
    /// can be split any more for them, with the number of bits that the bucket uses; 32 if the group is not
    /// divided. Returns at most `count_max` groups, of the `wanted` buckets. Unsealed documents are not
    /// counted.
    ///
    /// Costs a pass over numbers in memory, and a read of the directories of the files of each wanted bucket
    /// that is too large.
    ///
    /// # Errors
    /// The store is closed.
    pub fn too_large(
        &self,
        count_max: usize,
        wanted: impl Fn(BucketId) -> bool,
    ) -> Result<Vec<DividedGroup>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let tuning = shared.tuning();
        let is_large =
            |amount: CutShare| amount.bytes > tuning.split_bytes || amount.documents > tuning.split_documents;
        let mut found = Vec::new();
        for bucket in shared.state().buckets.iter() {
            if found.len() >= count_max {
                break;
            }
            let whole = CutShare { bytes: bucket.bytes(), documents: shared.counts.documents(bucket) };
            if !wanted(bucket.id) || !is_large(whole) {
                continue;
            }
            let used_bits = bucket.id.used_bits();
            match used_bits < BucketId::GROUP_BITS {
                true => {
                    // Of a damaged bucket no group is known; the damage is reported elsewhere.
                    let largest = largest_group(bucket).unwrap_or_default();
                    let largest = largest.filter(|(_, share)| is_large(*share));
                    let whole = |(location, _)| DividedGroup { location, bits: BucketId::GROUP_BITS };
                    found.extend(largest.map(whole));
                }
                false => found.push(DividedGroup { location: bucket.id.bits() as u32, bits: used_bits }),
            }
        }
        Ok(found)
    }
}

/// The location of a bucket that has the most chunks, by its low bits, with its approximate contents.
fn largest_group(bucket: &StoredBucket) -> Result<Option<(u32, CutShare)>, Error> {
    let (first, last) = bucket.locations();
    let mut chunks: HashMap<u32, u64> = HashMap::new();
    for segment in bucket.open_segments()? {
        for section in 0..segment.sections().len() {
            segment.groups(section, first, |entry| {
                let inside = entry.location <= last;
                if inside && !entry.group.is_empty() {
                    *chunks.entry(entry.location).or_default() += u64::from(entry.chunks);
                }
                inside
            })?;
        }
    }
    let largest = chunks.into_iter().max_by_key(|(location, chunks)| (*chunks, *location));
    let Some((location, _)) = largest else { return Ok(None) };
    let low = location.reverse_bits();
    let range = BucketId::new(BucketId::GROUP_BITS, u64::from(low)).reversed_range();
    let mut amount = CutShare::default();
    for segment in bucket.open_segments()? {
        for share in SegmentCut::whole(segment, &[range])?.shares() {
            amount.bytes += share.bytes;
            amount.documents += share.documents;
        }
    }
    Ok(Some((low, amount)))
}

/// Groups that are to be divided further than they are.
fn undivided(state: &StoreState, groups: &[DividedGroup]) -> impl Iterator<Item = DividedGroup> {
    groups.iter().copied().filter(|group| {
        let of_group = state.buckets_of(group.location.reverse_bits());
        of_group.iter().any(|bucket| bucket.id.used_bits() < group.bits)
    })
}

/// All buckets, with those that contain the divided groups split.
fn buckets(state: &StoreState, groups: &[DividedGroup]) -> Vec<Arc<StoredBucket>> {
    let mut buckets = state.buckets.clone();
    for group in undivided(state, groups) {
        let of_group = group.whole();
        buckets = isolated(&buckets, of_group);
        buckets = buckets
            .iter()
            .flat_map(|bucket| match of_group.covers(bucket.id) {
                true => bucket.halved_to(group.bits),
                false => vec![Arc::clone(bucket)],
            })
            .collect();
    }
    buckets
}

/// The replicas, with the parts in place of the buckets that contained them.
fn replicas(state: &StoreState, bits: u8, groups: &[DividedGroup]) -> BTreeMap<BucketId, bool> {
    let mut replicas = (*state.replicas).clone();
    for group in undivided(state, groups) {
        let of_group = group.whole();
        let divided =
            state.buckets_of(group.location.reverse_bits()).iter().any(|bucket| is_of_divided(bucket.id));
        let is_coarser = |whole: &BucketId| is_of_divided(*whole) && of_group.covers(*whole);
        let wholes: Vec<(BucketId, bool)> = match divided {
            true => {
                replicas.iter().filter(|(whole, _)| is_coarser(whole)).map(|(of, is)| (*of, *is)).collect()
            }
            false => {
                let whole = group.bucket(bits);
                replicas.get(&whole).map(|complete| (whole, *complete)).into_iter().collect()
            }
        };
        replicas.retain(|whole, _| !is_coarser(whole));
        for part in group.parts() {
            let whole = wholes.iter().find(|(whole, _)| whole.covers(part));
            replicas.extend(whole.map(|(_, complete)| (part, *complete)));
        }
    }
    replicas
}

/// Amount that each bucket has of each segment.
type Measured = HashMap<(BucketId, u64), CutShare>;

/// Measures the share of the new buckets in the segments of the split buckets, by the segments' directories.
/// Those that cannot be read stay with all of the new buckets.
fn measure(state: &StoreState, groups: &[DividedGroup]) -> Measured {
    let new = buckets(state, groups);
    let mut measured = Measured::new();
    for old in state.buckets.iter().filter(|bucket| !bucket.segments.is_empty()) {
        let begin = new.partition_point(|bucket| bucket.reversed_range().first < old.reversed_range().first);
        let count =
            new[begin..].partition_point(|bucket| bucket.reversed_range().first <= old.reversed_range().last);
        let parts = &new[begin..begin + count];
        if parts.len() == 1 {
            continue;
        }
        let ranges: Vec<LocationRange> = parts.iter().map(|part| part.reversed_range()).collect();
        for segment in old.segments.iter().filter_map(|segment| segment.opened.as_ref().ok()) {
            let Ok(cut) = SegmentCut::whole(segment, &ranges) else { continue };
            let mut shares = cut.shares().to_vec();
            let mut at = 0;
            for of_location in parts.chunk_by(|one, other| one.locations() == other.locations()) {
                share_evenly(&mut shares[at..at + of_location.len()]);
                at += of_location.len();
            }
            let shares = parts.iter().zip(shares);
            measured.extend(shares.map(|(part, share)| ((part.id, segment.number()), share)));
        }
    }
    measured
}

/// Distributes counts evenly over the parts. A chunk is counted for the first of the parts that it overlaps.
/// Digests distribute documents evenly: the non-empty parts have about the same amount.
fn share_evenly(shares: &mut [CutShare]) {
    let having = shares.iter().filter(|share| share.bytes > 0).count() as u64;
    let sum = |of: fn(&CutShare) -> u64| shares.iter().map(of).sum::<u64>();
    let (bytes, documents) = (sum(|share| share.bytes), sum(|share| share.documents));
    for share in shares.iter_mut().filter(|share| share.bytes > 0) {
        *share = CutShare { bytes: bytes.div_ceil(having), documents: documents.div_ceil(having) };
    }
}

/// A bucket with the measured shares of its segments, without the segments of which it has nothing.
fn with_shares<'m>(bucket: &StoredBucket, known: impl Fn(u64) -> Option<&'m CutShare>) -> StoredBucket {
    let segments = bucket.segments.iter().filter_map(|segment| {
        let mut segment = segment.clone();
        if let Some(CutShare { bytes, documents }) = known(segment.record.number) {
            (segment.record.bytes, segment.record.documents) = (*bytes, *documents);
            if *bytes == 0 {
                return None;
            }
        }
        Some(segment)
    });
    StoredBucket { id: bucket.id, segments: segments.collect() }
}
