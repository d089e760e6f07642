//! Tensors with mapped dimensions of the documents of a chunk, as bytes: those of a column where they lie, or
//! made by a feature.

use half::bf16;
use millrace_column::BytesColumn;
use millrace_document::EncodedTensorType;
use millrace_expression::{InputBatch, StoredLabel, StoredTensor, StoredTensors};
use millrace_matching::SingleValueRef;
use millrace_tensor::CellType;

use super::attribute::write_label;

/// Tensors, one for each document.
pub(crate) struct DocumentTensors {
    label_bytes: TensorBytes,
    cell_bytes: TensorBytes,
    tensors: Vec<StoredTensor>,
    labels: Vec<StoredLabel>,
}

enum TensorBytes {
    Column(BytesColumn),
    Made(Vec<u8>),
}

impl TensorBytes {
    fn all(&self) -> &[u8] {
        match self {
            TensorBytes::Column(column) => column.data(),
            TensorBytes::Made(bytes) => bytes,
        }
    }
}

impl DocumentTensors {
    /// The tensors of these documents of a column; empty where a document has none, or one of another type.
    pub fn of_column(column: &BytesColumn, encoded: &EncodedTensorType, documents: &[u16]) -> Self {
        let (mut tensors, mut labels) = (Vec::with_capacity(documents.len()), Vec::new());
        let per_subspace = encoded.labels_per_subspace() as u32;
        assert!(per_subspace > 0, "tensors without mapped dimensions are rows of their column");
        let offsets = column.offsets();
        for (document, bytes) in documents.iter().zip(column.get_each(documents)) {
            let first_label = labels.len() as u32;
            // Columns are below 4 GiB.
            let start = offsets[usize::from(*document)] as usize;
            let label = |at: std::ops::Range<usize>| {
                labels.push(StoredLabel { at: (start + at.start) as u32, length: at.len() as u32 });
            };
            let cells = bytes.and_then(|bytes| encoded.locate(bytes, label));
            if cells.is_none() {
                labels.truncate(first_label as usize);
            }
            tensors.push(StoredTensor {
                cells_at: cells.map_or(0, |cells| start + cells.start) as u32,
                subspaces: (labels.len() as u32 - first_label) / per_subspace,
                first_label,
            });
        }
        let bytes = || TensorBytes::Column(column.clone());
        DocumentTensors { label_bytes: bytes(), cell_bytes: bytes(), tensors, labels }
    }

    /// The tensors as an operand of a program.
    pub fn operand(&self) -> InputBatch<'_> {
        InputBatch::stored(StoredTensors {
            label_bytes: self.label_bytes.all(),
            cell_bytes: self.cell_bytes.all(),
            tensors: &self.tensors,
            labels: &self.labels,
        })
    }
}

/// Tensors under construction, document by document; dense subspaces have one cell.
pub(crate) struct TensorsBuilder {
    cell: CellType,
    label_bytes: TensorBytes,
    cell_bytes: Vec<u8>,
    tensors: Vec<StoredTensor>,
    labels: Vec<StoredLabel>,
    /// Cells of the current document.
    cells: Vec<f64>,
    first_label: u32,
}

impl TensorsBuilder {
    /// Creates a builder without tensors, which have cells of this type.
    pub fn new(cell: CellType) -> Self {
        TensorsBuilder {
            cell,
            label_bytes: TensorBytes::Made(Vec::new()),
            cell_bytes: Vec::new(),
            tensors: Vec::new(),
            labels: Vec::new(),
            cells: Vec::new(),
            first_label: 0,
        }
    }

    /// Creates a builder of tensors whose labels lie in the bytes of a column that is not compressed.
    pub fn with_labels_of(column: &BytesColumn, cell: CellType) -> Self {
        TensorsBuilder { label_bytes: TensorBytes::Column(column.clone()), ..TensorsBuilder::new(cell) }
    }

    /// The bytes with labels.
    pub fn label_bytes(&self) -> &[u8] {
        self.label_bytes.all()
    }

    /// Writes the bytes of a label by `write`, and returns their place.
    ///
    /// # Panics
    /// The labels lie in a column, or reach 4 GiB, which those of a column cannot.
    pub fn write_label(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> StoredLabel {
        let TensorBytes::Made(bytes) = &mut self.label_bytes else {
            unreachable!("labels of a column are not written");
        };
        let at = bytes.len();
        write(bytes);
        let at = u32::try_from(at).expect("labels come from a column, which is below 4 GiB");
        StoredLabel { at, length: bytes.len() as u32 - at }
    }

    /// Adds a label of the next cell: one for each mapped dimension, in the order of the type.
    pub fn label(&mut self, label: &[u8]) {
        let label = self.write_label(|bytes| bytes.extend_from_slice(label));
        self.labels.push(label);
    }

    /// Adds a label of the next cell, as [`TensorsBuilder::label`] does, by its place in the bytes.
    pub fn label_at(&mut self, label: StoredLabel) {
        self.labels.push(label);
    }

    /// Adds a label that is a whole number, as [`TensorsBuilder::label`] does.
    pub fn number_label(&mut self, number: usize) {
        let label = self.write_label(|bytes| {
            write_label(SingleValueRef::Integer(number as i64), bytes);
        });
        self.labels.push(label);
    }

    /// Adds a cell behind its labels.
    pub fn cell(&mut self, cell: f64) {
        self.cells.push(cell);
    }

    /// Ends the tensor of the current document.
    ///
    /// # Panics
    /// The cells of a chunk reach 4 GiB, which those of a column cannot.
    pub fn end_document(&mut self) {
        let cells_at = u32::try_from(self.cell_bytes.len()).expect("a chunk has fewer cells than 4 GiB");
        let subspaces = self.cells.len() as u32;
        let (cells, bytes) = (self.cells.drain(..), &mut self.cell_bytes);
        match self.cell {
            CellType::Double => cells.for_each(|cell| bytes.extend_from_slice(&cell.to_le_bytes())),
            CellType::Float => cells.for_each(|cell| bytes.extend_from_slice(&(cell as f32).to_le_bytes())),
            CellType::BFloat16 => {
                cells.for_each(|cell| bytes.extend_from_slice(&bf16::from_f64(cell).to_le_bytes()));
            }
            CellType::Int8 => cells.for_each(|cell| bytes.push(cell as i8 as u8)),
        }
        self.tensors.push(StoredTensor { cells_at, subspaces, first_label: self.first_label });
        self.first_label = self.labels.len() as u32;
    }

    /// The tensors.
    pub fn finish(self) -> DocumentTensors {
        DocumentTensors {
            label_bytes: self.label_bytes,
            cell_bytes: TensorBytes::Made(self.cell_bytes),
            tensors: self.tensors,
            labels: self.labels,
        }
    }
}
