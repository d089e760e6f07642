//! The side of a node with copies of indexes.

mod bucket;
mod copies;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::{DropScope, Timestamp};

use crate::MARGIN_US;
use crate::freshness::CopyFreshness;
use crate::message::{
    BatchReceipt, CopyMarks, CopyNumber, FeedBatch, FeedChange, FeedCut, FeedRead, FeedRow, FollowRequest,
    OwnerPosition, ReplicaMark,
};
use bucket::FollowedBucket;
use copies::FollowingCopy;
use sessions::FollowerSession;

/// Time after which a request without an answer is sent again, in microseconds.
const RETRY_US: u64 = 5_000_000;

/// Time after which a source that sends nothing is asked for its session, in microseconds. Sources with
/// settled buckets send closings in shorter intervals.
const SILENCE_US: u64 = 15_000_000;

/// Documents of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyDefinition {
    /// Type of the documents.
    pub document_type: String,
    /// The slice, as the bucket of its locations.
    pub slice: BucketId,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FollowProgress {
    /// Number of buckets of its slice.
    pub buckets: usize,
    /// Number of those that are followed.
    pub followed: usize,
    /// Number of those that were read since.
    pub caught_up: usize,
    /// The lowest W of the buckets: the copy has everything from before it.
    pub until: Timestamp,
}

/// Action of an index node. Actions are carried out in their order, all of them before the copy is read and
/// before the next call; [`IndexFeedFollower::compared`] alone is called in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowEffect<B> {
    /// Send a request to an owner, for [`crate::IndexFeedSource::follow`].
    Follow {
        /// The owner.
        owner: NodeKey,
        /// The request.
        request: FollowRequest,
    },
    /// Ask an owner to read documents. It may be lost; the follower asks again under another number. If it is
    /// sent later, [`IndexFeedFollower::sent`] says when.
    Read {
        /// The owner.
        owner: NodeKey,
        /// The copies that the page is for, of one document type.
        copies: BTreeSet<CopyNumber>,
        /// The request.
        read: FeedRead,
    },
    /// Confirm batches to an owner.
    Confirm {
        /// The owner.
        owner: NodeKey,
        /// The receipt.
        receipt: BatchReceipt,
    },
    /// Take a version in, unless the copy has a newer one of the document.
    Apply {
        /// The copy.
        copy: CopyNumber,
        /// The version.
        row: FeedRow<B>,
    },
    /// Take out the entries of documents of a scope in a bucket.
    Drop {
        /// The copy.
        copy: CopyNumber,
        /// The bucket.
        bucket: BucketId,
        /// Buckets inside of it, whose documents are not of it.
        excluded: Vec<BucketId>,
        /// The scope.
        scope: DropScope,
        /// Part of a divided group; `None` for all of the scope.
        part: Option<BucketId>,
        /// Versions of this time and before.
        until: Timestamp,
    },
    /// Replace records of documents of a bucket by a page, newer ones too. Of other documents in the range
    /// of the page, forget the records if `from` is 0, and else find those with this time or later.
    /// [`IndexFeedFollower::compared`] follows, with what was found.
    Replace {
        /// The copy.
        copy: CopyNumber,
        /// The bucket.
        bucket: BucketId,
        /// Buckets inside of it, whose documents are not of it.
        excluded: Vec<BucketId>,
        /// Number of the read.
        read: u64,
        /// Lowest time.
        from: Timestamp,
        /// The range begins after this sort key; `None` for the start of the bucket.
        after: Option<Vec<u8>>,
        /// The range ends with this sort key; `None` for the end of the bucket.
        until: Option<Vec<u8>>,
        /// Versions of the page.
        rows: Arc<[FeedRow<B>]>,
    },
    /// Replace the records of these documents by these versions, newer ones too, and forget the records of
    /// those without a version.
    ReplaceDocuments {
        /// The copy.
        copy: CopyNumber,
        /// The documents.
        documents: BTreeSet<Vec<u8>>,
        /// Their versions.
        rows: Arc<[FeedRow<B>]>,
    },
    /// Ask the owners of the slice's buckets for their positions, for [`IndexFeedFollower::catch_up`].
    AskPositions {
        /// The copy.
        copy: CopyNumber,
    },
    /// The copy is ready: it has everything that was acknowledged before it asked.
    Ready {
        /// The copy.
        copy: CopyNumber,
    },
}

