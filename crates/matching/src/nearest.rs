//! Exact distances between a query vector and the vectors of documents, and selection of the smallest ones.

use std::collections::BinaryHeap;

use bytemuck::Pod;
use half::bf16;
use millrace_column::{BytesColumn, CellKind, Column, ExecutionPaths, FixedColumn};
use millrace_document::{DataType, DocumentValue, EncodedTensorType};
use millrace_schema::DistanceMetric;
use millrace_tensor::kernels::{self, KernelCell, KernelSum, WidenCell};
use millrace_tensor::{CellType, Tensor, TensorCells, TensorType};

use crate::geo::GeoCentre;
use crate::kernels::Bfloat16Query;

/// A query vector, in a representation that rounds none of its cells.
enum QueryVector {
    /// The cells, also split for rows of bfloat16 numbers if that is faster.
    Single(Vec<f32>, Option<Bfloat16Query>),
    Double,
    /// Bits packed into bytes.
    Bits(Vec<i8>),
    /// A position in degrees.
    Place(GeoCentre),
}

/// Target of a nearest-neighbour leaf.
pub(crate) struct NearestLeaf {
    query: QueryVector,
    /// Cells of the query as 64-bit floats, for documents with such cells.
    doubles: Vec<f64>,
    /// Squared length of the query vector.
    square: f64,
    metric: DistanceMetric,
    threshold: f64,
}

impl NearestLeaf {
    pub(crate) fn new(target: &Tensor, metric: DistanceMetric, threshold: Option<f64>) -> Self {
        let doubles: Vec<f64> = target.cells().iter().collect();
        let query = match (metric, target.cells()) {
            (DistanceMetric::GeoDegrees, _) => QueryVector::Place(GeoCentre::new(
                doubles.first().copied().unwrap_or_default(),
                doubles.get(1).copied().unwrap_or_default(),
            )),
            (DistanceMetric::Hamming, _) => {
                QueryVector::Bits(doubles.iter().map(|cell| *cell as i8).collect())
            }
            (_, TensorCells::Double(cells)) if cells.iter().any(|cell| f64::from(*cell as f32) != *cell) => {
                QueryVector::Double
            }
            _ => {
                let cells: Vec<f32> = doubles.iter().map(|cell| *cell as f32).collect();
                let split = Bfloat16Query::is_fast().then(|| Bfloat16Query::new(&cells));
                QueryVector::Single(cells, split)
            }
        };
        let square = doubles.iter().map(|cell| cell * cell).sum();
        NearestLeaf { query, doubles, square, metric, threshold: threshold.unwrap_or(f64::INFINITY) }
    }

    /// Maximum distance of a match.
    pub(crate) fn reach(&self) -> f64 {
        self.threshold
    }

    /// Distances of the documents `rows` of a column, in that order; infinite without a vector, or for a
    /// vector of another size.
    pub(crate) fn distances(
        &self,
        column: &Column,
        data_type: &DataType,
        rows: &[u16],
        paths: ExecutionPaths,
    ) -> Vec<f64> {
        let mut distances = vec![f64::INFINITY; rows.len()];
        match column {
            Column::Fixed(column) if column.width() == self.doubles.len() => {
                self.dense(column, rows, &mut distances);
                let presence = column.presence();
                for (distance, row) in distances.iter_mut().zip(rows) {
                    if distance.is_nan() || !presence.get(usize::from(*row)) {
                        *distance = f64::INFINITY;
                    }
                }
            }
            Column::Bytes(column) if paths.is_fast() => {
                if let DataType::Tensor(tensor_type) = data_type {
                    self.encoded(column, tensor_type, rows, &mut distances);
                }
            }
            Column::Bytes(_) => {
                for (distance, row) in distances.iter_mut().zip(rows) {
                    if let Some(DocumentValue::Tensor(tensor)) =
                        millrace_column::value(column, data_type, usize::from(*row))
                    {
                        *distance = self.best_subspace(&tensor);
                    }
                }
            }
            Column::Fixed(_) | Column::Tokens(_) => {}
        }
        distances
    }

    fn dense(&self, column: &FixedColumn, rows: &[u16], distances: &mut [f64]) {
        let mut squares = Vec::new();
        match column.cell() {
            CellKind::F32 => self.rows::<f32>(column.cells(), rows, distances, &mut squares),
            CellKind::BF16 => self.rows::<bf16>(column.cells(), rows, distances, &mut squares),
            CellKind::I8 => self.rows::<i8>(column.cells(), rows, distances, &mut squares),
            CellKind::F64 => self.double_rows::<f64>(column.cells(), rows, distances),
            CellKind::Bool | CellKind::I32 | CellKind::I64 | CellKind::U64 => {}
        }
    }

