use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Default time from the end of the scan of documents to the end of the search.
const OUTPUT_TIME: Duration = Duration::from_millis(100);

/// Deadlines of a search: one for the scan of documents, and a later one for each later step, so that the
/// documents found so far give a result.
#[derive(Debug, Clone)]
pub struct SearchDeadline {
    scan_end: Instant,
    /// Time after `scan_end` for the later steps together.
    output_time: Duration,
    /// Set when no client is left to answer.
    cancelled: Option<Arc<AtomicBool>>,
    pause: Option<Pause>,
}

/// Callback at points where a search can be interrupted, with the time. It may let other work have the
/// thread's core; it returns true if time has passed meanwhile.
pub type Pause = fn(Instant) -> bool;

/// A step of a search that can take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchStep {
    /// Testing whether documents are visible; without such a test, matching.
    Scan,
    /// Matching of the visible documents.
    Match,
    /// Ranking.
    Rank,
    /// Sorting, grouping, and showing hits.
    Output,
}

impl SearchDeadline {
    /// Ends the scan of documents at an instant, and the later steps 100 ms after it.
    pub fn at(scan_end: Instant) -> Self {
        SearchDeadline { scan_end, output_time: OUTPUT_TIME, cancelled: None, pause: None }
    }

    /// Gives the later steps this time together.
    pub fn with_output_time(self, output_time: Duration) -> Self {
        SearchDeadline { output_time, ..self }
    }

    /// Ends all steps as soon as `cancelled` is set, because there is no client left to answer.
    pub fn or_cancelled(self, cancelled: Arc<AtomicBool>) -> Self {
        SearchDeadline { cancelled: Some(cancelled), ..self }
    }

    /// Calls `pause` between chunks of documents, in every step of a search.
    pub fn pausing_with(self, pause: Pause) -> Self {
        SearchDeadline { pause: Some(pause), ..self }
    }

    /// Pauses, if the search has a callback for it; then returns true if it is time to end a step. Called
    /// between chunks, with nothing locked.
    pub(crate) fn ends(&self, step: SearchStep) -> bool {
        let later = match step {
            SearchStep::Scan => Duration::ZERO,
            SearchStep::Match => self.output_time / 3,
            SearchStep::Rank => self.output_time * 2 / 3,
            SearchStep::Output => self.output_time,
        };
        let is_cancelled =
            || self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed));
        let mut now = Instant::now();
        if self.pause.is_some_and(|pause| pause(now)) {
            now = Instant::now();
        }
        now.checked_duration_since(self.scan_end).is_some_and(|since| since >= later) || is_cancelled()
    }
}
