//! Drops and the writes that they must win over: modifications that read a document before it is dropped, and
//! rewrites, which no client has asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{DropHorizon, MachineTime, RowContent};
use millrace_document::{DocumentGroup, DocumentId, DropScope, DroppedScope, Timestamp};

use super::event::RequestError;
use super::machine::Distributor;
use super::requests::{ClientRequest, ClientRequestKind, RequestId, RequestStage, UnconditionalRow};

/// Time for which a client may examine the documents that it drops.
const CLAIM: Duration = Duration::from_secs(10);

/// Maximum number of claims at one time.
const CLAIMS_MAX: usize = 1024;

/// Groups that clients examine in order to drop them. While a group is claimed, none of its documents is
/// rewritten: the drop would miss it under its new time. A claim ends with its drop, or when rows may have
/// come that were not examined: with the cluster state, or with a row of an earlier owner.
#[derive(Debug, Default)]
pub(super) struct DropClaims {
    open: BTreeMap<u64, DropClaim>,
    next: u64,
}

#[derive(Debug)]
struct DropClaim {
    bucket: BucketId,
    group: DocumentGroup,
    expires: Duration,
}

impl DropClaims {
    fn begin(&mut self, bucket: BucketId, group: &DocumentGroup, now: Duration) -> Option<u64> {
        self.open.retain(|_, claim| claim.expires > now);
        if self.open.len() >= CLAIMS_MAX {
            return None;
        }
        self.next += 1;
        let claim = DropClaim { bucket, group: group.clone(), expires: now + CLAIM };
        self.open.insert(self.next, claim);
        Some(self.next)
    }

    /// True if the claim has not ended.
    pub fn holds(&self, claim: u64, now: Duration) -> bool {
        self.open.get(&claim).is_some_and(|claim| claim.expires > now)
    }

    /// Ends a claim, if it has not ended.
    pub fn end(&mut self, claim: u64) {
        self.open.remove(&claim);
    }

    /// Ends the claims on groups in a bucket.
    pub fn end_in(&mut self, bucket: BucketId) {
        self.open.retain(|_, claim| claim.bucket != bucket);
    }

    /// Ends all claims.
    pub fn end_all(&mut self) {
        self.open.clear();
    }

    /// True if the group of a document is claimed.
    fn cover(&self, bucket: BucketId, id: &DocumentId, now: Duration) -> bool {
        let covers =
            |claim: &DropClaim| claim.bucket == bucket && claim.group == *id.group() && claim.expires > now;
        self.open.values().any(covers)
    }
}

impl ClientRequest {
    /// The drop of this request, once it was sent.
    fn sent_drop(&self) -> Option<&DroppedScope> {
        match self.sent().map(|row| &**row) {
            Some(RowContent::Drop(dropped)) => Some(dropped),
            _ => None,
        }
    }

    /// True if it writes a document that depends on an earlier version, and nothing was sent.
    fn is_conditional(&self) -> bool {
        let depends = matches!(self.kind, ClientRequestKind::Modify { .. } | ClientRequestKind::Rewrite(_));
        depends && self.sent().is_none()
    }

    /// True if its document is in the scope of a drop of its bucket.
    fn is_in(&self, scope: &DropScope) -> bool {
        self.id.as_ref().is_some_and(|id| match scope {
            DropScope::Group { document_type, group } => {
                group == id.group() && document_type.as_ref().is_none_or(|name| name == id.document_type())
            }
            DropScope::Type(name) => name == id.document_type(),
        })
    }
}

impl Distributor {
    /// Claims a group of a bucket for a [`DocumentChange::Drop`](super::DocumentChange::Drop) that affects no
    /// row that arrives from now on. Returns the time up to which all rows of the group are on the replicas
    /// of the bucket, except for rewrites in progress: a drop up to that time affects these as well.
    ///
    /// # Errors
    /// Another node owns the bucket; or a rewrite in progress is later than a row of a client.
    pub fn drop_horizon(
        &mut self,
        bucket: BucketId,
        group: &DocumentGroup,
        now: MachineTime,
    ) -> Result<DropHorizon, RequestError> {
        if self.owner(bucket) != Some(self.me) {
            return Err(self.moved(bucket));
        }
        let mut until = self.clock.last();
        let mut rewritten = Timestamp::default();
        for request in self.requests.slots.values().filter(|request| request.bucket == bucket) {
            let of_group = request.id.as_ref().is_none_or(|id| id.group() == group);
            let Some(sent) = request.sent().filter(|_| of_group).map(|row| row.timestamp()) else { continue };
            match request.kind {
                ClientRequestKind::Rewrite(_) => rewritten = rewritten.max(sent),
                _ => until = until.min(Timestamp(sent.0.saturating_sub(1))),
            }
        }
        if rewritten > until {
            return Err(self.moved(bucket));
        }
        let claim = self.claims.begin(bucket, group, now.monotonic).ok_or(RequestError::Overloaded)?;
        Ok(DropHorizon { until, claim })
    }

    /// True if a write has to begin again, since a drop of its document is in progress, or was sent after the
    /// write had begun to read; or if a rewrite is too late.
    pub(super) fn yields_to_drop(&self, id: RequestId) -> bool {
        let Some(request) = self.requests.slots.get(&id).filter(|request| request.is_conditional()) else {
            return false;
        };
        let is_dropped = |drop: &RequestId| {
            let drop = self.requests.slots.get(drop).filter(|drop| drop.bucket == request.bucket);
            drop.and_then(ClientRequest::sent_drop).is_some_and(|dropped| request.is_in(&dropped.scope))
        };
        let is_held_up = match (&request.kind, &request.id) {
            (ClientRequestKind::Rewrite(rewrite), Some(id)) => {
                self.claims.cover(request.bucket, id, self.now.monotonic)
                    || self.clock.peek(self.now.wall_us) > rewrite.until
            }
            _ => false,
        };
        request.dropped || is_held_up || self.requests.drops.iter().any(is_dropped)
    }

    /// Lets the writes begin again that have read documents of this drop, which is being sent.
    pub(super) fn restart_conditional(&mut self, bucket: BucketId, dropped: &DroppedScope) {
        for request in self.requests.slots.values_mut() {
            let has_begun = request.bucket == bucket
                && request.is_conditional()
                && !matches!(request.stage, RequestStage::InLane);
            request.dropped |= has_begun && request.is_in(&dropped.scope);
        }
    }
}

impl ClientRequestKind {
    /// True if it drops documents.
    pub(super) fn drops(&self) -> bool {
        matches!(
            self,
            ClientRequestKind::Unconditional(UnconditionalRow::Drop { .. } | UnconditionalRow::Finish)
        )
    }

    /// Claim of a drop that was decided by one.
    pub(super) fn claim(&self) -> Option<u64> {
        match self {
            ClientRequestKind::Unconditional(UnconditionalRow::Drop { until, .. }) => {
                until.map(|horizon| horizon.claim)
            }
            _ => None,
        }
    }
}
