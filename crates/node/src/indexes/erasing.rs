//! Erasure of dropped documents in the indexes: their runs are written again without them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_document::Timestamp;
use millrace_store::ErasurePartner;

use super::feed::IndexFeed;
use super::notes::MARGIN_US;
use super::service::IndexesInner;
use crate::Error;

/// Time until which dropped documents are to be erased, and that until which they are.
pub(super) struct IndexErasure {
    root: PathBuf,
    feed: Arc<IndexFeed>,
    wanted: AtomicU64,
    done: AtomicU64,
}

impl IndexErasure {
    pub fn new(root: PathBuf, feed: Arc<IndexFeed>) -> Self {
        IndexErasure { root, feed, wanted: AtomicU64::new(0), done: AtomicU64::new(0) }
    }
}

impl ErasurePartner for IndexErasure {
    fn has_erased(&self, dropped: Timestamp) -> bool {
        self.done.load(Ordering::SeqCst) >= dropped.0 || !self.root.exists()
    }

    fn erase(&self, dropped: Timestamp) {
        if self.wanted.fetch_max(dropped.0, Ordering::SeqCst) < dropped.0 {
            self.feed.wake();
        }
    }
}

impl IndexesInner {
    /// Compacts the indexes, if dropped documents are to be erased and none of them will be remembered as
    /// removed.
    pub fn erase(&self) -> Result<(), Error> {
        let wanted = self.erasure.wanted.load(Ordering::SeqCst);
        if wanted <= self.erasure.done.load(Ordering::SeqCst) {
            return Ok(());
        }
        let is_remembered = self.store.next_timestamp().0.saturating_sub(MARGIN_US) <= wanted;
        if is_remembered || !self.are_all_whole() {
            return Ok(());
        }
        self.flush_all()?;
        let (mut erased, mut are_compact) = (Ok(()), true);
        for index in self.all().iter().filter(|index| index.erased.load(Ordering::SeqCst) < wanted) {
            let compacted = index.copy.compact(self.forgotten(index));
            self.note_written(index, compacted.as_ref().err());
            match compacted {
                Ok(true) => index.erased.store(wanted, Ordering::SeqCst),
                // The node stops.
                Ok(false) => are_compact = false,
                Err(error) => erased = erased.and(Err(error)),
            }
        }
        erased?;
        // One may have been opened, or have lost changes, meanwhile.
        if are_compact && self.are_all_whole() {
            self.erasure.done.fetch_max(wanted, Ordering::SeqCst);
        }
        Ok(())
    }

    /// True if all indexes have every change. Files of one that is not open, or could not be removed, may
    /// have what was dropped.
    fn are_all_whole(&self) -> bool {
        let is_building = self.all().iter().any(|index| !index.is_ready() && !index.is_deferred());
        !is_building && !self.is_adoption_left() && self.feed.stale.snapshot().0.is_empty()
    }
}
