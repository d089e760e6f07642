//! Share of one node in a query over documents of several.
//!
//! The serialized form of requests and replies is part of the protocol between nodes: fields and variants are
//! written by their order, so fields stay as they are, and new variants come last, in the next protocol.
//! Variants that are not sent come after all others.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use millrace_column::View;
use millrace_grouping::{CollectedGroups, GroupingExecution, HitRef};
use millrace_matching::TermStatistics;
use millrace_ranking::{CompiledProfile, GlobalHitValues, RankedDocuments, RankedHit};
use millrace_result::{PartialResult, ResultHit, SearchCoverage};
use serde::{Deserialize, Serialize};

use crate::collapse::CollapseKeys;
use crate::deadline::SearchStep;
use crate::pass::{BestOfPass, SearchPass, assert_grouped};
use crate::trace::StepStopwatch;
use crate::{Error, PassOutcome, PreparedSearch, SearchDeadline, SearchTrace, SortedHit};

/// Request to a node while a query runs over several. Each is for results of every schema, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ShareRequest {
    /// Statistics of words over its documents.
    Statistics,
    /// Its hits and groups, ranked by these statistics, if any were requested.
    Share(Option<Vec<TermStatistics>>),
    /// Scores of the second phase.
    Second(Vec<RerankRequest>),
    /// Values that the global phase normalizes.
    ToNormalize(Vec<RerankRequest>),
    /// Scores of the global phase, with the normalized values of its hits.
    Global(Vec<(RerankRequest, Vec<Vec<f64>>)>),
    /// Hits with their fields.
    Fill(Vec<RerankRequest>),
    /// Like [`ShareRequest::Share`], without the hits of groups. Only within a process.
    #[serde(skip)]
    LocalShare(Option<Vec<TermStatistics>>),
    /// Hits of groups, each list with its document summary. Only within a process.
    #[serde(skip)]
    FillGroups(Vec<(Option<String>, Vec<HitRef>)>),
}

/// Hits of one node and schema, best first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RerankRequest {
    /// Chunk, document and score, and the rank in the first phase among the hits of all nodes.
    pub(crate) hits: Vec<(usize, u16, f64, u32)>,
    /// Highest score of the first phase on any node.
    pub(crate) max: Option<f64>,
}

/// Reply of a node to a [`ShareRequest`], for each schema in order.
#[derive(Debug, Serialize, Deserialize)]
pub enum ShareReply {
    /// Answer to [`ShareRequest::Statistics`].
    Statistics(Vec<TermStatistics>),
    /// Answer to [`ShareRequest::Share`] and [`ShareRequest::LocalShare`].
    Share(NodeShare),
    /// Answer to [`ShareRequest::Second`] and [`ShareRequest::Global`]; `None` if there was no time for
    /// models.
    Scores(Vec<Option<Vec<f64>>>),
    /// Answer to [`ShareRequest::ToNormalize`]; `None` if there was no time for models.
    Numbers(Vec<Option<Vec<Vec<f64>>>>),
    /// Answer to [`ShareRequest::Fill`].
    Hits(Vec<Vec<ResultHit>>),
    /// Refusal of any request for its cost, with which the conversation ends. A node of protocol 1
    /// that does not know it takes the conversation as broken off.
    Refused {
        /// True if a later attempt may succeed.
        is_overload: bool,
        /// Reason, and what to change.
        message: String,
    },
    /// Answer to [`ShareRequest::FillGroups`], for each of its lists.
    #[serde(skip)]
    GroupHits(Vec<Vec<ResultHit>>),
}

