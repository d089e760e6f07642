//! Tensor functions on batches. Everything that depends only on types is computed when an expression is
//! compiled, and kept in a plan that evaluation follows.

mod reduce;

use std::collections::HashMap;
use std::ops::Range;

use millrace_tensor::{DimensionKind, TensorType};

use crate::batch::{AddressIndex, BatchSpace, BatchView, SubspaceShape, TensorBatch};
use crate::operators::BatchNumbers;
use crate::types;
use crate::value::round;

pub(crate) use reduce::TensorReduce;

/// Maximum number of cells of a join of two tensors of one document, which take 64 MB, as any tensor may; a
/// larger result is replaced by an empty one.
pub(crate) const CELLS: usize = 1 << 23;

/// A function of two cells, over slices.
pub(crate) type CellPairs<'f> = &'f mut dyn FnMut(BatchNumbers<'_>, BatchNumbers<'_>, &mut [f64]);

/// Pairing of the subspaces of two tensors, and the origin of each pair's labels.
#[derive(Debug, Clone, PartialEq)]
struct SubspacePairing {
    /// Indices of the common mapped dimensions in both tensors.
    common: Vec<(usize, usize)>,
    /// Origin of each label of the result.
    labels: Vec<LabelSource>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LabelSource {
    Left(usize),
    Right(usize),
}

impl SubspacePairing {
    fn new(left: &TensorType, right: &TensorType, result: &TensorType) -> Self {
        let position = |t: &TensorType, name: &str| t.mapped().position(|d| d.name == name);
        let common =
            left.mapped().enumerate().filter_map(|(i, d)| position(right, &d.name).map(|j| (i, j))).collect();
        let labels = result
            .mapped()
            .filter_map(|d| {
                position(left, &d.name)
                    .map(LabelSource::Left)
                    .or_else(|| position(right, &d.name).map(LabelSource::Right))
            })
            .collect();
        SubspacePairing { common, labels }
    }

    /// True if neither tensor has mapped dimensions.
    fn is_dense(&self) -> bool {
        self.labels.is_empty()
    }

    /// Calls `pair` for each two subspaces of a document with equal common labels, until it returns false.
    /// Documents are visited from the first on.
    fn for_each_pair(
        &self,
        left: &BatchView<'_>,
        right: &BatchView<'_>,
        document: usize,
        index: &mut AddressIndex,
        mut pair: impl FnMut(usize, usize) -> bool,
    ) {
        let (lefts, rights) = (left.subspaces(document), right.subspaces(document));
        if self.common.is_empty() {
            for i in lefts {
                for j in rights.clone() {
                    if !pair(i, j) {
                        return;
                    }
                }
            }
            return;
        }
        // A tensor that all documents share is indexed once.
        if left.is_same() && !right.is_same() {
            let dimensions = || self.common.iter().map(|(dimension, _)| *dimension);
            if document == 0 {
                index_subspaces(index, left, lefts, dimensions);
            }
            for j in rights {
                let dimensions = self.common.iter().map(|(_, dimension)| *dimension);
                let mut next = index.first(right.address(j), dimensions);
                while let Some(entry) = next {
                    let (i, following) = index.entry(entry);
                    if !pair(i, j) {
                        return;
                    }
                    next = following;
                }
            }
            return;
        }
        let dimensions = || self.common.iter().map(|(_, dimension)| *dimension);
        if document == 0 || !right.is_same() {
            index_subspaces(index, right, rights, dimensions);
        }
        for i in lefts {
            let dimensions = self.common.iter().map(|(dimension, _)| *dimension);
            let mut next = index.first(left.address(i), dimensions);
            while let Some(entry) = next {
                let (j, following) = index.entry(entry);
                if !pair(i, j) {
                    return;
                }
                next = following;
            }
        }
    }

