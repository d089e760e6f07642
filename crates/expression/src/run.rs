//! One run of a program's nodes over a block of documents.

mod generate;
mod interactions;
mod patterns;
mod reduced_join;
mod subspaces;

use crate::batch::{BatchSpace, BatchView, SubspaceShape, TensorBatch};
use crate::dense::{CellsRef, NarrowedCells, SumShape};
use crate::evaluate::{CELLS_AT_A_TIME, EvaluationScratch, InputBatch, InputFeed, NodeSlot};
use crate::linear;
use crate::operators::BatchNumbers;
use crate::program::{ExpressionProgram, NodeId, PinSource, ProgramOp};
use crate::tensors::{self, PinnedDimension};
use crate::value::{TensorValue, round};

pub(crate) use reduced_join::ReducedJoin;

/// A run over a block, up to a node.
pub(crate) struct BatchRun<'a> {
    pub program: &'a ExpressionProgram,
    pub slots: &'a [NodeSlot],
    pub operands: &'a [InputBatch<'a>],
    /// Number of documents of the batch before the block.
    pub first: usize,
    /// Number of documents of the block.
    pub documents: usize,
}

impl<'a> BatchRun<'a> {
    /// The result of a node.
    pub fn run(
        &self,
        id: NodeId,
        spare: &mut Vec<Vec<f64>>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> NodeSlot {
        let node = &self.program.nodes[id];
        match &node.op {
            ProgramOp::Number(number) => NodeSlot::Number(*number),
            ProgramOp::Constant(value) => NodeSlot::Tensor(TensorBatch::of_value(value, &mut space.labels)),
            ProgramOp::Input(at) => self.input(id, *at, spare, space),
            ProgramOp::Unary(unary, x) => match self.numbers(*x) {
                BatchNumbers::Same(x) => NodeSlot::Number(unary.apply(x)),
                BatchNumbers::Each(x) => {
                    let mut out = spare.pop().unwrap_or_default();
                    out.clear();
                    out.extend_from_slice(&x[..self.documents]);
                    unary.apply_to(&mut out);
                    NodeSlot::Numbers(out)
                }
            },
            ProgramOp::Binary(binary, x, y) => match (self.numbers(*x), self.numbers(*y)) {
                (BatchNumbers::Same(x), BatchNumbers::Same(y)) => NodeSlot::Number(binary.apply(x, y)),
                (x, y) => {
                    let mut out = self.buffer(spare);
                    binary.apply_to(x, y, &mut out);
                    NodeSlot::Numbers(out)
                }
            },
            ProgramOp::Choose(condition, x, y) if node.tensor_type.is_scalar() => {
                NodeSlot::Numbers(self.choose(*condition, *x, *y, spare))
            }
            ProgramOp::Dense(dense, a, b) if dense.shape != SumShape::Rows => {
                self.run_dense(*dense, *a, *b, spare)
            }
            ProgramOp::ReducedJoin(plan, a, b) => self.run_reduced_join((plan, *a, *b), spare, space, nested),
            ProgramOp::Linear(weights, terms) if terms.iter().any(|term| !self.is_same(*term)) => {
                let terms: Vec<BatchNumbers<'_>> = terms.iter().map(|term| self.numbers(*term)).collect();
                let mut out = self.buffer(spare);
                linear::sum(weights, &terms, &mut out);
                NodeSlot::Numbers(out)
            }
            ProgramOp::Linear(weights, terms) => {
                let terms: Vec<BatchNumbers<'_>> = terms.iter().map(|term| self.numbers(*term)).collect();
                let mut out = [0.0];
                linear::sum(weights, &terms, &mut out);
                NodeSlot::Number(out[0])
            }
            ProgramOp::Forest(forest, inputs) => {
                let inputs: Vec<BatchNumbers<'_>> = inputs.iter().map(|input| self.numbers(*input)).collect();
                let mut rows = spare.pop().unwrap_or_default();
                let mut out = self.buffer(spare);
                forest.evaluate(&inputs, &mut rows, &mut out);
                spare.push(rows);
                NodeSlot::Numbers(out)
            }
            _ => {
                let same = self.program.arguments[id].iter().all(|argument| self.is_same(*argument));
                let documents = if same { 1 } else { self.documents };
                let cells = spare.pop().unwrap_or_default();
                let batch = self.tensors(id, documents, cells, space, nested);
                match (node.tensor_type.is_scalar(), same) {
                    (true, true) => NodeSlot::Number(batch.cells[0]),
                    (true, false) => NodeSlot::Numbers(batch.cells),
                    (false, true) => NodeSlot::Tensor(batch),
                    (false, false) => NodeSlot::Tensors(batch),
                }
            }
        }
    }

    fn buffer(&self, spare: &mut Vec<Vec<f64>>) -> Vec<f64> {
        let mut out = spare.pop().unwrap_or_default();
        out.resize(self.documents, 0.0);
        out
    }

    fn numbers(&self, id: NodeId) -> BatchNumbers<'a> {
        let numbers = self.slots[id].numbers(self.operands, self.first);
        numbers.unwrap_or(BatchNumbers::Same(f64::NAN))
    }

