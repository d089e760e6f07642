//! Copies of indexes on a node, as maps that forget after a crash what was not flushed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::{BucketId, group_prefix, reversed_location};
use millrace_cluster::NodeKey;
use millrace_document::{DropScope, Timestamp};
use millrace_index_feed::records::{self, RecordMap};
use millrace_index_feed::{CopyDefinition, CopyMarks, CopyNumber, FollowEffect};
use millrace_index_placement::{CopyId, SliceId};

use super::SimNodeIndexes;
use crate::Sabotage;

/// Indexed part of a version, which is all of it here; `None` for a removal.
pub(super) type IndexedBody = Option<Arc<[u8]>>;

/// Versions by the sort keys of their documents.
pub(super) type IndexedRecords = RecordMap<Arc<[u8]>>;

/// Stage of a copy at its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimIndexStage {
    /// The files of another node's copy are awaited.
    Importing { from: NodeKey },
    /// Following.
    Open,
    /// The node does not have it.
    Gone,
}

/// Content of a copy as it was flushed, with its marks.
#[derive(Debug, Clone)]
pub(crate) struct IndexCopyFiles {
    pub(super) records: IndexedRecords,
    pub(super) marks: CopyMarks,
}

/// A copy.
#[derive(Debug, Clone)]
pub(crate) struct SimIndexCopy {
    pub slice: SliceId,
    pub definition: CopyDefinition,
    pub(super) stage: SimIndexStage,
    pub(super) records: IndexedRecords,
    /// Content of the last flush.
    pub(super) files: Option<IndexCopyFiles>,
    /// Time at which the table said first that it leaves.
    pub(super) leaving: Option<Duration>,
}

/// Documents of a bucket in a range of sort keys.
struct ReplacedRange<'a> {
    bucket: BucketId,
    /// Buckets inside of it, whose documents are not of it.
    excluded: &'a [BucketId],
    after: Option<&'a [u8]>,
    until: Option<&'a [u8]>,
}

impl ReplacedRange<'_> {
    fn has(&self, key: &[u8]) -> bool {
        let location = reversed_location(key).location();
        self.bucket.contains(location)
            && !self.excluded.iter().any(|inside| inside.contains(location))
            && self.after.is_none_or(|after| after < key)
            && self.until.is_none_or(|until| key <= until)
    }
}

impl SimIndexCopy {
    pub fn new(slice: SliceId, definition: CopyDefinition, stage: SimIndexStage) -> Self {
        SimIndexCopy { slice, definition, stage, records: BTreeMap::new(), files: None, leaving: None }
    }

    pub fn is_open(&self) -> bool {
        self.stage == SimIndexStage::Open
    }

    /// The copy as a process finds it that starts, with its marks; `None` if it was never flushed.
    pub fn reopened(mut self) -> Option<(Self, CopyMarks)> {
        let IndexCopyFiles { records, marks } = self.files.clone().filter(|_| self.is_open())?;
        self.records = records;
        Some((self, marks))
    }

    /// Writes it to the disk. Removals from before all of the marks are forgotten.
    pub fn flush(&mut self, marks: CopyMarks) {
        let forgotten = marks.lowest();
        self.records.retain(|_, (timestamp, body)| body.is_some() || *timestamp >= forgotten);
        self.files = Some(IndexCopyFiles { records: self.records.clone(), marks });
    }

    /// Removes the documents of a scope in a range.
    fn remove(
        &mut self,
        range: &ReplacedRange<'_>,
        scope: &DropScope,
        part: Option<BucketId>,
        until: Timestamp,
    ) {
        let prefix = match scope {
            DropScope::Group { group, .. } => group_prefix(group),
            DropScope::Type(_) => None,
        };
        for (key, record) in &mut self.records {
            let is_dropped = range.has(key)
                && record.0 <= until
                && prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
                && part.is_none_or(|part| part.contains(reversed_location(key).location()));
            if is_dropped {
                *record = (until, None);
            }
        }
    }
}

impl SimNodeIndexes {
    fn open_copy(&mut self, number: CopyNumber) -> Option<&mut SimIndexCopy> {
        self.copies.get_mut(&CopyId(number.0)).filter(|copy| copy.is_open())
    }

    /// Writes a copy to the disk.
    pub fn flush(&mut self, id: CopyId) {
        let marks = self.follower.marks(CopyNumber(id.0));
        if let Some(copy) = self.open_copy(CopyNumber(id.0)) {
            copy.flush(marks);
        }
    }

    /// Carries an effect on a copy out. Returns the effects that follow from it.
    pub(super) fn change(
        &mut self,
        effect: FollowEffect<IndexedBody>,
        now: Timestamp,
        sabotage: Option<Sabotage>,
    ) -> Vec<FollowEffect<IndexedBody>> {
        match effect {
            FollowEffect::Apply { copy, row } => {
                if let Some(copy) = self.open_copy(copy) {
                    records::apply(&mut copy.records, &row);
                }
            }
            FollowEffect::Drop { copy, bucket, excluded, scope, part, until } => {
                if let Some(copy) = self.open_copy(copy) {
                    let range = ReplacedRange { bucket, excluded: &excluded, after: None, until: None };
                    copy.remove(&range, &scope, part, until);
                }
            }
            FollowEffect::ReplaceDocuments { copy, documents, rows } => {
                if let Some(copy) = self.open_copy(copy) {
                    records::replace_documents(&mut copy.records, &documents, &rows);
                }
            }
            FollowEffect::Replace { copy: number, bucket, excluded, read, from, after, until, rows } => {
                let Some(copy) = self.open_copy(number) else { return Vec::new() };
                let range = ReplacedRange {
                    bucket,
                    excluded: &excluded,
                    after: after.as_deref(),
                    until: until.as_deref(),
                };
                let is_left_out = from.0 > 0 && sabotage == Some(Sabotage::ReadSinceLeftOut);
                let unmatched = match is_left_out {
                    true => Vec::new(),
                    false => records::replace_range(&mut copy.records, |key| range.has(key), from, &rows),
                };
                return self.follower.compared(number, bucket, read, unmatched, now);
            }
            FollowEffect::Follow { .. }
            | FollowEffect::Read { .. }
            | FollowEffect::Confirm { .. }
            | FollowEffect::AskPositions { .. }
            | FollowEffect::Ready { .. } => unreachable!("these are messages"),
        }
        Vec::new()
    }
}