    fn write_labels(&self, left: &[u32], right: &[u32], out: &mut Vec<u32>) {
        out.extend(self.labels.iter().map(|source| match source {
            LabelSource::Left(at) => left[*at],
            LabelSource::Right(at) => right[*at],
        }));
    }
}

/// Indexes subspaces by their labels in these mapped dimensions.
fn index_subspaces<P: Iterator<Item = usize>>(
    index: &mut AddressIndex,
    of: &BatchView<'_>,
    subspaces: Range<usize>,
    dimensions: impl Fn() -> P,
) {
    index.clear();
    // The last that is added is found first.
    subspaces.rev().for_each(|subspace| index.insert(of.address(subspace), dimensions(), subspace));
}

/// True if these are all dense cells of a type, in their order.
fn is_identity(cells: &[u32], of: &TensorType) -> bool {
    cells.len() == of.dense_size() && cells.iter().zip(0..).all(|(cell, index)| *cell == index)
}

/// For each dense cell of `result`, the index of the cell of `of` with equal indices in the shared
/// dimensions.
pub(crate) fn source_cells(result: &TensorType, of: &TensorType) -> Vec<u32> {
    let sizes: Vec<usize> = result.indexed().map(|(_, size)| size).collect();
    let mut steps = vec![0u32; sizes.len()];
    let mut step = 1;
    for (name, size) in of.indexed().collect::<Vec<_>>().into_iter().rev() {
        if let Some(at) = result.indexed().position(|(known, _)| known == name) {
            steps[at] = step;
        }
        step *= size as u32;
    }
    let mut cells = vec![0u32];
    for (size, step) in sizes.into_iter().zip(steps) {
        cells = cells
            .into_iter()
            .flat_map(|cell| (0..size as u32).map(move |index| cell + index * step))
            .collect();
    }
    cells
}

/// `join`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorJoin {
    pairing: SubspacePairing,
    left: JoinedCells,
    right: JoinedCells,
    result: TensorType,
}

/// For each dense cell of the result, a cell of an operand.
#[derive(Debug, Clone, PartialEq)]
struct JoinedCells {
    cells: Vec<u32>,
    /// True if they are all cells in their order.
    whole: bool,
}

impl JoinedCells {
    fn new(result: &TensorType, of: &TensorType) -> Self {
        let cells = source_cells(result, of);
        JoinedCells { whole: is_identity(&cells, of), cells }
    }

    fn push(&self, subspace: &[f64], out: &mut Vec<f64>) {
        match (self.whole, subspace) {
            (true, _) => out.extend_from_slice(subspace),
            (false, [cell]) => out.resize(out.len() + self.cells.len(), *cell),
            _ => out.extend(self.cells.iter().map(|at| subspace[*at as usize])),
        }
    }

    /// The cells of dense tensors, for all documents.
    fn of_all<'b>(
        &self,
        view: &BatchView<'b>,
        documents: usize,
        buffer: &'b mut Vec<f64>,
    ) -> BatchNumbers<'b> {
        if view.is_same() && view.shape.size == 1 {
            return BatchNumbers::Same(view.of_document(0)[0]);
        }
        if let Some(cells) = view.adjacent(documents).filter(|_| self.whole) {
            return BatchNumbers::Each(cells);
        }
        buffer.clear();
        (0..documents).for_each(|document| self.push(view.of_document(document), buffer));
        BatchNumbers::Each(buffer)
    }
}

impl TensorJoin {
    pub fn new(left: &TensorType, right: &TensorType, result: &TensorType) -> Self {
        TensorJoin {
            pairing: SubspacePairing::new(left, right, result),
            left: JoinedCells::new(result, left),
            right: JoinedCells::new(result, right),
            result: result.clone(),
        }
    }

    /// Indices of the common mapped dimensions in both tensors.
    pub fn common(&self) -> &[(usize, usize)] {
        &self.pairing.common
    }