/// Follower of an index node: for all of its copies, one session with each owner, so that a row is sent once
/// to the node. Copies of one document type that need the same page of a bucket get it by one read.
#[derive(Debug)]
pub struct IndexFeedFollower<B> {
    /// Run of the process; a later one is greater.
    run: u64,
    last_session: u64,
    last_read: u64,
    /// Version of the cluster state that the owners are of.
    version: u64,
    owners: BTreeMap<BucketId, Option<NodeKey>>,
    sessions: BTreeMap<NodeKey, FollowerSession>,
    copies: BTreeMap<CopyNumber, FollowingCopy>,
    /// Buckets of which something may have to be read.
    due: BTreeSet<BucketId>,
    effects: Vec<FollowEffect<B>>,
}

impl<B: Clone> IndexFeedFollower<B> {
    /// Creates the follower of a process that starts, whose run is greater than all before on this node.
    pub fn new(run: u64) -> Self {
        IndexFeedFollower {
            run,
            last_session: 0,
            last_read: 0,
            version: 0,
            owners: BTreeMap::new(),
            sessions: BTreeMap::new(),
            copies: BTreeMap::new(),
            due: BTreeSet::new(),
            effects: Vec::new(),
        }
    }

    /// Keeps a copy up from now on: one that was opened, with the marks of its last flush; one that was
    /// imported, with the marks that came with its files; one to be built, without any.
    pub fn add_copy(
        &mut self,
        number: CopyNumber,
        definition: CopyDefinition,
        marks: &CopyMarks,
        now: Timestamp,
    ) -> Vec<FollowEffect<B>> {
        self.copies.insert(number, FollowingCopy::new(definition, marks, &self.owners));
        self.follow(now);
        let owned: Vec<NodeKey> = self.sessions.keys().copied().collect();
        owned.into_iter().for_each(|owner| self.attach(owner, now));
        self.take_effects(now)
    }

    /// Keeps a copy up no more.
    pub fn remove_copy(&mut self, number: CopyNumber, now: Timestamp) -> Vec<FollowEffect<B>> {
        self.copies.remove(&number);
        self.follow(now);
        self.take_effects(now)
    }

    /// Adopts a cluster state: all buckets, and the owner of each; `None` for one that no node can own.
    pub fn adopt(
        &mut self,
        version: u64,
        owners: BTreeMap<BucketId, Option<NodeKey>>,
        now: Timestamp,
    ) -> Vec<FollowEffect<B>> {
        if version <= self.version {
            return Vec::new();
        }
        self.version = version;
        let before = std::mem::replace(&mut self.owners, owners);
        let divided = divided(&before, &self.owners);
        for copy in self.copies.values_mut() {
            copy.adopt(&before, &self.owners, &divided);
        }
        // What waits of a bucket may be of documents that are of another one now: it is followed again.
        for session in self.sessions.values_mut() {
            session.buckets.retain(|bucket, _| !divided.contains(bucket));
        }
        self.follow(now);
        let owned: Vec<NodeKey> = self.sessions.keys().copied().collect();
        owned.into_iter().for_each(|owner| self.attach(owner, now));
        self.take_effects(now)
    }

    /// Takes a batch in.
    pub fn batch(&mut self, owner: NodeKey, batch: FeedBatch<B>, now: Timestamp) -> Vec<FollowEffect<B>> {
        let Some(session) = self.sessions.get_mut(&owner).filter(|known| known.session == batch.session)
        else {
            return Vec::new();
        };
        session.heard = now;
        if session.run.is_some_and(|run| run != batch.run) {
            // The process of the owner is another one: what waited in the former one is lost.
            self.restart(owner, now);
            return self.take_effects(now);
        }
        session.run = Some(batch.run);
        // After a gap the source hands out again what was not confirmed.
        let known = session.applied.checked_sub(batch.first).and_then(|known| usize::try_from(known).ok());
        let changes = batch.changes.len();
        if let Some(known) = known.filter(|known| *known < changes) {
            session.applied = batch.first.saturating_add(changes as u64);
            for change in batch.changes.into_iter().skip(known) {
                self.change(owner, change, now);
            }
            self.ask_positions(now);
        }
        // A change may have ended the session.
        let session = self.sessions.get(&owner).filter(|known| known.session == batch.session);
        if let Some(position) = session.map(|session| session.applied) {
            let receipt = BatchReceipt { run: batch.run, session: batch.session, position };
            self.effects.push(FollowEffect::Confirm { owner, receipt });
        }
        self.take_effects(now)
    }

