//! Requests and results of clients, and the checks of the cluster's guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::DroppedTypes;
use millrace_document::{DocumentGroup, DocumentId, Timestamp};

use crate::clients::CLIENT_TIMEOUT;

/// Identifies an operation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationId(pub u64);

/// Request of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClientIntent {
    Put(DocumentId),
    Remove(DocumentId),
    /// Writes the document if it exists, else refuses; the version that it found counts as a read.
    Modify(DocumentId),
    Read(DocumentId),
    /// A node writes the document again, by changed indexing statements, if it still has the version that was
    /// read.
    Rewrite(DocumentId),
    /// Drops all documents of a group, unseen.
    DropGroup(DocumentGroup, DocumentId),
    /// Drops the documents of the group and the type of this one, if all of them have its namespace.
    DropExamined(DocumentId),
}

impl ClientIntent {
    /// The document of the operation, or one with the same destination.
    pub fn id(&self) -> &DocumentId {
        match self {
            ClientIntent::Put(id)
            | ClientIntent::Remove(id)
            | ClientIntent::Modify(id)
            | ClientIntent::Read(id)
            | ClientIntent::Rewrite(id)
            | ClientIntent::DropExamined(id)
            | ClientIntent::DropGroup(_, id) => id,
        }
    }

    /// The group that the operation may drop.
    fn dropped_group(&self) -> Option<&DocumentGroup> {
        match self {
            ClientIntent::DropGroup(group, _) => Some(group),
            ClientIntent::DropExamined(id) => Some(id.group()),
            _ => None,
        }
    }

    /// True if the operation leaves a document when it succeeds.
    fn leaves_document(&self) -> bool {
        matches!(self, ClientIntent::Put(_) | ClientIntent::Modify(_) | ClientIntent::Rewrite(_))
    }
}

/// Result received by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientOutcome {
    Nothing,
    /// The write is acknowledged, with this timestamp.
    Acknowledged(Timestamp),
    /// Nothing was written, so the write must never be seen.
    NotWritten,
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct ClientOperation {
    pub intent: ClientIntent,
    pub outcome: ClientOutcome,
    /// Last bucket of a drop, which determines the affected documents.
    pub bucket: Option<BucketId>,
}

/// A version of a document that a node has read to write it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RewrittenVersion {
    /// Operation of a client that the content is from.
    pub origin: OperationId,
    /// Operation that wrote the version.
    pub writer: OperationId,
    pub timestamp: Timestamp,
}

/// An acknowledged drop of documents of a group.
#[derive(Debug, Clone)]
struct AcknowledgedDrop {
    bucket: BucketId,
    /// `None`: documents of all types.
    document_type: Option<String>,
    timestamp: Timestamp,
}

impl AcknowledgedDrop {
    fn affects(&self, id: &DocumentId) -> bool {
        self.bucket.contains(id.location())
            && self.document_type.as_ref().is_none_or(|name| name == id.document_type())
    }
}

/// The state of a document when an operation decided to drop it with its group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExaminedDocument {
    /// Version that the operation found; 0 if there was none.
    pub found: Timestamp,
    /// Acknowledged version that could not be found, because no node that has reported to the owner had it; 0
    /// if there is none.
    pub out_of_reach: Timestamp,
}

/// History of all operations of clients.
#[derive(Debug, Default)]
pub(crate) struct ClientHistory {
    pub operations: BTreeMap<OperationId, ClientOperation>,
    /// Newest acknowledged write of each document.
    acknowledged: BTreeMap<DocumentId, (Timestamp, OperationId)>,
    /// Newest acknowledged write of each document by a client.
    contents: BTreeMap<DocumentId, (Timestamp, OperationId)>,
    /// Versions that were written again.
    bases: BTreeMap<OperationId, RewrittenVersion>,
    /// Times of acknowledgements.
    acknowledged_at: BTreeMap<OperationId, Duration>,
    /// Acknowledged drops of each group.
    dropped: BTreeMap<DocumentGroup, Vec<AcknowledgedDrop>>,
    /// Documents that operations examined before they dropped a group.
    examined: BTreeMap<OperationId, BTreeMap<DocumentId, ExaminedDocument>>,
    /// Last operation that had begun when a drop was acknowledged.
    last_before: BTreeMap<OperationId, OperationId>,
    /// Removals and drops before this time may be forgotten.
    forgotten: Timestamp,
    /// Document types that deployments have removed.
    types: DroppedTypes,
    /// Groups with drops whose outcome is unknown.
    uncertain: BTreeMap<DocumentGroup, BTreeSet<OperationId>>,
    pub acknowledgements: u64,
    pub reads: u64,
}

