//! Execution of one query over the documents of nodes: the requests to each, step by step, with the result
//! that one node with all documents would have given. A query over the documents of one node is a gathering
//! over one session in the same process ([`run_all`]), whose replies are moved.
//!
//! 1. If a rank profile uses statistics of words, every node sends those of its documents, and receives those
//!    of all.
//! 2. Every node sends its [`NodeShare`]: best hits, groups, counts. If no later phase ranks the hits again,
//!    this is the last ranking step.
//! 3. Later phases rank the best hits of all nodes: each node scores its own of them, and normalisation
//!    covers the hits of all.
//! 4. The returned hits are filled, each on its node. Nodes send the hits of groups with their share, because
//!    another round trip costs more; a session in the same process fills those that are returned.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use millrace_column::View;
use millrace_grouping::{GroupingExecution, PagedGroups};
use millrace_matching::TermStatistics;
use millrace_plan::QueryMemory;
use millrace_ranking::{LaterPhase, PhaseRanking};
use millrace_result::{GroupingResult, PartialResult, ResultHit, SearchCoverage};

use crate::collapse::CollapseKeys;
use crate::share::{
    NodeShare, RerankRequest, SchemaShare, ShareGroups, ShareReply, ShareRequest, ShareSession,
};
use crate::trace::StepStopwatch;
use crate::{Error, PassOutcome, PreparedSearch, SearchDeadline, SearchTrace};

/// Next action of a gathering.
#[derive(Debug)]
pub enum GatheringNext {
    /// Ask each node this, in order.
    Ask(Vec<ShareRequest>),
    /// The hits of all nodes: an outcome for each search, in order, the groups of all in the first.
    /// [`MergedOutcome::of`](crate::MergedOutcome::of) makes the result of them.
    Found(Vec<PassOutcome>),
}

/// A query on its way over nodes, which are numbered.
pub struct SearchGathering<S = Arc<PreparedSearch>> {
    searches: Vec<S>,
    nodes: usize,
    /// The only node is a session in this process, which fills hits of groups when they are chosen.
    is_local: bool,
    step: GatheringStep,
    schemas: Vec<MergedHits>,
    groups: Vec<MergedGroups>,
}

/// Step whose replies are awaited.
enum GatheringStep {
    Begin,
    Statistics,
    Share,
    Second,
    ToNormalize,
    Global,
    Fill,
    FillGroups,
}

/// Runs searches of one query in this process, each over its own documents: an outcome for each, in order.
/// Groups are built from all of them together, and are in the first outcome.
///
/// # Errors
/// Those of [`PreparedSearch::run`].
pub fn run_all(
    searches: &[(&PreparedSearch, &dyn View)],
    deadline: &SearchDeadline,
) -> Result<Vec<PassOutcome>, Error> {
    let mut session = ShareSession::new(searches.to_vec(), deadline)?;
    let mut gathering = SearchGathering::in_process(searches.iter().map(|(search, _)| *search).collect());
    let (mut watch, mut merging) = (StepStopwatch::start(), Duration::ZERO);
    let mut replies = Vec::new();
    loop {
        watch.lap();
        let next = gathering.next(replies)?;
        merging += watch.lap();
        match next {
            GatheringNext::Ask(asks) => {
                let answers = asks.into_iter().map(|ask| session.answer(ask, deadline));
                replies = answers.collect::<Result<_, _>>()?;
            }
            GatheringNext::Found(mut outcomes) => {
                let traces = session.traces();
                outcomes.iter_mut().zip(traces).for_each(|(outcome, trace)| outcome.trace = trace);
                if let Some(first) = outcomes.first_mut() {
                    first.trace.group += merging;
                }
                return Ok(outcomes);
            }
        }
    }
}

/// A hit of some node: the node's number, chunk, document.
type HitOfNode = (u32, usize, u16);

impl SearchGathering {
    /// Begins a gathering: call [`SearchGathering::next`] first with no replies.
    pub fn new(searches: Vec<Arc<PreparedSearch>>, nodes: usize) -> Self {
        Self::over(searches, nodes, false)
    }
}

impl<S: Deref<Target = PreparedSearch>> SearchGathering<S> {
    /// Begins a gathering over one session in this process.
    fn in_process(searches: Vec<S>) -> Self {
        Self::over(searches, 1, true)
    }

