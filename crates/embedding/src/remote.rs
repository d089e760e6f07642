//! Models of external services.

use millrace_model::ModelCaller;
use millrace_remote::{
    EmbeddingOptions, Error, OutboundHttp, RemoteEmbeddings, ServiceDialect, ServiceUsage, VectorCells,
};
use millrace_schema::{EmbeddingService, RemoteModel, VectorQuantization};
use millrace_tensor::{CellType, TensorType};

use crate::{EmbeddingShape, ShapeFault};

/// A model of an external service, and the cell type of its vectors.
pub(crate) struct RemoteEmbedder {
    embeddings: RemoteEmbeddings,
    quantization: VectorQuantization,
}

impl RemoteEmbedder {
    /// Creates the model without calling the service.
    pub fn new(config: &RemoteModel, secret: Option<String>, http: OutboundHttp) -> Self {
        let options = EmbeddingOptions {
            dialect: match config.service {
                EmbeddingService::OpenAi => ServiceDialect::OpenAi,
                EmbeddingService::Mistral => ServiceDialect::Mistral,
                EmbeddingService::Voyage { in_context: true, .. } => ServiceDialect::VoyageInContext,
                EmbeddingService::Voyage { truncates, .. } => ServiceDialect::Voyage { truncates },
            },
            endpoint: config.endpoint.clone(),
            model: config.model.clone(),
            dimensions: config.dimensions,
            batch_max: config.batch_max,
            secret,
        };
        RemoteEmbedder { embeddings: RemoteEmbeddings::new(options, http), quantization: config.quantization }
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
    ) -> Result<(EmbeddingShape, VectorCells), ShapeFault> {
        let dimensions = self.embeddings.dimensions();
        let bytes = target.cell() == CellType::Int8;
        let size = target.indexed().map(|(_, size)| size).next().unwrap_or_default();
        let of_size = |cells: VectorCells| bytes && size == cells.count(dimensions);
        let (whole, packed) = (VectorCells::Int8, VectorCells::Binary);
        let cells = match self.quantization {
            VectorQuantization::Float => None,
            VectorQuantization::Auto if !bytes => None,
            VectorQuantization::Auto | VectorQuantization::Int8 if of_size(whole) => Some(whole),
            VectorQuantization::Auto | VectorQuantization::Binary if of_size(packed) => Some(packed),
            wanted => {
                let type_of = |cells: VectorCells| format!("tensor<int8>(x[{}])", cells.count(dimensions));
                let expected = match wanted {
                    VectorQuantization::Int8 => type_of(whole),
                    VectorQuantization::Binary => type_of(packed),
                    VectorQuantization::Auto | VectorQuantization::Float => {
                        format!("{} or, for bits, {}", type_of(whole), type_of(packed))
                    }
                };
                return Err(ShapeFault::Type { expected, found: target.clone() });
            }
        };
        match cells {
            None => {
                Ok((EmbeddingShape::of_vectors(target, chunks, arguments, dimensions)?, VectorCells::Float))
            }
            // The service returns them in the form of the tensor.
            Some(cells) => {
                let shape = EmbeddingShape::of_vectors(target, chunks, arguments, size.saturating_mul(8))?;
                Ok((EmbeddingShape { cells: size, binary: false, ..shape }, cells))
            }
        }
    }

    /// Vectors of texts, in their order. Blocks.
    pub fn embed(
        &self,
        texts: Vec<String>,
        cells: VectorCells,
        caller: &ModelCaller,
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.embeddings.embed(texts, cells, caller)
    }

    /// Usage of the service.
    pub fn usage(&self) -> ServiceUsage {
        self.embeddings.usage()
    }
}
