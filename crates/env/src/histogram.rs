//! Latencies in the buckets of a Prometheus histogram.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds; longer latencies are in the last bucket, `+Inf`.
const BOUNDS_US: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

/// Latencies since the start. Recording one is two atomic additions.
pub struct LatencyHistogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram::new()
    }
}

impl LatencyHistogram {
    /// Creates a histogram without latencies.
    pub const fn new() -> Self {
        LatencyHistogram {
            counts: [const { AtomicU64::new(0) }; BOUNDS_US.len() + 1],
            sum_us: AtomicU64::new(0),
        }
    }

    /// Counts one latency.
    pub fn record(&self, time: Duration) {
        self.record_many(time, 1);
    }

    /// Counts a latency that `count` operations had together.
    pub fn record_many(&self, time: Duration, count: u64) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket].fetch_add(count, Ordering::Relaxed);
        self.sum_us.fetch_add(us.saturating_mul(count), Ordering::Relaxed);
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Appends the histogram in the text format of Prometheus.
    pub fn write(&self, text: &mut String, name: &str, description: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {description}\n# TYPE {name} histogram");
        let mut below = 0;
        for (index, count) in self.counts.iter().enumerate() {
            below += count.load(Ordering::Relaxed);
            let _ = match BOUNDS_US.get(index) {
                Some(bound) => writeln!(text, "{name}_bucket{{le=\"{}\"}} {below}", *bound as f64 / 1e6),
                None => writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {below}"),
            };
        }
        let sum = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {below}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_what_is_at_most_as_long() {
        let histogram = LatencyHistogram::new();
        for us in [0, 100, 101, 3_000, 90_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        histogram.record_many(Duration::from_millis(2), 3);
        assert_eq!(histogram.count(), 8);
        let mut text = String::new();
        histogram.write(&mut text, "x_seconds", "d");
        for line in [
            "# TYPE x_seconds histogram",
            "x_seconds_bucket{le=\"0.0001\"} 2",
            "x_seconds_bucket{le=\"0.00025\"} 3",
            "x_seconds_bucket{le=\"0.005\"} 7",
            "x_seconds_bucket{le=\"60\"} 7",
            "x_seconds_bucket{le=\"+Inf\"} 8",
            "x_seconds_sum 90.009201",
            "x_seconds_count 8",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
