//! State of one bucket of one copy.

use std::collections::BTreeSet;

use millrace_bucket::NodeKey;
use millrace_document::Timestamp;

use super::RETRY_US;
use crate::message::{FeedReadScope, PageContent, ReplicaMark, SourceRun};
use crate::{LOOKUP_DOCUMENTS, SINCE_US};

/// Maximum number of documents that wait to be looked up. Beyond it the bucket is read as a whole.
const LOOKUPS_MAX: usize = 8 * LOOKUP_DOCUMENTS;

/// Replica of a bucket that a copy begins to follow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerReplica {
    pub owner: NodeKey,
    pub run: SourceRun,
    /// Time at which it changed last other than by new rows.
    pub disorder: Timestamp,
    /// Number of its last disturbance.
    pub disturbance: u64,
}

/// Bucket of a copy.
#[derive(Debug)]
pub(crate) struct FollowedBucket {
    /// W: from before this time, the copy has what all replicas have.
    pub until: Timestamp,
    /// Mark of the replica that was followed last.
    pub mark: Option<ReplicaMark>,
    /// True while changes of the owner's session are taken in.
    pub is_attached: bool,
    reading: Option<BucketReading>,
    /// Documents to be looked up.
    doubtful: BTreeSet<Vec<u8>>,
    lookup: Option<DoubtfulLookup>,
}

/// Reading of a bucket, page by page.
#[derive(Debug)]
struct BucketReading {
    from: Timestamp,
    after: Option<Vec<u8>>,
    step: ReadingStep,
}

#[derive(Debug)]
enum ReadingStep {
    /// The next page is to be asked for.
    Due,
    Asked {
        read: u64,
        at: Timestamp,
    },
    /// The page is being compared; it ends here.
    Comparing {
        read: u64,
        until: Option<Vec<u8>>,
    },
}

/// Documents that were asked for.
#[derive(Debug)]
struct DoubtfulLookup {
    read: u64,
    at: Timestamp,
    documents: BTreeSet<Vec<u8>>,
}

/// Read that a copy needs of a bucket. One read serves all copies of a type that need the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadNeed {
    /// All documents after a sort key.
    All(Option<Vec<u8>>),
    /// Documents after a sort key that changed since some time. A copy may get earlier ones as well.
    Since(Option<Vec<u8>>),
    /// These documents.
    Documents(BTreeSet<Vec<u8>>),
}

impl ReadNeed {
    /// Documents to read, of this time or later.
    pub fn scope(self, from: Timestamp) -> FeedReadScope {
        match self {
            ReadNeed::All(after) => FeedReadScope::Since { from: Timestamp(0), after },
            ReadNeed::Since(after) => FeedReadScope::Since { from, after },
            ReadNeed::Documents(documents) => FeedReadScope::Documents(documents),
        }
    }
}

/// Meaning of a page that arrives.
#[derive(Debug)]
pub(crate) enum ArrivingPage {
    /// Page of the bucket, from a time on and after a sort key.
    Reading { from: Timestamp, after: Option<Vec<u8>> },
    /// Documents that were looked up.
    Lookup(BTreeSet<Vec<u8>>),
}

impl FollowedBucket {
    pub fn new(until: Timestamp, mark: Option<ReplicaMark>) -> Self {
        FollowedBucket {
            until,
            mark,
            is_attached: false,
            reading: None,
            doubtful: BTreeSet::new(),
            lookup: None,
        }
    }

    /// Changes of the owner are taken in from now on, and the bucket is read.
    pub fn attach(&mut self, replica: OwnerReplica, now: Timestamp) {
        self.is_attached = true;
        let OwnerReplica { owner, run, disorder, disturbance } = replica;
        // Changes of another owner are none of the marked replica.
        self.mark = self
            .mark
            .filter(|mark| (mark.owner, mark.run) == (owner, run) && disturbance <= mark.disturbances);
        let of_all = Some(self.until).filter(|until| disorder <= *until);
        let of_owner = self.mark.map(|mark| mark.until);
        let is_remembered = |from: &Timestamp| now.0.saturating_sub(from.0) < SINCE_US;
        let from = of_all.max(of_owner).filter(is_remembered);
        self.read_from(from.unwrap_or_default());
    }

    /// No changes are taken in from now on.
    pub fn detach(&mut self) {
        self.is_attached = false;
        self.reading = None;
        self.doubtful.clear();
        self.lookup = None;
    }

    /// Takes in that the owner's replica changed other than by new rows, some of which had this time. Other
    /// replicas may not have the change yet. A mark of after it may have come from another node with the
    /// files, and does not hold before the copy has taken the change in, too.
    pub fn disturb(&mut self, timestamp: Timestamp) {
        self.until = self.until.min(timestamp);
        self.mark = None;
    }

    /// Reads the bucket again. What a page brings may be on one replica alone, so W goes back.
    pub fn read_from(&mut self, from: Timestamp) {
        self.until = self.until.min(from);
        self.doubtful.clear();
        self.lookup = None;
        self.reading = Some(BucketReading { from, after: None, step: ReadingStep::Due });
    }

    /// A document is to be looked up, of which a version of this time came.
    pub fn doubt(&mut self, document: Vec<u8>, timestamp: Timestamp) {
        self.disturb(timestamp);
        self.doubtful.insert(document);
        if self.doubtful.len() > LOOKUPS_MAX {
            self.read_from(Timestamp(0));
        }
    }

