//! Which of the proposed operations run now.
//!
//! The most urgent first, among equals those that somebody waits for, then the one that was proposed first,
//! and so many at a time as the nodes may take. Operations on the same nodes wait in one line; a line whose
//! nodes are busy is passed over as a whole, so one that cannot begin delays none that can, and to look costs
//! by the number of lines, not of operations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millrace_bucket::BucketId;

use crate::NodeKey;
use crate::checkers::{OperationPriority, OperationProposal};

/// The number of the first operation that nobody waits for: those that somebody waits for have lower ones.
const UNHURRIED: u64 = 1 << 63;

/// How many operations may run.
#[derive(Debug, Clone, Copy)]
pub struct OperationLimits {
    /// That one node takes part in.
    pub per_node: usize,
    /// In all.
    pub total: usize,
}

/// Where an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationStanding {
    /// It may run when its nodes have time.
    Pending,
    /// It runs.
    Running,
    /// It could not be done; it is tried again at this time.
    Delayed(Duration),
}

/// The operations that are proposed and that run.
#[derive(Debug)]
pub struct MaintenanceScheduler {
    limits: OperationLimits,
    known: BTreeMap<BucketId, (OperationProposal, OperationStanding, u64)>,
    /// By urgency and nodes, in the order of proposing.
    lines: BTreeMap<(OperationPriority, Vec<NodeKey>), BTreeMap<u64, BucketId>>,
    delayed: BTreeSet<(Duration, BucketId)>,
    busy: BTreeMap<NodeKey, usize>,
    running: usize,
    next: u64,
    /// Whether there may be something to start that there was not before.
    changed: bool,
}

impl MaintenanceScheduler {
    /// A scheduler without operations.
    pub fn new(limits: OperationLimits) -> Self {
        MaintenanceScheduler {
            limits,
            known: BTreeMap::new(),
            lines: BTreeMap::new(),
            delayed: BTreeSet::new(),
            busy: BTreeMap::new(),
            running: 0,
            next: 0,
            changed: false,
        }
    }

    /// What a bucket needs, in place of what it was said to need before. While an operation on it runs, that
    /// is not looked at.
    pub fn propose(&mut self, bucket: BucketId, proposal: Option<OperationProposal>) {
        let before = self.known.get(&bucket);
        match (before, &proposal) {
            (Some((_, OperationStanding::Running, _)), _) => return,
            (Some((known, _, _)), Some(new)) if known == new => return,
            _ => {}
        }
        let delayed_until = match self.forget(bucket) {
            Some(OperationStanding::Delayed(until)) => Some(until),
            _ => None,
        };
        let Some(proposal) = proposal else { return };
        self.next += 1;
        let number = UNHURRIED + self.next;
        match delayed_until {
            // What it needs has changed, not that it just failed.
            Some(until) => {
                self.delayed.insert((until, bucket));
                self.known.insert(bucket, (proposal, OperationStanding::Delayed(until), number));
            }
            None => {
                self.line_up(&proposal, number, bucket);
                self.known.insert(bucket, (proposal, OperationStanding::Pending, number));
            }
        }
    }

    /// Somebody waits for what the operation on a bucket does, if there is one that waits itself: of those
    /// that are as urgent, it goes before all that nobody waits for.
    pub fn hasten(&mut self, bucket: BucketId) {
        let Some((_, OperationStanding::Pending, UNHURRIED..)) = self.known.get(&bucket) else { return };
        let (proposal, standing, number) = self.known.remove(&bucket).expect("it was just there");
        if let Some(line) = self.lines.get_mut(&line_of(&proposal)) {
            line.remove(&number);
        }
        self.next += 1;
        self.line_up(&proposal, self.next, bucket);
        self.known.insert(bucket, (proposal, standing, self.next));
    }

    /// The operations that begin now.
    pub fn start(&mut self, now: Duration) -> Vec<(BucketId, OperationProposal)> {
        while let Some((until, bucket)) = self.delayed.first().copied()
            && until <= now
        {
            self.delayed.pop_first();
            if let Some((proposal, standing, number)) = self.known.get_mut(&bucket) {
                *standing = OperationStanding::Pending;
                let (proposal, number) = (proposal.clone(), *number);
                self.line_up(&proposal, number, bucket);
            }
        }
        let mut started = Vec::new();
        if !std::mem::take(&mut self.changed) || self.running >= self.limits.total {
            return started;
        }
        for priority in OperationPriority::ALL {
            self.start_line(priority, &mut started);
        }
        started
    }

