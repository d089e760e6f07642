//! A source and a follower, step by step.

mod closings;
mod marks;

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::{DocumentGroup, DropScope, Timestamp};
use millrace_index_feed::{
    AdoptedState, BATCHES_IN_FLIGHT, CopyDefinition, CopyFreshness, CopyMarks, CopyNumber, FeedChange,
    FeedRead, FeedReadScope, FeedRow, FollowEffect, IndexFeedFollower, IndexFeedSource, MARGIN_US,
    OwnerReport, PageContent, QUEUE_ROWS, SINCE_US, SourceRun,
};

const OWNER: NodeKey = NodeKey(1);
const FOLLOWER: NodeKey = NodeKey(9);
const COPY: CopyNumber = CopyNumber(1);
const MAIL: &str = "mail";

/// A time in seconds.
fn at(seconds: u64) -> Timestamp {
    Timestamp((1_000 + seconds) * 1_000_000)
}

fn half(bits: u64) -> BucketId {
    BucketId::new(1, bits)
}

/// Owned buckets, each true if the owner's replica has everything.
type OwnedBuckets = BTreeMap<BucketId, bool>;

/// Both halves, with everything.
fn owned() -> OwnedBuckets {
    BTreeMap::from([(half(0), true), (half(1), true)])
}

fn row(bucket: BucketId, document: u8, timestamp: Timestamp) -> FeedRow<u8> {
    let (document_type, document) = (MAIL.to_owned(), vec![document]);
    FeedRow { bucket, document_type, document, timestamp, body: 1, bytes: 100 }
}

/// An owner of two buckets, an index node with one copy, and messages that arrive.
struct FeedPair {
    source: IndexFeedSource<u8>,
    follower: IndexFeedFollower<u8>,
    now: Timestamp,
    /// State of the cluster by which the owner serves, and its buckets by that.
    version: u64,
    owned: OwnedBuckets,
    /// Times of the oldest writes that are in flight.
    in_flight: BTreeMap<BucketId, Timestamp>,
    /// Effects on the copy, as text.
    effects: Vec<String>,
    /// Content of the store, for reads.
    stored: BTreeMap<Vec<u8>, FeedRow<u8>>,
    reads: Vec<FeedRead>,
    /// Copies that each read was asked for, with the half of its bucket.
    asked: Vec<(u64, Vec<u64>)>,
    /// Maximum number of documents of a page.
    page_documents: usize,
    /// Copies that ask for positions.
    asking: Vec<CopyNumber>,
}

impl FeedPair {
    fn new() -> Self {
        let mut pair = FeedPair {
            source: IndexFeedSource::new(SourceRun(1), at(0)),
            follower: IndexFeedFollower::new(1),
            now: at(0),
            version: 1,
            owned: owned(),
            in_flight: BTreeMap::new(),
            effects: Vec::new(),
            stored: BTreeMap::new(),
            reads: Vec::new(),
            asked: Vec::new(),
            page_documents: usize::MAX,
            asking: Vec::new(),
        };
        pair.report();
        pair.now = at(100);
        pair
    }

    /// The owner acts by a state by which it serves.
    fn adopt(&mut self, version: u64, owned: OwnedBuckets) {
        (self.version, self.owned) = (version, owned);
        self.report();
    }

    /// The owner reports on its buckets.
    fn report(&mut self) {
        self.adopt_state(AdoptedState { version: self.version, serves: true });
    }

    fn adopt_state(&mut self, state: AdoptedState) -> bool {
        let known = self.owned.iter().map(|(bucket, has_all)| (*bucket, Some(*has_all)));
        let report = OwnerReport::new(self.source.begin_report(self.now), &self.in_flight, known);
        self.source.adopt(state, &report.expect("it is known of each bucket"), self.now)
    }

    /// The owner's replica of a bucket has everything from now on, or has not.
    fn stand(&mut self, bucket: BucketId, has_all: bool) {
        self.owned.insert(bucket, has_all);
        self.report();
    }