    fn over(searches: Vec<S>, nodes: usize, is_local: bool) -> Self {
        let schemas = searches.iter().map(|_| MergedHits::default()).collect();
        let step = GatheringStep::Begin;
        SearchGathering { searches, nodes, is_local, step, schemas, groups: Vec::new() }
    }

    /// Returns the number of schemas.
    pub fn schemas(&self) -> usize {
        self.searches.len()
    }

    /// Processes the replies of the nodes, in order, and returns the next action.
    ///
    /// # Errors
    /// A reply does not match its request, or this query.
    pub fn next(&mut self, mut replies: Vec<ShareReply>) -> Result<GatheringNext, Error> {
        let expected = if matches!(self.step, GatheringStep::Begin) { 0 } else { self.nodes };
        if replies.len() != expected {
            return Err(Error::Share);
        }
        match self.step {
            GatheringStep::Begin if self.nodes > 0 && self.needs_statistics() => {
                self.ask(GatheringStep::Statistics, vec![ShareRequest::Statistics; self.nodes])
            }
            GatheringStep::Begin => self.ask_shares(None),
            GatheringStep::Statistics => {
                let all = self.sum(replies)?;
                self.ask_shares(Some(all))
            }
            GatheringStep::Share => {
                self.merge(replies)?;
                self.ask_next(GatheringStep::Share)
            }
            GatheringStep::Second => {
                self.rescore(replies, LaterPhase::Second)?;
                self.ask_next(GatheringStep::Second)
            }
            GatheringStep::ToNormalize => {
                let asks = self.normalize(replies)?;
                self.ask(GatheringStep::Global, asks)
            }
            GatheringStep::Global => {
                self.rescore(replies, LaterPhase::Global)?;
                self.ask_next(GatheringStep::Global)
            }
            GatheringStep::Fill => {
                self.fill(replies)?;
                self.ask_next(GatheringStep::Fill)
            }
            GatheringStep::FillGroups => {
                let [ShareReply::GroupHits(hits)] = &mut replies[..] else { return Err(Error::Share) };
                let hits = std::mem::take(hits);
                self.finish(Some(hits))
            }
        }
    }

    fn ask(&mut self, step: GatheringStep, asks: Vec<ShareRequest>) -> Result<GatheringNext, Error> {
        self.step = step;
        match asks.is_empty() {
            true => self.finish(None),
            false => Ok(GatheringNext::Ask(asks)),
        }
    }

    fn ask_shares(&mut self, statistics: Option<Vec<TermStatistics>>) -> Result<GatheringNext, Error> {
        let ask = match self.is_local {
            true => ShareRequest::LocalShare(statistics),
            false => ShareRequest::Share(statistics),
        };
        self.ask(GatheringStep::Share, vec![ask; self.nodes])
    }

    /// Requests what comes after a step that has put the hits in order, or filled them.
    fn ask_next(&mut self, step: GatheringStep) -> Result<GatheringNext, Error> {
        let has = |phase: LaterPhase| self.schemas.iter().any(|merged| merged.hits_of(phase).is_some());
        match step {
            GatheringStep::Share if has(LaterPhase::Second) => {
                let asks = self.reranks(|merged| merged.hits_of(LaterPhase::Second));
                self.ask(GatheringStep::Second, asks.into_iter().map(ShareRequest::Second).collect())
            }
            GatheringStep::Share | GatheringStep::Second if has(LaterPhase::Global) => {
                let asks = self.reranks(|merged| merged.hits_of(LaterPhase::Global));
                self.ask(
                    GatheringStep::ToNormalize,
                    asks.into_iter().map(ShareRequest::ToNormalize).collect(),
                )
            }
            GatheringStep::Share | GatheringStep::Second | GatheringStep::Global
                if self.schemas.iter().any(|merged| merged.phases.is_some()) =>
            {
                let asks = self.reranks(MergedHits::returned);
                self.ask(GatheringStep::Fill, asks.into_iter().map(ShareRequest::Fill).collect())
            }
            _ if self.is_local && self.groups.iter().any(|groups| groups.paged.has_hits()) => {
                let references = self.groups.iter().flat_map(|groups| groups.paged.references()).collect();
                self.ask(GatheringStep::FillGroups, vec![ShareRequest::FillGroups(references)])
            }
            _ => self.finish(None),
        }
    }

    fn needs_statistics(&self) -> bool {
        self.searches.iter().any(|search| search.profile.demands(&search.plan).statistics)
    }

