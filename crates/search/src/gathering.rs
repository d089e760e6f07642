//! Execution of one query over documents of several nodes: the requests to each, step by step, with the
//! result that one node with all documents would have given.
//!
//! 1. If a rank profile uses statistics of words, every node sends those of its documents, and receives those
//!    of all.
//! 2. Every node sends its [`NodeShare`]: best hits, groups, counts. If no later phase ranks the hits again,
//!    this is the last ranking step.
//! 3. Later phases rank the best hits of all nodes: each node scores its own of them, and normalisation
//!    covers the hits of all.
//! 4. The returned hits are filled, each on its node.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::View;
use millrace_grouping::{GroupingExecution, HitRef};
use millrace_matching::TermStatistics;
use millrace_ranking::{PhaseRerank, PhaseReranking, RankedList};
use millrace_result::{GroupingResult, PartialResult, ResultHit, SearchCoverage};

use crate::collapse::CollapseKeys;
use crate::share::{
    NodeShare, RerankRequest, SchemaShare, ShareGroups, ShareReply, ShareRequest, ShareSession,
};
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

/// A query on its way over several nodes, which are numbered.
pub struct SearchGathering {
    searches: Vec<Arc<PreparedSearch>>,
    nodes: usize,
    step: GatheringStep,
    schemas: Vec<MergedHits>,
    groupings: Vec<GroupingResult>,
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
}

/// Runs searches over one node's documents as if there were several nodes: the plain path to the result of
/// [`run_all`](crate::run_all).
///
/// # Errors
/// As [`PreparedSearch::run`].
pub fn run_gathered(
    searches: Vec<(Arc<PreparedSearch>, Arc<dyn View>)>,
    deadline: &SearchDeadline,
) -> Result<Vec<PassOutcome>, Error> {
    let mut gathering =
        SearchGathering::new(searches.iter().map(|(search, _)| Arc::clone(search)).collect(), 1);
    let mut session = ShareSession::new(searches, deadline)?;
    let mut replies = Vec::new();
    loop {
        match gathering.next(replies)? {
            GatheringNext::Found(outcomes) => return Ok(outcomes),
            GatheringNext::Ask(asks) => {
                let answers = asks.into_iter().map(|ask| session.answer(ask, deadline));
                replies = answers.collect::<Result<_, _>>()?;
            }
        }
    }
}

/// A hit of some node: the node's number, chunk, document.
type PlaceOfHit = (u32, usize, u16);

impl SearchGathering {
    /// Begins a gathering: call [`SearchGathering::next`] first with no replies.
    pub fn new(searches: Vec<Arc<PreparedSearch>>, nodes: usize) -> Self {
        let schemas = searches.iter().map(|_| MergedHits::default()).collect();
        SearchGathering { searches, nodes, step: GatheringStep::Begin, schemas, groupings: Vec::new() }
    }

    /// Returns the number of schemas.
    pub fn schemas(&self) -> usize {
        self.searches.len()
    }

    /// Processes the replies of the nodes, in order, and returns the next action.
    ///
    /// # Errors
    /// A reply does not match its request, or this query.
    pub fn next(&mut self, replies: Vec<ShareReply>) -> Result<GatheringNext, Error> {
        let expected = if matches!(self.step, GatheringStep::Begin) { 0 } else { self.nodes };
        if replies.len() != expected {
            return Err(Error::Share);
        }
        match self.step {
            GatheringStep::Begin if self.nodes > 0 && self.needs_statistics() => {
                Ok(self.ask(GatheringStep::Statistics, vec![ShareRequest::Statistics; self.nodes]))
            }
            GatheringStep::Begin => {
                Ok(self.ask(GatheringStep::Share, vec![ShareRequest::Share(None); self.nodes]))
            }
            GatheringStep::Statistics => {
                let all = self.sum(replies)?;
                Ok(self.ask(GatheringStep::Share, vec![ShareRequest::Share(Some(all)); self.nodes]))
            }
            GatheringStep::Share => {
                self.merge(replies)?;
                self.after(GatheringStep::Share)
            }
            GatheringStep::Second => {
                self.rescore(replies, |merged| merged.reranking.second)?;
                self.after(GatheringStep::Second)
            }
            GatheringStep::ToNormalize => {
                let asks = self.normalize(replies)?;
                Ok(self.ask(GatheringStep::Global, asks))
            }
            GatheringStep::Global => {
                self.rescore(replies, |merged| merged.reranking.global)?;
                self.after(GatheringStep::Global)
            }
            GatheringStep::Fill => {
                self.fill(replies)?;
                Ok(self.found())
            }
        }
    }

