//! Drops of a group whose documents were examined before: all of them must have the namespace of the request.
//!
//! The owner's node decides, as `DELETE` of a group does: it finds the way to its own replica, takes the
//! horizon of the group, counts the documents, and drops up to the horizon. Time passes between
//! these steps.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, DropHorizon, Incarnation, NodeKey};
use millrace_document::{DocumentId, DocumentVersion, DropScope, Timestamp};
use millrace_replication::distributor::{
    ClientWrite, DistributorEvent, DocumentChange, NoRoute, RequestTicket,
};

use crate::Sabotage;
use crate::clients::CLIENT_TIMEOUT;
use crate::history::{ClientIntent, ClientOutcome, ExaminedDocument, OperationId};
use crate::node::{RunningOperation, SimNode};
use crate::world::{SimEvent, SimWorld};

/// A drop on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExaminedDrop {
    pub operation: OperationId,
    pub bucket: BucketId,
    pub hops: u8,
}

/// The next step of a drop at a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExaminationStep {
    /// Take the horizon, in the state of this version.
    Horizon { version: ClusterVersion },
    /// Count the documents up to the horizon.
    Count { version: ClusterVersion, horizon: DropHorizon },
    /// Drop up to this horizon.
    Drop { horizon: DropHorizon },
}

impl SimWorld {
    /// Begins a drop at a node, which hands it on to the owner of the bucket.
    pub fn begin_examined_drop(&mut self, key: NodeKey, drop: ExaminedDrop) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let route = node.distributor.route(drop.bucket, node.now(now));
        match route {
            Err(NoRoute::Elsewhere(owner)) if drop.hops < 8 => {
                self.pass_on(key, owner, drop.operation, None, drop.hops);
            }
            Ok(route) if route.full && node.distributor.readers(drop.bucket, &route).contains(&key) => {
                self.schedule_examination(key, drop, ExaminationStep::Horizon { version: route.version });
            }
            // The documents are removed one by one instead, which is not simulated.
            Ok(_) | Err(_) => {
                self.history.record_outcome(self.now, drop.operation, ClientOutcome::NotWritten)
            }
        }
    }

    fn schedule_examination(&mut self, key: NodeKey, drop: ExaminedDrop, step: ExaminationStep) {
        let Some(node) = self.nodes.get(&key) else { return };
        let incarnation = node.incarnation;
        let longest = if self.random.permille(100) { 1_500_000 } else { 15_000 };
        let takes = self.random.micros(10, longest);
        self.schedule(takes, SimEvent::Examine { node: key, incarnation, drop, step });
    }

    /// Executes a step of a drop, unless the process of the node has ended since.
    pub fn examine(
        &mut self,
        (key, incarnation): (NodeKey, Incarnation),
        drop: ExaminedDrop,
        step: ExaminationStep,
    ) {
        let (now, blind) = (self.now, self.options.sabotage == Some(Sabotage::DropsAfterCounting));
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.incarnation != incarnation || !node.alive {
            return;
        }
        if node.frozen {
            return self.schedule_examination(key, drop, step);
        }
        match step {
            ExaminationStep::Horizon { version } => {
                let group = self.history.operations[&drop.operation].intent.id().group();
                let now = node.now(now);
                match node.distributor.drop_horizon(drop.bucket, group, now) {
                    Ok(horizon) => {
                        self.schedule_examination(key, drop, ExaminationStep::Count { version, horizon })
                    }
                    Err(_) => {
                        self.history.record_outcome(self.now, drop.operation, ClientOutcome::NotWritten)
                    }
                }
            }
            ExaminationStep::Count { version, horizon } => {
                let id = self.history.operations[&drop.operation].intent.id().clone();
                let until = if blind { Timestamp(u64::MAX) } else { horizon.until };
                let counted = counts(node, drop.bucket, &id, until);
                if counted && node.distributor.confirms(version, node.now(now)) {
                    self.note_examined(key, drop, &id);
                    self.schedule_examination(key, drop, ExaminationStep::Drop { horizon });
                } else {
                    self.history.record_outcome(self.now, drop.operation, ClientOutcome::NotWritten);
                }
            }
            ExaminationStep::Drop { horizon } => {
                self.drop_examined(key, drop, (!blind).then_some(horizon));
            }
        }
    }

    /// Records what the node knows of all documents in the scope of a drop.
    fn note_examined(&mut self, key: NodeKey, drop: ExaminedDrop, like: &DocumentId) {
        let Some(node) = self.nodes.get(&key) else { return };
        let mut examined = BTreeMap::new();
        for id in self.history.documents().into_iter().filter(|id| is_in_scope(drop.bucket, like, id)) {
            let found = version_at(node, drop.bucket, &id);
            let acknowledged = self.history.newest_write(&id);
            let has = |other: &SimNode| version_at(other, drop.bucket, &id) == acknowledged;
            let is_there = !self.history.is_dropped(&id)
                && self.nodes.values().any(|other| has_reported(node, other) && has(other));
            let out_of_reach = if is_there { Timestamp::default() } else { acknowledged };
            examined.insert(id, ExaminedDocument { found, out_of_reach });
        }
        self.note(|| format!("n{key} {:?} has examined {examined:?}", drop.operation));
        self.history.examine(drop.operation, examined);
    }

    fn drop_examined(&mut self, key: NodeKey, drop: ExaminedDrop, until: Option<DropHorizon>) {
        let now = self.now;
        self.history.may_drop(drop.operation, drop.bucket);
        let ClientIntent::DropExamined(id) = self.history.operations[&drop.operation].intent.clone() else {
            unreachable!("only drops of examined documents come here");
        };
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let ticket = RequestTicket(node.name());
        let deadline = node.now(now).monotonic + CLIENT_TIMEOUT;
        let running = RunningOperation {
            operation: drop.operation,
            floor: Timestamp::default(),
            type_removed: Timestamp::default(),
            holders: Vec::new(),
            hops: drop.hops,
            part: None,
        };
        node.in_flight.insert(ticket, running);
        let document_type = Some(id.document_type().to_owned());
        let scope = DropScope::Group { document_type, group: id.group().clone() };
        let change = DocumentChange::Drop { bucket: drop.bucket, scope, until };
        self.distribute(key, vec![DistributorEvent::Write(ClientWrite { ticket, deadline, change })]);
    }
}

/// True if the owner counts on another node, which serves.
fn has_reported(owner: &SimNode, other: &SimNode) -> bool {
    owner.state.as_ref().is_some_and(|state| {
        state.node_state(other.key).serves()
            && state.nodes().get(&other.key).is_some_and(|entry| entry.incarnation == other.incarnation)
            && !owner.distributor.unreported().contains(&other.key)
    })
}

fn version_at(node: &SimNode, bucket: BucketId, id: &DocumentId) -> Timestamp {
    node.storage.newest_of(bucket, id).map(|version| version.timestamp).unwrap_or_default()
}

/// True if a document has the group and the type of another, and is in the bucket.
fn is_in_scope(bucket: BucketId, like: &DocumentId, id: &DocumentId) -> bool {
    id.group() == like.group() && id.document_type() == like.document_type() && bucket.contains(id.location())
}

/// True if there are documents in scope that are not after the horizon, and all of them have the namespace.
fn counts(node: &SimNode, bucket: BucketId, like: &DocumentId, until: Timestamp) -> bool {
    let documents = node.storage.documents(bucket);
    let counted =
        |version: &&DocumentVersion| is_in_scope(bucket, like, &version.id) && version.timestamp <= until;
    let mut counted = documents.iter().filter(counted).peekable();
    counted.peek().is_some() && counted.all(|version| version.id.namespace() == like.namespace())
}
