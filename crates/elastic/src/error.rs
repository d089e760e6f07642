//! Errors in the words of Elasticsearch: each has a type, a reason and a status.

use millrace_node::ErrorKind;
use millrace_node::cluster::ClusterError;
use serde_json::{Map, Value, json};

/// Reason why a request, or an item of a bulk, is refused or fails.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A parameter, a name or an action has an invalid value.
    #[error("{0}")]
    IllegalArgument(String),
    /// Required parts of a request are missing or contradict each other.
    #[error("Validation Failed: {}", numbered(.0))]
    Validation(Vec<String>),
    /// A query or another part of a body is not understood.
    #[error("{0}")]
    Parsing(String),
    /// A body has a member of the wrong type, or an unknown one.
    #[error("{0}")]
    Content(String),
    /// A body is not JSON.
    #[error("{0}")]
    Json(String),
    /// A mapping is malformed.
    #[error("{0}")]
    Mapping(String),
    /// A field is new, and the mapping of the index is strict.
    #[error("mapping set to {mode}, dynamic introduction of [{field}] within [{parent}] is not allowed")]
    Strict {
        /// Value of `dynamic`.
        mode: String,
        /// Name of the field.
        field: String,
        /// Path of the object around it.
        parent: String,
    },
    /// A document is malformed, or does not fit the mapping or the document type of its index.
    #[error("{reason}")]
    Document {
        /// Description of the mismatch.
        reason: String,
        /// Type and reason of the cause, if there is one.
        cause: Option<(&'static str, String)>,
    },
    /// A request for documents of a type does not name their group.
    #[error("{reason}")]
    Routing {
        /// Description of the missing part, and the cure.
        reason: String,
        /// Name of the index.
        index: String,
    },
    /// An index, an alias or a data stream does not exist.
    #[error("no such index [{name}]{detail}")]
    NoIndex {
        /// Its name.
        name: String,
        /// Addition to the reason.
        detail: String,
    },
    /// An index or an alias exists already.
    #[error("{reason}")]
    Exists {
        /// Description of the conflict.
        reason: String,
        /// Name of the index.
        index: String,
    },
    /// The name of an index is invalid.
    #[error("Invalid index name [{name}], {reason}")]
    IndexName {
        /// The name.
        name: String,
        /// Rule that it breaks.
        reason: String,
    },
    /// The name of an alias is invalid.
    #[error("Invalid alias name [{name}]: {reason}")]
    AliasName {
        /// The name.
        name: String,
        /// Rule that it breaks.
        reason: String,
    },
    /// A condition on the version of a document does not hold.
    #[error("[{id}]: version conflict, {reason}")]
    VersionConflict {
        /// Id of the document.
        id: String,
        /// Expected and actual version.
        reason: String,
        /// Name of the index.
        index: String,
    },
    /// The document to update does not exist.
    #[error("[{id}]: document missing")]
    NoDocument {
        /// Id of the document.
        id: String,
        /// Name of the index.
        index: String,
    },
    /// An object other than a document or an index does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Named aliases do not exist.
    #[error("aliases [{0}] missing")]
    NoAlias(String),
    /// The index is closed.
    #[error("closed")]
    Closed(String),
    /// A setting of the index refuses writes.
    #[error("index [{index}] blocked by: [{block}];")]
    Blocked {
        /// Name of the index.
        index: String,
        /// Description of the block.
        block: &'static str,
        /// HTTP status.
        status: u16,
    },
    /// The index belongs to the deployed application.
    #[error("{0}")]
    Forbidden(String),
    /// The credential is missing, or not valid any more.
    #[error("{0}")]
    Unauthenticated(String),
    /// Too many requests are in flight. Nothing was begun.
    #[error("{0}")]
    Rejected(String),
    /// The disk is full. Removals go on.
    #[error("{0}")]
    DiskFull(String),
    /// The disk of a replica is full, and other replicas may have the write.
    #[error("{0}")]
    PartlyFull(String),
    /// No node can answer now. Nothing was begun.
    #[error("{0}")]
    NotBegun(String),
    /// The outcome is not known, or no node can answer now.
    #[error("{0}")]
    Unavailable(String),
    /// The path exists, but not for this method.
    #[error("Incorrect HTTP method for uri [{uri}] and method [{method}], allowed: [{allowed}]")]
    Method {
        /// Path of the request.
        uri: String,
        /// Method of the request.
        method: String,
        /// Allowed methods.
        allowed: String,
    },
    /// The media type of the body is not supported.
    #[error("{0}")]
    MediaType(String),
    /// The media type of the body or of the answer is not one of these interfaces.
    #[error("{0}")]
    NotAcceptable(String),
    /// A header with a media type names a version that does not exist.
    #[error("Invalid media-type value on headers [{header}]")]
    MediaVersion {
        /// Name of the header.
        header: &'static str,
        /// Description of the mismatch.
        reason: String,
    },
    /// The body is too large.
    #[error("{0}")]
    TooLarge(String),
    /// The request took too long.
    #[error("{0}")]
    Timeout(String),
    /// A bug, or a failure of the machine.
    #[error("{0}")]
    Internal(String),
}

