//! One query over documents of several nodes: what each is asked, step by step, and the result that one node with all documents would have
//! given.
//!
//! 1. Where a rank profile uses statistics of words, every node tells those of its documents, and is told those of all.
//! 2. Every node gives its [`Share`](crate::share::Share): best hits, groups, counts. Where no later phase ranks them again, that is all.
//! 3. Later phases rank the best hits of all nodes: each node scores its own of them, what is normalised is normalised over all.
//! 4. The hits that are returned are filled, each where it lies.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_column::View;
use millrace_grouping::{Execution, HitRef};
use millrace_matching::Statistics;
use millrace_ranking::{Rerank, Reranking, Standing};
use millrace_result::{Coverage, GroupingResult, Hit, PartialResult};

use crate::collapse::{CollapseKeys, Collapsing};
use crate::share::{Again, Ask, Groups, OfSchema, Reply, Session, Share};
use crate::{Deadline, Error, Outcome, Search, Trace};

/// What is to be done next.
#[derive(Debug)]
pub enum Next {
    /// Ask each node this, in order.
    Ask(Vec<Ask>),
    /// That is it: an outcome for each search, in order, the groups of all in the first.
    Found(Vec<Outcome>),
}

/// A query on its way over several nodes, which are numbered.
pub struct Gathering {
    searches: Vec<Arc<Search>>,
    nodes: usize,
    step: Step,
    schemas: Vec<Merged>,
    groupings: Vec<GroupingResult>,
}

/// What the last question was.
enum Step {
    Begin,
    Statistics,
    Share,
    Second,
    ToNormalize,
    Global,
    Fill,
}

/// Runs searches over one node's documents as if there were several nodes: the plain way to what [`run_all`](crate::run_all) finds.
///
/// # Errors
/// As [`Search::run`].
pub fn run_gathered(
    searches: Vec<(Arc<Search>, Arc<dyn View>)>,
    deadline: &Deadline,
) -> Result<Vec<Outcome>, Error> {
    let mut gathering = Gathering::new(searches.iter().map(|(search, _)| Arc::clone(search)).collect(), 1);
    let mut session = Session::new(searches, deadline)?;
    let mut replies = Vec::new();
    loop {
        match gathering.next(replies)? {
            Next::Found(outcomes) => return Ok(outcomes),
            Next::Ask(asks) => {
                let answers = asks.into_iter().map(|ask| session.answer(ask, deadline));
                replies = answers.collect::<Result<_, _>>()?;
            }
        }
    }
}

/// A hit of some node: the node's number, chunk, document.
type PlaceOfHit = (u32, usize, u16);

impl Gathering {
    /// Begins: the first answers are none.
    pub fn new(searches: Vec<Arc<Search>>, nodes: usize) -> Self {
        let schemas = searches.iter().map(|_| Merged::default()).collect();
        Gathering { searches, nodes, step: Step::Begin, schemas, groupings: Vec::new() }
    }

    /// How many schemas are asked.
    pub fn schemas(&self) -> usize {
        self.searches.len()
    }

    /// Takes in what the nodes answered, in order, and says what follows.
    ///
    /// # Errors
    /// An answer is not to the question, or not to this query.
    pub fn next(&mut self, replies: Vec<Reply>) -> Result<Next, Error> {
        let expected = if matches!(self.step, Step::Begin) { 0 } else { self.nodes };
        if replies.len() != expected {
            return Err(Error::Share);
        }
        match self.step {
            Step::Begin if self.nodes > 0 && self.needs_statistics() => {
                Ok(self.ask(Step::Statistics, vec![Ask::Statistics; self.nodes]))
            }
            Step::Begin => Ok(self.ask(Step::Share, vec![Ask::Share(None); self.nodes])),
            Step::Statistics => {
                let all = self.sum(replies)?;
                Ok(self.ask(Step::Share, vec![Ask::Share(Some(all)); self.nodes]))
            }
            Step::Share => {
                self.merge(replies)?;
                self.after(Step::Share)
            }
            Step::Second => {
                self.rescore(replies, |merged| merged.reranking.second)?;
                self.after(Step::Second)
            }
            Step::ToNormalize => {
                let asks = self.normalize(replies)?;
                Ok(self.ask(Step::Global, asks))
            }
            Step::Global => {
                self.rescore(replies, |merged| merged.reranking.global)?;
                self.after(Step::Global)
            }
            Step::Fill => {
                self.fill(replies)?;
                Ok(self.found())
            }
        }
    }

