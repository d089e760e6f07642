use millrace_column::ReadError;
use millrace_expression::ExpressionFault;
use millrace_schema::{PackageMistake, SourcePosition};

/// Error in a rank profile, or during ranking.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The profile is invalid. Reported at deployment.
    #[error("{position}: rank profile {profile}: {reason}")]
    Profile {
        /// Location in the application package.
        position: SourcePosition,
        /// Name of the profile.
        profile: String,
        /// The file at fault, if a model could not be read.
        file: Option<String>,
        /// Expected and actual value, with a remedy.
        reason: String,
    },
    /// A feature, property or model of a profile is invalid. The compiler of the profile adds the location.
    #[error("{0}")]
    Setup(String),
    /// A constant is not a value of its type.
    #[error("{position}: constant({name}) {tensor_type}: {reason}")]
    Constant {
        /// Location in the application package: the literal or the file.
        position: SourcePosition,
        /// Name of the constant.
        name: String,
        /// Declared type.
        tensor_type: String,
        /// Expected and actual value.
        reason: String,
    },
    /// The schema does not have this profile.
    #[error("schema {schema} has no rank profile '{profile}'; it has {known}")]
    UnknownProfile {
        /// Name of the schema.
        schema: String,
        /// The requested profile.
        profile: String,
        /// The existing profiles.
        known: String,
    },
    /// The features of hits take too much memory.
    #[error(transparent)]
    Memory(#[from] millrace_plan::QueryMemoryError),
    /// The queue of a model is full.
    #[error("{0}")]
    Overloaded(String),
    /// A model that worked at deployment no longer runs.
    #[error("{0}")]
    Model(String),
    /// A column could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// Error in a feature, a property or a model: expected and actual value, with a remedy.
    pub fn setup(reason: impl Into<String>) -> Self {
        Error::Setup(reason.into())
    }

    /// The message without the location in the application package, for an error that has one of its own.
    pub(crate) fn reason(&self) -> String {
        match self {
            Error::Profile { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// The package file at fault, if a model could not be read.
    pub fn file(&self) -> Option<&str> {
        match self {
            Error::Profile { file, .. } => file.as_deref(),
            _ => None,
        }
    }
}

impl From<ExpressionFault> for Error {
    fn from(fault: ExpressionFault) -> Self {
        Error::Setup(fault.into())
    }
}

impl From<Error> for ExpressionFault {
    fn from(error: Error) -> Self {
        ExpressionFault::new(error.to_string())
    }
}

impl From<Error> for PackageMistake {
    fn from(error: Error) -> Self {
        let position = match &error {
            Error::Profile { position, .. } | Error::Constant { position, .. } => Some(position),
            Error::Setup(_)
            | Error::UnknownProfile { .. }
            | Error::Overloaded(_)
            | Error::Model(_)
            | Error::Memory(_)
            | Error::Read(_) => None,
        };
        PackageMistake::new(position, &error)
    }
}
