use std::ops::Range;

use millrace_document::{DataType, Value, Visibility, is_of_type, wire};
use millrace_tensor::{Cells, Tensor};

use crate::layout::{is_recorded, tensor_cell};
use crate::stored::encoded_collection;
use crate::{BytesBuilder, Cell, Column, Fixed, FixedBuilder, Layout, layout};

/// Builder of the value column of one field, document by document.
pub struct ValueBuilder {
    /// `None`: it is not known, as in the columns that are joined.
    layout: Option<Layout>,
    building: Building,
}

enum Building {
    Fixed(FixedBuilder),
    Bytes(BytesBuilder),
}

impl ValueBuilder {
    /// Creates a builder without documents.
    pub fn new(data_type: &DataType) -> Self {
        Self::of(layout(data_type))
    }

    /// Creates a builder without documents, for values of this layout.
    pub fn of(layout: Layout) -> Self {
        let record = layout.record();
        let building = match &layout {
            Layout::Number(cell) => Building::Fixed(FixedBuilder::recorded(*cell, 1, record)),
            Layout::Dense(tensor_type) => {
                let cell = tensor_cell(tensor_type.cell());
                Building::Fixed(FixedBuilder::recorded(cell, tensor_type.dense_size(), record))
            }
            Layout::Text | Layout::Raw | Layout::Encoded => Building::Bytes(BytesBuilder::recorded(record)),
        };
        ValueBuilder { layout: Some(layout), building }
    }

    /// Creates a builder without documents, for values of columns like this one, which does not record what they are.
    /// `None`: it has no values.
    pub(crate) fn unrecorded(column: &Column) -> Option<Self> {
        let building = match column {
            Column::Fixed(column) => Building::Fixed(FixedBuilder::new(column.cell(), column.width())),
            Column::Bytes(_) => Building::Bytes(BytesBuilder::new()),
            Column::Tokens(_) => return None,
        };
        Some(ValueBuilder { layout: None, building })
    }

    /// The next document's value. A value that is not of the column's layout counts as absent: it was written
    /// under another schema. Ask [`ValueBuilder::holds`] to keep it elsewhere.
    pub fn push(&mut self, value: Option<&Value>) {
        match &mut self.building {
            Building::Fixed(builder) => match (&self.layout, value) {
                (Some(Layout::Number(Cell::Bool)), Some(Value::Bool(value))) => {
                    builder.push(&[u8::from(*value)])
                }
                (Some(Layout::Number(Cell::I8)), Some(Value::Byte(value))) => {
                    builder.push(&value.to_le_bytes())
                }
                (Some(Layout::Number(Cell::I32)), Some(Value::Int(value))) => {
                    builder.push(&value.to_le_bytes())
                }
                (Some(Layout::Number(Cell::I64)), Some(Value::Long(value))) => {
                    builder.push(&value.to_le_bytes())
                }
                (Some(Layout::Number(Cell::F32)), Some(Value::Float(value))) => {
                    builder.push(&value.to_le_bytes());
                }
                (Some(Layout::Number(Cell::F64)), Some(Value::Double(value))) => {
                    builder.push(&value.to_le_bytes());
                }
                (Some(Layout::Dense(tensor_type)), Some(Value::Tensor(tensor)))
                    if is_of_type(tensor, tensor_type) =>
                {
                    builder.push(tensor.cells().as_bytes());
                }
                _ => builder.push_absent(),
            },
            Building::Bytes(builder) => match (&self.layout, value) {
                (Some(Layout::Text), Some(Value::String(text))) => builder.push(Some(text.as_bytes())),
                (Some(Layout::Raw), Some(Value::Raw(bytes))) => builder.push(Some(bytes)),
                (Some(Layout::Encoded), Some(value)) => builder.push(Some(&wire::encode_value(value))),
                _ => builder.push(None),
            },
        }
    }

