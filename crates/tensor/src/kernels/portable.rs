//! Machines whose registers are not known here: everything is plain.

use super::Lane;

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