    /// Writes the distance of each of `rows` of the matrix `cells`. `squares` is a reusable buffer.
    fn rows<C: VectorCell>(&self, cells: &[C], rows: &[u16], distances: &mut [f64], squares: &mut Vec<f64>) {
        let width = self.doubles.len();
        match (&self.query, C::bits(cells)) {
            (QueryVector::Single(query, _), _) if self.metric == DistanceMetric::Angular => {
                squares.resize(rows.len().max(squares.len()), 0.0);
                kernels::product_and_square_rows(query, cells, width, rows, distances, squares);
                for (distance, square) in distances.iter_mut().zip(squares) {
                    *distance = self.distance(*distance, || *square);
                }
            }
            (QueryVector::Single(query, split), _) => {
                let pairs = match self.metric {
                    DistanceMetric::Euclidean => KernelSum::SquaredDifference,
                    _ => KernelSum::Product,
                };
                match (split, C::bfloat16(cells)) {
                    (Some(split), Some(cells)) => split.sum_rows(pairs, cells, rows, distances),
                    _ => kernels::sum_rows(pairs, query, cells, width, rows, distances),
                }
                // Only angles need the length of a row.
                distances.iter_mut().for_each(|distance| *distance = self.distance(*distance, || 1.0));
            }
            (QueryVector::Bits(query), Some(cells)) => {
                for (distance, number) in distances.iter_mut().zip(rows) {
                    *distance =
                        kernels::hamming(query, &cells[usize::from(*number) * width..][..width]) as f64;
                }
            }
            (QueryVector::Double | QueryVector::Bits(_) | QueryVector::Place(_), _) => {
                self.double_rows(cells, rows, distances);
            }
        }
    }

    fn double_rows<C: WidenCell>(&self, cells: &[C], rows: &[u16], distances: &mut [f64]) {
        let width = self.doubles.len();
        for (distance, row) in distances.iter_mut().zip(rows) {
            *distance = self.doubles_distance(&cells[usize::from(*row) * width..][..width]);
        }
    }

    /// Distance of the nearest dense subspace of a tensor: the plain form of [`NearestLeaf::encoded`].
    fn best_subspace(&self, tensor: &Tensor) -> f64 {
        if tensor.tensor_type().dense_size() != self.doubles.len() {
            return f64::INFINITY;
        }
        let cells: Vec<f64> = tensor.cells().iter().collect();
        let distances =
            cells.chunks_exact(self.doubles.len()).map(|subspace| self.doubles_distance(subspace));
        // The minimum of a number and NaN is the number.
        distances.fold(f64::INFINITY, f64::min)
    }

    /// Distances of documents that have several vectors, in their wire form: the kernels read them where they
    /// lie.
    fn encoded(&self, column: &BytesColumn, tensor_type: &TensorType, rows: &[u16], distances: &mut [f64]) {
        match tensor_type.cell() {
            CellType::Double => self.subspaces::<[u8; 8]>(column, tensor_type, rows, distances),
            CellType::Float => self.subspaces::<[u8; 4]>(column, tensor_type, rows, distances),
            CellType::BFloat16 => self.subspaces::<[u8; 2]>(column, tensor_type, rows, distances),
            CellType::Int8 => self.subspaces::<i8>(column, tensor_type, rows, distances),
        }
    }

    fn subspaces<C: ScannedCell>(
        &self,
        column: &BytesColumn,
        tensor_type: &TensorType,
        rows: &[u16],
        distances: &mut [f64],
    ) {
        let width = self.doubles.len();
        if width == 0 || tensor_type.dense_size() != width {
            return;
        }
        let encoded_type = EncodedTensorType::new(tensor_type);
        let mut scratch = SubspaceScratch::default();
        for (distance, row) in distances.iter_mut().zip(rows) {
            // Values of another type were written under another schema.
            let tensor = column.get(usize::from(*row)).and_then(|bytes| encoded_type.read(bytes));
            if let Some(cells) = tensor.and_then(|tensor| tensor.cells().ok()) {
                *distance = self.nearest_of(cells_of::<C>(cells), &mut scratch);
            }
        }
    }

    /// Distance of the nearest of some vectors.
    fn nearest_of<C: ScannedCell>(&self, cells: &[C], scratch: &mut SubspaceScratch) -> f64 {
        let mut nearest = f64::INFINITY;
        self.each_block(cells, scratch, |_, distances| {
            // The minimum of a number and NaN is the number.
            nearest = distances.iter().copied().fold(nearest, f64::min);
        });
        nearest
    }

