use millrace_column::ReadError;

/// Why a plan could not be matched to the end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A pattern that is no regular expression, or one that would take too much memory.
    #[error("the regular expression '{pattern}' of field '{field}' cannot be used: {reason}")]
    Pattern {
        /// The field.
        field: String,
        /// The expression as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The plan names a field that its schema has not, or asks of it what its type has not.
    #[error("field '{field}' of schema '{schema}' cannot be matched: {reason}")]
    Field {
        /// The field.
        field: String,
        /// The schema.
        schema: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A chunk has more documents than a chunk may have.
    #[error("chunk {chunk} has {documents} documents, more than a chunk may have")]
    Chunk {
        /// Its number in the view.
        chunk: usize,
        /// How many it says it has.
        documents: usize,
    },
}
