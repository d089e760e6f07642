use std::path::PathBuf;

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
        reason: String,
    },
}
