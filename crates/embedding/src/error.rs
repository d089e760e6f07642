use std::path::PathBuf;

use millrace_tensor::TensorType;

/// Error while embedding a text, or in an embedder.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Error of the model.
    #[error(transparent)]
    Model(#[from] millrace_model::Error),
    /// Error of an external service's model.
    #[error(transparent)]
    Remote(#[from] millrace_remote::Error),
    /// The client of external services could not be created.
    #[error("{0}")]
    Setup(String),
    /// The tokenizer's file could not be read.
    #[error("{}: {reason}", path.display())]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        reason: String,
    },
    /// The tokenizer failed on a text.
    #[error("the text cannot be split into tokens: {0}")]
    Tokenizer(String),
    /// The target tensor cannot hold the embedding.
    #[error("embedder '{embedder}': {reason}")]
    Shape {
        /// Id of the embedder.
        embedder: String,
        /// Requested type, and a suitable one.
        reason: ShapeFault,
    },
}

/// Reason for which a tensor type cannot hold an embedding.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShapeFault {
    /// Another type is required.
    #[error("expected a type such as {expected}, found {found}")]
    Type {
        /// Suitable types.
        expected: String,
        /// Requested type.
        found: TensorType,
    },
    /// The type lacks the dimension that is named for chunks.
    #[error("{target} has no mapped dimension '{name}' for the chunks")]
    ChunkDimension {
        /// Requested type.
        target: TensorType,
        /// Named dimension.
        name: String,
    },
    /// Several dimensions could be that of the chunks.
    #[error("name the dimension of the chunks after the embedder, as in embed colbert chunk")]
    Unnamed,
    /// The vectors are shorter than the type.
    #[error("the model's vectors have {width} cells, and {target} takes {cells}{}", if *.is_binary { ", a bit each" } else { "" })]
    Width {
        /// Cells of a vector.
        width: usize,
        /// Requested type.
        target: TensorType,
        /// Cells of a vector that the type takes.
        cells: usize,
        /// True if a cell of the type takes eight of them.
        is_binary: bool,
    },
    /// A vector that came is shorter than the type.
    #[error("the model's vectors have {found} cells, and {expected} are asked for")]
    Short {
        /// Cells of the vector.
        found: usize,
        /// Cells that the type takes.
        expected: usize,
    },
    /// The tensor refuses a block.
    #[error(transparent)]
    Tensor(#[from] millrace_tensor::Error),
}
