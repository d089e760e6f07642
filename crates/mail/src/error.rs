use std::io;
use std::path::PathBuf;

/// Errors of an import: of one message, or of the whole import.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The archive cannot be read; nothing further of this file follows.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// One message cannot be used; the import continues with the next.
    #[error("{place}: {reason}")]
    Message {
        /// The file, and the position of the message in it.
        place: String,
        /// Reason.
        reason: &'static str,
    },
    /// A name that cannot be the group of a document id.
    #[error("'{0}' cannot be a group: use a name without ':', white space and control characters")]
    Group(String),
}
