//! Format of documents: the fields shown, and the form of tensors.

use millrace_document::json::{FieldsJson, fields};
use millrace_document::{Document, FieldSet};
use millrace_node::{CompiledApplication, Error};
use millrace_tensor::json::{CellNumbers, TensorFormat};

use super::DocumentCall;

/// Maximum number of fields that documents are read with by their names: every column is compared with all.
const NAMED_MAX: usize = 64;

/// Requested format of documents. Cells of tensors are written as doubles, so that feeding the output again
/// yields the same values.
#[derive(Debug, Clone)]
pub(super) struct DocumentFormat {
    pub(super) field_set: FieldSet,
    tensors: TensorFormat,
}

impl DocumentFormat {
    /// Reads the parameters `fieldSet` and `format.tensors`, checked against the deployment.
    pub(super) fn read(call: &DocumentCall, deployment: &CompiledApplication) -> Result<Self, Error> {
        let mut field_set = match call.parameters.get("fieldSet") {
            Some(text) => text.parse()?,
            None => FieldSet::Document,
        };
        if let FieldSet::Fields { document_type, fields } = &mut field_set {
            let schemas = &deployment.application.schemas;
            let schema = schemas
                .get(document_type.as_str())
                .ok_or_else(|| Error::parameter("fieldSet", format!("no document type '{document_type}'")))?;
            // A fieldset of the schema stands for its fields.
            let fields_of = |name: String| match schema.fieldsets.get(&name) {
                Some(fieldset) => fieldset.fields.clone(),
                None => vec![name],
            };
            *fields = std::mem::take(fields).into_iter().flat_map(fields_of).collect();
            // Each field of each document is compared with all of them.
            fields.sort_unstable();
            fields.dedup();
            if let Some(field) = fields.iter().find(|field| !schema.fields.contains_key(field.as_str())) {
                let reason = format!("document type '{document_type}' has no field '{field}'");
                return Err(Error::parameter("fieldSet", reason));
            }
        }
        let tensors = match call.parameters.get("format.tensors") {
            None => TensorFormat::default(),
            Some(text) => text.parse().map_err(|error: millrace_tensor::Error| {
                Error::parameter("format.tensors", error.to_string())
            })?,
        };
        Ok(DocumentFormat { field_set, tensors: tensors.with_numbers(CellNumbers::Exact) })
    }

    /// Fields with which stored documents of these types are read; `None`: all of them.
    pub(super) fn stored_fields(
        &self,
        deployment: &CompiledApplication,
        document_types: &[&str],
    ) -> Option<Vec<String>> {
        let names: Option<Vec<String>> = match &self.field_set {
            FieldSet::All => None,
            FieldSet::Id | FieldSet::None => Some(Vec::new()),
            FieldSet::Fields { fields, .. } => Some(fields.clone()),
            FieldSet::Document => {
                let schemas = &deployment.application.schemas;
                let types = document_types.iter().filter_map(|name| schemas.get(*name));
                // Fields that indexing statements create are left out.
                let creates = types.clone().any(|schema| {
                    schema.fields.keys().any(|field| schema.document_type.field(field).is_none())
                });
                let fields = types.flat_map(|schema| schema.document_type.fields());
                creates.then(|| fields.map(|field| field.name.to_string()).collect())
            }
        };
        names.filter(|names| names.len() <= NAMED_MAX)
    }

    /// Appends the fields to show of a document, as the object under `fields`.
    pub(super) fn write_fields(
        &self,
        deployment: &CompiledApplication,
        document: &Document,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        // Large texts would be copied each time the output grows.
        let bytes: usize = document.fields.iter().map(|(_, value)| value.memory_bytes()).sum();
        out.reserve(bytes + bytes / 16);
        serde_json::to_writer(out, &self.fields(deployment, document))
            .map_err(|error| Error::Internal(error.to_string()))
    }

    /// Fields of a document to show.
    fn fields<'a>(&'a self, deployment: &'a CompiledApplication, document: &'a Document) -> FieldsJson<'a> {
        let document_type = deployment
            .application
            .schemas
            .get(document.id.document_type())
            .map(|schema| &*schema.document_type);
        fields(document, document_type, &self.field_set, self.tensors)
    }
}
