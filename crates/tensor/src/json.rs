//! Conversion of tensors from and to JSON, in all forms that documents, queries and constants may use.
//!
//! Readers work over any serde deserializer and store numbers directly as cells: see [`TensorSeed`],
//! [`ModifySeed`] and [`RemoveSeed`]. [`Tensor::rendered`](crate::Tensor::rendered) writes in a [`Format`].

mod read;
mod skip;
mod update;
mod write;

pub use read::TensorSeed;
pub use skip::Skipped;
pub use update::{ModifySeed, RemoveSeed};
pub use write::{Digits, Format, Rendered, Shape};
