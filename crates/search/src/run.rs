use std::sync::Arc;

use millrace_column::{Column, ColumnKey, View};
use millrace_document::DocumentId;
use millrace_grouping::{Execution, Grouping, HitRef, Request, Settings};
use millrace_matching::{Matches, match_plan};
use millrace_plan::{Plan, Scope};
use millrace_ranking::{Features, FirstPhase, Profile, RankedHit, Shown};
use millrace_result::{Coverage, Feature, FieldValue, Hit, PartialResult};
use millrace_schema::Snippets;
use millrace_selection::Selection;
use millrace_summary::{Filler, Style};

use crate::collapse::{CollapseKeys, Collapsing, Fields};
use crate::narrowed::is_live;
use crate::trace::Watch;
use crate::{Deadline, Error, Narrowed, SortedHit, Sorting, Trace};

/// A plan with everything ready to run it.
pub struct Search {
    plan: Arc<Plan>,
    profile: Arc<Profile>,
    selection: Option<Selection>,
    /// A document must match one of these to be seen; all are where there are none.
    within: Vec<Arc<Selection>>,
    style: Style,
    sorting: Option<Sorting>,
    /// For each request, in order: what it is over this schema, or why it cannot be.
    groupings: Vec<Result<Arc<Grouping>, millrace_grouping::Error>>,
    cluster: Arc<str>,
}

/// What a search found, and where its time went.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The hits and groups.
    pub result: PartialResult,
    /// The times.
    pub trace: Trace,
    /// Where the request collapses hits: what each hit is compared by.
    pub collapse_keys: Vec<CollapseKeys>,
}

/// Runs searches of one query, each over its own documents: an outcome for each, in order. Groups are made of all of them together, and
/// are in the first outcome.
///
/// # Errors
/// As [`Search::run`].
pub fn run_all(searches: &[(&Search, &dyn View)], deadline: &Deadline) -> Result<Vec<Outcome>, Error> {
    let mut passes = passes(searches, deadline)?;
    let requests = searches.iter().map(|(search, _)| search.groupings.len()).max().unwrap_or(0);
    let mut watch = Watch::start();
    let mut groupings = Vec::with_capacity(requests);
    for request in 0..requests {
        let mut merged: Option<Execution> = None;
        for execution in passes.iter_mut().filter_map(|pass| pass.executions[request].take()) {
            match &mut merged {
                None => merged = Some(execution),
                Some(merged) => merged.merge(execution),
            }
        }
        let fill =
            &mut |summary: Option<&str>, references: &[HitRef]| fill(&passes, summary, references, deadline);
        groupings.extend(merged.map(|merged| merged.finish(request as u32, fill)).transpose()?);
    }
    let mut outcomes: Vec<Outcome> = passes.into_iter().map(|pass| pass.outcome).collect();
    if let Some(first) = outcomes.first_mut() {
        first.result.groupings = groupings;
        first.trace.group += watch.lap();
    }
    Ok(outcomes)
}

/// Runs each search over its documents.
pub(crate) fn passes<'v>(
    searches: &[(&'v Search, &'v dyn View)],
    deadline: &Deadline,
) -> Result<Vec<Pass<'v>>, Error> {
    let requests = searches.iter().map(|(search, _)| search.groupings.len()).max().unwrap_or(0);
    for request in 0..requests {
        let mut checked = searches.iter().map(|(search, _)| &search.groupings[request]);
        if let Some(Err(error)) = checked.clone().next()
            && checked.all(Result::is_err)
        {
            return Err(error.clone().into());
        }
    }
    (0..).zip(searches).map(|(part, (search, view))| Pass::run(search, *view, part, deadline)).collect()
}

