//! `reduce` over batches.

use std::ops::Range;

use millrace_tensor::TensorType;

use super::{is_identity, source_cells};
use crate::batch::{BatchSpace, BatchView, SubspaceShape, TensorBatch};
use crate::operators::ReduceAggregator;
use crate::types;
use crate::value::round;

/// `reduce`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorReduce {
    aggregator: ReduceAggregator,
    /// Indices of the remaining mapped dimensions.
    kept: Vec<usize>,
    /// For each dense cell of the result, the indices of the cells it is computed from, concatenated.
    cells: Vec<u32>,
    /// True if a cell of the result is computed from adjacent cells.
    adjacent: bool,
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
        let targets = source_cells(of, result);
        let mut cells: Vec<u32> = (0..targets.len() as u32).collect();
        cells.sort_by_key(|cell| targets[*cell as usize]);
        let adjacent = is_identity(&cells, of);
        TensorReduce { aggregator, kept, cells, adjacent, result: result.clone() }
    }

    pub fn aggregator(&self) -> ReduceAggregator {
        self.aggregator
    }

    pub fn run(
        &self,
        of: BatchView<'_>,
        documents: usize,
        space: &mut BatchSpace,
        cells: Vec<f64>,
    ) -> TensorBatch {
        let shape = SubspaceShape::of(&self.result);
        let mut out = TensorBatch::new(shape, cells);
        for document in 0..documents {
            let subspaces = of.subspaces(document);
            if self.kept.is_empty() {
                self.combine(&of, GroupedSubspaces::All(subspaces), &mut space.left, &mut out.cells);
            } else {
                self.groups(&of, subspaces, space, &mut out);
            }
            out.end_tensor(shape);
        }
        round(self.result.cell(), &mut out.cells);
        out
    }

    /// Combines the subspaces with equal labels in the remaining dimensions, in the order of their
    /// appearance.
    fn groups(
        &self,
        of: &BatchView<'_>,
        subspaces: Range<usize>,
        space: &mut BatchSpace,
        out: &mut TensorBatch,
    ) {
        let BatchSpace { index, groups: order, left, .. } = space;
        let kept = || self.kept.iter().copied();
        index.clear();
        // The number of its group for each subspace, then the subspaces by group.
        order.clear();
        let mut groups = 0u32;
        for subspace in subspaces.clone() {
            let address = of.address(subspace);
            let group = match index.first(address, kept()) {
                Some(entry) => index.entry(entry).0 as u32,
                None => {
                    index.insert(address, kept(), groups as usize);
                    out.labels.extend(kept().map(|at| address[at]));
                    groups += 1;
                    groups - 1
                }
            };
            order.push((group, subspace as u32));
        }
        order.sort_unstable();
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let count = rest.partition_point(|entry| entry.0 == first.0);
            let (group, others) = rest.split_at(count);
            self.combine(of, GroupedSubspaces::Some(group), left, &mut out.cells);
            rest = others;
        }
    }

    /// Appends the combined cells of some subspaces.
    fn combine(
        &self,
        of: &BatchView<'_>,
        sources: GroupedSubspaces<'_>,
        gathered: &mut Vec<f64>,
        out: &mut Vec<f64>,
    ) {
        let size = self.result.dense_size();
        let group = self.cells.len() / size;
        if let GroupedSubspaces::All(subspaces) = &sources
            && self.adjacent
            && (size == 1 || subspaces.len() == 1)
        {
            let cells = &of.cells[subspaces.start * of.shape.size..subspaces.end * of.shape.size];
            if size == 1 {
                out.push(self.aggregator.apply_to_slice(cells, gathered));
            } else {
                out.extend(cells.chunks(group).map(|cells| self.aggregator.apply_to_slice(cells, gathered)));
            }
            return;
        }
        for gathered_cells in self.cells.chunks(group) {
            gathered.clear();
            let mut gather = |subspace: usize| {
                let from = of.subspace(subspace);
                gathered.extend(gathered_cells.iter().map(|at| from[*at as usize]));
            };
            match &sources {
                GroupedSubspaces::All(subspaces) => subspaces.clone().for_each(&mut gather),
                GroupedSubspaces::Some(group) => {
                    group.iter().for_each(|(_, subspace)| gather(*subspace as usize))
                }
            }
            out.push(self.aggregator.apply(gathered));
        }
    }
}

/// Subspaces that are combined.
enum GroupedSubspaces<'s> {
    All(Range<usize>),
    /// The second number of each.
    Some(&'s [(u32, u32)]),
}
