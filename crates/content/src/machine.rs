//! The thread that drives the distributor and the keeper of a node: everything that happens comes in through one queue, and everything
//! that follows is handed on to where it may take its time.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_bucket::BucketId;
use millrace_cluster::distributor::{self, Change, Distributor, Event, Read, RequestError, Ticket, Write};
use millrace_cluster::replica::{self, Call, Fetched, Job, Keeper};
use millrace_cluster::{ClusterState, Failure, Fence, NodeKey, Now, Reply, Request, Response};
use millrace_document::{DocumentId, Refusal, Version};
use millrace_env::{ThreadClass, run_or_exit};
use millrace_membership::Membership;
use millrace_peer::Peers;
use millrace_trust::Trust;
use tokio::runtime::Handle;

use crate::Throttle;
use crate::finishing::Finishing;
use crate::incoming::{Incoming, Transfer};
use crate::installing::Installing;
use crate::pull::{Fetch, Fetches, LaidAside, Wanted};
use crate::storage::Replicas;

/// What is called with the outcome of a write.
pub(crate) type WriteDone = Box<dyn FnOnce(Result<distributor::Written, RequestError>) + Send>;

/// What is called with the outcome of a read.
pub(crate) type ReadDone = Box<dyn FnOnce(Result<Option<Version>, RequestError>) + Send>;

/// What is called with the answer to another node.
pub(crate) type ReplyTo = Box<dyn FnOnce(Reply) + Send>;

/// What happens.
pub(crate) enum Input {
    State(Arc<ClusterState>),
    Confirmed {
        version: u64,
        asked: Instant,
    },
    Write {
        change: Change,
        deadline: Instant,
        done: WriteDone,
    },
    Read {
        id: DocumentId,
        deadline: Instant,
        done: ReadDone,
    },
    /// Another node asks.
    Request {
        fence: Fence,
        request: Request,
        reply: ReplyTo,
    },
    /// Another node answered; `None`: it will not.
    Answer {
        from: NodeKey,
        number: u64,
        reply: Option<Reply>,
    },
    Decided {
        decision: distributor::Decision,
        outcome: Result<distributor::Modification, Refusal>,
    },
    /// Work on the store is done.
    Done {
        job: Job,
        response: Response,
    },
    /// Files have been taken in.
    Installed {
        jobs: Vec<Job>,
        response: Response,
    },
    /// A fetch has brought a part, or is at its end.
    Fetched {
        job: Job,
        outcome: Result<Option<LaidAside>, Failure>,
    },
    /// The owner of a bucket was asked to end a write, and has answered, or will not.
    Finished {
        finishing: Finishing,
        reply: Option<Reply>,
    },
    Stop,
}

/// Inputs that are taken in one turn.
const TURN_MAX: usize = 1024;

/// The exit status of a process whose thread for the cluster has failed, of sysexits.h: "an internal
/// software error".
const EXIT_STATUS: i32 = 70;

/// The thread looks at the time at least so often.
const TICK: Duration = Duration::from_millis(500);

/// The driven machines, and the queue to them.
pub(crate) struct Machine {
    inputs: Sender<Input>,
    distributor: Arc<Mutex<Distributor>>,
    base: Instant,
    incoming: Arc<Incoming>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the machines work with.
pub(crate) struct Parts {
    pub(crate) me: NodeKey,
    pub(crate) incarnation: u64,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) membership: Membership,
    pub(crate) trust: Option<Arc<Trust>>,
    pub(crate) runtime: Handle,
}

