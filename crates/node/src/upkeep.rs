//! Background work of a node: garbage collection of documents, reindexing, unloading of unused models, and
//! keeping of the counts of the uses of fields.
//!
//! Each [`BackgroundJob`] has a thread and performs small steps: it changes one page of documents, then
//! returns the time until the next step. Steps are paced so that a job takes about its intended time, and
//! pauses are longer while requests wait.

mod field_uses;
mod garbage;
mod models;
mod reindex;
mod sweep;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_env::panic_message;
use parking_lot::{Condvar, Mutex};

use crate::Node;

/// Interval at which an idle job looks for work.
const IDLE: Duration = Duration::from_secs(1);

/// Additional pause of a job after each step while requests wait.
const ASIDE: Duration = Duration::from_millis(50);

/// A background job.
trait BackgroundJob: Send {
    /// Performs one step; returns the pause after it.
    ///
    /// In a cluster, a step changes documents through the owners of their buckets: a change by one node alone
    /// would not reach the replicas.
    fn step(&mut self, node: &Node) -> Duration;
}

/// Threads of the background jobs.
#[derive(Default)]
pub(crate) struct BackgroundThreads {
    signal: Arc<PauseSignal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Ends pauses early.
#[derive(Default)]
struct PauseSignal {
    state: Mutex<PauseSignalState>,
    changed: Condvar,
}

#[derive(Default)]
struct PauseSignalState {
    times: u64,
    stopped: bool,
}

impl BackgroundThreads {
    /// Starts the jobs of a node. They hold the node only while they work.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn start(&self, node: &Arc<Node>) -> std::io::Result<()> {
        let jobs: [(&str, Box<dyn BackgroundJob>); 4] = [
            ("garbage", Box::new(garbage::GarbageCollection::default())),
            ("reindex", Box::new(reindex::ReindexJob::default())),
            ("models", Box::new(models::IdleModels)),
            ("field-uses", Box::new(field_uses::FieldUseKeeping)),
        ];
        for (name, job) in jobs {
            let (signal, node) = (Arc::clone(&self.signal), Arc::downgrade(node));
            let thread =
                std::thread::Builder::new().name(name.to_owned()).spawn(move || work(job, &node, &signal))?;
            self.threads.lock().push(thread);
        }
        Ok(())
    }

    /// Wakes the jobs: there may be work.
    pub(crate) fn wake(&self) {
        self.signal.state.lock().times += 1;
        self.signal.changed.notify_all();
    }

    /// Ends the jobs after their current steps.
    pub(crate) fn stop(&self) {
        self.signal.state.lock().stopped = true;
        self.signal.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A job can be the last to hold the node; then the job's own thread runs this.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("work in the background ended in a panic");
            }
        }
    }
}

/// Pause of a job after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(60);

fn work(mut job: Box<dyn BackgroundJob>, node: &Weak<Node>, signal: &PauseSignal) {
    let mut seen = 0;
    loop {
        let Some(node) = node.upgrade() else { return };
        let pause = catch_unwind(AssertUnwindSafe(|| job.step(&node))).unwrap_or_else(|panic| {
            // The next step begins at the same point as the last one.
            tracing::error!(
                reason = panic_message(&*panic),
                "a bug: work in the background panicked; it will be tried again"
            );
            AFTER_PANIC
        });
        drop(node);
        let mut state = signal.state.lock();
        signal.changed.wait_while_for(&mut state, |state| !state.stopped && state.times == seen, pause);
        if state.stopped {
            return;
        }
        seen = state.times;
    }
}

/// Pause after a step that started at `began` and read this number of documents, to read at most
/// `per_second`.
fn pace(node: &Node, began: Instant, documents: u64, per_second: f64) -> Duration {
    let at_least = Duration::try_from_secs_f64(documents as f64 / per_second).unwrap_or(IDLE);
    let aside = if node.pool().waiting() > 0 { ASIDE } else { Duration::ZERO };
    at_least.saturating_sub(began.elapsed()) + aside
}
