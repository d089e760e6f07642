//! Conversion of a query and a schema to one validated, typed plan.
//!
//! Planning reports every error of a request: after [`Plan`], no error can come from the request. Words are
//! already split, folded and stemmed like those of the field's documents; fieldsets are resolved to fields;
//! numbers have the field's type; query tensors have the types declared in the rank profile.
//!
//! This crate is independent of the storage, matching and ranking of documents.

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
pub use inputs::{EmbeddedInput, embeddings};
pub use make::{PlanContext, has_field};
pub use node::{LeafId, NumberRange, PlanLeaf, PlanNode, PlanTerm, Predicate, TermId, WordPattern};
pub use plan::{FeatureInput, MissingOrder, Plan, SortBy, SortColumn, StreamedScope, TextOrder};
pub use target::value_type;
pub use tree::parsed;
