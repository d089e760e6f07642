//! Status of one document type: its requests and its running reindexing.

use serde::{Deserialize, Serialize};

/// Reindexing status of a document type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReindexStatus {
    /// Generation that last changed indexing statements, if the type has not been marked since.
    pub pending: Option<u64>,
    /// The last request.
    pub ready: Option<ReindexReady>,
    /// The last reindexing that a deployment put into effect.
    pub run: Option<ReindexRun>,
}

/// Mark of a type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReindexReady {
    /// Time of the mark.
    pub ready_ms: u64,
    /// Speed from the next deployment on; 0 to halt.
    pub speed: f64,
}

/// A reindexing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReindexRun {
    /// Time of the mark.
    pub ready_ms: u64,
    /// Speed; 0 if it is halted.
    pub speed: f64,
    /// Generation of the application whose statements it runs; a later one may be used.
    #[serde(default)]
    pub generation: u64,
    /// Time of its first step.
    pub started_ms: Option<u64>,
    /// Time of its end.
    pub ended_ms: Option<u64>,
    /// Position of a single node in its store; unused in a cluster.
    pub position: Option<String>,
    /// Share that is done, 0 to 1.
    pub progress: f64,
    /// Reason for which it waits, if its last step has failed.
    pub failure: Option<ReindexFailure>,
    /// In a cluster, the time that no document of the type was rewritten after, in microseconds, as far as no
    /// mark of a node says so.
    #[serde(default)]
    pub until_us: u64,
}

/// State of a reindexing, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReindexState {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Failed in its last step, which is retried later.
    Failed,
    /// All documents are done.
    Successful,
}

impl ReindexState {
    /// Name in answers to operators.
    pub fn name(self) -> &'static str {
        match self {
            ReindexState::Pending => "pending",
            ReindexState::Running => "running",
            ReindexState::Failed => "failed",
            ReindexState::Successful => "successful",
        }
    }
}

/// Reason and time of a failed step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReindexFailure {
    /// Time of the step.
    pub at_ms: u64,
    /// Reason, for operators.
    pub reason: String,
}

/// Outcome of a step of a single node.
#[derive(Debug, Clone, PartialEq)]
pub enum ReindexStep {
    /// More to do.
    Continued {
        /// Position of the next step.
        position: String,
        /// Share that is done, 0 to 1.
        progress: f64,
    },
    /// All documents are done.
    Completed,
    /// Failed, for this reason; retried later.
    Failed(String),
}

impl ReindexFailure {
    /// True if it is too early for a retry.
    pub(super) fn waits(&self, now_ms: u64, grace_ms: u64) -> bool {
        now_ms.abs_diff(self.at_ms) < grace_ms
    }
}

impl ReindexStatus {
    /// Requests a reindexing.
    pub(super) fn mark(&mut self, now_ms: u64, speed: f64) {
        // Two marks within one instant of the clock are still two.
        let last = self.ready.as_ref().map_or(0, |ready| ready.ready_ms);
        self.ready = Some(ReindexReady { ready_ms: now_ms.max(last + 1), speed });
        self.pending = None;
    }

    /// Puts the request into effect, with this generation of the application.
    pub(super) fn put_into_effect(&mut self, generation: u64) {
        let Some(ready) = &self.ready else { return };
        match &mut self.run {
            Some(run) if run.ready_ms == ready.ready_ms => run.speed = ready.speed,
            before => {
                let until_us = before.as_ref().map_or(0, |run| run.until_us);
                self.run = Some(ReindexRun { until_us, ..ReindexRun::new(ready, generation) });
            }
        }
    }
}

impl ReindexRun {
    fn new(ready: &ReindexReady, generation: u64) -> Self {
        ReindexRun {
            ready_ms: ready.ready_ms,
            speed: ready.speed,
            generation,
            started_ms: None,
            ended_ms: None,
            position: None,
            progress: 0.0,
            failure: None,
            until_us: 0,
        }
    }

    /// State for operators.
    pub fn state(&self) -> ReindexState {
        match (self.ended_ms, &self.failure, self.started_ms) {
            (Some(_), _, _) => ReindexState::Successful,
            (None, Some(_), _) => ReindexState::Failed,
            (None, None, Some(_)) => ReindexState::Running,
            (None, None, None) => ReindexState::Pending,
        }
    }

