use std::path::PathBuf;

/// Why a text cannot be embedded, or an embedder cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The model.
    #[error(transparent)]
    Model(#[from] millrace_model::Error),
    /// Another service's model.
    #[error(transparent)]
    Remote(#[from] millrace_remote::Error),
    /// Other services cannot be asked.
    #[error("{0}")]
    Setup(String),
    /// The tokenizer's file cannot be read.
    #[error("{}: {reason}", path.display())]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The tokenizer failed on a text.
    #[error("the text cannot be split into tokens: {0}")]
    Tokenizer(String),
    /// The tensor that is asked for cannot hold what the embedder makes.
    #[error("embedder '{embedder}': {reason}")]
    Shape {
        /// The embedder's id.
        embedder: String,
        /// What was asked for, and what would work.
        reason: String,
    },
}