impl Machine {
    /// Starts the thread.
    pub(crate) fn start(parts: Parts) -> std::io::Result<Self> {
        let (inputs, queue) = mpsc::channel();
        let settings = distributor::Settings::default();
        let confirm = settings.confirm;
        let distributor = Distributor::new(parts.me, parts.incarnation, settings);
        let distributor = Arc::new(Mutex::new(distributor));
        let base = Instant::now();
        let replicas = Arc::clone(&parts.replicas);
        let fetching = Fetches::new(replicas, Arc::clone(&parts.throttle), parts.trust.clone());
        let incoming = Arc::clone(fetching.incoming());
        let driver = Driver {
            keeper: Keeper::new(parts.me, parts.incarnation, confirm, now(base)),
            parts,
            base,
            inputs: inputs.clone(),
            distributor: Arc::clone(&distributor),
            events: Vec::new(),
            state: None,
            adopted: 0,
            fetching_state: Arc::default(),
            next_ticket: 0,
            writes: HashMap::new(),
            reads: HashMap::new(),
            next_call: 0,
            calls: HashMap::new(),
            fetching,
            fetches: HashMap::new(),
            laid_aside: HashMap::new(),
            installing: Installing::default(),
        };
        let thread = thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            // Every write goes through it.
            ThreadClass::Prompt.enter();
            run_or_exit("the thread that drives the distributor and the keeper", || driver.run(&queue));
        })?;
        Ok(Machine { inputs, distributor, base, incoming, thread: Mutex::new(Some(thread)) })
    }

    /// Hands something over. After the machine has stopped, nothing comes of it.
    pub(crate) fn send(&self, input: Input) {
        let _ = self.inputs.send(input);
    }

    /// Asks the distributor something.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&mut Distributor, Now) -> T) -> T {
        let now = now(self.base);
        ask(&mut self.distributor.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// What is on its way to this node.
    pub(crate) fn incoming(&self) -> Vec<Arc<Transfer>> {
        self.incoming.list()
    }

    /// Ends the thread. What is under way is left as it is: others carry it on.
    pub(crate) fn stop(&self) {
        self.send(Input::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the cluster's thread ended before its time");
        }
    }
}

fn now(base: Instant) -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { monotonic: base.elapsed(), wall_us: wall.as_micros() as u64 }
}

fn response(outcome: Result<(), Failure>) -> Response {
    match outcome {
        Ok(()) => Response::Done,
        Err(failure) => Response::Failed(failure),
    }
}

/// Whoever waits for the work must not wait for ever.
fn guarded(work: impl FnOnce() -> Response) -> Response {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let reason = "work on the store failed; see the log".to_owned();
        Response::Failed(Failure::Storage { reason })
    })
}

/// Who waits for the keeper's reply.
enum Caller {
    /// This node's own distributor, for the request of this number.
    Own(u64),
    Other(ReplyTo),
}

pub(crate) struct Driver {
    pub(crate) parts: Parts,
    base: Instant,
    pub(crate) inputs: Sender<Input>,
    distributor: Arc<Mutex<Distributor>>,
    keeper: Keeper,
    /// For the distributor's next turn.
    events: Vec<Event>,
    pub(crate) state: Option<Arc<ClusterState>>,
    /// The state that is registered as adopted.
    adopted: u64,
    /// The newest state is being asked for.
    fetching_state: Arc<AtomicBool>,
    next_ticket: u64,
    /// With the time at which the client stops waiting.
    writes: HashMap<Ticket, (Instant, WriteDone)>,
    reads: HashMap<Ticket, ReadDone>,
    next_call: u64,
    calls: HashMap<Call, Caller>,
    fetching: Fetches,
    fetches: HashMap<Job, Fetch>,
    laid_aside: HashMap<Job, LaidAside>,
    installing: Installing,
}

