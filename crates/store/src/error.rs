use std::path::PathBuf;

/// What can go wrong in the store.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More writes are waiting than the queue or the tail holds. Nothing was written; try again shortly.
    #[error("too many writes are waiting; send again after a short while")]
    Overloaded,
    /// Less than the reserve is free, or nothing at all. Removes still work while there is anything.
    #[error("the disk of {path} has {free} bytes free, and {reserve} are kept in reserve; free some, or lower the reserve (disk-reserve, or resource-limits in services.xml)", path = path.display())]
    DiskFull {
        /// The data directory.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes that must stay free.
        reserve: u64,
    },
    /// Work that keeps the store in order found no space on the disk. It goes on by itself when there is
    /// some.
    #[error("{action}: no space is left on the disk ({reason}); free some, and the store goes on by itself")]
    NoSpace {
        /// What was being done.
        action: String,
        /// What the system said, or how much is free.
        reason: String,
    },
    /// A write could not be made durable, so no later one can be promised either. What was acknowledged
    /// before is safe.
    #[error(
        "writes are refused since one could not be made durable ({reason}); check the disk and start again"
    )]
    Poisoned {
        /// What the system said.
        reason: String,
    },
    /// Bytes in a file are not those that were written.
    #[error("{path}: damaged at byte {offset}: {reason}; restore the file, or run `millrace doctor`", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What does not fit.
        reason: String,
    },
    /// The system refused.
    #[error("{action}: {reason}")]
    Io {
        /// What was being done, and to which file.
        action: String,
        /// What the system said.
        reason: String,
    },
    /// The embedded log-structured store failed.
    #[error("{action}: {reason}")]
    Tail {
        /// What was being done.
        action: &'static str,
        /// What it said.
        reason: String,
    },
    /// The data directory is not one, is of another format version, or is in use.
    #[error("{path}: {reason}", path = path.display())]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The document's id is longer than keys can be.
    #[error("document id of {length} bytes: ids are stored up to {limit} bytes; shorten it")]
    IdTooLong {
        /// Bytes of the key that it makes.
        length: usize,
        /// The most there can be.
        limit: usize,
    },
    /// A version of a document that came with its timestamp is none. Nothing that came with it was written.
    #[error("version of {id}: {reason}; nothing of what came with it was written")]
    Version {
        /// Of which document.
        id: String,
        /// What is wrong.
        reason: String,
    },
    /// A modification refused the document that it found.
    #[error("{0}")]
    Refused(crate::WriteRefusal),
    /// The continuation is not one that a visit returned.
    #[error("the continuation is not one that a visit returned; begin the visit again without one")]
    Continuation,
    /// A timestamp of another machine is too far ahead of this machine's clock. Nothing that came with it was
    /// written.
    #[error(
        "a timestamp is {ahead_s} seconds ahead of this machine's clock, and at most {limit_s} are taken; \
         set the clock of the machine that it came from, or of this one"
    )]
    ClockAhead {
        /// Seconds that it is ahead.
        ahead_s: u64,
        /// The most that are taken.
        limit_s: u64,
    },
    /// A bug: work panicked. What it worked on is as it was.
    #[error("{work}: a bug: {reason}; please report it, with the lines of the log")]
    Panicked {
        /// What was being done.
        work: &'static str,
        /// The message of the panic.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    pub(crate) fn io(action: &str, error: &std::io::Error) -> Self {
        let (action, reason) = (action.to_owned(), error.to_string());
        if is_no_space(error) { Error::NoSpace { action, reason } } else { Error::Io { action, reason } }
    }
}

impl From<millrace_segment::Error> for Error {
    fn from(error: millrace_segment::Error) -> Self {
        match error {
            millrace_segment::Error::Corrupt { path, offset, reason } => {
                Error::Corrupt { path, offset, reason: reason.to_owned() }
            }
            millrace_segment::Error::Io(error) => Error::io("read or write a segment", &error),
            other => Error::Io { action: "segment".to_owned(), reason: other.to_string() },
        }
    }
}

/// Whether the system refused because there is no space: on the disk, for this user, or for this file.
pub(crate) fn is_no_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
