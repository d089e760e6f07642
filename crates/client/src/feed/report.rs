use std::time::Duration;

use millrace_document::json::Place;

/// How far a feed is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Operations that the node carried out.
    pub done: u64,
    /// Of these, puts of documents without a group.
    pub without_group: u64,
    /// Operations on documents that the selections of all content clusters refuse: the node passed them over.
    pub ignored: u64,
    /// Operations whose condition did not hold.
    pub condition_not_met: u64,
    /// Operations that failed for good.
    pub failed: u64,
    /// Attempts that were made again.
    pub retried: u64,
    /// Bytes of the feed that were read.
    pub read_bytes: u64,
    /// Bytes of operations sent and answered.
    pub sent_bytes: u64,
    /// Operations under way.
    pub in_flight: usize,
    /// How many may be under way now.
    pub window: usize,
}

/// An operation that failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The file, or `standard input`.
    pub input: String,
    /// What is wrong there, or where the operation begins.
    pub place: Place,
    /// The document; empty where it could not be read.
    pub id: String,
    /// The HTTP status; 0 where there was no answer.
    pub status: u16,
    /// Why.
    pub message: String,
}

/// Why the rest of a feed was not fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It cannot be read from there on.
    Unreadable(Place),
    /// An operation failed, and was to be the last.
    AtFailure,
    /// The node was away for as long as operations are tried again.
    NodeAway,
}

/// How a feed went.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The counts at the end.
    pub progress: Progress,
    /// The first failures; [`Progress::failed`] tells how many there were.
    pub failures: Vec<Failure>,
    /// The first operation that was ignored: its place, and its document.
    pub first_ignored: Option<(Place, String)>,
    /// Why it ended before its end.
    pub stop: Option<Stop>,
    /// From the first operation to the last answer.
    pub elapsed: Duration,
    /// The mean time of an operation from sending to its answer.
    pub latency_mean: Duration,
    /// The longest.
    pub latency_max: Duration,
}

impl Report {
    /// Failures are kept up to this number.
    pub(super) const FAILURES_MAX: usize = 100;

    /// Operations carried out in a second.
    pub fn rate(&self) -> f64 {
        self.progress.done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}
