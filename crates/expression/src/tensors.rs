//! Tensor functions on single values. Everything that depends only on types is computed when an expression is
//! compiled, and kept in a plan that evaluation follows.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::{DimensionKind, TensorType};

use crate::operators::{BatchNumbers, ReduceAggregator};
use crate::types;
use crate::value::TensorValue;

/// Maximum number of cells of a join of two tensors of one document; a larger result is replaced by an empty
/// one.
const CELLS: usize = 1 << 26;

type Labels = [Arc<str>];

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
        let place = |t: &TensorType, name: &str| t.mapped().position(|d| d.name == name);
        let common =
            left.mapped().enumerate().filter_map(|(i, d)| place(right, &d.name).map(|j| (i, j))).collect();
        let labels = result
            .mapped()
            .filter_map(|d| {
                place(left, &d.name)
                    .map(LabelSource::Left)
                    .or_else(|| place(right, &d.name).map(LabelSource::Right))
            })
            .collect();
        SubspacePairing { common, labels }
    }

    /// Calls `pair` for each two subspaces with equal common labels, in the order of the left ones.
    fn each(&self, left: &TensorValue, right: &TensorValue, mut pair: impl FnMut(usize, usize)) {
        if self.common.is_empty() {
            for i in 0..left.subspaces() {
                (0..right.subspaces()).for_each(|j| pair(i, j));
            }
            return;
        }
        let mut by_labels: HashMap<Vec<&str>, Vec<usize>> = HashMap::new();
        for j in 0..right.subspaces() {
            let address = right.address(j);
            by_labels.entry(self.common.iter().map(|(_, at)| &*address[*at]).collect()).or_default().push(j);
        }
        let mut key = Vec::new();
        for i in 0..left.subspaces() {
            let address = left.address(i);
            key.clear();
            key.extend(self.common.iter().map(|(at, _)| &*address[*at]));
            for j in by_labels.get(&key).into_iter().flatten() {
                pair(i, *j);
            }
        }
    }

    fn write_labels(&self, left: &Labels, right: &Labels, out: &mut Vec<Arc<str>>) {
        out.extend(self.labels.iter().map(|source| match source {
            LabelSource::Left(at) => Arc::clone(&left[*at]),
            LabelSource::Right(at) => Arc::clone(&right[*at]),
        }));
    }
}

/// For each dense cell of `result`, the index of the cell of `of` with equal indices in the shared
/// dimensions.
fn places(result: &TensorType, of: &TensorType) -> Vec<u32> {
    let sizes: Vec<usize> = result.indexed().map(|(_, size)| size).collect();
    let mut steps = vec![0u32; sizes.len()];
    let mut step = 1;
    for (name, size) in of.indexed().collect::<Vec<_>>().into_iter().rev() {
        if let Some(at) = result.indexed().position(|(known, _)| known == name) {
            steps[at] = step;
        }
        step *= size as u32;
    }
    let mut places = vec![0u32];
    for (size, step) in sizes.into_iter().zip(steps) {
        places = places
            .into_iter()
            .flat_map(|place| (0..size as u32).map(move |index| place + index * step))
            .collect();
    }
    places
}

/// `join`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorJoin {
    pairing: SubspacePairing,
    left: Vec<u32>,
    right: Vec<u32>,
    result: TensorType,
}

impl TensorJoin {
    pub fn new(left: &TensorType, right: &TensorType, result: &TensorType) -> Self {
        TensorJoin {
            pairing: SubspacePairing::new(left, right, result),
            left: places(result, left),
            right: places(result, right),
            result: result.clone(),
        }
    }

