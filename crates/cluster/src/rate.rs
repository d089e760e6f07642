use std::time::Duration;

/// Rate of data movement: unlimited while requests are answered as quickly as without it, lower while they
/// are not.
///
/// For each kind of request, the 99th percentile of the foreground's latency is compared with its most recent
/// value while nothing moved. If there are requests, moving begins slowly. While one kind is above
/// [`TransferRateLimiter::TOLERANCE`] times its baseline, the rate shrinks by a third at each observation;
/// while none is, it grows by a quarter, until there is no limit. Without requests there is no limit at once.
/// A latency that stays high when next to nothing moves has other causes: it becomes the baseline from then
/// on. The queue of the device need not be examined: requests that wait in it are slow.
#[derive(Debug, Clone)]
pub struct TransferRateLimiter {
    cap: Option<u64>,
    limit: Option<u64>,
    /// Baseline latency for each kind of request.
    baselines: Vec<Option<Duration>>,
    /// Bytes that may be taken now; negative if bytes were taken in advance.
    tokens: f64,
    refilled: Duration,
    moved: u64,
    observed: Duration,
}

impl TransferRateLimiter {
    /// Permitted ratio of the 99th percentile of a second's requests to its baseline while data moves. It is
    /// somewhat below the limit that is promised for all requests, since an excess is noticed only
    /// afterwards.
    pub const TOLERANCE: f64 = 1.1;
    /// Minimum rate, in bytes per second; without it, data might never arrive.
    pub const FLOOR: u64 = 1 << 20;
    /// Initial rate if there are requests, in bytes per second.
    const BEGINNING: u64 = 16 << 20;
    /// Increment in bytes per second, added to a quarter of the rate at each observation without an excess.
    const STEP: u64 = 4 << 20;
    /// Rate in bytes per second above which there is no limit.
    const CEILING: u64 = 4 << 30;
    /// Latency differences up to this are ignored.
    const SLACK: Duration = Duration::from_micros(100);
    /// Amount that may move at once after a pause, as time at the current rate.
    const BURST: Duration = Duration::from_millis(100);

    /// Creates an unlimited rate, or one below a cap in bytes per second.
    pub fn new(cap: Option<u64>) -> Self {
        TransferRateLimiter {
            cap,
            limit: None,
            baselines: Vec::new(),
            tokens: 0.0,
            refilled: Duration::ZERO,
            moved: 0,
            observed: Duration::ZERO,
        }
    }

    /// Records the 99th percentile of the foreground's latency since the last observation, for each kind of
    /// request, always in the same order; `None` if there were too few requests. To be called about once a
    /// second.
    pub fn observe(&mut self, now: Duration, slowest: &[Option<Duration>]) {
        let span = now.saturating_sub(self.observed).as_secs_f64().max(0.001);
        let moving = (self.moved as f64 / span) as u64;
        self.observed = now;
        self.moved = 0;
        self.baselines.resize(slowest.len(), None);
        let mut suffers = false;
        for (baseline, p99) in self.baselines.iter_mut().zip(slowest) {
            let Some(p99) = *p99 else { continue };
            // Recent seconds count most; a single slow second does not make all following ones look quick.
            let blended = |weight: u32| {
                baseline.map_or(p99, |before| (before * (weight - 1) + p99.min(before * 4)) / weight)
            };
            if moving == 0 {
                *baseline = Some(blended(4));
            } else if baseline.is_some_and(|before| p99 > before.mul_f64(Self::TOLERANCE) + Self::SLACK) {
                suffers = true;
                if self.limit == Some(Self::FLOOR) {
                    *baseline = Some(blended(16));
                }
            }
        }
        if slowest.iter().all(Option::is_none) {
            self.limit = None;
        } else if moving == 0 {
            // The rate that was found is forgotten slowly.
            self.limit =
                Some(self.limit.map_or(Self::BEGINNING, |limit| limit / 8 * 7 + Self::BEGINNING / 8));
        } else if suffers {
            let from = self.limit.unwrap_or(moving).min(moving.max(Self::FLOOR));
            self.limit = Some((from / 3 * 2).max(Self::FLOOR));
        } else {
            self.grow();
        }
    }

