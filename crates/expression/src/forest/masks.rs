//! Trees of few leaves as masks over these leaves, computed for many documents at once.
//!
//! A split whose test does not hold takes the leaves of the branch where it holds away. Of the leaves that
//! are left over by all splits of a tree, the first is the one that a walk from the root reaches. So every
//! split of a tree is tested for every document, but without a branch and without a load that depends on
//! another one. A test of 16 or 32 documents is a comparison and a conjunction of registers.
//!
//! Features are compared by their ranks among the bounds of all trees, which are numbers of 16 bits.

use std::cmp::Ordering;
use std::ops::Range;

use hashbrown::{HashMap, HashSet};

use super::kernels::{LeafClear, MaskedTrees, PLANE_LEAVES, add_leaves};
use super::{ForestSplit, WalkTarget};
use crate::operators::BatchNumbers;

/// Maximum number of leaves of a tree. With more, testing all splits takes longer than a walk.
const LEAVES_MAX: usize = 64;
/// Maximum number of bounds of a cell: ranks have 16 bits and a sign.
const BOUNDS_MAX: usize = i16::MAX as usize;
/// Documents of a block.
const BLOCK: usize = 64;
/// Documents of the blocks at the end, where few are left.
const SMALL_BLOCK: usize = 16;

/// Trees as masks over their leaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LeafMasks {
    cells: Vec<RankedCell>,
    first_planes: Vec<u32>,
    plane_ends: Vec<u32>,
    clears: Vec<LeafClear>,
    values: Vec<f64>,
}

/// A feature of a document, with a number in place of NaN, and the bounds to which it is compared.
#[derive(Debug, Clone, PartialEq)]
struct RankedCell {
    feature: u32,
    missing: f64,
    /// All different, ascending.
    bounds: Vec<f64>,
}

/// Collector of the trees of [`LeafMasks`].
#[derive(Debug, Default)]
pub(super) struct LeafMaskBuilder {
    masks: LeafMasks,
    /// The bound of each of [`LeafMasks::clears`].
    bounds: Vec<f64>,
    /// Index of each cell, by its feature and the bits of its number.
    known_cells: HashMap<(u32, u64), u16>,
    /// Bounds of all cells, by their bits.
    known_bounds: HashSet<(u16, u64)>,
}

/// A split of a tree that is being added.
struct MaskedSplit {
    cell: u16,
    bound: f64,
    /// Leaves of the branch where the test holds.
    cleared: Range<usize>,
}

impl LeafMaskBuilder {
    /// Number of trees so far.
    pub fn trees(&self) -> usize {
        self.masks.first_planes.len()
    }

    /// Adds a tree that is made of `splits`. Returns false if it cannot be added: it has too many leaves, a
    /// test that is not the comparison with a bound, or a bound more than ranks can tell apart.
    pub fn add(&mut self, root: WalkTarget, splits: &[ForestSplit]) -> bool {
        if !has_masks(root, splits) {
            return false;
        }
        let (mut found, mut values) = (Vec::new(), Vec::new());
        if self.collect(root, splits, &mut found, &mut values).is_none() {
            return false;
        }
        for split in &found {
            if self.known_bounds.insert((split.cell, split.bound.to_bits())) {
                self.masks.cells[usize::from(split.cell)].bounds.push(split.bound);
            }
        }
        let masks = &mut self.masks;
        masks.first_planes.push(masks.plane_ends.len() as u32);
        for plane in 0..values.len().div_ceil(PLANE_LEAVES) {
            for MaskedSplit { cell, bound, cleared } in &found {
                let bits = (1u128 << cleared.end) - (1u128 << cleared.start);
                let kept = !((bits >> (plane * PLANE_LEAVES)) as u8);
                if kept != u8::MAX {
                    masks.clears.push(LeafClear { cell: *cell, rank: 0, kept });
                    self.bounds.push(*bound);
                }
            }
            masks.plane_ends.push(masks.clears.len() as u32);
        }
        masks.values.extend(values);
        masks.values.resize(masks.plane_ends.len() * PLANE_LEAVES, 0.0);
        true
    }

    /// Appends the splits below `target`, and the values of its leaves from the branch where a test holds to
    /// the other. `None` if a cell would have too many bounds.
    fn collect(
        &mut self,
        target: WalkTarget,
        splits: &[ForestSplit],
        found: &mut Vec<MaskedSplit>,
        values: &mut Vec<f64>,
    ) -> Option<()> {
        let split = match target {
            WalkTarget::Leaf(value) => {
                values.push(value);
                return Some(());
            }
            WalkTarget::Split(split) => &splits[split as usize],
        };
        let (bound, missing) = split.comparison()?;
        let cell = self.cell(split.input, missing)?;
        let first = values.len();
        self.collect(split.next[0], splits, found, values)?;
        found.push(MaskedSplit { cell, bound, cleared: first..values.len() });
        self.collect(split.next[1], splits, found, values)
    }