    pub fn of(&self, left: &TensorValue, right: &TensorValue, f: CellPairs<'_>) -> TensorValue {
        let size = self.left.len();
        let (mut labels, mut xs, mut ys) = (Vec::new(), Vec::new(), Vec::new());
        self.pairing.each(left, right, |i, j| {
            if xs.len() + size > CELLS {
                return;
            }
            self.pairing.write_labels(left.address(i), right.address(j), &mut labels);
            let (x, y) = (left.subspace(i), right.subspace(j));
            xs.extend(self.left.iter().map(|at| x[*at as usize]));
            ys.extend(self.right.iter().map(|at| y[*at as usize]));
        });
        let mut cells = vec![0.0; xs.len()];
        f(BatchNumbers::Each(&xs), BatchNumbers::Each(&ys), &mut cells);
        TensorValue { tensor_type: self.result.clone(), labels, cells }.rounded()
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

    pub fn of(&self, left: &TensorValue, right: &TensorValue) -> TensorValue {
        let (mut labels, mut cells) = (Vec::new(), Vec::new());
        self.pairing.each(left, right, |i, j| {
            if cells.len() + self.cells.len() > CELLS {
                return;
            }
            self.pairing.write_labels(left.address(i), right.address(j), &mut labels);
            let (x, y) = (left.subspace(i), right.subspace(j));
            cells.extend(self.cells.iter().map(|place| match place {
                Ok(at) => x[*at as usize],
                Err(at) => y[*at as usize],
            }));
        });
        TensorValue { tensor_type: self.result.clone(), labels, cells }.rounded()
    }
}

/// `merge` of two tensors with the same dimensions.
pub(crate) fn merge(
    left: &TensorValue,
    right: &TensorValue,
    result: &TensorType,
    f: CellPairs<'_>,
) -> TensorValue {
    let size = result.dense_size();
    let mut merged =
        TensorValue { tensor_type: result.clone(), labels: left.labels.clone(), cells: left.cells.clone() };
    let mut by_labels: HashMap<&Labels, usize> = HashMap::new();
    let mapped = result.mapped().next().is_some();
    if mapped {
        by_labels.extend((0..left.subspaces()).map(|i| (left.address(i), i)));
    }
    for j in 0..right.subspaces() {
        let found = if mapped { by_labels.get(right.address(j)).copied() } else { Some(0) };
        match found {
            Some(i) => {
                let out = &mut merged.cells[i * size..(i + 1) * size];
                f(BatchNumbers::Each(left.subspace(i)), BatchNumbers::Each(right.subspace(j)), out);
            }
            None => {
                merged.labels.extend(right.address(j).iter().cloned());
                merged.cells.extend(right.subspace(j));
            }
        }
    }
    merged.rounded()
}

/// `reduce`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorReduce {
    aggregator: ReduceAggregator,
    /// Indices of the remaining mapped dimensions.
    kept: Vec<usize>,
    /// For each dense cell of the result, the indices of the cells it is computed from, concatenated.
    cells: Vec<u32>,
    result: TensorType,
}

impl TensorReduce {
    pub fn new(aggregator: ReduceAggregator, of: &TensorType, result: &TensorType) -> Self {
        let kept = of
            .mapped()
            .enumerate()
            .filter(|(_, d)| types::dimension(result, &d.name).is_some())
            .map(|(at, _)| at)
            .collect();
        let targets = places(of, result);
        let mut cells: Vec<u32> = (0..targets.len() as u32).collect();
        cells.sort_by_key(|cell| targets[*cell as usize]);
        TensorReduce { aggregator, kept, cells, result: result.clone() }
    }

    pub fn aggregator(&self) -> ReduceAggregator {
        self.aggregator
    }

    pub fn of(&self, value: &TensorValue) -> TensorValue {
        let size = self.result.dense_size();
        let group = self.cells.len() / size;
        let mut order: HashMap<Vec<&Arc<str>>, usize> = HashMap::new();
        let mut labels = Vec::new();
        // Source subspaces of each subspace of the result.
        let mut sources: Vec<Vec<usize>> = Vec::new();
        if self.kept.is_empty() {
            sources.push((0..value.subspaces()).collect());
        } else {
            for i in 0..value.subspaces() {
                let address = value.address(i);
                let next = sources.len();
                let at = *order.entry(self.kept.iter().map(|at| &address[*at]).collect()).or_insert(next);
                if at == next {
                    sources.push(Vec::new());
                    labels.extend(self.kept.iter().map(|at| Arc::clone(&address[*at])));
                }
                sources[at].push(i);
            }
        }
        let mut cells = Vec::with_capacity(sources.len() * size);
        let mut gathered = Vec::new();
        for source in &sources {
            for places in self.cells.chunks(group) {
                gathered.clear();
                for subspace in source {
                    let from = value.subspace(*subspace);
                    gathered.extend(places.iter().map(|at| from[*at as usize]));
                }
                cells.push(self.aggregator.of(&mut gathered));
            }
        }
        TensorValue { tensor_type: self.result.clone(), labels, cells }.rounded()
    }
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

