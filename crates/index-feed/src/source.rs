//! The side of a node with documents.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::{DropScope, Timestamp};

use crate::LATE_US;
use crate::message::{
    BatchReceipt, FeedBatch, FeedChange, FeedCut, FeedRead, FeedRow, FollowRequest, FollowSession,
    OwnerPosition, PageContent, SourceRun,
};
use crate::owner_report::{OwnedReplicaState, OwnerReport, ReportStart};
use crate::session::SourceSession;

/// Cluster state that a node with documents acts by, as its feed needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedState {
    /// Version of the state.
    pub version: u64,
    /// True if the node serves by it.
    pub serves: bool,
}

/// Size of the queue of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedQueueSize {
    /// Number of changes that wait or are on their way.
    pub changes: usize,
    /// Their bytes, about.
    pub bytes: usize,
}

/// Feed of a node with documents: takes in the changes of its store, and hands them to index nodes.
///
/// All buckets are those of the cluster state. `now` is the clock of the store, the one that timestamps
/// of writes come from. The caller keeps to this order:
///
/// - [`IndexFeedSource::committed`] when the node's own store has a row, before the write is acknowledged.
/// - [`IndexFeedSource::begin_report`], a report on what the node owns, and [`IndexFeedSource::adopt`] before
///   [`IndexFeedSource::close`] and [`IndexFeedSource::position`], one report at a time; these two only if
///   the cluster state of the report was confirmed after it.
#[derive(Debug)]
pub struct IndexFeedSource<B> {
    run: SourceRun,
    /// The state that the node acts by; `None` until it knows one.
    state: Option<AdoptedState>,
    buckets: BTreeMap<BucketId, SourceBucket>,
    /// Owned buckets of which the replica lacks something, or is being changed.
    incomplete: BTreeSet<BucketId>,
    /// Time of disorder of buckets that have none of their own.
    disorder: Timestamp,
    /// Number of changes of replicas other than by new rows.
    disturbances: u64,
    /// Number of the last one that concerned all buckets.
    disturbed: u64,
    /// Start of the last report on the owned buckets.
    reported: ReportStart,
    /// Time of the newest drop: earlier rows may be dropped already.
    dropped: Timestamp,
    sessions: BTreeMap<NodeKey, SourceSession<B>>,
    /// Last session of each follower that was cut.
    ended: BTreeMap<NodeKey, FollowSession>,
    cuts: BTreeMap<NodeKey, FeedCut>,
}

/// A bucket of the node's store.
#[derive(Debug, Default)]
struct SourceBucket {
    /// State of its replica; `None` if the node does not own it.
    replica: Option<OwnedReplicaState>,
    /// Time of its last change other than by new rows; `None` for that of the source.
    disorder: Option<Timestamp>,
    /// Number of the disturbances of the source with its last one.
    disturbed: u64,
    changes_in_flight: usize,
}

impl SourceBucket {
    fn is_whole(&self) -> bool {
        self.replica >= Some(OwnedReplicaState::Whole)
    }

    /// True if all replicas have all versions that a closing by a report is about. A late row that came since
    /// may be in flight still.
    fn is_closed(&self, reported: ReportStart) -> bool {
        self.replica == Some(OwnedReplicaState::Settled)
            && self.changes_in_flight == 0
            && self.disturbed <= reported.disturbances
    }
}

impl<B: Clone> IndexFeedSource<B> {
    /// Creates the source of a process that starts: nothing is known of what its store has.
    pub fn new(run: SourceRun, now: Timestamp) -> Self {
        IndexFeedSource {
            run,
            state: None,
            buckets: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            disorder: now,
            disturbances: 0,
            disturbed: 0,
            reported: ReportStart::default(),
            dropped: now,
            sessions: BTreeMap::new(),
            ended: BTreeMap::new(),
            cuts: BTreeMap::new(),
        }
    }

    /// Run of the process.
    pub fn run(&self) -> SourceRun {
        self.run
    }

    /// Version of the state that the node acts by; 0 if it knows none.
    fn version(&self) -> u64 {
        self.state.map_or(0, |state| state.version)
    }

    /// Begins a report on the buckets that the node owns. `now` is read before.
    pub fn begin_report(&self, now: Timestamp) -> ReportStart {
        ReportStart { at: now, disturbances: self.disturbances }
    }

