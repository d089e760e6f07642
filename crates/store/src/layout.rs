use millrace_column::{Column, ColumnKey};
use millrace_document::{DataType, Document};

/// What the store has to know of schemas: which columns there are, and how documents become columns.
pub trait Layout: Send + Sync {
    /// The columns to keep for documents of this type, sorted, without those of no field; `None`: the type is unknown, and its
    /// documents are kept as they are.
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>>;

    /// Builds one column of these documents. A document without the field is absent in the column.
    fn build(&self, document_type: &str, key: &ColumnKey, documents: &[&Document]) -> Column;

    /// Builds a derived column (a form other than the value) from the value column, for a segment that lacks it; `None` when it
    /// cannot be built.
    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column>;

    /// The data type of a field, to turn value columns back into documents; `None` for an unknown field.
    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType>;
}
