use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of steps within a doubling.
const PARTS: u32 = 8;
/// Number of counters: durations of up to 2^40 ns, about a quarter of an hour; longer ones count as that.
const SLOTS: usize = 40 * PARTS as usize;

/// Counter of measured durations, on a logarithmic scale.
pub(crate) struct DurationRecorder {
    counts: [AtomicU64; SLOTS],
}

/// Histogram of a step's durations, exact to one eighth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationHistogram {
    counts: Vec<u64>,
}

/// Durations of writes in the store since it was opened: see [`crate::Store::write_times`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTimes {
    /// Time from acceptance until the commit that has the write begins: mostly the rest of the previous
    /// commit.
    pub waited: DurationHistogram,
    /// Time of the commit: appending to the log, syncing it, and adding to the rows in memory.
    pub committed: DurationHistogram,
    /// Share of each commit in the change from one generation of the tail to the next: the wait for the one
    /// that takes writes, and the time to let the next take over.
    pub rolled: DurationHistogram,
}

impl Default for DurationRecorder {
    fn default() -> Self {
        DurationRecorder { counts: [const { AtomicU64::new(0) }; SLOTS] }
    }
}

impl DurationRecorder {
    /// Counts one duration.
    pub fn add(&self, time: Duration) {
        self.add_several(time, 1);
    }

    /// Counts a duration of several.
    pub fn add_several(&self, time: Duration, count: usize) {
        self.counts[slot(time)].fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the counts.
    pub fn times(&self) -> DurationHistogram {
        DurationHistogram { counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() }
    }
}

impl DurationHistogram {
    /// Counts added after `earlier` was taken.
    pub fn since(&self, earlier: &DurationHistogram) -> DurationHistogram {
        let counts = self.counts.iter().zip(&earlier.counts);
        DurationHistogram { counts: counts.map(|(now, then)| now.saturating_sub(*then)).collect() }
    }

    /// Duration that this share of the counts (0 to 1) does not exceed; zero if there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= wanted && seen > 0
        };
        self.counts.iter().position(reaches).map_or(Duration::ZERO, slot_end)
    }
}

/// Index of a duration: its highest bit, and the three after that.
fn slot(time: Duration) -> usize {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(u64::from(PARTS));
    let doubling = ns.ilog2();
    let part = (ns >> (doubling - PARTS.ilog2())) as u32 % PARTS;
    ((doubling * PARTS + part) as usize).min(SLOTS - 1)
}

/// Longest duration at an index.
fn slot_end(slot: usize) -> Duration {
    let (doubling, part) = (slot as u32 / PARTS, slot as u64 % u64::from(PARTS));
    Duration::from_nanos(((u64::from(PARTS) + part + 1) << doubling) >> PARTS.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_an_eighth_too_long() {
        let clocked = DurationRecorder::default();
        assert_eq!(clocked.times().quantile(0.5), Duration::ZERO);
        (1..=1000).for_each(|us| clocked.add(Duration::from_micros(us)));
        let before = clocked.times();
        for (share, us) in [(0.0, 1), (0.001, 1), (0.5, 500), (0.999, 999), (1.0, 1000)] {
            let found = before.quantile(share).as_nanos() as f64;
            let expected = us as f64 * 1000.0;
            assert!((1.0..=1.13).contains(&(found / expected)), "{share}: {found}, not {expected}");
        }
        [Duration::ZERO, Duration::MAX].into_iter().for_each(|time| clocked.add(time));
        let since = clocked.times().since(&before);
        assert!(since.quantile(0.5) < Duration::from_nanos(20) && since.quantile(1.0).as_secs() > 1000);
        let before = clocked.times();
        clocked.add(Duration::from_secs(1));
        clocked.add_several(Duration::from_micros(5), 99);
        assert!(clocked.times().since(&before).quantile(0.99) < Duration::from_micros(6));
    }
}
