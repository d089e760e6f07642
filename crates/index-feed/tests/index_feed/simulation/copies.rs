//! Index nodes: copies as maps that forget what was not flushed.

use std::collections::BTreeMap;

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::Timestamp;
use millrace_index_feed::records::{self, RecordMap};
use millrace_index_feed::{CopyDefinition, CopyMarks, CopyNumber, FollowEffect, IndexFeedFollower};

use super::FeedSabotage;
use super::documents::{SimDocument, SimFieldValue, dropped_group};

/// Records of a copy, removals among them.
pub type CopyRecords = RecordMap<u64>;

/// A copy in memory, and as of its last flush.
pub struct SimCopy {
    pub definition: CopyDefinition,
    pub records: CopyRecords,
    pub flushed: (CopyRecords, CopyMarks),
}

impl SimCopy {
    pub fn new(definition: CopyDefinition) -> Self {
        SimCopy { definition, records: CopyRecords::new(), flushed: Default::default() }
    }

    pub fn has(&self, document: SimDocument) -> bool {
        self.definition.slice.covers(document.cell())
            && self.definition.document_type == document.document_type()
    }

    pub fn value(&self, document: SimDocument) -> SimFieldValue {
        self.records.get(&document.key()).and_then(|(_, value)| *value)
    }
}

/// True if a document is of a bucket, and of none that lies inside of it.
fn is_of(document: SimDocument, bucket: BucketId, excluded: &[BucketId]) -> bool {
    bucket.covers(document.cell()) && !excluded.iter().any(|inside| inside.covers(document.cell()))
}

/// An index node.
pub struct CopyNode {
    pub key: NodeKey,
    pub is_running: bool,
    runs: u64,
    pub follower: IndexFeedFollower<SimFieldValue>,
    pub copies: BTreeMap<CopyNumber, SimCopy>,
    /// Time before which it learns of no cluster state.
    pub learns_after: u64,
    /// State that it acts by, with the owners.
    pub state: (u64, BTreeMap<BucketId, Option<NodeKey>>),
}

impl CopyNode {
    pub fn new(key: NodeKey) -> Self {
        CopyNode {
            key,
            is_running: true,
            runs: 1,
            follower: IndexFeedFollower::new(1),
            copies: BTreeMap::new(),
            learns_after: 0,
            state: (0, BTreeMap::new()),
        }
    }

    /// Starts its process again, with what was flushed.
    pub fn start(&mut self, now: Timestamp) -> Vec<FollowEffect<SimFieldValue>> {
        self.runs += 1;
        self.is_running = true;
        self.follower = IndexFeedFollower::new(self.runs);
        let mut effects = self.follower.adopt(self.state.0, self.state.1.clone(), now);
        for (number, copy) in &mut self.copies {
            copy.records = copy.flushed.0.clone();
            effects.extend(self.follower.add_copy(*number, copy.definition.clone(), &copy.flushed.1, now));
        }
        effects
    }

    /// Writes a copy to the disk. Removals from before W are forgotten.
    pub fn flush(&mut self, number: CopyNumber) {
        let Some(copy) = self.copies.get_mut(&number) else { return };
        let marks = self.follower.marks(number);
        copy.records.retain(|key, (time, value)| {
            value.is_some() || *time >= marks.of(SimDocument::of_key(key).cell())
        });
        copy.flushed = (copy.records.clone(), marks);
    }

    /// Carries an effect on a copy out.
    pub fn carry_out(
        &mut self,
        effect: FollowEffect<SimFieldValue>,
        now: Timestamp,
        sabotage: Option<FeedSabotage>,
    ) -> Vec<FollowEffect<SimFieldValue>> {
        match effect {
            FollowEffect::Apply { copy, row } => {
                let Some(copy) = self.copies.get_mut(&copy) else { return Vec::new() };
                match sabotage {
                    Some(FeedSabotage::NewestRuleLeftOut) => records::put(&mut copy.records, &row),
                    _ => records::apply(&mut copy.records, &row),
                }
            }
            FollowEffect::Drop { copy, bucket, excluded, scope, until, .. } => {
                let Some(copy) = self.copies.get_mut(&copy) else { return Vec::new() };
                let group = dropped_group(&scope);
                copy.records.retain(|key, (time, _)| {
                    let document = SimDocument::of_key(key);
                    !is_of(document, bucket, &excluded) || document.group != group || *time > until
                });
            }
            FollowEffect::ReplaceDocuments { copy, documents, rows } => {
                let Some(copy) = self.copies.get_mut(&copy) else { return Vec::new() };
                records::replace_documents(&mut copy.records, &documents, &rows);
            }
            FollowEffect::Replace { copy: number, bucket, excluded, read, from, after, until, rows } => {
                let Some(copy) = self.copies.get_mut(&number) else { return Vec::new() };
                let is_in = |key: &[u8]| {
                    is_of(SimDocument::of_key(key), bucket, &excluded)
                        && after.as_deref().is_none_or(|after| after < key)
                        && until.as_deref().is_none_or(|until| key <= until)
                };
                let is_ignored = from.0 > 0 && sabotage == Some(FeedSabotage::NotReadSince);
                let mut unmatched = Vec::new();
                if !is_ignored {
                    unmatched = records::replace_range(&mut copy.records, is_in, from, &rows);
                }
                if sabotage == Some(FeedSabotage::PageOnlyAdds) {
                    unmatched.clear();
                }
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

/// An effect on a copy as a line.
pub fn shown(effect: &FollowEffect<SimFieldValue>) -> String {
    match effect {
        FollowEffect::Apply { copy, row } => {
            format!("{copy:?} apply {:?} {} {:?}", row.document, row.timestamp.0, row.body)
        }
        FollowEffect::Replace { copy, bucket, from, until, rows, .. } => {
            let rows: Vec<_> = rows.iter().map(|row| (&row.document, row.timestamp.0, row.body)).collect();
            format!("{copy:?} replace {bucket} from {} until {until:?}: {rows:?}", from.0)
        }
        FollowEffect::ReplaceDocuments { copy, documents, rows } => {
            let rows: Vec<_> = rows.iter().map(|row| (&row.document, row.timestamp.0, row.body)).collect();
            format!("{copy:?} replace {documents:?}: {rows:?}")
        }
        other => format!("{other:?}"),
    }
}
