//! Models of external services.

use millrace_model::Caller;
use millrace_remote::{Cells, Dialect, Embeddings, Error, Http, Options, Usage};
use millrace_schema::{EmbeddingService, Quantization, RemoteModel};
use millrace_tensor::{CellType, TensorType};

use crate::Shape;

/// A model of an external service, and the cell type of its vectors.
pub(crate) struct Remote {
    embeddings: Embeddings,
    quantization: Quantization,
}

impl Remote {
    /// Creates the model without calling the service.
    pub fn new(config: &RemoteModel, secret: Option<String>, http: Http) -> Self {
        let options = Options {
            dialect: match config.service {
                EmbeddingService::OpenAi => Dialect::OpenAi,
                EmbeddingService::Mistral => Dialect::Mistral,
                EmbeddingService::Voyage { in_context: true, .. } => Dialect::VoyageInContext,
                EmbeddingService::Voyage { truncates, .. } => Dialect::Voyage { truncates },
            },
            endpoint: config.endpoint.clone(),
            model: config.model.clone(),
            dimensions: config.dimensions,
            batch_max: config.batch_max,
            secret,
        };
        Remote { embeddings: Embeddings::new(options, http), quantization: config.quantization }
    }

    /// Shape of a vector in a tensor of this type, and the cell type to request from the service.
    ///
    /// # Errors
    /// The type is not suitable; the text gives the required type.
    pub fn shape(
        &self,
        target: &TensorType,
        chunks: bool,
        arguments: &[String],
    ) -> Result<(Shape, Cells), String> {
        let dimensions = self.embeddings.dimensions();
        let bytes = target.cell() == CellType::Int8;
        let size = target.indexed().map(|(_, size)| size).next().unwrap_or_default();
        let of_size = |cells: Cells| bytes && size == cells.of(dimensions);
        let (whole, packed) = (Cells::Int8, Cells::Binary);
        let cells = match self.quantization {
            Quantization::Float => None,
            Quantization::Auto if !bytes => None,
            Quantization::Auto | Quantization::Int8 if of_size(whole) => Some(whole),
            Quantization::Auto | Quantization::Binary if of_size(packed) => Some(packed),
            wanted => {
                let type_of = |cells: Cells| format!("tensor<int8>(x[{}])", cells.of(dimensions));
                let expected = match wanted {
                    Quantization::Int8 => type_of(whole),
                    Quantization::Binary => type_of(packed),
                    Quantization::Auto | Quantization::Float => {
                        format!("{} or, for bits, {}", type_of(whole), type_of(packed))
                    }
                };
                return Err(format!("expected a type such as {expected}, found {target}"));
            }
        };
        match cells {
            None => Ok((Shape::of_vectors(target, chunks, arguments, dimensions)?, Cells::Float)),
            // The service returns them in the form of the tensor.
            Some(cells) => {
                let shape = Shape::of_vectors(target, chunks, arguments, size.saturating_mul(8))?;
                Ok((Shape { cells: size, binary: false, ..shape }, cells))
            }
        }
    }

    /// Vectors of texts, in their order. Blocks.
    pub fn embed(&self, texts: Vec<String>, cells: Cells, caller: &Caller) -> Result<Vec<Vec<f32>>, Error> {
        self.embeddings.embed(texts, cells, caller)
    }

    /// Usage of the service.
    pub fn usage(&self) -> Usage {
        self.embeddings.usage()
    }
}
