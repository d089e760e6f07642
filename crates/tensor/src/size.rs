//! The bound of the memory that one value takes.

use crate::{Error, TensorType};

/// The most bytes that one tensor takes in memory: cells, labels, and what finds a subspace by its labels
/// while it is built.
///
/// A few bytes of text can name a whole dense block, so the bound is checked before memory is taken.
pub const TENSOR_BYTES_MAX: usize = 64 << 20;

/// Bytes that the allocator and the containers take for each label, beside its text.
const LABEL_BYTES: usize = 40;

/// Bytes that each addressed entry takes, beside its labels and cells.
const ENTRY_BYTES: usize = 48;

/// The memory of a value that grows by addressed entries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TensorSize {
    bytes: usize,
}

impl TensorSize {
    /// Counts one more entry, which holds `copies` copies of its labels and `cell_bytes` bytes of cells.
    ///
    /// # Errors
    /// The value is larger than [`TENSOR_BYTES_MAX`] with it.
    pub(crate) fn add<'l>(
        &mut self,
        tensor_type: &TensorType,
        labels: impl Iterator<Item = &'l str>,
        copies: usize,
        cell_bytes: usize,
    ) -> Result<(), Error> {
        let labels: usize = labels.map(|label| label.len() + LABEL_BYTES).sum();
        // A value without labels is its cells: its type has the same bound.
        let entry = if labels == 0 { 0 } else { labels * copies + ENTRY_BYTES };
        self.bytes = self.bytes.saturating_add(entry).saturating_add(cell_bytes);
        match self.bytes > TENSOR_BYTES_MAX {
            true => Err(too_large(tensor_type)),
            false => Ok(()),
        }
    }
}

/// The error of a value that is larger than [`TENSOR_BYTES_MAX`].
pub(crate) fn too_large(tensor_type: &TensorType) -> Error {
    let dense = tensor_type.dense_size() * tensor_type.cell().size();
    let block = match tensor_type.mapped().next() {
        Some(_) if dense > 64 => format!(", and each new label takes a whole block of {dense}"),
        _ => String::new(),
    };
    Error::Value {
        tensor_type: tensor_type.to_string(),
        reason: format!(
            "it takes more than {} MB in memory{block}; name fewer labels, or use a smaller cell type",
            TENSOR_BYTES_MAX >> 20
        ),
    }
}
