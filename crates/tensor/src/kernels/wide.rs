//! The body of a kernel over registers of some width; what a register can do is the machine's to say.

use super::{Lane, rest, row_of};

/// The body of [`sum_rows`] for registers of `N` lanes.
///
/// # Safety
/// The machine has the instructions of `R`. To be fast it must be inlined into a function that enables them.
#[inline(always)]
pub(super) unsafe fn rows<R: Register<N>, const N: usize, A: Lane, B: Lane, const DIFFERENCE: bool>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
) {
    for (sum, row) in sums.iter_mut().zip(rows) {
        let cells = row_of(cells, width, *row);
        let len = vector.len().min(cells.len());
        let ((a_steps, a_rest), (b_steps, b_rest)) =
            (vector[..len].as_chunks::<N>(), cells[..len].as_chunks::<N>());
        let ((a_rounds, a_steps), (b_rounds, b_steps)) = (a_steps.as_chunks::<4>(), b_steps.as_chunks::<4>());
        // SAFETY: the caller promises the instructions.
        let all = unsafe {
            // Four sums that do not wait for each other.
            let mut parts = [R::zero(); 4];
            for (a, b) in a_rounds.iter().zip(b_rounds) {
                for (part, (a, b)) in parts.iter_mut().zip(a.iter().zip(b)) {
                    *part = step::<R, N, A, B, DIFFERENCE>(*part, a, b);
                }
            }
            for (a, b) in a_steps.iter().zip(b_steps) {
                parts[0] = step::<R, N, A, B, DIFFERENCE>(parts[0], a, b);
            }
            parts[0].add(parts[1]).add(parts[2].add(parts[3])).sum()
        };
        *sum = f64::from(all + rest::<A, B, DIFFERENCE>(a_rest, b_rest));
    }
}

/// `sum` with `N` more pairs in it.
///
/// # Safety
/// The machine has the instructions of `R`.
#[inline(always)]
unsafe fn step<R: Register<N>, const N: usize, A: Lane, B: Lane, const DIFFERENCE: bool>(
    sum: R,
    a: &[A; N],
    b: &[B; N],
) -> R {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let (a, b) = (R::load(a), R::load(b));
        if DIFFERENCE {
            let difference = a.subtract(b);
            difference.multiply_add(difference, sum)
        } else {
            a.multiply_add(b, sum)
        }
    }
}

/// `N` numbers of `f32` that one instruction works on.
///
/// # Safety
/// Every function of it needs a machine that has the instructions of the register.
pub(super) trait Register<const N: usize>: Copy {
    unsafe fn zero() -> Self;
    unsafe fn load<A: Lane>(cells: &[A; N]) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn subtract(self, other: Self) -> Self;
    /// `self × factor + sum`, rounded once.
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self;
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
}
