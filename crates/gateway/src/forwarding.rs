//! Requests between the nodes of a cluster over HTTP: the forwarding of requests as
//! [`millrace_node::cluster`] routes them, the question for readers, and the conversation about a share of a
//! query.

mod documents;
mod encrypted;
mod erasures;
mod forward;
mod fuzz;
mod group_sizes;
mod hop;
mod indexes;
mod message;
mod placed;
mod protocol_1;
mod question;
mod readers;
mod refusal;
mod share;
mod snapshots;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use hyper::StatusCode;
use millrace_cluster::ClusterVersion;
use millrace_node::Error;
use millrace_node::cluster::{
    self, AccessKind, BucketReaders, DocumentsAnswer, DocumentsQuestion, ErasureQuestion, ForwardAnswer,
    ForwardKind, ForwardableRequest, GroupSizesQuestion, IndexAnswer, IndexQuestion, NodeAnswer,
    NodeTransport, OpenedShare, ReadFence, ReadersQuestion, RemoteNode, RouteSubject, RoutingDecision,
    ShareStart, SnapshotAnswer, SnapshotQuestion,
};
use millrace_node::indexes::{PlacedAnswer, PlacedQuestion};
use millrace_store::{GroupErasure, StoredGroupPage};

use self::erasures::ErasureQuestionMessage;
use self::group_sizes::SizesQuestionMessage;
use self::hop::{redirect_to_readers, redirection};
use self::indexes::IndexQuestionMessage;
use self::question::{NodeQuestion, respond};
use self::snapshots::SnapshotQuestionMessage;
use crate::{GatewayState, http};

pub(crate) use self::forward::{ForwardedRequest, NodeForwarder};
pub(crate) use self::fuzz::fuzz;
pub(crate) use self::hop::{
    HOP, is_of_protocol_1, is_unsettled, refuse_misdirected, stage_of, unsettled, write_protocol_1_header,
};
pub(crate) use self::refusal::{broken_answer, refused_part};
pub(crate) use self::share::answer_share;

/// Routes of the questions of other nodes.
pub(crate) fn routes() -> Router<Arc<GatewayState>> {
    Router::new()
        .route(ReadersQuestion::PATH, post(respond::<ReadersQuestion>))
        .route(SizesQuestionMessage::PATH, post(respond::<SizesQuestionMessage>))
        .route(ErasureQuestionMessage::PATH, post(respond::<ErasureQuestionMessage>))
        .route(IndexQuestionMessage::PATH, post(respond::<IndexQuestionMessage>))
        .route(PlacedQuestion::PATH, post(respond::<PlacedQuestion>))
        .route(SnapshotQuestionMessage::PATH, post(respond::<SnapshotQuestionMessage>))
        .route(DocumentsQuestion::PATH, post(respond::<DocumentsQuestion>))
}

/// Outcome of the routing of a request.
pub(crate) enum RoutingOutcome {
    /// This node answers; its reads count if the fence holds afterwards.
    Local(ReadFence),
    /// The response of another node, or one that names the nodes to ask.
    Forwarded(Response),
    /// No single node: the requested group is divided.
    Divided,
}

/// Forwards a request until a node answers it, as [`cluster::forward_request`] does.
///
/// # Errors
/// No node could answer in time.
pub(crate) async fn forward_request(
    state: &GatewayState,
    subject: RouteSubject<'_>,
    access: AccessKind,
    stage: &ForwardKind,
    request: &ForwardedRequest,
    deadline: Instant,
) -> Result<RoutingOutcome, Error> {
    let request = SendableRequest { forwarder: state.forwarder(), request: Cow::Borrowed(request) };
    Ok(match cluster::forward_request(state, subject, access, stage, &request, deadline).await? {
        RoutingDecision::Local(fence) => RoutingOutcome::Local(fence),
        RoutingDecision::Forwarded(response) => RoutingOutcome::Forwarded(response),
        RoutingDecision::Readers(version, readers) => {
            RoutingOutcome::Forwarded(redirection_response(version, &readers))
        }
        RoutingDecision::Divided => RoutingOutcome::Divided,
    })
}

