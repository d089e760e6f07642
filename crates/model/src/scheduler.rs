//! Scheduler of all models of the process.
//!
//! A run uses one of as many slots as there are cores. While a slot is free, a sequence starts at once.
//! Otherwise sequences wait, and a slot that becomes free takes those that fit together, up to an equal share
//! of the model's waiting and running sequences. A sequence never waits for others to fill a batch.
//!
//! A query's run spreads over idle cores if fewer than half of the slots were requested by others, both
//! recently and now; all other runs stay on the thread of their slot. Thus a single request gets all cores,
//! and concurrent runs do not slow each other down.
//!
//! Other work that keeps cores busy is counted in [`BusyCores`]; runs then have fewer slots, but at least
//! one.
//!
//! Queries may use all slots. Feeding has threads of lower priority, and starts a run only while a slot is
//! free; one feeding run is always allowed, so that queries delay feeding but never stop it.

mod call;
mod jobs;
mod queue;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) use call::RunCost;
use call::{ModelRun, SequenceCall};
pub use call::{RunGrant, RunInterrupt};
pub(crate) use jobs::{ModelJob, ModelJobs};
use queue::{ModelQueue, QueueEntry, QueuedWork};

use crate::batch::BatchLimits;
use crate::cores::BusyCores;
use crate::usage::ModelCounters;
use crate::{Error, ModelCaller, ModelUsage, SequencePurpose, SequenceStates, TokenizedText};

/// A model that runs batches of sequences.
pub trait SequenceModel: Send + Sync {
    /// States of each sequence, in order. The sequences have similar lengths. An error concerns the whole
    /// batch: the scheduler then runs each sequence alone, so that only failing sequences fail.
    ///
    /// # Errors
    /// The batch failed.
    fn run(&self, sequences: &[&TokenizedText], grant: &RunGrant) -> Result<Vec<SequenceStates>, Error>;

    /// Maximum size of a run, beyond which it is no faster.
    fn limits(&self) -> BatchLimits {
        BatchLimits { tokens: usize::MAX, sequences: usize::MAX }
    }
}

/// Settings of a scheduler.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerOptions {
    /// Maximum number of concurrent runs.
    pub slots: usize,
    /// Maximum number of tokens per batch, unless the model has a lower limit.
    pub batch_tokens: usize,
    /// Maximum number of waiting sequences per model and purpose.
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

/// Time for which concurrent callers still count as concurrent after their runs: they may be about to call
/// again.
const CROWDED_FOR: Duration = Duration::from_millis(20);

/// `nice` value of feeding threads.
const FEED_NICE: i32 = 10;

/// Scheduler of sequences on models. Dropping it ends its threads; waiting sequences fail.
pub struct ModelScheduler {
    shared: Arc<SchedulerShared>,
}

struct SchedulerShared {
    options: SchedulerOptions,
    cores: BusyCores,
    state: Mutex<SchedulerState>,
    query: Condvar,
    feed: Condvar,
}

#[derive(Default)]
struct SchedulerState {
    queries: ModelQueue,
    feeds: ModelQueue,
    /// Last time at which too many queries ran for any run to spread.
    crowded: Option<Instant>,
    closed: bool,
}

impl SchedulerState {
    fn queue(&mut self, purpose: SequencePurpose) -> &mut ModelQueue {
        match purpose {
            SequencePurpose::Query => &mut self.queries,
            SequencePurpose::Feed => &mut self.feeds,
        }
    }

    /// Maximum number of concurrent runs for a purpose, out of this number of slots.
    fn allowed(&self, purpose: SequencePurpose, slots: usize) -> usize {
        let left = match purpose {
            SequencePurpose::Query => slots,
            SequencePurpose::Feed => slots.saturating_sub(self.queries.running()),
        };
        left.max(1)
    }

    /// True if a query's run, itself not counted, may spread over this number of slots.
    fn has_room(&mut self, slots: usize) -> bool {
        let crowded = 2 * (self.queries.running() + self.queries.len()) >= slots;
        if crowded {
            self.crowded = Some(Instant::now());
        }
        slots > 1 && !crowded && self.crowded.is_none_or(|at| at.elapsed() > CROWDED_FOR)
    }
}

/// Entry of a model in the scheduler.
pub struct ModelLane {
    shared: Arc<SchedulerShared>,
    owner: Arc<ModelEntry>,
}

/// A model with its settings and counters.
struct ModelEntry {
    name: String,
    runner: ModelRunner,
    counters: ModelCounters,
}

/// Kind of a model's runs.
enum ModelRunner {
    /// Batches of sequences.
    Sequences(Arc<dyn SequenceModel>),
    /// Jobs, each of which has its own model and runs alone.
    Jobs,
}

impl ModelRunner {
    fn limits(&self) -> BatchLimits {
        match self {
            ModelRunner::Sequences(model) => model.limits(),
            ModelRunner::Jobs => BatchLimits { tokens: usize::MAX, sequences: 1 },
        }
    }
}

