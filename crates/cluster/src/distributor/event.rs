use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DropScope, Timestamp, WriteRefusal};

use crate::{ClusterState, NodeFailure, NodeKey, NodeReply, NodeRequest, RequestFence, RowContent};

/// Names what a client asked; chosen by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestTicket(pub u64);

/// Names a modification that the shell runs for a [`Distributor`](super::Distributor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub(super) u64);

/// What a client wants written.
#[derive(Debug)]
pub struct ClientWrite {
    /// To be named in the answer.
    pub ticket: RequestTicket,
    /// When the client stops waiting, on the monotonic clock.
    pub deadline: Duration,
    /// What it wants.
    pub change: DocumentChange,
}

/// A change of one document, or a drop.
pub enum DocumentChange {
    /// The document is this, whatever it was.
    Put {
        /// Which document.
        id: DocumentId,
        /// Its fields in the wire form.
        body: Arc<[u8]>,
    },
    /// The document is no more, whether it was or not.
    Remove(DocumentId),
    /// The document is what the function makes of it. No other write of the document comes between.
    Modify {
        /// Which document.
        id: DocumentId,
        /// The function.
        modify: Modify,
    },
    /// Documents of one bucket are dropped as a whole.
    Drop {
        /// Which bucket.
        bucket: BucketId,
        /// Which of its documents.
        scope: DropScope,
        /// The time up to which they are dropped, where somebody has looked at what that reaches. `None`: all
        /// that is there now.
        until: Option<DropHorizon>,
    },
    /// What another owner began, to be ended under its own timestamp, unless somebody has written the
    /// document since.
    Finish(UnfinishedRow),
}

/// A time up to which all rows of a bucket are on its replicas: later ones have later timestamps.
///
/// Who decides upon a drop by what a replica shows takes the horizon first, looks at the replica, and drops
/// what is not after the horizon: a row that comes meanwhile is not reached. The distributor refuses the drop
/// once the horizon does not hold any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropHorizon {
    /// The time. A drop may be given an earlier one.
    pub until: Timestamp,
    /// The cluster state by which the node is the owner.
    pub version: u64,
    /// How many rows of owners before the node had been asked to finish: those bring timestamps of their own.
    pub finishes: u64,
}

/// Decides what becomes of a document from its newest version, which may be a removal; `None` where there
/// never was one, or it is forgotten.
pub type Modify =
    Box<dyn FnOnce(Option<DocumentVersion>) -> Result<DecidedModification, WriteRefusal> + Send>;

/// What a [`Modify`] decided.
#[derive(Debug)]
pub enum DecidedModification {
    /// The document is this now, in the wire form.
    Put(Arc<[u8]>),
    /// It is removed.
    Remove,
    /// It stays as it is.
    Nothing,
}

/// A row that may have reached some replicas when its bucket got another owner.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedRow {
    /// Its bucket.
    pub bucket: BucketId,
    /// What it says.
    pub content: Arc<RowContent>,
    /// The version of the document that it was decided from, 0 where there was none: it may be written only
    /// if nobody has written another since. `None`: it does not depend on what was there.
    pub base: Option<Timestamp>,
}

impl fmt::Debug for DocumentChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentChange::Put { id, body } => write!(f, "Put({id}, {} bytes)", body.len()),
            DocumentChange::Remove(id) => write!(f, "Remove({id})"),
            DocumentChange::Modify { id, .. } => write!(f, "Modify({id})"),
            DocumentChange::Drop { bucket, scope, until } => {
                write!(f, "Drop({bucket}, {scope:?}, {until:?})")
            }
            DocumentChange::Finish(unfinished) => write!(f, "Finish({unfinished:?})"),
        }
    }
}

/// A document that a client wants to see, as the newest acknowledged write left it.
#[derive(Debug)]
pub struct ClientRead {
    /// To be named in the answer.
    pub ticket: RequestTicket,
    /// When the client stops waiting, on the monotonic clock.
    pub deadline: Duration,
    /// Which document.
    pub id: DocumentId,
}

/// A write that is durable on all replicas that can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableWrite {
    /// The version's timestamp; of the version that stays, where nothing was changed and there is one.
    pub timestamp: Timestamp,
    /// Whether the document was there before; known only for [`DocumentChange::Modify`].
    pub existed: Option<bool>,
    /// Whether a version was written.
    pub changed: bool,
    /// How many replicas have it; 0 where nothing was changed.
    pub replicas: u16,
}

