//! Kernel bodies over registers of some width; [`WideRegister`] has the operations of the processor.

use super::{KernelCell, MaxSimKernel, rest, row_of};

/// The body of [`sum_rows`] for registers of `N` lanes.
///
/// # Safety
/// The machine has the instructions of `R`. To be fast it must be inlined into a function that enables them.
#[inline(always)]
pub(super) unsafe fn rows<
    R: WideRegister<N>,
    const N: usize,
    A: KernelCell,
    B: KernelCell,
    const DIFFERENCE: bool,
>(
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
        // SAFETY: the caller guarantees the instructions.
        let all = unsafe {
            // Four independent sums, which do not wait for each other.
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

/// Body of [`MaxSimKernel::of`] for registers of `N` lanes, which also determine the layout of its vectors.
///
/// # Safety
/// The machine has the instructions of `R`. To be fast it must be inlined into a function that enables them.
#[inline(always)]
pub(super) unsafe fn max_sim<R: WideRegister<N>, const N: usize, B: KernelCell, const DIFFERENCE: bool>(
    of: &mut MaxSimKernel,
    others: &[B],
) {
    let MaxSimKernel { width, packed, blocks, best, rows, .. } = of;
    let width = *width;
    rows.resize(width * ROWS, 0.0);
    let mut others = others.chunks_exact(width);
    loop {
        let mut taken = 0;
        for (row, other) in rows.chunks_exact_mut(width).zip(&mut others) {
            // SAFETY: the caller guarantees the instructions.
            unsafe { spread::<R, N, B>(other, row) };
            taken += 1;
        }
        if taken == 0 {
            break;
        }
        let (mut packed, mut best) = (&packed[..], &mut best[..]);
        for registers in blocks.iter() {
            let (block, packed_rest) = packed.split_at(registers * N * width);
            let (of_block, best_rest) = best.split_at_mut(registers * N);
            // SAFETY: the caller guarantees the instructions.
            unsafe {
                match registers {
                    1 => rows_of_block::<R, N, 1, DIFFERENCE>(block, &rows[..taken * width], width, of_block),
                    2 => rows_of_block::<R, N, 2, DIFFERENCE>(block, &rows[..taken * width], width, of_block),
                    _ => rows_of_block::<R, N, 4, DIFFERENCE>(block, &rows[..taken * width], width, of_block),
                }
            }
            (packed, best) = (packed_rest, best_rest);
        }
    }
}

/// Number of vectors of the other side that are compared with a block before the next block.
const ROWS: usize = 8;

/// Converts cells to `f32`.
///
/// # Safety
/// The conditions of [`max_sim`].
#[inline(always)]
unsafe fn spread<R: WideRegister<N>, const N: usize, B: KernelCell>(cells: &[B], out: &mut [f32]) {
    let ((steps, rest), (out, out_rest)) = (cells.as_chunks::<N>(), out.as_chunks_mut::<N>());
    for (cells, out) in steps.iter().zip(out) {
        // SAFETY: the caller guarantees the instructions.
        unsafe { R::load(cells).store(out) };
    }
    out_rest.iter_mut().zip(rest).for_each(|(out, cell)| *out = cell.to_f32());
}

/// All rows with one block of `T` registers, as many at a time as have sums that fit into registers.
///
/// # Safety
/// The conditions of [`max_sim`].
#[inline(always)]
unsafe fn rows_of_block<R: WideRegister<N>, const N: usize, const T: usize, const DIFFERENCE: bool>(
    block: &[f32],
    rows: &[f32],
    width: usize,
    best: &mut [f32],
) {
    let mut rest = rows;
    while !rest.is_empty() {
        let left = rest.len() / width;
        let at_a_time = [8, 4, 2, 1].into_iter().find(|rows| *rows <= left && rows * T <= R::SUMS);
        let (now, later) = rest.split_at(at_a_time.unwrap_or(1) * width);
        // SAFETY: the caller guarantees the instructions; `now` has as many rows as the function expects.
        unsafe {
            match at_a_time {
                Some(8) => tile::<R, N, T, 8, DIFFERENCE>(block, now, width, best),
                Some(4) => tile::<R, N, T, 4, DIFFERENCE>(block, now, width, best),
                Some(2) => tile::<R, N, T, 2, DIFFERENCE>(block, now, width, best),
                _ => tile::<R, N, T, 1, DIFFERENCE>(block, now, width, best),
            }
        }
        rest = later;
    }
}

/// `D` rows with one block of `T` registers.
///
/// # Safety
/// The conditions of [`max_sim`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "see the comment inside")]
unsafe fn tile<R: WideRegister<N>, const N: usize, const T: usize, const D: usize, const DIFFERENCE: bool>(
    block: &[f32],
    rows: &[f32],
    width: usize,
    best: &mut [f32],
) {
    let (lanes, best) = (block.as_chunks::<N>().0, best.as_chunks_mut::<N>().0);
    assert!(
        rows.len() == D * width && lanes.len() == T * width && best.len() == T,
        "a tile has its rows and its block"
    );
    // SAFETY: the caller guarantees the instructions; the lengths of rows and lanes were just checked, and a
    // cell is below `width`.
    unsafe {
        let mut sums = [[R::zero(); T]; D];
        // Plain loops over numbers, because everything here must be inlined.
        for cell in 0..width {
            for row in 0..D {
                let other = R::splat(*rows.get_unchecked(row * width + cell));
                for register in 0..T {
                    let vector = R::load(lanes.get_unchecked(cell * T + register));
                    let sum = sums[row][register];
                    sums[row][register] = if DIFFERENCE {
                        let difference = vector.subtract(other);
                        difference.multiply_add(difference, sum)
                    } else {
                        vector.multiply_add(other, sum)
                    };
                }
            }
        }
        for register in 0..T {
            let mut most = R::load(&best[register]);
            for row in 0..D {
                most = sums[row][register].max(most);
            }
            most.store(&mut best[register]);
        }
    }
}

/// Adds `N` more pairs to `sum`.
///
/// # Safety
/// The machine has the instructions of `R`.
#[inline(always)]
unsafe fn step<R: WideRegister<N>, const N: usize, A: KernelCell, B: KernelCell, const DIFFERENCE: bool>(
    sum: R,
    a: &[A; N],
    b: &[B; N],
) -> R {
    // SAFETY: the caller guarantees the instructions.
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

/// A register of `N` `f32` lanes.
///
/// # Safety
/// All functions need a machine with the instructions of the register.
pub(super) trait WideRegister<const N: usize>: Copy {
    /// Number of sums that fit into registers together with their operands.
    const SUMS: usize;

    unsafe fn zero() -> Self;
    unsafe fn load<A: KernelCell>(cells: &[A; N]) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn subtract(self, other: Self) -> Self;
    /// `self × factor + sum`, rounded once.
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self;
    /// Sets all lanes to the same number.
    unsafe fn splat(number: f32) -> Self;
    /// The larger number in each lane; that of `other` if this is NaN.
    unsafe fn max(self, other: Self) -> Self;
    unsafe fn store(self, cells: &mut [f32; N]);
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
}
