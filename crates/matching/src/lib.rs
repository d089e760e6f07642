//! A plan's predicates over columns: which documents match, and where.
//!
//! [`match_plan`] goes through the chunks of a view once. In each it evaluates the plan's tree over sets of documents, the cheap
//! predicates first, so that the dear ones see few: numbers, then words, then other values, then distances.
//!
//! [`Matches`] is what ranking, grouping and summaries work from: for each chunk the matched documents, and for each leaf of the
//! plan what was found in each of them; beside it the statistics of the whole group, counted in the same pass.
//!
//! Which documents are among the nearest is known only at the end. Until then a chunk keeps what is undecided of its tree
//! (`tree::Residual`), for the documents that are near enough so far.
//!
//! This crate does not know scores, and nothing of where columns come from.

mod bits;
mod elements;
mod error;
mod geo;
mod kernels;
mod leaf;
mod matches;
mod nearest;
mod pattern;
mod run;
mod tree;
mod value;
mod window;
mod words;

pub use elements::MatchedElements;
pub use error::Error;
pub use geo::distance_km;
pub use matches::{ChunkMatches, Demands, FieldStatistics, LeafMatches, Matches, Occurrences, Statistics};
pub use nearest::nearest_subspace;
pub use pattern::WordMatcher;
pub use run::match_plan;
pub use value::values_at;
