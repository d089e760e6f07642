use std::fmt;

use crate::SourcePosition;

/// An embedder of services.xml: a component that converts text to tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbedderConfig {
    /// Id of the embedder.
    pub id: String,
    /// Implementation of the embedder.
    pub means: EmbedderImplementation,
    /// Prefix of a text.
    pub prepend: PrependTexts,
    /// Location in services.xml.
    pub position: SourcePosition,
}

impl EmbedderConfig {
    /// Files of the embedder.
    pub fn files(&self) -> Vec<&ModelFile> {
        match &self.means {
            EmbedderImplementation::Transformer(transformer) => {
                vec![&transformer.model, &transformer.tokenizer]
            }
            EmbedderImplementation::Tokenizer(file) => vec![file],
            EmbedderImplementation::Remote(_) => Vec::new(),
        }
    }
}

/// Implementation of an embedder.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbedderImplementation {
    /// A local model.
    Transformer(TransformerConfig),
    /// `hugging-face-tokenizer`, with its `tokenizer.json`: outputs the token ids.
    Tokenizer(ModelFile),
    /// `openai-embedder`, `voyage-ai-embedder`, `mistral-embedder`: an external service.
    Remote(RemoteModel),
}

/// A transformer and its tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformerConfig {
    /// Conversion of tokens to a tensor, with the settings specific to it.
    pub kind: EmbedderKind,
    /// The ONNX file.
    pub model: ModelFile,
    /// The tokenizer: `tokenizer.json`, or the vocabulary of an [`EmbedderKind::Bert`].
    pub tokenizer: ModelFile,
    /// Maximum number of tokens; longer texts are truncated.
    pub max_tokens: usize,
    /// Names of the transformer's inputs and output.
    pub names: TransformerNames,
    /// Execution settings of the transformer.
    pub execution: ModelExecution,
}

/// A model of an external service.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteModel {
    /// Protocol of the service.
    pub service: EmbeddingService,
    /// Name of the model in the service.
    pub model: String,
    /// Number of dimensions of its vectors.
    pub dimensions: usize,
    /// URL of the service.
    pub endpoint: String,
    /// Name of the secret to send; `None` to send none.
    pub secret: Option<String>,
    /// Maximum number of texts per request.
    pub batch_max: usize,
    /// Cell type of its vectors.
    pub quantization: VectorQuantization,
}

/// Embeddings protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingService {
    /// OpenAI's.
    OpenAi,
    /// Mistral's.
    Mistral,
    /// VoyageAI's.
    Voyage {
        /// True to truncate texts that are too long; otherwise they are errors.
        truncates: bool,
        /// True to embed the texts of an array together, each in the context of the others.
        in_context: bool,
    },
}

/// Cell type of a service's vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorQuantization {
    /// Determined by the type of the tensor.
    Auto,
    /// Floating-point numbers.
    Float,
    /// Signed 8-bit numbers.
    Int8,
    /// One bit per dimension, eight per cell.
    Binary,
}

/// Conversion of the states of a text's tokens.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbedderKind {
    /// `hugging-face-embedder`: one vector.
    HuggingFace {
        /// Pooling of states to one vector.
        pooling: TokenPooling,
        /// True to scale the vector to length 1.
        normalize: bool,
    },
    /// `bert-embedder`: one vector, with a word piece vocabulary.
    Bert {
        /// Pooling of states to one vector.
        pooling: TokenPooling,
        /// Token at the start of a text.
        start_token: i64,
        /// Token at the end of a text.
        end_token: i64,
    },
    /// `colbert-embedder`: one vector per token.
    Colbert(ColbertTokens),
    /// `splade-embedder`: a weight for each relevant token of the vocabulary.
    Splade {
        /// Weights that do not exceed this are omitted.
        threshold: f32,
    },
}

/// Pooling of the states of a text's tokens to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenPooling {
    /// Their mean.
    Mean,
    /// The state of the first token.
    Cls,
    /// None: the model itself pools them.
    None,
}

/// Special tokens of a ColBERT model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColbertTokens {
    /// Maximum number of vectors of a query.
    pub query_max: usize,
    /// True to pad shorter queries with mask tokens.
    pub fills_query: bool,
    /// Maximum number of vectors of a document.
    pub document_max: usize,
    /// Padding token of a query.
    pub mask: i64,
    /// Token at the start of a text.
    pub start: i64,
    /// Token at the end of a text.
    pub end: i64,
    /// Token that marks a query.
    pub query: i64,
    /// Token that marks a document.
    pub document: i64,
}

/// Names of a transformer's inputs and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransformerNames {
    /// Token ids.
    pub ids: String,
    /// Attention mask, which distinguishes tokens from padding.
    pub mask: String,
    /// Token types; `None` for a model without them.
    pub types: Option<String>,
    /// The output.
    pub output: String,
}

/// Prefixes of texts, added without a space in between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrependTexts {
    /// Prefix of a query.
    pub query: String,
    /// Prefix of a document.
    pub document: String,
}

/// Source of a model file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelFile {
    /// A path in the package.
    Path(String),
    /// An address that it is downloaded from.
    Url {
        /// The address.
        url: String,
        /// The SHA-256 that the file must have, as 64 hexadecimal digits in lower case.
        sha256: Option<String>,
    },
}

impl ModelFile {
    /// A file to be downloaded, with its digest if that is given.
    ///
    /// # Errors
    /// The digest is not a SHA-256.
    pub fn at_url(url: String, sha256: Option<&str>) -> Result<Self, String> {
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match sha256.map(str::trim) {
            Some(text) if !is_digest(text) => Err(format!(
                "'{text}' is not a SHA-256: write the 64 hexadecimal digits that sha256sum prints for the file"
            )),
            sha256 => Ok(ModelFile::Url { url, sha256: sha256.map(str::to_ascii_lowercase) }),
        }
    }
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelFile::Path(text) | ModelFile::Url { url: text, .. } => f.write_str(text),
        }
    }
}

/// Execution settings of a model; the scheduler chooses settings that are not given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelExecution {
    /// Number of dedicated threads within an operation.
    pub intra_op_threads: Option<usize>,
    /// Number of dedicated threads for parallel operations.
    pub inter_op_threads: Option<usize>,
    /// True to run operations in parallel.
    pub parallel: bool,
    /// Number of the GPU to use, if there is one.
    pub gpu_device: Option<i32>,
}
