use std::borrow::Cow;
use std::sync::Arc;

use millrace_tensor::{Cells, Tensor, TensorType};

use crate::dense::{self, CellsRef, Dense, MaxSim, Shape};
use crate::linear;
use crate::operators::Numbers;
use crate::program::{NodeId, Op, PinSource, Program};
use crate::tensors::{self, Pin};
use crate::value::Value;

/// Number of cells per run of a nested program.
const CELLS_AT_A_TIME: usize = 1024;

/// The values of one input for a batch of documents.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a>(Feed<'a>);

#[derive(Debug, Clone, Copy)]
enum Feed<'a> {
    Number(f64),
    Numbers(&'a [f64]),
    Tensor(&'a Tensor),
    Tensors(&'a [Tensor]),
    Rows(CellsRef<'a>, &'a [u16]),
    Value(&'a Value),
}

impl<'a> Operand<'a> {
    /// The same number for all documents.
    pub const fn number(number: f64) -> Self {
        Operand(Feed::Number(number))
    }

    /// One number per document.
    pub const fn numbers(numbers: &'a [f64]) -> Self {
        Operand(Feed::Numbers(numbers))
    }

    /// The same tensor for all documents. It must have the type that the program was compiled for.
    pub const fn tensor(tensor: &'a Tensor) -> Self {
        Operand(Feed::Tensor(tensor))
    }

    /// One tensor per document.
    pub const fn tensors(tensors: &'a [Tensor]) -> Self {
        Operand(Feed::Tensors(tensors))
    }

    /// One dense tensor per document: rows of a column, by index.
    pub fn rows(cells: Rows<'a>, rows: &'a [u16]) -> Self {
        let cells = match cells {
            Rows::Double(cells) => CellsRef::Double(cells),
            Rows::Float(cells) => CellsRef::Float(cells),
            Rows::BFloat16(cells) => CellsRef::BFloat16(cells),
            Rows::Int8(cells) => CellsRef::Int8(cells),
        };
        Operand(Feed::Rows(cells, rows))
    }
}

/// The cells of a column of dense tensors.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
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
pub struct Scratch {
    slots: Vec<Slot>,
    spare: Vec<Vec<f64>>,
    nested: Option<Box<Scratch>>,
}

/// Result of one node.
#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Number(f64),
    Numbers(Vec<f64>),
    Value(Arc<Value>),
    Values(Vec<Value>),
    Operand(usize),
}

/// Result of a program for a batch.
#[derive(Debug)]
pub struct Output<'a> {
    slot: &'a Slot,
    operands: &'a [Operand<'a>],
    tensor_type: &'a TensorType,
}

impl Output<'_> {
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
            Some(Numbers::Same(number)) => out.fill(number),
            Some(Numbers::Each(numbers)) => out.copy_from_slice(&numbers[..out.len()]),
            None => out.iter_mut().enumerate().for_each(|(i, out)| *out = self.number(i)),
        }
    }

    /// The tensor for a document of the batch.
    pub fn tensor(&self, document: usize) -> Tensor {
        self.value(document).to_tensor()
    }

    pub(crate) fn value(&self, document: usize) -> Cow<'_, Value> {
        value(self.slot, self.operands, self.tensor_type, document)
    }
}

