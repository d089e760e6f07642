use std::io;
use std::path::{Path, PathBuf};

/// Errors of segment files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not those that were written.
    #[error("{path}: damaged at byte {offset}: {reason}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// Reason.
        reason: &'static str,
    },
    /// The file has a version that this program does not know.
    #[error("{path}: format version {version} is newer than this program; use the program that wrote it", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Version in the file.
        version: u32,
    },
    /// The system refused; the error names the file.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Error {
    pub(crate) fn corrupt(path: &Path, offset: u64, reason: &'static str) -> Self {
        Error::Corrupt { path: path.to_owned(), offset, reason }
    }
}
