//! Conversion of a query and a schema to one validated, typed plan.
//!
//! Planning reports every error of a request: after [`Plan`], no error can come from the request. Words are
//! already split, folded and stemmed like those of the field's documents. Fieldsets are resolved to fields,
//! numbers have the field's type, and query tensors have the types declared in the rank profile. The
//! selection of documents, the grouping requests and the collation of the order are parsed and checked.
//!
//! This crate is independent of the storage, matching and ranking of documents.

mod collapse;
mod collation;
mod display;
mod error;
mod grouping;
mod inputs;
mod make;
mod memory;
mod node;
mod number;
mod plan;
mod scope;
mod significance;
mod sorting;
mod target;
mod tree;
mod words;

pub use collapse::{CollapseField, PlannedCollapse};
pub use collation::LocaleCollation;
pub use error::Error;
pub use grouping::{PlannedGrouping, check_groupings, grouping_schema, groupings};
pub use inputs::{EmbeddedInput, check_input_default, embeddings};
pub use make::{PlanContext, term_end};
pub use memory::{QUERY_MEMORY_MAX, QueryMemory, QueryMemoryError, QueryMemoryLedger};
pub use node::{
    LeafId, NumberRange, PlanLeaf, PlanNode, PlanTerm, Predicate, QueryAttributes, TermId, WordPattern,
};
pub use plan::{FeatureInput, MissingOrder, Plan, SortBy, SortColumn, StreamedScope, TextOrder};
pub use target::value_type;
pub use tree::parsed;
