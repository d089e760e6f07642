//! Queries as values: a tree of items, the sources, and settings of ranking, sorting, grouping and
//! presentation.
//!
//! YQL, the simple query language, the JSON form and the request's parameters are parsed into a [`Query`].
//! Names of fields, profiles and summaries are text here; the crate `plan` validates them against a schema.

mod brief;
mod build;
mod display;
mod duration;
mod embed;
mod encoding;
mod error;
mod grammar;
mod item;
pub mod number_text;
mod parameters;
mod programmatic;
mod request;
mod select;
mod shape;
pub mod simple;
pub mod sorting;
mod syntax;
mod tensor_text;
mod text_size;
mod yql;

pub use brief::BriefItem;
pub use build::{OPERATORS, OperatorRole, YqlOperator};
pub use duration::duration;
pub use embed::EmbedCall;
pub use encoding::double_encoded;
pub use error::Error;
pub use item::{
    ItemAnnotations, NearestNeighbor, PhraseWord, PredicateAttribute, QueryGrammar, QueryItem, QueryNumber,
    RangeBound, TermMatch, TermText, TextSyntax, TextTokenization, UserText, WeightedOperator, WordComposite,
};
pub use parameters::{
    FederatedPart, QueryLimits, flatten, is_parameter, is_read_parameter, is_same_parameter, parameter_names,
    parameter_precedence, value_of,
};
pub use request::{
    CollapseOptions, GroupingDefaults, PresentationOptions, Query, QuerySortKey, QuerySources,
    RankingOptions, RankingTime, SortOrder, StreamingScope, TracingOptions,
};
pub use shape::ItemShape;
pub use tensor_text::read_tensor;
