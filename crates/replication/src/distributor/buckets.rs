use std::collections::{BTreeMap, VecDeque};

use millrace_bucket::BucketId;
use millrace_cluster::{NodeKey, ReplicaOrigin, ReportedReplica};

use super::requests::RequestId;

/// A replica on a serving node, as far as the owner knows.
#[derive(Debug, Clone)]
pub(super) struct TrackedReplica {
    pub node: NodeKey,
    /// Its contents when last queried.
    pub info: ReportedReplica,
    /// Initial state of the replica, sent with rows until one of them has arrived.
    pub origin: Option<ReplicaOrigin>,
}

/// The owner's knowledge of a bucket, and the operations that wait for it.
#[derive(Debug, Default)]
pub(super) struct OwnedBucket {
    /// Replicas on serving nodes; each gets every row.
    pub replicas: Vec<TrackedReplica>,
    /// Serving nodes that should have a replica, the most preferred first.
    pub ideal: Vec<NodeKey>,
    /// True if all nodes have reported their replicas of it; until then nothing is written.
    pub open: bool,
    /// True if every complete replica is known to have all rows that any replica here has.
    pub settled: bool,
    /// Number of writes with rows in flight.
    pub in_flight: usize,
    /// True while writes wait because the replicas are being compared.
    pub held: bool,
    /// Requests that wait until the bucket is open and not held.
    pub waiting: VecDeque<RequestId>,
    /// Distance from its ideal state at the last check.
    pub distance: u64,
}

impl OwnedBucket {
    pub fn replica(&self, node: NodeKey) -> Option<&TrackedReplica> {
        self.replicas.iter().find(|replica| replica.node == node)
    }

    pub fn replica_mut(&mut self, node: NodeKey) -> Option<&mut TrackedReplica> {
        self.replicas.iter_mut().find(|replica| replica.node == node)
    }

    pub fn forget_replica(&mut self, node: NodeKey) {
        self.replicas.retain(|replica| replica.node != node);
    }

    /// Evaluates the reports of the nodes, at a moment without writes in flight.
    pub fn settle(&mut self) {
        let mut complete = self.replicas.iter().filter(|replica| replica.info.complete);
        let first = complete.next().map(|replica| replica.info.content);
        let equal = first.is_some() && complete.all(|replica| Some(replica.info.content) == first);
        // A replica that is still being filled may have a row that the others lack: from an owner that could
        // not reach them.
        let nothing_else = self.replicas.iter().all(|replica| {
            replica.info.complete || replica.info.newest.0 == 0 || Some(replica.info.content) == first
        });
        self.settled = self.replicas.is_empty() || (equal && nothing_else);
    }

    /// Replicas to read for the newest version of a document: one if that is enough, otherwise all. The local
    /// one is preferred.
    pub fn readable(&self, me: NodeKey, turn: u64) -> Vec<NodeKey> {
        if self.settled
            && let Some(node) = self.best(me, turn)
            && self.replica(node).is_some_and(|replica| replica.info.complete)
        {
            return vec![node];
        }
        self.replicas.iter().filter(|replica| replica.origin.is_none()).map(|replica| replica.node).collect()
    }

    /// Nodes whose replicas are complete and have rows by now, in no particular order.
    pub fn complete(&self) -> Vec<NodeKey> {
        let complete =
            self.replicas.iter().filter(|replica| replica.info.complete && replica.origin.is_none());
        complete.map(|replica| replica.node).collect()
    }

    /// The best replica to search: a complete one, on this node or else by turns; the fullest if none is
    /// complete.
    pub fn best(&self, me: NodeKey, turn: u64) -> Option<NodeKey> {
        let complete = self.complete();
        if complete.contains(&me) {
            return Some(me);
        }
        if !complete.is_empty() {
            return Some(complete[turn as usize % complete.len()]);
        }
        let existing = self.replicas.iter().filter(|replica| replica.origin.is_none());
        existing.max_by_key(|replica| replica.info.content.documents).map(|replica| replica.node)
    }
}

/// Owned buckets that have replicas or writes in flight.
pub(super) type Buckets = BTreeMap<BucketId, OwnedBucket>;
