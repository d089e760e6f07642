//! Texts of stored documents. Those of a document type are written when they are needed: a search reads a few
//! fields of each document, and the whole text of the hits that it shows.

use std::sync::Arc;

use millrace_document::{Document, FieldSet, json};
use millrace_node::deployment::CompiledDocumentType;
use millrace_tensor::json::{CellNumbers, TensorFormat};
use serde_json::{Map, Value};

use crate::Error;
use crate::read_fields::ReadFields;

/// Text of a document in JSON, or the document that it is written from.
#[derive(Debug, Clone)]
pub(crate) enum SourceText {
    Written(Arc<str>),
    OfType(Arc<TypedDocument>),
}

/// A document of a type of the application.
pub(crate) struct TypedDocument {
    kind: Arc<CompiledDocumentType>,
    document: Document,
    /// Bytes that its values take.
    bytes: usize,
}

impl TypedDocument {
    /// A document with the fields that its type shows.
    pub(crate) fn new(kind: &Arc<CompiledDocumentType>, mut document: Document) -> Self {
        kind.show_only(&mut document);
        let bytes = document.fields.iter().map(|(_, value)| value.memory_bytes()).sum();
        TypedDocument { kind: Arc::clone(kind), document, bytes }
    }

    fn text(&self, fields: &FieldSet) -> Result<String, Error> {
        typed_text(&self.kind, &self.document, fields)
    }
}

/// Text of the fields of a set, of a document of a type.
///
/// # Errors
/// A value cannot be written.
pub(crate) fn typed_text(
    kind: &CompiledDocumentType,
    document: &Document,
    fields: &FieldSet,
) -> Result<String, Error> {
    // Feeding it again yields the same values.
    let tensors = TensorFormat::default().with_numbers(CellNumbers::Exact);
    let fields = json::fields(document, Some(&kind.schema.document_type), fields, tensors);
    serde_json::to_string(&fields).map_err(|error| Error::Internal(error.to_string()))
}

impl std::fmt::Debug for TypedDocument {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.document.id.fmt(formatter)
    }
}

impl SourceText {
    /// The text.
    ///
    /// # Errors
    /// A value cannot be written.
    pub(crate) fn text(&self) -> Result<Arc<str>, Error> {
        match self {
            SourceText::Written(text) => Ok(Arc::clone(text)),
            SourceText::OfType(typed) => typed.text(&FieldSet::Document).map(Arc::from),
        }
    }

    /// Members of the document that have one of the fields.
    ///
    /// # Errors
    /// The text is not JSON, or another value than an object; a value cannot be written.
    pub(crate) fn members(&self, fields: &ReadFields) -> Result<Map<String, Value>, Error> {
        let damaged = |error: serde_json::Error| Error::Internal(format!("the document is damaged: {error}"));
        match (self, fields) {
            (SourceText::Written(text), _) => fields.read(text).map_err(damaged),
            (SourceText::OfType(typed), ReadFields::All) => {
                fields.read(&typed.text(&FieldSet::Document)?).map_err(damaged)
            }
            (SourceText::OfType(typed), ReadFields::At(_)) => {
                let declared = &typed.kind.schema.document_type;
                let names = typed.document.fields.iter().map(|(name, _)| &**name);
                let names = names.filter(|name| fields.has(name) && declared.field(name).is_some());
                let set = FieldSet::Fields {
                    document_type: declared.name().to_string(),
                    fields: names.map(str::to_owned).collect(),
                };
                ReadFields::All.read(&typed.text(&set)?).map_err(damaged)
            }
        }
    }

    /// Bytes that the text has, about.
    pub(crate) fn len(&self) -> usize {
        match self {
            SourceText::Written(text) => text.len(),
            SourceText::OfType(typed) => typed.bytes,
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for SourceText {
    fn from(text: T) -> Self {
        SourceText::Written(text.into())
    }
}
