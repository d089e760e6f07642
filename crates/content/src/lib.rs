//! Content node: keeps a part of a cluster's documents, and owns buckets.
//!
//! `millrace_replication` decides, in state machines without I/O; this crate is the shell that drives two of
//! them, the distributor and the keeper. One thread (`machine`) receives the events: cluster states from
//! `millrace_membership`, requests and answers of other nodes from `millrace_peer`, writes from
//! `millrace_node`. It executes the effects: messages, work on the store (`storage`), transfers (`pull`;
//! whole replicas in `sessions`, their files in `receive`; at the rate of `throttle`). To the gateway a
//! [`ContentNode`] is its cluster.
//!
//! This crate contains no rule of replication: `millrace_replication` states the invariants, and tests them.

mod conversion;
mod finishing;
mod gauges;
mod growth;
mod incoming;
mod installing;
mod machine;
mod member;
mod node;
mod placed_indexes;
mod pull;
mod reader_preference;
mod receive;
mod sessions;
mod source;
mod storage;
mod take_over;
#[cfg(test)]
mod tests;
mod throttle;

pub use incoming::IncomingTransfer;
pub use member::ContentMember;
pub use node::{ConnectionHandler, ContentNode, PeerPort, TransferPace};
pub use placed_indexes::{declare_indexes, follow_placement};
pub use source::StoreSource;
pub use take_over::take_over;
pub use throttle::TransferThrottle;