    fn ask(&mut self, step: GatheringStep, asks: Vec<ShareRequest>) -> GatheringNext {
        self.step = step;
        match asks.is_empty() {
            true => self.found(),
            false => GatheringNext::Ask(asks),
        }
    }

    /// Returns the action after a step that has put the hits in order.
    fn after(&mut self, step: GatheringStep) -> Result<GatheringNext, Error> {
        let has = |phase: fn(&MergedHits) -> Option<PhaseRerank>, of: &Self| {
            of.schemas.iter().any(|merged| phase(merged).is_some())
        };
        let second: fn(&MergedHits) -> Option<PhaseRerank> = |merged| merged.phase(merged.reranking.second);
        let global: fn(&MergedHits) -> Option<PhaseRerank> = |merged| merged.phase(merged.reranking.global);
        Ok(match step {
            GatheringStep::Share if has(second, self) => {
                let asks = self.agains(second).into_iter().map(ShareRequest::Second).collect();
                self.ask(GatheringStep::Second, asks)
            }
            GatheringStep::Share | GatheringStep::Second if has(global, self) => {
                let asks = self.agains(global).into_iter().map(ShareRequest::ToNormalize).collect();
                self.ask(GatheringStep::ToNormalize, asks)
            }
            _ if self.schemas.iter().any(|merged| merged.is_ranked_later) => {
                for (merged, search) in self.schemas.iter_mut().zip(&self.searches) {
                    merged.wanted = search.wanted();
                }
                let all: fn(&MergedHits) -> Option<PhaseRerank> =
                    |merged| Some(PhaseRerank { count: merged.wanted, drop_limit: None });
                let asks = self.agains(all).into_iter().map(ShareRequest::Fill).collect();
                self.ask(GatheringStep::Fill, asks)
            }
            _ => self.found(),
        })
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
            let ShareReply::Share(NodeShare { schemas }) = reply else { return Err(Error::Share) };
            if schemas.len() != self.searches.len() {
                return Err(Error::Share);
            }
            let first_part = node.saturating_mul(self.searches.len() as u32);
            for (place, of_schema) in schemas.into_iter().enumerate() {
                let groups = self.schemas[place].add(node, of_schema);
                groupings.add(place, groups, first_part)?;
            }
        }
        self.groupings = groupings.finish()?;
        for (merged, search) in self.schemas.iter_mut().zip(&self.searches) {
            if let Some(reranking) = search.reranking() {
                merged.begin_ranking(reranking, search.wanted());
            }
        }
        Ok(())
    }

    /// The best hits of a phase, by node and schema.
    fn agains(&self, phase: fn(&MergedHits) -> Option<PhaseRerank>) -> Vec<Vec<RerankRequest>> {
        let mut nodes = vec![vec![RerankRequest::default(); self.schemas.len()]; self.nodes];
        for (at, merged) in self.schemas.iter().enumerate() {
            nodes.iter_mut().for_each(|schemas| schemas[at].max = merged.max);
            let Some(phase) = phase(merged) else { continue };
            for ((node, chunk, document), score) in merged.standing.best(phase.count) {
                let rank = merged.ranks.get(&(*node, *chunk, *document)).copied().unwrap_or(0);
                nodes[*node as usize][at].hits.push((*chunk, *document, *score, rank));
            }
        }
        nodes
    }

    /// Gives hits the scores that their nodes have given them.
    fn rescore(
        &mut self,
        replies: Vec<ShareReply>,
        phase: fn(&MergedHits) -> Option<PhaseRerank>,
    ) -> Result<(), Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let ShareReply::Scores(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas);
        }
        for (at, merged) in self.schemas.iter_mut().enumerate() {
            let Some(phase) = merged.phase(phase(merged)) else { continue };
            match merged.in_order(phase, &nodes, at)? {
                Some(scores) => {
                    let dropped = merged.standing.rescore(&scores, phase.drop_limit);
                    merged.total_count -= dropped;
                }
                None => merged.stop(),
            }
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
        let global: fn(&MergedHits) -> Option<PhaseRerank> = |merged| merged.phase(merged.reranking.global);
        let mut normalized = vec![vec![Vec::new(); self.schemas.len()]; self.nodes];
        for (at, (merged, search)) in self.schemas.iter_mut().zip(&self.searches).enumerate() {
            let Some(phase) = global(merged) else { continue };
            merged.standing.truncate(merged.wanted.max(phase.count));
            if nodes.iter().any(|schemas| schemas.get(at).is_none_or(Option::is_none)) {
                merged.stop();
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
                numbers.push(merged.in_order(phase, &of_nodes, 0)?.ok_or(Error::Share)?);
            }
            for numbers in search.profile.normalized(&numbers) {
                let mut of_nodes = vec![Vec::new(); self.nodes];
                for (((node, ..), _), number) in merged.standing.best(phase.count).iter().zip(numbers) {
                    of_nodes[*node as usize].push(number);
                }
                of_nodes.into_iter().zip(&mut normalized).for_each(|(numbers, node)| node[at].push(numbers));
            }
        }
        let agains = self.agains(global).into_iter().zip(normalized);
        Ok(agains
            .map(|(agains, normalized)| ShareRequest::Global(agains.into_iter().zip(normalized).collect()))
            .collect())
    }

    fn fill(&mut self, replies: Vec<ShareReply>) -> Result<(), Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let ShareReply::Hits(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas.into_iter().map(Vec::into_iter).collect::<Vec<_>>());
        }
        for (at, merged) in self.schemas.iter_mut().enumerate() {
            if !merged.is_ranked_later {
                continue;
            }
            for ((node, ..), _) in merged.standing.best(merged.wanted) {
                let of_node = nodes.get_mut(*node as usize).and_then(|schemas| schemas.get_mut(at));
                let hit = of_node.and_then(Iterator::next).ok_or(Error::Share)?;
                merged.hits.push((hit, Vec::new()));
            }
        }
        Ok(())
    }

    fn found(&mut self) -> GatheringNext {
        let schemas = std::mem::take(&mut self.schemas).into_iter().zip(&self.searches);
        let mut outcomes: Vec<PassOutcome> = schemas.map(|(merged, search)| merged.finish(search)).collect();
        if let Some(first) = outcomes.first_mut() {
            first.result.groupings = std::mem::take(&mut self.groupings);
        }
        GatheringNext::Found(outcomes)
    }
}

