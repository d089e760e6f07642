//! Cells of Arrow columns as values of fields.

use std::ops::{Add, Range};
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType as ArrowType, TimeUnit};
use millrace_document::{DataType, DocumentValue, StructType, scalar, unique_keys};

use crate::Error;
use crate::arrow::{
    bytes, entries, integer, is_integer, is_number, is_text, items, list_items, map_types, number, text,
    value_place,
};
use crate::column::taken;
use crate::size::{RowSize, number_bytes};
use crate::tensor::TensorReader;

/// Nesting of types beyond which a column is refused.
pub(crate) const DEPTH: usize = 32;

/// Reader of the cells of a column of one Arrow type as values of one type of field.
#[derive(Debug)]
pub(crate) enum CellReader {
    /// The column has no values.
    Absent,
    Bool,
    /// An integer type, which checks the range.
    Integer(DataType),
    /// A float type, which rounds.
    Float(DataType),
    /// A type whose values are written as text.
    Text(DataType),
    Raw,
    /// Members with the latitude and the longitude.
    Degrees([usize; 2]),
    Array(Box<CellReader>),
    WeightedSet(Box<CellReader>),
    Map(Box<[CellReader; 2]>),
    Struct(Vec<StructMember>),
    Tensor(Box<TensorReader>),
}

/// Depth of a part of a column.
#[derive(Clone, Copy)]
struct ColumnDepth {
    levels: usize,
    /// True to leave out members of structs that are not fields.
    ignores_unknown: bool,
}

/// Member of a struct.
#[derive(Debug)]
pub(crate) struct StructMember {
    /// Number of its column.
    column: usize,
    name: Arc<str>,
    reader: CellReader,
}

impl CellReader {
    /// The reader of an Arrow type for a field; `None` if the field does not take it. With `ignores_unknown`
    /// members of structs that are not fields are left out.
    pub(crate) fn new(column: &ArrowType, data_type: &DataType, ignores_unknown: bool) -> Option<Self> {
        Self::nested(column, data_type, ColumnDepth { levels: 0, ignores_unknown })
    }

    fn nested(column: &ArrowType, data_type: &DataType, depth: ColumnDepth) -> Option<Self> {
        if depth.levels > DEPTH {
            return None;
        }
        if *column == ArrowType::Null {
            return Some(CellReader::Absent);
        }
        let depth = ColumnDepth { levels: depth.levels + 1, ..depth };
        let inner = |column: &ArrowType, data_type| Self::nested(column, data_type, depth);
        match data_type {
            DataType::Tensor(tensor_type) => {
                TensorReader::new(column, tensor_type).map(|reader| CellReader::Tensor(Box::new(reader)))
            }
            DataType::Array(element) => {
                let items = list_items(column)?;
                Some(CellReader::Array(Box::new(inner(items, element)?)))
            }
            DataType::WeightedSet { element, .. } => {
                let [key, weight] = map_types(column)?;
                is_integer(weight).then_some(())?;
                Some(CellReader::WeightedSet(Box::new(inner(key, element)?)))
            }
            DataType::Map(key, value) => {
                let [keys, values] = map_types(column)?;
                Some(CellReader::Map(Box::new([inner(keys, key)?, inner(values, value)?])))
            }
            DataType::Struct(struct_type) => Self::members(column, struct_type, depth),
            DataType::Position if matches!(column, ArrowType::Struct(_)) => Self::degrees(column),
            _ => Self::scalar(column, data_type),
        }
    }

    fn scalar(column: &ArrowType, data_type: &DataType) -> Option<Self> {
        let plain = match column {
            ArrowType::Dictionary(_, values) => values,
            plain => plain,
        };
        match data_type {
            DataType::Bool if *plain == ArrowType::Boolean => Some(CellReader::Bool),
            DataType::Byte | DataType::Int if is_integer(plain) => {
                Some(CellReader::Integer(data_type.clone()))
            }
            // A long has no unit. Seconds are what most schemas have; other units would be stored in silence.
            DataType::Long
                if is_integer(plain) || matches!(plain, ArrowType::Timestamp(TimeUnit::Second, _)) =>
            {
                Some(CellReader::Integer(DataType::Long))
            }
            DataType::Float16 | DataType::Float | DataType::Double if is_number(plain) => {
                Some(CellReader::Float(data_type.clone()))
            }
            DataType::String
            | DataType::Uri
            | DataType::Predicate
            | DataType::Reference(_)
            | DataType::Position
                if is_text(plain) =>
            {
                Some(CellReader::Text(data_type.clone()))
            }
            DataType::Raw => matches!(
                plain,
                ArrowType::Binary
                    | ArrowType::LargeBinary
                    | ArrowType::BinaryView
                    | ArrowType::FixedSizeBinary(_)
            )
            .then_some(CellReader::Raw),
            _ => None,
        }
    }

