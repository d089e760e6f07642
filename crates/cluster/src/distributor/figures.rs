use super::machine::Distributor;
use super::operation::Step;
use crate::checkers::Priority;
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
    /// Operations that run.
    pub running: u64,
    /// Operations of clients under way.
    pub requests: u64,
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
            ..Figures::default()
        };
        for bucket in self.buckets.values() {
            figures.unknown += u64::from(!bucket.open);
            figures.replicas += bucket.replicas.len() as u64;
            figures.distance += bucket.distance;
        }
        for (_, proposal, standing) in self.upkeep.scheduler.operations() {
            match (standing, proposal.priority) {
                (Standing::Running, _) => {}
                (_, Priority::Superfluous) => figures.deletions_pending += 1,
                _ => figures.merges_pending += 1,
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
            OperationView { bucket, priority: proposal.priority, reason: proposal.reason.clone(), progress }
        };
        self.upkeep.scheduler.operations().map(view).collect()
    }
}
