//! Report of an owner on its buckets: how much of what all replicas should have they have.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use crate::MARGIN_US;

/// State of the replica of a bucket at its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnedReplicaState {
    /// Possibly without versions that were acknowledged, or that any other replica has.
    Incomplete,
    /// With everything that was acknowledged, while others may lack a write in flight that a closing would be
    /// about.
    Whole,
    /// Equal to all other replicas in everything that a closing is about.
    Settled,
}

/// Start of a report of a node on the buckets that it owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportStart {
    /// Reading of the clock that timestamps of writes come from.
    pub(crate) at: Timestamp,
    /// Number of disturbances that the feed had counted.
    pub(crate) disturbances: u64,
}

impl ReportStart {
    /// Time from before which versions are complete by the report. Writes that begin after it are later.
    pub(crate) fn closing(self) -> Timestamp {
        Timestamp(self.at.0.saturating_sub(MARGIN_US))
    }
}

/// Report of a node on the buckets that it owns by a cluster state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReport {
    pub(crate) start: ReportStart,
    pub(crate) replicas: BTreeMap<BucketId, OwnedReplicaState>,
}

impl OwnerReport {
    /// Judges the owned buckets; `None` if nothing is known now of any of them. What is passed is read in
    /// this order, after the start:
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
        start: ReportStart,
        oldest_writes: &BTreeMap<BucketId, Timestamp>,
        owned: impl IntoIterator<Item = (BucketId, Option<bool>)>,
    ) -> Option<Self> {
        let mut is_any_known = false;
        let judged = owned.into_iter().map(|(bucket, has_all)| {
            is_any_known |= has_all.is_some();
            let is_late = oldest_writes.get(&bucket).is_some_and(|oldest| *oldest < start.closing());
            let replica = match (has_all, is_late) {
                (None | Some(false), _) => OwnedReplicaState::Incomplete,
                // Other replicas may not have the write yet.
                (Some(true), true) => OwnedReplicaState::Whole,
                (Some(true), false) => OwnedReplicaState::Settled,
            };
            (bucket, replica)
        });
        let replicas: BTreeMap<BucketId, OwnedReplicaState> = judged.collect();
        (is_any_known || replicas.is_empty()).then_some(OwnerReport { start, replicas })
    }

    /// States of the replicas, by bucket.
    pub fn replicas(&self) -> &BTreeMap<BucketId, OwnedReplicaState> {
        &self.replicas
    }
}
