//! Features of document values: `attribute`.

use std::io::Write as _;

use millrace_column::{CellKind, Column, ColumnKey, FixedColumn, value};
use millrace_document::{DataType, DocumentValue, EncodedTensorType, zcurve};
use millrace_expression::{FeatureName, string_hash};
use millrace_matching::{RankingDemands, SingleValueReader, SingleValueRef};
use millrace_tensor::{Tensor, TensorType};

use super::path::FieldPart;
use super::{
    ClosureExecutor, DocumentTensors, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup,
    FeatureValues, PerRequest, RankFeature,
};
use crate::Error;

/// Sets up `attribute(field)` with its optional arguments and outputs.
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let part = setup.part(name, 0)?;
    let (field, data_type) = (part.field, part.data_type);
    if !part.is_attribute && !matches!(field.data_type, DataType::Tensor(_)) {
        return Err(Error::setup(format!(
            "{name}: field {} needs 'indexing: attribute' to be used in ranking",
            name.parameters[0]
        )));
    }
    let field_name = field.name.to_string();
    match (name.parameters.get(1), name.output.as_deref(), data_type) {
        (None, None, DataType::Tensor(tensor_type)) if part.path.is_empty() => {
            let tensor_type = tensor_type.clone();
            return Ok(Box::new(TensorAttribute { field: field_name, tensor_type }));
        }
        // A field of one value counts as one, even without a value.
        (None, Some(output @ ("count" | "weight" | "contains")), _) if !part.many => {
            let number = f64::from(u8::from(output == "count"));
            return Ok(Box::new(PerRequest(move |_: &FeatureRequest<'_>| number)));
        }
        _ => {}
    }
    let of = AttributeOutput::of(name, &part)?;
    Ok(Box::new(AttributeFeature {
        field: field_name,
        values: SingleValueReader::new(&field.data_type, &part.path),
        of,
    }))
}

struct AttributeFeature {
    field: String,
    values: SingleValueReader,
    of: AttributeOutput,
}

enum AttributeOutput {
    Number,
    Count,
    Element(usize),
    Weight(ElementLabel),
    Contains(ElementLabel),
}

impl AttributeOutput {
    /// The output that a feature asks for of the values of a field.
    fn of(name: &FeatureName, part: &FieldPart<'_>) -> Result<Self, Error> {
        let (field, of_weighted_set) =
            (part.field, matches!(part.field.data_type, DataType::WeightedSet { .. }));
        let reason = match (name.parameters.get(1), name.output.as_deref()) {
            (None, None) => match part.data_type {
                DataType::Position => format!(
                    "{name}: a position is not a number; use attribute({0}_zcurve), or distance({0})",
                    field.name
                ),
                DataType::Struct(_) | DataType::Tensor(_) => {
                    format!("{name}: {} is not one value; use one of its parts", part.data_type)
                }
                _ if part.many => format!(
                    "{name}: {} is not one value; use attribute({},n), .count, or tensorFromLabels",
                    field.data_type, field.name
                ),
                _ => return Ok(AttributeOutput::Number),
            },
            (None, Some("count")) if part.many => return Ok(AttributeOutput::Count),
            (Some(index), None) => match index.parse() {
                Ok(index) if part.many && !of_weighted_set => return Ok(AttributeOutput::Element(index)),
                _ => {
                    format!("{name} needs an array field and a number from 0, but it is {}", field.data_type)
                }
            },
            (Some(key), Some("weight")) if of_weighted_set => {
                return Ok(AttributeOutput::Weight(ElementLabel::new(key)));
            }
            (Some(key), Some("contains")) if of_weighted_set => {
                return Ok(AttributeOutput::Contains(ElementLabel::new(key)));
            }
            (Some(_), Some("weight" | "contains")) => {
                format!("{name} needs a weighted set, but {} is {}", field.name, field.data_type)
            }
            _ => format!("{name}: attribute has the outputs count, weight and contains"),
        };
        Err(Error::setup(reason))
    }
}

impl RankFeature for AttributeFeature {
    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            if let (AttributeOutput::Number, Some(Column::Fixed(fixed))) = (&self.of, column) {
                return numbers(fixed, chunk, values);
            }
            let missing = if matches!(self.of, AttributeOutput::Number) { f64::NAN } else { 0.0 };
            let out = values.numbers(chunk.len(), missing);
            let Some(column) = column else { return };
            match &self.of {
                AttributeOutput::Number => chunk.each_at(&self.values, column, 0, |it| {
                    out[it.row] = it.value.and_then(number).unwrap_or(f64::NAN);
                }),
                AttributeOutput::Count => chunk.count_singles(&self.values, column, out),
                AttributeOutput::Element(at) => chunk.each_at(&self.values, column, *at, |it| {
                    out[it.row] = it.value.and_then(number).unwrap_or(0.0);
                }),
                AttributeOutput::Weight(key) => {
                    chunk.each_found(
                        &self.values,
                        column,
                        |value| key.find(value),
                        |it| {
                            out[it.row] = it.weight.into();
                        },
                    );
                }
                AttributeOutput::Contains(key) => {
                    chunk.each_found(&self.values, column, |value| key.find(value), |it| out[it.row] = 1.0);
                }
            }
        }))
    }
}

/// The label of an element of a weighted set.
struct ElementLabel {
    text: String,
    /// Its number, for elements that are whole numbers.
    number: Option<i64>,
}

impl ElementLabel {
    fn new(text: &str) -> Self {
        ElementLabel { number: label_number(text), text: text.to_owned() }
    }

