use millrace_column::ReadError;

/// Error in a grouping request.
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
}

/// Failure of a checked request, for a reason that lies in the documents or in their place.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GroupingFailure {
    /// A column could not be read.
    #[error("grouping: {0}")]
    Read(#[from] ReadError),
    /// The documents fall into more groups than one request keeps in memory.
    #[error(
        "grouping: the documents fall into more than {limit} groups, and all are kept in memory until the first of them are known; \
         group by something that more documents share, as with fixedwidth(…) or predefined(…), or search fewer documents"
    )]
    TooManyGroups {
        /// Maximum number of groups.
        limit: usize,
    },
    /// The groups that another node has collected are those of another request.
    #[error(
        "grouping: a node has answered another request than the one that was asked; do all nodes run the same version?"
    )]
    OtherRequest,
}

impl Error {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Error::Invalid(reason.into())
    }
}
