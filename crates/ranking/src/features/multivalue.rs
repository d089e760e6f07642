//! Tensors and dot products made from arrays and weighted sets.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Add;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ColumnValue, read_value, value};
use millrace_document::{DataType, DocumentValue, ValueRef, zcurve};
use millrace_expression::FeatureName;
use millrace_tensor::{CellType, TensorType};

use super::attribute::{label, number};
use super::bm25_tensors::{mapped, of_cells};
use super::path::walk;
use super::stored_tensors::TensorsBuilder;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// The values of an attribute that a feature reads: those of a field, or of a part of its structs, map keys
/// or map values, which are an array.
#[derive(Debug, Clone)]
pub(crate) struct SourceValues {
    /// Name of the field.
    pub field: String,
    /// Steps from the field to the part; empty for the field itself.
    pub path: Vec<String>,
    /// Type of the field.
    field_type: DataType,
    /// Type of the values.
    pub data_type: DataType,
}

impl SourceValues {
    /// The values that parameter `at` of a feature names, as `field` or `field.part`.
    pub fn named(setup: &FeatureSetup<'_>, name: &FeatureName, at: usize) -> Result<Self, Error> {
        let part = setup.part(name, at)?;
        let mut data_type = part.data_type.clone();
        let is_zcurve = part.field.has_positions() && data_type == DataType::Long;
        if part.many && (is_zcurve || !part.path.is_empty()) {
            data_type = DataType::Array(Box::new(data_type));
        }
        let field_type = part.field.data_type.clone();
        Ok(SourceValues { field: part.field.name.to_string(), path: part.path, field_type, data_type })
    }

    /// The values that the first parameter of a feature names as `attribute(field)`.
    pub fn attribute(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Self, Error> {
        let parameter = name.parameters.first().map_or("", String::as_str);
        let inner = FeatureName::parse(parameter).ok().filter(|inner| inner.name == "attribute");
        let Some(inner) = inner else {
            return Err(Error::setup(format!(
                "{name}: the source is written attribute(field), found '{parameter}'"
            )));
        };
        SourceValues::named(setup, &inner, 0)
    }

    /// Text of the schema that names the values.
    pub fn text(&self) -> String {
        let steps = self.path.iter().map(|step| format!(".{step}"));
        std::iter::once(self.field.clone()).chain(steps).collect()
    }

    /// Reads the values of a document: an array, for a part of several elements.
    pub fn read(&self, column: &Column, document: usize) -> Option<DocumentValue> {
        let whole = value(column, &self.field_type, document)?;
        if self.path.is_empty() {
            return Some(whole);
        }
        let mut parts = Vec::new();
        walk(&whole, &self.path, &mut |part| parts.push(part.clone()));
        match &self.data_type {
            DataType::Array(_) => Some(DocumentValue::Array(parts)),
            _ => parts.pop(),
        }
    }
}

/// `tensorFromLabels(attribute(field),dimension)`
pub(crate) fn from_labels(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    made(setup, name, false)
}

/// `tensorFromWeightedSet(attribute(field),dimension)`
pub(crate) fn from_weighted_set(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    made(setup, name, true)
}

fn made(setup: &FeatureSetup<'_>, name: &FeatureName, weighted: bool) -> Result<Box<dyn RankFeature>, Error> {
    let parameter = name.parameters.first().and_then(|parameter| FeatureName::parse(parameter).ok());
    if let Some(query) = parameter.filter(|parameter| parameter.name == "query")
        && let Some(property) = query.parameters.into_iter().next()
    {
        let tensor_type = mapped(name.parameters.get(1).unwrap_or(&property), CellType::Double)?;
        return Ok(Box::new(RequestTensor { property, tensor_type, weighted }));
    }
    let source = SourceValues::attribute(setup, name)?;
    let (text, data_type) = (source.text(), &source.data_type);
    let tensor_type = mapped(name.parameters.get(1).unwrap_or(&text), CellType::Double)?;
    if weighted && !matches!(data_type, DataType::WeightedSet { .. }) {
        return Err(Error::setup(format!("{name} needs a weighted set, but {text} is {data_type}")));
    }
    Ok(Box::new(MadeTensor { source, tensor_type, weighted }))
}

/// A tensor made of the list or set in a rank property of the request.
struct RequestTensor {
    property: String,
    tensor_type: TensorType,
    /// True for a set of labels with their cells; otherwise each cell is 1.
    weighted: bool,
}

impl RankFeature for RequestTensor {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let text = request.plan.query.ranking.properties.get(&self.property).map(|text| text.trim());
        let cells: BTreeMap<String, f64> = match text {
            Some(text) if self.weighted => parse_vector(text).into_iter().collect(),
            Some(text) => text
                .trim_matches(['[', ']'])
                .split([' ', ','])
                .filter(|label| !label.is_empty())
                .map(|label| (label.to_owned(), 1.0))
                .collect(),
            None => BTreeMap::new(),
        };
        let tensor = Arc::new(of_cells(&self.tensor_type, cells));
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = FeatureValues::Tensor(Arc::clone(&tensor));
        }))
    }
}

