//! Evaluation of a plan's tree over one chunk.

mod activity;
mod element_leaves;
mod element_words;
mod equal_values;
mod narrowing;
mod nearness;
mod residual;
mod together;

use std::collections::HashMap;

use millrace_column::{Column, ColumnKey, ColumnValue, ExecutionPaths, View};
use millrace_document::DataType;
use millrace_plan::{LeafId, Plan, PlanNode, QueryMemoryError};

use self::element_leaves::ElementLeaves;
use self::element_words::ElementWords;
use self::equal_values::{ValueLeaves, values_together};
use self::narrowing::{NarrowingOperator, compares_positions, narrowings};
pub(crate) use self::residual::ResidualTree;
use self::residual::simplified;
use self::together::{RangeLeaves, alternatives, ranges_together, words_together};
use crate::bits::DocumentBits;
use crate::leaf::{LeafKind, ReadyLeaf, stored_value};
use crate::near::NearConstraint;
use crate::nearest::SmallestDistances;
use crate::nested::{NestedValue, ValueElement, elements};
use crate::outcome::LeafOutcome;
use crate::pattern::WordMatcher;
use crate::window::ColumnWindow;
use crate::words::{ChunkPositions, DocumentRows};
use crate::{Error, LeafMatches, RankingDemands};

/// A plan with prepared leaves.
pub(crate) struct ReadyPlan<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) leaves: Vec<ReadyLeaf>,
    pub(crate) paths: ExecutionPaths,
    narrowings: Vec<NarrowingOperator<'p>>,
    /// Nearest-neighbour leaves of the tree, each once.
    nearest: Vec<LeafId>,
    /// True if leaves may take no part in a document that matches.
    has_idle_parts: bool,
    /// Leaves of one word each in the same field, where there are many: they are searched together.
    words: Vec<Vec<LeafId>>,
    /// Leaves of one range each of the same field, where there are many: they are searched together, too.
    ranges: Vec<RangeLeaves>,
    /// Leaves that ask for one value each of the same path, where there are many: likewise.
    values: Vec<ValueLeaves>,
    /// True if the positions of words are read, and not only their number.
    reads_positions: bool,
}

impl<'p> ReadyPlan<'p> {
    pub(crate) fn new(plan: &'p Plan, paths: ExecutionPaths, demands: RankingDemands) -> Result<Self, Error> {
        let ready = |leaf| ReadyLeaf::new(plan, leaf, paths);
        let mut leaves = plan.leaves.iter().map(ready).collect::<Result<Vec<ReadyLeaf>, _>>()?;
        let compares_positions = compares_positions(&plan.root);
        for leaf in &mut leaves {
            let is_found = paths.is_fast() && demands == RankingDemands::default() && !compares_positions;
            leaf.finds_documents = is_found && leaf.single_word().is_some();
        }
        let mut ready = ReadyPlan {
            plan,
            leaves,
            paths,
            narrowings: Vec::new(),
            nearest: Vec::new(),
            has_idle_parts: activity::has_idle_parts(&plan.root),
            words: Vec::new(),
            ranges: Vec::new(),
            values: Vec::new(),
            reads_positions: demands.positions || compares_positions,
        };
        ready.narrowings = narrowings(&ready);
        ready.collect_nearest(&plan.root);
        ready.words = words_together(&ready);
        ready.ranges = ranges_together(&ready);
        ready.values = values_together(plan, &ready.leaves, paths)?;
        Ok(ready)
    }

