//! Columns made of values of fields.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, ListArray, MapArray, PrimitiveArray,
    StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType as ArrowType, FieldRef, Fields};
use half::f16;
use millrace_document::{DataType, DocumentValue, StructType};
use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::Error;
use crate::column::{arrow_type, block_type, entry_members};

/// Makes a column of the type that is written for a field.
///
/// # Errors
/// A value is not of the type.
pub(crate) fn column(data_type: &DataType, values: &[Option<&DocumentValue>]) -> Result<ArrayRef, Error> {
    let all = ColumnValues { data_type, values };
    Ok(match data_type {
        DataType::Bool => Arc::new(BooleanArray::from(all.each(|value| match value {
            DocumentValue::Bool(value) => Some(*value),
            _ => None,
        })?)),
        DataType::Byte => all.numbers::<Int8Type>(|value| match value {
            DocumentValue::Byte(number) => Some(*number),
            _ => None,
        })?,
        DataType::Int => all.numbers::<Int32Type>(|value| match value {
            DocumentValue::Int(number) => Some(*number),
            _ => None,
        })?,
        DataType::Long => all.numbers::<Int64Type>(|value| match value {
            DocumentValue::Long(number) => Some(*number),
            _ => None,
        })?,
        DataType::Float16 => all.numbers::<Float16Type>(|value| match value {
            DocumentValue::Float(number) => Some(f16::from_f32(*number)),
            _ => None,
        })?,
        DataType::Float => all.numbers::<Float32Type>(|value| match value {
            DocumentValue::Float(number) => Some(*number),
            _ => None,
        })?,
        DataType::Double => all.numbers::<Float64Type>(|value| match value {
            DocumentValue::Double(number) => Some(*number),
            _ => None,
        })?,
        DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_) => {
            Arc::new(StringArray::from(all.each(|value| match value {
                DocumentValue::String(text) => Some(text.as_str()),
                _ => None,
            })?))
        }
        DataType::Raw => Arc::new(BinaryArray::from(all.each(|value| match value {
            DocumentValue::Raw(bytes) => Some(&bytes[..]),
            _ => None,
        })?)),
        DataType::Position => all.positions()?,
        DataType::Array(element) => all.lists(element)?,
        DataType::WeightedSet { element, .. } => all.weighted_sets(element)?,
        DataType::Map(key, value) => all.maps(key, value)?,
        DataType::Struct(struct_type) => all.structs(struct_type)?,
        DataType::Tensor(tensor_type) => {
            let tensors = all.each(|value| match value {
                DocumentValue::Tensor(tensor) if tensor.tensor_type() == tensor_type => Some(tensor),
                _ => None,
            })?;
            tensor_column(tensor_type, &tensors, all.nulls())
        }
    })
}

/// The values of a column.
struct ColumnValues<'v> {
    data_type: &'v DataType,
    values: &'v [Option<&'v DocumentValue>],
}

impl<'v> ColumnValues<'v> {
    /// The part of each value that `part` returns.
    fn each<T>(&self, part: impl Fn(&'v DocumentValue) -> Option<T>) -> Result<Vec<Option<T>>, Error> {
        let of_value = |value: &Option<&'v DocumentValue>| match value {
            None => Ok(None),
            Some(value) => match part(value) {
                Some(part) => Ok(Some(part)),
                None => Err(Error::value(format!("a value is not of the type {}", self.data_type))),
            },
        };
        self.values.iter().map(of_value).collect()
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        part: impl Fn(&'v DocumentValue) -> Option<T::Native>,
    ) -> Result<ArrayRef, Error> {
        let mut numbers = Vec::with_capacity(self.values.len());
        for number in self.each(part)? {
            numbers.push(number.unwrap_or_default());
        }
        Ok(Arc::new(PrimitiveArray::<T>::new(numbers.into(), self.nulls())))
    }

    fn positions(&self) -> Result<ArrayRef, Error> {
        let positions = self.each(|value| match value {
            DocumentValue::Position { latitude, longitude } => Some([*latitude, *longitude]),
            _ => None,
        })?;
        let degrees = |at: usize| {
            let of_position = |position: &Option<[i32; 2]>| f64::from(position.unwrap_or_default()[at]) / 1e6;
            let degrees = positions.iter().map(of_position);
            Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(degrees)) as ArrayRef
        };
        Ok(structure(&arrow_type(self.data_type), vec![degrees(0), degrees(1)], self.nulls()))
    }

    fn lists(&self, element: &DataType) -> Result<ArrayRef, Error> {
        let lists = self.each(|value| match value {
            DocumentValue::Array(values) => Some(values),
            _ => None,
        })?;
        let items: Vec<_> = lists.iter().flatten().flat_map(|values| values.iter().map(Some)).collect();
        let items = column(element, &items)?;
        let lengths = lists.iter().map(|list| list.map_or(0, Vec::len));
        Ok(list(&arrow_type(self.data_type), lengths, items, self.nulls()))
    }

    fn weighted_sets(&self, element: &DataType) -> Result<ArrayRef, Error> {
        let sets = self.each(|value| match value {
            DocumentValue::WeightedSet(elements) => Some(elements),
            _ => None,
        })?;
        let elements = || sets.iter().flatten().flat_map(|elements| elements.iter());
        let keys: Vec<_> = elements().map(|(element, _)| Some(element)).collect();
        let weights = PrimitiveArray::<Int32Type>::from_iter_values(elements().map(|(_, weight)| *weight));
        let keys = column(element, &keys)?;
        let lengths = sets.iter().map(|set| set.map_or(0, Vec::len));
        Ok(map(&arrow_type(self.data_type), lengths, keys, Arc::new(weights), self.nulls()))
    }