    /// Index of a cell that has room for the bounds of a tree.
    fn cell(&mut self, feature: u32, missing: f64) -> Option<u16> {
        let cells = &mut self.masks.cells;
        let next = u16::try_from(cells.len()).ok()?;
        let at = *self.known_cells.entry((feature, missing.to_bits())).or_insert_with(|| {
            cells.push(RankedCell { feature, missing, bounds: Vec::new() });
            next
        });
        let has_room = cells[usize::from(at)].bounds.len() + LEAVES_MAX <= BOUNDS_MAX;
        has_room.then_some(at)
    }

    /// Returns the trees.
    pub fn finish(self) -> LeafMasks {
        let LeafMaskBuilder { mut masks, bounds, .. } = self;
        masks.first_planes.push(masks.plane_ends.len() as u32);
        masks.cells.iter_mut().for_each(|cell| cell.bounds.sort_unstable_by(f64::total_cmp));
        for (clear, bound) in masks.clears.iter_mut().zip(bounds) {
            let bounds = &masks.cells[usize::from(clear.cell)].bounds;
            clear.rank = bounds.partition_point(|other| other.total_cmp(&bound).is_lt()) as i16;
        }
        masks
    }
}

/// True if a tree has few leaves, and comparisons with bounds alone.
fn has_masks(root: WalkTarget, splits: &[ForestSplit]) -> bool {
    let (mut leaves, mut waiting) = (0, vec![root]);
    while let Some(target) = waiting.pop() {
        match target {
            WalkTarget::Leaf(_) => leaves += 1,
            WalkTarget::Split(split) => {
                let split = &splits[split as usize];
                // The ranks of numbers say nothing of a bound that is not a number.
                if split.comparison().is_none_or(|(bound, _)| bound.is_nan()) {
                    return false;
                }
                waiting.extend(split.next);
            }
        }
        if leaves + waiting.len() > LEAVES_MAX {
            return false;
        }
    }
    true
}

impl LeafMasks {
    /// Ranks of the features of all documents: block after block, in each a row for each cell.
    pub fn ranks(&self, inputs: &[BatchNumbers<'_>], documents: usize) -> Vec<i16> {
        let mut ranks = vec![0; documents.next_multiple_of(BLOCK) * self.cells.len()];
        let mut first = 0;
        while first < documents {
            let lanes = lanes(documents - first);
            let end = (first + lanes).min(documents);
            let rows = ranks[first * self.cells.len()..].chunks_exact_mut(lanes);
            for (cell, row) in self.cells.iter().zip(rows) {
                match inputs[cell.feature as usize] {
                    BatchNumbers::Same(number) => row.fill(cell.rank(number)),
                    BatchNumbers::Each(numbers) => {
                        let ranks = numbers[first..end].iter().map(|number| cell.rank(*number));
                        row.iter_mut().zip(ranks).for_each(|(rank, of_document)| *rank = of_document);
                    }
                }
            }
            first = end;
        }
        ranks
    }

    /// Adds the leaf of each of these trees to `out`, for each document. `ranks` are those of all of them.
    pub fn add_leaves(&self, trees: Range<usize>, ranks: &[i16], out: &mut [f64]) {
        let masked = MaskedTrees {
            first_planes: &self.first_planes[trees.start..=trees.end],
            plane_ends: &self.plane_ends,
            clears: &self.clears,
            values: &self.values,
        };
        let mut first = 0;
        while first < out.len() {
            let lanes = lanes(out.len() - first);
            let end = (first + lanes).min(out.len());
            let ranks = &ranks[first * self.cells.len()..][..lanes * self.cells.len()];
            match lanes {
                BLOCK => add_block::<BLOCK>(masked, ranks, &mut out[first..end]),
                _ => add_block::<SMALL_BLOCK>(masked, ranks, &mut out[first..end]),
            }
            first = end;
        }
    }
}

/// Documents of the next block, of `left` that are left. Lanes beyond the last document have some rank.
fn lanes(left: usize) -> usize {
    if left * 2 > BLOCK { BLOCK } else { SMALL_BLOCK }
}

/// Adds the leaves of at most `N` documents.
fn add_block<const N: usize>(trees: MaskedTrees<'_>, ranks: &[i16], out: &mut [f64]) {
    let mut sums = [0.0; N];
    sums[..out.len()].copy_from_slice(out);
    add_leaves(trees, ranks.as_chunks::<N>().0, &mut sums);
    out.copy_from_slice(&sums[..out.len()]);
}

impl RankedCell {
    /// Number of bounds that a feature is not below: it is below the bounds whose index is at least this.
    fn rank(&self, feature: f64) -> i16 {
        let number = if feature.is_nan() { self.missing } else { feature };
        // NaN is below none.
        self.bounds.partition_point(|bound| number.partial_cmp(bound) != Some(Ordering::Less)) as i16
    }
}
