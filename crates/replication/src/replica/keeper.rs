use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterState, ClusterVersion, FenceRefusal, Incarnation, MachineTime, NodeFailure, NodeKey, NodeReply,
    NodeRequest, NodeResponse, PullMode, ReplicatedRow, RequestFence, RowContent,
};
use millrace_document::Timestamp;

use super::StorageWork;
use super::votes::PromisedVotes;
use crate::owners::BucketOwners;

/// Identifies a request that waits for its reply; chosen by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeeperCall(pub u64);

/// Identifies a job that the shell runs for a [`ReplicaKeeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeeperJob(pub u64);

/// Input of a [`ReplicaKeeper`].
#[derive(Debug)]
pub enum KeeperEvent {
    /// Coordination reported this state.
    State(Arc<ClusterState>),
    /// Coordination reported that this version is the newest.
    Confirmed {
        /// Version of the state.
        version: ClusterVersion,
        /// Time at which the question was sent, on the monotonic clock.
        asked: Duration,
    },
    /// A node sent a request.
    Request {
        /// Identifier to name in the reply.
        call: KeeperCall,
        /// Fence that came with the request.
        fence: RequestFence,
        /// The request.
        request: NodeRequest,
    },
    /// A job of [`KeeperEffect::Run`] or [`KeeperEffect::Install`] has ended.
    Done {
        /// Identifier of the job.
        job: KeeperJob,
        /// Its outcome.
        response: NodeResponse,
    },
    /// A fetch of [`KeeperEffect::Fetch`] has brought a part, or ended.
    Fetched {
        /// Identifier of the job.
        job: KeeperJob,
        /// Its outcome.
        outcome: Result<FetchOutcome, NodeFailure>,
    },
}

/// Result of one step of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOutcome {
    /// A part to be installed; then the fetch continues.
    Part,
    /// End of the fetch.
    End,
}

/// Output of a [`ReplicaKeeper`]: an action for the shell.
#[derive(Debug)]
pub enum KeeperEffect {
    /// Send this reply to the sender of the request.
    Reply {
        /// Identifier of the request.
        call: KeeperCall,
        /// The answer.
        reply: NodeReply,
    },
    /// A node has a newer state than this version: fetch it from coordination.
    FetchState {
        /// The known version.
        newer_than: ClusterVersion,
    },
    /// Run this work, and report with [`KeeperEvent::Done`].
    Run {
        /// Identifier of the job.
        job: KeeperJob,
        /// Work to run.
        work: StorageWork,
    },
    /// Fetch the content of another node's replica, or the next part of it, and set it aside; report with
    /// [`KeeperEvent::Fetched`].
    Fetch {
        /// Identifier of the job.
        job: KeeperJob,
        /// Bucket to fetch.
        bucket: BucketId,
        /// Source node.
        from: NodeKey,
        /// Mode of the fetch.
        pull: PullMode,
    },
    /// Install the fetched part into the replica, which must exist, and report with [`KeeperEvent::Done`].
    Install {
        /// Job that fetched the part.
        job: KeeperJob,
        /// Bucket of the replica.
        bucket: BucketId,
    },
    /// Discard the fetched part, and stop the fetch.
    Cancel {
        /// Identifier of the job.
        job: KeeperJob,
    },
}

/// Invariant of admitted requests: all requests are refused before the first state.
const ADMITTED: &str = "what is admitted was asked by a state that is known";

/// Maximum number of requests that wait for a newer state.
const HELD_MAX: usize = 4096;

/// The replica that is pulled, and the way in which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PullKey {
    bucket: BucketId,
    from: NodeKey,
    pull: PullMode,
}

