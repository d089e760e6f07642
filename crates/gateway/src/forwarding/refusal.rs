//! Errors of answers of other nodes: they have the message of the other node, and its name.

use hyper::StatusCode;
use millrace_node::{Error, ErrorKind};

use crate::status::{kind_of, message_of};

/// Error for an answer of a node that is no success.
pub(crate) fn refused_by(node: &str, status: StatusCode, body: &[u8]) -> Error {
    let message = match message_of(body) {
        message if message.is_empty() => status.to_string(),
        message => message,
    };
    Error::Remote { kind: kind_of(status), message: format!("node {node}: {message}") }
}

/// [`refused_by`], but an error of the request itself has the message that it would have on any node.
pub(crate) fn refused_part(node: &str, status: StatusCode, body: &[u8]) -> Error {
    match kind_of(status) {
        kind @ (ErrorKind::BadRequest
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::MethodNotAllowed
        | ErrorKind::Conflict
        | ErrorKind::Precondition
        | ErrorKind::TooLarge) => Error::Remote { kind, message: message_of(body) },
        ErrorKind::Overloaded
        | ErrorKind::Unavailable
        | ErrorKind::Timeout
        | ErrorKind::Storage
        | ErrorKind::Internal => refused_by(node, status, body),
    }
}

/// Error for an answer of a node of which only a part has come.
pub(crate) fn broken_answer(node: &str, reason: &str) -> Error {
    let reason = format!("its answer broke off: {reason}");
    Error::Unreachable { address: node.to_owned(), reason, sent: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::HttpError;

    #[test]
    fn an_error_of_another_node_has_its_message_and_its_name() {
        let query = r#"{"root":{"errors":[{"code":12,"message":"late"}]}}"#;
        for (status, body, by, part) in [
            (503, r#"{"message":"full"}"#, "node b:1: full", "node b:1: full"),
            (504, query, "node b:1: late", "node b:1: late"),
            (429, "busy", "node b:1: busy", "node b:1: busy"),
            (500, "", "node b:1: 500 Internal Server Error", "node b:1: 500 Internal Server Error"),
            (400, r#"{"message":"no such field"}"#, "node b:1: no such field", "no such field"),
        ] {
            let code = StatusCode::from_u16(status).expect("a status");
            let body = body.as_bytes();
            let errors = [refused_by("b:1", code, body), refused_part("b:1", code, body)];
            assert_eq!(errors.each_ref().map(|error| error.status().as_u16()), [status; 2]);
            assert_eq!(errors.map(|error| error.message()), [by, part], "{status}");
        }
    }

    #[test]
    fn an_answer_that_broke_off_can_be_asked_for_again() {
        let error = broken_answer("b:1", "reset");
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(error.retry_after().is_some() && !error.changed_nothing(), "{error}");
        assert_eq!(
            error.message(),
            "node b:1 did not answer: its answer broke off: reset; try again in a moment"
        );
    }
}
