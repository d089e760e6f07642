//! Buckets: which documents lie together, and the order in which their keys are stored.
//!
//! A [`BucketId`] fixes some of the lowest bits of a location; a [`SortKey`] is the order of documents in every file: the low
//! 32 location bits reversed, then the group, then the other location bits reversed, then the id. So a bucket of at most
//! 32 bits is one contiguous range of keys, and a group is one contiguous range inside it even where two groups share
//! their location bits. Splitting and joining are statements about ranges; no document is rewritten for them.
//!
//! This crate does not know files or nodes.

mod id;
mod key;

pub use id::BucketId;
pub use key::{SortKey, group_prefix, reversed_location};
