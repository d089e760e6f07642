//! Reductions of joins to a number, without a tensor of the joined cells.

use std::sync::Arc;

use millrace_tensor::{CellType, ShortText, ShortTextMap};

use super::BatchRun;
use crate::batch::{BatchSpace, SubspaceShape};
use crate::evaluate::{EvaluationScratch, InputFeed, NodeSlot};
use crate::operators::BatchNumbers;
use crate::program::{CellFunction, NodeId};
use crate::tensors::{TensorJoin, TensorReduce};
use crate::value::round;

/// `reduce(join(a, b, f), aggregator)` of two tensors whose only dimension is the same mapped one.
#[derive(Debug, Clone)]
pub(crate) struct ReducedJoin {
    pub function: CellFunction,
    pub join: Arc<TensorJoin>,
    pub reduce: Arc<TensorReduce>,
    /// Type of the joined cells.
    pub cell: CellType,
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
        let (left, right) = (self.laid_out(a, space), self.laid_out(b, space));
        let (x, y) = (self.view_of(a, left.as_ref()), self.view_of(b, right.as_ref()));
        let cells = spare.pop().unwrap_or_default();
        let joined = plan.join.run(x, y, documents, space, cells, &mut |x, y, out| {
            plan.function.apply(x, y, out, nested);
        });
        let shape = SubspaceShape { mapped: 1, size: 1 };
        let numbers = plan.reduce.run(joined.view(shape, false), documents, space, Vec::new()).cells;
        if same { NodeSlot::Number(numbers[0]) } else { NodeSlot::Numbers(numbers) }
    }

    /// The numbers of the documents, if one tensor is the same for all and the others are in their stored
    /// form: of these, only cells with a label of the one are read.
    fn with_shared(
        &self,
        (plan, a, b): (&ReducedJoin, NodeId, NodeId),
        spare: &mut Vec<Vec<f64>>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> Option<Vec<f64>> {
        let (shared, each) = match (self.is_same(a), self.is_same(b)) {
            (true, false) => (a, b),
            (false, true) => (b, a),
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
        round(plan.cell, &mut joined);
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
