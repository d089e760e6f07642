//! Latencies in the buckets of a Prometheus histogram.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds; longer latencies are in the last bucket, `+Inf`.
const BOUNDS_US: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

/// Number of buckets.
const BUCKETS: usize = BOUNDS_US.len() + 1;

/// Numbers of latencies in the buckets of a histogram, at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencyCounts([u64; BUCKETS]);

impl LatencyCounts {
    /// Latency that this share of those counted since `earlier` does not exceed: within a bucket, as if they
    /// lay evenly in it. `None` if there were none.
    pub fn percentile_since(&self, earlier: &LatencyCounts, share: f64) -> Option<Duration> {
        let since = |bucket: usize| self.0[bucket].saturating_sub(earlier.0[bucket]) as f64;
        let rank = share * (0..BUCKETS).map(since).sum::<f64>();
        let mut below = 0.0;
        let bucket = (0..BUCKETS).find(|&bucket| {
            let found = since(bucket) > 0.0 && below + since(bucket) >= rank;
            below += if found { 0.0 } else { since(bucket) };
            found
        })?;
        let least = bucket.checked_sub(1).map_or(0, |before| BOUNDS_US[before]);
        // The last bucket has no end.
        let width = BOUNDS_US.get(bucket).map_or(0, |bound| bound - least) as f64;
        let within = ((rank - below) / since(bucket)).clamp(0.0, 1.0);
        Some(Duration::from_micros(least + (width * within).round() as u64))
    }
}

/// Latencies since the start. Recording one is two atomic additions.
pub struct LatencyHistogram {
    counts: [AtomicU64; BUCKETS],
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
        LatencyHistogram { counts: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
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
        self.counts().0.iter().sum()
    }

    /// Numbers of latencies by bucket.
    pub fn counts(&self) -> LatencyCounts {
        LatencyCounts(self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)))
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

    #[test]
    fn percentiles_are_of_the_latencies_since_a_time() {
        let histogram = LatencyHistogram::new();
        let start = histogram.counts();
        assert_eq!(start.percentile_since(&start, 0.95), None);
        histogram.record_many(Duration::from_micros(70), 90);
        histogram.record_many(Duration::from_millis(2), 10);
        let earlier = histogram.counts();
        let at = |from: &LatencyCounts, share: f64| {
            histogram.counts().percentile_since(from, share).map(|latency| latency.as_micros())
        };
        // A half of the 90 between 0 and 100, and a half of the 10 between 1,000 and 2,500.
        assert_eq!((at(&start, 0.45), at(&start, 0.95)), (Some(50), Some(1_750)));
        assert_eq!(at(&earlier, 0.95), None);
        histogram.record(Duration::from_secs(90));
        assert_eq!(at(&earlier, 0.99), Some(60_000_000), "no end is known");
        assert_eq!(at(&start, 0.0), Some(0));
    }
}
