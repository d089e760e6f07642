use millrace_schema::{EmbedderKind, TokenPooling};
use millrace_tensor::{CellType, TensorBuilder, TensorCells, TensorType};

use crate::error::ShapeFault;
use crate::pooling;

/// Form of an embedder's output in a tensor type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingShape {
    /// Index of the chunk label among the labels of a subspace; `None` for a single text.
    pub(crate) chunk: Option<usize>,
    /// Number of cells of a vector to keep; 0 if there are no vectors.
    pub(crate) cells: usize,
    /// True if a cell of the tensor holds eight cells of the vector, one bit each.
    pub(crate) binary: bool,
}

impl EmbeddingShape {
    /// Shape of the embedding of a text, or with `chunks` of an array of texts, in `target`. `width` is that
    /// of the model's vectors, if it is known; `arguments` follow the embedder's id.
    ///
    /// # Errors
    /// The type is not suitable; the text gives the required type.
    pub fn of(
        kind: &EmbedderKind,
        target: &TensorType,
        chunks: bool,
        arguments: &[String],
        width: Option<usize>,
    ) -> Result<EmbeddingShape, ShapeFault> {
        let per_token = matches!(kind, EmbedderKind::Colbert(_) | EmbedderKind::Splade { .. });
        let vector = !matches!(kind, EmbedderKind::Splade { .. });
        let dimension = if vector { format!(",x[{}]", width.unwrap_or(384)) } else { String::new() };
        let expected = |mapped: &str| {
            let dimensions = format!("{mapped}{dimension}");
            ShapeFault::Type {
                expected: format!("tensor<float>({})", dimensions.trim_start_matches(',')),
                found: target.clone(),
            }
        };
        let mapped: Vec<&str> = target.mapped().map(|dimension| dimension.name.as_ref()).collect();
        let wanted = match (per_token, chunks) {
            (false, false) => "",
            (false, true) => "chunk{}",
            (true, false) => "token{}",
            (true, true) => "chunk{},token{}",
        };
        if mapped.len() != usize::from(per_token) + usize::from(chunks) {
            return Err(expected(wanted));
        }
        let chunk = match (chunks, per_token, arguments.first()) {
            (false, ..) => None,
            (true, false, _) => Some(0),
            (true, true, Some(name)) => match mapped.iter().position(|dimension| dimension == name) {
                Some(at) => Some(at),
                None => {
                    let (target, name) = (target.clone(), name.clone());
                    return Err(ShapeFault::ChunkDimension { target, name });
                }
            },
            (true, true, None) => return Err(ShapeFault::Unnamed),
        };
        let indexed: Vec<usize> = target.indexed().map(|(_, size)| size).collect();
        let binary = vector && target.cell() == CellType::Int8;
        let cells = match (vector, indexed.as_slice()) {
            (true, [size]) if binary => size.saturating_mul(8),
            (true, [size]) => *size,
            (false, []) => 0,
            _ => return Err(expected(wanted)),
        };
        match width {
            Some(width) if cells > width => {
                Err(ShapeFault::Width { width, target: target.clone(), cells, is_binary: binary })
            }
            _ => Ok(EmbeddingShape { chunk, cells, binary }),
        }
    }

    /// Like [`EmbeddingShape::of`], for an embedder with vectors of this width.
    ///
    /// # Errors
    /// The type is not suitable; the text gives the required type.
    pub fn of_vectors(
        target: &TensorType,
        chunks: bool,
        arguments: &[String],
        width: usize,
    ) -> Result<EmbeddingShape, ShapeFault> {
        let vector = EmbedderKind::HuggingFace { pooling: TokenPooling::None, normalize: false };
        EmbeddingShape::of(&vector, target, chunks, arguments, Some(width))
    }

    /// Shape of the tokens of a text, or with `chunks` of an array of texts, in `target`: as many tokens as
    /// it has cells, padded with zeros.
    ///
    /// # Errors
    /// The type is not suitable; the text gives the required type.
    pub fn of_tokens(target: &TensorType, chunks: bool) -> Result<EmbeddingShape, ShapeFault> {
        let indexed: Vec<usize> = target.indexed().map(|(_, size)| size).collect();
        match (indexed.as_slice(), target.mapped().count() == usize::from(chunks)) {
            ([cells], true) => {
                Ok(EmbeddingShape { chunk: chunks.then_some(0), cells: *cells, binary: false })
            }
            _ => Err(ShapeFault::Type {
                expected: format!("tensor<float>({}d0[512])", if chunks { "chunk{}," } else { "" }),
                found: target.clone(),
            }),
        }
    }

