//! A query, run over the documents of every schema that it asks.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use millrace_bucket::BucketId;
use millrace_column::{PathChoice, View};
use millrace_document::Group;
use millrace_plan::{Context, Embedding, Plan, Scope, has_field, parsed};
use millrace_query::{Brief, Query};
use millrace_result::PartialResult;
use millrace_schema::did_you_mean;
use millrace_search::{
    Collapsing, Deadline, Gathering, Outcome, Search, Session, Trace, run_all, run_gathered,
};
use millrace_selection::Selection;
use millrace_store::ViewScope;

use super::apart::SourceFound;
use super::sources::{Asked, Reached, beside};
use crate::deployment::DocumentKind;
use crate::models::Embeddings;
use crate::pool::{self, WorkFlow};
use crate::{Deployment, Error, Node};

/// The share of its time that a query finds hits in, where it does not say so: the rest is for what is made of them.
const SOFT_TIMEOUT_FACTOR: f64 = 0.9;

/// What is made of the hits takes this long, however short the time: nothing would come of them in less.
const REST_MIN: Duration = Duration::from_millis(20);

/// What a query found.
#[derive(Default)]
pub(super) struct Found {
    /// Everything, over all schemas.
    pub(super) result: PartialResult,
    /// Which of the hits are returned: those after the offset.
    pub(super) hits: Range<usize>,
    /// For each schema, where the time went.
    pub(super) traces: Vec<(Arc<str>, Trace)>,
    /// How long parsing and planning took, since the request came.
    pub(super) planned: Duration,
    /// For traces: what was searched in short, and the plan for each schema.
    pub(super) plans: Option<Plans>,
    /// For traces: of the rules that have rewritten the query; nothing where nobody wants to know.
    pub(super) told: Arc<[String]>,
    /// That some of the sources are not there.
    pub(super) unresolved: Option<Error>,
    /// Schemas left out, since they lack the document summary asked for.
    pub(super) lacking: Vec<Arc<str>>,
    /// Schemas that have no part in the groups of a request, by its number, since they lack a field: why.
    pub(super) ungrouped: Vec<Ungrouped>,
    /// The selected fields that no hit can have.
    pub(super) unshown: Vec<Unshown>,
    /// How long it was allowed to take: as long as it asked for, or less where services.xml says so.
    pub(super) timeout: Duration,
    /// What each source gave, where they were searched apart; else nothing.
    pub(super) sources: Vec<SourceFound>,
    /// Whether what they gave stays in a group for each.
    pub(super) grouped: bool,
}

/// A selected field that no hit can have.
pub(super) struct Unshown {
    pub(super) field: String,
    pub(super) reason: String,
}

/// A schema that has no part in a grouping request.
pub(super) struct Ungrouped {
    pub(super) schema: Arc<str>,
    pub(super) request: usize,
    pub(super) reason: String,
}

impl Ungrouped {
    fn all(searches: &[Arc<Search>]) -> Vec<Self> {
        let of = |search: &Arc<Search>| {
            let schema = Arc::clone(&search.plan().schema.name);
            let why = |(request, error): (usize, &millrace_grouping::Error)| Ungrouped {
                schema: Arc::clone(&schema),
                request,
                reason: error.to_string(),
            };
            search.ungrouped().map(why).collect::<Vec<_>>()
        };
        searches.iter().flat_map(of).collect()
    }
}

/// Why selected fields are in no hit, of those that are in none of any schema.
fn unshown(query: &Query, searches: &[Arc<Search>]) -> Vec<Unshown> {
    let schemas = || searches.iter().map(|search| &search.plan().schema);
    let why = |name: &String| {
        if schemas().any(|schema| schema.fields.contains_key(name.as_str())) {
            return format!(
                "the selected field '{name}' is in no document summary: add 'summary' to its indexing"
            );
        }
        let shown =
            schemas().flat_map(|schema| schema.summaries.values()).flat_map(|summary| &summary.fields);
        let hint = did_you_mean(name, shown.map(|field| &*field.name));
        format!("there is no field '{name}' to select{hint}")
    };
    let is_shown = |name: &&String| searches.iter().any(|search| search.shows(name));
    let hidden = query.presentation.fields.iter().filter(|name| !is_shown(name));
    hidden.map(|name| Unshown { field: name.clone(), reason: why(name) }).collect()
}

/// A query on its way: what each step of it needs.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) node: Arc<Node>,
    pub(super) deployment: Arc<Deployment>,
    pub(super) query: Arc<Query>,
    /// What is told in the trace of the rules that have rewritten it.
    pub(super) told: Arc<[String]>,
    pub(super) embeddings: Arc<Embeddings>,
    pub(super) started: Instant,
    /// Turns true when nobody waits for the answer any more.
    pub(super) gone: Arc<AtomicBool>,
}

impl Request {
    /// The queue that its work waits in.
    pub(super) fn flow(&self) -> Result<WorkFlow, Error> {
        flow(&self.query)
    }

    /// Where it was asked, what, and since when.
    pub(super) fn asked(&self) -> (&Node, &Query, Instant) {
        (&self.node, &self.query, self.started)
    }
}

