//! What replicas send each other: versions of documents and drops, each with the timestamp that its bucket's owner gave it.

use std::sync::Arc;

use crate::{Document, DocumentId, Error, Group, Timestamp, wire};

/// A version of a document as it travels between replicas: encoded once, and never parsed on its way. Of two versions of a document
/// the one with the higher timestamp counts, wherever they come from and in whatever order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Which document.
    pub id: DocumentId,
    /// When it was written, by the clock of its bucket's owner.
    pub timestamp: Timestamp,
    /// The document's fields in the [`wire`] form; `None`: it was removed.
    pub body: Option<Arc<[u8]>>,
}

impl Version {
    /// A version that is this document.
    pub fn put(document: &Document, timestamp: Timestamp) -> Self {
        let body = Some(wire::encode_fields(document).into());
        Version { id: document.id.clone(), timestamp, body }
    }

    /// A version that is no document any more.
    pub fn removal(id: DocumentId, timestamp: Timestamp) -> Self {
        Version { id, timestamp, body: None }
    }

    /// The document; `None` where it was removed.
    ///
    /// # Errors
    /// [`Error::Row`] when the body is none.
    pub fn document(&self) -> Result<Option<Document>, Error> {
        self.body.as_deref().map(|body| wire::decode_fields(self.id.clone(), body)).transpose()
    }
}

/// Documents that are dropped as a whole: all in the scope that were written at the timestamp or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    /// Which documents.
    pub scope: DropScope,
    /// Up to when, by the clock of the owner.
    pub timestamp: Timestamp,
}

/// What a [`Drop`] reaches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DropScope {
    /// The documents of a group; of all types where there is none.
    Group {
        /// Of which type.
        document_type: Option<String>,
        /// Of which group.
        group: Group,
    },
    /// All documents of a type.
    Type(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn a_version_is_the_document_that_it_was_made_of() {
        let id = DocumentId::parse("id:n:mail:g=ann:1").expect("an id");
        let document = Document { id: id.clone(), fields: vec![("a".into(), Value::Int(7))] };
        let version = Version::put(&document, Timestamp(5));
        assert_eq!(version.document(), Ok(Some(document)));
        assert_eq!(Version::removal(id.clone(), Timestamp(6)).document(), Ok(None));
        let damaged = Version { id, timestamp: Timestamp(7), body: Some(Arc::from([9_u8])) };
        assert!(damaged.document().is_err());
    }
}
