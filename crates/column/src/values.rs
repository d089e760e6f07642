use std::ops::Range;

use millrace_document::{
    DataType, DocumentValue, EncodedTensorType, ValueRef, ValueVisibility, is_of_type, wire,
};
use millrace_tensor::{Tensor, TensorCells};

use crate::layout::{is_recorded, tensor_cell};
use crate::stored::encoded_collection;
use crate::{BytesBuilder, BytesColumn, CellKind, Column, FixedBuilder, FixedColumn, ValueLayout, layout};

/// Builder of the value column of one field, document by document.
pub struct ValueBuilder {
    /// `None`: it is not known, as in the columns that are joined.
    layout: Option<ValueLayout>,
    /// The wire form of dense tensors of the layout.
    dense: Option<EncodedTensorType>,
    building: ColumnBuilding,
}

enum ColumnBuilding {
    Fixed(FixedBuilder),
    Bytes(BytesBuilder),
}

impl ValueBuilder {
    /// Creates a builder without documents.
    pub fn new(data_type: &DataType) -> Self {
        Self::of(layout(data_type))
    }

    /// Creates a builder without documents, for values of this layout.
    pub fn of(layout: ValueLayout) -> Self {
        let record = layout.record();
        let building = match &layout {
            ValueLayout::Number(cell) => ColumnBuilding::Fixed(FixedBuilder::recorded(*cell, 1, record)),
            ValueLayout::Dense(tensor_type) => {
                let cell = tensor_cell(tensor_type.cell());
                ColumnBuilding::Fixed(FixedBuilder::recorded(cell, tensor_type.dense_size(), record))
            }
            ValueLayout::Text | ValueLayout::Raw | ValueLayout::Encoded => {
                ColumnBuilding::Bytes(BytesBuilder::recorded(record))
            }
        };
        let dense = match &layout {
            ValueLayout::Dense(tensor_type) => Some(EncodedTensorType::new(tensor_type)),
            _ => None,
        };
        ValueBuilder { layout: Some(layout), dense, building }
    }

    /// Creates a builder without documents, for values of columns like this one, which does not record their
    /// layout. `None`: it has no values.
    pub(crate) fn unrecorded(column: &Column) -> Option<Self> {
        let building = match column {
            Column::Fixed(column) => ColumnBuilding::Fixed(FixedBuilder::new(column.cell(), column.width())),
            Column::Bytes(_) => ColumnBuilding::Bytes(BytesBuilder::new()),
            Column::Tokens(_) => return None,
        };
        Some(ValueBuilder { layout: None, dense: None, building })
    }

    /// The next document's value. A value that is not of the column's layout counts as absent: it was written
    /// under another schema. Ask [`ValueBuilder::holds`] to keep it elsewhere.
    pub fn push(&mut self, value: Option<&DocumentValue>) {
        match &mut self.building {
            ColumnBuilding::Fixed(builder) => match (&self.layout, value) {
                (Some(ValueLayout::Number(CellKind::Bool)), Some(DocumentValue::Bool(value))) => {
                    builder.push(&[u8::from(*value)])
                }
                (Some(ValueLayout::Number(CellKind::I8)), Some(DocumentValue::Byte(value))) => {
                    builder.push(&value.to_le_bytes())
                }
                (Some(ValueLayout::Number(CellKind::I32)), Some(DocumentValue::Int(value))) => {
                    builder.push(&value.to_le_bytes())
                }
                (Some(ValueLayout::Number(CellKind::I64)), Some(DocumentValue::Long(value))) => {
                    builder.push(&value.to_le_bytes())
                }
                (Some(ValueLayout::Number(CellKind::F32)), Some(DocumentValue::Float(value))) => {
                    builder.push(&value.to_le_bytes());
                }
                (Some(ValueLayout::Number(CellKind::F64)), Some(DocumentValue::Double(value))) => {
                    builder.push(&value.to_le_bytes());
                }
                (Some(ValueLayout::Dense(tensor_type)), Some(DocumentValue::Tensor(tensor)))
                    if is_of_type(tensor, tensor_type) =>
                {
                    builder.push(tensor.cells().as_bytes());
                }
                _ => builder.push_absent(),
            },
            ColumnBuilding::Bytes(builder) => match (&self.layout, value) {
                (Some(ValueLayout::Text), Some(DocumentValue::String(text))) => {
                    builder.push(Some(text.as_bytes()))
                }
                (Some(ValueLayout::Raw), Some(DocumentValue::Raw(bytes))) => builder.push(Some(bytes)),
                (Some(ValueLayout::Encoded), Some(value)) => builder.push(Some(&wire::encode_value(value))),
                _ => builder.push(None),
            },
        }
    }

