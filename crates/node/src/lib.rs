//! The running application of a node: its work for requests, without HTTP.
//!
//! A [`Node`] holds the store, the active [`CompiledApplication`] and the worker threads. A deployment
//! replaces the whole [`CompiledApplication`] at once: a request uses the same one from beginning to end.
//! [`search`] runs queries, over this node or over several; [`cluster`] routes requests to the node that can
//! answer them; upkeep removes and reindexes documents between requests.
//!
//! This crate does not know how documents are stored, matched or ranked, nor how requests arrive and answers
//! leave. The server of its requests gives it the means to ask other nodes ([`cluster::NodeTransport`]), and
//! the node's part in a cluster gives it the cluster ([`cluster::ClusterView`]). It computes on the threads
//! of the [`pool`], not on those that wait for the network.

mod caller;
pub mod cluster;
pub mod deployment;
mod deployments;
mod error;
mod field_uses;
mod fitness;
pub mod indexes;
mod limits;
pub mod metrics;
pub mod models;
mod node;
pub mod pool;
mod recent_latencies;
pub mod reindexing;
pub mod search;
mod settings;
mod snapshots;
mod upkeep;
pub mod work;

pub use caller::CancelOnDrop;
pub use deployment::{CompiledApplication, pack};
pub use deployments::check_application;
pub use error::{Error, ErrorKind, StartError, remote_kind};
pub use field_uses::{FieldUseCounts, FieldUseLog, FieldUseSummary};
pub use fitness::UnhealthyReason;
pub use millrace_remote::{AddressRange, OutboundPolicy, SecretBinding};
pub use node::{Node, PublishedApplication};
pub use pool::WORK_SLICE;
pub use settings::Settings;
