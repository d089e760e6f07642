//! A plan's predicates over columns: which documents match, and where.
//!
//! [`Matches`] is what ranking, grouping and summaries work from: for each chunk the matched documents, and for each leaf of the
//! plan what was found in each of them; beside it the statistics of the whole group, counted in the same pass.
//!
//! This crate does not know scores, and nothing of where columns come from.

mod matches;

pub use matches::{ChunkMatches, Demands, FieldStatistics, LeafMatches, Matches, Occurrences, Statistics};
