//! A node's share of a query over several nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::Permit;
use millrace_bucket::BucketId;
use millrace_query::QueryLimits;
use millrace_search::{SearchDeadline, ShareReply, ShareRequest, ShareSession};

use super::observer::ShareObservation;
use super::rewrite::{self, RewrittenQuery};
use super::run::{PreparedQuery, PreparedShare, QueryRequest};
use crate::caller::CancelOnDrop;
use crate::cluster::{ReadFence, ShareStart, check_held};
use crate::pool::WorkFlow;
use crate::work::WorkKind;
use crate::{CompiledApplication, Error, Node};

/// A query over documents of this node, during the conversation.
pub struct LocalShare {
    prepared: Arc<PreparedQuery>,
    asker: ShareAsker,
    /// `None` while it works on an answer, and after a failed one.
    session: Option<(ShareSession, SearchDeadline)>,
    /// Indexes in use, until an answer names them.
    used: Vec<String>,
    /// Observation of its times, if the query is traced.
    observation: Option<ShareObservation>,
}

/// The node that gathers the shares of a query.
#[derive(Clone, Copy)]
enum ShareAsker {
    ThisNode,
    OtherNode,
}

impl ShareAsker {
    /// Runs work for a share in the pool.
    async fn run<T, F>(self, node: &Node, flow: WorkFlow, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match self {
            ShareAsker::ThisNode => node.pool().run_in(flow, work).await,
            ShareAsker::OtherNode => node.pool().run_question(flow, work).await,
        }
    }
}

impl LocalShare {
    /// Starts a planned query over the documents of these buckets.
    pub async fn begin(prepared: Arc<PreparedQuery>, buckets: Vec<BucketId>) -> Result<Self, Error> {
        let (node, flow) = (Arc::clone(&prepared.request.node), prepared.flow());
        Self::start(ShareAsker::ThisNode, &node, flow, buckets, || Ok(prepared)).await
    }

    /// Plans a query, and starts it over the documents of these buckets.
    async fn plan(request: QueryRequest, buckets: Vec<BucketId>) -> Result<Self, Error> {
        let (node, flow) = (Arc::clone(&request.node), request.flow()?);
        let plan = || PreparedQuery::new(request).map(Arc::new);
        Self::start(ShareAsker::OtherNode, &node, flow, buckets, plan).await
    }

    async fn start(
        asker: ShareAsker,
        node: &Node,
        flow: WorkFlow,
        buckets: Vec<BucketId>,
        plan: impl FnOnce() -> Result<Arc<PreparedQuery>, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let wanted = buckets.clone();
        let work = move || {
            let prepared = plan()?;
            let PreparedShare { session, deadline, used } = prepared.share(&wanted)?;
            let observation = prepared.request.observer.as_ref().map(ShareObservation::begin);
            let session = Some((session, deadline));
            Ok::<_, Error>(LocalShare { prepared, asker, session, used, observation })
        };
        let share = asker.run(node, flow, work).await??;
        if let Some(cluster) = node.cluster().view()? {
            check_held(cluster, &buckets)?;
        }
        Ok(share)
    }

    pub async fn ask(&mut self, ask: ShareRequest) -> Result<ShareReply, Error> {
        let lost = || Error::Internal("a share of a query was given up; ask again".to_owned());
        let (mut session, deadline) = self.session.take().ok_or_else(lost)?;
        let answer = move || {
            let reply = session.answer(ask, &deadline);
            (reply, (session, deadline))
        };
        let (node, flow) = (&self.prepared.request.node, self.prepared.flow());
        let (reply, session) = self.asker.run(node, flow, answer).await?;
        if let Some(observation) = &mut self.observation {
            observation.traces = session.0.traces().collect();
        }
        self.session = Some(session);
        let mut reply = reply?;
        if let ShareReply::Share(share) = &mut reply {
            share.trace = std::mem::take(&mut self.used);
        }
        Ok(reply)
    }
}

/// The answer of this node to the first request for its share, and the means to answer the next ones.
pub struct StartedShare {
    /// The query on this node, for the next requests.
    pub local: LocalShare,
    /// Reply to the first request.
    pub reply: ShareReply,
    /// Time after which the conversation is abandoned.
    pub until: Instant,
    /// Guard that is kept during the conversation: dropping it stops the work.
    pub caller: CancelOnDrop,
}

/// Memory that a query takes when it is parsed and planned, in bytes.
fn parsed_bytes(deployment: &CompiledApplication, parameters: &BTreeMap<String, String>) -> usize {
    let kind = WorkKind::Query(deployment.input_block);
    let of = |(name, value): (&String, &String)| {
        kind.bytes(name.as_bytes()).saturating_add(kind.bytes(value.as_bytes()))
    };
    parameters.iter().map(of).fold(0, usize::saturating_add)
}

/// Starts this node's share of a query, for the gathering node.
///
/// # Errors
/// The query is not valid here, or this node does not have the documents.
pub async fn start(
    node: &Arc<Node>,
    deployment: Arc<CompiledApplication>,
    start: ShareStart,
    started: Instant,
) -> Result<StartedShare, Error> {
    let ShareStart { parameters, buckets, version, ask, memory, observer } = start;
    // The gathering node has reserved memory for its own copy of the query. Waiting for that of this node
    // could block both, so the query takes it from its results.
    memory.take(parsed_bytes(&deployment, &parameters))?;
    let caller = CancelOnDrop::default();
    let gone = Arc::clone(&caller.gone);
    // The gathering node has checked the limits.
    let limits = QueryLimits {
        max_hits: usize::MAX,
        max_offset: usize::MAX,
        max_timeout: Duration::MAX,
        text_bytes_max: usize::MAX,
        tokens_max: usize::MAX,
        values_max: usize::MAX,
        ..QueryLimits::default()
    };
    let RewrittenQuery { query, rule_trace, .. } =
        rewrite::query(node, &deployment, parameters, limits).await?;
    let query = Arc::new(query);
    let until = started + query.timeout;
    let embeddings = Arc::new(super::embed(node, &deployment, &query, until, &gone).await?);
    let requested = Arc::clone(node);
    // The gathering node has checked the caller.
    let permit = Permit::of_server();
    let request = QueryRequest {
        node: requested,
        deployment,
        query,
        rule_trace,
        embeddings,
        permit,
        started,
        gone,
        room: None,
        memory,
        observer,
    };
    let fence = ReadFence::of_version(version);
    let mut local = LocalShare::plan(request, buckets).await?;
    fence.check(node)?;
    let reply = local.ask(ask).await?;
    Ok(StartedShare { local, reply, until: until + super::GRACE, caller })
}
