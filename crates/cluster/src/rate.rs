use std::time::Duration;

/// How fast data may move: as fast as it can while requests are answered as quickly as without it, less while they are not.
///
/// What is compared is the slowest hundredth of the foreground's requests with what that is while nothing moves, as it was seen most
/// recently. While it is above [`Rate::TOLERANCE`] times that, the rate shrinks by a third at each observation; while it is not, it grows
/// by a fixed step, until there is no limit again.
#[derive(Debug, Clone)]
pub struct Rate {
    cap: Option<u64>,
    limit: Option<u64>,
    baseline: Option<Duration>,
    /// What may be taken now; below 0, what was taken ahead.
    tokens: f64,
    refilled: Duration,
    moved: u64,
    observed: Duration,
}

impl Rate {
    /// How much slower the slowest hundredth may be while data moves.
    pub const TOLERANCE: f64 = 1.2;
    /// Never slower than this, in bytes a second, or data would never arrive.
    pub const FLOOR: u64 = 1 << 20;
    /// At each observation without trouble the rate grows by this many bytes a second.
    const STEP: u64 = 8 << 20;
    /// Above this it has no limit.
    const CEILING: u64 = 4 << 30;
    /// How much may go at once after a pause.
    const BURST: Duration = Duration::from_millis(100);

    /// Without limit, below a cap in bytes a second if there is one.
    pub fn new(cap: Option<u64>) -> Self {
        Rate {
            cap,
            limit: None,
            baseline: None,
            tokens: 0.0,
            refilled: Duration::ZERO,
            moved: 0,
            observed: Duration::ZERO,
        }
    }

    /// From now on, never more than this.
    pub fn set_cap(&mut self, cap: Option<u64>) {
        self.cap = cap;
    }

    /// The slowest hundredth of the foreground's requests since the last observation; `None` where there were too few to tell. To be
    /// called about once a second.
    pub fn observe(&mut self, now: Duration, foreground_p99: Option<Duration>) {
        let span = now.saturating_sub(self.observed).as_secs_f64().max(0.001);
        let moving = (self.moved as f64 / span) as u64;
        self.observed = now;
        self.moved = 0;
        match foreground_p99 {
            None => self.grow(),
            Some(p99) if moving == 0 => {
                // Recent quiet seconds count most; a single slow one does not make all that follow look quick.
                let blend = |before: Duration| (before * 3 + p99.min(before * 4)) / 4;
                self.baseline = Some(self.baseline.map_or(p99, blend));
                self.grow();
            }
            Some(p99) => match self.baseline {
                Some(baseline) if p99 > baseline.mul_f64(Self::TOLERANCE) => {
                    let from = self.limit.unwrap_or(moving).min(moving.max(Self::FLOOR));
                    self.limit = Some((from / 3 * 2).max(Self::FLOOR));
                }
                _ => self.grow(),
            },
        }
    }

    fn grow(&mut self) {
        self.limit =
            self.limit.map(|limit| limit + Self::STEP.max(limit / 16)).filter(|limit| *limit < Self::CEILING);
    }

    /// Bytes a second that may move now; `None`: as fast as can be.
    pub fn limit(&self) -> Option<u64> {
        match (self.limit, self.cap) {
            (Some(limit), Some(cap)) => Some(limit.min(cap)),
            (limit, cap) => limit.or(cap),
        }
    }

    /// Takes leave to move so many bytes, and says how long to wait before they are sent.
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
        let mut rate = Rate::new(None);
        let mut second = 0;
        let mut observe = |rate: &mut Rate, moved: u64, p99: u64| {
            second += 1;
            rate.take(Duration::from_secs(second), moved);
            rate.observe(Duration::from_secs(second), Some(millis(p99)));
            rate.limit()
        };
        assert_eq!(observe(&mut rate, 0, 10), None, "this is the baseline");
        assert_eq!(observe(&mut rate, 600 * MB, 11), None, "within what is tolerated");
        assert_eq!(observe(&mut rate, 600 * MB, 20), Some(400 * MB));
        assert_eq!(observe(&mut rate, 390 * MB, 20), Some(260 * MB), "from what really moved");
        let grown = observe(&mut rate, 260 * MB, 10).expect("a limit");
        assert!(grown > 260 * MB && grown < 300 * MB, "{grown}");
        let mut limit = Some(grown);
        for _ in 0..100 {
            limit = observe(&mut rate, 260 * MB, 10);
        }
        assert_eq!(limit, None);
        for _ in 0..100 {
            limit = observe(&mut rate, 2 * MB, 90);
        }
        assert_eq!(limit, Some(Rate::FLOOR));
    }

    #[test]
    fn a_cap_holds_whatever_the_foreground_does() {
        let mut rate = Rate::new(Some(10 * MB));
        let mut now = Duration::ZERO;
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            let wait = rate.take(now, MB);
            now += wait;
            waited += wait;
        }
        assert!((9.8..=10.0).contains(&waited.as_secs_f64()), "100 MB at 10 MB/s: {waited:?}");
        rate.observe(now, Some(millis(1)));
        assert_eq!(rate.limit(), Some(10 * MB));
        rate.set_cap(None);
        assert_eq!(rate.take(now, 1000 * MB), Duration::ZERO);
    }
}
