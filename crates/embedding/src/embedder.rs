//! Embedders of services.xml, ready for use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_model::{
    EncoderOptions, LazyEncoder, ModelCaller, ModelLane, ModelScheduler, ModelUsage, SequenceModel,
    SequencePurpose, SequenceStates, TokenizedText,
};
use millrace_remote::OutboundHttp;
use millrace_schema::{
    self as schema, EmbedderImplementation, EmbedderKind, ModelFile, PrependTexts, TokenPooling,
};
use millrace_tensor::{Tensor, TensorBuilder, TensorType};

use crate::remote::RemoteEmbedder;
use crate::tokenizer::BoundedTokenizer;
use crate::{EmbeddingShape, Error, ShapeFault, execution, pooling};

/// Locations of an embedder's files.
pub type Files = BTreeMap<ModelFile, PathBuf>;

/// Text to embed.
#[derive(Debug, Clone, Copy)]
pub enum EmbeddedText<'t> {
    /// One text with one embedding.
    One(&'t str),
    /// Texts with one embedding each, but those without words; the index of a text is its label.
    Chunks(&'t [&'t str]),
}

/// Converter of text to tensors.
pub struct TextEmbedder {
    id: String,
    prepend: PrependTexts,
    means: EmbeddingMeans,
}

enum EmbeddingMeans {
    Model(TransformerEmbedder),
    /// The token ids.
    Tokens(BoundedTokenizer),
    /// A model of an external service.
    Remote(RemoteEmbedder),
}

/// Dependencies of embedders.
pub struct EmbedderServices<'a> {
    /// Scheduler of model runs.
    pub scheduler: &'a ModelScheduler,
    /// Creates the client of external services.
    pub http: &'a dyn Fn() -> Result<OutboundHttp, Error>,
    /// The secret of a component.
    pub secret: &'a dyn Fn(&SecretRequest<'_>) -> Result<String, Error>,
}

/// A secret, and the service that it is to be sent to.
#[derive(Debug, Clone, Copy)]
pub struct SecretRequest<'a> {
    /// Its name in services.xml.
    pub name: &'a str,
    /// The URL of the service.
    pub endpoint: &'a str,
}

/// A model with its tokenizer.
struct TransformerEmbedder {
    kind: EmbedderKind,
    tokenizer: BoundedTokenizer,
    model: Arc<LazyEncoder>,
    lane: ModelLane,
}

impl TextEmbedder {
    /// Loads and validates the files.
    ///
    /// # Errors
    /// The model or the tokenizer cannot be used; the message gives the reason.
    pub fn load(
        config: &schema::EmbedderConfig,
        files: &Files,
        services: &EmbedderServices<'_>,
    ) -> Result<Self, Error> {
        let path = |file: &ModelFile| {
            files.get(file).ok_or_else(|| Error::TokenizerFile {
                path: PathBuf::from(file.to_string()),
                reason: "it is not there".to_owned(),
            })
        };
        let means = match &config.means {
            EmbedderImplementation::Transformer(transformer) => {
                let (model, tokenizer) = (path(&transformer.model)?, path(&transformer.tokenizer)?);
                EmbeddingMeans::Model(TransformerEmbedder::load(
                    &config.id,
                    transformer,
                    model,
                    tokenizer,
                    services.scheduler,
                )?)
            }
            EmbedderImplementation::Tokenizer(file) => {
                EmbeddingMeans::Tokens(BoundedTokenizer::plain(path(file)?)?)
            }
            EmbedderImplementation::Remote(remote) => {
                let http = (services.http)()?;
                http.policy().check_url(&remote.endpoint)?;
                let request = |name| SecretRequest { name, endpoint: &remote.endpoint };
                let secret = remote.secret.as_deref().map(|name| (services.secret)(&request(name)));
                EmbeddingMeans::Remote(RemoteEmbedder::new(remote, secret.transpose()?, http))
            }
        };
        Ok(TextEmbedder { id: config.id.clone(), prepend: config.prepend.clone(), means })
    }

