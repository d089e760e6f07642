use millrace_column::ReadError;

/// Error while matching a plan.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An invalid regular expression, or one that would take too much memory.
    #[error("the regular expression '{pattern}' of field '{field}' cannot be used: {reason}")]
    Pattern {
        /// Name of the field.
        field: String,
        /// The expression as given.
        pattern: String,
        /// Cause of the error.
        reason: String,
    },
    /// The plan refers to a field that the schema does not have, or uses it in a way that its type does not
    /// support.
    #[error("field '{field}' of schema '{schema}' cannot be matched: {reason}")]
    Field {
        /// Name of the field.
        field: String,
        /// Name of the schema.
        schema: String,
        /// Cause of the error.
        reason: &'static str,
    },
    /// The matches take too much memory.
    #[error(transparent)]
    Memory(#[from] millrace_plan::QueryMemoryError),
    /// A chunk exceeds the maximum number of documents.
    #[error("chunk {chunk} has {documents} documents, more than a chunk may have")]
    Chunk {
        /// Index of the chunk in the view.
        chunk: usize,
        /// Its stated number of documents.
        documents: usize,
    },
}
