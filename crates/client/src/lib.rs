//! HTTP client of a node, as used by the command line.
//!
//! A [`NodeClient`] communicates with one port of a node. [`feed`] sends many operations, as many at a time
//! as the node can handle.
//!
//! This crate knows ids and the boundaries of operations; it is independent of schemas and queries: it
//! transports JSON.

mod client;
mod error;
pub mod feed;
mod id;
mod outgoing;
mod package;

pub use client::{ClientAnswer, HttpProtocol, NodeClient, OutgoingRequest, StreamingAnswer};
pub use error::Error;
pub(crate) use id::path_of;
pub use id::{document_path, encoded};
pub use millrace_document::json::FeedPosition;
pub use outgoing::StreamedBody;
pub use package::pack;
