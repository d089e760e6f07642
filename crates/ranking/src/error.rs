use millrace_column::ReadError;
use millrace_schema::{Mistake, Place};

/// Why a rank profile is refused, or ranking ended early.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The profile cannot work; found at deployment.
    #[error("{place}: rank profile {profile}: {reason}")]
    Profile {
        /// Where in the application package.
        place: Place,
        /// The profile.
        profile: String,
        /// The file of the package that is to blame, where it is a model that cannot be read.
        file: Option<String>,
        /// What was expected and found, and what would work.
        reason: String,
    },
    /// A constant is no value of its type.
    #[error("{place}: constant({name}) {tensor_type}: {reason}")]
    Constant {
        /// Where in the application package: its literal, or its file.
        place: Place,
        /// The constant.
        name: String,
        /// Its type.
        tensor_type: String,
        /// What was expected and found.
        reason: String,
    },
    /// The schema has no such profile.
    #[error("schema {schema} has no rank profile '{profile}'; it has {known}")]
    UnknownProfile {
        /// The schema.
        schema: String,
        /// The name asked for.
        profile: String,
        /// The names it has.
        known: String,
    },
    /// A model has too much to do.
    #[error("{0}")]
    Overloaded(String),
    /// A model that worked at deployment cannot run any more.
    #[error("{0}")]
    Model(String),
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// The file of the package that is to blame, where it is a model that cannot be read.
    pub fn file(&self) -> Option<&str> {
        match self {
            Error::Profile { file, .. } => file.as_deref(),
            _ => None,
        }
    }
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        let place = match &error {
            Error::Profile { place, .. } | Error::Constant { place, .. } => Some(place),
            Error::UnknownProfile { .. } | Error::Overloaded(_) | Error::Model(_) | Error::Read(_) => None,
        };
        Mistake::new(place, &error)
    }
}
