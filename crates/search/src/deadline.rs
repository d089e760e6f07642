use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Default time from the end of looking at documents to the end of the search.
const MERGE_RESERVE: Duration = Duration::from_millis(100);

/// Deadlines of a search: one for looking at documents, and a later one for each later step, so that the
/// documents found so far give a result.
#[derive(Debug, Clone)]
pub struct SearchDeadline {
    looking: Instant,
    /// From then on, for the later steps together.
    rest: Duration,
    lost: Option<Arc<AtomicBool>>,
    pause: Option<Pause>,
}

/// Callback at points where a search can be interrupted, with the time. It may let other work have the
/// thread's core; it returns true if time has passed meanwhile.
pub type Pause = fn(Instant) -> bool;

/// A step of a search that can take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchStep {
    /// Testing if documents are seen, or, if all are, if they match.
    Look,
    /// Matching those that are seen.
    Match,
    /// Ranking.
    Rank,
    /// Sorting, grouping, and showing hits.
    PutTogether,
}

impl SearchDeadline {
    /// Documents are looked at until an instant.
    pub fn at(looking: Instant) -> Self {
        SearchDeadline { looking, rest: MERGE_RESERVE, lost: None, pause: None }
    }

    /// The later steps take no longer than this together.
    pub fn with_rest(self, rest: Duration) -> Self {
        SearchDeadline { rest, ..self }
    }

    /// Ends also as soon as `lost` is set, because there is no client left to answer.
    pub fn or_when(self, lost: Arc<AtomicBool>) -> Self {
        SearchDeadline { lost: Some(lost), ..self }
    }

    /// Calls `pause` between chunks of documents, in every step of a search.
    pub fn pausing_with(self, pause: Pause) -> Self {
        SearchDeadline { pause: Some(pause), ..self }
    }

    /// Pauses, where that is asked for; then says if it is time to stop with a step. Called between chunks,
    /// with nothing locked.
    pub(crate) fn ends(&self, step: SearchStep) -> bool {
        let later = match step {
            SearchStep::Look => Duration::ZERO,
            SearchStep::Match => self.rest / 3,
            SearchStep::Rank => self.rest * 2 / 3,
            SearchStep::PutTogether => self.rest,
        };
        let is_lost = || self.lost.as_ref().is_some_and(|lost| lost.load(Ordering::Relaxed));
        let mut now = Instant::now();
        if self.pause.is_some_and(|pause| pause(now)) {
            now = Instant::now();
        }
        now.checked_duration_since(self.looking).is_some_and(|since| since >= later) || is_lost()
    }
}
