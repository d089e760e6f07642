use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, ClusterVersion, DropHorizon, NodeFailure, NodeKey, NodeReply, NodeRequest, RequestFence,
    UnfinishedRow,
};
use millrace_document::{DocumentId, DocumentVersion, DropScope, Timestamp, WriteRefusal};

/// Identifies a request of a client; chosen by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestTicket(pub u64);

/// Identifies a modification that the shell runs for a [`Distributor`](super::Distributor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub(super) u64);

/// A write operation of a client.
#[derive(Debug)]
pub struct ClientWrite {
    /// Ticket to name in the answer.
    pub ticket: RequestTicket,
    /// Time at which the client stops waiting, on the monotonic clock.
    pub deadline: Duration,
    /// Requested change.
    pub change: DocumentChange,
}

/// A change of one document, or a drop.
pub enum DocumentChange {
    /// Writes the document, regardless of its previous state.
    Put {
        /// Identifier of the document.
        id: DocumentId,
        /// Its fields in the wire form.
        body: Arc<[u8]>,
    },
    /// Removes the document, if it exists.
    Remove(DocumentId),
    /// Replaces the document by the result of the function. No other write of the document comes between.
    Modify {
        /// Identifier of the document.
        id: DocumentId,
        /// Function that decides the result.
        modify: Modify,
    },
    /// Replaces a version by one that says the same in another form, at no client's request. It is written
    /// only while the version is the newest, and no drop of the document is in progress or being decided:
    /// otherwise the drop would miss it. By a later state, the outcome is that it has to be made again.
    Rewrite {
        /// Identifier of the document.
        id: DocumentId,
        /// Timestamp of the version.
        base: Timestamp,
        /// Time that the new version must not be later than.
        until: Timestamp,
        /// The new fields in the wire form.
        body: Arc<[u8]>,
    },
    /// Drops documents of one bucket as a whole.
    Drop {
        /// Identifier of the bucket.
        bucket: BucketId,
        /// Scope of the drop among the documents of the bucket.
        scope: DropScope,
        /// Time up to which they are dropped, if the documents in scope were examined before. `None`: all
        /// documents that exist now.
        until: Option<DropHorizon>,
    },
    /// Finishes a write of an earlier owner under its own timestamp, unless the document has been written
    /// since.
    Finish(UnfinishedRow),
}

/// Decides on the new state of a document from its newest version, which may be a removal; `None` if it never
/// existed, or has been forgotten.
pub type Modify =
    Box<dyn FnOnce(Option<DocumentVersion>) -> Result<DecidedModification, WriteRefusal> + Send>;

/// Decision of a [`Modify`].
#[derive(Debug)]
pub enum DecidedModification {
    /// The new document, in the wire form.
    Put(Arc<[u8]>),
    /// The document is removed.
    Remove,
    /// The document stays unchanged.
    Nothing,
}

impl fmt::Debug for DocumentChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentChange::Put { id, body } => write!(f, "Put({id}, {} bytes)", body.len()),
            DocumentChange::Remove(id) => write!(f, "Remove({id})"),
            DocumentChange::Modify { id, .. } => write!(f, "Modify({id})"),
            DocumentChange::Rewrite { id, base, .. } => write!(f, "Rewrite({id}, {})", base.0),
            DocumentChange::Drop { bucket, scope, until } => {
                write!(f, "Drop({bucket}, {scope:?}, {until:?})")
            }
            DocumentChange::Finish(unfinished) => write!(f, "Finish({unfinished:?})"),
        }
    }
}

/// A read operation of a client: returns a document as the newest acknowledged write left it.
#[derive(Debug)]
pub struct ClientRead {
    /// Ticket to name in the answer.
    pub ticket: RequestTicket,
    /// Time at which the client stops waiting, on the monotonic clock.
    pub deadline: Duration,
    /// Identifier of the document.
    pub id: DocumentId,
}

/// A write that is durable on all reachable replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableWrite {
    /// Timestamp of the version; if nothing was changed, of the version that stays, if there is one.
    pub timestamp: Timestamp,
    /// True if the document existed before; known only for [`DocumentChange::Modify`].
    pub existed: Option<bool>,
    /// True if a version was written.
    pub changed: bool,
    /// Number of replicas that have it; 0 if nothing was changed.
    pub replicas: u16,
}

