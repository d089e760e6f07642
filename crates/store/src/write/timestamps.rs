use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millrace_document::Timestamp;
use millrace_env::WallClock;

use crate::Error;

/// A hybrid logical clock: gives timestamps that follow the machine's clock, ascend strictly, and are above
/// every one that the data directory has seen, even when the machine's clock steps back.
pub(crate) struct TimestampSource {
    clock: Arc<dyn WallClock>,
    last: AtomicU64,
    /// True once it was logged that another clock is ahead.
    has_warned: AtomicBool,
}

/// Maximum time that another clock may be ahead: later timestamps are refused.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(3600);
/// Time that another clock is ahead from which on this is logged, once.
const AHEAD_WARNED: Duration = Duration::from_secs(10);

impl TimestampSource {
    /// Creates a clock whose timestamps are above `seen`.
    pub fn new(clock: Arc<dyn WallClock>, seen: Timestamp) -> Self {
        let timestamps =
            TimestampSource { clock, last: AtomicU64::new(seen.0), has_warned: AtomicBool::new(false) };
        if let Err(error) = timestamps.check(seen) {
            tracing::warn!(%error, "the data directory has timestamps from the future; new ones are above them");
        }
        timestamps
    }

    /// A timestamp above all before.
    pub fn next(&self) -> Timestamp {
        Timestamp(self.next_several(1).start)
    }

    /// So many timestamps, one after another, above all before.
    pub fn next_several(&self, count: usize) -> Range<u64> {
        let now = self.clock.now_us();
        let from = |last: u64| now.max(last.saturating_add(1));
        let to = |last: u64| from(last).saturating_add(count as u64);
        let step = |last: u64| Some(to(last) - 1);
        let last =
            self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap_or_else(|last| last);
        from(last)..to(last)
    }

    /// Every timestamp from now on is above this one, which another clock has given.
    ///
    /// # Errors
    /// Those of [`TimestampSource::check`].
    pub fn see(&self, timestamp: Timestamp) -> Result<(), Error> {
        self.check(timestamp)?;
        self.accept(timestamp);
        Ok(())
    }

    /// Refuses a timestamp of another clock that is more than [`AHEAD_MAX`] ahead of this machine's. A store
    /// that took it would give no earlier ones from then on, pass it on to the nodes it talks to, and forget
    /// removals of that time only long after it.
    ///
    /// # Errors
    /// [`Error::ClockAhead`].
    pub fn check(&self, timestamp: Timestamp) -> Result<(), Error> {
        let ahead = Duration::from_micros(timestamp.0.saturating_sub(self.clock.now_us()));
        if ahead > AHEAD_MAX {
            return Err(Error::ClockAhead { ahead_s: ahead.as_secs(), limit_s: AHEAD_MAX.as_secs() });
        }
        if ahead > AHEAD_WARNED && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ahead_s = ahead.as_secs(),
                limit_s = AHEAD_MAX.as_secs(),
                "another machine's clock is ahead of this one's; beyond the limit its writes are refused"
            );
        }
        Ok(())
    }

    /// [`TimestampSource::see`] for a timestamp that was checked.
    pub fn accept(&self, timestamp: Timestamp) {
        self.last.fetch_max(timestamp.0, Ordering::SeqCst);
    }

    /// The last one given or seen.
    pub fn last(&self) -> Timestamp {
        Timestamp(self.last.load(Ordering::SeqCst))
    }

    /// The machine's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_us())
    }
}

#[cfg(test)]
mod tests {
    use millrace_env::ManualClock;

    use super::*;

    #[test]
    fn timestamps_follow_the_clock_and_are_above_all_before() {
        let clock = Arc::new(ManualClock::new(100));
        let source = TimestampSource::new(Arc::clone(&clock) as Arc<dyn WallClock>, Timestamp(7));
        assert_eq!(source.next(), Timestamp(100));
        assert_eq!(source.next_several(3), 101..104);
        assert!(source.next_several(0).is_empty());
        assert_eq!(source.next(), Timestamp(104), "none is left out");
        clock.set(50);
        assert_eq!(source.next_several(2), 105..107, "the clock was set back");
        source.accept(Timestamp(200));
        assert_eq!(source.next_several(2), 201..203);
        clock.set(1000);
        assert_eq!((source.next_several(2), source.last()), (1000..1002, Timestamp(1001)));
    }
}