    /// Collects the nearest-neighbour leaves that decide which documents match.
    fn collect_nearest(&mut self, node: &PlanNode) {
        match node {
            PlanNode::And(children) | PlanNode::Or(children) => {
                children.iter().for_each(|child| self.collect_nearest(child));
            }
            PlanNode::AndNot(positive, negatives) => {
                std::iter::once(&**positive).chain(negatives).for_each(|child| self.collect_nearest(child));
            }
            PlanNode::Rank(first, _) => self.collect_nearest(first),
            PlanNode::Leaf(leaf) if matches!(self.leaves[leaf.0].kind, LeafKind::Nearest(..)) => {
                // It may occur several times, but a document counts once among its nearest.
                if !self.nearest.contains(leaf) {
                    self.nearest.push(*leaf);
                }
            }
            PlanNode::True
            | PlanNode::False
            | PlanNode::Leaf(_)
            | PlanNode::Near { .. }
            | PlanNode::SameElement { .. } => {}
        }
    }

    /// The nearness condition of a node; `None` for other nodes.
    pub(crate) fn nearness(&self, node: &PlanNode) -> Option<NearConstraint> {
        let PlanNode::Near { leaves, distance, exclusion_distance, ordered, .. } = node else { return None };
        let field = leaves.first().map(|leaf| &*self.plan.leaves[leaf.0].field);
        Some(NearConstraint {
            element_gap: field.and_then(|field| self.plan.element_gap(field)),
            distance: *distance,
            exclusion_distance: *exclusion_distance,
            ordered: *ordered,
        })
    }

    /// Approximate cost of a node: that of its most expensive leaf.
    fn cost(&self, node: &PlanNode) -> u32 {
        let highest = |nodes: &[PlanNode]| nodes.iter().map(|node| self.cost(node)).max().unwrap_or_default();
        match node {
            PlanNode::True | PlanNode::False => 0,
            PlanNode::And(children) | PlanNode::Or(children) => highest(children),
            PlanNode::AndNot(positive, negatives) => self.cost(positive).max(highest(negatives)),
            PlanNode::Rank(first, _) => self.cost(first),
            PlanNode::Leaf(leaf) => self.leaves[leaf.0].cost(),
            PlanNode::Near { .. } => 3,
            PlanNode::SameElement { .. } => 4,
        }
    }
}

/// Takes memory of a plan, and adds it to what was taken before.
fn take(plan: &Plan, taken: &mut usize, bytes: usize) -> Result<(), QueryMemoryError> {
    plan.memory.take(bytes)?;
    *taken += bytes;
    Ok(())
}

/// Number of repeated searches for words after which words are searched in all documents that are left: each
/// search looks its words up, and may be for all words of a query, which has as many parts that ask for some.
const REPETITIONS_MAX: usize = 4;

/// State of matching a plan to one chunk.
pub(crate) struct ChunkPass<'a, 'v> {
    ready: &'a ReadyPlan<'a>,
    window: &'a mut ColumnWindow<'v>,
    chunk: usize,
    live: DocumentBits,
    found: Vec<Option<EvaluatedLeaf>>,
    /// Memory taken for `found`, in bytes; given back at the end.
    taken: usize,
    stop: &'a dyn Fn() -> bool,
    /// Number of searches for leaves so far.
    searches: usize,
    /// Number of searches so far for words that had been searched in other documents.
    repetitions: usize,
    stopped: bool,
}

impl Drop for ChunkPass<'_, '_> {
    fn drop(&mut self) {
        self.ready.plan.memory.give_back(self.taken);
    }
}

/// Matches of a leaf, with the documents that were examined for it.
struct EvaluatedLeaf {
    within: DocumentBits,
    found: LeafOutcome,
}

impl<'a, 'v> ChunkPass<'a, 'v> {
    pub(crate) fn new(
        ready: &'a ReadyPlan<'a>,
        window: &'a mut ColumnWindow<'v>,
        chunk: usize,
        live: DocumentBits,
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let found = ready.leaves.iter().map(|_| None).collect();
        ChunkPass {
            ready,
            window,
            chunk,
            live,
            found,
            taken: 0,
            stop,
            searches: 0,
            repetitions: 0,
            stopped: false,
        }
    }

