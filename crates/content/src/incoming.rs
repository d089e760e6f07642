//! Incoming transfers of a node, for its operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use millrace_cluster::NodeKey;
use parking_lot::Mutex;

/// Transfer of replicas, or of the missing part of one, to this node.
#[derive(Debug)]
pub struct IncomingTransfer {
    /// Sending node.
    pub from: NodeKey,
    /// Reason, for people.
    pub reason: &'static str,
    /// Start time.
    pub began: Instant,
    buckets: AtomicU64,
    bytes: AtomicU64,
    total: AtomicU64,
}

impl IncomingTransfer {
    /// Number of buckets that have not arrived yet.
    pub fn buckets(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed)
    }

    /// Bytes received.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Total bytes, as far as known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed).max(self.bytes())
    }

    pub(crate) fn set_buckets(&self, buckets: u64) {
        self.buckets.store(buckets, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }
}

/// All running transfers to this node.
#[derive(Debug, Default)]
pub(crate) struct IncomingTransfers(Mutex<Vec<Weak<IncomingTransfer>>>);

impl IncomingTransfers {
    /// Registers a transfer; it runs until the result is dropped.
    pub(crate) fn begin(&self, from: NodeKey, reason: &'static str, buckets: u64) -> Arc<IncomingTransfer> {
        let transfer = Arc::new(IncomingTransfer {
            from,
            reason,
            began: Instant::now(),
            buckets: AtomicU64::new(buckets),
            bytes: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&transfer));
        transfer
    }

    pub(crate) fn list(&self) -> Vec<Arc<IncomingTransfer>> {
        let all = self.0.lock();
        all.iter().filter_map(Weak::upgrade).collect()
    }
}
