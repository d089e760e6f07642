//! Sums over the cells of vectors, with the widest instructions of the machine.
//!
//! A kernel has a plain form, which defines its result, and one generic body over registers, which is
//! compiled for the instruction sets that the machine may have: AVX-512, AVX2 with FMA, NEON. They differ
//! from the plain form only in the order of additions; tests compare them. Cells of all types except `double`
//! are summed in `f32` lanes.

mod max_sim;

use half::bf16;

pub use max_sim::MaxSimKernel;

#[cfg_attr(target_arch = "x86_64", path = "kernels/x86.rs")]
#[cfg_attr(target_arch = "aarch64", path = "kernels/neon.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "kernels/portable.rs")]
mod native;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod wide;

/// A cell that kernels can read as `f32`.
pub trait KernelCell: Copy + native::LoadWide {
    /// Converts the cell to `f32` exactly.
    fn to_f32(self) -> f32;
}

impl KernelCell for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
}

impl KernelCell for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
}

impl KernelCell for i8 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self)
    }
}

/// A `float` as its bytes, which need not be aligned.
impl KernelCell for [u8; 4] {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_le_bytes(self)
    }
}

/// A `bfloat16` as its bytes, which need not be aligned.
impl KernelCell for [u8; 2] {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        bf16::from_le_bytes(self).to_f32()
    }
}

/// Term of a kernel's sum over pairs of cells of two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelSum {
    /// `a × b`.
    Product,
    /// `(a − b)²`.
    SquaredDifference,
}

/// Sum over the pairs of cells of `a` and `b`, up to the shorter length.
pub fn sum_pairs<A: KernelCell, B: KernelCell>(pairs: KernelSum, a: &[A], b: &[B]) -> f64 {
    let mut sum = [0.0];
    sum_rows(pairs, a, b, a.len().min(b.len()), &[0], &mut sum);
    sum[0]
}

/// Computes for each of `rows` the sum over the pairs of cells of `vector` and that row of `cells`, whose
/// rows have `width` cells. Row numbers past the end give 0.
pub fn sum_rows<A: KernelCell, B: KernelCell>(
    pairs: KernelSum,
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) {
    match pairs {
        KernelSum::Product => dispatch::<A, B, false>(vector, cells, width, rows, sums),
        KernelSum::SquaredDifference => dispatch::<A, B, true>(vector, cells, width, rows, sums),
    }
}

/// Computes for each of `rows` the sum of products with `vector`, and the sum of the squares of the row's
/// cells, in one pass over `cells`. Row numbers past the end give 0.
///
/// # Panics
/// There are fewer sums or squares than rows.
pub fn product_and_square_rows<A: KernelCell, B: KernelCell>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let (sums, squares) = (&mut sums[..rows.len()], &mut squares[..rows.len()]);
    if !native::product_and_square_rows(vector, cells, width, rows, sums, squares) {
        product_and_square_rows_plain(vector, cells, width, rows, sums, squares);
    }
}

/// Plain form of the others, which tests compare with it.
#[cfg(test)]
fn sum_pairs_plain(
    pairs: KernelSum,
    a: impl IntoIterator<Item = f64>,
    b: impl IntoIterator<Item = f64>,
) -> f64 {
    a.into_iter()
        .zip(b)
        .map(|(a, b)| match pairs {
            KernelSum::Product => a * b,
            KernelSum::SquaredDifference => (a - b) * (a - b),
        })
        .sum()
}

/// A cell that can be read as `f64`; exact.
pub trait WidenCell: Copy {
    /// Converts the cell to `f64` exactly.
    fn widen(self) -> f64;

    /// Converts the cell to the nearest signed byte towards 0; 0 for NaN.
    #[inline(always)]
    fn to_int8(self) -> i8 {
        self.widen() as i8
    }
}

impl WidenCell for f64 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

/// A `double` as its bytes, which need not be aligned.
impl WidenCell for [u8; 8] {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from_le_bytes(self)
    }
}

impl<T: KernelCell> WidenCell for T {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self.to_f32())
    }

    #[inline(always)]
    fn to_int8(self) -> i8 {
        self.to_f32() as i8
    }
}

/// [`sum_pairs`] for one vector with `double` cells: summed in `f64`.
pub fn sum_pairs_f64<B: WidenCell>(pairs: KernelSum, a: &[f64], b: &[B]) -> f64 {
    match pairs {
        KernelSum::Product => sum_wide::<B, false>(a, b),
        KernelSum::SquaredDifference => sum_wide::<B, true>(a, b),
    }
}

fn sum_wide<B: WidenCell, const DIFFERENCE: bool>(a: &[f64], b: &[B]) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the check above found the CPU feature that the function needs.
        return unsafe { sum_wide_avx2::<B, DIFFERENCE>(a, b) };
    }
    sum_wide_plain::<B, DIFFERENCE>(a, b)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_wide_avx2<B: WidenCell, const DIFFERENCE: bool>(a: &[f64], b: &[B]) -> f64 {
    sum_wide_plain::<B, DIFFERENCE>(a, b)
}

