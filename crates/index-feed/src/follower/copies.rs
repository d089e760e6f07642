//! The copies of a node, and the buckets of their slices.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::Timestamp;

use super::bucket::FollowedBucket;
use super::{CopyDefinition, RETRY_US};
use crate::message::CopyMarks;

/// A copy.
#[derive(Debug)]
pub(crate) struct FollowingCopy {
    pub definition: CopyDefinition,
    pub buckets: BTreeMap<BucketId, FollowedBucket>,
    pub is_ready: bool,
    /// Time at which the positions of the owners were asked for.
    requested: Option<Timestamp>,
}

impl FollowingCopy {
    pub fn new(
        definition: CopyDefinition,
        marks: &CopyMarks,
        owners: &BTreeMap<BucketId, Option<NodeKey>>,
    ) -> Self {
        let mut copy =
            FollowingCopy { definition, buckets: BTreeMap::new(), is_ready: false, requested: None };
        // Before a state is known the marks stand for the buckets.
        let known = owners.keys().chain(marks.until.keys().filter(|_| owners.is_empty()));
        let own = known.filter(|bucket| copy.has(**bucket)).copied();
        let is_bucket = |bucket: BucketId| owners.is_empty() || owners.contains_key(&bucket);
        let followed =
            |bucket: BucketId| FollowedBucket::new(marks.of(bucket), marks.replica(bucket, is_bucket));
        copy.buckets = own.map(|bucket| (bucket, followed(bucket))).collect();
        copy
    }

    /// True if documents of the bucket are of the slice, or may be.
    fn has(&self, bucket: BucketId) -> bool {
        self.definition.slice.covers(bucket) || bucket.covers(self.definition.slice)
    }

    /// Marks of what it has.
    pub fn marks(&self) -> CopyMarks {
        let until = self.buckets.iter().map(|(bucket, followed)| (*bucket, followed.until));
        let marked = |(bucket, followed): (&BucketId, &FollowedBucket)| Some((*bucket, followed.mark?));
        CopyMarks { until: until.collect(), replicas: self.buckets.iter().filter_map(marked).collect() }
    }

    /// Takes in that buckets have other owners. New buckets go on where those were that had their documents.
    pub fn adopt(
        &mut self,
        before: &BTreeMap<BucketId, Option<NodeKey>>,
        owners: &BTreeMap<BucketId, Option<NodeKey>>,
        divided: &BTreeSet<BucketId>,
    ) {
        let own: Vec<BucketId> = owners.keys().filter(|bucket| self.has(**bucket)).copied().collect();
        let is_divided =
            own.len() != self.buckets.len() || own.iter().any(|bucket| !self.buckets.contains_key(bucket));
        if is_divided {
            let marks = self.marks();
            let mut former = std::mem::take(&mut self.buckets);
            for bucket in own {
                let mark = marks.replica(bucket, |bucket| owners.contains_key(&bucket));
                let new = || FollowedBucket::new(marks.of(bucket), mark);
                let mut followed = former.remove(&bucket).unwrap_or_else(new);
                followed.mark = mark;
                self.buckets.insert(bucket, followed);
            }
        }
        for (bucket, followed) in &mut self.buckets {
            if before.get(bucket) != owners.get(bucket) || divided.contains(bucket) {
                followed.detach();
            }
        }
    }

    /// True if the positions of the owners are to be asked for now.
    pub fn asks(&mut self, now: Timestamp) -> bool {
        let is_due = !self.is_ready
            && self.requested.is_none()
            && !self.buckets.is_empty()
            && self.buckets.values().all(FollowedBucket::is_caught_up);
        if is_due {
            self.requested = Some(now);
        }
        is_due
    }

    pub fn forget_late_question(&mut self, now: Timestamp) {
        self.requested.take_if(|requested| requested.0 + RETRY_US < now.0);
    }
}
