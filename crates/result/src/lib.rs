//! Results as values: hits, groups, coverage; and the merging of partial results into one.
//!
//! A [`PartialResult`] is what one pass over one node's documents gives. Partial results merge in any order into the same
//! whole, so it does not matter how many passes or nodes there were.
//!
//! Hits travel between nodes by `serde`, values and tensors in it in the compact form of `millrace_document::wire`.
//!
//! This crate does not know how results are made, nor how they are rendered.

mod group;
mod hit;
mod wire;

pub use group::{Group, GroupId, GroupList, GroupValue, GroupingResult};
pub use hit::{Coverage, Feature, FieldValue, Hit, PartialResult, SortValue};