    /// The node acts by a cluster state from now on, and has reported on the buckets that it owns by it;
    /// `false`, and nothing changes, if it acts by a later one.
    ///
    /// Others may have settled without a version that it alone has: by a state from before the first one, by
    /// one in which it did not serve, or by one that it has not seen. After these, all of its replicas are in
    /// disorder since now.
    pub fn adopt(&mut self, state: AdoptedState, report: &OwnerReport, now: Timestamp) -> bool {
        let is_continued = match self.state {
            Some(known) if known.version > state.version => return false,
            Some(known) if known.version == state.version => true,
            Some(known) => known.serves && known.version + 1 == state.version,
            None => false,
        };
        if !is_continued {
            self.disturb_all(now);
        }
        self.state = Some(state);
        self.reported = report.start;
        let owned = &report.replicas;
        let former = self.buckets.iter().filter(|(_, fed)| fed.replica.is_some());
        let lost = former.map(|(bucket, _)| *bucket).filter(|bucket| !owned.contains_key(bucket));
        let lost: Vec<BucketId> = lost.collect();
        for bucket in lost {
            self.buckets.entry(bucket).or_default().replica = None;
            self.end(bucket);
            self.note_completeness(bucket);
        }
        // Buckets without a time or a change would stay for as long as the process runs.
        self.buckets
            .retain(|_, fed| fed.replica.is_some() || fed.disorder.is_some() || fed.changes_in_flight > 0);
        for (bucket, replica) in owned {
            self.buckets.entry(*bucket).or_default().replica = Some(*replica);
            if *replica == OwnedReplicaState::Incomplete {
                self.end(*bucket);
            }
            self.note_completeness(*bucket);
        }
        self.admit();
        true
    }

    /// All replicas of the node may have versions that passed by the feed, or that no other replica has.
    pub fn disturb_all(&mut self, now: Timestamp) {
        self.disorder = self.disorder.max(now);
        self.disturbances += 1;
        self.disturbed = self.disturbances;
        self.buckets.values_mut().for_each(|bucket| bucket.disorder = None);
    }

    fn note_completeness(&mut self, bucket: BucketId) {
        let is_incomplete = self
            .buckets
            .get(&bucket)
            .is_some_and(|fed| fed.replica.is_some() && !(fed.is_whole() && fed.changes_in_flight == 0));
        match is_incomplete {
            true => self.incomplete.insert(bucket),
            false => self.incomplete.remove(&bucket),
        };
    }

    /// Ends the following of a bucket.
    fn end(&mut self, bucket: BucketId) {
        for session in self.sessions.values_mut() {
            if session.followed.remove(&bucket).is_some() {
                session.push(FeedChange::Ended(bucket));
                session.void_reads(bucket);
            }
        }
        self.cut_those_over();
    }

    /// Time at which the replica of a bucket changed last other than by new rows.
    pub fn disorder(&self, bucket: BucketId) -> Timestamp {
        let own = self.buckets.get(&bucket).and_then(|fed| fed.disorder);
        own.unwrap_or_else(|| {
            // A bucket that was divided off another one has what that had.
            let covering = std::iter::successors(bucket.parent(), |covering| covering.parent());
            let known = covering.filter_map(|covering| self.buckets.get(&covering)?.disorder);
            known.fold(self.disorder, Timestamp::max)
        })
    }

    /// Number of the last disturbance of a bucket, of those that it was divided off, and of those that were
    /// joined to it.
    fn disturbance(&self, bucket: BucketId) -> u64 {
        let covering = std::iter::successors(Some(bucket), |covering| covering.parent());
        let covering = covering.filter_map(|covering| self.buckets.get(&covering));
        // Deeper buckets come later in the order.
        let first = bucket.children().map(|[first, _]| BucketId::new(first.used_bits(), 0));
        let deeper = first.into_iter().flat_map(|first| self.buckets.range(first..));
        let inside = deeper.filter(|(inside, _)| bucket.covers(**inside)).map(|(_, fed)| fed);
        covering.chain(inside).map(|fed| fed.disturbed).fold(self.disturbed, u64::max)
    }

    /// Notes that a replica changes other than by new rows.
    fn disturb(&mut self, bucket: BucketId, now: Timestamp) {
        let own = self.disorder(bucket);
        self.disturbances += 1;
        let fed = self.buckets.entry(bucket).or_default();
        fed.disorder = Some(own.max(now));
        fed.disturbed = self.disturbances;
    }

    /// Rows are durable and visible in the node's store. Called before they are acknowledged.
    pub fn committed(&mut self, rows: &[FeedRow<B>], now: Timestamp) {
        for row in rows {
            let is_late = row.timestamp.0.saturating_add(LATE_US) < now.0 || row.timestamp <= self.dropped;
            if is_late {
                self.disturb(row.bucket, now);
            }
            self.sessions.values_mut().for_each(|session| session.push_row(row, is_late));
        }
        self.cut_those_over();
    }

