//! Nodes with documents: their replicas, as maps of versions with timestamps.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::{DocumentGroup, DropScope, Timestamp};
use millrace_index_feed::{FeedRead, FeedReadScope, FeedRow, IndexFeedSource, PageContent, SourceRun};

/// Documents that a page of a read has at most.
const PAGE: usize = 3;

/// Timestamps of nodes differ by their remainder of this.
const NODES_MAX: u64 = 8;

/// Bits of all buckets.
pub const BUCKET_BITS: u8 = 2;

/// Value of the indexed field; `None` for a removal.
pub type SimFieldValue = Option<u64>;

/// A document: its bucket, group and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimDocument {
    pub bucket: u8,
    pub group: u8,
    pub number: u8,
}

impl SimDocument {
    pub fn key(self) -> Vec<u8> {
        vec![self.bucket, self.group, self.number]
    }

    pub fn of_key(key: &[u8]) -> Self {
        SimDocument { bucket: key[0], group: key[1], number: key[2] }
    }

    pub fn document_type(self) -> &'static str {
        if self.number.is_multiple_of(2) { "even" } else { "odd" }
    }

    /// Smallest bucket that it can be of: that of its group.
    pub fn cell(self) -> BucketId {
        BucketId::new(BUCKET_BITS + 1, u64::from(self.bucket) | u64::from(self.group) << BUCKET_BITS)
    }

    pub fn all() -> impl Iterator<Item = SimDocument> {
        (0..4).flat_map(|bucket| {
            (0..2).flat_map(move |group| (0..5).map(move |number| SimDocument { bucket, group, number }))
        })
    }
}

/// Scope of a drop of a group.
pub fn drop_scope(bucket: u8, group: u8) -> DropScope {
    let number = u64::from(bucket) + (u64::from(group) << BUCKET_BITS);
    DropScope::Group { document_type: None, group: DocumentGroup::Number(number) }
}

/// Group of the scope of a drop.
pub fn dropped_group(scope: &DropScope) -> u8 {
    match scope {
        DropScope::Group { group: DocumentGroup::Number(number), .. } => (*number >> BUCKET_BITS) as u8,
        _ => unreachable!("groups with numbers are dropped"),
    }
}

/// A write to one document, or a drop of a group (its document counts for its group).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimWrite {
    pub bucket: BucketId,
    pub document: SimDocument,
    pub timestamp: Timestamp,
    pub change: SimChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimChange {
    Put(SimFieldValue),
    Drop,
}

/// Replica of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimReplica {
    pub versions: BTreeMap<SimDocument, (Timestamp, SimFieldValue)>,
    /// Time of the last drop of each group.
    pub drops: BTreeMap<u8, Timestamp>,
}

impl SimReplica {
    /// Newest version of a document that is not dropped.
    pub fn visible(&self, document: SimDocument) -> Option<(Timestamp, SimFieldValue)> {
        let dropped = self.drops.get(&document.group).copied().unwrap_or_default();
        self.versions.get(&document).copied().filter(|(timestamp, _)| *timestamp > dropped)
    }

    pub fn value(&self, document: SimDocument) -> SimFieldValue {
        self.visible(document).and_then(|(_, value)| value)
    }

    pub fn apply(&mut self, write: SimWrite) {
        match write.change {
            SimChange::Drop => {
                let dropped = self.drops.entry(write.document.group).or_default();
                *dropped = write.timestamp.max(*dropped);
            }
            SimChange::Put(value) => {
                let known = self.versions.entry(write.document).or_default();
                if known.0 < write.timestamp {
                    *known = (write.timestamp, value);
                }
            }
        }
    }

    /// Writes that make another replica have what this one has.
    pub fn lacking(&self, bucket: BucketId, other: &SimReplica) -> Vec<SimWrite> {
        let drops = self.drops.iter().filter(|(group, time)| other.drops.get(group) < Some(time));
        let drops = drops.map(|(group, time)| SimWrite {
            bucket,
            document: SimDocument { bucket: (bucket.bits() & 3) as u8, group: *group, number: 0 },
            timestamp: *time,
            change: SimChange::Drop,
        });
        let is_newer = |document: &SimDocument, timestamp: Timestamp| {
            other.versions.get(document).is_none_or(|(known, _)| *known < timestamp)
        };
        let versions = self.versions.iter().filter(|(document, (time, _))| is_newer(document, *time));
        let versions = versions.map(|(document, (timestamp, value))| SimWrite {
            bucket,
            document: *document,
            timestamp: *timestamp,
            change: SimChange::Put(*value),
        });
        drops.chain(versions).collect()
    }
}

static NO_REPLICA: SimReplica = SimReplica { versions: BTreeMap::new(), drops: BTreeMap::new() };

