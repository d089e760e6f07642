//! Holding back of batches while the store falls behind with sealing.
//!
//! A client that writes as fast as it can would fill the tail to its limit, and then wait for the seal of a
//! whole generation, which takes seconds. Instead each batch is given a time to wait before the next one: so
//! that, half-way to the limit, all writers together bring as much as is sealed, each an equal share of it.
//! The last part of the tail is kept for single writes, which are never held back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Full generations of the tail, from which on batches are held back.
const FROM: f64 = 2.0;
/// Full generations at which the store takes no batches.
pub(crate) const BATCH_LIMIT: f64 = 3.5;
/// Full generations at which the store takes no writes but removals.
pub(crate) const LIMIT: f64 = 4.0;
/// Bytes of a batch below which it is counted, but not held back: single writes do not wait behind bulks.
const SMALL: u64 = 64 << 10;
/// Longest wait that is asked for.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes sealed in a second, as it is assumed before the first seal: that of texts on one slow core.
const ASSUMED_RATE: f64 = 16e6;
/// Weight of the latest seal in the measured rate.
const LATEST: f64 = 0.5;

/// Writer of batches, by any number of its own. Writers share the rate of sealing equally.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterId(pub u64);

/// Rate of sealing, and the times until which the accepted batches fill it.
#[derive(Default)]
pub(crate) struct SealBacklog(Mutex<BacklogState>);

#[derive(Default)]
struct BacklogState {
    /// Bytes of the tail sealed in a second; `None` before the first seal.
    rate: Option<f64>,
    /// Time until which the batches of each writer fill its share; past ones are removed.
    filled_until: HashMap<WriterId, Instant>,
}

/// True if batches are held back with a tail of this many full generations.
pub(crate) fn is_behind(generations: f64) -> bool {
    generations > FROM
}

impl SealBacklog {
    /// Notes that sealing is not behind any more: batches before this do not count for later ones.
    pub fn caught_up(&self) {
        self.0.lock().filled_until.clear();
    }

    /// Notes a seal.
    pub fn sealed(&self, bytes: u64, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(1e-3);
        let mut state = self.0.lock();
        state.rate = Some(state.rate.map_or(rate, |before| before + (rate - before) * LATEST));
    }

    /// Time for a writer to wait after a batch of these bytes, with a tail of this many full generations.
    pub fn wait_after(&self, writer: WriterId, bytes: u64, generations: f64, now: Instant) -> Duration {
        let behind = ((generations - FROM) / (BATCH_LIMIT - FROM)).clamp(0.0, 1.0);
        if !is_behind(generations) {
            return Duration::ZERO;
        }
        let mut state = self.0.lock();
        let rate = state.rate.unwrap_or(ASSUMED_RATE).max(1.0);
        state.filled_until.retain(|_, until| *until > now);
        let until = state.filled_until.entry(writer).or_insert(now);
        let before = *until;
        let writers = state.filled_until.len() as f64;
        let seconds = bytes as f64 / rate * behind * 2.0 * writers;
        // A wait beyond the longest is that of batches before this one.
        let until =
            (before + Duration::from_secs_f64(seconds.min(WAIT_MAX.as_secs_f64()))).min(now + WAIT_MAX);
        state.filled_until.insert(writer, until);
        if bytes < SMALL { Duration::ZERO } else { until - now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const ANN: WriterId = WriterId(1);
    const BOB: WriterId = WriterId(2);

    #[test]
    fn batches_wait_as_long_as_their_seal_takes() {
        let now = Instant::now();
        let backlog = SealBacklog::default();
        assert_eq!(
            backlog.wait_after(ANN, 1_600_000, 2.75, now).as_millis(),
            100,
            "nothing was measured yet"
        );
        for (generations, expected) in
            [(0.0, 0), (2.0, 0), (2.375, 50), (2.75, 100), (3.5, 200), (4.0, 200), (9.0, 200)]
        {
            let backlog = SealBacklog::default();
            backlog.sealed(10_000_000, SECOND);
            let wait = backlog.wait_after(ANN, 1_000_000, generations, now);
            assert_eq!(wait.as_millis(), expected, "{generations} generations");
        }
        let backlog = SealBacklog::default();
        backlog.sealed(10_000_000, SECOND);
        // Two batches of a writer share the rate, and a pause makes room again.
        let wait = |bytes, now| backlog.wait_after(ANN, bytes, 2.75, now);
        assert_eq!(wait(1_000_000, now).as_millis(), 100);
        assert_eq!(wait(1_000_000, now).as_millis(), 200);
        assert_eq!(wait(1000, now), Duration::ZERO, "a small one");
        assert_eq!(wait(1_000_000, now + SECOND).as_millis(), 100);
        assert_eq!(wait(1 << 30, now + SECOND), WAIT_MAX);
        // The rate follows the seals.
        backlog.sealed(30_000_000, SECOND);
        assert_eq!(wait(1_000_000, now + SECOND * 9).as_millis(), 50);
    }

    #[test]
    fn writers_have_equal_shares() {
        let now = Instant::now();
        let backlog = SealBacklog::default();
        backlog.sealed(10_000_000, SECOND);
        let wait = |writer, now| backlog.wait_after(writer, 1_000_000, 2.75, now).as_millis();
        let of_ann: Vec<u128> = (0..4).map(|_| wait(ANN, now)).collect();
        assert_eq!(of_ann, [100, 200, 300, 400]);
        // Behind none of them, at half of the rate.
        assert_eq!(wait(BOB, now), 200);
        assert_eq!(wait(ANN, now), 600);
        assert_eq!(wait(BOB, now + SECOND), 100, "the other has waited");
        backlog.caught_up();
        assert_eq!(wait(ANN, now + SECOND), 100, "all was sealed in between");
    }
}
