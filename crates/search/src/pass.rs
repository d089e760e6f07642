use std::ops::Deref;

use millrace_column::{ColumnKey, View};
use millrace_grouping::GroupingExecution;
use millrace_matching::{MatchedDocuments, RankingDemands, match_plan};
use millrace_ranking::{GlobalHitValues, RankedDocuments};
use millrace_result::{PartialResult, ResultHit, SearchCoverage};
use millrace_selection::DocumentSelection;

use crate::collapse::CollapseKeys;
use crate::deadline::SearchStep;
use crate::narrowed::{SelectedView, is_live};
use crate::trace::StepStopwatch;
use crate::{Error, PreparedSearch, SearchDeadline, SearchTrace, SortedHit};

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

/// Asserts that each grouping request suits some schema: planning has checked it.
pub(crate) fn assert_grouped<'s>(searches: impl Iterator<Item = &'s PreparedSearch> + Clone) {
    let checked = millrace_plan::check_groupings(searches.map(PreparedSearch::plan));
    assert!(checked.is_ok(), "a grouping request that suits no schema has passed planning: {checked:?}");
}

/// A search, and the documents of a view that it matches.
pub(crate) struct SearchPass<S, V> {
    pub search: S,
    view: V,
    narrowed: Option<SelectedView<V>>,
    pub matches: MatchedDocuments,
    /// Times so far.
    pub trace: SearchTrace,
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

impl PreparedSearch {
    /// Number of documents of a view that match; `None` if the deadline has passed before all were looked at.
    ///
    /// # Errors
    /// A column cannot be read.
    pub fn matched(&self, view: &dyn View, deadline: &SearchDeadline) -> Result<Option<u64>, Error> {
        let pass = SearchPass::with_demands(self, view, RankingDemands::default(), deadline)?;
        let is_selected = pass.narrowed.as_ref().is_none_or(|narrowed| narrowed.is_complete());
        let matches = &pass.matches;
        let count = matches.chunks.iter().map(|chunk| chunk.documents.len() as u64).sum();
        Ok((is_selected && !matches.timed_out).then_some(count))
    }
}

impl<S: Deref<Target = PreparedSearch>, V: View + Clone> SearchPass<S, V> {
    /// Matches the documents of a view.
    pub fn new(search: S, view: V, deadline: &SearchDeadline) -> Result<Self, Error> {
        let demands = search.profile.demands(&search.plan);
        SearchPass::with_demands(search, view, demands, deadline)
    }

    /// Matches the documents of a view, with the match data that is asked for.
    fn with_demands(
        search: S,
        view: V,
        demands: RankingDemands,
        deadline: &SearchDeadline,
    ) -> Result<Self, Error> {
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
        let step = if narrowed.is_some() { SearchStep::Match } else { SearchStep::Scan };
        let matches = match_plan(plan, documents, demands, &|| deadline.ends(step))?;
        trace.matching = watch.lap();
        Ok(SearchPass { search, view, narrowed, matches, trace })
    }

    /// Ranks or sorts, groups and fills. If later phases rank hits together with those of other nodes, it
    /// ranks only by the first, and fills no hits.
    pub fn finish(&mut self, part: u32, deadline: &SearchDeadline) -> Result<PassResult, Error> {
        let mut trace = self.trace;
        let mut watch = StepStopwatch::start();
        let mut first = self.search.first_phase(self.view(), &self.matches, deadline)?;
        if let Some(first) = &mut first {
            self.search.drop_matches(&mut self.matches, first);
        }
        let (search, view, matches) = (&*self.search, self.view(), &self.matches);
        let mut best = None;
        let (ordered, collapse_keys) = match search.reranking() {
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
        let grouped = search.group(view, matches, first.as_ref(), part, deadline)?;
        trace.group = watch.lap();
        let hits = search.fill(view, matches, None, &ordered.hits, &ordered.known, deadline)?;
        trace.summary = watch.lap();
        trace.documents = matches.documents;
        trace.matched = ordered.total;
        let target = live_documents(&self.view);
        let timed_out = matches.timed_out || ordered.timed_out || !grouped.is_complete;
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
        self.trace = trace;
        let outcome = PassOutcome { result, trace, collapse_keys };
        Ok(PassResult { executions: grouped.executions, outcome, best })
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
        (0..chunk.documents).filter(|document| is_live(chunk, *document)).count()
    };
    let count = |chunk: &millrace_column::ViewChunk| match &chunk.live {
        None => chunk.documents,
        Some(_) => live(chunk),
    };
    view.chunks().iter().map(|chunk| count(chunk) as u64).sum()
}
