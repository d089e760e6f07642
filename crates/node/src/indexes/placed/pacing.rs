//! Pacing of reads: few are asked of an owner at a time, so that pages do not fill its queue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_index_feed::{CopyNumber, FeedRead, FeedReadScope, FollowSession};

/// Reads that are asked of an owner at a time.
const READS: usize = 8;

/// Time after which an answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A read, and the definition whose keys it needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PacedRead {
    pub read: FeedRead,
    pub definition: u64,
}

/// Reads of all owners.
#[derive(Debug, Default)]
pub(super) struct ReadPacing {
    owners: BTreeMap<NodeKey, OwnerReads>,
}

#[derive(Debug, Default)]
struct OwnerReads {
    session: Option<FollowSession>,
    under_way: BTreeMap<u64, Instant>,
    /// The last read of each bucket of a copy, and of single documents of it.
    waiting: BTreeMap<(CopyNumber, BucketId, bool), PacedRead>,
}

impl ReadPacing {
    /// A session with an owner goes on, or another one begins, for which earlier reads do not count.
    pub fn follow(&mut self, owner: NodeKey, session: FollowSession) {
        let reads = self.owners.entry(owner).or_default();
        if reads.session != Some(session) {
            *reads = OwnerReads { session: Some(session), ..OwnerReads::default() };
        }
    }

    /// A read is due. It takes the place of an earlier one of the same bucket that waits.
    pub fn add(&mut self, owner: NodeKey, copy: CopyNumber, paced: PacedRead) {
        let is_lookup = matches!(paced.read.scope, FeedReadScope::Documents(_));
        let reads = self.owners.entry(owner).or_default();
        reads.waiting.insert((copy, paced.read.bucket, is_lookup), paced);
    }

    /// A page has come.
    pub fn answered(&mut self, owner: NodeKey, read: u64) {
        if let Some(reads) = self.owners.get_mut(&owner) {
            reads.under_way.remove(&read);
        }
    }

    /// A copy is not read any more.
    pub fn forget(&mut self, copy: CopyNumber) {
        self.owners.values_mut().for_each(|reads| reads.waiting.retain(|(of, ..), _| *of != copy));
    }

    /// Reads to be asked for now.
    pub fn due(&mut self, now: Instant) -> Vec<(NodeKey, PacedRead)> {
        let mut due = Vec::new();
        for (owner, reads) in &mut self.owners {
            reads.under_way.retain(|_, asked| now.saturating_duration_since(*asked) < PATIENCE);
            while reads.under_way.len() < READS
                && let Some((_, paced)) = reads.waiting.pop_first()
            {
                reads.under_way.insert(paced.read.number, now);
                due.push((*owner, paced));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::Timestamp;

    use super::*;

    fn read(number: u64, bucket: u64) -> PacedRead {
        let read = FeedRead {
            session: FollowSession { run: 1, number: 1 },
            number,
            bucket: BucketId::new(8, bucket),
            document_type: "mail".to_owned(),
            scope: FeedReadScope::Since { from: Timestamp(0), after: None },
        };
        PacedRead { read, definition: 1 }
    }

    #[test]
    fn few_reads_are_under_way_at_a_time() {
        let (mut pacing, owner, copy) = (ReadPacing::default(), NodeKey(1), CopyNumber(1));
        let start = Instant::now();
        let numbers = |due: Vec<(NodeKey, PacedRead)>| {
            due.into_iter().map(|(_, paced)| paced.read.number).collect::<Vec<u64>>()
        };
        pacing.follow(owner, FollowSession { run: 1, number: 1 });
        (0..10).for_each(|number| pacing.add(owner, copy, read(number, number)));
        assert_eq!(numbers(pacing.due(start)), [0, 1, 2, 3, 4, 5, 6, 7]);
        pacing.add(owner, copy, read(18, 8));
        assert_eq!(numbers(pacing.due(start)), [0; 0]);
        pacing.answered(owner, 3);
        assert_eq!(numbers(pacing.due(start)), [18], "the later read of the bucket");
        assert_eq!(numbers(pacing.due(start + PATIENCE)), [9], "no answer has come");
        pacing.add(owner, copy, read(20, 1));
        pacing.follow(owner, FollowSession { run: 1, number: 2 });
        assert_eq!(numbers(pacing.due(start + PATIENCE)), [0; 0], "another session");
    }
}
