//! What can go wrong: at the start of a node ([`StartError`]), and with a request ([`Error`]).
//!
//! Every [`Error`] has a [`ErrorKind`], which tells the caller what to do; the message tells a human why.
//! Each family of endpoints renders errors in its own form.

use std::path::PathBuf;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A port cannot be had.
    #[error(
        "cannot listen at {address}: {source}; is another server running there? Choose another with {flag}"
    )]
    Listen {
        /// Address and port.
        address: std::net::SocketAddr,
        /// The setting that chooses it.
        flag: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// The data directory cannot be used.
    #[error("data directory {}: {source}; choose another with --data-dir, or let this user read and write it", path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// What should be a data directory is somebody else's.
    #[error(
        "data directory {}: it has files that are no server's, such as '{}'; choose an empty directory, or a new one, with --data-dir",
        path.display(),
        example.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The name of a file in it.
        example: PathBuf,
    },
    /// What the last deployment left to do cannot be done.
    #[error("the last deployment cannot be completed: {0}")]
    Deployment(Error),
    /// The access log cannot be written.
    #[error("access log {}: {source}; choose another place with --access-log", path.display())]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Certificate or key do not work.
    #[error("TLS: {0}")]
    Tls(String),
    /// Threads cannot be had.
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
    /// The store does not open.
    #[error("{0}{cure}", cure = doctor(.0))]
    Store(#[from] millrace_store::Error),
    /// The application that was active no longer works.
    #[error("the active application in {} cannot be used: {reason}", path.display())]
    Application {
        /// Where it lies.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Where a look at all files may help; some errors tell their cure themselves.
fn doctor(error: &millrace_store::Error) -> &'static str {
    match error {
        millrace_store::Error::DataDirectory { .. } | millrace_store::Error::Corrupt { .. } => "",
        _ => "; look at it with: millrace doctor DATA_DIR",
    }
}

/// Why a request is refused or fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no application yet.
    #[error(
        "no application is deployed: deploy one with 'millrace deploy DIR' or POST it to \
         /application/v2/tenant/default/prepareandactivate on the config port"
    )]
    NotDeployed,
    /// The request does not make sense.
    #[error("{0}")]
    BadRequest(String),
    /// A parameter has a value it cannot have.
    #[error("parameter '{name}': {reason}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What is wrong and what works.
        reason: String,
    },
    /// What is addressed does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The path exists, but not for this method.
    #[error("method {method} is not known here; use {allowed}")]
    MethodNotAllowed {
        /// As asked.
        method: String,
        /// What works, joined by commas.
        allowed: &'static str,
    },
    /// Another change came first.
    #[error("{0}")]
    Conflict(String),
    /// A test-and-set condition does not hold.
    #[error("the condition does not hold: {0}")]
    Condition(String),
    /// A node of the cluster has no room for what was written.
    #[error("{0}")]
    DiskFull(String),
    /// The body is larger than allowed.
    #[error("the request body is larger than {limit} bytes; split it, or raise {setting}")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// The setting that has it.
        setting: &'static str,
    },
    /// The body unpacks to many times its size.
    #[error(
        "the request body of {packed} bytes unpacks to {unpacked}, which is more than {ratio} times as many; send it as it is, or in parts \
         that unpack to 1 MB"
    )]
    Inflated {
        /// Bytes as sent.
        packed: usize,
        /// Bytes unpacked.
        unpacked: usize,
        /// The most times.
        ratio: usize,
    },
    /// The body needs more memory than all bodies together may have.
    #[error(
        "the request takes more than the {budget} bytes that the bodies of all requests have together; split it, or raise bodies-bytes-max"
    )]
    OverBudget {
        /// The bytes of all bodies.
        budget: usize,
    },
    /// The bodies of other requests take all the memory that bodies may have.
    #[error(
        "the bodies of other requests take all bytes that bodies may take (bodies-bytes-max); try again in {retry_after_s} s, with fewer \
         at a time"
    )]
    NoRoom {
        /// Seconds after which there should be room.
        retry_after_s: u64,
    },
    /// The sessions of the port of deployment take all the disk that they may.
    #[error(
        "the package does not fit into the {most} bytes that all sessions may take on disk; send less, activate or leave others, or \
         raise sessions-bytes-max"
    )]
    SessionsFull {
        /// Bytes of all sessions.
        most: u64,
    },
    /// The body comes too slowly.
    #[error(
        "the request body came too slowly: {received} bytes while the server waited for {waited:.1?}; send it faster, or raise \
         body-patience-s or the request's timeout"
    )]
    SlowBody {
        /// Bytes that came.
        received: usize,
        /// The time spent waiting for them.
        waited: Duration,
    },
    /// The request has more parameters than it may.
    #[error(
        "the request has more than {most} parameters; send what belongs together as one of them, or raise parameters-max"
    )]
    TooManyParameters {
        /// The most parameters.
        most: usize,
    },
    /// The operation is larger than services.xml allows.
    #[error(
        "the operation has {bytes} bytes, and services.xml allows {limit}; send less, or raise max-document-size there"
    )]
    OperationTooLarge {
        /// Bytes of the body.
        bytes: usize,
        /// The most there can be.
        limit: u64,
    },
    /// More requests wait than may.
    #[error("too many requests are waiting; try again in a moment, with fewer at a time")]
    Overloaded,
    /// A client has asked for as much as its quota allows.
    #[error(
        "'{id}' has asked more than its rate.quota of {quota} a second; ask again in a second, or with a higher quota"
    )]
    OverQuota {
        /// The client.
        id: String,
        /// What it may ask in a second.
        quota: f64,
    },
    /// More is asked than the operator allows.
    #[error("{of} is asked more than {limit} times a second; ask again in a second, or raise {flag}")]
    OverRate {
        /// The key of the limit: a group or an address.
        of: String,
        /// Requests a second.
        limit: f64,
        /// The setting that chooses it.
        flag: &'static str,
    },
    /// The request took longer than it may.
    #[error("the request did not end within {0:?}; ask for less, or raise its timeout")]
    Timeout(Duration),
    /// The application package is refused.
    #[error("{0}")]
    Package(#[from] millrace_schema::PackageMistakes),
    /// The query has a parameter that its query profile does not permit.
    #[error("{0}")]
    QueryProfile(#[from] millrace_schema::Error),
    /// A document, its id, or an operation on it is wrong.
    #[error("{0}")]
    Document(#[from] millrace_document::Error),
    /// A document selection is wrong.
    #[error("{0}")]
    Selection(#[from] millrace_selection::Error),
    /// The text of a query is wrong.
    #[error("{0}")]
    Query(#[from] millrace_query::Error),
    /// The query does not go with the schema.
    #[error("{0}")]
    Plan(#[from] millrace_plan::Error),
    /// The query asks for a schema or content cluster that is not there.
    #[error("Could not resolve source ref '{name}'. Valid source refs are {known}.")]
    UnknownSource {
        /// As asked.
        name: String,
        /// What there is, joined by commas.
        known: String,
    },
    /// The search cannot be made ready, or does not come through.
    #[error("{0}")]
    Search(#[from] millrace_search::Error),
    /// A text cannot be embedded.
    #[error("{0}")]
    Embedding(#[from] millrace_embedding::Error),
    /// A language model does not answer.
    #[error(transparent)]
    Language(millrace_remote::Error),
    /// The store refuses or fails.
    #[error("{0}")]
    Store(#[from] millrace_store::Error),
    /// The nodes of the cluster are about to agree who answers this.
    #[error("{0}; try again in a moment")]
    Unsettled(String),
    /// Another node, which would have to answer, cannot be reached.
    #[error("node {address} cannot be reached: {reason}; try again in a moment")]
    Unreachable {
        /// Its `host:port`.
        address: String,
        /// What the connection says.
        reason: String,
        /// Whether it may have seen the request.
        sent: bool,
    },
    /// Not every replica has said that it has a write.
    #[error("{0}; whether it was written is not known: read the document, or write it again")]
    Unknown(String),
    /// What another node answered to its part of a request.
    #[error("{message}")]
    Remote {
        /// The status that it answered.
        status: StatusCode,
        /// Its own words.
        message: String,
    },
    /// What should not happen.
    #[error("{0}")]
    Internal(String),
}

/// What the caller of a failed request can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Change the request.
    BadRequest,
    /// Ask for something that exists.
    NotFound,
    /// Use another method.
    MethodNotAllowed,
    /// Read again, then decide.
    Conflict,
    /// The condition did not hold; nothing was changed.
    Precondition,
    /// Send less.
    TooLarge,
    /// Wait and try again.
    Overloaded,
    /// Wait until the node can serve.
    Unavailable,
    /// Ask for less, or give it more time.
    Timeout,
    /// Make room on the disk.
    Storage,
    /// Report it.
    Internal,
}

/// Messages of more characters are shortened.
const MESSAGE_MAX: usize = 1_000;
/// So many characters of their beginning, and of their end, are kept.
const HEAD: usize = 600;
const TAIL: usize = 300;

fn shortened(message: String) -> String {
    // Every character has at least a byte.
    if message.len() <= MESSAGE_MAX || message.chars().count() <= MESSAGE_MAX {
        return message;
    }
    let head: String = message.chars().take(HEAD).collect();
    let tail: Vec<char> = message.chars().rev().take(TAIL).collect();
    head.chars().chain(" … ".chars()).chain(tail.into_iter().rev()).collect()
}

impl Error {
    /// A parameter's value is wrong.
    pub(crate) fn parameter(name: &'static str, reason: impl Into<String>) -> Self {
        Error::Parameter { name, reason: reason.into() }
    }

    /// What callers are told. Where a long request is repeated in it, the middle of the message is left out:
    /// what is wrong, and where, stands at the beginning and at the end.
    pub(crate) fn message(&self) -> String {
        match self {
            // A line for each mistake.
            Error::Package(mistakes) => mistakes
                .to_string()
                .lines()
                .map(|line| shortened(line.to_owned()))
                .collect::<Vec<_>>()
                .join("\n"),
            other => shortened(other.to_string()),
        }
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotDeployed | Error::Unsettled(_) | Error::Unreachable { .. } => ErrorKind::Unavailable,
            Error::BadRequest(_)
            | Error::Parameter { .. }
            | Error::Package(_)
            | Error::QueryProfile(_)
            | Error::Document(_)
            | Error::Selection(_)
            | Error::Query(_)
            | Error::Plan(_)
            | Error::UnknownSource { .. } => ErrorKind::BadRequest,
            Error::Search(error) => search_kind(error),
            Error::Embedding(error) => embedding_kind(error),
            Error::Language(error) => remote_kind(error),
            Error::DiskFull(_) => ErrorKind::Storage,
            Error::NotFound(_) => ErrorKind::NotFound,
            Error::MethodNotAllowed { .. } => ErrorKind::MethodNotAllowed,
            Error::Conflict(_) => ErrorKind::Conflict,
            Error::Condition(_) => ErrorKind::Precondition,
            Error::TooManyParameters { .. } => ErrorKind::BadRequest,
            Error::TooLarge { .. }
            | Error::OperationTooLarge { .. }
            | Error::Inflated { .. }
            | Error::OverBudget { .. }
            | Error::SessionsFull { .. } => ErrorKind::TooLarge,
            Error::Overloaded | Error::OverQuota { .. } | Error::OverRate { .. } | Error::NoRoom { .. } => {
                ErrorKind::Overloaded
            }
            Error::Timeout(_) | Error::Unknown(_) | Error::SlowBody { .. } => ErrorKind::Timeout,
            Error::Remote { status, .. } => ErrorKind::of(*status),
            Error::Store(error) => store_kind(error),
            Error::Internal(_) => ErrorKind::Internal,
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            // It is the client that was late.
            Error::SlowBody { .. } => StatusCode::REQUEST_TIMEOUT,
            other => other.kind().status(),
        }
    }

    /// The seconds after which the client may try again, where that helps: the value of `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<HeaderValue> {
        match (self, self.kind()) {
            (Error::NoRoom { retry_after_s }, _) => Some(HeaderValue::from(*retry_after_s)),
            (_, ErrorKind::Overloaded | ErrorKind::Unavailable) => Some(HeaderValue::from_static("1")),
            _ => None,
        }
    }
}

/// What the caller can do about what the store says.
fn store_kind(error: &millrace_store::Error) -> ErrorKind {
    use millrace_store::Error as Store;
    match error {
        Store::Overloaded => ErrorKind::Overloaded,
        Store::DiskFull { .. } | Store::NoSpace { .. } => ErrorKind::Storage,
        Store::IdTooLong { .. } | Store::Refused(_) | Store::Continuation => ErrorKind::BadRequest,
        Store::Closed | Store::Poisoned { .. } => ErrorKind::Unavailable,
        Store::Corrupt { .. } | Store::Io { .. } | Store::Tail { .. } | Store::DataDirectory { .. } => {
            ErrorKind::Internal
        }
        // The store's errors may become more.
        _ => ErrorKind::Internal,
    }
}

/// What the caller can do about what an embedder says.
fn embedding_kind(error: &millrace_embedding::Error) -> ErrorKind {
    use millrace_embedding::Error as Embedding;
    use millrace_model::Error as Model;
    match error {
        Embedding::Remote(error) => remote_kind(error),
        Embedding::Model(Model::Overloaded { .. }) => ErrorKind::Overloaded,
        Embedding::Model(Model::Deadline { .. } | Model::Abandoned { .. }) => ErrorKind::Timeout,
        Embedding::Model(Model::Closed) => ErrorKind::Unavailable,
        Embedding::Model(Model::Runtime { .. } | Model::Load { .. } | Model::Signature { .. })
        | Embedding::Setup(_)
        | Embedding::TokenizerFile { .. } => ErrorKind::Internal,
        Embedding::Model(Model::Run { .. }) | Embedding::Tokenizer(_) | Embedding::Shape { .. } => {
            ErrorKind::BadRequest
        }
    }
}

/// What the caller can do about what another service says.
pub(crate) fn remote_kind(error: &millrace_remote::Error) -> ErrorKind {
    use millrace_remote::Error as Remote;
    match error {
        Remote::Overloaded { .. } => ErrorKind::Overloaded,
        Remote::Deadline { .. } => ErrorKind::Timeout,
        Remote::Retry { .. } => ErrorKind::Unavailable,
        Remote::GiveUp { .. } | Remote::Download { .. } => ErrorKind::Internal,
        Remote::Fix { .. } => ErrorKind::BadRequest,
    }
}

/// What the caller can do about what a search says.
fn search_kind(error: &millrace_search::Error) -> ErrorKind {
    use millrace_grouping::Error as Grouping;
    use millrace_search::Error as Search;
    match error {
        Search::Grouping(Grouping::Syntax { .. } | Grouping::Invalid(_))
        | Search::Selection(_)
        | Search::SortedGlobalPhase { .. }
        | Search::Collation { .. } => ErrorKind::BadRequest,
        Search::Ranking(millrace_ranking::Error::Overloaded(_)) => ErrorKind::Overloaded,
        Search::Matching(_)
        | Search::Ranking(_)
        | Search::Grouping(_)
        | Search::Summary(_)
        | Search::Id { .. }
        | Search::Read(_) => ErrorKind::Internal,
        // The search's errors may become more.
        _ => ErrorKind::Internal,
    }
}

impl ErrorKind {
    /// The kind of error that has a status.
    fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::BAD_REQUEST => ErrorKind::BadRequest,
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::Overloaded,
            StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Unavailable,
            StatusCode::GATEWAY_TIMEOUT => ErrorKind::Timeout,
            StatusCode::INSUFFICIENT_STORAGE => ErrorKind::Storage,
            _ => ErrorKind::Internal,
        }
    }

    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        match self {
            ErrorKind::BadRequest => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Precondition => StatusCode::PRECONDITION_FAILED,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            ErrorKind::Storage => StatusCode::INSUFFICIENT_STORAGE,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
