//! Operations of a stream as they are received: JSON, or rows of a table.

use millrace_document::json::{self, FeedOperation, FeedPosition, ParseOptions};
use millrace_document::{DocumentId, DocumentOperation, DocumentType, OperationAction, OperationKind};
use millrace_node::Error;
use millrace_node::work::{BlockBytes, WorkKind};
use millrace_table::TableRow;

/// Operation whose values are not read yet.
pub(super) enum ReceivedOperation {
    Json(FeedOperation),
    /// A put of a document.
    Row {
        id: DocumentId,
        row: TableRow,
    },
}

impl ReceivedOperation {
    /// The kind.
    pub(super) const fn kind(&self) -> OperationKind {
        match self {
            ReceivedOperation::Json(operation) => operation.kind,
            ReceivedOperation::Row { .. } => OperationKind::Put,
        }
    }

    /// The document.
    pub(super) const fn id(&self) -> &DocumentId {
        match self {
            ReceivedOperation::Json(FeedOperation { id, .. }) | ReceivedOperation::Row { id, .. } => id,
        }
    }

    /// The document, without the rest.
    pub(super) fn into_id(self) -> DocumentId {
        match self {
            ReceivedOperation::Json(FeedOperation { id, .. }) | ReceivedOperation::Row { id, .. } => id,
        }
    }

    /// Replaces the id of the document.
    pub(super) fn set_id(&mut self, new: DocumentId) {
        match self {
            ReceivedOperation::Json(FeedOperation { id, .. }) | ReceivedOperation::Row { id, .. } => {
                *id = new
            }
        }
    }

    /// Size in bytes, as limits of documents and of groups count it: that of the text, or of the contents.
    pub(super) const fn bytes(&self) -> usize {
        match self {
            ReceivedOperation::Json(operation) => operation.json.len(),
            ReceivedOperation::Row { row, .. } => row.content_bytes(),
        }
    }

    /// Memory that the operation takes while it is parsed and committed, in bytes.
    pub(super) fn work_bytes(&self, block: BlockBytes) -> usize {
        match self {
            ReceivedOperation::Json(operation) => WorkKind::Document(block).bytes(&operation.json),
            // As values, as rows of the store, in its log, and in its memory.
            ReceivedOperation::Row { row, .. } => row.memory_bytes().saturating_mul(4),
        }
    }

    /// Reads the values.
    ///
    /// # Errors
    /// They do not fit the document type.
    pub(super) fn parse(
        &self,
        document_type: &DocumentType,
        options: ParseOptions,
    ) -> Result<DocumentOperation, Error> {
        match self {
            ReceivedOperation::Json(FeedOperation { kind, id, json, .. }) => {
                Ok(json::parse(json, *kind, id.clone(), document_type, options)?)
            }
            ReceivedOperation::Row { id, row } => {
                let document = row.document(id.clone()).map_err(refused)?;
                let action = OperationAction::Put(document);
                Ok(DocumentOperation { action, condition: None, create: false, ignored_fields: false })
            }
        }
    }

    /// Converts a row to JSON.
    ///
    /// # Errors
    /// A value of the row does not fit its field.
    pub(super) fn into_json(self) -> Result<FeedOperation, Error> {
        match self {
            ReceivedOperation::Json(operation) => Ok(operation),
            ReceivedOperation::Row { id, row } => {
                let json = row.put_json(&id).map_err(refused)?;
                let position = FeedPosition::default();
                Ok(FeedOperation { kind: OperationKind::Put, id, json, position })
            }
        }
    }
}

fn refused(error: millrace_table::Error) -> Error {
    Error::BadRequest(error.to_string())
}
