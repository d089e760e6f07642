//! One document type: what was asked for, and what is under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Step;

/// How the reindexing of a document type stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Status {
    /// The generation that last changed indexing statements, where nobody has marked the type since.
    pub(super) pending: Option<u64>,
    /// What was asked for last.
    pub(super) ready: Option<Ready>,
    /// The last reindexing that a deployment put into effect.
    pub(super) run: Option<Run>,
}

/// That a type was marked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ready {
    ready_ms: u64,
    pub(super) speed: f64,
}

/// A reindexing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// When it was marked.
    pub(super) ready_ms: u64,
    /// 0: it is halted.
    pub(super) speed: f64,
    started_ms: Option<u64>,
    pub(super) ended_ms: Option<u64>,
    pub(super) position: Option<String>,
    pub(super) progress: f64,
    failure: Option<Failure>,
}

/// Why and when a step failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Failure {
    at_ms: u64,
    reason: String,
}

impl Status {
    /// Asks for a reindexing.
    pub(super) fn mark(&mut self, now_ms: u64, speed: f64) {
        // Two marks within one instant of the clock are still two.
        let last = self.ready.as_ref().map_or(0, |ready| ready.ready_ms);
        self.ready = Some(Ready { ready_ms: now_ms.max(last + 1), speed });
        self.pending = None;
    }

    /// What was asked for counts from now on.
    pub(super) fn put_into_effect(&mut self) {
        let Some(ready) = &self.ready else { return };
        match &mut self.run {
            Some(run) if run.ready_ms == ready.ready_ms => run.speed = ready.speed,
            _ => self.run = Some(Run::new(ready)),
        }
    }

    /// The reindexing that goes on now, begun if it was not.
    pub(super) fn running(&mut self, now_ms: u64, grace_ms: u64) -> Option<&Run> {
        let run = self.run.as_mut()?;
        let waits = run.failure.as_ref().is_some_and(|failure| now_ms.abs_diff(failure.at_ms) < grace_ms);
        if run.ended_ms.is_some() || run.speed == 0.0 || waits {
            return None;
        }
        run.started_ms.get_or_insert(now_ms);
        Some(run)
    }

    fn render(&self) -> Option<Value> {
        let ready = self.ready.as_ref()?;
        let mut shown = Map::new();
        shown.insert("readyMillis".to_owned(), json!(ready.ready_ms));
        let state = match &self.run {
            Some(run) if run.ready_ms == ready.ready_ms => run.render(&mut shown),
            _ => "pending",
        };
        shown.insert("state".to_owned(), json!(state));
        shown.insert("speed".to_owned(), json!(ready.speed));
        Some(Value::Object(shown))
    }
}

impl Run {
    fn new(ready: &Ready) -> Self {
        Run {
            ready_ms: ready.ready_ms,
            speed: ready.speed,
            started_ms: None,
            ended_ms: None,
            position: None,
            progress: 0.0,
            failure: None,
        }
    }

    /// Notes what came of a step.
    pub(super) fn advance(&mut self, step: Step, now_ms: u64) {
        self.failure = None;
        match step {
            Step::GoesOn { position, progress } => {
                self.position = Some(position);
                self.progress = progress;
            }
            Step::Ends => {
                self.position = None;
                self.progress = 1.0;
                self.ended_ms = Some(now_ms);
            }
            Step::Fails(reason) => self.failure = Some(Failure { at_ms: now_ms, reason }),
        }
    }

    /// Adds what there is to tell; answers the state.
    fn render(&self, shown: &mut Map<String, Value>) -> &'static str {
        if let Some(started) = self.started_ms {
            shown.insert("startedMillis".to_owned(), json!(started));
        }
        if let Some(ended) = self.ended_ms {
            shown.insert("endedMillis".to_owned(), json!(ended));
            return "successful";
        }
        if self.started_ms.is_some() {
            shown.insert("progress".to_owned(), json!(self.progress));
        }
        match (&self.failure, self.started_ms) {
            (Some(failure), _) => {
                shown.insert("message".to_owned(), json!(failure.reason));
                "failed"
            }
            (None, Some(_)) => "running",
            (None, None) => "pending",
        }
    }
}

/// The types of a cluster.
pub(super) fn render(types: &BTreeMap<Arc<str>, Status>) -> Value {
    let mut pending = Map::new();
    let mut ready = Map::new();
    for (name, status) in types {
        if let Some(generation) = status.pending {
            pending.insert(name.to_string(), json!(generation));
        }
        if let Some(shown) = status.render() {
            ready.insert(name.to_string(), shown);
        }
    }
    json!({ "pending": pending, "ready": ready })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: &Status) -> String {
        status.render().map_or("-".to_owned(), |shown| shown["state"].as_str().unwrap_or("?").to_owned())
    }

    #[test]
    fn a_reindexing_from_mark_to_end() {
        let mut status = Status { pending: Some(3), ..Status::default() };
        status.put_into_effect();
        assert!(status.running(10, 5).is_none(), "nobody asked for it");
        status.mark(10, 1.0);
        assert_eq!((state(&status).as_str(), status.pending), ("pending", None));
        assert!(status.running(11, 5).is_none(), "the next deployment begins it");
        status.put_into_effect();
        assert_eq!(status.running(12, 5).map(|run| run.ready_ms), Some(10));
        assert_eq!(state(&status), "running");
        let advance = |status: &mut Status, step, now| {
            status.run.as_mut().expect("it was begun").advance(step, now);
        };
        advance(&mut status, Step::Fails("no".to_owned()), 20);
        assert_eq!(state(&status), "failed");
        assert!(status.running(24, 5).is_none(), "it waits");
        let position = status.running(25, 5).map(|run| run.position.clone());
        assert_eq!(position, Some(None), "it goes on where it was");
        advance(&mut status, Step::GoesOn { position: "x".to_owned(), progress: 0.5 }, 26);
        assert_eq!(state(&status), "running");
        status.ready.as_mut().expect("it was marked").speed = 0.0;
        assert!(status.running(27, 5).is_some(), "speeds are set by deployments");
        status.put_into_effect();
        assert!(status.running(27, 5).is_none(), "it is halted");
        status.ready.as_mut().expect("it was marked").speed = 2.0;
        status.put_into_effect();
        assert_eq!(status.running(28, 5).and_then(|run| run.position.clone()).as_deref(), Some("x"));
        advance(&mut status, Step::Ends, 30);
        assert_eq!(state(&status), "successful");
        assert!(status.running(31, 5).is_none());
        status.mark(10, 1.0);
        status.put_into_effect();
        assert_eq!(status.running(32, 5).map(|run| (run.ready_ms, run.progress)), Some((11, 0.0)));
    }
}
