//! `/search/`: collects a query's parameters, plans and runs it, and renders its result.

mod benchmark;
mod format;
mod language;
mod parameters;
mod render;
mod trace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{self, State};
use axum::response::Response;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_access::{Permit, WantedGroups};
use millrace_query::Query;

pub(crate) use self::benchmark::QueryFigures;
use self::format::ResultFormat;
use self::language::PromptRequest;
use crate::edge::caller_of;
use crate::forwarding::{self, ForwardedRequest, RoutingOutcome};
use crate::http::BudgetReservation;
use crate::quota::QuotaHints;
use crate::status::HttpError;
use crate::{GatewayState, http};
use millrace_node::CancelOnDrop;
use millrace_node::ErrorKind;
use millrace_node::cluster::{AccessKind, ForwardKind, PATIENCE, ReadFence, RouteSubject};
use millrace_node::metrics::CountedMetric;
use millrace_node::search::{
    self, FederationMode, GRACE, QueryRequest, RewrittenQuery, SearchOutcome, SourceQueries, by_chain,
    rewritten_query,
};
use millrace_node::{CompiledApplication, Error, Node};

/// Answers a query.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: extract::Request) -> Response {
    let started = Instant::now();
    let metrics = node.metrics();
    let asked = benchmark::RequestedFigures::of(request.headers());
    let mut format = ResultFormat::default();
    let answer = search(&node, request, started, &mut format).await;
    metrics.time(CountedMetric::QueryLatency, started.elapsed());
    metrics.count(CountedMetric::Queries);
    match answer {
        Ok(SearchAnswer::Result(body, figures)) => {
            let mut response = http::answer(StatusCode::OK, &format.content_type(), body);
            asked.add(&figures, response.headers_mut());
            response.extensions_mut().insert(figures);
            response
        }
        Ok(SearchAnswer::Response(response)) => response,
        Err(error) => {
            metrics.count(match error.kind() {
                ErrorKind::Overloaded => CountedMetric::Rejected,
                _ => CountedMetric::FailedQueries,
            });
            let body = render::error(&error, format);
            let mut response = http::answer(error.status(), &format.content_type(), body);
            asked.add(&QueryFigures { errors: 1, ..QueryFigures::default() }, response.headers_mut());
            response.headers_mut().extend(error.retry_after().map(|after| (RETRY_AFTER, after)));
            if matches!(error, Error::Unsettled(_)) {
                forwarding::unsettled(response.headers_mut());
            }
            response
        }
    }
}

/// Answer to a query.
enum SearchAnswer {
    /// A rendered result, and its figures.
    Result(Vec<u8>, QueryFigures),
    /// Response of another node, response to another node, or response of a language model.
    Response(Response),
}

/// Kind of output for the hits of a query.
#[derive(Clone)]
enum OutputKind {
    Result(ResultFormat),
    Prompt(Arc<PromptRequest>),
}

/// Output for the hits of a query.
enum SearchOutput {
    Result(Vec<u8>, QueryFigures),
    Prompt(Arc<PromptRequest>, String),
}

impl SearchOutput {
    async fn answer(self, query: &Query, format: ResultFormat) -> Result<SearchAnswer, Error> {
        Ok(match self {
            SearchOutput::Result(body, figures) => SearchAnswer::Result(body, figures),
            SearchOutput::Prompt(question, prompt) => {
                SearchAnswer::Response(question.answer(prompt, query, format).await?)
            }
        })
    }
}

/// A parsed query request.
struct SearchRequest {
    query: Arc<Query>,
    /// Trace of its rules.
    told: Arc<[String]>,
    /// Requested kind of output.
    aim: OutputKind,
    /// Sources with their queries, if they are searched separately.
    apart: Option<SourceQueries>,
    /// Permission of its caller to read the documents.
    permit: Permit,
    /// Memory that it takes of the budget.
    room: Arc<BudgetReservation>,
}

/// Next step for a query on this node, or the answer of the node that has processed it.
enum QueryRoute {
    Here(LocalQuery),
    There(Response),
}

/// A query that this node answers.
struct LocalQuery {
    vouch: ReadFence,
    /// True if it covers all nodes that have some of the documents.
    gathers: bool,
}

