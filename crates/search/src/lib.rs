//! Runs a plan over a view: a partial result.
//!
//! A [`Search`] is a plan with everything made ready that the engines need: the compiled rank profile, the order, the grouping
//! requests. Whatever can be wrong with it is found when it is made; [`Search::run`] then goes the way of every query: match,
//! rank or sort, group, fill.
//!
//! Several views (of other groups, other nodes) give several partial results; merging them is the caller's.
//!
//! This crate does not know where columns come from, and renders nothing.

mod deadline;
mod error;
mod narrowed;
mod run;
mod sort_key;
mod sorting;
mod trace;

pub use deadline::Deadline;
pub use error::Error;
pub use narrowed::Narrowed;
pub use run::{Outcome, Search, run_all};
pub use sorting::{SortedHit, Sorting};
pub use trace::Trace;
