//! Evaluation of a plan's predicates over columns: the matching documents, and the positions of the matches.
//!
//! [`match_plan`] makes one pass over the chunks of a view. In each it evaluates the plan's tree over sets of
//! documents, cheap predicates first, so that expensive ones see few documents: numbers, then words, then
//! other values, then distances.
//!
//! [`MatchedDocuments`] is the input of ranking, grouping and summaries: for each chunk the matched
//! documents, and for each leaf of the plan its matches in each of them. It also has the statistics of the
//! whole group, counted in the same pass.
//!
//! The set of nearest documents is known only at the end. Until then a chunk keeps the undecided part of its
//! tree (`tree::ResidualTree`), for the documents that are near enough so far.
//!
//! This crate is independent of scores and of the source of columns.

mod bits;
mod dictionary;
mod elements;
mod error;
mod fuzzy;
mod geo;
mod kernels;
mod leaf;
mod listed;
mod listed_words;
mod many;
mod matched;
mod matches;
mod near;
mod nearest;
mod nested;
mod outcome;
mod pattern;
mod positions;
mod prefilter;
mod repeated;
mod run;
mod scan;
mod singles;
mod tree;
mod value;
mod window;
mod words;

pub use elements::MatchedElements;
pub use error::Error;
pub use geo::GeoCentre;
pub use matches::{
    ChunkMatches, FieldStatistics, LeafMatches, MatchedDocuments, RankingDemands, TermStatistics,
    WordOccurrences,
};
pub use nearest::{NearestSubspace, nearest_subspace};
pub use nested::{NestedValue, ValueElement, ValueShape, single_values_at, values_at};
pub use pattern::WordMatcher;
pub use positions::{PositionBits, PositionSet};
pub use run::match_plan;
pub use singles::{FoundSingleValue, SingleValue, SingleValueReader, SingleValueRef};
