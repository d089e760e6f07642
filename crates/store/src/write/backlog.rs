//! Holding back of batches while the store falls behind with sealing.
//!
//! A client that writes as fast as it can would fill the tail to its limit, and then wait for the seal of a
//! whole generation, which takes seconds. Instead each batch is told how long to wait before the next one: so
//! that, half-way to the limit, all clients together bring as much as is sealed.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Full generations of the tail, from which on batches are held back.
const FROM: f64 = 2.0;
/// Full generations at which the store takes no batches.
pub(crate) const LIMIT: u64 = 4;
/// Bytes of a batch below which it is counted, but not held back: single writes do not wait behind bulks.
const SMALL: u64 = 64 << 10;
/// Longest wait that is asked for.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Bytes sealed in a second, as it is assumed before the first seal: that of texts on one slow core.
const ASSUMED_RATE: f64 = 16e6;
/// Weight of the latest seal in the measured rate.
const LATEST: f64 = 0.5;

/// Rate of sealing, and the time until which the batches that were taken on fill it.
pub(crate) struct SealBacklog(Mutex<BacklogState>);

struct BacklogState {
    /// Bytes of the tail sealed in a second; `None` before the first seal.
    rate: Option<f64>,
    filled_until: Instant,
}

impl SealBacklog {
    /// Creates the backlog of a store that has sealed nothing yet.
    pub fn new(now: Instant) -> Self {
        SealBacklog(Mutex::new(BacklogState { rate: None, filled_until: now }))
    }

    /// Notes a seal.
    pub fn sealed(&self, bytes: u64, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(1e-3);
        let mut state = self.0.lock();
        state.rate = Some(state.rate.map_or(rate, |before| before + (rate - before) * LATEST));
    }

    /// Time to wait after a batch of these bytes, with a tail of this many full generations.
    pub fn wait_after(&self, bytes: u64, generations: f64, now: Instant) -> Duration {
        let behind = ((generations - FROM) / (LIMIT as f64 - FROM)).clamp(0.0, 1.0);
        if behind == 0.0 {
            return Duration::ZERO;
        }
        let mut state = self.0.lock();
        let rate = state.rate.unwrap_or(ASSUMED_RATE).max(1.0);
        let seconds = (bytes as f64 / rate * behind * 2.0).min(WAIT_MAX.as_secs_f64());
        state.filled_until = state.filled_until.max(now) + Duration::from_secs_f64(seconds);
        // A wait beyond the longest is that of batches before this one.
        state.filled_until = state.filled_until.min(now + WAIT_MAX);
        if bytes < SMALL { Duration::ZERO } else { state.filled_until - now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_wait_as_long_as_their_seal_takes() {
        const SECOND: Duration = Duration::from_secs(1);
        let now = Instant::now();
        let backlog = SealBacklog::new(now);
        assert_eq!(backlog.wait_after(1_600_000, 3.0, now).as_millis(), 100, "nothing was measured yet");
        let backlog = SealBacklog::new(now);
        backlog.sealed(10_000_000, SECOND);
        for (generations, expected) in [(0.0, 0), (2.0, 0), (2.5, 50), (3.0, 100), (4.0, 200), (9.0, 200)] {
            let backlog = SealBacklog::new(now);
            backlog.sealed(10_000_000, SECOND);
            let wait = backlog.wait_after(1_000_000, generations, now);
            assert_eq!(wait.as_millis(), expected, "{generations} generations");
        }
        // Two clients share the rate, and a pause makes room again.
        assert_eq!(backlog.wait_after(1_000_000, 3.0, now).as_millis(), 100);
        assert_eq!(backlog.wait_after(1_000_000, 3.0, now).as_millis(), 200);
        assert_eq!(backlog.wait_after(1000, 3.0, now), Duration::ZERO, "a small one");
        assert_eq!(backlog.wait_after(1_000_000, 3.0, now + SECOND).as_millis(), 100);
        assert_eq!(backlog.wait_after(1 << 30, 3.0, now + SECOND), WAIT_MAX);
        // The rate follows the seals.
        backlog.sealed(30_000_000, SECOND);
        assert_eq!(backlog.wait_after(1_000_000, 3.0, now + SECOND * 9).as_millis(), 50);
    }
}
