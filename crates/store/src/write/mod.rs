//! What a caller wants to write, and the way it takes: writes of one document in order (`lanes`), many with one sync (`committer`), as rows
//! of the tail (`commit_rows`).

pub(crate) mod commit_rows;
pub(crate) mod committer;
pub(crate) mod lanes;
pub(crate) mod timestamps;

use std::fmt;

use millrace_document::{Document, DocumentId, Refusal, Timestamp};

/// A change of one document.
#[derive(Debug)]
pub struct Write {
    /// Which document.
    pub id: DocumentId,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a document.
pub enum Change {
    /// It is this, whatever it was. The document's own id is not looked at.
    Put(Document),
    /// It is no more, whether it was or not.
    Remove,
    /// It is what the function makes of it. The function sees the newest version, and no other write of this document comes
    /// between; it runs on a thread of the store, and should be quick.
    Modify(Modify),
}

impl Change {
    /// This modification, if the document is still the version of that time; else it stays as it was written since.
    pub fn if_unchanged(timestamp: Timestamp, modification: Modification) -> Self {
        Change::Modify(Box::new(move |found| {
            let unchanged = found.is_some_and(|(_, found)| found == timestamp);
            Ok(if unchanged { modification } else { Modification::Nothing })
        }))
    }
}

/// Decides what becomes of a document, from what it is now and since when.
pub type Modify = Box<dyn FnOnce(Option<(Document, Timestamp)>) -> Result<Modification, Refusal> + Send>;

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Put(document) => f.debug_tuple("Put").field(document).finish(),
            Change::Remove => f.write_str("Remove"),
            Change::Modify(_) => f.write_str("Modify(…)"),
        }
    }
}

/// What a [`Change::Modify`] decided.
#[derive(Debug)]
pub enum Modification {
    /// The document is this now.
    Put(Document),
    /// It is removed.
    Remove,
    /// It stays as it is.
    Nothing,
}

/// A write that is durable, and visible to every view that is opened from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// The version's timestamp; of the version that stays, where the change was [`Modification::Nothing`] and there is one.
    pub timestamp: Timestamp,
    /// Whether the document was there before; known only for [`Change::Modify`].
    pub existed: Option<bool>,
    /// Whether a version was written.
    pub changed: bool,
}