    pub fn run(
        &self,
        left: BatchView<'_>,
        right: BatchView<'_>,
        documents: usize,
        space: &mut BatchSpace,
        cells: Vec<f64>,
        f: CellPairs<'_>,
    ) -> TensorBatch {
        let shape = SubspaceShape::of(&self.result);
        let mut out = TensorBatch::new(shape, cells);
        let BatchSpace { index, left: xs, right: ys, .. } = space;
        if self.pairing.is_dense() {
            out.cells.resize(documents * shape.size, 0.0);
            let (x, y) = (self.left.of_all(&left, documents, xs), self.right.of_all(&right, documents, ys));
            f(x, y, &mut out.cells);
        } else {
            xs.clear();
            ys.clear();
            for document in 0..documents {
                let begin = xs.len();
                let labels_begin = out.labels.len();
                self.pairing.for_each_pair(&left, &right, document, index, |i, j| {
                    if xs.len() - begin + shape.size > CELLS {
                        xs.truncate(begin);
                        ys.truncate(begin);
                        out.labels.truncate(labels_begin);
                        return false;
                    }
                    self.pairing.write_labels(left.address(i), right.address(j), &mut out.labels);
                    self.left.push(left.subspace(i), xs);
                    self.right.push(right.subspace(j), ys);
                    true
                });
                out.starts.push((xs.len() / shape.size) as u32);
            }
            out.cells.resize(xs.len(), 0.0);
            f(BatchNumbers::Each(xs), BatchNumbers::Each(ys), &mut out.cells);
        }
        round(self.result.cell(), &mut out.cells);
        out
    }
}

/// `concat`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorConcat {
    pairing: SubspacePairing,
    /// For each dense cell of the result, its index in the left (`Ok`) or right (`Err`) subspace.
    cells: Vec<Result<u32, u32>>,
    result: TensorType,
}

impl TensorConcat {
    pub fn new(left: &TensorType, right: &TensorType, along: &str, result: &TensorType) -> Self {
        let size = |t: &TensorType| match types::dimension(t, along).map(|d| d.kind) {
            Some(DimensionKind::Indexed(size)) => size,
            _ => 1,
        };
        let split = size(left);
        let steps = |t: &TensorType| {
            let mut step = 1;
            let mut steps = Vec::new();
            for (name, size) in t.indexed().collect::<Vec<_>>().into_iter().rev() {
                steps.push((name.to_owned(), step));
                step *= size;
            }
            steps
        };
        let (left_steps, right_steps) = (steps(left), steps(right));
        let step = |steps: &[(String, usize)], name: &str| {
            steps.iter().find(|(known, _)| known == name).map_or(0, |(_, step)| *step)
        };
        let sizes: Vec<(&str, usize)> = result.indexed().collect();
        let cells = (0..result.dense_size())
            .map(|cell| {
                let (mut rest, mut left_at, mut right_at, mut in_left) = (cell, 0, 0, true);
                for (name, size) in sizes.iter().rev() {
                    let index = rest % size;
                    rest /= size;
                    if *name == along {
                        in_left = index < split;
                        left_at += index * step(&left_steps, name);
                        right_at += index.saturating_sub(split) * step(&right_steps, name);
                    } else {
                        left_at += index * step(&left_steps, name);
                        right_at += index * step(&right_steps, name);
                    }
                }
                if in_left { Ok(left_at as u32) } else { Err(right_at as u32) }
            })
            .collect();
        TensorConcat { pairing: SubspacePairing::new(left, right, result), cells, result: result.clone() }
    }

    pub fn run(
        &self,
        left: BatchView<'_>,
        right: BatchView<'_>,
        documents: usize,
        space: &mut BatchSpace,
        cells: Vec<f64>,
    ) -> TensorBatch {
        let shape = SubspaceShape::of(&self.result);
        let mut out = TensorBatch::new(shape, cells);
        for document in 0..documents {
            let TensorBatch { labels, cells, .. } = &mut out;
            let (begin, labels_begin) = (cells.len(), labels.len());
            self.pairing.for_each_pair(&left, &right, document, &mut space.index, |i, j| {
                if cells.len() - begin + shape.size > CELLS {
                    cells.truncate(begin);
                    labels.truncate(labels_begin);
                    return false;
                }
                self.pairing.write_labels(left.address(i), right.address(j), labels);
                let (x, y) = (left.subspace(i), right.subspace(j));
                cells.extend(self.cells.iter().map(|cell| match cell {
                    Ok(at) => x[*at as usize],
                    Err(at) => y[*at as usize],
                }));
                true
            });
            out.end_tensor(shape);
        }
        round(self.result.cell(), &mut out.cells);
        out
    }
}