    /// A drop is durable and visible in the node's store. Called before it is acknowledged. `buckets`: those
    /// of the node, not only owned ones, that documents of the scope lie in.
    pub fn dropped(
        &mut self,
        scope: &DropScope,
        part: Option<BucketId>,
        until: Timestamp,
        buckets: &[BucketId],
        now: Timestamp,
    ) {
        self.dropped = self.dropped.max(until);
        buckets.iter().for_each(|bucket| self.disturb(*bucket, now));
        for session in self.sessions.values_mut() {
            buckets.iter().for_each(|bucket| session.void_reads(*bucket));
            if buckets.iter().any(|bucket| session.followed.contains_key(bucket)) {
                session.push(FeedChange::Dropped { scope: scope.clone(), part, until });
            }
        }
        self.cut_those_over();
    }

    /// Versions will enter or leave replicas of the node other than by rows and drops: segments arrive, or a
    /// replica is deleted. [`IndexFeedSource::changed`] follows in any case.
    pub fn changing(&mut self, buckets: &[BucketId], now: Timestamp) {
        for bucket in buckets {
            self.disturb(*bucket, now);
            self.buckets.entry(*bucket).or_default().changes_in_flight += 1;
            self.note_completeness(*bucket);
            self.sessions.values_mut().for_each(|session| session.void_reads(*bucket));
        }
    }

    /// A change of replicas is durable and visible, or has failed.
    pub fn changed(&mut self, buckets: &[BucketId], now: Timestamp) {
        for bucket in buckets {
            self.disturb(*bucket, now);
            let fed = self.buckets.entry(*bucket).or_default();
            fed.changes_in_flight = fed.changes_in_flight.saturating_sub(1);
            for session in self.sessions.values_mut() {
                session.void_reads(*bucket);
                if session.followed.contains_key(bucket) {
                    session.push(FeedChange::Stale(*bucket));
                }
            }
            self.note_completeness(*bucket);
        }
        self.cut_those_over();
    }

    /// Queues how far the followed buckets are complete: up to a margin before the last report, but for those
    /// that were not settled then, or were disturbed since; and how many disturbances were counted. Called
    /// every few seconds, if the cluster state was confirmed after the report.
    pub fn close(&mut self) {
        let (version, disturbances) = (self.version(), self.disturbances);
        let (reported, until) = (self.reported, self.reported.closing());
        let is_any_closed = self.disturbed <= reported.disturbances;
        let buckets = &self.buckets;
        for session in self.sessions.values_mut() {
            let is_held = |bucket: &&BucketId| {
                !(is_any_closed && buckets.get(bucket).is_some_and(|bucket| bucket.is_closed(reported)))
            };
            let held: BTreeSet<BucketId> = session.followed.keys().filter(is_held).copied().collect();
            if !session.followed.is_empty() {
                session.push(FeedChange::Closed { version, until, held, disturbances });
            }
        }
        self.cut_those_over();
    }

    /// Takes a follower's request in. Returns a cut if the session does not exist any more.
    pub fn follow(&mut self, follower: NodeKey, request: FollowRequest) -> Option<FeedCut> {
        let FollowRequest { session: requested, run, sequence, version, types, buckets } = request;
        let cut = Some(FeedCut { session: requested });
        let is_known = self.sessions.get(&follower).is_some_and(|session| session.session == requested);
        let is_past = self.sessions.get(&follower).is_some_and(|session| session.session > requested)
            || self.ended.get(&follower).is_some_and(|ended| *ended >= requested);
        if is_past || run.is_some_and(|run| run != self.run || !is_known) {
            return cut;
        }
        if !is_known {
            self.sessions.insert(follower, SourceSession::new(requested, types.clone()));
        }
        let session = self.sessions.get_mut(&follower)?;
        if session.types != types {
            self.cut(follower);
            return cut;
        }
        if sequence > session.sequence {
            session.sequence = sequence;
            session.version = version;
            session.followed.retain(|bucket, _| buckets.contains_key(bucket));
            session.waiting.retain(|bucket, _| buckets.contains_key(bucket));
            for (bucket, sequence) in buckets {
                if session.followed.get(&bucket) != Some(&sequence) {
                    session.waiting.insert(bucket, sequence);
                }
            }
            self.admit();
        }
        None
    }

    /// Begins to feed waiting buckets whose replica is whole.
    fn admit(&mut self) {
        let is_whole = |bucket: &BucketId| self.buckets.get(bucket).is_some_and(SourceBucket::is_whole);
        // Buckets of a later state may be others under the same name.
        let version = self.version();
        let current = self.sessions.iter().filter(|(_, session)| session.version <= version);
        let waiting = current.flat_map(|(follower, session)| {
            session.waiting.iter().map(|(bucket, sequence)| (*follower, *bucket, *sequence))
        });
        let whole: Vec<_> = waiting.filter(|(_, bucket, _)| is_whole(bucket)).collect();
        for (follower, bucket, sequence) in whole {
            let (disorder, disturbance) = (self.disorder(bucket), self.disturbance(bucket));
            if let Some(session) = self.sessions.get_mut(&follower) {
                session.waiting.remove(&bucket);
                session.followed.insert(bucket, sequence);
                session.push(FeedChange::Followed { bucket, sequence, disorder, disturbance });
            }
        }
        self.cut_those_over();
    }

