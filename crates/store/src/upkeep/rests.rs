//! Buckets that are left alone for a while, since work on them failed or had no effect.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_bucket::BucketId;
use parking_lot::Mutex;

/// First rest of a bucket; each further one is twice as long.
const REST_FIRST: Duration = Duration::from_secs(5);
/// Maximum rest.
const REST_LONGEST: Duration = Duration::from_secs(3600);

/// Resting buckets.
#[derive(Default)]
pub(crate) struct BucketBackoff {
    resting: Mutex<BTreeMap<BucketId, BucketRest>>,
}

/// Start and duration of a bucket's rest.
#[derive(Clone, Copy)]
struct BucketRest {
    since_us: u64,
    length: Duration,
}

impl BucketBackoff {
    /// True if work on this bucket should not be tried now. A clock that was set back ends the rest.
    pub fn rests(&self, bucket: BucketId, now_us: u64) -> bool {
        let resting = self.resting.lock();
        resting.get(&bucket).is_some_and(|rest| {
            let until = rest.since_us.saturating_add(rest.length.as_micros() as u64);
            (rest.since_us..until).contains(&now_us)
        })
    }

    /// Records that work on this bucket did not succeed: it rests, longer each time.
    pub fn rest(&self, bucket: BucketId, now_us: u64) {
        let mut resting = self.resting.lock();
        let length = match resting.get(&bucket) {
            Some(before) => (before.length * 2).min(REST_LONGEST),
            None => REST_FIRST,
        };
        resting.insert(bucket, BucketRest { since_us: now_us, length });
    }

    /// Records that work on this bucket succeeded: the next rest is a first one again.
    pub fn forget(&self, bucket: BucketId) {
        self.resting.lock().remove(&bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_until_work_comes_through() {
        const SECOND: u64 = 1_000_000;
        let rests = BucketBackoff::default();
        let bucket = BucketId::ROOT;
        assert!(!rests.rests(bucket, 0));
        let mut now = 100 * SECOND;
        for length in [5, 10, 20, 40] {
            rests.rest(bucket, now);
            assert!(rests.rests(bucket, now + (length - 1) * SECOND), "{length}");
            assert!(!rests.rests(bucket, now - 1), "{length}: the clock was set back");
            now += length * SECOND;
            assert!(!rests.rests(bucket, now), "{length}");
        }
        (0..20).for_each(|_| rests.rest(bucket, now));
        assert!(!rests.rests(bucket, now + 3600 * SECOND), "no rest is longer than an hour");
        rests.forget(bucket);
        rests.rest(bucket, now);
        assert!(!rests.rests(bucket, now + 5 * SECOND));
    }
}
