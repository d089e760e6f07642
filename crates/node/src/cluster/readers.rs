//! Readers of the documents of a query, as their owners report them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey};
use millrace_document::DocumentGroup;
use tokio::task::JoinSet;

use super::{BucketReaders, ClusterView, NodeAddress, ReadersQuestion};
use crate::{Error, Node};

/// Readers of the documents of a query.
pub struct ReaderAssignment {
    /// Version of the cluster state for which this holds: a read counts if the cluster confirms it
    /// afterwards.
    pub version: ClusterVersion,
    /// Readers of each bucket that has documents.
    pub readers: Vec<BucketReaders>,
    /// Owners that did not answer: the contents of their buckets are not known.
    pub silent: Vec<NodeKey>,
}

/// Treatment of an owner that cannot be reached, or does not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SilentOwners {
    /// It is an error.
    Fail,
    /// The other owners are enough.
    Skip,
}

/// Asks the owners for the readers of these groups, or of all, until `until`.
///
/// # Errors
/// Some owner cannot be reached, or the nodes do not agree yet.
pub(crate) async fn readers_of_all(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    groups: Option<&[DocumentGroup]>,
    until: Instant,
    silent: SilentOwners,
) -> Result<ReaderAssignment, Error> {
    let owners = cluster.owners(groups)?;
    let near = cluster.own().key;
    let mut found = ReaderAssignment { version: owners.version, readers: Vec::new(), silent: Vec::new() };
    let mut asked = JoinSet::new();
    for (owner, buckets) in owners.nodes {
        match cluster.address(owner)? {
            NodeAddress::Local => {
                found.readers.extend(own_readers(cluster, owners.version, buckets.as_deref(), near)?)
            }
            NodeAddress::Remote(remote) => {
                let (node, version) = (Arc::clone(node), owners.version);
                asked.spawn(async move {
                    let question = ReadersQuestion { version, near, buckets };
                    let answer = async { node.transport()?.readers(remote.clone(), question).await };
                    let answer = tokio::time::timeout_at(until.into(), answer).await.unwrap_or_else(|_| {
                        let reason = "it does not say in time who has its documents".to_owned();
                        Err(Error::Unreachable { address: remote.address, reason, sent: true })
                    });
                    (owner, answer)
                });
            }
        }
    }
    while let Some(answer) = asked.join_next().await {
        match answer.map_err(|error| Error::Internal(error.to_string()))? {
            (_, Ok(readers)) => found.readers.extend(readers),
            (owner, Err(Error::Unreachable { .. })) if silent == SilentOwners::Skip => {
                found.silent.push(owner)
            }
            (_, Err(error)) => return Err(error),
        }
    }
    found.readers.retain(|readers| !readers.nodes.is_empty());
    Ok(found)
}

impl ReaderAssignment {
    /// Assigns the buckets to nodes, so that every bucket is read once: at its best node that is not among
    /// the nodes to avoid. Also returns the approximate number of documents in buckets that have no other
    /// node, if there are such buckets.
    pub fn assigned(
        &self,
        avoid: &dyn Fn(NodeKey) -> bool,
    ) -> (BTreeMap<NodeKey, Vec<BucketId>>, Option<u64>) {
        let (mut nodes, mut unread) = (BTreeMap::<NodeKey, Vec<BucketId>>::new(), None);
        for readers in &self.readers {
            match readers.nodes.iter().find(|node| !avoid(**node)) {
                Some(node) => nodes.entry(*node).or_default().push(readers.bucket),
                None => *unread.get_or_insert(0) += readers.documents,
            }
        }
        (nodes, unread)
    }

    /// True if everything that is on nodes that serve can be read.
    pub fn is_full(&self) -> bool {
        self.silent.is_empty() && self.readers.iter().all(|readers| readers.full)
    }
}

/// Returns the readers of buckets that this node owns.
pub fn own_readers(
    cluster: &dyn ClusterView,
    version: ClusterVersion,
    buckets: Option<&[BucketId]>,
    near: NodeKey,
) -> Result<Vec<BucketReaders>, Error> {
    let (own, readers) = cluster.readers(buckets, near)?;
    match own == version {
        true => Ok(readers),
        false => Err(Error::Unsettled("the nodes have different cluster states".to_owned())),
    }
}
