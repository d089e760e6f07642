use crate::{Document, DocumentId, DocumentUpdate};

/// A change to one document, as requested by a client.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentOperation {
    /// The change.
    pub action: OperationAction,
    /// Document selection that the stored document must match; otherwise nothing is done.
    pub condition: Option<String>,
    /// True to create a missing document: an update starts from an empty one, and the condition of a put
    /// counts as met.
    pub create: bool,
    /// True if fields that the document type lacks were skipped.
    pub ignored_fields: bool,
}

/// Change made by a [`DocumentOperation`].
#[derive(Debug, Clone, PartialEq)]
pub enum OperationAction {
    /// Writes a whole document.
    Put(Document),
    /// Changes fields of a document.
    Update(DocumentUpdate),
    /// Removes a document.
    Remove(DocumentId),
}

impl DocumentOperation {
    /// Id of the changed document.
    pub const fn id(&self) -> &DocumentId {
        match &self.action {
            OperationAction::Put(document) => &document.id,
            OperationAction::Update(update) => &update.id,
            OperationAction::Remove(id) => id,
        }
    }
}

/// Kinds of [`DocumentOperation`], named as in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// `put`.
    Put,
    /// `update`.
    Update,
    /// `remove`.
    Remove,
}