/// Plain implementation, in plain loops over numbers: the compiler turns those into vector instructions. A
/// single sum would fix the order of additions.
#[inline(always)]
fn sum_wide_plain<B: WidenCell, const DIFFERENCE: bool>(a: &[f64], b: &[B]) -> f64 {
    const LANES: usize = 16;
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let mut sums = [0.0f64; LANES];
    let mut at = 0;
    while at + LANES <= len {
        let (a, b) = (&a[at..at + LANES], &b[at..at + LANES]);
        for lane in 0..LANES {
            let (a, b) = (a[lane], b[lane].widen());
            sums[lane] += if DIFFERENCE { (a - b) * (a - b) } else { a * b };
        }
        at += LANES;
    }
    let mut sum = 0.0;
    while at < len {
        let (a, b) = (a[at], b[at].widen());
        sum += if DIFFERENCE { (a - b) * (a - b) } else { a * b };
        at += 1;
    }
    // Halves are added together: sixteen additions to one sum would wait for each other.
    let mut lanes = LANES / 2;
    while lanes > 0 {
        for lane in 0..lanes {
            sums[lane] += sums[lane + lanes];
        }
        lanes /= 2;
    }
    sum + sums[0]
}

/// Number of differing bits of two byte vectors, up to the shorter length.
pub fn hamming(a: &[i8], b: &[i8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") {
        // SAFETY: the check above found the CPU feature that the function needs.
        return unsafe { hamming_popcnt(a, b) };
    }
    hamming_plain(a, b)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt")]
fn hamming_popcnt(a: &[i8], b: &[i8]) -> u64 {
    hamming_plain(a, b)
}

#[inline(always)]
fn hamming_plain(a: &[i8], b: &[i8]) -> u64 {
    let len = a.len().min(b.len());
    let (a, b): (&[u8], &[u8]) = (bytemuck::cast_slice(&a[..len]), bytemuck::cast_slice(&b[..len]));
    let ((a_words, a_rest), (b_words, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let words = a_words
        .iter()
        .zip(b_words)
        .map(|(a, b)| u64::from((u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)).count_ones()));
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| u64::from((a ^ b).count_ones()));
    words.sum::<u64>() + rest.sum::<u64>()
}

/// [`hamming`] of a byte vector and a vector of other cells, each converted to a signed byte.
pub fn hamming_of_cells<B: WidenCell>(a: &[i8], b: &[B]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the check above found the CPU features that the function needs.
        return unsafe { hamming_of_cells_avx2(a, b) };
    }
    hamming_of_cells_plain(a, b)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn hamming_of_cells_avx2<B: WidenCell>(a: &[i8], b: &[B]) -> u64 {
    hamming_of_cells_plain(a, b)
}

/// Plain loops over a fixed number of cells, which the compiler turns into vector instructions.
#[inline(always)]
fn hamming_of_cells_plain<B: WidenCell>(a: &[i8], b: &[B]) -> u64 {
    const CELLS: usize = 64;
    let len = a.len().min(b.len());
    let ((a, a_rest), (b, b_rest)) = (a[..len].as_chunks::<CELLS>(), b[..len].as_chunks::<CELLS>());
    let mut bytes = [0; CELLS];
    let mut bits = 0;
    for block in 0..b.len() {
        for cell in 0..CELLS {
            bytes[cell] = b[block][cell].to_int8();
        }
        bits += hamming_plain(&a[block], &bytes);
    }
    for cell in 0..b_rest.len() {
        bytes[cell] = b_rest[cell].to_int8();
    }
    bits + hamming_plain(a_rest, &bytes)
}

fn dispatch<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) {
    if !native::rows::<A, B, DIFFERENCE>(vector, cells, width, rows, sums) {
        rows_plain::<A, B, DIFFERENCE>(vector, cells, width, rows, sums);
    }
}

fn rows_plain<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) {
    for (sum, row) in sums.iter_mut().zip(rows) {
        *sum = f64::from(rest::<A, B, DIFFERENCE>(vector, row_of(cells, width, *row)));
    }
}

fn product_and_square_rows_plain<A: KernelCell, B: KernelCell>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    for ((sum, square), row) in sums.iter_mut().zip(squares).zip(rows) {
        let row = row_of(cells, width, *row);
        *sum = f64::from(rest::<A, B, false>(vector, row));
        *square = f64::from(rest::<B, B, false>(row, row));
    }
}

/// Row `row` of `cells`; empty if it does not exist.
#[inline(always)]
fn row_of<B>(cells: &[B], width: usize, row: u16) -> &[B] {
    let from = usize::from(row) * width;
    cells.get(from..from + width).unwrap_or_default()
}

