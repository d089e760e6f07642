//! Cells of Arrow columns as values of fields.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, OffsetSizeTrait};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use millrace_document::{DataType, DocumentValue, StructType};
use millrace_tensor::{CellType, Tensor, TensorCells, TensorType};

use crate::Error;
use crate::column::{cells_member, entry_members};

/// Nesting of types beyond which a column is refused.
const DEPTH: usize = 32;

/// Reader of the cells of a column of one Arrow type as values of one type of field.
#[derive(Debug)]
pub(crate) enum CellReader {
    /// The column has no values.
    Absent,
    Bool,
    /// An integer type, which checks the range.
    Integer(DataType),
    Double,
    Float,
    Text,
    Raw,
    /// Members with the latitude and the longitude.
    Degrees([usize; 2]),
    Array(Box<CellReader>),
    WeightedSet(Box<CellReader>),
    Map(Box<[CellReader; 2]>),
    Struct(Vec<StructMember>),
    Tensor(Box<TensorReader>),
}

/// Member of a struct.
#[derive(Debug)]
pub(crate) struct StructMember {
    /// Number of its column.
    column: usize,
    name: Arc<str>,
    reader: CellReader,
}

/// Reader of tensors.
#[derive(Debug)]
pub(crate) struct TensorReader {
    tensor_type: TensorType,
    form: TensorForm,
}

#[derive(Debug)]
enum TensorForm {
    /// The cells of a dense tensor.
    Cells,
    /// A map of labels to blocks.
    Labels,
    /// A list of blocks with the labels 0, 1, ….
    Numbered,
    /// A list of structs: members with labels, and the one with the cells.
    Addresses { labels: Vec<usize>, cells: usize },
}

/// Memory that the values of one row may take.
#[derive(Debug)]
pub(crate) struct RowMemory {
    left: usize,
    most: usize,
}

impl RowMemory {
    pub(crate) const fn new(most: usize) -> Self {
        RowMemory { left: most, most }
    }

    /// Takes memory for `count` values, and `bytes` beside them.
    fn take(&mut self, count: usize, bytes: usize) -> Result<(), Error> {
        let wanted = count.saturating_mul(size_of::<DocumentValue>()).saturating_add(bytes);
        match self.left.checked_sub(wanted) {
            Some(left) => self.left = left,
            None => {
                return Err(Error::value(format!("the row takes more than {} bytes in memory", self.most)));
            }
        }
        Ok(())
    }
}

impl CellReader {
    /// The reader of an Arrow type for a field; `None` if the field does not take it.
    pub(crate) fn new(column: &ArrowType, data_type: &DataType) -> Option<Self> {
        Self::nested(column, data_type, 0)
    }