impl ClientHistory {
    pub fn begin(&mut self, intent: ClientIntent) -> OperationId {
        let id = OperationId(self.operations.len() as u64 + 1);
        self.operations.insert(id, ClientOperation { intent, outcome: ClientOutcome::Nothing, bucket: None });
        id
    }

    /// Records the version that an operation writes again.
    pub fn rewrites(&mut self, id: OperationId, base: RewrittenVersion) {
        self.bases.insert(id, base);
    }

    /// Time at which an operation was acknowledged.
    pub fn acknowledged_at(&self, id: OperationId) -> Option<Duration> {
        self.acknowledged_at.get(&id).copied()
    }

    /// Records that a node begins an operation, which may drop documents of this bucket from now on.
    pub fn may_drop(&mut self, id: OperationId, bucket: BucketId) {
        let operation = self.operations.get_mut(&id).expect("every operation was begun by a client");
        // The bucket determines the part of a divided group that a drop affects.
        operation.bucket = Some(bucket);
        if let Some(group) = operation.intent.dropped_group() {
            self.uncertain.entry(group.clone()).or_default().insert(id);
        }
    }

    /// Records the documents on which an operation decides.
    pub fn examine(&mut self, id: OperationId, documents: BTreeMap<DocumentId, ExaminedDocument>) {
        self.examined.insert(id, documents);
    }

    /// Time before which removals and drops may be forgotten.
    pub fn forgotten(&self) -> Timestamp {
        self.forgotten
    }

    /// Records that removals and drops before this time may be forgotten by all nodes.
    pub fn forget(&mut self, before: Timestamp) {
        self.forgotten = self.forgotten.max(before);
    }

    pub fn record_outcome(&mut self, now: Duration, id: OperationId, outcome: ClientOutcome) {
        let last = OperationId(self.operations.len() as u64);
        let operation = self.operations.get_mut(&id).expect("a client hears of operations that it began");
        operation.outcome = outcome;
        if let Some(group) = operation.intent.dropped_group()
            && outcome != ClientOutcome::Unknown
            && let Some(uncertain) = self.uncertain.get_mut(group)
        {
            uncertain.remove(&id);
        }
        let ClientOutcome::Acknowledged(timestamp) = outcome else { return };
        let intent = &operation.intent;
        self.acknowledged_at.insert(id, now);
        let is_clients = !matches!(intent, ClientIntent::Rewrite(_));
        self.acknowledgements += u64::from(is_clients);
        let Some(group) = intent.dropped_group() else {
            if is_clients {
                let newest = self.contents.entry(intent.id().clone()).or_insert((timestamp, id));
                if newest.0 <= timestamp {
                    *newest = (timestamp, id);
                }
            }
            let newest = self.acknowledged.entry(intent.id().clone()).or_insert((timestamp, id));
            if newest.0 <= timestamp {
                *newest = (timestamp, id);
            }
            return;
        };
        let document_type = match intent {
            ClientIntent::DropExamined(id) => Some(id.document_type().to_owned()),
            _ => None,
        };
        let bucket = operation.bucket.expect("a node has begun a drop that it acknowledges");
        let drop = AcknowledgedDrop { bucket, document_type, timestamp };
        self.last_before.insert(id, last);
        self.dropped.entry(group.clone()).or_default().push(drop);
    }

    /// Records that a deployment has removed a document type.
    pub fn type_removed(&mut self, document_type: &str, at: Timestamp) {
        self.types.add(document_type, at);
    }

    /// Timestamp below which no version of a document may be seen any more, except for removals of its type:
    /// these reach nodes one after another.
    pub fn newest(&self, id: &DocumentId) -> Timestamp {
        self.newest_write(id).max(self.newest_drop(id))
    }

