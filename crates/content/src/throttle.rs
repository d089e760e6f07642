//! Rate limit of a node's data transfers, in both directions together: as high as possible without effect on
//! its clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millrace_cluster::TransferRateLimiter;
use parking_lot::{Mutex, MutexGuard};

/// Slows transfers down while they disturb requests, and to a cap.
pub struct TransferThrottle {
    rate: Mutex<TransferRateLimiter>,
    base: Instant,
    moved: AtomicU64,
    /// Time and bytes moved at the last observation, and the bytes per second before it.
    observed: Mutex<(Duration, u64, u64)>,
}

impl TransferThrottle {
    /// Creates a throttle, with an optional cap in bytes per second.
    pub fn new(cap: Option<u64>) -> Self {
        TransferThrottle {
            rate: Mutex::new(TransferRateLimiter::new(cap)),
            base: Instant::now(),
            moved: AtomicU64::new(0),
            observed: Mutex::default(),
        }
    }

    /// Waits until this many bytes may move.
    pub fn pass(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let wait = self.lock().take(self.base.elapsed(), bytes);
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// Records the 99th percentile of each kind of request since the last call; `None` if there were too few.
    /// To be called about once a second.
    pub fn observe(&self, slowest: &[Option<Duration>]) {
        let now = self.base.elapsed();
        self.lock().observe(now, slowest);
        let moved = self.moved();
        let mut observed = self.observed.lock();
        let (last, before, _) = *observed;
        let seconds = now.saturating_sub(last).as_secs_f64().max(0.001);
        *observed = (now, moved, (moved.saturating_sub(before) as f64 / seconds) as u64);
    }

    /// Bytes per second between the last two observations.
    pub fn speed(&self) -> u64 {
        self.observed.lock().2
    }

    /// Current limit in bytes per second; `None`: unlimited.
    pub fn limit(&self) -> Option<u64> {
        self.lock().limit()
    }

    /// Total bytes moved.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, TransferRateLimiter> {
        self.rate.lock()
    }
}
