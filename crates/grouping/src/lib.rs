//! Groups over matching documents: the grouping language, parsed, validated, and executed over columns.
//!
//! - [`Request`] is the language: `all(group(sender) max(5) order(-count()) each(output(count())))`.
//! - [`Request::check`] validates it against a schema and returns a [`Grouping`], whose execution cannot fail
//!   because of the request.
//! - [`Execution`] collects documents, chunk by chunk. Two executions merge exactly, and
//!   [`Execution::finish`] returns the groups. Partial results from other nodes are sent as [`Collected`].
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
mod node;
mod parse;
mod request;
mod table;
mod zone;

pub use check::Settings;
pub use collected::Collected;
pub use error::Error;
pub use execution::{Execution, HitRef};
pub use finish::Fill;
pub use functions::{Accepts, FUNCTIONS, Function, Returns};
pub use level::Grouping;
pub use parse::{FORMS, Form};
pub use request::{
    Aggregator, Bound, Bucket, Each, Expression, FieldPath, Filter, Limit, Number, Operation, Order, Output,
    Request, Step,
};
pub use zone::Zone;
