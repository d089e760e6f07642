//! How the nodes of a cluster speak to each other: what `millrace_cluster` says in values, as bytes over TCP, or over TLS where nodes have
//! certificates (`millrace_trust`).
//!
//! A connection begins with a word that says what it is for. On one for **requests**, many are under way at a time, each under a number,
//! and answers come in any order: [`Peers`] is the side that asks, a [`Service`] the one that answers. A connection for **bulk** serves one
//! transfer, one question after another, and blocks: [`Bulk`] asks, a [`Source`] answers.
//!
//! Every length that comes is checked before room is made for it. Nothing here decides anything: that is `millrace_cluster`'s.

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

/// Begins a connection for requests.
const REQUESTS: [u8; 8] = *b"MILLREQ\x01";

/// Begins a connection for bulk.
const BULK: [u8; 8] = *b"MILLBLK\x02";

/// The most bytes of one message.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
