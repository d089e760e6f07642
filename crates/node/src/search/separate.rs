//! Sources that are searched separately: each concurrently with the others, by its own query. Their results
//! are merged to one.

use std::ops::Range;
use std::sync::Arc;

use millrace_query::{Query, QueryLimits};
use millrace_result::{GroupList, ResultGroup, ResultHit};
use millrace_search::hit_page;
use tokio::task::JoinSet;

use super::federation::SourceQuery;
use super::rewrite::RewrittenQuery;
use super::routed::RoutedQuery;
use super::run::{QueryRequest, SearchNotices, SearchOutcome};
use super::sources::ResolvedSources;
use super::{GRACE, SearchExtent, answer, embed};
use crate::caller::CancelOnDrop;
use crate::{CompiledApplication, Error, Node};

/// Sources of a request, before their queries are made.
pub struct SeparateSources {
    parts: Vec<SourceQuery>,
    joining: ResultJoining,
}

/// Rules for merging the results of sources.
struct ResultJoining {
    /// True if their hits become one list.
    blends: bool,
    /// True if the list is cut to the page of the request; a single source returns the page that it was asked
    /// for.
    is_cut: bool,
    /// Error for sources that do not exist.
    unresolved: Option<Error>,
}

/// The sources with their queries.
pub struct SourceQueries {
    sources: Vec<(SourceQuery, RewrittenQuery)>,
    joining: ResultJoining,
}

/// Outcome of one source.
pub struct SourceSearchOutcome {
    /// Name of the source.
    pub name: Arc<str>,
    /// Range of its hits among the returned ones, if they did not become one list with those of others.
    pub hits: Range<usize>,
    /// Range of its groups among those of all sources.
    pub groupings: Range<usize>,
    /// True if everything was searched.
    pub is_full: bool,
    /// Notices that accompany its result, or the error for which it has none.
    pub notices: Result<SearchNotices, Error>,
}

impl SeparateSources {
    pub fn new(parts: Vec<SourceQuery>, blends: bool, unresolved: Option<Error>) -> Self {
        let is_cut = blends && parts.len() > 1;
        SeparateSources { parts, joining: ResultJoining { blends, is_cut, unresolved } }
    }

    /// Makes the sources' queries. Sources without any of the schemas that the query is restricted to are
    /// left out.
    ///
    /// # Errors
    /// A source's parameters are not a valid query, or hits of different orders would become one list.
    pub async fn into_queries(
        self,
        node: &Node,
        deployment: &Arc<CompiledApplication>,
        whole: &RewrittenQuery,
        limits: &QueryLimits,
    ) -> Result<SourceQueries, Error> {
        let SeparateSources { parts, joining } = self;
        let mut sources = Vec::with_capacity(parts.len());
        for part in parts {
            let made = part.query(node, deployment, whole.parsed(), limits).await?;
            sources.push((part, made));
        }
        let leads = |(_, made): &(SourceQuery, RewrittenQuery)| {
            ResolvedSources::by(&made.query.sources, deployment).is_ok()
        };
        if sources.iter().any(leads) {
            sources.retain(leads);
        }
        let other_order = sources.iter().find(|(_, made)| made.query.sorting != whole.query.sorting);
        if let Some((part, _)) = other_order.filter(|_| joining.is_cut) {
            let reason = format!(
                "source '{}' has an order of its own, and all hits become one list: sort all alike, or ask a chain that keeps its sources apart",
                part.name
            );
            return Err(Error::BadRequest(reason));
        }
        Ok(SourceQueries { sources, joining })
    }
}

impl SourceQueries {
    /// Queries of the sources.
    pub fn queries(&self) -> impl Iterator<Item = &Query> {
        self.sources.iter().map(|(_, made)| &made.query)
    }

    /// Queries of the sources, to be changed.
    pub fn queries_mut(&mut self) -> impl Iterator<Item = &mut Query> {
        self.sources.iter_mut().map(|(_, made)| &mut made.query)
    }

