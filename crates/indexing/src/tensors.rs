use millrace_tensor::{Tensor, TensorCells};

use crate::StatementFailure;
use crate::resolve::packed;

/// Sets cells above the threshold to 1, the others to 0.
pub(crate) fn binarize(tensor: &Tensor, threshold: f64) -> Result<Tensor, StatementFailure> {
    let mut cells = TensorCells::with_capacity(tensor.tensor_type().cell(), tensor.cells().len());
    tensor.cells().iter().for_each(|cell| cells.push(f64::from(u8::from(cell > threshold))));
    Tensor::new(tensor.tensor_type().clone(), tensor.all_labels().to_vec(), cells)
        .map_err(|error| StatementFailure::value(error.to_string()))
}

/// Packs eight cells into the bits of one, the first into the highest bit; cells above 0 count as 1.
pub(crate) fn pack_bits(tensor: &Tensor) -> Result<Tensor, StatementFailure> {
    let to = packed(tensor.tensor_type())?;
    let size = tensor.tensor_type().dense_size();
    let mut cells = TensorCells::with_capacity(to.cell(), tensor.subspaces() * to.dense_size());
    for subspace in 0..tensor.subspaces() {
        for byte in 0..to.dense_size() {
            let bit = |bit: usize| {
                let index = byte * 8 + bit;
                index < size && tensor.cells().get(subspace * size + index) > 0.0
            };
            let packed = (0..8).fold(0u8, |packed, at| packed << 1 | u8::from(bit(at)));
            cells.push(f64::from(packed as i8));
        }
    }
    Tensor::new(to, tensor.all_labels().to_vec(), cells)
        .map_err(|error| StatementFailure::value(error.to_string()))
}
