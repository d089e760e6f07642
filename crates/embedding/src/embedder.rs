//! An embedder of services.xml, ready to embed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_model::{
    Caller, EncoderOptions, ExecutionMode, Lane, LazyEncoder, Model, Purpose, Scheduler, Sequence, States,
    Threads, Usage,
};
use millrace_schema::{self as schema, EmbedderKind, Pooling, Prepend};
use millrace_tensor::{Cells, Tensor, TensorBuilder, TensorType};

use crate::tokenizer::Tokenizer;
use crate::{Error, Shape, pooling};

/// Where the files of an embedder lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The ONNX file.
    pub transformer: PathBuf,
    /// The tokenizer.
    pub tokenizer: PathBuf,
}

/// What is embedded.
#[derive(Debug, Clone, Copy)]
pub enum Text<'t> {
    /// One text: one embedding.
    One(&'t str),
    /// An embedding for each, with its place as label.
    Chunks(&'t [&'t str]),
}

/// Text to tensors.
pub struct Embedder {
    id: String,
    kind: EmbedderKind,
    prepend: Prepend,
    tokenizer: Tokenizer,
    model: Arc<LazyEncoder>,
    lane: Lane,
}

impl Embedder {
    /// Loads the files and checks them.
    ///
    /// # Errors
    /// The model or the tokenizer cannot be used; the message says why.
    pub fn load(config: &schema::Embedder, files: &Files, scheduler: &Scheduler) -> Result<Self, Error> {
        let pooled = matches!(config.kind, EmbedderKind::HuggingFace { pooling: Pooling::None, .. });
        let options = EncoderOptions {
            name: config.id.clone(),
            ids: config.names.ids.clone(),
            mask: config.names.mask.clone(),
            types: config.names.types.clone(),
            output: config.names.output.clone(),
            output_rank: if pooled { 2 } else { 3 },
            threads: Threads {
                intra_op: config.execution.intra_op_threads,
                inter_op: config.execution.inter_op_threads,
                mode: match config.execution.parallel {
                    true => ExecutionMode::Parallel,
                    false => ExecutionMode::Sequential,
                },
            },
        };
        let tokenizer = Tokenizer::load(&files.tokenizer, &config.kind, config.max_tokens)?;
        let model = Arc::new(LazyEncoder::new(files.transformer.clone(), options)?);
        Ok(Embedder {
            id: config.id.clone(),
            kind: config.kind.clone(),
            prepend: config.prepend.clone(),
            tokenizer,
            lane: scheduler.lane(config.id.clone(), Arc::clone(&model) as Arc<dyn Model>),
            model,
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How a tensor of this type holds an embedding of one text, or with `chunks` of several; `arguments` stand behind the id.
    ///
    /// # Errors
    /// What the type should be.
    pub fn shape(&self, target: &TensorType, chunks: bool, arguments: &[String]) -> Result<Shape, String> {
        Shape::of(&self.kind, target, chunks, arguments, self.model.width())
    }

    /// The embedding. What it is for says which text is put before it, and who else waits for the model.
    ///
    /// # Errors
    /// The type cannot hold it, or the model does not come through.
    pub fn embed(
        &self,
        text: Text<'_>,
        target: &TensorType,
        arguments: &[String],
        caller: &Caller,
    ) -> Result<Tensor, Error> {
        let (texts, chunks) = match &text {
            Text::One(text) => (std::slice::from_ref(text), false),
            Text::Chunks(texts) => (*texts, true),
        };
        let fail = |reason: String| Error::Shape { embedder: self.id.clone(), reason };
        let shape = self.shape(target, chunks, arguments).map_err(fail)?;
        let sequences = texts
            .iter()
            .map(|text| self.tokenize(text, caller.purpose))
            .collect::<Result<Vec<Sequence>, Error>>()?;
        let mut builder = TensorBuilder::new(target);
        for (number, states) in self.lane.run(sequences, caller)?.iter().enumerate() {
            self.add(&mut builder, shape, number, states).map_err(fail)?;
        }
        Ok(builder.finish())
    }

    /// Lets the model go if nothing was embedded for so long; the next text loads it again.
    pub fn unload_idle(&self, idle: Duration) -> bool {
        self.model.unload_idle(idle)
    }

    /// Whether the model is in memory.
    pub fn is_loaded(&self) -> bool {
        self.model.is_loaded()
    }

    /// What the model has done.
    pub fn usage(&self) -> Usage {
        self.lane.usage()
    }

    fn tokenize(&self, text: &str, purpose: Purpose) -> Result<Sequence, Error> {
        let prepend = match purpose {
            Purpose::Query => &self.prepend.query,
            Purpose::Feed => &self.prepend.document,
        };
        let joined;
        let text = if prepend.is_empty() {
            text
        } else {
            joined = format!("{prepend}{text}");
            &joined
        };
        match (&self.kind, purpose) {
            (EmbedderKind::HuggingFace { .. } | EmbedderKind::Splade { .. }, _) => self.tokenizer.text(text),
            (EmbedderKind::Bert { start_token, end_token, .. }, _) => {
                self.tokenizer.between(text, *start_token, *end_token)
            }
            (EmbedderKind::Colbert(tokens), Purpose::Query) => self.tokenizer.colbert_query(text, tokens),
            (EmbedderKind::Colbert(tokens), Purpose::Feed) => self.tokenizer.colbert_document(text, tokens),
        }
    }

    /// Adds what the states of text `number` come to.
    fn add(
        &self,
        builder: &mut TensorBuilder<'_>,
        shape: Shape,
        number: usize,
        states: &States,
    ) -> Result<(), String> {
        // The labels of a subspace: the chunk's, and the token's where it has one.
        let labels = |token: Option<String>| -> Vec<String> {
            let mut labels: Vec<String> = token.into_iter().collect();
            if let Some(at) = shape.chunk {
                labels.insert(at.min(labels.len()), number.to_string());
            }
            labels
        };
        let vector = |builder: &mut TensorBuilder<'_>, labels, vector: Vec<f32>, normalize| {
            let mut vector = vector;
            if vector.len() < shape.cells {
                return Err(format!(
                    "the model's vectors have {} cells, and {} are asked for",
                    vector.len(),
                    shape.cells
                ));
            }
            vector.truncate(shape.cells);
            if normalize {
                pooling::normalize(&mut vector);
            }
            builder
                .block(labels, &cells(builder.tensor_type(), shape, &vector))
                .map_err(|error| error.to_string())
        };
        match &self.kind {
            EmbedderKind::HuggingFace { pooling, normalize } => {
                vector(builder, labels(None), pooling::pool(states, *pooling), *normalize)
            }
            EmbedderKind::Bert { pooling, .. } => {
                vector(builder, labels(None), pooling::pool(states, *pooling), false)
            }
            EmbedderKind::Colbert(_) => states.rows().enumerate().try_for_each(|(token, row)| {
                vector(builder, labels(Some(token.to_string())), row.to_vec(), false)
            }),
            EmbedderKind::Splade { threshold } => {
                for (token, weight) in pooling::splade(states, *threshold) {
                    let Some(token) = self.tokenizer.token(token) else { continue };
                    builder
                        .cell(labels(Some(token)), 0, f64::from(weight))
                        .map_err(|error| error.to_string())?;
                }
                Ok(())
            }
        }
    }
}

/// A vector as cells of the type: rounded, or a bit each.
fn cells(target: &TensorType, shape: Shape, vector: &[f32]) -> Cells {
    let mut cells = Cells::with_capacity(target.cell(), vector.len());
    if shape.binary {
        pooling::bits(vector).for_each(|byte| cells.push(f64::from(byte)));
    } else {
        vector.iter().for_each(|&cell| cells.push(f64::from(cell)));
    }
    cells
}