    fn owners() -> BTreeMap<BucketId, Option<NodeKey>> {
        BTreeMap::from([(half(0), Some(OWNER)), (half(1), Some(OWNER))])
    }

    fn definition() -> CopyDefinition {
        CopyDefinition { document_type: MAIL.to_owned(), slice: BucketId::ROOT }
    }

    /// Adds the copy with a time W.
    fn begin(&mut self, until: Timestamp) {
        let adopted = self.follower.adopt(1, Self::owners(), self.now);
        self.carry_out(adopted);
        let marks = CopyMarks::all(until);
        let added = self.follower.add_copy(COPY, Self::definition(), &marks, self.now);
        self.carry_out(added);
        self.exchange();
    }

    fn commit(&mut self, row: FeedRow<u8>) {
        self.stored.insert(row.document.clone(), row.clone());
        self.source.committed(&[row], self.now);
    }

    /// Exchanges messages until there are none.
    fn exchange(&mut self) {
        loop {
            for read in std::mem::take(&mut self.reads) {
                if self.source.begin_read(FOLLOWER, read.clone()) {
                    let page = self.page(&read);
                    self.source.finish_read(FOLLOWER, &read, page);
                }
            }
            for (_, cut) in self.source.take_cuts() {
                let effects = self.follower.cut(OWNER, cut, self.now);
                self.carry_out(effects);
            }
            for copy in std::mem::take(&mut self.asking) {
                let positions = BTreeMap::from([(OWNER, self.source.position(FOLLOWER))]);
                let effects = self.follower.catch_up(copy, &positions);
                self.carry_out(effects);
            }
            match self.source.next_batch(FOLLOWER) {
                Some(batch) => {
                    let effects = self.follower.batch(OWNER, batch, self.now);
                    self.carry_out(effects);
                }
                None if self.reads.is_empty() && self.asking.is_empty() => return,
                None => {}
            }
        }
    }

    fn page(&self, read: &FeedRead) -> PageContent<u8> {
        let is_read = |row: &&FeedRow<u8>| {
            (row.bucket, &row.document_type) == (read.bucket, &read.document_type)
                && match &read.scope {
                    FeedReadScope::Since { from, after } => {
                        row.timestamp >= *from && after.as_ref().is_none_or(|after| row.document > *after)
                    }
                    FeedReadScope::Documents(documents) => documents.contains(&row.document),
                }
        };
        let rows: Vec<FeedRow<u8>> =
            self.stored.values().filter(is_read).take(self.page_documents).cloned().collect();
        let last = rows.last().filter(|_| rows.len() == self.page_documents);
        PageContent { until: last.map(|last| last.document.clone()), rows }
    }

    fn carry_out(&mut self, effects: Vec<FollowEffect<u8>>) {
        for effect in effects {
            let shown = match effect {
                FollowEffect::Follow { request, .. } => {
                    let cut = self.source.follow(FOLLOWER, request);
                    if let Some(cut) = cut {
                        let effects = self.follower.cut(OWNER, cut, self.now);
                        self.carry_out(effects);
                    }
                    continue;
                }
                FollowEffect::Read { read, copies, .. } => {
                    let copies = copies.into_iter().map(|copy| copy.0).collect();
                    self.asked.push((read.bucket.bits(), copies));
                    self.reads.push(read);
                    continue;
                }
                FollowEffect::Confirm { receipt, .. } => {
                    self.source.confirm(FOLLOWER, receipt);
                    continue;
                }
                FollowEffect::AskPositions { copy } => {
                    self.asking.push(copy);
                    continue;
                }
                FollowEffect::Ready { .. } => "ready".to_owned(),
                FollowEffect::Apply { row, .. } => format!("apply {}", row.document[0]),
                FollowEffect::Drop { bucket, part, .. } => format!("drop {} {part:?}", bucket.bits()),
                FollowEffect::ReplaceDocuments { documents, rows, .. } => {
                    format!(
                        "look up {:?}: {} found",
                        documents.into_iter().flatten().collect::<Vec<_>>(),
                        rows.len()
                    )
                }
                FollowEffect::Replace { copy, bucket, read, from, rows, .. } => {
                    let effects = self.follower.compared(copy, bucket, read, Vec::new(), self.now);
                    self.carry_out(effects);
                    let since = if from == Timestamp(0) { "all".to_owned() } else { format!("{}", from.0) };
                    format!("read {since} of {}: {}", bucket.bits(), rows.len())
                }
            };
            self.effects.push(shown);
        }
    }

