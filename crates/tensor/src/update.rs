//! Partial updates: changes to some cells of a tensor.

use std::collections::{HashMap, HashSet};

use crate::size::TensorSize;
use crate::{Error, Tensor, TensorCells};

/// Operation of a [`TensorModify`] on each of its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellOperation {
    /// The new value replaces the old one.
    Replace,
    /// The new value is added to the old one.
    Add,
    /// The old value is multiplied by the new one.
    Multiply,
}

impl CellOperation {
    /// Initial value of a cell that the modification creates.
    const fn default(self) -> f64 {
        match self {
            CellOperation::Replace | CellOperation::Add => 0.0,
            CellOperation::Multiply => 1.0,
        }
    }

    fn apply(self, old: f64, new: f64) -> f64 {
        match self {
            CellOperation::Replace => new,
            CellOperation::Add => old + new,
            CellOperation::Multiply => old * new,
        }
    }
}

/// Change of single cells. Missing cells are skipped, or created first.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorModify {
    /// Operation on each cell.
    pub operation: CellOperation,
    /// True to create missing subspaces.
    pub create: bool,
    /// Labels of the mapped dimensions, the row-major index in the subspace, and the operand.
    pub cells: Vec<(Vec<String>, usize, f64)>,
}

/// Removal of subspaces: each pattern has one entry per mapped dimension, a label or `None` for any.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorRemove {
    /// A subspace that matches one of these is removed.
    pub patterns: Vec<Vec<Option<String>>>,
}

impl Tensor {
    /// Returns this tensor with some cells modified.
    ///
    /// # Errors
    /// A cell's labels or index are not of this type; with the subspaces that are created, the value is
    /// larger than [`TENSOR_BYTES_MAX`](crate::TENSOR_BYTES_MAX).
    pub fn modified(&self, modify: &TensorModify) -> Result<Tensor, Error> {
        let dense = self.tensor_type().dense_size();
        let mapped = self.tensor_type().mapped().count();
        let block = dense * self.tensor_type().cell().size();
        let mut size = TensorSize::default();
        if modify.create {
            for index in 0..self.subspaces() {
                size.add(self.tensor_type(), self.labels(index).iter().map(String::as_str), 2, block)?;
            }
        }
        let mut labels = self.all_labels().to_vec();
        let mut cells = self.cells().clone();
        let mut by_labels: HashMap<Vec<String>, usize> =
            (0..self.subspaces()).map(|index| (self.labels(index).to_vec(), index)).collect();
        for (address, index, value) in &modify.cells {
            if address.len() != mapped || *index >= dense {
                return Err(Error::Value {
                    tensor_type: self.tensor_type().to_string(),
                    reason: "an address must name every dimension".to_owned(),
                });
            }
            let subspace = match by_labels.get(address) {
                Some(&subspace) => subspace,
                None if modify.create => {
                    size.add(self.tensor_type(), address.iter().map(String::as_str), 2, block)?;
                    let subspace = by_labels.len();
                    labels.extend_from_slice(address);
                    (0..dense).for_each(|_| cells.push(modify.operation.default()));
                    by_labels.insert(address.clone(), subspace);
                    subspace
                }
                None => continue,
            };
            let at = subspace * dense + index;
            cells.set(at, modify.operation.apply(cells.get(at), *value));
        }
        Tensor::new(self.tensor_type().clone(), labels, cells)
    }

    /// Returns this tensor with the subspaces of `other` added; if both have one, that of `other` wins.
    ///
    /// # Errors
    /// The types differ; no dimension is mapped, so that nothing can be added; the value becomes larger than
    /// [`TENSOR_BYTES_MAX`](crate::TENSOR_BYTES_MAX).
    pub fn with_subspaces(&self, other: &Tensor) -> Result<Tensor, Error> {
        if self.tensor_type() != other.tensor_type() || self.tensor_type().mapped().next().is_none() {
            return Err(self.not_mapped_error("added"));
        }
        let mut builder = crate::TensorBuilder::new(self.tensor_type());
        let dense = self.tensor_type().dense_size();
        for tensor in [self, other] {
            for index in 0..tensor.subspaces() {
                let block = tensor.cells().slice(index * dense..(index + 1) * dense);
                builder.block(tensor.labels(index).to_vec(), &block)?;
            }
        }
        Ok(builder.finish())
    }

    /// Returns this tensor without the subspaces that match a pattern.
    ///
    /// # Errors
    /// No dimension is mapped, so that nothing can be removed.
    pub fn without_subspaces(&self, remove: &TensorRemove) -> Result<Tensor, Error> {
        if self.tensor_type().mapped().next().is_none() {
            return Err(self.not_mapped_error("removed"));
        }
        let dense = self.tensor_type().dense_size();
        let mut labels = Vec::new();
        let mut cells = TensorCells::with_capacity(self.tensor_type().cell(), self.cells().len());
        // The labels of patterns, by the dimensions in which they have some.
        let mut patterns: HashMap<Vec<bool>, HashSet<Vec<&str>>> = HashMap::new();
        for pattern in &remove.patterns {
            let dimensions: Vec<bool> = pattern.iter().map(Option::is_some).collect();
            let labels = pattern.iter().flatten().map(String::as_str).collect();
            patterns.entry(dimensions).or_default().insert(labels);
        }
        for index in 0..self.subspaces() {
            let of = self.labels(index);
            let is_removed = patterns.iter().any(|(dimensions, labels)| {
                let wanted = dimensions.iter().zip(of).filter(|(is_given, _)| **is_given);
                labels.contains(&wanted.map(|(_, label)| label.as_str()).collect::<Vec<_>>())
            });
            if !is_removed {
                labels.extend_from_slice(of);
                (index * dense..(index + 1) * dense).for_each(|at| cells.push(self.cells().get(at)));
            }
        }
        Tensor::new(self.tensor_type().clone(), labels, cells)
    }

    fn not_mapped_error(&self, what: &str) -> Error {
        Error::Value {
            tensor_type: self.tensor_type().to_string(),
            reason: format!("cells can only be {what} where a dimension is mapped; use modify or assign"),
        }
    }
}
