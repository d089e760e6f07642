//! Deletion of replicas: their segments leave the buckets. Documents are read only for the checksum that the
//! sender of the request has seen.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_segment::may_have_documents;

use super::{counting, info, is_in_tail, is_of_replica, isolated, parts, seal_buckets};
use crate::context::StoreContext;
use crate::state::{BucketSegment, StoreState, StoredBucket, is_part};
use crate::upkeep::sealing::TailSealer;
use crate::upkeep::shares::FileShares;
use crate::{Error, Store};

impl Store {
    /// Deletes the replicas of these buckets, each only if its checksum is as given. Returns the buckets for
    /// which it was.
    ///
    /// Documents are read only for the checksum: segments leave the bucket, and files that no bucket uses any
    /// more are unlinked. The same versions can arrive again.
    ///
    /// # Errors
    /// Rows of the tail cannot be sealed, a file cannot be read, or the manifest cannot be written.
    pub fn delete_replicas(
        &self,
        buckets: &[(BucketId, u64)],
        removals_since: Timestamp,
    ) -> Result<Vec<bool>, Error> {
        self.shared().check_open()?;
        delete(self.shared(), self.sealer(), buckets, removals_since)
    }
}

fn delete(
    shared: &StoreContext,
    sealer: &TailSealer,
    buckets: &[(BucketId, u64)],
    removals_since: Timestamp,
) -> Result<Vec<bool>, Error> {
    let ids: Vec<BucketId> = buckets.iter().map(|(bucket, _)| *bucket).collect();
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
    let isolate =
        |buckets: &[Arc<StoredBucket>]| ids.iter().fold(buckets.to_vec(), |of, id| isolated(&of, *id));
    let shares = FileShares::of_split(&counted.buckets, &isolate(&counted.buckets));
    let mut gone = Vec::new();
    let leaving: Vec<BucketId> =
        ids.iter().zip(&agreed).filter_map(|(id, agreed)| agreed.then_some(*id)).collect();
    // No row may arrive between the check and the deletion: it would be lost.
    shared.publish_alone(&leaving, |state| {
        let mut new = state.clone();
        let mut replicas = (*state.replicas).clone();
        for ((bucket, _), agreed) in buckets.iter().zip(&mut agreed) {
            *agreed = *agreed
                && segments_of(state, *bucket) == segments_of(&counted, *bucket)
                && !is_in_tail(state, *bucket)?;
            if *agreed {
                new.buckets = isolated(&new.buckets, *bucket);
                let inside = |part: &Arc<StoredBucket>| is_part(part.id, *bucket);
                for part in new.buckets.iter_mut().filter(|part| inside(part)) {
                    gone.push(part.id);
                    *part = Arc::new(StoredBucket { id: part.id, segments: Vec::new() });
                }
                replicas.remove(bucket);
            }
        }
        shares.set_in(&mut new.buckets);
        new.replicas = Arc::new(replicas);
        for part in new.buckets.iter_mut().filter(|part| idle.contains_key(&part.id)) {
            let is_idle = |segment: &BucketSegment| idle[&part.id].contains(&segment.record.number);
            let segments = part.segments.iter().filter(|segment| !is_idle(segment)).cloned().collect();
            *part = Arc::new(StoredBucket { id: part.id, segments });
        }
        Ok(new)
    })?;
    gone.extend(ids);
    shared.counts.forget(&gone);
    Ok(agreed)
}

/// Segments of these buckets that other buckets list without having documents in them, and without being part
/// of a replica: after a split both halves list all segments. When the buckets are deleted, these files are
/// not needed any more.
fn idle_parts(state: &StoreState, buckets: &[BucketId]) -> Result<HashMap<BucketId, Vec<u64>>, Error> {
    let mut parts = state.buckets.clone();
    for bucket in buckets {
        parts = isolated(&parts, *bucket);
    }
    let goes = |part: &Arc<StoredBucket>| buckets.iter().any(|bucket| is_part(part.id, *bucket));
    let numbers: HashSet<u64> = parts
        .iter()
        .filter(|part| goes(part))
        .flat_map(|part| part.segments.iter().map(|segment| segment.record.number))
        .collect();
    let mut idle: HashMap<BucketId, Vec<u64>> = HashMap::new();
    for part in &parts {
        let shared = || part.segments.iter().filter(|segment| numbers.contains(&segment.record.number));
        if shared().next().is_none() || goes(part) || is_of_replica(state, part.id) {
            continue;
        }
        for segment in shared() {
            let opened = segment.opened.as_ref().map_err(Clone::clone)?;
            if !may_have_documents(opened, part.reversed_range())? {
                idle.entry(part.id).or_default().push(segment.record.number);
            }
        }
    }
    Ok(idle)
}

/// Numbers of a bucket's segments, part by part.
fn segments_of(state: &StoreState, bucket: BucketId) -> Vec<Vec<u64>> {
    let numbers =
        |part: Arc<StoredBucket>| part.segments.iter().map(|segment| segment.record.number).collect();
    parts(state, bucket).into_iter().map(numbers).collect()
}
