//! Upkeep of buckets towards their ideal state: checks those where something may have changed, and begins the
//! operations that the scheduler selects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millrace_bucket::BucketId;

use super::machine::Distributor;
use super::metrics::EndedOperations;
use super::operation::MaintenanceOperation;
use super::{DistributorEffect, Settings};
use crate::checkers::{self, CheckContext, ReplicaView};
use crate::scheduler::{MaintenanceScheduler, OperationLimits};

/// Maximum number of buckets checked in one turn, so that writes do not wait for long.
const CHECKS_PER_TURN_MAX: usize = 512;

/// Pending upkeep of buckets.
pub(super) struct BucketUpkeep {
    limits: OperationLimits,
    to_check: BTreeSet<BucketId>,
    pub scheduler: MaintenanceScheduler,
    pub operations: BTreeMap<BucketId, MaintenanceOperation>,
    pub ended: EndedOperations,
    /// Cause of the next failure, if a node has reported one.
    pub reported_cause: Option<String>,
    /// Causes of failed operations, until they succeed.
    pub failure_causes: BTreeMap<BucketId, String>,
    next_operation: u64,
    /// True if one turn was not enough to check all buckets.
    has_unchecked: bool,
}

impl BucketUpkeep {
    pub fn new(settings: &Settings) -> Self {
        let limits =
            OperationLimits { per_node: settings.operations_per_node, total: settings.operations_max };
        BucketUpkeep {
            limits,
            to_check: BTreeSet::new(),
            scheduler: MaintenanceScheduler::new(limits),
            operations: BTreeMap::new(),
            ended: EndedOperations::default(),
            reported_cause: None,
            failure_causes: BTreeMap::new(),
            next_operation: 0,
            has_unchecked: false,
        }
    }

    /// Restarts for a new state: all buckets are checked again.
    pub fn forget_all(&mut self) {
        self.to_check.clear();
        self.operations.clear();
        self.failure_causes.clear();
        self.scheduler = MaintenanceScheduler::new(self.limits);
        self.has_unchecked = false;
    }

    /// Schedules a check of a bucket in which something may have changed.
    pub fn schedule_check(&mut self, bucket: BucketId) {
        self.to_check.insert(bucket);
    }

    /// Returns a new unique name for an operation.
    pub fn name(&mut self) -> u64 {
        self.next_operation += 1;
        self.next_operation
    }

    pub fn next_wake(&self) -> Option<Duration> {
        let now = self.has_unchecked.then_some(Duration::ZERO);
        let deadline = self.operations.values().filter_map(|operation| operation.deadline).min();
        [now, deadline, self.scheduler.next_wake()].into_iter().flatten().min()
    }
}

impl Distributor {
    /// Checks scheduled buckets, gives up operations past their deadline, and begins those that may start
    /// now.
    pub(super) fn run_upkeep(&mut self, effects: &mut Vec<DistributorEffect>) {
        self.upkeep.has_unchecked = false;
        if !self.unreported.is_empty() || !self.confirmed() {
            return;
        }
        for _ in 0..CHECKS_PER_TURN_MAX {
            let Some(bucket) = self.upkeep.to_check.pop_first() else { break };
            let proposal = self.context(bucket).map(|context| {
                if let Some(entry) = self.buckets.get_mut(&bucket) {
                    entry.distance = context.distance();
                }
                checkers::check(&context)
            });
            self.upkeep.scheduler.propose(bucket, proposal.flatten());
        }
        self.upkeep.has_unchecked = !self.upkeep.to_check.is_empty();
        let late = |operation: &MaintenanceOperation| {
            operation.deadline.is_some_and(|deadline| deadline <= self.now.monotonic)
        };
        let late: Vec<BucketId> = self
            .upkeep
            .operations
            .iter()
            .filter(|(_, operation)| late(operation))
            .map(|(bucket, _)| *bucket)
            .collect();
        for bucket in late {
            self.fail_operation(bucket, effects);
        }
        for (bucket, proposal) in self.upkeep.scheduler.start(self.now.monotonic) {
            self.begin_operation(bucket, proposal, effects);
        }
    }

    /// Input of the checkers for a bucket; `None` if there is nothing to check.
    pub(super) fn context(&self, bucket: BucketId) -> Option<CheckContext> {
        let state = self.state()?;
        let entry = self.buckets.get(&bucket).filter(|entry| entry.open)?;
        let view = |replica: &super::buckets::TrackedReplica| ReplicaView {
            node: replica.node,
            complete: replica.info.complete,
            documents: replica.info.content.documents,
        };
        Some(CheckContext {
            bucket,
            ideal: state.ideal(bucket),
            serving: entry.ideal.clone(),
            replicas: entry.replicas.iter().map(view).collect(),
            settled: entry.settled,
            all_serve: state.away().next().is_none(),
        })
    }
}