    /// True if the result of a node is the same for all documents.
    fn is_same(&self, id: NodeId) -> bool {
        self.slots[id].is_same(self.operands)
    }

    fn choose(&self, condition: NodeId, x: NodeId, y: NodeId, spare: &mut Vec<Vec<f64>>) -> Vec<f64> {
        let (x, y) = (self.numbers(x), self.numbers(y));
        let mut out = self.buffer(spare);
        match self.numbers(condition) {
            BatchNumbers::Same(condition) => {
                let chosen = if condition != 0.0 { x } else { y };
                out.iter_mut().enumerate().for_each(|(i, out)| *out = chosen.get(i));
            }
            BatchNumbers::Each(condition) => {
                for (i, (out, condition)) in out.iter_mut().zip(condition).enumerate() {
                    *out = if *condition != 0.0 { x.get(i) } else { y.get(i) };
                }
            }
        }
        out
    }

    /// The value of an input: itself where it is numbers or only read in its stored form, or laid out flat.
    fn input(&self, id: NodeId, at: usize, spare: &mut Vec<Vec<f64>>, space: &mut BatchSpace) -> NodeSlot {
        let node = &self.program.nodes[id];
        let feed = match self.operands.get(at) {
            None => {
                let empty = TensorValue::empty(&node.tensor_type);
                return match node.tensor_type.is_scalar() {
                    true => NodeSlot::Number(0.0),
                    false => NodeSlot::Tensor(TensorBatch::of_value(&empty, &mut space.labels)),
                };
            }
            Some(operand) => operand.0,
        };
        let is_raw = self.program.is_raw[id];
        // Labels that all documents share are numbered once, not again for each block.
        let is_joined = self.program.is_joined[id];
        match feed {
            InputFeed::Tensor(tensor) if node.tensor_type.is_scalar() => {
                NodeSlot::Number(tensor.cells().iter().next().unwrap_or_default())
            }
            InputFeed::Tensors(tensors) if node.tensor_type.is_scalar() => {
                let tensors = &tensors[self.first..][..self.documents];
                NodeSlot::Numbers(tensors.iter().map(|tensor| tensor.cells().get(0)).collect())
            }
            InputFeed::Number(_) | InputFeed::Numbers(_) | InputFeed::View(_) => NodeSlot::Operand(at),
            InputFeed::Tensor(_) if is_raw && !is_joined => NodeSlot::Operand(at),
            InputFeed::Tensor(tensor) => {
                let value = TensorValue::from_tensor(tensor);
                NodeSlot::Tensor(TensorBatch::of_value(&value, &mut space.labels))
            }
            _ if is_raw => NodeSlot::Operand(at),
            InputFeed::Tensors(_) | InputFeed::Rows(..) | InputFeed::Stored(_) => {
                let cells = spare.pop().unwrap_or_default();
                NodeSlot::Tensors(self.flat(id, feed, self.documents, cells, space))
            }
        }
    }

    /// The tensors of an input, laid out flat.
    fn flat(
        &self,
        id: NodeId,
        feed: InputFeed<'_>,
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
    ) -> TensorBatch {
        let (shape, tensor_type) = (self.program.shapes[id], &self.program.nodes[id].tensor_type);
        let mut out = TensorBatch::new(shape, cells);
        if let InputFeed::Rows(cells, rows) = feed {
            cells.append_rows(&rows[self.first..][..documents], shape.size, &mut out.cells);
            return out;
        }
        for document in self.first..self.first + documents {
            match feed {
                InputFeed::Tensors(tensors) => {
                    let tensor = &tensors[document];
                    let labels = tensor.all_labels().iter();
                    out.labels.extend(labels.map(|label| space.labels.number(label.as_bytes())));
                    CellsRef::of(tensor.cells()).append(&mut out.cells);
                }
                InputFeed::Stored(stored) => {
                    let labels = stored.labels(document, shape.mapped);
                    out.labels.extend(labels.map(|label| space.labels.number(label)));
                    stored.cells(document, tensor_type).append(&mut out.cells);
                }
                _ => unreachable!("other inputs are not laid out"),
            }
            out.end_tensor(shape);
        }
        out
    }

