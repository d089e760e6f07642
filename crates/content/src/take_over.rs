//! Transfer of whole replicas from a node to a store, outside of any cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use millrace_bucket::BucketId;
use millrace_cluster::{Failure, NodeKey};
use millrace_document::Drop;
use millrace_store::{Arrived, Share, Store};

use crate::incoming::Incoming;
use crate::receive::{Ended, Listener, Receive};
use crate::{Throttle, storage};

/// Copies all that the node at `address` has of these buckets, as a node of a cluster does, and returns the
/// number of bytes received.
///
/// # Errors
/// They cannot be fetched, or not be written; the buckets are then unchanged.
pub fn take_over(
    store: &Store,
    throttle: &Throttle,
    address: &str,
    buckets: &[BucketId],
) -> Result<u64, Failure> {
    let transfer = Incoming::default().begin(NodeKey(0), "whole replicas", buckets.len() as u64);
    let receive = Receive { store, throttle, trust: None, transfer: &transfer, address, buckets };
    let all = All::default();
    receive.run(&all).map_err(|ended| match ended {
        Ended::Cancelled => Failure::Interrupted,
        Ended::Broken(error) => Failure::Storage { reason: error.to_string() },
        Ended::Failed(failure) => failure,
    })?;
    let drops = all.drops.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut drops = drops.iter().flat_map(|(bucket, drops)| drops.iter().map(|drop| (*bucket, drop)));
    drops.try_for_each(|(bucket, drop)| store.apply_drop(bucket, drop).map_err(storage::failure))?;
    let arrived = all.files.into_inner().unwrap_or_else(PoisonError::into_inner);
    let files: Vec<(&Arrived, &[BucketId])> = arrived.iter().map(|file| (file, buckets)).collect();
    Arrived::install_all(&files).map_err(storage::failure)?;
    Ok(transfer.bytes())
}

/// Collects everything that arrives.
#[derive(Default)]
struct All {
    drops: Mutex<BTreeMap<BucketId, Vec<Drop>>>,
    files: Mutex<Vec<Arrived>>,
}

impl Listener for All {
    fn dropped(&self, bucket: BucketId, drops: Vec<Drop>) {
        self.drops.lock().unwrap_or_else(PoisonError::into_inner).insert(bucket, drops);
    }

    fn planned(&self, _: &[(Option<u64>, &[Share])]) {}

    fn arrived(&self, _: Option<u64>, parcel: Arrived) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(parcel);
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}
