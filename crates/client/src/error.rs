use std::path::PathBuf;

use millrace_document::json::Place;

/// What can go wrong while speaking to a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error("'{text}' is not an address such as http://localhost:8080: {reason}")]
    Address {
        /// As given.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// Nobody answers there.
    #[error(
        "cannot reach {address}: {reason}; is the node running, and is that its address? Start one with: millrace serve"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The node's certificate is not trusted.
    #[error("{address}: {reason}; name a file with the certificate to trust in SSL_CERT_FILE")]
    Certificate {
        /// Where.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The two sides do not come to speak TLS.
    #[error("{address}: {reason}")]
    Tls {
        /// Where.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// The connection broke before the whole answer was there.
    #[error("the answer of {address} broke off: {reason}")]
    Broken {
        /// Where.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// No answer came in time.
    #[error(
        "{address} did not answer within {seconds} seconds: it is busy, or no Millrace node; its log tells more. Give it longer with --timeout"
    )]
    Timeout {
        /// Where.
        address: String,
        /// How long was waited.
        seconds: f64,
    },
    /// The node refuses, or fails.
    #[error("{message} (HTTP {status})")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The node's own words.
        message: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A directory is not an application package.
    #[error("{}: {reason}", path.display())]
    Package {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The text is not a document id.
    #[error("{0}")]
    Id(#[from] millrace_document::Error),
    /// The feed is not one.
    #[error("{input}, {place}: {reason}")]
    Feed {
        /// The file, or `standard input`.
        input: String,
        /// Where.
        place: Place,
        /// What is wrong and what was expected.
        reason: String,
    },
}
