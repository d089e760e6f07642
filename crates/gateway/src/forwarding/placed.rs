//! Question of a node about placed indexes, and its answer, over HTTP.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use millrace_node::Error;
use millrace_node::cluster::RemoteNode;
use millrace_node::indexes::{PlacedAnswer, PlacedQuestion};

use super::message::MessageProtocol;
use super::{NodeForwarder, question};
use crate::GatewayState;

/// Path at which a node answers about placed indexes.
pub(crate) const PLACED_INDEXES_PATH: &str = "/state/v1/cluster/placed-indexes";

/// Asks a node about placed indexes.
///
/// # Errors
/// The node cannot be reached, or refuses.
pub(super) async fn ask(
    forwarder: &NodeForwarder,
    remote: &RemoteNode,
    question: PlacedQuestion,
) -> Result<PlacedAnswer, Error> {
    question::ask(forwarder, remote, PLACED_INDEXES_PATH, &question).await
}

/// Answers another node about placed indexes.
pub(crate) async fn tell_placed_indexes(State(node): State<Arc<GatewayState>>, request: Request) -> Response {
    let protocol = MessageProtocol::of_request(request.headers());
    question::respond(protocol, answer(&node, request).await)
}

async fn answer(node: &GatewayState, request: Request) -> Result<PlacedAnswer, Error> {
    if node.cluster().is_alone() {
        return Err(Error::NotFound("this node is not one of a cluster".to_owned()));
    }
    let question: PlacedQuestion = question::read(node, request).await?;
    node.node().placed_indexes().answer(question).await
}