    fn taken(&mut self) -> Vec<String> {
        let mut taken = std::mem::take(&mut self.effects);
        taken.sort();
        taken
    }

    fn freshness(&self) -> CopyFreshness {
        let positions = BTreeMap::from([(OWNER, self.source.position(FOLLOWER))]);
        self.follower.freshness(COPY, 1, &positions)
    }

    fn marks(&self) -> Vec<u64> {
        self.follower.marks(COPY).until.into_values().map(|until| until.0).collect()
    }

    fn close(&mut self) {
        self.report();
        self.source.close();
        self.exchange();
    }
}

#[test]
fn a_copy_reads_since_its_time_and_is_ready() {
    let mut pair = FeedPair::new();
    pair.commit(row(half(0), 1, at(90)));
    pair.commit(row(half(0), 2, at(99)));
    pair.begin(at(95));
    let since = at(95).0;
    let expected =
        ["read ".to_owned() + &format!("{since} of 0: 1"), format!("read {since} of 1: 0"), "ready".into()];
    assert_eq!(pair.taken(), expected);
    assert_eq!(pair.freshness(), CopyFreshness::Fresh);
    pair.commit(row(half(1), 3, at(100)));
    let missing = CopyFreshness::Missing(BTreeSet::from([half(0), half(1)]));
    assert_eq!(pair.freshness(), missing, "the row is on its way");
    pair.exchange();
    assert_eq!((pair.taken(), pair.freshness()), (vec!["apply 3".to_owned()], CopyFreshness::Fresh));
}

#[test]
fn copies_of_a_type_are_read_together() {
    let mut pair = FeedPair::new();
    pair.page_documents = 2;
    (1..=5).for_each(|document| pair.commit(row(half(0), document, at(95))));
    let adopted = pair.follower.adopt(1, FeedPair::owners(), pair.now);
    pair.carry_out(adopted);
    // Two are to be built, and two go on from a time; one has other documents.
    let note = CopyDefinition { document_type: "note".to_owned(), slice: BucketId::ROOT };
    let mail = FeedPair::definition;
    for (number, definition, until) in [
        (1, mail(), Timestamp(0)),
        (2, mail(), Timestamp(0)),
        (3, mail(), at(96)),
        (4, mail(), at(90)),
        (5, note, at(90)),
    ] {
        let added = pair.follower.add_copy(CopyNumber(number), definition, &CopyMarks::all(until), pair.now);
        pair.carry_out(added);
    }
    pair.exchange();
    let count = |bucket: u64, copies: &[u64]| {
        pair.asked.iter().filter(|(of, for_copies)| *of == bucket && for_copies == copies).count()
    };
    // Pages of two documents: three for five of them.
    assert_eq!((count(0, &[1, 2]), count(0, &[3, 4])), (3, 3), "{:?}", pair.asked);
    assert_eq!((count(1, &[1, 2]), count(1, &[3, 4])), (1, 1), "{:?}", pair.asked);
    assert_eq!((count(0, &[5]), count(1, &[5]), pair.asked.len()), (1, 1, 10), "{:?}", pair.asked);
    let whole = pair.taken().iter().filter(|effect| effect.starts_with("read all of 0: 2")).count();
    assert_eq!(whole, 4, "each of the two copies has had two full pages");
    // One asked for the owner's position while pages for the others were in flight, and asks again.
    pair.now = at(110);
    let effects = pair.follower.tick(pair.now);
    pair.carry_out(effects);
    pair.exchange();
    for copy in 1..=5 {
        assert!(pair.follower.is_ready(CopyNumber(copy)), "copy {copy}");
    }
}

