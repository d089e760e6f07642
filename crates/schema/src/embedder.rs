use std::fmt;

use crate::Place;

/// An embedder of services.xml: a component that turns text into tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedder {
    /// Its id.
    pub id: String,
    /// What turns text into tensors.
    pub means: EmbedderMeans,
    /// What is put before a text.
    pub prepend: Prepend,
    /// Where it stands.
    pub place: Place,
}

impl Embedder {
    /// The files that it needs.
    pub fn files(&self) -> Vec<&ModelFile> {
        match &self.means {
            EmbedderMeans::Transformer(transformer) => vec![&transformer.model, &transformer.tokenizer],
            EmbedderMeans::Tokenizer(file) => vec![file],
            EmbedderMeans::Remote(_) => Vec::new(),
        }
    }
}

/// What turns text into tensors.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbedderMeans {
    /// A model of its own.
    Transformer(Transformer),
    /// `hugging-face-tokenizer`, with its `tokenizer.json`: the tokens themselves.
    Tokenizer(ModelFile),
    /// `openai-embedder`, `voyage-ai-embedder`, `mistral-embedder`: another service.
    Remote(RemoteModel),
}

/// A transformer and its tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Transformer {
    /// How tokens become a tensor, and the settings that only one kind has.
    pub kind: EmbedderKind,
    /// The ONNX file.
    pub model: ModelFile,
    /// The tokenizer: `tokenizer.json`, or the vocabulary of a [`EmbedderKind::Bert`].
    pub tokenizer: ModelFile,
    /// A longer text is cut to so many tokens.
    pub max_tokens: usize,
    /// What the inputs and the output of the transformer are called.
    pub names: TransformerNames,
    /// How the transformer is executed.
    pub execution: Execution,
}

/// A model of another service.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteModel {
    /// Whose protocol is spoken.
    pub service: EmbeddingService,
    /// Its name there.
    pub model: String,
    /// Cells of its vectors.
    pub dimensions: usize,
    /// Where it is asked.
    pub endpoint: String,
    /// The name of the secret that is sent along; none is where this is not set.
    pub secret: Option<String>,
    /// Texts that are asked for at once, at the most.
    pub batch_max: usize,
    /// What the cells of its vectors are.
    pub quantization: Quantization,
}

/// Whose embeddings protocol a service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingService {
    /// OpenAI's.
    OpenAi,
    /// Mistral's.
    Mistral,
    /// VoyageAI's.
    Voyage {
        /// Whether texts that are too long are cut; else they are refused.
        truncates: bool,
        /// Whether the texts of an array are embedded together, each in the context of the others.
        in_context: bool,
    },
}

/// What the cells of a service's vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantization {
    /// What the type of the tensor says.
    Auto,
    /// Numbers.
    Float,
    /// Whole numbers of eight bits.
    Int8,
    /// A bit for each dimension, eight in a cell.
    Binary,
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

/// Where the file of a model comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelFile {
    /// A path in the package.
    Path(String),
    /// An address that it is downloaded from.
    Url(String),
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelFile::Path(text) | ModelFile::Url(text) => f.write_str(text),
        }
    }
}

/// How a model is executed; what is not set is left to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Execution {
    /// Threads of its own for the parts of an operation.
    pub intra_op_threads: Option<usize>,
    /// Threads of its own for operations side by side.
    pub inter_op_threads: Option<usize>,
    /// Whether operations run side by side.
    pub parallel: bool,
    /// The number of the graphics processor that it runs on, where there is one.
    pub gpu_device: Option<i32>,
}