/// The hits of groups, each from the pass that found it.
pub(crate) fn fill(
    passes: &[Pass<'_>],
    summary: Option<&str>,
    references: &[HitRef],
    deadline: &Deadline,
) -> Result<Vec<Hit>, Error> {
    let mut filled: Vec<Option<Hit>> = vec![None; references.len()];
    for (part, pass) in (0u32..).zip(passes) {
        let own: Vec<usize> = (0..references.len()).filter(|at| references[*at].part == part).collect();
        let hits: Vec<SortedHit> = own
            .iter()
            .map(|at| &references[*at])
            .map(|hit| SortedHit {
                keys: Vec::new(),
                score: hit.score,
                chunk: hit.chunk,
                document: hit.document,
            })
            .collect();
        let hits = pass.search.fill(pass.view(), &pass.matches, summary, &hits, deadline)?;
        own.into_iter().zip(hits).for_each(|(at, hit)| filled[at] = Some(hit));
    }
    // Every reference is of some pass.
    Ok(filled.into_iter().flatten().collect())
}

/// A search that has run over its documents; its groups are collected, but not yet shown.
pub(crate) struct Pass<'v> {
    search: &'v Search,
    view: &'v dyn View,
    narrowed: Option<Narrowed<'v>>,
    matches: Matches,
    /// For each grouping request; none where this schema has no part in it.
    pub(crate) executions: Vec<Option<Execution>>,
    pub(crate) outcome: Outcome,
}

impl<'v> Pass<'v> {
    fn run(search: &'v Search, view: &'v dyn View, part: u32, deadline: &Deadline) -> Result<Self, Error> {
        let mut trace = Trace::default();
        let mut watch = Watch::start();
        let target = live_documents(view);
        let plan = &*search.plan;

        let within: Vec<&Selection> = search.within.iter().map(|selection| &**selection).collect();
        let seen = [within, search.selection.iter().collect()];
        let seen: Vec<Vec<&Selection>> = seen.into_iter().filter(|any| !any.is_empty()).collect();
        let narrow = || Narrowed::new(view, &plan.schema, &seen, plan.now, deadline);
        if plan.hits > 0 && view.chunks().len() <= plan.hits.min(ANNOUNCED_CHUNKS) {
            view.will_read(&ColumnKey::id(), 0..view.chunks().len());
        }
        let narrowed = (!seen.is_empty()).then(narrow).transpose()?;
        trace.select = watch.lap();

        let seen: &dyn View = narrowed.as_ref().map_or(view, |narrowed| narrowed);
        let matches = match_plan(plan, seen, search.profile.demands(plan), &|| deadline.passed())?;
        trace.matching = watch.lap();

        let first = search.first_phase(seen, &matches, deadline)?;
        let (ordered, collapse_keys) = search.ordered(seen, &matches, first.as_ref(), deadline)?;
        trace.order = watch.lap();

        let (executions, all_grouped) = search.group(seen, &matches, first.as_ref(), part, deadline)?;
        trace.group = watch.lap();

        let hits = search.fill(seen, &matches, None, &ordered.hits, deadline)?;
        trace.summary = watch.lap();

        trace.documents = matches.documents;
        trace.matched = ordered.total;
        let timed_out = matches.timed_out || ordered.timed_out || !all_grouped;
        let coverage = match &narrowed {
            // What the selection leaves out has been looked at.
            Some(narrowed) if narrowed.is_complete() && !timed_out => {
                Coverage { documents: target, target, timed_out, nodes: 1 }
            }
            Some(_) => Coverage { documents: matches.documents, target, timed_out: true, nodes: 1 },
            None => Coverage { documents: matches.documents, target, timed_out, nodes: 1 },
        };
        let result = PartialResult { total_count: ordered.total, hits, groupings: Vec::new(), coverage };
        Ok(Pass {
            search,
            view,
            narrowed,
            matches,
            executions,
            outcome: Outcome { result, trace, collapse_keys },
        })
    }

    fn view(&self) -> &dyn View {
        self.narrowed.as_ref().map_or(self.view, |narrowed| narrowed)
    }
}