/// The hits of one schema, of all nodes.
#[derive(Default)]
struct MergedHits {
    total_count: u64,
    coverage: SearchCoverage,
    hits: Vec<(ResultHit, CollapseKeys)>,
    wanted: usize,
    /// Later phases give the hits their order.
    is_ranked_later: bool,
    reranking: PhaseReranking,
    best: Vec<(PlaceOfHit, f64)>,
    max: Option<f64>,
    standing: RankedList<PlaceOfHit>,
    ranks: HashMap<PlaceOfHit, u32>,
    /// There was no time for a phase: the hits keep the scores that they have.
    stopped: bool,
}

impl MergedHits {
    /// Adds the share of a node; returns its groups.
    fn add(&mut self, node: u32, of_schema: SchemaShare) -> Vec<Option<ShareGroups>> {
        self.total_count += of_schema.total_count;
        self.coverage.merge(&of_schema.coverage);
        let keys = of_schema.collapse_keys.into_iter().chain(std::iter::repeat_with(Vec::new));
        self.hits.extend(of_schema.hits.into_iter().zip(keys));
        if let Some(best) = of_schema.best {
            self.max = self.max.into_iter().chain(best.max).reduce(f64::max);
            let place = |(chunk, document, score)| ((node, chunk, document), score);
            self.best.extend(best.hits.into_iter().map(place));
        }
        of_schema.groups
    }

