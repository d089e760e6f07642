//! Questions of a node to another: one message in CBOR each way, over HTTP.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_node::Error;
use millrace_node::cluster::{ForwardKind, RemoteNode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ForwardedRequest, NodeForwarder, is_unsettled, unsettled};
use crate::http::BodyBounds;
use crate::status::{HttpError, kind_of};
use crate::{GatewayState, http};

/// Maximum bytes of a question and of an answer. The largest name all buckets, about a million, or as many
/// groups as a credential has.
const BYTES_MAX: usize = 32 << 20;

/// Sends a question to a path of a node, and reads its answer.
///
/// # Errors
/// [`Error::Unsettled`] where the node says so, or its answer cannot be read; [`Error::Remote`] for another
/// refusal, also that of an older version, which does not have the path.
pub(super) async fn ask<Q: Serialize, A: DeserializeOwned>(
    forwarder: &NodeForwarder,
    remote: &RemoteNode,
    path: &str,
    question: &Q,
) -> Result<A, Error> {
    let request = ForwardedRequest {
        method: Method::POST,
        target: path.to_owned(),
        headers: HeaderMap::new(),
        body: written(question)?.into(),
        room: None,
    };
    let answer = forwarder.send(remote, request, &ForwardKind::Share).await?;
    if is_unsettled(answer.headers()) {
        return Err(Error::Unsettled(format!("node {remote} does not have the documents")));
    }
    let status = answer.status();
    let body = to_bytes(answer.into_body(), BYTES_MAX)
        .await
        .map_err(|error| Error::Unsettled(format!("the answer of node {remote} broke off: {error}")))?;
    if status != StatusCode::OK {
        let reason = String::from_utf8_lossy(&body);
        let message = format!("node {remote} does not answer {path}: {status} {reason}");
        return Err(Error::Remote { kind: kind_of(status), message });
    }
    ciborium::from_reader(&*body)
        .map_err(|error| Error::Unsettled(format!("the answer of node {remote} cannot be read: {error}")))
}

/// Reads the question of another node.
///
/// # Errors
/// The body is too long or breaks off, memory is short, or it is not a question of this kind.
pub(super) async fn read<Q: DeserializeOwned>(node: &GatewayState, request: Request) -> Result<Q, Error> {
    let bounds = BodyBounds { bytes: BYTES_MAX, ..node.body_bounds() };
    let body = http::collect(node, request.into_body(), bounds).await?;
    ciborium::from_reader(&*body)
        .map_err(|error| Error::BadRequest(format!("the question cannot be read: {error}")))
}

/// Response with an answer to another node, or with the reason for which there is none.
pub(super) fn respond<A: Serialize>(answer: Result<A, Error>) -> Response {
    match answer.and_then(|answer| written(&answer)) {
        Ok(body) => http::answer(StatusCode::OK, "application/cbor", body),
        Err(error) => {
            let mut response = (error.status(), error.to_string()).into_response();
            if matches!(error, Error::Unsettled(_)) {
                unsettled(response.headers_mut());
            }
            response
        }
    }
}

fn written(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    ciborium::into_writer(message, &mut bytes).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(bytes)
}

/// Checks that a message is written as these bytes, in hexadecimal digits, and read from them.
#[cfg(test)]
pub(super) fn check_kept<T: Serialize + DeserializeOwned>(message: &T, kept: &str) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let bytes = written(message).expect("a message of plain data is written");
    assert_eq!(hex(&bytes), kept);
    let read: T = ciborium::from_reader(&bytes[..]).expect("what was written is read");
    assert_eq!(hex(&written(&read).expect("a message of plain data is written")), kept);
}
