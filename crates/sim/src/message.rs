use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::distributor::UnfinishedRow;
use millrace_cluster::replica::KeeperJob;
use millrace_cluster::{ClusterState, NodeKey, NodeReply, NodeRequest, RequestFence, RowContent};

use crate::deployments::SimPackage;
use crate::history::OperationId;

/// What travels between nodes, clients and coordination.
#[derive(Debug, Clone)]
pub(crate) enum SimMessage {
    Request {
        fence: RequestFence,
        request: NodeRequest,
    },
    Reply {
        from: NodeKey,
        incarnation: u64,
        number: u64,
        reply: NodeReply,
    },
    /// Give me what your replica has that is not known here.
    Fetch {
        from: NodeKey,
        incarnation: u64,
        job: KeeperJob,
        turn: u64,
        version: u64,
        bucket: BucketId,
        known: Option<Vec<RowContent>>,
        after: usize,
    },
    Fetched {
        incarnation: u64,
        job: KeeperJob,
        turn: u64,
        rows: Option<(Vec<RowContent>, bool)>,
    },
    State(Arc<ClusterState>),
    Confirmed {
        incarnation: u64,
        version: u64,
        asked: Duration,
    },
    Beat {
        from: NodeKey,
        incarnation: u64,
        adopted: u64,
        asked: Duration,
        /// The package that the sender has active.
        generation: u64,
        out_of_space: bool,
    },
    /// Make this package the active one, if the one that it was checked against still is.
    Publish {
        based_on: u64,
        package: Arc<SimPackage>,
    },
    /// The newest package.
    Package(Arc<SimPackage>),
    /// A client's operation, from the client or from the node that it went to first.
    Client {
        operation: OperationId,
        unfinished: Option<UnfinishedRow>,
        hops: u8,
    },
}
