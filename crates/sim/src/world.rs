//! The virtual world: its queue of events, and their effects.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::reindexing::{ReindexEvent, ReindexJobId, ReindexWalk};
use millrace_cluster::{
    Incarnation, MachineTime, NodeFailure, NodeKey, NodeReply, NodeRequest, NodeResponse, ReplicaContent,
    RequestFence,
};
use millrace_fixtures::SeededRandom;
use millrace_replication::distributor;
use millrace_replication::replica::{self, KeeperCall, KeeperJob, StorageWork};

use crate::batches::BatchHistory;
use crate::clients::outcome_operation;
use crate::coordination::{NodeHeartbeat, SimCoordination};
use crate::deployments::SimPackage;
use crate::disk::SimDisk;
use crate::examined_drops::{ExaminationStep, ExaminedDrop};
use crate::history::ClientHistory;
use crate::indexes::{IndexEvent, SimIndexes};
use crate::logs::LogEventHistory;
use crate::message::{SimMessage, bucket_of, describe, show};
use crate::network::{SimAddress, SimNetwork};
use crate::node::SimNode;
use crate::reindexing::{ReindexHistory, SimNotes, reindexed};
use crate::{Sabotage, SimOptions};

/// Maximum number of recorded lines.
const LINES: usize = 20_000;

/// An event at a given time.
#[derive(Debug)]
pub(crate) enum SimEvent {
    Arrives { to: SimAddress, message: SimMessage },
    JobDone { node: NodeKey, incarnation: Incarnation, job: KeeperJob },
    Wake { node: NodeKey, incarnation: Incarnation },
    FetchTimeout { node: NodeKey, incarnation: Incarnation, job: KeeperJob, turn: u64 },
    Lost { node: NodeKey, incarnation: Incarnation, to: NodeKey, number: u64 },
    Heartbeat { node: NodeKey },
    Publish,
    Active { node: NodeKey, incarnation: Incarnation, package: Arc<SimPackage> },
    GivesUp { node: NodeKey, incarnation: Incarnation },
    Reindex { node: NodeKey, incarnation: Incarnation, event: Option<ReindexEvent> },
    Walk { node: NodeKey, incarnation: Incarnation, job: ReindexJobId, walk: ReindexWalk },
    Examine { node: NodeKey, incarnation: Incarnation, drop: ExaminedDrop, step: ExaminationStep },
    Indexes { node: NodeKey, incarnation: Incarnation, event: IndexEvent },
}

/// State of the whole simulation.
pub(crate) struct SimWorld {
    pub options: SimOptions,
    pub now: Duration,
    pub random: SeededRandom,
    pub nodes: BTreeMap<NodeKey, SimNode>,
    pub network: SimNetwork,
    pub coordination: SimCoordination,
    pub history: ClientHistory,
    pub batches: BatchHistory,
    pub logs: LogEventHistory,
    pub indexes: SimIndexes,
    pub notes: SimNotes,
    pub reindexings: ReindexHistory,
    queue: BTreeMap<(Duration, u64), SimEvent>,
    next: u64,
    lines: VecDeque<String>,
    /// Violation found during the run, if any.
    pub wrong: Option<String>,
    pub processed_events: u64,
    /// Time by which all clocks were set forward, in microseconds.
    pub skipped_us: i64,
}

impl SimWorld {
    pub fn new(seed: u64, options: SimOptions) -> Self {
        let mut random = SeededRandom::new(seed ^ 0x6d69_6c6c_7261_6365);
        let redundancy = 1 + random.below(3) as u16;
        let redundancy = options.redundancy.unwrap_or(redundancy.max(1 + random.below(2) as u16));
        let mut world = SimWorld {
            now: Duration::ZERO,
            nodes: BTreeMap::new(),
            network: SimNetwork::default(),
            coordination: SimCoordination::new(options.bits, redundancy),
            history: ClientHistory::default(),
            batches: BatchHistory::default(),
            logs: LogEventHistory::default(),
            indexes: SimIndexes::default(),
            notes: SimNotes::default(),
            reindexings: ReindexHistory::default(),
            queue: BTreeMap::new(),
            next: 0,
            lines: VecDeque::new(),
            wrong: None,
            processed_events: 0,
            skipped_us: 0,
            random,
            options,
        };
        world.schedule(Duration::from_millis(500), SimEvent::Publish);
        world
    }