fn numbered(reasons: &[String]) -> String {
    reasons.iter().enumerate().map(|(at, reason)| format!("{}: {reason};", at + 1)).collect()
}

impl Error {
    /// Creates the error of an index that does not exist.
    pub(crate) fn no_index(name: &str) -> Self {
        Error::NoIndex { name: name.to_owned(), detail: String::new() }
    }

    /// Creates the error of a request for something that this service does not have.
    pub(crate) fn unsupported(what: &str) -> Self {
        Error::IllegalArgument(format!("{what} is not supported; docs/elastic.md lists what there is"))
    }

    /// Creates the error of a body with a member or a kind that this service does not know.
    pub(crate) fn unknown(what: &str) -> Self {
        Error::Parsing(format!("{what}; docs/elastic.md lists what there is"))
    }

    /// Creates the error of a mapping that is malformed.
    pub(crate) fn mapping(reason: impl Into<String>) -> Self {
        Error::Mapping(reason.into())
    }

    /// Creates the error of a document that does not fit.
    pub(crate) fn document(reason: impl Into<String>) -> Self {
        Error::Document { reason: reason.into(), cause: None }
    }

    /// Creates the error of a document that is not JSON.
    pub(crate) fn not_json(error: impl std::fmt::Display) -> Self {
        let cause = ("json_parse_exception", error.to_string());
        Error::Document { reason: "failed to parse".to_owned(), cause: Some(cause) }
    }

    /// Type of the error, as clients compare it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Error::IllegalArgument(_) => "illegal_argument_exception",
            Error::Validation(_) => "action_request_validation_exception",
            Error::Parsing(_) => "parsing_exception",
            Error::Content(_) => "x_content_parse_exception",
            Error::Json(_) => "json_parse_exception",
            Error::Mapping(_) => "mapper_parsing_exception",
            Error::Strict { .. } => "strict_dynamic_mapping_exception",
            Error::Document { .. } => "document_parsing_exception",
            Error::Routing { .. } => "routing_missing_exception",
            Error::NoIndex { .. } => "index_not_found_exception",
            Error::Exists { .. } => "resource_already_exists_exception",
            Error::IndexName { .. } => "invalid_index_name_exception",
            Error::AliasName { .. } => "invalid_alias_name_exception",
            Error::VersionConflict { .. } => "version_conflict_engine_exception",
            Error::NoDocument { .. } => "document_missing_exception",
            Error::NotFound(_) => "resource_not_found_exception",
            Error::NoAlias(_) => "aliases_not_found_exception",
            Error::Closed(_) => "index_closed_exception",
            Error::Forbidden(_) | Error::Unauthenticated(_) => "security_exception",
            Error::Rejected(_) => "es_rejected_execution_exception",
            Error::DiskFull(_) | Error::PartlyFull(_) | Error::Blocked { .. } => "cluster_block_exception",
            Error::NotBegun(_) | Error::Unavailable(_) => "unavailable_shards_exception",
            Error::Method { .. } => "method_not_allowed_exception",
            Error::MediaType(_) | Error::NotAcceptable(_) | Error::MediaVersion { .. } => {
                "media_type_header_exception"
            }
            Error::TooLarge(_) => "content_too_long_exception",
            Error::Timeout(_) => "timeout_exception",
            Error::Internal(_) => "exception",
        }
    }

    /// HTTP status. Overload and a full disk are 429, an unknown outcome is 503: clients repeat these. No
    /// permanent error has either.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Error::IllegalArgument(_)
            | Error::Validation(_)
            | Error::Parsing(_)
            | Error::Content(_)
            | Error::Json(_)
            | Error::Mapping(_)
            | Error::Strict { .. }
            | Error::Document { .. }
            | Error::Routing { .. }
            | Error::Exists { .. }
            | Error::IndexName { .. }
            | Error::AliasName { .. }
            | Error::MediaVersion { .. }
            | Error::Closed(_) => 400,
            Error::Blocked { status, .. } => *status,
            Error::Unauthenticated(_) => 401,
            Error::Forbidden(_) => 403,
            Error::NoIndex { .. } | Error::NoDocument { .. } | Error::NotFound(_) | Error::NoAlias(_) => 404,
            Error::Method { .. } => 405,
            Error::NotAcceptable(_) => 406,
            Error::Timeout(_) => 408,
            Error::VersionConflict { .. } => 409,
            Error::TooLarge(_) => 413,
            Error::MediaType(_) => 415,
            Error::Rejected(_) | Error::DiskFull(_) | Error::PartlyFull(_) => 429,
            Error::NotBegun(_) | Error::Unavailable(_) => 503,
            Error::Internal(_) => 500,
        }
    }

    /// True if servers could not do now what was asked for: it is no fault of the request.
    pub(crate) fn is_for_later(&self) -> bool {
        matches!(self.status(), 429 | 500 | 503)
    }

    /// The error as an object: that of an item of a bulk, and of each root cause.
    pub(crate) fn object(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("type".to_owned(), self.kind().into());
        object.insert("reason".to_owned(), self.to_string().into());
        match self {
            Error::NoIndex { name, .. } | Error::IndexName { name, .. } | Error::Closed(name) => {
                object.insert("index".to_owned(), name.as_str().into());
                object.insert("index_uuid".to_owned(), "_na_".into());
                if matches!(self, Error::NoIndex { .. }) {
                    object.insert("resource.type".to_owned(), "index_or_alias".into());
                    object.insert("resource.id".to_owned(), name.as_str().into());
                }
            }
            Error::Exists { index, .. }
            | Error::Blocked { index, .. }
            | Error::Routing { index, .. }
            | Error::VersionConflict { index, .. }
            | Error::NoDocument { index, .. } => {
                object.insert("index".to_owned(), index.as_str().into());
                if matches!(self, Error::VersionConflict { .. } | Error::NoDocument { .. }) {
                    object.insert("shard".to_owned(), "0".into());
                }
            }
            Error::MediaVersion { reason, .. } => {
                let cause = json!({ "type": "status_exception", "reason": reason });
                object.insert("caused_by".to_owned(), cause);
            }
            Error::Document { cause: Some((kind, reason)), .. } => {
                object.insert("caused_by".to_owned(), json!({ "type": kind, "reason": reason }));
            }
            _ => {}
        }
        object
    }

    /// The whole body of the answer to a request that is refused.
    pub(crate) fn body(&self) -> Value {
        if let Error::Method { .. } | Error::NoAlias(_) | Error::NotAcceptable(_) = self {
            return json!({ "error": self.to_string(), "status": self.status() });
        }
        let mut error = Map::new();
        let mut root = self.object();
        root.remove("caused_by");
        error.insert("root_cause".to_owned(), json!([root]));
        error.extend(self.object());
        json!({ "error": error, "status": self.status() })
    }
}

