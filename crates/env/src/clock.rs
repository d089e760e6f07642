use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source of the time of day.
pub trait WallClock: Send + Sync {
    /// Microseconds since 1970. May step backwards, like the machine's clock.
    fn now_us(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now_us(&self) -> u64 {
        unix_time().as_micros() as u64
    }
}

/// Time of day by the machine's clock, as the time since 1970; zero if the clock is before.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the time of day")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A clock that advances only when it is set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Creates a clock at `now_us`.
    pub fn new(now_us: u64) -> Self {
        ManualClock(AtomicU64::new(now_us))
    }

    /// Sets the time, forwards or backwards.
    pub fn set(&self, now_us: u64) {
        self.0.store(now_us, Ordering::SeqCst);
    }
}

impl WallClock for ManualClock {
    fn now_us(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