    /// Takes in that a session was cut.
    pub fn cut(&mut self, owner: NodeKey, cut: FeedCut, now: Timestamp) -> Vec<FollowEffect<B>> {
        if self.sessions.get(&owner).is_some_and(|session| session.session == cut.session) {
            self.restart(owner, now);
        }
        self.take_effects(now)
    }

    /// A [`FollowEffect::Replace`] was carried out: `unmatched` are the documents that were found.
    pub fn compared(
        &mut self,
        copy: CopyNumber,
        bucket: BucketId,
        read: u64,
        unmatched: Vec<Vec<u8>>,
        now: Timestamp,
    ) -> Vec<FollowEffect<B>> {
        let followed = self.copies.get_mut(&copy).and_then(|copy| copy.buckets.get_mut(&bucket));
        if followed.is_some_and(|followed| followed.compared(read, unmatched)) {
            self.due.insert(bucket);
            self.ask_positions(now);
        }
        self.take_effects(now)
    }

    /// A read of a bucket that waited since [`FollowEffect::Read`] is sent now, so that its answer is awaited
    /// from now on.
    pub fn sent(&mut self, bucket: BucketId, read: u64, now: Timestamp) {
        let followed = self.copies.values_mut().filter_map(|copy| copy.buckets.get_mut(&bucket));
        followed.for_each(|followed| followed.sent(read, now));
    }

    /// Sends again what has no answer. Called every second or so.
    pub fn tick(&mut self, now: Timestamp) -> Vec<FollowEffect<B>> {
        for (owner, session) in &mut self.sessions {
            let is_unanswered = session.buckets.values().any(|bucket| bucket.disorder.is_none());
            let is_silent = session.heard.0 + SILENCE_US < now.0;
            if (is_unanswered || is_silent) && session.requested.0 + RETRY_US < now.0 {
                session.requested = now;
                self.effects
                    .push(FollowEffect::Follow { owner: *owner, request: session.request(self.version) });
            }
        }
        for copy in self.copies.values_mut() {
            for (bucket, followed) in &mut copy.buckets {
                if followed.forget_late_reads(now) {
                    self.due.insert(*bucket);
                }
            }
            copy.forget_late_question(now);
        }
        self.ask_positions(now);
        self.take_effects(now)
    }

    /// Takes in the positions that [`FollowEffect::AskPositions`] asked for: the copy is ready if it has
    /// them, and asks again later if not.
    pub fn catch_up(
        &mut self,
        copy: CopyNumber,
        positions: &BTreeMap<NodeKey, OwnerPosition>,
    ) -> Vec<FollowEffect<B>> {
        let is_there = self.missing(copy, self.version, positions).is_some_and(|missing| missing.is_empty());
        if let Some(known) = self.copies.get_mut(&copy).filter(|known| is_there && !known.is_ready) {
            known.is_ready = true;
            self.effects.push(FollowEffect::Ready { copy });
        }
        std::mem::take(&mut self.effects)
    }

    /// True if a copy has had everything once.
    pub fn is_ready(&self, copy: CopyNumber) -> bool {
        self.copies.get(&copy).is_some_and(|copy| copy.is_ready)
    }

    /// Compares a copy with positions that owners had: it has everything that was acknowledged before they
    /// were asked, in all buckets but those that are missing. `version`: that of the state by which they were
    /// asked, and which must be confirmed after the copy was read.
    pub fn freshness(
        &self,
        copy: CopyNumber,
        version: u64,
        positions: &BTreeMap<NodeKey, OwnerPosition>,
    ) -> CopyFreshness {
        match self.missing(copy, version, positions).filter(|_| self.is_ready(copy)) {
            Some(missing) if missing.is_empty() => CopyFreshness::Fresh,
            Some(missing) => CopyFreshness::Missing(missing),
            None => CopyFreshness::NotReady,
        }
    }

    /// Microseconds since the last moment of which a copy is known to have everything that its owners had;
    /// `None` if none is known. Owners say so in intervals, so it is never exact.
    pub fn lag(&self, copy: CopyNumber, now: Timestamp) -> Option<u64> {
        let known = self.copies.get(&copy)?;
        let had = |(bucket, followed): (&BucketId, &FollowedBucket)| {
            let owner = self.owners.get(bucket).copied().flatten();
            let session = owner.and_then(|owner| self.sessions.get(&owner));
            let closed = session.filter(|_| followed.is_caught_up()).and_then(|session| session.closed);
            closed.max(Some(followed.until).filter(|until| until.0 > 0))
        };
        let had: Option<Vec<Timestamp>> = known.buckets.iter().map(had).collect();
        let oldest = had?.into_iter().min()?;
        Some(now.0.saturating_sub(oldest.0))
    }

