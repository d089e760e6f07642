//! Execution of a query over the documents of every schema that it searches.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, UNIX_EPOCH};

use millrace_access::{Permit, RequestCaller, WantedGroups};
use millrace_bucket::BucketId;
use millrace_column::{JoinedView, View};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_plan::{
    EmbeddedInput, Plan, PlanContext, QueryMemory, StreamedScope, check_groupings, parsed, term_end,
};
use millrace_query::{BriefItem, Query, StreamingScope};
use millrace_result::PartialResult;
use millrace_schema::did_you_mean;
use millrace_search::{
    MergedOutcome, PassOutcome, PreparedSearch, SearchDeadline, SearchGathering, SearchTrace, ShareSession,
    run_all,
};
use millrace_selection::DocumentSelection;
use millrace_store::ViewScope;

use super::observer::QueryObserver;
use super::separate::SourceSearchOutcome;
use super::sources::{LackingSchema, ResolvedSources, SearchedSchema, companion_types, having};
use crate::cluster::ClusterView;
use crate::deployment::CompiledDocumentType;
use crate::indexes::{CandidateReading, IndexUse, NarrowedPart, NarrowedScope, first_entries};
use crate::models::QueryEmbeddings;
use crate::pool::{self, WorkFlow};
use crate::{CompiledApplication, Error, Node};

/// Default share of its time in which a query finds hits: the rest is for processing them.
const SOFT_TIMEOUT_FACTOR: f64 = 0.9;

/// Minimum time for processing the hits, however short the query's time: less would yield nothing.
const OUTPUT_TIME_MIN: Duration = Duration::from_millis(20);

/// Outcome of a query.
#[derive(Default)]
pub struct SearchOutcome {
    /// Result over all schemas.
    pub result: PartialResult,
    /// Range of the returned hits: those after the offset.
    pub hits: Range<usize>,
    /// Trace of the time for each schema.
    pub traces: Vec<(Arc<str>, SearchTrace)>,
    /// Time for parsing and planning, since the request arrived.
    pub planned: Duration,
    /// Summary of the search and the plan of each schema, if a trace was requested.
    pub plans: Option<PlanTrace>,
    /// Rules that have rewritten the query, for a trace; empty if none was requested.
    pub rule_trace: Arc<[String]>,
    /// Notices that accompany the hits.
    pub notices: SearchNotices,
    /// Time limit: that of the query, or a shorter one from services.xml.
    pub timeout: Duration,
    /// Result of each source, if they were searched separately; otherwise empty.
    pub sources: Vec<SourceSearchOutcome>,
    /// True if their results stay in one group for each.
    pub grouped: bool,
    /// Memory that the result takes; given back with it.
    pub memory: Option<Arc<QueryMemory>>,
}

/// Notices that accompany the hits of a query.
#[derive(Default)]
pub struct SearchNotices {
    /// Time limit, if it was reached: the result is not complete.
    pub timed_out: Option<Duration>,
    /// Error for sources that do not exist.
    pub unresolved: Option<Arc<Error>>,
    /// Schemas left out, because they lack what the query names.
    pub lacking: Vec<LackingSchema>,
    /// Schemas that are not part of the groups of a request, by its number, because they lack a field, with
    /// the reason.
    pub ungrouped: Vec<UngroupedSchema>,
    /// Selected fields that no hit can have.
    pub unshown: Vec<UnshownField>,
}

/// A selected field that no hit can have.
pub struct UnshownField {
    pub field: String,
    pub reason: String,
}

/// A schema that is not part of a grouping request.
pub struct UngroupedSchema {
    pub schema: Arc<str>,
    pub request: usize,
    pub reason: String,
}

impl UngroupedSchema {
    fn all(searches: &[Arc<PreparedSearch>]) -> Vec<Self> {
        let of = |search: &Arc<PreparedSearch>| {
            let schema = Arc::clone(&search.plan().schema.name);
            let why = |(request, error): (usize, &millrace_grouping::Error)| UngroupedSchema {
                schema: Arc::clone(&schema),
                request,
                reason: error.to_string(),
            };
            search.ungrouped().map(why).collect::<Vec<_>>()
        };
        searches.iter().flat_map(of).collect()
    }
}

