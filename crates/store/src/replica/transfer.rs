//! Transfer of buckets as files, from one store to another.
//!
//! 1. [`Store::export`] seals the buckets' rows of the tail, and takes the segments that they have then: open
//!    files, which can be read even after they lose their names. They become [`ExportParcel`]s. A file that
//!    is mostly the buckets' own is sent as it is. Of another file, a cut is sent, with the columns of the
//!    buckets as they are. Very small contributions are merged into one parcel.
//! 2. [`Store::import`] begins a file for a parcel, [`SegmentImport`] takes its bytes and adds them to
//!    checksums, and [`SegmentImport::arrive`] makes it durable and compares. [`ArrivedSegment::install`]
//!    adds it to the buckets: with one manifest, so that it is there as a whole or not at all.
//!
//! Concurrent writes do not matter: of two versions of a document the newer counts, whichever arrived first.

mod export;
mod import;

use millrace_bucket::BucketId;

pub use export::ExportParcel;
pub use import::{ArrivedSegment, SegmentImport};

/// Share of a bucket in a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParcelBucket {
    /// The bucket.
    pub bucket: BucketId,
    /// Approximate number of bytes.
    pub bytes: u64,
    /// Approximate number of document versions.
    pub documents: u64,
}
