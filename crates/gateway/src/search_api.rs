//! `/search/`: collects a query's parameters, plans and runs it, and renders its result.

mod benchmark;
mod codes;
mod format;
mod implied;
mod language;
mod parameters;
mod render;
mod slow;
mod trace;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{self, State};
use axum::response::Response;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, StatusCode};
use millrace_access::WantedGroups;
use millrace_node::ErrorKind;
use millrace_node::cluster::ForwardKind;
use millrace_node::metrics::{CountedMetric, NodeMetrics};
use millrace_node::search::{
    self, FederatedQuery, QueryAnswer, RoutedQuery, SearchOutcome, SourceQueries, by_chain, rewritten_query,
};
use millrace_node::{CompiledApplication, Error, Node};
use millrace_query::Query;

use self::benchmark::RequestedStats;
use self::format::ResultFormat;
use self::implied::ShortIds;
use self::language::{PromptRequest, SearchedPrompt};
use self::slow::QueryNotes;
use crate::edge::{attach_caller, caller_of};
use crate::forwarding::{self, ForwardedRequest, SendableRequest};
use crate::quota::{GroupTurn, QuotaHints};
use crate::status::HttpError;
use crate::{GatewayState, http, spans};

pub(crate) use self::benchmark::{QueryStats, SearchPhases};
pub(crate) use self::slow::SlowQueryLog;
pub use self::slow::SlowQuerySettings;

/// Answers a query.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>, request: extract::Request) -> Response {
    let started = Instant::now();
    let metrics = node.metrics();
    let asked = RequestedStats::from_headers(request.headers());
    let mut notes = QueryNotes::new(&request);
    let answer = search(&node, request, started, &mut notes).await;
    metrics.time(CountedMetric::QueryLatency, started.elapsed());
    metrics.count(CountedMetric::Queries);
    let response = response_of(answer, asked, notes.format, metrics);
    if let Some(log) = node.slow_queries() {
        log.note(started, &notes, response.status(), response.extensions().get::<QueryStats>());
    }
    response
}