    /// Looks documents of a bucket up in which a copy differs from the owner.
    pub fn recheck(
        &mut self,
        copy: CopyNumber,
        bucket: BucketId,
        documents: Vec<Vec<u8>>,
        now: Timestamp,
    ) -> Vec<FollowEffect<B>> {
        for document in documents {
            self.look_up(copy, bucket, document, Timestamp(u64::MAX));
        }
        self.take_effects(now)
    }

    /// Buckets of a copy that lack something from before these positions; `None` if that cannot be said.
    fn missing(
        &self,
        copy: CopyNumber,
        version: u64,
        positions: &BTreeMap<NodeKey, OwnerPosition>,
    ) -> Option<BTreeSet<BucketId>> {
        let copy = self.copies.get(&copy)?;
        if version != self.version || copy.buckets.is_empty() {
            return None;
        }
        let is_there = |bucket: &BucketId, followed: &FollowedBucket| {
            let owner = (*self.owners.get(bucket)?)?;
            let (position, session) = (positions.get(&owner)?, self.sessions.get(&owner)?);
            let (requested, until) = position.session?;
            let is_same = position.version == version
                && Some(position.run) == session.run
                && requested == session.session
                && until <= session.applied;
            let is_whole = !position.incomplete.contains(bucket);
            Some(is_same && is_whole && followed.is_caught_up())
        };
        let missing =
            copy.buckets.iter().filter(|(bucket, followed)| is_there(bucket, followed) != Some(true));
        Some(missing.map(|(bucket, _)| *bucket).collect())
    }

    /// Progress of a copy.
    pub fn progress(&self, copy: CopyNumber) -> FollowProgress {
        let Some(copy) = self.copies.get(&copy) else { return FollowProgress::default() };
        FollowProgress {
            buckets: copy.buckets.len(),
            followed: copy.buckets.values().filter(|followed| followed.is_attached).count(),
            caught_up: copy.buckets.values().filter(|followed| followed.is_caught_up()).count(),
            until: copy.buckets.values().map(|followed| followed.until).min().unwrap_or_default(),
        }
    }

    /// Marks of a copy, to be stored with a flush of what it has now.
    pub fn marks(&self, copy: CopyNumber) -> CopyMarks {
        self.copies.get(&copy).map(FollowingCopy::marks).unwrap_or_default()
    }

    /// Buckets inside of another one.
    pub(crate) fn excluded(owners: &BTreeMap<BucketId, Option<NodeKey>>, bucket: BucketId) -> Vec<BucketId> {
        // Deeper buckets come later in the order.
        let deeper = bucket.children().map(|[first, _]| owners.range(BucketId::new(first.used_bits(), 0)..));
        let inside = deeper.into_iter().flatten().map(|(inside, _)| *inside);
        inside.filter(|inside| bucket.covers(*inside)).collect()
    }

    /// Asks for the reads that are due, and hands all effects out.
    fn take_effects(&mut self, now: Timestamp) -> Vec<FollowEffect<B>> {
        self.ask_reads(now);
        std::mem::take(&mut self.effects)
    }

