use millrace_schema::Place;

/// Why the rule bases of a package are refused.
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
