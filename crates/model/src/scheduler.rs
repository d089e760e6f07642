//! One scheduler for all models of the process.
//!
//! A run takes one of as many slots as there are cores. While a slot is free, a sequence starts at once; while none is, sequences wait, and
//! the slot that comes free takes those that go together. Nothing waits for company. Sequences that wait while several slots are
//! free are shared out between them.
//!
//! Queries have all slots. Feeding has threads of lower priority, and begins a run only while a slot is free; one run of feeding is always
//! allowed, so that queries slow it down but never stop it.

mod call;
mod jobs;
mod queue;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use call::Interrupt;
use call::{Call, Run};
pub(crate) use jobs::{Job, Jobs};
use queue::{Entry, Queue, Work};

use crate::batch::Limits;
use crate::usage::Counters;
use crate::{Error, Sequence, States, Usage};

/// Something that runs batches of sequences.
pub trait Model: Send + Sync {
    /// The states of each sequence, in order. The sequences are of like lengths. An error is one of the whole batch: the scheduler then
    /// runs each sequence alone, so that only those fail that cannot run.
    ///
    /// # Errors
    /// Why the batch failed.
    fn run(&self, sequences: &[&Sequence], interrupt: &Interrupt) -> Result<Vec<States>, Error>;

    /// The sequences that one run can take.
    fn sequences_max(&self) -> usize {
        usize::MAX
    }
}

/// What a sequence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Somebody waits for an answer.
    Query,
    /// A document is being written.
    Feed,
}

/// Who waits, and for how long.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What for.
    pub purpose: Purpose,
    /// When the answer is of no use any more.
    pub deadline: Option<Instant>,
    /// Set by someone else when the caller has left.
    pub gone: Arc<AtomicBool>,
}

impl Caller {
    /// One who waits as long as it takes.
    pub fn patient(purpose: Purpose) -> Self {
        Caller { purpose, deadline: None, gone: Arc::default() }
    }
}

/// How a scheduler is set up.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerOptions {
    /// Runs at the same time.
    pub slots: usize,
    /// Tokens of a batch.
    pub batch_tokens: usize,
    /// Sequences that may wait, for each model and purpose.
    pub waiting_max: usize,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        SchedulerOptions {
            slots: std::thread::available_parallelism().map_or(1, usize::from),
            batch_tokens: 512,
            waiting_max: 1024,
        }
    }
}

/// Priority of the threads that feed, as `nice` counts it.
const FEED_NICE: i32 = 10;

/// Runs sequences on models. Dropping it ends its threads; sequences that wait are refused.
pub struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    options: SchedulerOptions,
    state: Mutex<State>,
    query: Condvar,
    feed: Condvar,
}

#[derive(Default)]
struct State {
    queries: Queue,
    feeds: Queue,
    running_queries: usize,
    running_feeds: usize,
    closed: bool,
}

/// A model's place in the scheduler.
pub struct Lane {
    shared: Arc<Shared>,
    owner: Arc<Owner>,
}

/// A model and what is known of it.
struct Owner {
    name: String,
    runner: Runner,
    counters: Counters,
}

/// What a model runs.
enum Runner {
    /// Batches of sequences.
    Sequences(Arc<dyn Model>),
    /// Jobs, which bring their model along, each by itself.
    Jobs,
}

impl Runner {
    fn sequences_max(&self) -> usize {
        match self {
            Runner::Sequences(model) => model.sequences_max(),
            Runner::Jobs => 1,
        }
    }
}

impl Scheduler {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(options: SchedulerOptions) -> io::Result<Self> {
        let options = SchedulerOptions { slots: options.slots.max(1), ..options };
        let shared = Arc::new(Shared {
            options,
            state: Mutex::default(),
            query: Condvar::new(),
            feed: Condvar::new(),
        });
        let scheduler = Scheduler { shared };
        for slot in 0..options.slots {
            for (purpose, name) in [(Purpose::Query, "query"), (Purpose::Feed, "feed")] {
                let shared = Arc::clone(&scheduler.shared);
                std::thread::Builder::new().name(format!("model-{name}-{slot}")).spawn(move || {
                    if purpose == Purpose::Feed {
                        // Without it feeding competes with queries as an equal.
                        let _ =
                            rustix::process::setpriority_process(Some(rustix::thread::gettid()), FEED_NICE);
                    }
                    shared.work(purpose);
                })?;
            }
        }
        Ok(scheduler)
    }

    /// A place for a model.
    pub fn lane(&self, name: impl Into<String>, model: Arc<dyn Model>) -> Lane {
        let runner = Runner::Sequences(model);
        let owner = Owner { name: name.into(), runner, counters: Counters::default() };
        Lane { shared: Arc::clone(&self.shared), owner: Arc::new(owner) }
    }

    /// How many sequences wait: of queries, and of feeding.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.queries.len(), state.feeds.len())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let left: Vec<Entry> = {
            let mut state = self.shared.lock();
            state.closed = true;
            let state = &mut *state;
            state.queries.drain().chain(state.feeds.drain()).collect()
        };
        for entry in left {
            entry.finish(Err(Error::Closed));
        }
        self.shared.query.notify_all();
        self.shared.feed.notify_all();
    }
}