/// Keeps a node's replicas by the rules of this module.
pub struct ReplicaKeeper {
    me: NodeKey,
    incarnation: Incarnation,
    confirm: Duration,
    now: Duration,
    owners: Option<BucketOwners>,
    votes: PromisedVotes,
    /// The state that this node acts by, and which voids all promises that it made by earlier states.
    adopted: ClusterVersion,
    /// Time from which this holds for the newest state.
    adopts_at: Duration,
    /// Questions of new owners, each delayed until a given time.
    promised: Vec<PromisedQuestion>,
    next_job: u64,
    /// Requests that name a newer state, in order of arrival.
    held: VecDeque<(KeeperCall, RequestFence, NodeRequest)>,
    /// Lowest valid request number by sender: requests below it are void.
    void_below: BTreeMap<NodeKey, u64>,
    running: BTreeMap<KeeperJob, RunningJob>,
    /// Running jobs that change replicas.
    changing: BTreeSet<KeeperJob>,
    /// Work that waits until no earlier job changes replicas any more.
    waiting: VecDeque<WaitingWork>,
    pulls: BTreeMap<PullKey, KeeperJob>,
}

/// A delayed question of a new owner.
struct PromisedQuestion {
    until: Duration,
    call: KeeperCall,
    owner: NodeKey,
    removals_since: Timestamp,
}

enum RunningJob {
    Work { call: KeeperCall, alone_on: Option<BucketId> },
    Pull { calls: Vec<KeeperCall>, bucket: BucketId, from: NodeKey, pull: PullMode, installing: bool },
}

struct WaitingWork {
    /// Number for its job.
    job: KeeperJob,
    call: KeeperCall,
    work: StorageWork,
    /// Bucket whose replica it changes; nothing else may change that replica meanwhile.
    alone_on: Option<BucketId>,
}

impl ReplicaKeeper {
    /// Creates the keeper of a node for one run of its process, which begins now. It answers nothing before
    /// it has seen a state. `confirm` is the setting of the owners, see
    /// [`Settings::confirm`](crate::distributor::Settings::confirm).
    pub fn new(me: NodeKey, incarnation: Incarnation, confirm: Duration, now: MachineTime) -> Self {
        ReplicaKeeper {
            me,
            incarnation,
            confirm,
            now: now.monotonic,
            owners: None,
            votes: PromisedVotes::new(now.monotonic),
            adopted: ClusterVersion::NONE,
            adopts_at: Duration::ZERO,
            promised: Vec::new(),
            next_job: 0,
            held: VecDeque::new(),
            void_below: BTreeMap::new(),
            running: BTreeMap::new(),
            changing: BTreeSet::new(),
            waiting: VecDeque::new(),
            pulls: BTreeMap::new(),
        }
    }

    /// Processes events, and appends their effects. Also to be called without events, at the time of
    /// [`ReplicaKeeper::next_wake`].
    pub fn handle(
        &mut self,
        now: MachineTime,
        events: impl IntoIterator<Item = KeeperEvent>,
        effects: &mut Vec<KeeperEffect>,
    ) {
        self.now = now.monotonic;
        for event in events {
            match event {
                KeeperEvent::State(state) => self.adopt(state, effects),
                KeeperEvent::Confirmed { version, asked } => {
                    if version == self.version() {
                        self.votes.coordination(asked);
                    }
                }
                KeeperEvent::Request { call, fence, request } => self.request(call, fence, request, effects),
                KeeperEvent::Done { job, response } => self.done(job, response, effects),
                KeeperEvent::Fetched { job, outcome } => self.fetched(job, outcome, effects),
            }
        }
        let (due, later): (Vec<PromisedQuestion>, Vec<PromisedQuestion>) =
            std::mem::take(&mut self.promised).into_iter().partition(|promised| promised.until <= self.now);
        self.promised = later;
        for PromisedQuestion { call, owner, removals_since, .. } in due {
            self.report_owned(call, owner, removals_since, effects);
        }
        if self.adopts_at <= self.now {
            self.adopted = self.version();
        }
    }

    /// Version to register as
    /// [`NodeRegistration::adopted`](millrace_cluster::controller::NodeRegistration::adopted).
    pub fn adopted(&self) -> ClusterVersion {
        self.adopted
    }

    /// Time of the next call of [`ReplicaKeeper::handle`] if there is no event before, on the monotonic
    /// clock.
    pub fn next_wake(&self) -> Option<Duration> {
        let adopts = (self.adopted < self.version()).then_some(self.adopts_at);
        self.promised.iter().map(|promised| promised.until).chain(adopts).min()
    }