    pub fn of(&self, value: &TensorValue) -> TensorValue {
        let (mut labels, mut cells) = (Vec::new(), Vec::with_capacity(value.cells.len()));
        for i in 0..value.subspaces() {
            let address = value.address(i);
            labels.extend(self.labels.iter().map(|at| Arc::clone(&address[*at])));
            let from = value.subspace(i);
            cells.extend(self.cells.iter().map(|at| from[*at as usize]));
        }
        TensorValue { tensor_type: self.result.clone(), labels, cells }
    }
}

/// One dimension of an address with a known label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PinnedDimension {
    /// A mapped dimension, by index, and its label.
    Label(usize, Arc<str>),
    /// An indexed dimension: the stride between its cells, its size, the index.
    Index { step: usize, size: usize, index: f64 },
}

/// The cells of `value` at the pinned address. An address outside the tensor gives zeros, or no cells if a
/// mapped dimension remains.
pub(crate) fn peek(
    value: &TensorValue,
    pins: &[PinnedDimension],
    cells: &[u32],
    result: &TensorType,
) -> TensorValue {
    let mut offset = 0;
    let mut fixed = Vec::new();
    for pin in pins {
        match pin {
            PinnedDimension::Label(at, label) => fixed.push((*at, label)),
            PinnedDimension::Index { step, size, index } => {
                if !(0.0..*size as f64).contains(index) {
                    return TensorValue::empty(result);
                }
                offset += *index as usize * step;
            }
        }
    }
    let mapped = result.mapped().next().is_some();
    let mut peeked = TensorValue { tensor_type: result.clone(), labels: Vec::new(), cells: Vec::new() };
    for i in 0..value.subspaces() {
        let address = value.address(i);
        if fixed.iter().any(|(at, label)| address[*at] != **label) {
            continue;
        }
        let rest = address.iter().enumerate().filter(|(at, _)| fixed.iter().all(|(pinned, _)| pinned != at));
        peeked.labels.extend(rest.map(|(_, label)| Arc::clone(label)));
        let from = value.subspace(i);
        peeked.cells.extend(cells.iter().map(|at| from[offset + *at as usize]));
        if !mapped {
            return peeked;
        }
    }
    if mapped { peeked } else { TensorValue::empty(result) }
}

/// Input of [`peek`]: indices of the remaining dense cells when all pinned indices are 0.
pub(crate) fn peek_cells(of: &TensorType, result: &TensorType) -> Vec<u32> {
    places(result, of)
}

/// Stride between the cells of an indexed dimension.
pub(crate) fn step(of: &TensorType, name: &str) -> usize {
    of.indexed().skip_while(|(known, _)| *known != name).skip(1).map(|(_, size)| size).product()
}

/// `cell_order`
pub(crate) fn cell_order(value: &TensorValue, largest_first: bool, result: &TensorType) -> TensorValue {
    let mut order: Vec<usize> = (0..value.cells.len()).collect();
    // NaN always sorts last.
    let key = |cell: f64| match (cell.is_nan(), largest_first) {
        (true, _) => f64::INFINITY,
        (false, true) => -cell,
        (false, false) => cell,
    };
    order.sort_by(|a, b| key(value.cells[*a]).total_cmp(&key(value.cells[*b])));
    let mut cells = vec![0.0; value.cells.len()];
    order.into_iter().enumerate().for_each(|(rank, at)| cells[at] = rank as f64);
    TensorValue { tensor_type: result.clone(), labels: value.labels.clone(), cells }.rounded()
}

/// `unpack_bits`
pub(crate) fn unpack_bits(value: &TensorValue, lowest_first: bool, result: &TensorType) -> TensorValue {
    let bit = |cell: f64, at: u32| f64::from(cell as i8 as u8 >> at & 1);
    let cells = value
        .cells
        .iter()
        .flat_map(|cell| (0..8).map(move |at| bit(*cell, if lowest_first { at } else { 7 - at })))
        .collect();
    TensorValue { tensor_type: result.clone(), labels: value.labels.clone(), cells }
}