    /// The statistics of all nodes together.
    fn sum(&self, replies: Vec<ShareReply>) -> Result<Vec<TermStatistics>, Error> {
        let mut all = vec![TermStatistics::default(); self.searches.len()];
        for reply in replies {
            let ShareReply::Statistics(of_node) = reply else { return Err(Error::Share) };
            all.iter_mut().zip(&of_node).for_each(|(sum, one)| sum.add(one));
        }
        Ok(all)
    }

    fn merge(&mut self, replies: Vec<ShareReply>) -> Result<(), Error> {
        let mut groupings = MergedGroupings::new(&self.searches);
        for (node, reply) in (0u32..).zip(replies) {
            let ShareReply::Share(NodeShare { schemas, .. }) = reply else { return Err(Error::Share) };
            if schemas.len() != self.searches.len() {
                return Err(Error::Share);
            }
            let first_part = node.saturating_mul(self.searches.len() as u32);
            for (schema, of_schema) in schemas.into_iter().enumerate() {
                let groups = self.schemas[schema].add(node, of_schema);
                groupings.add(schema, groups, first_part)?;
            }
        }
        self.groups = groupings.finish()?;
        for (merged, search) in self.schemas.iter_mut().zip(&self.searches) {
            merged.wanted = search.wanted();
            merged.phases = search.reranking().map(|reranking| {
                PhaseRanking::new(reranking, std::mem::take(&mut merged.best), merged.wanted)
            });
        }
        Ok(())
    }

    /// Chosen hits, by node and schema.
    fn reranks(
        &self,
        chosen: impl Fn(&MergedHits) -> Option<&[(HitOfNode, f64)]>,
    ) -> Vec<Vec<RerankRequest>> {
        let mut nodes = vec![vec![RerankRequest::default(); self.schemas.len()]; self.nodes];
        for (at, merged) in self.schemas.iter().enumerate() {
            nodes.iter_mut().for_each(|schemas| schemas[at].max = merged.max);
            for (hit, score) in chosen(merged).unwrap_or_default() {
                let (node, chunk, document) = *hit;
                let rank = merged.phases.as_ref().map_or(0, |phases| phases.first_rank(hit));
                nodes[node as usize][at].hits.push((chunk, document, *score, rank));
            }
        }
        nodes
    }

    /// Gives hits the scores that their nodes have given them.
    fn rescore(&mut self, replies: Vec<ShareReply>, phase: LaterPhase) -> Result<(), Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let ShareReply::Scores(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas);
        }
        for (at, merged) in self.schemas.iter_mut().enumerate() {
            let Some(hits) = merged.hits_of(phase) else { continue };
            let scores = in_order(hits, &nodes, at)?;
            merged.rescore(phase, scores.as_deref());
        }
        Ok(())
    }

    /// Returns the requests of the global phase, with the numbers normalised over all nodes.
    fn normalize(&mut self, replies: Vec<ShareReply>) -> Result<Vec<ShareRequest>, Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let ShareReply::Numbers(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas);
        }
        let mut normalized = vec![vec![Vec::new(); self.schemas.len()]; self.nodes];
        for (at, (merged, search)) in self.schemas.iter_mut().zip(&self.searches).enumerate() {
            let Some(hits) = merged.hits_of(LaterPhase::Global) else { continue };
            if nodes.iter().any(|schemas| schemas.get(at).is_none_or(Option::is_none)) {
                merged.rescore(LaterPhase::Global, None);
                continue;
            }
            let normalizers =
                nodes.iter().filter_map(|schemas| schemas[at].as_ref()).map(Vec::len).max().unwrap_or(0);
            let mut numbers = Vec::with_capacity(normalizers);
            for normalizer in 0..normalizers {
                // A node that has none of the hits may say nothing.
                let of_node = |schemas: &Vec<Option<Vec<Vec<f64>>>>| {
                    let numbers = schemas[at].as_ref().and_then(|of| of.get(normalizer));
                    vec![Some(numbers.cloned().unwrap_or_default())]
                };
                let of_nodes: Vec<Vec<Option<Vec<f64>>>> = nodes.iter().map(of_node).collect();
                numbers.push(in_order(hits, &of_nodes, 0)?.ok_or(Error::Share)?);
            }
            for numbers in search.profile.normalized(&numbers) {
                let mut of_nodes = vec![Vec::new(); self.nodes];
                for (((node, ..), _), number) in hits.iter().zip(numbers) {
                    of_nodes[*node as usize].push(number);
                }
                of_nodes.into_iter().zip(&mut normalized).for_each(|(numbers, node)| node[at].push(numbers));
            }
        }
        let reranks = self.reranks(|merged| merged.hits_of(LaterPhase::Global)).into_iter().zip(normalized);
        Ok(reranks
            .map(|(reranks, normalized)| ShareRequest::Global(reranks.into_iter().zip(normalized).collect()))
            .collect())
    }

    fn fill(&mut self, replies: Vec<ShareReply>) -> Result<(), Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let ShareReply::Hits(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas.into_iter().map(Vec::into_iter).collect::<Vec<_>>());
        }
        for (at, merged) in self.schemas.iter_mut().enumerate() {
            for ((node, ..), _) in merged.phases.iter().flat_map(|phases| phases.best(merged.wanted)) {
                let of_node = nodes.get_mut(*node as usize).and_then(|schemas| schemas.get_mut(at));
                let hit = of_node.and_then(Iterator::next).ok_or(Error::Share)?;
                merged.hits.push((hit, Vec::new()));
            }
        }
        Ok(())
    }

    /// Returns the outcome. `hits` are those of groups, by request and document summary, where they were
    /// asked for; else they came with the shares.
    fn finish(&mut self, hits: Option<Vec<Vec<ResultHit>>>) -> Result<GatheringNext, Error> {
        let schemas = std::mem::take(&mut self.schemas).into_iter().zip(&self.searches);
        let mut outcomes: Vec<PassOutcome> = schemas.map(|(merged, search)| merged.finish(search)).collect();
        let mut hits = hits.map(Vec::into_iter);
        let searches = &self.searches;
        let fill = |groups: MergedGroups| groups.fill(hits.as_mut(), &searches[0].plan.memory);
        let groupings: Vec<GroupingResult> =
            std::mem::take(&mut self.groups).into_iter().map(fill).collect::<Result<_, _>>()?;
        if let Some(first) = outcomes.first_mut() {
            first.result.groupings = groupings;
        }
        Ok(GatheringNext::Found(outcomes))
    }
}

