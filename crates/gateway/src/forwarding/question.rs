//! Questions of a node to another: one message each way, over HTTP.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_access::WantedGroups;
use millrace_node::Error;
use millrace_node::cluster::{ForwardKind, RemoteNode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::MessageProtocol;
use super::refusal::refused_by;
use super::{ForwardedRequest, NodeForwarder, is_unsettled, unsettled};
use crate::edge::caller_of;
use crate::http::BodyBounds;
use crate::status::HttpError;
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
    ask_or(forwarder, remote, path, question, Error::Unsettled).await
}

/// [`ask`], with another error where the answer cannot be read: the node may have done what it was asked.
///
/// # Errors
/// Those of [`ask`].
pub(super) async fn ask_or<Q: Serialize, A: DeserializeOwned>(
    forwarder: &NodeForwarder,
    remote: &RemoteNode,
    path: &str,
    question: &Q,
    unread: fn(String) -> Error,
) -> Result<A, Error> {
    let protocol = MessageProtocol::of(remote);
    let request = ForwardedRequest {
        method: Method::POST,
        target: path.to_owned(),
        headers: HeaderMap::new(),
        body: written(protocol, question)?.into(),
        room: None,
    };
    let answer = forwarder.send(remote, request, &ForwardKind::Share).await?;
    if is_unsettled(answer.headers()) {
        return Err(Error::Unsettled(format!("node {remote} does not have the documents")));
    }
    let status = answer.status();
    let body = to_bytes(answer.into_body(), BYTES_MAX)
        .await
        .map_err(|error| unread(format!("the answer of node {remote} broke off: {error}")))?;
    if status != StatusCode::OK {
        return Err(refused_by(&remote.address, status, &body));
    }
    protocol
        .decode(&body)
        .map_err(|error| unread(format!("the answer of node {remote} cannot be read: {error}")))
}

/// Reads the question of another node. It may be about the documents of any group, so a credential for some
/// groups does not suffice, with any right.
///
/// # Errors
/// The caller may not use all groups; the body is too long or breaks off, memory is short, or it is not a
/// question of this kind.
pub(super) async fn read<Q: DeserializeOwned>(node: &GatewayState, request: Request) -> Result<Q, Error> {
    caller_of(&request)?.permit(WantedGroups::All)?;
    let protocol = MessageProtocol::of_request(request.headers());
    let bounds = BodyBounds { bytes: BYTES_MAX, is_question: true, ..node.body_bounds() };
    let body = http::collect(node, request.into_body(), bounds).await?;
    protocol.decode(&body).map_err(|error| Error::BadRequest(format!("the question cannot be read: {error}")))
}

/// Response in this protocol with an answer to another node, or with the reason for which there is none.
pub(super) fn respond<A: Serialize>(protocol: MessageProtocol, answer: Result<A, Error>) -> Response {
    match answer.and_then(|answer| written(protocol, &answer)) {
        Ok(body) => http::answer(StatusCode::OK, protocol.media_type(), body),
        Err(error) => {
            let mut response = (error.status(), error.to_string()).into_response();
            if matches!(error, Error::Unsettled(_)) {
                unsettled(response.headers_mut());
            }
            response
        }
    }
}

fn written(protocol: MessageProtocol, message: &impl Serialize) -> Result<Vec<u8>, Error> {
    protocol.append(Vec::new(), message).map_err(|error| Error::Internal(error.to_string()))
}
