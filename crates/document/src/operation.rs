use crate::{Document, DocumentId, Update};

/// One change to one document, as a client asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What is done.
    pub action: Action,
    /// A document selection that the stored document must match, or nothing is done.
    pub condition: Option<String>,
    /// A document that is not there is created: for an update from nothing, for a conditional put as if the condition held.
    pub create: bool,
    /// Fields that the document type lacks were passed over.
    pub ignored_fields: bool,
}

/// What an [`Operation`] does.
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
    /// The document that is changed.
    pub const fn id(&self) -> &DocumentId {
        match &self.action {
            Action::Put(document) => &document.id,
            Action::Update(update) => &update.id,
            Action::Remove(id) => id,
        }
    }
}

/// The kinds of [`Operation`], as they are named in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// `put`.
    Put,
    /// `update`.
    Update,
    /// `remove`.
    Remove,
}
