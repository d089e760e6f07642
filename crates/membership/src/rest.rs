//! The cluster for operators, in the form of Vespa's `cluster/v2`.
//!
//! Every node answers for the whole cluster, regardless of the leader. Compared with Vespa, a node also has
//! its name and address among its attributes, and `DELETE` takes it out of the cluster. A node that is in no
//! cluster answers for itself, and says that it is alone.

mod change;
mod tree;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use millrace_cluster::NodeKey;
use millrace_cluster::controller::RequestedNodeState;
use serde_json::{Value, json};

use crate::{ClusterMembership, CoordinationSnapshot, Error, NodeStats};

/// Cluster that the endpoints show and change.
pub trait OperatedCluster: Send + Sync + 'static {
    /// Names of the content clusters; all of them have the same nodes.
    fn clusters(&self) -> Vec<String>;

    /// All knowledge about the cluster.
    fn snapshot(&self) -> Arc<CoordinationSnapshot>;

    /// Statistics of a node's data, if known here.
    fn stats(&self, node: NodeKey) -> Option<NodeStats>;

    /// True if there is no cluster: the node is alone.
    fn is_alone(&self) -> bool {
        false
    }

    /// Records the state that an operator requests for a node. The result is true if it differs from the
    /// previous one.
    fn request_state(&self, name: String, state: RequestedNodeState, reason: String) -> StateChange<'_>;
}

/// Future result of [`OperatedCluster::request_state`].
pub type StateChange<'a> = Pin<Box<dyn Future<Output = Result<bool, Error>> + Send + 'a>>;

/// A membership, shown under the names that the application gives its content clusters.
pub struct ShownMembership<N, F> {
    /// The node.
    pub membership: ClusterMembership,
    /// Returns the names of the content clusters.
    pub clusters: N,
    /// Returns the statistics of a node's data, if known here.
    pub stats: F,
}

impl<N, F> OperatedCluster for ShownMembership<N, F>
where
    N: Fn() -> Vec<String> + Send + Sync + 'static,
    F: Fn(NodeKey) -> Option<NodeStats> + Send + Sync + 'static,
{
    fn clusters(&self) -> Vec<String> {
        (self.clusters)()
    }

    fn snapshot(&self) -> Arc<CoordinationSnapshot> {
        Arc::clone(&self.membership.snapshots().borrow())
    }

    fn stats(&self, node: NodeKey) -> Option<NodeStats> {
        (self.stats)(node)
    }

    fn request_state(&self, name: String, state: RequestedNodeState, reason: String) -> StateChange<'_> {
        Box::pin(async move { self.membership.request_state(&name, state, &reason).await })
    }
}

/// A node that is in no cluster, shown as the one node of its content clusters.
pub struct SingleNodeStatus<N, F> {
    /// URL at which it serves documents and queries.
    pub url: String,
    /// Returns the names of the content clusters.
    pub clusters: N,
    /// Returns the statistics of its data.
    pub stats: F,
}

impl<N, F> OperatedCluster for SingleNodeStatus<N, F>
where
    N: Fn() -> Vec<String> + Send + Sync + 'static,
    F: Fn() -> NodeStats + Send + Sync + 'static,
{
    fn clusters(&self) -> Vec<String> {
        (self.clusters)()
    }

    fn snapshot(&self) -> Arc<CoordinationSnapshot> {
        Arc::new(CoordinationSnapshot::alone(&self.url))
    }

    fn stats(&self, _: NodeKey) -> Option<NodeStats> {
        Some((self.stats)())
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn request_state(&self, _: String, _: RequestedNodeState, _: String) -> StateChange<'_> {
        Box::pin(async { Err(Error::Alone) })
    }
}

/// The endpoints below `/cluster/v2`.
pub fn router(operated: Arc<dyn OperatedCluster>) -> Router {
    Router::new()
        .route("/cluster/v2", get(root))
        .route("/cluster/v2/", get(root))
        .route("/cluster/v2/{*path}", get(below).put(put).delete(remove))
        .with_state(operated)
}