/// The hits of one schema, of all nodes.
#[derive(Default)]
struct MergedHits {
    total_count: u64,
    coverage: SearchCoverage,
    hits: Vec<(ResultHit, CollapseKeys)>,
    /// Number of nodes that have hits, each its own in order.
    nodes: usize,
    wanted: usize,
    best: Vec<(HitOfNode, f64)>,
    max: Option<f64>,
    /// The order of the hits, if later phases determine it.
    phases: Option<PhaseRanking<HitOfNode>>,
}

impl MergedHits {
    /// Adds the share of a node; returns its groups.
    fn add(&mut self, node: u32, of_schema: SchemaShare) -> Vec<Option<ShareGroups>> {
        self.total_count += of_schema.total_count;
        self.coverage.merge(&of_schema.coverage);
        self.nodes += usize::from(!of_schema.hits.is_empty());
        let keys = of_schema.collapse_keys.into_iter().chain(std::iter::repeat_with(Vec::new));
        self.hits.extend(of_schema.hits.into_iter().zip(keys));
        if let Some(best) = of_schema.best {
            self.max = self.max.into_iter().chain(best.max).reduce(f64::max);
            let of_node = |(chunk, document, score)| ((node, chunk, document), score);
            self.best.extend(best.hits.into_iter().map(of_node));
        }
        of_schema.groups
    }

    /// The hits that a phase ranks, if it takes place.
    fn hits_of(&self, phase: LaterPhase) -> Option<&[(HitOfNode, f64)]> {
        self.phases.as_ref()?.hits_of(phase)
    }

    /// The hits that are returned, if later phases determine their order.
    fn returned(&self) -> Option<&[(HitOfNode, f64)]> {
        Some(self.phases.as_ref()?.best(self.wanted))
    }

    fn rescore(&mut self, phase: LaterPhase, scores: Option<&[f64]>) {
        if let Some(phases) = &mut self.phases {
            let dropped = phases.dropped();
            phases.rescore(phase, scores);
            self.total_count -= phases.dropped() - dropped;
            self.coverage.timed_out |= phases.is_stopped();
        }
    }