impl ShareReply {
    /// Memory of the values of its hits, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of_hits = |hits: &[ResultHit]| hits.iter().map(ResultHit::memory_bytes).sum::<usize>();
        match self {
            ShareReply::Share(NodeShare { schemas, .. }) => {
                let of_groups = |groups: &ShareGroups| {
                    groups.hits.iter().map(|(_, _, hit)| hit.memory_bytes()).sum::<usize>()
                };
                let of_schema = |schema: &SchemaShare| {
                    of_hits(&schema.hits) + schema.groups.iter().flatten().map(of_groups).sum::<usize>()
                };
                schemas.iter().map(of_schema).sum()
            }
            ShareReply::Hits(lists) | ShareReply::GroupHits(lists) => {
                lists.iter().map(|hits| of_hits(hits)).sum()
            }
            // Numbers take what they take as they are sent.
            ShareReply::Statistics(_)
            | ShareReply::Scores(_)
            | ShareReply::Numbers(_)
            | ShareReply::Refused { .. } => 0,
        }
    }

    /// Takes the notes for the trace.
    pub fn take_trace(&mut self) -> Vec<String> {
        match self {
            ShareReply::Share(share) => std::mem::take(&mut share.trace),
            _ => Vec::new(),
        }
    }

    /// Substitute for the reply of a node that does not reply in time, for `schemas` schemas: it has no
    /// documents, and coverage says so. `None` if the request was about hits of that node.
    pub fn without_documents(request: &ShareRequest, schemas: usize) -> Option<ShareReply> {
        let has_none = |reranks: &[RerankRequest]| reranks.iter().all(|rerank| rerank.hits.is_empty());
        let empty = || SchemaShare {
            total_count: 0,
            hits: Vec::new(),
            collapse_keys: Vec::new(),
            best: None,
            coverage: SearchCoverage { timed_out: true, ..SearchCoverage::default() },
            groups: Vec::new(),
        };
        match request {
            ShareRequest::Statistics => {
                Some(ShareReply::Statistics(vec![TermStatistics::default(); schemas]))
            }
            ShareRequest::Share(_) | ShareRequest::LocalShare(_) => Some(ShareReply::Share(NodeShare {
                schemas: (0..schemas).map(|_| empty()).collect(),
                trace: Vec::new(),
            })),
            ShareRequest::Second(reranks) => {
                has_none(reranks).then(|| ShareReply::Scores(vec![Some(Vec::new()); schemas]))
            }
            ShareRequest::ToNormalize(reranks) => {
                has_none(reranks).then(|| ShareReply::Numbers(vec![Some(Vec::new()); schemas]))
            }
            ShareRequest::Global(reranks) => {
                let has_none = reranks.iter().all(|(rerank, _)| rerank.hits.is_empty());
                has_none.then(|| ShareReply::Scores(vec![Some(Vec::new()); schemas]))
            }
            ShareRequest::Fill(reranks) => {
                has_none(reranks).then(|| ShareReply::Hits(vec![Vec::new(); schemas]))
            }
            ShareRequest::FillGroups(lists) => lists.is_empty().then(|| ShareReply::GroupHits(Vec::new())),
        }
    }
}

/// Contribution of one node's documents to a query: everything that is needed to merge it with those of other
/// nodes.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeShare {
    /// One for each schema, in order.
    pub(crate) schemas: Vec<SchemaShare>,
    /// Notes of the node for the trace of the query, if one is requested.
    pub trace: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SchemaShare {
    pub total_count: u64,
    /// Best hits of this node, filled.
    pub hits: Vec<ResultHit>,
    /// Keys of each hit, if the request collapses hits.
    pub collapse_keys: Vec<CollapseKeys>,
    /// Best hits of the first phase, if later phases rank the hits again; there are no hits then.
    pub best: Option<BestOfPass>,
    pub coverage: SearchCoverage,
    /// One for each grouping request; `None` if this schema has no part in it.
    pub groups: Vec<Option<ShareGroups>>,
}

/// Groups as they were collected, and the hits in them that may be shown.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShareGroups {
    pub collected: CollectedGroups,
    pub hits: Vec<(Option<String>, HitRef, ResultHit)>,
}

/// Time at which the hits of groups are filled.
#[derive(Debug, Clone, Copy)]
enum GroupFilling {
    /// With the share, for another node, to avoid another round trip: a request for all hits of all groups
    /// costs as much as it shows.
    Now,
    /// By [`ShareRequest::FillGroups`], only those that are shown.
    Later,
}

/// Searches of one query over the documents of one node, one for each schema, for the duration of the query:
/// every answer is about the same documents.
pub struct ShareSession<S = Arc<PreparedSearch>, V = Arc<dyn View>> {
    passes: Vec<SearchPass<S, V>>,
    known: Vec<GlobalHitValues>,
}

/// Input of a later phase: the hits of one schema.
struct LaterPhaseHits<'a> {
    /// Index of the schema in the query.
    schema: usize,
    profile: &'a CompiledProfile,
    over: RankedDocuments<'a>,
    hits: Vec<RankedHit>,
    known: &'a mut GlobalHitValues,
}

