//! Sessions with owners, and what is asked of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::Timestamp;

use super::bucket::{ArrivingPage, FollowedBucket, OwnerReplica, ReadNeed};
use super::copies::FollowingCopy;
use super::{FollowEffect, IndexFeedFollower};
use crate::message::{CopyNumber, FeedPage, FeedRead, FeedRow, FollowRequest, FollowSession, SourceRun};

/// Session with an owner.
#[derive(Debug)]
pub(crate) struct FollowerSession {
    pub session: FollowSession,
    /// Run of the owner's process; `None` before the first batch.
    pub run: Option<SourceRun>,
    sequence: u64,
    types: BTreeSet<String>,
    pub buckets: BTreeMap<BucketId, SessionBucket>,
    /// Position after the last change that was taken in.
    pub applied: u64,
    /// Time of the last batch.
    pub heard: Timestamp,
    /// Time of the last request.
    pub requested: Timestamp,
    /// Time of the look of the last closing, by the clock of the owner: all earlier changes were taken in.
    pub closed: Option<Timestamp>,
}

/// Bucket that was asked for.
#[derive(Debug)]
pub(crate) struct SessionBucket {
    /// Number of the request that asked for it first.
    pub sequence: u64,
    /// Disorder of the owner's replica; `None` while the bucket is not followed.
    pub disorder: Option<Timestamp>,
    /// Number of the last disturbance of the owner's replica.
    pub disturbance: u64,
}

impl SessionBucket {
    /// The bucket changed other than by new rows: a copy that begins before the next closing reads all of it.
    pub fn disturb(&mut self) {
        self.disorder = self.disorder.map(|_| Timestamp(u64::MAX));
        self.disturbance = u64::MAX;
    }

    /// All of its disturbances so far came before this time, and are among the counted ones.
    pub fn count(&mut self, time: Timestamp, disturbances: u64) {
        if self.disorder == Some(Timestamp(u64::MAX)) {
            self.disorder = Some(time);
            self.disturbance = disturbances;
        }
    }
}

impl FollowerSession {
    pub fn request(&self, version: u64) -> FollowRequest {
        FollowRequest {
            session: self.session,
            run: self.run,
            sequence: self.sequence,
            version,
            types: self.types.clone(),
            buckets: self.buckets.iter().map(|(bucket, requested)| (*bucket, requested.sequence)).collect(),
        }
    }
}

impl<B: Clone> IndexFeedFollower<B> {
    /// Asks each owner for the buckets that copies need.
    pub(super) fn follow(&mut self, now: Timestamp) {
        let mut needed: BTreeMap<NodeKey, BTreeSet<BucketId>> = BTreeMap::new();
        let types: BTreeSet<String> =
            self.copies.values().map(|copy| copy.definition.document_type.clone()).collect();
        for bucket in self.copies.values().flat_map(|copy| copy.buckets.keys()) {
            if let Some(owner) = self.owners.get(bucket).copied().flatten() {
                needed.entry(owner).or_default().insert(*bucket);
            }
        }
        let all: BTreeSet<NodeKey> = self.sessions.keys().chain(needed.keys()).copied().collect();
        for owner in all {
            let buckets = needed.remove(&owner).unwrap_or_default();
            // Documents of another type come in another session, so that no earlier one is missing.
            let is_other = self.sessions.get(&owner).is_some_and(|session| session.types != types);
            if is_other {
                self.end(owner);
            }
            if buckets.is_empty() && !self.sessions.contains_key(&owner) {
                continue;
            }
            let (run, last) = (self.run, &mut self.last_session);
            let session = self.sessions.entry(owner).or_insert_with(|| {
                *last += 1;
                FollowerSession {
                    session: FollowSession { run, number: *last },
                    run: None,
                    sequence: 0,
                    types: types.clone(),
                    buckets: BTreeMap::new(),
                    applied: 0,
                    heard: now,
                    requested: now,
                    closed: None,
                }
            });
            if session.sequence > 0 && session.buckets.keys().eq(buckets.iter()) {
                continue;
            }
            session.sequence += 1;
            session.requested = now;
            session.buckets.retain(|bucket, _| buckets.contains(bucket));
            for bucket in buckets {
                let requested = SessionBucket { sequence: session.sequence, disorder: None, disturbance: 0 };
                session.buckets.entry(bucket).or_insert(requested);
            }
            self.effects.push(FollowEffect::Follow { owner, request: session.request(self.version) });
        }
    }

    /// Ends a session: nothing of it counts any more.
    fn end(&mut self, owner: NodeKey) {
        self.sessions.remove(&owner);
        for copy in self.copies.values_mut() {
            let of_owner =
                copy.buckets.iter_mut().filter(|(bucket, _)| self.owners.get(bucket) == Some(&Some(owner)));
            of_owner.for_each(|(_, followed)| followed.detach());
        }
    }

    /// Begins another session with an owner.
    pub(super) fn restart(&mut self, owner: NodeKey, now: Timestamp) {
        self.end(owner);
        self.follow(now);
    }

