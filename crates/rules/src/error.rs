use millrace_schema::{PackageMistake, SourcePosition};

/// Error in a rule base.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A rule base does not follow the syntax.
    #[error("{position}: Could not parse rule '{}': {reason}", rule_base(position))]
    Syntax {
        /// Location of the error.
        position: SourcePosition,
        /// Expected and actual text, with the correct form.
        reason: String,
    },
    /// The syntax is valid, but the rule base cannot work.
    #[error("{position}: {reason}")]
    Invalid {
        /// Location of the error.
        position: SourcePosition,
        /// Cause and remedy.
        reason: String,
    },
}

/// Name of the rule base in a file.
fn rule_base(position: &SourcePosition) -> &str {
    let file = position.file.rsplit('/').next().unwrap_or_default();
    file.strip_suffix(".sr").unwrap_or(file)
}

impl From<Error> for PackageMistake {
    fn from(error: Error) -> Self {
        let (Error::Syntax { position, .. } | Error::Invalid { position, .. }) = &error;
        PackageMistake::new(Some(position), &error)
    }
}
