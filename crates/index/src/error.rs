use std::io;
use std::path::{Path, PathBuf};

/// Error of a copy of an index.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{action} {}: {reason}", path.display())]
    Io {
        /// Operation, for example `write`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
    /// A file is not as it was written.
    #[error("{} is damaged: {what}; the index is built again from the documents", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damaged part.
        what: &'static str,
    },
    /// A change cannot be indexed.
    #[error("a document or key of {length} bytes is too long for an index: at most {limit}")]
    TooLong {
        /// Length in bytes.
        length: usize,
        /// Maximum.
        limit: usize,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Error::damaged(path, "it ends too early");
        }
        Error::Io { action, path: path.to_owned(), reason: error.to_string() }
    }

    pub(crate) fn damaged(path: &Path, what: &'static str) -> Self {
        Error::Damaged { path: path.to_owned(), what }
    }

    /// True if the copy cannot be used any more, and must be built again.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. })
    }
}
