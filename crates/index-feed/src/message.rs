//! Messages between a source and a follower, as values.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::{DropScope, Timestamp};
use serde::{Deserialize, Serialize};

/// Run of a node's process, as a source: each start has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceRun(pub u64);

/// Number of a copy on an index node. A number is not used again for another copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CopyNumber(pub u64);

/// A follower's session with one owner. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FollowSession {
    /// Run of the follower's process; a later one is greater.
    pub run: u64,
    /// Number of the session in the run.
    pub number: u64,
}

/// A version of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRow<B> {
    /// Bucket of the document, as of the cluster state.
    pub bucket: BucketId,
    /// Document type.
    pub document_type: String,
    /// Sort key of the document.
    pub document: Vec<u8>,
    /// Time of the version.
    pub timestamp: Timestamp,
    /// Content of the version, a removal among them.
    pub body: B,
    /// Size in bytes, as it counts in queues.
    pub bytes: u32,
}

/// Request to follow exactly these buckets. One that comes again, or after a later one, has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowRequest {
    /// Session of the follower.
    pub session: FollowSession,
    /// Run of the source that the session is with, once the follower knows it.
    pub run: Option<SourceRun>,
    /// Number of the request in the session, from 1.
    pub sequence: u64,
    /// Version of the cluster state that the buckets are of. An owner that acts by an earlier one lets them
    /// wait.
    pub version: u64,
    /// Document types; the same in all requests of a session.
    pub types: BTreeSet<String>,
    /// Buckets, each with the number of the request that asked for it first. One with a new number was given
    /// up in between, and is followed from the answer on.
    pub buckets: BTreeMap<BucketId, u64>,
}

/// Documents that a read is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedReadScope {
    /// All versions of a time or later, removals among them, of documents after a sort key; a page of them in
    /// the order of sort keys.
    Since {
        /// Lowest time; 0 for everything that the bucket has.
        from: Timestamp,
        /// Documents after this one; `None` for all.
        after: Option<Vec<u8>>,
    },
    /// These documents, of any time.
    Documents(BTreeSet<Vec<u8>>),
}

/// Request to read documents of a bucket in the store of a source, for one copy or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRead {
    /// Session that the page comes in.
    pub session: FollowSession,
    /// Number of the read; each has another one.
    pub number: u64,
    /// Bucket of the documents.
    pub bucket: BucketId,
    /// Type of the documents.
    pub document_type: String,
    /// Documents to read.
    pub scope: FeedReadScope,
}

/// Versions that were read, as of the position of the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageContent<B> {
    /// The newest version of each document, in the order of sort keys.
    pub rows: Vec<FeedRow<B>>,
    /// Last sort key that the page is about; `None` if nothing of the scope is left.
    pub until: Option<Vec<u8>>,
}

/// Answer to a read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedPage<B> {
    /// Number of the read.
    pub read: u64,
    /// Bucket of the documents.
    pub bucket: BucketId,
    /// Content; `None` if the documents must be asked for again: the bucket changed meanwhile, or the read
    /// was put off.
    pub content: Option<PageContent<B>>,
}

/// A change in the queue of a follower. Each has a position in its session: the number of those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeedChange<B> {
    /// All changes of the bucket from here on are in the queue.
    Followed {
        /// The bucket.
        bucket: BucketId,
        /// Number of the request that asked for it.
        sequence: u64,
        /// Time at which the replica changed last other than by new rows.
        disorder: Timestamp,
        /// Number of the disturbances that the source had counted with the last one of the replica.
        disturbance: u64,
    },
    /// Changes of the bucket after this position are not in the queue: it has another owner.
    Ended(BucketId),
    /// A new version.
    Row(FeedRow<B>),
    /// A version that came late: the document must be looked up, since a newer one may be there or have been.
    Doubtful {
        /// Bucket of the document.
        bucket: BucketId,
        /// Document type.
        document_type: String,
        /// Sort key of the document.
        document: Vec<u8>,
        /// Time of the version.
        timestamp: Timestamp,
    },
    /// Documents of a scope were dropped.
    Dropped {
        /// The scope.
        scope: DropScope,
        /// Part of a divided group; `None` for all of the scope.
        part: Option<BucketId>,
        /// Versions of this time and before are dropped.
        until: Timestamp,
    },
    /// Versions entered or left the bucket other than by rows and drops: it must be read again.
    Stale(BucketId),
    /// Of the followed buckets, all replicas have all versions from before a time, and no such version is
    /// still to come but a late one.
    Closed {
        /// Version of the cluster state that the buckets are of: by another one, documents may be of others.
        version: u64,
        /// The time.
        until: Timestamp,
        /// Followed buckets that this does not hold for.
        held: BTreeSet<BucketId>,
        /// Number of disturbances that the source has counted.
        disturbances: u64,
    },
    /// Answer to a read.
    Page(FeedPage<B>),
}

