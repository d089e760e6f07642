//! Runs that are not batched with others: a model's runs over the rows of one caller.

use std::sync::Arc;

use parking_lot::Mutex;

use super::call::SequenceCall;
use super::queue::QueuedWork;
use super::{
    ModelCaller, ModelEntry, ModelRunner, ModelScheduler, RunGrant, SchedulerShared, SequencePurpose,
};
use crate::usage::ModelCounters;
use crate::{Error, ModelUsage};

/// Entry of a model with separate runs in the scheduler.
pub(crate) struct ModelJobs {
    shared: Arc<SchedulerShared>,
    owner: Arc<ModelEntry>,
}

/// One run.
pub(crate) struct ModelJob<T> {
    /// Number of rows, for metrics.
    pub rows: usize,
    /// The work.
    pub work: Box<JobWork<T>>,
}

/// Work of a job, called with its permissions.
type JobWork<T> = dyn FnOnce(&RunGrant) -> Result<T, Error> + Send;

impl ModelScheduler {
    /// Registers a model whose runs are not batched with those of other callers.
    pub(crate) fn jobs(&self, name: impl Into<String>) -> ModelJobs {
        let owner =
            ModelEntry { name: name.into(), runner: ModelRunner::Jobs, counters: ModelCounters::default() };
        ModelJobs { shared: Arc::clone(&self.shared), owner: Arc::new(owner) }
    }
}

impl ModelJobs {
    /// Runs the jobs of a query, in parallel as far as slots are free, and waits for all of them. `stop` is
    /// called from time to time; once it returns true, the jobs are abandoned.
    ///
    /// # Errors
    /// The error of the first job that failed; [`Error::Overloaded`] if the queue is full;
    /// [`Error::Deadline`] if `stop` returned true.
    pub fn run<T: Send + 'static>(
        &self,
        jobs: Vec<ModelJob<T>>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<T>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let call =
            Arc::new(SequenceCall::new(jobs.len(), &ModelCaller::without_deadline(SequencePurpose::Query)));
        let found: Vec<Arc<Mutex<Option<T>>>> = jobs.iter().map(|_| Arc::default()).collect();
        let work = jobs.into_iter().zip(&found).map(|(job, found)| {
            let found = Arc::clone(found);
            let work = move |grant: &RunGrant| {
                let value = (job.work)(grant)?;
                *found.lock() = Some(value);
                Ok(())
            };
            QueuedWork::Job(Mutex::new(Some(Box::new(work))), job.rows)
        });
        self.shared.push(&self.owner, &call, work.collect(), SequencePurpose::Query)?;
        self.shared.cores.rest(|| call.wait(&self.owner.name, Some(stop)))?;
        let taken = |found: &Arc<Mutex<Option<T>>>| {
            let found = found.lock().take();
            found.ok_or_else(|| self.fail("it gave nothing"))
        };
        found.iter().map(taken).collect()
    }

    /// Number of parallel runs.
    pub fn slots(&self) -> usize {
        self.shared.options.slots
    }

    /// Error for a failure of the model with this reason.
    pub fn fail(&self, reason: impl ToString) -> Error {
        Error::Run { model: self.owner.name.clone(), reason: reason.to_string() }
    }

    /// Counts a row on which the model failed.
    pub fn failed(&self) {
        self.owner.counters.failed();
    }

    /// Usage of the model.
    pub fn usage(&self) -> ModelUsage {
        self.owner.counters.read()
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.owner.name
    }
}
