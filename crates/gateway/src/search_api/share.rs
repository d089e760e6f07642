//! What a node adds to a query that is asked of several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract;
use axum::response::Response;
use hyper::StatusCode;
use millrace_query::{Limits, Query};
use millrace_search::Share;
use serde::{Deserialize, Serialize};

use super::run::{self, Request};
use crate::caller::Caller;
use crate::cluster::{bucket_of, check_held};
use crate::{Deployment, Error, Node, http};

/// What is asked of a node.
#[derive(Serialize, Deserialize)]
pub(super) struct Asked {
    /// The query's parameters as they are by now, with what is left of its time.
    pub(super) parameters: BTreeMap<String, String>,
    /// Which buckets the share is of.
    pub(super) buckets: Vec<(u8, u64)>,
}

/// Answers another node.
pub(super) async fn answer(
    node: &Arc<Node>,
    deployment: Arc<Deployment>,
    request: extract::Request,
    started: Instant,
) -> Result<Response, Error> {
    let Some(cluster) = node.cluster() else {
        return Err(Error::BadRequest("this node is not one of a cluster".to_owned()));
    };
    let body = http::collect(request.into_body(), node.settings().request_bytes_max).await?;
    let asked: Asked = ciborium::from_reader(&*body)
        .map_err(|error| Error::BadRequest(format!("the question cannot be read: {error}")))?;
    let buckets = asked.buckets.into_iter().map(bucket_of).collect::<Result<Vec<_>, _>>()?;
    let caller = Caller::default();
    let gone = Arc::clone(&caller.gone);
    // Whoever asked has looked after the limits.
    let limits = Limits { max_hits: usize::MAX, max_offset: usize::MAX, ..Limits::default() };
    let query = Arc::new(Query::from_parameters(asked.parameters, &limits)?);
    let deadline = started + query.timeout;
    let embeddings = Arc::new(super::embed(node, &deployment, &query, deadline, &gone).await?);
    let request = Request { node: Arc::clone(node), deployment, query, embeddings, started, gone };
    let looking = buckets.clone();
    let share = node.pool().run(move || run::share(&request, &looking)).await??;
    check_held(&**cluster, &buckets)?;
    write(&share)
}

/// A share as it travels.
fn write(share: &Share) -> Result<Response, Error> {
    let mut body = Vec::new();
    ciborium::into_writer(share, &mut body).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(http::answer(StatusCode::OK, "application/cbor", body))
}