impl Driver {
    fn run(mut self, queue: &Receiver<Input>) {
        loop {
            let wakes = [self.lock().next_wake(), self.keeper.next_wake()];
            let wake = wakes.into_iter().flatten().min();
            let wait = wake.map_or(TICK, |wake| wake.saturating_sub(self.base.elapsed()).min(TICK));
            let first = if self.events.is_empty() {
                queue.recv_timeout(wait)
            } else {
                Err(RecvTimeoutError::Timeout)
            };
            let inputs = first.into_iter().chain(queue.try_iter().take(TURN_MAX));
            for input in inputs {
                if matches!(input, Input::Stop) {
                    return;
                }
                self.take(input);
            }
            self.keep([]);
            let mut effects = Vec::new();
            let events = std::mem::take(&mut self.events);
            self.lock().handle(now(self.base), events, &mut effects);
            effects.into_iter().for_each(|effect| self.carry_out(effect));
            // Now both machines act by it.
            if self.adopted != self.keeper.adopted() {
                self.adopted = self.keeper.adopted();
                self.parts.membership.adopted(self.adopted);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Distributor> {
        self.distributor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&mut self, input: Input) {
        match input {
            Input::State(state) => {
                self.parts.peers.keep(&|address| state.nodes().values().any(|node| node.address == address));
                self.state = Some(Arc::clone(&state));
                self.keep([replica::Event::State(Arc::clone(&state))]);
                self.events.push(Event::State(state));
            }
            Input::Confirmed { version, asked } => {
                let asked = asked.saturating_duration_since(self.base);
                self.keep([replica::Event::Confirmed { version, asked }]);
                self.events.push(Event::Confirmed { version, asked });
            }
            Input::Write { change, deadline, done } => {
                let ticket = self.ticket();
                self.writes.insert(ticket, (deadline, done));
                let deadline = deadline.saturating_duration_since(self.base);
                self.events.push(Event::Write(Write { ticket, deadline, change }));
            }
            Input::Read { id, deadline, done } => {
                let ticket = self.ticket();
                self.reads.insert(ticket, done);
                let deadline = deadline.saturating_duration_since(self.base);
                self.events.push(Event::Read(Read { ticket, deadline, id }));
            }
            Input::Request { fence, request: Request::Finish(unfinished), reply } => {
                self.finish_here(fence, unfinished, reply);
            }
            Input::Request { fence, request, reply } => self.asked(fence, request, Caller::Other(reply)),
            Input::Answer { from, number, reply: Some(reply) } => {
                self.events.push(Event::Reply { from, number, reply });
            }
            Input::Answer { from, number, reply: None } => self.events.push(Event::Lost { to: from, number }),
            Input::Decided { decision, outcome } => self.events.push(Event::Decided { decision, outcome }),
            Input::Done { job, response } => self.done(job, response),
            Input::Installed { jobs, response } => {
                self.installing.done();
                jobs.into_iter().for_each(|job| self.done(job, response.clone()));
                self.install_next();
            }
            Input::Fetched { job, outcome } => self.fetched(job, outcome),
            Input::Finished { finishing, reply } => self.finished(finishing, reply),
            // Looked for before.
            Input::Stop => {}
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    fn asked(&mut self, fence: Fence, request: Request, caller: Caller) {
        self.next_call += 1;
        let call = Call(self.next_call);
        self.calls.insert(call, caller);
        self.keep([replica::Event::Request { call, fence, request }]);
    }

    fn done(&mut self, job: Job, response: Response) {
        if matches!(response, Response::Failed(_)) {
            // A fetch whose part could not be taken in does not go on.
            self.fetches.remove(&job);
        }
        self.keep([replica::Event::Done { job, response }]);
    }

    fn fetched(&mut self, job: Job, outcome: Result<Option<LaidAside>, Failure>) {
        // One that was cancelled may still have told something.
        if !self.fetches.contains_key(&job) {
            return;
        }
        let outcome = match outcome {
            Ok(Some(part)) => {
                self.laid_aside.insert(job, part);
                Ok(Fetched::Part)
            }
            Ok(None) => Ok(Fetched::End),
            Err(failure) => Err(failure),
        };
        if !matches!(outcome, Ok(Fetched::Part)) {
            self.fetches.remove(&job);
        }
        self.keep([replica::Event::Fetched { job, outcome }]);
    }

    fn keep(&mut self, events: impl IntoIterator<Item = replica::Event>) {
        let mut effects = Vec::new();
        self.keeper.handle(now(self.base), events, &mut effects);
        for effect in effects {
            match effect {
                replica::Effect::Reply { call, reply } => self.reply(call, reply),
                replica::Effect::FetchState { .. } => self.fetch_state(),
                replica::Effect::Run { job, work } => {
                    let (replicas, inputs) = (Arc::clone(&self.parts.replicas), self.inputs.clone());
                    self.parts.runtime.spawn_blocking(move || {
                        let response = guarded(|| work.run(&*replicas));
                        // The machine may have stopped.
                        let _ = inputs.send(Input::Done { job, response });
                    });
                }
                replica::Effect::Fetch { job, bucket, from, pull } => match self.fetches.get(&job) {
                    Some(fetch) => fetch.go_on(),
                    None => self.begin_fetch(job, bucket, from, pull),
                },
                replica::Effect::Install { job, .. } => self.install(job),
                replica::Effect::Cancel { job } => {
                    self.fetches.remove(&job);
                    self.laid_aside.remove(&job);
                }
            }
        }
    }

    fn reply(&mut self, call: Call, reply: Reply) {
        match self.calls.remove(&call) {
            Some(Caller::Own(number)) => {
                self.events.push(Event::Reply { from: self.parts.me, number, reply });
            }
            Some(Caller::Other(reply_to)) => reply_to(reply),
            None => unreachable!("a request is answered once"),
        }
    }

    fn begin_fetch(&mut self, job: Job, bucket: BucketId, from: NodeKey, pull: millrace_cluster::Pull) {
        let Some(address) = self.address(from) else {
            let reason = format!("node {from} is not in the cluster state");
            return self.keep([replica::Event::Fetched { job, outcome: Err(Failure::Storage { reason }) }]);
        };
        let inputs = self.inputs.clone();
        let told = move |outcome| {
            // The machine may have stopped.
            let _ = inputs.send(Input::Fetched { job, outcome });
        };
        let wanted = Wanted { bucket, from, address, pull };
        self.fetches.insert(job, self.fetching.begin(wanted, Arc::new(told)));
    }

    fn install(&mut self, job: Job) {
        match self.laid_aside.remove(&job) {
            Some(LaidAside::Whole(whole)) => {
                self.installing.add(job, whole);
                self.install_next();
            }
            Some(part) => {
                let (replicas, inputs) = (Arc::clone(&self.parts.replicas), self.inputs.clone());
                self.parts.runtime.spawn_blocking(move || {
                    let response = guarded(|| response(part.install(replicas.store())));
                    // The machine may have stopped.
                    let _ = inputs.send(Input::Done { job, response });
                });
            }
            None => {
                let reason = "a part that was fetched is not there".to_owned();
                let response = Response::Failed(Failure::Storage { reason });
                self.keep([replica::Event::Done { job, response }]);
            }
        }
    }

    /// Takes in the files that wait, unless others are being taken in.
    fn install_next(&mut self) {
        let Some(batch) = self.installing.next() else { return };
        let (replicas, inputs) = (Arc::clone(&self.parts.replicas), self.inputs.clone());
        self.parts.runtime.spawn_blocking(move || {
            let response = guarded(|| response(batch.install(replicas.store())));
            // The machine may have stopped.
            let _ = inputs.send(Input::Installed { jobs: batch.jobs(), response });
        });
    }

    pub(crate) fn address(&self, node: NodeKey) -> Option<String> {
        Some(self.state.as_ref()?.nodes().get(&node)?.address.clone())
    }

    pub(crate) fn fetch_state(&self) {
        if self.fetching_state.swap(true, Ordering::AcqRel) {
            return;
        }
        let (membership, fetching) = (self.parts.membership.clone(), Arc::clone(&self.fetching_state));
        self.parts.runtime.spawn(async move {
            // What it finds comes the way that every state comes; where coordination cannot be reached, it is asked again.
            if let Err(error) = membership.refresh().await {
                tracing::debug!(%error, "the newest cluster state cannot be fetched");
            }
            fetching.store(false, Ordering::Release);
        });
    }

    fn carry_out(&mut self, effect: distributor::Effect) {
        match effect {
            distributor::Effect::Send { to, fence, request } if to == self.parts.me => {
                self.asked(fence, request, Caller::Own(fence.number));
            }
            distributor::Effect::Send { to, fence, request } => {
                let (inputs, number) = (self.inputs.clone(), fence.number);
                let answered = move |reply| {
                    // The machine may have stopped.
                    let _ = inputs.send(Input::Answer { from: to, number, reply });
                };
                match self.address(to) {
                    Some(address) => self.parts.peers.send(&address, fence, request, answered),
                    None => answered(None),
                }
            }
            distributor::Effect::Written { ticket, outcome } => {
                let (deadline, done) = self.writes.remove(&ticket).expect("a write is answered once");
                match outcome {
                    Err(RequestError::Moved { owner, version, unfinished: Some(unfinished) }) => {
                        let finishing = Finishing { unfinished, deadline, done };
                        self.finish_elsewhere(owner, version, finishing);
                    }
                    outcome => done(outcome),
                }
            }
            distributor::Effect::Found { ticket, outcome } => {
                let done = self.reads.remove(&ticket).expect("a read is answered once");
                done(outcome);
            }
            distributor::Effect::Decide { decision, modify, current } => {
                let inputs = self.inputs.clone();
                self.parts.runtime.spawn_blocking(move || {
                    // Whoever waits for the decision must not wait for ever.
                    let decided = catch_unwind(AssertUnwindSafe(|| (modify.0)(current)));
                    let outcome = decided.unwrap_or_else(|_| {
                        let reason =
                            "the modification failed on this document; it was not changed".to_owned();
                        Err(Refusal { code: 500, reason })
                    });
                    // The machine may have stopped.
                    let _ = inputs.send(Input::Decided { decision, outcome });
                });
            }
            distributor::Effect::FetchState { .. } => self.fetch_state(),
        }
    }
}
