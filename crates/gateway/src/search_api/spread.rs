//! A query over documents of several nodes: each is asked for its share, and the shares become one result.
//!
//! Every bucket is searched once, at a node that has all of it; the owners of the buckets name these nodes.
//! If such a node does not answer, the query is repeated without it. For half of its time it waits for a
//! complete answer; then documents that are unavailable are left out, and coverage reports it. Coverage also
//! reports a node that does not answer in time. A result counts only if the cluster state is still the one
//! for which the owners answered, and each node still has the documents that it was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_query::Query;
use millrace_search::{GatheringNext, PassOutcome, ShareReply, ShareRequest};
use millrace_store::ViewScope;
use tokio::task::JoinSet;

use super::run::{self, QueryRequest, SearchOutcome};
use super::share::{LocalShare, MESSAGE_BYTES_MAX, ShareBegin};
use crate::Error;
use crate::cluster::{
    ClusterView, ForwardKind, ForwardedRequest, NodeAddress, PATIENCE, ReadFence, is_unsettled, parts_of,
    readers_of_all,
};
use crate::http::{FrameReader, frame};

/// Maximum bytes of the error message of a node that refuses.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Runs the query over all nodes.
pub(super) async fn run(request: &QueryRequest, cluster: &dyn ClusterView) -> Result<SearchOutcome, Error> {
    let deadline = request.started + request.query.timeout;
    let mut silent = BTreeSet::new();
    let SpreadResult { outcomes, nodes, unread, full } = loop {
        match of_all(request, cluster, &mut silent).await {
            Err(Error::Unsettled(_) | Error::Unreachable { .. }) if Instant::now() + PATIENCE < deadline => {
                tokio::time::sleep(PATIENCE).await;
            }
            outcome => break outcome?,
        }
    };
    let gathered = request.clone();
    let found = request
        .node
        .pool()
        .run_in(request.flow()?, move || run::gathered(&gathered, outcomes, nodes))
        .await?;
    let mut found = found?;
    found.result.coverage.target += unread;
    found.result.coverage.non_ideal |= !full;
    Ok(found)
}

/// Merged result of the nodes.
struct SpreadResult {
    outcomes: Vec<PassOutcome>,
    nodes: u32,
    /// Approximate number of documents that could not be read.
    unread: u64,
    /// True if no documents are missing on the nodes.
    full: bool,
}

/// Asks all nodes. Adds nodes that do not answer to `silent`.
async fn of_all(
    request: &QueryRequest,
    cluster: &dyn ClusterView,
    silent: &mut BTreeSet<NodeKey>,
) -> Result<SpreadResult, Error> {
    let groups = match run::scope(&request.query)? {
        ViewScope::Groups(groups) if groups.iter().all(|group| group.location_bits().is_some()) => {
            Some(groups)
        }
        _ => None,
    };
    // An owner that does not answer leaves time for another round without it.
    let left = request.query.timeout.saturating_sub(request.started.elapsed());
    let until = Instant::now() + left / 2;
    let partial = request.started.elapsed() > request.query.timeout / 2;
    let found = readers_of_all(&request.node, cluster, groups.as_deref(), until, partial).await?;
    silent.extend(&found.silent);
    let (nodes, unread) = found.assigned(&|node| silent.contains(&node));
    if unread.is_some() && !partial {
        // The only nodes that have documents are asked again.
        silent.clear();
        return Err(Error::Unsettled("no node that has all of the documents answers now".to_owned()));
    }
    let count = nodes.len();
    let begun = request.clone();
    let mut gathering =
        request.node.pool().run_in(request.flow()?, move || run::gathering(&begun, count)).await??;
    let mut talks = Vec::with_capacity(count);
    for (node, buckets) in nodes {
        let place = cluster.place(node).map_err(Error::Unsettled)?;
        let (request, schemas) = (request.clone(), gathering.schemas());
        let version = found.version;
        talks.push(NodeTalk { node, place, buckets, version, request, schemas, state: TalkState::Silent });
    }
    let mut replies = Vec::new();
    loop {
        let next = move || (gathering.next(replies), gathering);
        let (next, again) = request.node.pool().run_in(request.flow()?, next).await?;
        gathering = again;
        match next? {
            GatheringNext::Found(outcomes) => {
                ReadFence::of_version(found.version).check(&request.node)?;
                let full = found.is_full() && unread.is_none();
                return Ok(SpreadResult { outcomes, nodes: count as u32, unread: unread.unwrap_or(0), full });
            }
            GatheringNext::Ask(asks) => (talks, replies) = ask_all(talks, asks, silent).await?,
        }
    }
}

