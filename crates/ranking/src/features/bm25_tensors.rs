//! Parts of BM25: scores by label and by element, and the document frequencies behind them.

use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::LeafId;
use millrace_tensor::{CellType, DimensionKind, Tensor, TensorBuilder, TensorDimension, TensorType};

use super::bm25::{Bm25Weights, weigh};
use super::lengths::FieldWords;
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
        // Cells are in the order of their labels.
        terms.sort_by_key(|(label, ..)| *label);
        let norm = self.weights.norm(self.weights.average_field_length(request, self.field.name()));
        let words = self.field.bind(request);
        let mut lengths = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            words.lengths(chunk, &mut lengths);
            let mut tensors = TensorsBuilder::new(self.tensor_type.cell());
            for (at, length) in lengths.iter().enumerate() {
                for of_label in terms.chunk_by(|a, b| a.0 == b.0) {
                    let mut cell = None;
                    for (_, leaf, rarity) in of_label {
                        if let count @ 1.. = count(chunk.matches.leaf(*leaf), at) {
                            let score = self.weights.score(*rarity, f64::from(count), norm(*length));
                            *cell.get_or_insert(0.0) += score;
                        }
                    }
                    if let Some(cell) = cell {
                        tensors.label(of_label[0].0.as_bytes());
                        tensors.cell(cell);
                    }
                }
                tensors.end_document();
            }
            *values = FeatureValues::Stored(tensors.finish());
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
        let (mut lengths, mut ends) = (Vec::new(), Vec::new());
        // Elements of one document, each with the score of a term.
        let mut scores: Vec<(usize, f64)> = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let (mut tensors, mut ended) = (TensorsBuilder::new(self.tensor_type.cell()), 0);
            each_document(chunk.matches, &leaves, |row, found| {
                // Documents between have no cells.
                (ended..row).for_each(|_| tensors.end_document());
                ended = row + 1;
                words.element_lengths(chunk, usize::from(chunk.matches.documents[row]), &mut lengths);
                element_ends(&lengths, &mut ends);
                for DocumentLeaf { number, positions } in found {
                    each_element(positions, &ends, |element, count| {
                        let length = lengths.get(element).map_or(0.0, |length| f64::from(*length));
                        scores.push((element, self.weights.score(terms[*number].1, count, norm(length))));
                    });
                }
                // The scores of an element stay in the order of the terms.
                scores.sort_by_key(|(element, _)| *element);
                for of_element in scores.chunk_by(|a, b| a.0 == b.0) {
                    tensors.number_label(of_element[0].0);
                    tensors.cell(of_element.iter().fold(0.0, |sum, (_, score)| sum + score));
                }
                scores.clear();
                tensors.end_document();
            });
            (ended..chunk.len()).for_each(|_| tensors.end_document());
            *values = FeatureValues::Stored(tensors.finish());
        }))
    }
}

/// Finds for each element the position after its last word.
fn element_ends(lengths: &[u32], ends: &mut Vec<u32>) {
    let mut begin = 0;
    ends.clear();
    ends.extend(lengths.iter().map(|length| {
        let end = begin + length;
        // The position between two elements belongs to the boundary.
        begin = end + 1;
        end
    }));
}

/// Calls `visit` with each element that has some of the ascending positions, and with their number.
fn each_element(positions: &[u32], ends: &[u32], mut visit: impl FnMut(usize, f64)) {
    let mut rest = positions;
    while let Some(first) = rest.first() {
        let element = ends.partition_point(|end| end <= first);
        let is_here = |position: &u32| ends.get(element).is_none_or(|end| position < end);
        let (here, others) = rest.split_at(rest.partition_point(is_here));
        visit(element, here.len() as f64);
        rest = others;
    }
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
