use millrace_schema::{PackageMistake, SourcePosition};

use crate::ComponentFailure;

/// Error in indexing statements, or in a document that they process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The statements do not follow the syntax, or do not fit the schema.
    #[error("{position}: field '{field}': indexing: {reason}")]
    Script {
        /// Location of the error.
        position: SourcePosition,
        /// Field of the statements.
        field: String,
        /// Expected and actual text, with a remedy.
        reason: String,
    },
    /// The statements failed on this document.
    #[error("field '{field}': indexing: {reason}")]
    Document {
        /// Field of the statements.
        field: String,
        /// Actual and expected value.
        reason: String,
    },
    /// A component used by the statements failed.
    #[error("field '{field}': indexing: {failure}")]
    Component {
        /// Field of the statements.
        field: String,
        /// Cause of the failure.
        failure: ComponentFailure,
    },
}

/// Reason why statements fail on a value. The field is added by the code that runs them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StatementFailure {
    /// The value does not fit.
    #[error("{0}")]
    Value(String),
    /// A component failed.
    #[error(transparent)]
    Component(#[from] ComponentFailure),
}

impl From<millrace_document::Error> for StatementFailure {
    fn from(error: millrace_document::Error) -> Self {
        StatementFailure::Value(error.to_string())
    }
}

impl StatementFailure {
    /// A value that does not fit: actual and expected value.
    pub fn value(reason: impl Into<String>) -> Self {
        StatementFailure::Value(reason.into())
    }
}

impl Error {
    /// Error of statements that failed on a document.
    pub(crate) fn failed(field: &str, failure: StatementFailure) -> Self {
        let field = field.to_owned();
        match failure {
            StatementFailure::Value(reason) => Error::Document { field, reason },
            StatementFailure::Component(failure) => Error::Component { field, failure },
        }
    }

    /// Field of the statements.
    pub fn field(&self) -> &str {
        let (Error::Script { field, .. } | Error::Document { field, .. } | Error::Component { field, .. }) =
            self;
        field
    }
}

impl From<Error> for PackageMistake {
    fn from(error: Error) -> Self {
        let position = match &error {
            Error::Script { position, .. } => Some(position),
            Error::Document { .. } | Error::Component { .. } => None,
        };
        PackageMistake::new(position, &error)
    }
}
