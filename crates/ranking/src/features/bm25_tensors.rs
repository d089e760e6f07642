//! Parts of BM25: scores by label and by element, and the document frequencies behind them.

use std::collections::BTreeMap;

use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::LeafId;
use millrace_tensor::{CellType, DimensionKind, Tensor, TensorBuilder, TensorDimension, TensorType};

use super::bm25::{Bm25Weights, weigh};
use super::lengths::FieldWords;
use super::multivalue::LabelledCells;
use super::stored_tensors::TensorsBuilder;
use super::term::{DocumentLeaf, count, each_document, term, terms_of};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// A tensor type with one mapped dimension.
pub(crate) fn mapped(name: &str, cell: CellType) -> Result<TensorType, Error> {
    let dimension = TensorDimension { name: name.to_owned(), kind: DimensionKind::Mapped };
    TensorType::new(cell, vec![dimension]).map_err(|error| Error::setup(error.to_string()))
}

/// A tensor of a type with one mapped dimension.
pub(crate) fn of_cells(tensor_type: &TensorType, cells: impl IntoIterator<Item = (String, f64)>) -> Tensor {
    let mut builder = TensorBuilder::new(tensor_type);
    for (label, cell) in cells {
        // The type has one mapped dimension, which accepts any label and number.
        if builder.cell(vec![label], 0, cell).is_err() {
            break;
        }
    }
    builder.finish()
}

/// `bm25_for_labels(field)`
pub(crate) fn for_labels(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = FieldWords::of(setup, setup.word_field(name, 0)?);
    let weights = Bm25Weights::new(setup, "bm25", field.name(), "averageFieldLength")?;
    Ok(Box::new(Bm25ForLabels { field, weights, tensor_type: mapped("label", CellType::Float)? }))
}

struct Bm25ForLabels {
    field: FieldWords,
    weights: Bm25Weights,
    tensor_type: TensorType,
}

impl RankFeature for Bm25ForLabels {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, statistics: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let mut terms: Vec<(&str, LeafId, f64)> = Vec::new();
        for (found, rarity) in weigh(request, self.field.name()) {
            if let Some(label) =
                term(request.plan, found.term).and_then(|term| term.annotations.label.as_deref())
            {
                terms.push((label, found.leaf, rarity));
            }
        }
        let norm = self.weights.norm(self.weights.average_field_length(request, self.field.name()));
        let words = self.field.bind(request);
        let mut lengths = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            words.lengths(chunk, &mut lengths);
            let tensor = |(at, length): (usize, &f64)| {
                let mut cells: BTreeMap<&str, f64> = BTreeMap::new();
                for (label, leaf, rarity) in &terms {
                    if let count @ 1.. = count(chunk.matches.leaf(*leaf), at) {
                        *cells.entry(label).or_default() +=
                            self.weights.score(*rarity, f64::from(count), norm(*length));
                    }
                }
                of_cells(&self.tensor_type, cells.into_iter().map(|(label, cell)| (label.to_owned(), cell)))
            };
            *values = FeatureValues::Tensors(lengths.iter().enumerate().map(tensor).collect());
        }))
    }
}

/// `elementwise(bm25(field),dimension,cell_type)`
pub(crate) fn elementwise(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let usage = || Error::setup(format!("{name}: write elementwise(bm25(field),dimension,cell_type)"));
    let inner = name.parameters.first().and_then(|inner| FeatureName::parse(inner).ok()).ok_or_else(usage)?;
    let (Some(dimension), "bm25", None) = (name.parameters.get(1), inner.name.as_str(), &inner.output) else {
        return Err(usage());
    };
    let cell = match name.parameters.get(2).map(String::as_str) {
        None | Some("double") => CellType::Double,
        Some("float") => CellType::Float,
        Some("bfloat16") => CellType::BFloat16,
        Some("int8") => CellType::Int8,
        Some(other) => {
            return Err(Error::setup(format!(
                "{name}: a cell type is double, float, bfloat16 or int8, found '{other}'"
            )));
        }
    };
    let field = FieldWords::of(setup, setup.word_field(&inner, 0)?);
    let weights = Bm25Weights::of_elements(setup, name, field.name())?;
    Ok(Box::new(ElementwiseBm25 { field, weights, tensor_type: mapped(dimension, cell)? }))
}

