use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use super::Work;
use super::votes::Votes;
use crate::owners::Owners;
use crate::{
    ClusterState, Failure, Fence, NodeKey, Now, Pull, Refused, Reply, Request, Response, Row, RowContent,
};

/// Names a request that waits for its reply; chosen by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call(pub u64);

/// Names something that the shell does for a [`Keeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job(pub u64);

/// What happens to a [`Keeper`].
#[derive(Debug)]
pub enum Event {
    /// Coordination has this state.
    State(Arc<ClusterState>),
    /// Coordination said that this version is the newest.
    Confirmed {
        /// The version.
        version: u64,
        /// When it was asked, on the monotonic clock.
        asked: Duration,
    },
    /// A node asks.
    Request {
        /// To be named in the reply.
        call: Call,
        /// What came with the request.
        fence: Fence,
        /// What is asked.
        request: Request,
    },
    /// What [`Effect::Run`] or [`Effect::Install`] asked for is done.
    Done {
        /// Which job.
        job: Job,
        /// What came of it.
        response: Response,
    },
    /// What [`Effect::Fetch`] asked for is there.
    Fetched {
        /// Which job.
        job: Job,
        /// What came.
        outcome: Result<Fetched, Failure>,
    },
}

/// What a fetch has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// Something that is to be installed; then the fetch goes on.
    Part,
    /// There is nothing more.
    End,
}

/// What a [`Keeper`] wants done.
#[derive(Debug)]
pub enum Effect {
    /// Send this to who asked.
    Reply {
        /// Which request.
        call: Call,
        /// The answer.
        reply: Reply,
    },
    /// Someone has a newer state than this version: get it from coordination.
    FetchState {
        /// The version that is known.
        newer_than: u64,
    },
    /// Run this, and report with [`Event::Done`].
    Run {
        /// Which job.
        job: Job,
        /// What to do.
        work: Work,
    },
    /// Fetch from another node what its replica has, or the next part of it, and lay it aside; report with [`Event::Fetched`].
    Fetch {
        /// Which job.
        job: Job,
        /// Of which bucket.
        bucket: BucketId,
        /// From whom.
        from: NodeKey,
        /// How.
        pull: Pull,
    },
    /// Take what was laid aside into the replica, which must exist, and report with [`Event::Done`].
    Install {
        /// The job that fetched it.
        job: Job,
        /// Of which bucket.
        bucket: BucketId,
    },
    /// Throw away what was laid aside, and fetch no more.
    Cancel {
        /// Which job.
        job: Job,
    },
}

/// Why there is a state: everything else is refused before the first one.
const ADMITTED: &str = "what is admitted was asked by a state that is known";

/// The most requests that wait for a newer state.
const HELD_MAX: usize = 4096;

/// Keeps a node's replicas by the rules of this module.
pub struct Keeper {
    me: NodeKey,
    incarnation: u64,
    confirm: Duration,
    now: Duration,
    owners: Option<Owners>,
    votes: Votes,
    /// The state that this node acts by, and by which nothing counts any more that it promised by an earlier one.
    adopted: u64,
    /// When that can be said of the newest.
    adopts_at: Duration,
    /// Questions of new owners that have to wait until this time.
    promised: Vec<Promised>,
    next_job: u64,
    /// Requests by a newer state, in the order in which they came.
    held: VecDeque<(Call, Fence, Request)>,
    /// By sender: requests below are void.
    void_below: BTreeMap<NodeKey, u64>,
    running: BTreeMap<Job, Running>,
    /// Of those that run, the ones that change replicas.
    changing: BTreeSet<Job>,
    /// What waits until nothing that was begun before changes replicas any more.
    waiting: VecDeque<Waiting>,
    pulls: BTreeMap<(BucketId, NodeKey, Pull), Job>,
}

/// A question of a new owner that waits.
struct Promised {
    until: Duration,
    call: Call,
    owner: NodeKey,
    removals_since: Timestamp,
}

enum Running {
    Work { call: Call, alone_on: Option<BucketId> },
    Pull { calls: Vec<Call>, bucket: BucketId, from: NodeKey, pull: Pull, installing: bool },
}

struct Waiting {
    /// The number that its job has.
    job: Job,
    call: Call,
    work: Work,
    /// It changes the replica of this bucket, and nothing else may meanwhile.
    alone_on: Option<BucketId>,
}