    /// True if `stop` was true meanwhile, so that leaves were left out.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Asks now and then if it is time to stop. A chunk may have much text, and a query many leaves.
    fn ends(&mut self) -> bool {
        const SEARCHES_PER_STOP: usize = 16;
        self.searches += 1;
        self.stopped = self.stopped || self.searches.is_multiple_of(SEARCHES_PER_STOP) && (self.stop)();
        self.stopped
    }

    /// Matching documents as far as they do not depend on nearest neighbours. Distances of all candidates are
    /// added to `best`, by leaf.
    pub(crate) fn evaluate(&mut self, best: &mut [Option<SmallestDistances>]) -> Result<ResidualTree, Error> {
        let plan = self.ready.plan;
        let residual = self.node(&plan.root, &self.live.clone())?;
        let ready = self.ready;
        if !ready.nearest.is_empty() {
            // Not only where the leaf decides in this chunk: a document that matches by another part of the
            // tree is among the nearest, wherever chunks begin and end.
            let candidates = residual.at_most(&self.live);
            for leaf in ready.nearest.iter().copied().filter(|_| !candidates.is_empty()) {
                self.seek(leaf, &candidates)?;
                let (LeafKind::Nearest(measure, _), Some(LeafOutcome::Distances(distances)), Some(best)) =
                    (&self.ready.leaves[leaf.0].kind, self.found(leaf), best[leaf.0].as_mut())
                else {
                    continue;
                };
                distances.within(measure.reach()).for_each(|(_, distance)| best.offer(distance));
            }
        }
        Ok(residual)
    }

    /// Documents whose distance for `leaf` is at most `cutoff`.
    pub(crate) fn nearer(&self, leaf: LeafId, cutoff: f64) -> DocumentBits {
        let mut bits = DocumentBits::NONE;
        if let (LeafKind::Nearest(measure, _), Some(LeafOutcome::Distances(distances))) =
            (&self.ready.leaves[leaf.0].kind, self.found(leaf))
        {
            let near = distances.within(cutoff.min(measure.reach()));
            near.for_each(|(document, _)| bits.set(usize::from(document)));
        }
        bits
    }

    /// Documents among `within` that match a leaf.
    pub(crate) fn look(&mut self, leaf: LeafId, within: &DocumentBits) -> Result<DocumentBits, Error> {
        self.seek(leaf, within)?;
        Ok(self.found(leaf).map_or(DocumentBits::NONE, LeafOutcome::bits).and(within))
    }

    /// Evaluates a leaf in the documents `within`, except for those already examined.
    pub(crate) fn seek(&mut self, leaf: LeafId, within: &DocumentBits) -> Result<(), Error> {
        let (all, ready) = (self.ready, &self.ready.leaves[leaf.0]);
        let known = self.found[leaf.0].as_ref().map(|evaluated| evaluated.within);
        let mut missing = known.map_or(*within, |known| within.without(&known));
        let is_known = known.is_some() && missing.is_empty();
        if is_known || self.ends() {
            return Ok(());
        }
        if matches!(ready.kind, LeafKind::Words(_)) && !ready.finds_documents {
            self.repetitions += usize::from(known.is_some());
            // The plain form searches the whole chunk, wherever words are asked for.
            if self.repetitions > REPETITIONS_MAX || !all.paths.is_fast() {
                missing = known.map_or(self.live, |known| self.live.without(&known));
            }
        }
        // Leaves are in order.
        let has = |leaves: &[LeafId]| leaves.binary_search(&leaf).is_ok();
        if let Some(leaves) = all.words.iter().find(|leaves| has(leaves)) {
            return self.seek_words(leaves, &missing);
        }
        if self.found[leaf.0].is_none() {
            if let Some(ranges) = all.ranges.iter().find(|ranges| has(&ranges.leaves))
                && self.seek_ranges(ranges, within)?
            {
                return Ok(());
            }
            if let Some(values) = all.values.iter().find(|values| values.has(leaf))
                && self.seek_equal(values, within)?
            {
                return Ok(());
            }
        }
        self.seek_alone(leaf, missing)
    }

