//! Snapshots on the nodes of a cluster: each makes its own, of the same name and time, and is asked about it.

use std::sync::Arc;
use std::time::Instant;

use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{
    DropOfGroup, DropPage, PointReach, SnapshotDescription, SnapshotName, SnapshotSpace, StoredSnapshot,
};

use super::everyone::{ListedAnswer, QuestionWords, ask_all};
use super::{ClusterView, NodeAddress};
use crate::{Error, Node};

/// Question of a node about its snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotQuestion {
    /// Lists them.
    List,
    /// Makes one, of this time.
    Create(SnapshotName, Timestamp),
    /// Deletes one.
    Delete(SnapshotName),
    /// Names those that have something of a group.
    Holding(DocumentGroup),
    /// Reads versions of the documents of a group in a snapshot, from a continuation on.
    Versions {
        /// Snapshot.
        name: SnapshotName,
        /// Group.
        group: DocumentGroup,
        /// Continuation of the page before; `None` for the first page.
        after: Option<String>,
    },
    /// Lists them for a time that is to be restored: those from which it cannot be have the reason as fault.
    Reaching(Timestamp),
    /// Lists drops of documents of a group until a time, from a continuation on.
    Drops(GroupMoment, Option<String>),
    /// Reads versions of the documents of a group until a time, from a continuation on.
    Moment(GroupMoment, Option<String>),
}

/// A group at a time after a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMoment {
    /// Snapshot. A node without it has its logs alone.
    pub snapshot: SnapshotName,
    /// Time of the snapshot.
    pub time: Timestamp,
    /// Group.
    pub group: DocumentGroup,
    /// The time.
    pub until: Timestamp,
}

/// Answer of a node about its snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotAnswer {
    /// Answer to [`SnapshotQuestion::List`].
    Listed(Vec<ListedSnapshot>, SnapshotSpace),
    /// Answer to [`SnapshotQuestion::Create`].
    Created(ListedSnapshot),
    /// Answer to [`SnapshotQuestion::Delete`]: true if there was one.
    Deleted(bool),
    /// Answer to [`SnapshotQuestion::Holding`].
    Holding(Vec<SnapshotName>),
    /// Answer to [`SnapshotQuestion::Versions`] and [`SnapshotQuestion::Moment`].
    Versions(SnapshotVersionPage),
    /// Answer to [`SnapshotQuestion::Reaching`], with the time since which the node's logs have every write.
    Reaching(Vec<ListedSnapshot>, Option<Timestamp>),
    /// Answer to [`SnapshotQuestion::Drops`], with the start of the next page; `None` at the end.
    Drops(Vec<DropOfGroup>, Option<String>),
}

/// A snapshot of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSnapshot {
    /// Name.
    pub name: SnapshotName,
    /// Directory on the node.
    pub path: String,
    /// Statistics; zeros if they cannot be read.
    pub stats: SnapshotStats,
    /// Reason why they cannot be read.
    pub fault: Option<String>,
}

/// Statistics of a snapshot of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotStats {
    /// Time, in microseconds since 1970.
    pub time: u64,
    /// Number of documents.
    pub documents: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of segment files.
    pub files: u64,
    /// Generation of the application.
    pub application: u64,
}

/// Versions of documents in a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotVersionPage {
    /// The versions.
    pub versions: Vec<SnapshotVersion>,
    /// Start of the next page; `None` at the end.
    pub next: Option<String>,
}

/// A version of a document in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotVersion {
    /// Id of the document.
    pub id: String,
    /// Time of its write.
    pub timestamp: Timestamp,
    /// JSON object of its fields; `None`: it was removed.
    pub fields: Option<String>,
}

impl From<StoredSnapshot> for ListedSnapshot {
    fn from(snapshot: StoredSnapshot) -> Self {
        ListedSnapshot {
            name: snapshot.name,
            path: snapshot.path.display().to_string(),
            stats: snapshot.description.as_ref().map(SnapshotStats::from).unwrap_or_default(),
            fault: snapshot.description.err().map(|error| error.to_string()),
        }
    }
}

impl From<&SnapshotDescription> for SnapshotStats {
    fn from(description: &SnapshotDescription) -> Self {
        let SnapshotDescription { time, documents, bytes, files, application, .. } = *description;
        SnapshotStats { time, documents, bytes, files, application }
    }
}

/// Answers a question about the snapshots of this node.
///
/// # Errors
/// A snapshot cannot be made, deleted or read; there is none of the name whose documents are wanted.
pub async fn own_snapshots(node: &Arc<Node>, question: SnapshotQuestion) -> Result<SnapshotAnswer, Error> {
    let node = Arc::clone(node);
    let answer = move || -> Result<SnapshotAnswer, Error> {
        Ok(match question {
            SnapshotQuestion::List => {
                let (snapshots, space) = (node.store().snapshots()?, node.store().snapshot_space());
                SnapshotAnswer::Listed(snapshots.into_iter().map(ListedSnapshot::from).collect(), space)
            }
            SnapshotQuestion::Create(name, time) => {
                let description = node.create_snapshot(&name, time)?;
                let path = node.store().snapshot_path(&name).display().to_string();
                let stats = SnapshotStats::from(&description);
                SnapshotAnswer::Created(ListedSnapshot { name, path, stats, fault: None })
            }
            SnapshotQuestion::Delete(name) => SnapshotAnswer::Deleted(node.delete_snapshot(&name)?),
            SnapshotQuestion::Holding(group) => {
                SnapshotAnswer::Holding(node.store().snapshots_with_group(&group)?)
            }
            SnapshotQuestion::Versions { name, group, after } => {
                SnapshotAnswer::Versions(node.snapshot_versions(&name, &group, after)?)
            }
            SnapshotQuestion::Reaching(until) => {
                let PointReach { snapshots, logs_since } = node.store().reach(until)?;
                let listed = snapshots.into_iter().map(|(snapshot, fault)| ListedSnapshot {
                    fault: fault.map(|error| error.to_string()),
                    ..ListedSnapshot::from(snapshot)
                });
                SnapshotAnswer::Reaching(listed.collect(), logs_since)
            }
            SnapshotQuestion::Drops(moment, after) => {
                let DropPage { drops, continuation } = node.drops_until(&moment, after.as_deref())?;
                SnapshotAnswer::Drops(drops, continuation)
            }
            SnapshotQuestion::Moment(moment, after) => {
                SnapshotAnswer::Versions(node.versions_until(&moment, after)?)
            }
        })
    };
    // All of it waits for the disk.
    let done = tokio::task::spawn_blocking(answer).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

/// Asks all nodes of the cluster that serve about their snapshots until a deadline, and returns the answer of
/// each, by key.
///
/// # Errors
/// The cluster has no state yet.
pub async fn snapshots_of_all(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    question: &SnapshotQuestion,
    deadline: Instant,
) -> Result<Vec<ListedAnswer<SnapshotAnswer>>, Error> {
    let words = QuestionWords { subject: "its snapshots", away: "" };
    ask_all(cluster, deadline, words, |address| snapshots_at(node, address, question.clone())).await
}

/// Asks one node about its snapshots.
///
/// # Errors
/// The node cannot be reached, or as for [`own_snapshots`].
pub fn snapshots_at(
    node: &Arc<Node>,
    address: NodeAddress,
    question: SnapshotQuestion,
) -> impl Future<Output = Result<SnapshotAnswer, Error>> + Send + use<> {
    let node = Arc::clone(node);
    async move {
        match address {
            NodeAddress::Local => own_snapshots(&node, question).await,
            NodeAddress::Remote(remote) => node.transport()?.snapshots(remote, question).await,
        }
    }
}