    /// Id of the embedder.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Shape of the embedding of one text, or with `chunks` of several, in a tensor of this type; `arguments`
    /// follow the embedder's id.
    ///
    /// # Errors
    /// The type is not suitable; the text gives the required type.
    pub fn shape(
        &self,
        target: &TensorType,
        chunks: bool,
        arguments: &[String],
    ) -> Result<EmbeddingShape, ShapeFault> {
        match &self.means {
            EmbeddingMeans::Model(model) => {
                EmbeddingShape::of(&model.kind, target, chunks, arguments, model.model.width())
            }
            EmbeddingMeans::Tokens(_) => EmbeddingShape::of_tokens(target, chunks),
            EmbeddingMeans::Remote(remote) => remote.shape(target, chunks, arguments).map(|(shape, _)| shape),
        }
    }

    /// Embeds a text. The purpose of the call determines the text put before it, and its priority at the
    /// model.
    ///
    /// # Errors
    /// The type cannot hold the embedding, or the model fails.
    pub fn embed(
        &self,
        text: EmbeddedText<'_>,
        target: &TensorType,
        arguments: &[String],
        caller: &ModelCaller,
    ) -> Result<Tensor, Error> {
        let (texts, chunks) = match &text {
            EmbeddedText::One(text) => (std::slice::from_ref(text), false),
            EmbeddedText::Chunks(texts) => (*texts, true),
        };
        let fail = |reason: ShapeFault| Error::Shape { embedder: self.id.clone(), reason };
        let shape = self.shape(target, chunks, arguments).map_err(fail)?;
        // Chunks without words have no embedding; the others keep their numbers.
        let (numbers, texts): (Vec<usize>, Vec<Cow<'_, str>>) = texts
            .iter()
            .enumerate()
            .filter(|(_, text)| !chunks || !text.trim().is_empty())
            .map(|(number, text)| (number, self.with_prepended(text, caller.purpose)))
            .unzip();
        let mut builder = TensorBuilder::new(target);
        if texts.is_empty() {
            return Ok(builder.finish());
        }
        match &self.means {
            EmbeddingMeans::Model(model) => {
                let sequences = texts
                    .iter()
                    .map(|text| model.tokenize(text, caller.purpose))
                    .collect::<Result<Vec<TokenizedText>, Error>>()?;
                for (number, states) in numbers.iter().zip(&model.lane.run(sequences, caller)?) {
                    model.add(&mut builder, shape, *number, states).map_err(fail)?;
                }
            }
            EmbeddingMeans::Tokens(tokenizer) => {
                for (number, text) in numbers.iter().zip(&texts) {
                    let mut tokens: Vec<f32> = tokenizer.ids(text)?.iter().map(|&id| id as f32).collect();
                    tokens.resize(shape.cells, 0.0);
                    shape.add(&mut builder, *number, None, &tokens).map_err(fail)?;
                }
            }
            EmbeddingMeans::Remote(remote) => {
                let (shape, cells) = remote.shape(target, chunks, arguments).map_err(fail)?;
                let texts = texts.into_iter().map(Cow::into_owned).collect();
                for (number, mut vector) in numbers.iter().zip(remote.embed(texts, cells, caller)?) {
                    vector.truncate(shape.cells);
                    shape.add(&mut builder, *number, None, &vector).map_err(fail)?;
                }
            }
        }
        Ok(builder.finish())
    }

    /// Unloads the model if nothing was embedded for this time; the next text loads it again. Returns true if
    /// it was unloaded.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        match &self.means {
            EmbeddingMeans::Model(model) => model.model.unload_idle(idle),
            EmbeddingMeans::Tokens(_) | EmbeddingMeans::Remote(_) => false,
        }
    }

    /// True if a local model is in memory.
    pub fn is_loaded(&self) -> bool {
        match &self.means {
            EmbeddingMeans::Model(model) => model.model.is_loaded(),
            EmbeddingMeans::Tokens(_) | EmbeddingMeans::Remote(_) => false,
        }
    }

    /// Usage of the local model; `None` without a local model.
    pub fn usage(&self) -> Option<ModelUsage> {
        match &self.means {
            EmbeddingMeans::Model(model) => Some(model.lane.usage()),
            EmbeddingMeans::Tokens(_) | EmbeddingMeans::Remote(_) => None,
        }
    }

    /// Usage of the external service; `None` without an external service.
    pub fn service_usage(&self) -> Option<millrace_remote::ServiceUsage> {
        match &self.means {
            EmbeddingMeans::Remote(remote) => Some(remote.usage()),
            EmbeddingMeans::Model(_) | EmbeddingMeans::Tokens(_) => None,
        }
    }

    fn with_prepended<'t>(&self, text: &'t str, purpose: SequencePurpose) -> Cow<'t, str> {
        let prepend = match purpose {
            SequencePurpose::Query => &self.prepend.query,
            SequencePurpose::Feed => &self.prepend.document,
        };
        if prepend.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(format!("{prepend}{text}")) }
    }
}

