//! The queue of one follower at a source.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millrace_bucket::BucketId;
use millrace_document::Timestamp;

use crate::message::{FeedChange, FeedPage, FeedRead, FeedReadScope, FeedRow, FollowSession, PageContent};
use crate::{BATCH_BYTES, BATCHES_IN_FLIGHT, QUEUE_BYTES, QUEUE_ROWS};

/// Maximum number of rows that may come to a bucket while a page of it is read; with more it is read again.
const ROWS_BESIDE_READ: usize = 4096;

/// Maximum number of reads that are in flight for a follower.
const READS_MAX: usize = 4096;

/// Followed buckets of a session, and its queue. What was handed out stays until it was confirmed.
#[derive(Debug)]
pub(crate) struct SourceSession<B> {
    pub session: FollowSession,
    /// Number of the last request.
    pub sequence: u64,
    /// Version of the cluster state of the last request.
    pub version: u64,
    pub types: BTreeSet<String>,
    /// Followed buckets, with the number of the request that asked for each.
    pub followed: BTreeMap<BucketId, u64>,
    /// Those that are not followed yet.
    pub waiting: BTreeMap<BucketId, u64>,
    queue: VecDeque<FeedChange<B>>,
    bytes: usize,
    /// Position of the first change of the queue.
    first: u64,
    /// Position of the first change that was not handed out.
    sent: u64,
    /// Positions after the batches that are on their way.
    in_flight: VecDeque<u64>,
    reads: BTreeMap<u64, OpenFeedRead<B>>,
}

/// Read that has begun.
#[derive(Debug)]
struct OpenFeedRead<B> {
    request: FeedRead,
    /// Rows that came to the bucket since.
    rows: Vec<FeedRow<B>>,
    /// True if the page would not be what the store has when it is queued.
    is_void: bool,
}

impl<B: Clone> SourceSession<B> {
    pub fn new(session: FollowSession, types: BTreeSet<String>) -> Self {
        SourceSession {
            session,
            sequence: 0,
            version: 0,
            types,
            followed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            first: 0,
            sent: 0,
            in_flight: VecDeque::new(),
            reads: BTreeMap::new(),
        }
    }

