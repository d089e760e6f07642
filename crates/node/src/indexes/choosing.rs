//! Choice between the indexes that lie with a node's documents and placed ones.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{CLUSTER_DIRECTORY, PLACED_INDEXES};
use millrace_plan::Plan;

use super::usage::choice;
use super::{IndexChoice, NarrowedScope, PlacementLinks};
use crate::cluster::NodeCluster;
use crate::metrics::MetricGauge;
use crate::{Error, Node};

/// Places of the entries of indexes that are declared as placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IndexPlacing {
    /// The node does not know yet: it keeps such indexes only where they were before.
    #[default]
    Unknown,
    /// With the documents: the node runs alone, or other nodes do not keep placed indexes yet.
    Beside,
    /// On the nodes that the cluster chooses.
    Placed,
}

impl Node {
    /// Places of the indexes that a cluster may place.
    pub(crate) fn index_placing(&self) -> IndexPlacing {
        match self.cluster() {
            // A node of a cluster runs alone until it joins.
            NodeCluster::Alone if self.settings().data_dir.join(CLUSTER_DIRECTORY).exists() => {
                IndexPlacing::Unknown
            }
            NodeCluster::Alone => IndexPlacing::Beside,
            NodeCluster::Joining(_) => IndexPlacing::Unknown,
            NodeCluster::Joined(_, view) => match view.state() {
                Ok(state) if state.protocol() >= PLACED_INDEXES => IndexPlacing::Placed,
                Ok(_) => IndexPlacing::Beside,
                Err(_) => IndexPlacing::Unknown,
            },
        }
    }

    /// Keeps the indexes where they belong now, if that has changed.
    pub(crate) fn reconsider_indexes(&self) {
        let current = self.deployments().current().ok();
        let declared = current.as_ref().map(|deployment| deployment.indexes()).unwrap_or_default();
        let is_any_placed = declared.iter().any(|definition| definition.config.placed);
        if !is_any_placed || self.placed_indexes().placing() == self.index_placing() {
            return;
        }
        if let Err(error) = self.keep_indexes() {
            tracing::warn!(%error, "indexes of the node are not kept");
        }
    }

    /// Keeps copies of placed indexes as the cluster's table says. Called in a tokio runtime, once, after
    /// [`Node::set_cluster_view`].
    pub fn follow_placement(self: &Arc<Self>, links: PlacementLinks) {
        self.placed_indexes().follow_table(self, links);
    }

    /// Gauges of the indexes; none where there are none.
    pub(crate) fn index_gauges(&self) -> Vec<MetricGauge> {
        let mut gauges = self.indexes().gauges(self.placed_indexes().places_any());
        gauges.extend(self.placed_indexes().gauges());
        gauges
    }

    /// Checks the parameters of a query about indexes. Reads no index.
    ///
    /// # Errors
    /// Those of [`NodeIndexes::check`](super::NodeIndexes::check).
    pub(crate) fn check_indexes(&self, plan: &Plan) -> Result<(), Error> {
        let placed = self.placed_indexes();
        match choice(plan)? {
            IndexChoice::Named(name) if placed.places(&name) => placed.check(&name, plan),
            _ => self.indexes().check(plan).map(drop),
        }
    }

    /// Narrows the scope of a query over all groups to the candidates that an index finds, as
    /// [`NodeIndexes::narrow`](super::NodeIndexes::narrow) says.
    ///
    /// # Errors
    /// Those of [`NodeIndexes::narrow`](super::NodeIndexes::narrow).
    pub(crate) fn narrow(
        &self,
        plan: &Plan,
        within: Option<&[BucketId]>,
        first: Option<usize>,
    ) -> Result<Option<NarrowedScope>, Error> {
        let placed = self.placed_indexes();
        let Some(buckets) = within.filter(|_| placed.places_any()) else {
            return self.indexes().narrow(plan, within, first);
        };
        let documents = || self.indexes().documents_in(within);
        match choice(plan)? {
            IndexChoice::Named(name) if placed.places(&name) => {
                placed.narrow(plan, buckets, documents(), first)
            }
            IndexChoice::Automatic => match self.indexes().narrow(plan, within, first)? {
                Some(narrowed) => Ok(Some(narrowed)),
                None => placed.narrow(plan, buckets, documents(), first),
            },
            _ => self.indexes().narrow(plan, within, first),
        }
    }
}