    /// Timestamp of the newest acknowledged write of a document.
    pub fn newest_write(&self, id: &DocumentId) -> Timestamp {
        self.acknowledged.get(id).map(|(timestamp, _)| *timestamp).unwrap_or_default()
    }

    /// True if a drop that came after all acknowledged writes of a document has removed it.
    pub fn is_dropped(&self, id: &DocumentId) -> bool {
        self.newest_write(id) <= self.newest_drop(id)
    }

    fn newest_drop(&self, id: &DocumentId) -> Timestamp {
        let dropped = self.dropped.get(id.group()).into_iter().flatten();
        dropped.filter(|drop| drop.affects(id)).map(|drop| drop.timestamp).max().unwrap_or_default()
    }

    /// True if it may be correct that a document is found to be removed as of this time, or to have left no
    /// trace: its newest version is, or may be, a removal or a drop that is forgotten by now. Removals of
    /// types are not forgotten.
    pub fn may_be_forgotten(&self, id: &DocumentId, found: Timestamp) -> bool {
        let type_removed = self.type_removed_at(id.document_type());
        (!self.leaves_document(id) || self.may_be_removed(id))
            && found <= type_removed.max(self.newest_drop(id))
            && self.newest(id) < self.forgotten
    }

    /// True if the newest acknowledged operation on a document has left it there, apart from removals of its
    /// type.
    pub fn leaves_document(&self, id: &DocumentId) -> bool {
        self.acknowledged.get(id).is_some_and(|(timestamp, by)| {
            *timestamp > self.newest_drop(id) && self.operations[by].intent.leaves_document()
        })
    }

    /// True if a removal of a document whose outcome is open may take effect, or has.
    pub fn may_be_removed(&self, id: &DocumentId) -> bool {
        let is_open = |operation: &ClientOperation| {
            matches!(operation.outcome, ClientOutcome::Unknown | ClientOutcome::Nothing)
        };
        let removes =
            |operation: &ClientOperation| matches!(&operation.intent, ClientIntent::Remove(of) if of == id);
        self.operations.values().any(|operation| removes(operation) && is_open(operation))
    }

    /// Time of the last removal of a document type; 0 if there was none.
    pub fn type_removed_at(&self, document_type: &str) -> Timestamp {
        self.types.removed_at(document_type).unwrap_or_default()
    }

    /// True if a drop that was acknowledged has removed a version of this time: a drop has the timestamp of
    /// the newest version that it was decided on.
    pub fn is_dropped_version(&self, id: &DocumentId, timestamp: Timestamp) -> bool {
        self.newest_drop(id) >= timestamp
    }

    /// True if a drop with unknown outcome may have removed a document.
    pub fn may_be_dropped(&self, id: &DocumentId) -> bool {
        self.uncertain.get(id.group()).is_some_and(|drops| !drops.is_empty())
    }

    /// All documents requested by clients.
    pub fn documents(&self) -> BTreeSet<DocumentId> {
        self.operations.values().map(|operation| operation.intent.id().clone()).collect()
    }