impl<B> FeedChange<B> {
    /// Size in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        const FIXED: usize = 64;
        match self {
            FeedChange::Row(row) => FIXED + row.bytes as usize,
            FeedChange::Doubtful { document, .. } => FIXED + document.len(),
            FeedChange::Closed { held, .. } => FIXED + 32 * held.len(),
            FeedChange::Page(page) => {
                let rows = page.content.iter().flat_map(|content| &content.rows);
                FIXED + rows.map(|row| FIXED + row.bytes as usize).sum::<usize>()
            }
            FeedChange::Dropped { .. } => 4 * FIXED,
            FeedChange::Followed { .. } | FeedChange::Ended(_) | FeedChange::Stale(_) => FIXED,
        }
    }
}

/// Changes on their way to a follower.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedBatch<B> {
    /// Run of the source.
    pub run: SourceRun,
    /// Session of the follower.
    pub session: FollowSession,
    /// Position of the first change.
    pub first: u64,
    /// Changes, in their order.
    pub changes: Vec<FeedChange<B>>,
}

/// Receipt of a follower for all changes before a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchReceipt {
    /// Run of the source.
    pub run: SourceRun,
    /// Session of the follower.
    pub session: FollowSession,
    /// Position after the last change that was taken in.
    pub position: u64,
}

/// Notice that a session has ended: changes are missing, and the follower begins another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCut {
    /// The session.
    pub session: FollowSession,
}

/// Position of an owner, for a query: everything acknowledged until then is before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerPosition {
    /// Run of the source.
    pub run: SourceRun,
    /// Version of the cluster state that the owner acts by.
    pub version: u64,
    /// Session of the follower, and the position after the last change in its queue; `None` if the owner has
    /// no session of the follower.
    pub session: Option<(FollowSession, u64)>,
    /// Owned buckets of which the owner's replica lacks something, or is being changed.
    pub incomplete: BTreeSet<BucketId>,
}

/// Part of a bucket that a copy has as one owner has it: everything from before a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaMark {
    /// The owner.
    pub owner: NodeKey,
    /// Run of its process.
    pub run: SourceRun,
    /// Number of disturbances that the run had counted. The mark does not hold once the replica has had
    /// another one.
    pub disturbances: u64,
    /// The time.
    pub until: Timestamp,
}

/// Marks of what a copy has, to be stored with a flush, and sent with its files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CopyMarks {
    /// Times W by bucket.
    pub until: BTreeMap<BucketId, Timestamp>,
    /// Marks of the replicas that the copy followed last, by bucket. Each of the buckets has a time W.
    pub replicas: BTreeMap<BucketId, ReplicaMark>,
}

impl CopyMarks {
    /// The same time W for all documents.
    pub fn all(until: Timestamp) -> Self {
        CopyMarks { until: BTreeMap::from([(BucketId::ROOT, until)]), replicas: BTreeMap::new() }
    }

    /// Lowest W of all buckets; 0 without any.
    pub fn lowest(&self) -> Timestamp {
        self.until.values().min().copied().unwrap_or_default()
    }

    /// Takes everything back that may concern versions of this time or later.
    pub fn take_back(&mut self, from: Timestamp) {
        self.until.values_mut().for_each(|until| *until = (*until).min(from));
        self.replicas.clear();
    }

    /// Mark of a replica that holds for all documents of a bucket: they were of one bucket when it was made.
    /// `is_bucket`: buckets whose documents are not of buckets around them.
    pub(crate) fn replica(
        &self,
        bucket: BucketId,
        is_bucket: impl Fn(BucketId) -> bool,
    ) -> Option<ReplicaMark> {
        let is_joined = self.parts(bucket).any(|(part, _)| !is_bucket(*part));
        let mut covering = std::iter::successors(Some(bucket), |covering| covering.parent());
        let marked = covering.find(|covering| self.until.contains_key(covering))?;
        self.replicas.get(&marked).copied().filter(|_| !is_joined)
    }

