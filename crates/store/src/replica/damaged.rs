//! Replicas that cannot be read: what is damaged leaves them, before they are filled from complete ones of
//! other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_segment::SegmentFile;

use super::{counting, info, is_of_replica, isolated, parts};
use crate::context::StoreContext;
use crate::state::{BucketSegment, StoreState, StoredBucket, is_part};
use crate::{Error, Store};

impl Store {
    /// Takes damaged files out of those of these replicas that cannot be counted because of them. These
    /// replicas are incomplete from then on, and must be filled from complete ones. If a damaged file may
    /// have had versions that are older than half of the time for which removals are remembered, all other
    /// files with such versions leave as well: removals of these may have been in it, and be forgotten
    /// elsewhere. Rows of the tail stay. Durable when it returns.
    ///
    /// Costs a count of each replica, and a read of all files of those that cannot be counted.
    ///
    /// # Errors
    /// The manifest cannot be written. A replica cannot be counted, though its files may be whole: the disk
    /// refused a read and does not any more, a file cannot be opened, or it is of a later version of the
    /// program. Then nothing is taken out.
    pub fn give_up_damaged(&self, buckets: &[BucketId]) -> Result<(), Error> {
        let shared = self.shared();
        shared.check_open()?;
        let UncountedReplicas { replicas, segments, unreadable } = UncountedReplicas::of(shared, buckets);
        if replicas.is_empty() {
            return Ok(());
        }
        if let Some(error) = replicas.iter().find_map(|(_, refused)| refused.clone()) {
            return Err(error);
        }
        let replicas: Vec<BucketId> = replicas.into_iter().map(|(bucket, _)| bucket).collect();
        let retention_us = shared.tuning().tombstone_retention.as_micros() as u64;
        let since = shared.timestamps.now().0.saturating_sub(retention_us / 2);
        let are_young = unreadable.iter().all(|number| is_young(&segments[number], since));
        let since = if are_young { 0 } else { since };
        let given_up = GivenUpFiles { replicas: &replicas, unreadable, since };
        let leaving: Vec<u64> = segments
            .iter()
            .filter(|(_, segment)| !given_up.stays(segment))
            .map(|(number, _)| *number)
            .collect();
        let unreadable = &given_up.unreadable;
        tracing::error!(?unreadable, ?leaving, ?replicas, "segments leave damaged replicas");
        shared.publish_alone(&replicas, |state| Ok(given_up.without(state)))?;
        shared.counts.forget(&replicas);
        Ok(())
    }

    /// Those of these replicas that cannot be counted, each with the error for which
    /// [`Store::give_up_damaged`] takes nothing out of it; `None`: it takes damaged files out. Costs as much.
    ///
    /// # Errors
    /// The store is closed.
    pub fn uncounted_replicas(&self, buckets: &[BucketId]) -> Result<Vec<(BucketId, Option<Error>)>, Error> {
        self.shared().check_open()?;
        Ok(UncountedReplicas::of(self.shared(), buckets).replicas)
    }
}

/// Replicas that cannot be counted.
struct UncountedReplicas {
    /// With an error if none of their files is known to be damaged, or one may be whole that cannot be read.
    replicas: Vec<(BucketId, Option<Error>)>,
    /// Their segments, by number.
    segments: BTreeMap<u64, BucketSegment>,
    /// Numbers of those that cannot be read.
    unreadable: BTreeSet<u64>,
}

impl UncountedReplicas {
    /// Those of these buckets. Each file is read once.
    fn of(shared: &StoreContext, buckets: &[BucketId]) -> Self {
        let uncounted = uncounted(shared, buckets);
        let state = shared.state();
        let segments_of = |bucket: BucketId| {
            parts(&state, bucket).into_iter().flat_map(|part| part.segments.clone()).collect::<Vec<_>>()
        };
        let segments: BTreeMap<u64, BucketSegment> = uncounted
            .iter()
            .flat_map(|(bucket, _)| segments_of(*bucket))
            .map(|segment| (segment.record.number, segment))
            .collect();
        let mut unreadable = BTreeSet::new();
        let mut refused: BTreeMap<u64, Error> = BTreeMap::new();
        for (number, segment) in &segments {
            match is_unreadable(shared, segment) {
                Ok(false) => {}
                Ok(true) => {
                    unreadable.insert(*number);
                }
                Err(error) => {
                    refused.insert(*number, error);
                }
            }
        }
        let with_refusal = |(bucket, error): (BucketId, Error)| {
            let numbers = segments_of(bucket).into_iter().map(|segment| segment.record.number);
            let numbers: Vec<u64> = numbers.collect();
            let refusal = match numbers.iter().find_map(|number| refused.get(number)) {
                Some(refused) => Some(refused.clone()),
                None if numbers.iter().any(|number| unreadable.contains(number)) => None,
                // The disk refused a read, and does not any more: no file is a loss.
                None => Some(error),
            };
            (bucket, refusal)
        };
        let replicas = uncounted.into_iter().map(with_refusal).collect();
        UncountedReplicas { replicas, segments, unreadable }
    }
}

