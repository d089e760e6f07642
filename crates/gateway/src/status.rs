//! HTTP statuses of errors, and the errors of the ports themselves.

use std::path::PathBuf;

use hyper::StatusCode;
use hyper::header::HeaderValue;

use millrace_node::{Error, ErrorKind, StartError};
use serde_json::Value;

/// Reason why a node cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A port cannot be bound.
    #[error(
        "cannot listen at {address}: {source}; is another server running there? Choose another with {flag}"
    )]
    Listen {
        /// Address and port.
        address: std::net::SocketAddr,
        /// Setting that chooses the port.
        flag: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The access log cannot be written.
    #[error("access log {}: {source}; choose another place with --access-log", path.display())]
    AccessLog {
        /// File of the access log.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The slow-query log cannot be written.
    #[error("slow-query log {}: {source}; choose another place with --slow-query-log", path.display())]
    SlowQueryLog {
        /// File of the log.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The address of the collector of traces is not one.
    #[error("--otlp-endpoint: {0}; write an address such as http://localhost:4318")]
    SpanEndpoint(#[from] millrace_remote::Error),
    /// Traces cannot be sent.
    #[error(
        "traces cannot be sent: {source}; install the system's certificates (ca-certificates), or leave out --otlp-endpoint"
    )]
    Spans {
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The certificate or the key is not usable.
    #[error("TLS: {0}")]
    Tls(String),
    /// No request for the key set of signed tokens can be made.
    #[error(
        "key set {url}: {source}; install the system's certificates (ca-certificates), or put the key set into a file"
    )]
    TokenKeys {
        /// Its address.
        url: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file of credentials cannot be read.
    #[error("credentials {}: {source}; {}", path.display(), file_cure(.source))]
    CredentialFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The credentials are malformed.
    #[error("{0}; mend the file, or put a whole copy of it back")]
    Credentials(#[from] millrace_access::Error),
    /// The directory of uploaded packages cannot be used.
    #[error(transparent)]
    Sessions(StartError),
    /// The answers to streams with a key cannot be read.
    #[error(
        "answers to streams with an Idempotency-Key, {}: {source}; let this user read them, or move them away: \
         streams that are sent again are then executed again",
        path.display()
    )]
    FeedKeys {
        /// Directory of the answers.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Advice for a file of credentials that cannot be read.
fn file_cure(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "put the file back, or name one that is there",
        std::io::ErrorKind::InvalidData => "put a whole copy of the file back",
        std::io::ErrorKind::IsADirectory => "name a file",
        _ if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::MFILE) => {
            "let the process open more files (ulimit -n)"
        }
        _ => "let this user read the file",
    }
}

/// HTTP form of an error.
pub(crate) trait HttpError {
    /// HTTP status.
    fn status(&self) -> StatusCode;

    /// Value of `Retry-After`, in seconds, if a later attempt may succeed.
    fn retry_after(&self) -> Option<HeaderValue>;
}

impl HttpError for Error {
    fn status(&self) -> StatusCode {
        match self {
            // The client was late, not the server.
            Error::SlowBody { .. } => StatusCode::REQUEST_TIMEOUT,
            other => status_of(other.kind()),
        }
    }

    fn retry_after(&self) -> Option<HeaderValue> {
        match (self, self.kind()) {
            (Error::NoRoom { retry_after_s, .. } | Error::OverFed { retry_after_s, .. }, _) => {
                Some(HeaderValue::from(*retry_after_s))
            }
            (_, ErrorKind::Overloaded | ErrorKind::Unavailable) => Some(HeaderValue::from_static("1")),
            _ => None,
        }
    }
}

/// Returns the kind of error with this status, which another node has answered. Statuses that concern the two
/// nodes alone, such as that of a method which the other one does not know, are internal errors.
pub(crate) fn kind_of(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::BAD_REQUEST => ErrorKind::BadRequest,
        StatusCode::UNAUTHORIZED => ErrorKind::Unauthenticated,
        StatusCode::FORBIDDEN => ErrorKind::Forbidden,
        StatusCode::NOT_FOUND => ErrorKind::NotFound,
        StatusCode::CONFLICT => ErrorKind::Conflict,
        StatusCode::PRECONDITION_FAILED => ErrorKind::Precondition,
        StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::TooLarge,
        StatusCode::TOO_MANY_REQUESTS => ErrorKind::Overloaded,
        StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Unavailable,
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => ErrorKind::Timeout,
        StatusCode::INSUFFICIENT_STORAGE => ErrorKind::Storage,
        _ => ErrorKind::Internal,
    }
}

/// Message of the body of an error, in the form of any interface; or else its text.
pub(crate) fn message_of(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let of_query = &answer["root"]["errors"][0];
    let messages = [
        &answer["message"],
        &of_query["message"],
        &of_query["summary"],
        &answer["error"]["reason"],
        &answer["error"],
    ];
    let message = messages.into_iter().find_map(Value::as_str);
    message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}

/// Returns the HTTP status of a kind of error.
pub(crate) const fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::BadRequest => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_another_node_stays_what_it_is() {
        for kind in [
            ErrorKind::BadRequest,
            ErrorKind::Unauthenticated,
            ErrorKind::Forbidden,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Precondition,
            ErrorKind::TooLarge,
            ErrorKind::Overloaded,
            ErrorKind::Unavailable,
            ErrorKind::Timeout,
            ErrorKind::Storage,
            ErrorKind::Internal,
        ] {
            assert_eq!(kind_of(status_of(kind)), kind);
        }
        assert_eq!(kind_of(StatusCode::METHOD_NOT_ALLOWED), ErrorKind::Internal);
    }

    #[test]
    fn a_file_of_credentials_has_the_cure_of_its_fault() {
        for (kind, cure) in [
            (std::io::ErrorKind::NotFound, "put the file back"),
            (std::io::ErrorKind::InvalidData, "a whole copy of the file"),
            (std::io::ErrorKind::PermissionDenied, "let this user read the file"),
            (std::io::ErrorKind::IsADirectory, "name a file"),
        ] {
            let error = PortError::CredentialFile { path: "keys".into(), source: kind.into() }.to_string();
            assert!(error.starts_with("credentials keys: ") && error.contains(cure), "{error}");
        }
    }

    #[test]
    fn an_error_has_its_message_or_its_text() {
        for (body, expected) in [
            (r#"{"message":"full","code":1}"#, "full"),
            (r#"{"root":{"errors":[{"code":8,"summary":"Error in search","message":"late"}]}}"#, "late"),
            (r#"{"root":{"errors":[{"code":8,"summary":"Error in search"}]}}"#, "Error in search"),
            (r#"{"error":{"type":"exception","reason":"stopped"},"status":503}"#, "stopped"),
            (r#"{"error":"stopped","status":503}"#, "stopped"),
            (r#"{"root":{"errors":[]}}"#, r#"{"root":{"errors":[]}}"#),
            ("[1]", "[1]"),
            ("busy", "busy"),
            ("", ""),
        ] {
            assert_eq!(message_of(body.as_bytes()), expected);
        }
    }
}