impl ModelScheduler {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system cannot create a thread.
    pub fn new(options: SchedulerOptions) -> io::Result<Self> {
        let options = SchedulerOptions { slots: options.slots.max(1), ..options };
        let shared = Arc::new(SchedulerShared {
            options,
            cores: BusyCores::default(),
            state: Mutex::default(),
            query: Condvar::new(),
            feed: Condvar::new(),
        });
        let weak = Arc::downgrade(&shared);
        shared.cores.call_when_free(move || {
            if let Some(shared) = weak.upgrade() {
                shared.query.notify_one();
                shared.feed.notify_one();
            }
        });
        let scheduler = ModelScheduler { shared };
        for slot in 0..options.slots {
            for (purpose, name) in [(SequencePurpose::Query, "query"), (SequencePurpose::Feed, "feed")] {
                let shared = Arc::clone(&scheduler.shared);
                std::thread::Builder::new().name(format!("model-{name}-{slot}")).spawn(move || {
                    if purpose == SequencePurpose::Feed {
                        // Without it, feeding competes with queries at equal priority.
                        let _ =
                            rustix::process::setpriority_process(Some(rustix::thread::gettid()), FEED_NICE);
                    }
                    shared.work(purpose);
                })?;
            }
        }
        Ok(scheduler)
    }

    /// Registers a model.
    pub fn lane(&self, name: impl Into<String>, model: Arc<dyn SequenceModel>) -> ModelLane {
        let runner = ModelRunner::Sequences(model);
        let owner = ModelEntry { name: name.into(), runner, counters: ModelCounters::default() };
        ModelLane { shared: Arc::clone(&self.shared), owner: Arc::new(owner) }
    }

    /// The cores shared with other work.
    pub fn cores(&self) -> BusyCores {
        self.shared.cores.clone()
    }

    /// Number of runs in progress: of queries, and of feeding.
    pub fn running(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.queries.running(), state.feeds.running())
    }

    /// Number of waiting sequences: of queries, and of feeding.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.queries.len(), state.feeds.len())
    }
}

