use std::ops::Deref;

use millrace_column::{ColumnKey, View};
use millrace_grouping::{GroupingExecution, HitRef};
use millrace_matching::{MatchedDocuments, match_plan};
use millrace_ranking::{GlobalHitValues, RankedDocuments};
use millrace_result::{PartialResult, ResultHit, SearchCoverage};
use millrace_selection::DocumentSelection;

use crate::collapse::CollapseKeys;
use crate::deadline::SearchStep;
use crate::narrowed::is_live;
use crate::trace::StepStopwatch;
use crate::{Error, PreparedSearch, SearchDeadline, SearchTrace, SelectedView, SortedHit};

/// Maximum number of chunks of a group for which the ids of hits are read ahead while documents are matched:
/// hits will be in most of its chunks.
const ANNOUNCED_CHUNKS: usize = 4;

/// Result of a search, with its timing.
#[derive(Debug, Clone, Default)]
pub struct PassOutcome {
    /// Hits and groups.
    pub result: PartialResult,
    /// Timing.
    pub trace: SearchTrace,
    /// Keys of each hit, if the request collapses hits.
    pub collapse_keys: Vec<CollapseKeys>,
}

/// Runs searches of one query, each over its own documents: an outcome for each, in order. Groups are built
/// from all of them together, and are in the first outcome.
///
/// # Errors
/// Those of [`PreparedSearch::run`].
pub fn run_all(
    searches: &[(&PreparedSearch, &dyn View)],
    deadline: &SearchDeadline,
) -> Result<Vec<PassOutcome>, Error> {
    assert_grouped(searches.iter().map(|(search, _)| *search));
    let mut passes = Vec::with_capacity(searches.len());
    let (mut outcomes, mut executions) = (Vec::new(), Vec::new());
    for (part, (search, view)) in (0..).zip(searches) {
        let mut pass = SearchPass::new(*search, *view, deadline)?;
        let mut outcome = pass.found(part, deadline)?;
        executions.push(std::mem::take(&mut outcome.executions));
        outcomes.push(outcome.outcome);
        passes.push(pass);
    }
    let requests = searches.iter().map(|(search, _)| search.grouping_requests()).max().unwrap_or(0);
    let mut watch = StepStopwatch::start();
    let mut groupings = Vec::with_capacity(requests);
    for request in 0..requests {
        let mut merged: Option<GroupingExecution> = None;
        for execution in executions.iter_mut().filter_map(|of_pass| of_pass[request].take()) {
            match &mut merged {
                None => merged = Some(execution),
                Some(merged) => merged.merge(execution),
            }
        }
        let fill =
            &mut |summary: Option<&str>, references: &[HitRef]| fill(&passes, summary, references, deadline);
        groupings.extend(merged.map(|merged| merged.finish(request as u32, fill)).transpose()?);
    }
    if let Some(first) = outcomes.first_mut() {
        first.result.groupings = groupings;
        first.trace.group += watch.lap();
    }
    Ok(outcomes)
}

/// Asserts that each grouping request suits some schema: planning has checked it.
pub(crate) fn assert_grouped<'s>(searches: impl Iterator<Item = &'s PreparedSearch> + Clone) {
    let checked = millrace_plan::check_groupings(searches.map(PreparedSearch::plan));
    assert!(checked.is_ok(), "a grouping request that suits no schema has passed planning: {checked:?}");
}

/// Fills the hits of groups, each by the pass that found it.
pub(crate) fn fill<S: Deref<Target = PreparedSearch>, V: View + Clone>(
    passes: &[SearchPass<S, V>],
    summary: Option<&str>,
    references: &[HitRef],
    deadline: &SearchDeadline,
) -> Result<Vec<ResultHit>, Error> {
    let mut filled: Vec<Option<ResultHit>> = vec![None; references.len()];
    for (part, pass) in (0u32..).zip(passes) {
        let own: Vec<usize> = (0..references.len()).filter(|at| references[*at].part == part).collect();
        let hit = |at: &usize| {
            let HitRef { chunk, document, score, .. } = references[*at];
            SortedHit { keys: Vec::new(), score, chunk, document }
        };
        let hits: Vec<SortedHit> = own.iter().map(hit).collect();
        let hits = pass.fill(summary, &hits, &GlobalHitValues::default(), deadline)?;
        own.into_iter().zip(hits).for_each(|(at, hit)| filled[at] = Some(hit));
    }
    // Every reference belongs to some pass.
    Ok(filled.into_iter().flatten().collect())
}

/// A search, and the documents of a view that it matches.
pub(crate) struct SearchPass<S, V> {
    pub search: S,
    view: V,
    narrowed: Option<SelectedView<V>>,
    pub matches: MatchedDocuments,
    trace: SearchTrace,
}

/// Result of a pass, with its groups as they were collected.
pub(crate) struct PassResult {
    /// One for each grouping request; `None` if this schema has no part in it.
    pub executions: Vec<Option<GroupingExecution>>,
    pub outcome: PassOutcome,
    /// Best hits of the first phase, if later phases rank the hits together with those of others; the outcome
    /// then has none.
    pub best: Option<BestOfPass>,
}

/// Best hits of one node by the first phase.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct BestOfPass {
    /// Chunk, document and score.
    pub hits: Vec<(usize, u16, f64)>,
    /// Highest score of all matches.
    pub max: Option<f64>,
}

