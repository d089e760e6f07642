//! An operation on one bucket, from start to end.
//!
//! A **merge** creates the missing replicas, then in rounds: suspends writes, waits until none is in
//! progress, asks every replica for its contents, and compares. If all are equal, incomplete replicas are
//! marked complete before writes resume. If not, writes resume, and replicas copy missing data from each
//! other: as a whole, if there is a complete replica to copy from, else only the rows that are missing on
//! either side. Then it compares again.
//!
//! A **deletion** compares in the same way. Only while all remaining replicas are complete, and the others
//! are equal to them, are the others removed from the set of replicas that get rows, and only then deleted,
//! on condition that they have not changed.

use std::collections::BTreeSet;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{NodeKey, NodeRequest, NodeResponse, PullMode, ReplicaContent, ReportedReplica};

use super::DistributorEffect;
use super::buckets::{OwnedBucket, TrackedReplica};
use super::machine::Distributor;
use super::peers::RequestPurpose;
use crate::checkers::{BucketAction, OperationProposal};

/// Invariant of running operations: a state in which the bucket is not kept ends all of them.
const KNOWN: &str = "a bucket is known while an operation runs on it";

/// Invariant of the steps of an operation.
const RUNNING: &str = "an operation runs until it is ended";

/// Maximum number of comparisons before an operation makes way for others.
const ROUNDS: u8 = 6;

/// A running operation.
#[derive(Debug)]
pub(super) struct MaintenanceOperation {
    pub name: u64,
    pub proposal: OperationProposal,
    pub step: OperationStep,
    /// Time at which it is given up unless it progresses.
    pub deadline: Option<Duration>,
    round: u8,
}

/// The step that an operation waits for.
#[derive(Debug)]
pub(super) enum OperationStep {
    /// Replicas are being created.
    Creating(BTreeSet<NodeKey>),
    /// Writes in progress are ending.
    Draining,
    /// Replicas report their contents.
    Comparing { waiting_for: BTreeSet<NodeKey>, reports: Vec<(NodeKey, Option<ReportedReplica>)> },
    /// Replicas copy missing data; the number of them.
    Pulling(usize),
    /// Replicas are being marked complete.
    Completing(BTreeSet<NodeKey>),
    /// Replicas are being deleted.
    Deleting(BTreeSet<NodeKey>),
}

impl OperationStep {
    /// Reason for which it cannot continue, if no node has reported one.
    fn failure_cause(&self) -> &'static str {
        match self {
            OperationStep::Creating(_) => "not all replicas could be made in time",
            OperationStep::Draining => "writes did not end in time",
            OperationStep::Comparing { .. } => "replicas could not be compared, or differ again and again",
            OperationStep::Pulling(_) => "a replica could not take over what it lacks",
            OperationStep::Completing(_) => "not all replicas could be marked complete in time",
            OperationStep::Deleting(_) => "not all replicas could be deleted in time",
        }
    }
}

impl Distributor {
    pub(super) fn begin_operation(
        &mut self,
        bucket: BucketId,
        proposal: OperationProposal,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let name = self.upkeep.name();
        let create = match &proposal.action {
            BucketAction::Merge { create } => create.iter().copied().collect(),
            BucketAction::Delete { .. } => BTreeSet::new(),
        };
        let deadline = Some(self.now.monotonic + self.settings.hold);
        let step = OperationStep::Creating(create.clone());
        let operation = MaintenanceOperation { name, proposal, step, deadline, round: 0 };
        let before = self.upkeep.operations.insert(bucket, operation);
        assert!(before.is_none(), "one operation at a time runs on a bucket");
        if create.is_empty() {
            return self.hold(bucket, effects);
        }
        for node in create {
            self.ask(bucket, node, NodeRequest::Create(bucket), effects);
        }
    }

    fn ask(
        &mut self,
        bucket: BucketId,
        node: NodeKey,
        request: NodeRequest,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let operation = self.upkeep.operations.get(&bucket).expect(RUNNING).name;
        self.send(node, request, RequestPurpose::Operation { bucket, operation }, effects);
    }

