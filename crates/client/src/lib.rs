//! The other side of HTTP: what the command line says to a node.
//!
//! A [`Client`] speaks to one port of a node. [`feed`] sends many operations, as many at a time as the node takes well.
//!
//! This crate does not know documents, schemas or queries: it carries JSON.

mod client;
mod error;
pub mod feed;
mod id;
mod package;

pub use client::{Answer, Client, Protocol, Request};
pub use error::Error;
pub use id::document_path;
pub use package::pack;