/// Reasons for which selected fields are in no hit, for fields that are in none of any schema.
fn unshown(query: &Query, searches: &[Arc<PreparedSearch>]) -> Vec<UnshownField> {
    let schemas = || searches.iter().map(|search| &search.plan().schema);
    let why = |name: &String| {
        if schemas().any(|schema| schema.fields.contains_key(name.as_str())) {
            return format!(
                "the selected field '{name}' is in no document summary: add 'summary' to its indexing"
            );
        }
        if let Some((whole, _)) = name.split_once('.')
            && schemas().any(|schema| schema.fields.contains_key(whole))
        {
            return format!("'{name}' is a part of a field: select '{whole}', which is shown as a whole");
        }
        let shown =
            schemas().flat_map(|schema| schema.summaries.values()).flat_map(|summary| &summary.fields);
        let hint = did_you_mean(name, shown.map(|field| &*field.name));
        format!("no field '{name}' to select{hint}")
    };
    let is_shown = |name: &&String| searches.iter().any(|search| search.shows(name));
    let hidden = query.presentation.fields.iter().filter(|name| !is_shown(name));
    hidden.map(|name| UnshownField { field: name.clone(), reason: why(name) }).collect()
}

/// A query in progress: the common input of its steps.
#[derive(Clone)]
pub struct QueryRequest {
    /// Node that runs it.
    pub node: Arc<Node>,
    /// Application that it is planned for.
    pub deployment: Arc<CompiledApplication>,
    /// The query.
    pub query: Arc<Query>,
    /// Trace of the rules that have rewritten it.
    pub rule_trace: Arc<[String]>,
    /// Tensors of its texts.
    pub embeddings: Arc<QueryEmbeddings>,
    /// Permission to read the documents.
    pub permit: Permit,
    /// Arrival of the request.
    pub started: Instant,
    /// Becomes true when the client no longer waits for the answer.
    pub gone: Arc<AtomicBool>,
    /// Memory that the caller has reserved for the query, if any; dropped last, also where the work outlives
    /// the answer.
    pub room: Option<Arc<dyn Any + Send + Sync>>,
    /// Memory that its results may take.
    pub memory: Arc<QueryMemory>,
    /// Observer of its parts, if it is traced.
    pub observer: Option<Arc<dyn QueryObserver>>,
}

impl QueryRequest {
    /// Returns the queue in which its work waits.
    pub fn flow(&self) -> Result<WorkFlow, Error> {
        flow(&self.query)
    }
}

/// Plans and runs a query over the documents of this node.
pub fn run(request: QueryRequest) -> Result<SearchOutcome, Error> {
    let prepared = PreparedQuery::new(request)?;
    let NarrowedViews { views, used } = prepared.views(None)?;
    let outcomes = run_all(&prepared.parts(&views), &prepared.deadline)?;
    Ok(prepared.merge(outcomes, 1, used.iter().map(IndexUse::to_string).collect()))
}

/// A query with its plans, which are made once: for the gathering, for this node's own share, and for the
/// outcome.
pub struct PreparedQuery {
    /// The query.
    pub request: QueryRequest,
    /// Part of the store that it reads.
    pub scope: ViewScope,
    kinds: Vec<Arc<CompiledDocumentType>>,
    unresolved: Option<Arc<Error>>,
    lacking: Vec<LackingSchema>,
    /// One search for each kind; at least one.
    searches: Vec<Arc<PreparedSearch>>,
    planned: Duration,
    timeout: Duration,
    deadline: SearchDeadline,
}

/// Views of the documents that a query reads, one for each schema.
struct NarrowedViews {
    views: Vec<Arc<dyn View>>,
    /// Indexes in use.
    used: Vec<IndexUse>,
}

/// A node's share of a query, before its first answer.
pub struct PreparedShare {
    /// Searches of the share.
    pub session: ShareSession,
    /// Deadline of the query.
    pub deadline: SearchDeadline,
    /// Indexes in use, if a trace is requested.
    pub used: Vec<String>,
}

