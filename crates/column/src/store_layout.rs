use millrace_document::{DataType, EncodedDocument};

use crate::{Column, ColumnKey, Compression};

/// A store's interface to schemas: the columns of a document type, and the conversion of documents to
/// columns.
pub trait StoreLayout: Send + Sync {
    /// Columns to keep for documents of this type, sorted, without those that belong to no field; `None`: the
    /// type is unknown, and its documents are kept as they are.
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>>;

    /// Builds one column of these documents. A document without the field is absent in the column.
    ///
    /// # Errors
    /// A value cannot be read.
    fn build(
        &self,
        document_type: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error>;

    /// Builds a derived column (a form other than the value) from the value column, for a segment that lacks
    /// it; `None` if it cannot be built.
    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column>;

    /// Compression of a column of a field in files. Default: none.
    fn compression(&self, _document_type: &str, _key: &ColumnKey) -> Compression {
        Compression::None
    }

    /// Data type of a field, to convert value columns back into documents; `None` for an unknown field.
    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType>;
}
