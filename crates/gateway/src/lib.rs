//! HTTP over one node: deploying applications, feeding and reading documents, queries, status.
//!
//! [`NodeServer`] listens for a [`millrace_node::Node`]. Every operation is one function that parses its
//! request, calls the node, and renders the result.
//!
//! This crate does not know how documents are stored, matched or ranked, and does not compute on the
//! threads that wait for the network, but on those of [`millrace_node::pool`].

mod access_log;
mod application_view;
mod certificates;
mod config_api;
mod data_port;
mod document_api;
mod edge;
mod elastic_api;
mod forwarding;
pub mod fuzz;
mod group_api;
mod http;
mod log_file;
mod mcp;
mod model_evaluation;
mod openapi;
mod page;
mod quota;
mod search_api;
mod server;
mod settings;
mod spans;
mod state;
mod status;
mod status_api;

pub use access_log::LogDetails;
pub use edge::{
    CredentialFiles, EdgeNameFault, GroupHeaders, HostNames, TokenKeySource, TokenKeyUrl, TokenKeyUrlFault,
    WebOrigins,
};
pub use http::{PortLimits, PortService, PortTls, routed, serve};
pub use millrace_remote::SpanSettings;
pub use openapi::{DescribedPorts, openapi_document, openapi_page};
pub use search_api::SlowQuerySettings;
pub use server::{ForwardedConnections, NodeServer, runtime};
pub use settings::{RequestLimits, Settings, TlsFiles};
pub(crate) use state::GatewayState;
pub use status::PortError;
