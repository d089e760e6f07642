//! Tensors and dot products made from arrays and weighted sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use millrace_column::{Column, ColumnKey, ColumnValue, encoded_values};
use millrace_document::{DataType, EncodedLeafValues};
use millrace_expression::{FeatureName, StoredLabel};
use millrace_matching::{RankingDemands, SingleValue, SingleValueReader, SingleValueRef};
use millrace_tensor::{CellType, ShortText, ShortTextMap, TensorType};

use super::attribute::{label, label_number, number, write_label};
use super::bm25_tensors::{mapped, of_cells};
use super::stored_tensors::TensorsBuilder;
use super::{
    ClosureExecutor, DocumentTensors, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup,
    FeatureValues, RankFeature,
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
    pub fn of_parameter(setup: &FeatureSetup<'_>, name: &FeatureName, at: usize) -> Result<Self, Error> {
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
        SourceValues::of_parameter(setup, &inner, 0)
    }

    /// Text of the schema that names the values.
    pub fn text(&self) -> String {
        let steps = self.path.iter().map(|step| format!(".{step}"));
        std::iter::once(self.field.clone()).chain(steps).collect()
    }

    /// The value of the field in a document by its index in the chunk.
    pub fn read<'c>(
        &self,
        chunk: &FeatureChunk<'c>,
        column: &'c Column,
        document: usize,
    ) -> Option<ColumnValue<'c>> {
        chunk.value(column, &self.field_type, document)
    }

    /// A reader of the single values.
    pub fn reader(&self) -> SingleValueReader {
        SingleValueReader::new(&self.field_type, &self.path)
    }
}

/// `tensorFromLabels(attribute(field),dimension)`
pub(crate) fn from_labels(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    mapped_tensor(setup, name, false)
}

/// `tensorFromWeightedSet(attribute(field),dimension)`
pub(crate) fn from_weighted_set(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    mapped_tensor(setup, name, true)
}

fn mapped_tensor(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
    weighted: bool,
) -> Result<Box<dyn RankFeature>, Error> {
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
    Ok(Box::new(TensorFromValues { source, tensor_type, weighted }))
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

    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
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

struct TensorFromValues {
    source: SourceValues,
    tensor_type: TensorType,
    /// True if cells are weights; otherwise each cell is 1.
    weighted: bool,
}

/// Cells of a document.
#[derive(Default)]
struct LabelledCells(Vec<LabelledCell>);

/// A cell of [`LabelledCells`].
struct LabelledCell {
    /// The first bytes of the label, in the order of labels; zeros after its end.
    start: u64,
    label: StoredLabel,
    cell: f64,
}

/// The bytes of a label.
fn bytes_of(label: StoredLabel, bytes: &[u8]) -> &[u8] {
    &bytes[label.at as usize..][..label.length as usize]
}

impl LabelledCells {
    /// Adds a cell with a label, which lies in `bytes`.
    fn push(&mut self, label: StoredLabel, bytes: &[u8], cell: f64) {
        let length = label.length as usize;
        let start = match bytes[label.at as usize..].first_chunk() {
            Some(first) if length < 8 => u64::from_be_bytes(*first) & !(u64::MAX >> (8 * length)),
            Some(first) => u64::from_be_bytes(*first),
            None => {
                let (label, mut first) = (bytes_of(label, bytes), [0; 8]);
                first[..label.len()].copy_from_slice(label);
                u64::from_be_bytes(first)
            }
        };
        self.0.push(LabelledCell { start, label, cell });
    }

    /// Sorts the cells from the greatest label to the lowest; of equal labels the last one stays.
    fn sort(&mut self, bytes: &[u8]) {
        // Few labels begin with the same eight bytes.
        let order = |a: &LabelledCell, b: &LabelledCell| {
            a.start.cmp(&b.start).then_with(|| bytes_of(a.label, bytes).cmp(bytes_of(b.label, bytes)))
        };
        self.0.sort_by(order);
        // The last of equal ones is the first from the end.
        self.0.reverse();
        self.0.dedup_by(|next, kept| {
            next.start == kept.start && bytes_of(next.label, bytes) == bytes_of(kept.label, bytes)
        });
    }

    /// Moves the cells to a tensor with these labels, by label; of equal labels the last one.
    fn move_to(&mut self, tensor: &mut TensorsBuilder) {
        self.sort(tensor.label_bytes());
        for LabelledCell { label, cell, .. } in self.0.drain(..).rev() {
            tensor.label_at(label);
            tensor.cell(cell);
        }
    }
}

impl RankFeature for TensorFromValues {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.source.field));
        let (reader, mut cells) = (self.source.reader(), LabelledCells::default());
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let in_place = column.and_then(|column| self.in_place(chunk, &reader, column, &mut cells));
            let tensors = in_place.unwrap_or_else(|| self.copied(chunk, &reader, column, &mut cells));
            *values = FeatureValues::Stored(tensors);
        }))
    }
}

