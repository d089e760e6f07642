use crate::json::FeedPosition;

/// Error in a document, its id, or an operation on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a document id.
    #[error("document id '{id}': {reason}; write id:<namespace>:<type>:[g=<group>|n=<number>]:<name>")]
    Id {
        /// The text as given.
        id: String,
        /// Cause of the error.
        reason: &'static str,
    },
    /// The document type does not have this field.
    #[error(
        "Field '{field}' is not defined in document type '{document_type}', which has {known} (line {line}, column {column})"
    )]
    UnknownField {
        /// The name as given.
        field: String,
        /// The document type.
        document_type: String,
        /// Some of the existing field names, and a hint if indexing statements make the field.
        known: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// The value of a field does not fit its type.
    #[error("field '{field}': {reason} (line {line}, column {column})")]
    Field {
        /// The field, with the path inside it.
        field: String,
        /// Actual and expected value, with an example.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// The JSON is malformed, or not an operation.
    #[error("{reason} (line {line}, column {column})")]
    Json {
        /// Cause, and the expected text.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A text or a value does not fit its type. The caller adds the field and the position.
    #[error("{0}")]
    Value(String),
    /// A field path is malformed, or does not exist in the document type.
    #[error("field path '{path}': {reason}; write for example field, map{{key}}, array[0] or struct.member")]
    Path {
        /// The text as given.
        path: String,
        /// Cause of the error.
        reason: String,
    },
    /// The text is not a field set.
    #[error("field set '{text}': write [all], [document], [id], [none], or <type>:<field>,<field>")]
    FieldSet {
        /// The text as given.
        text: String,
    },
    /// An update cannot be applied to the existing value.
    #[error("update of field '{field}': {reason}")]
    Update {
        /// The field, with the path inside it.
        field: String,
        /// Cause and remedy.
        reason: String,
    },
    /// One operation of a feed cannot be read; reading can continue after it.
    #[error("{position}: {reason}")]
    Operation {
        /// Position in the feed.
        position: FeedPosition,
        /// Cause, and the expected text.
        reason: String,
    },
    /// Reading of a feed cannot continue.
    #[error("{position}: {reason}")]
    Feed {
        /// Position in the feed.
        position: FeedPosition,
        /// Cause, and the expected text.
        reason: String,
    },
    /// The bytes of a stored row cannot be decoded.
    #[error("stored row: {0}")]
    Row(&'static str),
}

impl Error {
    /// A text or a value that does not fit its type: actual and expected value, with an example.
    pub(crate) fn value(reason: impl Into<String>) -> Self {
        Error::Value(reason.into())
    }
}
