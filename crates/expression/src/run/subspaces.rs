//! Functions that choose, create or keep whole subspaces.

use std::sync::Arc;

use super::{BatchRun, each_subspace};
use crate::batch::{BatchSpace, SubspaceShape, TensorBatch};
use crate::evaluate::EvaluationScratch;
use crate::program::{ExpressionProgram, NodeId};
use crate::tensors;
use crate::value::round;

impl BatchRun<'_> {
    /// The tensors of one of two nodes, by a condition on each document.
    pub fn choose_tensors(
        &self,
        id: NodeId,
        (condition, x, y): (NodeId, NodeId, NodeId),
        documents: usize,
        cells: Vec<f64>,
    ) -> TensorBatch {
        let (condition, x, y) = (self.numbers(condition), self.view(x), self.view(y));
        let mut out = TensorBatch::new(self.program.shapes[id], cells);
        for document in 0..documents {
            let chosen = if condition.get(document) != 0.0 { x } else { y };
            chosen.copy_to(document, &mut out);
        }
        out
    }

    /// Tensors with these labels, and the numbers of these nodes as cells.
    pub fn create(
        &self,
        id: NodeId,
        (labels, of): (&[Arc<str>], &[NodeId]),
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
    ) -> TensorBatch {
        let shape = self.program.shapes[id];
        let mut out = TensorBatch::new(shape, cells);
        let numbers: Vec<u32> = labels.iter().map(|label| space.labels.number(label.as_bytes())).collect();
        for document in 0..documents {
            out.labels.extend_from_slice(&numbers);
            out.cells.extend(of.iter().map(|cell| self.numbers(*cell).get(document)));
            out.end_tensor(shape);
        }
        round(self.program.nodes[id].tensor_type.cell(), &mut out.cells);
        out
    }

    /// As many of the largest cells of tensors as a number says, which have one in each dense subspace.
    pub fn top(
        &self,
        shape: SubspaceShape,
        (count, of): (NodeId, NodeId),
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
    ) -> TensorBatch {
        let (count, of) = (self.numbers(count), self.view(of));
        let mut out = TensorBatch::new(shape, cells);
        for document in 0..documents {
            let (first, cells) = (of.subspaces(document).start, of.of_document(document));
            tensors::largest_cells(cells, count.get(document), &mut space.order);
            for at in &space.order {
                out.labels.extend_from_slice(of.address(first + at));
                out.cells.push(cells[*at]);
            }
            out.end_tensor(shape);
        }
        out
    }

    /// The subspaces for which a function gives a cell other than 0.
    pub fn filter_subspaces(
        &self,
        id: NodeId,
        (function, of): (&ExpressionProgram, NodeId),
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> TensorBatch {
        let shape = self.program.shapes[id];
        let of = self.view(of);
        let mut found = Vec::new();
        each_subspace(function, &of, documents, &mut space.left, nested, &mut found);
        let mut found = found.chunks_exact(function.tensor_type().dense_size());
        let mut out = TensorBatch::new(shape, cells);
        for document in 0..documents {
            for subspace in of.subspaces(document) {
                if found.next().is_some_and(|found| found.iter().any(|cell| *cell != 0.0)) {
                    out.labels.extend_from_slice(of.address(subspace));
                    out.cells.extend_from_slice(of.subspace(subspace));
                }
            }
            out.end_tensor(shape);
        }
        out
    }
}