    /// Something, if a value has the label.
    #[inline]
    fn find(&self, value: SingleValueRef<'_>) -> Option<()> {
        let is_it = match value {
            SingleValueRef::Integer(number) => self.number == Some(number),
            SingleValueRef::Text(text) => text == self.text.as_bytes(),
            other => label(other).is_some_and(|label| label == self.text),
        };
        is_it.then_some(())
    }
}

/// The whole number whose label a text is.
pub(crate) fn label_number(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// Converts a value to a number; strings to their hash.
pub(crate) fn number(value: SingleValueRef<'_>) -> Option<f64> {
    Some(match value {
        SingleValueRef::Bool(value) => f64::from(u8::from(value)),
        SingleValueRef::Integer(value) => value as f64,
        SingleValueRef::Float(value) => value,
        SingleValueRef::Text(text) => string_hash(text),
        SingleValueRef::Position { latitude, longitude } => zcurve(latitude, longitude) as f64,
        SingleValueRef::Raw(_) => return None,
    })
}

/// Converts a string or whole number to a cell label.
pub(crate) fn label(value: SingleValueRef<'_>) -> Option<String> {
    let mut text = Vec::new();
    write_label(value, &mut text).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Appends the bytes of the cell label of a value; false if it has none.
pub(crate) fn write_label(value: SingleValueRef<'_>, text: &mut Vec<u8>) -> bool {
    let written = match value {
        SingleValueRef::Bool(value) => write!(text, "{value}"),
        SingleValueRef::Integer(value) => write!(text, "{value}"),
        SingleValueRef::Text(value) => text.write_all(value),
        SingleValueRef::Position { latitude, longitude } => write!(text, "{}", zcurve(latitude, longitude)),
        SingleValueRef::Float(_) | SingleValueRef::Raw(_) => return false,
    };
    written.is_ok()
}

/// Reads the numbers of a column; NaN for a missing number, false for a missing truth value.
pub(crate) fn numbers(column: &FixedColumn, chunk: &FeatureChunk<'_>, values: &mut FeatureValues) {
    let out = values.numbers(chunk.len(), f64::NAN);
    let matched = &chunk.matches.documents[..];
    // Documents ascend, so an equal count means that all documents of the column are selected.
    let places = (matched.len() < column.len() || column.width() > 1).then_some((matched, column.width()));
    match column.cell() {
        CellKind::Bool => gather(places, column.cells::<u8>(), out, |cell| f64::from(*cell)),
        CellKind::I8 => gather(places, column.cells::<i8>(), out, |cell| f64::from(*cell)),
        CellKind::I32 => gather(places, column.cells::<i32>(), out, |cell| f64::from(*cell)),
        CellKind::I64 => gather(places, column.cells::<i64>(), out, |cell| *cell as f64),
        CellKind::U64 => gather(places, column.cells::<u64>(), out, |cell| *cell as f64),
        CellKind::BF16 => gather(places, column.cells::<half::bf16>(), out, |cell| cell.to_f64()),
        CellKind::F32 => gather(places, column.cells::<f32>(), out, |cell| f64::from(*cell)),
        CellKind::F64 => gather(places, column.cells::<f64>(), out, |cell| *cell),
    }
    let presence = column.presence();
    let all_present =
        presence.words().iter().map(|word| word.count_ones() as usize).sum::<usize>() == column.len();
    if column.cell() != CellKind::Bool && !all_present {
        let out = match values {
            FeatureValues::Numbers(out) => out,
            _ => return,
        };
        for (at, document) in chunk.documents() {
            if !presence.get(document) {
                out[at] = f64::NAN;
            }
        }
    }
}

/// Copies the numbers at the given indices, each of the given width in cells; all cells if no indices are
/// given.
fn gather<T>(places: Option<(&[u16], usize)>, cells: &[T], out: &mut [f64], widen: impl Fn(&T) -> f64) {
    match places {
        None => out.iter_mut().zip(cells).for_each(|(out, cell)| *out = widen(cell)),
        Some((documents, width)) => {
            let at = |document: &u16| usize::from(*document) * width;
            out.iter_mut().zip(documents).for_each(|(out, document)| *out = widen(&cells[at(document)]));
        }
    }
}

/// A tensor field. A document without a value has an empty tensor; zeros if the type is dense.
struct TensorAttribute {
    field: String,
    tensor_type: TensorType,
}

impl RankFeature for TensorAttribute {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let column = request.column(ColumnKey::value(&self.field));
        let data_type = DataType::Tensor(self.tensor_type.clone());
        let encoded = EncodedTensorType::new(&self.tensor_type);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let column = chunk.column(column);
            if let Some(Column::Bytes(bytes)) = column
                && !self.tensor_type.is_dense()
                && chunk.paths.is_fast()
            {
                let tensors = DocumentTensors::of_column(bytes, &encoded, &chunk.matches.documents);
                *values = FeatureValues::Stored(tensors);
                return;
            }
            if let Some(Column::Fixed(fixed)) = column
                && self.tensor_type.is_dense()
                && fixed.width() == self.tensor_type.dense_size()
            {
                *values = FeatureValues::Rows(fixed.clone());
                return;
            }
            let tensors = chunk.documents().map(|(_, document)| {
                match column.and_then(|column| value(column, &data_type, document)) {
                    Some(DocumentValue::Tensor(tensor)) => tensor,
                    _ => empty(&self.tensor_type),
                }
            });
            *values = FeatureValues::Tensors(tensors.collect());
        }))
    }
}

/// A tensor without cells; all zeros if no dimension is mapped.
pub(crate) fn empty(tensor_type: &TensorType) -> Tensor {
    millrace_tensor::TensorBuilder::new(tensor_type).finish()
}
