//! Tensors with several mapped dimensions, made from arrays.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};
use millrace_column::{ColumnKey, ColumnValue};
use millrace_document::DataType;
use millrace_expression::{FeatureName, StoredLabel};
use millrace_matching::{NestedValue, RankingDemands, SingleValueRef, ValueElement};
use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use super::attribute::{number, write_label};
use super::multivalue::SourceValues;
use super::stored_tensors::TensorsBuilder;
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

/// Converts a member of a struct.
fn of_member<V: NestedValue, T>(
    element: V,
    name: &str,
    mut convert: impl FnMut(SingleValueRef<'_>) -> Option<T>,
) -> Option<T> {
    let mut converted = None;
    element.each_member(name, &mut |member| {
        converted = member.single().and_then(SingleValueRef::new).and_then(&mut convert);
    });
    converted
}

/// Writes the label of a value, if it has one.
fn written_label(value: SingleValueRef<'_>, tensors: &mut TensorsBuilder) -> Option<StoredLabel> {
    let mut has_label = false;
    let label = tensors.write_label(|bytes| has_label = write_label(value, bytes));
    has_label.then_some(label)
}

/// Cells of a document, in the order in which their labels were first named; of two cells with equal labels
/// the later holds.
#[derive(Default)]
struct DistinctCells {
    /// Labels of each cell in turn.
    labels: Vec<StoredLabel>,
    cells: Vec<f64>,
    /// Numbers of the cells by their labels.
    table: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl DistinctCells {
    /// Adds a cell with these labels, which lie in `bytes`.
    fn push(&mut self, labels: &[StoredLabel], bytes: &[u8], cell: f64) {
        let DistinctCells { labels: known, cells, table, hasher } = self;
        let text = |label: &StoredLabel| &bytes[label.at as usize..][..label.length as usize];
        let hash = |labels: &[StoredLabel]| {
            let mut state = hasher.build_hasher();
            labels.iter().for_each(|label| text(label).hash(&mut state));
            state.finish()
        };
        let of_cell = |at: usize| &known[at * labels.len()..(at + 1) * labels.len()];
        let is_equal = |at: &usize| of_cell(*at).iter().map(text).eq(labels.iter().map(text));
        let own = hash(labels);
        if let Some(at) = table.find(own, is_equal) {
            cells[*at] = cell;
            return;
        }
        table.insert_unique(own, cells.len(), |at| hash(of_cell(*at)));
        known.extend_from_slice(labels);
        cells.push(cell);
    }

    /// Moves the cells to the tensor of a document.
    fn move_to(&mut self, tensors: &mut TensorsBuilder) {
        self.labels.drain(..).for_each(|label| tensors.label_at(label));
        self.cells.drain(..).for_each(|cell| tensors.cell(cell));
        self.table.clear();
        tensors.end_document();
    }
}

impl FromArray {
    /// Adds the cells of a document.
    fn add<V: NestedValue>(&self, value: V, cells: &mut DistinctCells, tensors: &mut TensorsBuilder) {
        let (mut at, mut labels) = (0, Vec::new());
        ValueElement::Value(value, 1).at(&self.source.path, &mut |element, _| {
            if let Some(cell) = self.cell(at, element, &mut labels, tensors) {
                cells.push(&labels, tensors.label_bytes(), cell);
            }
            at += 1;
        });
    }

    /// Cell of one element, and its labels in the order of the type.
    fn cell<V: NestedValue>(
        &self,
        at: usize,
        element: V,
        labels: &mut Vec<StoredLabel>,
        tensors: &mut TensorsBuilder,
    ) -> Option<f64> {
        labels.clear();
        match &self.made {
            TensorSource::Structs { keys, member } => {
                for key in self.order.iter().map(|order| &keys[*order]) {
                    labels.push(of_member(element, key, |value| written_label(value, tensors))?);
                }
                of_member(element, member, number)
            }
            TensorSource::LabelsWithOffset => {
                let value = SingleValueRef::new(element.single()?)?;
                let of_element = [
                    written_label(value, tensors)?,
                    written_label(SingleValueRef::Integer(at as i64), tensors)?,
                ];
                labels.extend(self.order.iter().map(|order| of_element[*order]));
                Some(1.0)
            }
        }
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
        let mut cells = DistinctCells::default();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let mut tensors = TensorsBuilder::new(self.tensor_type.cell());
            for (_, document) in chunk.documents() {
                match column.and_then(|column| self.source.read(chunk, column, document)) {
                    Some(ColumnValue::InPlace(value)) => self.add(value, &mut cells, &mut tensors),
                    Some(ColumnValue::Decoded(value)) => self.add(&value, &mut cells, &mut tensors),
                    None => {}
                }
                cells.move_to(&mut tensors);
            }
            *values = FeatureValues::Stored(tensors.finish());
        }))
    }
}
