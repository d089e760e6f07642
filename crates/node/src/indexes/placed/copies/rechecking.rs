//! Copies whose verification is due, and documents that it has found to differ.

use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_index_placement::CopyId;

use super::super::verifying::DueVerification;
use super::{CopyAction, NodeCopies, number};

impl NodeCopies {
    /// The copy for whose verification it has been time for longest; none that is not ready, or leaves.
    pub fn due_verification(&self, interval: Duration) -> Option<DueVerification> {
        let due = self.open_copies().filter_map(|(copy, open)| {
            let known = self.copies.get(&copy).filter(|known| known.leaving.is_none())?;
            let verification = *open.kept.verification.lock();
            let is_due = self.follower.is_ready(number(copy)) && verification.is_due(interval);
            is_due.then_some((verification.from_ms, copy, known.slice, &open.kept))
        });
        let (_, copy, slice, kept) = due.min_by_key(|(from_ms, copy, ..)| (*from_ms, *copy))?;
        Some(DueVerification { copy, slice, kept: Arc::clone(kept) })
    }

    /// Looks documents of a bucket up in which a copy differs from the owner by a state; not if this node
    /// acts by another state by now, in which the bucket may have other documents.
    pub fn recheck(
        &mut self,
        copy: CopyId,
        version: u64,
        bucket: BucketId,
        documents: Vec<Vec<u8>>,
        now: Timestamp,
    ) -> Vec<CopyAction> {
        if self.version() != version {
            return Vec::new();
        }
        let effects = self.follower.recheck(number(copy), bucket, documents, now);
        self.carry_out(effects, now)
    }
}
