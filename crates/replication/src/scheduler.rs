//! Scheduler of the proposed operations.
//!
//! It starts the most urgent operation first, then those that a caller waits for, then the one that was
//! proposed first, up to the limits of the nodes. Operations on the same nodes wait in one queue; one with
//! busy nodes is skipped as a whole. So a blocked operation delays no other, and the cost of a search depends
//! on the number of queues, not of operations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;

use crate::checkers::{OperationPriority, OperationProposal};

/// Sequence number of the first operation without a waiting caller: those with one have lower numbers.
const FIRST_WITHOUT_CALLER: u64 = 1 << 63;

/// Invariant of operations that wait.
const IN_QUEUE: &str = "an operation that waits is in the queue of its nodes, and no other is";

/// Limits of the number of running operations.
#[derive(Debug, Clone, Copy)]
pub struct OperationLimits {
    /// Maximum for one node.
    pub per_node: usize,
    /// Maximum in total.
    pub total: usize,
}

/// Status of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationStatus {
    /// Waiting until its nodes have capacity.
    Pending,
    /// Running.
    Running,
    /// Failed, and to be tried again at this time.
    Delayed(Duration),
}

/// The proposed and the running operations.
#[derive(Debug)]
pub struct MaintenanceScheduler {
    limits: OperationLimits,
    known: BTreeMap<BucketId, (OperationProposal, OperationStatus, u64)>,
    /// Queues by urgency and nodes, each in the order of proposals.
    queues: BTreeMap<(OperationPriority, Vec<NodeKey>), BTreeMap<u64, BucketId>>,
    delayed: BTreeSet<(Duration, BucketId)>,
    busy: BTreeMap<NodeKey, usize>,
    running: usize,
    next: u64,
    /// True if there may be an operation to start that there was not before.
    changed: bool,
}

impl MaintenanceScheduler {
    /// Creates a scheduler without operations.
    pub fn new(limits: OperationLimits) -> Self {
        MaintenanceScheduler {
            limits,
            known: BTreeMap::new(),
            queues: BTreeMap::new(),
            delayed: BTreeSet::new(),
            busy: BTreeMap::new(),
            running: 0,
            next: 0,
            changed: false,
        }
    }

    /// Replaces the proposal for a bucket. Ignored while an operation on the bucket is running.
    pub fn propose(&mut self, bucket: BucketId, proposal: Option<OperationProposal>) {
        let before = self.known.get(&bucket);
        match (before, &proposal) {
            (Some((_, OperationStatus::Running, _)), _) => return,
            (Some((known, _, _)), Some(new)) if known == new => return,
            _ => {}
        }
        let delayed_until = match self.forget(bucket) {
            Some(OperationStatus::Delayed(until)) => Some(until),
            _ => None,
        };
        let Some(proposal) = proposal else { return };
        self.next += 1;
        let number = FIRST_WITHOUT_CALLER + self.next;
        match delayed_until {
            // A new proposal does not end the delay after a failure.
            Some(until) => {
                self.delayed.insert((until, bucket));
                self.known.insert(bucket, (proposal, OperationStatus::Delayed(until), number));
            }
            None => {
                self.enqueue(&proposal, number, bucket);
                self.known.insert(bucket, (proposal, OperationStatus::Pending, number));
            }
        }
    }

    /// Gives precedence to the waiting operation on a bucket, if there is one, because a caller waits for its
    /// result: it goes before all operations of the same urgency without a waiting caller.
    pub fn prioritize(&mut self, bucket: BucketId) {
        let Some((_, OperationStatus::Pending, FIRST_WITHOUT_CALLER..)) = self.known.get(&bucket) else {
            return;
        };
        let (proposal, status, number) =
            self.known.remove(&bucket).expect("an operation that is pending is known");
        let queue = self.queues.get_mut(&queue_of(&proposal)).expect(IN_QUEUE);
        assert_eq!(queue.remove(&number), Some(bucket), "{IN_QUEUE}");
        self.next += 1;
        self.enqueue(&proposal, self.next, bucket);
        self.known.insert(bucket, (proposal, status, self.next));
    }