    /// The tensors of an input in its stored form, one for each document, laid out flat. `None` for any other
    /// node: its result is so already.
    fn laid_out(&self, id: NodeId, space: &mut BatchSpace) -> Option<TensorBatch> {
        let NodeSlot::Operand(at) = &self.slots[id] else { return None };
        match self.operands[*at].0 {
            feed @ (InputFeed::Tensors(_) | InputFeed::Rows(..) | InputFeed::Stored(_)) => {
                Some(self.flat(id, feed, self.documents, Vec::new(), space))
            }
            InputFeed::Tensor(_) | InputFeed::Number(_) | InputFeed::Numbers(_) | InputFeed::View(_) => None,
        }
    }

    /// The result of a node as in [`BatchRun::view`], or what [`BatchRun::laid_out`] gave for it.
    fn view_of<'v>(&'v self, id: NodeId, laid_out: Option<&'v TensorBatch>) -> BatchView<'v> {
        match laid_out {
            Some(batch) => batch.view(self.program.shapes[id], false),
            None => self.view(id),
        }
    }

    /// The result of a node as an operand of functions on tensors.
    fn view(&self, id: NodeId) -> BatchView<'a> {
        let shape = self.program.shapes[id];
        match &self.slots[id] {
            NodeSlot::Number(number) => BatchView::numbers(std::slice::from_ref(number), true),
            NodeSlot::Numbers(numbers) => BatchView::numbers(numbers, false),
            NodeSlot::Tensor(batch) => batch.view(shape, true),
            NodeSlot::Tensors(batch) => batch.view(shape, false),
            NodeSlot::Operand(at) => match &self.operands[*at].0 {
                InputFeed::Number(number) => BatchView::numbers(std::slice::from_ref(number), true),
                InputFeed::Numbers(numbers) => BatchView::numbers(&numbers[self.first..], false),
                InputFeed::View(view) if view.is_same() => *view,
                InputFeed::View(view) => BatchView { first: view.first + self.first, ..*view },
                _ => unreachable!("inputs in their stored form are read as such"),
            },
            NodeSlot::Empty => unreachable!("a node is computed before those that use it"),
        }
    }

    /// The tensors of a node for as many documents; numbers, if its type is a number.
    fn tensors(
        &self,
        id: NodeId,
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> TensorBatch {
        let node = &self.program.nodes[id];
        let (result, shape) = (&node.tensor_type, self.program.shapes[id]);
        match &node.op {
            ProgramOp::Map(function, of) => {
                let of = self.view(*of);
                let mut out = of.copy_labels(documents, cells);
                let of = all_cells(&of, documents, &mut space.left);
                out.cells.resize(of.len(), 0.0);
                function.apply(BatchNumbers::Each(of), BatchNumbers::Same(0.0), &mut out.cells, nested);
                round(result.cell(), &mut out.cells);
                out
            }
            ProgramOp::Join(function, plan, a, b) => {
                plan.run(self.view(*a), self.view(*b), documents, space, cells, &mut |x, y, out| {
                    function.apply(x, y, out, nested)
                })
            }
            ProgramOp::Merge(function, a, b) => {
                tensors::merge(self.view(*a), self.view(*b), documents, result, space, &mut |x, y, out| {
                    function.apply(x, y, out, nested)
                })
            }
            ProgramOp::Reduce(plan, of) => plan.run(self.view(*of), documents, space, cells),
            ProgramOp::Rename(plan, of) => plan.run(self.view(*of), documents, cells),
            ProgramOp::Concat(plan, a, b) => plan.run(self.view(*a), self.view(*b), documents, space, cells),
            ProgramOp::Cast(of) => {
                let mut out = self.copied(*of, documents, cells);
                round(result.cell(), &mut out.cells);
                out
            }
            ProgramOp::Choose(condition, x, y) => {
                self.choose_tensors(id, (*condition, *x, *y), documents, cells)
            }
            ProgramOp::Peek(of, pins, offsets) => {
                self.peek(id, (*of, pins, offsets), documents, cells, space)
            }
            ProgramOp::CellOrder { largest_first, of } => {
                let order = &mut space.order;
                let mut out = self.mapped(*of, documents, cells, |cells, out| {
                    tensors::cell_order(cells, *largest_first, order, out);
                });
                round(result.cell(), &mut out.cells);
                out
            }
            ProgramOp::Top(count, of) => self.top(shape, (*count, *of), documents, cells, space),
            ProgramOp::UnpackBits { lowest_first, of } => self.mapped(*of, documents, cells, |cells, out| {
                tensors::unpack_bits(cells, *lowest_first, out);
            }),
            ProgramOp::Reorder(order, of) => {
                let of = self.view(*of);
                let mut out = of.copy_labels(documents, cells);
                let of = all_cells(&of, documents, &mut space.left);
                for subspace in of.chunks_exact(shape.size) {
                    out.cells.extend(order.iter().map(|at| subspace[*at as usize]));
                }
                out
            }
            ProgramOp::Create(labels, of) => {
                self.create(id, (labels.as_slice(), of.as_slice()), documents, cells, space)
            }
            ProgramOp::TokenSequence(sequence, inputs) => {
                let mut out = TensorBatch::new(shape, cells);
                for document in 0..documents {
                    let inputs = inputs.iter().map(|input| self.view(*input).of_document(document));
                    out.cells.extend(sequence.value(result, inputs).cells);
                }
                out
            }
            ProgramOp::Generate(body, indices, captured) => {
                let mut out = TensorBatch::new(shape, cells);
                self.generate((body, indices, captured), documents, &mut out, space, nested);
                round(result.cell(), &mut out.cells);
                out
            }
            ProgramOp::MapSubspaces(function, of) => {
                let of = self.view(*of);
                let mut out = of.copy_labels(documents, cells);
                each_subspace(function, &of, documents, &mut space.left, nested, &mut out.cells);
                round(result.cell(), &mut out.cells);
                out
            }
            ProgramOp::FilterSubspaces(function, of) => {
                self.filter_subspaces(id, (function, *of), documents, cells, space, nested)
            }
            ProgramOp::Dense(dense, a, b) => self.rows(id, (*dense, *a, *b), documents, cells, space),
            ProgramOp::Interaction(plan, sides, numbers) => {
                self.interact(id, (plan, sides, numbers), documents, cells, space, nested)
            }
            // `run` handles these without calling this function.
            ProgramOp::Number(_)
            | ProgramOp::Constant(_)
            | ProgramOp::Input(_)
            | ProgramOp::Unary(..)
            | ProgramOp::Binary(..)
            | ProgramOp::Linear(..)
            | ProgramOp::ReducedJoin(..)
            | ProgramOp::Forest(..) => unreachable!("numbers and inputs are not tensors"),
        }
    }

    /// The tensors of a node, copied.
    fn copied(&self, of: NodeId, documents: usize, cells: Vec<f64>) -> TensorBatch {
        self.mapped(of, documents, cells, |cells, out| out.extend_from_slice(cells))
    }

    /// The tensors of a node with the cells that `each` appends for those of a document.
    fn mapped(
        &self,
        of: NodeId,
        documents: usize,
        cells: Vec<f64>,
        mut each: impl FnMut(&[f64], &mut Vec<f64>),
    ) -> TensorBatch {
        let of = self.view(of);
        let mut out = of.copy_labels(documents, cells);
        (0..documents).for_each(|document| each(of.of_document(document), &mut out.cells));
        out
    }

    fn peek(
        &self,
        id: NodeId,
        (of, pins, offsets): (NodeId, &[PinSource], &[u32]),
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
    ) -> TensorBatch {
        let shape = self.program.shapes[id];
        let mut out = TensorBatch::new(shape, cells);
        if self.program.shapes[of].mapped == 0 {
            self.peek_dense(of, (pins, offsets), documents, &mut out.cells);
            return out;
        }
        let of = self.view(of);
        let mut pinned: Vec<PinnedDimension> = Vec::with_capacity(pins.len());
        for document in 0..documents {
            pinned.clear();
            pinned.extend(pins.iter().map(|pin| match pin {
                PinSource::Label(at, label) => {
                    PinnedDimension::Label(*at, space.labels.find(label.as_bytes()))
                }
                PinSource::ComputedLabel(at, id) => {
                    let label = (self.numbers(*id).get(document) as i64).to_string();
                    PinnedDimension::Label(*at, space.labels.find(label.as_bytes()))
                }
                PinSource::Index { step, size, index } => {
                    PinnedDimension::Index { step: *step, size: *size, index: *index }
                }
                PinSource::ComputedIndex { step, size, index } => {
                    let index = self.numbers(*index).get(document).floor();
                    PinnedDimension::Index { step: *step, size: *size, index }
                }
            }));
            tensors::peek(&of, document, &pinned, offsets, shape, &mut out);
        }
        out
    }

    /// [`BatchRun::peek`] for tensors without mapped dimensions: each document's cells have one position,
    /// to which each index adds. Tensors in their stored form are read where they lie.
    fn peek_dense(
        &self,
        of: NodeId,
        (pins, offsets): (&[PinSource], &[u32]),
        documents: usize,
        out: &mut Vec<f64>,
    ) {
        /// Position of an address outside the tensor, whose cells are zeros.
        const OUTSIDE: usize = usize::MAX;
        let size = self.program.shapes[of].size;
        let mut positions: Vec<usize> = vec![0; documents];
        let add = |position: &mut usize, step: usize, size: usize, index: f64| {
            let is_inside = (0.0..size as f64).contains(&index);
            *position = if is_inside { position.saturating_add(index as usize * step) } else { OUTSIDE };
        };
        for pin in pins {
            let (step, size, indices) = match pin {
                PinSource::Index { step, size, index } => (*step, *size, BatchNumbers::Same(*index)),
                PinSource::ComputedIndex { step, size, index } => (*step, *size, self.numbers(*index)),
                PinSource::Label(..) | PinSource::ComputedLabel(..) => {
                    unreachable!("a label is of a mapped dimension, and there is none")
                }
            };
            match indices {
                BatchNumbers::Same(index) => {
                    positions.iter_mut().for_each(|position| add(position, step, size, index));
                }
                BatchNumbers::Each(indices) => {
                    let each = positions.iter_mut().zip(indices);
                    each.for_each(|(position, index)| add(position, step, size, *index));
                }
            }
        }
        let at = |position: usize, offset: &u32| position.saturating_add(*offset as usize);
        let feed = match &self.slots[of] {
            NodeSlot::Operand(operand) => Some(self.operands[*operand].0),
            _ => None,
        };
        let cells = match feed {
            Some(InputFeed::Tensor(tensor)) => CellsRef::of(tensor.cells()),
            Some(InputFeed::Tensors(_) | InputFeed::Stored(_)) => {
                let mut buffers = NarrowedCells::default();
                for (document, position) in positions.iter().enumerate() {
                    let cells = self.cells(of, document, &mut buffers);
                    cells.append_at(offsets.iter().map(|offset| at(*position, offset)), out);
                }
                return;
            }
            Some(InputFeed::Rows(cells, rows)) => {
                for (position, row) in positions.iter_mut().zip(&rows[self.first..]) {
                    *position = position.saturating_add(usize::from(*row) * size);
                }
                cells
            }
            _ => {
                let view = self.view(of);
                for (document, position) in positions.iter_mut().enumerate() {
                    *position = position.saturating_add(view.subspaces(document).start * size);
                }
                CellsRef::Double(view.cells)
            }
        };
        match offsets {
            [offset] => cells.append_at(positions.iter().map(|position| at(*position, offset)), out),
            _ => {
                let each =
                    positions.iter().flat_map(|position| offsets.iter().map(|offset| at(*position, offset)));
                cells.append_at(each, out);
            }
        }
    }
}