impl Drop for ModelScheduler {
    fn drop(&mut self) {
        let left: Vec<QueueEntry> = {
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

impl ModelLane {
    /// Runs the sequences and waits for all of them; they may run separately, and together with those of
    /// other callers.
    ///
    /// # Errors
    /// The error of the first sequence that failed; [`Error::Overloaded`] if the queue is full;
    /// [`Error::Deadline`] if the deadline passed.
    pub fn run(
        &self,
        sequences: Vec<TokenizedText>,
        caller: &ModelCaller,
    ) -> Result<Vec<SequenceStates>, Error> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let call = Arc::new(SequenceCall::new(sequences.len(), caller));
        let work = sequences.into_iter().map(QueuedWork::Sequence).collect();
        self.shared.push(&self.owner, &call, work, caller.purpose)?;
        call.wait(&self.owner.name, None)
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

impl SchedulerShared {
    fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        // Code that holds this lock cannot panic.
        self.state.lock()
    }

    fn push(
        &self,
        owner: &Arc<ModelEntry>,
        call: &Arc<SequenceCall>,
        work: Vec<QueuedWork>,
        purpose: SequencePurpose,
    ) -> Result<(), Error> {
        let count = work.len();
        let condition = self.condition(purpose);
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let queue = state.queue(purpose);
        let waiting = queue.len_of(owner);
        // A call with more sequences than the limit is accepted if nothing else waits: its number of
        // sequences is the number of chunks of a document.
        if waiting > 0 && waiting + count > self.options.waiting_max {
            owner.counters.refused(count);
            return Err(Error::Overloaded { model: owner.name.clone(), waiting });
        }
        let arrived = Instant::now();
        for (at, work) in work.into_iter().enumerate() {
            queue.push(QueueEntry { owner: Arc::clone(owner), call: Arc::clone(call), at, work, arrived });
        }
        drop(state);
        if count == 1 {
            condition.notify_one();
        } else {
            condition.notify_all();
        }
        Ok(())
    }

    fn work(&self, purpose: SequencePurpose) {
        while let Some(batch) = self.next(purpose) {
            let (owner, entries) = (Arc::clone(&batch.owner), batch.entries.len());
            batch.run(|| self.release(purpose, &owner, entries));
        }
    }

    /// Condition variable of a purpose's threads.
    fn condition(&self, purpose: SequencePurpose) -> &Condvar {
        match purpose {
            SequencePurpose::Query => &self.query,
            SequencePurpose::Feed => &self.feed,
        }
    }

    /// Number of slots left by work other than models.
    fn slots(&self) -> usize {
        self.options.slots.saturating_sub(self.cores.busy())
    }

    /// Records the end of a run of `entries` entries, whose slot may be waited for.
    fn release(&self, purpose: SequencePurpose, owner: &Arc<ModelEntry>, entries: usize) {
        let mut state = self.lock();
        state.queue(purpose).ended(owner, entries);
        if purpose == SequencePurpose::Query {
            // Concurrent runs are remembered for a while.
            state.has_room(self.slots());
        }
        drop(state);
        self.query.notify_one();
        self.feed.notify_one();
    }

    /// Waits for the next batch; drops entries whose caller has left. Yields the core once if an entry waits:
    /// callers that just got a result and call again at once are then batched, instead of the first one
    /// running alone.
    fn next(&self, purpose: SequencePurpose) -> Option<SequenceBatch> {
        let mut yields = true;
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let slots = self.slots();
            let allowed = state.allowed(purpose, slots);
            let queue = state.queue(purpose);
            let may_run = queue.running() < allowed;
            if may_run && queue.len() > 0 && std::mem::take(&mut yields) {
                drop(state);
                std::thread::yield_now();
                state = self.lock();
                continue;
            }
            if may_run {
                queue.drop_abandoned();
                let limits = BatchLimits { tokens: self.options.batch_tokens, sequences: usize::MAX };
                let entries = queue.take(limits, allowed);
                if let Some(first) = entries.first() {
                    let owner = Arc::clone(&first.owner);
                    if queue.len() > 0 {
                        self.condition(purpose).notify_one();
                    }
                    let spread = purpose == SequencePurpose::Query && state.has_room(slots);
                    state.queue(purpose).began(&owner, entries.len());
                    return Some(SequenceBatch { owner, entries, spread });
                }
            }
            self.cores.wanted(state.queries.len() + state.feeds.len());
            self.condition(purpose).wait(&mut state);
            yields = false;
        }
    }
}

/// Content of one run.
struct SequenceBatch {
    owner: Arc<ModelEntry>,
    /// Entries of this model; not empty.
    entries: Vec<QueueEntry>,
    /// True if it may spread over idle cores.
    spread: bool,
}

impl SequenceBatch {
    /// Runs the batch; if it fails, its sequences run one by one. `release` frees the slot before the callers
    /// get their results, so that a caller that calls again finds it free.
    fn run(self, release: impl FnOnce()) {
        let SequenceBatch { owner, entries, spread } = self;
        let started = Instant::now();
        for entry in &entries {
            owner.counters.waited(started.duration_since(entry.arrived));
        }
        match attempt(&owner, &entries, spread) {
            Ok(states) => {
                release();
                for (entry, states) in entries.into_iter().zip(states) {
                    entry.finish(Ok(states));
                }
            }
            Err(error) if entries.len() == 1 => {
                owner.counters.failed();
                release();
                for entry in entries {
                    entry.finish(Err(error.clone()));
                }
            }
            Err(_) => {
                for entry in entries {
                    let alone = std::slice::from_ref(&entry);
                    let result = if entry.call.abandoned() {
                        Err(Error::Abandoned { model: owner.name.clone() })
                    } else {
                        attempt(&owner, alone, spread).map(|mut states| states.swap_remove(0))
                    };
                    if result.is_err() {
                        owner.counters.failed();
                    }
                    entry.finish(result);
                }
                release();
            }
        }
    }
}

/// Makes one run of the model; returns as many states as there are entries.
fn attempt(owner: &ModelEntry, batch: &[QueueEntry], spread: bool) -> Result<Vec<SequenceStates>, Error> {
    let run = ModelRun::begin(batch.iter().map(|entry| &entry.call), spread);
    let fail = |reason: &str| Error::Run { model: owner.name.clone(), reason: reason.to_owned() };
    let started = Instant::now();
    let (result, lengths) = match (&owner.runner, batch) {
        (ModelRunner::Jobs, [QueueEntry { work: QueuedWork::Job(job, rows), .. }]) => {
            let job = job.lock().take();
            let job = job.ok_or_else(|| fail("it was begun twice"))?;
            (caught(owner, || job(&run.grant).map(|()| vec![SequenceStates::default()])), vec![0; *rows])
        }
        (ModelRunner::Sequences(model), batch) => {
            let sequences: Vec<&TokenizedText> = batch.iter().filter_map(QueueEntry::sequence).collect();
            let lengths = sequences.iter().map(|sequence| sequence.len()).collect();
            (caught(owner, || model.run(&sequences, &run.grant)), lengths)
        }
        (ModelRunner::Jobs, _) => unreachable!("a lane of jobs queues jobs, and takes one at a time"),
    };
    owner.counters.ran(&lengths, run.grant.spent(), started.elapsed());
    let states = result?;
    if states.len() != batch.len() {
        return Err(fail("it gave another number of states than it was given sequences"));
    }
    Ok(states)
}

/// Result of `work`; a panic becomes an error.
fn caught(
    owner: &ModelEntry,
    work: impl FnOnce() -> Result<Vec<SequenceStates>, Error>,
) -> Result<Vec<SequenceStates>, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let reason = "it panicked; see the log".to_owned();
        Err(Error::Run { model: owner.name.clone(), reason })
    })
}