struct MadeTensor {
    source: SourceValues,
    tensor_type: TensorType,
    /// True if cells are weights; otherwise each cell is 1.
    weighted: bool,
}

/// A label with its cell.
type LabelledCell<'v> = (Cow<'v, str>, f64);

impl MadeTensor {
    /// Collects the labels of a value that is read in place.
    fn collect_in_place<'v>(&self, value: ValueRef<'v>, cells: &mut Vec<LabelledCell<'v>>) {
        match value {
            ValueRef::WeightedSet(set) if self.weighted => cells.extend(
                set.weighted()
                    .filter_map(|(value, weight)| Some((label_in_place(value)?, f64::from(weight)))),
            ),
            ValueRef::Array(elements) if !self.weighted => {
                cells.extend(elements.values().filter_map(|value| Some((label_in_place(value)?, 1.0))));
            }
            ValueRef::WeightedSet(_) | ValueRef::Array(_) => {}
            single if !self.weighted => cells.extend(label_in_place(single).map(|label| (label, 1.0))),
            _ => {}
        }
    }

    /// Collects the labels of a value.
    fn collect(&self, value: &DocumentValue, cells: &mut Vec<LabelledCell<'_>>) {
        match value {
            DocumentValue::WeightedSet(elements) if self.weighted => {
                let labelled = elements
                    .iter()
                    .filter_map(|(value, weight)| Some((Cow::Owned(label(value)?), f64::from(*weight))));
                cells.extend(labelled);
            }
            DocumentValue::Array(elements) if !self.weighted => {
                cells.extend(elements.iter().filter_map(|value| Some((Cow::Owned(label(value)?), 1.0))));
            }
            single if !self.weighted => {
                cells.extend(label(single).map(|label| (Cow::Owned(label), 1.0)));
            }
            _ => {}
        }
    }
}

/// As [`label`], without a copy of a string.
fn label_in_place(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    Some(match value {
        ValueRef::Bool(value) => value.to_string().into(),
        ValueRef::Byte(value) => value.to_string().into(),
        ValueRef::Int(value) => value.to_string().into(),
        ValueRef::Long(value) => value.to_string().into(),
        ValueRef::String(value) => value.into(),
        ValueRef::Position { latitude, longitude } => zcurve(latitude, longitude).to_string().into(),
        _ => return None,
    })
}

impl RankFeature for MadeTensor {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.source.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let mut builder = TensorsBuilder::new(self.tensor_type.cell());
            let mut cells: Vec<LabelledCell<'_>> = Vec::new();
            for (_, document) in chunk.documents() {
                cells.clear();
                let source = &self.source;
                let read = |column| match source.path.is_empty() {
                    true => read_value(column, &source.field_type, document),
                    false => source.read(column, document).map(ColumnValue::Decoded),
                };
                match column.and_then(read) {
                    Some(ColumnValue::InPlace(value)) => self.collect_in_place(value, &mut cells),
                    Some(ColumnValue::Decoded(value)) => self.collect(&value, &mut cells),
                    None => {}
                }
                cells.sort_by(|a, b| a.0.cmp(&b.0));
                for (at, (label, cell)) in cells.iter().enumerate() {
                    // Of equal labels the last counts.
                    if cells.get(at + 1).is_none_or(|(next, _)| next != label) {
                        builder.label(label.as_bytes());
                        builder.cell(*cell);
                    }
                }
                builder.end_document();
            }
            *values = FeatureValues::Stored(builder.finish());
        }))
    }
}

