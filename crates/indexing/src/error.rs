use millrace_schema::{Mistake, Place};

use crate::Failure;

/// Why indexing statements are refused, or a document cannot be processed by them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The statements do not follow the language, or cannot work on the schema.
    #[error("{place}: field '{field}': indexing: {reason}")]
    Script {
        /// Where.
        place: Place,
        /// The field whose statements these are.
        field: String,
        /// What was expected and found, and what would work.
        reason: String,
    },
    /// The statements failed on this document.
    #[error("field '{field}': indexing: {reason}")]
    Document {
        /// The field whose statements these are.
        field: String,
        /// What the value is, and what it should be.
        reason: String,
    },
    /// A component that the statements call gave nothing.
    #[error("field '{field}': indexing: {failure}")]
    Component {
        /// The field whose statements these are.
        field: String,
        /// Why.
        failure: Failure,
    },
}

impl Error {
    /// The field whose statements these are.
    pub fn field(&self) -> &str {
        let (Error::Script { field, .. } | Error::Document { field, .. } | Error::Component { field, .. }) =
            self;
        field
    }
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        let place = match &error {
            Error::Script { place, .. } => Some(place),
            Error::Document { .. } | Error::Component { .. } => None,
        };
        Mistake::new(place, &error)
    }
}