/// Plans and runs a query over the documents of this node.
pub(super) fn run(request: &Request) -> Result<Found, Error> {
    let prepared = Prepared::new(request)?;
    let views = prepared.views(scope(&request.query)?)?;
    let outcomes = match request.node.settings().paths() {
        PathChoice::Fast => run_all(&prepared.parts(&views), &prepared.deadline)?,
        PathChoice::Plain => {
            let searches = prepared.searches.iter().cloned().zip(views).collect();
            run_gathered(searches, &prepared.deadline)?
        }
    };
    Ok(prepared.found(outcomes, 1))
}

/// A query over the documents that this node has in some buckets, for the node that gathers what all have.
pub(super) fn session(request: &Request, buckets: &[BucketId]) -> Result<(Session, Deadline), Error> {
    let scope = match scope(&request.query)? {
        ViewScope::Groups(mut groups) => {
            let is_here = |group: &Group| buckets.iter().any(|bucket| bucket.intersects(group));
            groups.retain(is_here);
            ViewScope::GroupsIn(groups, buckets.to_vec())
        }
        ViewScope::GroupsIn(..) | ViewScope::Buckets(_) | ViewScope::All => {
            ViewScope::Buckets(buckets.to_vec())
        }
    };
    let prepared = Prepared::new(request)?;
    let views = prepared.views(scope)?;
    let searches = prepared.searches.iter().cloned().zip(views).collect();
    Ok((Session::new(searches, &prepared.deadline)?, prepared.deadline))
}

/// What asks so many nodes, and makes one result of their answers.
pub(super) fn gathering(request: &Request, nodes: usize) -> Result<Gathering, Error> {
    Ok(Gathering::new(Prepared::new(request)?.searches, nodes))
}

/// The result of what so many nodes have found.
pub(super) fn gathered(request: &Request, outcomes: Vec<Outcome>, nodes: u32) -> Result<Found, Error> {
    Ok(Prepared::new(request)?.found(outcomes, nodes))
}

/// A query with its plans.
struct Prepared<'r> {
    request: &'r Request,
    kinds: Vec<Asked<'r>>,
    unresolved: Option<Error>,
    lacking: Vec<Arc<str>>,
    /// One for each kind.
    searches: Vec<Arc<Search>>,
    planned: Duration,
    timeout: Duration,
    deadline: Deadline,
}

impl<'r> Prepared<'r> {
    fn new(request: &'r Request) -> Result<Self, Error> {
        let Request { deployment, query, started, gone, .. } = request;
        let Reached { kinds, unresolved } = Reached::by(&query.sources, deployment)?;
        let mut known = beside(query, deployment);
        known.extend(kinds.iter().map(|asked| asked.kind));
        let (kinds, lacking) = showing(kinds, query);
        let searches = kinds
            .iter()
            .map(|asked| plan(asked, &known, request).map(Arc::new))
            .collect::<Result<Vec<Arc<Search>>, Error>>()?;
        let timeout = kinds.iter().filter_map(Asked::query_time_max).fold(query.timeout, Duration::min);
        let share = if query.ranking.soft_timeout { SOFT_TIMEOUT_FACTOR } else { 1.0 };
        let looking = timeout.mul_f64(query.ranking.soft_timeout_factor.unwrap_or(share));
        let rest = timeout.saturating_sub(looking).max(REST_MIN);
        let deadline = Deadline::at(*started + looking)
            .with_rest(rest)
            .or_when(Arc::clone(gone))
            .pausing_with(pool::pause);
        let planned = started.elapsed();
        Ok(Prepared { request, kinds, unresolved, lacking, searches, planned, timeout, deadline })
    }

    /// The documents of each kind.
    fn views(&self, scope: ViewScope) -> Result<Vec<Arc<dyn View>>, Error> {
        let store = self.request.node.store();
        self.kinds.iter().map(|asked| Ok(store.view(&asked.kind.schema.name, &scope)?)).collect()
    }

    fn parts<'p>(&'p self, views: &'p [Arc<dyn View>]) -> Vec<(&'p Search, &'p dyn View)> {
        self.searches.iter().zip(views).map(|(search, view)| (&**search, &**view as &dyn View)).collect()
    }

    /// All kinds' outcomes as one result, of so many nodes.
    fn found(self, outcomes: Vec<Outcome>, nodes: u32) -> Found {
        let Request { deployment, query, told, .. } = self.request;
        let plans = (query.tracing.level > 0).then(|| Plans::of(deployment, query, &self.searches));
        let mut result = PartialResult::default();
        let mut traces = Vec::with_capacity(outcomes.len());
        let mut keys = HashMap::new();
        for (outcome, Asked { kind, .. }) in outcomes.into_iter().zip(&self.kinds) {
            traces.push((Arc::clone(&kind.schema.name), outcome.trace));
            let ids = outcome.result.hits.iter().map(|hit| hit.id.clone());
            keys.extend(ids.zip(outcome.collapse_keys));
            merge(&mut result, outcome.result);
        }
        if let Some(collapse) = query.collapse.as_ref().filter(|_| self.kinds.len() > 1) {
            // Within each schema that has been done; now hits of one are compared with those of others.
            let mut collapsing = Collapsing::new(collapse);
            result.hits.retain(|hit| keys.get(&hit.id).is_none_or(|keys| collapsing.keeps(keys)));
        }
        result.coverage.nodes = nodes;
        let end = query.offset.saturating_add(query.hits).min(result.hits.len());
        let ungrouped = Ungrouped::all(&self.searches);
        let unshown = unshown(query, &self.searches);
        let Prepared { planned, timeout, unresolved, lacking, .. } = self;
        Found {
            hits: query.offset.min(end)..end,
            result,
            traces,
            planned,
            timeout,
            plans,
            told: Arc::clone(told),
            unresolved,
            lacking,
            ungrouped,
            unshown,
            sources: Vec::new(),
            grouped: false,
        }
    }
}

