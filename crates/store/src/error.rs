use std::path::PathBuf;

/// Errors of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// More writes are waiting than the queue or the tail holds. Nothing was written; retry shortly.
    #[error("too many writes are waiting; send again after a short while")]
    Overloaded,
    /// Less than the reserve is free, or nothing at all. Removes still work while any space is free.
    #[error("the disk of {path} has {free} bytes free, and {reserve} are kept in reserve; free some, or lower the reserve (disk-reserve, or resource-limits in services.xml)", path = path.display())]
    DiskFull {
        /// The data directory.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes that must stay free.
        reserve: u64,
    },
    /// Background work of the store found no free space on the disk. It resumes by itself once there is some.
    #[error("{action}: no space is left on the disk ({reason}); free some, and the store goes on by itself")]
    NoSpace {
        /// The failed operation.
        action: String,
        /// The error of the system, or the amount of free space.
        reason: String,
    },
    /// A write could not be made durable, so no later one can be promised either. Writes acknowledged before
    /// are safe.
    #[error(
        "writes are refused since one could not be made durable ({reason}); check the disk and start again"
    )]
    Poisoned {
        /// The error of the system.
        reason: String,
    },
    /// Bytes in a file differ from those that were written.
    #[error("{path}: damaged at byte {offset}: {reason}; restore the file, or run `millrace doctor`", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// Description of the mismatch.
        reason: String,
    },
    /// The system refused an operation.
    #[error("{action}: {reason}")]
    Io {
        /// The failed operation and its file.
        action: String,
        /// The error of the system.
        reason: String,
    },
    /// The embedded log-structured store failed.
    #[error("{action}: {reason}")]
    Tail {
        /// The failed operation.
        action: &'static str,
        /// The error of the embedded store.
        reason: String,
    },
    /// The path is not a data directory, has another format version, is in use, or lacks space for an
    /// upgrade.
    #[error("{path}: {reason}", path = path.display())]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// The error and its remedy.
        reason: String,
    },
    /// A time cannot be restored from the snapshots and the kept logs of a data directory.
    #[error("{path}: {reason}", path = path.display())]
    PointInTime {
        /// The data directory.
        path: PathBuf,
        /// The error and its remedy.
        reason: String,
    },
    /// The text is not a name of a snapshot.
    #[error(
        "'{name}' does not name a snapshot: take 1 to 64 letters, digits, '-' and '_', the first a letter or a digit"
    )]
    SnapshotName {
        /// The text.
        name: String,
    },
    /// Another snapshot with this name.
    #[error("there is a snapshot '{name}' already; choose another name, or delete that one first")]
    SnapshotExists {
        /// The name.
        name: String,
    },
    /// The file system of the data directory cannot give a file a second name.
    #[error(
        "{path}: the file system has no hard links, or no more of them ({reason}), and snapshots are made of them; move the \
         data directory to one that has, such as ext4 or xfs, or copy the directory of a stopped node", path = path.display()
    )]
    NoHardLinks {
        /// The directory of the snapshot.
        path: PathBuf,
        /// The error of the system.
        reason: String,
    },
    /// The document's id is too long for a key.
    #[error("document id of {length} bytes: ids are stored up to {limit} bytes; shorten it")]
    IdTooLong {
        /// Length of the resulting key in bytes.
        length: usize,
        /// Maximum length in bytes.
        limit: usize,
    },
    /// A version of a document that came with its timestamp is invalid. Nothing that came with it was
    /// written.
    #[error("version of {id}: {reason}; nothing of what came with it was written")]
    Version {
        /// Id of the document.
        id: String,
        /// Description of the error.
        reason: String,
    },
    /// A modification refused the document it was applied to.
    #[error("{0}")]
    Refused(crate::WriteRefusal),
    /// The continuation was not returned by a visit.
    #[error("the continuation is not one that a visit returned; begin the visit again without one")]
    Continuation,
    /// A timestamp of another machine is too far ahead of this machine's clock. Nothing that came with it was
    /// written.
    #[error(
        "a timestamp is {ahead_s} seconds ahead of this machine's clock, and at most {limit_s} are taken; \
         set the clock of the machine that it came from, or of this one"
    )]
    ClockAhead {
        /// Lead over this machine's clock in seconds.
        ahead_s: u64,
        /// Maximum accepted lead in seconds.
        limit_s: u64,
    },
    /// A bug: an operation panicked. The data it worked on is unchanged.
    #[error("{work}: a bug: {reason}; please report it, with the lines of the log")]
    Panicked {
        /// The operation that panicked.
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
        let (action, mut reason) = (action.to_owned(), error.to_string());
        if is_no_space(error) {
            return Error::NoSpace { action, reason };
        }
        if is_forbidden(error) {
            reason.push_str("; let the user of the server read and write it");
        }
        Error::Io { action, reason }
    }
}

impl From<millrace_segment::Error> for Error {
    fn from(error: millrace_segment::Error) -> Self {
        match error {
            millrace_segment::Error::Corrupt { path, offset, reason } => {
                Error::Corrupt { path, offset, reason: reason.to_owned() }
            }
            millrace_segment::Error::Io(error) => Error::io("read or write a segment", &error),
            other @ millrace_segment::Error::Version { .. } => {
                Error::Io { action: "segment".to_owned(), reason: other.to_string() }
            }
        }
    }
}

/// Returns true if the system refused for lack of a right.
fn is_forbidden(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Returns true if the system refused for lack of space: on the disk, for this user, or for this file.
pub(crate) fn is_no_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
