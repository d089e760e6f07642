use std::ops::Range;

use half::bf16;

use crate::{CellType, Error, TensorType};

/// Hexadecimal digits by their value.
const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Value of what is not a hexadecimal digit. The values of digits joined by "or" are less.
const NOT_HEX: u8 = 0xFF;

/// Values of hexadecimal digits in either case, by their bytes.
const HEX_VALUES: [u8; 256] = {
    let mut values = [NOT_HEX; 256];
    let mut value = 0;
    while value < HEX_DIGITS.len() {
        values[HEX_DIGITS[value] as usize] = value as u8;
        values[HEX_DIGITS[value].to_ascii_lowercase() as usize] = value as u8;
        value += 1;
    }
    values
};

/// Cells of a tensor in their storage type.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorCells {
    /// 64-bit floats.
    Double(Vec<f64>),
    /// 32-bit floats.
    Float(Vec<f32>),
    /// 16-bit floats with 8 exponent bits (bfloat16).
    BFloat16(Vec<bf16>),
    /// Signed bytes.
    Int8(Vec<i8>),
}

impl TensorCells {
    /// Creates an empty list with room for `capacity` cells.
    pub fn with_capacity(cell: CellType, capacity: usize) -> Self {
        match cell {
            CellType::Double => TensorCells::Double(Vec::with_capacity(capacity)),
            CellType::Float => TensorCells::Float(Vec::with_capacity(capacity)),
            CellType::BFloat16 => TensorCells::BFloat16(Vec::with_capacity(capacity)),
            CellType::Int8 => TensorCells::Int8(Vec::with_capacity(capacity)),
        }
    }

    /// Adds one cell, rounded to the storage type (int8 saturates).
    pub fn push(&mut self, value: f64) {
        match self {
            TensorCells::Double(cells) => cells.push(value),
            TensorCells::Float(cells) => cells.push(value as f32),
            TensorCells::BFloat16(cells) => cells.push(bf16::from_f64(value)),
            TensorCells::Int8(cells) => cells.push(value as i8),
        }
    }

    /// Adds one cell like [`TensorCells::push`]. Returns false, without adding it, if the storage type cannot
    /// represent a finite number of that size, or (int8) its fraction. For int8, the numbers from 128 to 255
    /// are those with the same bits, because such cells are often packed bits.
    pub fn try_push(&mut self, value: f64) -> bool {
        match self {
            TensorCells::Double(cells) => cells.push(value),
            TensorCells::Float(cells) => {
                let rounded = value as f32;
                if rounded.is_infinite() && value.is_finite() {
                    return false;
                }
                cells.push(rounded);
            }
            TensorCells::BFloat16(cells) => {
                let rounded = bf16::from_f32(value as f32);
                if rounded.is_infinite() && value.is_finite() {
                    return false;
                }
                cells.push(rounded);
            }
            TensorCells::Int8(cells) => {
                let bits = value as u8;
                if f64::from(bits) == value {
                    cells.push(bits as i8);
                } else if f64::from(value as i8) == value {
                    cells.push(value as i8);
                } else {
                    return false;
                }
            }
        }
        true
    }

    /// Removes all cells, and keeps their memory.
    pub fn clear(&mut self) {
        match self {
            TensorCells::Double(cells) => cells.clear(),
            TensorCells::Float(cells) => cells.clear(),
            TensorCells::BFloat16(cells) => cells.clear(),
            TensorCells::Int8(cells) => cells.clear(),
        }
    }

    /// Replaces the cell at `index`, which must be below [`TensorCells::len`]; rounds like
    /// [`TensorCells::push`].
    pub fn set(&mut self, index: usize, value: f64) {
        match self {
            TensorCells::Double(cells) => cells[index] = value,
            TensorCells::Float(cells) => cells[index] = value as f32,
            TensorCells::BFloat16(cells) => cells[index] = bf16::from_f64(value),
            TensorCells::Int8(cells) => cells[index] = value as i8,
        }
    }

    /// Adds `count` cells of 0.
    pub fn extend_zeroed(&mut self, count: usize) {
        let len = self.len() + count;
        match self {
            TensorCells::Double(cells) => cells.resize(len, 0.0),
            TensorCells::Float(cells) => cells.resize(len, 0.0),
            TensorCells::BFloat16(cells) => cells.resize(len, bf16::ZERO),
            TensorCells::Int8(cells) => cells.resize(len, 0),
        }
    }

    /// Adds a range of the cells of another list, rounded to the storage type. The range must exist.
    pub fn extend_from(&mut self, other: &TensorCells, range: Range<usize>) {
        match (self, other) {
            (TensorCells::Double(cells), TensorCells::Double(other)) => {
                cells.extend_from_slice(&other[range])
            }
            (TensorCells::Float(cells), TensorCells::Float(other)) => cells.extend_from_slice(&other[range]),
            (TensorCells::BFloat16(cells), TensorCells::BFloat16(other)) => {
                cells.extend_from_slice(&other[range]);
            }
            (TensorCells::Int8(cells), TensorCells::Int8(other)) => cells.extend_from_slice(&other[range]),
            (cells, other) => range.for_each(|at| cells.push(other.get(at))),
        }
    }

