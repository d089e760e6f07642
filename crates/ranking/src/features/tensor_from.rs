//! Tensors with several mapped dimensions, made from arrays.

use millrace_column::ColumnKey;
use millrace_document::{DataType, DocumentValue};
use millrace_expression::FeatureName;
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
    let cell = match cell.as_str() {
        "double" => CellType::Double,
        "float" => CellType::Float,
        other => return Err(Error::setup(format!("{name}: the type is float or double, found '{other}'"))),
    };
    let made = TensorSource::Structs { keys: keys.to_vec(), member: member.clone() };
    let dimensions: Vec<&str> = keys.iter().map(String::as_str).collect();
    feature(source, &dimensions, cell, made)
}

fn usage(name: &FeatureName) -> Error {
    Error::setup(format!("{name}: write tensorFromStructs(attribute(field),key,value,type)"))
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
    fn cell(&self, at: usize, element: &DocumentValue) -> Option<(Vec<String>, f64)> {
        match (self, element) {
            (TensorSource::Structs { keys, member }, DocumentValue::Struct(fields)) => {
                let of = |name: &String| {
                    fields.iter().find(|(known, _)| **known == **name).map(|(_, value)| value)
                };
                let labels = keys.iter().map(|key| of(key).and_then(label)).collect::<Option<_>>()?;
                Some((labels, of(member).and_then(number)?))
            }
            (TensorSource::Structs { .. }, _) => None,
            (TensorSource::LabelsWithOffset, element) => Some((vec![label(element)?, at.to_string()], 1.0)),
        }
    }
}

impl FromArray {
    fn of(&self, value: Option<DocumentValue>) -> Tensor {
        let mut builder = TensorBuilder::new(&self.tensor_type);
        if let Some(DocumentValue::Array(elements)) = value {
            for (at, element) in elements.iter().enumerate() {
                let Some((labels, cell)) = self.made.cell(at, element) else { continue };
                let labels = self.order.iter().map(|at| labels[*at].clone()).collect();
                // There are as many labels as mapped dimensions, and these accept any label.
                if builder.cell(labels, 0, cell).is_err() {
                    break;
                }
            }
        }
        builder.finish()
    }
}

impl RankFeature for FromArray {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.source.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let of = |document| self.of(column.and_then(|column| self.source.read(column, document)));
            *values = FeatureValues::Tensors(chunk.documents().map(|(_, document)| of(document)).collect());
        }))
    }
}
