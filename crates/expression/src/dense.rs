//! Patterns with dedicated kernels: sums over cells of vectors in their column layout, without creating a
//! value per vector.

use std::borrow::Cow;

use half::bf16;
use millrace_tensor::kernels::{self, KernelSum};
use millrace_tensor::{CellType, TensorCells};

use crate::value::TensorValue;

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
    /// The first argument with each vector of the second, whose other dimensions are all mapped: a tensor of
    /// sums.
    Rows,
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
}

impl<'a> CellsRef<'a> {
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
        }
    }

    /// Vector `index` of `width` cells; empty past the end.
    pub fn row(self, index: usize, width: usize) -> Self {
        fn part<T>(cells: &[T], index: usize, width: usize) -> &[T] {
            cells.get(index * width..(index + 1) * width).unwrap_or_default()
        }
        match self {
            CellsRef::Double(cells) => CellsRef::Double(part(cells, index, width)),
            CellsRef::Float(cells) => CellsRef::Float(part(cells, index, width)),
            CellsRef::BFloat16(cells) => CellsRef::BFloat16(part(cells, index, width)),
            CellsRef::Int8(cells) => CellsRef::Int8(part(cells, index, width)),
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
        }
    }

    pub fn to_f64(self) -> Vec<f64> {
        match self {
            CellsRef::Double(cells) => cells.to_vec(),
            CellsRef::Float(cells) => cells.iter().map(|cell| f64::from(*cell)).collect(),
            CellsRef::BFloat16(cells) => cells.iter().map(|cell| cell.to_f64()).collect(),
            CellsRef::Int8(cells) => cells.iter().map(|cell| f64::from(*cell)).collect(),
        }
    }
}

/// Converts the cells of a value to its cell type.
pub(crate) fn narrowed(value: &TensorValue) -> TensorCells {
    match value.tensor_type.cell() {
        CellType::Double => TensorCells::Double(value.cells.clone()),
        CellType::Float => TensorCells::Float(value.cells.iter().map(|cell| *cell as f32).collect()),
        CellType::BFloat16 => {
            TensorCells::BFloat16(value.cells.iter().map(|cell| bf16::from_f64(*cell)).collect())
        }
        CellType::Int8 => TensorCells::Int8(value.cells.iter().map(|cell| *cell as i8).collect()),
    }
}

/// Calls `$call` with both operands as slices of their own types, or `$double` if one is of type `double`,
/// which then comes first.
macro_rules! typed {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $call:expr, $double:expr) => {{
        use CellsRef::{BFloat16, Double, Float, Int8};
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
    pub fn of(self, a: CellsRef<'_>, b: CellsRef<'_>) -> f64 {
        let Some(pairs) = self.pairs() else { return hamming(a, b) };
        typed!(a, b, |x, y| kernels::sum_pairs(pairs, x, y), kernels::sum_pairs_f64(pairs, x, y))
    }

    /// Computes for each of `rows` the sum of `vector` and that row of `cells`.
    pub fn of_rows(
        self,
        vector: CellsRef<'_>,
        cells: CellsRef<'_>,
        width: usize,
        rows: &[u16],
        out: &mut [f64],
    ) {
        use CellsRef::{BFloat16, Float, Int8};
        if let Some(pairs) = self.pairs() {
            match (vector, cells) {
                (Float(x), Float(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Float(x), BFloat16(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Float(x), Int8(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (BFloat16(x), BFloat16(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                (Int8(x), Int8(y)) => return kernels::sum_rows(pairs, x, y, width, rows, out),
                _ => {}
            }
        }
        for (out, row) in out.iter_mut().zip(rows) {
            *out = self.of(vector, cells.row(usize::from(*row), width));
        }
    }
}

fn hamming(a: CellsRef<'_>, b: CellsRef<'_>) -> f64 {
    fn bytes(cells: CellsRef<'_>) -> Cow<'_, [i8]> {
        match cells {
            CellsRef::Int8(cells) => Cow::Borrowed(cells),
            other => other.to_f64().into_iter().map(|cell| cell as i8).collect(),
        }
    }
    kernels::hamming(&bytes(a), &bytes(b)) as f64
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
            CellsRef::Double(_) => None,
            CellsRef::Float(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
            CellsRef::BFloat16(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
            CellsRef::Int8(cells) => Some(kernels::MaxSimKernel::new(pairs, cells, width)),
        });
        PreparedMaxSim { sum, query, width, kernel }
    }

    /// The total for a document's vectors; 0 if it has none.
    pub fn of(&mut self, document: CellsRef<'_>) -> f64 {
        match (&mut self.kernel, document) {
            (Some(kernel), CellsRef::Float(cells)) => kernel.of(cells),
            (Some(kernel), CellsRef::BFloat16(cells)) => kernel.of(cells),
            (Some(kernel), CellsRef::Int8(cells)) => kernel.of(cells),
            _ => self.one_by_one(document),
        }
    }

    fn one_by_one(&self, document: CellsRef<'_>) -> f64 {
        let rows = document.len() / self.width;
        if rows == 0 {
            return 0.0;
        }
        let largest = |vector: CellsRef<'_>| {
            let sums = (0..rows).map(|row| self.sum.of(vector, document.row(row, self.width)));
            sums.fold(f64::NEG_INFINITY, f64::max)
        };
        (0..self.query.len() / self.width)
            .map(|at| largest(self.query.row(at, self.width)))
            .fold(0.0, std::ops::Add::add)
    }
}
