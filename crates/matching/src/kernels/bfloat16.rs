//! Sums over rows of bfloat16 numbers against one query, four rows at a time.
//!
//! A bfloat16 is the upper half of a 32-bit float. In a register full of them, a shift by 16 bits converts
//! the even cells to floats, and a mask the odd ones: two cheap instructions for 32 cells, without rounding.
//! The query is split the same way in advance. Four rows share the loads of the query, and hide each other's
//! memory latency.

use half::bf16;
use millrace_tensor::kernels::KernelSum;

/// Prefetch distance in rows.
#[cfg(target_arch = "x86_64")]
const PREFETCH_ROWS: usize = 8;

/// A query prepared for rows of bfloat16 numbers.
#[derive(Debug, Clone)]
pub(crate) struct Bfloat16Query {
    /// The even cells, then the odd cells, 16 at a time, padded with zeros.
    blocks: Vec<[[f32; 16]; 2]>,
    width: usize,
}

impl Bfloat16Query {
    /// True if the machine has the instructions that make this kernel worthwhile. Otherwise the kernels of
    /// crate `tensor` are faster.
    pub(crate) fn is_fast() -> bool {
        #[cfg(target_arch = "x86_64")]
        let fast = is_x86_feature_detected!("avx512bw");
        #[cfg(not(target_arch = "x86_64"))]
        let fast = false;
        fast
    }

    pub(crate) fn new(query: &[f32]) -> Self {
        let block = |cells: &[f32]| {
            let mut block = [[0.0; 16]; 2];
            cells.iter().enumerate().for_each(|(index, cell)| block[index % 2][index / 2] = *cell);
            block
        };
        Bfloat16Query { blocks: query.chunks(32).map(block).collect(), width: query.len() }
    }

