use millrace_schema::{Mistake, Place};

/// What is wrong with a rule base.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rule base does not follow the syntax.
    #[error("{place}: {reason}")]
    Syntax {
        /// Where.
        place: Place,
        /// What was expected and found, and how it is written right.
        reason: String,
    },
    /// The syntax is right, but it cannot work.
    #[error("{place}: {reason}")]
    Invalid {
        /// Where.
        place: Place,
        /// Why, and what would work.
        reason: String,
    },
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        let (Error::Syntax { place, .. } | Error::Invalid { place, .. }) = &error;
        Mistake::new(Some(place), &error)
    }
}
