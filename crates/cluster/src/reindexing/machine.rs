use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;

use super::notes::mark_name;
use super::pass::{NextPage, PassAction, ReindexContext, ReindexPass, now_ms};
use super::{
    BucketHolders, ReindexEffect, ReindexEvent, ReindexJobId, ReindexNotes, ReindexObstacle, ReindexRecord,
    ReindexTask, ReindexWalk, ReindexedApplication, WalkedPage,
};
use crate::{ClusterState, ClusterVersion, MachineTime, NodeKey};

/// Time after which a node without work looks for some, and after which it asks coordination again.
const IDLE: Duration = Duration::from_secs(1);

/// Pause before buckets that move are checked again, and after an obstacle at another node.
const RECHECK_PAUSE: Duration = Duration::from_millis(100);

/// Time after which a node follows an application although it does not know how it differs from the one
/// before: those that know have stopped, or started again.
const ORPHANED: Duration = Duration::from_secs(30);

/// Content cluster and document type.
type TypeKey = (Arc<str>, Arc<str>);

/// Decides on a node's part in the reindexing of its cluster. See the module for how it is driven.
pub struct Reindexer {
    me: NodeKey,
    now: MachineTime,
    state: Option<Arc<ClusterState>>,
    application: Option<Arc<ReindexedApplication>>,
    notes: Option<Arc<ReindexNotes>>,
    /// Generation that no node has followed, and the time since which that is known.
    orphaned: Option<(u64, Duration)>,
    passes: BTreeMap<TypeKey, ReindexPass>,
    /// The effect that has not been answered.
    running: Option<(ReindexJobId, OpenReindexJob)>,
    next_job: u64,
    /// Time of the next decision, if nothing runs.
    wakes: Duration,
}

enum OpenReindexJob {
    /// The record, or the deletion of marks.
    Notes,
    Mark(TypeKey),
    Inspect {
        key: TypeKey,
        task: ReindexTask,
        bucket: BucketId,
    },
    Walk {
        key: TypeKey,
        bucket: BucketId,
        version: ClusterVersion,
    },
}

impl Reindexer {
    /// Creates the machine of a node for one run of its process. It does nothing until it has received a
    /// cluster state, an application and the notes.
    pub fn new(me: NodeKey) -> Self {
        Reindexer {
            me,
            now: MachineTime { monotonic: Duration::ZERO, wall_us: 0 },
            state: None,
            application: None,
            notes: None,
            orphaned: None,
            passes: BTreeMap::new(),
            running: None,
            next_job: 0,
            wakes: Duration::ZERO,
        }
    }

    /// Processes events, and appends their effects. Also to be called without events, at the time of
    /// [`Reindexer::next_wake`].
    pub fn handle(
        &mut self,
        now: MachineTime,
        events: impl IntoIterator<Item = ReindexEvent>,
        effects: &mut Vec<ReindexEffect>,
    ) {
        self.now = now;
        for event in events {
            match event {
                ReindexEvent::State(state) => self.adopt(state),
                ReindexEvent::Application(application) => self.application = Some(application),
                ReindexEvent::Notes(notes) => self.notes = Some(notes),
                ReindexEvent::Written { job, outcome } => self.written(job, outcome),
                ReindexEvent::Inspected { job, outcome } => self.inspected(job, outcome, effects),
                ReindexEvent::Walked { job, outcome } => self.walked(job, outcome),
            }
        }
        if self.running.is_none() && self.wakes <= now.monotonic {
            self.wakes = now.monotonic + IDLE;
            self.decide(effects);
        }
    }

    /// Time of the next call of [`Reindexer::handle`] if there is no event before, on the monotonic clock.
    /// `None`: an answer must come first.
    pub fn next_wake(&self) -> Option<Duration> {
        self.running.is_none().then_some(self.wakes)
    }

