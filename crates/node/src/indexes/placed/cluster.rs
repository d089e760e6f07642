//! The cluster as the placed indexes of a node see it.

use std::sync::{Arc, Weak};

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterState, NodeKey, PLACED_INDEXES};
use millrace_index_feed::{OwnerReport, ReportStart};

use super::message::{PlacedAnswer, PlacedQuestion};
use crate::cluster::{BucketReaders, ClusterError, ClusterView, NodeAddress, NodeAnswer};
use crate::{Error, Node};

/// Report on the buckets that a node owns, with the state by which it owns them.
pub(super) struct OwnedReplicas {
    pub state: Arc<ClusterState>,
    pub report: OwnerReport,
}

/// The cluster of a node.
pub(super) trait PlacedCluster: Send + Sync {
    /// Key of the node.
    fn own(&self) -> NodeKey;

    /// The newest state that the node knows.
    fn state(&self) -> Option<Arc<ClusterState>>;

    /// Report on the buckets that the node owns; `None` if they are not known now.
    fn owned_replicas(&self, start: ReportStart) -> Option<OwnedReplicas>;

    /// True if the state still has this version, and is confirmed.
    fn confirms(&self, version: u64) -> bool;

    /// Keeps indexes where they belong by the state, if that has changed.
    fn reconsider(&self) {}

    /// Waits until this many bytes may move from or to the node.
    fn pace(&self, _bytes: u64) {}

    /// Asks a node, also this one.
    fn ask(&self, node: NodeKey, question: PlacedQuestion) -> NodeAnswer<'static, PlacedAnswer>;
}

/// The cluster that a running node is in.
pub(super) struct NodePlacedCluster {
    pub own: NodeKey,
    pub node: Weak<Node>,
}

impl NodePlacedCluster {
    fn with<T>(&self, look: impl FnOnce(&dyn ClusterView) -> Option<T>) -> Option<T> {
        let node = self.node.upgrade()?;
        look(node.cluster().view().ok().flatten()?)
    }
}

impl PlacedCluster for NodePlacedCluster {
    fn own(&self) -> NodeKey {
        self.own
    }

    fn state(&self) -> Option<Arc<ClusterState>> {
        self.with(|view| view.state().ok())
    }

    fn owned_replicas(&self, start: ReportStart) -> Option<OwnedReplicas> {
        self.with(|view| {
            let state = view.state().ok()?;
            let report = owner_report(view, &state, self.own, start)?;
            Some(OwnedReplicas { state, report })
        })
    }

    fn confirms(&self, version: u64) -> bool {
        let confirms = self.with(|view| {
            let state = view.state().ok().filter(|state| state.version().number() == version)?;
            Some(view.confirms(state.version()))
        });
        confirms.unwrap_or(false)
    }

    fn pace(&self, bytes: u64) {
        let view = |view: &dyn ClusterView| {
            view.pace_transfer(bytes);
            Some(())
        };
        let _ = self.with(view);
    }

    fn reconsider(&self) {
        if let Some(node) = self.node.upgrade() {
            node.reconsider_indexes();
        }
    }

    fn ask(&self, node: NodeKey, question: PlacedQuestion) -> NodeAnswer<'static, PlacedAnswer> {
        let own = self.node.upgrade();
        Box::pin(async move {
            let own = own.ok_or_else(|| Error::Unsettled("this node is being stopped".to_owned()))?;
            let place = match own.cluster().view()? {
                Some(view) => view.address(node)?,
                None => return Err(Error::Unsettled("this node is not one of a cluster".to_owned())),
            };
            match place {
                NodeAddress::Local => own.placed_indexes().answer(question).await,
                NodeAddress::Remote(remote) if remote.protocol < PLACED_INDEXES => {
                    Err(Error::Unsettled(format!(
                        "node {remote} keeps no placed indexes until all nodes speak protocol \
                         {PLACED_INDEXES}: upgrade those of earlier versions"
                    )))
                }
                NodeAddress::Remote(remote) => own.transport()?.placed_indexes(remote, question).await,
            }
        })
    }
}

/// Looks at the buckets that a node owns by a state.
fn owner_report(
    view: &dyn ClusterView,
    state: &ClusterState,
    own: NodeKey,
    start: ReportStart,
) -> Option<OwnerReport> {
    // Before the readers: a write that is given up meanwhile makes its bucket one that is not full.
    let oldest = view.oldest_writes();
    let has_all = |readers: &BucketReaders| {
        // Without documents there is nothing that the replica could lack.
        readers.full && (readers.nodes.is_empty() || readers.nodes.contains(&own))
    };
    let owned: Vec<(BucketId, Option<bool>)> = match view.readers(None, own) {
        Ok((version, readers)) if version == state.version() => {
            readers.iter().map(|readers| (readers.bucket, Some(has_all(readers)))).collect()
        }
        // One bucket whose readers are not known yet is enough for that.
        Err(ClusterError::Unavailable(_)) => {
            let owned = state.buckets().filter(|bucket| state.owner(*bucket) == Some(own));
            let known = owned.map(|bucket| match view.readers(Some(&[bucket]), own) {
                Ok((version, readers)) if version == state.version() => {
                    (bucket, Some(readers.first().is_some_and(has_all)))
                }
                _ => (bucket, None),
            });
            known.collect()
        }
        Ok(_) | Err(_) => return None,
    };
    OwnerReport::new(start, &oldest, owned)
}
