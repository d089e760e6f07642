use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_document::Timestamp;
use millrace_env::Clock;

/// A hybrid logical clock: gives timestamps that follow the machine's clock, ascend strictly, and are above every one that the
/// data directory has seen, even when the machine's clock steps back.
pub(crate) struct Timestamps {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl Timestamps {
    /// A clock whose timestamps are above `seen`.
    pub fn new(clock: Arc<dyn Clock>, seen: Timestamp) -> Self {
        Timestamps { clock, last: AtomicU64::new(seen.0) }
    }

    /// A timestamp above all before.
    pub fn next(&self) -> Timestamp {
        let now = self.clock.now_us();
        let step = |last: u64| Some(now.max(last.saturating_add(1)));
        let last =
            self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap_or_else(|last| last);
        Timestamp(now.max(last.saturating_add(1)))
    }

    /// Every timestamp from now on is above this one, which another clock has given.
    pub fn see(&self, timestamp: Timestamp) {
        self.last.fetch_max(timestamp.0, Ordering::SeqCst);
    }

    /// The last one given or seen.
    pub fn last(&self) -> Timestamp {
        Timestamp(self.last.load(Ordering::SeqCst))
    }

    /// The machine's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_us())
    }
}