impl<S: Deref<Target = PreparedSearch>, V: View + Clone> SearchPass<S, V> {
    /// Matches the documents of a view.
    pub fn new(search: S, view: V, deadline: &SearchDeadline) -> Result<Self, Error> {
        let mut trace = SearchTrace::default();
        let mut watch = StepStopwatch::start();
        let plan = &*search.plan;
        let within: Vec<&DocumentSelection> = search.within.iter().map(|selection| &**selection).collect();
        let seen = [within, search.selection().into_iter().collect()];
        let seen: Vec<Vec<&DocumentSelection>> = seen.into_iter().filter(|any| !any.is_empty()).collect();
        if plan.hits > 0 && view.chunks().len() <= plan.hits.min(ANNOUNCED_CHUNKS) {
            view.will_read(&ColumnKey::id(), 0..view.chunks().len());
        }
        let narrow = || SelectedView::new(view.clone(), &plan.schema, &seen, plan.now, deadline);
        let narrowed = (!seen.is_empty()).then(narrow).transpose()?;
        trace.select = watch.lap();
        let documents: &dyn View = narrowed.as_ref().map_or(&view, |narrowed| narrowed);
        let step = if narrowed.is_some() { SearchStep::Match } else { SearchStep::Look };
        let matches = match_plan(plan, documents, search.profile.demands(plan), &|| deadline.ends(step))?;
        trace.matching = watch.lap();
        Ok(SearchPass { search, view, narrowed, matches, trace })
    }

    /// Ranks or sorts, groups and fills.
    pub fn found(&mut self, part: u32, deadline: &SearchDeadline) -> Result<PassResult, Error> {
        self.pass(part, false, deadline)
    }

    /// Does the same, but if later phases rank hits again, only by the first phase: the rest is decided
    /// together with the hits of others.
    pub fn found_of_several(&mut self, part: u32, deadline: &SearchDeadline) -> Result<PassResult, Error> {
        self.pass(part, true, deadline)
    }

    fn pass(&mut self, part: u32, of_several: bool, deadline: &SearchDeadline) -> Result<PassResult, Error> {
        let mut trace = self.trace;
        let mut watch = StepStopwatch::start();
        let mut first = self.search.first_phase(self.view(), &self.matches, deadline)?;
        if let Some(first) = &mut first {
            self.search.drop_matches(&mut self.matches, first);
        }
        let (search, view, matches) = (&*self.search, self.view(), &self.matches);
        let mut best = None;
        let (ordered, collapse_keys) = match search.reranking().filter(|_| of_several) {
            None => search.ordered(view, matches, first.as_ref(), deadline)?,
            Some(reranking) => {
                let over = RankedDocuments { plan: &search.plan, view, matches };
                let depth = reranking.depth(search.wanted());
                let found =
                    search.profile.best(&over, first.as_ref(), depth, &|| deadline.ends(SearchStep::Rank));
                let found = found?;
                let hits = found.hits.iter().map(|hit| (hit.chunk, hit.document, hit.score)).collect();
                best = Some(BestOfPass { hits, max: found.max });
                let ordered = crate::search::OrderedHits {
                    total: found.total,
                    timed_out: found.timed_out,
                    ..Default::default()
                };
                (ordered, Vec::new())
            }
        };
        trace.order = watch.lap();
        let (executions, all_grouped) = search.group(view, matches, first.as_ref(), part, deadline)?;
        trace.group = watch.lap();
        let hits = search.fill(view, matches, None, &ordered.hits, &ordered.known, deadline)?;
        trace.summary = watch.lap();
        trace.documents = matches.documents;
        trace.matched = ordered.total;
        let target = live_documents(&self.view);
        let timed_out = matches.timed_out || ordered.timed_out || !all_grouped;
        let whole = SearchCoverage {
            documents: matches.documents,
            target,
            timed_out,
            nodes: 1,
            ..SearchCoverage::default()
        };
        let coverage = match &self.narrowed {
            // Documents that the selection excludes count as searched.
            Some(narrowed) if narrowed.is_complete() && !timed_out => {
                SearchCoverage { documents: target, ..whole }
            }
            Some(_) => SearchCoverage { timed_out: true, ..whole },
            None => whole,
        };
        let result = PartialResult { total_count: ordered.total, hits, groupings: Vec::new(), coverage };
        Ok(PassResult { executions, outcome: PassOutcome { result, trace, collapse_keys }, best })
    }

    /// Fills hits with the fields of a document summary; the default is the plan's own. `known` has the
    /// results of the first phase over all hits.
    pub fn fill(
        &self,
        summary: Option<&str>,
        hits: &[SortedHit],
        known: &GlobalHitValues,
        deadline: &SearchDeadline,
    ) -> Result<Vec<ResultHit>, Error> {
        self.search.fill(self.view(), &self.matches, summary, hits, known, deadline)
    }

    /// The visible documents.
    pub fn view(&self) -> &dyn View {
        self.narrowed.as_ref().map_or(&self.view, |narrowed| narrowed)
    }
}

fn live_documents(view: &dyn View) -> u64 {
    let live = |chunk: &millrace_column::ViewChunk| {
        (0..chunk.documents).filter(|place| is_live(chunk, *place)).count()
    };
    let count = |chunk: &millrace_column::ViewChunk| match &chunk.live {
        None => chunk.documents,
        Some(_) => live(chunk),
    };
    view.chunks().iter().map(|chunk| count(chunk) as u64).sum()
}
