use super::machine::Distributor;
use super::operation::Step;
use crate::checkers::{Action, Priority};
use crate::scheduler::Standing;
use millrace_bucket::BucketId;

/// How far the buckets that a node owns are from where they should be. Each costs a look at every bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Buckets that are owned and have replicas.
    pub buckets: u64,
    /// Of these, those whose replicas are not known yet.
    pub unknown: u64,
    /// Replicas on nodes that serve.
    pub replicas: u64,
    /// Replicas to be made, filled or deleted, and buckets whose replicas may differ: the metric `idealstate_diff`.
    pub distance: u64,
    /// Merges that wait: `merge_bucket.pending`.
    pub merges_pending: u64,
    /// Deletions that wait: `delete_bucket.pending`.
    pub deletions_pending: u64,
    /// Merges that failed and wait for another try: `merge_bucket.blocked`.
    pub merges_blocked: u64,
    /// Deletions that failed and wait for another try: `delete_bucket.blocked`.
    pub deletions_blocked: u64,
    /// Buckets that need more replicas most urgently.
    pub too_few: u64,
    /// Buckets whose replicas differ, or lack something.
    pub diverged: u64,
    /// Buckets with a replica in the wrong place.
    pub misplaced: u64,
    /// Buckets with more replicas than they should have.
    pub too_many: u64,
    /// What has ended.
    pub ended: Ended,
    /// Operations that run.
    pub running: u64,
    /// Operations of clients under way.
    pub requests: u64,
}

/// Operations that have ended since the node began to take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ended {
    /// Merges: `merge_bucket.done_ok`.
    pub merges: u64,
    /// Merges that failed; they are tried again: `merge_bucket.done_failed`.
    pub merges_failed: u64,
    /// Deletions: `delete_bucket.done_ok`.
    pub deletions: u64,
    /// Deletions that failed; they are tried again: `delete_bucket.done_failed`.
    pub deletions_failed: u64,
}

impl Ended {
    /// One more has come to its end, or failed.
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

/// An operation, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationView {
    /// On which bucket.
    pub bucket: BucketId,
    /// How urgent.
    pub priority: Priority,
    /// Why.
    pub reason: String,
    /// Where it is.
    pub progress: Progress,
    /// Why it failed when it was tried last.
    pub trouble: Option<String>,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It waits until its nodes have time.
    Pending,
    /// It failed, and waits for another try.
    Delayed,
    /// Replicas are being made.
    Creating,
    /// Replicas are being compared, while writes wait.
    Comparing,
    /// Replicas take over what they lack.
    Pulling,
    /// Replicas are being marked complete.
    Completing,
    /// Replicas are being deleted.
    Deleting,
}

impl Distributor {
    /// The figures of this moment.
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

    /// All operations that wait or run, by their buckets.
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