    /// Searches all sources of a query, and merges their results. Optional sources are waited for only until
    /// the others are done.
    ///
    /// # Errors
    /// The error of the first source, if all fail.
    pub async fn run(self, routed: &RoutedQuery) -> Result<SearchOutcome, Error> {
        let RoutedQuery { node, deployment, query, permit, started, observer, .. } = routed;
        let SourceQueries { sources, joining } = self;
        let memory = node.query_memory();
        let (mut requested, mut running) =
            (Vec::with_capacity(sources.len()), Vec::with_capacity(sources.len()));
        for (part, made) in sources {
            let source_query = Arc::new(made.query);
            requested.push(SourceOutcome {
                name: part.name,
                query: Arc::clone(&source_query),
                outcome: None,
            });
            let request = QueryRequest {
                node: Arc::clone(node),
                deployment: Arc::clone(deployment),
                query: source_query,
                rule_trace: made.rule_trace,
                embeddings: Arc::default(),
                permit: permit.clone(),
                started: *started,
                gone: Arc::default(),
                room: None,
                memory: Arc::clone(&memory),
                observer: observer.clone(),
            };
            running.push((part.is_optional, search(request)));
        }
        for (source, outcome) in requested.iter_mut().zip(run_concurrently(running).await?) {
            source.outcome = outcome;
        }
        let joined = merge_outcomes(requested, query, joining)?;
        Ok(SearchOutcome { memory: Some(memory), ..joined })
    }
}

/// Runs all concurrently. Optional ones are waited for until the rest is done, and yield nothing if they are
/// not done by then. If all are optional, all are waited for.
async fn run_concurrently<T: Send + 'static>(
    all: Vec<(bool, impl Future<Output = T> + Send + 'static)>,
) -> Result<Vec<Option<T>>, Error> {
    let is_all_optional = all.iter().all(|(is_optional, _)| *is_optional);
    let (mut running, mut awaited) = (JoinSet::new(), 0);
    let mut done: Vec<Option<T>> = Vec::new();
    for (at, (is_optional, work)) in all.into_iter().enumerate() {
        let is_awaited = is_all_optional || !is_optional;
        awaited += usize::from(is_awaited);
        done.push(None);
        running.spawn(async move { (at, is_awaited, work.await) });
    }
    loop {
        let next = match awaited {
            // Optional ones that are done by now count.
            0 => running.try_join_next(),
            _ => running.join_next().await,
        };
        let Some(next) = next else { return Ok(done) };
        let (at, is_awaited, outcome) = next.map_err(|error| Error::Internal(error.to_string()))?;
        awaited -= usize::from(is_awaited);
        done[at] = Some(outcome);
    }
}

/// Searches one source: makes the tensors of its texts, and runs its query.
async fn search(mut request: QueryRequest) -> Result<SearchOutcome, Error> {
    let caller = CancelOnDrop::default();
    request.gone = Arc::clone(&caller.gone);
    let query = Arc::clone(&request.query);
    let deadline = request.started + query.timeout;
    let searching = async {
        let QueryRequest { node, deployment, query, gone, .. } = &request;
        let embeddings = embed(node, deployment, query, deadline, gone).await?;
        request.embeddings = Arc::new(embeddings);
        answer(&request, SearchExtent::Cluster, |found| found).await
    };
    let found = tokio::time::timeout_at((deadline + GRACE).into(), searching).await;
    let found = found.map_err(|_| Error::Timeout(query.timeout))??;
    if found.result.coverage.timed_out && !query.ranking.soft_timeout {
        return Err(Error::Timeout(found.timeout));
    }
    Ok(found)
}

/// A source, its query, and its result; `None` if it was not waited for.
struct SourceOutcome {
    name: Arc<str>,
    query: Arc<Query>,
    outcome: Option<Result<SearchOutcome, Error>>,
}

/// Merges the results of all sources.
fn merge_outcomes(
    mut requested: Vec<SourceOutcome>,
    query: &Query,
    joining: ResultJoining,
) -> Result<SearchOutcome, Error> {
    let is_found = |of: &SourceOutcome| matches!(of.outcome, Some(Ok(_)));
    if !requested.iter().any(is_found) {
        let first = requested.into_iter().find_map(|of| of.outcome?.err());
        return Err(first.unwrap_or(Error::Timeout(query.timeout)));
    }
    keep_unshown(&mut requested);
    let mut all = SearchOutcome {
        notices: SearchNotices { unresolved: joining.unresolved.map(Arc::new), ..SearchNotices::default() },
        timeout: query.timeout,
        grouped: !joining.blends,
        ..SearchOutcome::default()
    };
    for SourceOutcome { name, outcome, .. } in requested {
        match outcome {
            None => {}
            Some(Ok(found)) => add(&mut all, name, found),
            Some(Err(error)) => all.sources.push(SourceSearchOutcome {
                notices: Err(error),
                name,
                hits: 0..0,
                groupings: 0..0,
                is_full: false,
            }),
        }
    }
    all.hits = 0..all.result.hits.len();
    if joining.is_cut {
        all.result.hits.sort_by(ResultHit::order);
        all.hits = hit_page(query.offset, query.hits, all.hits.end);
    }
    Ok(all)
}

