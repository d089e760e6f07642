use std::io;
use std::path::{Path, PathBuf};

use crate::ParcelPosition;

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
    /// A copy is read by as many as it allows.
    #[error("the copy in {} is sent to {limit} others already; try again when one of them has it", path.display())]
    ExportsBusy {
        /// Directory of the copy.
        path: PathBuf,
        /// Maximum number of exports.
        limit: usize,
    },
    /// Bytes of a transfer are not as they were sent.
    #[error("a {part} of a copy of an index is damaged or incomplete; ask for it again")]
    DamagedTransfer {
        /// The damaged part.
        part: &'static str,
    },
    /// A copy is of another index than the one that is wanted.
    #[error(
        "a copy of definition {found:016x} is offered, and {wanted:016x} is wanted; \
         take another copy, or build the index from the documents"
    )]
    OtherDefinition {
        /// Hash of the definition of the copy that is offered.
        found: u64,
        /// Hash of the definition that is wanted.
        wanted: u64,
    },
    /// A copy may lack documents of the slice that is wanted.
    #[error(
        "the copy that is offered is of other documents; take one whose slice has all that are wanted, \
         or build the index from the documents"
    )]
    OtherSlice,
    /// A parcel is not the next one.
    #[error("{found} is not the next parcel of the copy: ask for {}", wanted_position(wanted))]
    OtherParcel {
        /// Place of the parcel.
        found: ParcelPosition,
        /// Place of the next one; `None`: all have come.
        wanted: Option<ParcelPosition>,
    },
    /// An import is not complete.
    #[error("the copy in {} lacks parcels: ask for {next}", directory.display())]
    Unfinished {
        /// Directory of the copy.
        directory: PathBuf,
        /// Place of the next parcel.
        next: ParcelPosition,
    },
    /// A file of the copy that is offered was damaged before it was sent.
    #[error(
        "run {run} of the copy that is offered is damaged: {what}; check that copy, and take another one, \
         or build the index from the documents"
    )]
    DamagedSource {
        /// Number of the run in the header.
        run: u32,
        /// The damaged part.
        what: &'static str,
    },
    /// A copy, or a file of one, does not fit on the disk.
    #[error("{} has room for {free} bytes, and {needed} are to be written; make room, and it goes on", path.display())]
    NoSpace {
        /// Directory of the copy.
        path: PathBuf,
        /// Bytes that have yet to be written.
        needed: u64,
        /// Bytes that can be written.
        free: u64,
    },
}

fn wanted_position(wanted: &Option<ParcelPosition>) -> String {
    wanted.map_or("none, since all have come".to_owned(), |position| position.to_string())
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Error::damaged(path, "it ends too early");
        }
        let (said, place) = (error.to_string(), format!("{action} {}: ", path.display()));
        // The disk names operation and file, too.
        let mut reason = said.strip_prefix(&place).unwrap_or(&said).to_owned();
        if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
            reason.push_str("; let the user of the server read and write it");
        }
        Error::Io { action, path: path.to_owned(), reason }
    }

    pub(crate) fn damaged(path: &Path, what: &'static str) -> Self {
        Error::Damaged { path: path.to_owned(), what }
    }

    /// True if the copy cannot be used any more, and must be built again.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. })
    }
}
