//! Fetching of whole replicas. Those requested from one node while another session with it is running are
//! copied together in the next. So a file that they share is sent once, and files are not smaller than
//! necessary.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{NodeFailure, NodeKey};
use millrace_document::DroppedScope;
use millrace_peer::PeerAddress;
use millrace_store::{ArrivedSegment, ParcelBucket};
use millrace_trust::NodeTrust;
use parking_lot::{Mutex, MutexGuard};

use crate::TransferThrottle;
use crate::incoming::{IncomingTransfer, IncomingTransfers};
use crate::pull::{
    FetchCallback, FetchedPart, FetchedReplica, fetch_panicked, no_thread_failure, spawn_fetch,
};
use crate::receive::{ReceiveEnd, ReceiveListener, ReceiveRequest};
use crate::storage::{self, StoreReplicas};

/// Delay of a session during which further requests are collected: operations on many buckets begin at about
/// the same time.
const GATHER: Duration = Duration::from_millis(20);

/// Maximum number of buckets in one session. The others follow in the next one, so that none waits for all
/// the others to be installed.
const BUCKETS_MAX: usize = 256;

/// A requested replica.
struct SessionReplica {
    bucket: BucketId,
    callback: Arc<FetchCallback>,
    /// Dead if it is not wanted any more.
    live: Weak<()>,
    /// True if damaged files leave it when it is filled, even if there is nothing to copy.
    is_damaged: bool,
}

/// All sessions of a node, by the node that they fetch from.
pub(crate) struct FetchSessions {
    replicas: Arc<StoreReplicas>,
    throttle: Arc<TransferThrottle>,
    trust: Option<Arc<NodeTrust>>,
    incoming: Arc<IncomingTransfers>,
    /// Requests by node, while a session is running or about to begin.
    waiting: Mutex<HashMap<PeerAddress, Vec<SessionReplica>>>,
}

impl FetchSessions {
    pub(crate) fn new(
        replicas: Arc<StoreReplicas>,
        throttle: Arc<TransferThrottle>,
        trust: Option<Arc<NodeTrust>>,
        incoming: Arc<IncomingTransfers>,
    ) -> Self {
        FetchSessions { replicas, throttle, trust, incoming, waiting: Mutex::default() }
    }

    /// Fetches a bucket's replica from a node, as long as the returned value lives; the callback receives the
    /// complete content, or the failure.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        from: NodeKey,
        peer: &PeerAddress,
        bucket: BucketId,
        callback: Arc<FetchCallback>,
    ) -> Arc<()> {
        let live = Arc::new(());
        let wanted = SessionReplica { bucket, callback, live: Arc::downgrade(&live), is_damaged: false };
        let mut waiting = self.lock();
        if let Some(others) = waiting.get_mut(peer) {
            others.push(wanted);
            return live;
        }
        waiting.insert(peer.clone(), vec![wanted]);
        drop(waiting);
        let (sessions, to) = (Arc::clone(self), peer.clone());
        if let Err(error) = spawn_fetch(move || sessions.run(from, &to)) {
            let lost = self.lock().remove(peer).unwrap_or_default();
            lost.iter().for_each(|wanted| (wanted.callback)(Err(no_thread_failure(&error))));
        }
        live
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PeerAddress, Vec<SessionReplica>>> {
        self.waiting.lock()
    }

    /// Runs one session after another, until there are no requests.
    fn run(&self, from: NodeKey, peer: &PeerAddress) {
        thread::sleep(GATHER);
        while let Some(wanted) = self.next(peer) {
            self.session(from, peer, wanted);
        }
    }

    fn next(&self, peer: &PeerAddress) -> Option<Vec<SessionReplica>> {
        let mut waiting = self.lock();
        let queue = waiting.get_mut(peer).expect("the requests of a node are kept while its session runs");
        queue.retain(|wanted| wanted.live.strong_count() > 0);
        if queue.is_empty() {
            waiting.remove(peer);
            return None;
        }
        // The parcels of a bucket go to one request: another for the same bucket waits for the next session.
        let mut buckets = HashSet::new();
        let is_next =
            |wanted: &mut SessionReplica| buckets.len() < BUCKETS_MAX && buckets.insert(wanted.bucket);
        Some(queue.extract_if(.., is_next).collect())
    }

    /// Looks for damage in the replicas that are to be filled. Those that cannot be filled are answered, and
    /// not fetched again and again.
    fn check(&self, wanted: &mut Vec<SessionReplica>) {
        let buckets: Vec<BucketId> = wanted.iter().map(|of| of.bucket).collect();
        let store = self.replicas.store();
        // If this fails or panics, so does the installation, which is answered.
        let found = catch_unwind(AssertUnwindSafe(|| store.uncounted_replicas(&buckets)));
        let uncounted: HashMap<_, _> =
            found.unwrap_or(Ok(Vec::new())).unwrap_or_default().into_iter().collect();
        wanted.retain_mut(|of| match uncounted.get(&of.bucket) {
            Some(Some(error)) => {
                (of.callback)(Err(storage::failure(error.clone())));
                false
            }
            found => {
                of.is_damaged = found.is_some();
                true
            }
        });
    }

    fn session(&self, from: NodeKey, peer: &PeerAddress, mut wanted: Vec<SessionReplica>) {
        self.check(&mut wanted);
        if wanted.is_empty() {
            return;
        }
        let mut buckets: Vec<BucketId> = wanted.iter().map(|wanted| wanted.bucket).collect();
        buckets.sort_unstable();
        assert!(buckets.is_sorted_by(|one, next| one < next), "a session fetches a bucket for one request");
        let transfer = self.incoming.begin(from, "whole replicas", buckets.len() as u64);
        let session =
            FetchSession { transfer: &transfer, parts: Mutex::default(), wanted: Mutex::new(wanted) };
        let receive = ReceiveRequest {
            store: self.replicas.store(),
            throttle: &self.throttle,
            trust: self.trust.as_deref(),
            transfer: &transfer,
            peer,
            buckets: &buckets,
        };
        // A waiting caller must always get an answer.
        let failure = match catch_unwind(AssertUnwindSafe(|| receive.run(&session))) {
            Ok(Ok(())) => None,
            Ok(Err(ReceiveEnd::Cancelled)) => Some(NodeFailure::Interrupted),
            Ok(Err(ReceiveEnd::Failed(failure))) => Some(failure),
            Ok(Err(ReceiveEnd::Broken(error))) => Some(NodeFailure::Storage { reason: error.to_string() }),
            Err(_) => Some(fetch_panicked()),
        };
        let left = session.wanted.into_inner();
        for wanted in left {
            let failure = failure.clone().unwrap_or(NodeFailure::Interrupted);
            (wanted.callback)(Err(failure));
        }
    }
}

