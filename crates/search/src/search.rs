use std::sync::Arc;

use millrace_column::{Column, ColumnKey, View};
use millrace_document::DocumentId;
use millrace_grouping::{CheckedGrouping, GroupingExecution};
use millrace_matching::MatchedDocuments;
use millrace_plan::{Plan, PlannedGrouping, QueryMemory, StreamedScope};
use millrace_ranking::{
    CompiledProfile, FeatureSelection, FirstPhase, GlobalHitValues, HitFeatures, PhaseReranking, RankOutcome,
    RankedDocuments, RankedHit,
};
use millrace_result::{FeatureValue, FieldValue, ResultHit, SortValue};
use millrace_schema::SnippetSettings;
use millrace_selection::DocumentSelection;

use crate::collapse::{CollapseFields, CollapseKeys, HitCollapsing};
use crate::deadline::SearchStep;
use crate::narrowed::is_live;
use crate::sorting::{FirstHits, PreparedOrder};
use crate::summary::{self, HighlightStyles, SummaryFiller};
use crate::{Error, PassOutcome, SearchDeadline, SortedHit};

/// A plan with everything ready to run it.
pub struct PreparedSearch {
    pub(crate) plan: Arc<Plan>,
    pub(crate) profile: Arc<CompiledProfile>,
    /// A document must match one of these to be seen; if there are none, all are seen.
    pub(crate) within: Vec<Arc<DocumentSelection>>,
    styles: HighlightStyles,
    sorting: Option<PreparedOrder>,
    cluster: Arc<str>,
}

impl PreparedSearch {
    /// Prepares a plan. `profile` is its compiled rank profile; `cluster` is the source named by hits.
    pub fn new(plan: Arc<Plan>, profile: Arc<CompiledProfile>, cluster: Arc<str>) -> Self {
        let sorting = (!plan.sorting.is_empty()).then(|| PreparedOrder::new(&plan));
        PreparedSearch {
            plan,
            profile,
            within: Vec::new(),
            styles: HighlightStyles::default(),
            sorting,
            cluster,
        }
    }

    /// Shows dynamic summaries as an application says.
    pub fn with_snippets(mut self, snippets: &SnippetSettings) -> Self {
        self.styles = HighlightStyles::of(snippets);
        self
    }

    /// Restricts the search to documents that match one of these selections; no restriction if there are
    /// none.
    #[must_use]
    pub fn within(mut self, selections: Vec<Arc<DocumentSelection>>) -> Self {
        self.within = selections;
        self
    }

    /// A grouping request over this schema; none where this schema has no part in it.
    pub(crate) fn grouping(&self, request: usize) -> Option<&Arc<CheckedGrouping>> {
        self.plan.groupings.get(request)?.as_ref().ok()
    }

    /// Selection that a document must match, if the query has one.
    pub(crate) fn selection(&self) -> Option<&DocumentSelection> {
        match &self.plan.scope {
            StreamedScope::All { selection } => selection.as_deref(),
            StreamedScope::Groups(_) => None,
        }
    }

    /// Returns the number of hits wanted in all, including those before the offset.
    pub(crate) fn wanted(&self) -> usize {
        let plan = &*self.plan;
        if plan.hits == 0 { 0 } else { plan.offset.saturating_add(plan.hits) }
    }

    /// Returns the reranking by later phases, if these determine the order of the hits and can be applied to
    /// the hits of several nodes together. If hits are collapsed, or chosen for diversity, each node ranks
    /// its own.
    pub(crate) fn reranking(&self) -> Option<PhaseReranking> {
        let own = self.plan.collapse.is_some() || self.profile.is_diverse();
        let ranked = self.sorting.is_none() && !own && self.wanted() > 0;
        let reranking = self.profile.reranking(&self.plan);
        (ranked && reranking.depth(0) > 0).then_some(reranking)
    }

    /// Returns the number of grouping requests.
    pub(crate) fn grouping_requests(&self) -> usize {
        self.plan.groupings.len()
    }

    /// The grouping requests, by number, that its schema has no part in, and why.
    pub fn ungrouped(&self) -> impl Iterator<Item = (usize, &millrace_grouping::Error)> {
        self.plan
            .groupings
            .iter()
            .enumerate()
            .filter_map(|(number, request)| Some((number, request.as_ref().err()?)))
    }