#[inline(always)]
fn rest<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(a: &[A], b: &[B]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| {
            let (a, b) = (a.to_f32(), b.to_f32());
            if DIFFERENCE { (a - b) * (a - b) } else { a * b }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Compares every compiled form with the plain one, over whole numbers, for which `f32` sums are exact in
    /// any order.
    fn check<A: KernelCell, B: KernelCell>(a: &[A], b: &[B]) {
        let expected = |pairs| {
            sum_pairs_plain(
                pairs,
                a.iter().map(|a| f64::from(a.to_f32())),
                b.iter().map(|b| f64::from(b.to_f32())),
            )
        };
        assert_eq!(sum_pairs(KernelSum::Product, a, b), expected(KernelSum::Product));
        assert_eq!(sum_pairs(KernelSum::SquaredDifference, a, b), expected(KernelSum::SquaredDifference));
        let width = a.len().min(b.len());
        let square = sum_pairs_plain(
            KernelSum::Product,
            b[..width].iter().map(|b| f64::from(b.to_f32())),
            b[..width].iter().map(|b| f64::from(b.to_f32())),
        );
        let (mut sums, mut squares) = ([0.0; 5], [0.0; 5]);
        product_and_square_rows(a, b, width, &[0; 5], &mut sums, &mut squares);
        assert_eq!((sums, squares), ([expected(KernelSum::Product); 5], [square; 5]));
        product_and_square_rows_plain(a, b, width, &[0; 5], &mut sums, &mut squares);
        assert_eq!((sums, squares), ([expected(KernelSum::Product); 5], [square; 5]));
        let mut sums = [0.0];
        rows_plain::<A, B, false>(a, b, width, &[0], &mut sums);
        assert_eq!(sums[0], expected(KernelSum::Product));
        #[cfg(target_arch = "x86_64")]
        if native::has_avx2() {
            // SAFETY: the check above found the CPU features that the function needs.
            unsafe { native::rows_avx2::<A, B, true>(a, b, width, &[0], &mut sums) };
            assert_eq!(sums[0], expected(KernelSum::SquaredDifference));
        }
    }

    proptest! {
        #[test]
        fn kernels_equal_their_plain_forms(cells in proptest::collection::vec((-9i8..9, -9i8..9), 0..200)) {
            let (a, b): (Vec<i8>, Vec<i8>) = cells.into_iter().unzip();
            let float = |cells: &[i8]| cells.iter().map(|c| f32::from(*c)).collect::<Vec<_>>();
            let bfloat16 = |cells: &[i8]| cells.iter().map(|c| bf16::from_f32(f32::from(*c))).collect::<Vec<_>>();
            let double = |cells: &[i8]| cells.iter().map(|c| f64::from(*c)).collect::<Vec<_>>();
            check(&a, &b);
            check(&float(&a), &float(&b));
            check(&float(&a), &bfloat16(&b));
            check(&bfloat16(&a), &bfloat16(&b));
            check(&float(&a), &b);
            let bytes: Vec<[u8; 4]> = float(&b).iter().map(|cell| cell.to_le_bytes()).collect();
            check(&float(&a), &bytes);
            let bytes: Vec<[u8; 2]> = bfloat16(&b).iter().map(|cell| cell.to_le_bytes()).collect();
            check(&float(&a), &bytes);
            for pairs in [KernelSum::Product, KernelSum::SquaredDifference] {
                let expected = sum_pairs_plain(pairs, double(&a), double(&b));
                prop_assert_eq!(sum_pairs_f64(pairs, &double(&a), &double(&b)), expected);
                prop_assert_eq!(sum_pairs_f64(pairs, &double(&a), &bfloat16(&b)), expected);
                let bytes: Vec<[u8; 8]> = double(&b).iter().map(|cell| cell.to_le_bytes()).collect();
                prop_assert_eq!(sum_pairs_f64(pairs, &double(&a), &bytes), expected);
            }
            let bits: u64 = a.iter().zip(&b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
            prop_assert_eq!(hamming(&a, &b), bits);
            prop_assert_eq!(hamming_of_cells(&a, &b), bits);
            prop_assert_eq!(hamming_of_cells_plain(&a, &b), bits);
            // A fraction is cut.
            let fractions: Vec<f32> = float(&b).iter().map(|cell| cell + cell.signum() * 0.25).collect();
            prop_assert_eq!(hamming_of_cells(&a, &fractions), bits);
            prop_assert_eq!(hamming_of_cells(&a, &bfloat16(&b)), bits);
            prop_assert_eq!(hamming_of_cells(&a, &double(&b)), bits);
        }
    }

    #[test]
    fn rows_are_found_by_number_and_those_past_the_end_give_zero() {
        let cells = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut sums = [9.0; 3];
        sum_rows(KernelSum::Product, &[1.0f32, 10.0], &cells, 2, &[2, 0, 7], &mut sums);
        assert_eq!(sums, [65.0, 21.0, 0.0]);
    }
}
