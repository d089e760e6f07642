//! The thread that drives the distributor and the keeper of a node: all events arrive through one queue, and
//! all effects are passed on to threads where they may take long.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, ClusterVersion, Incarnation, MachineTime, NodeEntry, NodeFailure, NodeKey, NodeReply,
    NodeRequest, NodeResponse, RequestFence,
};
use millrace_document::{DocumentId, DocumentVersion, WriteRefusal};
use millrace_env::{ThreadClass, run_or_exit};
use millrace_membership::ClusterMembership;
use millrace_peer::{PeerAddress, PeerConnections};
use millrace_replication::distributor::{
    self, ClientRead, ClientWrite, Distributor, DistributorEvent, DocumentChange, RequestError, RequestTicket,
};
use millrace_replication::replica::{self, FetchOutcome, KeeperCall, KeeperJob, ReplicaKeeper};
use millrace_trust::NodeTrust;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::TransferThrottle;
use crate::finishing::HandedOverWrite;
use crate::incoming::{IncomingTransfer, IncomingTransfers};
use crate::installing::{self, InstallQueue};
use crate::pull::{FetchHandle, FetchedPart, FetchedReplica, NodeFetches, WantedReplica};
use crate::storage::StoreReplicas;

/// Callback for the outcome of a write.
pub(crate) type OwnerWriteCallback = Box<dyn FnOnce(Result<distributor::DurableWrite, RequestError>) + Send>;

/// Callback for the outcome of a read.
pub(crate) type OwnerReadCallback = Box<dyn FnOnce(Result<Option<DocumentVersion>, RequestError>) + Send>;

/// Callback for the answer to another node.
pub(crate) type ReplyTo = Box<dyn FnOnce(NodeReply) + Send>;

/// A change with the callback for its outcome.
pub(crate) struct MachineWrite {
    pub(crate) change: DocumentChange,
    pub(crate) done: OwnerWriteCallback,
}

/// Input of the machine.
pub(crate) enum MachineInput {
    State(Arc<ClusterState>),
    Confirmed {
        version: ClusterVersion,
        asked: Instant,
    },
    Write {
        write: MachineWrite,
        deadline: Instant,
    },
    /// Writes that are accepted together.
    WriteBatch {
        writes: Vec<MachineWrite>,
        deadline: Instant,
    },
    Read {
        id: DocumentId,
        deadline: Instant,
        done: OwnerReadCallback,
    },
    /// Request of another node.
    Request {
        fence: RequestFence,
        request: NodeRequest,
        reply: ReplyTo,
    },
    /// Another node answered; `None`: no answer will come.
    Answer {
        from: NodeKey,
        number: u64,
        reply: Option<NodeReply>,
    },
    Decided {
        decision: distributor::DecisionId,
        outcome: Result<distributor::DecidedModification, WriteRefusal>,
    },
    /// Work on the store has ended.
    Done {
        job: KeeperJob,
        response: NodeResponse,
    },
    /// Files have been installed.
    Installed {
        responses: Vec<(KeeperJob, NodeResponse)>,
    },
    /// A fetch has brought a part, or ended.
    Fetched {
        job: KeeperJob,
        outcome: Result<Option<FetchedPart>, NodeFailure>,
    },
    /// The owner of a bucket was asked to finish a write, and has answered; or no answer will come.
    Finished {
        finishing: HandedOverWrite,
        reply: Option<NodeReply>,
    },
    Stop,
}

/// Inputs that are taken in one turn.
const TURN_MAX: usize = 1024;

/// The thread looks at the time at least so often.
const TICK: Duration = Duration::from_millis(500);