    fn maps(&self, key: &DataType, value: &DataType) -> Result<ArrayRef, Error> {
        let maps = self.each(|value| match value {
            DocumentValue::Map(entries) => Some(entries),
            _ => None,
        })?;
        let entries = || maps.iter().flatten().flat_map(|entries| entries.iter());
        let keys: Vec<_> = entries().map(|(key, _)| Some(key)).collect();
        let values: Vec<_> = entries().map(|(_, value)| Some(value)).collect();
        let (keys, values) = (column(key, &keys)?, column(value, &values)?);
        let lengths = maps.iter().map(|map| map.map_or(0, Vec::len));
        Ok(map(&arrow_type(self.data_type), lengths, keys, values, self.nulls()))
    }

    fn structs(&self, struct_type: &StructType) -> Result<ArrayRef, Error> {
        let structs = self.each(|value| match value {
            DocumentValue::Struct(members) => Some(members),
            _ => None,
        })?;
        let members = struct_type.fields.iter().map(|field| {
            let of = |members: &Vec<(Arc<str>, DocumentValue)>| {
                members.iter().position(|(name, _)| *name == field.name)
            };
            let values: Vec<_> =
                structs.iter().map(|members| members.and_then(|all| of(all).map(|at| &all[at].1))).collect();
            column(&field.data_type, &values)
        });
        let columns = members.collect::<Result<Vec<_>, _>>()?;
        Ok(structure(&arrow_type(self.data_type), columns, self.nulls()))
    }

    fn nulls(&self) -> Option<NullBuffer> {
        Some(self.values.iter().map(Option::is_some).collect())
    }
}

fn structure(arrow: &ArrowType, columns: Vec<ArrayRef>, nulls: Option<NullBuffer>) -> ArrayRef {
    let ArrowType::Struct(members) = arrow else { unreachable!("a struct is written as one") };
    let rows = nulls.as_ref().map_or(0, NullBuffer::len);
    let structs = StructArray::try_new_with_length(members.clone(), columns, nulls, rows);
    Arc::new(structs.expect("the columns are those of the members, and of one length"))
}

fn list(
    arrow: &ArrowType,
    lengths: impl Iterator<Item = usize>,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let ArrowType::List(item) = arrow else { unreachable!("an array is written as a list") };
    Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), items, nulls))
}

fn map(
    arrow: &ArrowType,
    lengths: impl Iterator<Item = usize>,
    keys: ArrayRef,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let ArrowType::Map(field, sorted) = arrow else { unreachable!("a map is written as one") };
    let [key, value] = entry_members(field).expect("an entry has a key and a value").map(FieldRef::clone);
    let entries = StructArray::new(Fields::from(vec![key, value]), vec![keys, values], None);
    Arc::new(MapArray::new(Arc::clone(field), OffsetBuffer::from_lengths(lengths), entries, nulls, *sorted))
}

fn tensor_column(
    tensor_type: &TensorType,
    tensors: &[Option<&Tensor>],
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let dense = tensor_type.dense_size();
    let mapped = tensor_type.mapped().count();
    let mut cells = TensorCells::with_capacity(tensor_type.cell(), tensors.len() * dense);
    for tensor in tensors {
        match tensor {
            Some(tensor) => cells.extend_from(tensor.cells(), 0..tensor.cells().len()),
            None if mapped == 0 => cells.extend_zeroed(dense),
            None => {}
        }
    }
    let lengths = || tensors.iter().map(|tensor| tensor.map_or(0, Tensor::subspaces));
    let blocks = |nulls| blocks(tensor_type, &cells, nulls);
    let labels = |dimension: usize| {
        let all = tensors.iter().flatten().flat_map(|tensor| tensor.all_labels());
        let labels = all.skip(dimension).step_by(mapped);
        Arc::new(StringArray::from_iter_values(labels)) as ArrayRef
    };
    let arrow = arrow_type(&DataType::Tensor(tensor_type.clone()));
    match mapped {
        0 => blocks(nulls),
        1 => map(&arrow, lengths(), labels(0), blocks(None), nulls),
        _ => {
            let ArrowType::List(item) = &arrow else { unreachable!("addresses are written as a list") };
            let columns = (0..mapped).map(labels).chain([blocks(None)]).collect();
            let rows = lengths().sum();
            let addresses = structure(item.data_type(), columns, Some(NullBuffer::new_valid(rows)));
            list(&arrow, lengths(), addresses, nulls)
        }
    }
}

/// The cells, as one block for each address.
fn blocks(tensor_type: &TensorType, cells: &TensorCells, nulls: Option<NullBuffer>) -> ArrayRef {
    let numbers: ArrayRef = match cells {
        TensorCells::Double(cells) => Arc::new(PrimitiveArray::<Float64Type>::from(cells.clone())),
        TensorCells::Float(cells) => Arc::new(PrimitiveArray::<Float32Type>::from(cells.clone())),
        TensorCells::BFloat16(cells) => {
            Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(cells.iter().map(|cell| cell.to_f32())))
        }
        TensorCells::Int8(cells) => Arc::new(PrimitiveArray::<Int8Type>::from(cells.clone())),
    };
    match block_type(tensor_type) {
        ArrowType::FixedSizeList(item, size) => Arc::new(FixedSizeListArray::new(item, size, numbers, nulls)),
        _ => numbers,
    }
}
