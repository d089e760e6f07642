//! Requests and results of clients, and the checks of the cluster's guarantees.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;
use millrace_cluster::DroppedTypes;
use millrace_document::{DocumentGroup, DocumentId, Timestamp};

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
    DropGroup(DocumentGroup, DocumentId),
}

impl ClientIntent {
    /// The document of the operation, or one with the same destination.
    pub fn id(&self) -> &DocumentId {
        match self {
            ClientIntent::Put(id)
            | ClientIntent::Remove(id)
            | ClientIntent::Modify(id)
            | ClientIntent::Read(id)
            | ClientIntent::DropGroup(_, id) => id,
        }
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
    pub heard: ClientOutcome,
    /// Last bucket of a drop, which determines the affected documents.
    pub bucket: Option<BucketId>,
}

/// History of all operations of clients.
#[derive(Debug, Default)]
pub(crate) struct ClientHistory {
    pub operations: BTreeMap<OperationId, ClientOperation>,
    /// Newest acknowledged write of each document.
    acknowledged: BTreeMap<DocumentId, (Timestamp, OperationId)>,
    /// Acknowledged drops of each group, with the affected buckets.
    dropped: BTreeMap<DocumentGroup, Vec<(BucketId, Timestamp)>>,
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
        if let ClientIntent::DropGroup(group, _) = &intent {
            self.uncertain.entry(group.clone()).or_default().insert(id);
        }
        self.operations.insert(id, ClientOperation { intent, heard: ClientOutcome::Nothing, bucket: None });
        id
    }

    pub fn hear(&mut self, id: OperationId, heard: ClientOutcome) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.heard = heard;
        if let ClientIntent::DropGroup(group, _) = &operation.intent
            && heard != ClientOutcome::Unknown
            && let Some(uncertain) = self.uncertain.get_mut(group)
        {
            uncertain.remove(&id);
        }
        let ClientOutcome::Acknowledged(timestamp) = heard else { return };
        self.acknowledgements += 1;
        match &operation.intent {
            ClientIntent::DropGroup(group, _) => {
                let reached = operation.bucket.unwrap_or(BucketId::ROOT);
                self.dropped.entry(group.clone()).or_default().push((reached, timestamp));
            }
            intent => {
                let newest = self.acknowledged.entry(intent.id().clone()).or_insert((timestamp, id));
                if newest.0 <= timestamp {
                    *newest = (timestamp, id);
                }
            }
        }
    }

    /// Records that a deployment has removed a document type.
    pub fn type_removed(&mut self, document_type: &str, at: Timestamp) {
        self.types.add(document_type, at);
    }

    /// Timestamp below which no version of a document may be seen any more, except for removals of its type:
    /// these reach nodes one after another.
    pub fn newest(&self, id: &DocumentId) -> Timestamp {
        let written = self.acknowledged.get(id).map(|(timestamp, _)| *timestamp).unwrap_or_default();
        let dropped = self.dropped.get(id.group()).into_iter().flatten();
        let dropped = dropped.filter(|(bucket, _)| bucket.contains(id.location()));
        dropped.map(|(_, timestamp)| *timestamp).max().unwrap_or_default().max(written)
    }

    /// True if a drop with unknown outcome may have removed a document.
    pub fn may_be_dropped(&self, id: &DocumentId) -> bool {
        self.uncertain.get(id.group()).is_some_and(|drops| !drops.is_empty())
    }

    /// All documents requested by clients.
    pub fn documents(&self) -> BTreeSet<DocumentId> {
        self.operations.values().map(|operation| operation.intent.id().clone()).collect()
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
        if timestamp < promised && !(self.may_be_dropped(id) && writer.is_none()) {
            return Err(format!(
                "{id}: the write acknowledged at {} is gone; found is what was written at {}",
                promised.0, timestamp.0
            ));
        }
        if let Some(writer) = writer {
            let Some(operation) = self.operations.get(&writer) else {
                return Err(format!("{id}: written by no client"));
            };
            let fits = match operation.heard {
                ClientOutcome::Acknowledged(acknowledged) => acknowledged == timestamp,
                ClientOutcome::NotWritten => false,
                ClientOutcome::Unknown | ClientOutcome::Nothing => true,
            };
            if !fits || operation.intent.id() != id {
                return Err(format!(
                    "{id}: found is {writer:?} at {}, of which the client heard {:?}",
                    timestamp.0, operation.heard
                ));
            }
        }
        if let Some((acknowledged, by)) = self.acknowledged.get(id)
            && *acknowledged == timestamp
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
