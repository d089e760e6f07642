//! HTTP over one node: deploying applications, feeding and reading documents, queries, status.
//!
//! A [`Node`] holds the store, the active [`CompiledApplication`] and the worker threads. [`NodeServer`]
//! listens for it. Every operation is one function that parses its request, calls an engine, and renders the
//! result. A deployment replaces the whole [`CompiledApplication`] at once: a request uses the same one from
//! beginning to end.
//!
//! This crate does not know how documents are stored, matched or ranked, and does not compute on the
//! threads that wait for the network, but on those of the [`pool`].

mod access_log;
mod caller;
pub mod cluster;
mod config_api;
mod data_port;
mod deployment;
mod deployments;
mod document_api;
mod edge;
mod error;
mod fitness;
pub mod fuzz;
mod http;
mod limits;
mod mcp;
mod metrics;
mod model_evaluation;
mod models;
mod node;
pub mod pool;
mod quota;
mod recent;
mod reindexing;
mod search_api;
mod server;
mod settings;
mod status_api;
mod upkeep;

pub use access_log::LogDetails;
pub use deployment::{CompiledApplication, pack};
pub use edge::{HostNames, WebOrigins};
pub use error::{Error, ErrorKind, StartError};
pub use fitness::UnfitReason;
pub use http::{PortLimits, PortService, routed, serve};
pub use millrace_remote::{AddressRange, OutboundPolicy};
pub use models::SecretBinding;
pub use node::{Node, PublishedApplication};
pub use pool::WORK_SLICE;
pub use server::{ForwardIntake, NodeServer, runtime};
pub use settings::{RequestLimits, Settings, TlsFiles};
