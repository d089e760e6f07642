use std::fmt;

/// A place in a file of the application package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The path in the package.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

impl Place {
    /// The first place of a file.
    pub fn start_of(file: &str) -> Self {
        Place { file: file.to_owned(), line: 1, column: 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One thing that is wrong with an application package, or with a request by its query profiles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file does not follow its syntax.
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
    /// A request has what a query profile does not permit.
    #[error("parameter '{name}': {reason}")]
    Parameter {
        /// The parameter.
        name: String,
        /// What is wrong, and what would work.
        reason: String,
    },
    /// The archive cannot be read.
    #[error("application package: {0}")]
    Package(String),
    /// The change from the running application needs an explicit permission.
    #[error("{reason}; to allow it, add <allow until='YYYY-MM-DD'>{id}</allow> to validation-overrides.xml")]
    Override {
        /// The validation id.
        id: &'static str,
        /// What would change.
        reason: String,
    },
}

impl Error {
    /// Where in the package it is; none where it is not in one file.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Error::Syntax { place, .. } | Error::Invalid { place, .. } => Some(place),
            Error::Parameter { .. } | Error::Package(_) | Error::Override { .. } => None,
        }
    }
}