    /// Document types that this node is reindexing.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.passes.keys().map(|(_, document_type)| &**document_type)
    }

    fn adopt(&mut self, state: Arc<ClusterState>) {
        if self.state.as_ref().is_none_or(|known| known.version() < state.version()) {
            self.state = Some(state);
            self.wakes = self.now.monotonic;
        }
    }

    fn start(&mut self, job: OpenReindexJob) -> ReindexJobId {
        self.next_job += 1;
        let id = ReindexJobId(self.next_job);
        self.running = Some((id, job));
        id
    }

    /// The job that an answer belongs to; `None` if it was given up.
    fn answered(&mut self, id: ReindexJobId) -> Option<OpenReindexJob> {
        self.running.take_if(|(running, _)| *running == id).map(|(_, job)| job)
    }

    fn decide(&mut self, effects: &mut Vec<ReindexEffect>) {
        let (Some(state), Some(application), Some(notes)) =
            (self.state.clone(), self.application.clone(), self.notes.clone())
        else {
            return;
        };
        let guard = notes.changed;
        // The node that received the deployment may have stopped before it did this.
        if let Some(record) = self.followed(&notes, &application) {
            let job = self.start(OpenReindexJob::Notes);
            return effects.push(ReindexEffect::Write { job, guard, notes: vec![record.note()] });
        }
        // Others have a newer application: its documents must not be processed by the statements of this one.
        if notes.record.generation > application.generation {
            return;
        }
        let tasks = notes.tasks(application.generation);
        self.passes.retain(|(cluster, document_type), pass| {
            let is_of = |task: &ReindexTask| (&task.cluster, &task.document_type) == (cluster, document_type);
            tasks.iter().any(|task| is_of(task) && pass.mark.is_of(task))
        });
        for task in tasks.iter().filter(|task| application.has(&task.cluster, &task.document_type)) {
            let key = (Arc::clone(&task.cluster), Arc::clone(&task.document_type));
            let context = ReindexContext { me: self.me, now: self.now, state: &state, notes: &notes, task };
            let pass = self.passes.entry(key.clone()).or_insert_with(|| ReindexPass::resumed(&context));
            match pass.next(&context) {
                PassAction::Rest => continue,
                PassAction::Wait => {}
                PassAction::Save => {
                    let note = (mark_name(task, self.me), Some(pass.mark.to_bytes()));
                    let job = self.start(OpenReindexJob::Mark(key));
                    effects.push(ReindexEffect::Write { job, guard, notes: vec![note] });
                }
                PassAction::Inspect(bucket) => {
                    let job = self.start(OpenReindexJob::Inspect { key, task: task.clone(), bucket });
                    effects.push(ReindexEffect::Inspect { job, bucket });
                }
                PassAction::End => {
                    let Some(record) = notes.ended(task, now_ms(self.now)) else { return };
                    let job = self.start(OpenReindexJob::Notes);
                    effects.push(ReindexEffect::Write { job, guard, notes: vec![record.note()] });
                }
            }
            return;
        }
        self.delete_old_marks(&state, &notes, effects);
    }

    /// The record after the application of this node; `None` if it stays for now.
    fn followed(
        &mut self,
        notes: &ReindexNotes,
        application: &ReindexedApplication,
    ) -> Option<ReindexRecord> {
        let generation = application.generation;
        if notes.record.generation >= generation {
            self.orphaned = None;
            return None;
        }
        let next = notes.record.following(application);
        let (_, since) = *match &mut self.orphaned {
            Some(known) if known.0 == generation => known,
            other => other.insert((generation, self.now.monotonic)),
        };
        next.or_else(|| {
            (self.now.monotonic >= since + ORPHANED).then(|| notes.record.following_unknown(application))
        })
    }

    /// Deletes the marks of reindexings that have ended. One node is enough.
    fn delete_old_marks(
        &mut self,
        state: &ClusterState,
        notes: &ReindexNotes,
        effects: &mut Vec<ReindexEffect>,
    ) {
        let first = state.nodes().iter().find(|(_, node)| node.state.serves());
        if first.is_none_or(|(key, _)| *key != self.me) {
            return;
        }
        let old = notes.old_marks();
        if !old.is_empty() {
            let job = self.start(OpenReindexJob::Notes);
            let deleted = old.into_iter().map(|name| (name, None)).collect();
            effects.push(ReindexEffect::Write { job, guard: notes.changed, notes: deleted });
        }
    }

    fn written(&mut self, job: ReindexJobId, outcome: Result<bool, ReindexObstacle>) {
        let Some(job) = self.answered(job) else { return };
        // If the record has changed, the new one is received first.
        let pause = match (&outcome, &job) {
            (Ok(true), OpenReindexJob::Mark(_)) => Duration::ZERO,
            (Ok(_), _) => RECHECK_PAUSE,
            (Err(_), _) => IDLE,
        };
        self.wakes = self.now.monotonic + pause;
        if let OpenReindexJob::Mark(key) = job
            && let Some(pass) = self.passes.get_mut(&key)
        {
            pass.saved(outcome == Ok(true), self.now);
        }
    }

    fn inspected(
        &mut self,
        job: ReindexJobId,
        outcome: Result<BucketHolders, ReindexObstacle>,
        effects: &mut Vec<ReindexEffect>,
    ) {
        let Some(OpenReindexJob::Inspect { key, task, bucket }) = self.answered(job) else { return };
        self.wakes = self.now.monotonic + RECHECK_PAUSE;
        let (Ok(holders), Some(pass)) = (outcome, self.passes.get_mut(&key)) else { return };
        if let Some(page) = pass.inspected(bucket, &holders, self.me, self.now) {
            let NextPage { position, version, until } = page;
            let job = self.start(OpenReindexJob::Walk { key, bucket, version });
            let walk = ReindexWalk { task, bucket, position, version, until };
            effects.push(ReindexEffect::Walk { job, walk });
        } else if holders.nodes.is_empty() || pass.wants_lease() {
            self.wakes = self.now.monotonic;
        }
    }

    fn walked(&mut self, job: ReindexJobId, outcome: Result<WalkedPage, ReindexObstacle>) {
        let Some(OpenReindexJob::Walk { key, bucket, version }) = self.answered(job) else { return };
        self.wakes = self.now.monotonic + RECHECK_PAUSE;
        let Some(pass) = self.passes.get_mut(&key) else { return };
        match outcome {
            Ok(page) => {
                if pass.walked(bucket, version, page) {
                    self.wakes = self.now.monotonic;
                }
            }
            Err(ReindexObstacle::Passing) => {}
            Err(ReindexObstacle::Lasting(reason)) => {
                pass.mark.fail(reason, now_ms(self.now));
                pass.unsaved = true;
                self.wakes = self.now.monotonic;
            }
        }
    }
}