    /// Replaces the cells from `at` by `block`. Returns false, without replacing them, if the cell types
    /// differ. The cells must exist.
    pub(crate) fn overwrite(&mut self, at: usize, block: &TensorCells) -> bool {
        let range = at..at + block.len();
        match (self, block) {
            (TensorCells::Double(cells), TensorCells::Double(block)) => cells[range].copy_from_slice(block),
            (TensorCells::Float(cells), TensorCells::Float(block)) => cells[range].copy_from_slice(block),
            (TensorCells::BFloat16(cells), TensorCells::BFloat16(block)) => {
                cells[range].copy_from_slice(block)
            }
            (TensorCells::Int8(cells), TensorCells::Int8(block)) => cells[range].copy_from_slice(block),
            _ => return false,
        }
        true
    }

    /// Reads `count` cells from `digits`: the bits of each cell as hexadecimal digits, most significant
    /// first.
    ///
    /// The number of digits says of which type the cells are. They are rounded to type `cell`, but cells of
    /// int8 are read from digits of their own type alone. `None` if these are not the digits of `count`
    /// cells, or a number is out of the range of the type.
    pub(crate) fn from_hex(cell: CellType, count: usize, digits: &str) -> Option<TensorCells> {
        let written = match digits.len().checked_div(count)? {
            2 => CellType::Int8,
            4 => CellType::BFloat16,
            8 => CellType::Float,
            16 => CellType::Double,
            _ => return None,
        };
        if !digits.len().is_multiple_of(count) || cell == CellType::Int8 && written != cell {
            return None;
        }
        let mut read = TensorCells::with_capacity(written, count);
        if !read.extend_from_hex(digits) {
            return None;
        }
        if written == cell {
            return Some(read);
        }
        let mut cells = TensorCells::with_capacity(cell, count);
        (0..count).all(|index| cells.try_push(read.get(index))).then_some(cells)
    }

    /// Adds the cells given as `digits`, whose number is a multiple of the digits of a cell.
    ///
    /// Returns false, possibly after adding some cells, if they are not hexadecimal digits.
    fn extend_from_hex(&mut self, digits: &str) -> bool {
        let width = self.cell_type().size() * 2;
        for cell in digits.as_bytes().chunks_exact(width) {
            let (mut bits, mut all) = (0_u64, 0);
            for digit in cell {
                let value = HEX_VALUES[usize::from(*digit)];
                bits = bits << 4 | u64::from(value);
                all |= value;
            }
            if all == NOT_HEX {
                return false;
            }
            match self {
                TensorCells::Double(cells) => cells.push(f64::from_bits(bits)),
                TensorCells::Float(cells) => cells.push(f32::from_bits(bits as u32)),
                TensorCells::BFloat16(cells) => cells.push(bf16::from_bits(bits as u16)),
                TensorCells::Int8(cells) => cells.push(bits as u8 as i8),
            }
        }
        true
    }

    /// Copies the cells in `range`, which must be below [`TensorCells::len`].
    pub fn slice(&self, range: Range<usize>) -> TensorCells {
        match self {
            TensorCells::Double(cells) => TensorCells::Double(cells[range].to_vec()),
            TensorCells::Float(cells) => TensorCells::Float(cells[range].to_vec()),
            TensorCells::BFloat16(cells) => TensorCells::BFloat16(cells[range].to_vec()),
            TensorCells::Int8(cells) => TensorCells::Int8(cells[range].to_vec()),
        }
    }

    /// The bits of the cells in `range` as hexadecimal digits, most significant first.
    pub(crate) fn to_hex(&self, range: Range<usize>) -> String {
        fn push<const N: usize>(digits: &mut String, cells: impl Iterator<Item = [u8; N]>) {
            for byte in cells.flatten() {
                digits.push(char::from(HEX_DIGITS[usize::from(byte >> 4)]));
                digits.push(char::from(HEX_DIGITS[usize::from(byte & 0xF)]));
            }
        }
        let mut digits = String::with_capacity(range.len() * self.cell_type().size() * 2);
        match self {
            TensorCells::Double(cells) => {
                push(&mut digits, cells[range].iter().map(|cell| cell.to_bits().to_be_bytes()));
            }
            TensorCells::Float(cells) => {
                push(&mut digits, cells[range].iter().map(|cell| cell.to_bits().to_be_bytes()));
            }
            TensorCells::BFloat16(cells) => {
                push(&mut digits, cells[range].iter().map(|cell| cell.to_bits().to_be_bytes()));
            }
            TensorCells::Int8(cells) => push(&mut digits, cells[range].iter().map(|cell| cell.to_be_bytes())),
        }
        digits
    }

