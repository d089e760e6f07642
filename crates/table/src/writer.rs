//! Documents as Arrow tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use millrace_document::json::{self, FeedReader, ParseOptions};
use millrace_document::{Document, DocumentField, DocumentType, OperationAction};

use crate::Error;
use crate::array;
use crate::column::{arrow_schema, document_type_of};

/// The columns of a table of documents of one type.
#[derive(Debug, Clone)]
pub struct TableColumns {
    document_type: DocumentType,
    schema: SchemaRef,
    fields: Vec<DocumentField>,
}

impl TableColumns {
    /// A column with the ids, and one for each field of the document type that `shown` takes.
    ///
    /// # Errors
    /// [`Error::Columns`]: a field cannot be a column.
    pub fn new(document_type: &DocumentType, shown: impl Fn(&str) -> bool) -> Result<Self, Error> {
        let schema = Arc::new(arrow_schema(document_type, &shown)?);
        let fields = document_type.fields().iter().filter(|field| shown(&field.name)).cloned().collect();
        Ok(TableColumns { document_type: document_type.clone(), schema, fields })
    }

    /// The columns that a table of the server has.
    ///
    /// # Errors
    /// The table was not written by a server.
    pub fn of_schema(schema: &Schema, shown: impl Fn(&str) -> bool) -> Result<Self, Error> {
        Self::new(&document_type_of(schema)?, shown)
    }

    /// The schema of the table.
    pub const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads puts as JSON lines; fields without a column are left out.
    ///
    /// # Errors
    /// A line is not a put of a document of this type.
    pub fn documents(&self, lines: &[u8]) -> Result<Vec<Document>, Error> {
        let options = ParseOptions { ignore_undefined_fields: true, ..ParseOptions::default() };
        let read = |operation: Result<json::FeedOperation, millrace_document::Error>| {
            let operation = operation.map_err(|error| Error::value(error.to_string()))?;
            let failed = |reason| Error::Document { id: operation.id.to_string(), reason };
            if operation.id.document_type() != &**self.document_type.name() {
                return Err(failed(format!("its type is not {}", self.document_type.name())));
            }
            let id = operation.id.clone();
            let parsed = json::parse(&operation.json, operation.kind, id, &self.document_type, options);
            match parsed.map_err(|error| failed(error.to_string()))?.action {
                OperationAction::Put(document) => Ok(document),
                OperationAction::Update(_) | OperationAction::Remove(_) => {
                    Err(failed("it is not a put".to_owned()))
                }
            }
        };
        FeedReader::new(lines).map(read).collect()
    }

    /// Makes rows of documents.
    ///
    /// # Errors
    /// A document does not fit the columns.
    pub fn batch(&self, documents: &[Document]) -> Result<RecordBatch, Error> {
        let ids = StringArray::from_iter_values(documents.iter().map(|document| document.id.as_str()));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(ids)];
        for field in &self.fields {
            let values: Vec<_> = documents.iter().map(|document| document.get(&field.name)).collect();
            let column = array::column(&field.data_type, &values);
            columns.push(column.map_err(|error| Error::value(format!("field '{}': {error}", field.name)))?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| broken(&error))
    }
}

/// Writer of the stream form of Arrow IPC.
pub struct TableWriter {
    columns: TableColumns,
    encoder: StreamEncoder,
}

impl TableWriter {
    /// Begins a table with these columns.
    ///
    /// # Errors
    /// The columns cannot be written.
    pub fn new(columns: TableColumns) -> Result<Self, Error> {
        let encoder = StreamEncoder::try_new(columns.schema()).map_err(|error| broken(&error))?;
        Ok(TableWriter { columns, encoder })
    }

    /// The columns.
    pub const fn columns(&self) -> &TableColumns {
        &self.columns
    }

    /// Returns the bytes of a batch of rows; with the first one those of the columns.
    ///
    /// # Errors
    /// A document does not fit the columns.
    pub fn batch(&mut self, documents: &[Document]) -> Result<Vec<u8>, Error> {
        let batch = self.columns.batch(documents)?;
        let buffers = self.encoder.encode(&batch).map_err(|error| broken(&error))?;
        Ok(buffers.iter().flat_map(|buffer| buffer.as_slice()).copied().collect())
    }

    /// Returns the bytes of the end; without any batch, those of a table without rows.
    ///
    /// # Errors
    /// The columns cannot be written.
    pub fn finish(self) -> Result<Vec<u8>, Error> {
        let buffers = self.encoder.finish().map_err(|error| broken(&error))?;
        Ok(buffers.iter().flat_map(|buffer| buffer.as_slice()).copied().collect())
    }
}

fn broken(error: &ArrowError) -> Error {
    Error::value(error.to_string())
}
