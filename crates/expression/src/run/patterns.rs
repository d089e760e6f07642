//! Patterns with dedicated kernels, which read cells in their stored form.

use millrace_tensor::TensorCells;

use super::BatchRun;
use crate::batch::{BatchSpace, TensorBatch};
use crate::dense::{self, CellsRef, DensePattern, NarrowedCells, PreparedMaxSim, SumShape};
use crate::evaluate::{InputFeed, NodeSlot};
use crate::program::NodeId;
use crate::value::round;

/// Cells of documents' vectors that stay in the innermost cache while they are summed with one vector after
/// another.
const CELLS_AT_ONCE: usize = 1 << 12;

/// Maximum number of documents whose sums with all vectors are kept, so that these stay there, too: those of
/// one document are as many numbers apart.
const DOCUMENTS_AT_ONCE: usize = 64;

impl<'a> BatchRun<'a> {
    /// The sums of a vector with each vector of a tensor.
    pub fn rows(
        &self,
        id: NodeId,
        (dense, a, b): (DensePattern, NodeId, NodeId),
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
    ) -> TensorBatch {
        let (result, shape) = (&self.program.nodes[id].tensor_type, self.program.shapes[id]);
        let (mut sums, mut numbers) = (Vec::new(), Vec::new());
        let (mut vectors, mut matrices) = (self.cells_of_node(a), self.cells_of_node(b));
        let mut out = TensorBatch::new(shape, cells);
        let mut take = |document: usize, sums: &mut [f64]| {
            out.cells.extend_from_slice(sums);
            if shape.mapped > 0 {
                self.write_labels(b, document, space, &mut out.labels);
            }
            out.end_tensor(shape);
        };
        if !self.sums_with_shared(dense, a, matrices.same.as_ref(), &mut take) {
            for document in 0..documents {
                let (vector, rows) = (vectors.get(document), matrices.get(document));
                dense.sum.apply_to_all(vector, rows, dense.width, &mut numbers, &mut sums);
                take(document, &mut sums);
            }
        }
        round(result.cell(), &mut out.cells);
        out
    }

    /// Calls `each` with each document of the block and the sums of its vector with each vector of a tensor,
    /// if that is the same for all and the documents' vectors are an input given as rows. Returns false if it
    /// is not so.
    fn sums_with_shared(
        &self,
        dense: DensePattern,
        vectors: NodeId,
        shared: Option<&StoredCells<'_>>,
        mut each: impl FnMut(usize, &mut [f64]),
    ) -> bool {
        let (Some(shared), Some((cells, rows))) = (shared, self.stored_rows(vectors)) else { return false };
        let (shared, at_once) = (shared.borrow(), (CELLS_AT_ONCE / dense.width).clamp(1, DOCUMENTS_AT_ONCE));
        let count = shared.len() / dense.width;
        let (mut sums, mut of_document) = (vec![0.0; count * at_once], vec![0.0; count]);
        for (block, rows) in rows.chunks(at_once).enumerate() {
            for (number, sums) in sums.chunks_exact_mut(at_once).enumerate() {
                let vector = shared.row(number, dense.width);
                dense.sum.apply_to_rows(vector, cells, dense.width, rows, &mut sums[..rows.len()]);
            }
            for at in 0..rows.len() {
                let of_all = sums.chunks_exact(at_once);
                of_document.iter_mut().zip(of_all).for_each(|(sum, of_all)| *sum = of_all[at]);
                each(block * at_once + at, &mut of_document);
            }
        }
        true
    }

    /// Appends the labels of a node's tensor for a document.
    pub(super) fn write_labels(
        &self,
        id: NodeId,
        document: usize,
        space: &mut BatchSpace,
        out: &mut Vec<u32>,
    ) {
        let mapped = self.program.shapes[id].mapped;
        let labels = &mut space.labels;
        match &self.slots[id] {
            NodeSlot::Operand(at) => match &self.operands[*at].0 {
                InputFeed::Tensor(tensor) => {
                    let all = tensor.all_labels().iter();
                    out.extend(all.map(|label| labels.number(label.as_bytes())));
                }
                InputFeed::Tensors(tensors) => {
                    let all = tensors[self.first + document].all_labels().iter();
                    out.extend(all.map(|label| labels.number(label.as_bytes())));
                }
                InputFeed::Stored(stored) => {
                    let all = stored.labels(self.first + document, mapped);
                    out.extend(all.map(|label| labels.number(label)));
                }
                InputFeed::View(_) => {
                    let view = self.view(id);
                    view.subspaces(document).for_each(|at| out.extend_from_slice(view.address(at)));
                }
                InputFeed::Number(_) | InputFeed::Numbers(_) | InputFeed::Rows(..) => {}
            },
            _ => {
                let view = self.view(id);
                view.subspaces(document).for_each(|at| out.extend_from_slice(view.address(at)));
            }
        }
    }