    fn step(&mut self, bucket: BucketId, step: OperationStep, within: Option<Duration>) {
        let deadline = within.map(|within| self.now.monotonic + within);
        let operation = self.upkeep.operations.get_mut(&bucket).expect(RUNNING);
        (operation.step, operation.deadline) = (step, deadline);
    }

    /// Suspends writes until no more are in progress.
    fn hold(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        let entry = self.buckets.get_mut(&bucket).expect(KNOWN);
        entry.held = true;
        let is_drained = entry.in_flight == 0;
        self.step(bucket, OperationStep::Draining, Some(self.settings.hold));
        if is_drained {
            self.writes_drained(bucket, effects);
        }
    }

    /// Resumes writes.
    fn release(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        // By a new state the bucket may be another node's, or not reported yet.
        let Some(entry) = self.buckets.get_mut(&bucket) else { return };
        entry.held = false;
        for request in std::mem::take(&mut entry.waiting) {
            self.advance(request, effects);
        }
    }

    /// Continues once no write is in progress: now replicas can be compared.
    pub(super) fn writes_drained(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        let draining = |operation: &MaintenanceOperation| matches!(operation.step, OperationStep::Draining);
        if !self.upkeep.operations.get(&bucket).is_some_and(draining) {
            return;
        }
        let entry = self.buckets.get(&bucket).expect(KNOWN);
        assert!(entry.held && entry.in_flight == 0, "replicas are compared while no row is on its way");
        let nodes: BTreeSet<NodeKey> = entry.replicas.iter().map(|replica| replica.node).collect();
        let step = OperationStep::Comparing { waiting_for: nodes.clone(), reports: Vec::new() };
        self.step(bucket, step, Some(self.settings.hold));
        let removals_since = self.removals_since();
        for node in nodes {
            self.ask(bucket, node, NodeRequest::Info { bucket, removals_since }, effects);
        }
    }

    pub(super) fn operation_replied(
        &mut self,
        bucket: BucketId,
        name: u64,
        from: NodeKey,
        response: NodeResponse,
        effects: &mut Vec<DistributorEffect>,
    ) {
        // An answer can arrive after its operation has ended, and the next one has begun.
        let Some(operation) = self.upkeep.operations.get_mut(&bucket).filter(|found| found.name == name)
        else {
            return;
        };
        let done = matches!(response, NodeResponse::Done);
        match &mut operation.step {
            OperationStep::Draining => {}
            OperationStep::Creating(waiting_for) if done => {
                waiting_for.remove(&from);
                let all = waiting_for.is_empty();
                self.note_created(bucket, from);
                if all {
                    self.hold(bucket, effects);
                }
            }
            OperationStep::Comparing { waiting_for, reports } => {
                let NodeResponse::Replicas { replicas, newest } = response else {
                    return self.fail_operation(bucket, effects);
                };
                self.clock.observe(newest);
                if waiting_for.remove(&from) {
                    let found = replicas.into_iter().find(|(other, _)| *other == bucket);
                    reports.push((from, found.map(|(_, info)| info)));
                }
                if waiting_for.is_empty() {
                    let reports = std::mem::take(reports);
                    self.compare(bucket, reports, effects);
                }
            }
            OperationStep::Pulling(left) if done => {
                assert!(*left > 0, "as many replicas take over what they lack as were asked");
                *left -= 1;
                if *left == 0 {
                    self.hold(bucket, effects);
                }
            }
            OperationStep::Completing(waiting_for) if done => {
                waiting_for.remove(&from);
                let all = waiting_for.is_empty();
                self.note_complete(bucket, from);
                if all {
                    self.settled(bucket, effects);
                }
            }
            OperationStep::Deleting(waiting_for) if done => {
                waiting_for.remove(&from);
                if waiting_for.is_empty() {
                    self.end_operation(bucket, effects);
                }
            }
            _ => {
                if let NodeResponse::Failed(failure) = &response {
                    self.upkeep.reported_cause = Some(format!("node {from}: {failure}"));
                }
                self.fail_operation(bucket, effects);
            }
        }
    }