/// Why a client does not get what it asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Another node owns the bucket: ask that one. Never shown to a client unless no node serves.
    #[error("no node serves the documents now; see `millrace status`, and send again")]
    Moved {
        /// Who owns the bucket by the newest state known here.
        owner: Option<NodeKey>,
        /// The version of that state.
        version: u64,
        /// A row that may have reached some replicas: the new owner has to [`DocumentChange::Finish`] exactly
        /// this. `None`: nothing was written, and the operation can be sent as it was.
        unfinished: Option<UnfinishedRow>,
    },
    /// Too much is waiting. Nothing was written.
    #[error("too many operations are waiting; send again after a short while")]
    Overloaded,
    /// The deadline passed, and nothing was written.
    #[error("the deadline passed before the documents could be reached; nothing was written")]
    Late,
    /// The deadline passed, or the bucket got another owner, while the write was on its way.
    #[error(
        "not all replicas answered in time: it is not known whether the write is there; read it, or send it again"
    )]
    Unknown,
    /// The bucket changed owner while the row was on its way, and somebody has written the document since:
    /// whether the row came before that cannot be told any more.
    #[error(
        "the document changed owner during the write, and another write came: it is not known whether this one is there; read it, or send it again"
    )]
    Overtaken,
    /// The modification refused what it found. Nothing was written.
    #[error("{0}")]
    Refused(WriteRefusal),
    /// A replica could not take it, or be read. Others may have taken it.
    #[error("{0}")]
    Failed(NodeFailure),
}

/// What happens to a [`Distributor`](super::Distributor).
#[derive(Debug)]
pub enum DistributorEvent {
    /// Coordination has this state.
    State(Arc<ClusterState>),
    /// Coordination said that this version is the newest, and that the lease of this node lives.
    Confirmed {
        /// The version.
        version: u64,
        /// When it was asked, on the monotonic clock: not when it answered.
        asked: Duration,
    },
    /// A client wants something written.
    Write(ClientWrite),
    /// A client wants to read a document.
    Read(ClientRead),
    /// What [`DistributorEffect::Decide`] asked for is decided.
    Decided {
        /// Which one.
        decision: DecisionId,
        /// What came of it.
        outcome: Result<DecidedModification, WriteRefusal>,
    },
    /// A node answered.
    Reply {
        /// Which node.
        from: NodeKey,
        /// The [`RequestFence::number`] of the request.
        number: u64,
        /// What it said.
        reply: NodeReply,
    },
    /// No answer will come: the connection broke.
    Lost {
        /// Which node was asked.
        to: NodeKey,
        /// The [`RequestFence::number`] of the request.
        number: u64,
    },
}

/// What a [`Distributor`](super::Distributor) wants done.
#[derive(Debug)]
pub enum DistributorEffect {
    /// Send this to a node, which may be this one, and report with [`DistributorEvent::Reply`] or
    /// [`DistributorEvent::Lost`].
    Send {
        /// Which node.
        to: NodeKey,
        /// To be sent with it.
        fence: RequestFence,
        /// What is asked.
        request: NodeRequest,
    },
    /// Answer a [`ClientWrite`].
    Written {
        /// Which one.
        ticket: RequestTicket,
        /// What came of it.
        outcome: Result<DurableWrite, RequestError>,
    },
    /// Answer a [`ClientRead`].
    Found {
        /// Which one.
        ticket: RequestTicket,
        /// The newest version, which may be a removal.
        outcome: Result<Option<DocumentVersion>, RequestError>,
    },
    /// Call the function, on a thread that may take its time, and report with [`DistributorEvent::Decided`].
    Decide {
        /// To be named in the event.
        decision: DecisionId,
        /// The function.
        modify: BoxedModify,
        /// What to call it with.
        current: Option<DocumentVersion>,
    },
    /// Some node has a newer state than this version: get it from coordination.
    FetchState {
        /// The version that is known.
        newer_than: u64,
    },
}

/// A [`Modify`] that can be shown.
pub struct BoxedModify(pub Modify);

impl fmt::Debug for BoxedModify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Modify(…)")
    }
}
