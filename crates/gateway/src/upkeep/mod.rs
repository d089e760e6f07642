//! What a node does by itself, between requests: removing documents that do not belong any more, reindexing,
//! and letting go of models that nobody uses.
//!
//! Each [`BackgroundJob`] has a thread and does a small step at a time: it changes one page of documents,
//! then says how long it can wait. Steps are paced so that a job takes about as long as it may, and pauses
//! are longer while requests wait.

mod garbage;
mod models;
mod reindex;
mod sweep;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_env::panic_message;

use crate::Node;

/// How often a job looks for work where it has none.
const IDLE: Duration = Duration::from_secs(1);

/// How much longer a job pauses after each step while requests wait.
const ASIDE: Duration = Duration::from_millis(50);

/// Work in the background.
trait BackgroundJob: Send {
    /// Does a little; answers how long to pause after it.
    ///
    /// In a cluster, what changes documents does so through the owners of their buckets: what one node
    /// changed by itself, its replicas would not have.
    fn step(&mut self, node: &Node) -> Duration;
}

/// The threads of the background.
#[derive(Default)]
pub(crate) struct BackgroundThreads {
    bell: Arc<PauseBell>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Ends pauses before their time.
#[derive(Default)]
struct PauseBell {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Default)]
struct BellState {
    times: u64,
    stopped: bool,
}

impl BackgroundThreads {
    /// Starts the jobs of a node. They hold it only while they work.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(crate) fn start(&self, node: &Arc<Node>) -> std::io::Result<()> {
        let jobs: [(&str, Box<dyn BackgroundJob>); 3] = [
            ("garbage", Box::new(garbage::GarbageCollection::default())),
            ("reindex", Box::new(reindex::ReindexJob::default())),
            ("models", Box::new(models::IdleModels)),
        ];
        for (name, job) in jobs {
            let (bell, node) = (Arc::clone(&self.bell), Arc::downgrade(node));
            let thread =
                std::thread::Builder::new().name(name.to_owned()).spawn(move || work(job, &node, &bell))?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(())
    }

    /// Wakes the jobs: there may be work.
    pub(crate) fn wake(&self) {
        self.bell.state.lock().unwrap_or_else(PoisonError::into_inner).times += 1;
        self.bell.changed.notify_all();
    }

    /// Ends the jobs after the steps that they are at.
    pub(crate) fn stop(&self) {
        self.bell.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.bell.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A job can be the last to hold the node, and then it stops itself.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("work in the background ended in a panic");
            }
        }
    }
}

/// After a panic, a job is tried again so much later.
const AFTER_PANIC: Duration = Duration::from_secs(60);

fn work(mut job: Box<dyn BackgroundJob>, node: &Weak<Node>, bell: &PauseBell) {
    let mut seen = 0;
    loop {
        let Some(node) = node.upgrade() else { return };
        let pause = catch_unwind(AssertUnwindSafe(|| job.step(&node))).unwrap_or_else(|panic| {
            // The next step begins where the last one did.
            tracing::error!(
                reason = panic_message(&*panic),
                "a bug: work in the background panicked; it will be tried again"
            );
            AFTER_PANIC
        });
        drop(node);
        let state = bell.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, _) = bell
            .changed
            .wait_timeout_while(state, pause, |state| !state.stopped && state.times == seen)
            .unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return;
        }
        seen = state.times;
    }
}

/// How long to pause after a step that began then and looked at so many documents, to look at no more than
/// `per_second`.
fn pace(node: &Node, began: Instant, documents: u64, per_second: f64) -> Duration {
    let at_least = Duration::try_from_secs_f64(documents as f64 / per_second).unwrap_or(IDLE);
    let aside = if node.pool().waiting() > 0 { ASIDE } else { Duration::ZERO };
    at_least.saturating_sub(began.elapsed()) + aside
}