impl TransformerEmbedder {
    fn load(
        id: &str,
        config: &schema::TransformerConfig,
        model: &Path,
        tokenizer: &Path,
        scheduler: &ModelScheduler,
    ) -> Result<Self, Error> {
        let pooled = matches!(config.kind, EmbedderKind::HuggingFace { pooling: TokenPooling::None, .. });
        let options = EncoderOptions {
            name: id.to_owned(),
            ids: config.names.ids.clone(),
            mask: config.names.mask.clone(),
            types: config.names.types.clone(),
            output: config.names.output.clone(),
            output_rank: if pooled { 2 } else { 3 },
            threads: execution(&config.execution),
        };
        let tokenizer = BoundedTokenizer::load(tokenizer, &config.kind, config.max_tokens)?;
        let model = Arc::new(LazyEncoder::new(model.to_owned(), options)?);
        let lane = scheduler.lane(id, Arc::clone(&model) as Arc<dyn SequenceModel>);
        Ok(TransformerEmbedder { kind: config.kind.clone(), tokenizer, model, lane })
    }

    fn tokenize(&self, text: &str, purpose: SequencePurpose) -> Result<TokenizedText, Error> {
        match (&self.kind, purpose) {
            (EmbedderKind::HuggingFace { .. } | EmbedderKind::Splade { .. }, _) => self.tokenizer.text(text),
            (EmbedderKind::Bert { start_token, end_token, .. }, _) => {
                self.tokenizer.between(text, *start_token, *end_token)
            }
            (EmbedderKind::Colbert(tokens), SequencePurpose::Query) => {
                self.tokenizer.colbert_query(text, tokens)
            }
            (EmbedderKind::Colbert(tokens), SequencePurpose::Feed) => {
                self.tokenizer.colbert_document(text, tokens)
            }
        }
    }

    /// Adds the embedding of text `number`, computed from its states.
    fn add(
        &self,
        builder: &mut TensorBuilder<'_>,
        shape: EmbeddingShape,
        number: usize,
        states: &SequenceStates,
    ) -> Result<(), ShapeFault> {
        let vector = |builder: &mut TensorBuilder<'_>, token, mut vector: Vec<f32>, normalize| {
            if vector.len() < shape.cells {
                return Err(ShapeFault::Short { found: vector.len(), expected: shape.cells });
            }
            vector.truncate(shape.cells);
            if normalize {
                pooling::normalize(&mut vector);
            }
            shape.add(builder, number, token, &vector)
        };
        match &self.kind {
            EmbedderKind::HuggingFace { pooling, normalize } => {
                vector(builder, None, pooling::pool(states, *pooling), *normalize)
            }
            EmbedderKind::Bert { pooling, .. } => {
                vector(builder, None, pooling::pool(states, *pooling), false)
            }
            EmbedderKind::Colbert(_) => states
                .rows()
                .enumerate()
                .try_for_each(|(token, row)| vector(builder, Some(token.to_string()), row.to_vec(), false)),
            EmbedderKind::Splade { threshold } => {
                for (token, weight) in pooling::splade(states, *threshold) {
                    let Some(token) = self.tokenizer.token(token) else { continue };
                    builder.cell(shape.labels(number, Some(token)), 0, f64::from(weight))?;
                }
                Ok(())
            }
        }
    }
}
