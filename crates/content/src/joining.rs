use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use millrace_bucket::BucketId;
use millrace_cluster::distributor::DropHorizon;
use millrace_cluster::{ClusterState, ClusterVersion, Incarnation, NodeKey};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_membership::ClusterMembership;
use millrace_node::cluster::{
    BatchedWrite, BucketHolders, BucketReaders, ClusterDeployment, ClusterError, ClusterView, Done,
    GroupDropRequest, ListedNode, MetricGauge, NodeAddress, Noted, Published, ReadDone, SharedNote,
};
use millrace_store::DocumentWrite;

use crate::{ContentNode, notes};

/// Reason for which nothing is answered yet.
const NO_PART: &str = "this node has no part in the cluster yet";

/// A node's cluster from the first request on: until the node has its part in it, every answer is that it has
/// none yet.
pub struct JoiningCluster {
    membership: ClusterMembership,
    joined: OnceLock<Arc<ContentNode>>,
}

impl JoiningCluster {
    /// On the way into the cluster of this membership.
    pub fn new(membership: ClusterMembership) -> Self {
        JoiningCluster { membership, joined: OnceLock::new() }
    }

    /// The node has its part. A second call is passed over.
    pub fn joined(&self, node: Arc<ContentNode>) {
        if self.joined.set(node).is_err() {
            tracing::warn!("the node has its part in the cluster already");
        }
    }

    /// The node's part, once it has one.
    pub fn part(&self) -> Option<&Arc<ContentNode>> {
        self.joined.get()
    }

    fn node(&self) -> Result<&Arc<ContentNode>, ClusterError> {
        self.part().ok_or_else(|| ClusterError::unavailable(NO_PART))
    }
}

impl ClusterView for JoiningCluster {
    fn serves(&self) -> Result<(), ClusterError> {
        self.membership.serves().map_err(|reason| ClusterError::Unavailable(reason.to_string()))?;
        self.node().map(drop)
    }

    fn me(&self) -> Result<NodeKey, ClusterError> {
        self.node()?.me()
    }

    fn incarnation(&self) -> Result<Incarnation, ClusterError> {
        self.node()?.incarnation()
    }

    fn state(&self) -> Result<Arc<ClusterState>, ClusterError> {
        self.node()?.state()
    }

    fn place(&self, node: NodeKey) -> Result<NodeAddress, ClusterError> {
        self.node()?.place(node)
    }

    fn advertised(&self) -> Vec<String> {
        self.node().map(|node| node.advertised()).unwrap_or_default()
    }

    fn nodes(&self) -> Result<Vec<ListedNode>, ClusterError> {
        self.node()?.nodes()
    }

    fn readers(
        &self,
        buckets: Option<&[BucketId]>,
        near: NodeKey,
    ) -> Result<(ClusterVersion, Vec<BucketReaders>), ClusterError> {
        self.node()?.readers(buckets, near)
    }

    fn holders(&self, bucket: BucketId) -> Result<BucketHolders, ClusterError> {
        self.node()?.holders(bucket)
    }

    fn vouches(&self, version: ClusterVersion) -> bool {
        self.part().is_some_and(|node| node.vouches(version))
    }

    fn holds(&self, bucket: BucketId) -> bool {
        self.part().is_some_and(|node| node.holds(bucket))
    }

    fn notes(&self) -> BTreeMap<String, SharedNote> {
        notes::of(&self.membership)
    }

    fn note(&self, guard: (&str, Option<u64>), notes: Vec<(String, Option<Vec<u8>>)>, done: Noted) {
        match self.node() {
            Ok(node) => node.note(guard, notes, done),
            Err(error) => done(Err(error)),
        }
    }

    fn gauges(&self) -> Vec<MetricGauge> {
        let lost = self.membership.coordination_lost_for().map_or(0.0, |lost| lost.as_secs_f64());
        let mut gauges = self.node().map(|node| node.gauges()).unwrap_or_default();
        gauges.push(MetricGauge::new(
            "millrace.coordination.unreachable_seconds",
            "Seconds since coordination (etcd) was last found not to answer; 0 while it answers",
            lost,
        ));
        gauges
    }

    fn read(&self, id: DocumentId, deadline: Instant, done: ReadDone) {
        match self.node() {
            Ok(node) => node.read(id, deadline, done),
            Err(error) => done(Err(error)),
        }
    }

    fn write(&self, write: DocumentWrite, deadline: Instant, done: Done) {
        match self.node() {
            Ok(node) => node.write(write, deadline, done),
            Err(error) => done(Err(error)),
        }
    }

    fn write_batch(&self, writes: Vec<BatchedWrite>, deadline: Instant) {
        match self.node() {
            Ok(node) => node.write_batch(writes, deadline),
            Err(_) => {
                let refused = || ClusterError::unavailable(NO_PART);
                writes.into_iter().for_each(|write| (write.done)(Err(refused())));
            }
        }
    }

    fn drop_horizon(
        &self,
        group: &DocumentGroup,
        part: Option<BucketId>,
    ) -> Result<DropHorizon, ClusterError> {
        self.node()?.drop_horizon(group, part)
    }

    fn drop_group(&self, dropped: GroupDropRequest, deadline: Instant, done: Done) {
        match self.node() {
            Ok(node) => node.drop_group(dropped, deadline, done),
            Err(error) => done(Err(error)),
        }
    }

    fn publish<'a>(&'a self, deployment: ClusterDeployment<'a>) -> Published<'a> {
        crate::node::publish(&self.membership, deployment)
    }
}
