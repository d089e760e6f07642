use millrace_document::{DataType, Value, wire};
use millrace_tensor::{CellType, Cells, Tensor, TensorType};

use crate::{BytesBuilder, Cell, Column, FixedBuilder};

/// Layout of a data type's values in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// One number per document.
    Number(Cell),
    /// The cells of a dense tensor.
    Dense(TensorType),
    /// Text as UTF-8.
    Text,
    /// Uninterpreted bytes.
    Raw,
    /// The wire form, for all other values.
    Encoded,
}

/// Layout of a data type.
pub fn layout(data_type: &DataType) -> Layout {
    match data_type {
        DataType::Bool => Layout::Number(Cell::Bool),
        DataType::Byte => Layout::Number(Cell::I8),
        DataType::Int => Layout::Number(Cell::I32),
        DataType::Long => Layout::Number(Cell::I64),
        DataType::Float16 | DataType::Float => Layout::Number(Cell::F32),
        DataType::Double => Layout::Number(Cell::F64),
        DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_) => Layout::Text,
        DataType::Raw => Layout::Raw,
        DataType::Tensor(tensor_type) if tensor_type.is_dense() => Layout::Dense(tensor_type.clone()),
        DataType::Position
        | DataType::Tensor(_)
        | DataType::Array(_)
        | DataType::WeightedSet { .. }
        | DataType::Map(..)
        | DataType::Struct(_) => Layout::Encoded,
    }
}

const fn tensor_cell(cell: CellType) -> Cell {
    match cell {
        CellType::Double => Cell::F64,
        CellType::Float => Cell::F32,
        CellType::BFloat16 => Cell::BF16,
        CellType::Int8 => Cell::I8,
    }
}

/// Builder of the value column of one field, document by document.
pub struct ValueBuilder {
    layout: Layout,
    building: Building,
}

enum Building {
    Fixed(FixedBuilder),
    Bytes(BytesBuilder),
}

impl ValueBuilder {
    /// Creates a builder without documents.
    pub fn new(data_type: &DataType) -> Self {
        let layout = layout(data_type);
        let building = match &layout {
            Layout::Number(cell) => Building::Fixed(FixedBuilder::new(*cell, 1)),
            Layout::Dense(tensor_type) => {
                Building::Fixed(FixedBuilder::new(tensor_cell(tensor_type.cell()), tensor_type.dense_size()))
            }
            Layout::Text | Layout::Raw | Layout::Encoded => Building::Bytes(BytesBuilder::new()),
        };
        ValueBuilder { layout, building }
    }

    /// Appends a document's value. A value of another type counts as absent: it was written under another
    /// schema.
    pub fn push(&mut self, value: Option<&Value>) {
        match &mut self.building {
            Building::Fixed(builder) => match (&self.layout, value) {
                (Layout::Number(Cell::Bool), Some(Value::Bool(value))) => builder.push(&[u8::from(*value)]),
                (Layout::Number(Cell::I8), Some(Value::Byte(value))) => builder.push(&value.to_le_bytes()),
                (Layout::Number(Cell::I32), Some(Value::Int(value))) => builder.push(&value.to_le_bytes()),
                (Layout::Number(Cell::I64), Some(Value::Long(value))) => builder.push(&value.to_le_bytes()),
                (Layout::Number(Cell::F32), Some(Value::Float(value))) => builder.push(&value.to_le_bytes()),
                (Layout::Number(Cell::F64), Some(Value::Double(value))) => builder.push(&value.to_le_bytes()),
                (Layout::Dense(tensor_type), Some(Value::Tensor(tensor)))
                    if tensor.tensor_type() == tensor_type =>
                {
                    builder.push(tensor.cells().as_bytes());
                }
                _ => builder.push_absent(),
            },
            Building::Bytes(builder) => match (&self.layout, value) {
                (Layout::Text, Some(Value::String(text))) => builder.push(Some(text.as_bytes())),
                (Layout::Raw, Some(Value::Raw(bytes))) => builder.push(Some(bytes)),
                (Layout::Encoded, Some(value)) => builder.push(Some(&wire::encode_value(value))),
                _ => builder.push(None),
            },
        }
    }

    /// Returns the column.
    pub fn finish(self) -> Column {
        match self.building {
            Building::Fixed(builder) => Column::Fixed(builder.finish()),
            Building::Bytes(builder) => Column::Bytes(builder.finish()),
        }
    }
}

/// The value of the document at `index` in a field's value column; `None` if it has none, or if the column
/// was written for another type.
pub fn value(column: &Column, data_type: &DataType, index: usize) -> Option<Value> {
    match (layout(data_type), column) {
        (Layout::Number(cell), Column::Fixed(column)) if column.cell() == cell && column.width() == 1 => {
            if !column.presence().get(index) {
                return None;
            }
            Some(match cell {
                Cell::Bool => Value::Bool(column.cells::<u8>()[index] != 0),
                Cell::I8 => Value::Byte(column.cells::<i8>()[index]),
                Cell::I32 => Value::Int(column.cells::<i32>()[index]),
                Cell::F32 => Value::Float(column.cells::<f32>()[index]),
                Cell::F64 => Value::Double(column.cells::<f64>()[index]),
                Cell::I64 | Cell::U64 | Cell::BF16 => Value::Long(column.integer(index)?),
            })
        }
        (Layout::Dense(tensor_type), Column::Fixed(column))
            if column.cell() == tensor_cell(tensor_type.cell())
                && column.width() == tensor_type.dense_size() =>
        {
            if !column.presence().get(index) {
                return None;
            }
            let size = column.width() * column.cell().size();
            let cells =
                Cells::from_bytes(tensor_type.cell(), &column.raw()[index * size..(index + 1) * size]);
            Tensor::new(tensor_type, Vec::new(), cells).ok().map(Value::Tensor)
        }
        (Layout::Text, Column::Bytes(column)) => {
            column.get(index).map(|bytes| Value::String(String::from_utf8_lossy(bytes).into_owned()))
        }
        (Layout::Raw, Column::Bytes(column)) => column.get(index).map(|bytes| Value::Raw(bytes.to_vec())),
        (Layout::Encoded, Column::Bytes(column)) => {
            column.get(index).and_then(|bytes| wire::decode_value(bytes).ok())
        }
        _ => None,
    }
}