impl TensorFromValues {
    fn cell(&self, weight: i32) -> f64 {
        if self.weighted { f64::from(weight) } else { 1.0 }
    }

    /// The tensors with labels that stay where they lie in the column; `None` if the values are not texts
    /// there.
    fn in_place<'c>(
        &self,
        chunk: &FeatureChunk<'c>,
        reader: &SingleValueReader,
        column: &'c Column,
        cells: &mut LabelledCells,
    ) -> Option<DocumentTensors> {
        let read = chunk.values(reader, column);
        let leaves = (*read).as_ref().filter(|leaves| leaves.irregular().is_empty())?;
        let EncodedLeafValues::Texts(texts) = leaves.values() else { return None };
        let encoded = encoded_values(column)?;
        let bytes = encoded.plain_data()?;
        let mut builder = TensorsBuilder::with_labels_of(encoded, self.tensor_type.cell());
        for row in 0..leaves.rows() {
            for at in leaves.of_row(row) {
                // Columns are below 4 GiB.
                let place = texts[at].as_ptr().addr() - bytes.as_ptr().addr();
                let label = StoredLabel { at: place as u32, length: texts[at].len() as u32 };
                cells.push(label, bytes, self.cell(leaves.weight(at)));
            }
            cells.move_to(&mut builder);
            builder.end_document();
        }
        Some(builder.finish())
    }

    /// The tensors with copies of the labels.
    fn copied<'c>(
        &self,
        chunk: &FeatureChunk<'c>,
        reader: &SingleValueReader,
        column: Option<&'c Column>,
        cells: &mut LabelledCells,
    ) -> DocumentTensors {
        let (mut builder, mut ended) = (TensorsBuilder::new(self.tensor_type.cell()), 0);
        if let Some(column) = column {
            chunk.each_single(reader, column, |SingleValue { row, value, weight, .. }| {
                while ended < row {
                    cells.move_to(&mut builder);
                    builder.end_document();
                    ended += 1;
                }
                let mut has_label = false;
                let label = builder.write_label(|bytes| {
                    has_label = value.is_some_and(|value| write_label(value, bytes));
                });
                if has_label {
                    cells.push(label, builder.label_bytes(), self.cell(weight));
                }
            });
        }
        for _ in ended..chunk.len() {
            cells.move_to(&mut builder);
            builder.end_document();
        }
        builder.finish()
    }
}

/// `dotProduct(field,vector)`
pub(crate) fn dot_product(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let takes = |data_type: &DataType| matches!(data_type, DataType::WeightedSet { .. } | DataType::Array(_));
    VectorFeature::boxed(setup, name, "an array or weighted set", takes, VectorOperation::DotProduct)
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
    VectorFeature::boxed(setup, name, "an array of numbers", takes, VectorOperation::Distance)
}

/// A feature of the values of a field and a vector in the request.
struct VectorFeature {
    source: SourceValues,
    /// Rank property of the request that contains the vector.
    property: String,
    /// The vector in the rank profile.
    fallback: Option<String>,
    operation: VectorOperation,
}

#[derive(Clone, Copy)]
enum VectorOperation {
    DotProduct,
    /// Euclidean distance over the elements that both have.
    Distance,
}

impl VectorFeature {
    fn boxed(
        setup: &FeatureSetup<'_>,
        name: &FeatureName,
        needed: &str,
        takes: impl Fn(&DataType) -> bool,
        operation: VectorOperation,
    ) -> Result<Box<dyn RankFeature>, Error> {
        let source = SourceValues::of_parameter(setup, name, 0)?;
        if !takes(&source.data_type) {
            let (text, data_type) = (source.text(), &source.data_type);
            return Err(Error::setup(format!("{name} needs {needed}, but {text} is {data_type}")));
        }
        let Some(vector) = name.parameters.get(1) else {
            return Err(Error::setup(format!("{name} needs the name of the query's vector as parameter 2")));
        };
        let fallback = setup.properties.text(&name.name, vector, "vector").map(str::to_owned);
        let property = format!("{}.{vector}", name.name);
        Ok(Box::new(VectorFeature { source, property, fallback, operation }))
    }
}

impl RankFeature for VectorFeature {
    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let text = request.plan.query.ranking.properties.get(&self.property).or(self.fallback.as_ref());
        let vector = SparseVector::new(text.map(|text| parse_vector(text)).unwrap_or_default());
        let column = request.column(ColumnKey::value(&self.source.field));
        let reader = self.source.reader();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            let out = values.numbers(chunk.len(), 0.0);
            let Some(column) = column else { return };
            let term = |a: f64, b: f64| match self.operation {
                VectorOperation::DotProduct => a * b,
                VectorOperation::Distance => (a - b).powi(2),
            };
            if matches!(self.source.data_type, DataType::WeightedSet { .. }) {
                let cell = |value: SingleValueRef<'_>| vector.labelled(value);
                chunk.each_found(&reader, column, cell, |it| {
                    out[it.row] += term(it.found, it.weight.into());
                });
            } else {
                chunk.each_found(&reader, column, number, |it| {
                    if let Some(cell) = vector.at(it.index) {
                        out[it.row] += term(cell, it.found);
                    }
                });
            }
            if let VectorOperation::Distance = self.operation {
                out.iter_mut().for_each(|out| *out = out.sqrt());
            }
        }))
    }
}