    /// Takes one change in.
    fn change(&mut self, owner: NodeKey, change: FeedChange<B>, now: Timestamp) {
        match change {
            FeedChange::Followed { bucket, sequence, disorder, disturbance } => {
                let known =
                    self.sessions.get_mut(&owner).and_then(|session| session.buckets.get_mut(&bucket));
                // An answer to a request from before the bucket was given up does not count.
                if let Some(known) = known.filter(|known| known.sequence <= sequence) {
                    known.disorder = Some(disorder);
                    known.disturbance = disturbance;
                    self.attach(owner, now);
                }
            }
            FeedChange::Ended(bucket) => {
                self.disorder(owner, bucket);
                if let Some(session) = self.sessions.get_mut(&owner) {
                    session.buckets.remove(&bucket);
                }
                self.each(owner, bucket, |_, followed, _| followed.detach());
                self.follow(now);
            }
            FeedChange::Row(row) => self.row(owner, row),
            FeedChange::Doubtful { bucket, document_type, document, timestamp } => {
                self.disorder(owner, bucket);
                let of_type = self.copies_of(owner, bucket, &document_type);
                for copy in of_type {
                    self.look_up(copy, bucket, document.clone(), timestamp);
                }
            }
            FeedChange::Dropped { scope, part, until } => self.dropped(owner, &scope, part, until),
            FeedChange::Stale(bucket) => {
                self.disorder(owner, bucket);
                self.each(owner, bucket, |_, followed, _| {
                    followed.disturb(Timestamp(0));
                    followed.read_from(Timestamp(0));
                });
                self.due.insert(bucket);
            }
            FeedChange::Closed { version, until, held, disturbances } => {
                let session = self.sessions.get_mut(&owner).filter(|_| version == self.version);
                let Some(session) = session else { return };
                let looked = Timestamp(until.0.saturating_add(MARGIN_US));
                session.closed = Some(looked);
                // Some may have come after the look, and all did before now.
                let counted = looked.max(now);
                session.buckets.values_mut().for_each(|bucket| bucket.count(counted, disturbances));
                let mark = session.run.map(|run| ReplicaMark { owner, run, disturbances, until });
                for (bucket, followed) in self.copies.values_mut().flat_map(|copy| &mut copy.buckets) {
                    if self.owners.get(bucket) != Some(&Some(owner)) {
                        continue;
                    }
                    mark.into_iter().for_each(|mark| followed.note(mark));
                    if !held.contains(bucket) {
                        followed.close(until);
                    }
                }
            }
            FeedChange::Page(page) => self.page(owner, page),
        }
    }

    fn row(&mut self, owner: NodeKey, row: FeedRow<B>) {
        for copy in self.copies_of(owner, row.bucket, &row.document_type) {
            let followed = self.copies.get(&copy).and_then(|copy| copy.buckets.get(&row.bucket));
            // A removal from before W may have been forgotten.
            match followed.is_some_and(|followed| row.timestamp < followed.until) {
                true => self.look_up(copy, row.bucket, row.document.clone(), row.timestamp),
                false => self.effects.push(FollowEffect::Apply { copy, row: row.clone() }),
            }
        }
    }

    fn dropped(&mut self, owner: NodeKey, scope: &DropScope, part: Option<BucketId>, until: Timestamp) {
        let concerns_bucket = |bucket: BucketId| {
            part.is_none_or(|part| part.covers(bucket) || bucket.covers(part))
                && match scope {
                    DropScope::Group { group, .. } => bucket.intersects(group),
                    DropScope::Type(_) => true,
                }
        };
        if let Some(session) = self.sessions.get_mut(&owner) {
            let concerned = session.buckets.iter_mut().filter(|(bucket, _)| concerns_bucket(**bucket));
            concerned.for_each(|(_, bucket)| bucket.disturb());
        }
        for (number, copy) in &mut self.copies {
            let dropped = match scope {
                DropScope::Group { document_type, .. } => document_type.as_ref(),
                DropScope::Type(document_type) => Some(document_type),
            };
            if dropped.is_some_and(|dropped| *dropped != copy.definition.document_type) {
                continue;
            }
            for (bucket, followed) in &mut copy.buckets {
                let is_followed = self.owners.get(bucket) == Some(&Some(owner)) && followed.is_attached;
                if !is_followed || !concerns_bucket(*bucket) {
                    continue;
                }
                // Other replicas may not have the drop yet.
                followed.disturb(Timestamp(0));
                let (copy, bucket, scope) = (*number, *bucket, scope.clone());
                let excluded = Self::excluded(&self.owners, bucket);
                self.effects.push(FollowEffect::Drop { copy, bucket, excluded, scope, part, until });
            }
        }
    }
}

/// Buckets that other buckets were divided off, or joined to.
fn divided(
    before: &BTreeMap<BucketId, Option<NodeKey>>,
    after: &BTreeMap<BucketId, Option<NodeKey>>,
) -> BTreeSet<BucketId> {
    let come = after.keys().filter(|bucket| !before.contains_key(bucket));
    let gone = before.keys().filter(|bucket| !after.contains_key(bucket));
    let covering =
        come.chain(gone).flat_map(|bucket| std::iter::successors(bucket.parent(), |parent| parent.parent()));
    covering.filter(|bucket| after.contains_key(bucket)).collect()
}
