use std::io;
use std::path::PathBuf;

/// Errors of benchmarks.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No benchmark with this name.
    #[error("no benchmark '{name}'; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Existing names.
        known: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The measured operation fails.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Adapter for `map_err` on file operations.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }

    /// Adapter for `map_err` on errors of the measured operation.
    pub fn failed(error: impl std::fmt::Display) -> Error {
        Error::Failed(error.to_string())
    }
}
