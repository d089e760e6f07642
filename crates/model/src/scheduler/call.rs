//! Callers that wait for states, and the runs that compute them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Error, ModelCaller, SequenceStates};

/// Interval between calls of a caller's `stop`.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Work that one caller waits for.
pub(super) struct SequenceCall {
    deadline: Option<Instant>,
    gone: Arc<AtomicBool>,
    /// Set when the caller itself stopped waiting.
    left: AtomicBool,
    progress: Mutex<CallProgress>,
    changed: Condvar,
}

struct CallProgress {
    results: Vec<Option<Result<SequenceStates, Error>>>,
    missing: usize,
    /// Runs in progress for this call.
    runs: Vec<Weak<ModelRun>>,
}

impl SequenceCall {
    pub fn new(sequences: usize, caller: &ModelCaller) -> Self {
        SequenceCall {
            deadline: caller.deadline,
            gone: Arc::clone(&caller.gone),
            left: AtomicBool::new(false),
            progress: Mutex::new(CallProgress {
                results: (0..sequences).map(|_| None).collect(),
                missing: sequences,
                runs: Vec::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallProgress> {
        // Code that holds this lock cannot panic.
        self.progress.lock()
    }

    /// True if no caller waits any more.
    pub fn abandoned(&self) -> bool {
        self.left.load(Ordering::SeqCst)
            || self.gone.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub fn finish(&self, at: usize, result: Result<SequenceStates, Error>) {
        let mut progress = self.lock();
        if progress.results[at].replace(result).is_none() {
            progress.missing -= 1;
        }
        if progress.missing == 0 {
            self.changed.notify_one();
        }
    }

    /// Waits for all results, until the deadline, or until `stop` says yes, which is asked now and then.
    /// `stop` may take long: nothing is locked while it is asked, so that runs can end.
    pub fn wait(&self, model: &str, stop: Option<&dyn Fn() -> bool>) -> Result<Vec<SequenceStates>, Error> {
        let mut progress = self.lock();
        while progress.missing > 0 {
            let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            drop(progress);
            let is_over = left.is_some_and(|left| left.is_zero()) || stop.is_some_and(|stop| stop());
            progress = self.lock();
            if progress.missing == 0 {
                break;
            }
            if is_over {
                self.left.store(true, Ordering::SeqCst);
                let runs = std::mem::take(&mut progress.runs);
                drop(progress);
                runs.iter().filter_map(Weak::upgrade).for_each(|run| run.interrupt_if_abandoned());
                return Err(Error::Deadline { model: model.to_owned() });
            }
            let nap = stop.map(|_| STOP_POLL_INTERVAL).into_iter().chain(left).min();
            match nap {
                None => self.changed.wait(&mut progress),
                Some(nap) => {
                    self.changed.wait_for(&mut progress, nap);
                }
            }
        }
        let results = std::mem::take(&mut progress.results);
        drop(progress);
        match results.into_iter().flatten().collect() {
            // The scheduler noticed first that the deadline passed.
            Err(Error::Abandoned { model }) if self.deadline.is_some_and(|at| Instant::now() >= at) => {
                Err(Error::Deadline { model })
            }
            other => other,
        }
    }
}

/// A run in progress.
pub(super) struct ModelRun {
    calls: Vec<Arc<SequenceCall>>,
    pub grant: RunGrant,
}

impl ModelRun {
    pub fn begin<'a>(calls: impl Iterator<Item = &'a Arc<SequenceCall>>, spread: bool) -> Arc<Self> {
        let run = Arc::new(ModelRun { calls: calls.cloned().collect(), grant: RunGrant::new(spread) });
        for call in &run.calls {
            call.lock().runs.push(Arc::downgrade(&run));
        }
        run
    }

    fn interrupt_if_abandoned(&self) {
        if self.calls.iter().all(|call| call.abandoned()) {
            self.grant.interrupt.raise();
        }
    }
}

/// Permissions of a run.
#[derive(Default)]
pub struct RunGrant {
    spread: bool,
    spent: Mutex<RunCost>,
    interrupt: RunInterrupt,
}

/// Resources used by a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunCost {
    /// Number of threads available to it.
    pub threads: usize,
    /// Time inside ONNX Runtime.
    pub inside: Duration,
}

impl RunGrant {
    /// Creates the permissions of a run that may spread over idle cores, or must stay on its own thread.
    pub fn new(spread: bool) -> Self {
        RunGrant { spread, ..RunGrant::default() }
    }

    /// Creates the permissions of a run that may spread over idle cores.
    pub fn spreading() -> Self {
        RunGrant::new(true)
    }

    /// True if the run may spread over idle cores.
    pub fn spreads(&self) -> bool {
        self.spread
    }

    /// Signals that no caller waits for the run.
    pub fn interrupt(&self) -> &RunInterrupt {
        &self.interrupt
    }

    /// Records the resources used by a call of ONNX Runtime.
    pub(crate) fn note(&self, threads: usize, inside: Duration) {
        let mut spent = self.spent.lock();
        spent.threads = threads;
        spent.inside += inside;
    }

    /// Resources used by all calls.
    pub(crate) fn spent(&self) -> RunCost {
        *self.spent.lock()
    }
}

/// Signal to a run that no caller waits for it.
#[derive(Default)]
pub struct RunInterrupt {
    raised: AtomicBool,
    end: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl RunInterrupt {
    /// Sets the function that ends this run. A run has one; later ones are ignored.
    pub fn install(&self, end: impl Fn() + Send + Sync + 'static) {
        let _ = self.end.set(Box::new(end));
        if self.raised() {
            self.raise();
        }
    }

    /// True if the run should end.
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
        if let Some(end) = self.end.get() {
            end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SequencePurpose;

    #[test]
    fn a_run_can_end_while_the_caller_is_asked_if_it_still_waits() {
        let call = SequenceCall::new(1, &ModelCaller::without_deadline(SequencePurpose::Query));
        let stop = || {
            assert!(call.progress.try_lock().is_some(), "a run that ends now would wait for the caller");
            call.finish(0, Ok(SequenceStates::default()));
            true
        };
        assert_eq!(call.wait("model", Some(&stop)).expect("it ended in time").len(), 1);
    }
}