    fn nested(column: &ArrowType, data_type: &DataType, depth: usize) -> Option<Self> {
        if depth > DEPTH {
            return None;
        }
        if *column == ArrowType::Null {
            return Some(CellReader::Absent);
        }
        let inner = |column: &ArrowType, data_type| Self::nested(column, data_type, depth + 1);
        match data_type {
            DataType::Tensor(tensor_type) => {
                let form = TensorForm::new(column, tensor_type)?;
                let reader = TensorReader { tensor_type: tensor_type.clone(), form };
                Some(CellReader::Tensor(Box::new(reader)))
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
            DataType::Double if is_number(plain) => Some(CellReader::Double),
            DataType::Float16 | DataType::Float if is_number(plain) => Some(CellReader::Float),
            DataType::String
            | DataType::Uri
            | DataType::Predicate
            | DataType::Reference(_)
            | DataType::Position
                if is_text(plain) =>
            {
                Some(CellReader::Text)
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

    fn members(column: &ArrowType, struct_type: &StructType, depth: usize) -> Option<Self> {
        let ArrowType::Struct(members) = column else { return None };
        let readers = members.iter().enumerate().map(|(at, member)| {
            let field = struct_type.field(member.name())?;
            let reader = Self::nested(member.data_type(), &field.data_type, depth + 1)?;
            Some(StructMember { column: at, name: Arc::clone(&field.name), reader })
        });
        readers.collect::<Option<Vec<_>>>().map(CellReader::Struct)
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

    /// The value in a row; `None` if there is none.
    ///
    /// # Errors
    /// The value is out of the range of the field's type, or the row takes too much memory.
    pub(crate) fn read(
        &self,
        array: &dyn Array,
        row: usize,
        memory: &mut RowMemory,
    ) -> Result<Option<DocumentValue>, Error> {
        let Some((array, row)) = value_place(array, row) else { return Ok(None) };
        memory.take(1, 0)?;
        let value = match self {
            CellReader::Absent => return Ok(None),
            CellReader::Bool => DocumentValue::Bool(array.as_boolean().value(row)),
            CellReader::Integer(data_type) => integer_value(integer(array, row), data_type)?,
            CellReader::Double => DocumentValue::Double(number(array, row)),
            CellReader::Float => {
                let exact = number(array, row);
                let rounded = exact as f32;
                if rounded.is_infinite() && exact.is_finite() {
                    return Err(Error::value(format!("{exact:?} is beyond the range of a float")));
                }
                DocumentValue::Float(rounded)
            }
            CellReader::Text => {
                let text = text(array, row);
                memory.take(0, text.len())?;
                DocumentValue::String(text.to_owned())
            }
            CellReader::Raw => {
                let bytes = bytes(array, row);
                memory.take(0, bytes.len())?;
                DocumentValue::Raw(bytes.to_owned())
            }
            CellReader::Degrees(members) => {
                let members = members.map(|at| array.as_struct().column(at));
                let [Some(lat), Some(lng)] = members.map(|member| micro_degrees(member, row)) else {
                    return Err(Error::value("its lat or lng is missing, or is not an angle in degrees"));
                };
                DocumentValue::Position { latitude: lat, longitude: lng }
            }
            CellReader::Array(element) => {
                let (items, range) = items(array, row);
                memory.take(range.len(), 0)?;
                let values = range.map(|at| present(element.read(items, at, memory)?, "item"));
                DocumentValue::Array(values.collect::<Result<_, _>>()?)
            }
            CellReader::WeightedSet(element) => {
                let (keys, weights, range) = entries(array, row);
                memory.take(range.len(), 0)?;
                let elements = range.map(|at| {
                    let key = present(element.read(keys, at, memory)?, "key")?;
                    let (weights, at) =
                        value_place(weights, at).ok_or_else(|| Error::value("a weight is missing"))?;
                    let weight = integer(weights, at);
                    let weight = i32::try_from(weight)
                        .map_err(|_| Error::value(format!("the weight {weight} has more than 32 bits")))?;
                    Ok((key, weight))
                });
                DocumentValue::WeightedSet(elements.collect::<Result<_, Error>>()?)
            }
            CellReader::Map(readers) => {
                let [key, value] = &**readers;
                let (keys, values, range) = entries(array, row);
                memory.take(range.len() * 2, 0)?;
                let entries = range.map(|at| {
                    let key = present(key.read(keys, at, memory)?, "key")?;
                    Ok((key, present(value.read(values, at, memory)?, "value")?))
                });
                DocumentValue::Map(entries.collect::<Result<_, Error>>()?)
            }
            CellReader::Struct(members) => {
                let columns = array.as_struct();
                memory.take(members.len(), 0)?;
                let mut fields = Vec::with_capacity(members.len());
                for StructMember { column, name, reader } in members {
                    let value = reader.read(columns.column(*column).as_ref(), row, memory);
                    if let Some(value) =
                        value.map_err(|error| Error::value(format!("member '{name}': {error}")))?
                    {
                        fields.push((Arc::clone(name), value));
                    }
                }
                DocumentValue::Struct(fields)
            }
            CellReader::Tensor(reader) => DocumentValue::Tensor(reader.read(array, row, memory)?),
        };
        Ok(Some(value))
    }
}

fn present(value: Option<DocumentValue>, part: &str) -> Result<DocumentValue, Error> {
    value.ok_or_else(|| Error::value(format!("the {part} of a collection is null")))
}

impl TensorForm {
    fn new(column: &ArrowType, tensor_type: &TensorType) -> Option<Self> {
        let mapped: Vec<&str> = tensor_type.mapped().map(|dimension| &*dimension.name).collect();
        if mapped.is_empty() {
            return is_block(column, tensor_type).then_some(TensorForm::Cells);
        }
        if mapped.len() == 1 {
            if let Some([key, value]) = map_types(column) {
                return (is_label(key) && is_block(value, tensor_type)).then_some(TensorForm::Labels);
            }
            if let Some(items) = list_items(column)
                && is_block(items, tensor_type)
            {
                return Some(TensorForm::Numbered);
            }
        }
        let ArrowType::Struct(members) = list_items(column)? else { return None };
        let find = |name: &str| members.iter().position(|member| member.name() == name);
        let labels: Vec<usize> = mapped
            .iter()
            .map(|name| find(name).filter(|at| is_label(members[*at].data_type())))
            .collect::<Option<_>>()?;
        let cells = find(&cells_member(tensor_type))?;
        (members.len() == labels.len() + 1 && is_block(members[cells].data_type(), tensor_type))
            .then_some(TensorForm::Addresses { labels, cells })
    }
}

impl TensorReader {
    fn read(&self, array: &dyn Array, row: usize, memory: &mut RowMemory) -> Result<Tensor, Error> {
        let mut labels = Vec::new();
        let mut cells = TensorCells::with_capacity(self.tensor_type.cell(), 0);
        match &self.form {
            TensorForm::Cells => self.block(array, row, &mut cells, memory)?,
            TensorForm::Labels => {
                let (keys, values, range) = entries(array, row);
                for at in range {
                    labels.push(label(keys, at, memory)?);
                    self.block(values, at, &mut cells, memory)?;
                }
            }
            TensorForm::Numbered => {
                let (items, range) = items(array, row);
                for (number, at) in range.enumerate() {
                    memory.take(1, 0)?;
                    labels.push(number.to_string());
                    self.block(items, at, &mut cells, memory)?;
                }
            }
            TensorForm::Addresses { labels: members, cells: block } => {
                let (items, range) = items(array, row);
                for at in range {
                    if items.is_null(at) {
                        return Err(Error::value("an address is null"));
                    }
                    let columns = items.as_struct();
                    for member in members {
                        labels.push(label(columns.column(*member).as_ref(), at, memory)?);
                    }
                    self.block(columns.column(*block).as_ref(), at, &mut cells, memory)?;
                }
            }
        }
        Tensor::new(self.tensor_type.clone(), labels, cells).map_err(|error| Error::value(error.to_string()))
    }

    /// Adds the cells of one address.
    fn block(
        &self,
        array: &dyn Array,
        row: usize,
        cells: &mut TensorCells,
        memory: &mut RowMemory,
    ) -> Result<(), Error> {
        let (mut array, mut range) = (array, row..row + 1);
        loop {
            if array.slice(range.start, range.len()).null_count() > 0 {
                return Err(Error::value("a cell of the tensor is null"));
            }
            match array.data_type() {
                ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(..) => {
                    (array, range) = list_range(array, range);
                }
                _ => break,
            }
        }
        let dense = self.tensor_type.dense_size();
        if range.len() != dense {
            return Err(Error::value(format!("{} cells; {} has {dense}", range.len(), self.tensor_type)));
        }
        memory.take(0, dense * self.tensor_type.cell().size())?;
        push_cells(array, range, cells)
            .map_err(|number| Error::value(format!("{number:?} is out of range for {}", self.tensor_type)))
    }
}

/// Adds numbers to the cells of a tensor. Returns the first that the cells cannot represent.
fn push_cells(array: &dyn Array, range: Range<usize>, cells: &mut TensorCells) -> Result<(), f64> {
    fn push<T: ArrowPrimitiveType>(
        array: &dyn Array,
        range: Range<usize>,
        cells: &mut TensorCells,
        number: impl Fn(T::Native) -> f64,
    ) -> Result<(), f64> {
        for value in &array.as_primitive::<T>().values()[range] {
            let number = number(*value);
            if !cells.try_push(number) {
                return Err(number);
            }
        }
        Ok(())
    }
    match array.data_type() {
        ArrowType::Float32 => push::<Float32Type>(array, range, cells, f64::from),
        ArrowType::Float64 => push::<Float64Type>(array, range, cells, |number| number),
        ArrowType::Float16 => push::<Float16Type>(array, range, cells, f64::from),
        ArrowType::Int8 => push::<Int8Type>(array, range, cells, f64::from),
        // The bits of a bfloat16 are the upper half of those of a float.
        ArrowType::UInt16 if cells.cell_type() == CellType::BFloat16 => {
            push::<UInt16Type>(array, range, cells, |bits| {
                f64::from(f32::from_bits(u32::from(bits) << u16::BITS))
            })
        }
        _ => range.into_iter().try_for_each(|at| {
            let number = number(array, at);
            if cells.try_push(number) { Ok(()) } else { Err(number) }
        }),
    }
}

/// Label of an address: text, or an integer as text.
fn label(array: &dyn Array, row: usize, memory: &mut RowMemory) -> Result<String, Error> {
    let (array, row) = value_place(array, row).ok_or_else(|| Error::value("a label is null"))?;
    let label = match is_text(array.data_type()) {
        true => text(array, row).to_owned(),
        false => integer(array, row).to_string(),
    };
    memory.take(1, label.len())?;
    Ok(label)
}

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
fn value_place(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
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
fn items(array: &dyn Array, row: usize) -> (&dyn Array, Range<usize>) {
    list_range(array, row..row + 1)
}

/// Items of consecutive lists.
fn list_range(array: &dyn Array, rows: Range<usize>) -> (&dyn Array, Range<usize>) {
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
fn entries(array: &dyn Array, row: usize) -> (&dyn Array, &dyn Array, Range<usize>) {
    let map = array.as_map();
    let offset = |row: usize| map.value_offsets()[row] as usize;
    (map.keys().as_ref(), map.values().as_ref(), offset(row)..offset(row + 1))
}

/// An integer, or seconds since 1970.
fn integer(array: &dyn Array, row: usize) -> i128 {
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

fn number(array: &dyn Array, row: usize) -> f64 {
    match array.data_type() {
        ArrowType::Float16 => f64::from(array.as_primitive::<Float16Type>().value(row)),
        ArrowType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(row)),
        ArrowType::Float64 => array.as_primitive::<Float64Type>().value(row),
        _ => integer(array, row) as f64,
    }
}

fn integer_value(number: i128, data_type: &DataType) -> Result<DocumentValue, Error> {
    let value = match data_type {
        DataType::Byte => i8::try_from(number).map(DocumentValue::Byte),
        DataType::Int => i32::try_from(number).map(DocumentValue::Int),
        _ => i64::try_from(number).map(DocumentValue::Long),
    };
    value.map_err(|_| Error::value(format!("{number} is out of range for {data_type}")))
}

/// An angle in millionths of a degree; `None` if there is none.
fn micro_degrees(array: &dyn Array, row: usize) -> Option<i32> {
    let (array, row) = value_place(array, row)?;
    let micro = (number(array, row) * 1e6).round();
    (micro.abs() <= 360e6).then_some(micro as i32)
}

fn text(array: &dyn Array, row: usize) -> &str {
    match array.data_type() {
        ArrowType::LargeUtf8 => array.as_string::<i64>().value(row),
        ArrowType::Utf8View => array.as_string_view().value(row),
        _ => array.as_string::<i32>().value(row),
    }
}

fn bytes(array: &dyn Array, row: usize) -> &[u8] {
    match array.data_type() {
        ArrowType::LargeBinary => array.as_binary::<i64>().value(row),
        ArrowType::BinaryView => array.as_binary_view().value(row),
        ArrowType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => array.as_binary::<i32>().value(row),
    }
}

fn is_text(column: &ArrowType) -> bool {
    matches!(column, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
}

fn is_integer(column: &ArrowType) -> bool {
    column.is_integer()
}

fn is_number(column: &ArrowType) -> bool {
    is_integer(column) || matches!(column, ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64)
}

fn list_items(column: &ArrowType) -> Option<&ArrowType> {
    match column {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

fn map_types(column: &ArrowType) -> Option<[&ArrowType; 2]> {
    let ArrowType::Map(entries, _) = column else { return None };
    entry_members(entries).map(|members| members.map(|member| member.data_type()))
}

/// True if a column has the cells for one address of a tensor. Lists of lists are read from outside to
/// inside.
fn is_block(column: &ArrowType, tensor_type: &TensorType) -> bool {
    let is_number_of_map = tensor_type.mapped().count() > 0 && tensor_type.indexed().next().is_none();
    let (mut leaf, mut lists, mut size) = (column, 0, Some(1_usize));
    while let Some(items) = list_items(leaf) {
        size = match leaf {
            ArrowType::FixedSizeList(_, length) => {
                size.and_then(|size| size.checked_mul(usize::try_from(*length).ok()?))
            }
            _ => None,
        };
        (leaf, lists) = (items, lists + 1);
        if lists > DEPTH {
            return false;
        }
    }
    let is_bits = *leaf == ArrowType::UInt16 && tensor_type.cell() == CellType::BFloat16;
    (is_number(leaf) || is_bits)
        && match is_number_of_map {
            true => lists == 0,
            false => lists > 0 && size.is_none_or(|size| size == tensor_type.dense_size()),
        }
}
