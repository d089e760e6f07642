//! One scheduler for all models of the process.
//!
//! A run takes one of as many slots as there are cores. While a slot is free, a sequence starts at once; while none is, sequences wait, and
//! the slot that comes free takes those that go together, up to an even part of what the model has, waiting and under way. Nothing waits
//! for company.
//!
//! A run of a query spreads over idle cores where, a moment ago and now, fewer than half of the slots were asked for by others; all other runs
//! keep to the thread of their slot. So a request that is alone has all cores, and runs that come together do not get in each other's way.
//!
//! Others who keep cores busy say so ([`Cores`]); runs then have fewer slots, but at least one.
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
use std::time::{Duration, Instant};

pub(crate) use call::Spent;
use call::{Call, Run};
pub use call::{Grant, Interrupt};
pub(crate) use jobs::{Job, Jobs};
use queue::{Entry, Queue, Work};

use crate::batch::Limits;
use crate::cores::Cores;
use crate::usage::Counters;
use crate::{Error, Sequence, States, Usage};

/// Something that runs batches of sequences.
pub trait Model: Send + Sync {
    /// The states of each sequence, in order. The sequences are of like lengths. An error is one of the whole batch: the scheduler then
    /// runs each sequence alone, so that only those fail that cannot run.
    ///
    /// # Errors
    /// Why the batch failed.
    fn run(&self, sequences: &[&Sequence], grant: &Grant) -> Result<Vec<States>, Error>;

    /// What one run can take, and beyond which it is no faster.
    fn limits(&self) -> Limits {
        Limits { tokens: usize::MAX, sequences: usize::MAX }
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
    /// Tokens of a batch, where a model does not say less.
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

/// Callers who ask again within this time after others ran beside them are taken for as many as they were.
const CROWDED_FOR: Duration = Duration::from_millis(20);

/// Priority of the threads that feed, as `nice` counts it.
const FEED_NICE: i32 = 10;

/// Runs sequences on models. Dropping it ends its threads; sequences that wait are refused.
pub struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    options: SchedulerOptions,
    cores: Cores,
    state: Mutex<State>,
    query: Condvar,
    feed: Condvar,
}

#[derive(Default)]
struct State {
    queries: Queue,
    feeds: Queue,
    /// When runs of queries were last so many that none should spread.
    crowded: Option<Instant>,
    closed: bool,
}

impl State {
    fn queue(&mut self, purpose: Purpose) -> &mut Queue {
        match purpose {
            Purpose::Query => &mut self.queries,
            Purpose::Feed => &mut self.feeds,
        }
    }

    /// Runs that may be under way for a purpose, of so many slots.
    fn allowed(&self, purpose: Purpose, slots: usize) -> usize {
        let left = match purpose {
            Purpose::Query => slots,
            Purpose::Feed => slots.saturating_sub(self.queries.running()),
        };
        left.max(1)
    }

    /// Whether a run of a query may spread over so many slots, which is not counted yet or any more.
    fn has_room(&mut self, slots: usize) -> bool {
        let crowded = 2 * (self.queries.running() + self.queries.len()) >= slots;
        if crowded {
            self.crowded = Some(Instant::now());
        }
        slots > 1 && !crowded && self.crowded.is_none_or(|at| at.elapsed() > CROWDED_FOR)
    }
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
    fn limits(&self) -> Limits {
        match self {
            Runner::Sequences(model) => model.limits(),
            Runner::Jobs => Limits { tokens: usize::MAX, sequences: 1 },
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
            cores: Cores::default(),
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

    /// The cores that it shares with others.
    pub fn cores(&self) -> Cores {
        self.shared.cores.clone()
    }

    /// How many runs are under way: of queries, and of feeding.
    pub fn running(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.queries.running(), state.feeds.running())
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
        let condition = self.condition(purpose);
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        let queue = state.queue(purpose);
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
            let (owner, entries) = (Arc::clone(&batch.owner), batch.entries.len());
            batch.run(|| self.release(purpose, &owner, entries));
        }
    }

    /// What wakes the threads of a purpose.
    fn condition(&self, purpose: Purpose) -> &Condvar {
        match purpose {
            Purpose::Query => &self.query,
            Purpose::Feed => &self.feed,
        }
    }

    /// The slots that others than models leave.
    fn slots(&self) -> usize {
        self.options.slots.saturating_sub(self.cores.busy())
    }

    /// A run of so many entries has ended, and others may wait for its slot.
    fn release(&self, purpose: Purpose, owner: &Arc<Owner>, entries: usize) {
        let mut state = self.lock();
        state.queue(purpose).ended(owner, entries);
        if purpose == Purpose::Query {
            // Those that it ran beside are remembered for a while.
            state.has_room(self.slots());
        }
        drop(state);
        self.query.notify_one();
        self.feed.notify_one();
    }

    /// Waits for the next batch. Entries whose caller has left are dropped on the way. Where something waits, the core is offered once to
    /// others: callers who have just had their answers and ask again at once then go together, and not the first one alone.
    fn next(&self, purpose: Purpose) -> Option<Batch> {
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
                let limits = Limits { tokens: self.options.batch_tokens, sequences: usize::MAX };
                let entries = queue.take(limits, allowed);
                if let Some(first) = entries.first() {
                    let owner = Arc::clone(&first.owner);
                    if queue.len() > 0 {
                        self.condition(purpose).notify_one();
                    }
                    let spread = purpose == Purpose::Query && state.has_room(slots);
                    state.queue(purpose).began(&owner, entries.len());
                    return Some(Batch { owner, entries, spread });
                }
            }
            self.cores.wanted(state.queries.len() + state.feeds.len());
            state = self.condition(purpose).wait(state).unwrap_or_else(PoisonError::into_inner);
            yields = false;
        }
    }
}

/// What goes into one run.
struct Batch {
    owner: Arc<Owner>,
    /// Of this model, and not none.
    entries: Vec<Entry>,
    /// Whether it may spread over idle cores.
    spread: bool,
}

impl Batch {
    /// Runs it; if it fails, its sequences one by one. `release` gives the slot back before the callers have their answers, so that one who asks
    /// again finds it free.
    fn run(self, release: impl FnOnce()) {
        let Batch { owner, entries, spread } = self;
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

/// One run of the model; as many states as there are entries.
fn attempt(owner: &Owner, batch: &[Entry], spread: bool) -> Result<Vec<States>, Error> {
    let run = Run::begin(batch.iter().map(|entry| &entry.call), spread);
    let fail = |reason: &str| Error::Run { model: owner.name.clone(), reason: reason.to_owned() };
    let started = Instant::now();
    let (result, lengths) = match (&owner.runner, batch) {
        (Runner::Jobs, [Entry { work: Work::Job(job, rows), .. }]) => {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            let job = job.ok_or_else(|| fail("it was begun twice"))?;
            (caught(owner, || job(&run.grant).map(|()| vec![States::default()])), vec![0; *rows])
        }
        (Runner::Sequences(model), batch) => {
            let sequences: Vec<&Sequence> = batch.iter().filter_map(Entry::sequence).collect();
            let lengths = sequences.iter().map(|sequence| sequence.len()).collect();
            (caught(owner, || model.run(&sequences, &run.grant)), lengths)
        }
        (Runner::Jobs, _) => unreachable!("a lane of jobs queues jobs, and takes one at a time"),
    };
    owner.counters.ran(&lengths, run.grant.spent(), started.elapsed());
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
