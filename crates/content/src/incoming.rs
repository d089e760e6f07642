//! What is on its way to a node, for its operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use millrace_cluster::NodeKey;

/// Replicas, or what is missing of one, on their way to this node.
#[derive(Debug)]
pub struct Transfer {
    /// From which node.
    pub from: NodeKey,
    /// Why, for people.
    pub reason: &'static str,
    /// When it began.
    pub began: Instant,
    buckets: AtomicU64,
    bytes: AtomicU64,
    total: AtomicU64,
}

impl Transfer {
    /// Buckets that are not there yet.
    pub fn buckets(&self) -> u64 {
        self.buckets.load(Ordering::Relaxed)
    }

    /// Bytes that have come.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes in all, as far as is known.
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

/// All transfers to this node that are under way.
#[derive(Debug, Default)]
pub(crate) struct Incoming(Mutex<Vec<Weak<Transfer>>>);

impl Incoming {
    /// One begins; it is under way until it is dropped.
    pub(crate) fn begin(&self, from: NodeKey, reason: &'static str, buckets: u64) -> Arc<Transfer> {
        let transfer = Arc::new(Transfer {
            from,
            reason,
            began: Instant::now(),
            buckets: AtomicU64::new(buckets),
            bytes: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&transfer));
        transfer
    }

    pub(crate) fn list(&self) -> Vec<Arc<Transfer>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}
