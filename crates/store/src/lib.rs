//! The documents of all buckets: written, sealed, read, merged.
mod check;
mod error;
mod layout;
mod options;
mod status;
mod visit;
mod write;

use std::path::Path;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_column::View;
use millrace_document::{Document, DocumentId, Group, Timestamp};

pub use check::{Finding, Report};
pub use error::Error;
pub use layout::Layout;
pub use options::Options;
pub use status::Status;
pub use visit::{ViewScope, Visit, VisitPage, Visited};
pub use write::{Change, Modification, Modify, Refusal, Write, Written};

/// The documents of a data directory. Clones share it.
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens the store of a data directory, which only one process can have open.
    ///
    /// # Errors
    /// The directory cannot be read, is damaged, or is in use.
    pub fn open(_options: Options, _layout: Arc<dyn Layout>) -> Result<Store, Error> {
        Err(Error::Closed)
    }

    /// From now on, documents are laid out so.
    pub fn set_layout(&self, _layout: Arc<dyn Layout>) {}

    /// Writes; `done` is called when the write is durable and visible to every later view, or has failed. It is called on a
    /// thread that other writes wait for (or on this one, when refused at once), so it should only hand the answer on.
    pub fn write(&self, _write: Write, done: impl FnOnce(Result<Written, Error>) + Send + 'static) {
        done(Err(Error::Closed));
    }

    /// The document of this id and when it was written; `None` when there is none.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn get(&self, _id: &DocumentId) -> Result<Option<(Document, Timestamp)>, Error> {
        Err(Error::Closed)
    }

    /// The documents of this type in this scope, as they are now.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn view(&self, _document_type: &str, _scope: &ViewScope) -> Result<Arc<dyn View>, Error> {
        Err(Error::Closed)
    }

    /// The next page of a visit.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; the continuation is none.
    pub fn visit(&self, _visit: &Visit) -> Result<VisitPage, Error> {
        Err(Error::Closed)
    }

    /// Drops the documents of a group (of one type, or of all types where that is `None`), at a cost that does not depend on
    /// their number. Writes acknowledged later are not touched.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn drop_group(&self, _document_type: Option<&str>, _group: &Group) -> Result<(), Error> {
        Err(Error::Closed)
    }

    /// Drops all documents of a type, as [`Store::drop_group`] does.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn drop_type(&self, _document_type: &str) -> Result<(), Error> {
        Err(Error::Closed)
    }

    /// Drops all documents of a bucket, as [`Store::drop_group`] does, and its files.
    ///
    /// # Errors
    /// The drop cannot be made durable.
    pub fn drop_bucket(&self, _bucket: BucketId) -> Result<(), Error> {
        Err(Error::Closed)
    }

    /// The buckets there are now.
    pub fn buckets(&self) -> Vec<BucketId> {
        Vec::new()
    }

    /// Removes the documents of these types that `keep` does not want, at most `per_second` a second; returns how many.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; a remove fails.
    pub fn collect(
        &self,
        _types: &[&str],
        _keep: &dyn Fn(&Document) -> bool,
        _per_second: u32,
    ) -> Result<u64, Error> {
        Err(Error::Closed)
    }

    /// Seals all that was written until now; returns when that is done.
    ///
    /// # Errors
    /// A segment or the manifest cannot be written.
    pub fn seal(&self) -> Result<(), Error> {
        Err(Error::Closed)
    }

    /// What the store holds.
    pub fn status(&self) -> Status {
        Status::default()
    }

    /// Waits for the writes that are under way, and closes the files. Other clones answer [`Error::Closed`] from now on.
    pub fn close(self) {}
}

/// Checks every file of a data directory that no process has open. Findings are part of the report.
///
/// # Errors
/// The directory cannot be listed.
pub fn check(_data_dir: &Path) -> Result<Report, Error> {
    Ok(Report::default())
}
