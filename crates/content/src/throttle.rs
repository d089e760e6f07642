//! How fast a node moves data, in and out together: as fast as it can while its clients do not notice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millrace_cluster::Rate;

/// Holds transfers back while they are in the way of requests, and below a cap.
pub struct Throttle {
    rate: Mutex<Rate>,
    base: Instant,
    moved: AtomicU64,
    /// What had moved when it was observed last, and bytes a second until then.
    observed: Mutex<(Duration, u64, u64)>,
}

impl Throttle {
    /// Never faster than `cap` bytes a second, where there is one.
    pub fn new(cap: Option<u64>) -> Self {
        Throttle {
            rate: Mutex::new(Rate::new(cap)),
            base: Instant::now(),
            moved: AtomicU64::new(0),
            observed: Mutex::default(),
        }
    }

    /// Waits until so many bytes may move.
    pub fn pass(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        let wait = self.lock().take(self.base.elapsed(), bytes);
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// The slowest hundredth of each kind of request since this was told last; `None` where there were too few. To be told about once a second.
    pub fn observe(&self, slowest: &[Option<Duration>]) {
        let now = self.base.elapsed();
        self.lock().observe(now, slowest);
        let moved = self.moved();
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, before, _) = *observed;
        let seconds = now.saturating_sub(last).as_secs_f64().max(0.001);
        *observed = (now, moved, (moved.saturating_sub(before) as f64 / seconds) as u64);
    }

    /// Bytes that moved in a second, between the last two observations.
    pub fn speed(&self) -> u64 {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).2
    }

    /// Bytes a second that may move now; `None`: as many as can.
    pub fn limit(&self) -> Option<u64> {
        self.lock().limit()
    }

    /// Bytes that have moved.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