/// The cells of the first documents, one after another; copied to `buffer` if they are not adjacent.
fn all_cells<'b>(of: &BatchView<'b>, documents: usize, buffer: &'b mut Vec<f64>) -> &'b [f64] {
    if let Some(cells) = of.adjacent(documents) {
        return cells;
    }
    buffer.clear();
    (0..documents).for_each(|document| buffer.extend_from_slice(of.of_document(document)));
    buffer
}

/// Runs a program with one input over the dense subspaces of tensors, and appends the cells of the results.
fn each_subspace(
    function: &ExpressionProgram,
    of: &BatchView<'_>,
    documents: usize,
    buffer: &mut Vec<f64>,
    scratch: &mut EvaluationScratch,
    out: &mut Vec<f64>,
) {
    let (_, input) = &function.inputs()[0];
    let shape = SubspaceShape { mapped: 0, size: of.shape.size };
    let cells = all_cells(of, documents, buffer);
    for cells in cells.chunks(CELLS_AT_A_TIME.next_multiple_of(shape.size)) {
        let view = BatchView { shape, starts: &[], labels: &[], cells, sharing: 1, first: 0 };
        let operand = match input.is_scalar() {
            true => InputBatch::numbers(cells),
            false => InputBatch(InputFeed::View(view)),
        };
        let subspaces = cells.len() / shape.size;
        function.evaluate_nested(scratch, subspaces, &[operand]).append_cells(subspaces, out);
    }
}