    /// True if there is something left to do, and it is not halted.
    pub fn is_active(&self) -> bool {
        self.ended_ms.is_none() && self.speed > 0.0
    }

    /// Returns the reindexing if it runs now, and starts it if necessary.
    pub fn running(&mut self, now_ms: u64, grace_ms: u64) -> Option<&ReindexRun> {
        let waits = self.failure.as_ref().is_some_and(|failure| failure.waits(now_ms, grace_ms));
        if !self.is_active() || waits {
            return None;
        }
        self.started_ms.get_or_insert(now_ms);
        Some(self)
    }

    /// Merges the reports of the nodes of a cluster.
    pub(super) fn record_reports(&mut self, started_ms: u64, progress: f64, failure: Option<ReindexFailure>) {
        (self.started_ms, self.progress, self.failure) = (Some(started_ms), progress, failure);
    }

    /// Records that all nodes of a cluster have done their part; the first part began at `started_ms`.
    pub(super) fn end(&mut self, started_ms: u64, now_ms: u64) {
        self.record_reports(started_ms, 0.0, None);
        self.advance(ReindexStep::Completed, now_ms);
    }

    /// Records the outcome of a step.
    pub fn advance(&mut self, step: ReindexStep, now_ms: u64) {
        self.failure = None;
        match step {
            ReindexStep::Continued { position, progress } => {
                self.position = Some(position);
                self.progress = progress;
            }
            ReindexStep::Completed => {
                self.position = None;
                self.progress = 1.0;
                self.ended_ms = Some(now_ms);
            }
            ReindexStep::Failed(reason) => self.failure = Some(ReindexFailure { at_ms: now_ms, reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state as operators see it.
    fn state(status: &ReindexStatus) -> &'static str {
        match (&status.ready, &status.run) {
            (None, _) => "-",
            (Some(ready), Some(run)) if run.ready_ms == ready.ready_ms => run.state().name(),
            (Some(_), _) => "pending",
        }
    }

    fn running(status: &mut ReindexStatus, now_ms: u64, grace_ms: u64) -> Option<&ReindexRun> {
        status.run.as_mut()?.running(now_ms, grace_ms)
    }

    #[test]
    fn a_reindexing_from_mark_to_end() {
        let mut status = ReindexStatus { pending: Some(3), ..ReindexStatus::default() };
        status.put_into_effect(4);
        assert!(running(&mut status, 10, 5).is_none(), "no request asked for it");
        status.mark(10, 1.0);
        assert_eq!((state(&status), status.pending), ("pending", None));
        assert!(running(&mut status, 11, 5).is_none(), "the next deployment begins it");
        status.put_into_effect(4);
        assert_eq!(running(&mut status, 12, 5).map(|run| run.ready_ms), Some(10));
        assert_eq!(state(&status), "running");
        let advance = |status: &mut ReindexStatus, step, now| {
            status.run.as_mut().expect("it was begun").advance(step, now);
        };
        advance(&mut status, ReindexStep::Failed("no".to_owned()), 20);
        assert_eq!(state(&status), "failed");
        assert!(running(&mut status, 24, 5).is_none(), "it waits");
        let position = running(&mut status, 25, 5).map(|run| run.position.clone());
        assert_eq!(position, Some(None), "it goes on where it was");
        advance(&mut status, ReindexStep::Continued { position: "x".to_owned(), progress: 0.5 }, 26);
        assert_eq!(state(&status), "running");
        status.ready.as_mut().expect("it was marked").speed = 0.0;
        assert!(running(&mut status, 27, 5).is_some(), "speeds are set by deployments");
        status.put_into_effect(4);
        assert!(running(&mut status, 27, 5).is_none(), "it is halted");
        status.ready.as_mut().expect("it was marked").speed = 2.0;
        status.put_into_effect(4);
        assert_eq!(running(&mut status, 28, 5).and_then(|run| run.position.clone()).as_deref(), Some("x"));
        advance(&mut status, ReindexStep::Completed, 30);
        assert_eq!(state(&status), "successful");
        assert!(running(&mut status, 31, 5).is_none());
        status.mark(10, 1.0);
        status.put_into_effect(4);
        assert_eq!(running(&mut status, 32, 5).map(|run| (run.ready_ms, run.progress)), Some((11, 0.0)));
    }
}
