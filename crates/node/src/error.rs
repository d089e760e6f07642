//! Errors at the start of a node ([`StartError`]), and of a request ([`Error`]).
//!
//! Every [`Error`] has an [`ErrorKind`] for the next action of the caller; the message gives a human the
//! reason. Each family of endpoints renders errors in its own form.

use std::path::PathBuf;
use std::time::Duration;

use millrace_plan::QueryMemoryError;

/// Reason why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("data directory {}: {source}; choose another with --data-dir, or let this user read and write it", path.display())]
    Directory {
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The directory has files of another program, and is not a data directory.
    #[error(
        "data directory {}: it has files that do not belong to a server, such as '{}'; choose an empty directory, or a new one, with --data-dir",
        path.display(),
        example.display()
    )]
    Foreign {
        /// Directory.
        path: PathBuf,
        /// Name of a file in it.
        example: PathBuf,
    },
    /// The unfinished steps of the last deployment fail.
    #[error("the last deployment cannot be completed: {0}")]
    Deployment(Error),
    /// The operating system refuses threads.
    #[error(
        "cannot start threads: {0}; raise the limit of the system (ulimit -u, TasksMax), or lower --threads"
    )]
    Threads(std::io::Error),
    /// The store does not open.
    #[error("{0}{cure}", cure = doctor(.0))]
    Store(#[from] millrace_store::Error),
    /// The previously active application no longer works.
    #[error("the active application in {} cannot be used: {reason}; {cure}", path.display())]
    Application {
        /// Path of the application.
        path: PathBuf,
        /// Reason.
        reason: String,
        /// Recommended action.
        cure: &'static str,
    },
    /// The state of reindexing cannot be read.
    #[error("the state of reindexing in {} cannot be read: {reason}; {cure}", path.display())]
    Reindexing {
        /// Path of the state.
        path: PathBuf,
        /// Reason.
        reason: String,
        /// Recommended action.
        cure: &'static str,
    },
}

/// Advice to check all files, for errors of the store where that may help; some errors name their cure
/// themselves.
fn doctor(error: &millrace_store::Error) -> &'static str {
    match error {
        millrace_store::Error::DataDirectory { .. } | millrace_store::Error::Corrupt { .. } => "",
        _ => "; look at it with: millrace doctor DATA_DIR",
    }
}

