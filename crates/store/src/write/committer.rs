//! Path of a write: one thread makes many writes durable with one sync.
//!
//! 1. [`PendingWrites::accept`] admits a write or refuses it, and encodes it on the caller's thread; then it
//!    enters its lane.
//! 2. Blind writes go to the committer's queue. Modifications go to the modifiers, whose result goes to that
//!    queue too, with those of modifications that waited for it (`chaining`).
//! 3. The committer takes what has gathered, gives timestamps, and appends all of it to the tail at once.
//!    Meanwhile the next writes gather.
//! 4. The writes are answered, and those that waited in their lanes go on.
//!
//! Versions that come with their timestamps ([`PendingWrites::apply`]) take the same path without a lane: the
//! giver of the timestamps has ordered them.
//!
//! A batch ([`PendingWrites::accept_batch`]) is admitted and queued as a whole, counted out as its writes are
//! done, and answered when the last one is. A batch of one write is a single write, which overtakes the
//! batches that wait, unless they have an earlier write of its document.
//!
//! Both queues are bounded by the limits of step 1.
//!
//! A write whose client wants [`WriteDurability::Deferred`] is answered before it is synced, if all that is
//! appended with it is such a write. The committer then syncs by itself, soon: see [`DeferredRows`].

mod chaining;
mod modifying;
mod reply;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_bucket::DocumentSortKey;
use millrace_document::{DocumentId, DocumentVersion, Timestamp};
use millrace_env::run_or_exit;

use self::chaining::ChainedModification;
pub(crate) use self::modifying::MODIFIERS;
use self::reply::WriterReply;
use crate::context::{RequestSize, StoreContext};
use crate::state::{StoreState, TailGeneration};
use crate::tail::{AppendError, NewRow, RowDurability, RowKey, encode_put, encode_removed, row_key};
use crate::upkeep::column_preparer::FreshGroups;
use crate::write::backlog::{BATCH_LIMIT, LIMIT, WriterId};
use crate::write::batch::{BatchCallback, BatchOutcomes, RefusedBatch, WritesInFlight};
use crate::write::commit_rows::{CommitRows, RowValue, check_key};
use crate::write::deferred::DeferredRows;
use crate::write::if_unchanged;
use crate::write::lanes::{LaneKind, LaneWrite, WriteLanes};
use crate::write::queue::{TakenWork, WorkQueue};
use crate::{
    CommittedWrite, DocumentWrite, EncodedPut, Error, Modify, ModifyContent, StoreChange, StoreModification,
    WriteDurability,
};

/// Callback for the outcome of a write.
pub(crate) type CommitCallback = Box<dyn FnOnce(Result<CommittedWrite, Error>) + Send>;

/// All writes that are in flight.
pub(crate) struct PendingWrites {
    shared: Arc<StoreContext>,
    lanes: WriteLanes<AcceptedWrite>,
    commits: WorkQueue<PendingCommit>,
    modifications: WorkQueue<AcceptedWrite>,
}

/// A write that was admitted.
pub(crate) struct AcceptedWrite {
    key: DocumentSortKey,
    work: CommitterWork,
    durability: WriteDurability,
    reply: WriterReply,
    kind: LaneKind,
}

enum CommitterWork {
    Row(RowValue),
    Modify(DocumentId, PendingModify),
}

/// Function of a modification, by what it sees.
enum PendingModify {
    OfVersion(Modify),
    OfContent(ModifyContent),
}

/// Commit on its way to the tail, to be acknowledged once it is there.
struct PendingCommit {
    rows: CommitRows,
    durability: WriteDurability,
    reply: WriterReply,
    /// True if it belongs to one batch with the commit before it, and shares its entry in the log.
    is_joined: bool,
    /// Modifications of the document that were run on its row, each on the result of the one before.
    chained: Vec<ChainedModification>,
}

impl PendingCommit {
    fn new(rows: CommitRows, durability: WriteDurability, reply: WriterReply) -> Self {
        PendingCommit { rows, durability, reply, is_joined: false, chained: Vec::new() }
    }
}

/// A write that is encoded.
struct EncodedWrite {
    key: DocumentSortKey,
    work: CommitterWork,
}