    /// Calls `visit` with the distances of some vectors, and with the number of vectors before them.
    fn each_block<C: ScannedCell>(
        &self,
        cells: &[C],
        scratch: &mut SubspaceScratch,
        mut visit: impl FnMut(usize, &[f64]),
    ) {
        let width = self.doubles.len();
        for (number, block) in cells.chunks(width * SCANNED_ROWS_MAX).enumerate() {
            let count = block.len() / width;
            scratch.reserve(count);
            let distances = &mut scratch.distances[..count];
            C::scan(self, block, &scratch.rows[..count], distances, &mut scratch.squares);
            visit(number * SCANNED_ROWS_MAX, distances);
        }
    }

    fn doubles_distance<C: WidenCell>(&self, cells: &[C]) -> f64 {
        match (&self.query, self.metric) {
            (QueryVector::Place(centre), _) => match cells {
                [latitude, longitude] => centre.distance_km(latitude.widen(), longitude.widen()),
                _ => f64::INFINITY,
            },
            (QueryVector::Bits(query), _) => kernels::hamming_of_cells(query, cells) as f64,
            (_, DistanceMetric::Euclidean) => {
                kernels::sum_pairs_f64(KernelSum::SquaredDifference, &self.doubles, cells).sqrt()
            }
            _ => self.distance(kernels::sum_pairs_f64(KernelSum::Product, &self.doubles, cells), || {
                let cells: Vec<f64> = cells.iter().map(|cell| cell.widen()).collect();
                kernels::sum_pairs_f64(KernelSum::Product, &cells, &cells)
            }),
        }
    }

    /// Converts the kernel's sum to a distance. `square` is the squared length of the document vector, for
    /// metrics that need it.
    fn distance(&self, sum: f64, square: impl FnOnce() -> f64) -> f64 {
        match self.metric {
            DistanceMetric::Euclidean => sum.sqrt(),
            DistanceMetric::DotProduct => -sum,
            DistanceMetric::PrenormalizedAngular => 1.0 - sum,
            DistanceMetric::Angular => {
                let lengths = (self.square * square()).sqrt();
                // A zero vector has no direction; it counts as orthogonal to all others.
                if lengths == 0.0 {
                    std::f64::consts::FRAC_PI_2
                } else {
                    (sum / lengths).clamp(-1.0, 1.0).acos()
                }
            }
            DistanceMetric::GeoDegrees | DistanceMetric::Hamming => f64::INFINITY,
        }
    }
}

/// Search for the nearest of several vectors of a document, for the labels of that vector.
pub struct NearestSubspace {
    nearest: NearestLeaf,
    scratch: SubspaceScratch,
}

impl NearestSubspace {
    /// A search for the vectors nearest to `target`.
    pub fn new(target: &Tensor, metric: DistanceMetric) -> Self {
        NearestSubspace {
            nearest: NearestLeaf::new(target, metric, None),
            scratch: SubspaceScratch::default(),
        }
    }

    /// Index of the nearest vector among those of a tensor, whose cells are given as they are stored, with
    /// its distance; of equal distances, the first. `None` without vectors.
    pub fn find(&mut self, tensor_type: &TensorType, cells: &[u8]) -> Option<(usize, f64)> {
        if tensor_type.dense_size() != self.nearest.doubles.len() {
            return None;
        }
        match tensor_type.cell() {
            CellType::Double => self.find_in::<[u8; 8]>(cells),
            CellType::Float => self.find_in::<[u8; 4]>(cells),
            CellType::BFloat16 => self.find_in::<[u8; 2]>(cells),
            CellType::Int8 => self.find_in::<i8>(cells),
        }
    }

    fn find_in<C: ScannedCell>(&mut self, cells: &[u8]) -> Option<(usize, f64)> {
        let NearestSubspace { nearest, scratch } = self;
        let mut best: Option<(usize, f64)> = None;
        nearest.each_block(cells_of::<C>(cells), scratch, |first, distances| {
            for (index, distance) in distances.iter().enumerate() {
                if !distance.is_nan() && best.is_none_or(|(_, least)| *distance < least) {
                    best = Some((first + index, *distance));
                }
            }
        });
        best
    }
}

/// Labels of the dense subspace of `tensor` nearest to `target`, with its distance; of equal distances, the
/// first. `None` if there is no subspace, or if the sizes differ.
pub fn nearest_subspace<'t>(
    target: &Tensor,
    metric: DistanceMetric,
    tensor: &'t Tensor,
) -> Option<(&'t [String], f64)> {
    let nearest = NearestLeaf::new(target, metric, None);
    let width = nearest.doubles.len();
    if width == 0 || tensor.tensor_type().dense_size() != width {
        return None;
    }
    let cells: Vec<f64> = tensor.cells().iter().collect();
    let distances = cells.chunks_exact(width).map(|subspace| nearest.doubles_distance(subspace));
    let (at, distance) = distances
        .enumerate()
        .filter(|(_, distance)| !distance.is_nan())
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((tensor.labels(at), distance))
}