/// `merge` of two tensors with the same dimensions.
pub(crate) fn merge(
    left: BatchView<'_>,
    right: BatchView<'_>,
    documents: usize,
    result: &TensorType,
    space: &mut BatchSpace,
    f: CellPairs<'_>,
) -> TensorBatch {
    let shape = SubspaceShape::of(result);
    let mut out = TensorBatch::new(shape, Vec::new());
    for document in 0..documents {
        let begin = out.cells.len();
        let first = begin / shape.size;
        let lefts = left.subspaces(document);
        out.cells.extend_from_slice(left.of_document(document));
        if shape.mapped > 0 {
            lefts.clone().for_each(|i| out.labels.extend_from_slice(left.address(i)));
            index_subspaces(&mut space.index, &left, lefts.clone(), || 0..shape.mapped);
        }
        for j in right.subspaces(document) {
            let found = match shape.mapped {
                0 => Some(lefts.start),
                _ => space.index.first(right.address(j), 0..shape.mapped).map(|at| space.index.entry(at).0),
            };
            match found {
                Some(i) => {
                    let at = (first + i - lefts.start) * shape.size;
                    let out = &mut out.cells[at..at + shape.size];
                    f(BatchNumbers::Each(left.subspace(i)), BatchNumbers::Each(right.subspace(j)), out);
                }
                None => {
                    out.labels.extend_from_slice(right.address(j));
                    out.cells.extend_from_slice(right.subspace(j));
                }
            }
        }
        out.end_tensor(shape);
    }
    round(result.cell(), &mut out.cells);
    out
}

/// `rename`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorRename {
    /// Origin of each label of the result.
    labels: Vec<usize>,
    /// Origin of each dense cell.
    cells: Vec<u32>,
    result: TensorType,
}

impl TensorRename {
    pub fn new(of: &TensorType, from: &[String], to: &[String], result: &TensorType) -> Self {
        let new_names = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            names.map(|name| types::renamed(name, from, to).to_owned()).collect()
        };
        let mapped = new_names(&mut of.mapped().map(|d| d.name.as_str()));
        let labels = result.mapped().filter_map(|d| mapped.iter().position(|name| *name == d.name)).collect();
        // Strides of the old order, by new name.
        let mut steps = HashMap::new();
        let mut step = 1u32;
        for (name, size) in of.indexed().collect::<Vec<_>>().into_iter().rev() {
            steps.insert(types::renamed(name, from, to).to_owned(), step);
            step *= size as u32;
        }
        let mut cells = vec![0u32];
        for (name, size) in result.indexed() {
            let step = steps.get(name).copied().unwrap_or_default();
            cells = cells.into_iter().flat_map(|at| (0..size as u32).map(move |i| at + i * step)).collect();
        }
        TensorRename { labels, cells, result: result.clone() }
    }

    pub fn run(&self, of: BatchView<'_>, documents: usize, cells: Vec<f64>) -> TensorBatch {
        let shape = SubspaceShape::of(&self.result);
        let mut out = TensorBatch::new(shape, cells);
        for document in 0..documents {
            for subspace in of.subspaces(document) {
                let address = of.address(subspace);
                out.labels.extend(self.labels.iter().map(|at| address[*at]));
                let from = of.subspace(subspace);
                out.cells.extend(self.cells.iter().map(|at| from[*at as usize]));
            }
            out.end_tensor(shape);
        }
        out
    }
}

/// One dimension of an address with a known label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PinnedDimension {
    /// A mapped dimension, by index, and the number of its label.
    Label(usize, u32),
    /// An indexed dimension: the stride between its cells, its size, the index.
    Index { step: usize, size: usize, index: f64 },
}

