use millrace_schema::{PackageMistake, SourcePosition};

/// Error in a rule base.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A rule base does not follow the syntax.
    #[error("{place}: Could not parse rule '{}': {reason}", rule_base(place))]
    Syntax {
        /// Location of the error.
        place: SourcePosition,
        /// Expected and actual text, with the correct form.
        reason: String,
    },
    /// The syntax is valid, but the rule base cannot work.
    #[error("{place}: {reason}")]
    Invalid {
        /// Location of the error.
        place: SourcePosition,
        /// Cause and remedy.
        reason: String,
    },
}

/// Name of the rule base in a file.
fn rule_base(place: &SourcePosition) -> &str {
    let file = place.file.rsplit('/').next().unwrap_or_default();
    file.strip_suffix(".sr").unwrap_or(file)
}

impl From<Error> for PackageMistake {
    fn from(error: Error) -> Self {
        let (Error::Syntax { place, .. } | Error::Invalid { place, .. }) = &error;
        PackageMistake::new(Some(place), &error)
    }
}
