use std::sync::atomic::{AtomicU64, Ordering};

/// Requests to a service since the node started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceUsage {
    /// Requests, without retries.
    pub requests: u64,
    /// Texts in them.
    pub texts: u64,
    /// Retries.
    pub retries: u64,
    /// Texts that finally got no answer.
    pub failed: u64,
}

/// Thread-safe counters of the usage.
#[derive(Debug, Default)]
pub(crate) struct ServiceCounters {
    requests: AtomicU64,
    texts: AtomicU64,
    retries: AtomicU64,
    failed: AtomicU64,
}

impl ServiceCounters {
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

    pub fn usage(&self) -> ServiceUsage {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServiceUsage {
            requests: of(&self.requests),
            texts: of(&self.texts),
            retries: of(&self.retries),
            failed: of(&self.failed),
        }
    }
}
