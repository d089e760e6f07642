//! Immutable file of one bucket: written, read, merged, verified.
//!
//! A [`SegmentFile`] holds versions of documents, sorted by document type and then by
//! [`millrace_bucket::DocumentSortKey`]. It stores columns in chunks: a chunk covers at most
//! [`millrace_column::CHUNK_DOCS`] documents of one type and one group, and a column of a chunk is one piece
//! of the file with a checksum. The pieces of one column of a group are contiguous, so that a query reads
//! only the columns it uses, sequentially.
//!
//! - [`SegmentWriter`] writes a file, chunk by chunk, in order.
//! - [`SegmentFile`] finds groups and reads columns. An open one takes memory for its catalog alone;
//!   directory pages and columns are in a [`SegmentCache`] that all segments share. By a filter of the ids
//!   it says of most documents that it does not have them ([`SegmentFile::may_have`]).
//! - [`merge`] makes one file of several; it concatenates columns and parses no documents.
//! - [`SegmentCut`] is a part of a segment as one of its own: its columns are copied as they are.
//! - [`measure`] computes the amount of a segment's data in ranges of locations.
//! - [`SegmentFile::verify`] reads everything and compares checksums; for a file that has just arrived,
//!   [`FileChecksums`] avoid a second reading.
//!
//! `docs/format.md` describes the file byte by byte. This crate knows neither the tail, nor schemas, nor
//! other nodes.

mod cache;
mod catalog;
mod checksums;
mod chunk;
mod cut;
mod directory;
mod error;
mod filter;
mod format;
mod groups;
mod measure;
mod merge;
mod pieces;
mod ranges;
mod segment;
mod verify;
mod writer;

pub use cache::{CacheStatistics, SegmentCache};
pub use catalog::TypeSection;
pub use checksums::FileChecksums;
pub use chunk::ChunkInfo;
pub use cut::{CutShare, SegmentCut, may_have_documents};
pub use error::Error;
pub use filter::FilterReader;
pub use format::SegmentFormat;
pub use groups::GroupEntry;
pub use measure::{RangeMeasure, measure};
pub use merge::{MergeInput, MergePolicy, merge};
pub use segment::SegmentFile;
pub use verify::VerifiedBytes;
pub use writer::{EncodedChunk, NewChunk, NewColumn, SectionEncoding, SegmentSummary, SegmentWriter};