/// The same endpoints, but only to read.
pub fn reading_router(operated: Arc<dyn OperatedCluster>) -> Router {
    Router::new()
        .route("/cluster/v2", get(root))
        .route("/cluster/v2/", get(root))
        .route("/cluster/v2/{*path}", get(below))
        .with_state(operated)
}

/// Subject of a request.
struct RestPath<'a> {
    cluster: &'a str,
    service: Option<&'a str>,
    node: Option<NodeKey>,
}

impl<'a> RestPath<'a> {
    fn parse(path: &'a str, operated: &dyn OperatedCluster) -> Result<Self, RestRefusal> {
        let mut parts = path.trim_end_matches('/').split('/');
        let cluster = parts.next().unwrap_or("");
        let clusters = operated.clusters();
        if !clusters.iter().any(|known| known == cluster) {
            let known = clusters.join(", ");
            return Err(RestRefusal::absent(format!("no cluster '{cluster}'; there are: {known}")));
        }
        let service = parts.next();
        if let Some(service) = service
            && !tree::SERVICES.contains(&service)
        {
            return Err(RestRefusal::absent(format!(
                "no service '{service}'; there are: storage, distributor"
            )));
        }
        let node = match parts.next() {
            None => None,
            Some(text) => {
                let absent = || {
                    RestRefusal::absent(format!("no node '{text}'; a node is named by its distribution key"))
                };
                Some(text.parse().map(NodeKey).map_err(|_| absent())?)
            }
        };
        match parts.next() {
            None => Ok(RestPath { cluster, service, node }),
            Some(_) => Err(RestRefusal::absent(format!("nothing is at /cluster/v2/{path}"))),
        }
    }
}

/// Reason for which a request is refused.
struct RestRefusal {
    status: StatusCode,
    message: String,
}

impl RestRefusal {
    fn absent(message: String) -> Self {
        RestRefusal { status: StatusCode::NOT_FOUND, message }
    }

    fn wrong(message: impl Into<String>) -> Self {
        RestRefusal { status: StatusCode::BAD_REQUEST, message: message.into() }
    }
}

impl From<Error> for RestRefusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::UnknownNode { .. } => StatusCode::NOT_FOUND,
            Error::Name(_) | Error::Role(_) | Error::Alone => StatusCode::BAD_REQUEST,
            Error::Conflict(_)
            | Error::NameTaken { .. }
            | Error::Resident { .. }
            | Error::AwayTooLong { .. } => StatusCode::CONFLICT,
            Error::PackageSize { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::Coordination(_)
            | Error::Disk(_)
            | Error::Package { .. }
            | Error::Unanswered { .. }
            | Error::AnswerUnknown { .. }
            | Error::RequestsFull(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        RestRefusal { status, message: error.to_string() }
    }
}

fn answer(outcome: Result<Value, RestRefusal>) -> Response {
    let (status, value) = match outcome {
        Ok(value) => (StatusCode::OK, value),
        Err(refusal) => (refusal.status, json!({ "message": refusal.message })),
    };
    let mut response = Response::new(value.to_string().into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json;charset=utf-8"));
    response
}

async fn root(State(operated): State<Arc<dyn OperatedCluster>>, RawQuery(query): RawQuery) -> Response {
    answer(tree::depth(query.as_deref()).map(|depth| tree::RestTree::new(&*operated).root(depth)))
}

async fn below(
    State(operated): State<Arc<dyn OperatedCluster>>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let show = || {
        let depth = tree::depth(query.as_deref())?;
        tree::RestTree::new(&*operated).at(&RestPath::parse(&path, &*operated)?, depth)
    };
    answer(show())
}

async fn put(
    State(operated): State<Arc<dyn OperatedCluster>>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    answer(change::set(&*operated, &path, request).await)
}

async fn remove(
    State(operated): State<Arc<dyn OperatedCluster>>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    answer(change::remove(&*operated, &path, query.as_deref()).await)
}