impl From<millrace_store::Error> for Error {
    fn from(error: millrace_store::Error) -> Self {
        millrace_node::Error::from(error).into()
    }
}

impl From<ClusterError> for Error {
    fn from(error: ClusterError) -> Self {
        millrace_node::Error::from(error).into()
    }
}

impl From<millrace_document::Error> for Error {
    fn from(error: millrace_document::Error) -> Self {
        Error::IllegalArgument(error.to_string())
    }
}

impl From<millrace_node::Error> for Error {
    fn from(error: millrace_node::Error) -> Self {
        let message = error.message();
        match error.kind() {
            _ if error.changed_nothing() => Error::NotBegun(message),
            _ if matches!(error, millrace_node::Error::PartlyFull(_)) => Error::PartlyFull(message),
            ErrorKind::BadRequest
            | ErrorKind::MethodNotAllowed
            | ErrorKind::Conflict
            | ErrorKind::Precondition => Error::IllegalArgument(message),
            ErrorKind::NotFound => Error::NotFound(message),
            ErrorKind::TooLarge => Error::TooLarge(message),
            ErrorKind::Overloaded => Error::Rejected(message),
            ErrorKind::Storage => Error::DiskFull(message),
            ErrorKind::Unavailable | ErrorKind::Timeout => Error::Unavailable(message),
            ErrorKind::Unauthenticated => Error::Unauthenticated(message),
            ErrorKind::Forbidden => Error::Forbidden(message),
            ErrorKind::Internal => Error::Internal(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_429_wherever_it_is() {
        use millrace_node::Error as Node;
        for (error, expected) in [
            (Node::DiskFull("full".to_owned()), (429, "cluster_block_exception")),
            (Node::PartlyFull("full".to_owned()), (429, "cluster_block_exception")),
            (Node::Unknown("late".to_owned()), (503, "unavailable_shards_exception")),
        ] {
            let shown = Error::from(error);
            assert_eq!((shown.status(), shown.kind()), expected, "{shown}");
        }
    }
}