/// What traces tell of plans.
pub(super) struct Plans {
    /// The query profile that was used.
    pub(super) profile: Option<String>,
    /// The query in short.
    pub(super) query: String,
    /// For each schema, the plan.
    pub(super) plans: Vec<String>,
}

impl Plans {
    fn of(deployment: &Deployment, query: &Query, searches: &[Arc<Search>]) -> Self {
        let item = searches.first().map(|search| parsed(&query.root, &[&search.plan().schema]));
        let named = query.parameters.get("queryProfile").cloned();
        Plans {
            profile: named.or_else(|| {
                deployment.application.query_profiles.has_default().then(|| "default".to_owned())
            }),
            query: Brief(item.as_ref().unwrap_or(&query.root)).to_string(),
            plans: searches.iter().map(|search| search.plan().to_string()).collect(),
        }
    }
}

/// The schemas that have the document summary asked for, and the names of those that lack it. Where all lack it, all are asked: the
/// plan says what is wrong.
fn showing<'d>(kinds: Vec<Asked<'d>>, query: &Query) -> (Vec<Asked<'d>>, Vec<Arc<str>>) {
    let Some(summary) = &query.presentation.summary else { return (kinds, Vec::new()) };
    let has = |asked: &Asked<'_>| asked.kind.schema.summaries.contains_key(summary);
    if !kinds.iter().any(has) {
        return (kinds, Vec::new());
    }
    let (showing, lacking): (Vec<_>, Vec<_>) = kinds.into_iter().partition(has);
    (showing, lacking.into_iter().map(|asked| Arc::clone(&asked.kind.schema.name)).collect())
}

/// The texts that the query wants embedded, over all schemas that it asks.
pub(super) fn embeddings(deployment: &Deployment, query: &Query) -> Result<Vec<Embedding>, Error> {
    let mut wanted = Vec::new();
    for asked in Reached::by(&query.sources, deployment)?.kinds {
        wanted.extend(millrace_plan::embeddings(query, &asked.kind.schema)?);
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

/// The query as it runs over one schema; `all` are the schemas of the request.
fn plan(
    asked: &Asked<'_>,
    all: &[&Arc<DocumentKind>],
    Request { deployment, query, embeddings, .. }: &Request,
) -> Result<Search, Error> {
    let kind = asked.kind;
    let elsewhere = |field: &str| {
        all.iter().any(|other| other.schema.name != kind.schema.name && has_field(&other.schema, field))
    };
    let context = Context {
        clock: SystemTime::now(),
        known_elsewhere: &elsewhere,
        embedded: &|call, target| embeddings.get(call, target),
        significance: &deployment.application.significance,
    };
    let plan = Plan::new(Arc::clone(query), &kind.schema, &context)?;
    if let Scope::All { selection: Some(text) } = &plan.scope {
        // It may name documents of any type, whichever the query is about.
        deployment.selection(text)?;
    }
    let Some(profile) = kind.profiles.get(&plan.profile) else {
        return Err(Error::Internal(format!("rank profile '{}' was not compiled", plan.profile)));
    };
    let cluster = asked.cluster().map_or_else(|| Arc::from(""), |cluster| Arc::clone(&cluster.id));
    let snippets = asked.cluster().map(|cluster| cluster.snippets).unwrap_or_default();
    let search = Search::new(Arc::new(plan), Arc::clone(profile), cluster)?;
    Ok(search.within(asked.within()).with_snippets(&snippets))
}

/// The queue that the work of a query waits in: that of the groups whose documents it reads.
///
/// # Errors
/// As [`scope`].
pub(super) fn flow(query: &Query) -> Result<WorkFlow, Error> {
    Ok(WorkFlow::of_scope(&scope(query)?))
}

/// What of the store a query reads: no other groups than the selection can be true of.
pub(super) fn scope(query: &Query) -> Result<ViewScope, Error> {
    Ok(match Scope::of(&query.streaming)? {
        Scope::Groups(groups) => ViewScope::Groups(groups),
        Scope::All { selection: None } => ViewScope::All,
        Scope::All { selection: Some(text) } => match Selection::parse(&text)?.groups() {
            Some(groups) => ViewScope::Groups(groups.into_iter().collect()),
            None => ViewScope::All,
        },
    })
}