    fn finish(self, search: &PreparedSearch) -> PassOutcome {
        let mut hits = self.hits;
        if self.nodes > 1 && self.phases.is_none() {
            hits.sort_by(|(one, _), (other, _)| one.order(other));
        }
        let (hits, mut collapse_keys): (Vec<ResultHit>, Vec<CollapseKeys>) = hits.into_iter().unzip();
        if search.plan().collapse.is_none() {
            collapse_keys.clear();
        }
        let trace = SearchTrace {
            documents: self.coverage.documents,
            matched: self.total_count,
            ..SearchTrace::default()
        };
        let result = PartialResult {
            total_count: self.total_count,
            hits,
            groupings: Vec::new(),
            coverage: self.coverage,
        };
        PassOutcome { result, trace, collapse_keys }
    }
}

/// Returns the numbers that nodes have sent for hits, in the order of the hits; `None` if a node ran out of
/// time.
fn in_order(
    hits: &[(HitOfNode, f64)],
    nodes: &[Vec<Option<Vec<f64>>>],
    schema: usize,
) -> Result<Option<Vec<f64>>, Error> {
    let mut iterators = Vec::with_capacity(nodes.len());
    for schemas in nodes {
        match schemas.get(schema).ok_or(Error::Share)? {
            Some(numbers) => iterators.push(numbers.iter()),
            None => return Ok(None),
        }
    }
    let mut numbers = Vec::with_capacity(hits.len());
    for ((node, ..), _) in hits {
        let next = iterators.get_mut(*node as usize).and_then(Iterator::next);
        numbers.push(*next.ok_or(Error::Share)?);
    }
    Ok(Some(numbers))
}

/// Groups of each request, of all schemas and nodes so far.
struct MergedGroupings<'s, S> {
    searches: &'s [S],
    requests: Vec<(Option<GroupingExecution>, GroupHits)>,
}

/// Filled hits by their references. A hit can be in several groups.
type GroupHits = HashMap<(Option<String>, (u32, usize, u16)), ResultHit>;

impl<'s, S: Deref<Target = PreparedSearch>> MergedGroupings<'s, S> {
    fn new(searches: &'s [S]) -> Self {
        let requests = searches.iter().map(|search| search.grouping_requests()).max().unwrap_or(0);
        MergedGroupings { searches, requests: (0..requests).map(|_| (None, HashMap::new())).collect() }
    }

    fn add(&mut self, schema: usize, groups: Vec<Option<ShareGroups>>, first_part: u32) -> Result<(), Error> {
        for (request, groups) in groups.into_iter().enumerate() {
            let Some(groups) = groups else { continue };
            let grouping = self.searches[schema].grouping(request).ok_or(Error::Share)?;
            let (merged, hits) = self.requests.get_mut(request).ok_or(Error::Share)?;
            let execution = groups.collected.resume(Arc::clone(grouping), first_part)?;
            match merged {
                None => *merged = Some(execution),
                Some(merged) => merged.merge(execution),
            }
            hits.extend(groups.hits.into_iter().map(|(summary, reference, hit)| {
                let part = reference.part.saturating_add(first_part);
                ((summary, (part, reference.chunk, reference.document)), hit)
            }));
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<MergedGroups>, Error> {
        let mut all = Vec::new();
        for (number, (execution, hits)) in (0..).zip(self.requests) {
            let Some(execution) = execution else { continue };
            // All searches of a query have its memory.
            let memory = &self.searches[0].plan.memory;
            let paged = execution.paged(number, &mut |bytes| memory.take(bytes).map_err(Error::from))?;
            all.push(MergedGroups { paged, hits });
        }
        Ok(all)
    }
}

/// Groups of a request on their pages, and the hits that came with them.
struct MergedGroups {
    paged: PagedGroups,
    hits: GroupHits,
}

impl MergedGroups {
    /// Returns the groups with their hits: those that were asked for, one list for each document summary, or
    /// those that came with them.
    fn fill(
        self,
        asked: Option<&mut std::vec::IntoIter<Vec<ResultHit>>>,
        memory: &QueryMemory,
    ) -> Result<GroupingResult, Error> {
        let MergedGroups { paged, hits } = self;
        match asked {
            Some(asked) => paged.fill(&mut |_, _| asked.next().ok_or(Error::Share)),
            None => paged.fill(&mut |summary, references| {
                let summary = summary.map(str::to_owned);
                let filled = references.iter().map(|hit| {
                    let key = (hit.part, hit.chunk, hit.document);
                    let hit = hits.get(&(summary.clone(), key)).ok_or(Error::Share)?;
                    // A document can be in thousands of groups.
                    memory.take(hit.memory_bytes())?;
                    Ok(hit.clone())
                });
                filled.collect()
            }),
        }
    }
}
