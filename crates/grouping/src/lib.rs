//! Groups over the documents that match: the grouping language, parsed, checked and executed over columns.
//!
//! - [`Request`] is the language: `all(group(sender) max(5) order(-count()) each(output(count())))`.
//! - [`Request::check`] makes of it and a schema a [`Grouping`], in which nothing can be wrong any more.
//! - [`Execution`] collects documents, chunk by chunk; two of them merge exactly, and [`Execution::finish`] gives the groups. What one has
//!   collected on another node travels as [`Collected`].
//!
//! All counts are exact. A document with several values in a field is in a group for each; a document without a value has its
//! type's undefined value, as everywhere in this language: the smallest whole number, NaN, or the empty text.
//!
//! This crate does not know how documents match or get their scores, and makes no document summaries.

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
pub use request::{
    Aggregator, Bound, Bucket, Each, Expression, FieldPath, Filter, Limit, Number, Operation, Order, Output,
    Request, Step,
};
pub use zone::Zone;