    fn version(&self) -> ClusterVersion {
        self.owners.as_ref().map_or(ClusterVersion::NONE, |owners| owners.state().version())
    }

    fn reply(&self, call: KeeperCall, response: NodeResponse, effects: &mut Vec<KeeperEffect>) {
        effects.push(KeeperEffect::Reply { call, reply: NodeReply { version: self.version(), response } });
    }

    fn adopt(&mut self, state: Arc<ClusterState>, effects: &mut Vec<KeeperEffect>) {
        if state.version() <= self.version() {
            return;
        }
        self.owners = Some(BucketOwners::new(state));
        self.adopts_at = self.votes.lapsed_at(self.confirm);
        self.void_below.clear();
        for promised in std::mem::take(&mut self.promised) {
            self.reply(promised.call, NodeResponse::Refused(FenceRefusal::Stale), effects);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.reply(waiting.call, NodeResponse::Refused(FenceRefusal::Stale), effects);
        }
        // Data fetched by request of an older state must not appear after a newer owner has looked.
        for job in std::mem::take(&mut self.pulls).into_values() {
            let Some(RunningJob::Pull { calls, installing, .. }) = self.running.get_mut(&job) else {
                continue;
            };
            let (calls, installing) = (std::mem::take(calls), *installing);
            for call in calls {
                self.reply(call, NodeResponse::Failed(NodeFailure::Interrupted), effects);
            }
            if !installing {
                self.running.remove(&job);
                effects.push(KeeperEffect::Cancel { job });
            }
        }
        for (call, fence, request) in std::mem::take(&mut self.held) {
            self.request(call, fence, request, effects);
        }
    }

    fn request(
        &mut self,
        call: KeeperCall,
        fence: RequestFence,
        request: NodeRequest,
        effects: &mut Vec<KeeperEffect>,
    ) {
        if fence.version > self.version() {
            effects.push(KeeperEffect::FetchState { newer_than: self.version() });
            if self.held.len() < HELD_MAX {
                self.held.push_back((call, fence, request));
            } else {
                self.reply(call, NodeResponse::Refused(FenceRefusal::Busy), effects);
            }
            return;
        }
        match self.admit(fence, &request) {
            Err(refused) => self.reply(call, NodeResponse::Refused(refused), effects),
            Ok(()) => self.begin(call, fence.from, request, effects),
        }
    }

    fn admit(&mut self, fence: RequestFence, request: &NodeRequest) -> Result<(), FenceRefusal> {
        if fence.version < self.version() {
            return Err(FenceRefusal::Stale);
        }
        let owners = self.owners.as_mut().ok_or(FenceRefusal::Absent)?;
        let entry = owners.state().nodes().get(&self.me);
        if !entry.is_some_and(|entry| entry.incarnation == self.incarnation && entry.state.serves()) {
            return Err(FenceRefusal::Absent);
        }
        let void_below = self.void_below.entry(fence.from).or_default();
        if fence.number < *void_below {
            return Err(FenceRefusal::Void);
        }
        *void_below = fence.void_below.max(*void_below);
        let state = Arc::clone(owners.state());
        let belongs = |row: &ReplicatedRow| match &*row.content {
            RowContent::Version(version) if !state.spread().is_empty() => {
                state.bucket(version.id.location()) == row.bucket
            }
            _ => true,
        };
        let mut owns = |bucket: BucketId| owners.owner(bucket) == Some(fence.from);
        let owned = match request {
            NodeRequest::Ping | NodeRequest::Owned { .. } => true,
            NodeRequest::Finish(_) => false,
            NodeRequest::Apply(rows) => rows.iter().all(|row| owns(row.bucket) && belongs(row)),
            NodeRequest::Create(bucket)
            | NodeRequest::Info { bucket, .. }
            | NodeRequest::Read { bucket, .. }
            | NodeRequest::Pull { bucket, .. }
            | NodeRequest::Complete { bucket, .. }
            | NodeRequest::Delete { bucket, .. } => owns(*bucket),
        };
        if owned { Ok(()) } else { Err(FenceRefusal::NotOwner) }
    }