    /// Returns true if its hits can have a field of this name.
    pub fn shows(&self, field: &str) -> bool {
        SHOWN_FEATURES.contains(&field) || summary::shows(&self.plan, field)
    }

    /// Returns true if the first phase drops documents that match.
    pub fn drops_matches(&self) -> bool {
        self.profile.first_drop_limit(&self.plan).is_some()
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs it over the documents of a view. Once the deadline has passed, the hits found so far are the
    /// result, and its coverage says so.
    ///
    /// # Errors
    /// A column cannot be read, or a grouping request cannot be executed.
    pub fn run(&self, view: &dyn View, deadline: &SearchDeadline) -> Result<PassOutcome, Error> {
        let mut outcomes = crate::run_all(&[(self, view)], deadline)?;
        Ok(outcomes.pop().unwrap_or_default())
    }

    /// The first phase of all that matched, where its scores are needed more than once, or elsewhere than in
    /// ranking.
    pub(crate) fn first_phase(
        &self,
        view: &dyn View,
        matches: &MatchedDocuments,
        deadline: &SearchDeadline,
    ) -> Result<Option<FirstPhase>, Error> {
        let sorted_by_score = self.sorting.as_ref().is_some_and(PreparedOrder::needs_scores);
        let collapsed = self.plan.collapse.is_some() && self.sorting.is_none();
        let drops = self.sorting.is_some() && self.profile.first_drop_limit(&self.plan).is_some();
        // Else, ranking runs it chunk by chunk and keeps the best.
        let is_needed = sorted_by_score || collapsed || drops || !self.plan.groupings.is_empty();
        if !is_needed && view.paths().is_fast() {
            return Ok(None);
        }
        let stop = &|| deadline.ends(SearchStep::Rank);
        Ok(Some(self.profile.first_phase(&self.plan, view, matches, stop)?))
    }

    /// Removes the matches that the first phase's score limit drops, and their scores, unless ranking
    /// does it.
    pub(crate) fn drop_matches(&self, matches: &mut MatchedDocuments, first: &mut FirstPhase) {
        let Some(limit) = self.profile.first_drop_limit(&self.plan) else { return };
        if self.sorting.is_none() && self.plan.groupings.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut first.scores);
        let mut kept = Vec::with_capacity(all.len());
        for (chunk, scores) in std::mem::take(&mut matches.chunks).into_iter().zip(&mut all) {
            let documents = chunk.documents.iter().zip(&*scores);
            let passing: Vec<u16> =
                documents.filter(|(_, score)| **score > limit).map(|(document, _)| *document).collect();
            scores.retain(|score| *score > limit);
            // Documents ascend.
            kept.extend(chunk.retain(|document| passing.binary_search(&document).is_ok()));
        }
        all.retain(|scores| !scores.is_empty());
        (matches.chunks, first.scores) = (kept, all);
    }

