//! Threads for CPU-bound and disk-bound work, with a bounded queue for each flow of requests.
//!
//! As many pieces of work run at one time as there are cores: each holds a *slot*. `turns` schedules the
//! next work when a slot becomes free. Single documents have one more slot, so that they need not wait
//! until a query yields.
//!
//! Long work calls `pause` repeatedly, at points where it can be interrupted. Once it has held its slot
//! for a quantum and others wait, it gives the slot to the next in turn; its thread sleeps until its own
//! turn comes. The data that it has read stays in memory meanwhile, so the number of sleeping threads is
//! bounded (`ASLEEP_MAX`): beyond that, work keeps its slot to its end. Work over all groups, such as the
//! parsing of streams, yields earlier to work of groups (`EARLY_SLICE`). Work that waits for another node
//! lends its slot in the same way (`wait_without_slot`).
//!
//! A caller may leave: work without a caller when its turn comes is dropped unstarted. Full queues refuse at
//! once.

mod flow;
mod sized;
mod turns;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_model::BusyCores;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

pub use self::flow::WorkFlow;
pub use self::sized::BodySizeClass;
pub use self::turns::WORK_SLICE;
use self::turns::{FlowIndex, FlowTurn, QUANTUM, QueueBounds, TurnAdmission, TurnScheduler};
use crate::Error;

/// Maximum number of started pieces of work that wait to continue.
const ASLEEP_MAX: usize = 64;

/// Time after which work over all groups yields to waiting work of groups: a switch of threads costs a small
/// part of it.
const EARLY_SLICE: Duration = Duration::from_micros(500);

/// Divisor of the whole queue: one flow may fill this part of it.
const FLOW_SHARE: usize = 4;

/// Divisor of the whole queue: so much more may wait of what other nodes ask for.
const QUESTIONS_PART: usize = 16;

/// Number of slots beyond the number of cores that only short work may use.
const SHORT_SLOTS: usize = 1;

/// Idle time after which threads end that were added while others slept.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Threads for work. They end when the pool is dropped, after the queued work.
pub struct WorkPool {
    shared: Arc<PoolShared>,
    /// Number of pieces of work of other nodes that may wait beyond the queues of clients.
    questions: usize,
}

struct PoolShared {
    state: Mutex<PoolState>,
    /// Notified when there is granted work without a thread.
    granted: Condvar,
    /// Number of waiting pieces of work, as of the last change: read without the lock.
    waiting: AtomicUsize,
    /// The same of work of groups.
    waiting_of_groups: AtomicUsize,
    slots: usize,
    cores: BusyCores,
}

struct PoolState {
    turns: TurnScheduler<WaitingJob>,
    /// Work that has a slot and waits for its thread to wake up.
    granted: VecDeque<GrantedJob>,
    /// Number of held slots.
    held: usize,
    threads: usize,
    /// Number of threads that wait for granted work and were not notified.
    idle: usize,
    /// Number of threads that were notified or started, and have not checked for work since.
    notified: usize,
    /// Number of threads whose work yielded.
    asleep: usize,
    closed: bool,
}

/// Work that waits for a slot.
enum WaitingJob {
    /// Work that was not started.
    Job(Box<dyn PoolJob>),
    /// A thread whose work yielded.
    Thread(Arc<SleepingThread>),
}

struct GrantedJob {
    flow: FlowIndex,
    job: Box<dyn PoolJob>,
}

/// Wakes one thread.
#[derive(Default)]
struct SleepingThread {
    changed: Condvar,
    /// True once it has a slot again. Changed under the lock of [`PoolShared::state`].
    has_slot: AtomicBool,
}

/// A request's work.
trait PoolJob: Send {
    fn run(self: Box<Self>);
    fn refuse(self: Box<Self>);
    fn is_abandoned(&self) -> bool;
}

struct RequestJob<T, F> {
    caller: oneshot::Sender<Result<T, Error>>,
    work: F,
}

impl<T: Send, F: FnOnce() -> T + Send> PoolJob for RequestJob<T, F> {
    fn run(self: Box<Self>) {
        if self.caller.is_closed() {
            return;
        }
        let RequestJob { caller, work } = *self;
        // A panic drops the sender, and the receiver sees it; the thread lives on.
        if let Ok(value) = catch_unwind(AssertUnwindSafe(work)) {
            // The receiver may have left meanwhile: then the value is not needed.
            let _ = caller.send(Ok(value));
        }
    }

