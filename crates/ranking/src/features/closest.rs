//! `closest(field)`: the vector of a document that is nearest to the query's.

use std::sync::Arc;

use millrace_column::{BytesColumn, Column, ColumnKey, value};
use millrace_document::{DataType, DocumentValue, EncodedTensorType};
use millrace_expression::FeatureName;
use millrace_matching::{NearestSubspace, nearest_subspace};
use millrace_plan::Predicate;
use millrace_schema::DistanceMetric;
use millrace_tensor::{CellType, Tensor, TensorBuilder, TensorType};

use super::attribute::empty;
use super::stored_tensors::TensorsBuilder;
use super::term::leaves_labelled;
use super::{
    ClosureExecutor, DocumentTensors, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup,
    FeatureValues, RankFeature,
};
use crate::Error;

/// `closest(field)`, `closest(field,label)`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.field(name, 0)?;
    let (cell_type, mapped) = match &field.data_type {
        DataType::Tensor(tensor_type) => {
            (tensor_type.cell(), tensor_type.mapped().cloned().collect::<Vec<_>>())
        }
        _ => (CellType::Float, Vec::new()),
    };
    if mapped.is_empty() {
        return Err(Error::setup(format!(
            "{name} needs a tensor field with a mapped dimension, but {} is {}",
            field.name, field.data_type
        )));
    }
    Ok(Box::new(ClosestFeature {
        field: field.name.to_string(),
        label: name.parameters.get(1).cloned(),
        data_type: field.data_type.clone(),
        tensor_type: TensorType::new(cell_type, mapped).map_err(|error| Error::setup(error.to_string()))?,
    }))
}

struct ClosestFeature {
    field: String,
    label: Option<String>,
    data_type: DataType,
    tensor_type: TensorType,
}

impl RankFeature for ClosestFeature {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let plan = request.plan;
        let labelled = self.label.as_ref().map(|label| leaves_labelled(plan, label));
        let targets: Vec<(&Arc<Tensor>, DistanceMetric)> = plan
            .leaves
            .iter()
            .enumerate()
            .filter(|(at, leaf)| {
                *leaf.field == *self.field
                    && labelled.as_ref().is_none_or(|ids| ids.iter().any(|id| id.0 == *at))
            })
            .filter_map(|(_, leaf)| match &leaf.predicate {
                Predicate::Nearest { target, metric, .. } => Some((target, *metric)),
                _ => None,
            })
            .collect();
        let column = request.column(ColumnKey::value(&self.field));
        let mut searches: Vec<NearestSubspace> =
            targets.iter().map(|(target, metric)| NearestSubspace::new(target, *metric)).collect();
        let encoded = match &self.data_type {
            DataType::Tensor(tensor_type) => EncodedTensorType::new(tensor_type),
            _ => EncodedTensorType::new(&self.tensor_type),
        };
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            if let Some(Column::Bytes(bytes)) = column
                && chunk.paths.is_fast()
            {
                *values = FeatureValues::Stored(self.stored(bytes, &encoded, &mut searches, chunk));
                return;
            }
            let of = |document| match column.and_then(|column| value(column, &self.data_type, document)) {
                Some(DocumentValue::Tensor(tensor)) => self.of(&targets, &tensor),
                _ => empty(&self.tensor_type),
            };
            *values = FeatureValues::Tensors(chunk.documents().map(|(_, document)| of(document)).collect());
        }))
    }
}

impl ClosestFeature {
    /// The labels of the nearest vectors of a column's documents, read where they lie.
    fn stored(
        &self,
        column: &BytesColumn,
        encoded: &EncodedTensorType,
        searches: &mut [NearestSubspace],
        chunk: &FeatureChunk<'_>,
    ) -> DocumentTensors {
        let mut builder = TensorsBuilder::new(self.tensor_type.cell());
        let mapped = encoded.labels_per_subspace();
        for (_, document) in chunk.documents() {
            let tensor = column.get(document).and_then(|bytes| encoded.read(bytes));
            if let (Some(tensor), DataType::Tensor(tensor_type)) = (tensor, &self.data_type)
                && let Ok(cells) = tensor.cells()
            {
                let nearest = searches.iter_mut().filter_map(|search| search.find(tensor_type, cells));
                if let Some((at, _)) = nearest.min_by(|a, b| a.1.total_cmp(&b.1)) {
                    let labels = tensor.labels().skip(at * mapped).take(mapped);
                    labels.for_each(|label| builder.label(label.as_bytes()));
                    builder.cell(1.0);
                }
            }
            builder.end_document();
        }
        builder.finish()
    }

    fn of(&self, targets: &[(&Arc<Tensor>, DistanceMetric)], tensor: &Tensor) -> Tensor {
        let nearest = targets
            .iter()
            .filter_map(|(target, metric)| nearest_subspace(target, *metric, tensor))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let mut builder = TensorBuilder::new(&self.tensor_type);
        if let Some((labels, _)) = nearest {
            // The labels come from the field's own mapped dimensions, which are exactly those of the type.
            let _ = builder.cell(labels.to_vec(), 0, 1.0);
        }
        builder.finish()
    }
}
