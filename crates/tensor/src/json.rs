//! Tensors from and to JSON, in every form that documents, queries and constants may use.
//!
//! Reading works over any serde deserializer and puts numbers straight into cells: see [`TensorSeed`], [`ModifySeed`] and
//! [`RemoveSeed`]. Writing is by [`Tensor::rendered`](crate::Tensor::rendered) in a [`Format`].

mod read;
mod skip;
mod update;
mod write;

pub use read::TensorSeed;
pub use skip::Skipped;
pub use update::{ModifySeed, RemoveSeed};
pub use write::{Digits, Format, Rendered, Shape};
