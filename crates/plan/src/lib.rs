//! A query and a schema made into one checked, typed plan.
//!
//! Every error of a request is known here: after [`Plan`], nothing in a request can be wrong. Words are already split, folded
//! and stemmed as the field's documents were; fieldsets are resolved to fields; numbers have the field's type; the query tensors
//! have the types that the rank profile declares.
//!
//! This crate does not know where documents are, nor how they are matched or ranked.

mod node;
mod plan;

pub use node::{Leaf, LeafId, Node, NumberRange, Predicate, Term, TermId, WordPattern};
pub use plan::{Input, Missing, Plan, Scope, SortBy, SortColumn, TextOrder};
