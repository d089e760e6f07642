//! The conversation about a node's share of a query: frames on one request and its answer.

use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
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
use millrace_plan::QueryMemory;
use millrace_search::{ShareReply, ShareRequest};
use serde::{Deserialize, Serialize};

use super::{NodeForwarder, is_unsettled};
use crate::GatewayState;
use crate::http::{BodyValueReader, FrameMemory, frame};
use crate::status::kind_of;
use millrace_node::cluster::{ForwardKind, NodeAnswer, OpenedShare, RemoteNode, ShareStart, ShareTalk};
use millrace_node::search::{self, StartedShare};
use millrace_node::{CompiledApplication, Error, ErrorKind};

/// Maximum bytes of one message, request or answer.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Maximum bytes of the error message of a node that refuses.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// First message to a node.
#[derive(Serialize, Deserialize)]
struct ShareBegin {
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
    ShareStart { parameters, buckets, version, ask, memory }: ShareStart,
) -> Result<OpenedShare, Error> {
    let begin = ShareBegin { parameters, buckets, version, ask };
    let (mut asks, body) = Channel::<Bytes, Infallible>::new(1);
    let first = frame(&begin).map_err(|fault| Error::Internal(fault.to_string()))?;
    asks.send_data(first).await.map_err(|_| broke_off(&remote, "it was not asked"))?;
    let what = (Method::POST, "/search/");
    let answer =
        forwarder.stream(&remote, what, HeaderMap::new(), Body::new(body), &ForwardKind::Share).await?;
    if is_unsettled(answer.headers()) {
        return Err(Error::Unsettled(format!("node {remote} does not have the documents")));
    }
    let status = answer.status();
    if status != StatusCode::OK {
        let body = to_bytes(answer.into_body(), REFUSAL_BYTES_MAX).await;
        let body = body.map_err(|error| broke_off(&remote, &error.to_string()))?;
        let message = String::from_utf8_lossy(&body).into_owned();
        return Err(Error::Remote { kind: kind_of(status), message });
    }
    let replies = BodyValueReader::new(
        answer.into_body(),
        MESSAGE_BYTES_MAX,
        FrameMemory::Results(Arc::clone(&memory)),
    );
    let mut talk = HttpShareTalk { remote, asks, replies, memory };
    let reply = talk.reply().await?;
    Ok(OpenedShare { talk: Box::new(talk), reply })
}

/// An open conversation with another node.
struct HttpShareTalk {
    remote: RemoteNode,
    asks: Sender<Bytes, Infallible>,
    replies: BodyValueReader,
    memory: Arc<QueryMemory>,
}

impl HttpShareTalk {
    async fn reply(&mut self) -> Result<ShareReply, Error> {
        let reply = self.replies.next().await.map_err(|fault| match self.memory.refused() {
            Some(refused) => Error::Memory(refused),
            None => broke_off(&self.remote, &fault.to_string()),
        })?;
        let reply: ShareReply = reply.ok_or_else(|| broke_off(&self.remote, "it ended"))?;
        if let ShareReply::Refused { is_overload, message } = reply {
            let kind = if is_overload { ErrorKind::Overloaded } else { ErrorKind::BadRequest };
            return Err(Error::Remote { kind, message });
        }
        self.memory.take(reply.memory_bytes())?;
        Ok(reply)
    }
}

impl ShareTalk for HttpShareTalk {
    fn ask(&mut self, ask: ShareRequest) -> NodeAnswer<'_, ShareReply> {
        Box::pin(async move {
            let bytes = frame(&ask).map_err(|fault| Error::Internal(fault.to_string()))?;
            self.asks.send_data(bytes).await.map_err(|_| broke_off(&self.remote, "it has left"))?;
            self.reply().await
        })
    }
}

fn broke_off(remote: &RemoteNode, reason: &str) -> Error {
    Error::Unreachable {
        address: remote.address.clone(),
        reason: format!("its answer broke off: {reason}"),
        sent: true,
    }
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
    let mut asks = BodyValueReader::new(
        request.into_body(),
        MESSAGE_BYTES_MAX,
        FrameMemory::Bodies(state.budget().share()),
    );
    let begin: Option<ShareBegin> = asks.next().await.map_err(|fault| unreadable(fault.to_string()))?;
    let ShareBegin { parameters, buckets, version, ask } =
        begin.ok_or_else(|| unreadable("there is none".to_owned()))?;
    let memory = state.node().query_memory();
    let start = ShareStart { parameters, buckets, version, ask, memory };
    let StartedShare { mut local, reply: first, until, caller } =
        search::start_share(state.node(), deployment, start, started).await?;
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let talk = async move {
        // The gathering node waits as long as this runs.
        let _caller = caller;
        if send(&mut sender, &first).await.is_err() {
            return;
        }
        while let Ok(Some(ask)) = asks.next().await {
            match local.ask(ask).await {
                Ok(reply) if send(&mut sender, &reply).await.is_ok() => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "a share of a query cannot be given");
                    if let kind @ (ErrorKind::BadRequest | ErrorKind::Overloaded) = error.kind() {
                        let is_overload = kind == ErrorKind::Overloaded;
                        let refused = ShareReply::Refused { is_overload, message: error.to_string() };
                        let _ = send(&mut sender, &refused).await;
                    }
                    return;
                }
            }
        }
    };
    tokio::spawn(tokio::time::timeout_at(until.into(), talk));
    Ok(Response::new(Body::new(body)))
}

async fn send(sender: &mut Sender<Bytes, Infallible>, reply: &ShareReply) -> Result<(), ()> {
    let bytes = frame(reply).map_err(|fault| tracing::warn!(%fault, "a share of a query cannot be sent"))?;
    sender.send_data(bytes).await.map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those of protocol 1: other versions read and write them. The bytes that follow them are
    /// kept in `millrace_search`.
    #[test]
    fn a_share_is_asked_for_as_ever() {
        let begin = ShareBegin {
            parameters: BTreeMap::from([("yql".to_owned(), "select".to_owned())]),
            buckets: vec![BucketId::new(40, 5)],
            version: ClusterVersion::new(7),
            ask: ShareRequest::Share(None),
        };
        let bytes = frame(&begin).unwrap();
        let kept = "3a000000a46a706172616d6574657273a16379716c6673656c656374676275636b65747381821828056776657273696f6e076361736ba1655368617265f6";
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), kept);
        let read: ShareBegin = ciborium::from_reader(&bytes[4..]).unwrap();
        assert_eq!(frame(&read).unwrap(), bytes);
    }
}