    fn refuse(self: Box<Self>) {
        // As above.
        let _ = self.caller.send(Err(Error::Overloaded));
    }

    fn is_abandoned(&self) -> bool {
        self.caller.is_closed()
    }
}

/// The work of a thread of a pool.
struct CurrentWork {
    shared: Arc<PoolShared>,
    flow: FlowIndex,
    /// Time up to which its slot was charged.
    since: Instant,
    /// True if it yields to work of groups after [`EARLY_SLICE`].
    is_of_all_groups: bool,
    sleeper: Arc<SleepingThread>,
}

thread_local! {
    static CURRENT: RefCell<Option<CurrentWork>> = const { RefCell::new(None) };
}

/// Gives the slot of this thread to others, if it has held it for a quantum and it is not its turn any more.
/// Work over all groups gives it to work of groups earlier. Returns true if it slept meanwhile. Does nothing
/// outside of a pool.
///
/// Call it only without locks held. Cost: nanoseconds, unless others wait and the quantum is over.
pub fn pause(now: Instant) -> bool {
    CURRENT.with_borrow_mut(|current| current.as_mut().is_some_and(|current| current.pause(now)))
}

/// Waits for another node, or for something else that takes no time of this one, while others have the slot
/// of this thread. Does nothing more than waiting outside of a pool.
///
/// Call it only without locks held: it returns when it is its turn again. `wait` must not call `pause`.
pub fn wait_without_slot<T>(wait: impl FnOnce() -> T) -> T {
    CURRENT.with_borrow_mut(|current| match current {
        Some(current) => current.wait(wait),
        None => wait(),
    })
}

impl CurrentWork {
    fn wait<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        if !PoolShared::release_slot(&self.shared, self.flow, self.since.elapsed()) {
            return wait();
        }
        // The slot is taken back in any case.
        let waited = self.shared.cores.rest(|| catch_unwind(AssertUnwindSafe(wait)));
        let state = self.shared.lock();
        PoolShared::wait_for_turn(&self.shared, state, self.flow, &self.sleeper);
        self.since = Instant::now();
        waited.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn pause(&mut self, now: Instant) -> bool {
        let held = now.saturating_duration_since(self.since);
        let waiting = match held {
            held if held >= QUANTUM => &self.shared.waiting,
            held if held >= EARLY_SLICE && self.is_of_all_groups => &self.shared.waiting_of_groups,
            _ => return false,
        };
        if waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let slept = PoolShared::yield_slot(&self.shared, self.flow, &self.sleeper, held);
        self.since = if slept { Instant::now() } else { now };
        slept
    }
}

impl PoolState {
    /// Next turn, if there is a slot for it.
    fn next_turn(&mut self, slots: usize) -> Option<FlowTurn<WaitingJob>> {
        if self.held >= slots + SHORT_SLOTS {
            return None;
        }
        self.turns.next(self.held >= slots)
    }

    fn grant_slot(&mut self, FlowTurn { flow, work }: FlowTurn<WaitingJob>) {
        self.held += 1;
        match work {
            WaitingJob::Job(job) => self.granted.push_back(GrantedJob { flow, job }),
            WaitingJob::Thread(sleeper) => {
                self.asleep -= 1;
                sleeper.has_slot.store(true, Ordering::Relaxed);
                sleeper.changed.notify_one();
            }
        }
    }
}

impl PoolShared {
    /// Locks the state. Only an assertion of the scheduler panics while it is held; the pool then continues
    /// as far as it can.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    /// Gives slots to work in turn, as long as there are any.
    fn grant(&self, state: &mut PoolState) {
        while let Some(turn) = state.next_turn(self.slots) {
            state.grant_slot(turn);
        }
        self.waiting.store(state.turns.waiting(), Ordering::Relaxed);
        self.waiting_of_groups.store(state.turns.waiting_of_groups(), Ordering::Relaxed);
    }

