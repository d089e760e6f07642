//! The tail: rows that were written and are not sealed yet, in generations.
//!
//! A generation is one small log-structured store of its own, with its own log. Writes go to the newest; when
//! that is full, the next one takes over and the old one is sealed into segments and then dropped whole, log
//! and all. So no row is ever deleted or compacted, and the space of a tail that is drained all the time
//! comes back at once.
//!
//! [`TailRows`] is the seam to the store that is embedded; nothing outside this folder names it.

pub(crate) mod chunk;
mod filter;
mod fjall;
pub(crate) mod journal;
mod keyspace_files;
mod log_file;
mod row;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

pub(crate) use self::fjall::{FjallTails, RowBytes, SharedRow, copy_directory};
pub(crate) use filter::TailFilter;
pub(crate) use journal::LogEntry;
pub(crate) use log_file::{LOG_NAME, LogBatches, LogCut, TailLogFile};
pub(crate) use row::{
    KEY_LIMIT, RowKey, TailRow, TailVersion, damaged_row, encode_fields, encode_put, encode_removed,
    fields_of, fields_of_put, is_removal, row_key,
};

use crate::state::marks::DropMark;
use crate::{CheckFinding, Error};

/// Key and value of a row.
pub(crate) type KeyValue = (Vec<u8>, Vec<u8>);

/// Key and value of a row that is to be added.
pub(crate) type NewRow = (RowBytes, RowBytes);

/// Callback for each row of a range: key, value.
pub(crate) type RowVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error> + 'a;

/// Callback for each row of a range, to keep without a copy.
pub(crate) type SharedRowVisitor<'a> = dyn FnMut(SharedRow) -> Result<ControlFlow<()>, Error> + 'a;

/// One generation's rows.
pub(crate) trait TailRows: Send + Sync {
    /// Adds rows, all or none. When this returns they are as durable as `durability` says, and in every later
    /// snapshot. Their ids are in the filter before any snapshot has them.
    fn append(&self, rows: Vec<NewRow>, durability: RowDurability) -> Result<(), AppendError>;

    /// Makes all rows durable that were added before.
    fn sync(&self) -> Result<(), AppendError>;

    /// The rows as they are now.
    fn snapshot(&self) -> Box<dyn TailSnapshot>;

    /// Filter of the ids that have rows, which is asked before a snapshot is taken.
    fn ids(&self) -> &TailFilter;

    /// Appends marks, each with a time of its own, to the log of the rows, all or none. They are durable when
    /// this returns.
    fn append_marks(&self, marks: Vec<(u64, Vec<u8>)>) -> Result<(), AppendError>;

    /// All marks that were appended, also before the generation was opened.
    fn marks(&self) -> Result<Vec<Vec<u8>>, Error>;
}

/// Durability of rows when they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowDurability {
    /// Synced to the disk: the rows survive a loss of power.
    Synced,
    /// Written to the operating system: the rows survive the end of the process.
    Written,
}

/// The rows of a generation at one instant.
pub(crate) trait TailSnapshot: Sync {
    /// Calls `visit` with the rows from key `from` on, before key `to` (`None`: to the end), in order; they
    /// can be kept without a copy.
    fn shared_range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut SharedRowVisitor<'_>,
    ) -> Result<(), Error>;

    /// Calls `visit` with the same rows.
    fn range(&self, from: &[u8], to: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<(), Error> {
        self.shared_range(from, to, &mut |row| visit(row.key(), row.value()))
    }
}

/// Rows could not be added.
#[derive(Debug, Clone)]
pub(crate) enum AppendError {
    /// No disk space. None of the rows is found at a later start. The generation takes no more rows; another
    /// may.
    Full,
    /// The rows could not be synced. It is unknown which of them are on the disk.
    NotDurable(String),
}

/// The marks that a generation keeps.
pub(crate) fn marks_of(tail: &dyn TailRows) -> Result<Vec<DropMark>, Error> {
    tail.marks()?.iter().map(|bytes| mark_of(bytes)).collect()
}

/// The mark that a generation keeps as these bytes.
pub(crate) fn mark_of(bytes: &[u8]) -> Result<DropMark, Error> {
    let damaged =
        || Error::Tail { action: "read the marks of the tail", reason: "one is not a mark".to_owned() };
    DropMark::decode(bytes).ok_or_else(damaged)
}

/// Makes, opens and drops generations.
pub(crate) trait TailFactory: Send + Sync {
    /// A new generation in a directory that is not there, or is left over and not in use.
    fn create(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error>;

    /// Preallocates the log of a generation that is not yet in use, as far as `bytes` bytes of rows will
    /// reach, until `is_wanted` says that the generation is wanted as it is. If space is allotted already, a
    /// sync waits for its own bytes alone, not for other metadata that the file system writes. Only an
    /// optimisation: write errors are ignored.
    fn lay_out(&self, directory: &Path, bytes: u64, is_wanted: &dyn Fn() -> bool);

    /// A generation that was written before. What a crash left of writes that were not synced is cut
    /// off its log.
    ///
    /// # Errors
    /// The log is damaged where it was acknowledged.
    fn open(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error>;

    /// Reads a generation that is not open anywhere, without changing it. Returns the damage that the next
    /// start repairs by itself.
    ///
    /// # Errors
    /// The log is damaged where it was acknowledged; a row cannot be read.
    fn check(&self, directory: &Path) -> Result<Vec<CheckFinding>, Error>;

    /// Deletes the files of a generation that no one reads any more.
    fn delete(&self, directory: &Path) -> Result<(), Error>;
}
