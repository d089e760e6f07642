//! Sums over rows of 16-bit brain floats against one query, four rows at a time.
//!
//! A brain float is the upper half of a 32-bit float. So of a register full of them, a shift by 16 bits makes floats of the even
//! cells, and a mask those of the odd ones: two cheap instructions for 32 cells, and nothing is rounded. The query is split the
//! same way beforehand. Four rows share the loads of the query, and hide each other's waiting for memory.

use half::bf16;
use millrace_tensor::kernels::Pairs;

/// How many rows ahead of those in work the next are asked for.
#[cfg(target_arch = "x86_64")]
const PREFETCH_ROWS: usize = 8;

/// A query for rows of brain floats.
#[derive(Debug, Clone)]
pub(crate) struct BrainQuery {
    /// The cells at even places, then those at odd places, 16 at a time, with zeros at the end.
    blocks: Vec<[[f32; 16]; 2]>,
    width: usize,
}

impl BrainQuery {
    pub(crate) fn new(query: &[f32]) -> Self {
        let block = |cells: &[f32]| {
            let mut block = [[0.0; 16]; 2];
            cells.iter().enumerate().for_each(|(place, cell)| block[place % 2][place / 2] = *cell);
            block
        };
        BrainQuery { blocks: query.chunks(32).map(block).collect(), width: query.len() }
    }

    /// For each of `rows`, the sum over the pairs of cells of the query and that row of `cells`. Rows past the end give 0.
    pub(crate) fn sum_rows(&self, pairs: Pairs, cells: &[bf16], rows: &[u16], sums: &mut [f64]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the feature that the functions need was just found.
            return unsafe {
                match pairs {
                    Pairs::Product => x86::rows::<false>(self, cells, rows, sums),
                    Pairs::SquaredDifference => x86::rows::<true>(self, cells, rows, sums),
                }
            };
        }
        self.sum_rows_plain(pairs, cells, rows, sums);
    }

    /// The plain twin of [`BrainQuery::sum_rows`].
    fn sum_rows_plain(&self, pairs: Pairs, cells: &[bf16], rows: &[u16], sums: &mut [f64]) {
        for (sum, row) in sums.iter_mut().zip(rows) {
            let row = self.row(cells, *row);
            let mut parts = [[0.0f32; 16]; 2];
            for (query, cells) in self.blocks.iter().zip(row.chunks(32)) {
                for (place, cell) in cells.iter().enumerate() {
                    let (query, cell) = (query[place % 2][place / 2], cell.to_f32());
                    parts[place % 2][place / 2] += match pairs {
                        Pairs::Product => query * cell,
                        Pairs::SquaredDifference => (query - cell) * (query - cell),
                    };
                }
            }
            *sum = f64::from(parts.as_flattened().iter().sum::<f32>());
        }
    }

    /// A row; empty where there is none.
    fn row<'c>(&self, cells: &'c [bf16], row: u16) -> &'c [bf16] {
        let from = usize::from(row) * self.width;
        cells.get(from..from + self.width).unwrap_or_default()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::bf16;
    use millrace_tensor::kernels::Pairs;

    use super::{BrainQuery, PREFETCH_ROWS};

    #[target_feature(enable = "avx512bw")]
    pub(super) fn rows<const DIFFERENCE: bool>(
        query: &BrainQuery,
        cells: &[bf16],
        rows: &[u16],
        sums: &mut [f64],
    ) {
        for (rows, sums) in rows.chunks(4).zip(sums.chunks_mut(4)) {
            // Fewer than four are filled up with the first.
            let mut four = [query.row(cells, rows[0]); 4];
            for (slice, row) in four.iter_mut().zip(rows) {
                *slice = query.row(cells, *row);
            }
            if four.iter().any(|row| row.len() != query.width) {
                let pairs = if DIFFERENCE { Pairs::SquaredDifference } else { Pairs::Product };
                query.sum_rows_plain(pairs, cells, rows, sums);
                continue;
            }
            prefetch(query, cells, usize::from(rows[0]) + PREFETCH_ROWS);
            let four = sum_four::<DIFFERENCE>(query, four);
            sums.iter_mut().zip(four).for_each(|(sum, of_row)| *sum = f64::from(of_row));
        }
    }

    /// Asks for the four rows from `row` on, where they are.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn prefetch(query: &BrainQuery, cells: &[bf16], row: usize) {
        let from = row * query.width;
        for line in cells.get(from..from + 4 * query.width).unwrap_or_default().chunks(32) {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }

    /// The sums of four rows, all as wide as the query.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    fn sum_four<const DIFFERENCE: bool>(query: &BrainQuery, rows: [&[bf16]; 4]) -> [f32; 4] {
        let width = query.width;
        assert!(rows.iter().all(|row| row.len() == width), "rows are as wide as the query");
        let mut sums = [[_mm512_setzero_ps(); 2]; 4];
        let whole = width / 32;
        for (number, block) in query.blocks[..whole].iter().enumerate() {
            // SAFETY: an array of sixteen floats is what each load reads.
            let parts = unsafe { [_mm512_loadu_ps(block[0].as_ptr()), _mm512_loadu_ps(block[1].as_ptr())] };
            for (row, sums) in rows.iter().zip(&mut sums) {
                let from = row[number * 32..][..32].as_ptr();
                // SAFETY: 32 cells are behind the pointer, as many as are read.
                let cells = unsafe { _mm512_loadu_si512(from.cast()) };
                step::<DIFFERENCE>(sums, parts, cells);
            }
        }
        if let Some(block) = query.blocks.get(whole) {
            // SAFETY: an array of sixteen floats is what each load reads.
            let parts = unsafe { [_mm512_loadu_ps(block[0].as_ptr()), _mm512_loadu_ps(block[1].as_ptr())] };
            let mask = (1u32 << (width - whole * 32)) - 1;
            for (row, sums) in rows.iter().zip(&mut sums) {
                let from = row[whole * 32..].as_ptr();
                // SAFETY: as many cells as the mask has bits are behind the pointer, and only those are read. The others are 0, as
                // they are in the query.
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

    /// Adds what 32 cells give to the sums of a row: of its even cells, and of its odd ones.
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
        /// Over whole numbers, where sums are exact in any order.
        #[test]
        fn rows_have_the_sums_that_the_plain_twin_finds(
            width in 1usize..100,
            numbers in proptest::collection::vec(-9i8..9, 100..1100),
            rows in proptest::collection::vec(0u16..14, 0..20),
        ) {
            let query: Vec<f32> = numbers[..width].iter().map(|n| f32::from(*n)).collect();
            let cells: Vec<bf16> = numbers.iter().map(|n| bf16::from_f32(f32::from(*n))).collect();
            let split = BrainQuery::new(&query);
            for pairs in [Pairs::Product, Pairs::SquaredDifference] {
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
