//! Standings of the buckets of an owner: how much of what all replicas should have they have.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use crate::MARGIN_US;

/// Standing of the replica of a bucket at its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BucketStanding {
    /// It may lack versions that were acknowledged, or that any other replica has.
    Incomplete,
    /// It has everything that was acknowledged; others may lack a write that is in flight, and that a closing
    /// would be about.
    Whole,
    /// All replicas have everything that a closing is about.
    Settled,
}

/// Beginning of a look of a node at the buckets that it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LookBeginning {
    /// Reading of the clock that timestamps of writes come from.
    pub(crate) at: Timestamp,
    /// Number of disturbances that the feed had counted.
    pub(crate) disturbances: u64,
}

impl LookBeginning {
    /// Time from before which versions are complete by the look. Writes that begin after it are later.
    pub(crate) fn closing(self) -> Timestamp {
        Timestamp(self.at.0.saturating_sub(MARGIN_US))
    }
}

/// Look of a node at the buckets that it owns by a cluster state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerLook {
    pub(crate) beginning: LookBeginning,
    pub(crate) standings: BTreeMap<BucketId, BucketStanding>,
}

impl OwnerLook {
    /// Judges the owned buckets; `None` if nothing is known now of any of them. What is passed is read in
    /// this order, after the beginning:
    ///
    /// - `oldest_writes`: times of the oldest writes that a replica may lack, by bucket: of those that the
    ///   node brings to replicas; 0 for a drop, which concerns versions of any time, and where replicas may
    ///   differ. One that is given up before the buckets are read is among them, or takes `true` from its
    ///   bucket.
    /// - `owned`: for each owned bucket, true if the node's replica has everything acknowledged that any
    ///   serving node has. After a write was given up this is false, or its bucket is one where replicas may
    ///   differ, until the replicas were found equal when no message of that write could arrive any more.
    ///   `None` for a bucket of which it is not known now.
    pub fn new(
        beginning: LookBeginning,
        oldest_writes: &BTreeMap<BucketId, Timestamp>,
        owned: impl IntoIterator<Item = (BucketId, Option<bool>)>,
    ) -> Option<Self> {
        let mut is_any_known = false;
        let judged = owned.into_iter().map(|(bucket, has_all)| {
            is_any_known |= has_all.is_some();
            let is_late = oldest_writes.get(&bucket).is_some_and(|oldest| *oldest < beginning.closing());
            let standing = match (has_all, is_late) {
                (None | Some(false), _) => BucketStanding::Incomplete,
                // Other replicas may not have the write yet.
                (Some(true), true) => BucketStanding::Whole,
                (Some(true), false) => BucketStanding::Settled,
            };
            (bucket, standing)
        });
        let standings: BTreeMap<BucketId, BucketStanding> = judged.collect();
        (is_any_known || standings.is_empty()).then_some(OwnerLook { beginning, standings })
    }

    /// Standings of the buckets.
    pub fn standings(&self) -> &BTreeMap<BucketId, BucketStanding> {
        &self.standings
    }
}
