use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DropScope, DroppedScope, Timestamp};

use super::Modify;
use super::event::{DecidedModification, DropHorizon, RequestTicket, UnfinishedRow};
use super::lanes::DocumentLanes;
use crate::{ClusterState, NodeFailure, NodeKey, RowContent};

/// Names an operation of a client while it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RequestId(pub u64);

/// An operation of a client.
pub(super) struct ClientRequest {
    pub ticket: RequestTicket,
    pub deadline: Duration,
    pub bucket: BucketId,
    /// The document that it is about; a drop is about several.
    pub id: Option<DocumentId>,
    pub kind: ClientRequestKind,
    pub stage: RequestStage,
    /// What it writes, from when it has its timestamp.
    pub row: Option<Arc<RowContent>>,
    /// Another owner may have written the document since it was looked at, or since the row was sent: before
    /// the row goes out, it is looked whether one has.
    pub outdated: bool,
    /// What it counts against the limit.
    pub bytes: usize,
}

/// What a client asked for.
pub(super) enum ClientRequestKind {
    /// A row that is known from the start.
    Blind(BlindRow),
    /// A function that decides; taken out when it runs, or run by the owner before.
    Modify {
        modify: Option<Modify>,
        found: Option<ModificationInput>,
        decided: Option<DecidedModification>,
    },
    Read,
}

/// What a modification has found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ModificationInput {
    pub exists: bool,
    pub timestamp: Timestamp,
}

impl ClientRequestKind {
    /// Whether its row does not depend on what was there before.
    pub fn is_blind(&self) -> bool {
        matches!(self, ClientRequestKind::Blind(_))
    }

    /// About how many bytes it takes to hold it.
    pub fn bytes(&self) -> usize {
        const OVERHEAD: usize = 256;
        OVERHEAD
            + match self {
                ClientRequestKind::Blind(BlindRow::Put(body)) => body.len(),
                _ => 0,
            }
    }
}

impl ClientRequest {
    /// Whether the document has to be read before anything can be written.
    pub fn must_read(&self) -> bool {
        match &self.kind {
            ClientRequestKind::Read => true,
            // A drop is of no one document.
            _ if self.outdated => self.id.is_some(),
            ClientRequestKind::Modify { decided, .. } => decided.is_none() && self.row.is_none(),
            ClientRequestKind::Blind(_) => false,
        }
    }

    /// Whether what it drops, if it drops something, lies in its bucket.
    pub fn drops_within(&self, state: &ClusterState) -> bool {
        let scope = match (&self.kind, self.row.as_deref()) {
            (_, Some(RowContent::Drop(DroppedScope { scope, .. }))) => scope,
            (ClientRequestKind::Blind(BlindRow::Drop { scope, .. }), _) => scope,
            _ => return true,
        };
        match scope {
            DropScope::Group { group, .. } => state.buckets_of(group).contains(&self.bucket),
            DropScope::Type(_) => true,
        }
    }

    /// The horizon that it was decided by, if it is a drop that has one and has not been sent.
    pub fn horizon(&self) -> Option<DropHorizon> {
        match (&self.kind, self.sent()) {
            (ClientRequestKind::Blind(BlindRow::Drop { until, .. }), None) => *until,
            _ => None,
        }
    }

    /// Another owner may have come between.
    pub fn outdate(&mut self) {
        let has_looked = matches!(&self.kind, ClientRequestKind::Modify { found: Some(_), .. });
        self.outdated |= has_looked || self.sent().is_some();
    }

    /// Whether the row may go out though another owner may have come between, where the newest version of the
    /// document is of this time (0: there is none). It may if nobody has written since: then what is there is
    /// the row itself, or what it was decided from.
    pub fn still_holds(&self, newest: Timestamp) -> bool {
        let sent = self.sent().map(|row| row.timestamp());
        match &self.kind {
            ClientRequestKind::Modify { found, .. } => {
                sent == Some(newest) || found.is_some_and(|found| found.timestamp == newest)
            }
            ClientRequestKind::Blind(_) => sent.is_none_or(|sent| newest <= sent),
            ClientRequestKind::Read => true,
        }
    }

