//! A query, run over the documents of every schema that it asks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use millrace_plan::{Context, Embedding, Plan, Scope, has_field};
use millrace_query::{Query, Sources};
use millrace_result::PartialResult;
use millrace_schema::DocumentMode;
use millrace_search::{Deadline, Search, Trace};
use millrace_selection::Selection;
use millrace_store::ViewScope;

use crate::deployment::DocumentKind;
use crate::models::Embeddings;
use crate::{Deployment, Error, Node};

/// What a query found.
pub(super) struct Found {
    /// Everything, over all schemas.
    pub(super) result: PartialResult,
    /// Which of the hits are returned: those after the offset.
    pub(super) hits: Range<usize>,
    /// For each schema, where the time went.
    pub(super) traces: Vec<(Arc<str>, Trace)>,
    /// How long parsing and planning took, since the request came.
    pub(super) planned: Duration,
    /// Schemas left out, since they lack the document summary asked for.
    pub(super) lacking: Vec<Arc<str>>,
    /// How long it was allowed to take: as long as it asked for, or less where services.xml says so.
    pub(super) timeout: Duration,
}

/// Plans and runs a query. `gone` turns true when nobody waits for the answer any more.
pub(super) fn run(
    node: &Node,
    deployment: &Deployment,
    query: &Arc<Query>,
    embeddings: &Embeddings,
    started: Instant,
    gone: Arc<AtomicBool>,
) -> Result<Found, Error> {
    let kinds = asked(deployment, query)?;
    let (kinds, lacking) = showing(kinds, query);
    let searches = kinds
        .iter()
        .map(|kind| plan(kind, &kinds, query, embeddings))
        .collect::<Result<Vec<Search>, Error>>()?;
    if searches.len() > 1 && !query.grouping.is_empty() {
        return Err(Error::BadRequest(
            "grouping works over one schema at a time: name it in 'select … from SCHEMA', or in 'restrict'"
                .to_owned(),
        ));
    }
    let planned = started.elapsed();
    let limits = kinds.iter().filter_map(|kind| kind.limits.query_time_max);
    let timeout = limits.fold(query.timeout, Duration::min);
    let deadline = Deadline::at(started + timeout).or_when(gone);
    let mut result = PartialResult::default();
    let mut traces = Vec::with_capacity(searches.len());
    for (search, kind) in searches.iter().zip(&kinds) {
        let scope = scope(search.plan())?;
        let view = node.store().view(&kind.schema.name, &scope)?;
        let outcome = search.run(&*view, &deadline)?;
        traces.push((Arc::clone(&kind.schema.name), outcome.trace));
        merge(&mut result, outcome.result);
    }
    if searches.len() > 1 {
        result.coverage.nodes = 1;
    }
    let end = query.offset.saturating_add(query.hits).min(result.hits.len());
    Ok(Found { hits: query.offset.min(end)..end, result, traces, planned, timeout, lacking })
}

/// The schemas that have the document summary asked for, and the names of those that lack it. Where all lack it, all are asked: the
/// plan says what is wrong.
fn showing<'d>(
    kinds: Vec<&'d Arc<DocumentKind>>,
    query: &Query,
) -> (Vec<&'d Arc<DocumentKind>>, Vec<Arc<str>>) {
    let Some(summary) = &query.presentation.summary else { return (kinds, Vec::new()) };
    let has = |kind: &&Arc<DocumentKind>| kind.schema.summaries.contains_key(summary);
    if !kinds.iter().any(has) {
        return (kinds, Vec::new());
    }
    let (showing, lacking): (Vec<_>, Vec<_>) = kinds.into_iter().partition(has);
    (showing, lacking.into_iter().map(|kind| Arc::clone(&kind.schema.name)).collect())
}

/// The texts that the query wants embedded, over all schemas that it asks.
pub(super) fn embeddings(deployment: &Deployment, query: &Query) -> Result<Vec<Embedding>, Error> {
    let mut wanted = Vec::new();
    for kind in asked(deployment, query)? {
        wanted.extend(millrace_plan::embeddings(query, &kind.schema)?);
    }
    Ok(wanted)
}