impl PreparedQuery {
    /// Plans a query.
    ///
    /// # Errors
    /// The query is not valid for the application.
    pub fn new(request: QueryRequest) -> Result<Self, Error> {
        let QueryRequest { deployment, query, started, gone, .. } = &request;
        let ResolvedSources { kinds, unresolved } = ResolvedSources::by(&query.sources, deployment)?;
        let mut known = companion_types(query, deployment);
        known.extend(kinds.iter().map(|requested| requested.kind));
        let (kinds, lacking) = having(kinds, query);
        let searches = kinds
            .iter()
            .map(|requested| plan(requested, &known, &request).map(Arc::new))
            .collect::<Result<Vec<Arc<PreparedSearch>>, Error>>()?;
        check_groupings(searches.iter().map(|search| search.plan()))?;
        request.node.field_uses().count(&searches);
        let scope = view_scope(&searches[0].plan().scope);
        let timeout =
            kinds.iter().filter_map(SearchedSchema::query_time_max).fold(query.timeout, Duration::min);
        let share = if query.ranking.soft_timeout { SOFT_TIMEOUT_FACTOR } else { 1.0 };
        let scan_time = timeout.mul_f64(query.ranking.soft_timeout_factor.unwrap_or(share));
        let output_time = timeout.saturating_sub(scan_time).max(OUTPUT_TIME_MIN);
        let deadline = SearchDeadline::at(*started + scan_time)
            .with_output_time(output_time)
            .or_cancelled(Arc::clone(gone))
            .pausing_with(pool::pause);
        let planned = started.elapsed();
        let kinds = kinds.iter().map(|requested| Arc::clone(requested.kind)).collect();
        let unresolved = unresolved.map(Arc::new);
        Ok(PreparedQuery { scope, kinds, unresolved, lacking, searches, planned, timeout, deadline, request })
    }

    /// Checks the parameters about indexes.
    ///
    /// # Errors
    /// A value is not valid; the request names an index that cannot answer the query.
    pub fn check_indexes(&self) -> Result<(), Error> {
        let node = &self.request.node;
        self.searches.iter().try_for_each(|search| node.check_indexes(search.plan()))
    }

    /// Queue in which its work waits.
    pub fn flow(&self) -> WorkFlow {
        WorkFlow::of_scope(&self.scope)
    }

    /// Creates the gathering that asks this number of nodes, and merges their answers.
    pub fn gathering(&self, nodes: usize) -> SearchGathering {
        SearchGathering::new(self.searches.clone(), nodes)
    }

    /// Starts it over the documents that this node has in some buckets, for the node that gathers the results
    /// of all nodes.
    ///
    /// # Errors
    /// The store cannot be read; the request names an index that is not ready.
    pub fn share(&self, buckets: &[BucketId]) -> Result<PreparedShare, Error> {
        let NarrowedViews { views, used } = self.views(Some(buckets))?;
        let session = ShareSession::new(self.searches.iter().cloned().zip(views).collect(), &self.deadline)?;
        let traced = self.request.query.tracing.level > 0;
        let used = used.iter().filter(|_| traced).map(IndexUse::to_string).collect();
        Ok(PreparedShare { session, deadline: self.deadline.clone(), used })
    }

    /// Views of the documents of each kind; of a query over all groups only the candidates that an index
    /// finds, where that helps. `within`: only documents in these buckets.
    fn views(&self, within: Option<&[BucketId]>) -> Result<NarrowedViews, Error> {
        let scope = within.map_or_else(|| self.scope.clone(), |buckets| within_buckets(&self.scope, buckets));
        self.assert_permitted(&scope);
        let mut found = NarrowedViews { views: Vec::with_capacity(self.kinds.len()), used: Vec::new() };
        for (kind, search) in self.kinds.iter().zip(&self.searches) {
            let (view, used) = self.view(kind, search, &scope, within)?;
            found.views.push(view);
            found.used.extend(used);
        }
        Ok(found)
    }

