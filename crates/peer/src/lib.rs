//! Communication between the nodes of a cluster: the messages of `millrace_cluster`, as bytes over TCP, or
//! over TLS if nodes have certificates (`millrace_trust`).
//!
//! A connection begins with a word for its kind. On one for **requests**, many are in flight at a time, each
//! with a number, and answers arrive in any order: [`Peers`] is the side that asks, a [`Service`] the one
//! that answers. A connection for **bulk** serves one transfer, one question after another, and blocks:
//! [`Bulk`] asks, a [`Source`] answers.
//!
//! Every received length is checked before memory is allocated for it. Decisions are made in
//! `millrace_cluster` only.

mod bulk;
mod codec;
mod complaints;
mod error;
mod message;
mod peers;
mod server;
mod stream;

pub use bulk::{Bulk, Head, Parcel, Source, VersionKey, VersionPage, serve_bulk};
pub use codec::fuzz;
pub use error::Error;
pub use peers::Peers;
pub use server::{Service, serve};

/// First word of a connection for requests.
const REQUESTS: [u8; 8] = *b"MILLREQ\x01";

/// First word of a connection for bulk.
const BULK: [u8; 8] = *b"MILLBLK\x02";

/// Maximum size of one message, in bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
