//! Reductions of joins to a number, without a tensor of the joined cells.

use std::sync::Arc;

use millrace_tensor::{ShortText, ShortTextMap, TensorType};

use super::BatchRun;
use crate::batch::{BatchSpace, BatchView, LabelTable, SubspaceShape, TensorBatch};
use crate::evaluate::{EvaluationScratch, InputFeed, NodeSlot};
use crate::operators::BatchNumbers;
use crate::program::{CellFunction, NodeId};
use crate::tensors::{TensorJoin, TensorReduce};
use crate::value::round;

/// `reduce(join(a, b, f), aggregator)` of two tensors with a common mapped dimension, to a number.
#[derive(Debug, Clone)]
pub(crate) struct ReducedJoin {
    pub function: CellFunction,
    pub join: Arc<TensorJoin>,
    pub reduce: Arc<TensorReduce>,
    /// Type of the join.
    pub joined: TensorType,
    /// True if the only dimension of both tensors is the same mapped one.
    pub has_one_label: bool,
}

/// The labels of a tensor that all documents share, by which others are chosen.
struct SharedLabels {
    /// A dimension of the others, and the numbers of the labels that the tensor has there.
    dimensions: Vec<(usize, Vec<bool>)>,
}

impl SharedLabels {
    /// The labels in the common dimensions, each given as those of the tensor and of the others.
    fn new(shared: &BatchView<'_>, common: impl Iterator<Item = (usize, usize)>) -> Self {
        let of_dimension = |(own, other): (usize, usize)| {
            let mut numbers = Vec::new();
            for subspace in shared.subspaces(0) {
                let number = shared.address(subspace)[own] as usize;
                numbers.resize(numbers.len().max(number + 1), false);
                numbers[number] = true;
            }
            (other, numbers)
        };
        SharedLabels { dimensions: common.map(of_dimension).collect() }
    }

    /// True if a subspace with these labels may be joined.
    fn may_have(&self, labels: &[&[u8]], table: &LabelTable) -> bool {
        let is_there = |(dimension, numbers): &(usize, Vec<bool>)| {
            numbers.get(table.find(labels[*dimension]) as usize).is_some_and(|is_there| *is_there)
        };
        self.dimensions.iter().all(is_there)
    }
}