impl Lane {
    /// Runs the sequences and waits for all of them; they may run apart, and beside those of others.
    ///
    /// # Errors
    /// The first sequence's that failed; [`Error::Overloaded`] when too much waits; [`Error::Deadline`] when the caller's time is up.
    pub fn run(&self, sequences: Vec<Sequence>, caller: &Caller) -> Result<Vec<States>, Error> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let call = Arc::new(Call::new(sequences.len(), caller));
        let work = sequences.into_iter().map(Work::Sequence).collect();
        self.shared.push(&self.owner, &call, work, caller.purpose)?;
        call.wait(&self.owner.name, None)
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(
        &self,
        owner: &Arc<Owner>,
        call: &Arc<Call>,
        work: Vec<Work>,
        purpose: Purpose,
    ) -> Result<(), Error> {
        let count = work.len();
        let (condition, mut state) = match purpose {
            Purpose::Query => (&self.query, self.lock()),
            Purpose::Feed => (&self.feed, self.lock()),
        };
        if state.closed {
            return Err(Error::Closed);
        }
        let queue = match purpose {
            Purpose::Query => &mut state.queries,
            Purpose::Feed => &mut state.feeds,
        };
        let waiting = queue.len_of(owner);
        // A call with more sequences than may wait is taken by itself: its parts are as many as its document has chunks.
        if waiting > 0 && waiting + count > self.options.waiting_max {
            owner.counters.refused(count);
            return Err(Error::Overloaded { model: owner.name.clone(), waiting });
        }
        let arrived = Instant::now();
        for (at, work) in work.into_iter().enumerate() {
            queue.push(Entry { owner: Arc::clone(owner), call: Arc::clone(call), at, work, arrived });
        }
        drop(state);
        if count == 1 {
            condition.notify_one()
        } else {
            condition.notify_all()
        }
        Ok(())
    }

    fn work(&self, purpose: Purpose) {
        while let Some(batch) = self.next(purpose) {
            run(batch);
            let mut state = self.lock();
            match purpose {
                Purpose::Query => state.running_queries -= 1,
                Purpose::Feed => state.running_feeds -= 1,
            }
            drop(state);
            // A slot is free, which feeding may wait for.
            self.feed.notify_one();
        }
    }

    /// Waits for the next batch. Entries whose caller has left are dropped on the way.
    fn next(&self, purpose: Purpose) -> Option<Vec<Entry>> {
        let condition = match purpose {
            Purpose::Query => &self.query,
            Purpose::Feed => &self.feed,
        };
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let running = state.running_queries + state.running_feeds;
            let (allowed, free) = match purpose {
                Purpose::Query => (true, self.options.slots.saturating_sub(state.running_queries)),
                Purpose::Feed => {
                    let free = self.options.slots.saturating_sub(running);
                    (free > 0 || state.running_feeds == 0, free)
                }
            };
            let queue = match purpose {
                Purpose::Query => &mut state.queries,
                Purpose::Feed => &mut state.feeds,
            };
            if allowed {
                queue.drop_abandoned();
                let limits = Limits { tokens: self.options.batch_tokens, sequences: usize::MAX };
                let batch = queue.take(limits, free.max(1));
                if !batch.is_empty() {
                    if queue.len() > 0 {
                        condition.notify_one();
                    }
                    match purpose {
                        Purpose::Query => state.running_queries += 1,
                        Purpose::Feed => state.running_feeds += 1,
                    }
                    return Some(batch);
                }
            }
            state = condition.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs a batch; if it fails, its sequences one by one.
fn run(batch: Vec<Entry>) {
    let started = Instant::now();
    let Some(owner) = batch.first().map(|entry| Arc::clone(&entry.owner)) else { return };
    for entry in &batch {
        owner.counters.waited(started.duration_since(entry.arrived));
    }
    match attempt(&owner, &batch) {
        Ok(states) => {
            for (entry, states) in batch.into_iter().zip(states) {
                entry.finish(Ok(states));
            }
        }
        Err(error) if batch.len() == 1 => {
            owner.counters.failed();
            for entry in batch {
                entry.finish(Err(error.clone()));
            }
        }
        Err(_) => {
            for entry in batch {
                let alone = std::slice::from_ref(&entry);
                let result = if entry.call.abandoned() {
                    Err(Error::Abandoned { model: owner.name.clone() })
                } else {
                    attempt(&owner, alone).map(|mut states| states.swap_remove(0))
                };
                if result.is_err() {
                    owner.counters.failed();
                }
                entry.finish(result);
            }
        }
    }
}

/// One run of the model; as many states as there are entries.
fn attempt(owner: &Owner, batch: &[Entry]) -> Result<Vec<States>, Error> {
    let run = Run::begin(batch.iter().map(|entry| &entry.call));
    let fail = |reason: &str| Error::Run { model: owner.name.clone(), reason: reason.to_owned() };
    let started = Instant::now();
    let (result, lengths) = match (&owner.runner, batch) {
        (Runner::Jobs, [Entry { work: Work::Job(job, rows), .. }]) => {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            let job = job.ok_or_else(|| fail("it was begun twice"))?;
            (caught(owner, || job(&run.interrupt).map(|()| vec![States::default()])), vec![0; *rows])
        }
        (Runner::Sequences(model), batch) => {
            let sequences: Vec<&Sequence> = batch.iter().filter_map(Entry::sequence).collect();
            let lengths = sequences.iter().map(|sequence| sequence.len()).collect();
            (caught(owner, || model.run(&sequences, &run.interrupt)), lengths)
        }
        (Runner::Jobs, _) => unreachable!("a lane of jobs queues jobs, and takes one at a time"),
    };
    owner.counters.ran(&lengths, started.elapsed());
    let states = result?;
    if states.len() != batch.len() {
        return Err(fail("it gave another number of states than it was given sequences"));
    }
    Ok(states)
}

/// What comes of it; a panic is an error.
fn caught(owner: &Owner, work: impl FnOnce() -> Result<Vec<States>, Error>) -> Result<Vec<States>, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let reason = "it panicked; see the log".to_owned();
        Err(Error::Run { model: owner.name.clone(), reason })
    })
}
