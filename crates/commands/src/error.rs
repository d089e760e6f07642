//! Errors that end a command.

use std::path::PathBuf;

/// Errors of commands that are not `serve`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot be reached, or refuses.
    #[error(transparent)]
    Client(#[from] millrace_client::Error),
    /// The store's files cannot be listed.
    #[error(transparent)]
    Store(#[from] millrace_store::Error),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file that is to be made exists.
    #[error("{}: the file exists, and is not overwritten; name another one, or remove it", path.display())]
    ExistingFile {
        /// The file.
        path: PathBuf,
    },
    /// Something else than a regular file in the place of the file of keys, or of its lock.
    #[error("{}: it is a link, or not a regular file, and is not followed here; {cure}", path.display())]
    Irregular {
        /// The file.
        path: PathBuf,
        /// Cure.
        cure: &'static str,
    },
    /// The replacement of the file of keys cannot be given to the owner of the file.
    #[error(
        "{}: the file belongs to the user {user}, to whom its replacement cannot be given ({source}), so that the server could not \
         read it; run the command as that user (sudo -u) or as root; the file is as it was",
        path.display()
    )]
    KeyOwner {
        /// The file.
        path: PathBuf,
        /// Number of the user.
        user: u32,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A node of a cluster is to be restored to a time, from no snapshot in particular.
    #[error(
        "{}: it is of a node of a cluster, and all its nodes have to be restored from one snapshot; name the latest one \
         before that time that no node lacks, as `millrace snapshot list` shows",
        path.display()
    )]
    UnnamedSnapshot {
        /// Data directory of the node.
        path: PathBuf,
    },
    /// Segments of a node are to be upgraded, and nodes of its cluster may not know the newest format.
    #[error(
        "{}: it is of a node of a cluster, whose last known state names {standing}, and nodes that do not know protocol {needed} \
         cannot read such segments; upgrade all nodes and start this one, so that it learns the new state, or add \
         --force-protocol if no node of the cluster runs an earlier version any more",
        path.display()
    )]
    ClusterProtocol {
        /// Data directory of the node.
        path: PathBuf,
        /// Last known protocol of the cluster, in words.
        standing: String,
        /// Protocol from which on all nodes know the newest format.
        needed: u16,
    },
    /// Files of a data directory belong to another user.
    #[error(
        "{}: it belongs to the user {user}, whose server could not read the files that the user {own} makes; run the command \
         as that user (sudo -u)",
        path.display()
    )]
    DataOwner {
        /// A file of the data directory.
        path: PathBuf,
        /// Number of its user.
        user: u32,
        /// Number of the user of this process.
        own: u32,
    },
    /// The active application of a data directory cannot be read.
    #[error("the active application in {} cannot be read: {reason}", path.display())]
    Application {
        /// A file of the application.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The state of a node about its cluster cannot be read.
    #[error(transparent)]
    Membership(#[from] millrace_membership::Error),
    /// The node knows of no cluster yet.
    #[error("{base} reports no cluster: deploy an application first")]
    NoCluster {
        /// Address of the node.
        base: String,
    },
    /// The credentials are malformed.
    #[error(transparent)]
    Access(#[from] millrace_access::Error),
    /// A mail archive cannot be read.
    #[error(transparent)]
    Mail(#[from] millrace_mail::Error),
    /// An argument has an invalid value.
    #[error("{0}")]
    Argument(String),
    /// The node of the demo does not start.
    #[error("{0}")]
    Demo(Box<dyn std::error::Error + Send + Sync>),
    /// The system refuses threads or signals.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}