#[test]
fn a_read_that_is_put_off_is_asked_for_again() {
    let mut pair = FeedPair::new();
    pair.commit(row(half(0), 1, at(99)));
    let adopted = pair.follower.adopt(1, FeedPair::owners(), pair.now);
    pair.carry_out(adopted);
    let marks = CopyMarks::all(at(95));
    let added = pair.follower.add_copy(COPY, FeedPair::definition(), &marks, pair.now);
    pair.carry_out(added);
    let batch = pair.source.next_batch(FOLLOWER).expect("buckets are followed");
    let effects = pair.follower.batch(OWNER, batch, pair.now);
    pair.carry_out(effects);
    let first = pair.reads.pop().expect("a bucket is read");
    pair.source.put_off_read(FOLLOWER, &first);
    pair.exchange();
    let reads = pair.asked.iter().filter(|(bucket, _)| *bucket == first.bucket.bits()).count();
    assert_eq!((reads, pair.asked.len()), (2, 3), "one bucket was asked for twice");
    assert_eq!(pair.freshness(), CopyFreshness::Fresh);
}

#[test]
fn a_read_that_is_sent_later_is_awaited_from_then() {
    let mut pair = FeedPair::new();
    let adopted = pair.follower.adopt(1, FeedPair::owners(), pair.now);
    pair.carry_out(adopted);
    let marks = CopyMarks::all(at(95));
    let added = pair.follower.add_copy(COPY, FeedPair::definition(), &marks, pair.now);
    pair.carry_out(added);
    let batch = pair.source.next_batch(FOLLOWER).expect("buckets are followed");
    let effects = pair.follower.batch(OWNER, batch, pair.now);
    pair.carry_out(effects);
    let late = pair.reads.pop().expect("a bucket is read");
    pair.follower.sent(late.bucket, late.number, at(104));
    // The other bucket was asked for at once.
    for (time, of_late, of_both) in [(at(107), 1, 3), (at(110), 2, 4)] {
        let effects = pair.follower.tick(time);
        pair.carry_out(effects);
        let asked = pair.asked.iter().filter(|(bucket, _)| *bucket == late.bucket.bits()).count();
        assert_eq!((asked, pair.asked.len()), (of_late, of_both), "{time:?}");
    }
}

#[test]
fn rows_that_come_late_are_looked_up_and_take_the_time_back() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(200);
    pair.close();
    pair.taken();
    pair.commit(row(half(0), 7, at(110)));
    pair.exchange();
    assert_eq!(pair.taken(), ["look up [7]: 1 found"]);
    assert_eq!(pair.marks(), [at(110).0, at(140).0]);
    pair.close();
    assert_eq!(pair.marks(), [at(140).0, at(140).0]);
    assert_eq!(pair.source.disorder(half(0)), at(200));
}

#[test]
fn a_stale_bucket_is_missing_until_it_was_read() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.taken();
    pair.source.changing(&[half(1)], pair.now);
    let missing = CopyFreshness::Missing(BTreeSet::from([half(1)]));
    assert_eq!(pair.freshness(), missing, "segments arrive");
    let session = pair.source.position(FOLLOWER).session.expect("there is a session").0;
    let read = |number| FeedRead {
        session,
        number,
        bucket: half(1),
        document_type: MAIL.to_owned(),
        scope: FeedReadScope::Since { from: Timestamp(0), after: None },
    };
    assert!(!pair.source.begin_read(FOLLOWER, read(999)), "a page would not count");
    pair.stored.insert(vec![5], row(half(1), 5, at(10)));
    pair.source.changed(&[half(1)], pair.now);
    assert_ne!(pair.freshness(), CopyFreshness::Fresh);
    pair.exchange();
    assert_eq!((pair.taken(), pair.freshness()), (vec!["read all of 1: 1".to_owned()], CopyFreshness::Fresh));
    assert_eq!(pair.marks(), [at(50).0, 0], "only this replica may have it");
    // A page that was begun before does not count.
    let (first, second) = (read(1_000), read(1_001));
    for (read, changes) in [(first, false), (second, true)] {
        assert!(pair.source.begin_read(FOLLOWER, read.clone()));
        if changes {
            pair.source.changing(&[half(1)], pair.now);
            pair.source.changed(&[half(1)], pair.now);
        }
        pair.source.finish_read(FOLLOWER, &read, pair.page(&read));
        let batch = pair.source.next_batch(FOLLOWER).expect("the page waits");
        let page = batch.changes.last().expect("the page is the last change");
        let is_there = matches!(page, FeedChange::Page(page) if page.content.is_some());
        assert_eq!(is_there, !changes);
    }
}

