//! Layout of a column's values, and its record in the column's header.
//!
//! Columns of earlier releases have no record. Such a column is assumed to have the type that the schema
//! gives its field, if that is possible: its cells and their number fit, or it is bytes.

use millrace_document::DataType;
use millrace_tensor::{CellType, TensorType};

use crate::{CellKind, Column};

/// Layout of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueLayout {
    /// One number a document.
    Number(CellKind),
    /// The cells of a dense tensor.
    Dense(TensorType),
    /// Text as UTF-8.
    Text,
    /// Bytes as they are.
    Raw,
    /// Anything else: the wire form of the value.
    Encoded,
}

/// The layout of a data type.
pub fn layout(data_type: &DataType) -> ValueLayout {
    match data_type {
        DataType::Bool => ValueLayout::Number(CellKind::Bool),
        DataType::Byte => ValueLayout::Number(CellKind::I8),
        DataType::Int => ValueLayout::Number(CellKind::I32),
        DataType::Long => ValueLayout::Number(CellKind::I64),
        DataType::Float16 | DataType::Float => ValueLayout::Number(CellKind::F32),
        DataType::Double => ValueLayout::Number(CellKind::F64),
        DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_) => ValueLayout::Text,
        DataType::Raw => ValueLayout::Raw,
        DataType::Tensor(tensor_type) if tensor_type.is_dense() => ValueLayout::Dense(tensor_type.clone()),
        DataType::Position
        | DataType::Tensor(_)
        | DataType::Array(_)
        | DataType::WeightedSet { .. }
        | DataType::Map(..)
        | DataType::Struct(_) => ValueLayout::Encoded,
    }
}

pub(crate) const fn tensor_cell(cell: CellType) -> CellKind {
    match cell {
        CellType::Double => CellKind::F64,
        CellType::Float => CellKind::F32,
        CellType::BFloat16 => CellKind::BF16,
        CellType::Int8 => CellKind::I8,
    }
}

/// Offset of the record in the header of a column: a code, the length of a text, the text.
const RECORD_AT: usize = 12;
/// Maximum length of the text in bytes: the header ends there.
const TEXT_MAX: usize = 50;

const NUMBER: u8 = 1;
const DENSE: u8 = 2;
const TEXT: u8 = 3;
const RAW: u8 = 4;
const ENCODED: u8 = 5;

impl ValueLayout {
    /// The record in the header; empty where the dimensions of a tensor are too long for it.
    pub(crate) fn record(&self) -> Vec<u8> {
        match self {
            ValueLayout::Number(_) => vec![NUMBER, 0],
            ValueLayout::Text => vec![TEXT, 0],
            ValueLayout::Raw => vec![RAW, 0],
            ValueLayout::Encoded => vec![ENCODED, 0],
            ValueLayout::Dense(tensor_type) => {
                let sizes = tensor_type.indexed().map(|(name, size)| format!("{name}[{size}]"));
                let text = sizes.collect::<Vec<_>>().join(",");
                match u8::try_from(text.len()) {
                    Ok(length) if text.len() <= TEXT_MAX => [&[DENSE, length], text.as_bytes()].concat(),
                    _ => Vec::new(),
                }
            }
        }
    }

    /// The layout that a column records; `None`: it has no record.
    pub fn recorded(column: &Column) -> Option<ValueLayout> {
        let (code, text) = record_of(column)?;
        match (code, column) {
            (NUMBER, Column::Fixed(column)) => Some(ValueLayout::Number(column.cell())),
            (DENSE, Column::Fixed(column)) => {
                let cell = cell_type(column.cell())?;
                let spec = format!("tensor<{}>({text})", cell.name());
                let tensor_type = TensorType::parse(&spec).ok()?;
                (tensor_type.dense_size() == column.width()).then_some(ValueLayout::Dense(tensor_type))
            }
            (TEXT, Column::Bytes(_)) => Some(ValueLayout::Text),
            (RAW, Column::Bytes(_)) => Some(ValueLayout::Raw),
            (ENCODED, Column::Bytes(_)) => Some(ValueLayout::Encoded),
            _ => None,
        }
    }

    /// Returns true if the values of a column have this layout, according to its record. Cheap: it may be
    /// called for each value.
    #[inline]
    pub fn takes(&self, column: &Column) -> bool {
        let record = record_of(column);
        let is = |wanted: u8| record.is_none_or(|(code, _)| code == wanted);
        match (self, column) {
            (ValueLayout::Number(cell), Column::Fixed(column)) => {
                column.cell() == *cell && column.width() == 1 && is(NUMBER)
            }
            (ValueLayout::Dense(tensor_type), Column::Fixed(column)) => {
                column.cell() == tensor_cell(tensor_type.cell())
                    && column.width() == tensor_type.dense_size()
                    && record.is_none_or(|(code, text)| code == DENSE && are_dimensions(tensor_type, text))
            }
            (ValueLayout::Text, Column::Bytes(_)) => is(TEXT),
            (ValueLayout::Raw, Column::Bytes(_)) => is(RAW),
            (ValueLayout::Encoded, Column::Bytes(_)) => is(ENCODED),
            _ => false,
        }
    }
}

/// Returns true if a column records the layout of its values.
pub(crate) fn is_recorded(column: &Column) -> bool {
    record_of(column).is_some()
}

/// The code and the text of a column's record. A code of a later release counts as none.
fn record_of(column: &Column) -> Option<(u8, &str)> {
    let header = column.encoded().get(RECORD_AT..RECORD_AT + 2 + TEXT_MAX)?;
    let known = match column {
        Column::Fixed(_) => matches!(header[0], NUMBER | DENSE),
        Column::Bytes(_) => matches!(header[0], TEXT | RAW | ENCODED),
        Column::Tokens(_) => false,
    };
    let text = header[2..].get(..usize::from(header[1]))?;
    known.then(|| std::str::from_utf8(text).ok().map(|text| (header[0], text))).flatten()
}

/// Returns true if a text is the dimensions of a type, as [`ValueLayout::record`] writes them.
fn are_dimensions(tensor_type: &TensorType, text: &str) -> bool {
    let mut parts = text.split(',');
    let mut same = |(name, size): (&str, usize)| {
        let part =
            parts.next().and_then(|part| part.strip_prefix(name)).and_then(|part| part.strip_prefix('['));
        part.and_then(|part| part.strip_suffix(']')).and_then(|part| part.parse().ok()) == Some(size)
    };
    tensor_type.indexed().all(&mut same) && parts.next().is_none()
}

/// The cells of tensors that are stored as these numbers.
pub(crate) const fn cell_type(cell: CellKind) -> Option<CellType> {
    match cell {
        CellKind::F64 => Some(CellType::Double),
        CellKind::F32 => Some(CellType::Float),
        CellKind::BF16 => Some(CellType::BFloat16),
        CellKind::I8 => Some(CellType::Int8),
        CellKind::Bool | CellKind::I32 | CellKind::I64 | CellKind::U64 => None,
    }
}