struct ElementwiseBm25 {
    field: FieldWords,
    weights: Bm25Weights,
    tensor_type: TensorType,
}

impl RankFeature for ElementwiseBm25 {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands { leaves: true, counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let terms = weigh(request, self.field.name());
        let norm = self.weights.norm(self.weights.average_element_length());
        let words = self.field.bind(request);
        let leaves: Vec<LeafId> = terms.iter().map(|(found, _)| found.leaf).collect();
        let (mut lengths, mut labelled) = (Vec::new(), LabelledCells::default());
        // The cell of each element of one document.
        let mut cells: Vec<Option<f64>> = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let (mut tensors, mut ended) = (TensorsBuilder::new(self.tensor_type.cell()), 0);
            each_document(chunk.matches, &leaves, |row, found| {
                // Documents between have no cells.
                (ended..row).for_each(|_| tensors.end_document());
                ended = row + 1;
                let document = usize::from(chunk.matches.documents[row]);
                words.element_lengths(chunk, document, &mut lengths);
                let ends = element_ends(&lengths);
                cells.clear();
                cells.resize(ends.len() + 1, None);
                for DocumentLeaf { number, positions } in found {
                    let (rarity, mut rest) = (terms[*number].1, *positions);
                    while let Some(first) = rest.first() {
                        let at = ends.partition_point(|end| end <= first);
                        let count = ends.get(at).map_or(rest.len(), |end| {
                            rest.iter().take_while(|position| *position < end).count()
                        });
                        rest = &rest[count..];
                        let begin = at.checked_sub(1).map_or(0, |before| ends[before] + 1);
                        let length = ends.get(at).map_or(0, |end| end - begin);
                        *cells[at].get_or_insert_default() +=
                            self.weights.score(rarity, count as f64, norm(f64::from(length)));
                    }
                }
                for (at, cell) in cells.iter().enumerate() {
                    let Some(cell) = cell else { continue };
                    let label =
                        tensors.write_label(|bytes| bytes.extend_from_slice(at.to_string().as_bytes()));
                    labelled.push(label, tensors.label_bytes(), *cell);
                }
                labelled.move_to(&mut tensors);
                tensors.end_document();
            });
            (ended..chunk.len()).for_each(|_| tensors.end_document());
            *values = FeatureValues::Stored(tensors.finish());
        }))
    }
}

/// For each element, the index after its last word.
fn element_ends(lengths: &[u32]) -> Vec<u32> {
    let mut begin = 0;
    let end = |length: &u32| {
        let end = begin + length;
        // The position between two elements belongs to the boundary.
        begin = end + 1;
        end
    };
    lengths.iter().map(end).collect()
}

/// `queryTermDocumentFrequency(field)`
pub(crate) fn document_frequency(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?.name.to_string();
    Ok(Box::new(DocumentFrequency { field, tensor_type: mapped("term", CellType::Double)? }))
}

struct DocumentFrequency {
    field: String,
    tensor_type: TensorType,
}

impl RankFeature for DocumentFrequency {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands { statistics: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let frequencies = &request.matches.statistics.document_frequency;
        let cells = terms_of(request.plan, &self.field).into_iter().map(|found| {
            let frequency = frequencies.get(found.leaf.0).copied().unwrap_or_default();
            (found.term.0.to_string(), frequency as f64)
        });
        let tensor = std::sync::Arc::new(of_cells(&self.tensor_type, cells));
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = FeatureValues::Tensor(std::sync::Arc::clone(&tensor));
        }))
    }
}
