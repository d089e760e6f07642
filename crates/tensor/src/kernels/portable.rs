//! Fallback for processors without special kernels: only the plain forms.

use super::{KernelCell, MaxSimKernel};

/// An empty requirement, because only the plain form exists.
pub trait LoadWide: Copy {}
impl<T: Copy> LoadWide for T {}

/// Returns false: no kernel for this processor.
pub(super) fn rows<A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    _: &[A],
    _: &[B],
    _: usize,
    _: &[u16],
    _: &mut [f64],
) -> bool {
    false
}

/// Returns false: no kernel for this processor.
pub(super) fn product_and_square_rows<A: KernelCell, B: KernelCell>(
    _: &[A],
    _: &[B],
    _: usize,
    _: &[u16],
    _: &mut [f64],
    _: &mut [f64],
) -> bool {
    false
}

/// Lanes of a register, as used in the layout of [`MaxSimKernel`].
pub(super) const fn lanes() -> usize {
    1
}

/// Maximum number of registers in a block.
pub(super) const BLOCK: usize = 1;

/// The sums of [`MaxSimKernel::of`].
pub(super) fn max_sim<B: KernelCell, const DIFFERENCE: bool>(of: &mut MaxSimKernel, others: &[B]) {
    of.of_plain::<B, DIFFERENCE>(others, lanes());
}
