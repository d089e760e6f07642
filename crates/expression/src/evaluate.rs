use std::borrow::Cow;
use std::sync::Arc;

use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::dense::{self, CellsRef, DensePattern, PreparedMaxSim, SumShape};
use crate::linear;
use crate::operators::BatchNumbers;
use crate::program::{ExpressionProgram, NodeId, PinSource, ProgramOp};
use crate::tensors::{self, PinnedDimension};
use crate::value::TensorValue;

/// Number of cells per run of a nested program.
const CELLS_AT_A_TIME: usize = 1024;

/// The values of one input for a batch of documents.
#[derive(Debug, Clone, Copy)]
pub struct InputBatch<'a>(InputFeed<'a>);

#[derive(Debug, Clone, Copy)]
enum InputFeed<'a> {
    Number(f64),
    Numbers(&'a [f64]),
    Tensor(&'a Tensor),
    Tensors(&'a [Tensor]),
    Rows(CellsRef<'a>, &'a [u16]),
    Value(&'a TensorValue),
}

impl<'a> InputBatch<'a> {
    /// The same number for all documents.
    pub const fn number(number: f64) -> Self {
        InputBatch(InputFeed::Number(number))
    }

    /// One number per document.
    pub const fn numbers(numbers: &'a [f64]) -> Self {
        InputBatch(InputFeed::Numbers(numbers))
    }

    /// The same tensor for all documents. It must have the type that the program was compiled for.
    pub const fn tensor(tensor: &'a Tensor) -> Self {
        InputBatch(InputFeed::Tensor(tensor))
    }

    /// One tensor per document.
    pub const fn tensors(tensors: &'a [Tensor]) -> Self {
        InputBatch(InputFeed::Tensors(tensors))
    }

    /// One dense tensor per document: rows of a column, by index.
    pub fn rows(cells: TensorRows<'a>, rows: &'a [u16]) -> Self {
        let cells = match cells {
            TensorRows::Double(cells) => CellsRef::Double(cells),
            TensorRows::Float(cells) => CellsRef::Float(cells),
            TensorRows::BFloat16(cells) => CellsRef::BFloat16(cells),
            TensorRows::Int8(cells) => CellsRef::Int8(cells),
        };
        InputBatch(InputFeed::Rows(cells, rows))
    }
}

/// The cells of a column of dense tensors.
#[derive(Debug, Clone, Copy)]
pub enum TensorRows<'a> {
    /// `double`
    Double(&'a [f64]),
    /// `float`
    Float(&'a [f32]),
    /// `bfloat16`
    BFloat16(&'a [half::bf16]),
    /// `int8`
    Int8(&'a [i8]),
}

/// Reusable memory for evaluation. After the first batches, numbers need no further allocation.
#[derive(Debug, Default)]
pub struct EvaluationScratch {
    slots: Vec<NodeSlot>,
    spare: Vec<Vec<f64>>,
    nested: Option<Box<EvaluationScratch>>,
}

/// Result of one node.
#[derive(Debug, Default)]
enum NodeSlot {
    #[default]
    Empty,
    Number(f64),
    Numbers(Vec<f64>),
    Value(Arc<TensorValue>),
    Values(Vec<TensorValue>),
    Operand(usize),
}

/// Result of a program for a batch.
#[derive(Debug)]
pub struct BatchOutput<'a> {
    slot: &'a NodeSlot,
    operands: &'a [InputBatch<'a>],
    tensor_type: &'a TensorType,
}

impl BatchOutput<'_> {
    /// The number for a document of the batch; for a tensor, its first cell.
    pub fn number(&self, document: usize) -> f64 {
        match numbers(self.slot, self.operands) {
            Some(numbers) => numbers.get(document),
            None => self.value(document).cells.first().copied().unwrap_or_default(),
        }
    }

    /// Writes the numbers of the whole batch.
    pub fn write(&self, out: &mut [f64]) {
        match numbers(self.slot, self.operands) {
            Some(BatchNumbers::Same(number)) => out.fill(number),
            Some(BatchNumbers::Each(numbers)) => out.copy_from_slice(&numbers[..out.len()]),
            None => out.iter_mut().enumerate().for_each(|(i, out)| *out = self.number(i)),
        }
    }

    /// The tensor for a document of the batch.
    pub fn tensor(&self, document: usize) -> Tensor {
        self.value(document).to_tensor()
    }

    /// Writes the cells of a dense tensor for a document of the batch; the cells beyond it are 0.
    pub fn write_cells(&self, document: usize, out: &mut [f64]) {
        out.fill(0.0);
        if let NodeSlot::Operand(at) = self.slot
            && let InputFeed::Rows(cells, rows) = self.operands[*at].0
        {
            cells.row(usize::from(rows[document]), out.len()).write(out);
            return;
        }
        let value = self.value(document);
        out.iter_mut().zip(&value.cells).for_each(|(out, cell)| *out = *cell);
    }

    pub(crate) fn value(&self, document: usize) -> Cow<'_, TensorValue> {
        value(self.slot, self.operands, self.tensor_type, document)
    }
}

impl ExpressionProgram {
    /// Evaluates a batch of `documents`. `inputs` are the values of [`ExpressionProgram::inputs`], in that
    /// order.
    pub fn evaluate<'a>(
        &'a self,
        scratch: &'a mut EvaluationScratch,
        documents: usize,
        inputs: &'a [InputBatch<'a>],
    ) -> BatchOutput<'a> {
        scratch.slots.clear();
        scratch.slots.resize_with(self.nodes.len(), NodeSlot::default);
        let mut nested = scratch.nested.take().unwrap_or_default();
        for id in 0..self.nodes.len() {
            let (before, _) = scratch.slots.split_at(id);
            let batch = BatchRun { program: self, slots: before, operands: inputs, documents };
            let slot = batch.run(id, &mut scratch.spare, &mut nested);
            scratch.slots[id] = slot;
            for done in &self.done[id] {
                if let NodeSlot::Numbers(numbers) = std::mem::take(&mut scratch.slots[*done]) {
                    scratch.spare.push(numbers);
                }
            }
        }
        scratch.nested = Some(nested);
        let last = self.nodes.len() - 1;
        BatchOutput {
            slot: &scratch.slots[last],
            operands: inputs,
            tensor_type: &self.nodes[last].tensor_type,
        }
    }

    /// Runs a numeric program over cells: `inputs[i]` are the numbers of input `i`.
    pub(crate) fn run_over_cells(
        &self,
        inputs: &[BatchNumbers<'_>],
        out: &mut [f64],
        scratch: &mut EvaluationScratch,
    ) {
        for (i, out) in out.chunks_mut(CELLS_AT_A_TIME).enumerate() {
            let from = i * CELLS_AT_A_TIME;
            let operands: Vec<InputBatch<'_>> = inputs
                .iter()
                .map(|input| match input {
                    BatchNumbers::Same(number) => InputBatch::number(*number),
                    BatchNumbers::Each(numbers) => {
                        InputBatch::numbers(numbers.get(from..from + out.len()).unwrap_or_default())
                    }
                })
                .collect();
            self.evaluate(scratch, out.len(), &operands).write(out);
        }
    }
}

