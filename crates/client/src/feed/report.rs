use std::time::{Duration, Instant};

use millrace_document::json::FeedPosition;

use crate::Error;

/// Progress of a feed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeedProgress {
    /// Number of operations that the node executed.
    pub done: u64,
    /// Number of puts among them of documents without a group.
    pub without_group: u64,
    /// Number of operations on documents that the selections of all content clusters reject: the node ignored
    /// them.
    pub ignored: u64,
    /// Number of operations whose condition was not met.
    pub condition_not_met: u64,
    /// Number of operations that failed permanently.
    pub failed: u64,
    /// Number of repeated attempts.
    pub retried: u64,
    /// Number of bytes read from the feed.
    pub read_bytes: u64,
    /// Number of bytes of finished operations.
    pub sent_bytes: u64,
    /// Number of operations in flight.
    pub in_flight: usize,
    /// Current limit on operations in flight.
    pub window: usize,
}

/// An operation that failed permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedFailure {
    /// The file, or `standard input`.
    pub input: String,
    /// Position of the error, or the start of the operation.
    pub position: FeedPosition,
    /// Document id; empty if it could not be read.
    pub id: String,
    /// HTTP status; 0 without a response.
    pub status: u16,
    /// Cause of the failure.
    pub message: String,
}

/// The reason for ending a feed early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStop {
    /// Input that cannot be read from this position on.
    Unreadable(FeedPosition),
    /// An operation failed, and the options say to stop.
    AtFailure,
    /// The node was unreachable for the whole retry time.
    NodeAway,
}

/// Times of the operations that the node has answered, executed or not: mean and maximum are of the same
/// ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FeedLatencies {
    operations: u64,
    sum: Duration,
    max: Duration,
}

impl FeedLatencies {
    /// Counts operations that were answered after this time.
    pub(super) fn add(&mut self, latency: Duration, operations: u64) {
        let times = u32::try_from(operations).unwrap_or(u32::MAX);
        self.operations += operations;
        self.sum = self.sum.saturating_add(latency.saturating_mul(times));
        self.max = self.max.max(latency);
    }

    fn mean(&self) -> Duration {
        let nanos = self.sum.as_nanos() / u128::from(self.operations.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Times of a feed.
pub(super) struct FeedTimes {
    pub(super) started: Instant,
    pub(super) latencies: FeedLatencies,
}

/// Result of a feed.
#[derive(Debug, Clone, Default)]
pub struct FeedReport {
    /// Final counts.
    pub progress: FeedProgress,
    /// The first failures; [`FeedProgress::failed`] is their total number.
    pub failures: Vec<FeedFailure>,
    /// Position and document of the first ignored operation.
    pub first_ignored: Option<(FeedPosition, String)>,
    /// The reason for ending early, if it did.
    pub stop: Option<FeedStop>,
    /// Time from the first operation to the last response.
    pub elapsed: Duration,
    /// Mean time of an operation from sending to its response, if it has one.
    pub latency_mean: Duration,
    /// Maximum time of these.
    pub latency_max: Duration,
}

impl FeedReport {
    /// Maximum number of failures kept.
    pub(super) const FAILURES_MAX: usize = 100;

    /// Counts a permanent failure, and keeps it if it is one of the first.
    pub(super) fn fail(&mut self, failure: FeedFailure) {
        self.progress.failed += 1;
        if self.failures.len() < FeedReport::FAILURES_MAX {
            self.failures.push(failure);
        }
    }

    /// The report of a feed that has ended. `unreadable` is the reason why its input was not read to the end.
    ///
    /// # Errors
    /// Nothing could be read: the input is not a feed.
    pub(super) fn ended(
        mut self,
        input: &str,
        unreadable: Option<String>,
        times: FeedTimes,
    ) -> Result<Self, Error> {
        self.failures.sort_by_key(|failure| failure.position.offset);
        self.elapsed = times.started.elapsed();
        let FeedProgress { done, ignored, condition_not_met, failed, .. } = self.progress;
        let answered = done + ignored + condition_not_met;
        self.latency_mean = times.latencies.mean();
        self.latency_max = times.latencies.max;
        match (unreadable, self.stop) {
            (Some(reason), Some(FeedStop::Unreadable(position))) if answered == 0 && failed == 1 => {
                Err(Error::Feed { input: input.to_owned(), position, reason })
            }
            _ => Ok(self),
        }
    }

    /// Executed operations per second.
    pub fn rate(&self) -> f64 {
        self.progress.done as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_mean_is_of_all_that_the_maximum_is_of() {
        let mut latencies = FeedLatencies::default();
        assert_eq!((latencies.mean(), latencies.max), (Duration::ZERO, Duration::ZERO));
        latencies.add(6 * MS, 2);
        latencies.add(3 * MS, 1);
        assert_eq!((latencies.mean(), latencies.max), (5 * MS, 6 * MS));
    }

    /// The times of a feed that executed hardly anything are those of its answers, too.
    #[test]
    fn refused_operations_have_times() {
        let progress = FeedProgress { done: 1, ..FeedProgress::default() };
        let mut report = FeedReport { progress, ..FeedReport::default() };
        let mut latencies = FeedLatencies::default();
        latencies.add(MS, 1);
        for line in 2..=100 {
            let position = FeedPosition { line, ..FeedPosition::default() };
            let (input, id, message) = (String::new(), String::new(), "refused".to_owned());
            report.fail(FeedFailure { input, position, id, status: 403, message });
            latencies.add(MS, 1);
        }
        let times = FeedTimes { started: Instant::now(), latencies };
        let report = report.ended("a feed", None, times).expect("it was read to the end");
        assert_eq!(report.progress.failed, 99);
        assert_eq!((report.latency_mean, report.latency_max), (MS, MS));
    }
}
