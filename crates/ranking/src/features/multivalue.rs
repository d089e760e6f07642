//! Tensors and dot products made from arrays and weighted sets.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Add;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ColumnValue, read_value, value};
use millrace_document::{DataType, DocumentValue, ValueRef, zcurve};
use millrace_expression::{FeatureName, string_hash};
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

    /// As [`SourceValues::read`], in place where the values are those of a field.
    fn read_value<'c>(&self, column: &'c Column, document: usize) -> Option<ColumnValue<'c>> {
        match self.path.is_empty() {
            true => read_value(column, &self.field_type, document),
            false => self.read(column, document).map(ColumnValue::Decoded),
        }
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

/// As [`number`], for a value that is read in place.
fn number_in_place(value: ValueRef<'_>) -> Option<f64> {
    Some(match value {
        ValueRef::Bool(value) => f64::from(u8::from(value)),
        ValueRef::Byte(value) => value.into(),
        ValueRef::Int(value) => value.into(),
        ValueRef::Long(value) => value as f64,
        ValueRef::Float(value) => value.into(),
        ValueRef::Double(value) => value,
        ValueRef::String(value) => string_hash(value),
        ValueRef::Position { latitude, longitude } => zcurve(latitude, longitude) as f64,
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
                match column.and_then(|column| self.source.read_value(column, document)) {
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
    let takes = |data_type: &DataType| matches!(data_type, DataType::WeightedSet { .. } | DataType::Array(_));
    VectorFeature::boxed(setup, name, "an array or weighted set", takes, dot)
}

/// `euclideanDistance(field,vector)`
pub(crate) fn euclidean_distance(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let takes = |data_type: &DataType| {
        matches!(data_type, DataType::Array(element) if matches!(**element,
            DataType::Byte | DataType::Int | DataType::Long | DataType::Float | DataType::Double))
    };
    VectorFeature::boxed(setup, name, "an array of numbers", takes, distance)
}

/// A feature of the values of a field and a vector in the request.
struct VectorFeature {
    source: SourceValues,
    /// Rank property of the request that contains the vector.
    property: String,
    /// The vector in the rank profile.
    fallback: Option<String>,
    compute: fn(&SparseVector, &ColumnValue<'_>) -> f64,
}

impl VectorFeature {
    fn boxed(
        setup: &FeatureSetup<'_>,
        name: &FeatureName,
        needed: &str,
        takes: impl Fn(&DataType) -> bool,
        compute: fn(&SparseVector, &ColumnValue<'_>) -> f64,
    ) -> Result<Box<dyn RankFeature>, Error> {
        let source = SourceValues::named(setup, name, 0)?;
        if !takes(&source.data_type) {
            let (text, data_type) = (source.text(), &source.data_type);
            return Err(Error::setup(format!("{name} needs {needed}, but {text} is {data_type}")));
        }
        let Some(vector) = name.parameters.get(1) else {
            return Err(Error::setup(format!("{name} needs the name of the query's vector as parameter 2")));
        };
        let fallback = setup.properties.text(&name.name, vector, "vector").map(str::to_owned);
        let property = format!("{}.{vector}", name.name);
        Ok(Box::new(VectorFeature { source, property, fallback, compute }))
    }
}

impl RankFeature for VectorFeature {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let text = request.plan.query.ranking.properties.get(&self.property).or(self.fallback.as_ref());
        let vector = SparseVector::new(text.map(|text| parse_vector(text)).unwrap_or_default());
        let column = request.column(ColumnKey::value(&self.source.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let out = values.numbers(chunk.len(), 0.0);
            let Some(column) = column else { return };
            for (at, document) in chunk.documents() {
                if let Some(value) = self.source.read_value(column, document) {
                    out[at] = (self.compute)(&vector, &value);
                }
            }
        }))
    }
}

/// A vector of the request: cells by label, which is the index for elements of an array.
struct SparseVector {
    cells: HashMap<String, f64>,
    /// Cells whose labels are whole numbers, by the number.
    numbered: HashMap<i64, f64>,
}

impl SparseVector {
    fn new(cells: HashMap<String, f64>) -> Self {
        let number = |label: &str| label.parse::<i64>().ok().filter(|number| number.to_string() == label);
        let numbered = cells.iter().filter_map(|(label, cell)| Some((number(label)?, *cell))).collect();
        SparseVector { cells, numbered }
    }

    /// Cell at an index.
    fn at(&self, index: usize) -> Option<f64> {
        self.numbered.get(&i64::try_from(index).ok()?).copied()
    }

    /// Cell with a value as its label, without a copy of the value.
    fn labelled(&self, value: ValueRef<'_>) -> Option<f64> {
        match value {
            ValueRef::Byte(number) => self.numbered.get(&number.into()).copied(),
            ValueRef::Int(number) => self.numbered.get(&number.into()).copied(),
            ValueRef::Long(number) => self.numbered.get(&number).copied(),
            other => self.cells.get(&*label_in_place(other)?).copied(),
        }
    }
}

/// Sum of the products of the cells that both have.
fn dot(vector: &SparseVector, value: &ColumnValue<'_>) -> f64 {
    match value {
        ColumnValue::InPlace(ValueRef::WeightedSet(set)) => set
            .weighted()
            .filter_map(|(value, weight)| Some(vector.labelled(value)? * f64::from(weight)))
            .fold(0.0, Add::add),
        ColumnValue::Decoded(DocumentValue::WeightedSet(elements)) => elements
            .iter()
            .filter_map(|(value, weight)| Some(vector.cells.get(&label(value)?)? * f64::from(*weight)))
            .fold(0.0, Add::add),
        array => numbers(array)
            .enumerate()
            .filter_map(|(index, number)| Some(vector.at(index)? * number?))
            .fold(0.0, Add::add),
    }
}

/// Euclidean distance over the elements that both have.
fn distance(vector: &SparseVector, value: &ColumnValue<'_>) -> f64 {
    let differences =
        numbers(value).enumerate().filter_map(|(index, number)| Some(vector.at(index)? - number?));
    differences.map(|difference| difference.powi(2)).sum::<f64>().sqrt()
}

/// The elements of an array as numbers; none of another value.
fn numbers<'v>(value: &'v ColumnValue<'_>) -> impl Iterator<Item = Option<f64>> + 'v {
    let in_place = match value {
        ColumnValue::InPlace(ValueRef::Array(elements)) => Some(elements.values()),
        _ => None,
    };
    let decoded: &[DocumentValue] = match value {
        ColumnValue::Decoded(DocumentValue::Array(elements)) => elements,
        _ => &[],
    };
    in_place.into_iter().flatten().map(number_in_place).chain(decoded.iter().map(number))
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