    /// Position after the last change.
    pub fn position(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Number of changes that wait or are on their way, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.queue.len(), self.bytes)
    }

    /// True if more waits than may.
    pub fn is_over(&self) -> bool {
        self.bytes > QUEUE_BYTES || self.queue.len() > QUEUE_ROWS
    }

    pub fn push(&mut self, change: FeedChange<B>) {
        // Of closings in a row the last one counts.
        let is_closing = |change: &FeedChange<B>| matches!(change, FeedChange::Closed { .. });
        if is_closing(&change)
            && self.sent < self.position()
            && let Some(last) = self.queue.back_mut().filter(|last| is_closing(last))
        {
            self.bytes = self.bytes - last.bytes() + change.bytes();
            *last = change;
            return;
        }
        self.bytes += change.bytes();
        self.queue.push_back(change);
    }

    /// Queues a row, if the follower wants it.
    pub fn push_row(&mut self, row: &FeedRow<B>, is_late: bool) {
        if !self.types.contains(&row.document_type) {
            return;
        }
        for read in self.reads.values_mut() {
            if read.request.bucket == row.bucket && read.request.document_type == row.document_type {
                // A late row may be one that does not count.
                read.is_void |= is_late || read.rows.len() == ROWS_BESIDE_READ;
                if !read.is_void {
                    read.rows.push(row.clone());
                }
            }
        }
        if !self.followed.contains_key(&row.bucket) {
            return;
        }
        self.push(match is_late {
            false => FeedChange::Row(row.clone()),
            true => FeedChange::Doubtful {
                bucket: row.bucket,
                document_type: row.document_type.clone(),
                document: row.document.clone(),
                timestamp: row.timestamp,
            },
        });
    }

    /// Pages of this bucket that are being read do not count.
    pub fn void_reads(&mut self, bucket: BucketId) {
        let of_bucket = self.reads.values_mut().filter(|read| read.request.bucket == bucket);
        of_bucket.for_each(|read| {
            read.is_void = true;
            read.rows = Vec::new();
        });
    }

    /// Notes that a read begins.
    pub fn begin_read(&mut self, request: FeedRead) -> bool {
        // A read that comes twice would lose the rows since it began.
        let is_known = self.reads.contains_key(&request.number);
        if is_known || self.reads.len() == READS_MAX || !self.followed.contains_key(&request.bucket) {
            return false;
        }
        self.reads.insert(request.number, OpenFeedRead { request, rows: Vec::new(), is_void: false });
        true
    }

    /// Answers a read that is not carried out, so that it is asked for again.
    pub fn put_off(&mut self, read: &FeedRead) {
        if self.followed.contains_key(&read.bucket) {
            self.push(FeedChange::Page(FeedPage { read: read.number, bucket: read.bucket, content: None }));
        }
    }

    /// Forgets a read that will not end.
    pub fn abandon_read(&mut self, number: u64) {
        self.reads.remove(&number);
    }

    /// Queues what was read, with the rows that came meanwhile.
    pub fn finish_read(&mut self, number: u64, content: PageContent<B>) {
        let Some(read) = self.reads.remove(&number) else { return };
        let rows = read.rows;
        let content = (!read.is_void).then(|| merged(&read.request.scope, content, rows));
        self.push(FeedChange::Page(FeedPage { read: number, bucket: read.request.bucket, content }));
    }

    /// Next changes, as their position and they; `None` if enough are on their way.
    pub fn next_batch(&mut self) -> Option<(u64, Vec<FeedChange<B>>)> {
        if self.in_flight.len() >= BATCHES_IN_FLIGHT || self.sent == self.position() {
            return None;
        }
        let first = self.sent;
        let mut bytes = 0;
        let at = usize::try_from(first - self.first).unwrap_or(usize::MAX);
        let changes = self.queue.iter().skip(at).take_while(|change| {
            let is_in = bytes < BATCH_BYTES;
            bytes += change.bytes();
            is_in
        });
        let changes: Vec<FeedChange<B>> = changes.cloned().collect();
        self.sent += changes.len() as u64;
        self.in_flight.push_back(self.sent);
        Some((first, changes))
    }

    /// Everything before a position has arrived.
    pub fn confirm(&mut self, position: u64) {
        while self.first < position.min(self.sent) {
            let Some(change) = self.queue.pop_front() else { break };
            self.bytes -= change.bytes();
            self.first += 1;
        }
        self.in_flight.retain(|end| *end > position);
    }

    /// Hands out again what was not confirmed.
    pub fn resend(&mut self) {
        self.sent = self.first;
        self.in_flight.clear();
    }
}

/// Content of a page at the end of its reading: of two versions of a document the newer one.
fn merged<B>(scope: &FeedReadScope, content: PageContent<B>, beside: Vec<FeedRow<B>>) -> PageContent<B> {
    let until = content.until;
    let is_in = |row: &FeedRow<B>| match scope {
        FeedReadScope::Documents(documents) => documents.contains(&row.document),
        FeedReadScope::Since { after, .. } => {
            after.as_ref().is_none_or(|after| *after < row.document)
                && until.as_ref().is_none_or(|until| row.document <= *until)
        }
    };
    let mut rows: BTreeMap<Vec<u8>, FeedRow<B>> = BTreeMap::new();
    for row in content.rows.into_iter().chain(beside).filter(is_in) {
        let known: Option<Timestamp> = rows.get(&row.document).map(|known| known.timestamp);
        if known.is_none_or(|known| known <= row.timestamp) {
            rows.insert(row.document.clone(), row);
        }
    }
    PageContent { rows: rows.into_values().collect(), until }
}