fn numbers<'a>(slot: &'a NodeSlot, operands: &[InputBatch<'a>]) -> Option<BatchNumbers<'a>> {
    match slot {
        NodeSlot::Number(number) => Some(BatchNumbers::Same(*number)),
        NodeSlot::Numbers(numbers) => Some(BatchNumbers::Each(numbers)),
        NodeSlot::Operand(at) => match operands[*at].0 {
            InputFeed::Number(number) => Some(BatchNumbers::Same(number)),
            InputFeed::Numbers(numbers) => Some(BatchNumbers::Each(numbers)),
            _ => None,
        },
        NodeSlot::Empty | NodeSlot::Value(_) | NodeSlot::Values(_) => None,
    }
}

fn value<'a>(
    slot: &'a NodeSlot,
    operands: &[InputBatch<'a>],
    tensor_type: &TensorType,
    document: usize,
) -> Cow<'a, TensorValue> {
    match slot {
        NodeSlot::Value(value) => Cow::Borrowed(value),
        NodeSlot::Values(values) => Cow::Borrowed(&values[document]),
        NodeSlot::Empty => Cow::Owned(TensorValue::empty(tensor_type)),
        NodeSlot::Number(number) => Cow::Owned(TensorValue::number(*number)),
        NodeSlot::Numbers(numbers) => Cow::Owned(TensorValue::number(numbers[document])),
        NodeSlot::Operand(at) => match operands[*at].0 {
            InputFeed::Number(number) => Cow::Owned(TensorValue::number(number)),
            InputFeed::Numbers(numbers) => Cow::Owned(TensorValue::number(numbers[document])),
            InputFeed::Tensor(tensor) => Cow::Owned(TensorValue::from_tensor(tensor)),
            InputFeed::Tensors(tensors) => Cow::Owned(TensorValue::from_tensor(&tensors[document])),
            InputFeed::Value(value) => Cow::Borrowed(value),
            InputFeed::Rows(cells, rows) => {
                let width = tensor_type.dense_size();
                let mut row = cells.row(usize::from(rows[document]), width).to_f64();
                row.resize(width, 0.0);
                Cow::Owned(TensorValue { tensor_type: tensor_type.clone(), labels: Vec::new(), cells: row })
            }
        },
    }
}