/// A vector of the request: cells by label, which is the index for elements of an array.
struct SparseVector {
    short: ShortTextMap<f64>,
    /// Cells whose labels are too long for `short`.
    long: HashMap<Box<[u8]>, f64>,
    /// Cells whose labels are whole numbers, by the number.
    numbered: HashMap<i64, f64>,
    /// Cells of the first indices.
    first: Vec<Option<f64>>,
}

/// Number of indices whose cells are found without hashing.
const FIRST_MAX: i64 = 1024;

impl SparseVector {
    fn new(cells: HashMap<String, f64>) -> Self {
        let numbered: HashMap<i64, f64> =
            cells.iter().filter_map(|(label, cell)| Some((label_number(label)?, *cell))).collect();
        let last = numbered.keys().copied().filter(|index| (0..FIRST_MAX).contains(index)).max();
        let first = (0..=last.unwrap_or(-1)).map(|index| numbered.get(&index).copied()).collect();
        let (mut short, mut long) = (Vec::new(), HashMap::new());
        for (label, cell) in cells {
            match ShortText::new(label.as_bytes()) {
                Some(label) => short.push((label, cell)),
                None => {
                    long.insert(label.into_bytes().into(), cell);
                }
            }
        }
        SparseVector { short: ShortTextMap::new(&short), long, numbered, first }
    }

    /// Cell at an index.
    fn at(&self, index: usize) -> Option<f64> {
        match self.first.get(index) {
            Some(cell) => *cell,
            None => self.numbered.get(&i64::try_from(index).ok()?).copied(),
        }
    }

    /// Cell with a value as its label, without a copy of the value.
    #[inline]
    fn labelled(&self, value: SingleValueRef<'_>) -> Option<f64> {
        match value {
            SingleValueRef::Integer(number) => self.numbered.get(&number).copied(),
            SingleValueRef::Text(text) => match ShortText::new(text) {
                Some(text) => self.short.get(text),
                None => self.of_long(text),
            },
            other => self.of_other(other),
        }
    }

    /// Kept out of the loops over values, few of which get here.
    #[inline(never)]
    fn of_long(&self, label: &[u8]) -> Option<f64> {
        self.long.get(label).copied()
    }

    #[inline(never)]
    fn of_other(&self, value: SingleValueRef<'_>) -> Option<f64> {
        let label = label(value)?;
        match ShortText::new(label.as_bytes()) {
            Some(label) => self.short.get(label),
            None => self.of_long(label.as_bytes()),
        }
    }
}

/// Parses `{a:1,b:2}`, `(a:1,b:2)` or `[1 2 3]`. Parts that are not numbers are skipped; of equal labels the
/// first counts, as in Vespa.
fn parse_vector(text: &str) -> HashMap<String, f64> {
    let inner = text.trim().trim_matches(['{', '}', '(', ')', '[', ']']);
    if text.trim_start().starts_with('[') {
        let numbers = inner.split([' ', ',']).filter(|part| !part.is_empty()).enumerate();
        return numbers.filter_map(|(index, part)| Some((index.to_string(), part.parse().ok()?))).collect();
    }
    let mut cells = HashMap::new();
    for (key, number) in inner.split(',').filter_map(|part| part.rsplit_once(':')) {
        if let Ok(number) = number.trim().parse() {
            cells.entry(key.trim().trim_matches(['"', '\'']).to_owned()).or_insert(number);
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_equal_labels_of_a_vector_the_first_counts() {
        let cell = |text: &str, label: &str| parse_vector(text).get(label).copied();
        assert_eq!(cell("(b:10,b:15)", "b"), Some(10.0));
        assert_eq!(cell("{b:x, b : 15}", "b"), Some(15.0));
        assert_eq!(cell("[4, 5]", "1"), Some(5.0));
    }

    proptest! {
        #[test]
        fn cells_are_sorted_by_label_and_of_equal_labels_the_last_stays(
            labels in prop::collection::vec("[ab\u{0}é]{0,10}", 0..12),
        ) {
            let (mut cells, mut expected) = (LabelledCells::default(), BTreeMap::new());
            let bytes = labels.concat().into_bytes();
            let mut at = 0;
            for (label, cell) in labels.iter().zip(0u8..) {
                let placed = StoredLabel { at, length: label.len() as u32 };
                at += label.len() as u32;
                cells.push(placed, &bytes, cell.into());
                expected.insert(label.as_bytes(), f64::from(cell));
            }
            cells.sort(&bytes);
            let found = cells.0.iter().rev().map(|cell| (bytes_of(cell.label, &bytes), cell.cell));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