/// Answers a request; sets `format` as soon as it is known, so that errors are rendered in it too.
async fn search(
    node: &Arc<GatewayState>,
    request: extract::Request,
    started: Instant,
    format: &mut ResultFormat,
) -> Result<SearchAnswer, Error> {
    let deployment = node.deployments().current()?;
    let headers = request.headers().clone();
    let hop = forwarding::hop_of(&headers)?;
    if hop == ForwardKind::Share {
        // Its parameters are those of a query that another node has checked.
        caller_of(&request)?.permit(WantedGroups::All)?;
        return Ok(SearchAnswer::Response(
            forwarding::answer_share(node, deployment, request, started).await?,
        ));
    }
    // The room is dropped last: after what it was reserved for.
    let SearchRequest { room, query, told, aim, apart, permit } =
        asked(node, &deployment, &headers, &hop, request, started, format).await?;
    let format = *format;
    if let OutputKind::Prompt(question) = &aim
        && !question.searches()
    {
        return Ok(SearchAnswer::Response(question.answer(question.prompt(&[]), &query, format).await?));
    }
    if let Some(apart) = apart {
        let found = apart.run(node.node(), &deployment, &query, &permit, started).await?;
        let (at, of) = (Arc::clone(node.node()), Arc::clone(&query));
        let made = node
            .pool()
            .run_in(search::flow(&query)?, move || finish((&at, &of, started), &found, &aim))
            .await??;
        return made.answer(&query, format).await;
    }
    let timeout = query.timeout;
    let deadline = started + timeout;
    let caller = CancelOnDrop::default();
    let gone = Arc::clone(&caller.gone);
    loop {
        let here = match route(node, &query, &headers, &hop, started).await? {
            QueryRoute::Here(here) => here,
            QueryRoute::There(response) => return Ok(SearchAnswer::Response(response)),
        };
        let embeddings = Arc::new(search::embed(node.node(), &deployment, &query, deadline, &gone).await?);
        let request = QueryRequest {
            node: Arc::clone(node.node()),
            deployment: Arc::clone(&deployment),
            query: Arc::clone(&query),
            told: Arc::clone(&told),
            embeddings,
            permit: permit.clone(),
            started,
            gone: Arc::clone(&gone),
            room: Some(Arc::clone(&room) as _),
            memory: node.node().query_memory(),
        };
        let making = make(&request, &here, &aim);
        let Ok(made) = tokio::time::timeout_at((deadline + GRACE).into(), making).await else {
            return Err(Error::Timeout(timeout));
        };
        let made = made?;
        match (here.vouch.check(node), made) {
            (Ok(()), made) => return made.answer(&query, format).await,
            (Err(error), _) if hop != ForwardKind::Client || Instant::now() + PATIENCE >= deadline => {
                return Err(error);
            }
            (Err(_), _) => tokio::time::sleep(PATIENCE).await,
        }
    }
}

/// Parses a request: its query, sources, and kind of output.
async fn asked(
    node: &GatewayState,
    deployment: &Arc<CompiledApplication>,
    headers: &HeaderMap,
    hop: &ForwardKind,
    request: extract::Request,
    started: Instant,
    format: &mut ResultFormat,
) -> Result<SearchRequest, Error> {
    let caller = caller_of(&request)?;
    let is_from_client = node.is_from_client(headers);
    let peer = request.extensions().get().filter(|_| is_from_client);
    node.quotas().admit_address(peer, started, node.metrics())?;
    let parameters::ReadParameters { mut parameters, limits, room } =
        parameters::read(node, deployment, hop, request).await?;
    *format = ResultFormat::of(&parameters, headers)?;
    let container = &deployment.application.container;
    if container.limits_rates
        && is_from_client
        && let Some(claim) = QuotaHints::of(&parameters)?
    {
        node.quotas().admit_claim(&claim, started, node.metrics())?;
    }
    let question = PromptRequest::of(deployment, &mut parameters, headers)?;
    if matches!(format, ResultFormat::Events) && question.is_none() {
        let reason = "sse is for answers of language models: name a chain that asks one by searchChain";
        return Err(Error::parameter("presentation.format", reason.to_owned()));
    }
    by_chain(deployment, &mut parameters);
    let mut rewritten = rewritten_query(node, deployment, parameters, limits).await?;
    search::fill_in_group(&caller, &mut rewritten.query);
    let apart = match FederationMode::of(deployment, &rewritten.query, &limits)? {
        FederationMode::Together => None,
        FederationMode::TogetherAs(part) => {
            rewritten = part.query(node, deployment).await?;
            None
        }
        FederationMode::Apart(apart) => Some(apart.asking(node, deployment, &rewritten.query).await?),
    };
    let RewrittenQuery { query, told } = rewritten;
    // A prompt without a search reads no documents, and names no group.
    let searches = question.as_ref().is_none_or(PromptRequest::searches);
    let permit = match searches {
        true => {
            let parts = apart.iter().flat_map(SourceQueries::queries);
            search::permit(&caller, std::iter::once(&query).chain(parts))?
        }
        false => search::permit(&caller, std::iter::empty())?,
    };
    if is_from_client && searches {
        node.quotas().admit_scope(&search::scope(&query)?, started, node.metrics())?;
    }
    if container.checks_encoding {
        check_encoding(&query)?;
        apart.iter().flat_map(SourceQueries::queries).try_for_each(check_encoding)?;
    }
    let aim = match question {
        Some(question) => OutputKind::Prompt(Arc::new(question)),
        None => OutputKind::Result(*format),
    };
    Ok(SearchRequest { query: Arc::new(query), told, aim, apart, permit, room })
}