/// Adds the result of one source.
fn add(all: &mut SearchOutcome, name: Arc<str>, found: SearchOutcome) {
    let SearchOutcome { mut result, hits, traces, planned, plans, rule_trace, notices, .. } = found;
    let whole = &mut all.result;
    let (first_hit, first_grouping) = (whole.hits.len(), whole.groupings.len());
    // The nodes are the same for all sources.
    let nodes = whole.coverage.nodes.max(result.coverage.nodes);
    whole.total_count += result.total_count;
    whole.coverage.merge(&result.coverage);
    whole.coverage.nodes = nodes;
    whole.hits.extend(result.hits.drain(hits).map(|hit| ResultHit { source: Arc::clone(&name), ..hit }));
    result.groupings.iter_mut().for_each(|grouping| name_source(&mut grouping.root, &name));
    whole.groupings.append(&mut result.groupings);
    let of_it = |schema: Arc<str>| Arc::from(format!("{schema} of source {name}"));
    all.traces.extend(traces.into_iter().map(|(schema, trace)| (of_it(schema), trace)));
    all.planned = all.planned.max(planned);
    all.rule_trace = all.rule_trace.iter().cloned().chain(rule_trace.iter().cloned()).collect();
    match (&mut all.plans, plans) {
        (Some(all), Some(plans)) => all.plans.extend(plans.plans),
        (all, plans) => *all = all.take().or(plans),
    }
    all.sources.push(SourceSearchOutcome {
        name,
        hits: first_hit..all.result.hits.len(),
        groupings: first_grouping..all.result.groupings.len(),
        is_full: result.coverage.is_full(),
        notices: Ok(notices),
    });
}

/// Names the source of the hits in a group.
fn name_source(group: &mut ResultGroup, source: &Arc<str>) {
    for list in &mut group.lists {
        match list {
            GroupList::Groups { groups, .. } => {
                groups.iter_mut().for_each(|group| name_source(group, source))
            }
            GroupList::Hits { hits, .. } => hits.iter_mut().for_each(|hit| hit.source = Arc::clone(source)),
        }
    }
}

/// Reduces the notices about selected fields that no hit of a source can have: only fields that no other
/// source with the same selection shows are left, each once.
fn keep_unshown(requested: &mut [SourceOutcome]) {
    let mut shown: Vec<(String, bool)> = Vec::new();
    for SourceOutcome { query, outcome, .. } in requested.iter() {
        let Some(Ok(found)) = outcome else { continue };
        for field in &query.presentation.fields {
            let is_shown = !found.notices.unshown.iter().any(|unshown| unshown.field == *field);
            shown.push((field.clone(), is_shown));
        }
    }
    let mut known: Vec<String> =
        shown.into_iter().filter(|(_, shown)| *shown).map(|(field, _)| field).collect();
    for of in requested {
        let Some(Ok(found)) = &mut of.outcome else { continue };
        found.notices.unshown.retain(|unshown| {
            let is_known = known.contains(&unshown.field);
            known.push(unshown.field.clone());
            !is_known
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;

    use super::*;

    type Work = Pin<Box<dyn Future<Output = u8> + Send>>;

    #[tokio::test]
    async fn what_is_optional_is_not_waited_for() {
        let now = |result: u8| -> Work { Box::pin(ready(result)) };
        let never = || -> Work { Box::pin(pending()) };
        let done = run_concurrently(vec![(true, never()), (false, now(1)), (false, now(2))]).await.unwrap();
        assert_eq!(done, [None, Some(1), Some(2)]);
        let done = run_concurrently(vec![(true, now(1)), (true, now(2))]).await.unwrap();
        assert_eq!(done, [Some(1), Some(2)]);
    }
}