impl EncodedWrite {
    fn new(write: DocumentWrite) -> Self {
        let DocumentWrite { id, change } = write;
        let row =
            |key, bytes, removes| EncodedWrite { key, work: CommitterWork::Row(RowValue { bytes, removes }) };
        let modification = |id, modify| EncodedWrite {
            key: DocumentSortKey::new(&id),
            work: CommitterWork::Modify(id, modify),
        };
        match change {
            StoreChange::Encoded(EncodedPut { key, value }) => row(key, value, false),
            StoreChange::Put(document) => row(DocumentSortKey::new(&id), encode_put(&document), false),
            StoreChange::Remove => row(DocumentSortKey::new(&id), encode_removed(), true),
            StoreChange::Modify(modify) => modification(id, PendingModify::OfVersion(modify)),
            StoreChange::ModifyContent(modify) => modification(id, PendingModify::OfContent(modify)),
            StoreChange::Rewrite { base, document, until: _ } => {
                let modify = if_unchanged(base, StoreModification::Put(document));
                modification(id, PendingModify::OfVersion(modify))
            }
        }
    }

    /// Its bytes that are held until it is answered; those of a modification are not known yet.
    fn bytes(&self) -> usize {
        let value = match &self.work {
            CommitterWork::Row(value) => value.bytes.len(),
            CommitterWork::Modify(..) => 0,
        };
        self.key.as_bytes().len() + value
    }

    /// The write, admitted. `of_row`: its kind if it is blind.
    fn accepted(self, durability: WriteDurability, of_row: LaneKind, reply: WriterReply) -> AcceptedWrite {
        let EncodedWrite { key, work } = self;
        let kind = match work {
            CommitterWork::Modify(..) => LaneKind::Modification,
            CommitterWork::Row(_) => of_row,
        };
        AcceptedWrite { key, work, durability, reply, kind }
    }
}

impl AcceptedWrite {
    /// Size of its row in bytes; that of a modification is not known yet.
    fn bytes(&self) -> usize {
        match &self.work {
            CommitterWork::Row(value) => self.key.as_bytes().len() + value.bytes.len(),
            CommitterWork::Modify(..) => 0,
        }
    }

    fn removes(&self) -> bool {
        matches!(self.work, CommitterWork::Row(RowValue { removes: true, .. }))
    }
}

impl LaneWrite for AcceptedWrite {
    fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    fn kind(&self) -> LaneKind {
        self.kind
    }
}

impl PendingWrites {
    pub fn new(shared: Arc<StoreContext>) -> Self {
        PendingWrites {
            shared,
            lanes: WriteLanes::new(),
            commits: WorkQueue::default(),
            modifications: WorkQueue::default(),
        }
    }

    /// Accepts a write, or answers at once with the reason why not.
    pub fn accept(&self, write: DocumentWrite, done: CommitCallback) {
        let encoded = EncodedWrite::new(write);
        let reply = WriterReply::single(&self.shared, RequestSize::Small, encoded.bytes(), done);
        let accepted = encoded.accepted(WriteDurability::Synced, LaneKind::Single, reply);
        if let Err(error) = check_key(&accepted.key).and_then(|()| self.check(accepted.removes(), LIMIT)) {
            return accepted.reply.send(Err(error));
        }
        if let Some(accepted) = self.lanes.enter(accepted) {
            self.run(accepted);
        }
    }

    /// Accepts all of a batch or nothing. Writes that need not wait for earlier ones of their documents share
    /// one entry of the log; writes of one document keep their order.
    ///
    /// # Errors
    /// The store takes no writes now; the batch is returned.
    pub fn accept_batch(
        &self,
        writes: Vec<DocumentWrite>,
        writer: WriterId,
        durability: WriteDurability,
        done: BatchCallback,
    ) -> Result<Duration, RefusedBatch> {
        let removes = writes.iter().all(|write| matches!(write.change, StoreChange::Remove));
        let is_batched = writes.len() > 1;
        let (limit, kind) = match is_batched {
            true => (BATCH_LIMIT, LaneKind::Batched),
            false => (LIMIT, LaneKind::Single),
        };
        if let Err(error) = self.check(removes, limit) {
            return Err(RefusedBatch { error, writes });
        }
        if writes.is_empty() {
            done(Vec::new());
            return Ok(Duration::ZERO);
        }
        let began = self.shared.note_use(if is_batched { RequestSize::Batch } else { RequestSize::Small });
        let encoded: Vec<EncodedWrite> = writes.into_iter().map(EncodedWrite::new).collect();
        let held: usize = encoded.iter().map(EncodedWrite::bytes).sum();
        let (mut commits, mut modifications) = (Vec::with_capacity(encoded.len()), Vec::new());
        let outcomes = BatchOutcomes::new(WritesInFlight::count(&self.shared, encoded.len(), held), done);
        let mut bytes = 0;
        for (index, encoded) in encoded.into_iter().enumerate() {
            let reply = WriterReply::batched(&outcomes, index, encoded.bytes(), began);
            let accepted = encoded.accepted(durability, kind, reply);
            if let Err(error) = check_key(&accepted.key) {
                accepted.reply.send(Err(error));
                continue;
            }
            bytes += accepted.bytes();
            match self.lanes.enter(accepted) {
                Some(AcceptedWrite { key, work: CommitterWork::Row(value), durability, reply, .. }) => {
                    let rows = CommitRows::Written { key, value, existed: None };
                    let is_joined = !commits.is_empty();
                    commits.push(PendingCommit { is_joined, ..PendingCommit::new(rows, durability, reply) });
                }
                Some(modification) => modifications.push(modification),
                // It waits in its lane.
                None => {}
            }
        }
        // A single write does not wait for the batches before it.
        match is_batched {
            true => self.commits.push_all(commits),
            false => self.commits.push_several(commits),
        }
        self.modifications.push_several(modifications);
        Ok(self.shared.backlog.wait_after(writer, bytes as u64, self.shared.generations(), Instant::now()))
    }

