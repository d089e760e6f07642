//! Errors that end the server.

use std::path::PathBuf;

/// Errors of the server, at its start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] millrace_node::StartError),
    /// The node cannot be served.
    #[error(transparent)]
    Port(#[from] millrace_gateway::PortError),
    /// The application given at the start is refused.
    #[error("--app {}: {reason}", path.display())]
    Application {
        /// Its directory.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// A file cannot be read.
    #[error("{}: {source}; name a text file that this user can read with --config", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The settings file has an invalid entry.
    #[error("{}: {reason}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// Location and problem.
        reason: String,
    },
    /// An argument has an invalid value.
    #[error("{0}")]
    Argument(String),
    /// The node cannot take part in its cluster.
    #[error("cannot join the cluster: {0}")]
    Cluster(String),
    /// The system refuses threads or signals.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}