impl Program {
    /// Evaluates a batch of `documents`. `inputs` are the values of [`Program::inputs`], in that order.
    pub fn evaluate<'a>(
        &'a self,
        scratch: &'a mut Scratch,
        documents: usize,
        inputs: &'a [Operand<'a>],
    ) -> Output<'a> {
        scratch.slots.clear();
        scratch.slots.resize_with(self.nodes.len(), Slot::default);
        let mut nested = scratch.nested.take().unwrap_or_default();
        for id in 0..self.nodes.len() {
            let (before, _) = scratch.slots.split_at(id);
            let batch = Batch { program: self, slots: before, operands: inputs, documents };
            let slot = batch.run(id, &mut scratch.spare, &mut nested);
            scratch.slots[id] = slot;
            for done in &self.done[id] {
                if let Slot::Numbers(numbers) = std::mem::take(&mut scratch.slots[*done]) {
                    scratch.spare.push(numbers);
                }
            }
        }
        scratch.nested = Some(nested);
        let last = self.nodes.len() - 1;
        Output { slot: &scratch.slots[last], operands: inputs, tensor_type: &self.nodes[last].tensor_type }
    }

    /// Runs a numeric program over cells: `inputs[i]` are the numbers of input `i`.
    pub(crate) fn run_over_cells(&self, inputs: &[Numbers<'_>], out: &mut [f64], scratch: &mut Scratch) {
        for (i, out) in out.chunks_mut(CELLS_AT_A_TIME).enumerate() {
            let from = i * CELLS_AT_A_TIME;
            let operands: Vec<Operand<'_>> = inputs
                .iter()
                .map(|input| match input {
                    Numbers::Same(number) => Operand::number(*number),
                    Numbers::Each(numbers) => {
                        Operand::numbers(numbers.get(from..from + out.len()).unwrap_or_default())
                    }
                })
                .collect();
            self.evaluate(scratch, out.len(), &operands).write(out);
        }
    }
}

fn numbers<'a>(slot: &'a Slot, operands: &[Operand<'a>]) -> Option<Numbers<'a>> {
    match slot {
        Slot::Number(number) => Some(Numbers::Same(*number)),
        Slot::Numbers(numbers) => Some(Numbers::Each(numbers)),
        Slot::Operand(at) => match operands[*at].0 {
            Feed::Number(number) => Some(Numbers::Same(number)),
            Feed::Numbers(numbers) => Some(Numbers::Each(numbers)),
            _ => None,
        },
        Slot::Empty | Slot::Value(_) | Slot::Values(_) => None,
    }
}

fn value<'a>(
    slot: &'a Slot,
    operands: &[Operand<'a>],
    tensor_type: &TensorType,
    document: usize,
) -> Cow<'a, Value> {
    match slot {
        Slot::Value(value) => Cow::Borrowed(value),
        Slot::Values(values) => Cow::Borrowed(&values[document]),
        Slot::Empty => Cow::Owned(Value::empty(tensor_type)),
        Slot::Number(number) => Cow::Owned(Value::number(*number)),
        Slot::Numbers(numbers) => Cow::Owned(Value::number(numbers[document])),
        Slot::Operand(at) => match operands[*at].0 {
            Feed::Number(number) => Cow::Owned(Value::number(number)),
            Feed::Numbers(numbers) => Cow::Owned(Value::number(numbers[document])),
            Feed::Tensor(tensor) => Cow::Owned(Value::from_tensor(tensor)),
            Feed::Tensors(tensors) => Cow::Owned(Value::from_tensor(&tensors[document])),
            Feed::Value(value) => Cow::Borrowed(value),
            Feed::Rows(cells, rows) => {
                let width = tensor_type.dense_size();
                let mut row = cells.row(usize::from(rows[document]), width).to_f64();
                row.resize(width, 0.0);
                Cow::Owned(Value { tensor_type: tensor_type.clone(), labels: Vec::new(), cells: row })
            }
        },
    }
}

/// A run over a batch, up to a node.
struct Batch<'a> {
    program: &'a Program,
    slots: &'a [Slot],
    operands: &'a [Operand<'a>],
    documents: usize,
}

