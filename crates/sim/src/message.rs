use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::reindexing::{ReindexJobId, ReindexNotes};
use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, NodeEntry, NodeKey, NodeReply, NodeRequest, ReplicatedRow,
    RequestFence, RowContent, UnfinishedRow,
};
use millrace_replication::replica::KeeperJob;

use crate::deployments::SimPackage;
use crate::history::OperationId;
use crate::indexes::IndexMessage;

/// Message between nodes, clients and coordination.
#[derive(Debug, Clone)]
pub(crate) enum SimMessage {
    Request {
        fence: RequestFence,
        request: NodeRequest,
    },
    Reply {
        from: NodeKey,
        incarnation: Incarnation,
        number: u64,
        reply: NodeReply,
    },
    /// Requests the content of the recipient's replica that is not known to the sender.
    Fetch {
        from: NodeKey,
        incarnation: Incarnation,
        job: KeeperJob,
        turn: u64,
        version: ClusterVersion,
        bucket: BucketId,
        known: Option<Vec<RowContent>>,
        after: usize,
    },
    Fetched {
        incarnation: Incarnation,
        job: KeeperJob,
        turn: u64,
        rows: Option<(Vec<RowContent>, bool)>,
    },
    State(Arc<ClusterState>),
    Confirmed {
        incarnation: Incarnation,
        version: ClusterVersion,
        asked: Duration,
    },
    Heartbeat {
        from: NodeKey,
        incarnation: Incarnation,
        adopted: ClusterVersion,
        asked: Duration,
        /// Generation of the package that the sender has active.
        generation: u64,
        out_of_space: bool,
    },
    /// Requests to make this package the active one, if the package that it was checked against still is.
    Publish {
        based_on: u64,
        package: Arc<SimPackage>,
    },
    /// The newest package.
    Package(Arc<SimPackage>),
    /// Requests to write notes, if the last change of the record is the one of `guard`. Without a job, it is
    /// an operator's request.
    WriteNotes {
        from: NodeKey,
        incarnation: Incarnation,
        job: Option<ReindexJobId>,
        guard: Option<u64>,
        notes: Vec<(String, Option<Vec<u8>>)>,
    },
    NotesWritten {
        incarnation: Incarnation,
        job: ReindexJobId,
        written: bool,
    },
    /// The newest notes.
    Notes {
        revision: u64,
        notes: Arc<ReindexNotes>,
    },
    /// A client's operation, from the client or from the node that received it first.
    Client {
        operation: OperationId,
        unfinished: Option<UnfinishedRow>,
        hops: u8,
    },
    /// Writes of a client that are begun together.
    ClientBatch(Vec<OperationId>),
    /// A message about placed indexes, from a node, or from coordination to this node.
    Indexes {
        from: NodeKey,
        message: Box<IndexMessage>,
    },
}

/// The bucket of a request, if it concerns one.
pub(crate) fn bucket_of(request: &NodeRequest) -> Option<BucketId> {
    match request {
        NodeRequest::Apply(rows) => rows.first().map(|row| row.bucket),
        NodeRequest::Create(bucket)
        | NodeRequest::Info { bucket, .. }
        | NodeRequest::Read { bucket, .. }
        | NodeRequest::Pull { bucket, .. }
        | NodeRequest::Complete { bucket, .. }
        | NodeRequest::Delete { bucket, .. } => Some(*bucket),
        NodeRequest::Ping | NodeRequest::Owned { .. } | NodeRequest::Finish(_) => None,
    }
}

/// A request as text.
pub(crate) fn show(request: &NodeRequest) -> String {
    match request {
        NodeRequest::Apply(rows) => {
            let row = |row: &ReplicatedRow| format!("{}@{}", row.bucket.bits(), row.content.timestamp().0);
            format!("rows {}", rows.iter().map(row).collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// A cluster state as text.
pub(crate) fn describe(state: &ClusterState) -> String {
    let node =
        |(key, entry): (&NodeKey, &NodeEntry)| format!("n{key}/{} {:?}", entry.incarnation, entry.state);
    format!("{}: {}", state.version(), state.nodes().iter().map(node).collect::<Vec<_>>().join(", "))
}
