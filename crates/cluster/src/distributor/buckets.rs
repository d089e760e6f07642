use std::collections::{BTreeMap, VecDeque};

use millrace_bucket::BucketId;

use super::requests::RequestId;
use crate::{Birth, NodeKey, ReplicaInfo};

/// A replica on a node that serves, as far as the owner knows.
#[derive(Debug, Clone)]
pub(super) struct Replica {
    pub node: NodeKey,
    /// What it held when it was last asked.
    pub info: ReplicaInfo,
    /// Rows to it say how it begins, until one of them has arrived.
    pub birth: Option<Birth>,
}

/// What the owner knows of a bucket, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// On nodes that serve, each of which gets every row.
    pub replicas: Vec<Replica>,
    /// Nodes that should have a replica and serve, the most preferred first.
    pub ideal: Vec<NodeKey>,
    /// Whether all nodes have said what they have of it; until then nothing is written.
    pub open: bool,
    /// Whether every complete replica is known to have all that any replica here has.
    pub settled: bool,
    /// Writes with rows on their way.
    pub in_flight: usize,
    /// Writes wait: the replicas are being compared.
    pub held: bool,
    /// What waits until it is open and not held.
    pub waiting: VecDeque<RequestId>,
    /// How far it is from its ideal state, when it was last checked.
    pub distance: u64,
}

impl Bucket {
    pub fn replica(&self, node: NodeKey) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.node == node)
    }

    pub fn replica_mut(&mut self, node: NodeKey) -> Option<&mut Replica> {
        self.replicas.iter_mut().find(|replica| replica.node == node)
    }

    pub fn forget_replica(&mut self, node: NodeKey) {
        self.replicas.retain(|replica| replica.node != node);
    }

    /// Judges what the nodes have said, at a moment without writes on their way.
    pub fn settle(&mut self) {
        let mut complete = self.replicas.iter().filter(|replica| replica.info.complete);
        let first = complete.next().map(|replica| replica.info.content);
        let equal = first.is_some() && complete.all(|replica| Some(replica.info.content) == first);
        // One that is still being filled may have a row that the others lack: from an owner who could not reach them.
        let nothing_else = self.replicas.iter().all(|replica| {
            replica.info.complete || replica.info.newest.0 == 0 || Some(replica.info.content) == first
        });
        self.settled = self.replicas.is_empty() || (equal && nothing_else);
    }

    /// Which replicas to read for the newest version of a document: one where that is enough, else all. The own one is preferred.
    pub fn readable(&self, me: NodeKey, turn: u64) -> Vec<NodeKey> {
        if self.settled
            && let Some(node) = self.best(me, turn)
            && self.replica(node).is_some_and(|replica| replica.info.complete)
        {
            return vec![node];
        }
        self.replicas.iter().filter(|replica| replica.birth.is_none()).map(|replica| replica.node).collect()
    }

    /// Nodes with complete replicas that have rows by now, in no order.
    pub fn complete(&self) -> Vec<NodeKey> {
        let complete =
            self.replicas.iter().filter(|replica| replica.info.complete && replica.birth.is_none());
        complete.map(|replica| replica.node).collect()
    }

    /// The replica that is the best to search: complete, on this node, else any in turns; the fullest where none is complete.
    pub fn best(&self, me: NodeKey, turn: u64) -> Option<NodeKey> {
        let complete = self.complete();
        if complete.contains(&me) {
            return Some(me);
        }
        if !complete.is_empty() {
            return Some(complete[turn as usize % complete.len()]);
        }
        let born = self.replicas.iter().filter(|replica| replica.birth.is_none());
        born.max_by_key(|replica| replica.info.content.documents).map(|replica| replica.node)
    }
}

/// The buckets that a node owns and that have replicas, or writes on their way.
pub(super) type Buckets = BTreeMap<BucketId, Bucket>;
