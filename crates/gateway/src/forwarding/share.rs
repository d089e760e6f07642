//! The conversation about a node's share of a query: frames on one request and its answer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::extract;
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, StatusCode};
use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
use millrace_node::cluster::{
    ForwardKind, NodeAnswer, OpenedShare, RemoteNode, ShareConversation, ShareStart,
};
use millrace_node::search::{self, StartedShare};
use millrace_node::{CompiledApplication, Error, ErrorKind};
use millrace_plan::QueryMemory;
use millrace_search::{ShareReply, ShareRequest};
use serde::{Deserialize, Serialize};

use super::message::MessageProtocol;
use super::{NodeForwarder, is_unsettled, refusal, refused_part};
use crate::http::{BodyMessageReader, FrameMemory, frame};
use crate::{GatewayState, spans};

/// Maximum bytes of one message, request or answer.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Maximum bytes of the error message of a node that refuses.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// First message to a node.
#[derive(Serialize, Deserialize)]
pub(super) struct ShareBegin {
    /// Current parameters of the query, with the rest of its time.
    parameters: BTreeMap<String, String>,
    /// Buckets of the share.
    buckets: Vec<BucketId>,
    /// Version of the cluster state: in another one, they may be divided differently.
    version: ClusterVersion,
    /// The first request.
    ask: ShareRequest,
}

/// Opens the conversation with a node.
///
/// # Errors
/// The node cannot be reached, refuses, or does not have the documents.
pub(super) async fn open(
    forwarder: &NodeForwarder,
    remote: RemoteNode,
    ShareStart { parameters, buckets, version, ask, memory, observer }: ShareStart,
) -> Result<OpenedShare, Error> {
    let protocol = MessageProtocol::for_node(&remote);
    let begin = ShareBegin { parameters, buckets, version, ask };
    let (mut asks, body) = Channel::<Bytes, Infallible>::new(1);
    let first =
        frame(|out| protocol.append(out, &begin)).map_err(|fault| Error::Internal(fault.to_string()))?;
    asks.send_data(first).await.map_err(|_| broken_answer(&remote, "it was not asked"))?;
    let mut headers = HeaderMap::new();
    spans::continue_in(&mut headers, observer.map(|observer| observer.header()));
    let answer = forwarder
        .stream(&remote, Method::POST, "/search/", headers, Body::new(body), &ForwardKind::Share)
        .await?;
    if is_unsettled(answer.headers()) {
        return Err(Error::Unsettled(format!("node {remote} does not have the documents")));
    }
    let status = answer.status();
    if status != StatusCode::OK {
        let body = to_bytes(answer.into_body(), REFUSAL_BYTES_MAX).await;
        let body = body.map_err(|error| broken_answer(&remote, &error.to_string()))?;
        return Err(refused_part(&remote.address, status, &body));
    }
    let replies = BodyMessageReader::new(
        answer.into_body(),
        MESSAGE_BYTES_MAX,
        FrameMemory::Results(Arc::clone(&memory)),
    );
    let mut conversation = HttpShareConversation { remote, protocol, asks, replies, memory };
    let reply = conversation.reply().await?;
    Ok(OpenedShare { conversation: Box::new(conversation), reply })
}

/// An open conversation with another node.
struct HttpShareConversation {
    remote: RemoteNode,
    protocol: MessageProtocol,
    asks: Sender<Bytes, Infallible>,
    replies: BodyMessageReader,
    memory: Arc<QueryMemory>,
}

impl HttpShareConversation {
    async fn reply(&mut self) -> Result<ShareReply, Error> {
        let reply = self.replies.next().await.map_err(|fault| match self.memory.refused() {
            Some(refused) => Error::Memory(refused),
            None => broken_answer(&self.remote, &fault.to_string()),
        })?;
        let reply = reply.ok_or_else(|| broken_answer(&self.remote, "it ended"))?;
        let reply = self.protocol.decode_reply(&reply);
        let reply = reply.map_err(|error| broken_answer(&self.remote, &error.to_string()))?;
        if let ShareReply::Refused { is_overload, message } = reply {
            return Err(match is_overload {
                true => Error::Remote {
                    kind: ErrorKind::Overloaded,
                    message: format!("node {}: {message}", self.remote),
                },
                false => Error::Remote { kind: ErrorKind::BadRequest, message },
            });
        }
        self.memory.take(reply.memory_bytes())?;
        Ok(reply)
    }
}