/// Appends the cells of a document's tensor at the pinned address. An address outside the tensor gives zeros,
/// or no cells if a mapped dimension remains.
pub(crate) fn peek(
    of: &BatchView<'_>,
    document: usize,
    pins: &[PinnedDimension],
    cells: &[u32],
    shape: SubspaceShape,
    out: &mut TensorBatch,
) {
    let mut offset = 0;
    let mut outside = false;
    for pin in pins {
        if let PinnedDimension::Index { step, size, index } = pin {
            match (0.0..*size as f64).contains(index) {
                true => offset += *index as usize * step,
                false => outside = true,
            }
        }
    }
    let is_pinned = |dimension: usize| {
        pins.iter().any(|pin| matches!(pin, PinnedDimension::Label(pinned, _) if *pinned == dimension))
    };
    let begin = out.cells.len();
    for subspace in of.subspaces(document).filter(|_| !outside) {
        let address = of.address(subspace);
        let differs = |pin: &PinnedDimension| matches!(pin, PinnedDimension::Label(dimension, label) if address[*dimension] != *label);
        if pins.iter().any(differs) {
            continue;
        }
        let rest = address.iter().enumerate().filter(|(dimension, _)| !is_pinned(*dimension));
        out.labels.extend(rest.map(|(_, label)| *label));
        let from = of.subspace(subspace);
        out.cells.extend(cells.iter().map(|at| from[offset + *at as usize]));
        if shape.mapped == 0 {
            break;
        }
    }
    if shape.mapped == 0 && out.cells.len() == begin {
        out.cells.resize(begin + shape.size, 0.0);
    }
    out.end_tensor(shape);
}

/// Input of [`peek`]: indices of the remaining dense cells when all pinned indices are 0.
pub(crate) fn peek_cells(of: &TensorType, result: &TensorType) -> Vec<u32> {
    source_cells(result, of)
}

/// Stride between the cells of an indexed dimension.
pub(crate) fn step(of: &TensorType, name: &str) -> usize {
    of.indexed().skip_while(|(known, _)| *known != name).skip(1).map(|(_, size)| size).product()
}

/// Appends the ranks of the cells of a tensor: `cell_order`.
pub(crate) fn cell_order(of: &[f64], largest_first: bool, order: &mut Vec<usize>, out: &mut Vec<f64>) {
    order.clear();
    order.extend(0..of.len());
    let key = |at: usize| rank_key(of[at], largest_first);
    order.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
    let begin = out.len();
    out.resize(begin + of.len(), 0.0);
    order.iter().enumerate().for_each(|(rank, at)| out[begin + at] = rank as f64);
}

/// Finds the cells whose ranks by [`cell_order`], the largest first, are below a number: their indices.
pub(crate) fn largest_cells(of: &[f64], below: f64, indices: &mut Vec<usize>) {
    indices.clear();
    indices.extend(0..of.len());
    // Ranks are whole numbers from 0 on; none is below NaN.
    let kept = below.ceil().max(0.0) as usize;
    if kept < of.len() {
        let key = |at: usize| rank_key(of[at], true);
        indices.select_nth_unstable_by(kept, |a, b| key(*a).total_cmp(&key(*b)).then(a.cmp(b)));
        indices.truncate(kept);
        indices.sort_unstable();
    }
}

/// A number that ascends with the rank of a cell; NaN always ranks last.
fn rank_key(cell: f64, largest_first: bool) -> f64 {
    match (cell.is_nan(), largest_first) {
        (true, _) => f64::INFINITY,
        (false, true) => -cell,
        (false, false) => cell,
    }
}

/// Appends the bits of cells: `unpack_bits`.
pub(crate) fn unpack_bits(of: &[f64], lowest_first: bool, out: &mut Vec<f64>) {
    out.reserve(of.len() * 8);
    for cell in of {
        let bits = *cell as i8 as u8;
        let bits = if lowest_first { bits } else { bits.reverse_bits() };
        out.extend_from_slice(&BIT_CELLS[usize::from(bits)]);
    }
}

/// The bits of each byte as cells, the lowest first.
static BIT_CELLS: [[f64; 8]; 256] = {
    let mut cells = [[0.0; 8]; 256];
    let mut at = 0;
    while at < 256 * 8 {
        let (byte, bit) = (at / 8, at % 8);
        if byte >> bit & 1 == 1 {
            cells[byte][bit] = 1.0;
        }
        at += 1;
    }
    cells
};
