//! Access to the values of Arrow arrays, and to the parts of their types.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, OffsetSizeTrait};
use arrow_schema::DataType as ArrowType;

use crate::column::entry_members;

/// Text of a cell with a name: text, or an integer as text; `None` without a value.
pub(crate) fn name_of(array: &dyn Array, row: usize) -> Option<String> {
    let (array, row) = value_place(array, row)?;
    Some(match is_text(array.data_type()) {
        true => text(array, row).to_owned(),
        false => integer(array, row).to_string(),
    })
}

/// True for types of cells with names or labels.
pub(crate) fn is_label(column: &ArrowType) -> bool {
    match column {
        ArrowType::Dictionary(_, values) => is_text(values),
        plain => is_text(plain) || is_integer(plain),
    }
}

/// Array and row of a value, in the dictionary if there is one; `None` for null.
pub(crate) fn value_place(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
    if array.is_null(row) {
        return None;
    }
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Some((array, row)) };
    let key =
        usize::try_from(integer(dictionary.keys(), row)).expect("keys of a dictionary are checked when read");
    let values = dictionary.values();
    (!values.is_null(key)).then_some((values.as_ref(), key))
}

/// Items of a list.
pub(crate) fn items(array: &dyn Array, row: usize) -> (&dyn Array, Range<usize>) {
    list_range(array, row..row + 1)
}

/// Items of consecutive lists.
pub(crate) fn list_range(array: &dyn Array, rows: Range<usize>) -> (&dyn Array, Range<usize>) {
    fn of_offsets<O: OffsetSizeTrait>(array: &dyn Array, rows: Range<usize>) -> (&dyn Array, Range<usize>) {
        let list = array.as_list::<O>();
        let offset = |row: usize| list.value_offsets()[row].as_usize();
        (list.values().as_ref(), offset(rows.start)..offset(rows.end))
    }
    match array.data_type() {
        ArrowType::LargeList(_) => of_offsets::<i64>(array, rows),
        ArrowType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let size = usize::try_from(*size).expect("sizes of lists are checked when read");
            (list.values().as_ref(), rows.start * size..rows.end * size)
        }
        _ => of_offsets::<i32>(array, rows),
    }
}

/// Keys and values of a map.
pub(crate) fn entries(array: &dyn Array, row: usize) -> (&dyn Array, &dyn Array, Range<usize>) {
    let map = array.as_map();
    let offset = |row: usize| map.value_offsets()[row] as usize;
    (map.keys().as_ref(), map.values().as_ref(), offset(row)..offset(row + 1))
}

/// An integer, or seconds since 1970.
pub(crate) fn integer(array: &dyn Array, row: usize) -> i128 {
    fn of<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> i128
    where
        i128: From<T::Native>,
    {
        array.as_primitive::<T>().value(row).into()
    }
    match array.data_type() {
        ArrowType::Int8 => of::<Int8Type>(array, row),
        ArrowType::Int16 => of::<Int16Type>(array, row),
        ArrowType::Int32 => of::<Int32Type>(array, row),
        ArrowType::UInt8 => of::<UInt8Type>(array, row),
        ArrowType::UInt16 => of::<UInt16Type>(array, row),
        ArrowType::UInt32 => of::<UInt32Type>(array, row),
        ArrowType::UInt64 => of::<UInt64Type>(array, row),
        ArrowType::Timestamp(..) => of::<TimestampSecondType>(array, row),
        _ => of::<Int64Type>(array, row),
    }
}

pub(crate) fn number(array: &dyn Array, row: usize) -> f64 {
    match array.data_type() {
        ArrowType::Float16 => f64::from(array.as_primitive::<Float16Type>().value(row)),
        ArrowType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(row)),
        ArrowType::Float64 => array.as_primitive::<Float64Type>().value(row),
        _ => integer(array, row) as f64,
    }
}

pub(crate) fn text(array: &dyn Array, row: usize) -> &str {
    match array.data_type() {
        ArrowType::LargeUtf8 => array.as_string::<i64>().value(row),
        ArrowType::Utf8View => array.as_string_view().value(row),
        _ => array.as_string::<i32>().value(row),
    }
}

pub(crate) fn bytes(array: &dyn Array, row: usize) -> &[u8] {
    match array.data_type() {
        ArrowType::LargeBinary => array.as_binary::<i64>().value(row),
        ArrowType::BinaryView => array.as_binary_view().value(row),
        ArrowType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => array.as_binary::<i32>().value(row),
    }
}

pub(crate) fn is_text(column: &ArrowType) -> bool {
    matches!(column, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
}

pub(crate) fn is_integer(column: &ArrowType) -> bool {
    column.is_integer()
}

pub(crate) fn is_number(column: &ArrowType) -> bool {
    is_integer(column) || matches!(column, ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64)
}

pub(crate) fn list_items(column: &ArrowType) -> Option<&ArrowType> {
    match column {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

pub(crate) fn map_types(column: &ArrowType) -> Option<[&ArrowType; 2]> {
    let ArrowType::Map(entries, _) = column else { return None };
    entry_members(entries).map(|members| members.map(|member| member.data_type()))
}
