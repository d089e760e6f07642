//! Writes and their path: writes of one document in order (`lanes`), many with one sync (`committer`), as
//! rows of the tail (`commit_rows`), passed on to a follower (`follow`). Batches are held back while the store
//! falls behind (`backlog`).

pub(crate) mod backlog;
pub(crate) mod batch;
pub(crate) mod commit_rows;
pub(crate) mod committer;
mod deferred;
pub(crate) mod follow;
pub(crate) mod lanes;
mod queue;
pub(crate) mod timestamps;

use std::fmt;

use millrace_document::{Document, DocumentId, Timestamp, WriteRefusal};

/// Durability of a write when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDurability {
    /// It survives kills and losses of power.
    Synced,
    /// It survives kills. It is synced within [`crate::StoreOptions::deferred_sync`]; a loss of power before
    /// can take it, together with all that was acknowledged so after it.
    Deferred,
}

/// A change of one document.
#[derive(Debug)]
pub struct DocumentWrite {
    /// Id of the document.
    pub id: DocumentId,
    /// Its change.
    pub change: StoreChange,
}

/// Change of a document.
pub enum StoreChange {
    /// Replaces the document or creates it. The id inside the document is ignored.
    Put(Document),
    /// Removes the document, if it exists.
    Remove,
    /// Applies a function. It sees the newest version, and no other write of this document comes between; it
    /// runs on a thread of the store, and should be quick.
    Modify(Modify),
}

impl StoreChange {
    /// Applies this modification if the document still has the version of that timestamp; a newer version
    /// stays as it is.
    pub fn if_unchanged(timestamp: Timestamp, modification: StoreModification) -> Self {
        StoreChange::Modify(Box::new(move |found| {
            let unchanged = found.is_some_and(|(_, found)| found == timestamp);
            Ok(if unchanged { modification } else { StoreModification::Nothing })
        }))
    }
}

/// Function that decides on a document, given its current content and timestamp.
pub type Modify =
    Box<dyn FnOnce(Option<(Document, Timestamp)>) -> Result<StoreModification, WriteRefusal> + Send>;

impl fmt::Debug for StoreChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreChange::Put(document) => f.debug_tuple("Put").field(document).finish(),
            StoreChange::Remove => f.write_str("Remove"),
            StoreChange::Modify(_) => f.write_str("Modify(…)"),
        }
    }
}

/// Decision of a [`StoreChange::Modify`].
#[derive(Debug)]
pub enum StoreModification {
    /// Write this document.
    Put(Document),
    /// Remove it.
    Remove,
    /// Leave it unchanged.
    Nothing,
}

/// A write that is as durable as was wanted, and visible to every view that is opened from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommittedWrite {
    /// Timestamp of the version; for [`StoreModification::Nothing`], of the version that stays, if there is
    /// one.
    pub timestamp: Timestamp,
    /// True if the document existed before; known only for [`StoreChange::Modify`].
    pub existed: Option<bool>,
    /// True if a version was written.
    pub changed: bool,
}
