//! Chains: modifications of one document that wait for each other, each run on the result of the one before
//! in memory. They are committed together, all or none, each under its own timestamp, so that one sync serves
//! all of them. All are answered after that sync, also those that change nothing or are refused: what they
//! have seen is not durable before.
//!
//! A chain ends where a modification needs the timestamp of the version that it sees: results have theirs
//! only when they are appended. It is bounded by number, bytes and time, since its first modification is
//! answered with its last one, and documents of other modifications wait for its thread.

use std::time::{Duration, Instant};

use millrace_bucket::DocumentSortKey;
use millrace_document::{Document, DocumentId, Timestamp, wire};

use super::modifying::decided_row;
use super::reply::WriterReply;
use super::{AcceptedWrite, CommitterWork, PendingCommit, PendingModify, PendingWrites};
use crate::tail::{NewRow, damaged_row, fields_of, row_key};
use crate::write::commit_rows::{CommitRows, RowValue};
use crate::{CommittedWrite, Error, WriteDurability};

/// Modifications that are chained to one, at most.
const CHAINED_MAX: usize = 255;

/// Bytes of documents that a chain reads and writes, after which it ends.
const CHAIN_BYTES: usize = 2 << 20;

/// Time after which a chain takes no second modification along.
const CHAIN_TIME: Duration = Duration::from_millis(100);

/// A modification that was run on the result of another one, which is not durable yet.
pub(super) struct ChainedModification {
    /// The row to write; `None` if nothing changes.
    decided: Result<Option<RowValue>, Error>,
    /// True if the document existed before.
    existed: bool,
    /// Timestamp of the version that stays, once its row is on its way to the tail; 0 if there is none.
    timestamp: Timestamp,
    reply: WriterReply,
}

impl ChainedModification {
    /// Time from its acceptance to a later time.
    pub(super) fn waited_until(&self, time: Instant) -> Duration {
        time.saturating_duration_since(self.reply.began)
    }

    /// Takes its row, if it has one, under the next timestamp. `newest` is the timestamp of the version that
    /// it has seen, and afterwards of the one that stays.
    pub(super) fn take_row(
        &mut self,
        key: &DocumentSortKey,
        newest: &mut Timestamp,
        next: impl FnOnce() -> Timestamp,
    ) -> Option<NewRow> {
        let row = match &mut self.decided {
            Ok(Some(value)) => {
                *newest = next();
                Some((row_key(key, *newest), std::mem::take(&mut value.bytes)))
            }
            Ok(None) | Err(_) => None,
        };
        let stays = row.is_some() || self.existed;
        self.timestamp = if stays { *newest } else { Timestamp::default() };
        row
    }

    /// Answers it, after the commit of the chain.
    pub(super) fn answer(self, committed: Result<(), Error>) {
        let ChainedModification { decided, existed, timestamp, reply } = self;
        let written = |row: Option<RowValue>| CommittedWrite {
            timestamp,
            existed: Some(existed),
            changed: row.is_some(),
        };
        reply.send(committed.and_then(|()| decided.map(written)));
    }

    fn row(&self) -> Option<&RowValue> {
        self.decided.as_ref().ok().and_then(Option::as_ref)
    }
}

impl PendingCommit {
    /// Bytes of its rows.
    pub(super) fn bytes(&self) -> usize {
        let chained = self.chained.iter().filter_map(ChainedModification::row);
        self.rows.bytes() + chained.map(|value| value.bytes.len()).sum::<usize>()
    }

    /// True if it makes room: all of its rows are removals.
    pub(super) fn removes(&self) -> bool {
        self.rows.removes()
            && self.chained.iter().filter_map(ChainedModification::row).all(|value| value.removes)
    }

    /// Number of its rows that need timestamps.
    pub(super) fn new_rows(&self) -> usize {
        match self.rows {
            CommitRows::Written { .. } => {
                1 + self.chained.iter().filter_map(ChainedModification::row).count()
            }
            CommitRows::Given { .. } => 0,
        }
    }
}

impl PendingWrites {
    /// Runs modifications that wait for this one on its result, one after another.
    pub(super) fn extend_chain(&self, id: &DocumentId, commit: &mut PendingCommit) {
        let CommitRows::Written { key, value, .. } = &commit.rows else {
            unreachable!("a modification is committed as a row that needs its timestamp")
        };
        if !self.shared.options.paths.is_fast() {
            return;
        }
        let mut result = RowValue { bytes: value.bytes.clone(), removes: value.removes };
        let mut bytes = result.bytes.len();
        let began = Instant::now();
        while commit.chained.len() < CHAINED_MAX && bytes < CHAIN_BYTES {
            let is_first = commit.chained.is_empty();
            if !is_first && began.elapsed() >= CHAIN_TIME {
                return;
            }
            let Some(next) = self.next_of_chain(key, is_first) else { return };
            let AcceptedWrite { work, durability, reply, .. } = next;
            let CommitterWork::Modify(_, PendingModify::OfContent(modify)) = work else {
                unreachable!("only modifications that see no timestamp are chained")
            };
            let existed = !result.removes;
            let decided = self.shared.health.guard("modify a document", || {
                let found = document_of(id, &result)?;
                decided_row(|| modify(found))
            });
            bytes += result.bytes.len();
            if let Ok(Some(value)) = &decided {
                result = RowValue { bytes: value.bytes.clone(), removes: value.removes };
                bytes += result.bytes.len();
            }
            if durability == WriteDurability::Synced {
                commit.durability = durability;
            }
            let timestamp = Timestamp::default();
            commit.chained.push(ChainedModification { decided, existed, timestamp, reply });
        }
    }

    /// The modification that waits first for the one of this document that runs, if it can be chained to it.
    fn next_of_chain(&self, key: &DocumentSortKey, is_first: bool) -> Option<AcceptedWrite> {
        self.lanes.take_next(key.as_bytes(), |waiting| {
            let can_be_chained =
                matches!(waiting.work, CommitterWork::Modify(_, PendingModify::OfContent(_)));
            // Documents can share a lane. A full disk takes removals alone, and a chain as a whole.
            can_be_chained
                && waiting.key.as_bytes() == key.as_bytes()
                && (!is_first || self.check_space().is_ok())
        })
    }
}

/// The document that a row writes; `None` for a removal.
fn document_of(id: &DocumentId, value: &RowValue) -> Result<Option<Document>, Error> {
    let decode = |fields: &[u8]| wire::decode_fields(id.clone(), fields).map_err(|error| damaged_row(&error));
    fields_of(&value.bytes)?.map(decode).transpose()
}