    /// True if the copy has all of the bucket until the position that it has taken in.
    pub fn is_caught_up(&self) -> bool {
        self.is_attached && self.reading.is_none() && self.doubtful.is_empty() && self.lookup.is_none()
    }

    /// Takes a closing of the owner in, at which its replica is marked so.
    pub fn note(&mut self, mark: ReplicaMark) {
        if self.is_caught_up() {
            self.mark = Some(mark);
        }
    }

    /// Takes in that all replicas have everything from before a time.
    pub fn close(&mut self, until: Timestamp) {
        if self.is_caught_up() {
            self.until = self.until.max(until);
        }
    }

    /// True while a page is being compared.
    pub fn is_comparing(&self) -> bool {
        let is_compared = |reading: &BucketReading| matches!(reading.step, ReadingStep::Comparing { .. });
        self.reading.as_ref().is_some_and(is_compared)
    }

    /// Reads to be asked for, each with its lowest time.
    pub fn needs(&self) -> Vec<(ReadNeed, Timestamp)> {
        let mut needs = Vec::new();
        if let Some(BucketReading { from, after, step: ReadingStep::Due }) = &self.reading {
            let need = if from.0 == 0 { ReadNeed::All } else { ReadNeed::Since };
            needs.push((need(after.clone()), *from));
        }
        if self.lookup.is_none() && !self.doubtful.is_empty() {
            let documents = self.doubtful.iter().take(LOOKUP_DOCUMENTS).cloned().collect();
            needs.push((ReadNeed::Documents(documents), Timestamp(0)));
        }
        needs
    }

    /// A read is asked for under a number.
    pub fn requested(&mut self, need: &ReadNeed, read: u64, now: Timestamp) {
        match need {
            ReadNeed::All(_) | ReadNeed::Since(_) => {
                if let Some(reading) = &mut self.reading {
                    reading.step = ReadingStep::Asked { read, at: now };
                }
            }
            ReadNeed::Documents(documents) => {
                self.doubtful.retain(|document| !documents.contains(document));
                self.lookup = Some(DoubtfulLookup { read, at: now, documents: documents.clone() });
            }
        }
    }

    /// A read that was asked for is sent only now.
    pub fn sent(&mut self, number: u64, now: Timestamp) {
        if let Some(BucketReading { step: ReadingStep::Asked { read, at }, .. }) = &mut self.reading
            && *read == number
        {
            *at = now;
        }
        if let Some(lookup) = self.lookup.as_mut().filter(|lookup| lookup.read == number) {
            lookup.at = now;
        }
    }

    /// Forgets reads that were not answered, so that they are due again; `true` if there were any.
    pub fn forget_late_reads(&mut self, now: Timestamp) -> bool {
        let is_late = |at: Timestamp| at.0 + RETRY_US < now.0;
        let mut forgotten = false;
        if let Some(reading) = &mut self.reading
            && matches!(reading.step, ReadingStep::Asked { at, .. } if is_late(at))
        {
            reading.step = ReadingStep::Due;
            forgotten = true;
        }
        if let Some(late) = self.lookup.take_if(|lookup| is_late(lookup.at)) {
            self.doubtful.extend(late.documents);
            forgotten = true;
        }
        forgotten
    }

    /// True if a read was asked for, and is not answered.
    pub fn has_asked(&self, read: u64) -> bool {
        let is_page = |reading: &BucketReading| matches!(reading.step, ReadingStep::Asked { read: own, .. } if own == read);
        self.reading.as_ref().is_some_and(is_page)
            || self.lookup.as_ref().is_some_and(|lookup| lookup.read == read)
    }

    /// Takes in that a read was answered; `None` if it is not one that was asked for last. Without content it
    /// is due again.
    pub fn answered<B>(&mut self, read: u64, content: Option<&PageContent<B>>) -> Option<ArrivingPage> {
        if let Some(lookup) = self.lookup.take_if(|lookup| lookup.read == read) {
            if content.is_none() {
                self.doubtful.extend(lookup.documents);
                return None;
            }
            return Some(ArrivingPage::Lookup(lookup.documents));
        }
        let reading = self.reading.as_mut()?;
        if !matches!(reading.step, ReadingStep::Asked { read: own, .. } if own == read) {
            return None;
        }
        let Some(content) = content else {
            reading.step = ReadingStep::Due;
            return None;
        };
        reading.step = ReadingStep::Comparing { read, until: content.until.clone() };
        Some(ArrivingPage::Reading { from: reading.from, after: reading.after.clone() })
    }

    /// Takes in that a page was compared; `false` if it does not count any more.
    pub fn compared(&mut self, read: u64, unmatched: Vec<Vec<u8>>) -> bool {
        let Some(reading) = &mut self.reading else { return false };
        let ReadingStep::Comparing { read: compared, until } = &mut reading.step else { return false };
        if *compared != read {
            return false;
        }
        match until.take() {
            Some(until) => {
                reading.after = Some(until);
                reading.step = ReadingStep::Due;
            }
            None => self.reading = None,
        }
        unmatched.into_iter().for_each(|document| self.doubt(document, Timestamp(u64::MAX)));
        true
    }
}