    /// The same of one kind.
    fn view(
        &self,
        kind: &CompiledDocumentType,
        search: &PreparedSearch,
        scope: &ViewScope,
        within: Option<&[BucketId]>,
    ) -> Result<(Arc<dyn View>, Option<IndexUse>), Error> {
        let node = &self.request.node;
        let plan = search.plan();
        let view = |part: &NarrowedPart| match part {
            NarrowedPart::Scope(scope) => node.store().view(&kind.schema.name, scope),
            NarrowedPart::Documents(documents, within) => {
                node.store().view_of(&kind.schema.name, documents, within.as_deref())
            }
        };
        let mut first = first_entries(plan).filter(|_| !search.drops_matches());
        loop {
            let narrowed = node.narrow(plan, within, first);
            let narrowed = match node.cluster().view()? {
                Some(cluster) => narrowed.map_err(|error| with_node(error, cluster))?,
                None => narrowed?,
            };
            let Some(narrowed) = narrowed.filter(|_| node.paths().is_fast()) else {
                return Ok((view(&NarrowedPart::Scope(scope.clone()))?, None));
            };
            let NarrowedScope { parts, mut index_use, ordered, entries } = narrowed;
            let application = &self.request.deployment;
            let covered = entries
                .and_then(|entries| entries.view(search, application, &self.scope, node.store(), within));
            if covered.is_some() {
                index_use.reading = CandidateReading::FromEntries;
            }
            let others = parts.into_iter().skip(usize::from(covered.is_some()));
            let others = others.map(|part| Ok(view(&common(part, &self.scope))?));
            let views = covered.map(Ok).into_iter().chain(others).collect::<Result<Vec<_>, Error>>()?;
            if let (Some(ordered), Some(first_view)) = (&ordered, views.first())
                && let Some(matched) = search.matched(first_view.as_ref(), &self.deadline)?
                && matched.saturating_sub(ordered.changed(first_view.as_ref())?)
                    < plan.offset.saturating_add(plan.hits) as u64
            {
                first = Some(ordered.more()?);
                continue;
            }
            node.indexes().count(&index_use);
            return Ok((JoinedView::of(views), Some(index_use)));
        }
    }

    fn assert_permitted(&self, scope: &ViewScope) {
        // The caller was checked when the request was parsed; no later step may widen its scope.
        assert!(
            self.request.permit.covers(wanted_groups(scope)),
            "a query reads documents that its permit does not cover"
        );
    }

    fn parts<'p>(&'p self, views: &'p [Arc<dyn View>]) -> Vec<(&'p PreparedSearch, &'p dyn View)> {
        self.searches.iter().zip(views).map(|(search, view)| (&**search, &**view as &dyn View)).collect()
    }

    /// Merges the outcomes of all kinds to one result of this number of nodes. `indexes`: those in use, for
    /// the trace.
    pub fn merge(&self, outcomes: Vec<PassOutcome>, nodes: u32, indexes: Vec<String>) -> SearchOutcome {
        let QueryRequest { deployment, query, rule_trace, .. } = &self.request;
        let MergedOutcome { mut result, page, traces } = MergedOutcome::of(outcomes, self.searches[0].plan());
        result.coverage.nodes = nodes;
        let named = self.kinds.iter().map(|kind| Arc::clone(&kind.schema.name));
        let notices = SearchNotices {
            timed_out: result.coverage.timed_out.then_some(self.timeout),
            unresolved: self.unresolved.clone(),
            lacking: self.lacking.clone(),
            ungrouped: UngroupedSchema::all(&self.searches),
            unshown: unshown(query, &self.searches),
        };
        SearchOutcome {
            hits: page,
            result,
            traces: named.zip(traces).collect(),
            planned: self.planned,
            timeout: self.timeout,
            plans: (query.tracing.level > 0)
                .then(|| PlanTrace { indexes, ..PlanTrace::new(deployment, query, &self.searches) }),
            rule_trace: Arc::clone(rule_trace),
            notices,
            sources: Vec::new(),
            grouped: false,
            memory: Some(Arc::clone(&self.request.memory)),
        }
    }
}

/// Data of plans for traces.
pub struct PlanTrace {
    /// The query profile in use.
    pub profile: Option<String>,
    /// Short form of the query.
    pub query: String,
    /// Plan for each schema.
    pub plans: Vec<String>,
    /// Indexes in use.
    pub indexes: Vec<String>,
}

