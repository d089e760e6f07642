//! Runs a plan over a view: a partial result.
//!
//! A [`PreparedSearch`] is a plan with everything prepared that the engines need: the compiled rank profile,
//! the order, the grouping requests. Its errors are found when it is made; [`PreparedSearch::run`] then
//! executes the steps of every query: match, rank or sort, group, fill.
//!
//! Documents on several nodes are searched where they are. Each node has a [`ShareSession`] for its own, and
//! a [`SearchGathering`] sends requests to them, step by step. It finds the hits that one node with all the
//! documents would have found.
//!
//! This crate does not know where columns come from, and renders nothing.

mod collapse;
mod deadline;
mod error;
mod field_uses;
mod gathering;
mod merging;
mod narrowed;
mod pass;
mod protocol_1;
mod search;
mod share;
mod sort_bound;
mod sort_key;
mod sorting;
mod summary;
mod trace;

pub use collapse::CollapseKeys;
pub use deadline::{Pause, SearchDeadline};
pub use error::Error;
pub use field_uses::FieldUseKind;
pub use gathering::{GatheringNext, SearchGathering, run_all};
pub use merging::{MergedOutcome, hit_page};
pub use pass::PassOutcome;
pub use protocol_1::FirstShareReply;
pub use search::PreparedSearch;
pub use share::{NodeShare, RerankRequest, ShareReply, ShareRequest, ShareSession};
pub use sorting::SortedHit;
pub use summary::{
    HighlightStyle, HighlightStyles, HitPosition, SummaryError, SummaryFields, SummaryFiller, fill,
};
pub use trace::SearchTrace;