    /// Notifies threads, or starts some, until all granted work has one.
    fn notify_threads(shared: &Arc<PoolShared>, state: &mut PoolState) {
        while state.notified < state.granted.len() {
            if state.idle > 0 {
                state.idle -= 1;
                shared.granted.notify_one();
            } else if let Err(error) = PoolShared::start_thread(shared, state) {
                tracing::error!(
                    %error,
                    "a thread for work cannot be started; the work waits for another thread; raise the limit of threads \
                     (ulimit -u, TasksMax)"
                );
                return;
            }
            state.notified += 1;
        }
    }

    fn start_thread(shared: &Arc<PoolShared>, state: &mut PoolState) -> std::io::Result<()> {
        let worker = Arc::clone(shared);
        let builder = std::thread::Builder::new().name(format!("work-{}", state.threads));
        builder.spawn(move || PoolShared::work(&worker))?;
        state.threads += 1;
        Ok(())
    }

    /// Main loop of a thread.
    fn work(shared: &Arc<PoolShared>) {
        let sleeper = Arc::new(SleepingThread::default());
        let mut state = shared.lock();
        while let Some(locked) = shared.wait_for_notification(state) {
            state = locked;
            while let Some(GrantedJob { flow, job }) = state.granted.pop_front() {
                PoolShared::notify_threads(shared, &mut state);
                let current = CurrentWork {
                    shared: Arc::clone(shared),
                    flow,
                    since: Instant::now(),
                    is_of_all_groups: state.turns.is_of_all_groups(flow),
                    sleeper: Arc::clone(&sleeper),
                };
                drop(state);
                let uncharged = PoolShared::run(current, job);
                state = shared.lock();
                state.turns.charge(flow, uncharged);
                state.turns.end(flow);
                state.held -= 1;
                shared.grant(&mut state);
            }
            state.idle += 1;
        }
    }

    /// Waits for granted work, on a thread that counts as idle, or was started for granted work. Returns
    /// `None` when the thread has to end.
    fn wait_for_notification<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
    ) -> Option<MutexGuard<'s, PoolState>> {
        let mut is_surplus = false;
        loop {
            // A notification is for the first thread that sees it; the notified thread finds nothing, and is
            // idle in its slot.
            while state.notified > 0 {
                state.notified -= 1;
                if !state.granted.is_empty() {
                    return Some(state);
                }
                state.idle += 1;
            }
            if state.closed || is_surplus {
                state.idle -= 1;
                state.threads -= 1;
                return None;
            }
            let waited = self.granted.wait_for(&mut state, IDLE_MAX);
            is_surplus = waited.timed_out() && state.threads > self.slots + SHORT_SLOTS;
        }
    }

    /// Runs a job on this thread. Returns the time that is not charged yet.
    fn run(current: CurrentWork, job: Box<dyn PoolJob>) -> Duration {
        let cores = current.shared.cores.clone();
        CURRENT.set(Some(current));
        cores.occupy(|| job.run());
        let current = CURRENT.take().expect("it was set above, and only a thread's own loop changes it");
        current.since.elapsed()
    }

    /// Charges the work of this thread, and gives its slot to others if it is their turn. Returns true if it
    /// slept until its own.
    fn yield_slot(
        shared: &Arc<PoolShared>,
        flow: FlowIndex,
        sleeper: &Arc<SleepingThread>,
        held: Duration,
    ) -> bool {
        let mut state = shared.lock();
        state.turns.charge(flow, held);
        if state.asleep >= ASLEEP_MAX {
            return false;
        }
        state.asleep += 1;
        state.held -= 1;
        PoolShared::wait_for_turn(shared, state, flow, sleeper)
    }

    /// Charges the work of this thread, and gives its slot to others until [`PoolShared::wait_for_turn`].
    /// Returns false if too many threads have released theirs.
    fn release_slot(shared: &Arc<PoolShared>, flow: FlowIndex, held: Duration) -> bool {
        let mut state = shared.lock();
        if state.asleep >= ASLEEP_MAX {
            return false;
        }
        state.turns.charge(flow, held);
        state.asleep += 1;
        state.held -= 1;
        shared.grant(&mut state);
        PoolShared::notify_threads(shared, &mut state);
        true
    }

    /// Queues this thread, which counts as asleep, for a slot. Returns true if it slept until its turn.
    fn wait_for_turn(
        shared: &Arc<PoolShared>,
        mut state: MutexGuard<'_, PoolState>,
        flow: FlowIndex,
        sleeper: &Arc<SleepingThread>,
    ) -> bool {
        state.turns.yield_turn(flow, WaitingJob::Thread(Arc::clone(sleeper)));
        shared.grant(&mut state);
        PoolShared::notify_threads(shared, &mut state);
        if sleeper.has_slot.swap(false, Ordering::Relaxed) {
            return false;
        }
        drop(state);
        shared.cores.rest(|| {
            let mut state = shared.lock();
            while !sleeper.has_slot.swap(false, Ordering::Relaxed) {
                sleeper.changed.wait(&mut state);
            }
        });
        true
    }
}