    fn ask(&mut self, step: Step, asks: Vec<Ask>) -> Next {
        self.step = step;
        match asks.is_empty() {
            true => self.found(),
            false => Next::Ask(asks),
        }
    }

    /// What follows after a step that has put the hits in order.
    fn after(&mut self, step: Step) -> Result<Next, Error> {
        let has = |phase: fn(&Merged) -> Option<Rerank>, of: &Self| {
            of.schemas.iter().any(|merged| phase(merged).is_some())
        };
        let second: fn(&Merged) -> Option<Rerank> = |merged| merged.phase(merged.reranking.second);
        let global: fn(&Merged) -> Option<Rerank> = |merged| merged.phase(merged.reranking.global);
        Ok(match step {
            Step::Share if has(second, self) => {
                let asks = self.agains(second).into_iter().map(Ask::Second).collect();
                self.ask(Step::Second, asks)
            }
            Step::Share | Step::Second if has(global, self) => {
                let asks = self.agains(global).into_iter().map(Ask::ToNormalize).collect();
                self.ask(Step::ToNormalize, asks)
            }
            _ if self.schemas.iter().any(|merged| merged.is_ranked_later) => {
                for (merged, search) in self.schemas.iter_mut().zip(&self.searches) {
                    merged.wanted = search.wanted();
                }
                let all: fn(&Merged) -> Option<Rerank> =
                    |merged| Some(Rerank { count: merged.wanted, drop_limit: None });
                let asks = self.agains(all).into_iter().map(Ask::Fill).collect();
                self.ask(Step::Fill, asks)
            }
            _ => self.found(),
        })
    }

    fn needs_statistics(&self) -> bool {
        self.searches.iter().any(|search| search.profile.demands(&search.plan).statistics)
    }

    /// The statistics of all nodes together.
    fn sum(&self, replies: Vec<Reply>) -> Result<Vec<Statistics>, Error> {
        let mut all = vec![Statistics::default(); self.searches.len()];
        for reply in replies {
            let Reply::Statistics(of_node) = reply else { return Err(Error::Share) };
            all.iter_mut().zip(&of_node).for_each(|(sum, one)| sum.add(one));
        }
        Ok(all)
    }