    fn begin(
        &mut self,
        call: KeeperCall,
        from: NodeKey,
        request: NodeRequest,
        effects: &mut Vec<KeeperEffect>,
    ) {
        match request {
            NodeRequest::Ping => {
                let votes = self.votes.vote(from, self.now, self.confirm);
                self.reply(call, NodeResponse::Pong { votes }, effects);
            }
            NodeRequest::Owned { removals_since } => {
                let owners = self.owners.as_ref().expect(ADMITTED);
                match self.votes.bound_until(owners.state(), self.confirm) {
                    Some(until) if until > self.now => {
                        self.promised.push(PromisedQuestion { until, call, owner: from, removals_since });
                    }
                    _ => self.report_owned(call, from, removals_since, effects),
                }
            }
            NodeRequest::Info { bucket, removals_since } => {
                self.wait(call, StorageWork::Info { bucket, removals_since }, None, effects);
            }
            NodeRequest::Complete { bucket, expected } => {
                self.wait(call, StorageWork::Complete { bucket, expected }, Some(bucket), effects);
            }
            NodeRequest::Delete { bucket, expected } => {
                self.wait(call, StorageWork::Delete { bucket, expected }, Some(bucket), effects);
            }
            NodeRequest::Apply(rows) if rows.iter().any(|row| self.is_alone(row.bucket)) => {
                self.reply(call, NodeResponse::Refused(FenceRefusal::Busy), effects);
            }
            NodeRequest::Apply(rows) => self.run(call, StorageWork::Apply(rows), true, effects),
            NodeRequest::Create(bucket) => self.run(call, StorageWork::Create(bucket), true, effects),
            NodeRequest::Read { bucket, id } => {
                self.run(call, StorageWork::Read { bucket, id }, false, effects)
            }
            NodeRequest::Pull { bucket, from, pull } => {
                self.pull(call, PullKey { bucket, from, pull }, effects)
            }
            NodeRequest::Finish(_) => {
                unreachable!("what another owner began is ended by the shell, and refused here")
            }
        }
    }

    fn report_owned(
        &mut self,
        call: KeeperCall,
        owner: NodeKey,
        removals_since: Timestamp,
        effects: &mut Vec<KeeperEffect>,
    ) {
        let owners = self.owners.as_ref().expect(ADMITTED);
        let work = StorageWork::Owned { state: Arc::clone(owners.state()), owner, removals_since };
        self.wait(call, work, None, effects);
    }

    /// True if the replica of a bucket is being completed or deleted, or is about to be.
    fn is_alone(&self, bucket: BucketId) -> bool {
        self.waiting.iter().any(|waiting| waiting.alone_on == Some(bucket))
            || self.running.values().any(
                |running| matches!(running, RunningJob::Work { alone_on: Some(other), .. } if *other == bucket),
            )
    }

    /// True if a fetched part is being installed into the replica of a bucket.
    fn is_installing(&self, of: BucketId) -> bool {
        let installs = |running: &RunningJob| matches!(running, RunningJob::Pull { bucket, installing: true, .. } if *bucket == of);
        self.running.values().any(installs)
    }

    fn job(&mut self) -> KeeperJob {
        self.next_job += 1;
        KeeperJob(self.next_job)
    }

    fn run(&mut self, call: KeeperCall, work: StorageWork, changes: bool, effects: &mut Vec<KeeperEffect>) {
        let job = self.job();
        self.running.insert(job, RunningJob::Work { call, alone_on: None });
        if changes {
            self.changing.insert(job);
        }
        effects.push(KeeperEffect::Run { job, work });
    }

    fn wait(
        &mut self,
        call: KeeperCall,
        work: StorageWork,
        alone_on: Option<BucketId>,
        effects: &mut Vec<KeeperEffect>,
    ) {
        let job = self.job();
        self.waiting.push_back(WaitingWork { job, call, work, alone_on });
        self.release(effects);
    }

