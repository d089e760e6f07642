/// Error in a grouping request, or while reading its columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not follow the grouping language.
    #[error("grouping, line {line}, column {column}: {reason}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Expected and actual text, with the correct form.
        reason: String,
    },
    /// The request is invalid for this schema or these settings.
    #[error("grouping: {0}")]
    Invalid(String),
    /// A column could not be read.
    #[error("grouping: {0}")]
    Read(String),
}

impl Error {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Error::Invalid(reason.into())
    }
}
