use std::fmt;

/// A location in a file of the application package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SourcePosition {
    /// Path in the package.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

impl SourcePosition {
    /// First position of a file.
    pub fn start_of(file: &str) -> Self {
        SourcePosition { file: file.to_owned(), line: 1, column: 1 }
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An error in an application package, or in a request checked by its query profiles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file does not follow its syntax.
    #[error("{position}: {reason}")]
    Syntax {
        /// Location of the error.
        position: SourcePosition,
        /// Expected and actual text, with the correct form.
        reason: String,
    },
    /// The syntax is valid, but the content cannot work.
    #[error("{position}: {reason}")]
    Invalid {
        /// Location of the error.
        position: SourcePosition,
        /// Cause and remedy.
        reason: String,
    },
    /// A request contains a parameter that a query profile does not permit.
    #[error("parameter '{name}': {reason}")]
    Parameter {
        /// Name of the parameter.
        name: String,
        /// Cause and remedy.
        reason: String,
    },
    /// The archive cannot be read.
    #[error("application package: {0}")]
    Package(String),
    /// The change from the running application needs an explicit permission.
    #[error("{reason}; to allow it, add <allow until='YYYY-MM-DD'>{id}</allow> to validation-overrides.xml")]
    Override {
        /// Validation id.
        id: &'static str,
        /// Description of the change.
        reason: String,
    },
}

impl Error {
    /// Location in the package; `None` if it is not in a single file.
    pub fn position(&self) -> Option<&SourcePosition> {
        match self {
            Error::Syntax { position, .. } | Error::Invalid { position, .. } => Some(position),
            Error::Parameter { .. } | Error::Package(_) | Error::Override { .. } => None,
        }
    }
}
