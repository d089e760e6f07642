//! Questions of a node to another: one message each way, over HTTP.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_access::{Permit, WantedGroups};
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

/// Question of a node to another, in the form in which it is sent.
pub(super) trait NodeQuestion: Serialize + DeserializeOwned {
    /// Path at which nodes answer it.
    const PATH: &'static str;

    /// Answer, in the form in which it is sent.
    type Answer: Serialize + DeserializeOwned;

    /// Makes the answer of this node, which is one of a cluster, with the permit of the asking node for all
    /// groups.
    ///
    /// # Errors
    /// The question has a value that is not one, or cannot be answered now.
    fn answer(
        self,
        node: &Arc<GatewayState>,
        permit: Permit,
    ) -> impl Future<Output = Result<Self::Answer, Error>> + Send;

    /// Returns the error for an answer that cannot be read: the node may have done what it was asked.
    fn unread(&self) -> fn(String) -> Error {
        Error::Unsettled
    }
}

/// Sends a question to a node, and reads its answer.
///
/// # Errors
/// [`Error::Unsettled`] where the node says so; [`NodeQuestion::unread`] where its answer cannot be read;
/// [`Error::Remote`] for another refusal, also that of an older version, which does not have the path.
pub(super) async fn ask<Q: NodeQuestion>(
    forwarder: &NodeForwarder,
    remote: &RemoteNode,
    question: &Q,
) -> Result<Q::Answer, Error> {
    let (protocol, unread) = (MessageProtocol::for_node(remote), question.unread());
    let request = ForwardedRequest {
        method: Method::POST,
        target: Q::PATH.to_owned(),
        headers: HeaderMap::new(),
        body: encode(protocol, question)?.into(),
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

/// Responds to the question of another node, in its protocol.
pub(super) async fn respond<Q: NodeQuestion>(
    State(node): State<Arc<GatewayState>>,
    request: Request,
) -> Response {
    let protocol = MessageProtocol::from_headers(request.headers());
    let answer = answer::<Q>(&node, request, protocol).await;
    match answer.and_then(|answer| encode(protocol, &answer)) {
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

/// Answers the question of another node. It may be about the documents of any group, so a credential for some
/// groups does not suffice, with any right.
async fn answer<Q: NodeQuestion>(
    node: &Arc<GatewayState>,
    request: Request,
    protocol: MessageProtocol,
) -> Result<Q::Answer, Error> {
    let permit = caller_of(&request)?.permit(WantedGroups::All)?;
    if node.cluster().is_alone() {
        return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
    }
    let question: Q = read(node, request, protocol).await?;
    question.answer(node, permit).await
}

/// Reads a question.
///
/// # Errors
/// The body is too long or breaks off, memory is short, or it is not a question of this kind.
async fn read<Q: NodeQuestion>(
    node: &GatewayState,
    request: Request,
    protocol: MessageProtocol,
) -> Result<Q, Error> {
    let bounds = BodyBounds { bytes: BYTES_MAX, is_question: true, ..node.body_bounds() };
    let body = http::collect(node, request.into_body(), bounds).await?;
    protocol.decode(&body).map_err(|error| Error::BadRequest(format!("the question cannot be read: {error}")))
}

fn encode(protocol: MessageProtocol, message: &impl Serialize) -> Result<Vec<u8>, Error> {
    protocol.append(Vec::new(), message).map_err(|error| Error::Internal(error.to_string()))
}
