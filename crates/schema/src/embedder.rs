use crate::Place;

/// An embedder of services.xml: a component that turns text into tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedder {
    /// Its id.
    pub id: String,
    /// How tokens become a tensor, and the settings that only one kind has.
    pub kind: EmbedderKind,
    /// Path of the ONNX file in the package.
    pub transformer: String,
    /// Path of the tokenizer in the package: `tokenizer.json`, or the vocabulary of a [`EmbedderKind::Bert`].
    pub tokenizer: String,
    /// A longer text is cut to so many tokens.
    pub max_tokens: usize,
    /// What the inputs and the output of the transformer are called.
    pub names: TransformerNames,
    /// What is put before a text.
    pub prepend: Prepend,
    /// How the transformer is executed.
    pub execution: Execution,
    /// Where it stands.
    pub place: Place,
}

/// What an embedder makes of the states of a text's tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbedderKind {
    /// `hugging-face-embedder`: one vector.
    HuggingFace {
        /// How states become one vector.
        pooling: Pooling,
        /// Whether the vector is brought to length 1.
        normalize: bool,
    },
    /// `bert-embedder`: one vector, by a word piece vocabulary.
    Bert {
        /// How states become one vector.
        pooling: Pooling,
        /// The token that begins a text.
        start_token: i64,
        /// The token that ends it.
        end_token: i64,
    },
    /// `colbert-embedder`: a vector for each token.
    Colbert(ColbertTokens),
    /// `splade-embedder`: a weight for each token of the vocabulary that matters.
    Splade {
        /// Weights that are not above this are left out.
        threshold: f32,
    },
}

/// How the states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The state of the first token.
    Cls,
    /// The model has pooled them itself.
    None,
}

/// The tokens that a ColBERT model knows beside those of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColbertTokens {
    /// Vectors of a query: shorter ones are filled up with masks.
    pub query_max: usize,
    /// Vectors of a document.
    pub document_max: usize,
    /// What a query is filled up with.
    pub mask: i64,
    /// What begins a text.
    pub start: i64,
    /// What ends it.
    pub end: i64,
    /// What marks a query.
    pub query: i64,
    /// What marks a document.
    pub document: i64,
}

/// What the inputs and the output of a transformer are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransformerNames {
    /// Token ids.
    pub ids: String,
    /// What tells tokens from padding.
    pub mask: String,
    /// Token types; `None` for a model without.
    pub types: Option<String>,
    /// The output.
    pub output: String,
}

/// What is put before a text, without a space between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepend {
    /// Before that of a query.
    pub query: String,
    /// Before that of a document.
    pub document: String,
}

/// How a transformer is executed; what is not set is left to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Execution {
    /// `onnx-intraop-threads`.
    pub intra_op_threads: Option<usize>,
    /// `onnx-interop-threads`.
    pub inter_op_threads: Option<usize>,
    /// `onnx-execution-mode` is `parallel`.
    pub parallel: bool,
}
