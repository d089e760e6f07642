use std::io;
use std::path::PathBuf;

/// Why a benchmark cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no benchmark of this name.
    #[error("there is no benchmark '{name}'; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is measured does not work.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// For `map_err` on what is done with a file.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }

    /// For `map_err` on errors of what is measured.
    pub fn failed(error: impl std::fmt::Display) -> Error {
        Error::Failed(error.to_string())
    }
}
