use std::path::PathBuf;

use millrace_document::json::FeedPosition;

/// Error in communication with a node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is invalid.
    #[error("'{text}' is not an address such as http://localhost:8080: {reason}")]
    Address {
        /// The given text.
        text: String,
        /// Cause of the error.
        reason: String,
    },
    /// The address cannot be reached.
    #[error(
        "cannot reach {address}: {reason}; is the node running, and is that its address? Start one with: millrace serve"
    )]
    Unreachable {
        /// Address of the node.
        address: String,
        /// Message of the system.
        reason: String,
    },
    /// The node's certificate is not trusted.
    #[error(
        "{address}: {reason}; or name a file with the certificate to trust, the authority's or the server's own, in SSL_CERT_FILE"
    )]
    Certificate {
        /// Address of the node.
        address: String,
        /// Cause of the error.
        reason: String,
    },
    /// The client certificate cannot be used.
    #[error(
        "{reason}; MILLRACE_CLIENT_CERTIFICATE and MILLRACE_CLIENT_KEY name the files of a client certificate and of its key, as PEM"
    )]
    Identity {
        /// Cause of the error.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error("{address}: {reason}")]
    Tls {
        /// Address of the node.
        address: String,
        /// Cause of the error.
        reason: String,
    },
    /// The connection was closed before the end of the response.
    #[error("the answer of {address} broke off: {reason}")]
    Broken {
        /// Address of the node.
        address: String,
        /// Message of the system.
        reason: String,
    },
    /// No response in time.
    #[error(
        "{address} did not answer within {seconds} seconds: it is busy, or not a Millrace node; its log says more. Give it longer with --timeout"
    )]
    Timeout {
        /// Address of the node.
        address: String,
        /// Timeout in seconds.
        seconds: f64,
    },
    /// The node rejected the request, or failed.
    #[error("{message} (HTTP {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Message of the node.
        message: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A directory is not an application package.
    #[error("{}: {reason}", path.display())]
    Package {
        /// The directory.
        path: PathBuf,
        /// Cause of the error.
        reason: String,
    },
    /// The text is not a document id.
    #[error("{0}")]
    Id(#[from] millrace_document::Error),
    /// The input is not a feed.
    #[error("{input}, {position}: {reason}")]
    Feed {
        /// The file, or `standard input`.
        input: String,
        /// Position in the input.
        position: FeedPosition,
        /// Cause, and the expected text.
        reason: String,
    },
}