    /// Returns whether the column can hold a value.
    pub fn holds(&self, value: &Value) -> bool {
        let Some(layout) = &self.layout else { return false };
        match (layout, value) {
            (Layout::Number(Cell::Bool), Value::Bool(_))
            | (Layout::Number(Cell::I8), Value::Byte(_))
            | (Layout::Number(Cell::I32), Value::Int(_))
            | (Layout::Number(Cell::I64), Value::Long(_))
            | (Layout::Number(Cell::F32), Value::Float(_))
            | (Layout::Number(Cell::F64), Value::Double(_))
            | (Layout::Text, Value::String(_))
            | (Layout::Raw, Value::Raw(_))
            | (Layout::Encoded, _) => true,
            (Layout::Dense(tensor_type), Value::Tensor(tensor)) => is_of_type(tensor, tensor_type),
            _ => false,
        }
    }

    /// Returns whether the values of a column can be taken over without a look at each: its record says that
    /// all are of the layout, or cells and width do.
    pub(crate) fn takes_as_it_is(&self, column: &Column) -> bool {
        match (&self.layout, &self.building, column) {
            (Some(layout), _, Column::Fixed(_)) => layout.takes(column),
            (Some(layout), _, Column::Bytes(_)) => is_recorded(column) && layout.takes(column),
            (None, Building::Fixed(builder), Column::Fixed(fixed)) => {
                !is_recorded(column) && builder.is_like(fixed)
            }
            (None, Building::Bytes(_), Column::Bytes(_)) => !is_recorded(column),
            _ => false,
        }
    }

    /// The next documents' values are those of `column` in `range`.
    ///
    /// # Panics
    /// They cannot be taken over ([`ValueBuilder::takes_as_it_is`]).
    pub(crate) fn extend(&mut self, column: &Column, range: Range<usize>) {
        assert!(self.takes_as_it_is(column), "only values of one layout are joined as they are");
        match (&mut self.building, column) {
            (Building::Fixed(builder), Column::Fixed(column)) => builder.extend(column, range),
            (Building::Bytes(builder), Column::Bytes(column)) => builder.extend(column, range),
            _ => unreachable!("columns of one layout are built in one way"),
        }
    }

    /// The column.
    pub fn finish(self) -> Column {
        match self.building {
            Building::Fixed(builder) => Column::Fixed(builder.finish()),
            Building::Bytes(builder) => Column::Bytes(builder.finish()),
        }
    }
}

/// The value of the document at `index` of a field's value column, as far as the data type shows it; `None`
/// where it has none, or one that was written under another type.
pub fn value(column: &Column, data_type: &DataType, index: usize) -> Option<Value> {
    let layout = layout(data_type);
    if !layout.takes(column) {
        return None;
    }
    match (&layout, column) {
        (Layout::Number(_) | Layout::Dense(_), Column::Fixed(column)) => fixed_value(column, &layout, index),
        (Layout::Text, Column::Bytes(bytes)) => {
            let bytes = bytes.get(index)?;
            // Segments of earlier releases can have values of several types in one column.
            if !is_recorded(column) && encoded_collection(bytes).is_some() {
                return None;
            }
            Some(Value::String(String::from_utf8_lossy(bytes).into_owned()))
        }
        (Layout::Raw, Column::Bytes(column)) => column.get(index).map(|bytes| Value::Raw(bytes.to_vec())),
        (Layout::Encoded, Column::Bytes(column)) => {
            let mut value = wire::decode_value(column.get(index)?).ok()?;
            (data_type.show_only(&mut value) != Visibility::Hidden).then_some(value)
        }
        _ => None,
    }
}

/// A number or a dense tensor of a column of this layout.
pub(crate) fn fixed_value(column: &Fixed, layout: &Layout, index: usize) -> Option<Value> {
    if !column.presence().get(index) {
        return None;
    }
    if let Layout::Dense(tensor_type) = layout {
        let size = column.width() * column.cell().size();
        let cells = Cells::from_bytes(tensor_type.cell(), &column.raw()[index * size..(index + 1) * size]);
        return Tensor::new(tensor_type.clone(), Vec::new(), cells).ok().map(Value::Tensor);
    }
    Some(match column.cell() {
        Cell::Bool => Value::Bool(column.cells::<u8>()[index] != 0),
        Cell::I8 => Value::Byte(column.cells::<i8>()[index]),
        Cell::I32 => Value::Int(column.cells::<i32>()[index]),
        Cell::F32 => Value::Float(column.cells::<f32>()[index]),
        Cell::F64 => Value::Double(column.cells::<f64>()[index]),
        Cell::I64 | Cell::U64 | Cell::BF16 => Value::Long(column.integer(index)?),
    })
}