    fn grow(&mut self) {
        self.limit =
            self.limit.map(|limit| limit + Self::STEP + limit / 4).filter(|limit| *limit < Self::CEILING);
    }

    /// Current limit in bytes per second; `None` without limit.
    pub fn limit(&self) -> Option<u64> {
        match (self.limit, self.cap) {
            (Some(limit), Some(cap)) => Some(limit.min(cap)),
            (limit, cap) => limit.or(cap),
        }
    }

    /// Reserves bytes to move; returns the time to wait before they are sent.
    pub fn take(&mut self, now: Duration, bytes: u64) -> Duration {
        self.moved += bytes;
        let Some(limit) = self.limit() else {
            self.tokens = 0.0;
            self.refilled = now;
            return Duration::ZERO;
        };
        let limit = limit.max(1) as f64;
        let passed = now.saturating_sub(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        self.tokens = (self.tokens + passed * limit).min(Self::BURST.as_secs_f64() * limit) - bytes as f64;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn it_shrinks_while_the_foreground_suffers_and_grows_back_while_it_does_not() {
        let mut rate = TransferRateLimiter::new(None);
        let mut second = 0;
        let mut observe = |rate: &mut TransferRateLimiter, moved: u64, p99: u64| {
            second += 1;
            rate.take(Duration::from_secs(second), moved);
            rate.observe(Duration::from_secs(second), &[None, Some(millis(p99))]);
            rate.limit()
        };
        assert_eq!(observe(&mut rate, 0, 10), Some(16 * MB), "this is the baseline");
        assert_eq!(observe(&mut rate, 16 * MB, 10), Some(24 * MB), "it begins slowly");
        let mut limit = None;
        for _ in 0..40 {
            limit = observe(&mut rate, 600 * MB, 10);
        }
        assert_eq!(limit, None, "nobody suffers");
        assert_eq!(observe(&mut rate, 600 * MB, 11), None, "within what is tolerated");
        assert_eq!(observe(&mut rate, 600 * MB, 20), Some(400 * MB));
        assert_eq!(observe(&mut rate, 390 * MB, 20), Some(260 * MB), "from what really moved");
        let grown = observe(&mut rate, 260 * MB, 10).expect("a limit");
        assert!(grown > 260 * MB && grown < 400 * MB, "{grown}");
        for _ in 0..20 {
            limit = observe(&mut rate, 2 * MB, 90);
        }
        assert_eq!(limit, Some(TransferRateLimiter::FLOOR));
        for _ in 0..100 {
            limit = observe(&mut rate, MB, 90);
        }
        assert_eq!(limit, None, "it is slow for other reasons");
    }

    #[test]
    fn one_kind_of_request_that_suffers_is_enough() {
        let mut rate = TransferRateLimiter::new(None);
        let mut observe = |second: u64, moved: u64, slowest: [Option<u64>; 2]| {
            rate.take(Duration::from_secs(second), moved);
            rate.observe(Duration::from_secs(second), &slowest.map(|p99| p99.map(millis)));
            rate.limit()
        };
        assert_eq!(observe(1, 0, [Some(5), Some(50)]), Some(16 * MB));
        assert_eq!(observe(2, 300 * MB, [None, None]), None, "nobody asks");
        assert_eq!(observe(3, 300 * MB, [Some(9), Some(50)]), Some(200 * MB));
        assert!(observe(4, 200 * MB, [Some(5), Some(70)]) < Some(200 * MB));
        assert!(observe(5, 100 * MB, [Some(5), None]) > Some(100 * MB));
    }

    #[test]
    fn a_cap_holds_whatever_the_foreground_does() {
        let mut rate = TransferRateLimiter::new(Some(10 * MB));
        let mut now = Duration::ZERO;
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            let wait = rate.take(now, MB);
            now += wait;
            waited += wait;
        }
        assert!((9.8..=10.0).contains(&waited.as_secs_f64()), "100 MB at 10 MB/s: {waited:?}");
        rate.observe(now, &[Some(millis(1))]);
        assert_eq!(rate.limit(), Some(10 * MB));
        rate.cap = None;
        assert_eq!(rate.take(now, 1000 * MB), Duration::ZERO);
    }
}