/// Response to the node that forwarded a request: it asks these nodes instead.
pub(crate) fn redirection_response(version: ClusterVersion, readers: &BucketReaders) -> Response {
    let mut answer = http::answer(StatusCode::SERVICE_UNAVAILABLE, "text/plain", Vec::new());
    redirect_to_readers(answer.headers_mut(), version, readers);
    answer
}

/// A request with the connections over which it is sent.
pub(crate) struct SendableRequest<'a> {
    pub(crate) forwarder: &'a NodeForwarder,
    pub(crate) request: Cow<'a, ForwardedRequest>,
}

impl ForwardableRequest for SendableRequest<'_> {
    type Answer = Response;

    async fn send(&self, node: &RemoteNode, stage: &ForwardKind) -> Result<ForwardAnswer<Response>, Error> {
        let mut answer = self.forwarder.send(node, ForwardedRequest::clone(&self.request), stage).await?;
        answer.extensions_mut().insert(AnsweringNode(node.address.clone()));
        Ok(match redirection(answer.headers()) {
            _ if is_unsettled(answer.headers()) => ForwardAnswer::Unsettled,
            Some((version, readers)) => ForwardAnswer::Readers(version, readers),
            None => ForwardAnswer::Answer(answer),
        })
    }

    fn refusal(answer: &Response) -> Option<String> {
        (!answer.status().is_success()).then(|| answer.status().to_string())
    }

    fn is_busy(answer: &Response) -> bool {
        [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&answer.status())
    }
}

/// Address of the node that has given an answer, as an extension of it.
#[derive(Debug, Clone)]
struct AnsweringNode(String);

/// Name of the node that has given an answer, for messages.
pub(crate) fn name_of_sender(answer: &Response) -> String {
    let sender = answer.extensions().get::<AnsweringNode>();
    sender.map_or_else(|| "of the cluster".to_owned(), |AnsweringNode(address)| address.clone())
}

/// Questions of a node to others, over its connections.
pub(crate) struct HttpTransport(pub(crate) Arc<NodeForwarder>);

impl NodeTransport for HttpTransport {
    fn readers(&self, node: RemoteNode, question: ReadersQuestion) -> NodeAnswer<'_, Vec<BucketReaders>> {
        Box::pin(async move { readers::ask(&self.0, &node, question).await })
    }

    fn group_sizes(&self, node: RemoteNode, question: GroupSizesQuestion) -> NodeAnswer<'_, StoredGroupPage> {
        let question = SizesQuestionMessage::new(question);
        Box::pin(async move { question::ask(&self.0, &node, &question).await?.page() })
    }

    fn erasures(&self, node: RemoteNode, question: ErasureQuestion) -> NodeAnswer<'_, Vec<GroupErasure>> {
        let question = ErasureQuestionMessage::new(question);
        Box::pin(async move { question::ask(&self.0, &node, &question).await?.erasures() })
    }

    fn indexes(&self, node: RemoteNode, question: IndexQuestion) -> NodeAnswer<'_, IndexAnswer> {
        let question = IndexQuestionMessage::new(question);
        Box::pin(async move { question::ask(&self.0, &node, &question).await?.answer() })
    }

    fn placed_indexes(&self, node: RemoteNode, question: PlacedQuestion) -> NodeAnswer<'_, PlacedAnswer> {
        Box::pin(async move { question::ask(&self.0, &node, &question).await })
    }

    fn snapshots(&self, node: RemoteNode, question: SnapshotQuestion) -> NodeAnswer<'_, SnapshotAnswer> {
        let question = SnapshotQuestionMessage::new(question);
        Box::pin(async move { question::ask(&self.0, &node, &question).await?.answer() })
    }

    fn documents(&self, node: RemoteNode, question: DocumentsQuestion) -> NodeAnswer<'_, DocumentsAnswer> {
        Box::pin(async move { documents::ask(&self.0, &node, question).await })
    }

    fn open_share(&self, node: RemoteNode, start: ShareStart) -> NodeAnswer<'_, OpenedShare> {
        Box::pin(share::open(&self.0, node, start))
    }
}
