//! Runs a plan over a view: a partial result.
//!
//! A [`Search`] is a plan with everything made ready that the engines need: the compiled rank profile, the order, the grouping
//! requests. Whatever can be wrong with it is found when it is made; [`Search::run`] then goes the way of every query: match,
//! rank or sort, group, fill.
//!
//! Documents that lie on several nodes are searched where they are: each node has a [`Session`] with its own, and a [`Gathering`] asks
//! them, step by step, for what it takes to find what one node with all the documents would have found.
//!
//! This crate does not know where columns come from, and renders nothing.

mod collapse;
mod deadline;
mod error;
mod gathering;
mod narrowed;
mod pass;
mod search;
mod share;
mod sort_key;
mod sorting;
mod trace;

pub use collapse::{CollapseKeys, Collapsing};
pub use deadline::{Deadline, Pause};
pub use error::Error;
pub use gathering::{Gathering, Next, run_gathered};
pub use narrowed::Narrowed;
pub use pass::{Outcome, run_all};
pub use search::Search;
pub use share::{Again, Ask, Reply, Session, Share};
pub use sorting::{SortedHit, Sorting};
pub use trace::Trace;
