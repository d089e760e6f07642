//! Cells of Arrow columns as tensors.

use std::ops::Range;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int8Type, UInt16Type};
use arrow_schema::DataType as ArrowType;
use half::bf16;
use millrace_tensor::{CellType, Tensor, TensorBuilder, TensorCells, TensorType};

use crate::Error;
use crate::arrow::{
    entries, is_label, is_number, is_text, items, list_items, list_range, map_types, name_of, number, text,
    value_place,
};
use crate::cell::DEPTH;
use crate::column::cells_member;
use crate::size::RowSize;

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
    /// The reader of an Arrow type; `None` if it has no tensors of this type.
    pub(crate) fn new(column: &ArrowType, tensor_type: &TensorType) -> Option<Self> {
        let form = TensorForm::new(column, tensor_type)?;
        Some(TensorReader { tensor_type: tensor_type.clone(), form })
    }

    /// Memory of the cells of one address, in bytes.
    fn block_bytes(&self) -> usize {
        self.tensor_type.dense_size().saturating_mul(self.tensor_type.cell().size())
    }

    /// Size of the cells and labels in a row.
    pub(crate) fn size(&self, array: &dyn Array, row: usize) -> RowSize {
        let (addresses, texts) = match &self.form {
            TensorForm::Cells => return RowSize::bytes(self.block_bytes()),
            TensorForm::Labels => {
                let (keys, _, range) = entries(array, row);
                (range.len(), range.map(|at| label_bytes(keys, at)).fold(0, usize::saturating_add))
            }
            TensorForm::Numbered => {
                let count = items(array, row).1.len();
                (count, count.saturating_mul(NUMBER_DIGITS))
            }
            TensorForm::Addresses { labels, .. } => {
                let (items, range) = items(array, row);
                let columns = items.as_struct();
                let texts = range.clone().flat_map(|at| {
                    labels.iter().map(move |member| label_bytes(columns.column(*member).as_ref(), at))
                });
                (range.len(), texts.fold(0, usize::saturating_add))
            }
        };
        let labels = size_of::<String>().saturating_mul(self.tensor_type.mapped().count());
        let address = RowSize::bytes(self.block_bytes()) + RowSize { memory: labels, content: 0 };
        address.times(addresses) + RowSize::bytes(texts)
    }

    /// The tensor in a row.
    ///
    /// # Errors
    /// A label or a cell is missing, or is not one of the type.
    pub(crate) fn read(&self, array: &dyn Array, row: usize) -> Result<Tensor, Error> {
        let failed = |error: millrace_tensor::Error| Error::value(error.to_string());
        let mut block = TensorCells::with_capacity(self.tensor_type.cell(), self.tensor_type.dense_size());
        if let TensorForm::Cells = self.form {
            self.block(array, row, &mut block)?;
            return Tensor::new(self.tensor_type.clone(), Vec::new(), block).map_err(failed);
        }
        let mut tensor = TensorBuilder::new(&self.tensor_type);
        let mut add = |labels: Vec<String>, cells: &dyn Array, at: usize| {
            block.clear();
            self.block(cells, at, &mut block)?;
            tensor.block(labels, &block).map_err(failed)
        };
        match &self.form {
            TensorForm::Cells => unreachable!("the cells of a dense tensor were read"),
            TensorForm::Labels => {
                let (keys, values, mut range) = entries(array, row);
                range.try_for_each(|at| add(vec![label(keys, at)?], values, at))?;
            }
            TensorForm::Numbered => {
                let (items, range) = items(array, row);
                range.enumerate().try_for_each(|(number, at)| add(vec![number.to_string()], items, at))?;
            }
            TensorForm::Addresses { labels: members, cells } => {
                let (items, mut range) = items(array, row);
                let columns = items.as_struct();
                range.try_for_each(|at| {
                    if items.is_null(at) {
                        return Err(Error::value("an address is null"));
                    }
                    let labels = members.iter().map(|member| label(columns.column(*member).as_ref(), at));
                    add(labels.collect::<Result<_, _>>()?, columns.column(*cells).as_ref(), at)
                })?;
            }
        }
        Ok(tensor.finish())
    }

    /// Adds the cells of one address.
    fn block(&self, array: &dyn Array, row: usize, cells: &mut TensorCells) -> Result<(), Error> {
        let (mut array, mut range) = (array, row..row + 1);
        let is_nested = list_items(array.data_type()).is_some_and(|items| list_items(items).is_some());
        let mut dimensions = self.tensor_type.indexed().filter(|_| is_nested);
        loop {
            if has_null(array, &range) {
                return Err(Error::value("a cell of the tensor is null"));
            }
            if list_items(array.data_type()).is_none() {
                break;
            }
            if let Some((dimension, size)) = dimensions.next()
                && let Some(other) =
                    range.clone().map(|row| items(array, row).1.len()).find(|len| *len != size)
            {
                let reason = format!("a list of {other} where {} has {dimension}[{size}]", self.tensor_type);
                return Err(Error::value(reason));
            }
            (array, range) = list_range(array, range);
        }
        let dense = self.tensor_type.dense_size();
        if range.len() != dense {
            return Err(Error::value(format!("{} cells; {} has {dense}", range.len(), self.tensor_type)));
        }
        push_cells(array, range, cells)
            .map_err(|number| Error::value(format!("{number:?} is out of range for {}", self.tensor_type)))
    }
}

