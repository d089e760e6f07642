//! Runs that are not batched with those of others: a model's runs over rows that one caller has.

use std::sync::{Arc, Mutex, PoisonError};

use super::call::Call;
use super::queue::Work;
use super::{Caller, Grant, Owner, Purpose, Runner, Scheduler, Shared};
use crate::usage::Counters;
use crate::{Error, Usage};

/// A model's place in the scheduler, for runs by themselves.
pub(crate) struct Jobs {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
}

/// One run.
pub(crate) struct Job<T> {
    /// The rows that it runs over, for metrics.
    pub rows: usize,
    /// What it does.
    pub work: Box<JobWork<T>>,
}

/// What a job does with what it is granted.
type JobWork<T> = dyn FnOnce(&Grant) -> Result<T, Error> + Send;

impl Scheduler {
    /// A place for a model whose runs are not batched with those of others.
    pub(crate) fn jobs(&self, name: impl Into<String>) -> Jobs {
        let owner = Owner { name: name.into(), runner: Runner::Jobs, counters: Counters::default() };
        Jobs { shared: Arc::clone(&self.shared), owner: Arc::new(owner) }
    }
}

impl Jobs {
    /// Does the work of a query, as far as there are slots side by side, and waits for all of it. `stop` is asked now and then; once
    /// it says yes, nobody waits any more.
    ///
    /// # Errors
    /// The first job's that failed; [`Error::Overloaded`] when too much waits; [`Error::Deadline`] when `stop` said yes.
    pub fn run<T: Send + 'static>(
        &self,
        jobs: Vec<Job<T>>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<T>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let call = Arc::new(Call::new(jobs.len(), &Caller::patient(Purpose::Query)));
        let found: Vec<Arc<Mutex<Option<T>>>> = jobs.iter().map(|_| Arc::default()).collect();
        let work = jobs.into_iter().zip(&found).map(|(job, found)| {
            let found = Arc::clone(found);
            let work = move |grant: &Grant| {
                let value = (job.work)(grant)?;
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                Ok(())
            };
            Work::Job(Mutex::new(Some(Box::new(work))), job.rows)
        });
        self.shared.push(&self.owner, &call, work.collect(), Purpose::Query)?;
        self.shared.cores.rest(|| call.wait(&self.owner.name, Some(stop)))?;
        let taken = |found: &Arc<Mutex<Option<T>>>| {
            let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
            found.ok_or_else(|| self.fail("it gave nothing"))
        };
        found.iter().map(taken).collect()
    }

    /// How many runs go side by side.
    pub fn slots(&self) -> usize {
        self.shared.options.slots
    }

    /// That the model failed, for this reason.
    pub fn fail(&self, reason: impl ToString) -> Error {
        Error::Run { model: self.owner.name.clone(), reason: reason.to_string() }
    }

    /// Counts rows that the model failed on.
    pub fn failed(&self) {
        self.owner.counters.failed();
    }

    /// What the model has done.
    pub fn usage(&self) -> Usage {
        self.owner.counters.read()
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.owner.name
    }
}
