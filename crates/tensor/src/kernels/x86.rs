//! AVX2 and AVX-512.

use std::arch::x86_64::*;

use half::bf16;

use super::{
    KernelCell, MaxSimKernel,
    wide::{self, WideRegister},
};

/// [`super::sum_rows`] with the widest registers of this machine. Returns false, without doing anything, if
/// it has none of them.
pub(super) fn rows<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) -> bool {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the check above found the CPU feature that the function needs.
        unsafe { rows_avx512::<A, B, DIFFERENCE>(vector, cells, width, rows, sums) };
        true
    } else if has_avx2() {
        // SAFETY: the check above found the CPU features that the function needs.
        unsafe { rows_avx2::<A, B, DIFFERENCE>(vector, cells, width, rows, sums) };
        true
    } else {
        false
    }
}

/// [`super::product_and_square_rows`] with the widest registers of this machine. Returns false, without doing
/// anything, if it has none of them.
pub(super) fn product_and_square_rows<A: KernelCell, B: KernelCell>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) -> bool {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the check above found the CPU feature that the function needs.
        unsafe { product_and_square_avx512(vector, cells, width, rows, sums, squares) };
        true
    } else if has_avx2() {
        // SAFETY: the check above found the CPU features that the function needs.
        unsafe { product_and_square_avx2(vector, cells, width, rows, sums, squares) };
        true
    } else {
        false
    }
}

#[target_feature(enable = "avx2,fma")]
fn product_and_square_avx2<A: KernelCell, B: KernelCell>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    // SAFETY: the features are those of this function.
    unsafe { wide::product_and_square_rows::<__m256, 8, A, B>(vector, cells, width, rows, sums, squares) }
}

#[target_feature(enable = "avx512f")]
fn product_and_square_avx512<A: KernelCell, B: KernelCell>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    // SAFETY: the feature is that of this function.
    unsafe { wide::product_and_square_rows::<__m512, 16, A, B>(vector, cells, width, rows, sums, squares) }
}

/// True if [`rows_avx2`] may be called.
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn rows_avx2<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) {
    // SAFETY: the features are those of this function.
    unsafe { wide::rows::<__m256, 8, A, B, DIFFERENCE>(vector, cells, width, rows, sums) }
}

#[target_feature(enable = "avx512f")]
fn rows_avx512<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) {
    // SAFETY: the feature is that of this function.
    unsafe { wide::rows::<__m512, 16, A, B, DIFFERENCE>(vector, cells, width, rows, sums) }
}

/// Lanes of a register, as used in the layout of [`MaxSimKernel`].
pub(super) fn lanes() -> usize {
    if is_x86_feature_detected!("avx512f") { 16 } else { 8 }
}

/// Maximum number of registers in a block of [`MaxSimKernel`].
pub(super) const BLOCK: usize = 4;

/// The sums of [`MaxSimKernel::of`].
pub(super) fn max_sim<B: KernelCell, const DIFFERENCE: bool>(of: &mut MaxSimKernel, others: &[B]) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the check above found the CPU feature that the function needs.
        unsafe { max_sim_avx512::<B, DIFFERENCE>(of, others) }
    } else if has_avx2() {
        // SAFETY: the check above found the CPU features that the function needs.
        unsafe { max_sim_avx2::<B, DIFFERENCE>(of, others) }
    } else {
        of.of_plain::<B, DIFFERENCE>(others, lanes());
    }
}

#[target_feature(enable = "avx2,fma")]
fn max_sim_avx2<B: KernelCell, const DIFFERENCE: bool>(of: &mut MaxSimKernel, others: &[B]) {
    // SAFETY: the features are those of this function.
    unsafe { wide::max_sim::<__m256, 8, B, DIFFERENCE>(of, others) }
}

#[target_feature(enable = "avx512f")]
fn max_sim_avx512<B: KernelCell, const DIFFERENCE: bool>(of: &mut MaxSimKernel, others: &[B]) {
    // SAFETY: the feature is that of this function.
    unsafe { wide::max_sim::<__m512, 16, B, DIFFERENCE>(of, others) }
}

/// Loads several cells into one register as `f32`.
pub trait LoadWide: Copy {
    /// Eight cells.
    ///
    /// # Safety
    /// `from` points to at least eight cells, and the machine has AVX2.
    unsafe fn load8(from: *const Self) -> __m256;
    /// Sixteen cells.
    ///
    /// # Safety
    /// `from` points to at least sixteen cells, and the machine has AVX-512F.
    unsafe fn load16(from: *const Self) -> __m512;
}

// SAFETY of all bodies below: the caller guarantees enough cells behind the pointer, and the CPU feature;
// loads are unaligned.
impl LoadWide for f32 {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn load16(from: *const Self) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }
}

impl LoadWide for bf16 {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn load16(from: *const Self) -> __m512 {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
}

impl LoadWide for [u8; 4] {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> __m256 {
        unsafe { f32::load8(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load16(from: *const Self) -> __m512 {
        unsafe { f32::load16(from.cast()) }
    }
}

impl LoadWide for [u8; 2] {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> __m256 {
        unsafe { bf16::load8(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load16(from: *const Self) -> __m512 {
        unsafe { bf16::load16(from.cast()) }
    }
}

impl LoadWide for i8 {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn load16(from: *const Self) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }
}

// SAFETY of all bodies below: the caller guarantees the instructions; arrays have as many cells as the
// register has lanes.
impl WideRegister<8> for __m256 {
    const SUMS: usize = 8;

    #[inline(always)]
    unsafe fn prefetch<B>(from: *const B) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn load<A: KernelCell>(cells: &[A; 8]) -> Self {
        unsafe { A::load8(cells.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm256_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn subtract(self, other: Self) -> Self {
        unsafe { _mm256_sub_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
        unsafe { _mm256_fmadd_ps(self, factor, sum) }
    }
    #[inline(always)]
    unsafe fn splat(number: f32) -> Self {
        unsafe { _mm256_set1_ps(number) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { _mm256_max_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn store(self, cells: &mut [f32; 8]) {
        unsafe { _mm256_storeu_ps(cells.as_mut_ptr(), self) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
}

impl WideRegister<16> for __m512 {
    const SUMS: usize = 16;

    #[inline(always)]
    unsafe fn prefetch<B>(from: *const B) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn load<A: KernelCell>(cells: &[A; 16]) -> Self {
        unsafe { A::load16(cells.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn subtract(self, other: Self) -> Self {
        unsafe { _mm512_sub_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
        unsafe { _mm512_fmadd_ps(self, factor, sum) }
    }
    #[inline(always)]
    unsafe fn splat(number: f32) -> Self {
        unsafe { _mm512_set1_ps(number) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { _mm512_max_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn store(self, cells: &mut [f32; 16]) {
        unsafe { _mm512_storeu_ps(cells.as_mut_ptr(), self) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        unsafe { _mm512_reduce_add_ps(self) }
    }
}
