//! Pacing of reads: an owner is asked for as many at a time as it answers, and few of these are large, so
//! that pages do not fill its queue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_index_feed::{CopyNumber, FeedReadScope, FollowSession};

use super::message::KeyedRead;

/// Reads that may always be in flight to an owner: as many as it answers in full.
const READS: usize = 8;

/// Reads that are in flight to an owner at most, and those of the first question.
const READS_MAX: usize = 256;

/// Time after which an answer is not waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A read, and the copies that it is for.
#[derive(Debug)]
pub(super) struct PacedRead {
    pub copies: BTreeSet<CopyNumber>,
    pub read: KeyedRead,
}

impl PacedRead {
    fn is_lookup(&self) -> bool {
        matches!(self.read.read.scope, FeedReadScope::Documents(_))
    }
}

/// Reads of all owners.
#[derive(Debug, Default)]
pub(super) struct ReadPacing {
    owners: BTreeMap<NodeKey, OwnerReads>,
}

#[derive(Debug)]
struct OwnerReads {
    session: Option<FollowSession>,
    /// Reads that may be in flight. One that was put off halves the number, and a page adds one.
    window: usize,
    in_flight: BTreeMap<u64, Instant>,
    /// Reads to be asked for, by bucket and number.
    waiting: BTreeMap<(BucketId, u64), PacedRead>,
}

impl Default for OwnerReads {
    fn default() -> Self {
        OwnerReads { session: None, window: READS_MAX, in_flight: BTreeMap::new(), waiting: BTreeMap::new() }
    }
}

impl ReadPacing {
    /// A session with an owner goes on, or another one begins, for which earlier reads do not count.
    pub fn follow(&mut self, owner: NodeKey, session: FollowSession) {
        let reads = self.owners.entry(owner).or_default();
        if reads.session != Some(session) {
            *reads = OwnerReads { session: Some(session), ..OwnerReads::default() };
        }
    }

    /// A read is due. For its copies it takes the place of an earlier one of the same bucket that waits.
    pub fn add(&mut self, owner: NodeKey, paced: PacedRead) {
        let (bucket, number) = (paced.read.read.bucket, paced.read.read.number);
        let waiting = &mut self.owners.entry(owner).or_default().waiting;
        let mut replaced = Vec::new();
        for (place, earlier) in waiting.range_mut((bucket, 0)..=(bucket, u64::MAX)) {
            if earlier.is_lookup() == paced.is_lookup() {
                earlier.copies.retain(|copy| !paced.copies.contains(copy));
                replaced.extend(earlier.copies.is_empty().then_some(*place));
            }
        }
        for place in replaced {
            waiting.remove(&place);
        }
        waiting.insert((bucket, number), paced);
    }

    /// A page has come, or one without content: its read was put off.
    pub fn answered(&mut self, owner: NodeKey, read: u64, has_content: bool) {
        let Some(reads) = self.owners.get_mut(&owner) else { return };
        if reads.in_flight.remove(&read).is_some() {
            reads.window = match has_content {
                true => READS_MAX.min(reads.window + 1),
                false => READS.max(reads.window / 2),
            };
        }
    }

    /// A copy is not read any more.
    pub fn forget(&mut self, copy: CopyNumber) {
        for reads in self.owners.values_mut() {
            reads.waiting.retain(|_, paced| {
                paced.copies.remove(&copy);
                !paced.copies.is_empty()
            });
        }
    }