/// Maximum number of rows of one scan: kernels number rows with 16 bits.
const SCANNED_ROWS_MAX: usize = 1 << 15;

/// Reusable buffers for the vectors of one document.
#[derive(Default)]
struct SubspaceScratch {
    /// Row numbers from 0 on.
    rows: Vec<u16>,
    distances: Vec<f64>,
    squares: Vec<f64>,
}

impl SubspaceScratch {
    /// Makes room for `count` vectors, at most [`SCANNED_ROWS_MAX`].
    fn reserve(&mut self, count: usize) {
        if self.rows.len() < count {
            self.rows.extend(self.rows.len() as u16..count as u16);
            self.distances.resize(count, f64::INFINITY);
        }
    }
}

/// Cell type of a matrix whose rows are measured where they lie, at any address.
trait ScannedCell: Pod {
    /// Writes the distance of each of `rows` of the matrix `cells` to `distances`. `squares` is a reusable
    /// buffer.
    fn scan(
        nearest: &NearestLeaf,
        cells: &[Self],
        rows: &[u16],
        distances: &mut [f64],
        squares: &mut Vec<f64>,
    );
}

impl<C: VectorCell + Pod> ScannedCell for C {
    fn scan(nearest: &NearestLeaf, cells: &[C], rows: &[u16], distances: &mut [f64], squares: &mut Vec<f64>) {
        nearest.rows(cells, rows, distances, squares);
    }
}

/// `double`, not aligned.
impl ScannedCell for [u8; 8] {
    fn scan(nearest: &NearestLeaf, cells: &[Self], rows: &[u16], distances: &mut [f64], _: &mut Vec<f64>) {
        nearest.double_rows(cells, rows, distances);
    }
}

/// The cells that `bytes` have; a trailing part of a cell is dropped. `C` has an alignment of one byte.
fn cells_of<C: Pod>(bytes: &[u8]) -> &[C] {
    let whole = bytes.len() - bytes.len() % size_of::<C>();
    bytemuck::cast_slice(&bytes[..whole])
}

/// Cell type of vectors that kernels support.
trait VectorCell: KernelCell {
    /// The cells as bytes, if they are bytes.
    fn bits(_cells: &[Self]) -> Option<&[i8]> {
        None
    }

    /// The cells as bytes of bfloat16 numbers, if they are such.
    fn bfloat16(_cells: &[Self]) -> Option<&[[u8; 2]]> {
        None
    }
}

impl VectorCell for f32 {}
impl VectorCell for [u8; 4] {}
impl VectorCell for bf16 {
    fn bfloat16(cells: &[bf16]) -> Option<&[[u8; 2]]> {
        Some(bytemuck::cast_slice(cells))
    }
}
impl VectorCell for [u8; 2] {
    fn bfloat16(cells: &[[u8; 2]]) -> Option<&[[u8; 2]]> {
        Some(cells)
    }
}
impl VectorCell for i8 {
    fn bits(cells: &[i8]) -> Option<&[i8]> {
        Some(cells)
    }
}

/// The smallest distances so far.
#[derive(Clone)]
pub(crate) struct SmallestDistances {
    wanted: usize,
    largest_first: BinaryHeap<OrderedDistance>,
}

impl SmallestDistances {
    pub(crate) fn new(wanted: u32) -> Self {
        SmallestDistances { wanted: wanted as usize, largest_first: BinaryHeap::new() }
    }

    pub(crate) fn offer(&mut self, distance: f64) {
        if self.largest_first.len() < self.wanted {
            self.largest_first.push(OrderedDistance(distance));
        } else if let Some(mut largest) = self.largest_first.peek_mut()
            && distance < largest.0
        {
            *largest = OrderedDistance(distance);
        }
    }

    /// Largest distance among the wanted ones. Further documents can only make it smaller.
    pub(crate) fn cutoff(&self) -> f64 {
        match self.largest_first.peek() {
            _ if self.largest_first.len() < self.wanted => f64::INFINITY,
            Some(largest) => largest.0,
            None => f64::NEG_INFINITY,
        }
    }
}

/// A number that is not NaN.
#[derive(Clone, PartialEq)]
struct OrderedDistance(f64);

impl Eq for OrderedDistance {}

impl PartialOrd for OrderedDistance {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedDistance {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
