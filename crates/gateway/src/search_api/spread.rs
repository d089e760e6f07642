//! A query over documents of several nodes: each is asked for its share, and the shares become one result.
//!
//! Every bucket is looked at once, by its owner or by whom the owner asks for it: the owners are asked by the version of the cluster state
//! in which they are, and one that has another refuses. Then the query is asked anew.

use std::time::{Duration, Instant};

use axum::body::to_bytes;
use axum::response::Response;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_bucket::BucketId;
use millrace_query::Query;
use millrace_search::Share;
use tokio::task::JoinSet;

use super::run::{self, Found, Request};
use crate::cluster::{Cluster, Forwarded, Hop, Place, is_unsettled};
use crate::{Error, http};

/// The most bytes of one node's shares.
const SHARE_BYTES_MAX: usize = 256 << 20;

/// How long a query waits before it is asked anew.
const PATIENCE: Duration = Duration::from_millis(20);

/// The result over all nodes.
pub(super) async fn run(request: &Request, cluster: &dyn Cluster) -> Result<Found, Error> {
    let deadline = request.started + request.query.timeout;
    let (shares, nodes) = loop {
        match of_all(request, cluster).await {
            Err(Error::Unsettled(_)) if Instant::now() + PATIENCE < deadline => {
                tokio::time::sleep(PATIENCE).await;
            }
            outcome => break outcome?,
        }
    };
    let merging = request.clone();
    request.node.pool().run(move || run::merged(&merging, shares, nodes)).await?
}

/// The shares of all owners, and how many those are.
async fn of_all(request: &Request, cluster: &dyn Cluster) -> Result<(Vec<Share>, u32), Error> {
    let (version, owners) = cluster.owners().map_err(Error::Unsettled)?;
    let nodes = owners.len() as u32;
    let others = owners.iter().filter_map(|owner| match owner {
        Place::Here => None,
        Place::At(address) => Some((address.clone(), Hop::Owned(version))),
    });
    let others = ask_all(request, others);
    let mut shares = match owners.contains(&Place::Here) {
        true => of_owned(request, cluster, version).await?,
        false => Vec::new(),
    };
    shares.extend(gather(others).await?);
    Ok((shares, nodes))
}

/// The shares of the buckets that this node owns, wherever they are read.
pub(super) async fn of_owned(
    request: &Request,
    cluster: &dyn Cluster,
    version: u64,
) -> Result<Vec<Share>, Error> {
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for (place, buckets) in cluster.owned(version).map_err(Error::Unsettled)? {
        match place {
            Place::Here => here = buckets,
            Place::At(address) => elsewhere.push((address, Hop::Buckets(buckets))),
        }
    }
    let others = ask_all(request, elsewhere.into_iter());
    let mut shares = vec![of_buckets(request, here).await?];
    shares.extend(gather(others).await?);
    Ok(shares)
}

/// The share of buckets that are read here.
pub(super) async fn of_buckets(request: &Request, buckets: Vec<BucketId>) -> Result<Share, Error> {
    let looking = request.clone();
    request.node.pool().run(move || run::share(&looking, &buckets)).await?
}

type Asked = JoinSet<Result<Vec<Share>, Error>>;

/// Asks nodes, all at once.
fn ask_all(request: &Request, nodes: impl Iterator<Item = (String, Hop)>) -> Asked {
    let mut asked = JoinSet::new();
    for (address, hop) in nodes {
        let request = request.clone();
        asked.spawn(async move { ask(&request, &address, &hop).await });
    }
    asked
}

async fn gather(mut asked: Asked) -> Result<Vec<Share>, Error> {
    let mut shares = Vec::new();
    while let Some(answer) = asked.join_next().await {
        shares.extend(answer.map_err(|error| Error::Internal(error.to_string()))??);
    }
    Ok(shares)
}

/// What another node has.
async fn ask(request: &Request, address: &str, hop: &Hop) -> Result<Vec<Share>, Error> {
    let left = request.query.timeout.saturating_sub(request.started.elapsed());
    let asked = forwarded(&request.query, HeaderMap::new(), left)?;
    let answer = tokio::time::timeout(left, request.node.forwarder().send(address, asked, hop));
    let answer = answer.await.map_err(|_| Error::Timeout(request.query.timeout))??;
    let (status, is_unsettled) = (answer.status(), is_unsettled(answer.headers()));
    let body = to_bytes(answer.into_body(), SHARE_BYTES_MAX)
        .await
        .map_err(|error| Error::Internal(format!("the answer of node {address} broke off: {error}")))?;
    if is_unsettled {
        return Err(Error::Unsettled(format!("node {address} has another cluster state")));
    }
    if status != StatusCode::OK {
        return Err(Error::Remote { status, message: String::from_utf8_lossy(&body).into_owned() });
    }
    ciborium::from_reader(&*body)
        .map_err(|error| Error::Internal(format!("the answer of node {address} cannot be read: {error}")))
}

/// Shares as they travel.
pub(super) fn answer(shares: &[Share]) -> Result<Response, Error> {
    let mut body = Vec::new();
    ciborium::into_writer(shares, &mut body).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(http::answer(StatusCode::OK, "application/cbor", body))
}

/// A query as it is handed on: its parameters as they are by now, with what is left of its time.
pub(super) fn forwarded(query: &Query, mut headers: HeaderMap, left: Duration) -> Result<Forwarded, Error> {
    let mut parameters = query.parameters.clone();
    parameters.insert("timeout".to_owned(), format!("{}ms", left.as_millis().max(1)));
    let body = serde_json::to_vec(&parameters).map_err(|error| Error::Internal(error.to_string()))?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(CONTENT_ENCODING);
    Ok(Forwarded { method: Method::POST, target: "/search/".to_owned(), headers, body: body.into() })
}
