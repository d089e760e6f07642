//! Buckets: the unit of placement of documents, and the order in which keys are stored.
//!
//! A [`BucketId`] is defined by some of the lowest bits of a location. A [`DocumentSortKey`] is the order of
//! documents in every file: the low 32 location bits reversed, then the group, then the other location bits
//! reversed, then the id. A bucket of at most 32 bits is therefore one contiguous range of keys, and a group
//! is one contiguous range inside it even if two groups share their location bits. Splitting and joining only
//! redefine ranges; no document is rewritten.
//!
//! This crate is independent of files and nodes.

mod id;
mod key;

pub use id::BucketId;
pub use key::{DocumentSortKey, group_prefix, reversed_location};
