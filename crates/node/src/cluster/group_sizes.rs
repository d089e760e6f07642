//! Sizes of groups in a cluster: each bucket is counted once, at a node that has all of it.

use std::sync::Arc;
use std::time::Instant;

use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
use millrace_document::DocumentGroup;
use millrace_store::{Store, StoredGroupPage, ViewScope};
use tokio::task::JoinSet;

use super::{ClusterView, NodeAddress, RETRY_PAUSE, ReadFence, SilentOwners, check_held, readers_of_all};
use crate::{Error, Node};

/// Groups whose sizes are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedSizes {
    /// The groups after one, in the order of the store; at most this number of them is looked at.
    Page {
        /// Group before the page; `None` for the first page.
        after: Option<DocumentGroup>,
        /// Maximum number of groups.
        count: usize,
    },
    /// These groups, also those without documents.
    These(Vec<DocumentGroup>),
}

/// Question of a node for the sizes of groups in buckets that the asked node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSizesQuestion {
    /// Version of the cluster state: in another one, the buckets may be divided differently.
    pub version: ClusterVersion,
    /// The buckets.
    pub buckets: Vec<BucketId>,
    /// The groups.
    pub wanted: WantedSizes,
}

/// Sizes of groups in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterGroupSizes {
    /// The groups.
    pub page: StoredGroupPage,
    /// True if all documents were counted; false if some may be only on nodes that do not serve.
    pub is_complete: bool,
}

impl WantedSizes {
    /// Reads the sizes from a store; only in these buckets, if there are any.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn read(
        &self,
        store: &Store,
        document_types: &[Arc<str>],
        buckets: Option<&[BucketId]>,
    ) -> Result<StoredGroupPage, Error> {
        let types: Vec<&str> = document_types.iter().map(|name| &**name).collect();
        Ok(match self {
            WantedSizes::Page { after, count } => {
                let scope = buckets.map_or(ViewScope::All, |buckets| ViewScope::Buckets(buckets.to_vec()));
                store.groups(&types, &scope, after.as_ref(), *count)?
            }
            WantedSizes::These(groups) => {
                let size = |group| store.group(&types, group, buckets);
                let groups = groups.iter().map(size).collect::<Result<_, _>>()?;
                StoredGroupPage { groups, continuation: None }
            }
        })
    }

    /// Merges the pages that stores have read in different buckets.
    fn merged(&self, pages: Vec<StoredGroupPage>) -> StoredGroupPage {
        match self {
            WantedSizes::Page { count, .. } => StoredGroupPage::merged(pages, *count),
            WantedSizes::These(_) => {
                let mut pages = pages.into_iter();
                let mut merged = pages.next().unwrap_or_default();
                for page in pages {
                    let sums = merged.groups.iter_mut().zip(&page.groups);
                    sums.for_each(|(sum, group)| sum.add(group));
                }
                merged
            }
        }
    }
}

fn document_types(node: &Node) -> Result<Vec<Arc<str>>, Error> {
    let deployment = node.deployments().current()?;
    Ok(deployment.kinds().map(|kind| Arc::clone(kind.schema.document_type.name())).collect())
}

/// Returns the sizes of groups on a node that is alone.
///
/// # Errors
/// No application is active; a file cannot be read or is damaged.
pub async fn group_sizes_alone(node: &Arc<Node>, wanted: WantedSizes) -> Result<StoredGroupPage, Error> {
    let (store, types) = (node.store().clone(), document_types(node)?);
    node.pool().run(move || wanted.read(&store, &types, None)).await?
}

/// Returns the sizes of groups in buckets of this node.
///
/// # Errors
/// This node does not have the buckets, or has another cluster state.
pub async fn own_group_sizes(
    node: &Arc<Node>,
    question: GroupSizesQuestion,
) -> Result<StoredGroupPage, Error> {
    let Some(cluster) = node.cluster().view()? else {
        return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
    };
    let GroupSizesQuestion { version, buckets, wanted } = question;
    let (store, types, within) = (node.store().clone(), document_types(node)?, buckets.clone());
    let page = node.pool().run(move || wanted.read(&store, &types, Some(&within))).await??;
    ReadFence::of_version(version).check(node)?;
    check_held(cluster, &buckets)?;
    Ok(page)
}

/// Returns the sizes of groups in the cluster of a node. For half of the time until `deadline` it waits for
/// nodes that have all of the documents; then those that are only on other nodes are left out.
///
/// # Errors
/// Nodes do not answer, or do not agree, until the deadline; no application is active.
pub async fn group_sizes(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    wanted: WantedSizes,
    deadline: Instant,
) -> Result<ClusterGroupSizes, Error> {
    let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
    loop {
        let attempt = SizesAttempt { node, cluster, wanted: &wanted, deadline };
        let outcome = match attempt.run().await {
            Ok(found) if !found.is_complete && Instant::now() < half => {
                Err(Error::Unsettled("no node has all of the documents now".to_owned()))
            }
            outcome => outcome,
        };
        match outcome {
            Err(Error::Unsettled(_) | Error::Unreachable { .. })
                if Instant::now() + RETRY_PAUSE < deadline =>
            {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// One attempt to count, by one cluster state.
struct SizesAttempt<'a> {
    node: &'a Arc<Node>,
    cluster: &'a dyn ClusterView,
    wanted: &'a WantedSizes,
    deadline: Instant,
}

impl SizesAttempt<'_> {
    async fn run(&self) -> Result<ClusterGroupSizes, Error> {
        let groups = match self.wanted {
            WantedSizes::Page { .. } => None,
            WantedSizes::These(groups) => Some(&groups[..]),
        };
        let found =
            readers_of_all(self.node, self.cluster, groups, self.deadline, SilentOwners::Fail).await?;
        let mut requested = JoinSet::new();
        for (reader, buckets) in found.assigned(&|_| false).0 {
            let question =
                GroupSizesQuestion { version: found.version, buckets, wanted: self.wanted.clone() };
            let (node, place) = (Arc::clone(self.node), self.cluster.address(reader)?);
            let deadline = self.deadline;
            requested.spawn(async move {
                match place {
                    NodeAddress::Local => own_group_sizes(&node, question).await,
                    NodeAddress::Remote(remote) => {
                        let silent = || Error::Unreachable {
                            address: remote.address.clone(),
                            reason: "it does not count its groups in time".to_owned(),
                            sent: true,
                        };
                        let answer = node.transport()?.group_sizes(remote.clone(), question);
                        let answer = tokio::time::timeout_at(deadline.into(), answer).await;
                        answer.map_err(|_| silent())?
                    }
                }
            });
        }
        let mut pages = Vec::with_capacity(requested.len());
        while let Some(page) = requested.join_next().await {
            pages.push(page.map_err(|error| Error::Internal(error.to_string()))??);
        }
        // No node has anything of groups without documents.
        if pages.is_empty() {
            let types = document_types(self.node)?;
            pages.push(self.wanted.read(self.node.store(), &types, Some(&[]))?);
        }
        ReadFence::of_version(found.version).check(self.node)?;
        Ok(ClusterGroupSizes { page: self.wanted.merged(pages), is_complete: found.is_full() })
    }
}