    /// Accepts versions that have their timestamps, or answers at once with the reason why not.
    pub fn apply(&self, versions: Vec<DocumentVersion>, done: CommitCallback) {
        let size = if versions.len() > 1 { RequestSize::Batch } else { RequestSize::Small };
        let given = CommitRows::given(versions);
        let bytes = given.as_ref().map_or(0, CommitRows::bytes);
        let reply = WriterReply::single(&self.shared, size, bytes, done);
        let rows = given.and_then(|rows| {
            self.check(rows.removes(), LIMIT)?;
            // The committer advances the clock, in the order of commits; here it is only checked that the
            // timestamp is acceptable.
            rows.newest().map_or(Ok(()), |newest| self.shared.timestamps.check(newest))?;
            Ok(rows)
        });
        match rows {
            Ok(rows) if rows.bytes() == 0 => reply.send(Ok(CommittedWrite::default())),
            Ok(rows) => {
                self.commits.push(PendingCommit::new(rows, WriteDurability::Synced, reply));
            }
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Checks that the store takes a write. `limit`: full generations of the tail.
    fn check(&self, removes: bool, limit: f64) -> Result<(), Error> {
        let shared = &self.shared;
        shared.check_open()?;
        shared.health.check_writable()?;
        if shared.counters.writes_in_flight.load(Ordering::Relaxed) > shared.options.queue_writes
            || shared.counters.bytes_in_flight.load(Ordering::Relaxed) > shared.options.queue_bytes
        {
            shared.alarm.ring();
            return Err(Error::Overloaded);
        }
        if !removes && self.shared.generations() > limit {
            shared.alarm.ring();
            return Err(shared.health.no_space().unwrap_or(Error::Overloaded));
        }
        Ok(())
    }

    fn run(&self, accepted: AcceptedWrite) {
        match accepted.work {
            CommitterWork::Row(value) => {
                let AcceptedWrite { key, durability, reply, .. } = accepted;
                let rows = CommitRows::Written { key, value, existed: None };
                self.commits.push(PendingCommit::new(rows, durability, reply));
            }
            CommitterWork::Modify(..) => self.modifications.push(accepted),
        }
    }

    /// Ends a commit that is in the tail, or failed.
    fn finish_commit(&self, commit: PendingCommit, timestamp: Timestamp, outcome: Result<(), Error>) {
        match commit.rows {
            CommitRows::Written { key, existed, .. } => {
                let written = CommittedWrite { timestamp, existed, changed: true };
                commit.reply.send(outcome.clone().map(|()| written));
                commit.chained.into_iter().for_each(|chained| chained.answer(outcome.clone()));
                self.leave(&key);
            }
            CommitRows::Given { newest, .. } => {
                let written = CommittedWrite { timestamp: Timestamp(newest), existed: None, changed: true };
                commit.reply.send(outcome.map(|()| written));
            }
        }
    }

    /// Finishes a write: answers it, and releases the writes that waited for it.
    fn finish(&self, key: &DocumentSortKey, reply: WriterReply, outcome: Result<CommittedWrite, Error>) {
        reply.send(outcome);
        self.leave(key);
    }

    /// Releases the writes that waited for one that is answered, with those chained to it.
    fn leave(&self, key: &DocumentSortKey) {
        self.lanes.leave(key.as_bytes(), |next| self.run(next));
    }

    /// Makes writes durable until the store closes; the work of one thread. A panic ends the process.
    pub fn run_committer(&self) {
        run_or_exit("the thread that makes writes durable", || self.run_commits());
    }

    fn run_commits(&self) {
        let bytes = PendingCommit::bytes;
        let is_joined = |commit: &PendingCommit| commit.is_joined;
        let mut last_took = Duration::ZERO;
        let mut deferred = DeferredRows::new(Arc::clone(&self.shared));
        loop {
            match self.commits.take(bytes, is_joined, last_took, deferred.due()) {
                TakenWork::Items(batch) => {
                    deferred.sync_if_due();
                    let began = Instant::now();
                    self.commit(batch.into(), &mut deferred);
                    last_took = began.elapsed();
                }
                TakenWork::Due => deferred.sync_if_due(),
                TakenWork::Closed => return deferred.sync(),
            }
        }
    }

    /// Appends a batch, and answers its writes. A full disk refuses all but removals, which make room.
    fn commit(&self, mut batch: Vec<PendingCommit>, deferred: &mut DeferredRows) {
        let refused = match self.shared.health.check_writable() {
            Ok(()) => self.check_space().err(),
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            let is_admitted =
                |commit: &PendingCommit| matches!(error, Error::DiskFull { .. }) && commit.removes();
            let (admitted, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_admitted);
            for commit in others {
                self.finish_commit(commit, Timestamp::default(), Err(error.clone()));
            }
            batch = admitted;
        }
        if batch.is_empty() {
            return;
        }
        let began = Instant::now();
        let (timestamps, outcome) = self.append(&mut batch, deferred);
        let (counters, took) = (&self.shared.counters, began.elapsed());
        // Those of a batch began together.
        for together in batch.chunk_by(|one, next| one.reply.began == next.reply.began) {
            let waited = began.saturating_duration_since(together[0].reply.began);
            counters.waited.record_many(waited, together.len() as u64);
        }
        let chained: Vec<&ChainedModification> = batch.iter().flat_map(|commit| &commit.chained).collect();
        chained.iter().for_each(|chained| counters.waited.record(chained.waited_until(began)));
        counters.committed.record_many(took, (batch.len() + chained.len()) as u64);
        assert_eq!(batch.len(), timestamps.len(), "every write of a batch is answered with its timestamp");
        for (commit, timestamp) in batch.into_iter().zip(timestamps) {
            self.finish_commit(commit, timestamp, outcome.clone());
        }
    }

    /// Appends the rows, whose values are moved out of the batch.
    fn append(
        &self,
        batch: &mut [PendingCommit],
        deferred: &mut DeferredRows,
    ) -> (Vec<Timestamp>, Result<(), Error>) {
        let shared = &self.shared;
        let is_deferred = batch.iter().all(|commit| commit.durability == WriteDurability::Deferred);
        let came = Instant::now();
        loop {
            let state = shared.state();
            let generation = &state.generations[0];
            let Some(gate) = generation.gate() else {
                if let Err(error) = self.wait_for_generation(generation.number) {
                    return (vec![Timestamp::default(); batch.len()], Err(error));
                }
                continue;
            };
            let waited = came.elapsed();
            if let Err(error) = deferred.sync_others(generation) {
                return (vec![Timestamp::default(); batch.len()], Err(error));
            }
            let follower = shared.follower.hold();
            let (timestamps, rows) = self.take_rows(batch, generation);
            let followed = follower.wanted(&rows);
            if let Err(error) = follower.appending(&followed) {
                return (timestamps, Err(error));
            }
            let count = rows.len() as u64;
            let bytes = rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
            // What a follower derives from rows must not outlive them.
            let durability = match is_deferred && followed.is_empty() {
                true => RowDurability::Written,
                false => RowDurability::Synced,
            };
            let late = self.late_groups(&rows, generation);
            let fresh = if shared.options.prepares_columns() { FreshGroups::of(&rows) } else { Vec::new() };
            let numbered = shared.write_numbers.begin(&rows);
            let began = Instant::now();
            let outcome = generation.tail.append(rows, durability);
            if durability == RowDurability::Synced {
                shared.counters.sync_times.record(began.elapsed());
            }
            drop(numbered);
            return match outcome {
                Ok(()) => {
                    match durability {
                        RowDurability::Written => deferred.add(generation, count),
                        RowDurability::Synced => deferred.synced(),
                    }
                    follower.committed(followed);
                    generation.count(count, bytes);
                    shared.fresh.note(fresh);
                    let now = shared.timestamps.now().0;
                    for group in &late {
                        shared.erasures.reopen(group, shared.next_number(), now);
                    }
                    shared.counters.last_write_us.store(now, Ordering::Relaxed);
                    self.roll_if_full(&state, waited);
                    (timestamps, Ok(()))
                }
                Err(AppendError::Full) => {
                    gate.close();
                    shared.alarm.ring();
                    (timestamps, Err(self.disk_full()))
                }
                Err(AppendError::NotDurable(reason)) => {
                    gate.close();
                    shared.health.poison(reason.clone());
                    (timestamps, Err(Error::Poisoned { reason }))
                }
            };
        }
    }

    /// Lets the spare generation take over if that of `state` is full, and wakes the thread that makes the
    /// next spare. `waited` is the time for which the commit waited for its generation.
    fn roll_if_full(&self, state: &StoreState, waited: Duration) {
        let shared = &self.shared;
        let began = Instant::now();
        let filled = state.generations[0].bytes.load(Ordering::Relaxed);
        let is_rolled = filled >= shared.options.tail_bytes && shared.try_roll();
        shared.counters.rolled.record(waited + began.elapsed());
        let spare_is_due = filled >= shared.options.tail_bytes / 2 && state.spare.is_none();
        if is_rolled || spare_is_due {
            shared.alarm.ring();
        }
    }

    /// Groups whose erasure is finished, and that have older versions than the drop among these rows: those
    /// of other replicas can come late.
    fn late_groups(&self, rows: &[NewRow], generation: &TailGeneration) -> BTreeSet<String> {
        let erasures = &self.shared.erasures;
        if !erasures.may_be_late(generation.oldest()) {
            return BTreeSet::new();
        }
        let keys = rows.iter().filter_map(|(key, _)| RowKey::parse(key).ok());
        let late = keys.filter(|key| erasures.is_late(key.group, key.timestamp.0));
        late.map(|key| key.group.to_owned()).collect()
    }

    /// Takes the rows of a batch for a generation, whose gate is held: so the new timestamps are above those
    /// of the previous generation, and given ones are known before the rows can be seen.
    fn take_rows(
        &self,
        batch: &mut [PendingCommit],
        generation: &TailGeneration,
    ) -> (Vec<Timestamp>, Vec<NewRow>) {
        let clock = &self.shared.timestamps;
        batch.iter().filter_map(|commit| commit.rows.newest()).for_each(|newest| clock.accept(newest));
        let mut new = clock.next_several(batch.iter().map(PendingCommit::new_rows).sum());
        if !new.is_empty() {
            generation.expect(new.start, new.end - 1);
        }
        let mut timestamps = Vec::with_capacity(batch.len());
        let mut all = Vec::with_capacity(batch.len());
        for commit in batch {
            match &mut commit.rows {
                CommitRows::Written { key, value, .. } => {
                    let mut next = || Timestamp(new.next().expect("there is one for each such row"));
                    let timestamp = next();
                    all.push((row_key(key, timestamp), std::mem::take(&mut value.bytes)));
                    timestamps.push(timestamp);
                    let mut newest = timestamp;
                    all.extend(
                        commit.chained.iter_mut().filter_map(|one| one.take_row(key, &mut newest, &mut next)),
                    );
                }
                CommitRows::Given { rows, oldest, newest, .. } => {
                    generation.expect(*oldest, *newest);
                    all.append(rows);
                    timestamps.push(Timestamp(*newest));
                }
            }
        }
        (timestamps, all)
    }

    /// The generation was closed: because the next one has taken over, or because the disk was full, and none
    /// could.
    fn wait_for_generation(&self, closed: u64) -> Result<(), Error> {
        if self.shared.state().generations[0].number == closed {
            self.shared.alarm.ring();
            return Err(self.disk_full());
        }
        Ok(())
    }

    fn check_space(&self) -> Result<(), Error> {
        let options = &self.shared.options;
        let free = options
            .disk
            .free_space(&options.data_dir)
            .map_err(|error| Error::io("look for free space", &error))?;
        if free < self.shared.disk_reserve() { Err(self.disk_full()) } else { Ok(()) }
    }

    fn disk_full(&self) -> Error {
        let options = &self.shared.options;
        Error::DiskFull {
            path: options.data_dir.clone(),
            free: options.disk.free_space(&options.data_dir).unwrap_or(0),
            reserve: self.shared.disk_reserve(),
        }
    }

    /// Ends the modifiers once the writes in flight have been answered. No more writes may come.
    pub fn close(&self) {
        self.modifications.close();
    }

    /// Ends the committer, after the modifiers have ended.
    pub fn close_commits(&self) {
        self.commits.close();
    }
}
