//! `/search/`: a query's parameters are collected, planned, run, and its result rendered.

mod parameters;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::metrics::Metric;
use crate::{Error, Node, http};

/// Answers a query.
pub(crate) async fn handle(State(node): State<Arc<Node>>, request: Request) -> Response {
    let started = Instant::now();
    let answer = search(&node, request).await;
    node.metrics().time(Metric::QueryLatency, started.elapsed());
    node.metrics().count(Metric::Queries);
    match answer {
        Ok(response) => response,
        Err(error) => {
            node.metrics().count(Metric::FailedQueries);
            http::json(
                error.status(),
                &serde_json::json!({"root": {"errors": [{"message": error.to_string()}]}}),
            )
        }
    }
}

async fn search(node: &Arc<Node>, request: Request) -> Result<Response, Error> {
    let deployment = node.deployments().current()?;
    let parameters = parameters::read(&deployment, node.settings().request_bytes_max, request).await?;
    Err(Error::BadRequest(format!("{parameters:?}")))
}
