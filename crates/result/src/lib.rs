//! Results as values: hits, groups, coverage; and the merging of partial results into one.
//!
//! A [`PartialResult`] is the result of one pass over one node's documents. Partial results can be merged in
//! any order; the result does not depend on the number of passes or nodes.
//!
//! Nodes exchange hits by `serde`; values and tensors in them use the compact form of
//! `millrace_document::wire`.
//!
//! This crate is independent of the creation and the rendering of results.

mod group;
mod hit;
mod wire;

pub use group::{GroupId, GroupList, GroupValue, GroupingResult, ResultGroup};
pub use hit::{FeatureValue, FieldValue, PartialResult, ResultHit, SearchCoverage, SortValue};