/// Those of these replicas that damage, or the disk, keeps from being counted, each with the error.
fn uncounted(shared: &StoreContext, buckets: &[BucketId]) -> Vec<(BucketId, Error)> {
    let counting = counting(shared);
    let error_of = |bucket: BucketId| match info(shared, &counting, bucket, Timestamp(0)) {
        Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => Some((bucket, error)),
        _ => None,
    };
    let is_replica = |bucket: &BucketId| counting.reading().state.replicas.contains_key(bucket);
    buckets.iter().copied().filter(is_replica).filter_map(error_of).collect()
}

/// Returns true if a segment is damaged, or the disk refuses to read it.
///
/// # Errors
/// It may be whole.
fn is_unreadable(shared: &StoreContext, segment: &BucketSegment) -> Result<bool, Error> {
    let refused = match &segment.opened {
        Ok(opened) => return Ok(opened.verify().is_err()),
        Err(error) => error,
    };
    let (disk, number) = (&*shared.options.disk, segment.record.number);
    let path = shared.segment_path(number);
    match disk.open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        // It belongs to another user, or too many files are open.
        Err(error) => return Err(Error::io("read a segment", &error)),
        Ok(_) => {}
    }
    match SegmentFile::open(disk, &path, number, Arc::clone(&shared.caches.segments)) {
        Err(error @ millrace_segment::Error::Version { .. }) => Err(error.into()),
        Err(_) => Ok(true),
        Ok(opened) if opened.verify().is_err() => Ok(true),
        Ok(_) => {
            let action = format!("fill replicas with documents in {}", path.display());
            let reason =
                format!("it could not be opened at the start ({refused}), and can now; start the node again");
            Err(Error::Io { action, reason })
        }
    }
}

/// Returns true if a segment certainly has no version from before a time.
fn is_young(segment: &BucketSegment, since: u64) -> bool {
    segment.opened.as_ref().is_ok_and(|opened| opened.oldest() >= since)
}

/// Segments that leave replicas.
struct GivenUpFiles<'a> {
    replicas: &'a [BucketId],
    /// Numbers of those that cannot be read.
    unreadable: BTreeSet<u64>,
    /// Others stay if they have no version from before this time.
    since: u64,
}

impl GivenUpFiles<'_> {
    fn is_readable(&self, segment: &BucketSegment) -> bool {
        !self.unreadable.contains(&segment.record.number)
    }

    /// Returns true if a segment stays in the replicas. Its number alone does not say so: others may have
    /// been merged into it since they were read.
    fn stays(&self, segment: &BucketSegment) -> bool {
        is_young(segment, self.since) && self.is_readable(segment)
    }

    fn without(&self, state: &StoreState) -> StoreState {
        let mut new = state.clone();
        let mut replicas = (*state.replicas).clone();
        for replica in self.replicas {
            // It may have been divided since.
            let Some(is_complete) = replicas.get_mut(replica) else { continue };
            *is_complete = false;
            new.buckets = isolated(&new.buckets, *replica);
            for part in new.buckets.iter_mut().filter(|part| is_part(part.id, *replica)) {
                *part = retaining(part, |segment| self.stays(segment));
            }
        }
        // What is left of former replicas is of no use, and would keep the files.
        for part in new.buckets.iter_mut().filter(|part| !is_of_replica(state, part.id)) {
            *part = retaining(part, |segment| self.is_readable(segment));
        }
        new.replicas = Arc::new(replicas);
        new
    }
}

/// A bucket with those of its segments that `stays` accepts.
fn retaining(bucket: &StoredBucket, stays: impl Fn(&BucketSegment) -> bool) -> Arc<StoredBucket> {
    let segments = bucket.segments.iter().filter(|segment| stays(segment)).cloned().collect();
    Arc::new(StoredBucket { id: bucket.id, segments })
}
