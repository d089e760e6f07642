//! Patterns with dedicated kernels: sums over cells of vectors in their column layout, without creating a
//! value per vector.

use std::borrow::Cow;

use half::bf16;
use millrace_tensor::kernels::{self, KernelSum};
use millrace_tensor::{CellType, TensorCells};

use crate::operators::ReduceAggregator;

/// A pattern. Both arguments are vectors, or tensors of vectors along one common innermost dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DensePattern {
    pub sum: PairSum,
    pub shape: SumShape,
    /// Number of cells per vector.
    pub width: usize,
}

/// Term of the sum over pairs of cells of two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairSum {
    Product,
    SquaredDifference,
    /// Number of differing bits.
    Hamming,
}

/// Combination of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SumShape {
    /// One sum.
    Vectors,
    /// The first argument with each vector of the second: a tensor of sums.
    Rows,
    /// `Rows`, whose sums, rounded to the type of cells, are combined to a number.
    Reduced(ReduceAggregator, CellType),
    /// For each vector of the first argument the largest sum with a vector of the second; the total of these.
    MaxSim,
}

/// Cells in their storage type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CellsRef<'a> {
    Double(&'a [f64]),
    Float(&'a [f32]),
    BFloat16(&'a [bf16]),
    Int8(&'a [i8]),
    /// Doubles as bytes, which need not be aligned.
    DoubleBytes(&'a [[u8; 8]]),
    FloatBytes(&'a [[u8; 4]]),
    BFloat16Bytes(&'a [[u8; 2]]),
}

impl<'a> CellsRef<'a> {
    /// Cells in their stored form; a trailing part of a cell is dropped.
    pub fn of_bytes(cell: CellType, bytes: &'a [u8]) -> Self {
        match cell {
            CellType::Double => CellsRef::DoubleBytes(bytes.as_chunks().0),
            CellType::Float => CellsRef::FloatBytes(bytes.as_chunks().0),
            CellType::BFloat16 => CellsRef::BFloat16Bytes(bytes.as_chunks().0),
            CellType::Int8 => CellsRef::Int8(bytemuck::cast_slice(bytes)),
        }
    }

    pub fn of(cells: &'a TensorCells) -> Self {
        match cells {
            TensorCells::Double(cells) => CellsRef::Double(cells),
            TensorCells::Float(cells) => CellsRef::Float(cells),
            TensorCells::BFloat16(cells) => CellsRef::BFloat16(cells),
            TensorCells::Int8(cells) => CellsRef::Int8(cells),
        }
    }

    pub fn len(self) -> usize {
        match self {
            CellsRef::Double(cells) => cells.len(),
            CellsRef::Float(cells) => cells.len(),
            CellsRef::BFloat16(cells) => cells.len(),
            CellsRef::Int8(cells) => cells.len(),
            CellsRef::DoubleBytes(cells) => cells.len(),
            CellsRef::FloatBytes(cells) => cells.len(),
            CellsRef::BFloat16Bytes(cells) => cells.len(),
        }
    }

    /// Vector `index` of `width` cells; empty past the end.
    pub fn row(self, index: usize, width: usize) -> Self {
        self.part(index * width, width)
    }

    /// Cells, `count` of them from `from` on; none if some are past the end.
    pub fn part(self, from: usize, count: usize) -> Self {
        fn part<T>(cells: &[T], from: usize, count: usize) -> &[T] {
            cells.get(from..from + count).unwrap_or_default()
        }
        match self {
            CellsRef::Double(cells) => CellsRef::Double(part(cells, from, count)),
            CellsRef::Float(cells) => CellsRef::Float(part(cells, from, count)),
            CellsRef::BFloat16(cells) => CellsRef::BFloat16(part(cells, from, count)),
            CellsRef::Int8(cells) => CellsRef::Int8(part(cells, from, count)),
            CellsRef::DoubleBytes(cells) => CellsRef::DoubleBytes(part(cells, from, count)),
            CellsRef::FloatBytes(cells) => CellsRef::FloatBytes(part(cells, from, count)),
            CellsRef::BFloat16Bytes(cells) => CellsRef::BFloat16Bytes(part(cells, from, count)),
        }
    }

    /// Copies the cells to the beginning of `out`.
    pub fn write(self, out: &mut [f64]) {
        fn copy<T: Copy>(cells: &[T], out: &mut [f64], number: impl Fn(T) -> f64) {
            out.iter_mut().zip(cells).for_each(|(out, cell)| *out = number(*cell));
        }
        match self {
            CellsRef::Double(cells) => copy(cells, out, |cell| cell),
            CellsRef::Float(cells) => copy(cells, out, f64::from),
            CellsRef::BFloat16(cells) => copy(cells, out, f64::from),
            CellsRef::Int8(cells) => copy(cells, out, f64::from),
            CellsRef::DoubleBytes(cells) => copy(cells, out, f64::from_le_bytes),
            CellsRef::FloatBytes(cells) => copy(cells, out, |cell| f64::from(f32::from_le_bytes(cell))),
            CellsRef::BFloat16Bytes(cells) => copy(cells, out, |cell| f64::from(bf16::from_le_bytes(cell))),
        }
    }

    /// Appends the cells to `out`.
    pub fn append(self, out: &mut Vec<f64>) {
        match self {
            CellsRef::Double(cells) => out.extend_from_slice(cells),
            CellsRef::Float(cells) => out.extend(cells.iter().map(|cell| f64::from(*cell))),
            CellsRef::BFloat16(cells) => out.extend(cells.iter().map(|cell| f64::from(*cell))),
            CellsRef::Int8(cells) => out.extend(cells.iter().map(|cell| f64::from(*cell))),
            CellsRef::DoubleBytes(cells) => out.extend(cells.iter().map(|cell| f64::from_le_bytes(*cell))),
            CellsRef::FloatBytes(cells) => {
                out.extend(cells.iter().map(|cell| f64::from(f32::from_le_bytes(*cell))));
            }
            CellsRef::BFloat16Bytes(cells) => {
                out.extend(cells.iter().map(|cell| f64::from(bf16::from_le_bytes(*cell))));
            }
        }
    }

    /// Appends the vectors of `width` cells at these indices to `out`; zeros for one past the end.
    pub fn append_rows(self, rows: &[u16], width: usize, out: &mut Vec<f64>) {
        // Nearly always the documents are adjacent.
        for adjacent in rows.chunk_by(|row, next| row.checked_add(1) == Some(*next)) {
            let (from, count) = (usize::from(adjacent[0]) * width, adjacent.len() * width);
            let end = out.len() + count;
            let there = self.len().saturating_sub(from) / width * width;
            self.part(from, count.min(there)).append(out);
            out.resize(end, 0.0);
        }
    }

    /// Appends the cells at these indices to `out`; 0 for one past the end.
    pub fn append_at(self, indices: impl Iterator<Item = usize>, out: &mut Vec<f64>) {
        fn copy<T: Copy>(
            cells: &[T],
            indices: impl Iterator<Item = usize>,
            out: &mut Vec<f64>,
            number: impl Fn(T) -> f64,
        ) {
            out.extend(indices.map(|index| cells.get(index).map_or(0.0, |cell| number(*cell))));
        }
        match self {
            CellsRef::Double(cells) => copy(cells, indices, out, |cell| cell),
            CellsRef::Float(cells) => copy(cells, indices, out, f64::from),
            CellsRef::BFloat16(cells) => copy(cells, indices, out, f64::from),
            CellsRef::Int8(cells) => copy(cells, indices, out, f64::from),
            CellsRef::DoubleBytes(cells) => copy(cells, indices, out, f64::from_le_bytes),
            CellsRef::FloatBytes(cells) => {
                copy(cells, indices, out, |cell| f64::from(f32::from_le_bytes(cell)));
            }
            CellsRef::BFloat16Bytes(cells) => {
                copy(cells, indices, out, |cell| f64::from(bf16::from_le_bytes(cell)));
            }
        }
    }

    pub fn to_f64(self) -> Vec<f64> {
        let mut cells = Vec::new();
        self.append(&mut cells);
        cells
    }

    /// The cells, each cut to a signed byte.
    pub fn to_int8(self) -> Cow<'a, [i8]> {
        match self {
            CellsRef::Int8(cells) => Cow::Borrowed(cells),
            other => other.to_f64().into_iter().map(|cell| cell as i8).collect(),
        }
    }
}

/// Converts cells to a cell type.
pub(crate) fn narrowed(cells: &[f64], cell: CellType) -> TensorCells {
    match cell {
        CellType::Double => TensorCells::Double(cells.to_vec()),
        CellType::Float => TensorCells::Float(cells.iter().map(|cell| *cell as f32).collect()),
        CellType::BFloat16 => TensorCells::BFloat16(cells.iter().map(|cell| bf16::from_f64(*cell)).collect()),
        CellType::Int8 => TensorCells::Int8(cells.iter().map(|cell| *cell as i8).collect()),
    }
}

/// Reusable buffers for computed cells in the type of their tensor.
///
/// Kernels choose their precision by the types of cells. So computed cells have to be narrowed first: the
/// same expression then has the same result, be its operands computed for one document or for many.
#[derive(Default)]
pub(crate) struct NarrowedCells {
    floats: Vec<f32>,
    brains: Vec<bf16>,
    bytes: Vec<i8>,
}

impl NarrowedCells {
    /// Converts cells to a cell type.
    pub fn narrow<'b>(&'b mut self, cells: &'b [f64], cell: CellType) -> CellsRef<'b> {
        fn fill<T>(buffer: &mut Vec<T>, cells: &[f64], narrow: impl Fn(f64) -> T) {
            buffer.clear();
            buffer.extend(cells.iter().map(|cell| narrow(*cell)));
        }
        match cell {
            CellType::Double => return CellsRef::Double(cells),
            CellType::Float => fill(&mut self.floats, cells, |cell| cell as f32),
            CellType::BFloat16 => fill(&mut self.brains, cells, bf16::from_f64),
            CellType::Int8 => fill(&mut self.bytes, cells, |cell| cell as i8),
        }
        match cell {
            CellType::Double => CellsRef::Double(cells),
            CellType::Float => CellsRef::Float(&self.floats),
            CellType::BFloat16 => CellsRef::BFloat16(&self.brains),
            CellType::Int8 => CellsRef::Int8(&self.bytes),
        }
    }
}

/// Calls `$call` with both operands as slices of their own types, or `$double` if one is of type `double`,
/// which then comes first.
macro_rules! typed {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $call:expr, $double:expr) => {{
        use CellsRef::{BFloat16, BFloat16Bytes, Double, DoubleBytes, Float, FloatBytes, Int8};
        match ($a, $b) {
            (Double($x), Double($y)) => $double,
            (Double($x), Float($y)) | (Float($y), Double($x)) => $double,
            (Double($x), BFloat16($y)) | (BFloat16($y), Double($x)) => $double,
            (Double($x), Int8($y)) | (Int8($y), Double($x)) => $double,
            (Float($x), Float($y)) => $call,
            (Float($x), BFloat16($y)) | (BFloat16($y), Float($x)) => $call,
            (Float($x), Int8($y)) | (Int8($y), Float($x)) => $call,
            (BFloat16($x), BFloat16($y)) => $call,
            (BFloat16($x), Int8($y)) | (Int8($y), BFloat16($x)) => $call,
            (Int8($x), Int8($y)) => $call,
            (Double($x), DoubleBytes($y)) | (DoubleBytes($y), Double($x)) => $double,
            (Double($x), FloatBytes($y)) | (FloatBytes($y), Double($x)) => $double,
            (Double($x), BFloat16Bytes($y)) | (BFloat16Bytes($y), Double($x)) => $double,
            (Float($x), FloatBytes($y)) | (FloatBytes($y), Float($x)) => $call,
            (Float($x), BFloat16Bytes($y)) | (BFloat16Bytes($y), Float($x)) => $call,
            (BFloat16($x), FloatBytes($y)) | (FloatBytes($y), BFloat16($x)) => $call,
            (BFloat16($x), BFloat16Bytes($y)) | (BFloat16Bytes($y), BFloat16($x)) => $call,
            (Int8($x), FloatBytes($y)) | (FloatBytes($y), Int8($x)) => $call,
            (Int8($x), BFloat16Bytes($y)) | (BFloat16Bytes($y), Int8($x)) => $call,
            (FloatBytes($x), FloatBytes($y)) => $call,
            (FloatBytes($x), BFloat16Bytes($y)) | (BFloat16Bytes($y), FloatBytes($x)) => $call,
            (BFloat16Bytes($x), BFloat16Bytes($y)) => $call,
            (left, right) => {
                let ($x, $y) = (&left.to_f64()[..], &right.to_f64()[..]);
                $double
            }
        }
    }};
}

impl PairSum {
    const fn pairs(self) -> Option<KernelSum> {
        match self {
            PairSum::Product => Some(KernelSum::Product),
            PairSum::SquaredDifference => Some(KernelSum::SquaredDifference),
            PairSum::Hamming => None,
        }
    }

    /// Sum over the pairs of cells of two vectors.
    pub fn apply(self, a: CellsRef<'_>, b: CellsRef<'_>) -> f64 {
        let Some(pairs) = self.pairs() else { return hamming(a, b) };
        typed!(a, b, |x, y| kernels::sum_pairs(pairs, x, y), kernels::sum_pairs_f64(pairs, x, y))
    }

    /// Computes for each of `rows` the sum of `vector` and that row of `cells`.
    pub fn apply_to_rows(
        self,
        vector: CellsRef<'_>,
        cells: CellsRef<'_>,
        width: usize,
        rows: &[u16],
        out: &mut [f64],
    ) {
        use CellsRef::{BFloat16, BFloat16Bytes, Double, DoubleBytes, Float, FloatBytes, Int8};
        if let Some(pairs) = self.pairs() {
            match (vector, cells) {
                (Float(x), Float(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Float(x), BFloat16(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Float(x), Int8(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (BFloat16(x), BFloat16(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Int8(x), Int8(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Float(x), FloatBytes(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Float(x), BFloat16Bytes(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (BFloat16(x), BFloat16Bytes(y)) => {
                    return kernels::sum_rows(pairs, x, y, width, rows, out);
                }
                (Int8(x), Float(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (FloatBytes(x), Float(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (BFloat16Bytes(x), Float(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                _ => {}
            }
        }
        // The vector is converted once, not for each row.
        let (doubles, bytes);
        let vector = match (self, vector, cells) {
            (PairSum::Hamming, ..) => {
                bytes = vector.to_int8();
                Int8(&bytes)
            }
            (_, Double(_), _) => vector,
            (_, DoubleBytes(_), _) | (_, _, Double(_) | DoubleBytes(_)) => {
                doubles = vector.to_f64();
                Double(&doubles)
            }
            _ => vector,
        };
        for (out, row) in out.iter_mut().zip(rows) {
            *out = self.apply(vector, cells.row(usize::from(*row), width));
        }
    }
}

/// Largest number of rows of one call of a kernel, which numbers rows with 16 bits.
const ROWS_AT_ONCE: usize = 1 << 15;

impl PairSum {
    /// Sums of `vector` and all vectors of `cells`. `numbers` is a reusable list of row numbers.
    pub fn apply_to_all(
        self,
        vector: CellsRef<'_>,
        cells: CellsRef<'_>,
        width: usize,
        numbers: &mut Vec<u16>,
        out: &mut Vec<f64>,
    ) {
        let count = cells.len() / width;
        out.clear();
        out.resize(count, 0.0);
        for (block, out) in out.chunks_mut(ROWS_AT_ONCE).enumerate() {
            if numbers.len() < out.len() {
                numbers.extend(numbers.len() as u16..out.len() as u16);
            }
            let cells = cells.part(block * ROWS_AT_ONCE * width, out.len() * width);
            self.apply_to_rows(vector, cells, width, &numbers[..out.len()], out);
        }
    }
}

fn hamming(a: CellsRef<'_>, b: CellsRef<'_>) -> f64 {
    let a = a.to_int8();
    let bits = match b {
        CellsRef::Int8(b) => kernels::hamming(&a, b),
        CellsRef::Double(b) => kernels::hamming_of_cells(&a, b),
        CellsRef::Float(b) => kernels::hamming_of_cells(&a, b),
        CellsRef::BFloat16(b) => kernels::hamming_of_cells(&a, b),
        CellsRef::DoubleBytes(b) => kernels::hamming_of_cells(&a, b),
        CellsRef::FloatBytes(b) => kernels::hamming_of_cells(&a, b),
        CellsRef::BFloat16Bytes(b) => kernels::hamming_of_cells(&a, b),
    };
    bits as f64
}

/// Query vectors prepared for comparison with the vectors of many documents: for each the largest sum with a
/// document vector, added up.
pub(crate) struct PreparedMaxSim<'a> {
    sum: PairSum,
    query: CellsRef<'a>,
    width: usize,
    /// Kernel, if this kind of sum has one.
    kernel: Option<kernels::MaxSimKernel>,
}

impl<'a> PreparedMaxSim<'a> {
    pub fn new(sum: PairSum, query: CellsRef<'a>, width: usize) -> Self {
        let kernel = sum.pairs().and_then(|pairs| match query {
            CellsRef::Double(_) | CellsRef::DoubleBytes(_) => None,
            CellsRef::FloatBytes(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
            CellsRef::BFloat16Bytes(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
            CellsRef::Float(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
            CellsRef::BFloat16(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
            CellsRef::Int8(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
        });
        PreparedMaxSim { sum, query, width, kernel }
    }

    /// The total for a document's vectors; 0 if it has none.
    pub fn score(&mut self, document: CellsRef<'_>) -> f64 {
        match (&mut self.kernel, document) {
            (Some(kernel), CellsRef::Float(cells)) => kernel.of(cells),
            (Some(kernel), CellsRef::BFloat16(cells)) => kernel.of(cells),
            (Some(kernel), CellsRef::Int8(cells)) => kernel.of(cells),
            (Some(kernel), CellsRef::FloatBytes(cells)) => kernel.of(cells),
            (Some(kernel), CellsRef::BFloat16Bytes(cells)) => kernel.of(cells),
            _ => self.one_by_one(document),
        }
    }

    fn one_by_one(&self, document: CellsRef<'_>) -> f64 {
        if document.len() < self.width {
            return 0.0;
        }
        let (mut numbers, mut sums) = (Vec::new(), Vec::new());
        let mut largest = |vector: CellsRef<'_>| {
            self.sum.apply_to_all(vector, document, self.width, &mut numbers, &mut sums);
            sums.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        };
        (0..self.query.len() / self.width)
            .map(|at| largest(self.query.row(at, self.width)))
            .fold(0.0, std::ops::Add::add)
    }
}