impl<S: Deref<Target = PreparedSearch>, V: View + Clone> ShareSession<S, V> {
    /// Matches the documents.
    ///
    /// # Errors
    /// Those of [`PreparedSearch::run`].
    pub fn new(searches: Vec<(S, V)>, deadline: &SearchDeadline) -> Result<Self, Error> {
        assert_grouped(searches.iter().map(|(search, _)| &**search));
        let pass = |(search, view)| SearchPass::new(search, view, deadline);
        let passes: Vec<_> = searches.into_iter().map(pass).collect::<Result<_, Error>>()?;
        let known = passes.iter().map(|_| GlobalHitValues::default()).collect();
        Ok(ShareSession { passes, known })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Those of [`PreparedSearch::run`]; [`Error::Share`] for requests that do not belong to the query.
    pub fn answer(&mut self, request: ShareRequest, deadline: &SearchDeadline) -> Result<ShareReply, Error> {
        let stop = &|| deadline.ends(SearchStep::Rank);
        Ok(match request {
            ShareRequest::Statistics => ShareReply::Statistics(
                self.passes.iter().map(|pass| pass.matches.statistics.clone()).collect(),
            ),
            ShareRequest::Share(statistics) => {
                self.take_statistics(statistics);
                ShareReply::Share(self.share(GroupFilling::Now, deadline)?)
            }
            ShareRequest::LocalShare(statistics) => {
                self.take_statistics(statistics);
                ShareReply::Share(self.share(GroupFilling::Later, deadline)?)
            }
            ShareRequest::Second(schemas) => ShareReply::Scores(self.rank_first(&schemas, |later| {
                later.profile.second_phase(&later.over, &later.hits, later.known, stop)
            })?),
            ShareRequest::ToNormalize(schemas) => {
                ShareReply::Numbers(self.rank_first(&schemas, |later| {
                    later.profile.to_normalize(&later.over, &later.hits, later.known, stop)
                })?)
            }
            ShareRequest::Global(schemas) => {
                let (schemas, normalized): (Vec<RerankRequest>, Vec<Vec<Vec<f64>>>) =
                    schemas.into_iter().unzip();
                ShareReply::Scores(self.rank_again(&schemas, |later| {
                    let normalized = &normalized[later.schema];
                    later.profile.global_phase(&later.over, &later.hits, normalized, later.known).map(Some)
                })?)
            }
            ShareRequest::Fill(schemas) => {
                let mut all = Vec::with_capacity(schemas.len());
                for (pass, rerank) in self.passes.iter_mut().zip(&schemas) {
                    let mut watch = StepStopwatch::start();
                    let hits = rerank.hits(pass.view())?;
                    let known = rerank.first_phase_values(&hits);
                    let hits: Vec<SortedHit> = hits.into_iter().map(SortedHit::from).collect();
                    all.push(pass.fill(None, &hits, &known, deadline)?);
                    pass.trace.summary += watch.lap();
                }
                ShareReply::Hits(all)
            }
            ShareRequest::FillGroups(lists) => {
                let mut watch = StepStopwatch::start();
                let fill = |(summary, hits): &(Option<String>, Vec<HitRef>)| {
                    self.fill(summary.as_deref(), hits, deadline)
                };
                let filled = lists.iter().map(fill).collect::<Result<_, Error>>()?;
                if let Some(first) = self.passes.first_mut() {
                    first.trace.group += watch.lap();
                }
                ShareReply::GroupHits(filled)
            }
        })
    }

    /// Times of the answers so far, of each search in order.
    pub fn traces(&self) -> impl Iterator<Item = SearchTrace> {
        self.passes.iter().map(|pass| pass.trace)
    }

    fn take_statistics(&mut self, statistics: Option<Vec<TermStatistics>>) {
        for (pass, statistics) in self.passes.iter_mut().zip(statistics.into_iter().flatten()) {
            pass.matches.statistics = statistics;
        }
    }

    /// Fills hits of groups, each by the search that found it.
    fn fill(
        &self,
        summary: Option<&str>,
        references: &[HitRef],
        deadline: &SearchDeadline,
    ) -> Result<Vec<ResultHit>, Error> {
        let mut filled: Vec<Option<ResultHit>> = vec![None; references.len()];
        for (part, pass) in (0u32..).zip(&self.passes) {
            let own: Vec<usize> = (0..references.len()).filter(|at| references[*at].part == part).collect();
            let hit = |at: &usize| {
                let HitRef { chunk, document, score, .. } = references[*at];
                SortedHit { keys: Vec::new(), score, chunk, document }
            };
            let hits: Vec<SortedHit> = own.iter().map(hit).collect();
            let hits = pass.fill(summary, &hits, &GlobalHitValues::default(), deadline)?;
            own.into_iter().zip(hits).for_each(|(at, hit)| filled[at] = Some(hit));
        }
        // Every reference belongs to some search.
        Ok(filled.into_iter().flatten().collect())
    }

    /// Ranks each schema's hits, without results of earlier phases.
    fn rank_first<T>(
        &mut self,
        schemas: &[RerankRequest],
        rank: impl FnMut(LaterPhaseHits<'_>) -> Result<T, millrace_ranking::Error>,
    ) -> Result<Vec<T>, Error> {
        for ((pass, known), rerank) in self.passes.iter().zip(&mut self.known).zip(schemas) {
            *known = rerank.first_phase_values(&rerank.hits(pass.view())?);
        }
        self.rank_again(schemas, rank)
    }

    /// Ranks each schema's hits, with results of earlier phases.
    fn rank_again<T>(
        &mut self,
        schemas: &[RerankRequest],
        mut rank: impl FnMut(LaterPhaseHits<'_>) -> Result<T, millrace_ranking::Error>,
    ) -> Result<Vec<T>, Error> {
        if schemas.len() != self.passes.len() {
            return Err(Error::Share);
        }
        let mut all = Vec::with_capacity(schemas.len());
        for (schema, (pass, known)) in self.passes.iter_mut().zip(&mut self.known).enumerate() {
            let mut watch = StepStopwatch::start();
            all.push(rank(LaterPhaseHits {
                schema,
                profile: &pass.search.profile,
                over: RankedDocuments { plan: &pass.search.plan, view: pass.view(), matches: &pass.matches },
                hits: schemas[schema].hits(pass.view())?,
                known,
            })?);
            pass.trace.order += watch.lap();
        }
        Ok(all)
    }

    /// Builds the share.
    fn share(&mut self, filling: GroupFilling, deadline: &SearchDeadline) -> Result<NodeShare, Error> {
        let mut passed = Vec::with_capacity(self.passes.len());
        for (part, pass) in (0..).zip(&mut self.passes) {
            passed.push(pass.finish(part, deadline)?);
        }
        let groups = |execution: GroupingExecution| -> Result<ShareGroups, Error> {
            let mut by_summary: HashMap<Option<&str>, Vec<HitRef>> = HashMap::new();
            let wanted = match filling {
                GroupFilling::Now => execution.hits(),
                GroupFilling::Later => Vec::new(),
            };
            for (summary, hit) in wanted {
                by_summary.entry(summary).or_default().push(hit);
            }
            let mut hits = Vec::new();
            for (summary, references) in by_summary {
                let filled = self.fill(summary, &references, deadline)?;
                let filled = references.into_iter().zip(filled);
                hits.extend(filled.map(|(reference, hit)| (summary.map(str::to_owned), reference, hit)));
            }
            Ok(ShareGroups { hits, collected: execution.collected() })
        };
        let mut schemas = Vec::with_capacity(passed.len());
        for passed in passed {
            let of_requests = passed.executions.into_iter();
            let groups = of_requests.map(|execution| execution.map(groups).transpose());
            let groups = groups.collect::<Result<Vec<Option<ShareGroups>>, Error>>()?;
            let PassOutcome { result, collapse_keys, .. } = passed.outcome;
            let PartialResult { total_count, hits, coverage, .. } = result;
            schemas.push(SchemaShare {
                total_count,
                hits,
                collapse_keys,
                best: passed.best,
                coverage,
                groups,
            });
        }
        Ok(NodeShare { schemas, trace: Vec::new() })
    }
}

impl RerankRequest {
    /// Results of the first phase for its hits.
    fn first_phase_values(&self, hits: &[RankedHit]) -> GlobalHitValues {
        let ranks = self.hits.iter().map(|hit| hit.3);
        GlobalHitValues::new(hits.iter().copied().zip(ranks), self.max)
    }

    /// Returns the hits, if they are documents of this view.
    fn hits(&self, view: &dyn View) -> Result<Vec<RankedHit>, Error> {
        let chunks = view.chunks();
        let hit = |(chunk, document, score, _): &(usize, u16, f64, u32)| {
            let is_there = chunks.get(*chunk).is_some_and(|chunk| usize::from(*document) < chunk.documents);
            is_there
                .then_some(RankedHit { chunk: *chunk, document: *document, score: *score })
                .ok_or(Error::Share)
        };
        self.hits.iter().map(hit).collect()
    }
}
