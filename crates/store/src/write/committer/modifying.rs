//! Modifications: each sees its document, whose lane is its own until it is committed. So documents that wait
//! are looked up together, before the first is modified.
//!
//! Those that wait for one run on its result, if they can (`chaining`).
//!
//! A thread takes a share of the modifications that wait. Those of a share wait for each other, and one can
//! wait for the disk or for a model. So a share ends with the first modification that takes long: the others
//! are queued again, and the next share is of one. Shares double while they are quick.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use millrace_bucket::DocumentSortKey;
use millrace_document::{Document, DocumentId, Timestamp};
use millrace_env::run_or_exit;

use super::{AcceptedWrite, CommitterWork, PendingCommit, PendingModify, PendingWrites};
use crate::read::get;
use crate::read::lookup::{NewestVersion, newest_versions};
use crate::tail::{encode_put, encode_removed};
use crate::write::commit_rows::{CommitRows, RowValue};
use crate::{CommittedWrite, Error, StoreModification, WriteRefusal};

/// Number of threads for modifications. They read documents, which can wait for the disk; so some run side by
/// side.
pub(crate) const MODIFIERS: usize = 4;

/// Modifications in a share, at most.
const MODIFIED_TOGETHER: usize = 128;

/// Time from which on a share took long.
const SHARE_TIME: Duration = Duration::from_millis(10);

/// Time after which results of a share wait for the others no longer.
const GATHERING_TIME: Duration = Duration::from_millis(1);

/// Bytes of documents in the tail that are kept for the modifications of a share, at most; larger ones are
/// looked up again one by one.
const FOUND_BYTES: usize = 1 << 20;

impl AcceptedWrite {
    /// The document of a modification.
    fn modified_document(&self) -> &DocumentId {
        let CommitterWork::Modify(id, _) = &self.work else {
            unreachable!("only modifications are queued for the modifiers")
        };
        id
    }
}

impl PendingModify {
    fn run(self, found: Option<(Document, Timestamp)>) -> Result<StoreModification, WriteRefusal> {
        match self {
            PendingModify::OfVersion(modify) => modify(found),
            PendingModify::OfContent(modify) => modify(found.map(|(document, _)| document)),
        }
    }
}

/// Runs a modification. Returns the row to write; `None` if nothing changes.
///
/// # Errors
/// The modification refuses.
pub(super) fn decided_row(
    modify: impl FnOnce() -> Result<StoreModification, WriteRefusal>,
) -> Result<Option<RowValue>, Error> {
    let decided = catch_unwind(AssertUnwindSafe(modify)).unwrap_or_else(|_| Err(WriteRefusal::panicked()));
    Ok(match decided.map_err(Error::Refused)? {
        StoreModification::Put(document) => Some(RowValue { bytes: encode_put(&document), removes: false }),
        StoreModification::Remove => Some(RowValue { bytes: encode_removed(), removes: true }),
        StoreModification::Nothing => None,
    })
}

impl PendingWrites {
    /// Runs modifications until the store closes; [`MODIFIERS`] threads do. A panic outside of a modification
    /// ends the process.
    pub fn run_modifier(&self) {
        run_or_exit("a thread for modifications", || self.run_modifications());
    }

    fn run_modifications(&self) {
        let together_max = if self.shared.options.paths.is_fast() { MODIFIED_TOGETHER } else { 1 };
        let mut together = 1;
        loop {
            let taken = self.modifications.take_share(MODIFIERS, together);
            if taken.is_empty() {
                return;
            }
            let is_quick = self.run_share(taken);
            together = if is_quick { together_max.min(2 * together) } else { 1 };
        }
    }

    /// Runs modifications of different documents. Returns false if they took long.
    fn run_share(&self, taken: Vec<AcceptedWrite>) -> bool {
        let began = Instant::now();
        let mut commits = Vec::with_capacity(taken.len());
        let found = self.look_up(&taken);
        let found_at = Instant::now();
        let mut gathered_at = found_at;
        let mut share = taken.into_iter().zip(found);
        while let Some((accepted, found)) = share.next() {
            commits.extend(self.modified(accepted, found));
            let now = Instant::now();
            if now.duration_since(found_at) >= SHARE_TIME {
                self.commits.push_several(commits);
                self.modifications.give_back(share.map(|(accepted, _)| accepted));
                return false;
            }
            if now.duration_since(gathered_at) >= GATHERING_TIME {
                self.commits.push_several(std::mem::take(&mut commits));
                gathered_at = now;
            }
        }
        // They wake the committer once, and are synced together.
        self.commits.push_several(commits);
        began.elapsed() < SHARE_TIME
    }

    /// The newest version of each document, or that it is to be looked up alone: all are if one of several
    /// cannot be read, which must not hold up the others.
    fn look_up(&self, taken: &[AcceptedWrite]) -> Vec<Option<NewestVersion>> {
        let alone = || taken.iter().map(|_| Some(NewestVersion::Unread(u64::MAX))).collect();
        if taken.len() == 1 {
            return alone();
        }
        let documents: Vec<(&DocumentId, &DocumentSortKey)> =
            taken.iter().map(|accepted| (accepted.modified_document(), &accepted.key)).collect();
        let find = || newest_versions(&self.shared.state(), &documents, FOUND_BYTES);
        let found = self.shared.health.guard("look documents up", find);
        found.unwrap_or_else(|_| alone())
    }

    /// Runs a modification, and those chained to it. Returns what is to be committed; answers one that
    /// changes nothing.
    fn modified(&self, accepted: AcceptedWrite, found: Option<NewestVersion>) -> Option<PendingCommit> {
        let AcceptedWrite { key, work: CommitterWork::Modify(id, modify), durability, reply, .. } = accepted
        else {
            unreachable!("only modifications are queued for the modifiers")
        };
        // A document that cannot be read must not hold up the others.
        match self.shared.health.guard("modify a document", || self.modify(&id, &key, found, modify)) {
            Ok((Some(value), existed)) => {
                let rows = CommitRows::Written { key, value, existed: Some(existed.is_some()) };
                let mut commit = PendingCommit::new(rows, durability, reply);
                self.extend_chain(&id, &mut commit);
                return Some(commit);
            }
            Ok((None, existed)) => {
                let timestamp = existed.unwrap_or_default();
                let written = CommittedWrite { timestamp, existed: Some(existed.is_some()), changed: false };
                self.finish(&key, reply, Ok(written));
            }
            Err(error) => self.finish(&key, reply, Err(error)),
        }
        None
    }

    fn modify(
        &self,
        id: &DocumentId,
        key: &DocumentSortKey,
        found: Option<NewestVersion>,
        modify: PendingModify,
    ) -> Result<(Option<RowValue>, Option<Timestamp>), Error> {
        let found = get::found(&self.shared, id, key, found)?;
        let existed = found.as_ref().map(|(_, timestamp)| *timestamp);
        Ok((decided_row(|| modify.run(found))?, existed))
    }
}
