//! Data exchanged by replicas: versions of documents and drops, each with the timestamp set by its bucket's
//! owner.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Document, DocumentGroup, DocumentId, Error, Timestamp, serial, wire};

/// A version of a document as exchanged by replicas: encoded once, and not parsed on its way. Of two versions
/// of a document, the one with the higher timestamp wins, regardless of their origin and order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentVersion {
    /// Id of the document.
    pub id: DocumentId,
    /// Write time, by the clock of the bucket's owner.
    pub timestamp: Timestamp,
    /// The document's fields in the [`wire`] form; `None` for a removal.
    #[serde(with = "serial::body")]
    pub body: Option<Arc<[u8]>>,
}

impl DocumentVersion {
    /// Creates the version of an existing document.
    pub fn put(document: &Document, timestamp: Timestamp) -> Self {
        let body = Some(wire::encode_fields(document).into());
        DocumentVersion { id: document.id.clone(), timestamp, body }
    }

    /// Creates the version of a removed document.
    pub fn removal(id: DocumentId, timestamp: Timestamp) -> Self {
        DocumentVersion { id, timestamp, body: None }
    }

    /// Decodes the document; `None` for a removal.
    ///
    /// # Errors
    /// [`Error::Row`] if the body cannot be decoded.
    pub fn document(&self) -> Result<Option<Document>, Error> {
        self.body.as_deref().map(|body| wire::decode_fields(self.id.clone(), body)).transpose()
    }
}

/// Removal of a set of documents: all in the scope that were written at or before the timestamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedScope {
    /// Documents to drop.
    pub scope: DropScope,
    /// Latest write time to drop, by the clock of the owner.
    pub timestamp: Timestamp,
}

/// Scope of a [`DroppedScope`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DropScope {
    /// Documents of a group, of one type or of all types.
    Group {
        /// Document type; `None` for all.
        document_type: Option<String>,
        /// The group.
        group: DocumentGroup,
    },
    /// All documents of a type.
    Type(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DocumentValue;

    #[test]
    fn a_version_is_the_document_that_it_was_made_of() {
        let id = DocumentId::parse("id:n:mail:g=ann:1").expect("an id");
        let document = Document { id: id.clone(), fields: vec![("a".into(), DocumentValue::Int(7))] };
        let version = DocumentVersion::put(&document, Timestamp(5));
        assert_eq!(version.document(), Ok(Some(document)));
        assert_eq!(DocumentVersion::removal(id.clone(), Timestamp(6)).document(), Ok(None));
        let damaged = DocumentVersion { id, timestamp: Timestamp(7), body: Some(Arc::from([9_u8])) };
        assert!(damaged.document().is_err());
    }
}