    /// The cell at `index`, which must be below [`TensorCells::len`].
    pub fn get(&self, index: usize) -> f64 {
        match self {
            TensorCells::Double(cells) => cells[index],
            TensorCells::Float(cells) => f64::from(cells[index]),
            TensorCells::BFloat16(cells) => cells[index].to_f64(),
            TensorCells::Int8(cells) => f64::from(cells[index]),
        }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            TensorCells::Double(cells) => cells.len(),
            TensorCells::Float(cells) => cells.len(),
            TensorCells::BFloat16(cells) => cells.len(),
            TensorCells::Int8(cells) => cells.len(),
        }
    }

    /// True if there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The storage type.
    pub const fn cell_type(&self) -> CellType {
        match self {
            TensorCells::Double(_) => CellType::Double,
            TensorCells::Float(_) => CellType::Float,
            TensorCells::BFloat16(_) => CellType::BFloat16,
            TensorCells::Int8(_) => CellType::Int8,
        }
    }

    /// The cells as little-endian bytes, as in memory and on disk.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            TensorCells::Double(cells) => bytemuck::cast_slice(cells),
            TensorCells::Float(cells) => bytemuck::cast_slice(cells),
            TensorCells::BFloat16(cells) => bytemuck::cast_slice(cells),
            TensorCells::Int8(cells) => bytemuck::cast_slice(cells),
        }
    }

    /// Creates cells from little-endian bytes; a trailing part of a cell is dropped.
    pub fn from_bytes(cell: CellType, bytes: &[u8]) -> Self {
        /// Copies cells from bytes. Columns are read without conversion on the same kind of machine, so all
        /// of them store the lowest byte first.
        fn copied<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
            const { assert!(cfg!(target_endian = "little"), "cells lie in columns as this machine has them") };
            bytemuck::pod_collect_to_vec(&bytes[..bytes.len() / size_of::<T>() * size_of::<T>()])
        }
        match cell {
            CellType::Double => TensorCells::Double(copied(bytes)),
            CellType::Float => TensorCells::Float(copied(bytes)),
            CellType::BFloat16 => TensorCells::BFloat16(copied(bytes)),
            CellType::Int8 => TensorCells::Int8(copied(bytes)),
        }
    }

    /// All cells widened to `f64`.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// A tensor value: a type, the labels of its dense subspaces, and their cells.
///
/// - `labels` holds, subspace after subspace, one label for each mapped dimension in the type's order.
/// - `cells` holds `subspaces() × type.dense_size()` cells.
/// - A dense tensor or a scalar has exactly one subspace and no labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    tensor_type: TensorType,
    labels: Vec<String>,
    cells: TensorCells,
}

impl Tensor {
    /// Creates a tensor from its parts.
    ///
    /// # Errors
    /// The number of labels or cells, or the storage type, does not fit the type; or a dense value does not
    /// have exactly one subspace.
    pub fn new(tensor_type: TensorType, labels: Vec<String>, cells: TensorCells) -> Result<Self, Error> {
        let mapped = tensor_type.mapped().count();
        let dense = tensor_type.dense_size();
        let fail = |reason: String| Error::Value { tensor_type: tensor_type.to_string(), reason };
        if cells.cell_type() != tensor_type.cell() {
            return Err(fail(format!("cells are {}", cells.cell_type().name())));
        }
        if mapped == 0 && cells.len() != dense {
            return Err(fail(format!("expected {dense} cells, got {}", cells.len())));
        }
        if mapped > 0
            && (!labels.len().is_multiple_of(mapped) || labels.len() / mapped * dense != cells.len())
        {
            return Err(fail(format!("{} labels do not fit {} cells", labels.len(), cells.len())));
        }
        if mapped == 0 && !labels.is_empty() {
            return Err(fail("labels given, but no dimension is mapped".to_owned()));
        }
        Ok(Tensor { tensor_type, labels, cells })
    }

    /// A plain number.
    pub fn scalar(value: f64) -> Self {
        Tensor {
            tensor_type: TensorType::scalar(),
            labels: Vec::new(),
            cells: TensorCells::Double(vec![value]),
        }
    }

    /// The type.
    pub const fn tensor_type(&self) -> &TensorType {
        &self.tensor_type
    }

    /// Cells of all subspaces, concatenated.
    pub const fn cells(&self) -> &TensorCells {
        &self.cells
    }

    /// Labels of subspace `index`, one per mapped dimension.
    pub fn labels(&self, index: usize) -> &[String] {
        let mapped = self.tensor_type.mapped().count();
        &self.labels[index * mapped..(index + 1) * mapped]
    }

    /// Labels of all subspaces, concatenated.
    pub fn all_labels(&self) -> &[String] {
        &self.labels
    }

    /// Memory that it takes, in bytes, without what allocations round up to.
    pub fn memory_bytes(&self) -> usize {
        let labels = self.labels.iter().map(|label| size_of_val(label) + label.len());
        size_of::<Self>() + self.cells.as_bytes().len() + labels.sum::<usize>()
    }

    /// The number of dense subspaces.
    pub fn subspaces(&self) -> usize {
        self.cells.len() / self.tensor_type.dense_size()
    }
}
