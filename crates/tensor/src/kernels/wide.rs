//! Kernel bodies over registers of some width; [`WideRegister`] has the operations of the processor.

use super::{KernelCell, MaxSimKernel, rest, row_of};

/// The body of [`sum_rows`] for registers of `N` lanes: four rows at a time, which share the loads of the
/// vector, with the next four fetched ahead.
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
    let count = rows.len().min(sums.len());
    // Plain loops over numbers, because everything here must be inlined.
    let mut at = 0;
    while at + 4 <= count {
        let four = [0, 1, 2, 3].map(|row| row_of(cells, width, rows[at + row]));
        let len = vector.len().min(width);
        if four[0].len() < len || four[1].len() < len || four[2].len() < len || four[3].len() < len {
            break;
        }
        let ahead = cells.as_ptr().wrapping_add((usize::from(rows[at]) + PREFETCH_ROWS) * width);
        // SAFETY: the caller guarantees the instructions.
        let of_four = unsafe { sum_some::<R, N, 4, A, B, DIFFERENCE>(&vector[..len], four, ahead) };
        sums[at..at + 4].copy_from_slice(&of_four);
        at += 4;
    }
    while at < count {
        let row = row_of(cells, width, rows[at]);
        let len = vector.len().min(row.len());
        // SAFETY: the caller guarantees the instructions.
        let of_one = unsafe { sum_some::<R, N, 1, A, B, DIFFERENCE>(&vector[..len], [row], row.as_ptr()) };
        sums[at] = of_one[0];
        at += 1;
    }
}

/// Prefetch distance in rows.
const PREFETCH_ROWS: usize = 8;

/// Sums of `D` rows, each at least as long as the vector. Prefetches as many cells from `ahead` on, in small
/// steps, because a single burst would fill the cache's request queue and stall all other loads.
///
/// # Safety
/// The conditions of [`rows`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "everything must be inlined: plain loops over numbers")]
unsafe fn sum_some<
    R: WideRegister<N>,
    const N: usize,
    const D: usize,
    A: KernelCell,
    B: KernelCell,
    const DIFFERENCE: bool,
>(
    vector: &[A],
    rows: [&[B]; D],
    ahead: *const B,
) -> [f64; D] {
    let steps = vector.len() / N;
    for row in 0..D {
        assert!(rows[row].len() >= vector.len(), "a row has a cell for each of the vector's");
    }
    // SAFETY: the caller guarantees the instructions. A step lies within the vector, and so within each row,
    // as was just checked. A prefetch accepts any address.
    unsafe {
        // Two sums a row, so that eight additions do not wait for each other.
        let mut parts = [[R::zero(); 2]; D];
        let mut step = 0;
        while step + 2 <= steps {
            let (first, second) = (load::<R, N, A>(vector, step), load::<R, N, A>(vector, step + 1));
            for row in 0..D {
                R::prefetch(ahead.wrapping_add(row * vector.len() + step * N));
                let cells = load::<R, N, B>(rows[row], step);
                parts[row][0] = add_pairs::<R, N, DIFFERENCE>(parts[row][0], first, cells);
                let cells = load::<R, N, B>(rows[row], step + 1);
                parts[row][1] = add_pairs::<R, N, DIFFERENCE>(parts[row][1], second, cells);
            }
            step += 2;
        }
        if step < steps {
            let last = load::<R, N, A>(vector, step);
            for row in 0..D {
                let cells = load::<R, N, B>(rows[row], step);
                parts[row][0] = add_pairs::<R, N, DIFFERENCE>(parts[row][0], last, cells);
            }
        }
        let mut sums = [0.0; D];
        for row in 0..D {
            let of_steps = parts[row][0].add(parts[row][1]).sum();
            let (vector_rest, row_rest) = (&vector[steps * N..], &rows[row][steps * N..]);
            sums[row] = f64::from(of_steps + rest::<A, B, DIFFERENCE>(vector_rest, row_rest));
        }
        sums
    }
}

/// The body of [`super::product_and_square_rows`] for registers of `N` lanes.
///
/// # Safety
/// The conditions of [`rows`].
#[inline(always)]
pub(super) unsafe fn product_and_square_rows<
    R: WideRegister<N>,
    const N: usize,
    A: KernelCell,
    B: KernelCell,
