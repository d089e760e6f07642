//! Machines whose registers are not known here: everything is plain.

use super::{Lane, MaxSim};

/// Nothing to know where there is only the plain form.
pub trait Wide: Copy {}
impl<T: Copy> Wide for T {}

/// Never done here: false.
pub(super) fn rows<A: Lane, B: Lane, const DIFFERENCE: bool>(
    _: &[A],
    _: &[B],
    _: usize,
    _: &[u16],
    _: &mut [f64],
) -> bool {
    false
}

/// Lanes of a register, as [`MaxSim`] lays out its vectors.
pub(super) const fn lanes() -> usize {
    1
}

/// The most registers of a block.
pub(super) const BLOCK: usize = 1;

/// The sums of [`MaxSim::of`].
pub(super) fn max_sim<B: Lane, const DIFFERENCE: bool>(of: &mut MaxSim, others: &[B]) {
    of.of_plain::<B, DIFFERENCE>(others, lanes());
}
