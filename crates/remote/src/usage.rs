use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked of a service since the node started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Requests, without those that were tried again.
    pub requests: u64,
    /// Texts in them.
    pub texts: u64,
    /// Tries after the first.
    pub retries: u64,
    /// Texts without an answer in the end.
    pub failed: u64,
}

/// Counts it, from any thread.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    texts: AtomicU64,
    retries: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn texts(&self, count: usize) {
        self.texts.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn usage(&self) -> Usage {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            requests: of(&self.requests),
            texts: of(&self.texts),
            retries: of(&self.retries),
            failed: of(&self.failed),
        }
    }
}
