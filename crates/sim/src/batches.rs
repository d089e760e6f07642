//! Batches of clients: writes that a node begins together, and the check that none is accepted in part.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;
use millrace_cluster::{NodeKey, ReplicatedRow, RowContent};
use millrace_replication::distributor::{DistributorEvent, DurableWrite, RequestError};
use millrace_replication::replica::StorageWork;

use crate::any_document;
use crate::history::{ClientIntent, OperationId};
use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::world::SimWorld;

/// Writes of one batch to one bucket, at the node that the client sent it to. They are named by the first
/// operation of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchPart {
    batch: OperationId,
    bucket: BucketId,
}

/// Outcomes of the parts of all batches.
#[derive(Debug, Default)]
pub(crate) struct BatchHistory {
    /// Answered writes of each part.
    parts: BTreeMap<BatchPart, PartAnswers>,
    /// Operations that were sent in batches.
    operations: BTreeSet<OperationId>,
}

/// Writes of a part by their answers.
#[derive(Debug, Default)]
struct PartAnswers {
    acknowledged: Vec<OperationId>,
    /// Writes that were certainly not begun.
    refused: Vec<OperationId>,
}

impl BatchHistory {
    /// Leaves out the last row of a batch, if there are several in a message.
    pub fn without_last(&self, work: StorageWork) -> StorageWork {
        let StorageWork::Apply(mut rows) = work else { return work };
        let places: Vec<usize> = (0..rows.len()).filter(|place| self.has(&rows[*place])).collect();
        if let [_, .., last] = places[..] {
            rows.remove(last);
        }
        StorageWork::Apply(rows)
    }

    /// True for a put of a batch.
    fn has(&self, row: &ReplicatedRow) -> bool {
        let RowContent::Version(version) = &*row.content else { return false };
        let number = version.body.as_deref().and_then(|body| body.first_chunk());
        number.is_some_and(|number| self.operations.contains(&OperationId(u64::from_le_bytes(*number))))
    }
}

/// Sends a batch of writes of few documents to a node.
pub(crate) fn ask(world: &mut SimWorld, node: NodeKey) {
    let mut operations = Vec::new();
    for _ in 0..2 + world.random.below(6) {
        let id = any_document(world);
        let intent =
            if world.random.permille(800) { ClientIntent::Put(id) } else { ClientIntent::Remove(id) };
        operations.push(world.history.begin(intent));
    }
    world.batches.operations.extend(&operations);
    world.send(SimAddress::Node(node), SimAddress::Node(node), SimMessage::ClientBatch(operations));
}

impl SimWorld {
    /// Begins the operations of a batch at a node.
    pub(crate) fn client_batch(&mut self, key: NodeKey, operations: Vec<OperationId>) {
        let Some(batch) = operations.first().copied() else { return };
        let mut writes = Vec::new();
        for operation in operations {
            let Some(DistributorEvent::Write(write)) = self.begin(key, operation, None, 0) else { continue };
            let id = self.history.operations[&operation].intent.id().clone();
            if let Some(node) = self.nodes.get_mut(&key)
                && let Some(state) = &node.state
                && let Some(running) = node.in_flight.get_mut(&write.ticket)
            {
                running.part = Some(BatchPart { batch, bucket: state.bucket(id.location()) });
            }
            writes.push(write);
        }
        self.note(|| format!("n{key} begins a batch of {}", writes.len()));
        self.distribute(key, vec![DistributorEvent::WriteBatch(writes)]);
    }

    /// Checks that a part with an acknowledged write has none in the same bucket that was not begun.
    ///
    /// Documents are compared by their buckets in the state that the answering node has: if a group was
    /// divided while the part waited, the promise holds in each of the new buckets.
    pub(crate) fn part_answered(
        &mut self,
        key: NodeKey,
        part: BatchPart,
        operation: OperationId,
        outcome: &Result<DurableWrite, RequestError>,
    ) {
        let Some(state) = self.nodes.get(&key).and_then(|node| node.state.as_ref()) else { return };
        let bucket = |of: &OperationId| state.bucket(self.history.operations[of].intent.id().location());
        let answers = self.batches.parts.entry(part).or_default();
        let others = match outcome {
            Ok(_) => {
                answers.acknowledged.push(operation);
                &answers.refused
            }
            Err(
                RequestError::Moved { unfinished: None, .. } | RequestError::Overloaded | RequestError::Late,
            ) => {
                answers.refused.push(operation);
                &answers.acknowledged
            }
            // It was sent, or a disk is full: removals are taken all the same.
            Err(_) => return,
        };
        if let Some(other) = others.iter().find(|other| bucket(other) == bucket(&operation)) {
            self.wrong = Some(format!(
                "{part:?} was taken on in part: {operation:?} and {other:?} are in one bucket, and only one \
                 of them was acknowledged"
            ));
        }
    }
}