    fn note_created(&mut self, bucket: BucketId, node: NodeKey) {
        if let Some(entry) = self.buckets.get_mut(&bucket)
            && entry.replica(node).is_none()
        {
            entry.replicas.push(TrackedReplica { node, info: ReportedReplica::default(), origin: None });
        }
    }

    fn note_complete(&mut self, bucket: BucketId, node: NodeKey) {
        if let Some(replica) = self.buckets.get_mut(&bucket).and_then(|entry| entry.replica_mut(node)) {
            replica.info.complete = true;
        }
    }

    /// Compares the replicas once all have reported, without a write in between.
    fn compare(
        &mut self,
        bucket: BucketId,
        reports: Vec<(NodeKey, Option<ReportedReplica>)>,
        effects: &mut Vec<DistributorEffect>,
    ) {
        let entry = self.buckets.get_mut(&bucket).expect(KNOWN);
        assert!(entry.held && entry.in_flight == 0, "no row went out while replicas said what they hold");
        let mut lost = false;
        for (node, info) in &reports {
            match (info, entry.replica_mut(*node)) {
                (Some(info), Some(replica)) => (replica.info, replica.origin) = (*info, None),
                // Its first row has not arrived: there is no replica yet.
                (None, Some(_)) | (_, None) => {
                    lost = true;
                    entry.forget_replica(*node);
                }
            }
        }
        let equal = entry.replicas.windows(2).all(|pair| pair[0].info.content == pair[1].info.content);
        if lost || entry.replicas.is_empty() {
            return self.fail_operation(bucket, effects);
        }
        let action = self.upkeep.operations.get(&bucket).map(|operation| operation.proposal.action.clone());
        match action {
            Some(BucketAction::Delete { nodes }) if equal => self.delete(bucket, &nodes, effects),
            Some(BucketAction::Merge { .. }) if equal => self.complete(bucket, effects),
            Some(BucketAction::Merge { .. }) => self.pull(bucket, effects),
            _ => {
                entry.settled = false;
                self.fail_operation(bucket, effects);
            }
        }
    }

    /// Ends a comparison of equal replicas: incomplete replicas become complete, if there is no other that
    /// they could have been filled from.
    fn complete(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        let entry = self.buckets.get(&bucket).expect(KNOWN);
        let incomplete: BTreeSet<NodeKey> = entry
            .replicas
            .iter()
            .filter(|replica| !replica.info.complete)
            .map(|replica| replica.node)
            .collect();
        let some_complete = incomplete.len() < entry.replicas.len();
        let expected = entry.replicas.first().expect("there are replicas that are equal").info.content;
        let all_serve = self.context(bucket).is_some_and(|context| context.all_serve);
        if incomplete.is_empty() || !(some_complete || all_serve) {
            return self.settled(bucket, effects);
        }
        self.step(bucket, OperationStep::Completing(incomplete.clone()), Some(self.settings.hold));
        for node in incomplete {
            self.ask(bucket, node, NodeRequest::Complete { bucket, expected }, effects);
        }
    }

    fn settled(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        self.buckets.get_mut(&bucket).expect(KNOWN).settled = true;
        self.end_operation(bucket, effects);
    }

    /// Lets replicas copy missing data from each other.
    fn pull(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        let operation = self.upkeep.operations.get_mut(&bucket).expect(RUNNING);
        let entry = self.buckets.get_mut(&bucket).expect(KNOWN);
        operation.round += 1;
        if operation.round > ROUNDS {
            return self.fail_operation(bucket, effects);
        }
        let pulls = pulls(bucket, entry, operation.round == 1);
        assert!(!pulls.is_empty(), "of replicas that differ, some lack something");
        self.step(bucket, OperationStep::Pulling(pulls.len()), None);
        for (node, from, pull) in pulls {
            self.ask(bucket, node, NodeRequest::Pull { bucket, from, pull }, effects);
        }
        self.release(bucket, effects);
    }

