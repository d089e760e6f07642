//! Tensors: their types, their values, and the kernels that run over them.
//!
//! A [`TensorType`] has a cell type and a sorted list of dimensions; a [`Tensor`] is a value of such a type.
//! Mapped dimensions have labels, indexed ones a size. A value is stored as its *dense subspaces*: one block
//! of cells for each combination of labels, row-major over the indexed dimensions in the type's order.
//!
//! This crate is independent of documents, fields and ranking expressions.

mod address;
mod builder;
mod error;
pub mod json;
pub mod kernels;
mod label;
mod literal;
mod size;
mod types;
mod update;
mod value;

pub use builder::TensorBuilder;
pub use error::Error;
pub use label::{ShortText, ShortTextMap};
pub use size::TENSOR_BYTES_MAX;
pub use types::{CellType, DimensionKind, TensorDimension, TensorType, WrittenOrder};
pub use update::{CellOperation, TensorModify, TensorRemove};
pub use value::{Tensor, TensorCells};
