//! Batches: many writes at once, whose rows of one bucket are sent together.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;

use super::event::{ClientWrite, DistributorEffect, DocumentChange};
use super::machine::Distributor;
use super::requests::RequestId;

/// Identifies the part of a batch that lies in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartId(u64);

/// Parts of batches of which nothing has been sent. A part waits until each of its writes could be sent: then
/// every replica gets all of its rows in one message, and makes them durable with one entry of its log.
///
/// No two parts wait for each other: a part enters the lanes of all its documents at once, and the
/// modifications that it waits for there wait only for what came before them.
#[derive(Default)]
pub(super) struct BatchParts {
    waiting: BTreeMap<PartId, WaitingPart>,
    next: u64,
}

struct WaitingPart {
    /// Number of its writes.
    size: usize,
    writes: Vec<RequestId>,
    /// Writes that need to wait for nothing but the others.
    ready: BTreeSet<RequestId>,
}

impl BatchParts {
    /// Begins a part with this number of writes, at least one.
    pub fn begin(&mut self, size: usize) -> PartId {
        assert!(size > 0, "a part of a batch has writes");
        self.next += 1;
        let part = PartId(self.next);
        self.waiting
            .insert(part, WaitingPart { size, writes: Vec::with_capacity(size), ready: BTreeSet::new() });
        part
    }

    /// Adds a write to a part.
    pub fn add(&mut self, part: PartId, write: RequestId) {
        let waiting = self.waiting.get_mut(&part).expect("a part waits until all of its writes are there");
        assert!(waiting.writes.len() < waiting.size, "a part has as many writes as it began with");
        waiting.writes.push(write);
    }

    /// True if nothing of the part has been sent.
    pub fn is_waiting(&self, part: PartId) -> bool {
        self.waiting.contains_key(&part)
    }

    /// Records that a write of a waiting part could be sent. Returns all of its writes, which no longer wait
    /// for each other, if this was the last one.
    pub fn ready(&mut self, part: PartId, write: RequestId) -> Option<Vec<RequestId>> {
        let waiting = self.waiting.get_mut(&part)?;
        waiting.ready.insert(write);
        if waiting.ready.len() < waiting.size {
            return None;
        }
        self.abort(part)
    }

    /// Ends the waiting of a part, and returns its writes. `None` if it was sent.
    pub fn abort(&mut self, part: PartId) -> Option<Vec<RequestId>> {
        self.waiting.remove(&part).map(|waiting| waiting.writes)
    }
}

impl DocumentChange {
    /// True for a put or a removal without a condition.
    fn is_unconditional(&self) -> bool {
        matches!(self, DocumentChange::Put { .. } | DocumentChange::Remove(_))
    }
}

impl Distributor {
    /// Takes on a batch: its puts and removals by bucket, its other changes one by one. A part of a bucket
    /// may exceed the bound of operations by its own size.
    pub(super) fn write_batch(&mut self, writes: Vec<ClientWrite>, effects: &mut Vec<DistributorEffect>) {
        let Some(state) = self.known_state().cloned() else {
            return writes.into_iter().for_each(|write| self.write(write, effects));
        };
        let mut parts: BTreeMap<BucketId, Vec<ClientWrite>> = BTreeMap::new();
        let (rows, others): (Vec<ClientWrite>, Vec<ClientWrite>) =
            writes.into_iter().partition(|write| write.change.is_unconditional());
        for write in rows {
            let (DocumentChange::Put { id, .. } | DocumentChange::Remove(id)) = &write.change else {
                unreachable!("the others were set apart");
            };
            parts.entry(state.bucket(id.location())).or_default().push(write);
        }
        for (bucket, writes) in parts {
            if let Err(error) = self.admit(bucket) {
                effects.extend(writes.into_iter().map(|ClientWrite { ticket, .. }| {
                    DistributorEffect::Written { ticket, outcome: Err(error.clone()) }
                }));
                continue;
            }
            let part = self.requests.parts.begin(writes.len());
            writes.into_iter().for_each(|write| self.accept(write, Some(part), effects));
        }
        others.into_iter().for_each(|write| self.write(write, effects));
    }
}