impl ShareConversation for HttpShareConversation {
    fn ask(&mut self, ask: ShareRequest) -> NodeAnswer<'_, ShareReply> {
        Box::pin(async move {
            let bytes = frame(|out| self.protocol.append(out, &ask))
                .map_err(|fault| Error::Internal(fault.to_string()))?;
            self.asks.send_data(bytes).await.map_err(|_| broken_answer(&self.remote, "it has left"))?;
            self.reply().await
        })
    }
}

fn broken_answer(remote: &RemoteNode, reason: &str) -> Error {
    refusal::broken_answer(&remote.address, reason)
}

/// Answers the gathering node.
///
/// # Errors
/// The first message cannot be read, or this node cannot give its share.
pub(crate) async fn answer_share(
    state: &GatewayState,
    deployment: Arc<CompiledApplication>,
    request: extract::Request,
    started: Instant,
) -> Result<Response, Error> {
    if state.cluster().is_alone() {
        return Err(Error::BadRequest("this node is not one of a cluster".to_owned()));
    }
    // The gathering node looks for another node, or waits: this one may run an older version.
    let unreadable = |reason: String| Error::Unsettled(format!("the question cannot be read: {reason}"));
    let protocol = MessageProtocol::from_headers(request.headers());
    let observer = spans::observer_of(&request);
    let mut asks = BodyMessageReader::new(
        request.into_body(),
        MESSAGE_BYTES_MAX,
        FrameMemory::Bodies(state.budget().question()),
    );
    let begin = asks.next().await.map_err(|fault| unreadable(fault.to_string()))?;
    let begin = begin.ok_or_else(|| unreadable("there is none".to_owned()))?;
    let ShareBegin { parameters, buckets, version, ask } =
        protocol.decode(&begin).map_err(|error| unreadable(error.to_string()))?;
    let memory = state.node().query_memory();
    let start = ShareStart { parameters, buckets, version, ask, memory, observer };
    let StartedShare { mut local, reply: first, until, caller } =
        search::start_share(state.node(), deployment, start, started).await?;
    let (sender, body) = Channel::<Bytes, Infallible>::new(1);
    let mut replies = ReplySender { protocol, sender };
    let conversation = async move {
        // The gathering node waits as long as this runs.
        let _caller = caller;
        if replies.send(first).await.is_err() {
            return;
        }
        while let Ok(Some(ask)) = asks.next().await {
            let Ok(ask) = protocol.decode(&ask) else { return };
            match local.ask(ask).await {
                Ok(reply) => {
                    if replies.send(reply).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a share of a query cannot be answered");
                    if let kind @ (ErrorKind::BadRequest | ErrorKind::Overloaded) = error.kind() {
                        let is_overload = kind == ErrorKind::Overloaded;
                        let refused = ShareReply::Refused { is_overload, message: error.to_string() };
                        let _ = replies.send(refused).await;
                    }
                    return;
                }
            }
        }
    };
    tokio::spawn(tokio::time::timeout_at(until.into(), conversation));
    Ok(Response::new(Body::new(body)))
}

/// Sender of replies to the gathering node.
struct ReplySender {
    protocol: MessageProtocol,
    sender: Sender<Bytes, Infallible>,
}

impl ReplySender {
    async fn send(&mut self, reply: ShareReply) -> Result<(), ()> {
        let bytes = frame(|out| self.protocol.append_reply(out, reply));
        let bytes = bytes.map_err(|fault| tracing::warn!(%fault, "a share of a query cannot be sent"))?;
        self.sender.send_data(bytes).await.map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarding::message::check_kept;

    /// Other versions read and write these bytes, of protocols 1 and 2. The bytes that follow them are kept
    /// in `millrace_search`.
    #[test]
    fn requests_for_shares_keep_their_bytes() {
        let begin = ShareBegin {
            parameters: BTreeMap::from([("yql".to_owned(), "select".to_owned())]),
            buckets: vec![BucketId::new(40, 5)],
            version: ClusterVersion::new(7),
            ask: ShareRequest::Share(None),
        };
        let kept = "a46a706172616d6574657273a16379716c6673656c656374676275636b65747381821828056776657273696f6e076361736ba1655368617265f6";
        check_kept(&begin, [kept, "010379716c0673656c656374012805070100"]);
        let framed = frame(|out| MessageProtocol::First.append(out, &begin)).unwrap();
        assert_eq!(framed[..5], [0x3a, 0, 0, 0, 0xa4]);
    }
}