#[test]
fn drops_of_a_type_reach_all_of_its_copies() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.taken();
    let both = [half(0), half(1)];
    pair.source.dropped(&DropScope::Type("note".to_owned()), None, at(100), &both, pair.now);
    pair.exchange();
    assert_eq!((pair.taken(), pair.marks()), (Vec::new(), vec![at(50).0, at(50).0]));
    pair.source.dropped(&DropScope::Type(MAIL.to_owned()), None, at(100), &both, pair.now);
    pair.exchange();
    assert_eq!(pair.taken(), ["drop 0 None", "drop 1 None"]);
    assert_eq!(pair.marks(), [0, 0], "another replica may not have it yet");
    let group = DocumentGroup::Number(1);
    let scope = DropScope::Group { document_type: None, group };
    pair.source.dropped(&scope, None, at(100), &[half(1)], pair.now);
    pair.exchange();
    assert_eq!(pair.taken(), ["drop 1 None"]);
    // A row from before the drop may be dropped already.
    pair.commit(row(half(1), 4, at(100)));
    pair.exchange();
    assert_eq!(pair.taken(), ["look up [4]: 1 found"]);
}

#[test]
fn a_queue_that_runs_over_is_cut_and_the_copy_reads_since_its_time() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.taken();
    for _ in 0..=QUEUE_ROWS {
        pair.source.committed(&[row(half(0), 1, at(100))], pair.now);
    }
    assert_eq!(pair.source.position(FOLLOWER).session, None);
    assert_eq!(pair.freshness(), CopyFreshness::Missing(BTreeSet::from([half(0), half(1)])));
    pair.exchange();
    let since = at(50).0;
    assert_eq!(pair.taken(), [format!("read {since} of 0: 0"), format!("read {since} of 1: 0")]);
    assert_eq!(pair.freshness(), CopyFreshness::Fresh);
}

#[test]
fn batches_are_handed_out_again_until_they_are_confirmed() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    let big = |document| FeedRow { bytes: 2 << 20, ..row(half(0), document, at(100)) };
    for document in 1..=4 {
        pair.source.committed(&[big(document)], pair.now);
    }
    let lost: Vec<_> = std::iter::from_fn(|| pair.source.next_batch(FOLLOWER)).collect();
    assert_eq!(lost.len(), BATCHES_IN_FLIGHT);
    let queue = pair.source.queue(FOLLOWER).expect("there is a session");
    assert_eq!((queue.changes, queue.bytes >> 20), (4, 8));
    pair.taken();
    // The second arrives without the first: it is not taken in.
    let effects = pair.follower.batch(OWNER, lost[1].clone(), pair.now);
    pair.carry_out(effects);
    assert_eq!(pair.taken(), Vec::<String>::new());
    pair.source.resend(FOLLOWER);
    pair.exchange();
    let effects = pair.follower.batch(OWNER, lost[0].clone(), pair.now);
    pair.carry_out(effects);
    assert_eq!(pair.taken(), ["apply 1", "apply 2", "apply 3", "apply 4"]);
}