    /// Evaluates a pattern whose result is a number.
    pub fn run_dense(
        &self,
        dense: DensePattern,
        a: NodeId,
        b: NodeId,
        spare: &mut Vec<Vec<f64>>,
    ) -> NodeSlot {
        let (mut of_a, mut of_b) = (self.cells_of_node(a), self.cells_of_node(b));
        let both_same = of_a.same.is_some() && of_b.same.is_some();
        let documents = if both_same { 1 } else { self.documents };
        let mut out = self.buffer(spare);
        let out_cells = &mut out[..documents];
        match dense.shape {
            SumShape::MaxSim => match &of_a.same {
                Some(query) => {
                    let mut query = PreparedMaxSim::new(dense.sum, query.borrow(), dense.width);
                    out_cells.iter_mut().enumerate().for_each(|(i, out)| *out = query.score(of_b.get(i)));
                }
                None => {
                    for (i, out) in out_cells.iter_mut().enumerate() {
                        *out = PreparedMaxSim::new(dense.sum, of_a.get(i), dense.width).score(of_b.get(i));
                    }
                }
            },
            SumShape::Reduced(aggregator, cell) => {
                let mut take = |document: usize, sums: &mut [f64]| {
                    round(cell, sums);
                    out_cells[document] = aggregator.apply(sums);
                };
                if !self.sums_with_shared(dense, a, of_b.same.as_ref(), &mut take) {
                    let (mut sums, mut numbers) = (Vec::new(), Vec::new());
                    for document in 0..documents {
                        let (vector, rows) = (of_a.get(document), of_b.get(document));
                        dense.sum.apply_to_all(vector, rows, dense.width, &mut numbers, &mut sums);
                        take(document, &mut sums);
                    }
                }
            }
            SumShape::Vectors | SumShape::Rows => {
                match (&of_a.same, &of_b.same, self.stored_rows(a), self.stored_rows(b)) {
                    (Some(vector), _, _, Some((cells, rows))) | (_, Some(vector), Some((cells, rows)), _) => {
                        dense.sum.apply_to_rows(vector.borrow(), cells, dense.width, rows, out_cells);
                    }
                    _ => out_cells
                        .iter_mut()
                        .enumerate()
                        .for_each(|(i, out)| *out = dense.sum.apply(of_a.get(i), of_b.get(i))),
                }
            }
        }
        if both_same {
            let number = out[0];
            spare.push(out);
            return NodeSlot::Number(number);
        }
        NodeSlot::Numbers(out)
    }

    /// Rows of the block's documents, of an input given as rows.
    fn stored_rows(&self, id: NodeId) -> Option<(CellsRef<'a>, &'a [u16])> {
        match &self.slots[id] {
            NodeSlot::Operand(at) => match self.operands[*at].0 {
                InputFeed::Rows(cells, rows) => Some((cells, &rows[self.first..][..self.documents])),
                _ => None,
            },
            _ => None,
        }
    }

    /// Cells of a value that is the same for all documents, in the type of its cells.
    fn same_cells(&self, id: NodeId) -> Option<StoredCells<'a>> {
        if !self.is_same(id) {
            return None;
        }
        if let NodeSlot::Operand(at) = &self.slots[id]
            && let InputFeed::Tensor(tensor) = self.operands[*at].0
        {
            return Some(StoredCells::There(CellsRef::of(tensor.cells())));
        }
        let cell = self.program.nodes[id].tensor_type.cell();
        Some(StoredCells::Made(dense::narrowed(self.view(id).of_document(0), cell)))
    }

    pub(super) fn cells_of_node<'r>(&'r self, node: NodeId) -> NodeCells<'r, 'a> {
        NodeCells { run: self, node, same: self.same_cells(node), buffers: NarrowedCells::default() }
    }

    /// Number of cells of a node's value for one document.
    fn cell_count(&self, id: NodeId, document: usize) -> usize {
        if let NodeSlot::Operand(at) = &self.slots[id]
            && let InputFeed::Tensors(_) | InputFeed::Stored(_) | InputFeed::Rows(..) = self.operands[*at].0
        {
            return self.cells(id, document, &mut NarrowedCells::default()).len();
        }
        self.view(id).of_document(document).len()
    }

    /// Cells of a node's value for one document, in the type of its cells.
    pub fn cells<'b>(&'b self, id: NodeId, document: usize, buffers: &'b mut NarrowedCells) -> CellsRef<'b> {
        let tensor_type = &self.program.nodes[id].tensor_type;
        if let NodeSlot::Operand(at) = &self.slots[id] {
            let document = self.first + document;
            match self.operands[*at].0 {
                InputFeed::Tensor(tensor) => return CellsRef::of(tensor.cells()),
                InputFeed::Tensors(tensors) => return CellsRef::of(tensors[document].cells()),
                InputFeed::Stored(stored) => return stored.cells(document, tensor_type),
                InputFeed::Rows(cells, rows) => {
                    return cells.row(usize::from(rows[document]), tensor_type.dense_size());
                }
                InputFeed::Number(_) | InputFeed::Numbers(_) | InputFeed::View(_) => {}
            }
        }
        buffers.narrow(self.view(id).of_document(document), tensor_type.cell())
    }
}

/// Cells of a node's values, in the type of its cells.
pub(super) struct NodeCells<'r, 'a> {
    run: &'r BatchRun<'a>,
    node: NodeId,
    /// The cells, if they are the same for all documents.
    same: Option<StoredCells<'a>>,
    buffers: NarrowedCells,
}

impl NodeCells<'_, '_> {
    /// Number of cells of a document.
    pub fn count(&self, document: usize) -> usize {
        match &self.same {
            Some(cells) => cells.borrow().len(),
            None => self.run.cell_count(self.node, document),
        }
    }

    pub fn get(&mut self, document: usize) -> CellsRef<'_> {
        match &self.same {
            Some(cells) => cells.borrow(),
            None => self.run.cells(self.node, document, &mut self.buffers),
        }
    }
}

/// Borrowed or computed cells.
enum StoredCells<'a> {
    There(CellsRef<'a>),
    Made(TensorCells),
}

impl StoredCells<'_> {
    fn borrow(&self) -> CellsRef<'_> {
        match self {
            StoredCells::There(cells) => *cells,
            StoredCells::Made(cells) => CellsRef::of(cells),
        }
    }
}
