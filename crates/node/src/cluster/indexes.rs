//! Indexes of the nodes of a cluster: each keeps them for its own documents, and is asked about them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::everyone::{ListedAnswer, QuestionWords, ask_all};
use super::{ClusterView, NodeAddress};
use crate::indexes::{IndexDifferences, IndexState, IndexStatus};
use crate::{Error, Node};

/// Time for the states of the indexes of a node.
const STATES_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the beginning of a build.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for a comparison of an index with the documents of a node.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(3600);

/// Action on the indexes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexQuestion {
    /// Reports the state of each.
    States,
    /// Begins the build of a deferred one.
    Build(IndexName),
    /// Discards one, and builds it again.
    Rebuild(IndexName),
    /// Compares one with the documents.
    Verify(IndexName),
}

/// Index of a content cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexName {
    /// Content cluster.
    pub content: String,
    /// Name in it.
    pub name: String,
}

/// State of an index on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeIndexState {
    /// The index.
    pub index: IndexName,
    /// Its state.
    pub state: IndexState,
    /// Share of the documents that it has read, from 0 to 1.
    pub progress: f64,
    /// Seconds that the build should still take, if that is known.
    pub seconds_left: Option<f64>,
    /// Number of entries, about.
    pub entries: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Number of files.
    pub runs: u64,
    /// Changes that wait for all indexes together.
    pub waiting: u64,
    /// Buckets whose documents are to be read again.
    pub stale_buckets: u64,
    /// True if an earlier definition serves until this one is ready.
    pub replaced: bool,
    /// Reason of the last failure.
    pub reason: Option<String>,
}

/// Answer of a node about its indexes.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexAnswer {
    /// Answer to [`IndexQuestion::States`].
    States(Vec<NodeIndexState>),
    /// Answer to [`IndexQuestion::Build`] and [`IndexQuestion::Rebuild`]: true if a build has begun.
    Began(bool),
    /// Answer to [`IndexQuestion::Verify`].
    Compared(IndexDifferences),
}

impl IndexQuestion {
    fn timeout(&self) -> Duration {
        match self {
            IndexQuestion::States => STATES_TIMEOUT,
            IndexQuestion::Build(_) | IndexQuestion::Rebuild(_) => BUILD_TIMEOUT,
            IndexQuestion::Verify(_) => VERIFY_TIMEOUT,
        }
    }
}

impl NodeIndexState {
    fn from_status(status: &IndexStatus) -> Self {
        let content = status.definition.content.to_string();
        NodeIndexState {
            index: IndexName { content, name: status.definition.name().to_owned() },
            state: status.state,
            progress: status.progress,
            seconds_left: status.seconds_left,
            entries: status.entries,
            bytes: status.bytes,
            runs: status.runs as u64,
            waiting: status.waiting as u64,
            stale_buckets: status.stale_buckets as u64,
            replaced: status.replaced,
            reason: status.reason.clone(),
        }
    }
}

/// Answers a question about the indexes of this node.
///
/// # Errors
/// There is no such index; it is not ready; a file cannot be read or is damaged.
pub async fn own_indexes(node: &Arc<Node>, question: IndexQuestion) -> Result<IndexAnswer, Error> {
    if let IndexQuestion::Verify(IndexName { content, name }) = &question
        && node.placed_indexes().declares(content, name)
    {
        // Each node compares the copies with the documents of the buckets that it owns.
        return node.placed_indexes().verify(content, name).await.map(IndexAnswer::Compared);
    }
    let node = Arc::clone(node);
    let answer = move || {
        let indexes = node.indexes();
        let known = |index: &IndexName| {
            let is_it = |status: &IndexStatus| {
                status.definition.name() == index.name && *status.definition.content == *index.content
            };
            let missing = || {
                let IndexName { content, name } = index;
                Error::NotFound(format!("no index '{name}' in content cluster '{content}' on this node yet"))
            };
            indexes.statuses().iter().any(is_it).then_some(()).ok_or_else(missing)
        };
        Ok(match question {
            IndexQuestion::States => {
                IndexAnswer::States(indexes.statuses().iter().map(NodeIndexState::from_status).collect())
            }
            IndexQuestion::Build(index) => {
                known(&index)?;
                IndexAnswer::Began(indexes.build(&index.name)?)
            }
            IndexQuestion::Rebuild(index) => {
                known(&index)?;
                indexes.rebuild(&index.name)?;
                IndexAnswer::Began(true)
            }
            IndexQuestion::Verify(index) => {
                known(&index)?;
                IndexAnswer::Compared(indexes.verify(&index.name)?)
            }
        })
    };
    let done = tokio::task::spawn_blocking(answer).await;
    done.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
}

/// Asks all nodes of the cluster that serve about their indexes, and returns the answer of each, by key.
///
/// # Errors
/// The cluster has no state yet.
pub async fn indexes_of_all(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    question: &IndexQuestion,
) -> Result<Vec<ListedAnswer<IndexAnswer>>, Error> {
    let words = QuestionWords { subject: "its indexes", away: "" };
    let ask = |address| {
        let (node, question) = (Arc::clone(node), question.clone());
        async move {
            match address {
                NodeAddress::Local => own_indexes(&node, question).await,
                NodeAddress::Remote(remote) => node.transport()?.indexes(remote, question).await,
            }
        }
    };
    ask_all(cluster, Instant::now() + question.timeout(), words, ask).await
}