    /// Checks that no group was dropped with a document that was acknowledged, and that the operation had not
    /// examined.
    pub fn check_drops(&self) -> Result<(), String> {
        for (dropper, examined) in &self.examined {
            let ClientOperation { intent, outcome, bucket } = &self.operations[dropper];
            let (ClientOutcome::Acknowledged(until), Some(bucket)) = (*outcome, *bucket) else { continue };
            let drop = AcknowledgedDrop {
                bucket,
                document_type: Some(intent.id().document_type().to_owned()),
                timestamp: until,
            };
            // Later operations, and those that are executed much later, may have lower timestamps, if all
            // nodes that know of the drop are away, and the clocks of the others are behind.
            let last = self.last_before[dropper];
            let late = self.acknowledged_at[dropper] + CLIENT_TIMEOUT;
            for (writer, written) in self.operations.range(..=last) {
                let ClientOutcome::Acknowledged(timestamp) = written.outcome else { continue };
                if self.acknowledged_at[writer] > late {
                    continue;
                }
                let id = written.intent.id();
                let affected = written.intent.leaves_document()
                    && !matches!(written.intent, ClientIntent::Rewrite(_))
                    && id.group() == intent.id().group()
                    && drop.affects(id)
                    && timestamp <= until;
                let at = examined.get(id).copied().unwrap_or_default();
                if affected && timestamp > at.found.max(at.out_of_reach) {
                    return Err(format!(
                        "{dropper:?} has dropped {id} in {bucket} as {writer:?} wrote it at {}, and had found it as of {}",
                        timestamp.0, at.found.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// Describes a change by a client that a node hid when it wrote the document again, if it did.
    fn hidden_change(&self, id: &DocumentId, writer: OperationId) -> Option<String> {
        let RewrittenVersion { origin, .. } = self.bases.get(&writer)?;
        let written = match self.operations[origin].outcome {
            ClientOutcome::Acknowledged(timestamp) => timestamp,
            ClientOutcome::Unknown | ClientOutcome::Nothing => return None,
            ClientOutcome::NotWritten => return Some(format!("{id}: {origin:?} was not written")),
        };
        let last = self.contents.get(id).map(|(timestamp, _)| *timestamp).unwrap_or_default();
        let rewrites = std::iter::successors(Some(writer), |writer| Some(self.bases.get(writer)?.writer));
        for (writer, base) in rewrites.filter_map(|writer| Some((writer, self.bases.get(&writer)?))) {
            // Unlike a client's, its write is not one that a drop at the same time may miss.
            if self.types.removed_at(id.document_type()).is_some_and(|removed| base.timestamp <= removed) {
                return Some(format!("{id}: {writer:?} has brought back a document of a removed type"));
            }
            let mut drops = self.dropped.get(id.group()).into_iter().flatten();
            if let Some(drop) = drops.find(|drop| drop.affects(id) && base.timestamp <= drop.timestamp) {
                return Some(format!("{id}: {writer:?} has brought back what {drop:?} removes"));
            }
        }
        (written < last).then(|| {
            format!(
                "{id}: {writer:?} has brought back what {origin:?} wrote at {}, and a client changed it at {}",
                written.0, last.0
            )
        })
    }

    /// Checks the final version of a document against the guarantees: its timestamp, and the operation that
    /// wrote it; without a writer, it is removed or never existed.
    pub fn check_final(
        &self,
        id: &DocumentId,
        timestamp: Timestamp,
        writer: Option<OperationId>,
    ) -> Result<(), String> {
        let promised = self.newest(id);
        let type_removed = self.types.removed_at(id.document_type()).unwrap_or_default();
        if writer.is_some() && timestamp <= type_removed {
            return Err(format!(
                "{id}: what was written at {} is back, and its type was removed at {}",
                timestamp.0, type_removed.0
            ));
        }
        if promised <= type_removed && writer.is_none() {
            return Ok(());
        }
        let may_be_gone = self.may_be_dropped(id) || self.may_be_forgotten(id, timestamp);
        if timestamp < promised && !(may_be_gone && writer.is_none()) {
            return Err(format!(
                "{id}: the write acknowledged at {} is gone; found is what was written at {}",
                promised.0, timestamp.0
            ));
        }
        if let Some(writer) = writer {
            if let Some(hidden) = self.hidden_change(id, writer) {
                return Err(hidden);
            }
            let Some(operation) = self.operations.get(&writer) else {
                return Err(format!("{id}: written by no client"));
            };
            let fits = match operation.outcome {
                ClientOutcome::Acknowledged(acknowledged) => acknowledged == timestamp,
                ClientOutcome::NotWritten => false,
                ClientOutcome::Unknown | ClientOutcome::Nothing => true,
            };
            if !fits || operation.intent.id() != id {
                return Err(format!(
                    "{id}: found is {writer:?} at {}, of which the client knows {:?}",
                    timestamp.0, operation.outcome
                ));
            }
        }
        let is_dropped = writer.is_none() && (timestamp <= self.newest_drop(id) || self.may_be_dropped(id));
        if let Some((acknowledged, by)) = self.acknowledged.get(id)
            && *acknowledged == timestamp
            && !is_dropped
        {
            let expected = match &self.operations[by].intent {
                ClientIntent::Remove(_) => None,
                _ => Some(*by),
            };
            if expected != writer {
                return Err(format!("{id}: at {} found is {writer:?} in place of {by:?}", timestamp.0));
            }
        }
        Ok(())
    }
}