impl PlanTrace {
    fn new(deployment: &CompiledApplication, query: &Query, searches: &[Arc<PreparedSearch>]) -> Self {
        let tokens = &deployment.application.container.special_tokens;
        let item = searches.first().map(|search| parsed(query, &[&search.plan().schema], tokens));
        let named = query.parameters.get("queryProfile").filter(|name| !name.is_empty()).cloned();
        PlanTrace {
            profile: named.or_else(|| {
                deployment.application.query_profiles.has_default().then(|| "default".to_owned())
            }),
            query: BriefItem(item.as_ref().unwrap_or(&query.root)).to_string(),
            plans: searches.iter().map(|search| search.plan().to_string()).collect(),
            indexes: Vec::new(),
        }
    }
}

/// Texts that the query needs embedded, over all schemas that it searches.
pub fn embeddings(deployment: &CompiledApplication, query: &Query) -> Result<Vec<EmbeddedInput>, Error> {
    let mut wanted = Vec::new();
    for requested in ResolvedSources::by(&query.sources, deployment)?.kinds {
        wanted.extend(millrace_plan::embeddings(query, &requested.kind.schema)?);
    }
    Ok(wanted)
}

/// Plans the query for one schema; `all` are the schemas of the request.
fn plan(
    requested: &SearchedSchema<'_>,
    all: &[&Arc<CompiledDocumentType>],
    QueryRequest { node, deployment, query, embeddings, memory, .. }: &QueryRequest,
) -> Result<PreparedSearch, Error> {
    let kind = requested.kind;
    let elsewhere = |field: &str| {
        let mut others = all.iter().filter(|other| other.schema.name != kind.schema.name);
        others.find_map(|other| term_end(&other.schema, field))
    };
    let context = PlanContext {
        clock: UNIX_EPOCH + millrace_env::unix_time(),
        known_elsewhere: &elsewhere,
        embedded: &|call, target| embeddings.get(call, target),
        significance: &deployment.application.significance,
        special_tokens: &deployment.application.container.special_tokens,
        regexes_max: node.settings().query_regexes_max,
    };
    let mut plan = Plan::new(Arc::clone(query), &kind.schema, &context)?;
    plan.memory = Arc::clone(memory);
    if let StreamedScope::All { selection: Some(selection) } = &plan.scope {
        // It may name documents of any type, independent of the query's types.
        deployment.check_selection(selection)?;
    }
    let profile = kind.profile(&plan.profile)?;
    let cluster = requested.cluster().map_or_else(|| Arc::from(""), |cluster| Arc::clone(&cluster.id));
    let search = PreparedSearch::new(Arc::new(plan), Arc::clone(profile), cluster);
    let search = search.within(requested.within());
    Ok(match requested.cluster() {
        Some(cluster) => search.with_snippets(&cluster.snippets),
        None => search,
    })
}

/// Returns the queue in which the work of a query waits: that of the groups whose documents it reads.
///
/// # Errors
/// Those of [`scope`].
pub fn flow(query: &Query) -> Result<WorkFlow, Error> {
    Ok(WorkFlow::of_scope(&scope(query)?))
}

/// Groups whose documents a scope has, for a permit.
pub fn wanted_groups(scope: &ViewScope) -> WantedGroups<'_> {
    match scope {
        ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => WantedGroups::These(groups),
        ViewScope::Buckets(_) | ViewScope::All => WantedGroups::All,
    }
}

/// Fills the only group of a caller into a query that names none, or into its selection, if it has nothing
/// else. A selection that asks for documents of other groups stays: it is refused.
pub fn fill_in_group(caller: &RequestCaller, query: &mut Query) {
    let is_selection = query.streaming.selection.is_some()
        && query.streaming.groups.is_empty()
        && query.streaming.user.is_none();
    if let Some(group) = caller.only_group().filter(|_| is_selection) {
        if let Some(implied) = &caller.implied_group {
            imply_group(implied, query);
        }
        let selection =
            query.streaming.selection.as_deref().and_then(|text| DocumentSelection::parse(text).ok());
        if let Some(restricted) = selection.and_then(|selection| selection.text_of_group(group)) {
            query.replace_selection(restricted);
        }
        return;
    }
    let Some(group) = caller.only_group().filter(|_| query.streaming == StreamingScope::default()) else {
        return;
    };
    let (name, value) = match group {
        DocumentGroup::Name(name) => {
            query.streaming.groups = vec![name.clone()];
            ("streaming.groupname", name.clone())
        }
        DocumentGroup::Number(number) => {
            query.streaming.user = Some(*number);
            ("streaming.userid", number.to_string())
        }
        DocumentGroup::None => return,
    };
    query.parameters.insert(name.to_owned(), value);
}