    /// Marked buckets inside of another one.
    fn parts(&self, bucket: BucketId) -> impl Iterator<Item = (&BucketId, &Timestamp)> {
        // Deeper buckets come later in the order.
        let first = bucket.children().map(|[first, _]| BucketId::new(first.used_bits(), 0));
        let deeper = first.map(|first| self.until.range(first..));
        deeper.into_iter().flatten().filter(move |(marked, _)| bucket.covers(**marked))
    }

    /// Time below which the documents of a bucket are complete; 0 if that is not known for all of them.
    pub fn of(&self, bucket: BucketId) -> Timestamp {
        let parts: Vec<(&BucketId, &Timestamp)> = self.parts(bucket).collect();
        let lowest = parts.iter().map(|(_, until)| **until).min();
        let mut covering = std::iter::successors(Some(bucket), |covering| covering.parent());
        if let Some(until) = covering.find_map(|covering| self.until.get(&covering)) {
            // A part that was divided off the bucket may be further behind.
            return lowest.map_or(*until, |lowest| lowest.min(*until));
        }
        // Shares of the bucket in units of a bucket with all bits; parts inside of others count once.
        let is_outermost =
            |part: &BucketId| !parts.iter().any(|(other, _)| *other != part && other.covers(*part));
        let share =
            |part: &BucketId| 1_u64 << (millrace_document::Location::BITS - u32::from(part.used_bits()));
        let covered: u64 =
            parts.iter().map(|(part, _)| *part).filter(|part| is_outermost(part)).map(share).sum();
        let is_covered = covered == share(&bucket);
        lowest.filter(|_| is_covered).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_hold_for_halves_and_wholes() {
        let marks = |of: &[(u8, u64, u64)]| CopyMarks {
            until: of
                .iter()
                .map(|(used, bits, time)| (BucketId::new(*used, *bits), Timestamp(*time)))
                .collect(),
            replicas: BTreeMap::new(),
        };
        for (marked, bucket, expected) in [
            (marks(&[(2, 1, 7)]), BucketId::new(2, 1), 7),
            (marks(&[(2, 1, 7)]), BucketId::new(3, 5), 7),
            (marks(&[(2, 1, 7)]), BucketId::new(1, 1), 0),
            (marks(&[(2, 1, 7), (2, 3, 5)]), BucketId::new(1, 1), 5),
            (marks(&[(2, 1, 7), (2, 3, 5)]), BucketId::ROOT, 0),
            (marks(&[(2, 1, 7), (34, 1, 3)]), BucketId::new(2, 1), 3),
            (marks(&[(2, 1, 7), (34, 1, 3)]), BucketId::new(34, 1), 3),
            (marks(&[(2, 1, 7), (34, 1, 3), (2, 3, 9)]), BucketId::new(1, 1), 3),
            (CopyMarks::all(Timestamp(4)), BucketId::new(5, 3), 4),
            (CopyMarks::default(), BucketId::ROOT, 0),
        ] {
            assert_eq!(marked.of(bucket), Timestamp(expected), "{bucket} of {marked:?}");
        }
    }

    #[test]
    fn marks_of_replicas_hold_for_parts_and_not_for_what_was_joined() {
        let mark = |until| ReplicaMark {
            owner: NodeKey(1),
            run: SourceRun(2),
            disturbances: 3,
            until: Timestamp(until),
        };
        // Of one of the marked buckets no replica was followed.
        let (whole, part, other) = (BucketId::new(2, 1), BucketId::new(34, 1), BucketId::new(2, 3));
        let marks = CopyMarks {
            until: [whole, part, other].map(|bucket| (bucket, Timestamp(1))).into(),
            replicas: BTreeMap::from([(whole, mark(5)), (part, mark(7))]),
        };
        let all: &[BucketId] = &[whole, part, other];
        let cases: [(BucketId, &[BucketId], Option<u64>); 10] = [
            (whole, all, Some(5)),
            (part, all, Some(7)),
            (BucketId::new(35, 1), all, Some(7)),
            (other, all, None),
            (BucketId::new(2, 2), all, None),
            (BucketId::new(3, 5), &[BucketId::new(3, 5)], Some(5)),
            (BucketId::new(3, 1), &[BucketId::new(3, 1), part], Some(5)),
            (BucketId::new(3, 1), &[BucketId::new(3, 1)], None),
            (whole, &[whole, other], None),
            (BucketId::new(1, 1), &[BucketId::new(1, 1)], None),
        ];
        for (bucket, buckets, expected) in cases {
            let found = marks.replica(bucket, |bucket| buckets.contains(&bucket));
            assert_eq!(found, expected.map(mark), "{bucket} of {buckets:?}");
        }
    }
}