impl WorkPool {
    /// Starts the threads for `slots` concurrent pieces of work, which count among the busy cores while they
    /// run. At most `capacity` pieces wait, a quarter of that per flow.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(slots: usize, capacity: usize, cores: &BusyCores) -> std::io::Result<Self> {
        let bounds = QueueBounds { flow: (capacity / FLOW_SHARE).max(1), all: capacity };
        let state = PoolState {
            turns: TurnScheduler::new(bounds),
            granted: VecDeque::new(),
            held: 0,
            threads: 0,
            idle: 0,
            notified: 0,
            asleep: 0,
            closed: false,
        };
        let slots = slots.max(1);
        let shared = Arc::new(PoolShared {
            state: Mutex::new(state),
            granted: Condvar::new(),
            waiting: AtomicUsize::new(0),
            waiting_of_groups: AtomicUsize::new(0),
            slots,
            cores: cores.clone(),
        });
        let pool = WorkPool { shared, questions: (capacity / QUESTIONS_PART).max(1) };
        let mut state = pool.shared.lock();
        for _ in 0..slots + SHORT_SLOTS {
            PoolShared::start_thread(&pool.shared, &mut state)?;
            state.notified += 1;
        }
        drop(state);
        Ok(pool)
    }

    /// Number of pieces of work that wait for a slot.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Runs short work on one of the threads, as [`WorkPool::run_in`] does, in a queue that all such work
    /// shares.
    ///
    /// # Errors
    /// Those of [`WorkPool::run_in`].
    pub async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_in(WorkFlow::short(), work).await
    }

    /// Runs `work` on one of the threads when it is the turn of its flow. If the future is dropped before the
    /// work starts, the work never starts.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if the queue of the flow is full, or all together are and no other is longer; or
    /// if that happens to another flow while this one's queue is the longest. [`Error::Internal`] if the work
    /// panicked.
    pub async fn run_in<T, F>(&self, flow: WorkFlow, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_beyond(flow, 0, work).await
    }

    /// Runs work that another node asks for, as [`WorkPool::run_in`] does. It waits where the queues are full
    /// with work of clients: those of two nodes must not keep both from answering each other.
    ///
    /// # Errors
    /// Those of [`WorkPool::run_in`].
    pub(crate) async fn run_question<T, F>(&self, flow: WorkFlow, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_beyond(flow, self.questions, work).await
    }

    async fn run_beyond<T, F>(&self, flow: WorkFlow, beyond: usize, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (caller, receiver) = oneshot::channel();
        self.submit(&flow, beyond, Box::new(RequestJob { caller, work }));
        receiver
            .await
            .map_err(|_| Error::Internal("the request's work ended in a panic; see the log".to_owned()))?
    }

    fn submit(&self, flow: &WorkFlow, beyond: usize, job: Box<dyn PoolJob>) {
        let is_abandoned =
            |waiting: &WaitingJob| matches!(waiting, WaitingJob::Job(job) if job.is_abandoned());
        let mut state = self.shared.lock();
        let refused = match state.turns.push(flow, beyond, WaitingJob::Job(job), &is_abandoned) {
            TurnAdmission::Queued => None,
            TurnAdmission::QueuedInsteadOf(work) | TurnAdmission::Refused(work) => Some(work),
        };
        self.shared.grant(&mut state);
        PoolShared::notify_threads(&self.shared, &mut state);
        drop(state);
        if let Some(WaitingJob::Job(job)) = refused {
            job.refuse();
        }
    }
}

impl Drop for WorkPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.granted.notify_all();
    }
}

#[cfg(test)]
mod tests;