    /// The next document's value in its wire form: [`ValueBuilder::push`] without decoding, where the column
    /// has the same bytes.
    ///
    /// # Errors
    /// The bytes are not a value.
    pub fn push_encoded(&mut self, value: Option<&[u8]>) -> Result<(), millrace_document::Error> {
        match value {
            None => self.push(None),
            Some(value) if self.copy_encoded(value) => {}
            Some(value) => self.push(Some(&wire::decode_value(value)?)),
        }
        Ok(())
    }

    /// Copies the bytes that the column has of a value; returns false if it is to be decoded.
    fn copy_encoded(&mut self, value: &[u8]) -> bool {
        match (&mut self.building, &self.layout) {
            (ColumnBuilding::Bytes(builder), Some(ValueLayout::Encoded)) => builder.push(Some(value)),
            (ColumnBuilding::Bytes(builder), Some(ValueLayout::Text)) => match ValueRef::parse(value) {
                Ok(ValueRef::String(text)) => builder.push(Some(text.as_bytes())),
                _ => return false,
            },
            (ColumnBuilding::Fixed(builder), Some(ValueLayout::Dense(_))) => {
                let tensor = self.dense.as_ref().and_then(|dense| dense.read(value));
                match tensor.and_then(|tensor| tensor.cells().ok()) {
                    Some(cells) if cells.len() == builder.document_bytes() => builder.push(cells),
                    // The type of an earlier release, without its dimensions, is another text.
                    _ => return false,
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns true if the column can hold a value.
    pub fn holds(&self, value: &DocumentValue) -> bool {
        let Some(layout) = &self.layout else { return false };
        match (layout, value) {
            (ValueLayout::Number(CellKind::Bool), DocumentValue::Bool(_))
            | (ValueLayout::Number(CellKind::I8), DocumentValue::Byte(_))
            | (ValueLayout::Number(CellKind::I32), DocumentValue::Int(_))
            | (ValueLayout::Number(CellKind::I64), DocumentValue::Long(_))
            | (ValueLayout::Number(CellKind::F32), DocumentValue::Float(_))
            | (ValueLayout::Number(CellKind::F64), DocumentValue::Double(_))
            | (ValueLayout::Text, DocumentValue::String(_))
            | (ValueLayout::Raw, DocumentValue::Raw(_))
            | (ValueLayout::Encoded, _) => true,
            (ValueLayout::Dense(tensor_type), DocumentValue::Tensor(tensor)) => {
                is_of_type(tensor, tensor_type)
            }
            _ => false,
        }
    }

    /// Returns true if the values of a column can be taken without checking each: its record gives the same
    /// layout for all, or cells and width do.
    pub(crate) fn takes_as_it_is(&self, column: &Column) -> bool {
        match (&self.layout, &self.building, column) {
            (Some(layout), _, Column::Fixed(_)) => layout.takes(column),
            (Some(layout), _, Column::Bytes(_)) => is_recorded(column) && layout.takes(column),
            (None, ColumnBuilding::Fixed(builder), Column::Fixed(fixed)) => {
                !is_recorded(column) && builder.is_like(fixed)
            }
            (None, ColumnBuilding::Bytes(_), Column::Bytes(_)) => !is_recorded(column),
            _ => false,
        }
    }

    /// The next documents' values are those of `column` in `range`.
    ///
    /// # Panics
    /// The column is of another layout ([`ValueBuilder::takes_as_it_is`] is false).
    pub(crate) fn extend(&mut self, column: &Column, range: Range<usize>) {
        assert!(self.takes_as_it_is(column), "only values of one layout are joined as they are");
        match (&mut self.building, column) {
            (ColumnBuilding::Fixed(builder), Column::Fixed(column)) => builder.extend(column, range),
            (ColumnBuilding::Bytes(builder), Column::Bytes(column)) => builder.extend(column, range),
            _ => unreachable!("columns of one layout are built in one way"),
        }
    }

    /// The column.
    pub fn finish(self) -> Column {
        match self.building {
            ColumnBuilding::Fixed(builder) => Column::Fixed(builder.finish()),
            ColumnBuilding::Bytes(builder) => Column::Bytes(builder.finish()),
        }
    }
}

/// The value of the document at `index` of a field's value column, as far as the data type shows it; `None`
/// where it has none, or one that was written under another type.
pub fn value(column: &Column, data_type: &DataType, index: usize) -> Option<DocumentValue> {
    let layout = layout(data_type);
    if !layout.takes(column) {
        return None;
    }
    match (&layout, column) {
        (ValueLayout::Number(_) | ValueLayout::Dense(_), Column::Fixed(column)) => {
            fixed_value(column, &layout, index)
        }
        (ValueLayout::Text, Column::Bytes(bytes)) => {
            let bytes = bytes.get(index)?;
            // Segments of earlier releases can have values of several types in one column.
            if !is_recorded(column) && encoded_collection(bytes).is_some() {
                return None;
            }
            // Nearly all texts are UTF-8, which is sooner seen than a text is put together of parts that are.
            let whole = std::str::from_utf8(bytes).map(str::to_owned);
            let text = whole.unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned());
            Some(DocumentValue::String(text))
        }
        (ValueLayout::Raw, Column::Bytes(column)) => {
            column.get(index).map(|bytes| DocumentValue::Raw(bytes.to_vec()))
        }
        (ValueLayout::Encoded, Column::Bytes(column)) => {
            let mut value = wire::decode_value(column.get(index)?).ok()?;
            (data_type.show_only(&mut value) != ValueVisibility::Hidden).then_some(value)
        }
        _ => None,
    }
}

/// A value of a column, without a copy where possible.
#[derive(Debug)]
pub enum ColumnValue<'c> {
    /// A text or an encoded value in the bytes of the column.
    InPlace(ValueRef<'c>),
    /// Any other value.
    Decoded(DocumentValue),
}

/// The same as [`value`], for loops over many documents: texts, collections and structs are read where they
/// lie, without allocation. Collections of tensors, values of which the data type hides a part, and values of
/// columns that do not record their layout are decoded. No hidden part is in a value.
pub fn read_value<'c>(column: &'c Column, data_type: &DataType, index: usize) -> Option<ColumnValue<'c>> {
    if let Column::Bytes(bytes) = column
        && is_recorded(column)
    {
        let in_place = if is_nested(data_type) && ValueLayout::Encoded.takes(column) {
            let value = ValueRef::parse(bytes.get(index)?).ok();
            value.filter(|value| data_type.shows_in_place(*value))
        } else if *data_type == DataType::String && ValueLayout::Text.takes(column) {
            std::str::from_utf8(bytes.get(index)?).ok().map(ValueRef::String)
        } else {
            None
        };
        if let Some(in_place) = in_place {
            return Some(ColumnValue::InPlace(in_place));
        }
    }
    value(column, data_type, index).map(ColumnValue::Decoded)
}

/// The column of values in their wire form, for [`millrace_document::EncodedLeafReader`]. `None` if the
/// values are stored in another form, or the column does not record its layout: it may have values of several
/// types.
pub fn encoded_values(column: &Column) -> Option<&BytesColumn> {
    match column {
        Column::Bytes(bytes) if is_recorded(column) && ValueLayout::Encoded.takes(column) => Some(bytes),
        _ => None,
    }
}

/// The column of texts, as UTF-8. `None` if the values are stored in another form, or the column does not
/// record its layout: it may have values of several types.
pub fn text_values(column: &Column) -> Option<&BytesColumn> {
    match column {
        Column::Bytes(bytes) if is_recorded(column) && ValueLayout::Text.takes(column) => Some(bytes),
        _ => None,
    }
}

/// True for the types whose values have parts that are read in place.
fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Array(_)
            | DataType::WeightedSet { .. }
            | DataType::Map(..)
            | DataType::Struct(_)
            | DataType::Position
    )
}

/// A number or a dense tensor of a column of this layout.
pub(crate) fn fixed_value(column: &FixedColumn, layout: &ValueLayout, index: usize) -> Option<DocumentValue> {
    if !column.presence().get(index) {
        return None;
    }
    if let ValueLayout::Dense(tensor_type) = layout {
        let size = column.width() * column.cell().size();
        let cells =
            TensorCells::from_bytes(tensor_type.cell(), &column.raw()[index * size..(index + 1) * size]);
        return Tensor::new(tensor_type.clone(), Vec::new(), cells).ok().map(DocumentValue::Tensor);
    }
    Some(match column.cell() {
        CellKind::Bool => DocumentValue::Bool(column.cells::<u8>()[index] != 0),
        CellKind::I8 => DocumentValue::Byte(column.cells::<i8>()[index]),
        CellKind::I32 => DocumentValue::Int(column.cells::<i32>()[index]),
        CellKind::F32 => DocumentValue::Float(column.cells::<f32>()[index]),
        CellKind::F64 => DocumentValue::Double(column.cells::<f64>()[index]),
        CellKind::I64 | CellKind::U64 | CellKind::BF16 => DocumentValue::Long(column.integer(index)?),
    })
}
