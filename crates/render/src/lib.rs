//! Results to Vespa's result formats: JSON, CBOR and XML.
//!
//! A [`Response`] borrows what a query gave; [`json()`] writes it in one pass, without a tree of JSON values in between.
//! Numbers are written as Java writes them, since clients compare: `1.0`, `1.0E10`, and `"NaN"` for what JSON cannot hold.
//!
//! ```
//! use millrace_render::{Options, Response, json};
//!
//! let text = json(&Response { total_count: 3, ..Response::default() }, &Options::default());
//! assert!(text.starts_with(r#"{"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":3},"coverage":{"#));
//! ```
//!
//! This crate does not know HTTP, nor how results are made.

mod group;
mod hit;
mod number;
mod response;
mod xml;

pub use response::{
    ErrorMessage, Options, Response, SourceGroup, Timing, Trace, json, write_cbor, write_json,
};
pub use xml::write_xml;