    /// Computes for each of `rows` the sum over the pairs of cells of the query and that row of `cells`. Rows
    /// past the end give 0.
    pub(crate) fn sum_rows(&self, pairs: KernelSum, cells: &[[u8; 2]], rows: &[u16], sums: &mut [f64]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the check above found the CPU feature that the functions need.
            return unsafe {
                match pairs {
                    KernelSum::Product => x86::rows::<false>(self, cells, rows, sums),
                    KernelSum::SquaredDifference => x86::rows::<true>(self, cells, rows, sums),
                }
            };
        }
        self.sum_rows_plain(pairs, cells, rows, sums);
    }

    /// Plain implementation of [`Bfloat16Query::sum_rows`].
    fn sum_rows_plain(&self, pairs: KernelSum, cells: &[[u8; 2]], rows: &[u16], sums: &mut [f64]) {
        for (sum, row) in sums.iter_mut().zip(rows) {
            let row = self.row(cells, *row);
            let mut parts = [[0.0f32; 16]; 2];
            for (query, cells) in self.blocks.iter().zip(row.chunks(32)) {
                for (index, cell) in cells.iter().enumerate() {
                    let (query, cell) = (query[index % 2][index / 2], bf16::from_le_bytes(*cell).to_f32());
                    parts[index % 2][index / 2] += match pairs {
                        KernelSum::Product => query * cell,
                        KernelSum::SquaredDifference => (query - cell) * (query - cell),
                    };
                }
            }
            *sum = f64::from(parts.as_flattened().iter().sum::<f32>());
        }
    }

    /// A row; empty if it does not exist.
    fn row<'c>(&self, cells: &'c [[u8; 2]], row: u16) -> &'c [[u8; 2]] {
        let from = usize::from(row) * self.width;
        cells.get(from..from + self.width).unwrap_or_default()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use millrace_tensor::kernels::KernelSum;

    use super::{Bfloat16Query, PREFETCH_ROWS};

    #[target_feature(enable = "avx512bw")]
    pub(super) fn rows<const DIFFERENCE: bool>(
        query: &Bfloat16Query,
        cells: &[[u8; 2]],
        rows: &[u16],
        sums: &mut [f64],
    ) {
        for (rows, sums) in rows.chunks(4).zip(sums.chunks_mut(4)) {
            // Fewer than four rows are padded with the first.
            let mut four = [query.row(cells, rows[0]); 4];
            for (slice, row) in four.iter_mut().zip(rows) {
                *slice = query.row(cells, *row);
            }
            if four.iter().any(|row| row.len() != query.width) {
                let pairs = if DIFFERENCE { KernelSum::SquaredDifference } else { KernelSum::Product };
                query.sum_rows_plain(pairs, cells, rows, sums);
                continue;
            }
            let ahead = cells.as_ptr().wrapping_add((usize::from(rows[0]) + PREFETCH_ROWS) * query.width);
            let four = sum_four::<DIFFERENCE>(query, four, ahead);
            sums.iter_mut().zip(four).for_each(|(sum, of_row)| *sum = f64::from(of_row));
        }
    }

    /// Sums of four rows of the query's width. Prefetches four rows from `ahead` in small steps, because a
    /// single burst would fill the cache's request queue and stall all other loads.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn sum_four<const DIFFERENCE: bool>(
        query: &Bfloat16Query,
        rows: [&[[u8; 2]]; 4],
        ahead: *const [u8; 2],
    ) -> [f32; 4] {
        let width = query.width;
        assert!(rows.iter().all(|row| row.len() == width), "rows are as wide as the query");
        let mut sums = [[_mm512_setzero_ps(); 2]; 4];
        let whole = width / 32;
        for (number, block) in query.blocks[..whole].iter().enumerate() {
            // SAFETY: each load reads an array of sixteen floats.
            let parts = unsafe { [_mm512_loadu_ps(block[0].as_ptr()), _mm512_loadu_ps(block[1].as_ptr())] };
            for (index, (row, sums)) in rows.iter().zip(&mut sums).enumerate() {
                // A prefetch accepts any address and reads nothing from it.
                _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add((number * 4 + index) * 32).cast());
                let from = row[number * 32..][..32].as_ptr();
                // SAFETY: the pointer is followed by the 32 cells that are read.
                let cells = unsafe { _mm512_loadu_si512(from.cast()) };
                step::<DIFFERENCE>(sums, parts, cells);
            }
        }
        if let Some(block) = query.blocks.get(whole) {
            // SAFETY: each load reads an array of sixteen floats.
            let parts = unsafe { [_mm512_loadu_ps(block[0].as_ptr()), _mm512_loadu_ps(block[1].as_ptr())] };
            let mask = (1u32 << (width - whole * 32)) - 1;
            for (row, sums) in rows.iter().zip(&mut sums) {
                let from = row[whole * 32..].as_ptr();
                // SAFETY: the pointer is followed by as many cells as the mask has bits, and only those are
                // read. The other cells are 0, as in the query.
                let cells = unsafe { _mm512_maskz_loadu_epi16(mask, from.cast()) };
                step::<DIFFERENCE>(sums, parts, cells);
            }
        }
        let mut totals = [0.0; 4];
        for (total, sums) in totals.iter_mut().zip(sums) {
            *total = _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
        }
        totals
    }

    /// Adds 32 cells to the sums of a row: one sum for even cells, one for odd cells.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn step<const DIFFERENCE: bool>(sums: &mut [__m512; 2], query: [__m512; 2], cells: __m512i) {
        let even = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(cells));
        let odd = _mm512_castsi512_ps(_mm512_and_si512(cells, _mm512_set1_epi32(!0xffff)));
        if DIFFERENCE {
            let (even, odd) = (_mm512_sub_ps(query[0], even), _mm512_sub_ps(query[1], odd));
            sums[0] = _mm512_fmadd_ps(even, even, sums[0]);
            sums[1] = _mm512_fmadd_ps(odd, odd, sums[1]);
        } else {
            sums[0] = _mm512_fmadd_ps(query[0], even, sums[0]);
            sums[1] = _mm512_fmadd_ps(query[1], odd, sums[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Uses whole numbers, for which sums are exact in any order.
        #[test]
        fn rows_have_the_sums_that_the_plain_form_finds(
            width in 1usize..100,
            numbers in proptest::collection::vec(-9i8..9, 100..1100),
            rows in proptest::collection::vec(0u16..14, 0..20),
        ) {
            let query: Vec<f32> = numbers[..width].iter().map(|n| f32::from(*n)).collect();
            let cells: Vec<[u8; 2]> =
                numbers.iter().map(|n| bf16::from_f32(f32::from(*n)).to_le_bytes()).collect();
            let split = Bfloat16Query::new(&query);
            for pairs in [KernelSum::Product, KernelSum::SquaredDifference] {
                let (mut fast, mut plain) = (vec![0.0; rows.len()], vec![0.0; rows.len()]);
                split.sum_rows(pairs, &cells, &rows, &mut fast);
                split.sum_rows_plain(pairs, &cells, &rows, &mut plain);
                prop_assert_eq!(&fast, &plain);
                let mut general = vec![0.0; rows.len()];
                millrace_tensor::kernels::sum_rows(pairs, &query, &cells, width, &rows, &mut general);
                prop_assert_eq!(&fast, &general);
            }
        }
    }
}
