use std::path::PathBuf;

/// Errors of trust between nodes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file has invalid contents.
    #[error("{}: {reason}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The other nodes would refuse this node's own certificate.
    #[error(
        "{}: {reason}; it must be signed by the authority, be valid now, and be for '{host}', by which others reach this node, both as server and as client",
        certificate.display()
    )]
    Own {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Host that the node announces.
        host: String,
        /// Reason.
        reason: CertificateFault,
    },
    /// One of two nodes refuses the other's certificate.
    #[error(
        "{reason}; nodes take certificates of their common authority alone, which are valid now and for the host by which a node is reached"
    )]
    Refused {
        /// Reason, in the words of the side that found it.
        reason: String,
    },
    /// The system has no certificates to trust.
    #[error("{}", if .0.is_empty() { "there are none".to_owned() } else { .0.join("; ") })]
    NoRoots(Vec<String>),
    /// The settings of TLS do not fit each other.
    #[error("{0}")]
    Tls(String),
    /// The other side does not speak TLS, or closed the connection without a reason.
    #[error("{reason}; is it a node of this cluster, with certificates as this one? its log says more")]
    NoTls {
        /// Received data or failure.
        reason: String,
    },
}

/// Reason for which other nodes would refuse a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFault {
    /// The file has no certificate.
    #[error("there is none")]
    Missing,
    /// No certificate can be for the host.
    #[error("'{0}' is neither a host's name nor its address")]
    Host(String),
    /// Refused as that of a server, with the reason.
    #[error("as a server's: {0}")]
    AsServer(String),
    /// Refused as that of a client, with the reason.
    #[error("as a client's: {0}")]
    AsClient(String),
}