    /// Starts operations, and returns them.
    pub fn start(&mut self, now: Duration) -> Vec<(BucketId, OperationProposal)> {
        while let Some((until, bucket)) = self.delayed.first().copied()
            && until <= now
        {
            self.delayed.pop_first();
            let delayed = self.known.get_mut(&bucket).expect("an operation is delayed while it is proposed");
            let (proposal, status, number) = delayed;
            assert!(matches!(status, OperationStatus::Delayed(_)), "an operation is delayed or runs");
            *status = OperationStatus::Pending;
            let (proposal, number) = (proposal.clone(), *number);
            self.enqueue(&proposal, number, bucket);
        }
        let mut started = Vec::new();
        if !std::mem::take(&mut self.changed) || self.running >= self.limits.total {
            return started;
        }
        for priority in OperationPriority::ALL {
            self.start_queues(priority, &mut started);
        }
        started
    }

    /// Starts operations of one urgency: among the queues whose nodes have capacity, always the one with the
    /// earliest proposal.
    fn start_queues(
        &mut self,
        priority: OperationPriority,
        started: &mut Vec<(BucketId, OperationProposal)>,
    ) {
        let queues = self.queues.range((priority, Vec::new())..).take_while(|((of, _), _)| *of == priority);
        let mut heads: BTreeSet<(u64, Vec<NodeKey>)> = queues
            .filter(|((_, nodes), _)| self.have_capacity(nodes))
            .filter_map(|((_, nodes), queue)| Some((*queue.first_key_value()?.0, nodes.clone())))
            .collect();
        while self.running < self.limits.total
            && let Some((_, nodes)) = heads.pop_first()
        {
            if !self.have_capacity(&nodes) {
                continue;
            }
            let key = (priority, nodes);
            let queue = self.queues.get_mut(&key).expect("each head is that of a queue");
            let (_, bucket) = queue.pop_first().expect("a queue without operations is taken away");
            match queue.first_key_value() {
                Some((next, _)) => {
                    heads.insert((*next, key.1.clone()));
                }
                None => {
                    self.queues.remove(&key);
                }
            }
            let (proposal, status, _) = self.known.get_mut(&bucket).expect(IN_QUEUE);
            assert!(*status == OperationStatus::Pending, "an operation is started once");
            *status = OperationStatus::Running;
            started.push((bucket, proposal.clone()));
            self.running += 1;
            for node in key.1 {
                *self.busy.entry(node).or_default() += 1;
            }
        }
    }

    /// Records that the operation on a bucket has ended.
    pub fn finish(&mut self, bucket: BucketId) {
        self.forget(bucket);
    }

    /// Records that the operation on a bucket failed; it is not started again before this time.
    pub fn fail(&mut self, bucket: BucketId, until: Duration) {
        let (proposal, status, number) =
            self.known.get(&bucket).cloned().expect("an operation that fails was started");
        assert!(status == OperationStatus::Running, "an operation that fails runs");
        self.forget(bucket);
        self.known.insert(bucket, (proposal, OperationStatus::Delayed(until), number));
        self.delayed.insert((until, bucket));
    }

    /// Time at which the next delayed operation may run.
    pub fn next_wake(&self) -> Option<Duration> {
        self.delayed.first().map(|(until, _)| *until)
    }

    /// All operations, with their status.
    pub fn operations(&self) -> impl Iterator<Item = (BucketId, &OperationProposal, OperationStatus)> {
        self.known.iter().map(|(bucket, (proposal, status, _))| (*bucket, proposal, *status))
    }

    fn have_capacity(&self, nodes: &[NodeKey]) -> bool {
        nodes.iter().all(|node| self.busy.get(node).is_none_or(|busy| *busy < self.limits.per_node))
    }

    fn enqueue(&mut self, proposal: &OperationProposal, number: u64, bucket: BucketId) {
        self.queues.entry(queue_of(proposal)).or_default().insert(number, bucket);
        self.changed = true;
    }

    fn forget(&mut self, bucket: BucketId) -> Option<OperationStatus> {
        let (proposal, status, number) = self.known.remove(&bucket)?;
        self.changed = true;
        let key = queue_of(&proposal);
        match status {
            OperationStatus::Running => {
                assert!(self.running > 0, "an operation that ends was counted when it was started");
                self.running -= 1;
                for node in key.1 {
                    let busy = self.busy.get_mut(&node).expect("a node of a running operation is busy");
                    assert!(*busy > 0, "a node of a running operation is busy");
                    *busy -= 1;
                }
            }
            OperationStatus::Delayed(until) => {
                let was_delayed = self.delayed.remove(&(until, bucket));
                assert!(was_delayed, "a delayed operation has a time at which it may run");
            }
            OperationStatus::Pending => {
                let queue = self.queues.get_mut(&key).expect(IN_QUEUE);
                assert_eq!(queue.remove(&number), Some(bucket), "{IN_QUEUE}");
                if queue.is_empty() {
                    self.queues.remove(&key);
                }
            }
        }
        Some(status)
    }
}