    /// Returns the hits to return, in order, without those that the request collapses, and the collapse keys
    /// of the others.
    pub(crate) fn ordered(
        &self,
        view: &dyn View,
        matches: &MatchedDocuments,
        first: Option<&FirstPhase>,
        deadline: &SearchDeadline,
    ) -> Result<(OrderedHits, Vec<CollapseKeys>), Error> {
        let plan = &*self.plan;
        let wanted = self.wanted();
        let Some(collapse) = plan.collapse.as_ref().filter(|_| wanted > 0) else {
            return Ok((self.order(view, matches, first, wanted, deadline)?, Vec::new()));
        };
        let fields = CollapseFields::of(plan, collapse);
        let mut looked_at = wanted.saturating_mul(2);
        loop {
            let mut ordered = self.order(view, matches, first, looked_at, deadline)?;
            let are_all = ordered.hits.len() < looked_at;
            let mut collapsing = HitCollapsing::new(collapse);
            let keys = fields.keys(view, &ordered.hits, &self.plan.memory)?;
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
        matches: &MatchedDocuments,
        first: Option<&FirstPhase>,
        wanted: usize,
        deadline: &SearchDeadline,
    ) -> Result<OrderedHits, Error> {
        let Some(sorting) = &self.sorting else {
            let stop = &|| deadline.ends(SearchStep::Rank);
            let over = RankedDocuments { plan: &self.plan, view, matches };
            let ranked = self.profile.rank(&over, first, wanted, stop)?;
            let hits = ranked.hits.into_iter().map(SortedHit::from).collect();
            let RankOutcome { total, timed_out, known, .. } = ranked;
            return Ok(OrderedHits { hits, total, timed_out, known });
        };
        let scores = first.filter(|_| sorting.needs_scores()).map_or(&[][..], |first| &first.scores);
        let total = matches.chunks.iter().map(|chunk| chunk.documents.len() as u64).sum();
        let stop = &|| deadline.ends(SearchStep::Output);
        let FirstHits { mut hits, is_complete } = sorting.first(view, matches, scores, wanted, stop)?;
        if !sorting.needs_scores() {
            self.score(view, matches, &mut hits, stop)?;
        }
        Ok(OrderedHits { hits, total, timed_out: !is_complete, known: GlobalHitValues::default() })
    }

    /// Gives hits in another order than by relevance the scores of the first phase.
    fn score(
        &self,
        view: &dyn View,
        matches: &MatchedDocuments,
        hits: &mut [SortedHit],
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        if hits.is_empty() {
            return Ok(());
        }
        let over = RankedDocuments { plan: &self.plan, view, matches };
        let ranked: Vec<RankedHit> = hits.iter().map(SortedHit::ranked).collect();
        let scores = self.profile.first_phase_of(&over, &ranked, stop)?;
        hits.iter_mut().zip(scores).for_each(|(hit, score)| hit.score = score);
        Ok(())
    }

    /// Collects the groups of each request.
    pub(crate) fn group(
        &self,
        view: &dyn View,
        matches: &MatchedDocuments,
        first: Option<&FirstPhase>,
        part: u32,
        deadline: &SearchDeadline,
    ) -> Result<GroupedMatches, Error> {
        if self.plan.groupings.is_empty() {
            return Ok(GroupedMatches { executions: Vec::new(), is_complete: true });
        }
        let mut is_complete = first.is_none_or(|first| !first.timed_out);
        let scores = first.map_or(&[][..], |first| &first.scores);
        let mut of_one = |grouping: &Arc<CheckedGrouping>| -> Result<GroupingExecution, Error> {
            let mut execution = GroupingExecution::new(Arc::clone(grouping), part);
            let mut counted = GroupMemory { memory: &self.plan.memory, bytes: 0 };
            if grouping.all_documents() {
                for (number, chunk) in view.chunks().iter().enumerate() {
                    if deadline.ends(SearchStep::Output) {
                        is_complete = false;
                        break;
                    }
                    let live: Vec<u16> = (0..chunk.documents)
                        .filter(|document| is_live(chunk, *document))
                        .map(|document| document as u16)
                        .collect();
                    execution.collect(view, number, &live, &[])?;
                    counted.count(&execution)?;
                }
            } else {
                for (chunk, scores) in matches.chunks.iter().zip(scores) {
                    if deadline.ends(SearchStep::Output) {
                        is_complete = false;
                        break;
                    }
                    execution.collect(view, chunk.chunk, &chunk.documents, scores)?;
                    counted.count(&execution)?;
                }
            }
            execution.complete(view)?;
            counted.count(&execution)?;
            Ok(execution)
        };
        let of_known = |grouping: &PlannedGrouping| grouping.as_ref().ok().map(&mut of_one).transpose();
        let executions = self.plan.groupings.iter().map(of_known).collect::<Result<_, _>>()?;
        Ok(GroupedMatches { executions, is_complete })
    }

    /// Hits with the fields of a document summary (the plan's own where none is named), and the features that
    /// the profile shows. `known` has the results of the first phase over all hits.
    pub(crate) fn fill(
        &self,
        view: &dyn View,
        matches: &MatchedDocuments,
        summary: Option<&str>,
        hits: &[SortedHit],
        known: &GlobalHitValues,
        deadline: &SearchDeadline,
    ) -> Result<Vec<ResultHit>, Error> {
        if hits.is_empty() {
            return Ok(Vec::new());
        }
        let stop = || deadline.ends(SearchStep::Output);
        let filler = SummaryFiller::new(&self.plan, summary, &self.styles)?.until(&stop);
        let documents: Vec<(usize, u16)> = hits.iter().map(|hit| (hit.chunk, hit.document)).collect();
        let ranked: Vec<RankedHit> = hits.iter().map(SortedHit::ranked).collect();
        let over = RankedDocuments { plan: &self.plan, view, matches };
        let shown = self.features(&over, summary, &ranked, known, deadline)?;
        let keys = hits.iter().flat_map(|hit| &hit.keys).map(SortValue::memory_bytes).sum::<usize>();
        self.plan.memory.take(keys + hits.len() * size_of::<ResultHit>())?;
        let ids = ids(view, &documents)?;
        let filled = filler.fill(view, &documents)?.into_iter().zip(shown).zip(ids).zip(hits);
        let hits = filled.map(|(((mut fields, shown), id), hit)| {
            if let Some((_, features)) = shown.iter().find(|(name, _)| *name == SUMMARY_FEATURES) {
                filler.select_elements(&mut fields, |name| {
                    features.iter().find_map(|(feature, value)| match value {
                        FeatureValue::Tensor(tensor) if **feature == *name => Some(tensor),
                        _ => None,
                    })
                });
            }
            let shown = shown.into_iter().filter(|(_, features)| !features.is_empty());
            fields.extend(shown.map(|(name, features)| (name.into(), FieldValue::Features(features))));
            ResultHit {
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
        over: &RankedDocuments<'_>,
        summary: Option<&str>,
        hits: &[RankedHit],
        known: &GlobalHitValues,
        deadline: &SearchDeadline,
    ) -> Result<Vec<Vec<FeatureField>>, Error> {
        let stop = || deadline.ends(SearchStep::Output);
        let plan = &*self.plan;
        let summary = summary.and_then(|name| plan.schema.summaries.get(name)).unwrap_or(&plan.summary);
        let mut shown: Vec<Vec<FeatureField>> = vec![Vec::new(); hits.len()];
        let mut show = |name, features: Vec<HitFeatures>| {
            shown.iter_mut().zip(features).for_each(|(shown, features)| shown.push((name, features)));
        };
        show(
            MATCH_FEATURES,
            self.profile.returned_features(FeatureSelection::Match, over, hits, known, &stop)?,
        );
        if !summary.omit_summary_features {
            let features =
                self.profile.returned_features(FeatureSelection::Summary, over, hits, known, &stop)?;
            show(SUMMARY_FEATURES, features);
        }
        if plan.query.ranking.list_features {
            show(
                RANK_FEATURES,
                self.profile.returned_features(FeatureSelection::All, over, hits, known, &stop)?,
            );
        }
        Ok(shown)
    }
}

const MATCH_FEATURES: &str = "matchfeatures";
const SUMMARY_FEATURES: &str = "summaryfeatures";
const RANK_FEATURES: &str = "rankfeatures";
/// The fields of features that hits can have.
const SHOWN_FEATURES: [&str; 3] = [MATCH_FEATURES, SUMMARY_FEATURES, RANK_FEATURES];

/// Features of a hit under the name of the field that shows them.
type FeatureField = (&'static str, HitFeatures);

/// Memory of the groups of one request so far.
struct GroupMemory<'p> {
    memory: &'p QueryMemory,
    bytes: usize,
}

impl GroupMemory<'_> {
    /// Takes what groups have grown by.
    fn count(&mut self, execution: &GroupingExecution) -> Result<(), Error> {
        let bytes = execution.memory_bytes();
        self.memory.take(bytes.saturating_sub(self.bytes))?;
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

/// The hits to return, and how many there are in all.
#[derive(Default)]
pub(crate) struct OrderedHits {
    pub hits: Vec<SortedHit>,
    pub total: u64,
    pub timed_out: bool,
    /// Results of the first phase over all hits, for the features shown with hits.
    pub known: GlobalHitValues,
}

/// The groups of the matches, for each grouping request that the schema can have groups for.
pub(crate) struct GroupedMatches {
    pub executions: Vec<Option<GroupingExecution>>,
    /// True if there was time to add all matches.
    pub is_complete: bool,
}

/// The ids of documents, in order.
fn ids(view: &dyn View, documents: &[(usize, u16)]) -> Result<Vec<DocumentId>, Error> {
    let mut columns: std::collections::BTreeMap<usize, Option<Column>> = std::collections::BTreeMap::new();
    let mut ids = Vec::with_capacity(documents.len());
    for (chunk, document) in documents {
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
