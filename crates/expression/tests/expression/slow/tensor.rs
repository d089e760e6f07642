//! Tensors as maps from addresses to numbers, with every function as a loop.

use std::collections::BTreeMap;

use millrace_tensor::{DimensionKind, Tensor};

/// Dimension and label of each entry.
pub type Address = BTreeMap<String, String>;
pub type Cells = BTreeMap<Address, f64>;

/// A tensor: for each dimension its size if it is indexed, and the cells.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowTensor {
    pub dimensions: BTreeMap<String, Option<usize>>,
    pub cells: Cells,
}

pub fn of_tensor(tensor: &Tensor) -> SlowTensor {
    let tensor_type = tensor.tensor_type();
    let size = tensor_type.dense_size();
    let cell = |cell: usize| {
        let mut address = Address::new();
        let mut rest = cell % size;
        for (name, size) in tensor_type.indexed().collect::<Vec<_>>().into_iter().rev() {
            address.insert(name.to_owned(), (rest % size).to_string());
            rest /= size;
        }
        for (dimension, label) in tensor_type.mapped().zip(tensor.labels(cell / size)) {
            address.insert(dimension.name.clone(), label.clone());
        }
        (address, tensor.cells().get(cell))
    };
    let dimensions = tensor_type.dimensions().iter().map(|dimension| match dimension.kind {
        DimensionKind::Mapped => (dimension.name.clone(), None),
        DimensionKind::Indexed(size) => (dimension.name.clone(), Some(size)),
    });
    SlowTensor { dimensions: dimensions.collect(), cells: (0..tensor.cells().len()).map(cell).collect() }
}

impl SlowTensor {
    pub fn number(number: f64) -> Self {
        SlowTensor { dimensions: BTreeMap::new(), cells: Cells::from([(Address::new(), number)]) }
    }

    /// The value, if it is a number.
    pub fn as_number(&self) -> Option<f64> {
        if self.dimensions.is_empty() {
            Some(self.cells.values().copied().next().unwrap_or(0.0))
        } else {
            None
        }
    }

    /// Fills indexed dimensions: missing cells become 0 in every existing subspace.
    fn filled(mut self) -> Self {
        let is_indexed = |name: &String| self.dimensions[name].is_some();
        let mut subspaces: Vec<Address> = self.cells.keys().cloned().collect();
        subspaces.iter_mut().for_each(|address| address.retain(|name, _| !is_indexed(name)));
        if self.dimensions.values().all(Option::is_some) {
            subspaces.push(Address::new());
        }
        subspaces.sort();
        subspaces.dedup();
        for (name, size) in self.dimensions.iter().filter_map(|(name, size)| Some((name, (*size)?))) {
            let each = |address: &Address| {
                let address = address.clone();
                (0..size).map(move |index| {
                    let mut address = address.clone();
                    address.insert(name.clone(), index.to_string());
                    address
                })
            };
            subspaces = subspaces.iter().flat_map(each).collect();
        }
        for address in subspaces {
            self.cells.entry(address).or_insert(0.0);
        }
        self
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let cells = self.cells.iter().map(|(address, cell)| (address.clone(), f(*cell))).collect();
        SlowTensor { dimensions: self.dimensions.clone(), cells }
    }

    pub fn join(&self, other: &SlowTensor, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut cells = Cells::new();
        for (left, x) in &self.cells {
            for (right, y) in &other.cells {
                if left.iter().all(|(name, label)| right.get(name).is_none_or(|other| other == label)) {
                    cells.insert(left.clone().into_iter().chain(right.clone()).collect(), f(*x, *y));
                }
            }
        }
        let mut dimensions = self.dimensions.clone();
        dimensions.extend(other.dimensions.clone());
        SlowTensor { dimensions, cells }
    }

    pub fn merge(&self, other: &SlowTensor, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut merged = self.clone();
        for (address, y) in &other.cells {
            merged.cells.entry(address.clone()).and_modify(|x| *x = f(*x, *y)).or_insert(*y);
        }
        merged
    }

    /// Reduces over these dimensions; over all if none are named, which gives a number even without cells.
    pub fn reduce(&self, aggregator: &str, over: &[String]) -> Option<Self> {
        let is_kept = |name: &String| !over.is_empty() && !over.contains(name);
        let mut groups: BTreeMap<Address, Vec<f64>> = BTreeMap::new();
        for (address, x) in &self.cells {
            let mut address = address.clone();
            address.retain(|name, _| is_kept(name));
            groups.entry(address).or_default().push(*x);
        }
        let mut dimensions = self.dimensions.clone();
        dimensions.retain(|name, _| is_kept(name));
        let of = |(address, cells): (Address, Vec<f64>)| Some((address, aggregate(aggregator, &cells)?));
        let cells = groups.into_iter().map(of).collect::<Option<Cells>>()?;
        Some(SlowTensor { dimensions, cells }.filled())
    }