    /// Notes that the store is about to be read for a follower; `false` if it need not be. While segments
    /// arrive a page would not count: the follower asks again when they have.
    pub fn begin_read(&mut self, follower: NodeKey, read: FeedRead) -> bool {
        let is_changing = self.buckets.get(&read.bucket).is_some_and(|bucket| bucket.changes_in_flight > 0);
        let session = self.session_of(follower, read.session).filter(|_| !is_changing);
        session.is_some_and(|session| session.begin_read(read))
    }

    /// Queues what was read in the store after [`IndexFeedSource::begin_read`].
    pub fn finish_read(&mut self, follower: NodeKey, read: &FeedRead, content: PageContent<B>) {
        if let Some(session) = self.session_of(follower, read.session) {
            session.finish_read(read.number, content);
        }
        self.cut_those_over();
    }

    /// Answers a read that has not begun, and is not carried out now. The follower asks again.
    pub fn put_off_read(&mut self, follower: NodeKey, read: &FeedRead) {
        if let Some(session) = self.session_of(follower, read.session) {
            session.put_off(read);
        }
        self.cut_those_over();
    }

    /// A read that has begun cannot be finished. The follower asks again.
    pub fn abandon_read(&mut self, follower: NodeKey, read: &FeedRead) {
        if let Some(session) = self.session_of(follower, read.session) {
            session.abandon_read(read.number);
        }
    }

    fn session_of(&mut self, follower: NodeKey, session: FollowSession) -> Option<&mut SourceSession<B>> {
        self.sessions.get_mut(&follower).filter(|known| known.session == session)
    }

    /// Next batch for a follower; `None` if nothing waits, or enough is on its way. What is not confirmed in
    /// time, or may be lost, is handed out again after [`IndexFeedSource::resend`].
    pub fn next_batch(&mut self, follower: NodeKey) -> Option<FeedBatch<B>> {
        let run = self.run;
        let session = self.sessions.get_mut(&follower)?;
        let (first, changes) = session.next_batch()?;
        Some(FeedBatch { run, session: session.session, first, changes })
    }

    /// A follower has taken batches in.
    pub fn confirm(&mut self, follower: NodeKey, receipt: BatchReceipt) {
        let is_own = receipt.run == self.run;
        if let Some(session) = self.session_of(follower, receipt.session).filter(|_| is_own) {
            session.confirm(receipt.position);
        }
    }

    /// Batches on their way to a follower may be lost: they are handed out again.
    pub fn resend(&mut self, follower: NodeKey) {
        if let Some(session) = self.sessions.get_mut(&follower) {
            session.resend();
        }
    }

    /// Forgets a node that is not a follower any more.
    pub fn forget(&mut self, follower: NodeKey) {
        self.sessions.remove(&follower);
        self.ended.remove(&follower);
        self.cuts.remove(&follower);
    }

    /// Sessions that were cut since the last call, to be sent to their followers. One that does not get
    /// it is cut again with its next request.
    pub fn take_cuts(&mut self) -> BTreeMap<NodeKey, FeedCut> {
        std::mem::take(&mut self.cuts)
    }

    fn cut_those_over(&mut self) {
        let over = self.sessions.iter().filter(|(_, session)| session.is_over());
        let over: Vec<NodeKey> = over.map(|(follower, _)| *follower).collect();
        over.into_iter().for_each(|follower| self.cut(follower));
    }

    fn cut(&mut self, follower: NodeKey) {
        if let Some(session) = self.sessions.remove(&follower) {
            self.ended.insert(follower, session.session);
            self.cuts.insert(follower, FeedCut { session: session.session });
        }
    }

    /// Size of the queue of a follower; `None` if it has no session.
    pub fn queue(&self, follower: NodeKey) -> Option<FeedQueueSize> {
        let (changes, bytes) = self.sessions.get(&follower)?.size();
        Some(FeedQueueSize { changes, bytes })
    }

    /// Position for a query that an index node answers. The caller's state must be confirmed afterwards.
    pub fn position(&self, follower: NodeKey) -> OwnerPosition {
        OwnerPosition {
            run: self.run,
            version: self.version(),
            session: self.sessions.get(&follower).map(|session| (session.session, session.position())),
            incomplete: self.incomplete.clone(),
        }
    }
}