    pub fn join(&mut self) -> NodeKey {
        let key = NodeKey(self.nodes.len() as u16);
        // Clocks differ in speed far more than real ones.
        let pace = 900 + self.random.below(201) as u32;
        let mut node = SimNode::new(key, pace, self.now);
        node.clock_off = self.skipped_us;
        node.storage.set_names_synced(self.options.sabotage != Some(Sabotage::NamesNotSynced));
        let application = Arc::new(reindexed(None, &node.package));
        self.nodes.insert(key, node);
        if let Some(node) = self.nodes.get_mut(&key) {
            node.application = Some(Arc::clone(&application));
        }
        self.reindex(key, vec![ReindexEvent::Application(application)]);
        self.schedule(Duration::ZERO, SimEvent::Heartbeat { node: key });
        self.begin_indexes(key);
        key
    }

    /// Records an event. Costs nothing unless recording is enabled.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if !self.options.trace {
            return;
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        let line = format!("{:>10.4} {}", self.now.as_secs_f64(), line());
        self.lines.push_back(line);
    }

    pub fn take_lines(&mut self) -> Vec<String> {
        self.lines.drain(..).collect()
    }

    pub fn schedule(&mut self, after: Duration, event: SimEvent) {
        self.next += 1;
        self.queue.insert((self.now + after, self.next), event);
    }

    /// Breaks a node's disk, which makes nothing durable any more; the node notices, and ends.
    pub fn break_disk(&mut self, key: NodeKey) {
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.alive) else { return };
        node.disk = SimDisk::Broken;
        let incarnation = node.incarnation;
        let takes = self.random.micros(1_000, 2_000_000);
        self.schedule(takes, SimEvent::GivesUp { node: key, incarnation });
    }

    /// Schedules the activation of a package on a node after this time.
    pub fn activate_after(
        &mut self,
        takes: Duration,
        (node, incarnation): (NodeKey, Incarnation),
        package: Arc<SimPackage>,
    ) {
        self.schedule(takes, SimEvent::Active { node, incarnation, package });
    }

    /// Processes all events within this time, or until a violation is found.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.wrong.is_none()
            && let Some(first) = self.queue.first_entry()
            && first.key().0 <= end
        {
            let ((at, _), event) = first.remove_entry();
            self.now = at;
            self.processed_events += 1;
            self.process_event(event);
        }
        self.now = end;
    }

    fn process_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::Arrives { to: SimAddress::Coordination, message } => self.coordinate(message),
            SimEvent::Arrives { to: SimAddress::Node(key), message } => {
                let Some(node) = self.nodes.get_mut(&key) else { return };
                if node.frozen {
                    node.backlog.push_back(message);
                } else if node.alive {
                    self.deliver(key, message);
                }
            }
            SimEvent::JobDone { node, incarnation, job } => self.job_done(node, incarnation, job),
            SimEvent::Wake { node: key, incarnation } => {
                let Some(node) = self.nodes.get_mut(&key) else { return };
                if node.incarnation != incarnation || node.wakes_at != Some(self.now) {
                    return;
                }
                node.wakes_at = None;
                if node.alive && !node.frozen {
                    self.keep(key, Vec::new());
                    self.distribute(key, Vec::new());
                }
            }
            SimEvent::FetchTimeout { node: key, incarnation, job, turn } => {
                let waits = self.nodes.get(&key).is_some_and(|node| {
                    node.incarnation == incarnation
                        && node.fetches.get(&job).is_some_and(|fetch| fetch.turn == turn)
                });
                if waits {
                    self.fetch_ended(
                        key,
                        job,
                        Err(NodeFailure::Storage { reason: "the link broke".to_owned() }),
                    );
                }
            }
            SimEvent::Lost { node, incarnation, to, number } => {
                if self.nodes.get(&node).is_some_and(|node| node.incarnation == incarnation) {
                    self.distribute(node, vec![distributor::DistributorEvent::Lost { to, number }]);
                }
            }
            SimEvent::Heartbeat { node: key } => {
                self.schedule(Duration::from_millis(900), SimEvent::Heartbeat { node: key });
                let Some(node) = self.nodes.get(&key) else { return };
                if node.alive && !node.frozen {
                    self.send_heartbeat(key);
                }
            }
            SimEvent::GivesUp { node: key, incarnation } => {
                if self.nodes.get(&key).is_some_and(|node| node.incarnation == incarnation && node.alive) {
                    self.note(|| format!("n{key} cannot sync, and ends"));
                    self.crash(key);
                }
            }
            SimEvent::Active { node, incarnation, package } => {
                self.package_active((node, incarnation), package);
            }
            SimEvent::Examine { node, incarnation, drop, step } => {
                self.examine((node, incarnation), drop, step);
            }
            SimEvent::Reindex { node, incarnation, event } => self.reindex_due((node, incarnation), event),
            SimEvent::Walk { node, incarnation, job, walk } => self.walk((node, incarnation), job, walk),
            SimEvent::Indexes { node, incarnation, event } => self.index_event((node, incarnation), event),
            SimEvent::Publish => {
                self.schedule(Duration::from_millis(500), SimEvent::Publish);
                if let Some(state) = self.coordination.publish(self.now) {
                    self.note(|| format!("state {}", describe(&state)));
                    for key in state.nodes().keys() {
                        let message = SimMessage::State(Arc::clone(&state));
                        self.send(SimAddress::Coordination, SimAddress::Node(*key), message);
                    }
                }
            }
        }
    }

    pub fn send(&mut self, from: SimAddress, to: SimAddress, message: SimMessage) {
        let mut delays = self.network.carry(from, to, &mut self.random);
        // One request, one answer: the transport of clients' operations does not duplicate them.
        if matches!(message, SimMessage::Client { .. } | SimMessage::ClientBatch(_)) {
            delays.truncate(1);
        }
        // Connections deliver a row once. Twice does no harm where the outcome is the same: a disk that gets
        // room meanwhile would refuse the first, and take the second.
        let is_row = matches!(&message, SimMessage::Request { request: NodeRequest::Apply(_), .. });
        let is_full = |node: &SimNode| SimAddress::Node(node.key) == to && !node.disk.takes_more();
        if is_row && self.nodes.values().any(is_full) {
            delays.truncate(1);
        }
        for delay in delays {
            self.schedule(delay, SimEvent::Arrives { to, message: message.clone() });
        }
    }

    fn coordinate(&mut self, message: SimMessage) {
        let (from, asked, generation, heartbeat) = match message {
            SimMessage::Heartbeat { from, incarnation, adopted, asked, generation, out_of_space } => {
                (from, asked, generation, NodeHeartbeat { incarnation, adopted, out_of_space })
            }
            SimMessage::WriteNotes { from, incarnation, job, guard, notes } => {
                let written = self.write_notes(guard, notes);
                if let Some(job) = job {
                    let message = SimMessage::NotesWritten { incarnation, job, written };
                    self.send(SimAddress::Coordination, SimAddress::Node(from), message);
                }
                return;
            }
            SimMessage::Publish { based_on, package } => return self.publish_package(based_on, package),
            SimMessage::Indexes { from, message } => {
                return self.index_message_to_coordination(from, *message);
            }
            _ => return,
        };
        if !self.coordination.record_heartbeat(from, &heartbeat, self.now) {
            return;
        }
        let package = Arc::clone(self.coordination.package());
        if generation < package.generation {
            self.send(SimAddress::Coordination, SimAddress::Node(from), SimMessage::Package(package));
        }
        if self.options.reindexing {
            self.send_notes(from);
        }
        let Some(state) = self.coordination.state().cloned() else { return };
        let version = state.version();
        let lease_lives =
            state.nodes().get(&from).is_some_and(|entry| entry.incarnation == heartbeat.incarnation);
        self.send(SimAddress::Coordination, SimAddress::Node(from), SimMessage::State(state));
        if lease_lives {
            let confirmed = SimMessage::Confirmed { incarnation: heartbeat.incarnation, version, asked };
            self.send(SimAddress::Coordination, SimAddress::Node(from), confirmed);
        }
    }

    /// Delivers a message to a node that can take it.
    pub fn deliver(&mut self, key: NodeKey, message: SimMessage) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        match message {
            SimMessage::State(state) => {
                if node.state.as_ref().is_none_or(|known| known.version() < state.version()) {
                    node.state = Some(Arc::clone(&state));
                    self.keep(key, vec![replica::KeeperEvent::State(Arc::clone(&state))]);
                    self.distribute(key, vec![distributor::DistributorEvent::State(Arc::clone(&state))]);
                    let state = self.reindexing_state(&state);
                    self.reindex(key, vec![ReindexEvent::State(state)]);
                }
            }
            SimMessage::Confirmed { incarnation, version, asked } if incarnation == node.incarnation => {
                self.keep(key, vec![replica::KeeperEvent::Confirmed { version, asked }]);
                self.distribute(key, vec![distributor::DistributorEvent::Confirmed { version, asked }]);
            }
            SimMessage::Request { mut fence, mut request } => {
                let call = KeeperCall(node.name());
                node.calls.insert(call, (fence.from, fence.number));
                sabotage_request(self.options.sabotage, node, &mut fence, &mut request);
                self.keep(key, vec![replica::KeeperEvent::Request { call, fence, request }]);
            }
            SimMessage::Reply { from, incarnation, number, reply } if incarnation == node.incarnation => {
                self.distribute(key, vec![distributor::DistributorEvent::Reply { from, number, reply }]);
            }
            SimMessage::Fetch { from, incarnation, job, turn, version, bucket, known, after } => {
                let rows = node.part(version, bucket, known.as_deref(), after);
                let message = SimMessage::Fetched { incarnation, job, turn, rows };
                self.send(SimAddress::Node(key), SimAddress::Node(from), message);
            }
            SimMessage::Fetched { incarnation, job, turn, rows } if incarnation == node.incarnation => {
                self.part_arrived(key, job, turn, rows);
            }
            SimMessage::Notes { revision, notes } => self.notes_arrived(key, revision, notes),
            SimMessage::NotesWritten { incarnation, job, written } if incarnation == node.incarnation => {
                self.reindex(key, vec![ReindexEvent::Written { job, outcome: Ok(written) }]);
            }
            SimMessage::Package(package) => self.package_arrived(key, package),
            SimMessage::Client { operation, unfinished, hops } => {
                self.client(key, operation, unfinished, hops)
            }
            SimMessage::ClientBatch(operations) => self.client_batch(key, operations),
            SimMessage::Indexes { from, message } => self.index_message(key, from, *message),
            SimMessage::Confirmed { .. }
            | SimMessage::Reply { .. }
            | SimMessage::Fetched { .. }
            | SimMessage::Publish { .. }
            | SimMessage::WriteNotes { .. }
            | SimMessage::NotesWritten { .. }
            | SimMessage::Heartbeat { .. } => {}
        }
    }

    /// Passes events to the keeper of a node.
    pub fn keep(&mut self, key: NodeKey, events: Vec<replica::KeeperEvent>) {
        let mut effects = Vec::new();
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let now = node.now(self.now);
        node.keeper.handle(now, events, &mut effects);
        for effect in effects {
            self.keeper_effect(key, effect);
        }
        let wake = self.nodes.get(&key).and_then(|node| node.keeper.next_wake());
        self.wake_at(key, wake);
    }

    fn keeper_effect(&mut self, key: NodeKey, effect: replica::KeeperEffect) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let incarnation = node.incarnation;
        match effect {
            replica::KeeperEffect::Reply { call, mut reply } => {
                if self.options.sabotage == Some(Sabotage::NoComparison)
                    && let NodeResponse::Replicas { replicas, .. } = &mut reply.response
                {
                    for (_, info) in replicas {
                        let removals_since = info.content.removals_since;
                        info.content = ReplicaContent { removals_since, ..ReplicaContent::default() };
                    }
                }
                let (from, number) = node.calls.remove(&call).expect("a request is answered once");
                self.reply(key, from, number, reply);
            }
            replica::KeeperEffect::FetchState { .. } => self.send_heartbeat(key),
            replica::KeeperEffect::Run { job, work } => {
                let slow = if node.slow_disk { 100 } else { 1 };
                let early = self.options.sabotage == Some(Sabotage::EarlyAcknowledgement)
                    && matches!(work, StorageWork::Apply(_));
                node.jobs.insert(job, work);
                let takes = self.random.micros(50, 2_000) * slow;
                if early {
                    self.keep(
                        key,
                        vec![replica::KeeperEvent::Done { job, response: NodeResponse::Applied(Vec::new()) }],
                    );
                }
                self.schedule(takes, SimEvent::JobDone { node: key, incarnation, job });
            }
            replica::KeeperEffect::Fetch { job, bucket, from, pull } => {
                self.request_part(key, job, bucket, from, pull);
            }
            replica::KeeperEffect::Install { job, .. } => {
                let takes = self.random.micros(50, 5_000);
                self.schedule(takes, SimEvent::JobDone { node: key, incarnation, job });
            }
            replica::KeeperEffect::Cancel { job } => {
                node.fetches.remove(&job);
            }
        }
    }

    fn reply(&mut self, key: NodeKey, to: NodeKey, number: u64, reply: NodeReply) {
        // The asker's run is part of the connection.
        let Some(incarnation) = self.nodes.get(&to).map(|node| node.incarnation) else { return };
        let message = SimMessage::Reply { from: key, incarnation, number, reply };
        self.send(SimAddress::Node(key), SimAddress::Node(to), message);
    }

    fn send_heartbeat(&mut self, key: NodeKey) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let MachineTime { monotonic: asked, wall_us } = node.now(self.now);
        node.took_part = wall_us;
        let (incarnation, adopted) = (node.incarnation, node.keeper.adopted());
        let generation = node.package.generation;
        let out_of_space = node.disk.is_full_for_long(self.now);
        let message =
            SimMessage::Heartbeat { from: key, incarnation, adopted, asked, generation, out_of_space };
        self.send(SimAddress::Node(key), SimAddress::Coordination, message);
    }

    fn job_done(&mut self, key: NodeKey, incarnation: Incarnation, job: KeeperJob) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.incarnation != incarnation || !node.alive {
            return;
        }
        if node.frozen {
            // It continues when the process does.
            return self
                .schedule(Duration::from_millis(100), SimEvent::JobDone { node: key, incarnation, job });
        }
        let response = match node.jobs.remove(&job) {
            Some(work) => {
                let work = match self.options.sabotage {
                    Some(Sabotage::BatchPartDropped) => self.batches.without_last(work),
                    _ => work,
                };
                node.disk.run(work, &node.storage, &mut self.random)
            }
            None if !node.disk.takes_more() => {
                node.fetches.remove(&job);
                NodeResponse::Failed(NodeFailure::DiskFull {
                    reason: "no room for what was fetched".to_owned(),
                })
            }
            None => {
                let Some(fetch) = node.fetches.get_mut(&job) else { return };
                let rows = std::mem::take(&mut fetch.laid_aside);
                match node.storage.install(fetch.bucket, &rows) {
                    Ok(()) => NodeResponse::Done,
                    Err(failure) => {
                        node.fetches.remove(&job);
                        NodeResponse::Failed(failure)
                    }
                }
            }
        };
        // Before anything is acknowledged.
        self.feed_changes(key);
        self.keep(key, vec![replica::KeeperEvent::Done { job, response }]);
    }

    /// Passes events to the distributor of a node.
    pub fn distribute(&mut self, key: NodeKey, events: Vec<distributor::DistributorEvent>) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if !node.alive || node.frozen {
            return;
        }
        let mut effects = Vec::new();
        let now = node.now(self.now);
        node.distributor.handle(now, events, &mut effects);
        for effect in effects {
            self.distributor_effect(key, effect);
        }
        let wake = self.nodes.get(&key).and_then(|node| node.distributor.next_wake());
        self.wake_at(key, wake);
    }

    /// Schedules a call of a node at this time of its own clock, if none comes before.
    fn wake_at(&mut self, key: NodeKey, wake: Option<Duration>) {
        let (Some(node), Some(wake)) = (self.nodes.get_mut(&key), wake) else { return };
        let after = wake.saturating_sub(node.now(self.now).monotonic) * 1_000 / node.pace;
        let after = after.max(Duration::from_micros(500));
        let at = self.now + after;
        if node.wakes_at.is_none_or(|known| known <= self.now || known > at) {
            node.wakes_at = Some(at);
            let incarnation = node.incarnation;
            self.schedule(after, SimEvent::Wake { node: key, incarnation });
        }
    }

    fn distributor_effect(&mut self, key: NodeKey, effect: distributor::DistributorEffect) {
        match effect {
            distributor::DistributorEffect::Send { to, fence, request } => {
                if !matches!(request, NodeRequest::Ping) {
                    self.note(|| {
                        format!("n{key} → n{to} #{} v{} {}", fence.number, fence.version, show(&request))
                    });
                }
                let long = request.is_long();
                let number = fence.number;
                let before = self.queue.len();
                self.send(
                    SimAddress::Node(key),
                    SimAddress::Node(to),
                    SimMessage::Request { fence, request },
                );
                // Sometimes the sender is notified that the connection broke.
                if self.queue.len() == before && !long && self.random.permille(300) {
                    let incarnation = self.nodes[&key].incarnation;
                    let after = self.random.micros(500, 20_000);
                    self.schedule(after, SimEvent::Lost { node: key, incarnation, to, number });
                }
            }
            distributor::DistributorEffect::FetchState { .. } => self.send_heartbeat(key),
            distributor::DistributorEffect::Decide { decision, modify, current } => {
                let at = current.as_ref().map(|version| version.timestamp).unwrap_or_default();
                let outcome = (modify.0)(current);
                if let Some(operation) = outcome_operation(&outcome) {
                    self.check_seen(key, operation, at);
                }
                self.distribute(key, vec![distributor::DistributorEvent::Decided { decision, outcome }]);
            }
            distributor::DistributorEffect::Written { ticket, outcome } => self.written(key, ticket, outcome),
            distributor::DistributorEffect::Found { ticket, outcome } => self.found(key, ticket, outcome),
        }
    }
}

/// Applies the defects of nodes that do not check a request as they should.
fn sabotage_request(
    defect: Option<Sabotage>,
    node: &SimNode,
    fence: &mut RequestFence,
    request: &mut NodeRequest,
) {
    if defect == Some(Sabotage::NoFence) {
        if let Some(state) = &node.state {
            fence.version = state.version();
            if let Some(owner) = bucket_of(request).and_then(|bucket| state.owner(bucket)) {
                fence.from = owner;
            }
            fence.void_below = 0;
            fence.number = u64::MAX;
        }
    } else if defect == Some(Sabotage::NoComparison)
        && let NodeRequest::Delete { bucket, expected } | NodeRequest::Complete { bucket, expected } = request
        && let Some(info) = node.storage.info(*bucket, expected.removals_since)
    {
        *expected = info.content;
    }
}