impl Search {
    /// Makes a plan ready. `profile` is its rank profile, compiled; `cluster` is what hits name as their source.
    ///
    /// # Errors
    /// What is wrong with the selection or the order, and what grouping requests are no requests at all. One that asks this schema
    /// for what it has not is an error of [`run_all`], where no other schema has it either.
    pub fn new(plan: Arc<Plan>, profile: Arc<Profile>, cluster: Arc<str>) -> Result<Self, Error> {
        let selection = match &plan.scope {
            Scope::All { selection: Some(text) } => {
                let selection = Selection::parse(text)?;
                let document_type = &*plan.schema.document_type;
                selection.check(|name| (name == &**document_type.name()).then_some(document_type))?;
                Some(selection)
            }
            Scope::All { selection: None } | Scope::Groups(_) => None,
        };
        let settings = Settings::new(&plan.query.grouping_defaults, plan.now)?;
        let mut groupings = Vec::new();
        for text in &plan.query.grouping {
            for request in Request::parse(text)? {
                groupings.push(request.check(&plan.schema, &settings).map(Arc::new));
            }
        }
        let sorting = (!plan.sorting.is_empty()).then(|| Sorting::new(&plan)).transpose()?;
        if profile.has_global_phase() && sorting.is_some() {
            return Err(Error::SortedGlobalPhase { profile: plan.profile.clone() });
        }
        Ok(Search {
            plan,
            profile,
            selection,
            within: Vec::new(),
            style: Style::default(),
            sorting,
            groupings,
            cluster,
        })
    }

    /// Shows dynamic summaries as an application says.
    pub fn with_snippets(mut self, snippets: &Snippets) -> Self {
        self.style = Style::of(snippets);
        self
    }

    /// Sees only documents that match one of these selections; all where there are none.
    #[must_use]
    pub fn within(mut self, selections: Vec<Arc<Selection>>) -> Self {
        self.within = selections;
        self
    }

    /// A grouping request over this schema; none where this schema has no part in it.
    pub(crate) fn grouping(&self, request: usize) -> Option<&Arc<Grouping>> {
        self.groupings.get(request)?.as_ref().ok()
    }

    /// How many grouping requests there are.
    pub(crate) fn grouping_requests(&self) -> usize {
        self.groupings.len()
    }