    pub fn rename(&self, from: &[String], to: &[String]) -> Self {
        let name = |name: &String| match from.iter().position(|old| old == name) {
            Some(at) => to[at].clone(),
            None => name.clone(),
        };
        let address = |address: &Address| address.iter().map(|(n, label)| (name(n), label.clone())).collect();
        SlowTensor {
            dimensions: self.dimensions.iter().map(|(n, size)| (name(n), *size)).collect(),
            cells: self.cells.iter().map(|(of, cell)| (address(of), *cell)).collect(),
        }
    }

    /// The cells at some labels, without those dimensions; a number if no dimension remains.
    pub fn peek(&self, at: &[(String, String)]) -> Self {
        let is_there = |address: &Address| at.iter().all(|(name, label)| address.get(name) == Some(label));
        let without = |address: &Address| {
            let mut address = address.clone();
            at.iter().for_each(|(name, _)| _ = address.remove(name));
            address
        };
        let mut dimensions = self.dimensions.clone();
        at.iter().for_each(|(name, _)| _ = dimensions.remove(name));
        let found = self.cells.iter().filter(|(address, _)| is_there(address));
        let cells = found.map(|(address, cell)| (without(address), *cell)).collect();
        SlowTensor { dimensions, cells }.filled()
    }

    /// Concatenates both along a dimension.
    pub fn concat(&self, other: &SlowTensor, along: &str) -> Self {
        let size = |of: &SlowTensor| of.dimensions.get(along).copied().flatten().unwrap_or(1);
        let along_it = |of: &SlowTensor, by: usize| {
            let mut moved = SlowTensor { dimensions: of.dimensions.clone(), cells: Cells::new() };
            for (address, cell) in &of.cells {
                let mut address = address.clone();
                let index: usize = address.get(along).and_then(|label| label.parse().ok()).unwrap_or(0);
                address.insert(along.to_owned(), (index + by).to_string());
                moved.cells.insert(address, *cell);
            }
            moved
        };
        // Cells of only one side are repeated over the other.
        let others = |of: &SlowTensor| {
            let mut others = of.clone();
            others.dimensions.remove(along);
            let address = |address: &Address| {
                let mut address = address.clone();
                address.remove(along);
                address
            };
            others.cells = of.cells.keys().map(|of| (address(of), 1.0)).collect();
            others
        };
        let left = along_it(self, 0).join(&others(other), |x, _| x);
        let right = along_it(other, size(self)).join(&others(self), |x, _| x);
        let mut dimensions = left.dimensions.clone();
        dimensions.extend(right.dimensions.clone());
        dimensions.insert(along.to_owned(), Some(size(self) + size(other)));
        SlowTensor { dimensions, cells: left.cells.into_iter().chain(right.cells).collect() }
    }

    /// The dense subspaces by the mapped part of their addresses.
    pub fn subspaces(&self) -> Vec<(Address, SlowTensor)> {
        let is_mapped = |name: &String| self.dimensions[name].is_none();
        let mut dimensions = self.dimensions.clone();
        dimensions.retain(|name, _| !is_mapped(name));
        let mut subspaces: BTreeMap<Address, Cells> = BTreeMap::new();
        for (address, cell) in &self.cells {
            let (mut mapped, mut indexed) = (address.clone(), address.clone());
            mapped.retain(|name, _| is_mapped(name));
            indexed.retain(|name, _| !is_mapped(name));
            subspaces.entry(mapped).or_default().insert(indexed, *cell);
        }
        let slow = |(mapped, cells)| (mapped, SlowTensor { dimensions: dimensions.clone(), cells });
        subspaces.into_iter().map(slow).collect()
    }
}

fn aggregate(aggregator: &str, cells: &[f64]) -> Option<f64> {
    if cells.is_empty() {
        return Some(0.0);
    }
    Some(match aggregator {
        "sum" => cells.iter().sum(),
        "prod" => cells.iter().product(),
        "count" => cells.len() as f64,
        "avg" => cells.iter().sum::<f64>() / cells.len() as f64,
        "max" => cells.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "min" => cells.iter().copied().fold(f64::INFINITY, f64::min),
        "median" => {
            let mut sorted = cells.to_vec();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted.len() / 2;
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
        }
        _ => return None,
    })
}