/// Reason for which a request of a client failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Another node owns the bucket: send the request there. Never shown to a client unless no node serves.
    #[error("no node serves the documents now; see `millrace status`, and send again")]
    Moved {
        /// Owner of the bucket by the newest state known here.
        owner: Option<NodeKey>,
        /// Version of that state.
        version: ClusterVersion,
        /// Row that may have reached some replicas: the new owner has to [`DocumentChange::Finish`] exactly
        /// this row. `None`: nothing was written, and the operation can be sent unchanged.
        unfinished: Option<UnfinishedRow>,
    },
    /// Too many operations are waiting. Nothing was written.
    #[error("too many operations are waiting; send again after a short while")]
    Overloaded,
    /// The deadline passed, and nothing was written.
    #[error("the deadline passed before the documents could be reached; nothing was written")]
    Late,
    /// The deadline passed, or the bucket changed owner, while the write was in progress.
    #[error(
        "not all replicas answered in time: it is not known whether the write is there; read it, or send it again"
    )]
    Unknown,
    /// The bucket changed owner while the row was in progress, and the document has been written since: it
    /// can no longer be determined if the row was written before that.
    #[error(
        "the document changed owner during the write, and another write came: it is not known whether this one is there; read it, or send it again"
    )]
    Overtaken,
    /// The modification rejected the document that it read. Nothing was written.
    #[error("{0}")]
    Refused(WriteRefusal),
    /// The replicas could not take the write, or the document could not be read. Nothing was written.
    #[error("{0}")]
    Failed(NodeFailure),
    /// A replica could not take the write, and others may have it.
    #[error(
        "{0}; it is not known whether other replicas have the write: read it, or send it again when this one takes writes"
    )]
    Partial(NodeFailure),
}

/// Input of a [`Distributor`](super::Distributor).
#[derive(Debug)]
pub enum DistributorEvent {
    /// Coordination reported this state.
    State(Arc<ClusterState>),
    /// Coordination reported that this version is the newest, and that the lease of this node is alive.
    Confirmed {
        /// Version of the state.
        version: ClusterVersion,
        /// Time at which the question was sent, on the monotonic clock; not the time of the answer.
        asked: Duration,
    },
    /// A client requests a write.
    Write(ClientWrite),
    /// A client requests many writes, each of which is answered by its own ticket. The rows of its puts and
    /// removals go to each node in one message. Those of one bucket are accepted together or not at all, and
    /// each replica makes all of them durable at once.
    WriteBatch(Vec<ClientWrite>),
    /// A client requests a document.
    Read(ClientRead),
    /// A function passed in [`DistributorEffect::Decide`] has returned.
    Decided {
        /// Identifier from the effect.
        decision: DecisionId,
        /// Its result.
        outcome: Result<DecidedModification, WriteRefusal>,
    },
    /// A node answered.
    Reply {
        /// Node that answered.
        from: NodeKey,
        /// The [`RequestFence::number`] of the request.
        number: u64,
        /// Its answer.
        reply: NodeReply,
    },
    /// No answer will come: the connection broke.
    Lost {
        /// Node that was asked.
        to: NodeKey,
        /// The [`RequestFence::number`] of the request.
        number: u64,
    },
}

/// Output of a [`Distributor`](super::Distributor): an action for the shell.
#[derive(Debug)]
pub enum DistributorEffect {
    /// Send this request to a node, possibly this one, and report with [`DistributorEvent::Reply`] or
    /// [`DistributorEvent::Lost`].
    Send {
        /// Recipient.
        to: NodeKey,
        /// Fence to send with it.
        fence: RequestFence,
        /// The request.
        request: NodeRequest,
    },
    /// Answer a [`ClientWrite`].
    Written {
        /// Ticket of the write.
        ticket: RequestTicket,
        /// Its outcome.
        outcome: Result<DurableWrite, RequestError>,
    },
    /// Answer a [`ClientRead`].
    Found {
        /// Ticket of the read.
        ticket: RequestTicket,
        /// The newest version, which may be a removal.
        outcome: Result<Option<DocumentVersion>, RequestError>,
    },
    /// Call the function, on a thread where it may take long, and report with [`DistributorEvent::Decided`].
    Decide {
        /// Identifier to name in the event.
        decision: DecisionId,
        /// The function.
        modify: BoxedModify,
        /// Its argument.
        current: Option<DocumentVersion>,
    },
    /// A node has a newer state than this version: fetch it from coordination.
    FetchState {
        /// The known version.
        newer_than: ClusterVersion,
    },
}

/// A [`Modify`] with an implementation of `Debug`.
pub struct BoxedModify(pub Modify);

impl fmt::Debug for BoxedModify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Modify(…)")
    }
}
