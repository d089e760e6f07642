//! Communication between the nodes of a cluster: the messages of `millrace_cluster`, as bytes over TCP, or
//! over TLS if nodes have certificates (`millrace_trust`).
//!
//! A connection begins with its protocol, its kind, and the run of the process that it is for
//! ([`PeerAddress`]): another process at the address refuses it. All messages are values, written by one
//! codec (`millrace_codec`); protocol 1, which was written by hand, lives in a module of its own until it is
//! given up. On one for **requests**, many are in flight at a time, each with a number, and answers arrive in
//! any order: [`PeerConnections`] is the side that asks, a [`PeerService`] the one that answers. A connection
//! for **bulk** serves one transfer, one question after another, and blocks: [`TransferConnection`] asks, a
//! [`TransferSource`] answers.
//!
//! Every received length is checked before memory is allocated for it. Decisions are made in
//! `millrace_cluster` only.

mod bulk;
mod codec;
mod complaints;
mod error;
mod greeting;
mod peers;
mod protocol;
mod protocol_1;
mod server;
mod stream;
mod transfer;

pub use bulk::{TransferConnection, TransferFault, TransferParcel, TransferSource, serve_bulk};
pub use error::Error;
pub use greeting::PeerAddress;
pub use peers::PeerConnections;
pub use protocol::fuzz;
pub use server::{PeerService, serve};
pub use transfer::{ParcelHead, PeerVersionKey, PeerVersionPage};

/// Maximum size of one message, in bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