/// The driven machines, with their input queue.
pub(crate) struct ContentMachine {
    inputs: Sender<MachineInput>,
    distributor: Arc<Mutex<Distributor>>,
    base: Instant,
    incoming: Arc<IncomingTransfers>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Components that the machines use.
pub(crate) struct MachineDependencies {
    pub(crate) me: NodeKey,
    pub(crate) incarnation: Incarnation,
    pub(crate) replicas: Arc<StoreReplicas>,
    pub(crate) throttle: Arc<TransferThrottle>,
    pub(crate) peers: Arc<PeerConnections>,
    pub(crate) membership: ClusterMembership,
    pub(crate) trust: Option<Arc<NodeTrust>>,
    pub(crate) runtime: Handle,
}

impl ContentMachine {
    /// Starts the thread.
    pub(crate) fn start(parts: MachineDependencies) -> std::io::Result<Self> {
        let (inputs, queue) = mpsc::channel();
        let settings = distributor::Settings::default();
        let confirm = settings.confirm;
        let distributor = Distributor::new(parts.me, parts.incarnation, settings);
        let distributor = Arc::new(Mutex::new(distributor));
        let base = Instant::now();
        let replicas = Arc::clone(&parts.replicas);
        let fetching = NodeFetches::new(replicas, Arc::clone(&parts.throttle), parts.trust.clone());
        let incoming = Arc::clone(fetching.incoming());
        let driver = MachineDriver {
            keeper: ReplicaKeeper::new(parts.me, parts.incarnation, confirm, now(base)),
            parts,
            base,
            inputs: inputs.clone(),
            distributor: Arc::clone(&distributor),
            events: Vec::new(),
            state: None,
            adopted: ClusterVersion::NONE,
            fetching_state: Arc::default(),
            next_ticket: 0,
            writes: HashMap::new(),
            reads: HashMap::new(),
            next_call: 0,
            calls: HashMap::new(),
            fetching,
            fetches: HashMap::new(),
            fetched_parts: HashMap::new(),
            installing: InstallQueue::default(),
        };
        let thread = thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            // Every write passes through this thread.
            ThreadClass::Prompt.enter();
            run_or_exit("the thread that drives the distributor and the keeper", || driver.run(&queue));
        })?;
        Ok(ContentMachine { inputs, distributor, base, incoming, thread: Mutex::new(Some(thread)) })
    }

    /// Sends an input. After the machine has stopped, it has no effect.
    pub(crate) fn send(&self, input: MachineInput) {
        let _ = self.inputs.send(input);
    }

    /// Calls a function with the distributor.
    pub(crate) fn with_distributor<T>(&self, call: impl FnOnce(&mut Distributor, MachineTime) -> T) -> T {
        let now = now(self.base);
        call(&mut self.distributor.lock(), now)
    }

    /// Transfers to this node.
    pub(crate) fn incoming(&self) -> Vec<Arc<IncomingTransfer>> {
        self.incoming.list()
    }

    /// Ends the thread. Work in progress is left unfinished: others continue it.
    pub(crate) fn stop(&self) {
        self.send(MachineInput::Stop);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the cluster's thread ended before its time");
        }
    }
}

fn now(base: Instant) -> MachineTime {
    let wall = millrace_env::unix_time();
    MachineTime { monotonic: base.elapsed(), wall_us: wall.as_micros() as u64 }
}

fn response(outcome: Result<(), NodeFailure>) -> NodeResponse {
    match outcome {
        Ok(()) => NodeResponse::Done,
        Err(failure) => NodeResponse::Failed(failure),
    }
}

/// Runs work so that a waiting caller always gets a response.
fn guarded(work: impl FnOnce() -> NodeResponse) -> NodeResponse {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let reason = "work on the store failed; see the log".to_owned();
        NodeResponse::Failed(NodeFailure::Storage { reason })
    })
}

/// Caller that waits for the keeper's reply.
enum ReplyCaller {
    /// This node's own distributor, for the request with this number.
    Own(u64),
    Other(ReplyTo),
}

pub(crate) struct MachineDriver {
    pub(crate) parts: MachineDependencies,
    base: Instant,
    pub(crate) inputs: Sender<MachineInput>,
    distributor: Arc<Mutex<Distributor>>,
    keeper: ReplicaKeeper,
    /// Events for the distributor's next turn.
    events: Vec<DistributorEvent>,
    pub(crate) state: Option<Arc<ClusterState>>,
    /// The state that is registered as adopted.
    adopted: ClusterVersion,
    /// True while the newest state is being fetched.
    fetching_state: Arc<AtomicBool>,
    next_ticket: u64,
    /// Callbacks of writes, each with the time at which the client stops waiting.
    writes: HashMap<RequestTicket, (Instant, OwnerWriteCallback)>,
    reads: HashMap<RequestTicket, OwnerReadCallback>,
    next_call: u64,
    calls: HashMap<KeeperCall, ReplyCaller>,
    fetching: NodeFetches,
    fetches: HashMap<KeeperJob, FetchHandle>,
    fetched_parts: HashMap<KeeperJob, FetchedPart>,
    installing: InstallQueue,
}

