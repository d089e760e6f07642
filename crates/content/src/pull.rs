//! Copying of another node's replica, part by part, each held until it may be installed. Whole replicas are
//! copied in sessions of many ([`FetchSessions`]); the missing part of one has a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use millrace_bucket::BucketId;
use millrace_cluster::{NodeFailure, NodeKey, PullMode};
use millrace_document::{DocumentId, DocumentVersion, DroppedScope};
use millrace_env::ThreadClass;
use millrace_peer::{PeerAddress, TransferConnection};
use millrace_store::{ArrivedSegment, Store};
use millrace_trust::NodeTrust;

use crate::TransferThrottle;
use crate::incoming::{IncomingTransfer, IncomingTransfers};
use crate::installing;
use crate::sessions::FetchSessions;
use crate::storage::{self, StoreReplicas};

/// Number of documents that are fetched at a time.
const DOCUMENTS_PER_REQUEST: usize = 256;

/// A part that has arrived and is not installed.
pub(crate) enum FetchedPart {
    /// All of a bucket.
    Whole(FetchedReplica),
    Versions(Vec<DocumentVersion>),
    Drops(BucketId, Vec<DroppedScope>),
}

impl FetchedPart {
    /// Installs it durably.
    pub(crate) fn install(self, store: &Store) -> Result<(), NodeFailure> {
        match self {
            FetchedPart::Whole(whole) => installing::install(store, &[&whole]),
            FetchedPart::Versions(versions) => storage::apply(store, versions),
            FetchedPart::Drops(bucket, drops) => {
                drops.iter().try_for_each(|drop| store.apply_drop(bucket, drop).map_err(storage::failure))
            }
        }
    }
}

/// All that a node has of a bucket.
pub(crate) struct FetchedReplica {
    pub(crate) bucket: BucketId,
    /// Drops of many documents at once: to be installed first, since older rows may still arrive.
    pub(crate) drops: Vec<DroppedScope>,
    /// Files, which may contain other buckets as well.
    pub(crate) files: Vec<Arc<ArrivedSegment>>,
}

/// Callback of a fetch: the next part, or `None` at its end.
pub(crate) type FetchCallback = dyn Fn(Result<Option<FetchedPart>, NodeFailure>) + Send + Sync;

/// A running fetch. Dropping it ends it.
pub(crate) enum FetchHandle {
    /// Everything arrives at once.
    Whole {
        callback: Arc<FetchCallback>,
        _wanted: Arc<()>,
    },
    Missing(mpsc::Sender<()>),
}

/// Request of a fetch.
pub(crate) struct WantedReplica {
    pub(crate) bucket: BucketId,
    pub(crate) from: NodeKey,
    pub(crate) peer: PeerAddress,
    pub(crate) pull: PullMode,
}

impl FetchHandle {
    /// Fetches the next part, once the last one has been installed.
    pub(crate) fn fetch_next(&self) {
        match self {
            FetchHandle::Whole { callback, .. } => callback(Ok(None)),
            // A fetch that has ended has reported so.
            FetchHandle::Missing(next_wanted) => drop(next_wanted.send(())),
        }
    }
}

/// All fetches of a node.
pub(crate) struct NodeFetches {
    replicas: Arc<StoreReplicas>,
    throttle: Arc<TransferThrottle>,
    trust: Option<Arc<NodeTrust>>,
    incoming: Arc<IncomingTransfers>,
    sessions: Arc<FetchSessions>,
}

impl NodeFetches {
    /// Creates the fetches; with `trust`, from trusted nodes alone.
    pub(crate) fn new(
        replicas: Arc<StoreReplicas>,
        throttle: Arc<TransferThrottle>,
        trust: Option<Arc<NodeTrust>>,
    ) -> Self {
        let incoming = Arc::new(IncomingTransfers::default());
        let sessions = FetchSessions::new(
            Arc::clone(&replicas),
            Arc::clone(&throttle),
            trust.clone(),
            Arc::clone(&incoming),
        );
        NodeFetches { replicas, throttle, trust, incoming, sessions: Arc::new(sessions) }
    }

    /// Begins a fetch; reports when the first part is there.
    pub(crate) fn begin(&self, wanted: WantedReplica, callback: Arc<FetchCallback>) -> FetchHandle {
        if wanted.pull == PullMode::Whole {
            let session_callback = Arc::clone(&callback);
            let live = self.sessions.fetch(wanted.from, &wanted.peer, wanted.bucket, session_callback);
            return FetchHandle::Whole { callback, _wanted: live };
        }
        let (next_wanted, wait) = mpsc::channel();
        let failed = Arc::clone(&callback);
        let missing = MissingVersions {
            bucket: wanted.bucket,
            peer: wanted.peer,
            replicas: Arc::clone(&self.replicas),
            throttle: Arc::clone(&self.throttle),
            trust: self.trust.clone(),
            transfer: self.incoming.begin(wanted.from, "what one replica lacks", 1),
            callback,
            wait,
        };
        if let Err(error) = spawn_fetch(move || missing.run()) {
            failed(Err(no_thread_failure(&error)));
        }
        FetchHandle::Missing(next_wanted)
    }