/// Fills a group that is implied into the ids of a query's selection that have none.
pub fn imply_group(group: &DocumentGroup, query: &mut Query) {
    let Some(text) = &query.streaming.selection else { return };
    // The scope reports one that cannot be parsed.
    let Ok(selection) = DocumentSelection::parse(text) else { return };
    let within = selection.text_within(group);
    if within != *text {
        query.replace_selection(within);
    }
}

/// Permits a caller to read the documents of these queries.
///
/// # Errors
/// Those of [`scope`]; the caller may not read a group.
pub fn permit<'q>(caller: &RequestCaller, queries: impl Iterator<Item = &'q Query>) -> Result<Permit, Error> {
    let mut permit = None;
    for query in queries {
        permit = Some(caller.permit(wanted_groups(&scope(query)?))?);
    }
    // Without a query nothing is read.
    permit.map_or_else(|| Ok(caller.permit(WantedGroups::These(&[]))?), Ok)
}

/// Part of the store that a query reads: only groups for which the selection can be true.
///
/// # Errors
/// The query gives no scope, or several, or an invalid selection.
pub fn scope(query: &Query) -> Result<ViewScope, Error> {
    Ok(view_scope(&StreamedScope::of(&query.streaming)?))
}

/// The documents of a scope that are in some buckets.
fn within_buckets(scope: &ViewScope, buckets: &[BucketId]) -> ViewScope {
    match scope {
        ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => {
            let is_here = |group: &&DocumentGroup| buckets.iter().any(|bucket| bucket.intersects(group));
            ViewScope::GroupsIn(groups.iter().filter(is_here).cloned().collect(), buckets.to_vec())
        }
        ViewScope::Buckets(_) | ViewScope::All => ViewScope::Buckets(buckets.to_vec()),
    }
}

/// The documents of a part of a narrowed scope that are in the scope of the query.
fn common(part: NarrowedPart, scope: &ViewScope) -> NarrowedPart {
    let (ViewScope::Groups(wanted) | ViewScope::GroupsIn(wanted, _)) = scope else { return part };
    let of_both = |mut groups: Vec<DocumentGroup>| {
        groups.retain(|group| wanted.contains(group));
        groups
    };
    match part {
        NarrowedPart::Documents(mut documents, within) => {
            documents.retain(|id: &DocumentId| wanted.contains(id.group()));
            NarrowedPart::Documents(documents, within)
        }
        NarrowedPart::Scope(narrowed) => NarrowedPart::Scope(match narrowed {
            ViewScope::Groups(groups) => ViewScope::Groups(of_both(groups)),
            ViewScope::GroupsIn(groups, buckets) => ViewScope::GroupsIn(of_both(groups), buckets),
            ViewScope::Buckets(buckets) => within_buckets(scope, &buckets),
            ViewScope::All => scope.clone(),
        }),
    }
}

/// Adds the node to the error of an index that is not ready there.
fn with_node(error: Error, cluster: &dyn ClusterView) -> Error {
    let node = cluster.own().key;
    match error {
        Error::IndexNotReady(reason) | Error::Conflict(reason) => {
            Error::IndexNotReady(format!("on node {node} {reason}"))
        }
        error => error,
    }
}

fn view_scope(scope: &StreamedScope) -> ViewScope {
    match scope {
        StreamedScope::Groups(groups) => ViewScope::Groups(groups.clone()),
        StreamedScope::All { selection: None } => ViewScope::All,
        StreamedScope::All { selection: Some(selection) } => match selection.groups() {
            Some(groups) => ViewScope::Groups(groups.into_iter().collect()),
            None => ViewScope::All,
        },
    }
}