    /// Labels of a subspace: the chunk's, and the token's if there is one.
    pub(crate) fn labels(&self, chunk: usize, token: Option<String>) -> Vec<String> {
        let mut labels: Vec<String> = token.into_iter().collect();
        if let Some(at) = self.chunk {
            labels.insert(at.min(labels.len()), chunk.to_string());
        }
        labels
    }

    /// Adds a vector: rounded to the cell type, or one bit per cell.
    pub(crate) fn add(
        &self,
        builder: &mut TensorBuilder<'_>,
        chunk: usize,
        token: Option<String>,
        vector: &[f32],
    ) -> Result<(), ShapeFault> {
        let mut cells = TensorCells::with_capacity(builder.tensor_type().cell(), vector.len());
        if self.binary {
            pooling::bits(vector).for_each(|byte| cells.push(f64::from(byte)));
        } else {
            vector.iter().for_each(|&cell| cells.push(f64::from(cell)));
        }
        Ok(builder.block(self.labels(chunk, token), &cells)?)
    }
}

#[cfg(test)]
mod tests {
    use millrace_schema::ColbertTokens;

    use super::*;

    fn shape(
        kind: &EmbedderKind,
        target: &str,
        chunks: bool,
        arguments: &[&str],
    ) -> Result<(Option<usize>, usize, bool), String> {
        let target = TensorType::parse(target).expect("a type");
        let arguments: Vec<String> = arguments.iter().map(|&name| name.to_owned()).collect();
        EmbeddingShape::of(kind, &target, chunks, &arguments, Some(384))
            .map(|shape| (shape.chunk, shape.cells, shape.binary))
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_type_says_how_much_of_an_embedding_it_holds() {
        let vector = EmbedderKind::HuggingFace { pooling: TokenPooling::Mean, normalize: true };
        let splade = EmbedderKind::Splade { threshold: 0.0 };
        let colbert = EmbedderKind::Colbert(ColbertTokens {
            query_max: 32,
            document_max: 512,
            mask: 103,
            start: 101,
            end: 102,
            query: 1,
            document: 2,
            fills_query: true,
        });
        assert_eq!(shape(&vector, "tensor<float>(x[384])", false, &[]), Ok((None, 384, false)));
        assert_eq!(shape(&vector, "tensor<bfloat16>(x[128])", false, &[]), Ok((None, 128, false)));
        assert_eq!(shape(&vector, "tensor<int8>(x[48])", false, &[]), Ok((None, 384, true)));
        assert_eq!(shape(&vector, "tensor<float>(p{},x[384])", true, &[]), Ok((Some(0), 384, false)));
        assert_eq!(
            shape(&colbert, "tensor<int8>(chunk{},token{},x[16])", true, &["token"]),
            Ok((Some(1), 128, true))
        );
        assert_eq!(shape(&splade, "tensor<float>(token{})", false, &[]), Ok((None, 0, false)));
        assert_eq!(
            shape(&splade, "tensor<float>(chunk{},token{})", true, &["chunk"]),
            Ok((Some(0), 0, false))
        );
        for (kind, target, chunks, arguments, expected) in [
            (
                &vector,
                "tensor<float>(x[385])",
                false,
                &[][..],
                "have 384 cells, and tensor<float>(x[385]) takes 385",
            ),
            (&vector, "tensor<int8>(x[49])", false, &[], "takes 392, a bit each"),
            (
                &vector,
                "tensor<float>(p{},x[384])",
                false,
                &[],
                "expected a type such as tensor<float>(x[384])",
            ),
            (
                &vector,
                "tensor<float>(x[384])",
                true,
                &[],
                "expected a type such as tensor<float>(chunk{},x[384])",
            ),
            (&vector, "tensor<float>(x[2],y[2])", false, &[], "expected a type such as"),
            (&splade, "tensor<float>(x[3])", false, &[], "expected a type such as tensor<float>(token{})"),
            (&colbert, "tensor<float>(chunk{},token{},x[8])", true, &[], "as in embed colbert chunk"),
            (&colbert, "tensor<float>(chunk{},token{},x[8])", true, &["p"], "has no mapped dimension 'p'"),
        ] {
            let reason = shape(kind, target, chunks, arguments).expect_err(target);
            assert!(reason.contains(expected), "{target}: {reason}");
        }
    }
}