    /// Incoming transfers of this node.
    pub(crate) fn incoming(&self) -> &Arc<IncomingTransfers> {
        &self.incoming
    }
}

/// Starts a thread for a fetch. It has a lower priority than threads that clients wait for; so has every
/// thread that it starts.
pub(crate) fn spawn_fetch(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = thread::Builder::new().name("fetch".to_owned());
    let spawned = thread.spawn(|| {
        ThreadClass::Background.enter();
        run();
    });
    spawned.map(drop)
}

/// Failure to start a thread.
pub(crate) fn no_thread_failure(error: &std::io::Error) -> NodeFailure {
    NodeFailure::Storage { reason: format!("start a thread for a transfer: {error}") }
}

/// Failure of a fetch that panicked.
pub(crate) fn fetch_panicked() -> NodeFailure {
    NodeFailure::Storage { reason: "a transfer failed; see the log".to_owned() }
}

/// Fetch of the missing part of a replica.
struct MissingVersions {
    bucket: BucketId,
    peer: PeerAddress,
    replicas: Arc<StoreReplicas>,
    throttle: Arc<TransferThrottle>,
    trust: Option<Arc<NodeTrust>>,
    transfer: Arc<IncomingTransfer>,
    callback: Arc<FetchCallback>,
    wait: mpsc::Receiver<()>,
}

/// Reason of a fetch's early end.
enum FetchEnd {
    /// No longer wanted.
    Cancelled,
    Failed(NodeFailure),
}

impl From<millrace_peer::Error> for FetchEnd {
    fn from(error: millrace_peer::Error) -> Self {
        FetchEnd::Failed(NodeFailure::Storage { reason: error.to_string() })
    }
}

impl From<millrace_store::Error> for FetchEnd {
    fn from(error: millrace_store::Error) -> Self {
        FetchEnd::Failed(storage::failure(error))
    }
}

impl MissingVersions {
    fn run(self) {
        // A waiting caller must always get an answer.
        match catch_unwind(AssertUnwindSafe(|| self.fetch())) {
            Ok(Ok(())) => (self.callback)(Ok(None)),
            Ok(Err(FetchEnd::Failed(failure))) => (self.callback)(Err(failure)),
            Ok(Err(FetchEnd::Cancelled)) => {}
            Err(_) => (self.callback)(Err(fetch_panicked())),
        }
    }

    /// Hands over a part, and waits until it is installed.
    fn lay_aside(&self, part: FetchedPart) -> Result<(), FetchEnd> {
        (self.callback)(Ok(Some(part)));
        self.wait.recv().map_err(|_| FetchEnd::Cancelled)
    }

    /// Fetches drops of many documents first: older rows may still arrive.
    fn drops(&self, bulk: &mut TransferConnection) -> Result<(), FetchEnd> {
        let known = self.replicas.store().drops(self.bucket)?;
        let mut drops = bulk.drops(self.bucket)?;
        drops.retain(|drop| !known.contains(drop));
        if drops.is_empty() { Ok(()) } else { self.lay_aside(FetchedPart::Drops(self.bucket, drops)) }
    }

    /// Fetches the newest versions of these documents, in as many answers as necessary.
    fn bodies(&self, bulk: &mut TransferConnection, mut ids: &[DocumentId]) -> Result<(), FetchEnd> {
        while !ids.is_empty() {
            let versions = bulk.bodies(ids)?;
            // Documents after the last one may not have fitted.
            let Some(last) = versions.last() else { return Ok(()) };
            let Some(at) = ids.iter().position(|id| *id == last.id) else {
                // To go on would leave documents out, and count the replica as complete.
                return Err(FetchEnd::Failed(NodeFailure::Storage {
                    reason: format!(
                        "{} sent document {}, which was not requested",
                        self.peer.address, last.id
                    ),
                }));
            };
            ids = &ids[at + 1..];
            let bytes = |version: &DocumentVersion| version.body.as_ref().map_or(0, |body| body.len() as u64);
            let bytes = versions.iter().map(bytes).sum();
            self.throttle.pass(bytes);
            self.transfer.add_bytes(bytes);
            self.lay_aside(FetchedPart::Versions(versions))?;
        }
        Ok(())
    }

    /// Fetches versions that are newer there, or missing here: compares both lists of versions in parallel.
    fn fetch(&self) -> Result<(), FetchEnd> {
        let mut bulk = TransferConnection::connect(&self.peer, self.trust.as_deref())?;
        self.drops(&mut bulk)?;
        let mut after = None;
        loop {
            let page = bulk.versions(self.bucket, after.as_deref())?;
            let mut lacking: Vec<DocumentId> = Vec::new();
            for version in page.versions {
                let own = self.replicas.store().version(&version.id)?;
                if own.is_none_or(|own| own.timestamp < version.timestamp) {
                    lacking.push(version.id);
                }
            }
            for ids in lacking.chunks(DOCUMENTS_PER_REQUEST) {
                self.bodies(&mut bulk, ids)?;
            }
            after = page.after;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
