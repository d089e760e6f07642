//! Copies whose files may have something of dropped documents.

use std::sync::Arc;

use millrace_document::Timestamp;

use super::{CopyStage, DueFlush, NodeCopies, number};

impl NodeCopies {
    /// Time until which no file of a copy has anything of dropped documents; `wanted` if there is no copy.
    pub fn erased(&self, wanted: Timestamp) -> Timestamp {
        if !self.is_tidy {
            return Timestamp(0);
        }
        let of_copies = self.copies.values().filter_map(|copy| match &copy.stage {
            CopyStage::Open(open) => Some(open.kept.erased()),
            CopyStage::Gone => None,
            // Its files are being removed, or come from another node, or are not looked at yet.
            CopyStage::Unknown | CopyStage::Importing { .. } | CopyStage::Failed { .. } => Some(Timestamp(0)),
        });
        of_copies.min().unwrap_or(wanted)
    }

    /// Has all copies erase what was dropped until a time.
    pub fn erase(&mut self, until: Timestamp) {
        self.erase_until = self.erase_until.max(until);
    }

    /// Copies to be erased now: those that have everything of after the drops.
    pub fn due_erasures(&self) -> Vec<DueFlush> {
        let wanted = self.erase_until;
        let due = self.open_copies().filter(|(_, open)| open.kept.erased() < wanted);
        let due = due.map(|(copy, open)| {
            let marks = self.follower.marks(number(copy));
            DueFlush { copy, kept: Arc::clone(&open.kept), marks }
        });
        due.filter(|due| due.marks.lowest() > wanted).collect()
    }
}
