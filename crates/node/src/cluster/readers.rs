//! Readers of the documents of a query, as their owners report them.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey};
use millrace_document::DocumentGroup;
use tokio::task::JoinSet;

use super::documents::check_read;
use super::{
    BucketReaders, ClusterView, HeldBucket, NO_SUCH_BUCKET, NodeAddress, ReadFence, ReadersQuestion,
};
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
    /// An error.
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
    let mut requested = JoinSet::new();
    for (owner, buckets) in owners.nodes {
        match cluster.address(owner)? {
            NodeAddress::Local => {
                found.readers.extend(own_readers(cluster, owners.version, buckets.as_deref(), near)?)
            }
            NodeAddress::Remote(remote) => {
                let (node, version) = (Arc::clone(node), owners.version);
                requested.spawn(async move {
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
    while let Some(answer) = requested.join_next().await {
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

/// Nodes that have all documents of a group in one of its buckets, the best to ask first, by a version of the
/// cluster state; `None`: the cluster has nothing there.
///
/// # Errors
/// No node is known to have all of them now.
pub(super) async fn full_readers(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    group: &DocumentGroup,
    bucket: BucketId,
    until: Instant,
) -> Result<Option<(HeldBucket, Vec<NodeKey>)>, Error> {
    let found = readers_of_all(node, cluster, Some(from_ref(group)), until, SilentOwners::Fail).await?;
    if !cluster.buckets_of(group)?.contains(&bucket) {
        return Err(Error::Unsettled(NO_SUCH_BUCKET.to_owned()));
    }
    let version = found.version;
    let Some(readers) = found.readers.into_iter().find(|readers| readers.bucket == bucket) else {
        check_read(cluster, version)?;
        return Ok(None);
    };
    if !readers.full {
        return Err(Error::Unsettled("the replicas of the documents are being compared".to_owned()));
    }
    Ok(Some((HeldBucket { bucket, version }, readers.nodes)))
}

/// Condition under which a view of this node's own store has all documents of a group in one of its buckets;
/// `None`: others have them, or no node is known to do within the time. It is checked once the view is there.
///
/// # Errors
/// Another node fails, or this one has no part in its cluster yet.
pub async fn own_bucket(
    node: &Arc<Node>,
    group: &DocumentGroup,
    bucket: BucketId,
    within: Duration,
) -> Result<Option<ReadFence>, Error> {
    let Some(cluster) = node.cluster().view()? else { return Ok(None) };
    // Its owner need not be asked then.
    if !cluster.holds(bucket) {
        return Ok(None);
    }
    let until = Instant::now() + within;
    let found = match full_readers(node, cluster, group, bucket, until).await {
        Err(Error::Unsettled(_) | Error::Unreachable { .. }) => None,
        found => found?,
    };
    let own = cluster.own().key;
    Ok(found.filter(|(_, nodes)| nodes.contains(&own)).map(|(held, _)| ReadFence::of_bucket(held)))
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