    /// Deletes replicas that all others are equal to.
    fn delete(&mut self, bucket: BucketId, nodes: &[NodeKey], effects: &mut Vec<DistributorEffect>) {
        let context = self.context(bucket).expect("operations run by a state that this node has a part in");
        let (ideal, entry) = (context.ideal, self.buckets.get_mut(&bucket).expect(KNOWN));
        let stays = |node: &NodeKey| entry.replica(*node).is_some_and(|replica| replica.info.complete);
        let all_stay = !ideal.is_empty() && ideal.iter().all(|node| stays(node) && !nodes.contains(node));
        if !all_stay {
            return self.fail_operation(bucket, effects);
        }
        let going: Vec<(NodeKey, ReplicaContent)> = entry
            .replicas
            .iter()
            .filter(|replica| nodes.contains(&replica.node))
            .map(|replica| (replica.node, replica.info.content))
            .collect();
        // From here on they get no rows; so their contents stay a subset of the others, regardless of later
        // writes.
        entry.replicas.retain(|replica| !nodes.contains(&replica.node));
        let waiting_for = going.iter().map(|(node, _)| *node).collect();
        self.step(bucket, OperationStep::Deleting(waiting_for), Some(self.settings.request_timeout * 4));
        for (node, expected) in going {
            self.ask(bucket, node, NodeRequest::Delete { bucket, expected }, effects);
        }
        self.release(bucket, effects);
    }

    /// Ends the operation; the next one, if any, can be proposed.
    fn end_operation(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        let operation = self.upkeep.operations.remove(&bucket).expect("an operation ends once");
        self.upkeep.ended.count_success(&operation.proposal.action);
        self.upkeep.failure_causes.remove(&bucket);
        self.peers.end_operation(operation.name);
        self.upkeep.scheduler.finish(bucket);
        self.upkeep.schedule_check(bucket);
        self.release(bucket, effects);
    }

    /// Gives up the operation; it is checked again after a while, when others have had their turn.
    pub(super) fn fail_operation(&mut self, bucket: BucketId, effects: &mut Vec<DistributorEffect>) {
        let operation = self.upkeep.operations.remove(&bucket).expect("an operation ends once");
        self.upkeep.ended.count_failure(&operation.proposal.action);
        let reported = self.upkeep.reported_cause.take();
        let cause = reported.unwrap_or_else(|| operation.step.failure_cause().to_owned());
        self.upkeep.failure_causes.insert(bucket, cause);
        self.peers.end_operation(operation.name);
        if let Some(entry) = self.buckets.get_mut(&bucket)
            && let OperationStep::Deleting(unreported) = operation.step
        {
            // These replicas may still exist, and then need maintenance.
            for node in unreported {
                entry.settled = false;
                if entry.replica(node).is_none() {
                    entry.replicas.push(TrackedReplica {
                        node,
                        info: ReportedReplica::default(),
                        origin: None,
                    });
                }
            }
        }
        self.upkeep.scheduler.fail(bucket, self.now.monotonic + self.settings.operation_retry);
        self.upkeep.schedule_check(bucket);
        self.release(bucket, effects);
    }
}

/// Copies to make, as source and target: all from, and to, the replica with the most data. Among equals the
/// choice depends on the bucket, so that no node has all the work.
fn pulls(bucket: BucketId, entry: &OwnedBucket, first: bool) -> Vec<(NodeKey, NodeKey, PullMode)> {
    let turn = |node: NodeKey| (bucket.bits() ^ u64::from(node.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rank = |replica: &&TrackedReplica| {
        let info = replica.info;
        (info.complete, info.content.documents, turn(replica.node))
    };
    let hub = entry.replicas.iter().max_by_key(rank).expect("there are replicas that differ");
    let mut pulls = Vec::new();
    for replica in entry.replicas.iter().filter(|replica| replica.info.content != hub.info.content) {
        if first && hub.info.complete && !replica.info.complete {
            pulls.push((replica.node, hub.node, PullMode::Whole));
        } else {
            pulls.push((replica.node, hub.node, PullMode::Missing));
            pulls.push((hub.node, replica.node, PullMode::Missing));
        }
    }
    pulls
}