    /// Begins operations of one urgency: of the lines whose nodes have time, always the one whose first was
    /// proposed earliest.
    fn start_line(&mut self, priority: OperationPriority, started: &mut Vec<(BucketId, OperationProposal)>) {
        let lines = self.lines.range((priority, Vec::new())..).take_while(|((of, _), _)| *of == priority);
        let mut heads: BTreeSet<(u64, Vec<NodeKey>)> = lines
            .filter(|((_, nodes), _)| self.have_time(nodes))
            .filter_map(|((_, nodes), line)| Some((*line.first_key_value()?.0, nodes.clone())))
            .collect();
        while self.running < self.limits.total
            && let Some((_, nodes)) = heads.pop_first()
        {
            if !self.have_time(&nodes) {
                continue;
            }
            let key = (priority, nodes);
            let Some(line) = self.lines.get_mut(&key) else { continue };
            let Some((_, bucket)) = line.pop_first() else { continue };
            match line.first_key_value() {
                Some((next, _)) => {
                    heads.insert((*next, key.1.clone()));
                }
                None => {
                    self.lines.remove(&key);
                }
            }
            if let Some((proposal, standing, _)) = self.known.get_mut(&bucket) {
                *standing = OperationStanding::Running;
                started.push((bucket, proposal.clone()));
            }
            self.running += 1;
            for node in key.1 {
                *self.busy.entry(node).or_default() += 1;
            }
        }
    }

    /// The operation on a bucket has ended.
    pub fn finish(&mut self, bucket: BucketId) {
        self.forget(bucket);
    }

    /// The operation on a bucket could not be done; not before this time again.
    pub fn fail(&mut self, bucket: BucketId, until: Duration) {
        let Some((proposal, _, number)) = self.known.get(&bucket).cloned() else { return };
        self.forget(bucket);
        self.known.insert(bucket, (proposal, OperationStanding::Delayed(until), number));
        self.delayed.insert((until, bucket));
    }

    /// When the next delayed one may run.
    pub fn next_wake(&self) -> Option<Duration> {
        self.delayed.first().map(|(until, _)| *until)
    }

    /// All operations, with where they are.
    pub fn operations(&self) -> impl Iterator<Item = (BucketId, &OperationProposal, OperationStanding)> {
        self.known.iter().map(|(bucket, (proposal, standing, _))| (*bucket, proposal, *standing))
    }

    fn have_time(&self, nodes: &[NodeKey]) -> bool {
        nodes.iter().all(|node| self.busy.get(node).is_none_or(|busy| *busy < self.limits.per_node))
    }

    fn line_up(&mut self, proposal: &OperationProposal, number: u64, bucket: BucketId) {
        self.lines.entry(line_of(proposal)).or_default().insert(number, bucket);
        self.changed = true;
    }

    fn forget(&mut self, bucket: BucketId) -> Option<OperationStanding> {
        let (proposal, standing, number) = self.known.remove(&bucket)?;
        self.changed = true;
        let key = line_of(&proposal);
        match standing {
            OperationStanding::Running => {
                self.running -= 1;
                for node in key.1 {
                    if let Some(busy) = self.busy.get_mut(&node) {
                        *busy -= 1;
                    }
                }
            }
            OperationStanding::Delayed(until) => {
                self.delayed.remove(&(until, bucket));
            }
            OperationStanding::Pending => {
                if let Some(line) = self.lines.get_mut(&key) {
                    line.remove(&number);
                    if line.is_empty() {
                        self.lines.remove(&key);
                    }
                }
            }
        }
        Some(standing)
    }
}

fn line_of(proposal: &OperationProposal) -> (OperationPriority, Vec<NodeKey>) {
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
        // All of these wait for the nodes of the first, and are more urgent than the last.
        for bits in 2..1000 {
            scheduler.propose(bucket(bits), Some(proposal(OperationPriority::TooFewReplicas, &[1, 2])));
        }
        scheduler.propose(bucket(1000), Some(proposal(OperationPriority::Superfluous, &[3, 4])));
        assert_eq!(started(&mut scheduler, 0), [1, 1000]);
        // One that fails goes aside, and the next takes its place.
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
    fn what_somebody_waits_for_is_first_among_those_that_are_as_urgent() {
        let mut scheduler = MaintenanceScheduler::new(OperationLimits { per_node: 1, total: 1 });
        for bits in 1..=5 {
            scheduler.propose(bucket(bits), Some(proposal(OperationPriority::Diverged, &[0, bits as u16])));
        }
        scheduler.propose(bucket(6), Some(proposal(OperationPriority::TooFewReplicas, &[0, 6])));
        // In the order in which they were waited for first; what nobody has proposed is none.
        [4, 5, 4, 9].into_iter().for_each(|bits| scheduler.hasten(bucket(bits)));
        for expected in [6, 4, 5, 1, 2, 3] {
            assert_eq!(started(&mut scheduler, 0), [expected]);
            scheduler.hasten(bucket(expected));
            assert_eq!(started(&mut scheduler, 0), [0_u64; 0], "one at a time");
            scheduler.finish(bucket(expected));
        }
        assert!(scheduler.lines.is_empty() && scheduler.known.is_empty());
    }

    #[test]
    fn what_is_not_needed_any_more_does_not_run() {
        let mut scheduler = MaintenanceScheduler::new(OperationLimits { per_node: 1, total: 1 });
        scheduler.propose(bucket(1), Some(proposal(OperationPriority::Move, &[0, 1])));
        scheduler.propose(bucket(1), None);
        assert_eq!(started(&mut scheduler, 0), [0_u64; 0]);
        assert!(scheduler.lines.is_empty() && scheduler.known.is_empty());
    }
}