    /// Evaluates a leaf, and no others with it, in the documents `missing`, none of which was examined yet.
    fn seek_alone(&mut self, leaf: LeafId, missing: DocumentBits) -> Result<(), Error> {
        let column = self.column(leaf, &missing)?;
        let found = self.ready.leaves[leaf.0].find(column.as_ref(), &missing);
        take(self.ready.plan, &mut self.taken, found.memory_bytes())?;
        self.add_found(leaf, missing, found);
        Ok(())
    }

    /// Notes the matches of a leaf in the documents `within`, none of which was examined before.
    fn add_found(&mut self, leaf: LeafId, within: DocumentBits, found: LeafOutcome) {
        match &mut self.found[leaf.0] {
            Some(evaluated) => {
                evaluated.found.merge(found);
                evaluated.within = evaluated.within.or(&within);
            }
            none => *none = Some(EvaluatedLeaf { within, found }),
        }
    }

    fn column(&mut self, leaf: LeafId, within: &DocumentBits) -> Result<Option<Column>, Error> {
        if within.is_empty() {
            return Ok(None);
        }
        self.window.column(&self.ready.leaves[leaf.0].field.key, self.chunk)
    }

    fn found(&self, leaf: LeafId) -> Option<&LeafOutcome> {
        self.found[leaf.0].as_ref().map(|evaluated| &evaluated.found)
    }

    /// Positions of an evaluated leaf.
    pub(crate) fn positions(&self, leaf: LeafId) -> Option<&ChunkPositions> {
        match self.found(leaf) {
            Some(LeafOutcome::Positions(positions)) => Some(positions),
            _ => None,
        }
    }

    /// Number of live documents that match a leaf; it must have been evaluated in all of them.
    pub(crate) fn frequency(&self, leaf: LeafId) -> usize {
        match self.found(leaf) {
            Some(LeafOutcome::Positions(positions)) => positions.documents(),
            Some(found) => found.bits().count(),
            None => 0,
        }
    }

    /// Matches of a leaf in the documents of `rows`, which are those of `matched`, if they are demanded.
    /// There are none in documents that are not `active`; without it all are.
    pub(crate) fn extract(
        &mut self,
        leaf: LeafId,
        rows: &DocumentRows<'_>,
        matched: &DocumentBits,
        active: Option<&DocumentBits>,
        positions: bool,
    ) -> Result<LeafMatches, Error> {
        let asked = self.ready.plan.leaves[leaf.0].term.is_some()
            || matches!(self.ready.leaves[leaf.0].kind, LeafKind::Nearest(..) | LeafKind::All);
        if !asked {
            return Ok(LeafMatches::None);
        }
        self.seek(leaf, matched)?;
        let found = self.found(leaf).map_or(LeafMatches::None, |found| found.extract(rows, positions));
        let found = match active {
            Some(active) if !matched.without(active).is_empty() => found.limited_to(rows.documents(), active),
            _ => found,
        };
        Ok(if found.is_nothing() { LeafMatches::None } else { found })
    }

    fn node(&mut self, node: &PlanNode, within: &DocumentBits) -> Result<ResidualTree, Error> {
        if within.is_empty() {
            return Ok(ResidualTree::Known(DocumentBits::NONE));
        }
        Ok(match node {
            PlanNode::True => ResidualTree::Known(*within),
            PlanNode::False => ResidualTree::Known(DocumentBits::NONE),
            PlanNode::And(children) => self.all(children, within)?,
            PlanNode::Or(children) => self.any(children, within)?,
            PlanNode::AndNot(positive, negatives) => {
                let positive = self.node(positive, within)?;
                let within = positive.at_most(within);
                let negatives = negatives
                    .iter()
                    .map(|negative| self.node(negative, &within))
                    .collect::<Result<Vec<_>, _>>()?;
                simplified(ResidualTree::AndNot(Box::new(positive), negatives))
            }
            PlanNode::Rank(first, _) => self.node(first, within)?,
            PlanNode::Leaf(leaf) => match self.ready.leaves[leaf.0].kind {
                LeafKind::Nearest(..) => ResidualTree::Nearest(*leaf),
                _ => ResidualTree::Known(self.look(*leaf, within)?),
            },
            PlanNode::Near { leaves, excluded, .. } => ResidualTree::Known(match self.ready.nearness(node) {
                Some(nearness) => self.near(leaves, excluded, nearness, within)?,
                None => DocumentBits::NONE,
            }),
            PlanNode::SameElement { field, child, elements } => {
                ResidualTree::Known(self.same_element(field, child, elements, within)?)
            }
        })
    }

