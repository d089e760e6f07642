//! Embedders: text is converted to tokens, a model computes the tokens' states, and the states become a
//! tensor.
//!
//! A [`TextEmbedder`] is one embedder of services.xml with its model and tokenizer loaded. The type of the
//! target tensor determines the form of the embedding ([`EmbeddingShape`]): one vector or one per chunk,
//! whole or its first cells, numbers or one bit per cell.
//!
//! This crate is independent of the source of files, and of documents and queries. [`millrace_model`] runs
//! local models, [`millrace_remote`] calls external services.

mod embedder;
mod error;
mod execution;
mod pooling;
mod remote;
mod shape;
mod tokenizer;

pub use embedder::{EmbeddedText, EmbedderServices, Files, SecretRequest, TextEmbedder};
pub use error::{Error, ShapeFault};
pub use execution::execution;
pub use shape::EmbeddingShape;
