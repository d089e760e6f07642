//! Embedders: a text becomes tokens, the tokens' states are computed by a model, and the states become a tensor.
//!
//! An [`Embedder`] is one of services.xml with its model and tokenizer loaded. What it makes is shaped by the type of the tensor that is asked
//! for ([`Shape`]): a vector or one per chunk, whole or its first cells, numbers or one bit per cell.
//!
//! This crate does not know where files come from, nor documents and queries; models are run by [`millrace_model`], and
//! those of other services asked by [`millrace_remote`].

mod embedder;
mod error;
mod execution;
mod pooling;
mod remote;
mod shape;
mod tokenizer;

pub use embedder::{Embedder, Files, Services, Text};
pub use error::Error;
pub use execution::execution;
pub use shape::Shape;
