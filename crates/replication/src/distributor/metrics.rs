use millrace_bucket::BucketId;

use super::machine::Distributor;
use super::operation::OperationStep;
use crate::checkers::{BucketAction, OperationPriority};
use crate::scheduler::OperationStatus;

/// Metrics of the buckets that a node owns: their distance from the ideal state. Computing them visits every
/// bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DistributorMetrics {
    /// Owned buckets with replicas.
    pub buckets: u64,
    /// Owned buckets whose replicas are not known yet.
    pub unknown: u64,
    /// Replicas on serving nodes.
    pub replicas: u64,
    /// Replicas to create, fill or delete, and buckets whose replicas may differ: the metric
    /// `idealstate_diff`.
    pub distance: u64,
    /// Pending merges: `merge_bucket.pending`.
    pub merges_pending: u64,
    /// Pending deletions: `delete_bucket.pending`.
    pub deletions_pending: u64,
    /// Merges that failed and wait for a retry: `merge_bucket.blocked`.
    pub merges_blocked: u64,
    /// Deletions that failed and wait for a retry: `delete_bucket.blocked`.
    pub deletions_blocked: u64,
    /// Buckets whose most urgent need is more replicas.
    pub too_few: u64,
    /// Buckets whose replicas differ or are incomplete.
    pub diverged: u64,
    /// Buckets with a replica on the wrong node.
    pub misplaced: u64,
    /// Buckets with more replicas than they should have.
    pub too_many: u64,
    /// Finished operations.
    pub ended: EndedOperations,
    /// Running operations.
    pub running: u64,
    /// Client operations in progress.
    pub requests: u64,
}

/// Operations that have finished since the node began to take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndedOperations {
    /// Merges: `merge_bucket.done_ok`.
    pub merges: u64,
    /// Merges that failed and are retried: `merge_bucket.done_failed`.
    pub merges_failed: u64,
    /// Deletions: `delete_bucket.done_ok`.
    pub deletions: u64,
    /// Deletions that failed and are retried: `delete_bucket.done_failed`.
    pub deletions_failed: u64,
}

impl EndedOperations {
    /// Counts an operation that succeeded.
    pub(super) fn count_success(&mut self, action: &BucketAction) {
        match action {
            BucketAction::Merge { .. } => self.merges += 1,
            BucketAction::Delete { .. } => self.deletions += 1,
        }
    }

    /// Counts an operation that failed.
    pub(super) fn count_failure(&mut self, action: &BucketAction) {
        match action {
            BucketAction::Merge { .. } => self.merges_failed += 1,
            BucketAction::Delete { .. } => self.deletions_failed += 1,
        }
    }
}

/// An operation, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView {
    /// Its bucket.
    pub bucket: BucketId,
    /// Its urgency.
    pub priority: OperationPriority,
    /// Its reason.
    pub reason: String,
    /// Its progress.
    pub progress: OperationProgress,
    /// Cause of its last failure.
    pub failure_cause: Option<String>,
}

/// Progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationProgress {
    /// Waiting until its nodes have capacity.
    Pending,
    /// Failed, and waiting for a retry.
    Delayed,
    /// Replicas are being created.
    Creating,
    /// Replicas are being compared, while writes wait.
    Comparing,
    /// Replicas copy missing rows.
    Pulling,
    /// Replicas are being marked complete.
    Completing,
    /// Replicas are being deleted.
    Deleting,
}

impl Distributor {
    /// Returns the current metrics.
    pub fn metrics(&self) -> DistributorMetrics {
        let mut metrics = DistributorMetrics {
            buckets: self.buckets.len() as u64,
            running: self.upkeep.operations.len() as u64,
            requests: self.requests.slots.len() as u64,
            ended: self.upkeep.ended,
            ..DistributorMetrics::default()
        };
        for bucket in self.buckets.values() {
            metrics.unknown += u64::from(!bucket.open);
            metrics.replicas += bucket.replicas.len() as u64;
            metrics.distance += bucket.distance;
        }
        for (_, proposal, status) in self.upkeep.scheduler.operations() {
            match proposal.priority {
                OperationPriority::TooFewReplicas => metrics.too_few += 1,
                OperationPriority::Diverged => metrics.diverged += 1,
                OperationPriority::Move => metrics.misplaced += 1,
                OperationPriority::Superfluous => metrics.too_many += 1,
            }
            match (status, &proposal.action) {
                (OperationStatus::Running, _) => {}
                (OperationStatus::Pending, BucketAction::Merge { .. }) => metrics.merges_pending += 1,
                (OperationStatus::Pending, BucketAction::Delete { .. }) => metrics.deletions_pending += 1,
                (OperationStatus::Delayed(_), BucketAction::Merge { .. }) => metrics.merges_blocked += 1,
                (OperationStatus::Delayed(_), BucketAction::Delete { .. }) => metrics.deletions_blocked += 1,
            }
        }
        metrics
    }

    /// All waiting and running operations, ordered by bucket.
    pub fn operations(&self) -> Vec<OperationView> {
        let view =
            |(bucket, proposal, status): (BucketId, &crate::checkers::OperationProposal, OperationStatus)| {
                let step = self.upkeep.operations.get(&bucket).map(|operation| &operation.step);
                let progress = match (status, step) {
                    (OperationStatus::Pending, _) | (OperationStatus::Running, None) => {
                        OperationProgress::Pending
                    }
                    (OperationStatus::Delayed(_), _) => OperationProgress::Delayed,
                    (_, Some(OperationStep::Creating(_))) => OperationProgress::Creating,
                    (_, Some(OperationStep::Draining | OperationStep::Comparing { .. })) => {
                        OperationProgress::Comparing
                    }
                    (_, Some(OperationStep::Pulling(_))) => OperationProgress::Pulling,
                    (_, Some(OperationStep::Completing(_))) => OperationProgress::Completing,
                    (_, Some(OperationStep::Deleting(_))) => OperationProgress::Deleting,
                };
                OperationView {
                    bucket,
                    priority: proposal.priority,
                    reason: proposal.reason.clone(),
                    progress,
                    failure_cause: self.upkeep.failure_causes.get(&bucket).cloned(),
                }
            };
        self.upkeep.scheduler.operations().map(view).collect()
    }
}