impl BatchRun<'_> {
    /// Evaluates a reduced join.
    pub fn run_reduced_join(
        &self,
        (plan, a, b): (&ReducedJoin, NodeId, NodeId),
        spare: &mut Vec<Vec<f64>>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> NodeSlot {
        if let Some(numbers) = self.with_shared((plan, a, b), spare, space, nested) {
            return NodeSlot::Numbers(numbers);
        }
        let same = self.is_same(a) && self.is_same(b);
        let documents = if same { 1 } else { self.documents };
        let common = plan.join.common().iter().copied();
        let left = self.joinable(a, b, common.clone().map(|(a, b)| (b, a)), space);
        let right = self.joinable(b, a, common, space);
        let (x, y) = (self.view_of(a, left.as_ref()), self.view_of(b, right.as_ref()));
        let cells = spare.pop().unwrap_or_default();
        let joined = plan.join.run(x, y, documents, space, cells, &mut |x, y, out| {
            plan.function.apply(x, y, out, nested);
        });
        let shape = SubspaceShape::of(&plan.joined);
        let numbers = plan.reduce.run(joined.view(shape, false), documents, space, Vec::new()).cells;
        if same { NodeSlot::Number(numbers[0]) } else { NodeSlot::Numbers(numbers) }
    }

    /// The tensors of a node as [`BatchRun::laid_out`] gives them; if another is the same for all documents,
    /// only with subspaces that have its labels in the common dimensions, given as those of the other and of
    /// the node.
    fn joinable(
        &self,
        id: NodeId,
        other: NodeId,
        common: impl Iterator<Item = (usize, usize)>,
        space: &mut BatchSpace,
    ) -> Option<TensorBatch> {
        let stored = match &self.slots[id] {
            NodeSlot::Operand(at) => match self.operands[*at].0 {
                InputFeed::Stored(stored) if self.is_same(other) => stored,
                _ => return self.laid_out(id, space),
            },
            _ => return None,
        };
        let shared = SharedLabels::new(&self.view(other), common);
        let (shape, tensor_type) = (self.program.shapes[id], &self.program.nodes[id].tensor_type);
        let mut out = TensorBatch::new(shape, Vec::new());
        let mut labels = Vec::new();
        for document in self.first..self.first + self.documents {
            labels.clear();
            labels.extend(stored.labels(document, shape.mapped));
            let cells = stored.cells(document, tensor_type);
            for (subspace, labels) in labels.chunks_exact(shape.mapped).enumerate() {
                if shared.may_have(labels, &space.labels) {
                    out.labels.extend(labels.iter().map(|label| space.labels.number(label)));
                    cells.row(subspace, shape.size).append(&mut out.cells);
                }
            }
            out.end_tensor(shape);
        }
        Some(out)
    }

    /// The numbers of the documents, if all tensors have the same one dimension, one of them is the same for
    /// all documents and the others are in their stored form: of these, only cells with a label of the one
    /// are read.
    fn with_shared(
        &self,
        (plan, a, b): (&ReducedJoin, NodeId, NodeId),
        spare: &mut Vec<Vec<f64>>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> Option<Vec<f64>> {
        let (shared, each) = match (self.is_same(a), self.is_same(b)) {
            (true, false) if plan.has_one_label => (a, b),
            (false, true) if plan.has_one_label => (b, a),
            _ => return None,
        };
        let NodeSlot::Operand(at) = &self.slots[each] else { return None };
        let InputFeed::Stored(stored) = self.operands[*at].0 else { return None };
        let view = self.view(shared);
        let documents = self.first..self.first + self.documents;
        let looked_up: usize = stored.tensors[documents.clone()].iter().map(|of| of.subspaces as usize).sum();
        // The shared cells by the numbers of their labels, and by the labels if these are short: unless a map
        // of them costs more than to look the few labels up by their numbers.
        let is_worth_a_map = view.subspaces(0).len() <= looked_up;
        let (mut known, mut short): (Vec<Option<f64>>, Vec<(ShortText, f64)>) = Default::default();
        let BatchSpace { labels, left: of_shared, right: of_each, .. } = space;
        for subspace in view.subspaces(0) {
            let (number, cell) = (view.address(subspace)[0], view.subspace(subspace)[0]);
            if known.len() <= number as usize {
                known.resize(number as usize + 1, None);
            }
            if known[number as usize].replace(cell).is_some() {
                return None;
            }
            if is_worth_a_map {
                short.extend(ShortText::new(labels.label(number).as_bytes()).map(|label| (label, cell)));
            }
        }
        let short = is_worth_a_map.then(|| ShortTextMap::new(&short));
        let tensor_type = &self.program.nodes[each].tensor_type;
        of_shared.clear();
        of_each.clear();
        let mut ends = Vec::with_capacity(self.documents);
        for document in documents {
            let cells = stored.cells(document, tensor_type);
            for (at, label) in stored.labels(document, 1).enumerate() {
                let cell: Option<f64> = match short.as_ref().zip(ShortText::new(label)) {
                    Some((short, label)) => short.get(label),
                    None => known.get(labels.find(label) as usize).copied().flatten(),
                };
                if let Some(cell) = cell {
                    of_shared.push(cell);
                    cells.append_at(std::iter::once(at), of_each);
                }
            }
            ends.push(of_each.len());
        }
        let (x, y) = if shared == a { (&*of_shared, &*of_each) } else { (&*of_each, &*of_shared) };
        let mut joined = spare.pop().unwrap_or_default();
        joined.clear();
        joined.resize(x.len(), 0.0);
        plan.function.apply(BatchNumbers::Each(x), BatchNumbers::Each(y), &mut joined, nested);
        round(plan.joined.cell(), &mut joined);
        let mut numbers = spare.pop().unwrap_or_default();
        numbers.clear();
        let mut begin = 0;
        for end in ends {
            numbers.push(plan.reduce.aggregator().apply_to_slice(&joined[begin..end], of_shared));
            begin = end;
        }
        spare.push(joined);
        Some(numbers)
    }
}
