//! Actions of clients, their results, and checks that these are permitted.

use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::{NodeKey, UnfinishedRow};
use millrace_document::{DocumentVersion, DropScope, Timestamp, WriteRefusal, WriteRefusalKind};
use millrace_replication::distributor::{
    self, ClientRead, ClientWrite, DecidedModification, DocumentChange, RequestError, RequestTicket,
};

use crate::examined_drops::ExaminedDrop;
use crate::history::{ClientIntent, ClientOutcome, OperationId};
use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::node::{RunningOperation, SimNode};
use crate::reindexing::body;
use crate::world::SimWorld;

/// Time after which a client gives up.
pub(crate) const CLIENT_TIMEOUT: Duration = Duration::from_secs(8);

impl SimWorld {
    /// Sends a client's request to a node.
    pub fn ask(&mut self, key: NodeKey, intent: ClientIntent) {
        let operation = self.history.begin(intent);
        self.send(
            SimAddress::Node(key),
            SimAddress::Node(key),
            SimMessage::Client { operation, unfinished: None, hops: 0 },
        );
    }

    pub fn client(
        &mut self,
        key: NodeKey,
        operation: OperationId,
        unfinished: Option<UnfinishedRow>,
        hops: u8,
    ) {
        let event = self.begin(key, operation, unfinished, hops);
        event.into_iter().for_each(|event| self.distribute(key, vec![event]));
    }

    /// Begins an operation at a node. Returns the event for its distributor, unless the operation has ended,
    /// or begins otherwise.
    pub fn begin(
        &mut self,
        key: NodeKey,
        operation: OperationId,
        unfinished: Option<UnfinishedRow>,
        hops: u8,
    ) -> Option<distributor::DistributorEvent> {
        let intent = self.history.operations[&operation].intent.clone();
        if unfinished.is_none() && !self.knows_type(key, intent.id()) {
            self.history.record_outcome(self.now, operation, ClientOutcome::NotWritten);
            return None;
        }
        let floor = self.history.newest(intent.id());
        let state = self.nodes.get(&key).and_then(|node| node.state.clone())?;
        let bucket = state.bucket(intent.id().location());
        match &intent {
            ClientIntent::DropExamined(_) if unfinished.is_none() => {
                self.begin_examined_drop(key, ExaminedDrop { operation, bucket, hops });
                return None;
            }
            ClientIntent::DropExamined(_) | ClientIntent::DropGroup(..) => {
                self.history.may_drop(operation, bucket);
            }
            ClientIntent::Put(_)
            | ClientIntent::Remove(_)
            | ClientIntent::Modify(_)
            | ClientIntent::Rewrite(_)
            | ClientIntent::Read(_) => {}
        }
        let has = |node: &&SimNode| {
            node.storage.newest_of(bucket, intent.id()).is_some_and(|version| version.timestamp == floor)
        };
        let holders = self.nodes.values().filter(has).map(|node| node.key).collect();
        let node = self.nodes.get_mut(&key)?;
        let deadline = node.now(self.now).monotonic + CLIENT_TIMEOUT;
        let ticket = RequestTicket(node.name());
        let type_removed = match &unfinished {
            None => node.package.dropped.removed_at(intent.id().document_type()).unwrap_or_default(),
            // It keeps its first timestamp.
            Some(_) => Timestamp::default(),
        };
        let part = None;
        node.in_flight
            .insert(ticket, RunningOperation { operation, floor, type_removed, holders, hops, part });
        let body = match self.options.reindexing {
            true => body(operation, node.package.rule(intent.id().document_type()), operation),
            // Longer documents would change which of them are sent together.
            false => operation.0.to_le_bytes().into(),
        };
        let change = match (intent, unfinished) {
            (ClientIntent::Read(id), _) => {
                let read = ClientRead { ticket, deadline, id };
                return Some(distributor::DistributorEvent::Read(read));
            }
            (_, Some(unfinished)) => DocumentChange::Finish(unfinished),
            (ClientIntent::Put(id), None) => DocumentChange::Put { id, body },
            (ClientIntent::Remove(id), None) => DocumentChange::Remove(id),
            (ClientIntent::Modify(id), None) => {
                DocumentChange::Modify { id, modify: Box::new(move |found| modify(found, body)) }
            }
            (ClientIntent::DropExamined(_), None) => {
                unreachable!("a drop of examined documents is begun elsewhere")
            }
            (ClientIntent::Rewrite(_), None) => unreachable!("a document is written again where it was read"),
            (ClientIntent::DropGroup(group, id), None) => DocumentChange::Drop {
                bucket: state.bucket(id.location()),
                scope: DropScope::Group { document_type: None, group },
                until: None,
            },
        };
        Some(distributor::DistributorEvent::Write(ClientWrite { ticket, deadline, change }))
    }

