//! Transfer of whole replicas from a node to a store, outside of any cluster.

use std::collections::BTreeMap;

use millrace_bucket::BucketId;
use millrace_cluster::{NodeFailure, NodeKey};
use millrace_document::DroppedScope;
use millrace_peer::PeerAddress;
use millrace_store::{ArrivedSegment, ParcelBucket, Store};
use parking_lot::Mutex;

use crate::incoming::IncomingTransfers;
use crate::receive::{ReceiveEnd, ReceiveListener, ReceiveRequest};
use crate::{TransferThrottle, storage};

/// Copies all that the node at `address` has of these buckets, as a node of a cluster does, and returns the
/// number of bytes received.
///
/// # Errors
/// They cannot be fetched, or not be written; the buckets are then unchanged.
pub fn take_over(
    store: &Store,
    throttle: &TransferThrottle,
    address: &str,
    buckets: &[BucketId],
) -> Result<u64, NodeFailure> {
    let transfer = IncomingTransfers::default().begin(NodeKey(0), "whole replicas", buckets.len() as u64);
    let peer = PeerAddress::of_any_run(address);
    let receive = ReceiveRequest { store, throttle, trust: None, transfer: &transfer, peer: &peer, buckets };
    let all = KeepAllPolicy::default();
    receive.run(&all).map_err(|ended| match ended {
        ReceiveEnd::Cancelled => NodeFailure::Interrupted,
        ReceiveEnd::Broken(error) => NodeFailure::Storage { reason: error.to_string() },
        ReceiveEnd::Failed(failure) => failure,
    })?;
    let drops = all.drops.into_inner();
    let mut drops = drops.iter().flat_map(|(bucket, drops)| drops.iter().map(|drop| (*bucket, drop)));
    drops.try_for_each(|(bucket, drop)| store.apply_drop(bucket, drop).map_err(storage::failure))?;
    let arrived = all.files.into_inner();
    let files: Vec<(&ArrivedSegment, &[BucketId])> = arrived.iter().map(|file| (file, buckets)).collect();
    ArrivedSegment::install_all(&files).map_err(storage::failure)?;
    Ok(transfer.bytes())
}

/// Collects everything that arrives.
#[derive(Default)]
struct KeepAllPolicy {
    drops: Mutex<BTreeMap<BucketId, Vec<DroppedScope>>>,
    files: Mutex<Vec<ArrivedSegment>>,
}

impl ReceiveListener for KeepAllPolicy {
    fn dropped(&self, bucket: BucketId, drops: Vec<DroppedScope>) {
        self.drops.lock().insert(bucket, drops);
    }

    fn planned(&self, _: &[(Option<u64>, &[ParcelBucket])]) {}

    fn arrived(&self, _: Option<u64>, parcel: ArrivedSegment) {
        self.files.lock().push(parcel);
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}
