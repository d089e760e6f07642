//! How documents are shown: which fields, and tensors in which form.

use millrace_document::json::{FieldsJson, fields};
use millrace_document::{Document, FieldSet};
use millrace_tensor::json::{Digits, Format};

use super::Call;
use crate::{Deployment, Error};

/// How a request wants its documents. Cells of tensors are written as doubles, so that what is fed again is the same.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) field_set: FieldSet,
    tensors: Format,
}

impl Shape {
    /// What the parameters `fieldSet` and `format.tensors` say, checked against what is deployed.
    pub(super) fn of(call: &Call, deployment: &Deployment) -> Result<Self, Error> {
        let field_set = match call.parameters.get("fieldSet") {
            Some(text) => text.parse()?,
            None => FieldSet::Document,
        };
        if let FieldSet::Fields { document_type, fields } = &field_set {
            let schemas = &deployment.application.schemas;
            let schema = schemas.get(document_type.as_str()).ok_or_else(|| {
                Error::parameter("fieldSet", format!("there is no document type '{document_type}'"))
            })?;
            if let Some(field) = fields.iter().find(|field| !schema.fields.contains_key(field.as_str())) {
                let reason = format!("document type '{document_type}' has no field '{field}'");
                return Err(Error::parameter("fieldSet", reason));
            }
        }
        let tensors = match call.parameters.get("format.tensors") {
            None => Format::default(),
            Some(text) => {
                text.parse().map_err(|reason: String| Error::parameter("format.tensors", reason))?
            }
        };
        Ok(Shape { field_set, tensors: tensors.with_digits(Digits::OfDouble) })
    }

    /// The fields of a document that are shown.
    pub(super) fn fields<'a>(&'a self, deployment: &'a Deployment, document: &'a Document) -> FieldsJson<'a> {
        let document_type = deployment
            .application
            .schemas
            .get(document.id.document_type())
            .map(|schema| &*schema.document_type);
        fields(document, document_type, &self.field_set, self.tensors)
    }
}
