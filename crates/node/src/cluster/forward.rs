//! Requests that one node of a cluster sends to another: their stages, and the means to send them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey};
use millrace_plan::QueryMemory;
use millrace_search::{ShareReply, ShareRequest};
use millrace_store::{GroupErasure, StoredGroupPage};
use serde::{Deserialize, Serialize};

use super::{
    BucketReaders, DocumentsAnswer, DocumentsQuestion, ErasureQuestion, GroupSizesQuestion, IndexAnswer,
    IndexQuestion, RemoteNode, SnapshotAnswer, SnapshotQuestion,
};
use crate::Error;
use crate::indexes::{PlacedAnswer, PlacedQuestion};
use crate::search::QueryObserver;

/// Completeness of the requested documents on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaCompleteness {
    /// Complete.
    Yes,
    /// Possibly complete: no serving node is known to have more.
    Perhaps,
}

/// Stage of a request on its way through the cluster. Its serialized form is part of the protocol between
/// nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForwardKind {
    /// From a client; not forwarded.
    #[serde(skip)]
    Client,
    /// Forwarded to the owner of the documents by a node that may be near some replica: to be answered with
    /// all of it, or with the contents of one bucket.
    Owner(NodeKey, Option<BucketId>),
    /// Forwarded to a node that has the documents, or at least some of them, to be answered with what that
    /// node has. Optionally restricted to one bucket, as of this version of the cluster state: another
    /// version may have divided it.
    Reader(ReplicaCompleteness, Option<(BucketId, ClusterVersion)>),
    /// For a share of a query: the body names the buckets.
    Share,
}

impl ForwardKind {
    /// The bucket that the request is restricted to, if any.
    pub fn part(&self) -> Option<BucketId> {
        match self {
            ForwardKind::Owner(_, part) => *part,
            ForwardKind::Reader(_, part) => part.map(|(bucket, _)| bucket),
            ForwardKind::Client | ForwardKind::Share => None,
        }
    }
}

/// A request of a client that can be sent to another node, several times if necessary.
pub trait ForwardableRequest: Sync {
    /// Answer as it goes back to the client.
    type Answer: Send;

    /// Sends the request to a node.
    ///
    /// # Errors
    /// The node cannot be reached: [`Error::Unreachable`], which tells if the node may have seen the request.
    fn send(
        &self,
        node: &RemoteNode,
        stage: &ForwardKind,
    ) -> impl Future<Output = Result<ForwardAnswer<Self::Answer>, Error>> + Send;

    /// Status of an answer that is an error.
    fn refusal(answer: &Self::Answer) -> Option<String>;

    /// True if the node has refused the request because it has too much to do, or cannot serve now.
    fn is_busy(answer: &Self::Answer) -> bool;
}

/// Answer of another node to a forwarded request.
pub enum ForwardAnswer<A> {
    /// The answer for the client.
    Answer(A),
    /// These nodes have the documents, by this version of the cluster state: one of them is to be asked.
    Readers(ClusterVersion, BucketReaders),
    /// The cluster has yet to agree on the node that answers. Nothing was changed.
    Unsettled,
}

/// Future answer of another node.
pub type NodeAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Means to ask other nodes: the process that serves requests gives it to the node.
pub trait NodeTransport: Send + Sync + 'static {
    /// Asks a node for the readers of buckets that it owns.
    fn readers(&self, node: RemoteNode, question: ReadersQuestion) -> NodeAnswer<'_, Vec<BucketReaders>>;

    /// Asks a node for the sizes of groups in buckets that it has.
    fn group_sizes(&self, node: RemoteNode, question: GroupSizesQuestion) -> NodeAnswer<'_, StoredGroupPage>;

    /// Asks a node for its erasures.
    fn erasures(&self, node: RemoteNode, question: ErasureQuestion) -> NodeAnswer<'_, Vec<GroupErasure>>;

    /// Asks a node about its indexes.
    fn indexes(&self, node: RemoteNode, question: IndexQuestion) -> NodeAnswer<'_, IndexAnswer>;

    /// Asks a node about placed indexes.
    fn placed_indexes(&self, node: RemoteNode, question: PlacedQuestion) -> NodeAnswer<'_, PlacedAnswer>;

    /// Asks a node about its snapshots.
    fn snapshots(&self, node: RemoteNode, question: SnapshotQuestion) -> NodeAnswer<'_, SnapshotAnswer>;

    /// Asks a node to write, drop or read documents.
    fn documents(&self, node: RemoteNode, question: DocumentsQuestion) -> NodeAnswer<'_, DocumentsAnswer>;

    /// Opens the conversation with a node about its share of a query, by the first request.
    fn open_share(&self, node: RemoteNode, start: ShareStart) -> NodeAnswer<'_, OpenedShare>;
}

/// Question of a node for the readers of buckets. Its serialized form is part of the protocol between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadersQuestion {
    /// Version of the cluster state by which the asked node owns them.
    pub version: ClusterVersion,
    /// Node that will read: readers in its group come first.
    pub near: NodeKey,
    /// The buckets; `None`: all that the asked node owns.
    pub buckets: Option<Vec<BucketId>>,
}

/// Beginning of the conversation about a node's share of a query.
pub struct ShareStart {
    /// Current parameters of the query, with the rest of its time.
    pub parameters: BTreeMap<String, String>,
    /// Buckets of the share.
    pub buckets: Vec<BucketId>,
    /// Version of the cluster state: in another one, they may be divided differently.
    pub version: ClusterVersion,
    /// The first request.
    pub ask: ShareRequest,
    /// Memory that the query may take on this node; not sent.
    pub memory: Arc<QueryMemory>,
    /// Observer of the query on this node, if it is traced; not sent.
    pub observer: Option<Arc<dyn QueryObserver>>,
}

/// An opened conversation, and the reply to its first request.
pub struct OpenedShare {
    /// The conversation.
    pub conversation: Box<dyn ShareConversation>,
    /// Reply to the first request.
    pub reply: ShareReply,
}

/// A conversation with another node about its share of a query.
pub trait ShareConversation: Send {
    /// Sends the next request, and waits for the reply.
    fn ask(&mut self, ask: ShareRequest) -> NodeAnswer<'_, ShareReply>;
}
