use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::NodeEntry;
use millrace_env::{SystemClock, WallClock};
use millrace_index_placement::{PlacementOverview, PlacementRequest, RebalanceProgress};
use millrace_membership::{ClusterMembership, NodeRole, PackagePublication};
use millrace_node::cluster::{
    ClusterDeployment, ClusterError, ClusterMember, LeaderAnswer, ListedNode, MemberNode, MemberNodes,
    MemberRole, MetricGauge, NoteCallback, Published, SharedNote,
};
use tokio::runtime::Handle;

use crate::node::authority_of;

/// A node's membership in its cluster, as the node sees it from the first request on.
pub struct ContentMember {
    membership: ClusterMembership,
    runtime: Handle,
}

impl ContentMember {
    /// The member of this membership. Called in the runtime of the cluster's tasks.
    pub fn new(membership: ClusterMembership) -> Self {
        ContentMember { membership, runtime: Handle::current() }
    }
}

impl ClusterMember for ContentMember {
    fn serves(&self) -> Result<(), ClusterError> {
        self.membership.serves().map_err(|reason| ClusterError::Unavailable(reason.to_string()))
    }

    fn advertised(&self) -> Vec<String> {
        let snapshots = self.membership.snapshots();
        let snapshot = snapshots.borrow();
        snapshot.members.values().map(|member| authority_of(&member.url).to_owned()).collect()
    }

    fn nodes(&self) -> MemberNodes {
        let snapshots = self.membership.snapshots();
        let snapshot = Arc::clone(&snapshots.borrow());
        let Some(state) = &snapshot.state else { return MemberNodes::default() };
        let role = |role: &NodeRole| match role {
            NodeRole::Gateway => Some(MemberRole::Requests),
            NodeRole::Content => Some(MemberRole::Documents),
            NodeRole::Controller => Some(MemberRole::Election),
            NodeRole::Index => None,
        };
        let node = |(listed, entry): (ListedNode, &NodeEntry)| {
            let running = snapshot.members.get(&listed.name);
            MemberNode {
                address: entry.address.clone(),
                elastic: running.and_then(|member| member.elastic.clone()),
                roles: running
                    .map(|member| member.roles.iter().filter_map(role).collect())
                    .unwrap_or_default(),
                is_leader: snapshot.leader.as_ref() == Some(&listed.name),
                has_run: entry.incarnation.has_run(),
                listed,
            }
        };
        MemberNodes {
            nodes: ListedNode::all(state).into_iter().zip(state.nodes().values()).map(node).collect(),
            redundancy: state.distribution().redundancy.into(),
        }
    }

    fn notes(&self) -> BTreeMap<String, SharedNote> {
        let snapshots = self.membership.snapshots();
        let snapshot = snapshots.borrow();
        let note = |note: &millrace_membership::NodeNote| SharedNote {
            value: Arc::clone(&note.value),
            changed: note.changed,
        };
        snapshot.notes.iter().map(|(name, found)| (name.clone(), note(found))).collect()
    }

    fn note(
        &self,
        guard: &str,
        changed: Option<u64>,
        notes: Vec<(String, Option<Vec<u8>>)>,
        done: NoteCallback,
    ) {
        let (membership, guard) = (self.membership.clone(), guard.to_owned());
        self.runtime.spawn(async move {
            let written = membership.note(&guard, changed, &notes).await;
            done(written.map_err(|error| ClusterError::Unavailable(error.to_string())));
        });
    }

    fn publish<'a>(&'a self, deployment: ClusterDeployment<'a>) -> Published<'a> {
        Box::pin(async move {
            let publication = PackagePublication {
                archive: &deployment.archive,
                configuration: &deployment.application.topology(),
                generation: deployment.generation,
                based_on: deployment.based_on,
                dropped: &deployment.dropped,
            };
            let published = self.membership.publish(publication).await;
            published.map(|package| package.generation).map_err(|error| match error {
                millrace_membership::Error::Conflict(_) => ClusterError::Conflict(error.to_string()),
                other => ClusterError::Unavailable(other.to_string()),
            })
        })
    }

    fn placement(&self) -> PlacementOverview {
        self.membership.placement_overview()
    }

    fn ask_leader(&self, request: PlacementRequest, timeout: Duration) -> LeaderAnswer<'_> {
        Box::pin(async move {
            let answer = self.membership.ask_leader(request, timeout).await;
            answer.map_err(|error| ClusterError::Unavailable(error.to_string()))
        })
    }

    fn gauges(&self) -> Vec<MetricGauge> {
        let lost = self.membership.coordination_lost_for().map_or(0.0, |lost| lost.as_secs_f64());
        let mut gauges = vec![MetricGauge::new(
            "millrace.coordination.unreachable_seconds",
            "Seconds since coordination (etcd) was last found not to answer; 0 while it answers",
            lost,
        )];
        gauges.extend(placement_gauges(&self.membership));
        gauges
    }
}

/// Gauges of placed indexes, where a table of copies is there.
fn placement_gauges(membership: &ClusterMembership) -> Vec<MetricGauge> {
    if membership.placement().borrow().is_none() {
        return Vec::new();
    }
    let overview = membership.placement_overview();
    let progress = RebalanceProgress::of(&overview, SystemClock.now_us() / 1_000).unwrap_or_default();
    vec![
        MetricGauge::new(
            "millrace.index.rebalance.moves_left",
            "Moves of copies of indexes that the rebalance in progress has left; the same on all nodes",
            progress.left.moves as f64,
        ),
        MetricGauge::new(
            "millrace.index.rebalance.bytes_left",
            "Bytes that these moves have left; the same on all nodes",
            progress.left.bytes as f64,
        ),
        MetricGauge::new(
            "millrace.index.rebalance.seconds_left",
            "Seconds that the rebalance should still take; 0 while this is not known, and without a rebalance",
            progress.seconds_left.unwrap_or(0.0),
        ),
    ]
}