impl<'a> Batch<'a> {
    fn numbers(&self, id: NodeId) -> Numbers<'a> {
        numbers(&self.slots[id], self.operands).unwrap_or(Numbers::Same(f64::NAN))
    }

    fn value(&self, id: NodeId, document: usize) -> Cow<'a, Value> {
        value(&self.slots[id], self.operands, &self.program.nodes[id].tensor_type, document)
    }

    /// True if the result of a node is the same for all documents.
    fn is_same(&self, id: NodeId) -> bool {
        match &self.slots[id] {
            Slot::Empty | Slot::Number(_) | Slot::Value(_) => true,
            Slot::Numbers(_) | Slot::Values(_) => false,
            Slot::Operand(at) => {
                matches!(self.operands[*at].0, Feed::Number(_) | Feed::Tensor(_) | Feed::Value(_))
            }
        }
    }

    fn run(&self, id: NodeId, spare: &mut Vec<Vec<f64>>, nested: &mut Scratch) -> Slot {
        let node = &self.program.nodes[id];
        match &node.op {
            Op::Number(number) => Slot::Number(*number),
            Op::Constant(value) => Slot::Value(Arc::clone(value)),
            Op::Input(at) => match self.operands.get(*at).map(|operand| operand.0) {
                None => Slot::Value(Arc::new(Value::empty(&node.tensor_type))),
                Some(Feed::Tensor(tensor)) if node.tensor_type.is_scalar() => {
                    Slot::Number(tensor.cells().iter().next().unwrap_or_default())
                }
                Some(_) => Slot::Operand(*at),
            },
            Op::Unary(unary, x) => match self.numbers(*x) {
                Numbers::Same(x) => Slot::Number(unary.apply(x)),
                Numbers::Each(x) => {
                    let mut out = spare.pop().unwrap_or_default();
                    out.clear();
                    out.extend_from_slice(&x[..self.documents]);
                    unary.apply_to(&mut out);
                    Slot::Numbers(out)
                }
            },
            Op::Binary(binary, x, y) => match (self.numbers(*x), self.numbers(*y)) {
                (Numbers::Same(x), Numbers::Same(y)) => Slot::Number(binary.apply(x, y)),
                (x, y) => {
                    let mut out = self.buffer(spare);
                    binary.apply_to(x, y, &mut out);
                    Slot::Numbers(out)
                }
            },
            Op::Choose(condition, x, y) if node.tensor_type.is_scalar() => {
                let (x, y) = (self.numbers(*x), self.numbers(*y));
                let mut out = self.buffer(spare);
                match self.numbers(*condition) {
                    Numbers::Same(condition) => {
                        let chosen = if condition != 0.0 { x } else { y };
                        out.iter_mut().enumerate().for_each(|(i, out)| *out = chosen.get(i));
                    }
                    Numbers::Each(condition) => {
                        for (i, (out, condition)) in out.iter_mut().zip(condition).enumerate() {
                            *out = if *condition != 0.0 { x.get(i) } else { y.get(i) };
                        }
                    }
                }
                Slot::Numbers(out)
            }
            Op::Dense(dense, a, b) if dense.shape != Shape::Rows => self.run_dense(*dense, *a, *b, spare),
            Op::Linear(weights, terms) if terms.iter().any(|term| !self.is_same(*term)) => {
                let terms: Vec<Numbers<'_>> = terms.iter().map(|term| self.numbers(*term)).collect();
                let mut out = self.buffer(spare);
                linear::sum(weights, &terms, &mut out);
                Slot::Numbers(out)
            }
            Op::Linear(weights, terms) => {
                let terms: Vec<Numbers<'_>> = terms.iter().map(|term| self.numbers(*term)).collect();
                let mut out = [0.0];
                linear::sum(weights, &terms, &mut out);
                Slot::Number(out[0])
            }
            Op::Forest(forest, inputs) => {
                let inputs: Vec<Numbers<'_>> = inputs.iter().map(|input| self.numbers(*input)).collect();
                let mut rows = spare.pop().unwrap_or_default();
                let mut out = self.buffer(spare);
                forest.evaluate(&inputs, &mut rows, &mut out);
                spare.push(rows);
                Slot::Numbers(out)
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
    fn run_values(&self, id: NodeId, spare: &mut Vec<Vec<f64>>, nested: &mut Scratch) -> Slot {
        let node = &self.program.nodes[id];
        let same = self.program.arguments[id].iter().all(|argument| self.is_same(*argument));
        match (node.tensor_type.is_scalar(), same) {
            (true, true) => Slot::Number(self.one(id, 0, nested).cells[0]),
            (false, true) => Slot::Value(Arc::new(self.one(id, 0, nested))),
            (true, false) => {
                let mut out = self.buffer(spare);
                out.iter_mut().enumerate().for_each(|(i, out)| *out = self.one(id, i, nested).cells[0]);
                Slot::Numbers(out)
            }
            (false, false) => Slot::Values((0..self.documents).map(|i| self.one(id, i, nested)).collect()),
        }
    }

    /// Value of a node for one document.
    fn one(&self, id: NodeId, document: usize, nested: &mut Scratch) -> Value {
        let node = &self.program.nodes[id];
        let result = &node.tensor_type;
        let value = |id: &NodeId| self.value(*id, document);
        let number = |id: &NodeId| self.numbers(*id).get(document);
        match &node.op {
            // `run` handles these without calling this function.
            Op::Number(_)
            | Op::Constant(_)
            | Op::Input(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Linear(..)
            | Op::Forest(..) => Value::empty(result),
            Op::Choose(condition, x, y) => {
                let chosen = if number(condition) != 0.0 { value(x) } else { value(y) };
                Value { tensor_type: result.clone(), ..chosen.into_owned() }
            }
            Op::Map(function, of) => {
                let of = value(of);
                let mut cells = vec![0.0; of.cells.len()];
                function.apply(Numbers::Each(&of.cells), Numbers::Same(0.0), &mut cells, nested);
                Value { tensor_type: result.clone(), labels: of.labels.clone(), cells }.rounded()
            }
            Op::Join(function, plan, a, b) => {
                plan.of(&value(a), &value(b), &mut |x, y, out| function.apply(x, y, out, nested))
            }
            Op::Merge(function, a, b) => tensors::merge(&value(a), &value(b), result, &mut |x, y, out| {
                function.apply(x, y, out, nested)
            }),
            Op::Reduce(plan, of) => plan.of(&value(of)),
            Op::Rename(plan, of) => plan.of(&value(of)),
            Op::Concat(plan, a, b) => plan.of(&value(a), &value(b)),
            Op::Peek(of, pins, cells) => {
                let pins: Vec<Pin> = pins
                    .iter()
                    .map(|pin| match pin {
                        PinSource::Label(at, label) => Pin::Label(*at, Arc::clone(label)),
                        PinSource::ComputedLabel(at, id) => {
                            Pin::Label(*at, (number(id) as i64).to_string().into())
                        }
                        PinSource::Index { step, size, index } => {
                            Pin::Index { step: *step, size: *size, index: *index }
                        }
                        PinSource::ComputedIndex { step, size, index } => {
                            Pin::Index { step: *step, size: *size, index: number(index).floor() }
                        }
                    })
                    .collect();
                tensors::peek(&value(of), &pins, cells, result)
            }
            Op::Cast(of) => Value { tensor_type: result.clone(), ..value(of).into_owned() }.rounded(),
            Op::CellOrder { largest_first, of } => tensors::cell_order(&value(of), *largest_first, result),
            Op::UnpackBits { lowest_first, of } => tensors::unpack_bits(&value(of), *lowest_first, result),
            Op::Create(labels, cells) => Value {
                tensor_type: result.clone(),
                labels: labels.to_vec(),
                cells: cells.iter().map(number).collect(),
            }
            .rounded(),
            Op::TokenSequence(sequence, inputs) => {
                let inputs: Vec<Cow<'_, Value>> = inputs.iter().map(value).collect();
                sequence.value(result, inputs.iter().map(|input| input.cells.as_slice()))
            }
            Op::Generate(body, indices, captured) => {
                let captured: Vec<Cow<'_, Value>> = captured.iter().map(value).collect();
                let mut cells = vec![0.0; result.dense_size()];
                for (i, out) in cells.chunks_mut(CELLS_AT_A_TIME).enumerate() {
                    let from = i * CELLS_AT_A_TIME;
                    let indices = indices.iter().map(|all| Operand::numbers(&all[from..from + out.len()]));
                    let captured = captured.iter().map(|value| match value.tensor_type.is_scalar() {
                        true => Operand::number(value.cells[0]),
                        false => Operand(Feed::Value(value)),
                    });
                    let operands: Vec<Operand<'_>> = indices.chain(captured).collect();
                    body.evaluate(nested, out.len(), &operands).write(out);
                }
                Value { tensor_type: result.clone(), labels: Vec::new(), cells }.rounded()
            }
            Op::MapSubspaces(function, of) => {
                let of = value(of);
                let mut cells = Vec::new();
                each_subspace(function, &of, nested, |_, value| cells.extend_from_slice(&value.cells));
                Value { tensor_type: result.clone(), labels: of.labels.clone(), cells }.rounded()
            }
            Op::FilterSubspaces(function, of) => {
                let of = value(of);
                let mut kept = Value { tensor_type: result.clone(), labels: Vec::new(), cells: Vec::new() };
                each_subspace(function, &of, nested, |i, value| {
                    if value.cells.iter().any(|cell| *cell != 0.0) {
                        kept.labels.extend_from_slice(of.address(i));
                        kept.cells.extend_from_slice(of.subspace(i));
                    }
                });
                kept
            }
            Op::Dense(dense, a, b) => {
                let (vector, of) = (value(a), value(b));
                let (vector, rows) = (dense::narrowed(&vector), dense::narrowed(&of));
                let (vector, rows) = (CellsRef::of(&vector), CellsRef::of(&rows));
                let sums =
                    (0..rows.len() / dense.width).map(|i| dense.sum.of(vector, rows.row(i, dense.width)));
                Value { tensor_type: result.clone(), labels: of.labels.clone(), cells: sums.collect() }
                    .rounded()
            }
        }
    }

    /// Evaluates a pattern whose result is a number.
    fn run_dense(&self, dense: Dense, a: NodeId, b: NodeId, spare: &mut Vec<Vec<f64>>) -> Slot {
        let max_sim = dense.shape == Shape::MaxSim;
        let of = |a: CellsRef<'_>, b: CellsRef<'_>| match max_sim {
            true => MaxSim::new(dense.sum, a, dense.width).of(b),
            false => dense.sum.of(a, b),
        };
        if self.is_same(a) && self.is_same(b) {
            return Slot::Number(of(self.cells(a, 0).borrow(), self.cells(b, 0).borrow()));
        }
        let mut out = self.buffer(spare);
        match (self.is_same(a), self.is_same(b)) {
            (true, _) => {
                let vector = self.cells(a, 0);
                match self.rows(b) {
                    _ if max_sim => {
                        let mut query = MaxSim::new(dense.sum, vector.borrow(), dense.width);
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
        Slot::Numbers(out)
    }

    fn each(&self, out: &mut [f64], f: impl Fn(usize) -> f64) {
        out.iter_mut().enumerate().for_each(|(i, out)| *out = f(i));
    }

    /// Rows of an input given as rows.
    fn rows(&self, id: NodeId) -> Option<(CellsRef<'a>, &'a [u16])> {
        match &self.slots[id] {
            Slot::Operand(at) => match self.operands[*at].0 {
                Feed::Rows(cells, rows) => Some((cells, rows)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Cells of a node's value for one document, in their storage type if they are stored.
    fn cells(&self, id: NodeId, document: usize) -> Stored<'a> {
        if let Slot::Operand(at) = &self.slots[id] {
            match self.operands[*at].0 {
                Feed::Tensor(tensor) => return Stored::There(CellsRef::of(tensor.cells())),
                Feed::Tensors(tensors) => return Stored::There(CellsRef::of(tensors[document].cells())),
                Feed::Rows(cells, rows) => {
                    let width = self.program.nodes[id].tensor_type.dense_size();
                    return Stored::There(cells.row(usize::from(rows[document]), width));
                }
                _ => {}
            }
        }
        Stored::Made(dense::narrowed(&self.value(id, document)))
    }
}

/// Borrowed or computed cells.
enum Stored<'a> {
    There(CellsRef<'a>),
    Made(Cells),
}

impl Stored<'_> {
    fn borrow(&self) -> CellsRef<'_> {
        match self {
            Stored::There(cells) => *cells,
            Stored::Made(cells) => CellsRef::of(cells),
        }
    }
}

/// Runs a program with one input over the dense subspaces of a value.
fn each_subspace(
    function: &Program,
    of: &Value,
    scratch: &mut Scratch,
    mut visit: impl FnMut(usize, &Value),
) {
    let (_, input) = &function.inputs()[0];
    for i in 0..of.subspaces() {
        let subspace =
            Value { tensor_type: input.clone(), labels: Vec::new(), cells: of.subspace(i).to_vec() };
        let operand = match input.is_scalar() {
            true => Operand::number(subspace.cells[0]),
            false => Operand(Feed::Value(&subspace)),
        };
        visit(i, &function.evaluate(scratch, 1, &[operand]).value(0));
    }
}