/// True if one of consecutive rows has no value.
fn has_null(array: &dyn Array, range: &Range<usize>) -> bool {
    array.nulls().is_some_and(|nulls| nulls.slice(range.start, range.len()).null_count() > 0)
}

/// Adds numbers to the cells of a tensor. Returns the first that the cells cannot represent.
fn push_cells(array: &dyn Array, range: Range<usize>, cells: &mut TensorCells) -> Result<(), f64> {
    // Those of the same type are copied, and the usual vectors for cells of 16 bits are rounded in a loop
    // without branches.
    match (array.data_type(), &mut *cells) {
        (ArrowType::Float32, TensorCells::Float(cells)) => {
            cells.extend_from_slice(&array.as_primitive::<Float32Type>().values()[range]);
            return Ok(());
        }
        (ArrowType::Float64, TensorCells::Double(cells)) => {
            cells.extend_from_slice(&array.as_primitive::<Float64Type>().values()[range]);
            return Ok(());
        }
        (ArrowType::Int8, TensorCells::Int8(cells)) => {
            cells.extend_from_slice(&array.as_primitive::<Int8Type>().values()[range]);
            return Ok(());
        }
        // The bits of a bfloat16 are the upper half of those of a float.
        (ArrowType::UInt16, TensorCells::BFloat16(cells)) => {
            let bits = &array.as_primitive::<UInt16Type>().values()[range];
            cells.extend(bits.iter().map(|bits| bf16::from_bits(*bits)));
            return Ok(());
        }
        (ArrowType::Float32, TensorCells::BFloat16(cells)) => {
            let numbers = &array.as_primitive::<Float32Type>().values()[range];
            let from = cells.len();
            cells.extend(numbers.iter().map(|number| bf16::from_f32(*number)));
            let is_beyond = |(cell, number): &(&bf16, &f32)| cell.is_infinite() && number.is_finite();
            return match cells[from..].iter().zip(numbers).find(is_beyond) {
                Some((_, number)) => Err(f64::from(*number)),
                None => Ok(()),
            };
        }
        _ => {}
    }
    range.into_iter().try_for_each(|at| {
        let number = number(array, at);
        if cells.try_push(number) { Ok(()) } else { Err(number) }
    })
}

/// Digits of the largest label of a list.
const NUMBER_DIGITS: usize = 10;

/// Length of a label in bytes; of an integer, that of the longest.
fn label_bytes(array: &dyn Array, row: usize) -> usize {
    match value_place(array, row) {
        Some((array, row)) if is_text(array.data_type()) => text(array, row).len(),
        Some(_) => 2 * NUMBER_DIGITS,
        None => 0,
    }
}

/// Label of an address: text, or an integer as text.
fn label(array: &dyn Array, row: usize) -> Result<String, Error> {
    name_of(array, row).ok_or_else(|| Error::value("a label is null"))
}

/// True if a column has the cells for one address of a tensor: a list of all of them, or lists of lists with
/// a level for each dimension, which are read from outside to inside.
fn is_block(column: &ArrowType, tensor_type: &TensorType) -> bool {
    let is_number_of_map = tensor_type.mapped().count() > 0 && tensor_type.indexed().next().is_none();
    // The size of each level, if it is fixed.
    let (mut leaf, mut levels) = (column, Vec::new());
    while let Some(items) = list_items(leaf) {
        levels.push(match leaf {
            ArrowType::FixedSizeList(_, length) => Some(*length),
            _ => None,
        });
        leaf = items;
        if levels.len() > DEPTH {
            return false;
        }
    }
    let is_bits = *leaf == ArrowType::UInt16 && tensor_type.cell() == CellType::BFloat16;
    let fits =
        |level: Option<i32>, size: usize| level.is_none_or(|length| usize::try_from(length) == Ok(size));
    (is_number(leaf) || is_bits)
        && match &levels[..] {
            [] => is_number_of_map,
            _ if is_number_of_map => false,
            [level] => fits(*level, tensor_type.dense_size()),
            levels => {
                levels.len() == tensor_type.indexed().count()
                    && levels.iter().zip(tensor_type.indexed()).all(|(level, (_, size))| fits(*level, size))
            }
        }
}
