use std::path::PathBuf;

use crate::{OutboundRefusal, Sha256Digest};

/// Errors of other services, by possible remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Service not available or overloaded, even after several attempts: try again later.
    #[error("{service} cannot answer now: {reason}; try again later")]
    Retry {
        /// Address of the service.
        service: String,
        /// Status of its last answer, if there was one.
        status: Option<u16>,
        /// Its message, or the failure of the connection.
        reason: String,
    },
    /// Request refused by the service: change the text.
    #[error("{service} refuses the text: {reason}")]
    Fix {
        /// Address of the service.
        service: String,
        /// Status of its answer.
        status: Option<u16>,
        /// Its message.
        reason: String,
    },
    /// Service that refuses every request: change the settings, or the service.
    #[error(
        "{service} cannot be used: {reason}; check its endpoint, model, dimensions and secret in services.xml"
    )]
    GiveUp {
        /// Address of the service.
        service: String,
        /// Status of its answer.
        status: Option<u16>,
        /// Its message, or the problem of its answer.
        reason: String,
    },
    /// The caller's deadline has passed.
    #[error("{service} did not answer in time")]
    Deadline {
        /// Address of the service.
        service: String,
    },
    /// Too many texts wait for it already.
    #[error("{waiting} texts wait for {service} already: try again later")]
    Overloaded {
        /// Address of the service.
        service: String,
        /// Number of waiting texts.
        waiting: usize,
    },
    /// A file cannot be downloaded.
    #[error("{url} cannot be fetched: {reason}")]
    Download {
        /// Its address.
        url: String,
        /// Reason.
        reason: DownloadFailure,
    },
    /// A value of a setting has another form.
    #[error("'{text}' {expected}")]
    Setting {
        /// The value.
        text: String,
        /// Expected form, after the value in a sentence.
        expected: String,
    },
    /// A list of permitted services is empty.
    #[error("the list of permitted services is empty: write public or none")]
    NoRules,
    /// A URL cannot be connected to.
    #[error("{url}{fault}")]
    Destination {
        /// The URL.
        url: String,
        /// Its fault, after the URL in a sentence.
        fault: String,
    },
    /// The operator's rules refuse a connection.
    #[error(transparent)]
    Forbidden(#[from] OutboundRefusal),
    /// The environment lacks a secret.
    #[error("no secret '{name}': set the environment variable {variable}")]
    NoSecret {
        /// Name of the secret.
        name: String,
        /// Variable that would have it.
        variable: String,
    },
    /// A secret is not bound to the host of an endpoint.
    #[error("the secret '{name}' may not be sent to {host}{cure}")]
    SecretHost {
        /// Name of the secret.
        name: String,
        /// Host of the endpoint.
        host: String,
        /// Way to permit it, after the host in a sentence.
        cure: String,
    },
}

/// Reason for which a file was not downloaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadFailure {
    /// The process ends.
    #[error("the node is stopping")]
    Stopping,
    /// No data came for this number of seconds.
    #[error("nothing came for {0} s")]
    Silent(u64),
    /// The text is not a URL.
    #[error("this is not an address: {0}")]
    Address(String),
    /// The request was not answered.
    #[error("{0}")]
    Request(String),
    /// Status of another answer than the file.
    #[error("the answer is {0}")]
    Status(String),
    /// More redirects than this number.
    #[error("it is redirected more than {0} times")]
    Redirects(usize),
    /// A redirect to another text than a URL.
    #[error("it is redirected to '{0}', which is not an address")]
    RedirectAddress(String),
    /// A redirect from https to this address without it.
    #[error("it is redirected to {0}, which is not https")]
    RedirectPlain(String),
    /// The connection ended in the body.
    #[error("it was cut off: {0}")]
    Broken(String),
    /// The body is shorter than announced.
    #[error("it was cut off: {length} of {announced} bytes came")]
    Short {
        /// Bytes that came.
        length: u64,
        /// Announced bytes.
        announced: u64,
    },
    /// More bytes than this number.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The reserve of the disk.
    #[error(
        "the disk of {} has {free} bytes free, and {reserve} must stay free; make room, or lower disk-reserve",
        directory.display()
    )]
    Space {
        /// Directory of the file.
        directory: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes that must stay free.
        reserve: u64,
    },
    /// Another file than the expected one.
    #[error("its SHA-256 is {found}, and should be {wanted}")]
    Digest {
        /// Digest of the file.
        found: Sha256Digest,
        /// Expected digest.
        wanted: Sha256Digest,
    },
    /// A path without a directory.
    #[error("{} is not a file's path", .0.display())]
    Path(PathBuf),
    /// The file cannot be written.
    #[error("{}: {reason}", path.display())]
    Disk {
        /// File, or its directory.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
}

/// Fault in the answer of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerFault {
    #[error("its answer cannot be read: {0}")]
    Unread(String),
    #[error("its answer is not understood: {0}")]
    NotUnderstood(String),
    #[error("its answer has no text")]
    NoText,
    #[error("its answer lacks vectors: {0} arrays were sent")]
    LacksArrays(usize),
    #[error("its answer lacks vectors: {0} texts were asked for")]
    LacksVectors(usize),
    #[error("its vectors have {found} dimensions, and {expected} are expected")]
    Dimensions { found: usize, expected: usize },
    #[error("its vectors have other numbers than those of {0}")]
    Cells(&'static str),
    #[error("its answer has a vector for text {index}, and was asked for {texts}")]
    Index { index: usize, texts: usize },
    /// Message of the service itself.
    #[error("{0}")]
    Message(String),
}

impl Error {
    /// Status of the service's answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Retry { status, .. } | Error::Fix { status, .. } | Error::GiveUp { status, .. } => *status,
            Error::Deadline { .. }
            | Error::Overloaded { .. }
            | Error::Download { .. }
            | Error::Setting { .. }
            | Error::NoRules
            | Error::Destination { .. }
            | Error::Forbidden(_)
            | Error::NoSecret { .. }
            | Error::SecretHost { .. } => None,
        }
    }
}