    /// Lets copies take in the buckets that are followed, and reads these.
    pub(super) fn attach(&mut self, owner: NodeKey, now: Timestamp) {
        let Some(session) = self.sessions.get(&owner) else { return };
        let Some(run) = session.run else { return };
        for copy in self.copies.values_mut() {
            for (bucket, followed) in copy.buckets.iter_mut().filter(|(_, followed)| !followed.is_attached) {
                let requested = session.buckets.get(bucket);
                let replica = requested.and_then(|requested| {
                    let (disorder, disturbance) = (requested.disorder?, requested.disturbance);
                    Some(OwnerReplica { owner, run, disorder, disturbance })
                });
                if let Some(replica) = replica.filter(|_| self.owners.get(bucket) == Some(&Some(owner))) {
                    followed.attach(replica, now);
                    self.due.insert(*bucket);
                }
            }
        }
    }

    /// Calls `each` with the copies that take the changes of an owner's bucket in.
    pub(super) fn each(
        &mut self,
        owner: NodeKey,
        bucket: BucketId,
        mut each: impl FnMut(CopyNumber, &mut FollowedBucket, &str),
    ) {
        if self.owners.get(&bucket) != Some(&Some(owner)) {
            return;
        }
        for (number, FollowingCopy { definition, buckets, .. }) in &mut self.copies {
            if let Some(followed) = buckets.get_mut(&bucket).filter(|followed| followed.is_attached) {
                each(*number, followed, &definition.document_type);
            }
        }
    }

    /// Copies of a type that take the changes of an owner's bucket in.
    pub(super) fn copies_of(
        &mut self,
        owner: NodeKey,
        bucket: BucketId,
        document_type: &str,
    ) -> Vec<CopyNumber> {
        let mut copies = Vec::new();
        self.each(owner, bucket, |copy, _, of| copies.extend((of == document_type).then_some(copy)));
        copies
    }

    pub(super) fn disorder(&mut self, owner: NodeKey, bucket: BucketId) {
        let known = self.sessions.get_mut(&owner).and_then(|session| session.buckets.get_mut(&bucket));
        known.into_iter().for_each(SessionBucket::disturb);
    }

    pub(super) fn look_up(
        &mut self,
        copy: CopyNumber,
        bucket: BucketId,
        document: Vec<u8>,
        timestamp: Timestamp,
    ) {
        let followed = self.copies.get_mut(&copy).and_then(|copy| copy.buckets.get_mut(&bucket));
        followed.into_iter().for_each(|followed| followed.doubt(document.clone(), timestamp));
        self.due.insert(bucket);
    }

    /// Asks for what is to be read of buckets, once for all copies of a type that need the same.
    pub(super) fn ask_reads(&mut self, now: Timestamp) {
        for bucket in std::mem::take(&mut self.due) {
            let Some(owner) = self.owners.get(&bucket).copied().flatten() else { continue };
            let Some(session) = self.sessions.get(&owner).map(|session| session.session) else { continue };
            let mut needs: BTreeMap<(String, ReadNeed), (Timestamp, BTreeSet<CopyNumber>)> = BTreeMap::new();
            let mut is_comparing = false;
            for (number, copy) in &self.copies {
                let attached = copy.buckets.get(&bucket).filter(|followed| followed.is_attached);
                let Some(followed) = attached else { continue };
                is_comparing |= followed.is_comparing();
                for (need, from) in followed.needs() {
                    let document_type = copy.definition.document_type.clone();
                    let (lowest, copies) =
                        needs.entry((document_type, need)).or_insert_with(|| (from, BTreeSet::new()));
                    *lowest = from.min(*lowest);
                    copies.insert(*number);
                }
            }
            if is_comparing {
                // The copies that a page has come for go on together.
                self.due.insert(bucket);
                continue;
            }
            for ((document_type, need), (from, copies)) in needs {
                self.last_read += 1;
                let number = self.last_read;
                for copy in &copies {
                    let followed = self.copies.get_mut(copy).and_then(|copy| copy.buckets.get_mut(&bucket));
                    followed.into_iter().for_each(|followed| followed.requested(&need, number, now));
                }
                let read = FeedRead { session, number, bucket, document_type, scope: need.scope(from) };
                self.effects.push(FollowEffect::Read { owner, copies, read });
            }
        }
    }

    /// Takes a page in.
    pub(super) fn page(&mut self, owner: NodeKey, page: FeedPage<B>) {
        let FeedPage { read, bucket, content } = page;
        let mut answered = Vec::new();
        self.each(owner, bucket, |copy, followed, _| {
            if followed.has_asked(read) {
                answered.push((copy, followed.answered(read, content.as_ref())));
            }
        });
        if answered.is_empty() {
            return;
        }
        self.due.insert(bucket);
        let (rows, until) = content.map(|content| (content.rows, content.until)).unwrap_or_default();
        let rows: Arc<[FeedRow<B>]> = rows.into();
        for (copy, place) in answered {
            let rows = Arc::clone(&rows);
            match place {
                Some(ArrivingPage::Reading { from, after }) => {
                    let (excluded, until) = (Self::excluded(&self.owners, bucket), until.clone());
                    let compared =
                        FollowEffect::Replace { copy, bucket, excluded, read, from, after, until, rows };
                    self.effects.push(compared);
                }
                Some(ArrivingPage::Lookup(documents)) => {
                    self.effects.push(FollowEffect::ReplaceDocuments { copy, documents, rows });
                }
                None => {}
            }
        }
    }

    /// Asks for the positions of owners for copies that have caught up, and are not ready.
    pub(super) fn ask_positions(&mut self, now: Timestamp) {
        for (number, copy) in &mut self.copies {
            if copy.asks(now) {
                self.effects.push(FollowEffect::AskPositions { copy: *number });
            }
        }
    }
}