    fn members(column: &ArrowType, struct_type: &StructType, depth: ColumnDepth) -> Option<Self> {
        let ArrowType::Struct(members) = column else { return None };
        let mut readers: Vec<StructMember> = Vec::with_capacity(members.len());
        for (at, member) in members.iter().enumerate() {
            let Some(field) = struct_type.field(member.name()) else {
                if depth.ignores_unknown {
                    continue;
                }
                return None;
            };
            if readers.iter().any(|reader| reader.name == field.name) {
                return None;
            }
            let reader = Self::nested(member.data_type(), &field.data_type, depth)?;
            readers.push(StructMember { column: at, name: Arc::clone(&field.name), reader });
        }
        Some(CellReader::Struct(readers))
    }

    fn degrees(column: &ArrowType) -> Option<Self> {
        let ArrowType::Struct(members) = column else { return None };
        let find = |names: [&str; 2]| {
            let (at, member) = members
                .iter()
                .enumerate()
                .find(|(_, member)| names.iter().any(|name| member.name().eq_ignore_ascii_case(name)))?;
            is_number(member.data_type()).then_some(at)
        };
        Some(CellReader::Degrees([find(["lat", "latitude"])?, find(["lng", "longitude"])?]))
    }

    /// Size of the value in a row.
    pub(crate) fn size(&self, array: &dyn Array, row: usize) -> RowSize {
        let Some((array, row)) = value_place(array, row) else { return RowSize::default() };
        let inside = match self {
            CellReader::Absent | CellReader::Degrees(_) => return RowSize::value(8),
            CellReader::Bool => return RowSize::value(1),
            CellReader::Integer(data_type) | CellReader::Float(data_type) => {
                return RowSize::value(number_bytes(data_type));
            }
            CellReader::Text(_) => RowSize::bytes(text(array, row).len()),
            CellReader::Raw => RowSize::bytes(bytes(array, row).len()),
            CellReader::Array(element) => {
                let (items, range) = items(array, row);
                element.sizes(items, range)
            }
            CellReader::WeightedSet(element) => {
                let (keys, _, range) = entries(array, row);
                element.sizes(keys, range.clone()) + RowSize::value(size_of::<i32>()).times(range.len())
            }
            CellReader::Map(readers) => {
                let [key, value] = &**readers;
                let (keys, values, range) = entries(array, row);
                key.sizes(keys, range.clone()) + value.sizes(values, range)
            }
            CellReader::Struct(members) => {
                let columns = array.as_struct();
                let member = |StructMember { column, reader, .. }: &StructMember| {
                    let name = RowSize { memory: size_of::<Arc<str>>(), content: 0 };
                    name + reader.size(columns.column(*column).as_ref(), row)
                };
                members.iter().map(member).fold(RowSize::default(), RowSize::add)
            }
            CellReader::Tensor(reader) => reader.size(array, row),
        };
        RowSize::value(0) + inside
    }

    /// Size of the values of consecutive rows.
    fn sizes(&self, array: &dyn Array, range: Range<usize>) -> RowSize {
        match self {
            CellReader::Bool => RowSize::value(1).times(range.len()),
            CellReader::Integer(data_type) | CellReader::Float(data_type) => {
                RowSize::value(number_bytes(data_type)).times(range.len())
            }
            _ => range.map(|at| self.size(array, at)).fold(RowSize::default(), RowSize::add),
        }
    }

