//! Conversion of results to Vespa's result formats: JSON, CBOR and XML.
//!
//! A [`SearchResponse`] borrows the result of a query; [`json()`] writes it in one pass, without an
//! intermediate tree of JSON values. Numbers are written as in Java, because clients compare texts: `1.0`,
//! `1.0E10`, and `"NaN"` for values that JSON cannot represent.
//!
//! ```
//! use millrace_render::{RenderOptions, SearchResponse, json};
//!
//! let text = json(&SearchResponse { total_count: 3, ..SearchResponse::default() }, &RenderOptions::default());
//! assert!(text.starts_with(r#"{"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":3},"coverage":{"#));
//! ```
//!
//! This crate is independent of HTTP and of the creation of results.

mod group;
mod hit;
mod literal;
mod number;
mod response;
mod xml;

pub use literal::literal as tensor_literal;
pub use response::{
    ErrorMessage, QueryTiming, RenderOptions, SearchResponse, SourceGroup, TraceStep, cbor, json, write_cbor,
    write_json,
};
pub use xml::write_xml;