/// `dotProduct(field,vector)`
pub(crate) fn dot_product(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let source = SourceValues::named(setup, name, 0)?;
    if !matches!(source.data_type, DataType::WeightedSet { .. } | DataType::Array(_)) {
        return Err(Error::setup(format!(
            "{name} needs an array or weighted set, but {} is {}",
            source.text(),
            source.data_type
        )));
    }
    let Some(vector) = name.parameters.get(1) else {
        return Err(Error::setup(format!("{name} needs the name of the query's vector as parameter 2")));
    };
    let fallback = setup.properties.text("dotProduct", vector, "vector").map(str::to_owned);
    Ok(Box::new(DotProduct { source, property: format!("dotProduct.{vector}"), fallback }))
}

struct DotProduct {
    source: SourceValues,
    /// Rank property of the request that contains the vector.
    property: String,
    fallback: Option<String>,
}

impl RankFeature for DotProduct {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let text = request.plan.query.ranking.properties.get(&self.property).or(self.fallback.as_ref());
        let vector = text.map(|text| parse_vector(text)).unwrap_or_default();
        let column = request.column(ColumnKey::value(&self.source.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let out = values.numbers(chunk.len(), 0.0);
            let Some(column) = column else { return };
            for (at, document) in chunk.documents() {
                out[at] = match self.source.read(column, document) {
                    Some(DocumentValue::WeightedSet(elements)) => elements
                        .iter()
                        .filter_map(|(value, weight)| Some(vector.get(&label(value)?)? * f64::from(*weight)))
                        .fold(0.0, Add::add),
                    Some(DocumentValue::Array(elements)) => elements
                        .iter()
                        .enumerate()
                        .filter_map(|(index, value)| Some(vector.get(&index.to_string())? * number(value)?))
                        .fold(0.0, Add::add),
                    _ => 0.0,
                };
            }
        }))
    }
}

/// `euclideanDistance(field,vector)`
pub(crate) fn euclidean_distance(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let source = SourceValues::named(setup, name, 0)?;
    let is_numbers = matches!(&source.data_type, DataType::Array(element)
        if matches!(**element, DataType::Byte | DataType::Int | DataType::Long | DataType::Float | DataType::Double));
    if !is_numbers {
        return Err(Error::setup(format!(
            "{name} needs an array of numbers, but {} is {}",
            source.text(),
            source.data_type
        )));
    }
    let Some(vector) = name.parameters.get(1) else {
        return Err(Error::setup(format!("{name} needs the name of the query's vector as parameter 2")));
    };
    Ok(Box::new(EuclideanDistance { source, property: format!("euclideanDistance.{vector}") }))
}

struct EuclideanDistance {
    source: SourceValues,
    /// Rank property of the request that contains the vector.
    property: String,
}

impl RankFeature for EuclideanDistance {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let text = request.plan.query.ranking.properties.get(&self.property);
        let vector = text.map(|text| parse_vector(text)).unwrap_or_default();
        let column = request.column(ColumnKey::value(&self.source.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let out = values.numbers(chunk.len(), 0.0);
            let Some(column) = column else { return };
            for (at, document) in chunk.documents() {
                if let Some(DocumentValue::Array(elements)) = self.source.read(column, document) {
                    // Only elements that both have count.
                    let both = elements.iter().enumerate().filter_map(|(index, value)| {
                        Some((vector.get(&index.to_string())? - number(value)?).powi(2))
                    });
                    out[at] = both.sum::<f64>().sqrt();
                }
            }
        }))
    }
}

/// Parses `{a:1,b:2}`, `(a:1,b:2)` or `[1 2 3]`. Parts that are not numbers are skipped.
fn parse_vector(text: &str) -> HashMap<String, f64> {
    let inner = text.trim().trim_matches(['{', '}', '(', ')', '[', ']']);
    if text.trim_start().starts_with('[') {
        let numbers = inner.split([' ', ',']).filter(|part| !part.is_empty()).enumerate();
        return numbers.filter_map(|(index, part)| Some((index.to_string(), part.parse().ok()?))).collect();
    }
    inner
        .split(',')
        .filter_map(|part| part.rsplit_once(':'))
        .filter_map(|(key, number)| {
            Some((key.trim().trim_matches(['"', '\'']).to_owned(), number.trim().parse().ok()?))
        })
        .collect()
}
