/// What can be wrong with a grouping request, or with what it reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text does not follow the grouping language.
    #[error("grouping, line {line}, column {column}: {reason}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What was expected and found, and how it is written right.
        reason: String,
    },
    /// The text is right, but cannot be done with this schema or these settings.
    #[error("grouping: {0}")]
    Invalid(String),
    /// A column cannot be read.
    #[error("grouping: {0}")]
    Read(String),
}

impl Error {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Error::Invalid(reason.into())
    }
}
