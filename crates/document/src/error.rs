use crate::json::Place;

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
    /// The document type has no such field.
    #[error(
        "Field '{field}' is not defined in document type '{document_type}', which has {known} (line {line}, column {column})"
    )]
    UnknownField {
        /// The name as given.
        field: String,
        /// The document type.
        document_type: String,
        /// The names of fields that there are, some of them.
        known: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// The value of a field is not what its type asks for.
    #[error("field '{field}': {reason} (line {line}, column {column})")]
    Field {
        /// The field, with the path inside it.
        field: String,
        /// What was found, what was expected, and an example.
        reason: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
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
    /// The text of a field path could not be understood, or leads nowhere in the document type.
    #[error("field path '{path}': {reason}; write for example field, map{{key}}, array[0] or struct.member")]
    Path {
        /// The text as given.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The text is no field set.
    #[error("field set '{text}': write [all], [document], [id], [none], or <type>:<field>,<field>")]
    FieldSet {
        /// The text as given.
        text: String,
    },
    /// An update cannot be applied to the value that is there.
    #[error("update of field '{field}': {reason}")]
    Update {
        /// The field, with the path inside it.
        field: String,
        /// Why, and what would work.
        reason: String,
    },
    /// One operation of a feed cannot be read; those after it can.
    #[error("{place}: {reason}")]
    Operation {
        /// Where in the feed.
        place: Place,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// A feed cannot be read on.
    #[error("{place}: {reason}")]
    Feed {
        /// Where in the feed.
        place: Place,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// Bytes of a stored row do not decode.
    #[error("stored row: {0}")]
    Row(&'static str),
}
