//! A query over documents of several nodes: each is asked for its share, and the shares become one result.
//!
//! Every bucket is looked at once, at a node that has all of it: the owners of the buckets say who that is. Where such a node does not
//! answer, the query is asked anew without it, as long as there is time. What was found counts only if the cluster state is still the one
//! by which the owners spoke, and each node still has what it was asked for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::body::to_bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_query::Query;
use millrace_search::Share;
use millrace_store::ViewScope;
use tokio::task::JoinSet;

use super::run::{self, Found, Request};
use super::share::Asked;
use crate::Error;
use crate::cluster::{
    Cluster, Forwarded, Hop, PATIENCE, Place, Vouch, assigned, check_held, is_unsettled, parts_of,
    readers_of_all,
};

/// The most bytes of one node's share.
const SHARE_BYTES_MAX: usize = 256 << 20;

/// The result over all nodes.
pub(super) async fn run(request: &Request, cluster: &dyn Cluster) -> Result<Found, Error> {
    let deadline = request.started + request.query.timeout;
    let mut silent = BTreeSet::new();
    let (shares, nodes) = loop {
        match of_all(request, cluster, &mut silent).await {
            Err(Error::Unsettled(_) | Error::Unreachable { .. }) if Instant::now() + PATIENCE < deadline => {
                tokio::time::sleep(PATIENCE).await;
            }
            outcome => break outcome?,
        }
    };
    let merging = request.clone();
    request.node.pool().run(move || run::merged(&merging, shares, nodes)).await?
}

/// The shares of all nodes, and how many those are. Those that do not answer are added to the `silent`.
async fn of_all(
    request: &Request,
    cluster: &dyn Cluster,
    silent: &mut BTreeSet<NodeKey>,
) -> Result<(Vec<Share>, u32), Error> {
    let groups = match run::scope(&request.query)? {
        ViewScope::Groups(groups) if groups.iter().all(|group| group.location_bits().is_some()) => {
            Some(groups)
        }
        _ => None,
    };
    let deadline = request.started + request.query.timeout;
    let (version, readers) = readers_of_all(&request.node, cluster, groups.as_deref(), deadline).await?;
    // One that has all of a bucket alone is asked again, silent or not.
    let (nodes, unread) = assigned(&readers, &|node| silent.contains(&node));
    if !unread.is_empty() {
        silent.clear();
        return Err(Error::Unsettled("no node that has all of the documents answers now".to_owned()));
    }
    let mut asked = JoinSet::new();
    let asked_of = nodes.len();
    for (node, buckets) in nodes {
        let (request, place) = (request.clone(), cluster.place(node).map_err(Error::Unsettled)?);
        asked.spawn(async move {
            let outcome = match place {
                Place::Here => of_this_node(&request, buckets).await,
                Place::At(address) => ask(&request, &address, &buckets).await,
            };
            (node, outcome)
        });
    }
    let mut shares = Vec::with_capacity(asked_of);
    while let Some(answer) = asked.join_next().await {
        let (node, outcome) = answer.map_err(|error| Error::Internal(error.to_string()))?;
        if matches!(outcome, Err(Error::Unreachable { .. } | Error::Unsettled(_))) {
            silent.insert(node);
        }
        shares.push(outcome?);
    }
    Vouch::of_version(version).check(&request.node)?;
    Ok((shares, asked_of as u32))
}

/// The share of buckets that are read here.
async fn of_this_node(request: &Request, buckets: Vec<BucketId>) -> Result<Share, Error> {
    let (looking, wanted) = (request.clone(), buckets.clone());
    let share = request.node.pool().run(move || run::share(&looking, &wanted)).await??;
    match request.node.cluster() {
        Some(cluster) => check_held(&**cluster, &buckets).map(|()| share),
        None => Ok(share),
    }
}

/// What another node has.
async fn ask(request: &Request, address: &str, buckets: &[BucketId]) -> Result<Share, Error> {
    let left = request.query.timeout.saturating_sub(request.started.elapsed());
    let asked = Asked {
        parameters: with_timeout(&request.query, left),
        buckets: buckets.iter().copied().map(parts_of).collect(),
    };
    let mut body = Vec::new();
    ciborium::into_writer(&asked, &mut body).map_err(|error| Error::Internal(error.to_string()))?;
    let asked = Forwarded {
        method: Method::POST,
        target: "/search/".to_owned(),
        headers: HeaderMap::new(),
        body: body.into(),
    };
    let answer = tokio::time::timeout(left, request.node.forwarder().send(address, asked, &Hop::Share));
    let answer = answer.await.map_err(|_| Error::Timeout(request.query.timeout))??;
    let (status, is_unsettled) = (answer.status(), is_unsettled(answer.headers()));
    let broke_off = |error: axum::Error| Error::Unreachable {
        address: address.to_owned(),
        reason: error.to_string(),
        sent: true,
    };
    let body = to_bytes(answer.into_body(), SHARE_BYTES_MAX).await.map_err(broke_off)?;
    if is_unsettled {
        return Err(Error::Unsettled(format!("node {address} does not have the documents")));
    }
    if status != StatusCode::OK {
        return Err(Error::Remote { status, message: String::from_utf8_lossy(&body).into_owned() });
    }
    ciborium::from_reader(&*body)
        .map_err(|error| Error::Internal(format!("the answer of node {address} cannot be read: {error}")))
}

/// The parameters of a query as they are handed on: with what is left of its time.
fn with_timeout(query: &Query, left: Duration) -> std::collections::BTreeMap<String, String> {
    let mut parameters = query.parameters.clone();
    parameters.insert("timeout".to_owned(), format!("{}ms", left.as_millis().max(1)));
    parameters
}

/// A query as it is handed on.
pub(super) fn forwarded(query: &Query, mut headers: HeaderMap, left: Duration) -> Result<Forwarded, Error> {
    let body =
        serde_json::to_vec(&with_timeout(query, left)).map_err(|error| Error::Internal(error.to_string()))?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(CONTENT_ENCODING);
    Ok(Forwarded { method: Method::POST, target: "/search/".to_owned(), headers, body: body.into() })
}