/// Forwards a query to the node whose documents it reads, if they all lie in one bucket that belongs to
/// another node.
async fn route(
    node: &GatewayState,
    query: &Query,
    headers: &HeaderMap,
    hop: &ForwardKind,
    started: Instant,
) -> Result<QueryRoute, Error> {
    let Some((location, group)) = search::one_location(node, query)? else {
        if node.cluster().is_some() && *hop != ForwardKind::Client {
            // The node that forwarded it takes it for a query of one bucket.
            return Err(Error::Unsettled(
                "the nodes do not agree yet whether the group is divided".to_owned(),
            ));
        }
        return Ok(QueryRoute::Here(LocalQuery {
            vouch: ReadFence::default(),
            gathers: *hop == ForwardKind::Client,
        }));
    };
    let left = query.timeout.saturating_sub(started.elapsed());
    let request = forwarded(query, headers.clone(), left)?;
    let subject = RouteSubject { location, group: Some(&group), part: None };
    let deadline = started + query.timeout;
    Ok(match forwarding::hand_on(node, subject, AccessKind::Search, hop, &request, deadline).await? {
        RoutingOutcome::Here(vouch) => QueryRoute::Here(LocalQuery { vouch, gathers: false }),
        RoutingOutcome::There(response) => QueryRoute::There(response),
        RoutingOutcome::Divided => {
            QueryRoute::Here(LocalQuery { vouch: ReadFence::default(), gathers: true })
        }
    })
}

/// Rejects a query that cannot find the intended meaning of its text.
fn check_encoding(query: &Query) -> Result<(), Error> {
    match millrace_query::double_encoded(&query.root) {
        None => Ok(()),
        Some(text) => Err(Error::BadRequest(format!(
            "'{text}' looks like double encoded UTF-8; encode the text once, then escape its bytes for the address"
        ))),
    }
}

/// Produces the output of a query that this node answers.
async fn make(request: &QueryRequest, here: &LocalQuery, aim: &OutputKind) -> Result<SearchOutput, Error> {
    let full = here.gathers || here.vouch.is_full();
    let (working, aim) = (request.clone(), aim.clone());
    let finish = move |mut found: SearchOutcome| {
        found.result.coverage.non_ideal |= !full;
        finish(working.asked(), &found, &aim)
    };
    search::answer(request, here.gathers, finish).await?
}

/// Produces the output for a search outcome, and counts it in the metrics.
fn finish(
    (node, query, started): (&Node, &Query, Instant),
    found: &SearchOutcome,
    aim: &OutputKind,
) -> Result<SearchOutput, Error> {
    let metrics = node.metrics();
    metrics.record(CountedMetric::HitsPerQuery, found.hits.len() as f64);
    metrics.record(CountedMetric::TotalHitsPerQuery, found.result.total_count as f64);
    // Separately searched sources have already been checked individually.
    let is_whole = found.sources.is_empty();
    if is_whole && found.result.coverage.timed_out && !query.ranking.soft_timeout {
        return Err(Error::Timeout(found.timeout));
    }
    if !found.result.coverage.is_full() {
        metrics.count(CountedMetric::DegradedQueries);
    }
    match aim {
        OutputKind::Result(format) => {
            let (body, figures) = render::result(query, found, started, *format);
            Ok(SearchOutput::Result(body, figures))
        }
        OutputKind::Prompt(question) => {
            let prompt = question.prompt(&found.result.hits[found.hits.clone()]);
            Ok(SearchOutput::Prompt(Arc::clone(question), prompt))
        }
    }
}

/// Forwarded form of a query.
fn forwarded(query: &Query, mut headers: HeaderMap, left: Duration) -> Result<ForwardedRequest, Error> {
    let body = serde_json::to_vec(&search::with_timeout(query, left))
        .map_err(|error| Error::Internal(error.to_string()))?;
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