    /// The grouping requests, by number, that its schema has no part in, and why.
    pub fn ungrouped(&self) -> impl Iterator<Item = (usize, &millrace_grouping::Error)> {
        self.groupings
            .iter()
            .enumerate()
            .filter_map(|(number, request)| Some((number, request.as_ref().err()?)))
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs it over the documents of a view. Once the deadline has passed, what has been found so far is the result, and its
    /// coverage says so.
    ///
    /// # Errors
    /// A column cannot be read, or a grouping request cannot be done.
    pub fn run(&self, view: &dyn View, deadline: &Deadline) -> Result<Outcome, Error> {
        let mut outcomes = run_all(&[(self, view)], deadline)?;
        Ok(outcomes.pop().unwrap_or_default())
    }

    /// The first phase of all that matched, where its scores are needed more than once, or elsewhere than in ranking.
    fn first_phase(
        &self,
        view: &dyn View,
        matches: &Matches,
        deadline: &Deadline,
    ) -> Result<Option<FirstPhase>, Error> {
        let sorted_by_score = self.sorting.as_ref().is_some_and(Sorting::needs_scores);
        let collapsed = self.plan.query.collapse.is_some() && self.sorting.is_none();
        if !sorted_by_score && !collapsed && self.groupings.is_empty() {
            return Ok(None);
        }
        let stop = &|| deadline.passed();
        Ok(Some(self.profile.first_phase(&self.plan, view, matches, stop)?))
    }

    /// The hits to return, in order, without those that the request collapses; and what the others are compared by.
    fn ordered(
        &self,
        view: &dyn View,
        matches: &Matches,
        first: Option<&FirstPhase>,
        deadline: &Deadline,
    ) -> Result<(Ordered, Vec<CollapseKeys>), Error> {
        let plan = &*self.plan;
        let wanted = if plan.hits == 0 { 0 } else { plan.offset.saturating_add(plan.hits) };
        let Some(collapse) = plan.query.collapse.as_ref().filter(|_| wanted > 0) else {
            return Ok((self.order(view, matches, first, wanted, deadline)?, Vec::new()));
        };
        let fields = Fields::of(plan, collapse);
        let mut looked_at = wanted.saturating_mul(2);
        loop {
            let mut ordered = self.order(view, matches, first, looked_at, deadline)?;
            let are_all = ordered.hits.len() < looked_at;
            let mut collapsing = Collapsing::new(collapse);
            let keys = fields.keys(view, &ordered.hits)?;
            let hits = std::mem::take(&mut ordered.hits);
            let kept = hits.into_iter().zip(keys).filter(|(_, keys)| collapsing.keeps(keys)).take(wanted);
            let (hits, keys): (Vec<SortedHit>, Vec<CollapseKeys>) = kept.unzip();
            if are_all || hits.len() == wanted {
                ordered.hits = hits;
                return Ok((ordered, keys));
            }
            looked_at = looked_at.saturating_mul(4);
        }
    }

    /// The first hits, in order.
    fn order(
        &self,
        view: &dyn View,
        matches: &Matches,
        first: Option<&FirstPhase>,
        wanted: usize,
        deadline: &Deadline,
    ) -> Result<Ordered, Error> {
        let Some(sorting) = &self.sorting else {
            let ranked =
                self.profile.rank(&self.plan, view, matches, first, wanted, &|| deadline.passed())?;
            let hit = |hit: RankedHit| SortedHit {
                keys: Vec::new(),
                score: hit.score,
                chunk: hit.chunk,
                document: hit.document,
            };
            let hits = ranked.hits.into_iter().map(hit).collect();
            return Ok(Ordered { hits, total: ranked.total, timed_out: ranked.timed_out });
        };
        let scores = first.filter(|_| sorting.needs_scores()).map_or(&[][..], |first| &first.scores);
        let total = matches.chunks.iter().map(|chunk| chunk.documents.len() as u64).sum();
        let (hits, complete) = sorting.first(view, matches, scores, wanted, &|| deadline.overdue())?;
        Ok(Ordered { hits, total, timed_out: !complete })
    }

    /// Collects the groups of each request; and whether there was time to put all that matched into them.
    fn group(
        &self,
        view: &dyn View,
        matches: &Matches,
        first: Option<&FirstPhase>,
        part: u32,
        deadline: &Deadline,
    ) -> Result<(Vec<Option<Execution>>, bool), Error> {
        if self.groupings.is_empty() {
            return Ok((Vec::new(), true));
        }
        let mut complete = first.is_none_or(|first| !first.timed_out);
        let scores = first.map_or(&[][..], |first| &first.scores);
        let mut of_one = |grouping: &Arc<Grouping>| -> Result<Execution, Error> {
            let mut execution = Execution::new(Arc::clone(grouping), part);
            if grouping.all_documents() {
                for (number, chunk) in view.chunks().iter().enumerate() {
                    if deadline.overdue() {
                        complete = false;
                        break;
                    }
                    let live: Vec<u16> = (0..chunk.documents)
                        .filter(|place| is_live(chunk, *place))
                        .map(|place| place as u16)
                        .collect();
                    execution.collect(view, number, &live, &[])?;
                }
            } else {
                for (chunk, scores) in matches.chunks.iter().zip(scores) {
                    if deadline.overdue() {
                        complete = false;
                        break;
                    }
                    execution.collect(view, chunk.chunk, &chunk.documents, scores)?;
                }
            }
            execution.complete(view)?;
            Ok(execution)
        };
        let of_known =
            |grouping: &Result<Arc<Grouping>, _>| grouping.as_ref().ok().map(&mut of_one).transpose();
        let executions = self.groupings.iter().map(of_known).collect::<Result<_, _>>()?;
        Ok((executions, complete))
    }

    /// Hits with the fields of a document summary (the plan's own where none is named), and the features that the profile shows.
    fn fill(
        &self,
        view: &dyn View,
        matches: &Matches,
        summary: Option<&str>,
        hits: &[SortedHit],
        deadline: &Deadline,
    ) -> Result<Vec<Hit>, Error> {
        if hits.is_empty() {
            return Ok(Vec::new());
        }
        let filler = Filler::new(&self.plan, summary, &self.style)?;
        let places: Vec<(usize, u16)> = hits.iter().map(|hit| (hit.chunk, hit.document)).collect();
        let ranked: Vec<RankedHit> = hits
            .iter()
            .map(|hit| RankedHit { chunk: hit.chunk, document: hit.document, score: hit.score })
            .collect();
        let shown = self.features(view, matches, summary, &ranked, deadline)?;
        let ids = ids(view, &places)?;
        let filled = filler.fill(view, &places)?.into_iter().zip(shown).zip(ids).zip(hits);
        let hits = filled.map(|(((mut fields, shown), id), hit)| {
            if let Some((_, features)) = shown.iter().find(|(name, _)| *name == SUMMARY_FEATURES) {
                filler.select_elements(&mut fields, |name| {
                    features.iter().find_map(|(feature, value)| match value {
                        Feature::Tensor(tensor) if **feature == *name => Some(tensor),
                        _ => None,
                    })
                });
            }
            let shown = shown.into_iter().filter(|(_, features)| !features.is_empty());
            fields.extend(shown.map(|(name, features)| (name.into(), FieldValue::Features(features))));
            Hit {
                document_type: id.document_type().into(),
                id,
                relevance: hit.score,
                sort_values: hit.keys.clone(),
                fields,
                source: Arc::clone(&self.cluster),
            }
        });
        Ok(hits.collect())
    }

    /// For each hit the kinds of features that are shown with it, under their field's name.
    fn features(
        &self,
        view: &dyn View,
        matches: &Matches,
        summary: Option<&str>,
        hits: &[RankedHit],
        deadline: &Deadline,
    ) -> Result<Vec<Vec<UnderName>>, Error> {
        let stop = || deadline.overdue();
        let plan = &*self.plan;
        let summary = summary.and_then(|name| plan.schema.summaries.get(name)).unwrap_or(&plan.summary);
        let mut shown: Vec<Vec<UnderName>> = vec![Vec::new(); hits.len()];
        let mut show = |name, features: Vec<Features>| {
            shown.iter_mut().zip(features).for_each(|(shown, features)| shown.push((name, features)));
        };
        show(MATCH_FEATURES, self.profile.shown(Shown::Match, plan, view, matches, hits, &stop)?);
        if !summary.omit_summary_features {
            show(SUMMARY_FEATURES, self.profile.shown(Shown::Summary, plan, view, matches, hits, &stop)?);
        }
        if plan.query.ranking.list_features {
            show(RANK_FEATURES, self.profile.shown(Shown::All, plan, view, matches, hits, &stop)?);
        }
        Ok(shown)
    }
}

/// Of a group with no more chunks the hits' ids are fetched from the disk while documents are matched: they will be from most of its chunks.
const ANNOUNCED_CHUNKS: usize = 4;

const MATCH_FEATURES: &str = "matchfeatures";
const SUMMARY_FEATURES: &str = "summaryfeatures";
const RANK_FEATURES: &str = "rankfeatures";

type UnderName = (&'static str, Features);

/// The hits to return, and how many there are in all.
struct Ordered {
    hits: Vec<SortedHit>,
    total: u64,
    timed_out: bool,
}

fn live_documents(view: &dyn View) -> u64 {
    let live =
        |chunk: &millrace_column::Chunk| (0..chunk.documents).filter(|place| is_live(chunk, *place)).count();
    let count = |chunk: &millrace_column::Chunk| match &chunk.live {
        None => chunk.documents,
        Some(_) => live(chunk),
    };
    view.chunks().iter().map(|chunk| count(chunk) as u64).sum()
}

/// The ids of documents, in order.
fn ids(view: &dyn View, places: &[(usize, u16)]) -> Result<Vec<DocumentId>, Error> {
    let mut columns: std::collections::BTreeMap<usize, Option<Column>> = std::collections::BTreeMap::new();
    let mut ids = Vec::with_capacity(places.len());
    for (chunk, document) in places {
        if !columns.contains_key(chunk) {
            let column = view.columns(&ColumnKey::id(), *chunk..*chunk + 1)?.into_iter().next().flatten();
            columns.insert(*chunk, column);
        }
        let id = match &columns[chunk] {
            Some(Column::Bytes(column)) => column.get(usize::from(*document)),
            _ => None,
        };
        let id = id.and_then(|id| DocumentId::parse(std::str::from_utf8(id).ok()?).ok());
        ids.push(id.ok_or(Error::Id { chunk: *chunk, document: *document })?);
    }
    Ok(ids)
}
