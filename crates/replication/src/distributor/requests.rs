use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterState, DropHorizon, NodeFailure, NodeKey, RowContent, UnfinishedRow};
use millrace_document::{DocumentId, DocumentVersion, DropScope, DroppedScope, Timestamp};

use super::Modify;
use super::batches::{BatchParts, PartId};
use super::event::{DecidedModification, RequestError, RequestTicket};
use super::lanes::DocumentLanes;

/// Identifies an operation of a client while it is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RequestId(pub u64);

/// An operation of a client.
pub(super) struct ClientRequest {
    pub ticket: RequestTicket,
    pub deadline: Duration,
    pub bucket: BucketId,
    /// The document of the operation; a drop concerns several.
    pub id: Option<DocumentId>,
    pub kind: ClientRequestKind,
    pub stage: RequestStage,
    /// Part of a batch that it belongs to.
    pub part: Option<PartId>,
    /// Row that it writes, once it has its timestamp.
    pub row: Option<Arc<RowContent>>,
    /// True if another owner may have written the document since it was read, or since the row was sent:
    /// before the row is sent, the newest version is checked.
    pub outdated: bool,
    /// True if a drop of its document was sent since it began to read.
    pub dropped: bool,
    /// Size that counts against the limit.
    pub bytes: usize,
}

/// Kind of a client's operation.
pub(super) enum ClientRequestKind {
    /// A row that does not depend on the stored version.
    Unconditional(UnconditionalRow),
    /// A function that decides; taken out when it runs, or already run by the previous owner.
    Modify {
        modify: Option<Modify>,
        found: Option<ModificationInput>,
        decided: Option<DecidedModification>,
    },
    Rewrite(PendingRewrite),
    Read,
}

/// A version that takes the place of the version that it was made from, at no client's request. Only the
/// owner that has read that version writes it: by a later state, another owner makes it again.
pub(super) struct PendingRewrite {
    pub base: Timestamp,
    /// Time that it must not be later than.
    pub until: Timestamp,
    pub body: Arc<[u8]>,
    /// True if the version was found to be the newest one.
    pub is_checked: bool,
}

/// State of a modification.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ModificationInput {
    pub exists: bool,
    pub timestamp: Timestamp,
}

impl ClientRequestKind {
    /// True if its row does not depend on an earlier version.
    pub fn is_unconditional(&self) -> bool {
        matches!(self, ClientRequestKind::Unconditional(_))
    }

    /// Approximate number of bytes that it occupies.
    pub fn bytes(&self) -> usize {
        const OVERHEAD: usize = 256;
        OVERHEAD
            + match self {
                ClientRequestKind::Unconditional(UnconditionalRow::Put(body)) => body.len(),
                ClientRequestKind::Rewrite(rewrite) => rewrite.body.len(),
                _ => 0,
            }
    }
}

impl ClientRequest {
    /// True if the document has to be read before anything can be written.
    pub fn must_read(&self) -> bool {
        match &self.kind {
            ClientRequestKind::Read => true,
            // A drop does not concern a single document.
            _ if self.outdated => self.id.is_some(),
            ClientRequestKind::Modify { decided, .. } => decided.is_none() && self.row.is_none(),
            ClientRequestKind::Rewrite(rewrite) => !rewrite.is_checked,
            ClientRequestKind::Unconditional(_) => false,
        }
    }

    /// True if its drop, if it is one, lies in its bucket by this state.
    pub fn drops_within(&self, state: &ClusterState) -> bool {
        let scope = match (&self.kind, self.row.as_deref()) {
            (_, Some(RowContent::Drop(DroppedScope { scope, .. }))) => scope,
            (ClientRequestKind::Unconditional(UnconditionalRow::Drop { scope, .. }), _) => scope,
            _ => return true,
        };
        match scope {
            DropScope::Group { group, .. } => state.buckets_of(group).contains(&self.bucket),
            DropScope::Type(_) => true,
        }
    }

    /// Horizon that it was decided by, if it is a drop with one that has not been sent.
    pub fn horizon(&self) -> Option<DropHorizon> {
        match (&self.kind, self.sent()) {
            (ClientRequestKind::Unconditional(UnconditionalRow::Drop { until, .. }), None) => *until,
            _ => None,
        }
    }

    /// Records that another owner may have written in between.
    pub fn outdate(&mut self) {
        let has_looked = matches!(&self.kind, ClientRequestKind::Modify { found: Some(_), .. });
        self.outdated |= has_looked || self.sent().is_some();
    }

    /// True if the row may be sent although another owner may have written in between, given that the newest
    /// version of the document has this timestamp (0: there is none). It may if there is no other write
    /// since: then the newest version is the row itself, or the version that the row was decided from.
    pub fn still_holds(&self, newest: Timestamp) -> bool {
        let sent = self.sent().map(|row| row.timestamp());
        match &self.kind {
            ClientRequestKind::Modify { found, .. } => {
                sent == Some(newest) || found.is_some_and(|found| found.timestamp == newest)
            }
            ClientRequestKind::Unconditional(_) => sent.is_none_or(|sent| newest <= sent),
            ClientRequestKind::Read => true,
            ClientRequestKind::Rewrite(_) => false,
        }
    }

    /// Row that may have reached replicas, for another owner.
    pub fn unfinished(&self) -> Option<UnfinishedRow> {
        let content = Arc::clone(self.sent()?);
        let base = match &self.kind {
            ClientRequestKind::Rewrite(_) => return None,
            ClientRequestKind::Modify { found, .. } => Some(found.unwrap_or_default().timestamp),
            ClientRequestKind::Unconditional(_) | ClientRequestKind::Read => None,
        };
        Some(UnfinishedRow { bucket: self.bucket, content, base })
    }