/// Asks all nodes concurrently, and waits for all answers, in order.
async fn ask_all(
    talks: Vec<NodeTalk>,
    asks: Vec<ShareRequest>,
    silent: &mut BTreeSet<NodeKey>,
) -> Result<(Vec<NodeTalk>, Vec<ShareReply>), Error> {
    let mut asked = JoinSet::new();
    for (at, (mut talk, ask)) in talks.into_iter().zip(asks).enumerate() {
        asked.spawn(async move {
            let reply = talk.ask(ask).await;
            (at, talk, reply)
        });
    }
    let mut answered = BTreeMap::new();
    let mut failure = None;
    while let Some(answer) = asked.join_next().await {
        let (at, talk, reply) = answer.map_err(|error| Error::Internal(error.to_string()))?;
        match reply {
            Ok(reply) => drop(answered.insert(at, (talk, reply))),
            Err(error) => {
                if matches!(error, Error::Unreachable { .. } | Error::Unsettled(_)) {
                    silent.insert(talk.node);
                }
                failure = Some(error);
                break;
            }
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(answered.into_values().unzip()),
    }
}

/// Conversation with one node.
struct NodeTalk {
    node: NodeKey,
    place: NodeAddress,
    buckets: Vec<BucketId>,
    /// Version of the cluster state to which the buckets belong.
    version: u64,
    request: QueryRequest,
    /// Number of searched schemas.
    schemas: usize,
    state: TalkState,
}

enum TalkState {
    /// Nothing was sent yet.
    Silent,
    Here(LocalShare),
    There {
        asks: Sender<Bytes, Infallible>,
        replies: FrameReader,
    },
    /// It did not answer in time.
    Late,
}

impl NodeTalk {
    async fn ask(&mut self, ask: ShareRequest) -> Result<ShareReply, Error> {
        let left = self.request.query.timeout.saturating_sub(self.request.started.elapsed());
        let limit = left.saturating_add(super::GRACE);
        let begins = matches!(self.state, TalkState::Silent | TalkState::Late);
        let nothing = ShareReply::of_nobody(&ask, self.schemas);
        match tokio::time::timeout(limit, self.ask_within(ask, left)).await {
            Ok(reply) => reply,
            Err(_) => match nothing.filter(|_| begins) {
                Some(nothing) => {
                    self.state = TalkState::Late;
                    Ok(nothing)
                }
                None => Err(Error::Timeout(self.request.query.timeout)),
            },
        }
    }

    async fn ask_within(&mut self, ask: ShareRequest, left: Duration) -> Result<ShareReply, Error> {
        match (&mut self.state, &self.place) {
            (TalkState::Late, _) => {
                let late = || Error::Timeout(self.request.query.timeout);
                ShareReply::of_nobody(&ask, self.schemas).ok_or_else(late)
            }
            (TalkState::Here(local), _) => local.ask(ask).await,
            (TalkState::There { asks, replies }, NodeAddress::At(address)) => {
                let bytes = frame(&ask).map_err(Error::Internal)?;
                asks.send_data(bytes).await.map_err(|_| broke_off(address, "it has left"))?;
                reply_of(address, replies).await
            }
            (_, NodeAddress::Here) => {
                let mut local = LocalShare::begin(self.request.clone(), self.buckets.clone()).await?;
                let reply = local.ask(ask).await;
                self.state = TalkState::Here(local);
                reply
            }
            (TalkState::Silent, NodeAddress::At(address)) => {
                let (asks, mut replies) =
                    begin(&self.request, address, (&self.buckets, self.version), ask, left).await?;
                let reply = reply_of(address, &mut replies).await;
                self.state = TalkState::There { asks, replies };
                reply
            }
        }
    }
}

/// Opens the conversation with another node.
async fn begin(
    request: &QueryRequest,
    address: &str,
    (buckets, version): (&[BucketId], u64),
    ask: ShareRequest,
    left: Duration,
) -> Result<(Sender<Bytes, Infallible>, FrameReader), Error> {
    let begin = ShareBegin {
        parameters: with_timeout(&request.query, left),
        buckets: buckets.iter().copied().map(parts_of).collect(),
        version,
        ask,
    };
    let (mut asks, body) = Channel::<Bytes, Infallible>::new(1);
    let first = frame(&begin).map_err(Error::Internal)?;
    asks.send_data(first).await.map_err(|_| broke_off(address, "it was not asked"))?;
    let forwarder = request.node.forwarder();
    let what = (Method::POST, "/search/");
    let answer =
        forwarder.stream(address, what, HeaderMap::new(), Body::new(body), &ForwardKind::Share).await?;
    if is_unsettled(answer.headers()) {
        return Err(Error::Unsettled(format!("node {address} does not have the documents")));
    }
    let status = answer.status();
    if status != StatusCode::OK {
        let body = to_bytes(answer.into_body(), REFUSAL_BYTES_MAX).await;
        let body = body.map_err(|error| broke_off(address, &error.to_string()))?;
        return Err(Error::Remote { status, message: String::from_utf8_lossy(&body).into_owned() });
    }
    Ok((asks, FrameReader::new(answer.into_body(), MESSAGE_BYTES_MAX, None)))
}

async fn reply_of(address: &str, replies: &mut FrameReader) -> Result<ShareReply, Error> {
    let reply = replies.next().await.map_err(|reason| broke_off(address, &reason))?;
    reply.ok_or_else(|| broke_off(address, "it ended"))
}

fn broke_off(address: &str, reason: &str) -> Error {
    Error::Unreachable {
        address: address.to_owned(),
        reason: format!("its answer broke off: {reason}"),
        sent: true,
    }
}

/// Forwarded parameters of a query: with the rest of its time.
fn with_timeout(query: &Query, left: Duration) -> BTreeMap<String, String> {
    let mut parameters = query.parameters.clone();
    parameters.insert("timeout".to_owned(), format!("{}ms", left.as_millis().max(1)));
    parameters
}

/// Forwarded form of a query.
pub(super) fn forwarded(
    query: &Query,
    mut headers: HeaderMap,
    left: Duration,
) -> Result<ForwardedRequest, Error> {
    let body =
        serde_json::to_vec(&with_timeout(query, left)).map_err(|error| Error::Internal(error.to_string()))?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(CONTENT_ENCODING);
    Ok(ForwardedRequest {
        method: Method::POST,
        target: "/search/".to_owned(),
        headers,
        body: body.into(),
        room: None,
    })
}
