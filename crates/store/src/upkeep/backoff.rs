//! Exponential backoff of work on buckets: one is left alone for a while after work on it failed or had no
//! effect.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_bucket::BucketId;
use parking_lot::Mutex;

/// First pause of a bucket; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Buckets that are left alone.
#[derive(Default)]
pub(crate) struct BucketBackoff {
    paused: Mutex<BTreeMap<BucketId, BucketPause>>,
}

/// Start and duration of a bucket's pause.
#[derive(Clone, Copy)]
struct BucketPause {
    since_us: u64,
    length: Duration,
}

impl BucketBackoff {
    /// True if work on this bucket should not be tried now. A clock that was set back ends the pause.
    pub fn pauses(&self, bucket: BucketId, now_us: u64) -> bool {
        let paused = self.paused.lock();
        paused.get(&bucket).is_some_and(|pause| {
            let until = pause.since_us.saturating_add(pause.length.as_micros() as u64);
            (pause.since_us..until).contains(&now_us)
        })
    }

    /// Records that work on this bucket did not succeed: it is left alone, longer each time.
    pub fn record_failure(&self, bucket: BucketId, now_us: u64) {
        let mut paused = self.paused.lock();
        let length = match paused.get(&bucket) {
            Some(before) => (before.length * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        paused.insert(bucket, BucketPause { since_us: now_us, length });
    }

    /// Records that work on this bucket succeeded: the next pause is a first one again.
    pub fn record_success(&self, bucket: BucketId) {
        self.paused.lock().remove(&bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_work_succeeds() {
        const SECOND: u64 = 1_000_000;
        let backoff = BucketBackoff::default();
        let bucket = BucketId::ROOT;
        assert!(!backoff.pauses(bucket, 0));
        let mut now = 100 * SECOND;
        for length in [5, 10, 20, 40] {
            backoff.record_failure(bucket, now);
            assert!(backoff.pauses(bucket, now + (length - 1) * SECOND), "{length}");
            assert!(!backoff.pauses(bucket, now - 1), "{length}: the clock was set back");
            now += length * SECOND;
            assert!(!backoff.pauses(bucket, now), "{length}");
        }
        (0..20).for_each(|_| backoff.record_failure(bucket, now));
        assert!(!backoff.pauses(bucket, now + 3600 * SECOND), "no pause is longer than an hour");
        backoff.record_success(bucket);
        backoff.record_failure(bucket, now);
        assert!(!backoff.pauses(bucket, now + 5 * SECOND));
    }
}
