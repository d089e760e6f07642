//! NEON, part of every 64-bit ARM processor. A register is a pair of NEON registers, so that eight narrow
//! cells are one load.

use std::arch::aarch64::*;

use half::bf16;

use super::{
    KernelCell, MaxSimKernel,
    wide::{self, WideRegister},
};

/// [`super::sum_rows`] with NEON. Always returns true, for done.
pub(super) fn rows<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) -> bool {
    // SAFETY: NEON is part of the architecture.
    unsafe { wide::rows::<Pair, 8, A, B, DIFFERENCE>(vector, cells, width, rows, sums) };
    true
}

/// [`super::product_and_square_rows`] with NEON. Always returns true, for done.
pub(super) fn product_and_square_rows<A: KernelCell, B: KernelCell>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) -> bool {
    // SAFETY: NEON is part of the architecture.
    unsafe { wide::product_and_square_rows::<Pair, 8, A, B>(vector, cells, width, rows, sums, squares) };
    true
}

/// Lanes of a register, as used in the layout of [`MaxSimKernel`].
pub(super) const fn lanes() -> usize {
    8
}

/// Maximum number of registers in a block of [`MaxSimKernel`].
pub(super) const BLOCK: usize = 4;

/// The sums of [`MaxSimKernel::of`].
pub(super) fn max_sim<B: KernelCell, const DIFFERENCE: bool>(of: &mut MaxSimKernel, others: &[B]) {
    // SAFETY: NEON is part of the architecture.
    unsafe { wide::max_sim::<Pair, 8, B, DIFFERENCE>(of, others) }
}

/// Eight lanes.
type Pair = float32x4x2_t;

/// Loads several cells into one register as `f32`.
pub trait LoadWide: Copy {
    /// Eight cells.
    ///
    /// # Safety
    /// `from` points to at least eight cells.
    unsafe fn load8(from: *const Self) -> float32x4x2_t;
}

// SAFETY of all bodies below: the caller promises enough cells behind the pointer; loads are unaligned.
impl LoadWide for f32 {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> Pair {
        unsafe { float32x4x2_t(vld1q_f32(from), vld1q_f32(from.add(4))) }
    }
}

impl LoadWide for bf16 {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> Pair {
        unsafe {
            let cells = vld1q_u16(from.cast());
            float32x4x2_t(
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(cells))),
                vreinterpretq_f32_u32(vshll_high_n_u16::<16>(cells)),
            )
        }
    }
}

impl LoadWide for [u8; 4] {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> Pair {
        unsafe {
            let bytes: *const u8 = from.cast();
            float32x4x2_t(
                vreinterpretq_f32_u8(vld1q_u8(bytes)),
                vreinterpretq_f32_u8(vld1q_u8(bytes.add(16))),
            )
        }
    }
}

impl LoadWide for [u8; 2] {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> Pair {
        unsafe {
            let cells = vreinterpretq_u16_u8(vld1q_u8(from.cast()));
            float32x4x2_t(
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(cells))),
                vreinterpretq_f32_u32(vshll_high_n_u16::<16>(cells)),
            )
        }
    }
}

impl LoadWide for i8 {
    #[inline(always)]
    unsafe fn load8(from: *const Self) -> Pair {
        unsafe {
            let cells = vmovl_s8(vld1_s8(from));
            float32x4x2_t(vcvtq_f32_s32(vmovl_s16(vget_low_s16(cells))), vcvtq_f32_s32(vmovl_high_s16(cells)))
        }
    }
}

// SAFETY of all bodies below: NEON is part of the architecture; arrays have as many cells as the register
// lanes.
impl WideRegister<8> for Pair {
    const SUMS: usize = 8;

    /// No effect: the stable compiler has no such instruction for this processor, which fetches ahead by
    /// itself.
    #[inline(always)]
    unsafe fn prefetch<B>(_: *const B) {}
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { float32x4x2_t(vdupq_n_f32(0.0), vdupq_n_f32(0.0)) }
    }
    #[inline(always)]
    unsafe fn load<A: KernelCell>(cells: &[A; 8]) -> Self {
        unsafe { A::load8(cells.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { float32x4x2_t(vaddq_f32(self.0, other.0), vaddq_f32(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn subtract(self, other: Self) -> Self {
        unsafe { float32x4x2_t(vsubq_f32(self.0, other.0), vsubq_f32(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
        unsafe { float32x4x2_t(vfmaq_f32(sum.0, self.0, factor.0), vfmaq_f32(sum.1, self.1, factor.1)) }
    }
    #[inline(always)]
    unsafe fn splat(number: f32) -> Self {
        unsafe { float32x4x2_t(vdupq_n_f32(number), vdupq_n_f32(number)) }
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        unsafe { float32x4x2_t(vmaxnmq_f32(self.0, other.0), vmaxnmq_f32(self.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn store(self, cells: &mut [f32; 8]) {
        unsafe {
            vst1q_f32(cells.as_mut_ptr(), self.0);
            vst1q_f32(cells.as_mut_ptr().add(4), self.1);
        }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        unsafe { vaddvq_f32(vaddq_f32(self.0, self.1)) }
    }
}
