use millrace_document::Timestamp;

/// A hybrid logical clock: follows the machine's clock, increases strictly, and stays above every observed
/// timestamp.
#[derive(Debug, Default)]
pub(crate) struct HybridClock {
    last: Timestamp,
}

impl HybridClock {
    /// Returns a timestamp above all earlier ones.
    pub fn next(&mut self, wall_us: u64) -> Timestamp {
        let next = self.peek(wall_us);
        assert!(next > self.last, "timestamps are at their end: some clock was far in the future");
        self.last = next;
        next
    }

    /// The timestamp that [`HybridClock::next`] would return.
    pub fn peek(&self, wall_us: u64) -> Timestamp {
        Timestamp(wall_us.max(self.last.0.saturating_add(1)))
    }

    /// The last timestamp returned or observed.
    pub fn last(&self) -> Timestamp {
        self.last
    }

    /// Makes later timestamps greater than `seen`.
    pub fn observe(&mut self, seen: Timestamp) {
        self.last = self.last.max(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_ascend_when_the_machines_clock_steps_back_and_stay_above_what_was_seen() {
        let mut clock = HybridClock::default();
        assert_eq!(clock.next(100), Timestamp(100));
        assert_eq!(clock.next(40), Timestamp(101));
        clock.observe(Timestamp(500));
        assert_eq!(clock.next(120), Timestamp(501));
        clock.observe(Timestamp(2));
        assert_eq!(clock.next(600), Timestamp(600));
    }
}