#[test]
fn a_bucket_is_followed_once_its_replica_is_whole_and_until_it_has_another_owner() {
    let mut pair = FeedPair::new();
    pair.stand(half(1), false);
    pair.begin(at(50));
    let since = at(50).0;
    assert_eq!(pair.taken(), [format!("read {since} of 0: 0")]);
    assert_eq!(pair.freshness(), CopyFreshness::NotReady);
    let progress = pair.follower.progress(COPY);
    assert_eq!((progress.buckets, progress.followed, progress.caught_up, progress.until), (2, 1, 1, at(50)));
    pair.stand(half(1), true);
    pair.exchange();
    // Positions are asked for when all buckets were read.
    assert_eq!(pair.taken(), [format!("read {since} of 1: 0"), "ready".to_owned()]);
    pair.adopt(1, BTreeMap::from([(half(0), true)]));
    pair.exchange();
    assert_eq!(pair.freshness(), CopyFreshness::Missing(BTreeSet::from([half(1)])));
    pair.commit(row(half(1), 3, at(100)));
    pair.exchange();
    assert_eq!(pair.taken(), Vec::<String>::new());
    pair.stand(half(1), true);
    pair.exchange();
    assert_eq!(pair.taken(), [format!("read {since} of 1: 1")]);
    assert_eq!(pair.freshness(), CopyFreshness::Fresh);
}

#[test]
fn a_bucket_without_an_owner_is_missing() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    let owners = BTreeMap::from([(half(0), Some(OWNER)), (half(1), None)]);
    let effects = pair.follower.adopt(2, owners, pair.now);
    pair.carry_out(effects);
    pair.adopt(2, owned());
    pair.exchange();
    let positions = BTreeMap::from([(OWNER, pair.source.position(FOLLOWER))]);
    let expected = CopyFreshness::Missing(BTreeSet::from([half(1)]));
    assert_eq!(pair.follower.freshness(COPY, 2, &positions), expected);
    assert_eq!(pair.follower.freshness(COPY, 1, &positions), CopyFreshness::NotReady);
}

#[test]
fn a_part_that_is_divided_off_goes_on_where_its_bucket_was() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(200);
    pair.commit(row(half(1), 7, at(190)));
    pair.close();
    pair.taken();
    let part = BucketId::new(34, 1);
    let owners = FeedPair::owners().into_iter().chain([(part, Some(OWNER))]).collect();
    pair.adopt(2, owned().into_iter().chain([(part, true)]).collect());
    let effects = pair.follower.adopt(2, owners, pair.now);
    pair.carry_out(effects);
    pair.exchange();
    let closed = at(200).0 - MARGIN_US;
    // The rest is read again, too: what waited may be of documents that are of the part now.
    assert_eq!(pair.taken(), [format!("read {closed} of 1: 0"), format!("read {closed} of 1: 1")]);
    assert_eq!(pair.marks(), [closed, closed, closed]);
}

#[test]
fn a_part_of_a_bucket_with_late_rows_is_read_as_a_whole() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(200);
    pair.commit(row(half(1), 7, at(160)));
    assert_eq!(pair.source.disorder(BucketId::new(34, 1)), at(200));
    assert!(pair.source.disorder(BucketId::new(34, 0)) < at(200));
}

#[test]
fn documents_that_differ_are_looked_up() {
    let mut pair = FeedPair::new();
    pair.commit(row(half(0), 7, at(80)));
    pair.begin(at(50));
    pair.taken();
    let effects = pair.follower.recheck(COPY, half(0), vec![vec![7], vec![8]], pair.now);
    pair.carry_out(effects);
    assert_ne!(pair.freshness(), CopyFreshness::Fresh, "they are not answered for until then");
    pair.exchange();
    assert_eq!(
        (pair.taken(), pair.freshness()),
        (vec!["look up [7, 8]: 1 found".to_owned()], CopyFreshness::Fresh)
    );
    assert_eq!(pair.marks(), [at(50).0, at(50).0], "the copy goes on from where it was");
}
