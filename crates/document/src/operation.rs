use crate::{Document, DocumentId, Update};

/// A change to one document, as requested by a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// The change.
    pub action: Action,
    /// Document selection that the stored document must match; otherwise nothing is done.
    pub condition: Option<String>,
    /// True to create a missing document: an update starts from an empty one, and the condition of a put
    /// counts as met.
    pub create: bool,
    /// True if fields that the document type lacks were skipped.
    pub ignored_fields: bool,
}

/// Change made by an [`Operation`].
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Writes a whole document.
    Put(Document),
    /// Changes fields of a document.
    Update(Update),
    /// Removes a document.
    Remove(DocumentId),
}

impl Operation {
    /// Id of the changed document.
    pub const fn id(&self) -> &DocumentId {
        match &self.action {
            Action::Put(document) => &document.id,
            Action::Update(update) => &update.id,
            Action::Remove(id) => id,
        }
    }
}

/// Kinds of [`Operation`], named as in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// `put`.
    Put,
    /// `update`.
    Update,
    /// `remove`.
    Remove,
}