>(
    vector: &[A],
    cells: &[B],
    width: usize,
    rows: &[u16],
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let count = rows.len().min(sums.len()).min(squares.len());
    // Plain loops over numbers, because everything here must be inlined.
    let mut at = 0;
    while at + 4 <= count {
        let four = [0, 1, 2, 3].map(|row| row_of(cells, width, rows[at + row]));
        if four[0].len() < width || four[1].len() < width || four[2].len() < width || four[3].len() < width {
            break;
        }
        let ahead = cells.as_ptr().wrapping_add((usize::from(rows[at]) + PREFETCH_ROWS) * width);
        // SAFETY: the caller guarantees the instructions.
        let (of_four, square) = unsafe { product_and_square::<R, N, 4, A, B>(vector, four, ahead) };
        sums[at..at + 4].copy_from_slice(&of_four);
        squares[at..at + 4].copy_from_slice(&square);
        at += 4;
    }
    while at < count {
        let row = row_of(cells, width, rows[at]);
        // SAFETY: the caller guarantees the instructions.
        let (of_one, square) = unsafe { product_and_square::<R, N, 1, A, B>(vector, [row], row.as_ptr()) };
        (sums[at], squares[at]) = (of_one[0], square[0]);
        at += 1;
    }
}

/// Sums of products and of squares of `D` rows. Prefetches as [`sum_some`] does.
///
/// # Safety
/// The conditions of [`rows`].
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "everything must be inlined: plain loops over numbers")]
unsafe fn product_and_square<
    R: WideRegister<N>,
    const N: usize,
    const D: usize,
    A: KernelCell,
    B: KernelCell,
>(
    vector: &[A],
    rows: [&[B]; D],
    ahead: *const B,
) -> ([f64; D], [f64; D]) {
    let mut len = vector.len();
    for row in 0..D {
        len = len.min(rows[row].len());
    }
    let steps = len / N;
    let (mut sums, mut squares) = ([0.0; D], [0.0; D]);
    // SAFETY: the caller guarantees the instructions. A step lies within the vector and within each row,
    // which have at least `len` cells. A prefetch accepts any address.
    unsafe {
        let mut parts = [[R::zero(); 2]; D];
        let mut step = 0;
        while step < steps {
            let of_vector = load::<R, N, A>(vector, step);
            for row in 0..D {
                if step % 2 == 0 {
                    R::prefetch(ahead.wrapping_add(row * len + step * N));
                }
                let cells = load::<R, N, B>(rows[row], step);
                parts[row][0] = of_vector.multiply_add(cells, parts[row][0]);
                parts[row][1] = cells.multiply_add(cells, parts[row][1]);
            }
            step += 1;
        }
        for row in 0..D {
            let row_rest = &rows[row][steps * N..];
            let (product, square) = (parts[row][0].sum(), parts[row][1].sum());
            sums[row] = f64::from(product + rest::<A, B, false>(&vector[steps * N..], row_rest));
            squares[row] = f64::from(square + rest::<B, B, false>(row_rest, row_rest));
        }
    }
    (sums, squares)
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
            let mut maximum = R::load(&best[register]);
            for row in 0..D {
                maximum = sums[row][register].max(maximum);
            }
            maximum.store(&mut best[register]);
        }
    }
}

/// Loads the `N` cells of a step.
///
/// # Safety
/// The machine has the instructions of `R`, and `(step + 1) * N` is at most the number of cells.
#[inline(always)]
unsafe fn load<R: WideRegister<N>, const N: usize, C: KernelCell>(cells: &[C], step: usize) -> R {
    // SAFETY: the caller guarantees the instructions and the cells.
    unsafe { R::load(&*cells.as_ptr().add(step * N).cast::<[C; N]>()) }
}

/// Adds `N` more pairs to `sum`.
///
/// # Safety
/// The machine has the instructions of `R`.
#[inline(always)]
unsafe fn add_pairs<R: WideRegister<N>, const N: usize, const DIFFERENCE: bool>(sum: R, a: R, b: R) -> R {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
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

    /// Asks the processor to fetch the cache line of an address, which need not be valid.
    unsafe fn prefetch<B>(from: *const B);
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