/// Parcels of a bucket, with their identities.
#[derive(Default)]
struct BucketParcels {
    /// Number of parcels still to come.
    missing: usize,
    drops: Vec<DroppedScope>,
    arrived: Vec<(Option<u64>, Arc<ArrivedSegment>)>,
}

/// One session, with its waiting buckets.
struct FetchSession<'a> {
    transfer: &'a IncomingTransfer,
    parts: Mutex<HashMap<BucketId, BucketParcels>>,
    /// Requests without an answer yet.
    wanted: Mutex<Vec<SessionReplica>>,
}

impl FetchSession<'_> {
    fn parts(&self) -> MutexGuard<'_, HashMap<BucketId, BucketParcels>> {
        self.parts.lock()
    }

    /// Answers the requests whose parcels have all arrived.
    fn answer_whole(&self) {
        let mut parts = self.parts();
        let mut wanted = self.wanted.lock();
        let is_whole = |of: &mut SessionReplica| parts.get(&of.bucket).is_none_or(|parts| parts.missing == 0);
        let whole: Vec<SessionReplica> = wanted.extract_if(.., is_whole).collect();
        self.transfer.set_buckets(wanted.len() as u64);
        drop(wanted);
        for of in whole {
            let BucketParcels { drops, arrived, .. } = parts.remove(&of.bucket).unwrap_or_default();
            let files: Vec<Arc<ArrivedSegment>> = arrived.into_iter().map(|(_, parcel)| parcel).collect();
            let some = of.is_damaged || !drops.is_empty() || !files.is_empty();
            (of.callback)(Ok(some.then_some(FetchedPart::Whole(FetchedReplica {
                bucket: of.bucket,
                drops,
                files,
            }))));
        }
    }
}

impl ReceiveListener for FetchSession<'_> {
    fn dropped(&self, bucket: BucketId, drops: Vec<DroppedScope>) {
        self.parts().entry(bucket).or_default().drops = drops;
    }

    fn planned(&self, parcels: &[(Option<u64>, &[ParcelBucket])]) {
        let mut parts = self.parts();
        for of_bucket in parts.values_mut() {
            of_bucket.missing = 0;
            // Parcels that cannot be identified are sent again.
            of_bucket.arrived.retain(|(identity, _)| identity.is_some());
        }
        for share in parcels.iter().flat_map(|(_, shares)| *shares) {
            parts.entry(share.bucket).or_default().missing += 1;
        }
        drop(parts);
        self.answer_whole();
    }

    fn arrived(&self, identity: Option<u64>, parcel: ArrivedSegment) {
        let parcel = Arc::new(parcel);
        let mut parts = self.parts();
        for share in parcel.shares() {
            let of_bucket = parts.get_mut(&share.bucket).expect("a parcel is planned before it arrives");
            assert!(of_bucket.missing > 0, "bucket {} gets no more parcels than were planned", share.bucket);
            of_bucket.missing -= 1;
            of_bucket.arrived.push((identity, Arc::clone(&parcel)));
        }
        drop(parts);
        self.answer_whole();
    }

    fn is_cancelled(&self) -> bool {
        let wanted = self.wanted.lock();
        !wanted.iter().any(|wanted| wanted.live.strong_count() > 0)
    }
}
