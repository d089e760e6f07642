//! Tensors with several mapped dimensions, made from arrays.

use millrace_column::{ColumnKey, ColumnValue};
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::{NestedValue, RankingDemands, SingleValueRef, ValueElement};
use millrace_tensor::{CellType, DimensionKind, Tensor, TensorBuilder, TensorDimension, TensorType};

use super::attribute::{label, number};
use super::multivalue::SourceValues;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// `tensorFromStructs(attribute(field),key,…,value,type)`
pub(crate) fn structs(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let [_, keys @ .., member, cell] = name.parameters.as_slice() else {
        return Err(usage(name));
    };
    if keys.is_empty() {
        return Err(usage(name));
    }
    let source = SourceValues::attribute(setup, name)?;
    let field = source.text();
    let members = match &source.data_type {
        DataType::Array(element) => match &**element {
            DataType::Struct(members) => members,
            other => {
                return Err(Error::setup(format!(
                    "{name} needs an array of structs, but {field} is an array of {other}"
                )));
            }
        },
        other => {
            return Err(Error::setup(format!("{name} needs an array of structs, but {field} is {other}")));
        }
    };
    for known in keys.iter().chain([member]) {
        if members.field(known).is_none() {
            return Err(Error::setup(format!("{name}: the structs of {field} have no field '{known}'")));
        }
    }
    let cells = [CellType::Double, CellType::Float, CellType::BFloat16, CellType::Int8];
    let Some(cell_type) = cells.into_iter().find(|known| known.name() == cell) else {
        return Err(Error::setup(format!(
            "{name}: the type is double, float, bfloat16 or int8, found '{cell}'"
        )));
    };
    let made = TensorSource::Structs { keys: keys.to_vec(), member: member.clone() };
    let dimensions: Vec<&str> = keys.iter().map(String::as_str).collect();
    feature(source, &dimensions, cell_type, made)
}

fn usage(name: &FeatureName) -> Error {
    Error::setup(format!("{name}: write tensorFromStructs(attribute(field),key,…,value,type)"))
}

/// `tensorFromLabelsWithOffset(attribute(field),label-dimension,offset-dimension)`
pub(crate) fn labels_with_offset(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let [_, labels, offsets] = name.parameters.as_slice() else {
        return Err(Error::setup(format!(
            "{name}: write tensorFromLabelsWithOffset(attribute(field),label-dimension,offset-dimension)"
        )));
    };
    let source = SourceValues::attribute(setup, name)?;
    if !matches!(source.data_type, DataType::Array(_)) {
        let (field, data_type) = (source.text(), &source.data_type);
        return Err(Error::setup(format!("{name} needs an array, but {field} is {data_type}")));
    }
    feature(source, &[labels, offsets], CellType::Float, TensorSource::LabelsWithOffset)
}

fn feature(
    source: SourceValues,
    dimensions: &[&str],
    cell: CellType,
    made: TensorSource,
) -> Result<Box<dyn RankFeature>, Error> {
    let mapped = |name: &&str| TensorDimension { name: (*name).to_owned(), kind: DimensionKind::Mapped };
    let tensor_type = TensorType::new(cell, dimensions.iter().map(mapped).collect())
        .map_err(|error| Error::setup(error.to_string()))?;
    // Types keep their dimensions sorted; labels follow that order.
    let order = tensor_type
        .dimensions()
        .iter()
        .filter_map(|sorted| dimensions.iter().position(|name| *name == sorted.name))
        .collect();
    Ok(Box::new(FromArray { source, tensor_type, order, made }))
}

struct FromArray {
    source: SourceValues,
    tensor_type: TensorType,
    /// For each dimension of the type, its index among the labels.
    order: Vec<usize>,
    made: TensorSource,
}

enum TensorSource {
    Structs { keys: Vec<String>, member: String },
    LabelsWithOffset,
}

impl TensorSource {
    /// Labels and cell of one element.
    fn cell<V: NestedValue>(&self, at: usize, element: V) -> Option<(Vec<String>, f64)> {
        match self {
            TensorSource::Structs { keys, member } => {
                let labels = keys.iter().map(|key| of_member(element, key, label)).collect::<Option<_>>()?;
                Some((labels, of_member(element, member, number)?))
            }
            TensorSource::LabelsWithOffset => {
                let value = SingleValueRef::new(element.single()?)?;
                Some((vec![label(value)?, at.to_string()], 1.0))
            }
        }
    }
}

/// Converts a member of a struct.
fn of_member<V: NestedValue, T>(
    element: V,
    name: &str,
    convert: impl Fn(SingleValueRef<'_>) -> Option<T>,
) -> Option<T> {
    let mut converted = None;
    element.each_member(name, &mut |member| {
        converted = member.single().and_then(SingleValueRef::new).and_then(&convert);
    });
    converted
}

impl FromArray {
    fn of(&self, value: Option<ColumnValue<'_>>) -> Tensor {
        let mut builder = TensorBuilder::new(&self.tensor_type);
        match value {
            Some(ColumnValue::InPlace(value)) => self.add(value, &mut builder),
            Some(ColumnValue::Decoded(value)) => self.add(&value, &mut builder),
            None => {}
        }
        builder.finish()
    }

    fn add<V: NestedValue>(&self, value: V, builder: &mut TensorBuilder<'_>) {
        // A tensor that is too large keeps the cells before.
        let (mut at, mut is_full) = (0, false);
        ValueElement::Value(value, 1).at(&self.source.path, &mut |element, _| {
            if let Some((labels, cell)) = self.made.cell(at, element).filter(|_| !is_full) {
                let labels = self.order.iter().map(|at| labels[*at].clone()).collect();
                is_full = builder.cell(labels, 0, cell).is_err();
            }
            at += 1;
        });
    }
}

impl RankFeature for FromArray {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.source.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let of = |document| self.of(column.and_then(|column| self.source.read(chunk, column, document)));
            *values = FeatureValues::Tensors(chunk.documents().map(|(_, document)| of(document)).collect());
        }))
    }
}
