//! Latency of recent requests, by which data transfers are slowed down when they disturb requests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Steps per power of two; a latency is exact to about 3 %.
const STEPS: usize = 32;
/// Number of powers of two: from a microsecond to half an hour.
const POWERS: usize = 31;

/// Latencies since the last read.
pub(crate) struct RecentLatencies {
    counts: Vec<AtomicU32>,
}

/// Minimum number of requests for a 99th percentile.
const SAMPLES_MIN: u64 = 50;

impl RecentLatencies {
    pub(crate) fn new() -> Self {
        RecentLatencies { counts: (0..STEPS * POWERS).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Records the latency of one request.
    pub(crate) fn record(&self, time: Duration) {
        self.counts[place(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the 99th percentile since the last call; `None` if there were too few requests.
    pub(crate) fn take_slowest(&self) -> Option<Duration> {
        let counts: Vec<u64> =
            self.counts.iter().map(|count| u64::from(count.swap(0, Ordering::Relaxed))).collect();
        let all: u64 = counts.iter().sum();
        if all < SAMPLES_MIN {
            return None;
        }
        let mut left = all / 100;
        let slowest = counts.iter().enumerate().rev().find(|(_, count)| {
            let found = **count > left;
            left = left.saturating_sub(**count);
            found
        });
        slowest.map(|(place, _)| time_at(place))
    }
}

fn place(time: Duration) -> usize {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
    let power = us.ilog2() as usize;
    let step = ((u128::from(us - (1 << power)) * STEPS as u128) >> power) as usize;
    (power * STEPS + step).min(STEPS * POWERS - 1)
}

/// Minimum latency of an index.
fn time_at(place: usize) -> Duration {
    let (power, step) = (place / STEPS, (place % STEPS) as u64);
    Duration::from_micros((1 << power) + ((step << power) / STEPS as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_is_returned_once_and_about_right() {
        let recent = RecentLatencies::new();
        for us in [0, 1, 7, 1000, 40_000_000, u64::MAX] {
            recent.record(Duration::from_micros(us));
        }
        assert_eq!(recent.take_slowest(), None, "six are too few");
        (1..=10_000).for_each(|us| recent.record(Duration::from_micros(us)));
        let slowest = recent.take_slowest().expect("ten thousand are enough").as_micros();
        assert!((9_600..=9_900).contains(&slowest), "{slowest}");
        assert_eq!(recent.take_slowest(), None, "each is returned once");
        (0..99).for_each(|_| recent.record(Duration::from_micros(500)));
        recent.record(Duration::from_secs(1));
        let slowest = recent.take_slowest().expect("a hundred are enough").as_micros();
        assert!((480..=500).contains(&slowest), "one in a hundred is left out: {slowest}");
    }
}
