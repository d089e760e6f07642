//! Groups over matching documents: the grouping language, parsed, validated, and executed over columns.
//!
//! - [`GroupingRequest`] is the language: `all(group(sender) max(5) order(-count()) each(output(count())))`.
//! - [`GroupingRequest::check`] validates it against the fields of a schema ([`GroupingSchema`]) and returns
//!   a [`CheckedGrouping`], whose execution cannot fail because of the request.
//! - [`GroupingExecution`] collects documents, chunk by chunk. Two executions merge exactly, and
//!   [`GroupingExecution::paged`] returns the groups. Partial results from other nodes are sent as
//!   [`CollectedGroups`].
//!
//! All counts are exact. A document with several values in a field belongs to a group for each. A document
//! without a value has its type's undefined value, as defined by the language: the smallest whole number,
//! NaN, or the empty text.
//!
//! This crate is independent of matching and scoring, and does not create document summaries.

mod aggregate;
mod batch;
mod buckets;
mod check;
mod collected;
mod continuation;
mod datum;
mod error;
mod execution;
mod field;
mod finish;
mod functions;
mod level;
mod lexer;
mod lists;
mod nesting;
mod node;
mod numbers;
mod parse;
mod request;
mod source;
mod table;
mod values;
mod zone;

pub use check::Settings;
pub use collected::CollectedGroups;
pub use error::{Error, GroupingFailure};
pub use execution::{GroupingExecution, HitRef};
pub use field::GroupingSchema;
pub use finish::{HitFiller, PagedGroups, TakeGroupMemory};
pub use functions::{ArgumentKinds, FUNCTIONS, GroupingFunction, ReturnKind};
pub use level::CheckedGrouping;
pub use parse::{FORMS, SpecialForm};
pub use request::{
    BucketBound, DistanceUnit, GroupAggregator, GroupLimit, GroupingExpression, GroupingNumber,
    GroupingOperation, GroupingPath, GroupingPathStep, GroupingRequest, LiteralBucket, OperationTarget,
    OrderKey, OutputEntry, ValueFilter,
};
pub use zone::GroupingZone;
