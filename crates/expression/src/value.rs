use std::sync::Arc;

use half::bf16;
use millrace_tensor::{CellType, Tensor, TensorCells, TensorType};

/// A tensor during calculation. It is like [`Tensor`], but all cells are `f64` (rounded to the cell type),
/// and labels are shared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorValue {
    pub tensor_type: TensorType,
    /// Labels of each subspace in turn, one per mapped dimension.
    pub labels: Vec<Arc<str>>,
    pub cells: Vec<f64>,
}

impl TensorValue {
    pub fn number(number: f64) -> Self {
        TensorValue { tensor_type: TensorType::scalar(), labels: Vec::new(), cells: vec![number] }
    }

    pub fn from_tensor(tensor: &Tensor) -> Self {
        let mapped = tensor.tensor_type().mapped().count();
        let subspaces = if mapped == 0 { 0 } else { tensor.subspaces() };
        let labels =
            (0..subspaces).flat_map(|i| tensor.labels(i)).map(|label| label.as_str().into()).collect();
        TensorValue {
            tensor_type: tensor.tensor_type().clone(),
            labels,
            cells: tensor.cells().iter().collect(),
        }
    }

    pub fn to_tensor(&self) -> Tensor {
        let mut cells = TensorCells::with_capacity(self.tensor_type.cell(), self.cells.len());
        self.cells.iter().for_each(|cell| cells.push(*cell));
        let labels = self.labels.iter().map(|label| label.to_string()).collect();
        Tensor::new(self.tensor_type.clone(), labels, cells).expect("a value keeps the rules of its type")
    }

    /// A tensor of this type without cells; all zeros if no dimension is mapped.
    pub fn empty(tensor_type: &TensorType) -> Self {
        let cells = if tensor_type.mapped().next().is_none() { tensor_type.dense_size() } else { 0 };
        TensorValue { tensor_type: tensor_type.clone(), labels: Vec::new(), cells: vec![0.0; cells] }
    }
}

/// Rounds to the precision of a cell type.
pub(crate) fn round(cell: CellType, cells: &mut [f64]) {
    match cell {
        CellType::Double => {}
        CellType::Float => cells.iter_mut().for_each(|cell| *cell = f64::from(*cell as f32)),
        CellType::BFloat16 => cells.iter_mut().for_each(|cell| *cell = bf16::from_f64(*cell).to_f64()),
        CellType::Int8 => cells.iter_mut().for_each(|cell| *cell = f64::from(*cell as i8)),
    }
}
