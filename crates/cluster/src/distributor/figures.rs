use super::machine::Distributor;
use super::operation::Step;
use crate::checkers::{Action, Priority};
use crate::scheduler::Standing;
use millrace_bucket::BucketId;

/// Metrics of the buckets that a node owns: their distance from the ideal state. Computing them visits every
/// bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
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
    pub ended: Ended,
    /// Running operations.
    pub running: u64,
    /// Client operations in progress.
    pub requests: u64,
}

/// Operations that have finished since the node began to take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ended {
    /// Merges: `merge_bucket.done_ok`.
    pub merges: u64,
    /// Merges that failed and are retried: `merge_bucket.done_failed`.
    pub merges_failed: u64,
    /// Deletions: `delete_bucket.done_ok`.
    pub deletions: u64,
    /// Deletions that failed and are retried: `delete_bucket.done_failed`.
    pub deletions_failed: u64,
}

impl Ended {
    /// Counts an operation that succeeded (`well`) or failed.
    pub(super) fn count(&mut self, action: &Action, well: bool) {
        let counter = match (action, well) {
            (Action::Merge { .. }, true) => &mut self.merges,
            (Action::Merge { .. }, false) => &mut self.merges_failed,
            (Action::Delete { .. }, true) => &mut self.deletions,
            (Action::Delete { .. }, false) => &mut self.deletions_failed,
        };
        *counter += 1;
    }
}

/// An operation, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView {
    /// Its bucket.
    pub bucket: BucketId,
    /// Its urgency.
    pub priority: Priority,
    /// Its reason.
    pub reason: String,
    /// Its progress.
    pub progress: Progress,
    /// Cause of its last failure.
    pub trouble: Option<String>,
}

/// Progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It waits until its nodes have capacity.
    Pending,
    /// It failed, and waits for a retry.
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
    pub fn figures(&self) -> Figures {
        let mut figures = Figures {
            buckets: self.buckets.len() as u64,
            running: self.upkeep.operations.len() as u64,
            requests: self.requests.slots.len() as u64,
            ended: self.upkeep.ended,
            ..Figures::default()
        };
        for bucket in self.buckets.values() {
            figures.unknown += u64::from(!bucket.open);
            figures.replicas += bucket.replicas.len() as u64;
            figures.distance += bucket.distance;
        }
        for (_, proposal, standing) in self.upkeep.scheduler.operations() {
            match proposal.priority {
                Priority::TooFewReplicas => figures.too_few += 1,
                Priority::Diverged => figures.diverged += 1,
                Priority::Move => figures.misplaced += 1,
                Priority::Superfluous => figures.too_many += 1,
            }
            match (standing, &proposal.action) {
                (Standing::Running, _) => {}
                (Standing::Pending, Action::Merge { .. }) => figures.merges_pending += 1,
                (Standing::Pending, Action::Delete { .. }) => figures.deletions_pending += 1,
                (Standing::Delayed(_), Action::Merge { .. }) => figures.merges_blocked += 1,
                (Standing::Delayed(_), Action::Delete { .. }) => figures.deletions_blocked += 1,
            }
        }
        figures
    }

    /// All waiting and running operations, ordered by bucket.
    pub fn operations(&self) -> Vec<OperationView> {
        let view = |(bucket, proposal, standing): (BucketId, &crate::checkers::Proposal, Standing)| {
            let step = self.upkeep.operations.get(&bucket).map(|operation| &operation.step);
            let progress = match (standing, step) {
                (Standing::Pending, _) | (Standing::Running, None) => Progress::Pending,
                (Standing::Delayed(_), _) => Progress::Delayed,
                (_, Some(Step::Creating(_))) => Progress::Creating,
                (_, Some(Step::Draining | Step::Comparing { .. })) => Progress::Comparing,
                (_, Some(Step::Pulling(_))) => Progress::Pulling,
                (_, Some(Step::Completing(_))) => Progress::Completing,
                (_, Some(Step::Deleting(_))) => Progress::Deleting,
            };
            OperationView {
                bucket,
                priority: proposal.priority,
                reason: proposal.reason.clone(),
                progress,
                trouble: self.upkeep.troubles.get(&bucket).cloned(),
            }
        };
        self.upkeep.scheduler.operations().map(view).collect()
    }
}
