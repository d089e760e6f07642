use std::time::{Duration, Instant};

/// Where the time of a search went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trace {
    /// Narrowing down to what the selection takes.
    pub select: Duration,
    /// Finding what matches.
    pub matching: Duration,
    /// Ranking, or sorting.
    pub order: Duration,
    /// Grouping.
    pub group: Duration,
    /// Filling hits, features included.
    pub summary: Duration,
    /// Live documents that were looked at.
    pub documents: u64,
    /// Documents that matched.
    pub matched: u64,
}

/// A watch that is read at the end of each part.
pub(crate) struct Watch(Instant);

impl Watch {
    pub(crate) fn start() -> Self {
        Watch(Instant::now())
    }

    /// The time since it was last read.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.0;
        self.0 = now;
        lap
    }
}
