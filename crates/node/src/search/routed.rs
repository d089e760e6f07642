//! The answer to a query: by the node that has its documents, or by this one, which repeats it until its
//! reads count.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::Permit;
use millrace_cluster::ClusterVersion;
use millrace_query::Query;

use super::observer::QueryObserver;
use super::run::{QueryRequest, SearchOutcome, flow};
use super::separate::SourceQueries;
use super::{GRACE, SearchExtent, answer, embed, one_location};
use crate::caller::CancelOnDrop;
use crate::cluster::{
    AccessKind, BucketReaders, ForwardKind, ForwardableRequest, RETRY_PAUSE, ReadFence, RouteSubject,
    RoutingDecision, forward_request,
};
use crate::{CompiledApplication, Error, Node};

/// A query of a client, or one that another node has forwarded.
pub struct RoutedQuery {
    /// Node that was asked.
    pub node: Arc<Node>,
    /// Application that the query is for.
    pub deployment: Arc<CompiledApplication>,
    /// The query.
    pub query: Arc<Query>,
    /// Trace of the rules that have rewritten it.
    pub rule_trace: Arc<[String]>,
    /// Sources with their queries, if they are searched separately.
    pub separate: Option<SourceQueries>,
    /// Permission of its caller to read the documents.
    pub permit: Permit,
    /// Sender of the request.
    pub stage: ForwardKind,
    /// Arrival of the request.
    pub started: Instant,
    /// Observer of its parts, if it is traced.
    pub observer: Option<Arc<dyn QueryObserver>>,
    /// Memory that it takes of a budget. It is dropped last: after what it was reserved for.
    pub room: Option<Arc<dyn Any + Send + Sync>>,
}

/// Answer to a query: `T` is the output of this node, `A` the answer of another one.
pub enum QueryAnswer<T, A> {
    /// Output of this node.
    Local(T),
    /// Answer of another node.
    Forwarded(A),
    /// These nodes have the documents, by this version of the cluster state: the node that forwarded the
    /// query asks them.
    Readers(ClusterVersion, BucketReaders),
}

/// Next step for a query.
enum QueryRoute<A> {
    Local(LocalQuery),
    Forwarded(A),
    Readers(ClusterVersion, BucketReaders),
}

/// A query that this node answers.
struct LocalQuery {
    fence: ReadFence,
    extent: SearchExtent,
}

impl RoutedQuery {
    /// Answers the query. `forward` makes the request that goes to another node, with the rest of the time;
    /// `finish` makes the output of an outcome, on the pool. It runs again if the reads did not count.
    ///
    /// # Errors
    /// The query is not valid for the application, or it cannot be answered in time; an error of `forward` or
    /// `finish`.
    pub async fn answer<T: Send + 'static, R: ForwardableRequest>(
        mut self,
        forward: impl Fn(&Query, Duration) -> Result<R, Error>,
        finish: impl Fn(SearchOutcome) -> Result<T, Error> + Clone + Send + 'static,
    ) -> Result<QueryAnswer<T, R::Answer>, Error> {
        if let Some(sources) = self.separate.take() {
            let found = sources.run(&self).await?;
            let output = self.node.pool().run_in(flow(&self.query)?, move || finish(found)).await??;
            return Ok(QueryAnswer::Local(output));
        }
        let deadline = self.started + self.query.timeout;
        let caller = CancelOnDrop::default();
        loop {
            let here = match self.route(&forward, deadline).await? {
                QueryRoute::Local(here) => here,
                QueryRoute::Forwarded(answer) => return Ok(QueryAnswer::Forwarded(answer)),
                QueryRoute::Readers(version, readers) => return Ok(QueryAnswer::Readers(version, readers)),
            };
            let running = self.run(&here, &caller, deadline, finish.clone());
            let Ok(output) = tokio::time::timeout_at((deadline + GRACE).into(), running).await else {
                return Err(Error::Timeout(self.query.timeout));
            };
            let output = output?;
            match here.fence.check(&self.node) {
                Ok(()) => return Ok(QueryAnswer::Local(output)),
                Err(error)
                    if self.stage != ForwardKind::Client || Instant::now() + RETRY_PAUSE >= deadline =>
                {
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Forwards the query to the node whose documents it reads, if they all lie in one bucket that belongs to
    /// another node.
    async fn route<R: ForwardableRequest>(
        &self,
        forward: &impl Fn(&Query, Duration) -> Result<R, Error>,
        deadline: Instant,
    ) -> Result<QueryRoute<R::Answer>, Error> {
        let RoutedQuery { node, query, stage, .. } = self;
        let Some((location, group)) = one_location(node, query)? else {
            if !node.cluster().is_alone() && *stage != ForwardKind::Client {
                // The node that forwarded it takes it for a query of one bucket.
                return Err(Error::Unsettled(
                    "the nodes do not agree yet whether the group is divided".to_owned(),
                ));
            }
            let extent = match stage {
                ForwardKind::Client => SearchExtent::Cluster,
                _ => SearchExtent::Node,
            };
            return Ok(QueryRoute::Local(LocalQuery { fence: ReadFence::default(), extent }));
        };
        let request = forward(query, query.timeout.saturating_sub(self.started.elapsed()))?;
        let subject = RouteSubject { location, group: Some(&group), part: None };
        Ok(match forward_request(node, subject, AccessKind::Search, stage, &request, deadline).await? {
            RoutingDecision::Local(fence) => {
                QueryRoute::Local(LocalQuery { fence, extent: SearchExtent::Node })
            }
            RoutingDecision::Forwarded(answer) => QueryRoute::Forwarded(answer),
            RoutingDecision::Readers(version, readers) => QueryRoute::Readers(version, readers),
            RoutingDecision::Divided => {
                let fence = ReadFence::default();
                QueryRoute::Local(LocalQuery { fence, extent: SearchExtent::Cluster })
            }
        })
    }

    /// Runs the query here, and makes its output.
    async fn run<T: Send + 'static>(
        &self,
        here: &LocalQuery,
        caller: &CancelOnDrop,
        deadline: Instant,
        finish: impl FnOnce(SearchOutcome) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let RoutedQuery { node, deployment, query, rule_trace, permit, started, observer, room, .. } = self;
        let embeddings = embed(node, deployment, query, deadline, &caller.gone).await?;
        let request = QueryRequest {
            node: Arc::clone(node),
            deployment: Arc::clone(deployment),
            query: Arc::clone(query),
            rule_trace: Arc::clone(rule_trace),
            embeddings: Arc::new(embeddings),
            permit: permit.clone(),
            started: *started,
            gone: Arc::clone(&caller.gone),
            room: room.clone(),
            memory: node.query_memory(),
            observer: observer.clone(),
        };
        let full = here.extent == SearchExtent::Cluster || here.fence.is_full();
        answer(&request, here.extent, move |mut found: SearchOutcome| {
            found.result.coverage.non_ideal |= !full;
            finish(found)
        })
        .await?
    }
}
