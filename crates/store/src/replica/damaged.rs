//! Replicas that cannot be read: what is damaged leaves them, before they are filled from complete ones of
//! other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use super::{counting, info, is_of_replica, isolated, parts};
use crate::context::StoreContext;
use crate::state::{BucketSegment, StoreState, StoredBucket, is_part};
use crate::{Error, Store};

impl Store {
    /// Takes damaged files out of those of these replicas that cannot be counted because of them. These
    /// replicas are incomplete from then on, and must be filled from complete ones. Their other files stay if
    /// all versions in them are younger than half of the time for which removals are remembered: removals of
    /// older ones may have been in the damaged files, and be forgotten elsewhere. Rows of the tail stay.
    /// Durable when it returns.
    ///
    /// Costs a count of each replica, and a read of all files of those that cannot be counted.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn give_up_damaged(&self, buckets: &[BucketId]) -> Result<(), Error> {
        let shared = self.shared();
        shared.check_open()?;
        let damaged = damaged(shared, buckets);
        if damaged.is_empty() {
            return Ok(());
        }
        let state = shared.state();
        let parts = damaged.iter().flat_map(|bucket| parts(&state, *bucket));
        let segments: BTreeMap<u64, BucketSegment> = parts
            .flat_map(|part| part.segments.clone())
            .map(|segment| (segment.record.number, segment))
            .collect();
        drop(state);
        let retention_us = shared.tuning().tombstone_retention.as_micros() as u64;
        let since = shared.timestamps.now().0.saturating_sub(retention_us / 2);
        let (mut unreadable, mut leaving) = (BTreeSet::new(), BTreeSet::new());
        for (number, segment) in &segments {
            let opened = segment.opened.as_ref();
            let is_whole = opened.is_ok_and(|opened| opened.verify().is_ok());
            let is_young = opened.is_ok_and(|opened| opened.oldest() >= since);
            if !is_whole {
                unreadable.insert(*number);
            }
            if !is_whole || !is_young {
                leaving.insert(*number);
            }
        }
        tracing::error!(?unreadable, ?leaving, replicas = ?damaged, "segments leave damaged replicas");
        let given_up = GivenUpFiles { replicas: &damaged, unreadable, leaving };
        shared.publish_alone(&damaged, |state| Ok(given_up.without(state)))?;
        shared.counts.forget(&damaged);
        Ok(())
    }
}

/// The replicas of these buckets that damage, or the disk, keeps from being counted.
fn damaged(shared: &StoreContext, buckets: &[BucketId]) -> Vec<BucketId> {
    let counting = counting(shared);
    let is_replica = |bucket: &BucketId| counting.reading().state.replicas.contains_key(bucket);
    let is_damaged = |bucket: &BucketId| {
        let counted = info(shared, &counting, *bucket, Timestamp(0));
        matches!(counted, Err(Error::Corrupt { .. } | Error::Io { .. }))
    };
    buckets.iter().copied().filter(|bucket| is_replica(bucket) && is_damaged(bucket)).collect()
}

/// Segments that leave replicas, by number.
struct GivenUpFiles<'a> {
    replicas: &'a [BucketId],
    unreadable: BTreeSet<u64>,
    leaving: BTreeSet<u64>,
}

impl GivenUpFiles<'_> {
    fn without(&self, state: &StoreState) -> StoreState {
        let mut new = state.clone();
        let mut replicas = (*state.replicas).clone();
        for replica in self.replicas {
            new.buckets = isolated(&new.buckets, *replica);
            for part in new.buckets.iter_mut().filter(|part| is_part(part.id, *replica)) {
                *part = with_others(part, &self.leaving);
            }
            replicas.insert(*replica, false);
        }
        // What is left of former replicas is of no use, and would keep the files.
        for part in new.buckets.iter_mut().filter(|part| !is_of_replica(state, part.id)) {
            *part = with_others(part, &self.unreadable);
        }
        new.replicas = Arc::new(replicas);
        new
    }
}

/// A bucket with its other segments.
fn with_others(bucket: &StoredBucket, gone: &BTreeSet<u64>) -> Arc<StoredBucket> {
    let others = bucket.segments.iter().filter(|segment| !gone.contains(&segment.record.number));
    Arc::new(StoredBucket { id: bucket.id, segments: others.cloned().collect() })
}
