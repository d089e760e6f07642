//! Status of this node in the cluster, and of its connection to coordination.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::controller::{RequestedNodeState, removed_reason};
use millrace_cluster::{ClusterState, NodeState};
use millrace_coordination::{KeyCondition, KeyOperation, Transaction};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::membership::MembershipShared;
use crate::{ClusterMembership, CoordinationSnapshot, Error};

/// Pause before the next check.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Time since which coordination does not answer; `None` while it does.
#[derive(Default)]
pub(crate) struct CoordinationOutage(Mutex<Option<Instant>>);

impl CoordinationOutage {
    /// Records the outcome of a request.
    pub(crate) fn note<T>(&self, outcome: &Result<T, millrace_coordination::Error>) {
        let mut since = self.0.lock();
        match outcome {
            Err(error) if error.is_passing() => drop(since.get_or_insert_with(Instant::now)),
            _ => *since = None,
        }
    }

    fn lost_for(&self) -> Option<Duration> {
        let since = *self.0.lock();
        since.map(|since| since.elapsed())
    }
}

impl ClusterMembership {
    /// Time for which coordination has not answered; `None`: it answered the last request, about once a
    /// second.
    pub fn coordination_lost_for(&self) -> Option<Duration> {
        self.shared().outage.lost_for()
    }

    /// Warnings for operators: what is wrong with coordination, as far as this node sees, which has a
    /// generation of the application active; and, if it leads, that the cluster has too few nodes.
    pub fn warnings(&self, active_generation: u64) -> Vec<String> {
        let unreachable = self.coordination_lost_for().map(|lost| {
            format!(
                "coordination (etcd) cannot be reached since {} s; the cluster goes on as it is, but no node joins or leaves, no replica is \
                 recreated, and no deployment is possible: bring etcd back",
                lost.as_secs()
            )
        });
        let published = self.package().map(|package| package.generation);
        let set_back = published.filter(|published| *published < active_generation).map(|published| {
            format!(
                "coordination (etcd) has generation {published} of the application, and this node has {active_generation} active: an older \
                 snapshot of etcd was restored. Nodes that start empty get {published}; deploy the newest package again, so that all have \
                 the same"
            )
        });
        let leads = {
            let snapshots = self.snapshots();
            let snapshot = snapshots.borrow();
            snapshot.leader.as_deref() == Some(&*self.shared().settings.name)
        };
        let known = self.shared().known().filter(|_| leads);
        let too_few = known.and_then(|state| too_few_nodes(&state));
        unreachable.into_iter().chain(set_back).chain(too_few).collect()
    }

    /// Checks that this run of the node serves by the cluster state.
    ///
    /// # Errors
    /// It does not.
    pub fn serves(&self) -> Result<(), NotServing> {
        let shared = self.shared();
        let name = &*shared.settings.name;
        let snapshot = Arc::clone(&shared.snapshots().borrow());
        let state = shared.known();
        let mut nodes = state.iter().flat_map(|state| state.nodes().values());
        let is_lost = self.coordination_lost_for().is_some();
        let Some(entry) = nodes.find(|node| node.name == name) else {
            return Err(match snapshot.is_removed(name) {
                true => NotServing::Removed(removed_reason(name)),
                false if is_lost => NotServing::NoCoordination,
                false => NotServing::Joining,
            });
        };
        let word = match entry.state {
            NodeState::Up | NodeState::Retired if entry.incarnation == self.incarnation() => return Ok(()),
            NodeState::Up | NodeState::Retired if is_lost => return Err(NotServing::NoCoordination),
            NodeState::Up | NodeState::Retired => return Err(NotServing::Restarted),
            NodeState::Maintenance => "under maintenance",
            NodeState::Down => "down",
        };
        let reason = snapshot.reasons.get(name).filter(|reason| !reason.is_empty());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        Err(NotServing::State { word, reason })
    }
}

