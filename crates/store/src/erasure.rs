//! Erasures as callers see them: their bounds, and what is left to erase.

use std::sync::Arc;
use std::time::Duration;

use millrace_document::{DocumentGroup, Timestamp};

use crate::state::erasures::ErasureRecord;
use crate::upkeep::erasing::StoredFiles;
use crate::{Error, Store};

/// The erasure of a group: every drop of a group begins one, which ends when no file of the store has
/// anything of the documents that were dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupErasure {
    /// Group.
    pub group: DocumentGroup,
    /// Time of the last drop, by the clock of this store.
    pub dropped: Timestamp,
    /// Time by which it ends.
    pub due: Timestamp,
    /// Time at which it has ended; `None` if it has not.
    pub erased: Option<Timestamp>,
    /// Places that still have something of the documents, if they were looked for.
    pub holders: ErasureHolders,
}

/// Places that have something of documents that were dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasureHolders {
    /// Number of segment files, with those that cannot be read.
    pub files: u64,
    /// Number of logs of recent writes.
    pub logs: u64,
    /// True if the [`ErasurePartner`] has to erase something.
    pub elsewhere: bool,
}

/// Owner of other files with content of the store's documents.
pub trait ErasurePartner: Send + Sync {
    /// Returns true if it has nothing of documents that were dropped until `dropped`.
    fn has_erased(&self, dropped: Timestamp) -> bool;

    /// Begins to erase documents that were dropped until `dropped`. Called on a thread of the store, so it
    /// should not block.
    fn erase(&self, dropped: Timestamp);
}

impl Store {
    /// Lowers the bound of an erasure to `within` after the drop, durably, and returns it; `None` if the
    /// group has no erasure. With zero it begins at once.
    ///
    /// # Errors
    /// The ledger of erasures cannot be written; the files cannot be listed.
    pub fn erase_within(
        &self,
        group: &DocumentGroup,
        within: Duration,
    ) -> Result<Option<GroupErasure>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let key = group.key();
        if let Some(record) = shared.erasures.get(&key) {
            let due = record.dropped.saturating_add(within.as_micros() as u64);
            shared.erasures.bring_forward(&key, due);
            let now = shared.timestamps.now().0;
            shared.erasures.save(&*shared.options.disk, &shared.options.data_dir, now)?;
            shared.alarm.ring();
        }
        self.erasure(group)
    }

    /// Returns the erasure of a group, with the places that still have something of it; `None` if the group
    /// was not dropped, or so long ago that the receipt was deleted.
    ///
    /// Cost: reads the directory of each file.
    ///
    /// # Errors
    /// The files cannot be listed.
    pub fn erasure(&self, group: &DocumentGroup) -> Result<Option<GroupErasure>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        let key = group.key();
        let Some(record) = shared.erasures.get(&key) else { return Ok(None) };
        let mut erasure = GroupErasure::of(group.clone(), &record);
        if record.is_pending() {
            let left = StoredFiles::of(shared)?.dropped_bytes(&key, &record);
            erasure.holders = ErasureHolders {
                files: left.files(),
                logs: left.logs,
                elsewhere: !shared.is_erased_by_partner(record.dropped),
            };
        }
        Ok(Some(erasure))
    }

    /// Returns all erasures, in the order of the groups' keys. The places that have something are not looked
    /// for.
    pub fn erasures(&self) -> Vec<GroupErasure> {
        let all = self.shared().erasures.all().into_iter();
        all.filter_map(|(key, record)| Some(GroupErasure::of(DocumentGroup::from_key(&key)?, &record)))
            .collect()
    }

    /// Returns the number of erasures that have not ended, and of those of them that should have.
    pub fn pending_erasures(&self) -> (u64, u64) {
        let shared = self.shared();
        if shared.erasures.pending() == 0 {
            return (0, 0);
        }
        let now = shared.timestamps.now().0;
        let all = shared.erasures.all();
        let pending = || all.values().filter(|record| record.is_pending());
        (pending().count() as u64, pending().filter(|record| record.due < now).count() as u64)
    }

    /// Sets the owner of other files with content of the store's documents.
    pub fn set_erasure_partner(&self, partner: Option<Arc<dyn ErasurePartner>>) {
        *self.shared().erasure_partner.write() = partner;
    }
}

impl GroupErasure {
    fn of(group: DocumentGroup, record: &ErasureRecord) -> Self {
        GroupErasure {
            group,
            dropped: Timestamp(record.dropped),
            due: Timestamp(record.due),
            erased: (!record.is_pending()).then_some(Timestamp(record.erased)),
            holders: ErasureHolders::default(),
        }
    }
}
