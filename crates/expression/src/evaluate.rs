//! Evaluation of a program over a batch of documents.

use millrace_tensor::{Tensor, TensorType};

use crate::batch::{BatchSpace, BatchView, LabelTable, SubspaceShape, TensorBatch};
use crate::dense::CellsRef;
use crate::operators::BatchNumbers;
use crate::program::ExpressionProgram;
use crate::run::BatchRun;
use crate::value::TensorValue;

/// Number of cells per run of a nested program.
pub(crate) const CELLS_AT_A_TIME: usize = 1024;

/// Number of cells of the tensors of a block of documents, which is evaluated before the next: as many as the
/// second-level cache holds several times.
const BLOCK_CELLS: usize = 16 << 10;

/// The values of one input for a batch of documents.
#[derive(Debug, Clone, Copy)]
pub struct InputBatch<'a>(pub(crate) InputFeed<'a>);

#[derive(Debug, Clone, Copy)]
pub(crate) enum InputFeed<'a> {
    Number(f64),
    Numbers(&'a [f64]),
    Tensor(&'a Tensor),
    Tensors(&'a [Tensor]),
    Rows(CellsRef<'a>, &'a [u16]),
    Stored(StoredTensors<'a>),
    View(BatchView<'a>),
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

    /// One tensor with mapped dimensions per document, in its stored form.
    pub const fn stored(tensors: StoredTensors<'a>) -> Self {
        InputBatch(InputFeed::Stored(tensors))
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

/// Tensors of one type with mapped dimensions, as they lie in bytes: cells little-endian and not aligned.
#[derive(Debug, Clone, Copy)]
pub struct StoredTensors<'a> {
    /// Bytes with the labels.
    pub label_bytes: &'a [u8],
    /// Bytes with the cells, which may be the same.
    pub cell_bytes: &'a [u8],
    /// The tensor of each document.
    pub tensors: &'a [StoredTensor],
    /// Labels of the subspaces of all tensors, one per mapped dimension and subspace.
    pub labels: &'a [StoredLabel],
}

/// Position of a tensor in [`StoredTensors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredTensor {
    /// Offset of the cells of its first subspace in the bytes with cells.
    pub cells_at: u32,
    /// Number of subspaces.
    pub subspaces: u32,
    /// Index of its first label.
    pub first_label: u32,
}

/// Position of a label in the bytes with labels of [`StoredTensors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredLabel {
    /// Offset of the first byte.
    pub at: u32,
    /// Number of bytes.
    pub length: u32,
}

impl<'a> StoredTensors<'a> {
    /// The cells of a document's tensor.
    ///
    /// # Panics
    /// The bytes end before them.
    pub(crate) fn cells(&self, document: usize, tensor_type: &TensorType) -> CellsRef<'a> {
        let StoredTensor { cells_at, subspaces, .. } = self.tensors[document];
        let length = subspaces as usize * tensor_type.dense_size() * tensor_type.cell().size();
        CellsRef::of_bytes(tensor_type.cell(), &self.cell_bytes[cells_at as usize..][..length])
    }

    /// The labels of a document's tensor, `mapped` for each subspace.
    pub(crate) fn labels(&self, document: usize, mapped: usize) -> impl Iterator<Item = &'a [u8]> {
        let StoredTensor { subspaces, first_label, .. } = self.tensors[document];
        let bytes = self.label_bytes;
        let labels = &self.labels[first_label as usize..][..subspaces as usize * mapped];
        labels.iter().map(move |label| &bytes[label.at as usize..][..label.length as usize])
    }
}

/// Reusable memory for evaluation. After the first batches, numbers and tensors need no allocation per
/// document.
#[derive(Debug, Default)]
pub struct EvaluationScratch {
    slots: Vec<NodeSlot>,
    pub(crate) spare: Vec<Vec<f64>>,
    pub(crate) nested: Option<Box<EvaluationScratch>>,
    pub(crate) space: BatchSpace,
}

/// Result of one node.
#[derive(Debug, Default)]
pub(crate) enum NodeSlot {
    #[default]
    Empty,
    Number(f64),
    Numbers(Vec<f64>),
    /// One tensor for all documents.
    Tensor(TensorBatch),
    Tensors(TensorBatch),
    Operand(usize),
}

impl NodeSlot {
    /// True if the result is the same for all documents.
    pub fn is_same(&self, operands: &[InputBatch<'_>]) -> bool {
        match self {
            NodeSlot::Empty | NodeSlot::Number(_) | NodeSlot::Tensor(_) => true,
            NodeSlot::Numbers(_) | NodeSlot::Tensors(_) => false,
            NodeSlot::Operand(at) => match &operands[*at].0 {
                InputFeed::Number(_) | InputFeed::Tensor(_) => true,
                InputFeed::View(view) => view.is_same(),
                _ => false,
            },
        }
    }

    /// The numbers of the documents from `first` on, if it has numbers. Those of an operand are of all
    /// documents of the batch, others of the current block.
    pub fn numbers<'a>(&'a self, operands: &[InputBatch<'a>], first: usize) -> Option<BatchNumbers<'a>> {
        match self {
            NodeSlot::Number(number) => Some(BatchNumbers::Same(*number)),
            NodeSlot::Numbers(numbers) => Some(BatchNumbers::Each(numbers)),
            NodeSlot::Operand(at) => match operands[*at].0 {
                InputFeed::Number(number) => Some(BatchNumbers::Same(number)),
                InputFeed::Numbers(numbers) => Some(BatchNumbers::Each(&numbers[first..])),
                _ => None,
            },
            NodeSlot::Empty | NodeSlot::Tensor(_) | NodeSlot::Tensors(_) => None,
        }
    }
}

/// Result of a program for a batch.
#[derive(Debug)]
pub struct BatchOutput<'a> {
    slot: &'a NodeSlot,
    operands: &'a [InputBatch<'a>],
    tensor_type: &'a TensorType,
    shape: SubspaceShape,
    labels: &'a LabelTable,
}

impl BatchOutput<'_> {
    /// The number for a document of the batch; for a tensor, its first cell.
    pub fn number(&self, document: usize) -> f64 {
        match self.slot.numbers(self.operands, 0) {
            Some(numbers) => numbers.get(document),
            None => self.value(document).cells.first().copied().unwrap_or_default(),
        }
    }

    /// Writes the numbers of the whole batch.
    pub fn write(&self, out: &mut [f64]) {
        match self.slot.numbers(self.operands, 0) {
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
        match self.view() {
            Some(view) => {
                out.iter_mut().zip(view.of_document(document)).for_each(|(out, cell)| *out = *cell);
            }
            None => {
                let value = self.value(document);
                out.iter_mut().zip(&value.cells).for_each(|(out, cell)| *out = *cell);
            }
        }
    }

    /// Writes the cells of dense tensors for the first documents of the batch, one after another. Returns
    /// false, without an effect, if they do not lie so.
    pub fn write_all_cells(&self, documents: usize, out: &mut [f64]) -> bool {
        let cells = self.view().and_then(|view| view.adjacent(documents));
        let cells = cells.filter(|cells| cells.len() == out.len());
        cells.into_iter().for_each(|cells| out.copy_from_slice(cells));
        cells.is_some()
    }

    /// Appends the cells of as many documents.
    pub(crate) fn append_cells(&self, documents: usize, out: &mut Vec<f64>) {
        match (self.slot.numbers(self.operands, 0), self.view()) {
            (Some(numbers), _) => out.extend((0..documents).map(|document| numbers.get(document))),
            (None, Some(view)) => {
                (0..documents).for_each(|document| out.extend_from_slice(view.of_document(document)));
            }
            (None, None) => (0..documents).for_each(|document| out.extend(self.value(document).cells)),
        }
    }

    /// The result as a batch, if it is one.
    fn view(&self) -> Option<BatchView<'_>> {
        match self.slot {
            NodeSlot::Tensor(batch) => Some(batch.view(self.shape, true)),
            NodeSlot::Tensors(batch) => Some(batch.view(self.shape, false)),
            NodeSlot::Operand(at) => match self.operands[*at].0 {
                InputFeed::View(view) => Some(view),
                _ => None,
            },
            NodeSlot::Empty | NodeSlot::Number(_) | NodeSlot::Numbers(_) => None,
        }
    }

    pub(crate) fn value(&self, document: usize) -> TensorValue {
        if let Some(view) = self.view() {
            return view.value(document, self.tensor_type, self.labels);
        }
        match self.slot {
            NodeSlot::Number(number) => TensorValue::number(*number),
            NodeSlot::Numbers(numbers) => TensorValue::number(numbers[document]),
            NodeSlot::Operand(at) => match self.operands[*at].0 {
                InputFeed::Number(number) => TensorValue::number(number),
                InputFeed::Numbers(numbers) => TensorValue::number(numbers[document]),
                InputFeed::Tensor(tensor) => TensorValue::from_tensor(tensor),
                InputFeed::Tensors(tensors) => TensorValue::from_tensor(&tensors[document]),
                InputFeed::Stored(stored) => self.stored_value(&stored, document),
                InputFeed::Rows(cells, rows) => {
                    let width = self.tensor_type.dense_size();
                    let mut row = cells.row(usize::from(rows[document]), width).to_f64();
                    row.resize(width, 0.0);
                    let tensor_type = self.tensor_type.clone();
                    TensorValue { tensor_type, labels: Vec::new(), cells: row }
                }
                InputFeed::View(_) => unreachable!("views were returned above"),
            },
            NodeSlot::Empty | NodeSlot::Tensor(_) | NodeSlot::Tensors(_) => {
                TensorValue::empty(self.tensor_type)
            }
        }
    }

    fn stored_value(&self, stored: &StoredTensors<'_>, document: usize) -> TensorValue {
        let labels = stored.labels(document, self.tensor_type.mapped().count());
        TensorValue {
            tensor_type: self.tensor_type.clone(),
            labels: labels.map(|label| String::from_utf8_lossy(label).into()).collect(),
            cells: stored.cells(document, self.tensor_type).to_f64(),
        }
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
        scratch.space.trim();
        self.evaluate_nested(scratch, documents, inputs)
    }

    /// [`ExpressionProgram::evaluate`] with inputs whose labels are numbered in the scratch.
    pub(crate) fn evaluate_nested<'a>(
        &'a self,
        scratch: &'a mut EvaluationScratch,
        documents: usize,
        inputs: &'a [InputBatch<'a>],
    ) -> BatchOutput<'a> {
        scratch.slots.clear();
        scratch.slots.resize_with(self.nodes.len(), NodeSlot::default);
        let last = self.nodes.len() - 1;
        let at_once = self.documents_at_once(documents, inputs);
        if at_once >= documents || !self.tensor_type().is_scalar() {
            self.run_block(scratch, 0, documents, inputs);
        } else {
            let mut out = scratch.spare.pop().unwrap_or_default();
            out.resize(documents, 0.0);
            for (block, out) in out.chunks_mut(at_once).enumerate() {
                let first = block * at_once;
                self.run_block(scratch, first, out.len(), inputs);
                match scratch.slots[last].numbers(inputs, first) {
                    Some(BatchNumbers::Each(numbers)) => out.copy_from_slice(&numbers[..out.len()]),
                    Some(BatchNumbers::Same(number)) => out.fill(number),
                    None => unreachable!("the result of a program whose type is a number is numbers"),
                }
            }
            scratch.slots[last] = NodeSlot::Numbers(out);
        }
        BatchOutput {
            slot: &scratch.slots[last],
            operands: inputs,
            tensor_type: &self.nodes[last].tensor_type,
            shape: self.shapes[last],
            labels: &scratch.space.labels,
        }
    }

    /// Number of documents whose tensors fit into the processor's cache.
    fn documents_at_once(&self, documents: usize, inputs: &[InputBatch<'_>]) -> usize {
        if self.flat_cells == 0 || documents == 0 {
            return documents;
        }
        let of_inputs = inputs.iter().zip(&self.inputs).map(|(input, (_, tensor_type))| match input.0 {
            InputFeed::Tensors(tensors) => {
                tensors.iter().map(|tensor| tensor.cells().len()).sum::<usize>() / documents
            }
            InputFeed::Stored(stored) => {
                let subspaces: usize = stored.tensors.iter().map(|tensor| tensor.subspaces as usize).sum();
                subspaces * tensor_type.dense_size() / documents
            }
            _ => 0,
        });
        let cells = of_inputs.max().unwrap_or(0).max(self.flat_cells);
        (BLOCK_CELLS / cells).max(1)
    }

    /// Computes all nodes for `documents` of a batch, from `first` on. Results that are the same for all
    /// documents stay from the first block.
    fn run_block(
        &self,
        scratch: &mut EvaluationScratch,
        first: usize,
        documents: usize,
        inputs: &[InputBatch<'_>],
    ) {
        let mut nested = scratch.nested.take().unwrap_or_default();
        for id in 0..self.nodes.len() {
            if first > 0 && scratch.slots[id].is_same(inputs) && !matches!(scratch.slots[id], NodeSlot::Empty)
            {
                continue;
            }
            recycle(&mut scratch.slots[id], &mut scratch.spare);
            let (before, _) = scratch.slots.split_at(id);
            let batch = BatchRun { program: self, slots: before, operands: inputs, first, documents };
            let slot = batch.run(id, &mut scratch.spare, &mut scratch.space, &mut nested);
            scratch.slots[id] = slot;
            for done in &self.done[id] {
                recycle(&mut scratch.slots[*done], &mut scratch.spare);
            }
        }
        scratch.nested = Some(nested);
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
            self.evaluate_nested(scratch, out.len(), &operands).write(out);
        }
    }
}

/// Takes the memory of a result that differs between documents.
fn recycle(slot: &mut NodeSlot, spare: &mut Vec<Vec<f64>>) {
    if let NodeSlot::Numbers(cells) | NodeSlot::Tensors(TensorBatch { cells, .. }) = slot {
        spare.push(std::mem::take(cells));
        *slot = NodeSlot::Empty;
    }
}