/// A run over a batch, up to a node.
struct BatchRun<'a> {
    program: &'a ExpressionProgram,
    slots: &'a [NodeSlot],
    operands: &'a [InputBatch<'a>],
    documents: usize,
}

impl<'a> BatchRun<'a> {
    fn numbers(&self, id: NodeId) -> BatchNumbers<'a> {
        numbers(&self.slots[id], self.operands).unwrap_or(BatchNumbers::Same(f64::NAN))
    }

    fn value(&self, id: NodeId, document: usize) -> Cow<'a, TensorValue> {
        value(&self.slots[id], self.operands, &self.program.nodes[id].tensor_type, document)
    }

    /// True if the result of a node is the same for all documents.
    fn is_same(&self, id: NodeId) -> bool {
        match &self.slots[id] {
            NodeSlot::Empty | NodeSlot::Number(_) | NodeSlot::Value(_) => true,
            NodeSlot::Numbers(_) | NodeSlot::Values(_) => false,
            NodeSlot::Operand(at) => {
                matches!(
                    self.operands[*at].0,
                    InputFeed::Number(_) | InputFeed::Tensor(_) | InputFeed::Value(_)
                )
            }
        }
    }

    fn run(&self, id: NodeId, spare: &mut Vec<Vec<f64>>, nested: &mut EvaluationScratch) -> NodeSlot {
        let node = &self.program.nodes[id];
        match &node.op {
            ProgramOp::Number(number) => NodeSlot::Number(*number),
            ProgramOp::Constant(value) => NodeSlot::Value(Arc::clone(value)),
            ProgramOp::Input(at) => match self.operands.get(*at).map(|operand| operand.0) {
                None => NodeSlot::Value(Arc::new(TensorValue::empty(&node.tensor_type))),
                Some(InputFeed::Tensor(tensor)) if node.tensor_type.is_scalar() => {
                    NodeSlot::Number(tensor.cells().iter().next().unwrap_or_default())
                }
                Some(_) => NodeSlot::Operand(*at),
            },
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
                let (x, y) = (self.numbers(*x), self.numbers(*y));
                let mut out = self.buffer(spare);
                match self.numbers(*condition) {
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
                NodeSlot::Numbers(out)
            }
            ProgramOp::Dense(dense, a, b) if dense.shape != SumShape::Rows => {
                self.run_dense(*dense, *a, *b, spare)
            }
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
            _ => self.run_values(id, spare, nested),
        }
    }

    fn buffer(&self, spare: &mut Vec<Vec<f64>>) -> Vec<f64> {
        let mut out = spare.pop().unwrap_or_default();
        out.resize(self.documents, 0.0);
        out
    }

    /// Evaluates document by document; once if all documents have the same inputs.
    fn run_values(&self, id: NodeId, spare: &mut Vec<Vec<f64>>, nested: &mut EvaluationScratch) -> NodeSlot {
        let node = &self.program.nodes[id];
        let same = self.program.arguments[id].iter().all(|argument| self.is_same(*argument));
        match (node.tensor_type.is_scalar(), same) {
            (true, true) => NodeSlot::Number(self.one(id, 0, nested).cells[0]),
            (false, true) => NodeSlot::Value(Arc::new(self.one(id, 0, nested))),
            (true, false) => {
                let mut out = self.buffer(spare);
                out.iter_mut().enumerate().for_each(|(i, out)| *out = self.one(id, i, nested).cells[0]);
                NodeSlot::Numbers(out)
            }
            (false, false) => {
                NodeSlot::Values((0..self.documents).map(|i| self.one(id, i, nested)).collect())
            }
        }
    }

    /// Value of a node for one document.
    fn one(&self, id: NodeId, document: usize, nested: &mut EvaluationScratch) -> TensorValue {
        let node = &self.program.nodes[id];
        let result = &node.tensor_type;
        let value = |id: &NodeId| self.value(*id, document);
        let number = |id: &NodeId| self.numbers(*id).get(document);
        match &node.op {
            // `run` handles these without calling this function.
            ProgramOp::Number(_)
            | ProgramOp::Constant(_)
            | ProgramOp::Input(_)
            | ProgramOp::Unary(..)
            | ProgramOp::Binary(..)
            | ProgramOp::Linear(..)
            | ProgramOp::Forest(..) => TensorValue::empty(result),
            ProgramOp::Choose(condition, x, y) => {
                let chosen = if number(condition) != 0.0 { value(x) } else { value(y) };
                TensorValue { tensor_type: result.clone(), ..chosen.into_owned() }
            }
            ProgramOp::Map(function, of) => {
                let of = value(of);
                let mut cells = vec![0.0; of.cells.len()];
                function.apply(BatchNumbers::Each(&of.cells), BatchNumbers::Same(0.0), &mut cells, nested);
                TensorValue { tensor_type: result.clone(), labels: of.labels.clone(), cells }.rounded()
            }
            ProgramOp::Join(function, plan, a, b) => {
                plan.of(&value(a), &value(b), &mut |x, y, out| function.apply(x, y, out, nested))
            }
            ProgramOp::Merge(function, a, b) => {
                tensors::merge(&value(a), &value(b), result, &mut |x, y, out| {
                    function.apply(x, y, out, nested)
                })
            }
            ProgramOp::Reduce(plan, of) => plan.of(&value(of)),
            ProgramOp::Rename(plan, of) => plan.of(&value(of)),
            ProgramOp::Concat(plan, a, b) => plan.of(&value(a), &value(b)),
            ProgramOp::Peek(of, pins, cells) => {
                let pins: Vec<PinnedDimension> = pins
                    .iter()
                    .map(|pin| match pin {
                        PinSource::Label(at, label) => PinnedDimension::Label(*at, Arc::clone(label)),
                        PinSource::ComputedLabel(at, id) => {
                            PinnedDimension::Label(*at, (number(id) as i64).to_string().into())
                        }
                        PinSource::Index { step, size, index } => {
                            PinnedDimension::Index { step: *step, size: *size, index: *index }
                        }
                        PinSource::ComputedIndex { step, size, index } => {
                            PinnedDimension::Index { step: *step, size: *size, index: number(index).floor() }
                        }
                    })
                    .collect();
                tensors::peek(&value(of), &pins, cells, result)
            }
            ProgramOp::Cast(of) => {
                TensorValue { tensor_type: result.clone(), ..value(of).into_owned() }.rounded()
            }
            ProgramOp::CellOrder { largest_first, of } => {
                tensors::cell_order(&value(of), *largest_first, result)
            }
            ProgramOp::UnpackBits { lowest_first, of } => {
                tensors::unpack_bits(&value(of), *lowest_first, result)
            }
            ProgramOp::Create(labels, cells) => TensorValue {
                tensor_type: result.clone(),
                labels: labels.to_vec(),
                cells: cells.iter().map(number).collect(),
            }
            .rounded(),
            ProgramOp::TokenSequence(sequence, inputs) => {
                let inputs: Vec<Cow<'_, TensorValue>> = inputs.iter().map(value).collect();
                sequence.value(result, inputs.iter().map(|input| input.cells.as_slice()))
            }
            ProgramOp::Generate(body, indices, captured) => {
                let captured: Vec<Cow<'_, TensorValue>> = captured.iter().map(value).collect();
                let mut cells = vec![0.0; result.dense_size()];
                for (i, out) in cells.chunks_mut(CELLS_AT_A_TIME).enumerate() {
                    let from = i * CELLS_AT_A_TIME;
                    let indices = indices.iter().map(|all| InputBatch::numbers(&all[from..from + out.len()]));
                    let captured = captured.iter().map(|value| match value.tensor_type.is_scalar() {
                        true => InputBatch::number(value.cells[0]),
                        false => InputBatch(InputFeed::Value(value)),
                    });
                    let operands: Vec<InputBatch<'_>> = indices.chain(captured).collect();
                    body.evaluate(nested, out.len(), &operands).write(out);
                }
                TensorValue { tensor_type: result.clone(), labels: Vec::new(), cells }.rounded()
            }
            ProgramOp::MapSubspaces(function, of) => {
                let of = value(of);
                let mut cells = Vec::new();
                each_subspace(function, &of, nested, |_, value| cells.extend_from_slice(&value.cells));
                TensorValue { tensor_type: result.clone(), labels: of.labels.clone(), cells }.rounded()
            }
            ProgramOp::FilterSubspaces(function, of) => {
                let of = value(of);
                let mut kept =
                    TensorValue { tensor_type: result.clone(), labels: Vec::new(), cells: Vec::new() };
                each_subspace(function, &of, nested, |i, value| {
                    if value.cells.iter().any(|cell| *cell != 0.0) {
                        kept.labels.extend_from_slice(of.address(i));
                        kept.cells.extend_from_slice(of.subspace(i));
                    }
                });
                kept
            }
            ProgramOp::Dense(dense, a, b) => {
                let (vector, of) = (value(a), value(b));
                let (vector, rows) = (dense::narrowed(&vector), dense::narrowed(&of));
                let (vector, rows) = (CellsRef::of(&vector), CellsRef::of(&rows));
                let sums =
                    (0..rows.len() / dense.width).map(|i| dense.sum.of(vector, rows.row(i, dense.width)));
                TensorValue { tensor_type: result.clone(), labels: of.labels.clone(), cells: sums.collect() }
                    .rounded()
            }
        }
    }

    /// Evaluates a pattern whose result is a number.
    fn run_dense(&self, dense: DensePattern, a: NodeId, b: NodeId, spare: &mut Vec<Vec<f64>>) -> NodeSlot {
        let max_sim = dense.shape == SumShape::MaxSim;
        let of = |a: CellsRef<'_>, b: CellsRef<'_>| match max_sim {
            true => PreparedMaxSim::new(dense.sum, a, dense.width).of(b),
            false => dense.sum.of(a, b),
        };
        if self.is_same(a) && self.is_same(b) {
            return NodeSlot::Number(of(self.cells(a, 0).borrow(), self.cells(b, 0).borrow()));
        }
        let mut out = self.buffer(spare);
        match (self.is_same(a), self.is_same(b)) {
            (true, _) => {
                let vector = self.cells(a, 0);
                match self.rows(b) {
                    _ if max_sim => {
                        let mut query = PreparedMaxSim::new(dense.sum, vector.borrow(), dense.width);
                        out.iter_mut()
                            .enumerate()
                            .for_each(|(i, out)| *out = query.of(self.cells(b, i).borrow()));
                    }
                    Some((cells, rows)) => {
                        dense.sum.of_rows(vector.borrow(), cells, dense.width, rows, &mut out);
                    }
                    _ => self.each(&mut out, |i| of(vector.borrow(), self.cells(b, i).borrow())),
                }
            }
            (_, true) => {
                let vector = self.cells(b, 0);
                match self.rows(a) {
                    Some((cells, rows)) if !max_sim => {
                        dense.sum.of_rows(vector.borrow(), cells, dense.width, rows, &mut out);
                    }
                    _ => self.each(&mut out, |i| of(self.cells(a, i).borrow(), vector.borrow())),
                }
            }
            _ => self.each(&mut out, |i| of(self.cells(a, i).borrow(), self.cells(b, i).borrow())),
        }
        NodeSlot::Numbers(out)
    }

    fn each(&self, out: &mut [f64], f: impl Fn(usize) -> f64) {
        out.iter_mut().enumerate().for_each(|(i, out)| *out = f(i));
    }

    /// Rows of an input given as rows.
    fn rows(&self, id: NodeId) -> Option<(CellsRef<'a>, &'a [u16])> {
        match &self.slots[id] {
            NodeSlot::Operand(at) => match self.operands[*at].0 {
                InputFeed::Rows(cells, rows) => Some((cells, rows)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Cells of a node's value for one document, in their storage type if they are stored.
    fn cells(&self, id: NodeId, document: usize) -> StoredCells<'a> {
        if let NodeSlot::Operand(at) = &self.slots[id] {
            match self.operands[*at].0 {
                InputFeed::Tensor(tensor) => return StoredCells::There(CellsRef::of(tensor.cells())),
                InputFeed::Tensors(tensors) => {
                    return StoredCells::There(CellsRef::of(tensors[document].cells()));
                }
                InputFeed::Rows(cells, rows) => {
                    let width = self.program.nodes[id].tensor_type.dense_size();
                    return StoredCells::There(cells.row(usize::from(rows[document]), width));
                }
                _ => {}
            }
        }
        StoredCells::Made(dense::narrowed(&self.value(id, document)))
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

/// Runs a program with one input over the dense subspaces of a value.
fn each_subspace(
    function: &ExpressionProgram,
    of: &TensorValue,
    scratch: &mut EvaluationScratch,
    mut visit: impl FnMut(usize, &TensorValue),
) {
    let (_, input) = &function.inputs()[0];
    for i in 0..of.subspaces() {
        let subspace =
            TensorValue { tensor_type: input.clone(), labels: Vec::new(), cells: of.subspace(i).to_vec() };
        let operand = match input.is_scalar() {
            true => InputBatch::number(subspace.cells[0]),
            false => InputBatch(InputFeed::Value(&subspace)),
        };
        visit(i, &function.evaluate(scratch, 1, &[operand]).value(0));
    }
}
