use std::path::PathBuf;

/// Why nodes do not trust each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is not what it should be.
    #[error("{}: {reason}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The node's own certificate would be turned away by the others.
    #[error(
        "{}: {reason}; it must be signed by the authority, be valid now, and be for '{host}', by which others reach this node, both as server and as client",
        certificate.display()
    )]
    Own {
        /// The certificate.
        certificate: PathBuf,
        /// The host that the node tells others.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// Two nodes do not take each other's certificates.
    #[error(
        "{reason}; nodes take certificates of their common authority alone, which are valid now and for the host by which a node is reached"
    )]
    Refused {
        /// What is wrong, in the words of the side that found it.
        reason: String,
    },
    /// The other side does not speak TLS, or hung up before it had said why.
    #[error("{reason}; is it a node of this cluster, with certificates as this one? its log says more")]
    NoTls {
        /// What came instead.
        reason: String,
    },
}