    /// Runs work that waited for changes, once these have ended.
    fn release(&mut self, effects: &mut Vec<KeeperEffect>) {
        while let Some(waiting) = self.waiting.front() {
            if self.changing.first().is_some_and(|oldest| *oldest < waiting.job) {
                return;
            }
            let waiting = self.waiting.pop_front().expect("the first one was just looked at");
            let WaitingWork { job, call, work, alone_on } = waiting;
            assert!(
                alone_on.is_none_or(|bucket| !self.is_installing(bucket)),
                "a replica is completed or deleted while nothing is taken into it"
            );
            self.running.insert(job, RunningJob::Work { call, alone_on });
            if alone_on.is_some() {
                self.changing.insert(job);
            }
            effects.push(KeeperEffect::Run { job, work });
        }
    }

    fn pull(&mut self, call: KeeperCall, key: PullKey, effects: &mut Vec<KeeperEffect>) {
        let in_flight = self.pulls.get(&key).and_then(|job| self.running.get_mut(job));
        if let Some(RunningJob::Pull { calls, .. }) = in_flight {
            calls.push(call);
            return;
        }
        let job = self.job();
        let PullKey { bucket, from, pull } = key;
        self.pulls.insert(key, job);
        self.running
            .insert(job, RunningJob::Pull { calls: vec![call], bucket, from, pull, installing: false });
        effects.push(KeeperEffect::Fetch { job, bucket, from, pull });
    }

    fn fetched(
        &mut self,
        job: KeeperJob,
        outcome: Result<FetchOutcome, NodeFailure>,
        effects: &mut Vec<KeeperEffect>,
    ) {
        // A new state may have cancelled the job.
        let Some(RunningJob::Pull { bucket, .. }) = self.running.get(&job) else { return };
        let bucket = *bucket;
        match outcome {
            Ok(FetchOutcome::Part) if self.is_alone(bucket) => {
                effects.push(KeeperEffect::Cancel { job });
                self.end_pull(job, NodeResponse::Failed(NodeFailure::Interrupted), effects);
            }
            Ok(FetchOutcome::Part) => {
                let Some(RunningJob::Pull { installing, .. }) = self.running.get_mut(&job) else {
                    unreachable!("the job was there a moment ago");
                };
                assert!(!*installing, "a fetch goes on when the part before is installed");
                *installing = true;
                self.changing.insert(job);
                effects.push(KeeperEffect::Install { job, bucket });
            }
            Ok(FetchOutcome::End) => self.end_pull(job, NodeResponse::Done, effects),
            Err(failure) => self.end_pull(job, NodeResponse::Failed(failure), effects),
        }
    }

    fn end_pull(&mut self, job: KeeperJob, response: NodeResponse, effects: &mut Vec<KeeperEffect>) {
        let Some(RunningJob::Pull { calls, bucket, from, pull, .. }) = self.running.remove(&job) else {
            unreachable!("a fetch ends once");
        };
        // Another fetch may have begun since, by a newer state.
        if self.pulls.get(&PullKey { bucket, from, pull }) == Some(&job) {
            self.pulls.remove(&PullKey { bucket, from, pull });
        }
        for call in calls {
            self.reply(call, response.clone(), effects);
        }
    }

    fn done(&mut self, job: KeeperJob, response: NodeResponse, effects: &mut Vec<KeeperEffect>) {
        self.changing.remove(&job);
        match self.running.get_mut(&job) {
            None => {}
            Some(RunningJob::Work { call, .. }) => {
                let call = *call;
                self.running.remove(&job);
                self.reply(call, response, effects);
            }
            Some(RunningJob::Pull { bucket, from, pull, installing, .. }) => {
                *installing = false;
                let (bucket, from, pull) = (*bucket, *from, *pull);
                let current = self.pulls.get(&PullKey { bucket, from, pull }) == Some(&job);
                match response {
                    NodeResponse::Failed(_) => self.end_pull(job, response, effects),
                    _ if current => effects.push(KeeperEffect::Fetch { job, bucket, from, pull }),
                    _ => {
                        self.running.remove(&job);
                        effects.push(KeeperEffect::Cancel { job });
                    }
                }
            }
        }
        self.release(effects);
    }
}