    /// Evaluates a disjunction. What is known of it is one set, however many children there are.
    fn any(&mut self, children: &[PlanNode], within: &DocumentBits) -> Result<ResidualTree, Error> {
        let (mut known, mut residuals) = (DocumentBits::NONE, Vec::new());
        // Words of which only the documents count, by their field.
        let mut words: HashMap<&ColumnKey, Vec<&WordMatcher>> = HashMap::new();
        let (ready, mut all) = (self.ready, Vec::with_capacity(children.len()));
        alternatives(children, &mut all);
        self.seek_values(&all, within)?;
        let joined = self.joined_elements(&mut all);
        for child in all.into_iter().chain(&joined) {
            match child {
                PlanNode::Leaf(leaf) if ready.leaves[leaf.0].finds_documents => {
                    let leaf = &ready.leaves[leaf.0];
                    words.entry(&leaf.field.key).or_default().extend(leaf.single_word());
                }
                PlanNode::Leaf(leaf) if !matches!(self.ready.leaves[leaf.0].kind, LeafKind::Nearest(..)) => {
                    self.seek(*leaf, within)?;
                    self.found(*leaf).iter().for_each(|found| found.add_to(&mut known));
                }
                child => match self.node(child, within)? {
                    ResidualTree::Known(bits) => known = known.or(&bits),
                    residual => residuals.push(residual),
                },
            }
        }
        for (key, matchers) in words {
            known = known.or(&self.any_word(key, &matchers, &within.without(&known))?);
        }
        let known = ResidualTree::Known(known.and(within));
        if residuals.is_empty() {
            return Ok(known);
        }
        residuals.push(known);
        Ok(ResidualTree::Or(residuals))
    }

    /// Evaluates a conjunction: cheap children first, each only in the documents that the previous ones left.
    fn all(&mut self, children: &[PlanNode], within: &DocumentBits) -> Result<ResidualTree, Error> {
        if !self.ready.paths.is_fast() {
            let children = children.iter().map(|child| self.node(child, within)).collect::<Result<_, _>>()?;
            return Ok(simplified(ResidualTree::And(children)));
        }
        let mut by_cost: Vec<&PlanNode> = children.iter().collect();
        by_cost.sort_by_key(|child| self.ready.cost(child));
        let mut left = *within;
        let mut residuals = vec![ResidualTree::Known(left)];
        for child in by_cost {
            let residual = self.node(child, &left)?;
            left = left.and(&residual.at_most(&left));
            residuals.push(residual);
            if left.is_empty() {
                return Ok(ResidualTree::Known(DocumentBits::NONE));
            }
        }
        Ok(simplified(ResidualTree::And(residuals)))
    }

