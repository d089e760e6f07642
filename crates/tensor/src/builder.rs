use std::collections::HashMap;

use crate::size::TensorSize;
use crate::{Error, Tensor, TensorCells, TensorType};

/// Builds a tensor from cells and blocks in any order. Cells that are never set are 0.
///
/// Subspaces come out in the order in which their labels were first named; of two values for one cell the
/// later holds.
pub struct TensorBuilder<'t> {
    tensor_type: &'t TensorType,
    labels: Vec<String>,
    cells: TensorCells,
    by_labels: HashMap<Vec<String>, usize>,
    size: TensorSize,
}

impl<'t> TensorBuilder<'t> {
    /// No cells yet. Memory is taken as subspaces are named.
    pub fn new(tensor_type: &'t TensorType) -> Self {
        TensorBuilder {
            tensor_type,
            labels: Vec::new(),
            cells: TensorCells::with_capacity(tensor_type.cell(), 0),
            by_labels: HashMap::new(),
            size: TensorSize::default(),
        }
    }

    /// The type that is built.
    pub const fn tensor_type(&self) -> &'t TensorType {
        self.tensor_type
    }

    /// Sets one cell: the labels of its subspace, and its row-major index there.
    ///
    /// # Errors
    /// The number of labels is not that of mapped dimensions, the index is past the subspace, or the value
    /// becomes larger than [`TENSOR_BYTES_MAX`](crate::TENSOR_BYTES_MAX).
    pub fn cell(&mut self, labels: Vec<String>, index: usize, value: f64) -> Result<(), Error> {
        let dense = self.tensor_type.dense_size();
        if index >= dense {
            return Err(self.fail(format!("cell {index} is past the {dense} cells of a subspace")));
        }
        let at = self.subspace(labels)? * dense;
        self.cells.set(at + index, value);
        Ok(())
    }

    /// Sets all cells of one subspace.
    ///
    /// # Errors
    /// The number of labels or cells, or the cell type, is not the type's, or the value becomes larger than
    /// [`TENSOR_BYTES_MAX`](crate::TENSOR_BYTES_MAX).
    pub fn block(&mut self, labels: Vec<String>, block: &TensorCells) -> Result<(), Error> {
        let dense = self.tensor_type.dense_size();
        if block.len() != dense {
            return Err(self.fail(format!("expected {dense} values in a block, got {}", block.len())));
        }
        let at = self.subspace(labels)? * dense;
        if self.cells.overwrite(at, block) {
            Ok(())
        } else {
            Err(self.fail(format!("cells are {}", block.cell_type().name())))
        }
    }

    /// The tensor.
    pub fn finish(mut self) -> Tensor {
        if self.tensor_type.mapped().next().is_none() && self.cells.is_empty() {
            self.cells.extend_zeroed(self.tensor_type.dense_size());
        }
        Tensor::new(self.tensor_type.clone(), self.labels, self.cells)
            .expect("labels and cells are only added together, a subspace at a time")
    }

    /// The number of the subspace of these labels, added with zeroes where it is new.
    fn subspace(&mut self, labels: Vec<String>) -> Result<usize, Error> {
        let mapped = self.tensor_type.mapped().count();
        if labels.len() != mapped {
            return Err(self.fail(format!("expected {mapped} labels, got {}", labels.len())));
        }
        let dense = self.tensor_type.dense_size();
        if let Some(&at) = self.by_labels.get(&labels) {
            return Ok(at);
        }
        // The labels are kept twice: in order, and to find the subspace.
        let block = dense * self.tensor_type.cell().size();
        self.size.add(self.tensor_type, labels.iter().map(String::as_str), 2, block)?;
        let at = self.by_labels.len();
        self.cells.extend_zeroed(dense);
        self.labels.extend_from_slice(&labels);
        self.by_labels.insert(labels, at);
        Ok(at)
    }

    fn fail(&self, reason: String) -> Error {
        Error::Value { tensor_type: self.tensor_type.to_string(), reason }
    }
}
