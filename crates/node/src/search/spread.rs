//! A query over documents of several nodes: each is asked for its share, and the shares become one result.
//!
//! Every bucket is searched once, at a node that has all of it; the owners of the buckets name these nodes.
//! If such a node does not answer, the query is repeated without it. For half of its time it waits for a
//! complete answer; then documents that are unavailable are left out, and coverage reports it. Coverage also
//! reports a node that does not answer in time. A result counts only if the cluster state is still the one
//! for which the owners answered, and each node still has the documents that it was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::{ClusterVersion, NodeKey};
use millrace_query::Query;
use millrace_search::{GatheringNext, PassOutcome, ShareReply, ShareRequest};
use millrace_store::ViewScope;
use tokio::task::JoinSet;

use super::run::{PreparedQuery, QueryRequest, SearchOutcome};
use super::share::LocalShare;
use crate::Error;
use crate::cluster::{
    ClusterView, NodeAddress, OpenedShare, RETRY_PAUSE, ReadFence, ShareConversation, ShareStart,
    SilentOwners, readers_of_all,
};

/// Runs the query over all nodes, and passes its outcome to `finish`, on the pool.
pub async fn run<T: Send + 'static>(
    request: &QueryRequest,
    cluster: &dyn ClusterView,
    finish: impl FnOnce(SearchOutcome) -> T + Send + 'static,
) -> Result<T, Error> {
    let deadline = request.started + request.query.timeout;
    let (pool, flow, planned) = (request.node.pool(), request.flow()?, request.clone());
    let plan = move || {
        let prepared = PreparedQuery::new(planned)?;
        prepared.check_indexes()?;
        Ok::<_, Error>(prepared)
    };
    let prepared = Arc::new(pool.run_in(flow, plan).await??);
    let mut silent = BTreeSet::new();
    let SpreadResult { outcomes, nodes, unread, full, used } = loop {
        match of_all(&prepared, cluster, &mut silent).await {
            Err(Error::Unsettled(_) | Error::Unreachable { .. })
                if Instant::now() + RETRY_PAUSE < deadline =>
            {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            outcome => break outcome?,
        }
    };
    let merge = move |prepared: Arc<PreparedQuery>| {
        let mut found = prepared.merge(outcomes, nodes, used);
        found.result.coverage.target += unread;
        found.result.coverage.non_ideal |= !full;
        finish(found)
    };
    pool.run_in(prepared.flow(), move || merge(prepared)).await
}

/// Merged result of the nodes.
struct SpreadResult {
    outcomes: Vec<PassOutcome>,
    nodes: u32,
    /// Approximate number of documents that could not be read.
    unread: u64,
    /// True if no documents are missing on the nodes.
    full: bool,
    /// Indexes in use, with their nodes.
    used: Vec<String>,
}

/// Asks all nodes. Adds nodes that do not answer to `silent`.
async fn of_all(
    prepared: &Arc<PreparedQuery>,
    cluster: &dyn ClusterView,
    silent: &mut BTreeSet<NodeKey>,
) -> Result<SpreadResult, Error> {
    let request = &prepared.request;
    let groups = match &prepared.scope {
        ViewScope::Groups(groups) if groups.iter().all(|group| group.location_bits().is_some()) => {
            Some(&groups[..])
        }
        _ => None,
    };
    // An owner that does not answer leaves time for another round without it.
    let left = request.query.timeout.saturating_sub(request.started.elapsed());
    let until = Instant::now() + left / 2;
    let partial = request.started.elapsed() > request.query.timeout / 2;
    let skipping = if partial { SilentOwners::Skip } else { SilentOwners::Fail };
    let found = readers_of_all(&request.node, cluster, groups, until, skipping).await?;
    silent.extend(&found.silent);
    let (nodes, unread) = found.assigned(&|node| silent.contains(&node));
    if unread.is_some() && !partial {
        // The only nodes that have documents are asked again.
        silent.clear();
        return Err(Error::Unsettled("no node that has all of the documents answers now".to_owned()));
    }
    let count = nodes.len();
    let mut gathering = prepared.gathering(count);
    let mut conversations = Vec::with_capacity(count);
    for (node, buckets) in nodes {
        let place = cluster.address(node)?;
        let (prepared, schemas) = (Arc::clone(prepared), gathering.schemas());
        let version = found.version;
        conversations.push(NodeConversation {
            node,
            place,
            buckets,
            version,
            prepared,
            schemas,
            state: ConversationState::Silent,
        });
    }
    let (mut replies, mut used) = (Vec::new(), Vec::new());
    loop {
        let next = move || (gathering.next(replies), gathering);
        let (next, again) = request.node.pool().run_in(prepared.flow(), next).await?;
        gathering = again;
        match next? {
            GatheringNext::Found(outcomes) => {
                ReadFence::of_version(found.version).check(&request.node)?;
                let full = found.is_full() && unread.is_none();
                let (nodes, unread) = (count as u32, unread.unwrap_or(0));
                return Ok(SpreadResult { outcomes, nodes, unread, full, used });
            }
            GatheringNext::Ask(asks) => {
                (conversations, replies) = ask_all(conversations, asks, silent).await?;
                for (conversation, reply) in conversations.iter().zip(&mut replies) {
                    used.extend(
                        reply.take_trace().iter().map(|note| format!("node {}: {note}", conversation.node)),
                    );
                }
            }
        }
    }
}

/// Asks all nodes concurrently, and waits for all answers, in order.
async fn ask_all(
    conversations: Vec<NodeConversation>,
    asks: Vec<ShareRequest>,
    silent: &mut BTreeSet<NodeKey>,
) -> Result<(Vec<NodeConversation>, Vec<ShareReply>), Error> {
    let mut requested = JoinSet::new();
    for (at, (mut conversation, ask)) in conversations.into_iter().zip(asks).enumerate() {
        requested.spawn(async move {
            let reply = conversation.ask(ask).await;
            (at, conversation, reply)
        });
    }
    let mut answered = BTreeMap::new();
    let mut failure = None;
    while let Some(answer) = requested.join_next().await {
        let (at, conversation, reply) = answer.map_err(|error| Error::Internal(error.to_string()))?;
        match reply {
            Ok(reply) => drop(answered.insert(at, (conversation, reply))),
            Err(error) => {
                if matches!(error, Error::Unreachable { .. } | Error::Unsettled(_)) {
                    silent.insert(conversation.node);
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
struct NodeConversation {
    node: NodeKey,
    place: NodeAddress,
    buckets: Vec<BucketId>,
    /// Version of the cluster state to which the buckets belong.
    version: ClusterVersion,
    prepared: Arc<PreparedQuery>,
    /// Number of searched schemas.
    schemas: usize,
    state: ConversationState,
}

enum ConversationState {
    /// Nothing was sent yet.
    Silent,
    Local(LocalShare),
    Remote(Box<dyn ShareConversation>),
    /// No answer in time.
    Late,
}

impl NodeConversation {
    async fn ask(&mut self, ask: ShareRequest) -> Result<ShareReply, Error> {
        let left =
            self.prepared.request.query.timeout.saturating_sub(self.prepared.request.started.elapsed());
        let limit = left.saturating_add(super::GRACE);
        let begins = matches!(self.state, ConversationState::Silent | ConversationState::Late);
        let substitute = ShareReply::without_documents(&ask, self.schemas);
        match tokio::time::timeout(limit, self.ask_within(ask, left)).await {
            Ok(reply) => reply,
            Err(_) => match substitute.filter(|_| begins) {
                Some(substitute) => {
                    self.state = ConversationState::Late;
                    Ok(substitute)
                }
                None => Err(Error::Timeout(self.prepared.request.query.timeout)),
            },
        }
    }

    async fn ask_within(&mut self, ask: ShareRequest, left: Duration) -> Result<ShareReply, Error> {
        match (&mut self.state, &self.place) {
            (ConversationState::Late, _) => {
                let late = || Error::Timeout(self.prepared.request.query.timeout);
                ShareReply::without_documents(&ask, self.schemas).ok_or_else(late)
            }
            (ConversationState::Local(local), _) => local.ask(ask).await,
            (ConversationState::Remote(conversation), _) => conversation.ask(ask).await,
            (ConversationState::Silent, NodeAddress::Local) => {
                let mut local = LocalShare::begin(Arc::clone(&self.prepared), self.buckets.clone()).await?;
                let reply = local.ask(ask).await;
                self.state = ConversationState::Local(local);
                reply
            }
            (ConversationState::Silent, NodeAddress::Remote(remote)) => {
                let start = ShareStart {
                    parameters: with_timeout(&self.prepared.request.query, left),
                    buckets: self.buckets.clone(),
                    version: self.version,
                    ask,
                    memory: Arc::clone(&self.prepared.request.memory),
                    observer: self.prepared.request.observer.clone(),
                };
                let transport = self.prepared.request.node.transport()?;
                let OpenedShare { conversation, reply } = transport.open_share(remote.clone(), start).await?;
                self.state = ConversationState::Remote(conversation);
                Ok(reply)
            }
        }
    }
}

/// Forwarded parameters of a query: with the rest of its time.
pub fn with_timeout(query: &Query, left: Duration) -> BTreeMap<String, String> {
    let mut parameters = query.parameters.clone();
    parameters.insert("timeout".to_owned(), format!("{}ms", left.as_millis().max(1)));
    parameters
}
