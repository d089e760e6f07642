use std::io;
use std::path::PathBuf;

/// Why a message was left out of an import, or why the import ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The archive cannot be read; nothing more comes of this file.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// One message cannot be used; the import goes on with the next.
    #[error("{place}: {reason}")]
    Message {
        /// The file, and where in it the message is.
        place: String,
        /// Why.
        reason: &'static str,
    },
    /// A name that cannot be the group of a document id.
    #[error("'{0}' cannot be a group: use a name without ':', white space and control characters")]
    Group(String),
}
