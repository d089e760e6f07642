//! Buckets as files, from one store to another.
//!
//! 1. [`Store::export`] seals what the tail has of the buckets, and takes the segments that they have then: open files, which can be read
//!    even when they lose their names. They become [`Parcel`]s: a file that is mostly the buckets' own as it is, of others a cut with the
//!    columns of the buckets as they are, and what would be a very small file merged into one with others, on the way.
//! 2. [`Store::import`] begins a file for a parcel, [`Import`] takes its bytes and counts them into checksums, and [`Import::arrive`] makes
//!    it durable and compares. [`Arrived::install`] lets the buckets have it: with one manifest, so that it is there as a whole or
//!    not at all.
//!
//! What is written meanwhile does not matter: of two versions of a document the newer counts, whichever came first.

mod export;
mod import;

use millrace_bucket::BucketId;

pub use export::Parcel;
pub use import::{Arrived, Import};

/// What a parcel has of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The bucket.
    pub bucket: BucketId,
    /// Bytes, about.
    pub bytes: u64,
    /// Versions of documents, about.
    pub documents: u64,
}