impl MachineDriver {
    fn run(mut self, queue: &Receiver<MachineInput>) {
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
                if matches!(input, MachineInput::Stop) {
                    return;
                }
                self.apply(input);
            }
            self.drive_keeper([]);
            let mut effects = Vec::new();
            let events = std::mem::take(&mut self.events);
            self.lock().handle(now(self.base), events, &mut effects);
            effects.into_iter().for_each(|effect| self.carry_out(effect));
            // Now both machines act by the new state.
            if self.adopted != self.keeper.adopted() {
                assert!(
                    self.adopted < self.keeper.adopted(),
                    "a node never goes back to an earlier cluster state"
                );
                self.adopted = self.keeper.adopted();
                self.parts.membership.adopted(self.adopted);
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Distributor> {
        self.distributor.lock()
    }

    /// Applies an input to both state machines, and executes their effects.
    pub(crate) fn apply(&mut self, input: MachineInput) {
        match input {
            MachineInput::State(state) => {
                let peers: HashSet<PeerAddress> =
                    state.nodes().values().map(|entry| peer_address(&state, entry)).collect();
                self.parts.peers.keep(&|peer| peers.contains(peer));
                self.state = Some(Arc::clone(&state));
                self.drive_keeper([replica::KeeperEvent::State(Arc::clone(&state))]);
                self.events.push(DistributorEvent::State(state));
            }
            MachineInput::Confirmed { version, asked } => {
                let asked = asked.saturating_duration_since(self.base);
                self.drive_keeper([replica::KeeperEvent::Confirmed { version, asked }]);
                self.events.push(DistributorEvent::Confirmed { version, asked });
            }
            MachineInput::Write { write, deadline } => {
                let write = self.begin_write(write, deadline);
                self.events.push(DistributorEvent::Write(write));
            }
            MachineInput::WriteBatch { writes, deadline } => {
                let writes = writes.into_iter().map(|write| self.begin_write(write, deadline)).collect();
                self.events.push(DistributorEvent::WriteBatch(writes));
            }
            MachineInput::Read { id, deadline, done } => {
                let ticket = self.ticket();
                self.reads.insert(ticket, done);
                let deadline = deadline.saturating_duration_since(self.base);
                self.events.push(DistributorEvent::Read(ClientRead { ticket, deadline, id }));
            }
            MachineInput::Request { fence, request: NodeRequest::Finish(unfinished), reply } => {
                self.finish_here(fence, unfinished, reply);
            }
            MachineInput::Request { fence, request, reply } => {
                self.pass_to_keeper(fence, request, ReplyCaller::Other(reply))
            }
            MachineInput::Answer { from, number, reply: Some(reply) } => {
                self.events.push(DistributorEvent::Reply { from, number, reply });
            }
            MachineInput::Answer { from, number, reply: None } => {
                self.events.push(DistributorEvent::Lost { to: from, number })
            }
            MachineInput::Decided { decision, outcome } => {
                self.events.push(DistributorEvent::Decided { decision, outcome })
            }
            MachineInput::Done { job, response } => self.job_done(job, response),
            MachineInput::Installed { responses } => {
                self.installing.done();
                responses.into_iter().for_each(|(job, response)| self.job_done(job, response));
                self.install_next();
            }
            MachineInput::Fetched { job, outcome } => self.fetched(job, outcome),
            MachineInput::Finished { finishing, reply } => self.finished(finishing, reply),
            // Handled before.
            MachineInput::Stop => {}
        }
    }

    fn begin_write(&mut self, write: MachineWrite, deadline: Instant) -> ClientWrite {
        let MachineWrite { change, done } = write;
        let ticket = self.ticket();
        self.writes.insert(ticket, (deadline, done));
        ClientWrite { ticket, deadline: deadline.saturating_duration_since(self.base), change }
    }

    fn ticket(&mut self) -> RequestTicket {
        self.next_ticket += 1;
        RequestTicket(self.next_ticket)
    }

    fn pass_to_keeper(&mut self, fence: RequestFence, request: NodeRequest, caller: ReplyCaller) {
        self.next_call += 1;
        let call = KeeperCall(self.next_call);
        self.calls.insert(call, caller);
        self.drive_keeper([replica::KeeperEvent::Request { call, fence, request }]);
    }

    fn job_done(&mut self, job: KeeperJob, response: NodeResponse) {
        if matches!(response, NodeResponse::Failed(_)) {
            // A fetch whose part could not be installed is not continued.
            self.fetches.remove(&job);
        }
        self.drive_keeper([replica::KeeperEvent::Done { job, response }]);
    }

    fn fetched(&mut self, job: KeeperJob, outcome: Result<Option<FetchedPart>, NodeFailure>) {
        // A cancelled fetch may still have reported an outcome.
        if !self.fetches.contains_key(&job) {
            return;
        }
        let outcome = match outcome {
            Ok(Some(part)) => {
                let before = self.fetched_parts.insert(job, part);
                assert!(
                    before.is_none(),
                    "a fetch goes on when the part before has been taken to be installed"
                );
                Ok(FetchOutcome::Part)
            }
            Ok(None) => Ok(FetchOutcome::End),
            Err(failure) => Err(failure),
        };
        if !matches!(outcome, Ok(FetchOutcome::Part)) {
            self.fetches.remove(&job);
        }
        self.drive_keeper([replica::KeeperEvent::Fetched { job, outcome }]);
    }

    fn drive_keeper(&mut self, events: impl IntoIterator<Item = replica::KeeperEvent>) {
        let mut effects = Vec::new();
        self.keeper.handle(now(self.base), events, &mut effects);
        for effect in effects {
            match effect {
                replica::KeeperEffect::Reply { call, reply } => self.reply(call, reply),
                replica::KeeperEffect::FetchState { .. } => self.fetch_state(),
                replica::KeeperEffect::Run { job, work } => {
                    let (replicas, inputs) = (Arc::clone(&self.parts.replicas), self.inputs.clone());
                    self.parts.runtime.spawn_blocking(move || {
                        let response = guarded(|| work.run(&*replicas));
                        // The machine may have stopped.
                        let _ = inputs.send(MachineInput::Done { job, response });
                    });
                }
                replica::KeeperEffect::Fetch { job, bucket, from, pull } => match self.fetches.get(&job) {
                    Some(fetch) => fetch.fetch_next(),
                    None => self.begin_fetch(job, bucket, from, pull),
                },
                replica::KeeperEffect::Install { job, .. } => self.install(job),
                replica::KeeperEffect::Cancel { job } => {
                    self.fetches.remove(&job);
                    self.fetched_parts.remove(&job);
                }
            }
        }
    }

    fn reply(&mut self, call: KeeperCall, reply: NodeReply) {
        match self.calls.remove(&call) {
            Some(ReplyCaller::Own(number)) => {
                self.events.push(DistributorEvent::Reply { from: self.parts.me, number, reply });
            }
            Some(ReplyCaller::Other(reply_to)) => reply_to(reply),
            None => unreachable!("a request is answered once"),
        }
    }

    fn begin_fetch(
        &mut self,
        job: KeeperJob,
        bucket: BucketId,
        from: NodeKey,
        pull: millrace_cluster::PullMode,
    ) {
        let Some(peer) = self.peer(from) else {
            let reason = format!("node {from} is not in the cluster state");
            return self.drive_keeper([replica::KeeperEvent::Fetched {
                job,
                outcome: Err(NodeFailure::Storage { reason }),
            }]);
        };
        let inputs = self.inputs.clone();
        let report = move |outcome| {
            // The machine may have stopped.
            let _ = inputs.send(MachineInput::Fetched { job, outcome });
        };
        let wanted = WantedReplica { bucket, from, peer, pull };
        let before = self.fetches.insert(job, self.fetching.begin(wanted, Arc::new(report)));
        assert!(before.is_none(), "a job fetches once; what goes on is not begun again");
    }

    fn install(&mut self, job: KeeperJob) {
        match self.fetched_parts.remove(&job) {
            Some(FetchedPart::Whole(whole)) => {
                self.installing.add(job, whole);
                self.install_next();
            }
            Some(part) => {
                let (replicas, inputs) = (Arc::clone(&self.parts.replicas), self.inputs.clone());
                self.parts.runtime.spawn_blocking(move || {
                    let response = guarded(|| response(part.install(replicas.store())));
                    // The machine may have stopped.
                    let _ = inputs.send(MachineInput::Done { job, response });
                });
            }
            None => unreachable!("the keeper installs a part when it has been fetched, and only once"),
        }
    }

    /// Installs the waiting files, unless others are being installed.
    fn install_next(&mut self) {
        let Some(batch) = self.installing.next() else { return };
        let (replicas, inputs) = (Arc::clone(&self.parts.replicas), self.inputs.clone());
        self.parts.runtime.spawn_blocking(move || {
            let install =
                |all: &[&FetchedReplica]| guarded(|| response(installing::install(replicas.store(), all)));
            // The machine may have stopped.
            let _ = inputs.send(MachineInput::Installed { responses: batch.run(install) });
        });
    }

    /// Address of a node of the state; `None` if it has no such node.
    pub(crate) fn peer(&self, node: NodeKey) -> Option<PeerAddress> {
        let state = self.state.as_ref()?;
        Some(peer_address(state, state.nodes().get(&node)?))
    }

    pub(crate) fn fetch_state(&self) {
        if self.fetching_state.swap(true, Ordering::AcqRel) {
            return;
        }
        let (membership, fetching) = (self.parts.membership.clone(), Arc::clone(&self.fetching_state));
        self.parts.runtime.spawn(async move {
            // The result arrives like every state; if coordination is unreachable, it is asked again.
            if let Err(error) = membership.refresh().await {
                tracing::debug!(%error, "the newest cluster state cannot be fetched");
            }
            fetching.store(false, Ordering::Release);
        });
    }

    fn carry_out(&mut self, effect: distributor::DistributorEffect) {
        match effect {
            distributor::DistributorEffect::Send { to, fence, request } if to == self.parts.me => {
                self.pass_to_keeper(fence, request, ReplyCaller::Own(fence.number));
            }
            distributor::DistributorEffect::Send { to, fence, request } => {
                let (inputs, number) = (self.inputs.clone(), fence.number);
                let answered = move |reply| {
                    // The machine may have stopped.
                    let _ = inputs.send(MachineInput::Answer { from: to, number, reply });
                };
                match self.peer(to) {
                    Some(peer) => self.parts.peers.send(&peer, fence, request, answered),
                    None => answered(None),
                }
            }
            distributor::DistributorEffect::Written { ticket, outcome } => {
                let (deadline, done) = self.writes.remove(&ticket).expect("a write is answered once");
                match outcome {
                    Err(RequestError::Moved { owner, version, unfinished: Some(unfinished) }) => {
                        let finishing = HandedOverWrite { unfinished, deadline, done };
                        self.finish_at_owner(owner, version, finishing);
                    }
                    outcome => done(outcome),
                }
            }
            distributor::DistributorEffect::Found { ticket, outcome } => {
                let done = self.reads.remove(&ticket).expect("a read is answered once");
                done(outcome);
            }
            distributor::DistributorEffect::Decide { decision, modify, current } => {
                let inputs = self.inputs.clone();
                self.parts.runtime.spawn_blocking(move || {
                    // A waiting caller must always get a decision.
                    let decided = catch_unwind(AssertUnwindSafe(|| (modify.0)(current)));
                    let outcome = decided.unwrap_or_else(|_| Err(WriteRefusal::panicked()));
                    // The machine may have stopped.
                    let _ = inputs.send(MachineInput::Decided { decision, outcome });
                });
            }
            distributor::DistributorEffect::FetchState { .. } => self.fetch_state(),
        }
    }
}

/// Address of a node of a state, with its run, and with the protocol of the state.
fn peer_address(state: &ClusterState, entry: &NodeEntry) -> PeerAddress {
    let (address, incarnation) = (entry.address.clone(), Some(entry.incarnation));
    PeerAddress { address, incarnation, protocol: state.protocol() }
}