    /// Questions to be asked now: of each owner one, for as many reads as may be in flight.
    pub fn due(&mut self, now: Instant) -> Vec<(NodeKey, Vec<KeyedRead>)> {
        let mut due = Vec::new();
        for (owner, reads) in &mut self.owners {
            reads.in_flight.retain(|_, requested| now.saturating_duration_since(*requested) < ANSWER_TIMEOUT);
            let mut question = Vec::new();
            while reads.in_flight.len() < reads.window
                && let Some((_, paced)) = reads.waiting.pop_first()
            {
                reads.in_flight.insert(paced.read.read.number, now);
                question.push(paced.read);
            }
            if !question.is_empty() {
                due.push((*owner, question));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::Timestamp;
    use millrace_index_feed::FeedRead;

    use super::*;

    const OWNER: NodeKey = NodeKey(1);

    fn read(number: u64, bucket: u64, copies: &[u64]) -> PacedRead {
        let read = FeedRead {
            session: FollowSession { run: 1, number: 1 },
            number,
            bucket: BucketId::new(16, bucket),
            document_type: "mail".to_owned(),
            scope: FeedReadScope::Since { from: Timestamp(0), after: None },
        };
        let copies = copies.iter().copied().map(CopyNumber).collect();
        PacedRead { copies, read: KeyedRead { read, definitions: BTreeSet::from([1]) } }
    }

    /// Pacing with some reads that wait, one of each bucket.
    fn pacing(reads: u64) -> ReadPacing {
        let mut pacing = ReadPacing::default();
        pacing.follow(OWNER, FollowSession { run: 1, number: 1 });
        (0..reads).for_each(|number| pacing.add(OWNER, read(number, number, &[1])));
        pacing
    }

    /// Numbers of the reads of each question.
    fn numbers(due: Vec<(NodeKey, Vec<KeyedRead>)>) -> Vec<Vec<u64>> {
        let numbers =
            |reads: Vec<KeyedRead>| reads.into_iter().map(|keyed| keyed.read.number).collect::<Vec<u64>>();
        due.into_iter().map(|(_, reads)| numbers(reads)).collect()
    }

    #[test]
    fn a_thousand_buckets_are_asked_for_in_few_questions() {
        let (mut pacing, now, mut questions) = (pacing(1_024), Instant::now(), 0);
        while let [question] = &numbers(pacing.due(now))[..] {
            questions += 1;
            assert_eq!(question.len(), READS_MAX);
            question.iter().for_each(|read| pacing.answered(OWNER, *read, true));
        }
        assert_eq!(questions, 4);
    }

    #[test]
    fn an_owner_with_large_pages_is_asked_for_few_at_a_time() {
        let (mut pacing, now) = (pacing(1_024), Instant::now());
        let first = numbers(pacing.due(now)).remove(0);
        // Four pages fill an answer.
        for (at, number) in first.iter().enumerate() {
            pacing.answered(OWNER, *number, at < 4);
        }
        let mut question = numbers(pacing.due(now)).remove(0);
        assert_eq!(question.len(), READS);
        for size in [READS + 8, READS + 24] {
            question.iter().for_each(|number| pacing.answered(OWNER, *number, true));
            question = numbers(pacing.due(now)).remove(0);
            assert_eq!(question.len(), size, "the owner answers all");
        }
    }

    #[test]
    fn reads_that_wait_make_room_for_later_ones() {
        let (mut pacing, start) = (pacing(READS_MAX as u64), Instant::now());
        assert_eq!(numbers(pacing.due(start)).remove(0).len(), READS_MAX);
        pacing.add(OWNER, read(1_000, 8, &[1, 2]));
        pacing.add(OWNER, read(1_001, 9, &[1]));
        assert_eq!(numbers(pacing.due(start)), Vec::<Vec<u64>>::new());
        pacing.add(OWNER, read(1_002, 8, &[1]));
        pacing.add(OWNER, read(1_003, 9, &[1]));
        pacing.answered(OWNER, 3, true);
        assert_eq!(numbers(pacing.due(start)), [[1_000]], "the other copy needs it");
        assert_eq!(numbers(pacing.due(start + ANSWER_TIMEOUT)), [[1_002, 1_003]], "no answer has come");
        pacing.add(OWNER, read(1_004, 8, &[2]));
        pacing.forget(CopyNumber(2));
        assert_eq!(numbers(pacing.due(start + ANSWER_TIMEOUT)), Vec::<Vec<u64>>::new(), "no copy needs it");
        pacing.add(OWNER, read(1_005, 1, &[1]));
        pacing.follow(OWNER, FollowSession { run: 1, number: 2 });
        assert_eq!(numbers(pacing.due(start + ANSWER_TIMEOUT)), Vec::<Vec<u64>>::new(), "another session");
    }
}
