//! Tensors with mapped dimensions of the documents of a chunk, as bytes: those of a column where they lie, or
//! made by a feature.

use half::bf16;
use millrace_column::BytesColumn;
use millrace_document::EncodedTensorType;
use millrace_expression::{InputBatch, StoredLabel, StoredTensor, StoredTensors};
use millrace_tensor::CellType;

/// Tensors, one for each document.
pub(crate) struct DocumentTensors {
    bytes: TensorBytes,
    tensors: Vec<StoredTensor>,
    labels: Vec<StoredLabel>,
}

enum TensorBytes {
    Column(BytesColumn),
    Made(Vec<u8>),
}

impl DocumentTensors {
    /// The tensors of these documents of a column; empty where a document has none, or one of another type.
    pub fn of_column(column: &BytesColumn, encoded: &EncodedTensorType, documents: &[u16]) -> Self {
        let (mut tensors, mut labels) = (Vec::with_capacity(documents.len()), Vec::new());
        let per_subspace = encoded.labels_per_subspace() as u32;
        assert!(per_subspace > 0, "tensors without mapped dimensions are rows of their column");
        for document in documents {
            let document = usize::from(*document);
            let first_label = labels.len() as u32;
            // Columns are below 4 GiB.
            let start = column.offsets()[document] as usize;
            let label = |at: std::ops::Range<usize>| {
                labels.push(StoredLabel { at: (start + at.start) as u32, length: at.len() as u32 });
            };
            let cells = column.get(document).and_then(|bytes| encoded.locate(bytes, label));
            if cells.is_none() {
                labels.truncate(first_label as usize);
            }
            tensors.push(StoredTensor {
                cells_at: cells.map_or(0, |cells| start + cells.start) as u32,
                subspaces: (labels.len() as u32 - first_label) / per_subspace,
                first_label,
            });
        }
        DocumentTensors { bytes: TensorBytes::Column(column.clone()), tensors, labels }
    }

    /// The tensors as an operand of a program.
    pub fn operand(&self) -> InputBatch<'_> {
        let bytes = match &self.bytes {
            TensorBytes::Column(column) => column.data(),
            TensorBytes::Made(bytes) => bytes,
        };
        InputBatch::stored(StoredTensors { bytes, tensors: &self.tensors, labels: &self.labels })
    }
}

/// Tensors under construction, document by document; dense subspaces have one cell.
pub(crate) struct TensorsBuilder {
    cell: CellType,
    bytes: Vec<u8>,
    tensors: Vec<StoredTensor>,
    labels: Vec<StoredLabel>,
    /// Cells of the current document.
    cells: Vec<f64>,
    first_label: u32,
}

impl TensorsBuilder {
    /// No tensors, of this cell type: `float` or `double`, which all others convert to.
    pub fn new(cell: CellType) -> Self {
        TensorsBuilder {
            cell,
            bytes: Vec::new(),
            tensors: Vec::new(),
            labels: Vec::new(),
            cells: Vec::new(),
            first_label: 0,
        }
    }

    /// Adds a label of the next cell: one for each mapped dimension, in the order of the type.
    pub fn label(&mut self, label: &[u8]) {
        self.labels.push(StoredLabel { at: self.bytes.len() as u32, length: label.len() as u32 });
        self.bytes.extend_from_slice(label);
    }

    /// Adds a cell behind its labels.
    pub fn cell(&mut self, cell: f64) {
        self.cells.push(cell);
    }

    /// Ends the tensor of the current document.
    ///
    /// # Panics
    /// The tensors of a chunk reach 4 GiB, which those of a column cannot.
    pub fn end_document(&mut self) {
        let cells_at =
            u32::try_from(self.bytes.len()).expect("labels come from a column, which is below 4 GiB");
        let subspaces = self.cells.len() as u32;
        let (cells, bytes) = (self.cells.drain(..), &mut self.bytes);
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
        DocumentTensors { bytes: TensorBytes::Made(self.bytes), tensors: self.tensors, labels: self.labels }
    }
}