/// A node with documents.
pub struct DocumentNode {
    pub key: NodeKey,
    /// True while its process runs.
    pub is_running: bool,
    /// True while it is in the cluster state.
    pub serves: bool,
    /// Difference of its clock.
    skew: i64,
    newest: Timestamp,
    runs: u64,
    pub replicas: BTreeMap<BucketId, SimReplica>,
    /// Buckets whose replica has everything acknowledged.
    pub complete: BTreeSet<BucketId>,
    pub source: IndexFeedSource<SimFieldValue>,
    /// Time of the last change of each document.
    pub changed: BTreeMap<SimDocument, u64>,
}

impl DocumentNode {
    pub fn new(key: NodeKey, skew: i64, now: u64) -> Self {
        let newest = Timestamp(now.saturating_add_signed(skew));
        DocumentNode {
            key,
            is_running: true,
            serves: true,
            skew,
            newest,
            runs: 1,
            replicas: BTreeMap::new(),
            complete: BTreeSet::new(),
            source: IndexFeedSource::new(SourceRun(1), newest),
            changed: BTreeMap::new(),
        }
    }

    /// Reading of its clock.
    pub fn clock(&self, now: u64) -> Timestamp {
        self.newest.max(Timestamp(now.saturating_add_signed(self.skew)))
    }

    pub fn next_timestamp(&mut self, now: u64) -> Timestamp {
        // Different from those of other nodes.
        let count = self.clock(now).0 / NODES_MAX + 1;
        self.newest = Timestamp(count * NODES_MAX + u64::from(self.key.0));
        self.newest
    }

    /// Starts its process again: queues are lost.
    pub fn start(&mut self, now: u64) {
        self.runs += 1;
        self.is_running = true;
        self.source = IndexFeedSource::new(SourceRun(self.runs), self.clock(now));
    }

    pub fn replica(&self, bucket: BucketId) -> &SimReplica {
        self.replicas.get(&bucket).unwrap_or(&NO_REPLICA)
    }

    /// Takes a write into the store, not into the feed.
    pub fn store(&mut self, write: SimWrite, now: u64) {
        self.newest = self.newest.max(write.timestamp);
        let replica = self.replicas.entry(write.bucket).or_default();
        let before = replica.clone();
        replica.apply(write);
        for document in SimDocument::all().filter(|document| write.bucket.covers(document.cell())) {
            if before.visible(document) != replica.visible(document) {
                self.changed.insert(document, now);
            }
        }
    }

    /// Divides the second group of a bucket off it.
    pub fn divide(&mut self, bucket: BucketId, part: BucketId) {
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        let is_in = |document: &SimDocument| part.covers(document.cell());
        let versions = replica.versions.clone().into_iter().filter(|(document, _)| is_in(document)).collect();
        let drops = replica.drops.remove(&1).map(|time| (1, time)).into_iter().collect();
        replica.versions.retain(|document, _| !is_in(document));
        self.replicas.insert(part, SimReplica { versions, drops });
        self.complete.insert(part);
    }

    /// Passes a stored write to the feed.
    pub fn feed(&mut self, write: SimWrite, now: u64) {
        let clock = self.clock(now);
        match write.change {
            SimChange::Put(value) => {
                let row = sim_row(write.bucket, write.document, write.timestamp, value);
                self.source.committed(&[row], clock);
            }
            SimChange::Drop => {
                let scope = drop_scope(write.document.bucket, write.document.group);
                self.source.dropped(&scope, None, write.timestamp, &[write.bucket], clock);
            }
        }
    }

    /// Answer of its store to a read.
    pub fn read(&self, read: &FeedRead) -> PageContent<SimFieldValue> {
        let replica = self.replica(read.bucket);
        let of_type = replica
            .versions
            .keys()
            .copied()
            .filter(|document| document.document_type() == read.document_type);
        let versions = of_type.filter_map(|document| {
            replica
                .visible(document)
                .map(|(timestamp, value)| sim_row(read.bucket, document, timestamp, value))
        });
        match &read.scope {
            FeedReadScope::Documents(documents) => {
                let rows = versions.filter(|row| documents.contains(&row.document)).collect();
                PageContent { rows, until: None }
            }
            FeedReadScope::Since { from, after } => {
                let is_after = |row: &FeedRow<_>| after.as_ref().is_none_or(|after| *after < row.document);
                let mut rows: Vec<_> =
                    versions.filter(|row| is_after(row) && row.timestamp >= *from).take(PAGE + 1).collect();
                let until = (rows.len() > PAGE).then(|| rows[PAGE - 1].document.clone());
                rows.truncate(PAGE);
                PageContent { rows, until }
            }
        }
    }
}

fn sim_row(
    bucket: BucketId,
    document: SimDocument,
    timestamp: Timestamp,
    value: SimFieldValue,
) -> FeedRow<SimFieldValue> {
    FeedRow {
        bucket,
        document_type: document.document_type().to_owned(),
        document: document.key(),
        timestamp,
        body: value,
        // Large ones, so that queues run over.
        bytes: 3 << 19,
    }
}