/// Warning of a cluster with fewer nodes for replicas than it should have replicas. A node that is away for a
/// moment counts.
fn too_few_nodes(state: &ClusterState) -> Option<String> {
    let nodes = state.nodes().iter().filter(|(key, node)| {
        matches!(node.state, NodeState::Up | NodeState::Maintenance) && state.takes_buckets(**key)
    });
    let (nodes, wanted) = (nodes.count(), state.distribution().redundancy);
    (nodes < usize::from(wanted)).then(|| {
        format!(
            "the application asks for {wanted} replicas of each document, and {nodes} of the nodes can have one each: start more nodes, \
             or lower min-redundancy in services.xml"
        )
    })
}

/// Reason for which a run of a node does not serve by the cluster state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotServing {
    /// An operator has removed the node; the text says how it comes back.
    #[error("{0}")]
    Removed(String),
    /// This run of the node is not in the cluster state, and coordination cannot be reached.
    #[error(
        "the node has started, and is not in the cluster yet: coordination (etcd) cannot be reached; it serves once etcd is back"
    )]
    NoCoordination,
    /// The node is not in the cluster state.
    #[error("the node is not in the cluster yet")]
    Joining,
    /// The cluster state is about an earlier run of the node.
    #[error("the cluster has not heard yet that the node has started again")]
    Restarted,
    /// The node has another state.
    #[error("to the cluster the node is {word}{reason}")]
    State {
        /// The state.
        word: &'static str,
        /// The reason of an operator, after the state in a sentence.
        reason: String,
    },
}

impl CoordinationSnapshot {
    /// True if an operator has removed a node.
    pub(crate) fn is_removed(&self, name: &str) -> bool {
        self.requested_states.get(name).is_some_and(|record| record.state == RequestedNodeState::Removed)
    }
}

/// Readmits a removed node that starts without data: as a new one. A node with data may bring back dropped
/// documents; its log says that an operator has to decide.
pub(crate) async fn rejoin_after_removal(
    shared: Arc<MembershipShared>,
    mut snapshots: watch::Receiver<Arc<CoordinationSnapshot>>,
) {
    let name = &*shared.settings.name;
    // The first answer of coordination is complete. A node that is removed later must not come back by
    // itself.
    let mut may_return = shared.settings.is_empty;
    let mut has_warned = false;
    while snapshots.changed().await.is_ok() && !shared.has_left() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let removed = snapshot.is_removed(name);
        may_return &= removed;
        if may_return {
            match revoke_removal(&shared, &snapshot).await {
                Ok(true) => {
                    tracing::info!(node = name, "was removed, has no documents, and joins as a new node")
                }
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "coming back after a removal"),
            }
            // The next check is no later than this.
            tokio::time::sleep(RETRY_PAUSE).await;
            snapshots.mark_changed();
        } else if removed && !has_warned {
            tracing::warn!(node = name, "is not part of the cluster: {}", removed_reason(name));
        }
        has_warned = removed;
    }
}

/// Revokes a removal, if the node is not in the cluster state: a node in it is known with its data. Returns
/// true if it was revoked.
async fn revoke_removal(shared: &MembershipShared, snapshot: &CoordinationSnapshot) -> Result<bool, Error> {
    let name = &*shared.settings.name;
    let has = |state: &ClusterState| state.nodes().values().any(|node| node.name == name);
    if shared.known().is_some_and(|state| has(&state)) {
        return Ok(false);
    }
    let key = shared.keys.requested_state(name);
    let Some(entry) = shared.coordination.get(&*key).await? else { return Ok(false) };
    let state = match snapshot.state_changed {
        Some(changed) => KeyCondition::Changed(shared.keys.state(), changed),
        None => KeyCondition::Absent(shared.keys.state()),
    };
    let unchanged = KeyCondition::Changed(key.clone(), entry.changed);
    let take = Transaction::new().when(state).when(unchanged).then(KeyOperation::Delete(key));
    Ok(shared.coordination.transact(take).await?.held)
}