/// Makes the response of an answer or an error, and counts the error in the metrics.
fn response_of(
    answer: Result<SearchAnswer, Error>,
    asked: RequestedStats,
    format: ResultFormat,
    metrics: &NodeMetrics,
) -> Response {
    match answer {
        Ok(SearchAnswer::Result(body, stats)) => {
            let mut response = http::answer(StatusCode::OK, &format.content_type(), body);
            asked.add(&stats, response.headers_mut());
            response.extensions_mut().insert(stats);
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
            asked.add(&QueryStats { errors: 1, ..QueryStats::default() }, response.headers_mut());
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
    Result(Vec<u8>, QueryStats),
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
    Result(Vec<u8>, QueryStats),
    Prompt(Arc<PromptRequest>, SearchedPrompt),
}

impl SearchOutput {
    async fn answer(
        self,
        query: &Query,
        format: ResultFormat,
        budget: &Arc<http::RequestBudget>,
    ) -> Result<SearchAnswer, Error> {
        Ok(match self {
            SearchOutput::Result(body, stats) => SearchAnswer::Result(body, stats),
            SearchOutput::Prompt(question, prompt) => {
                SearchAnswer::Response(question.answer(prompt, query, format, budget).await?)
            }
        })
    }
}

/// A parsed query request.
struct SearchRequest {
    /// The query, with its way to an answer.
    routed: RoutedQuery,
    /// Requested kind of output.
    output_kind: OutputKind,
    /// Its turns in the limits of its groups.
    turns: Vec<GroupTurn>,
}

/// A query whose outcomes become output.
#[derive(Clone)]
struct AnsweredQuery {
    node: Arc<Node>,
    query: Arc<Query>,
    started: Instant,
    output_kind: OutputKind,
    /// Form of the ids, if they leave out a group.
    short_ids: Option<Arc<ShortIds>>,
}

/// A request as it was received.
struct ReceivedSearch<'h> {
    request: extract::Request,
    /// Its headers, with the caller.
    headers: &'h HeaderMap,
    stage: ForwardKind,
    started: Instant,
}

/// Answers a request; notes the format as soon as it is known, so that errors are rendered in it too.
async fn search(
    node: &Arc<GatewayState>,
    request: extract::Request,
    started: Instant,
    notes: &mut QueryNotes,
) -> Result<SearchAnswer, Error> {
    let deployment = node.deployments().current()?;
    let mut headers = request.headers().clone();
    let stage = forwarding::stage_of(&headers)?;
    notes.stage = Some(stage.clone());
    if stage == ForwardKind::Share {
        // Its parameters are those of a query that another node has checked.
        caller_of(&request)?.permit(WantedGroups::All)?;
        return Ok(SearchAnswer::Response(
            forwarding::answer_share(node, deployment, request, started).await?,
        ));
    }
    let caller = caller_of(&request)?;
    attach_caller(&mut headers, &caller);
    let short_ids = caller.implied_group.as_ref().map(|group| Arc::new(ShortIds::new(group, &deployment)));
    // The turns last until the answer begins.
    let received = ReceivedSearch { request, headers: &headers, stage, started };
    let SearchRequest { routed, output_kind, turns: _turns } =
        read_request(node, &deployment, received, &mut notes.format).await?;
    let (format, query) = (notes.format, Arc::clone(&routed.query));
    notes.query = Some(Arc::clone(&query));
    if let OutputKind::Prompt(question) = &output_kind
        && !question.searches()
    {
        let prompt = SearchedPrompt::alone(question.prompt(&[], &[])?);
        let response = question.answer(prompt, &query, format, node.budget()).await?;
        return Ok(SearchAnswer::Response(response));
    }
    let forward = |query: &Query, left: Duration| {
        let request = Cow::Owned(forwarded(query, headers.clone(), left)?);
        Ok(SendableRequest { forwarder: node.forwarder(), request })
    };
    let query_node = Arc::clone(node.node());
    let answered =
        AnsweredQuery { node: query_node, query: Arc::clone(&query), started, output_kind, short_ids };
    let finish = move |mut found: SearchOutcome| {
        if let Some(short_ids) = &answered.short_ids {
            short_ids.shorten(&mut found.result);
        }
        answered.output(&found)
    };
    match routed.answer(forward, finish).await? {
        QueryAnswer::Local(output) => output.answer(&query, format, node.budget()).await,
        QueryAnswer::Forwarded(response) => Ok(SearchAnswer::Response(response)),
        QueryAnswer::Readers(version, readers) => {
            Ok(SearchAnswer::Response(forwarding::redirection_response(version, &readers)))
        }
    }
}

/// Parses a request: its query, sources, and kind of output.
async fn read_request(
    node: &GatewayState,
    deployment: &Arc<CompiledApplication>,
    received: ReceivedSearch<'_>,
    format: &mut ResultFormat,
) -> Result<SearchRequest, Error> {
    let ReceivedSearch { request, headers, stage, started } = received;
    let caller = caller_of(&request)?;
    let is_from_client = node.is_from_client(headers);
    let peer = request.extensions().get().filter(|_| is_from_client);
    let observer = spans::observer_of(&request);
    node.quotas().admit_address(peer, started, node.metrics())?;
    let parameters::ReadParameters { mut parameters, limits, room } =
        parameters::read(node, deployment, &stage, request, format).await?;
    *format = ResultFormat::read(&parameters, headers)?;
    let container = &deployment.application.container;
    if container.limits_rates
        && is_from_client
        && let Some(claim) = QuotaHints::from_parameters(&parameters)?
    {
        node.quotas().admit_claim(&caller, &claim, started, node.metrics())?;
    }
    let question = PromptRequest::read(deployment, &mut parameters, headers)?;
    if matches!(format, ResultFormat::Events) && question.is_none() {
        let reason = "sse is for answers of language models: name a chain that asks one by searchChain";
        return Err(Error::parameter("presentation.format", reason.to_owned()));
    }
    by_chain(deployment, &mut parameters);
    let mut rewritten = rewritten_query(node, deployment, parameters, limits).await?;
    rewritten.fill_in_group(&caller);
    let FederatedQuery { mut query, rule_trace, mut separate } =
        search::federated_query(node, deployment, rewritten, &limits).await?;
    if let Some(group) = &caller.implied_group {
        let parts = separate.iter_mut().flat_map(SourceQueries::queries_mut);
        std::iter::once(&mut query).chain(parts).for_each(|query| search::imply_group(group, query));
    }
    let searches = question.as_ref().is_none_or(PromptRequest::searches);
    // A prompt without a search reads no documents, and names no group.
    let searched = std::iter::once(&query).chain(separate.iter().flat_map(SourceQueries::queries));
    let permit = search::permit(&caller, searched.filter(|_| searches))
        .map_err(|error| search::naming_index(error, node.node(), &caller, deployment, &query))?;
    let turns = match is_from_client && searches {
        true => node.quotas().admit_scope(&search::scope(&query)?, started, node.metrics())?,
        false => Vec::new(),
    };
    if container.checks_encoding {
        check_encoding(&query)?;
        separate.iter().flat_map(SourceQueries::queries).try_for_each(check_encoding)?;
    }
    let output_kind = match question {
        Some(question) => OutputKind::Prompt(Arc::new(question)),
        None => OutputKind::Result(*format),
    };
    let routed = RoutedQuery {
        node: Arc::clone(node.node()),
        deployment: Arc::clone(deployment),
        query: Arc::new(query),
        rule_trace,
        separate,
        permit,
        stage,
        started,
        observer,
        room: Some(room as _),
    };
    Ok(SearchRequest { routed, output_kind, turns })
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

impl AnsweredQuery {
    /// Produces the output for a search outcome, and counts it in the metrics.
    fn output(&self, found: &SearchOutcome) -> Result<SearchOutput, Error> {
        let metrics = self.node.metrics();
        metrics.record(CountedMetric::HitsPerQuery, found.hits.len() as f64);
        metrics.record(CountedMetric::TotalHitsPerQuery, found.result.total_count as f64);
        // Separately searched sources have already been checked individually.
        let is_whole = found.sources.is_empty();
        if is_whole && found.result.coverage.timed_out && !self.query.ranking.soft_timeout {
            return Err(Error::Timeout(found.timeout));
        }
        if !found.result.coverage.is_full() {
            metrics.count(CountedMetric::DegradedQueries);
        }
        Ok(match &self.output_kind {
            OutputKind::Result(format) => {
                let (body, stats) = render::result(&self.query, found, self.started, *format);
                SearchOutput::Result(body, stats)
            }
            OutputKind::Prompt(question) => {
                let result = || render::result(&self.query, found, self.started, ResultFormat::Json).0;
                let prompt = SearchedPrompt {
                    text: question.prompt(&found.result.hits[found.hits.clone()], &found.result.groupings)?,
                    result: question.shows_hits().then(result),
                    errors: render::result_errors(found),
                };
                SearchOutput::Prompt(Arc::clone(question), prompt)
            }
        })
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