    fn begin_ranking(&mut self, reranking: PhaseReranking, wanted: usize) {
        let all = RankedList::new(std::mem::take(&mut self.best));
        self.standing = RankedList::new(all.best(reranking.depth(wanted)).to_vec());
        self.ranks = self.standing.best(usize::MAX).iter().map(|(place, _)| *place).zip(1..).collect();
        (self.is_ranked_later, self.reranking) = (true, reranking);
    }

    /// A phase, if it is to be run.
    fn phase(&self, phase: Option<PhaseRerank>) -> Option<PhaseRerank> {
        phase.filter(|phase| self.is_ranked_later && !self.stopped && phase.count > 0)
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.coverage.timed_out = true;
    }

    /// Returns the replies of the nodes for the hits of a phase, in the order of the hits; `None` if a node
    /// ran out of time.
    fn in_order(
        &self,
        phase: PhaseRerank,
        nodes: &[Vec<Option<Vec<f64>>>],
        at: usize,
    ) -> Result<Option<Vec<f64>>, Error> {
        let mut iterators = Vec::with_capacity(nodes.len());
        for schemas in nodes {
            match schemas.get(at).ok_or(Error::Share)? {
                Some(numbers) => iterators.push(numbers.iter()),
                None => return Ok(None),
            }
        }
        let mut numbers = Vec::new();
        for ((node, ..), _) in self.standing.best(phase.count) {
            let next = iterators.get_mut(*node as usize).and_then(Iterator::next);
            numbers.push(*next.ok_or(Error::Share)?);
        }
        Ok(Some(numbers))
    }

    fn finish(self, search: &PreparedSearch) -> PassOutcome {
        let mut hits = self.hits;
        if !self.is_ranked_later {
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

/// Groups of each request, of all schemas and nodes so far.
struct MergedGroupings<'s> {
    searches: &'s [Arc<PreparedSearch>],
    requests: Vec<(Option<GroupingExecution>, GroupHits)>,
}

/// Filled hits by their references. A hit can be in several groups.
type GroupHits = HashMap<(Option<String>, (u32, usize, u16)), ResultHit>;

impl<'s> MergedGroupings<'s> {
    fn new(searches: &'s [Arc<PreparedSearch>]) -> Self {
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

    fn finish(self) -> Result<Vec<GroupingResult>, Error> {
        let finish = |(number, (execution, hits)): (usize, (Option<GroupingExecution>, GroupHits))| {
            let memory = &self.searches[0].plan.memory;
            let fill = &mut |summary: Option<&str>, references: &[HitRef]| {
                let summary = summary.map(str::to_owned);
                let filled = references.iter().map(|hit| {
                    let place = (hit.part, hit.chunk, hit.document);
                    let hit = hits.get(&(summary.clone(), place)).ok_or(Error::Share)?;
                    // A document can be in thousands of groups.
                    memory.take(hit.memory_bytes())?;
                    Ok(hit.clone())
                });
                filled.collect()
            };
            execution.map(|execution| execution.finish(number as u32, fill)).transpose()
        };
        self.requests.into_iter().enumerate().filter_map(|request| finish(request).transpose()).collect()
    }
}