    pub fn written(
        &mut self,
        key: NodeKey,
        ticket: RequestTicket,
        outcome: Result<distributor::DurableWrite, RequestError>,
    ) {
        let Some(RunningOperation { operation, hops, type_removed, part, .. }) =
            self.nodes.get_mut(&key).and_then(|node| node.in_flight.remove(&ticket))
        else {
            return;
        };
        self.note(|| format!("n{key} answers {operation:?}: {outcome:?}"));
        if let Some(part) = part {
            self.part_answered(key, part, operation, &outcome);
        }
        self.rewritten(key, ticket, &outcome);
        let rewrites = matches!(self.history.operations[&operation].intent, ClientIntent::Rewrite(_));
        let known = match outcome {
            Ok(written) if rewrites && !written.changed => ClientOutcome::NotWritten,
            Err(RequestError::Moved { unfinished: None, .. }) if rewrites && hops == 0 => {
                ClientOutcome::NotWritten
            }
            Ok(written) => ClientOutcome::Acknowledged(written.timestamp),
            Err(RequestError::Moved { owner: Some(owner), unfinished, .. }) if hops < 8 => {
                return self.pass_on(key, owner, operation, unfinished, hops);
            }
            Err(
                RequestError::Moved { unfinished: Some(_), .. }
                | RequestError::Unknown
                | RequestError::Overtaken
                | RequestError::Partial(_),
            ) => ClientOutcome::Unknown,
            Err(_) => ClientOutcome::NotWritten,
        };
        if let ClientOutcome::Acknowledged(timestamp) = known
            && timestamp <= type_removed
        {
            let at = (timestamp.0, type_removed.0);
            self.wrong = Some(format!(
                "{operation:?} was written at {}, before its type was removed at {}",
                at.0, at.1
            ));
        }
        self.history.record_outcome(self.now, operation, known);
    }

    pub fn pass_on(
        &mut self,
        key: NodeKey,
        owner: NodeKey,
        operation: OperationId,
        unfinished: Option<UnfinishedRow>,
        hops: u8,
    ) {
        let message = SimMessage::Client { operation, unfinished, hops: hops + 1 };
        self.send(SimAddress::Node(key), SimAddress::Node(owner), message);
    }

    pub fn found(
        &mut self,
        key: NodeKey,
        ticket: RequestTicket,
        outcome: Result<Option<DocumentVersion>, RequestError>,
    ) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(in_flight) = node.in_flight.get(&ticket).cloned() else { return };
        match outcome {
            Err(RequestError::Moved { owner: Some(owner), .. }) if in_flight.hops < 8 => {
                node.in_flight.remove(&ticket);
                self.pass_on(key, owner, in_flight.operation, None, in_flight.hops);
            }
            Err(_) => {
                node.in_flight.remove(&ticket);
            }
            Ok(version) => {
                let at = version.map(|version| version.timestamp).unwrap_or_default();
                self.check_seen(key, in_flight.operation, at);
                if let Some(node) = self.nodes.get_mut(&key) {
                    node.in_flight.remove(&ticket);
                }
            }
        }
    }

    /// Checks the timestamp of a document that an operation has read. It must include every write that was
    /// acknowledged before the operation began, and that is stored on any node that has reported to the
    /// owner.
    pub fn check_seen(&mut self, key: NodeKey, operation: OperationId, seen: Timestamp) {
        let id = self.history.operations[&operation].intent.id().clone();
        self.note(|| format!("n{key} {operation:?} sees {id} as of {}", seen.0));
        self.history.reads += 1;
        let Some(node) = self.nodes.get(&key) else { return };
        let of_it = |in_flight: &&RunningOperation| in_flight.operation == operation;
        let Some(RunningOperation { floor, holders, .. }) = node.in_flight.values().find(of_it) else {
            return;
        };
        let floor = *floor;
        let is_forgotten = self.history.may_be_forgotten(&id, seen);
        if seen >= floor || is_forgotten || self.history.may_be_dropped(&id) {
            return;
        }
        let Some(state) = &node.state else { return };
        let holder = self.nodes.values().find(|other| {
            holders.contains(&other.key)
                && state.node_state(other.key).serves()
                && state.nodes().get(&other.key).is_some_and(|entry| entry.incarnation == other.incarnation)
                && !node.distributor.unreported().contains(&other.key)
        });
        if let Some(holder) = holder {
            self.wrong = Some(format!(
                "stale read: {operation:?} through n{key} saw {id} as of {}, but {} was acknowledged before, and n{} has it",
                seen.0, floor.0, holder.key
            ));
        }
    }
}

/// Writes a document if it exists; refuses otherwise.
fn modify(found: Option<DocumentVersion>, body: Arc<[u8]>) -> Result<DecidedModification, WriteRefusal> {
    match found {
        Some(DocumentVersion { body: Some(_), .. }) => Ok(DecidedModification::Put(body)),
        _ => {
            let number = body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            Err(WriteRefusal::new(WriteRefusalKind::Condition, number.to_string()))
        }
    }
}

pub(crate) fn outcome_operation(outcome: &Result<DecidedModification, WriteRefusal>) -> Option<OperationId> {
    match outcome {
        Ok(DecidedModification::Put(body)) => Some(OperationId(u64::from_le_bytes(*body.first_chunk()?))),
        Ok(_) => None,
        Err(refusal) => refusal.reason.parse().ok().map(OperationId),
    }
}