    /// Documents with an element in which all of `child` holds.
    fn same_element(
        &mut self,
        field: &str,
        child: &PlanNode,
        only: &[u32],
        within: &DocumentBits,
    ) -> Result<DocumentBits, Error> {
        let ready = self.ready;
        let name = field.split('.').next().unwrap_or(field);
        let Some(data_type) = ready.plan.schema.fields.get(name).map(|field| &field.data_type) else {
            return Ok(DocumentBits::NONE);
        };
        let key = millrace_column::ColumnKey::value(name);
        let Some(column) = self.window.column(&key, self.chunk)? else { return Ok(DocumentBits::NONE) };
        if ready.paths.is_fast()
            && matches!(data_type, DataType::Array(element) if **element == DataType::String)
            && let Some(words) = ElementWords::new(ready, child)
        {
            return self.words_of_elements(&words, only, within);
        }
        let path = path_of(field);
        let fast = ElementLeaves::new(ready, field, child, only).and_then(|all| all.find(&column, within));
        let (mut bits, general) = match fast {
            Some(found) => (found.documents, found.irregular),
            None => (DocumentBits::NONE, *within),
        };
        for document in general.iter() {
            let holds = match stored_value(&column, data_type, document, ready.paths) {
                Some(ColumnValue::InPlace(value)) => {
                    any_holds(ready, child, only, ValueElement::Value(value, 1), &path, 0)
                }
                Some(ColumnValue::Decoded(value)) => {
                    any_holds(ready, child, only, ValueElement::Value(&value, 1), &path, 0)
                }
                None => false,
            };
            if holds {
                bits.set(document);
            }
        }
        Ok(bits)
    }
}

/// Path steps from a field to the nested collection that a path names.
pub(crate) fn path_of(path: &str) -> Vec<&str> {
    path.split('.').skip(1).collect()
}

/// True if a tree holds in an element of the collection at the end of `path`, whose first `depth` steps lead
/// to `from`. If `only` is not empty, it limits the element indices.
pub(crate) fn any_holds(
    ready: &ReadyPlan<'_>,
    tree: &PlanNode,
    only: &[u32],
    from: ValueElement<impl NestedValue>,
    path: &[&str],
    depth: usize,
) -> bool {
    let mut found = false;
    from.wholes(path.get(depth..).unwrap_or_default(), &mut |collection| {
        elements(collection, &mut |index, element| {
            found = found || is_among(only, index) && holds(ready, tree, element, path.len());
        });
    });
    found
}

/// True if an element's index is one of these, which ascend, or there are none.
pub(crate) fn is_among(only: &[u32], index: usize) -> bool {
    only.is_empty() || u32::try_from(index).is_ok_and(|index| only.binary_search(&index).is_ok())
}

/// True if a tree holds inside one element, to which the first `depth` steps of its leaves' paths lead.
pub(crate) fn holds(
    ready: &ReadyPlan<'_>,
    node: &PlanNode,
    element: ValueElement<impl NestedValue>,
    depth: usize,
) -> bool {
    let inside = |node: &PlanNode| holds(ready, node, element, depth);
    match node {
        PlanNode::True => true,
        PlanNode::False => false,
        PlanNode::And(children) => children.iter().all(inside),
        PlanNode::Or(children) => children.iter().any(inside),
        PlanNode::AndNot(positive, negatives) => inside(positive) && !negatives.iter().any(inside),
        PlanNode::Rank(first, _) => inside(first),
        PlanNode::Leaf(leaf) => ready.leaves[leaf.0].matches_element(element, depth),
        PlanNode::Near { leaves, excluded, .. } => {
            let positions = |leaf: &LeafId| ready.leaves[leaf.0].positions_in_element(element, depth).0;
            let (positions, excluded): (Vec<_>, Vec<_>) =
                (leaves.iter().map(positions).collect(), excluded.iter().map(positions).collect());
            let positions: Vec<&[u32]> = positions.iter().map(Vec::as_slice).collect();
            let excluded: Vec<&[u32]> = excluded.iter().map(Vec::as_slice).collect();
            ready.nearness(node).is_some_and(|near| near.holds_in_element(&positions, &excluded))
        }
        PlanNode::SameElement { field, child, elements } => {
            any_holds(ready, child, elements, element, &path_of(field), depth)
        }
    }
}

/// Live documents of the chunk.
pub(crate) fn live(view: &dyn View, chunk: usize) -> DocumentBits {
    let chunk = &view.chunks()[chunk];
    let all = DocumentBits::first(chunk.documents);
    chunk.live.as_ref().map_or(all, |live| DocumentBits::from_words(live).and(&all))
}