impl Keeper {
    /// The keeper of a node, in one run of its process, which begins now. It answers nothing before it has seen a state. `confirm` is that of the
    /// owners, see [`Settings::confirm`](crate::distributor::Settings::confirm).
    pub fn new(me: NodeKey, incarnation: u64, confirm: Duration, now: Now) -> Self {
        Keeper {
            me,
            incarnation,
            confirm,
            now: now.monotonic,
            owners: None,
            votes: Votes::new(now.monotonic),
            adopted: 0,
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

    /// Takes in what happened, and appends what follows from it. Also to be called without events, when [`Keeper::next_wake`] says.
    pub fn handle(&mut self, now: Now, events: impl IntoIterator<Item = Event>, effects: &mut Vec<Effect>) {
        self.now = now.monotonic;
        for event in events {
            match event {
                Event::State(state) => self.adopt(state, effects),
                Event::Confirmed { version, asked } => {
                    if version == self.version() {
                        self.votes.coordination(asked);
                    }
                }
                Event::Request { call, fence, request } => self.request(call, fence, request, effects),
                Event::Done { job, response } => self.done(job, response, effects),
                Event::Fetched { job, outcome } => self.fetched(job, outcome, effects),
            }
        }
        let (due, later): (Vec<Promised>, Vec<Promised>) =
            std::mem::take(&mut self.promised).into_iter().partition(|promised| promised.until <= self.now);
        self.promised = later;
        for Promised { call, owner, removals_since, .. } in due {
            self.tell_owned(call, owner, removals_since, effects);
        }
        if self.adopts_at <= self.now {
            self.adopted = self.version();
        }
    }

    /// What is to be registered as [`Registration::adopted`](crate::controller::Registration::adopted).
    pub fn adopted(&self) -> u64 {
        self.adopted
    }

    /// When [`Keeper::handle`] should be called even if nothing happens, on the monotonic clock.
    pub fn next_wake(&self) -> Option<Duration> {
        let adopts = (self.adopted < self.version()).then_some(self.adopts_at);
        self.promised.iter().map(|promised| promised.until).chain(adopts).min()
    }

    fn version(&self) -> u64 {
        self.owners.as_ref().map_or(0, |owners| owners.state().version())
    }

    fn reply(&self, call: Call, response: Response, effects: &mut Vec<Effect>) {
        effects.push(Effect::Reply { call, reply: Reply { version: self.version(), response } });
    }

    fn adopt(&mut self, state: Arc<ClusterState>, effects: &mut Vec<Effect>) {
        if state.version() <= self.version() {
            return;
        }
        self.owners = Some(Owners::new(state));
        self.adopts_at = self.votes.lapsed(self.confirm);
        self.void_below.clear();
        for promised in std::mem::take(&mut self.promised) {
            self.reply(promised.call, Response::Refused(Refused::Stale), effects);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.reply(waiting.call, Response::Refused(Refused::Stale), effects);
        }
        // What an older state asked to be fetched must not appear after a newer owner has looked.
        for job in std::mem::take(&mut self.pulls).into_values() {
            let Some(Running::Pull { calls, installing, .. }) = self.running.get_mut(&job) else { continue };
            let (calls, installing) = (std::mem::take(calls), *installing);
            for call in calls {
                self.reply(call, Response::Failed(Failure::Interrupted), effects);
            }
            if !installing {
                self.running.remove(&job);
                effects.push(Effect::Cancel { job });
            }
        }
        for (call, fence, request) in std::mem::take(&mut self.held) {
            self.request(call, fence, request, effects);
        }
    }

    fn request(&mut self, call: Call, fence: Fence, request: Request, effects: &mut Vec<Effect>) {
        if fence.version > self.version() {
            effects.push(Effect::FetchState { newer_than: self.version() });
            if self.held.len() < HELD_MAX {
                self.held.push_back((call, fence, request));
            } else {
                self.reply(call, Response::Refused(Refused::Busy), effects);
            }
            return;
        }
        match self.admit(fence, &request) {
            Err(refused) => self.reply(call, Response::Refused(refused), effects),
            Ok(()) => self.begin(call, fence.from, request, effects),
        }
    }

    fn admit(&mut self, fence: Fence, request: &Request) -> Result<(), Refused> {
        if fence.version < self.version() {
            return Err(Refused::Stale);
        }
        let owners = self.owners.as_mut().ok_or(Refused::Absent)?;
        let entry = owners.state().nodes().get(&self.me);
        if !entry.is_some_and(|entry| entry.incarnation == self.incarnation && entry.state.serves()) {
            return Err(Refused::Absent);
        }
        let void_below = self.void_below.entry(fence.from).or_default();
        if fence.number < *void_below {
            return Err(Refused::Void);
        }
        *void_below = fence.void_below.max(*void_below);
        let state = Arc::clone(owners.state());
        let belongs = |row: &Row| match &*row.content {
            RowContent::Version(version) if !state.spread().is_empty() => {
                state.bucket(version.id.location()) == row.bucket
            }
            _ => true,
        };
        let mut owns = |bucket: BucketId| owners.owner(bucket) == Some(fence.from);
        let owned = match request {
            Request::Ping | Request::Owned { .. } => true,
            Request::Finish(_) => false,
            Request::Apply(rows) => rows.iter().all(|row| owns(row.bucket) && belongs(row)),
            Request::Create(bucket)
            | Request::Info { bucket, .. }
            | Request::Read { bucket, .. }
            | Request::Pull { bucket, .. }
            | Request::Complete { bucket, .. }
            | Request::Delete { bucket, .. } => owns(*bucket),
        };
        if owned { Ok(()) } else { Err(Refused::NotOwner) }
    }

    fn begin(&mut self, call: Call, from: NodeKey, request: Request, effects: &mut Vec<Effect>) {
        match request {
            Request::Ping => {
                let votes = self.votes.vote(from, self.now, self.confirm);
                self.reply(call, Response::Here { votes }, effects);
            }
            Request::Owned { removals_since } => {
                let owners = self.owners.as_ref().expect(ADMITTED);
                match self.votes.bound_until(owners.state(), self.confirm) {
                    Some(until) if until > self.now => {
                        self.promised.push(Promised { until, call, owner: from, removals_since });
                    }
                    _ => self.tell_owned(call, from, removals_since, effects),
                }
            }
            Request::Info { bucket, removals_since } => {
                self.wait(call, Work::Info { bucket, removals_since }, None, effects);
            }
            Request::Complete { bucket, expected } => {
                self.wait(call, Work::Complete { bucket, expected }, Some(bucket), effects);
            }
            Request::Delete { bucket, expected } => {
                self.wait(call, Work::Delete { bucket, expected }, Some(bucket), effects);
            }
            Request::Apply(rows) if rows.iter().any(|row| self.is_alone(row.bucket)) => {
                self.reply(call, Response::Refused(Refused::Busy), effects);
            }
            Request::Apply(rows) => self.run(call, Work::Apply(rows), true, effects),
            Request::Create(bucket) => self.run(call, Work::Create(bucket), true, effects),
            Request::Read { bucket, id } => self.run(call, Work::Read { bucket, id }, false, effects),
            Request::Pull { bucket, from, pull } => self.pull(call, (bucket, from, pull), effects),
            Request::Finish(_) => {
                unreachable!("what another owner began is ended by the shell, and refused here")
            }
        }
    }

    fn tell_owned(
        &mut self,
        call: Call,
        owner: NodeKey,
        removals_since: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let owners = self.owners.as_ref().expect(ADMITTED);
        let work = Work::Owned { state: Arc::clone(owners.state()), owner, removals_since };
        self.wait(call, work, None, effects);
    }

    /// Whether the replica of a bucket is being completed or deleted, or is about to be.
    fn is_alone(&self, bucket: BucketId) -> bool {
        self.waiting.iter().any(|waiting| waiting.alone_on == Some(bucket))
            || self.running.values().any(
                |running| matches!(running, Running::Work { alone_on: Some(other), .. } if *other == bucket),
            )
    }

    /// Whether something that was fetched is being taken into the replica of a bucket.
    fn is_installing(&self, of: BucketId) -> bool {
        let installs = |running: &Running| matches!(running, Running::Pull { bucket, installing: true, .. } if *bucket == of);
        self.running.values().any(installs)
    }

    fn job(&mut self) -> Job {
        self.next_job += 1;
        Job(self.next_job)
    }

    fn run(&mut self, call: Call, work: Work, changes: bool, effects: &mut Vec<Effect>) {
        let job = self.job();
        self.running.insert(job, Running::Work { call, alone_on: None });
        if changes {
            self.changing.insert(job);
        }
        effects.push(Effect::Run { job, work });
    }

    fn wait(&mut self, call: Call, work: Work, alone_on: Option<BucketId>, effects: &mut Vec<Effect>) {
        let job = self.job();
        self.waiting.push_back(Waiting { job, call, work, alone_on });
        self.release(effects);
    }

    /// Runs what has waited for changes that have ended.
    fn release(&mut self, effects: &mut Vec<Effect>) {
        while let Some(waiting) = self.waiting.front() {
            if self.changing.first().is_some_and(|oldest| *oldest < waiting.job) {
                return;
            }
            let waiting = self.waiting.pop_front().expect("the first one was just looked at");
            let Waiting { job, call, work, alone_on } = waiting;
            assert!(
                alone_on.is_none_or(|bucket| !self.is_installing(bucket)),
                "a replica is completed or deleted while nothing is taken into it"
            );
            self.running.insert(job, Running::Work { call, alone_on });
            if alone_on.is_some() {
                self.changing.insert(job);
            }
            effects.push(Effect::Run { job, work });
        }
    }

    fn pull(&mut self, call: Call, what: (BucketId, NodeKey, Pull), effects: &mut Vec<Effect>) {
        let under_way = self.pulls.get(&what).and_then(|job| self.running.get_mut(job));
        if let Some(Running::Pull { calls, .. }) = under_way {
            calls.push(call);
            return;
        }
        let job = self.job();
        let (bucket, from, pull) = what;
        self.pulls.insert(what, job);
        self.running.insert(job, Running::Pull { calls: vec![call], bucket, from, pull, installing: false });
        effects.push(Effect::Fetch { job, bucket, from, pull });
    }

    fn fetched(&mut self, job: Job, outcome: Result<Fetched, Failure>, effects: &mut Vec<Effect>) {
        // A new state may have cancelled it.
        let Some(Running::Pull { bucket, .. }) = self.running.get(&job) else { return };
        let bucket = *bucket;
        match outcome {
            Ok(Fetched::Part) if self.is_alone(bucket) => {
                effects.push(Effect::Cancel { job });
                self.end_pull(job, Response::Failed(Failure::Interrupted), effects);
            }
            Ok(Fetched::Part) => {
                if let Some(Running::Pull { installing, .. }) = self.running.get_mut(&job) {
                    *installing = true;
                }
                self.changing.insert(job);
                effects.push(Effect::Install { job, bucket });
            }
            Ok(Fetched::End) => self.end_pull(job, Response::Done, effects),
            Err(failure) => self.end_pull(job, Response::Failed(failure), effects),
        }
    }

    fn end_pull(&mut self, job: Job, response: Response, effects: &mut Vec<Effect>) {
        let Some(Running::Pull { calls, bucket, from, pull, .. }) = self.running.remove(&job) else {
            unreachable!("a fetch ends once");
        };
        // Another one can have begun since, by a newer state.
        if self.pulls.get(&(bucket, from, pull)) == Some(&job) {
            self.pulls.remove(&(bucket, from, pull));
        }
        for call in calls {
            self.reply(call, response.clone(), effects);
        }
    }

    fn done(&mut self, job: Job, response: Response, effects: &mut Vec<Effect>) {
        self.changing.remove(&job);
        match self.running.get_mut(&job) {
            None => {}
            Some(Running::Work { call, .. }) => {
                let call = *call;
                self.running.remove(&job);
                self.reply(call, response, effects);
            }
            Some(Running::Pull { bucket, from, pull, installing, .. }) => {
                *installing = false;
                let (bucket, from, pull) = (*bucket, *from, *pull);
                let current = self.pulls.get(&(bucket, from, pull)) == Some(&job);
                match response {
                    Response::Failed(_) => self.end_pull(job, response, effects),
                    _ if current => effects.push(Effect::Fetch { job, bucket, from, pull }),
                    _ => {
                        self.running.remove(&job);
                        effects.push(Effect::Cancel { job });
                    }
                }
            }
        }
        self.release(effects);
    }
}