    fn merge(&mut self, replies: Vec<Reply>) -> Result<(), Error> {
        let mut groupings = Groupings::new(&self.searches);
        for (node, reply) in (0u32..).zip(replies) {
            let Reply::Share(Share { schemas }) = reply else { return Err(Error::Share) };
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
    fn agains(&self, phase: fn(&Merged) -> Option<Rerank>) -> Vec<Vec<Again>> {
        let mut nodes = vec![vec![Again::default(); self.schemas.len()]; self.nodes];
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
    fn rescore(&mut self, replies: Vec<Reply>, phase: fn(&Merged) -> Option<Rerank>) -> Result<(), Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let Reply::Scores(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas);
        }
        for (at, merged) in self.schemas.iter_mut().enumerate() {
            let Some(phase) = merged.phase(phase(merged)) else { continue };
            match merged.in_order(phase, &nodes, at)? {
                Some(scores) => merged.standing.rescore(&scores, phase.drop_limit),
                None => merged.stop(),
            }
        }
        Ok(())
    }

    /// What the global phase is asked, with the numbers normalised over all nodes.
    fn normalize(&mut self, replies: Vec<Reply>) -> Result<Vec<Ask>, Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let Reply::Numbers(schemas) = reply else { return Err(Error::Share) };
            nodes.push(schemas);
        }
        let global: fn(&Merged) -> Option<Rerank> = |merged| merged.phase(merged.reranking.global);
        let mut normalized = vec![vec![Vec::new(); self.schemas.len()]; self.nodes];
        for (at, (merged, search)) in self.schemas.iter_mut().zip(&self.searches).enumerate() {
            let Some(phase) = global(merged) else { continue };
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
            .map(|(agains, normalized)| Ask::Global(agains.into_iter().zip(normalized).collect()))
            .collect())
    }

    fn fill(&mut self, replies: Vec<Reply>) -> Result<(), Error> {
        let mut nodes = Vec::with_capacity(replies.len());
        for reply in replies {
            let Reply::Hits(schemas) = reply else { return Err(Error::Share) };
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

    fn found(&mut self) -> Next {
        let schemas = std::mem::take(&mut self.schemas).into_iter().zip(&self.searches);
        let mut outcomes: Vec<Outcome> = schemas.map(|(merged, search)| merged.finish(search)).collect();
        if let Some(first) = outcomes.first_mut() {
            first.result.groupings = std::mem::take(&mut self.groupings);
        }
        Next::Found(outcomes)
    }
}

/// The hits of one schema, of all nodes.
#[derive(Default)]
struct Merged {
    total_count: u64,
    coverage: Coverage,
    hits: Vec<(Hit, CollapseKeys)>,
    wanted: usize,
    /// Later phases give the hits their order.
    is_ranked_later: bool,
    reranking: Reranking,
    best: Vec<(PlaceOfHit, f64)>,
    max: Option<f64>,
    standing: Standing<PlaceOfHit>,
    ranks: HashMap<PlaceOfHit, u32>,
    /// There was no time for a phase: the hits keep the scores that they have.
    stopped: bool,
}

impl Merged {
    /// Adds what a node has; its groups are handed back.
    fn add(&mut self, node: u32, of_schema: OfSchema) -> Vec<Option<Groups>> {
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

    fn begin_ranking(&mut self, reranking: Reranking, wanted: usize) {
        let all = Standing::new(std::mem::take(&mut self.best));
        self.standing = Standing::new(all.best(reranking.depth(wanted)).to_vec());
        self.ranks = self.standing.best(usize::MAX).iter().map(|(place, _)| *place).zip(1..).collect();
        (self.is_ranked_later, self.reranking) = (true, reranking);
    }

    /// A phase, if it is to be run.
    fn phase(&self, phase: Option<Rerank>) -> Option<Rerank> {
        phase.filter(|phase| self.is_ranked_later && !self.stopped && phase.count > 0)
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.coverage.timed_out = true;
    }

    /// What the nodes have given for the hits of a phase, in the order of the hits; none where a node had no time.
    fn in_order(
        &self,
        phase: Rerank,
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

    fn finish(self, search: &Search) -> Outcome {
        let plan = search.plan();
        let mut hits = self.hits;
        if !self.is_ranked_later {
            hits.sort_by(|(one, _), (other, _)| one.order(other));
        }
        if let Some(collapse) = &plan.query.collapse {
            let mut collapsing = Collapsing::new(collapse);
            hits.retain(|(_, keys)| collapsing.keeps(keys));
        }
        hits.truncate(plan.offset.saturating_add(plan.hits));
        let (hits, mut collapse_keys): (Vec<Hit>, Vec<CollapseKeys>) = hits.into_iter().unzip();
        if plan.query.collapse.is_none() {
            collapse_keys.clear();
        }
        let trace =
            Trace { documents: self.coverage.documents, matched: self.total_count, ..Trace::default() };
        let result = PartialResult {
            total_count: self.total_count,
            hits,
            groupings: Vec::new(),
            coverage: self.coverage,
        };
        Outcome { result, trace, collapse_keys }
    }
}

/// The groups of each request, of all schemas and nodes so far.
struct Groupings<'s> {
    searches: &'s [Arc<Search>],
    requests: Vec<(Option<Execution>, GroupHits)>,
}

/// Filled hits by what refers to them. A hit can be in several groups.
type GroupHits = HashMap<(Option<String>, (u32, usize, u16)), Hit>;

impl<'s> Groupings<'s> {
    fn new(searches: &'s [Arc<Search>]) -> Self {
        let requests = searches.iter().map(|search| search.grouping_requests()).max().unwrap_or(0);
        Groupings { searches, requests: (0..requests).map(|_| (None, HashMap::new())).collect() }
    }

    fn add(&mut self, schema: usize, groups: Vec<Option<Groups>>, first_part: u32) -> Result<(), Error> {
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
        let finish = |(number, (execution, hits)): (usize, (Option<Execution>, GroupHits))| {
            let fill = &mut |summary: Option<&str>, references: &[HitRef]| {
                let summary = summary.map(str::to_owned);
                let filled = references.iter().map(|hit| {
                    hits.get(&(summary.clone(), (hit.part, hit.chunk, hit.document)))
                        .cloned()
                        .ok_or(Error::Share)
                });
                filled.collect()
            };
            execution.map(|execution| execution.finish(number as u32, fill)).transpose()
        };
        self.requests.into_iter().enumerate().filter_map(|request| finish(request).transpose()).collect()
    }
}