/// Reason why a request is refused or fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No application yet.
    #[error(
        "no application is deployed: deploy one with 'millrace deploy DIR' or POST it to \
         /application/v2/tenant/default/prepareandactivate on the config port"
    )]
    NotDeployed,
    /// The request is malformed or contradictory.
    #[error("{0}")]
    BadRequest(String),
    /// The value of a parameter is invalid.
    #[error("parameter '{name}': {reason}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Reason, and the values that are valid.
        reason: String,
    },
    /// The credential of the request does not suffice, or is missing.
    #[error("{0}")]
    Access(#[from] millrace_access::Error),
    /// The addressed object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The path exists, but not for this method.
    #[error("method {method} is not known here; use {allowed}")]
    MethodNotAllowed {
        /// Method of the request.
        method: String,
        /// Allowed methods, joined by commas.
        allowed: &'static str,
    },
    /// Another change came first.
    #[error("{0}")]
    Conflict(String),
    /// A test-and-set condition does not hold.
    #[error("the condition does not hold: {0}")]
    Condition(String),
    /// A node of the cluster has no space for the write. No other has it.
    #[error("{0}")]
    DiskFull(String),
    /// A node of the cluster has no space for the write, and others may have it.
    #[error("{0}")]
    PartlyFull(String),
    /// A group has as many documents or bytes as the operator permits.
    #[error("group {group} is full: it has the {limit} {what} that {flag} permits; remove documents of it")]
    GroupFull {
        /// Group, as in ids.
        group: String,
        /// Unit of the limit.
        what: &'static str,
        /// Limit.
        limit: u64,
        /// Setting that chooses the limit.
        flag: &'static str,
    },
    /// The body is larger than allowed.
    #[error("the request body is larger than {limit} bytes; split it, or raise {setting}")]
    TooLarge {
        /// Limit in bytes.
        limit: usize,
        /// Setting that has the limit.
        setting: &'static str,
    },
    /// The body unpacks to many times its size.
    #[error(
        "the request body of {packed} bytes unpacks to {unpacked}, which is more than {ratio} times as many; send it as it is, or in parts \
         that unpack to 1 MB"
    )]
    Inflated {
        /// Size as sent, in bytes.
        packed: usize,
        /// Size unpacked, in bytes.
        unpacked: usize,
        /// Maximum ratio of the two.
        ratio: usize,
    },
    /// The body needs more memory than the budget of all bodies together.
    #[error(
        "the request takes more than the {budget} bytes that the bodies of all requests have together; split it, or raise bodies-bytes-max"
    )]
    OverBudget {
        /// Budget of all bodies, in bytes.
        budget: usize,
    },
    /// Other requests use the whole of a memory budget.
    #[error(
        "no room for the request now: others take all of {setting}; try again in {retry_after_s} s, with fewer at a time"
    )]
    NoRoom {
        /// Setting that has the budget.
        setting: &'static str,
        /// Seconds after which there should be room.
        retry_after_s: u64,
    },
    /// The sessions of the deployment port use all of their disk space.
    #[error(
        "the package does not fit into the {max} bytes that all sessions may take on disk; send less, activate or leave others, or \
         raise sessions-bytes-max"
    )]
    SessionsFull {
        /// Maximum size of all sessions, in bytes.
        max: u64,
    },
    /// The body arrives too slowly.
    #[error(
        "the request body came too slowly: {received} bytes while the server waited for {waited:.1?}; send it faster, or raise \
         body-timeout-s or the request's timeout"
    )]
    SlowBody {
        /// Bytes received.
        received: usize,
        /// Time spent waiting for them.
        waited: Duration,
    },
    /// The request has too many parameters.
    #[error(
        "the request has more than {max} parameters; send what belongs together as one of them, or raise parameters-max"
    )]
    TooManyParameters {
        /// Maximum number of parameters.
        max: usize,
    },
    /// The operation is larger than services.xml allows.
    #[error(
        "the operation has {bytes} bytes, and services.xml allows {limit}; send less, or raise max-document-size there"
    )]
    OperationTooLarge {
        /// Size of the body, in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        limit: u64,
    },
    /// Too many requests are waiting.
    #[error("too many requests are waiting; try again in a moment, with fewer at a time")]
    Overloaded,
    /// No slot is free for another stream of operations, or its client has as many as it gets.
    #[error(
        "no slot for another stream of operations now: there are {max} at a time at most, which may take {bytes} bytes \
         together, and a client gets as many as it leaves free; end one, or try again in a moment"
    )]
    TooManyStreams {
        /// Maximum number of streams of this kind.
        max: usize,
        /// Memory that all streams may take, in bytes.
        bytes: usize,
    },
    /// A client has used up its quota.
    #[error(
        "'{id}' has asked more than its rate.quota of {quota} a second; ask again in a second, or with a higher quota"
    )]
    OverQuota {
        /// Id of the client.
        id: String,
        /// Its quota, in requests a second.
        quota: f64,
    },
    /// The rate of requests exceeds the operator's limit.
    #[error("{of} is asked more than {limit} times a second; ask again in a second, or raise {flag}")]
    OverRate {
        /// Key of the limit: a group or an address.
        of: String,
        /// Limit, in requests a second.
        limit: f64,
        /// Setting that chooses the limit.
        flag: &'static str,
    },
    /// The bytes of the documents that clients write exceed a limit of the operator.
    #[error(
        "the documents written {of} exceed {limit} bytes a second; try again in {retry_after_s} s, with less at a time, or raise {flag}"
    )]
    OverFed {
        /// Key of the limit, in words: a group or a caller.
        of: String,
        /// Limit, in bytes a second.
        limit: u64,
        /// Setting that chooses the limit.
        flag: &'static str,
        /// Seconds after which documents are accepted again.
        retry_after_s: u64,
    },
    /// A caller, or the documents of a group, have too many requests in flight.
    #[error("{of} has {limit} requests in flight, which is the limit of {setting}; wait for their answers")]
    OverConcurrency {
        /// Key of the limit, in words: a caller or a group.
        of: String,
        /// Limit, in requests.
        limit: u32,
        /// Name of what sets the limit: a credential, or a setting.
        setting: &'static str,
    },
    /// The request exceeded its time limit.
    #[error("the request did not end within {0:?}; ask for less, or raise its timeout")]
    Timeout(Duration),
    /// The application package is refused.
    #[error("{0}")]
    Package(#[from] millrace_schema::PackageMistakes),
    /// The query has a parameter that its query profile does not permit.
    #[error("{0}")]
    QueryProfile(#[from] millrace_schema::Error),
    /// A document, its id, or an operation on it is invalid.
    #[error("{0}")]
    Document(#[from] millrace_document::Error),
    /// A document selection is invalid.
    #[error("{0}")]
    Selection(#[from] millrace_selection::Error),
    /// The text of a query is invalid.
    #[error("{0}")]
    Query(#[from] millrace_query::Error),
    /// The query does not match the schema.
    #[error("{0}")]
    Plan(#[from] millrace_plan::Error),
    /// The query names a schema or content cluster that does not exist.
    #[error("Could not resolve source ref '{name}'. Valid source refs are {known}.")]
    UnknownSource {
        /// Name in the query.
        name: String,
        /// Existing names, joined by commas.
        known: String,
    },
    /// The results of a query take too much memory.
    #[error(transparent)]
    Memory(#[from] QueryMemoryError),
    /// The search cannot be prepared, or fails.
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
    /// An index cannot be read or written.
    #[error("{0}")]
    Index(#[from] millrace_index::Error),
    /// The nodes of the cluster have yet to agree on the node that answers this.
    #[error("{0}; try again in a moment")]
    Unsettled(String),
    /// An index that a request names cannot answer yet, with its progress, and the node in a cluster.
    #[error("{0}; wait for it with 'millrace index wait', or let the query stream with index.use=none")]
    IndexNotReady(String),
    /// The node that has to answer cannot be reached.
    #[error("node {address} {outcome}: {reason}; try again in a moment", outcome = outcome_of(*sent))]
    Unreachable {
        /// Its `host:port`.
        address: String,
        /// Error of the connection.
        reason: String,
        /// True if the node may have received the request.
        sent: bool,
    },
    /// Some replica has not confirmed a write.
    #[error("{0}; whether it was written is not known: read the document, or write it again")]
    Unknown(String),
    /// Error response of another node to its part of a request.
    #[error("{message}")]
    Remote {
        /// Category of the error, as its status says.
        kind: ErrorKind,
        /// Message of that node.
        message: String,
    },
    /// An internal error, which should not occur.
    #[error("{0}")]
    Internal(String),
}

/// Words for a node that may have received a request, or has not.
const fn outcome_of(sent: bool) -> &'static str {
    if sent { "did not answer" } else { "cannot be reached" }
}

/// Category of a failed request, by the action that the caller can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Change the request.
    BadRequest,
    /// Use a credential that is valid.
    Unauthenticated,
    /// Use a credential that has the right, or request what this one permits.
    Forbidden,
    /// Address an object that exists.
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
    /// Request less, or allow more time.
    Timeout,
    /// Free space on the disk.
    Storage,
    /// Report it.
    Internal,
}

/// Maximum length of a message, in characters; longer ones are shortened.
const MESSAGE_MAX: usize = 1_000;
/// Number of characters kept at the beginning of a shortened message, and at its end.
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
    /// Creates the error for an invalid value of a parameter.
    pub fn parameter(name: &'static str, reason: impl Into<String>) -> Self {
        Error::Parameter { name, reason: reason.into() }
    }

    /// Message for the caller. If it repeats a long request, the middle of the message is left out: the error
    /// and its position are at the beginning and at the end.
    pub fn message(&self) -> String {
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

    /// The error of a request that changes something: where a node may have received it, and does not answer,
    /// the outcome is not known, and the request must not be sent again.
    #[must_use]
    pub fn of_change(self) -> Self {
        match self {
            Error::Unreachable { address, reason, sent: true } => {
                Error::Unknown(format!("node {address} was asked, and did not answer: {reason}"))
            }
            error => error,
        }
    }

    /// True if no node has begun the request, because none could be found for it.
    pub fn changed_nothing(&self) -> bool {
        matches!(self, Error::Unsettled(_) | Error::Unreachable { sent: false, .. })
    }

    /// Category of the error, by the action that the caller can take.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NotDeployed
            | Error::Unsettled(_)
            | Error::IndexNotReady(_)
            | Error::Unreachable { .. } => ErrorKind::Unavailable,
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
            Error::Memory(error) => memory_kind(*error),
            Error::Embedding(error) => embedding_kind(error),
            Error::Language(error) => remote_kind(error),
            Error::DiskFull(_) | Error::GroupFull { .. } => ErrorKind::Storage,
            Error::Access(error) if error.is_unauthenticated() => ErrorKind::Unauthenticated,
            Error::Access(_) => ErrorKind::Forbidden,
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
            Error::OverConcurrency { .. }
            | Error::TooManyStreams { .. }
            | Error::Overloaded
            | Error::OverQuota { .. }
            | Error::OverRate { .. }
            | Error::OverFed { .. }
            | Error::NoRoom { .. } => ErrorKind::Overloaded,
            Error::Timeout(_) | Error::Unknown(_) | Error::PartlyFull(_) | Error::SlowBody { .. } => {
                ErrorKind::Timeout
            }
            Error::Remote { kind, .. } => *kind,
            Error::Store(error) => store_kind(error),
            Error::Internal(_) | Error::Index(_) => ErrorKind::Internal,
        }
    }
}

/// Category of an error of the store.
fn store_kind(error: &millrace_store::Error) -> ErrorKind {
    use millrace_store::{Error as Store, WriteRefusalKind};
    match error {
        Store::Refused(refusal) => match refusal.kind {
            WriteRefusalKind::Condition => ErrorKind::Precondition,
            WriteRefusalKind::Misfit => ErrorKind::BadRequest,
            WriteRefusalKind::Overloaded => ErrorKind::Overloaded,
            WriteRefusalKind::Late(_) => ErrorKind::Timeout,
            WriteRefusalKind::Fault => ErrorKind::Internal,
        },
        Store::Overloaded => ErrorKind::Overloaded,
        Store::DiskFull { .. } | Store::NoSpace { .. } => ErrorKind::Storage,
        Store::IdTooLong { .. }
        | Store::Continuation
        | Store::SnapshotName { .. }
        | Store::PointInTime { .. } => ErrorKind::BadRequest,
        Store::SnapshotExists { .. } => ErrorKind::Conflict,
        Store::Closed | Store::Poisoned { .. } => ErrorKind::Unavailable,
        Store::Corrupt { .. }
        | Store::Io { .. }
        | Store::Tail { .. }
        | Store::DataDirectory { .. }
        | Store::NoHardLinks { .. }
        | Store::Version { .. }
        | Store::ClockAhead { .. }
        | Store::Panicked { .. } => ErrorKind::Internal,
    }
}

/// Category of an error of an embedder.
pub(crate) fn embedding_kind(error: &millrace_embedding::Error) -> ErrorKind {
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

/// Category of an error of a remote service.
pub fn remote_kind(error: &millrace_remote::Error) -> ErrorKind {
    use millrace_remote::Error as Remote;
    match error {
        Remote::Overloaded { .. } => ErrorKind::Overloaded,
        Remote::Deadline { .. } => ErrorKind::Timeout,
        Remote::Retry { .. } => ErrorKind::Unavailable,
        Remote::GiveUp { .. }
        | Remote::Download { .. }
        | Remote::Setting { .. }
        | Remote::NoRules
        | Remote::Destination { .. }
        | Remote::Forbidden(_)
        | Remote::NoSecret { .. }
        | Remote::SecretHost { .. } => ErrorKind::Internal,
        Remote::Fix { .. } => ErrorKind::BadRequest,
    }
}

/// Category of a refusal of memory.
fn memory_kind(error: QueryMemoryError) -> ErrorKind {
    match error {
        // A limit that the documents exceed, and not the request.
        QueryMemoryError::OfQuery { .. } => ErrorKind::BadRequest,
        QueryMemoryError::OfAll { .. } => ErrorKind::Overloaded,
    }
}

/// Category of an error of a search.
fn search_kind(error: &millrace_search::Error) -> ErrorKind {
    use millrace_grouping::GroupingFailure;
    use millrace_search::Error as Search;
    if let Some(refused) = error.memory() {
        return memory_kind(refused);
    }
    match error {
        // A limit that the documents exceed, and not the request.
        Search::Grouping(GroupingFailure::TooManyGroups { .. }) => ErrorKind::BadRequest,
        Search::Ranking(millrace_ranking::Error::Overloaded(_)) => ErrorKind::Overloaded,
        Search::Matching(_)
        | Search::Ranking(_)
        | Search::Grouping(_)
        | Search::Summary(_)
        | Search::Id { .. }
        | Search::Share
        | Search::Memory(_)
        | Search::Read(_) => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_answer_leaves_only_changes_unknown() {
        for (sent, read, change, is_open) in [
            (
                false,
                "node b:1 cannot be reached: reset; try again in a moment",
                "node b:1 cannot be reached",
                false,
            ),
            (
                true,
                "node b:1 did not answer: reset; try again in a moment",
                "whether it was written is not known",
                true,
            ),
        ] {
            let error = || Error::Unreachable { address: "b:1".to_owned(), reason: "reset".to_owned(), sent };
            assert_eq!((error().message(), error().kind()), (read.to_owned(), ErrorKind::Unavailable));
            assert_eq!(error().changed_nothing(), !sent);
            let changed = error().of_change();
            assert!(changed.message().contains(change), "{changed}");
            assert_eq!(matches!(changed, Error::Unknown(_)), is_open);
        }
    }
}