    /// The row that may have reached replicas, for another owner.
    pub fn unfinished(&self) -> Option<UnfinishedRow> {
        let content = Arc::clone(self.sent()?);
        let base = match &self.kind {
            ClientRequestKind::Modify { found, .. } => Some(found.unwrap_or_default().timestamp),
            ClientRequestKind::Blind(_) | ClientRequestKind::Read => None,
        };
        Some(UnfinishedRow { bucket: self.bucket, content, base })
    }

    /// The row that may have reached replicas.
    pub fn sent(&self) -> Option<&Arc<RowContent>> {
        self.row.as_ref()
    }

    /// What is to be written: the first time it gets a timestamp, and keeps it. `None`: nothing.
    pub fn content(&mut self, timestamp: impl FnOnce() -> Timestamp) -> Option<Arc<RowContent>> {
        if self.row.is_none() {
            let body = match &mut self.kind {
                ClientRequestKind::Blind(BlindRow::Drop { scope, until }) => {
                    let timestamp = until.map_or_else(timestamp, |horizon| horizon.until);
                    let drop = DroppedScope { scope: scope.clone(), timestamp };
                    self.row = Some(Arc::new(RowContent::Drop(drop)));
                    return self.row.clone();
                }
                ClientRequestKind::Blind(BlindRow::Put(body)) => Some(Arc::clone(body)),
                ClientRequestKind::Blind(BlindRow::Remove) => None,
                ClientRequestKind::Modify { decided, .. } => match decided.take()? {
                    DecidedModification::Put(body) => Some(body),
                    DecidedModification::Remove => None,
                    DecidedModification::Nothing => return None,
                },
                ClientRequestKind::Blind(BlindRow::Finish) | ClientRequestKind::Read => return None,
            };
            let id = self.id.clone()?;
            self.row =
                Some(Arc::new(RowContent::Version(DocumentVersion { id, timestamp: timestamp(), body })));
        }
        self.row.clone()
    }
}

/// A row without a document's version before it.
pub(super) enum BlindRow {
    Put(Arc<[u8]>),
    Remove,
    Drop {
        scope: DropScope,
        until: Option<DropHorizon>,
    },
    /// The owner before has made it.
    Finish,
}

/// How far an operation is.
pub(super) enum RequestStage {
    /// Others of the same document go first.
    InLane,
    /// For the bucket, or for the state to be confirmed.
    Waiting,
    /// For replicas to say what they have.
    Reading { waiting_for: Vec<NodeKey>, newest: Option<DocumentVersion>, failure: Option<NodeFailure> },
    /// For the function.
    Deciding,
    /// For replicas to make the row durable.
    Flying(RowFlight),
    /// Durable on so many replicas; for the state to be confirmed.
    Durable(u16),
}

/// A row on its way to replicas.
pub(super) struct RowFlight {
    pub waiting_for: Vec<NodeKey>,
    pub reached: u16,
    pub failure: Option<NodeFailure>,
}

/// All operations of clients that are under way, within bounds.
#[derive(Default)]
pub(super) struct ClientRequests {
    pub slots: BTreeMap<RequestId, ClientRequest>,
    pub lanes: DocumentLanes,
    /// Those that wait for the state to be confirmed.
    pub unconfirmed: BTreeSet<RequestId>,
    deadlines: BTreeSet<(Duration, RequestId)>,
    next: u64,
    bytes: usize,
}

impl ClientRequests {
    /// Takes one on. The bound is checked before, with [`ClientRequests::is_full`].
    pub fn insert(&mut self, request: ClientRequest) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.bytes += request.bytes;
        self.deadlines.insert((request.deadline, id));
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
        Some(request)
    }

    pub fn is_full(&self, count_max: usize, bytes_max: usize) -> bool {
        self.slots.len() >= count_max || self.bytes >= bytes_max
    }

    /// Those whose deadline has passed.
    pub fn late(&self, now: Duration) -> Vec<RequestId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect()
    }

    /// When the first deadline passes.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