fn queue_of(proposal: &OperationProposal) -> (OperationPriority, Vec<NodeKey>) {
    let mut nodes = proposal.nodes.clone();
    nodes.sort_unstable();
    nodes.dedup();
    (proposal.priority, nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::BucketAction;

    fn bucket(bits: u64) -> BucketId {
        BucketId::new(16, bits)
    }

    fn proposal(priority: OperationPriority, nodes: &[u16]) -> OperationProposal {
        let nodes = nodes.iter().copied().map(NodeKey).collect();
        OperationProposal {
            priority,
            action: BucketAction::Merge { create: Vec::new() },
            nodes,
            reason: "a test".to_owned(),
        }
    }

    fn started(scheduler: &mut MaintenanceScheduler, now: u64) -> Vec<u64> {
        scheduler.start(Duration::from_secs(now)).iter().map(|(bucket, _)| bucket.bits()).collect()
    }

    #[test]
    fn a_blocked_bucket_never_delays_those_behind_it() {
        let mut scheduler = MaintenanceScheduler::new(OperationLimits { per_node: 1, total: 10 });
        scheduler.propose(bucket(1), Some(proposal(OperationPriority::TooFewReplicas, &[0, 1])));
        // All these operations wait for the nodes of the first, and are more urgent than the last.
        for bits in 2..1000 {
            scheduler.propose(bucket(bits), Some(proposal(OperationPriority::TooFewReplicas, &[1, 2])));
        }
        scheduler.propose(bucket(1000), Some(proposal(OperationPriority::Superfluous, &[3, 4])));
        assert_eq!(started(&mut scheduler, 0), [1, 1000]);
        // A failed operation is delayed, and the next takes its place.
        scheduler.fail(bucket(1), Duration::from_secs(5));
        assert_eq!(started(&mut scheduler, 1), [2]);
        scheduler.finish(bucket(2));
        assert_eq!(started(&mut scheduler, 5), [1], "what has waited longest is first again");
    }

    #[test]
    fn the_most_urgent_and_then_the_oldest_is_first() {
        let mut scheduler = MaintenanceScheduler::new(OperationLimits { per_node: 2, total: 2 });
        scheduler.propose(bucket(1), Some(proposal(OperationPriority::Move, &[0, 1])));
        scheduler.propose(bucket(2), Some(proposal(OperationPriority::Diverged, &[5, 6])));
        scheduler.propose(bucket(3), Some(proposal(OperationPriority::Diverged, &[0, 1])));
        scheduler.propose(bucket(4), Some(proposal(OperationPriority::TooFewReplicas, &[8, 9])));
        assert_eq!(started(&mut scheduler, 0), [4, 2]);
        scheduler.finish(bucket(4));
        scheduler.finish(bucket(2));
        assert_eq!(started(&mut scheduler, 0), [3, 1]);
    }

    #[test]
    fn awaited_operations_are_first_among_equally_urgent_ones() {
        let mut scheduler = MaintenanceScheduler::new(OperationLimits { per_node: 1, total: 1 });
        for bits in 1..=5 {
            scheduler.propose(bucket(bits), Some(proposal(OperationPriority::Diverged, &[0, bits as u16])));
        }
        scheduler.propose(bucket(6), Some(proposal(OperationPriority::TooFewReplicas, &[0, 6])));
        // Operations run in the order of the first request to prioritize them; a request without a proposal
        // has no effect.
        [4, 5, 4, 9].into_iter().for_each(|bits| scheduler.prioritize(bucket(bits)));
        for expected in [6, 4, 5, 1, 2, 3] {
            assert_eq!(started(&mut scheduler, 0), [expected]);
            scheduler.prioritize(bucket(expected));
            assert_eq!(started(&mut scheduler, 0), [0_u64; 0], "one at a time");
            scheduler.finish(bucket(expected));
        }
        assert!(scheduler.queues.is_empty() && scheduler.known.is_empty());
    }

    #[test]
    fn what_is_not_needed_any_more_does_not_run() {
        let mut scheduler = MaintenanceScheduler::new(OperationLimits { per_node: 1, total: 1 });
        scheduler.propose(bucket(1), Some(proposal(OperationPriority::Move, &[0, 1])));
        scheduler.propose(bucket(1), None);
        assert_eq!(started(&mut scheduler, 0), [0_u64; 0]);
        assert!(scheduler.queues.is_empty() && scheduler.known.is_empty());
    }
}
