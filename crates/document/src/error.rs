/// What can be wrong with a document, its id, or an operation on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a document id.
    #[error("document id '{id}': {reason}; write id:<namespace>:<type>:[g=<group>|n=<number>]:<name>")]
    Id {
        /// The text as given.
        id: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A value cannot be what the field's type asks for.
    #[error("field '{field}': expected {expected}, got {found}")]
    Type {
        /// The field, with the path inside it.
        field: String,
        /// The type by its schema name.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// The document type has no such field.
    #[error("no field '{field}' in document type '{document_type}'")]
    UnknownField {
        /// The name as given.
        field: String,
        /// The document type.
        document_type: String,
    },
    /// The JSON is malformed, or not an operation.
    #[error("{reason} (line {line}, column {column})")]
    Json {
        /// What is wrong and what was expected.
        reason: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A tensor in the document does not fit its type.
    #[error("field '{field}': {source}")]
    Tensor {
        /// The field.
        field: String,
        /// What is wrong.
        source: millrace_tensor::Error,
    },
    /// An update cannot be applied to the value that is there.
    #[error("update of field '{field}': {reason}")]
    Update {
        /// The field, with the path inside it.
        field: String,
        /// Why, and what would work.
        reason: String,
    },
    /// Bytes of a stored row do not decode.
    #[error("stored row: {0}")]
    Row(&'static str),
}
