//! The other side of HTTP: what the command line says to a node.
//!
//! A [`Client`] speaks to one port of a node. [`feed`] sends many operations, as many at a time as the node takes well.
//!
//! This crate knows ids and the boundaries of operations, but no schemas and no queries: it carries JSON.

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
