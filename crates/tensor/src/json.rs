//! Conversion of tensors from and to JSON, in all forms that documents, queries and constants may use.
//!
//! Readers work over any serde deserializer and store numbers directly as cells: see [`TensorSeed`],
//! [`ModifySeed`] and [`RemoveSeed`]. [`Tensor::rendered`](crate::Tensor::rendered) writes in a
//! [`TensorFormat`].

mod read;
mod skip;
mod update;
mod write;

pub use read::TensorSeed;
pub use skip::SkippedValue;
pub use update::{ModifySeed, RemoveSeed};
pub use write::{CellNumbers, RenderedTensor, TensorFormat, TensorShape};