    /// The value in a row; `None` if there is none.
    ///
    /// # Errors
    /// The value is not one of the field's type.
    pub(crate) fn read(&self, array: &dyn Array, row: usize) -> Result<Option<DocumentValue>, Error> {
        let Some((array, row)) = value_place(array, row) else { return Ok(None) };
        let value = match self {
            CellReader::Absent => return Ok(None),
            CellReader::Bool => DocumentValue::Bool(array.as_boolean().value(row)),
            CellReader::Integer(data_type) => {
                let number = integer(array, row);
                let value = i64::try_from(number).ok().and_then(|number| scalar::integer(number, data_type));
                value.ok_or_else(|| Error::value(format!("{number} is out of range for {data_type}")))?
            }
            CellReader::Float(data_type) => {
                let number = number(array, row);
                scalar::float(number, data_type)
                    .ok_or_else(|| Error::value(format!("{number:?} is beyond the range of a {data_type}")))?
            }
            CellReader::Text(data_type) => {
                scalar::parse(text(array, row), data_type).map_err(|error| Error::value(error.to_string()))?
            }
            CellReader::Raw => DocumentValue::Raw(bytes(array, row).to_owned()),
            CellReader::Degrees(members) => {
                let members = members.map(|at| array.as_struct().column(at));
                let [Some(lat), Some(lng)] = members.map(|member| micro_degrees(member, row)) else {
                    return Err(Error::value("its lat or lng is missing, or is not an angle in degrees"));
                };
                DocumentValue::Position { latitude: lat, longitude: lng }
            }
            CellReader::Array(element) => {
                let (items, range) = items(array, row);
                // As in JSON, a null among the values of a collection is left out.
                let values = range.filter_map(|at| element.read(items, at).transpose());
                DocumentValue::Array(values.collect::<Result<_, _>>()?)
            }
            CellReader::WeightedSet(element) => {
                let (keys, weights, range) = entries(array, row);
                let elements = range.filter_map(|at| {
                    let (weights, of) = value_place(weights, at)?;
                    let weight = integer(weights, of);
                    let weight = i32::try_from(weight)
                        .map_err(|_| Error::value(format!("the weight {weight} has more than 32 bits")));
                    Some(weight.and_then(|weight| Ok((present(element.read(keys, at)?)?, weight))))
                });
                DocumentValue::WeightedSet(unique_keys(elements.collect::<Result<_, Error>>()?))
            }
            CellReader::Map(readers) => {
                let [key, value] = &**readers;
                let (keys, values, range) = entries(array, row);
                let entries = range.filter_map(|at| {
                    let value = value.read(values, at).transpose()?;
                    Some(value.and_then(|value| Ok((present(key.read(keys, at)?)?, value))))
                });
                DocumentValue::Map(unique_keys(entries.collect::<Result<_, Error>>()?))
            }
            CellReader::Struct(members) => {
                let columns = array.as_struct();
                let mut fields = Vec::with_capacity(members.len());
                for StructMember { column, name, reader } in members {
                    let value = reader.read(columns.column(*column).as_ref(), row);
                    if let Some(value) =
                        value.map_err(|error| Error::value(format!("member '{name}': {error}")))?
                    {
                        fields.push((Arc::clone(name), value));
                    }
                }
                DocumentValue::Struct(fields)
            }
            CellReader::Tensor(reader) => DocumentValue::Tensor(reader.read(array, row)?),
        };
        Ok(Some(value))
    }
}

/// The key of an entry.
fn present(key: Option<DocumentValue>) -> Result<DocumentValue, Error> {
    key.ok_or_else(|| Error::value("a key is null"))
}

/// Describes the first member of a struct in a column that its field does not take, for messages; `None` if
/// the column has no such member.
pub(crate) fn misfit_member(
    column: &ArrowType,
    data_type: &DataType,
    ignores_unknown: bool,
) -> Option<String> {
    match data_type {
        DataType::Array(element) => misfit_member(list_items(column)?, element, ignores_unknown),
        DataType::Map(_, value) => misfit_member(map_types(column)?[1], value, ignores_unknown),
        DataType::Struct(struct_type) => {
            let ArrowType::Struct(members) = column else { return None };
            members.iter().enumerate().find_map(|(at, member)| {
                let (name, arrow) = (member.name(), member.data_type());
                let Some(field) = struct_type.field(name) else {
                    return (!ignores_unknown)
                        .then(|| format!("{} has no member '{name}'", struct_type.name));
                };
                if members[..at].iter().any(|earlier| earlier.name() == name) {
                    return Some(format!("there are two members '{name}'; leave out one of them"));
                }
                if CellReader::new(arrow, &field.data_type, ignores_unknown).is_some() {
                    return None;
                }
                let inner = misfit_member(arrow, &field.data_type, ignores_unknown);
                Some(inner.unwrap_or_else(|| {
                    format!("the member '{name}' is {arrow}; cast it to {}", taken(&field.data_type))
                }))
            })
        }
        _ => None,
    }
}

/// An angle in millionths of a degree; `None` if there is none. As in JSON, those outside the globe are kept.
fn micro_degrees(array: &dyn Array, row: usize) -> Option<i32> {
    let (array, row) = value_place(array, row)?;
    let micro = (number(array, row) * 1e6).round();
    (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&micro).then_some(micro as i32)
}
