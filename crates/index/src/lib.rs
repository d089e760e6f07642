//! Copies of indexes on disk.
//!
//! An [`IndexCopy`] keeps two sorted sections: `entries`, by index key and document, to find documents, and
//! `documents`, by document, with the keys that each has now. Of two versions of a document the one with the
//! higher timestamp counts, in whatever order they come: so changes may be applied again, overlap with a
//! build, and begin again after a crash.
//!
//! - [`IndexCopy::apply`] takes changes into memory. It looks up the document's former keys, so that their
//!   entries go.
//! - [`IndexCopy::load`] takes documents in that no change was about, in their order, without looking each
//!   up.
//! - [`IndexCopy::flush`] writes them as a *run*, an immutable file, and then the manifest, which names the
//!   runs and the time up to which they have everything.
//! - [`IndexCopy::merge`] makes few runs of many.
//! - [`IndexCopy::scan`] returns the entries of ranges of keys, page by page; [`IndexCopy::estimate`] says
//!   about how many there are.
//! - [`IndexCopy::export`] offers the runs as they are, in parcels, and [`CopyImport`] makes a copy of these,
//!   of all documents or of a slice, also after crashes of either side.
//! - [`IndexCopy::compare`] compares the documents of a copy with those that it should have.
//!
//! There is no log: a copy that is opened after a crash is as it was at its last flush, and its owner applies
//! again what changed since [`CopyStatus::complete_until`]. Every byte is under a checksum; a damaged copy is
//! built again from the documents. `docs/format.md` describes the files.
//!
//! This crate knows neither documents nor schemas nor nodes: keys and documents are bytes.

mod ahead;
mod block;
mod cache;
mod compare;
mod copy;
mod cursor;
mod doctor;
mod error;
mod estimate;
mod export;
mod files;
mod fuzz;
mod import;
mod loading;
mod manifest;
mod memory;
mod merging;
mod page;
mod parcel;
mod record;
mod run;
mod run_writer;
mod slice;
mod state;

pub use cache::BlockCache;
pub use compare::{RecordComparison, RecordDifference};
pub use copy::{CopyStatus, DocumentPage, FlushMark, IndexCopy, IndexOptions, IndexedDocument};
pub use doctor::{CheckedCopy, check_copies};
pub use error::Error;
pub use export::{CopyExport, EXPORTS_MAX, HeldExports};
pub use fuzz::fuzz;
pub use import::{CopyImport, ImportProgress};
pub use loading::LoadedRows;
pub use page::{EntryPage, PageEntries, ScannedEntry};
pub use parcel::{CopyHeader, CopyParcel, ExportedRun, PARCEL_BYTES, ParcelPosition};
pub use record::{DocumentRecord, IndexChange};
pub use slice::SliceRange;
