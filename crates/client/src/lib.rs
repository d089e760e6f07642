//! HTTP client of a node, as used by the command line.
//!
//! A [`Client`] communicates with one port of a node. [`feed`] sends many operations, as many at a time as
//! the node can handle.
//!
//! This crate knows ids and the boundaries of operations; it is independent of schemas and queries: it
//! transports JSON.

mod client;
mod error;
pub mod feed;
mod id;
mod package;

pub use client::{Answer, Client, Protocol, Request, Streaming};
pub use error::Error;
pub(crate) use id::path_of;
pub use id::{document_path, encoded};
pub use millrace_document::json::Place;
pub use package::pack;