/// Adds what another schema gave.
fn merge(whole: &mut PartialResult, part: PartialResult) {
    whole.total_count += part.total_count;
    whole.coverage.merge(&part.coverage);
    whole.groupings.extend(part.groupings);
    let sorted = whole.hits.is_empty();
    whole.hits.extend(part.hits);
    if !sorted {
        whole.hits.sort_by(|one, other| one.order(other));
    }
}

/// The schemas that the query asks, in the order of their names.
fn asked<'d>(deployment: &'d Deployment, query: &Query) -> Result<Vec<&'d Arc<DocumentKind>>, Error> {
    let searchable = |kind: &&Arc<DocumentKind>| kind.mode == DocumentMode::Streaming;
    let of = |name: &str| -> Result<Vec<&'d Arc<DocumentKind>>, Error> {
        let named: Vec<_> =
            deployment.kinds().filter(|kind| *kind.schema.name == *name || *kind.cluster == *name).collect();
        match named.is_empty() {
            true => Err(Error::UnknownSource { name: name.to_owned(), known: sources(deployment) }),
            false => Ok(named.into_iter().filter(searchable).collect()),
        }
    };
    let all_of = |names: &[String]| -> Result<Vec<_>, Error> {
        Ok(names.iter().map(|name| of(name)).collect::<Result<Vec<_>, Error>>()?.concat())
    };
    let mut kinds = match &query.sources {
        Sources::All => deployment.kinds().filter(searchable).collect(),
        Sources::Named(names) => all_of(names)?,
        Sources::Restricted { schemas, within } => {
            let mut kinds = all_of(schemas)?;
            if !within.is_empty() {
                let within = all_of(within)?;
                kinds.retain(|kind| within.iter().any(|other| other.schema.name == kind.schema.name));
            }
            kinds
        }
    };
    kinds.sort_by(|one, other| one.schema.name.cmp(&other.schema.name));
    kinds.dedup_by(|one, other| one.schema.name == other.schema.name);
    if kinds.is_empty() {
        return Err(Error::BadRequest(format!(
            "none of the sources can be searched; there are {}",
            sources(deployment)
        )));
    }
    Ok(kinds)
}

fn sources(deployment: &Deployment) -> String {
    let mut names: Vec<&str> = deployment.kinds().map(|kind| &*kind.schema.name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// The query as it runs over one schema; `all` are the schemas of the request.
fn plan(
    kind: &Arc<DocumentKind>,
    all: &[&Arc<DocumentKind>],
    query: &Arc<Query>,
    embeddings: &Embeddings,
) -> Result<Search, Error> {
    let elsewhere = |field: &str| {
        all.iter().any(|other| other.schema.name != kind.schema.name && has_field(&other.schema, field))
    };
    let profile = |name: &str| all.iter().any(|other| other.schema.rank_profiles.contains_key(name));
    let context = Context {
        clock: SystemTime::now(),
        known_elsewhere: &elsewhere,
        profile_elsewhere: &profile,
        embedded: &|call, target| embeddings.get(call, target),
    };
    let plan = Plan::new(Arc::clone(query), &kind.schema, &context)?;
    let Some(profile) = kind.profiles.get(&plan.profile) else {
        return Err(Error::Internal(format!("rank profile '{}' was not compiled", plan.profile)));
    };
    Ok(Search::new(Arc::new(plan), Arc::clone(profile), Arc::clone(&kind.cluster))?)
}

/// What of the store a plan reads: no other groups than the selection can be true of.
fn scope(plan: &Plan) -> Result<ViewScope, Error> {
    Ok(match &plan.scope {
        Scope::Groups(groups) => ViewScope::Groups(groups.clone()),
        Scope::All { selection: None } => ViewScope::All,
        Scope::All { selection: Some(text) } => match Selection::parse(text)?.groups() {
            Some(groups) => ViewScope::Groups(groups.into_iter().collect()),
            None => ViewScope::All,
        },
    })
}
