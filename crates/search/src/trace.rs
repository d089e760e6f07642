use std::time::{Duration, Instant};

/// Times of the parts of a search over the documents of one schema, and how many documents they concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchTrace {
    /// Evaluation of the selection.
    pub select: Duration,
    /// Evaluation of the predicates of the query.
    pub matching: Duration,
    /// Ranking, or sorting.
    pub order: Duration,
    /// Collection of groups.
    pub group: Duration,
    /// Filling hits, including features.
    pub summary: Duration,
    /// Number of live documents searched.
    pub documents: u64,
    /// Number of those that the query matches.
    pub matched: u64,
}

/// Stopwatch that is read at the end of each part.
pub(crate) struct StepStopwatch(Instant);

impl StepStopwatch {
    pub(crate) fn start() -> Self {
        StepStopwatch(Instant::now())
    }

    /// Time since the last reading.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.0;
        self.0 = now;
        lap
    }
}
