//! A query and a schema made into one checked, typed plan.
//!
//! Every error of a request is known here: after [`Plan`], nothing in a request can be wrong. Words are already split, folded
//! and stemmed as the field's documents were; fieldsets are resolved to fields; numbers have the field's type; the query tensors
//! have the types that the rank profile declares.
//!
//! This crate does not know where documents are, nor how they are matched or ranked.

mod display;
mod error;
mod inputs;
mod make;
mod node;
mod number;
mod plan;
mod scope;
mod significance;
mod sorting;
mod target;
mod tree;
mod words;

pub use error::Error;
pub use inputs::{Embedding, embeddings};
pub use make::{Context, has_field};
pub use node::{Leaf, LeafId, Node, NumberRange, Predicate, Term, TermId, WordPattern};
pub use plan::{Input, Missing, Plan, Scope, SortBy, SortColumn, TextOrder};
pub use target::value_type;
pub use tree::parsed;
