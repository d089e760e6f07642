//! Writes and their path: writes of one document in order (`lanes`), many with one sync (`committer`), as
//! rows of the tail (`commit_rows`), passed on to a follower (`follow`). Batches are held back while sealing
//! falls behind (`backlog`).

pub(crate) mod backlog;
pub(crate) mod batch;
pub(crate) mod commit_rows;
pub(crate) mod committer;
mod deferred;
pub(crate) mod follow;
pub(crate) mod lanes;
mod queue;
pub(crate) mod rewrites;
pub(crate) mod timestamps;

use std::fmt;

use millrace_bucket::DocumentSortKey;
use millrace_document::{Document, DocumentId, Timestamp, WriteRefusal};

use crate::tail::{RowBytes, encode_put, fields_of_put};

/// Durability of a write when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDurability {
    /// Synced: the write survives kills and losses of power.
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

impl DocumentWrite {
    /// Computes what needs no store: the encoding of a document that is put, and its position. It takes
    /// time in proportion to the document, so socket threads leave it to a pool.
    #[must_use]
    pub fn encoded(self) -> Self {
        let DocumentWrite { id, change } = self;
        let change = match change {
            StoreChange::Put(document) => StoreChange::Encoded(EncodedPut {
                key: DocumentSortKey::new(&id),
                value: encode_put(&document),
            }),
            other => other,
        };
        DocumentWrite { id, change }
    }
}

/// A document to put, as rows of the tail have it.
#[derive(Debug)]
pub struct EncodedPut {
    pub(crate) key: DocumentSortKey,
    pub(crate) value: RowBytes,
}

impl EncodedPut {
    /// The document's fields in their wire form.
    pub fn fields(&self) -> &[u8] {
        fields_of_put(&self.value)
    }
}

/// Change of a document.
pub enum StoreChange {
    /// Replaces the document or creates it. The id inside the document is ignored.
    Put(Document),
    /// [`StoreChange::Put`] of a document that was encoded: see [`DocumentWrite::encoded`].
    Encoded(EncodedPut),
    /// Removes the document, if it exists.
    Remove,
    /// Applies a function. It sees the newest version, and no other write of this document comes between; it
    /// runs on a thread of the store, and should be quick.
    Modify(Modify),
    /// [`StoreChange::Modify`] by a function that sees the document without its timestamp, and only computes.
    /// So it can run on the result of another one that is not durable yet: those of one document that wait
    /// for each other are committed together, all or none, and answered after that.
    ModifyContent(ModifyContent),
    /// Replaces the version of a timestamp by a document that says the same in another form, at no client's
    /// request: a newer version stays, and so does a drop. See [`crate::Store::sweep`].
    Rewrite {
        /// Timestamp of the version.
        base: Timestamp,
        /// Time that the new version must not be later than; for the owner of a bucket in a cluster. The
        /// drops of a store on its own wait for rewrites.
        until: Timestamp,
        /// The document.
        document: Document,
    },
}

impl StoreChange {
    /// The change of a document that was found as of this time, at no client's request; a newer version
    /// stays as it is. A document that takes its place is not later than `until`. `None`: there is nothing to
    /// change.
    pub fn of_found(base: Timestamp, until: Timestamp, modification: StoreModification) -> Option<Self> {
        Some(match modification {
            StoreModification::Put(document) => StoreChange::Rewrite { base, until, document },
            StoreModification::Remove => StoreChange::Modify(if_unchanged(base, StoreModification::Remove)),
            StoreModification::Nothing => return None,
        })
    }
}

/// Applies a modification if the document still has the version of that timestamp.
pub(crate) fn if_unchanged(timestamp: Timestamp, modification: StoreModification) -> Modify {
    Box::new(move |found| {
        let unchanged = found.is_some_and(|(_, found)| found == timestamp);
        Ok(if unchanged { modification } else { StoreModification::Nothing })
    })
}

/// Function that decides on a document, given its current content and timestamp.
pub type Modify =
    Box<dyn FnOnce(Option<(Document, Timestamp)>) -> Result<StoreModification, WriteRefusal> + Send>;

/// Function that decides on a document, given its current content.
pub type ModifyContent = Box<dyn FnOnce(Option<Document>) -> Result<StoreModification, WriteRefusal> + Send>;

impl fmt::Debug for StoreChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreChange::Put(document) => f.debug_tuple("Put").field(document).finish(),
            StoreChange::Encoded(put) => f.debug_tuple("Encoded").field(put).finish(),
            StoreChange::Remove => f.write_str("Remove"),
            StoreChange::Modify(_) => f.write_str("Modify(…)"),
            StoreChange::ModifyContent(_) => f.write_str("ModifyContent(…)"),
            StoreChange::Rewrite { base, .. } => write!(f, "Rewrite({})", base.0),
        }
    }
}

/// Decision of a [`StoreChange::Modify`] or [`StoreChange::ModifyContent`].
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
    /// True if the document existed before; known only for [`StoreChange::Modify`] and
    /// [`StoreChange::ModifyContent`].
    pub existed: Option<bool>,
    /// True if a version was written.
    pub changed: bool,
}
