//! Late interaction: for each of several vectors the largest sum with any of several others, added up.
//!
//! 1. The vectors of one side, the query's, are transposed so that cell `k` of as many vectors as a register
//!    has lanes is contiguous. A few such registers are a block.
//! 2. The vectors of the other side are taken a few at a time, their cells as `f32`.
//! 3. Each of their cells is broadcast to a register and multiplied with the block's: one sum per lane, never
//!    added across lanes.
//! 4. Each lane keeps its largest sum; at the end the lanes are added up.

use super::{KernelCell, KernelSum, native};

/// Vectors of one side, prepared for comparison with those of the other.
#[derive(Debug, Clone)]
pub struct MaxSimKernel {
    pub(super) pairs: KernelSum,
    /// Number of cells per vector.
    pub(super) width: usize,
    /// Number of vectors.
    vectors: usize,
    /// Blocks, each with `width` times the lanes of its registers. Lanes without a vector are 0.
    pub(super) packed: Vec<f32>,
    /// Number of registers of each block.
    pub(super) blocks: Vec<usize>,
    /// Largest sum of each lane.
    pub(super) best: Vec<f32>,
    /// Cells of some vectors of the other side.
    pub(super) rows: Vec<f32>,
}

impl MaxSimKernel {
    /// Prepares concatenated vectors of `width` cells; no vectors if `width` is 0.
    pub fn new<A: KernelCell>(pairs: KernelSum, vectors: &[A], width: usize) -> Self {
        let lanes = native::lanes();
        let count = vectors.len().checked_div(width).unwrap_or(0);
        let mut blocks = Vec::new();
        let mut packed = Vec::new();
        let mut next = 0;
        while next < count {
            let registers = match (count - next).div_ceil(lanes) {
                1 => 1,
                left => left.min(native::BLOCK).next_power_of_two().min(native::BLOCK),
            };
            let block = &vectors[next * width..count.min(next + registers * lanes) * width];
            for cell in 0..width {
                let cells = block.iter().skip(cell).step_by(width).map(|cell| cell.to_f32());
                let padding = registers * lanes - block.len() / width;
                packed.extend(cells.chain(std::iter::repeat_n(0.0, padding)));
            }
            blocks.push(registers);
            next += registers * lanes;
        }
        let best = vec![0.0; blocks.iter().sum::<usize>() * lanes];
        MaxSimKernel { pairs, width, vectors: count, packed, blocks, best, rows: Vec::new() }
    }

    /// For each vector of this side the largest sum with any of `others`, added up; 0 without others.
    pub fn of<B: KernelCell>(&mut self, others: &[B]) -> f64 {
        if self.width == 0 || others.len() < self.width {
            return 0.0;
        }
        self.best.fill(f32::NEG_INFINITY);
        match self.pairs {
            KernelSum::Product => native::max_sim::<B, false>(self, others),
            KernelSum::SquaredDifference => native::max_sim::<B, true>(self, others),
        }
        self.best[..self.vectors].iter().map(|best| f64::from(*best)).sum()
    }

    /// Plain implementation.
    pub(super) fn of_plain<B: KernelCell, const DIFFERENCE: bool>(&mut self, others: &[B], lanes: usize) {
        let MaxSimKernel { width, packed, blocks, best, .. } = self;
        let (mut packed, mut best) = (&packed[..], &mut best[..]);
        for registers in blocks {
            let in_block = *registers * lanes;
            let (block, rest) = packed.split_at(in_block * *width);
            let (of_block, others_best) = best.split_at_mut(in_block);
            for other in others.chunks_exact(*width) {
                for (lane, best) in of_block.iter_mut().enumerate() {
                    let cells = block.iter().skip(lane).step_by(in_block);
                    let pairs = cells.zip(other).map(|(a, b)| {
                        let (a, b) = (*a, b.to_f32());
                        if DIFFERENCE { (a - b) * (a - b) } else { a * b }
                    });
                    *best = best.max(pairs.sum());
                }
            }
            (packed, best) = (rest, others_best);
        }
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::sum_pairs_plain;

    /// Compares with one pair of vectors at a time, over whole numbers, for which `f32` sums are exact in any
    /// order.
    fn check<A: KernelCell, B: KernelCell>(query: &[A], others: &[B], width: usize) {
        let cells = |row: &[A]| row.iter().map(|cell| f64::from(cell.to_f32())).collect::<Vec<_>>();
        for pairs in [KernelSum::Product, KernelSum::SquaredDifference] {
            let best = |vector: &[A]| {
                let of_other = |other: &[B]| {
                    sum_pairs_plain(pairs, cells(vector), other.iter().map(|cell| f64::from(cell.to_f32())))
                };
                others.chunks_exact(width).map(of_other).fold(f64::NEG_INFINITY, f64::max)
            };
            let expected: f64 = match others.len() < width {
                true => 0.0,
                false => query.chunks_exact(width).map(best).sum(),
            };
            let mut similarity = MaxSimKernel::new(pairs, query, width);
            assert_eq!(similarity.of(others), expected);
            // No state is left from the previous run.
            assert_eq!(similarity.of(others), expected);
            if others.len() >= width {
                similarity.best.fill(f32::NEG_INFINITY);
                match pairs {
                    KernelSum::Product => similarity.of_plain::<B, false>(others, native::lanes()),
                    KernelSum::SquaredDifference => similarity.of_plain::<B, true>(others, native::lanes()),
                }
                let plain: f64 =
                    similarity.best[..similarity.vectors].iter().map(|best| f64::from(*best)).sum();
                assert_eq!(plain, expected);
            }
        }
    }

    proptest! {
        #[test]
        fn late_interaction_equals_its_plain_form(
            width in 1usize..20,
            query in proptest::collection::vec(-9i8..9, 0..1200),
            others in proptest::collection::vec(-9i8..9, 0..300),
        ) {
            let query: Vec<f32> = query.iter().map(|cell| f32::from(*cell)).collect();
            let query = &query[..query.len() / width * width];
            let float: Vec<f32> = others.iter().map(|cell| f32::from(*cell)).collect();
            let bfloat16: Vec<bf16> = float.iter().map(|cell| bf16::from_f32(*cell)).collect();
            check(query, &others, width);
            check(query, &float, width);
            check(query, &bfloat16, width);
        }
    }
}