    /// Row that may have reached replicas.
    pub fn sent(&self) -> Option<&Arc<RowContent>> {
        self.row.as_ref()
    }

    /// Content to write: the first call assigns a timestamp, which then stays. `None`: nothing to write.
    pub fn content(&mut self, timestamp: impl FnOnce() -> Timestamp) -> Option<Arc<RowContent>> {
        if self.row.is_none() {
            let body = match &mut self.kind {
                ClientRequestKind::Unconditional(UnconditionalRow::Drop { scope, until }) => {
                    let timestamp = until.map_or_else(timestamp, |horizon| horizon.until);
                    let drop = DroppedScope { scope: scope.clone(), timestamp };
                    self.row = Some(Arc::new(RowContent::Drop(drop)));
                    return self.row.clone();
                }
                ClientRequestKind::Unconditional(UnconditionalRow::Put(body)) => Some(Arc::clone(body)),
                ClientRequestKind::Unconditional(UnconditionalRow::Remove) => None,
                ClientRequestKind::Rewrite(rewrite) => Some(Arc::clone(&rewrite.body)),
                ClientRequestKind::Modify { decided, .. } => match decided.take()? {
                    DecidedModification::Put(body) => Some(body),
                    DecidedModification::Remove => None,
                    DecidedModification::Nothing => return None,
                },
                ClientRequestKind::Unconditional(UnconditionalRow::Finish) | ClientRequestKind::Read => {
                    return None;
                }
            };
            let id = self.id.clone()?;
            self.row =
                Some(Arc::new(RowContent::Version(DocumentVersion { id, timestamp: timestamp(), body })));
        }
        self.row.clone()
    }
}

/// A row that does not depend on the document's previous version.
pub(super) enum UnconditionalRow {
    Put(Arc<[u8]>),
    Remove,
    Drop {
        scope: DropScope,
        until: Option<DropHorizon>,
    },
    /// A row of the previous owner.
    Finish,
}

/// Progress of an operation.
pub(super) enum RequestStage {
    /// Waits for earlier operations on the same document.
    InLane,
    /// Waits for the bucket, or for the confirmation of the state.
    Waiting,
    /// Waits for the answers of replicas.
    Reading { waiting_for: Vec<NodeKey>, newest: Option<DocumentVersion>, failure: Option<NodeFailure> },
    /// Waits for the function of a modification.
    Deciding,
    /// Waits for replicas to make the row durable.
    InFlight(InFlightRow),
    /// Durable on this number of replicas; waits for the confirmation of the state.
    Durable(u16),
}

/// A row that is being sent to replicas.
pub(super) struct InFlightRow {
    pub waiting_for: Vec<NodeKey>,
    pub reached: u16,
    pub failure: Option<NodeFailure>,
    /// True if a node may have the row, though none has acknowledged it: a node that it was sent to earlier,
    /// or one that failed with an unknown result.
    pub may_be_there: bool,
}

impl InFlightRow {
    /// Records that a replica could not take the row.
    pub fn fail(&mut self, failure: NodeFailure) {
        self.may_be_there |= !matches!(failure, NodeFailure::DiskFull { .. });
        self.failure = Some(failure);
    }

    /// The error for the client, if a replica could not take the row.
    pub fn error(&mut self) -> Option<RequestError> {
        let failure = self.failure.take()?;
        let is_nowhere = self.reached == 0 && !self.may_be_there;
        Some(if is_nowhere { RequestError::Failed(failure) } else { RequestError::Partial(failure) })
    }
}

/// All operations of clients in progress, within bounds.
#[derive(Default)]
pub(super) struct ClientRequests {
    pub slots: BTreeMap<RequestId, ClientRequest>,
    pub lanes: DocumentLanes,
    /// Parts of batches of which nothing has been sent yet.
    pub parts: BatchParts,
    /// Operations that wait for the confirmation of the state.
    pub unconfirmed: BTreeSet<RequestId>,
    /// Operations that drop documents.
    pub drops: BTreeSet<RequestId>,
    deadlines: BTreeSet<(Duration, RequestId)>,
    next: u64,
    bytes: usize,
}

impl ClientRequests {
    /// Inserts an operation. The bound is checked before, with [`ClientRequests::is_full`].
    pub fn insert(&mut self, request: ClientRequest) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.bytes += request.bytes;
        self.deadlines.insert((request.deadline, id));
        if request.kind.drops() {
            self.drops.insert(id);
        }
        let before = self.slots.insert(id, request);
        assert!(before.is_none(), "two operations have one name");
        id
    }

    pub fn remove(&mut self, id: RequestId) -> Option<ClientRequest> {
        let request = self.slots.remove(&id)?;
        assert!(
            self.bytes >= request.bytes,
            "an operation counts as many bytes when it ends as when it began"
        );
        self.bytes -= request.bytes;
        self.deadlines.remove(&(request.deadline, id));
        self.unconfirmed.remove(&id);
        self.drops.remove(&id);
        Some(request)
    }

    pub fn is_full(&self, count_max: usize, bytes_max: usize) -> bool {
        self.slots.len() >= count_max || self.bytes >= bytes_max
    }

    /// Operations whose deadline has passed.
    pub fn expired(&self, now: Duration) -> Vec<RequestId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect()
    }

    /// Time of the first deadline.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
