//! The inner loop of trees as masks over their leaves. This is the only module of the crate with unsafe code.

/// Leaves of one plane, whose bits are one byte.
pub(super) const PLANE_LEAVES: usize = 8;

/// A test that takes leaves away from a document for which it does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeafClear {
    /// Row of the ranks.
    pub cell: u16,
    /// The highest rank for which the test holds.
    pub rank: i16,
    /// Bits of the leaves of a plane that stay.
    pub kept: u8,
}

/// Trees as masks over their leaves, eight leaves to a plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaskedTrees<'a> {
    /// The first plane of each tree, and the end of the last tree's.
    pub first_planes: &'a [u32],
    /// End in `clears` of each plane.
    pub plane_ends: &'a [u32],
    pub clears: &'a [LeafClear],
    /// Values of the leaves, plane after plane.
    pub values: &'a [f64],
}

/// Adds to `sums` the leaf of each tree that each of `N` documents reaches, tree after tree. `ranks` has a
/// row for each cell.
pub(super) fn add_leaves<const N: usize>(trees: MaskedTrees<'_>, ranks: &[[i16; N]], sums: &mut [f64; N]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the check above found the CPU feature that the function needs.
        return unsafe { add_leaves_avx2(trees, ranks, sums) };
    }
    add_leaves_plain(trees, ranks, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_leaves_avx2<const N: usize>(trees: MaskedTrees<'_>, ranks: &[[i16; N]], sums: &mut [f64; N]) {
    add_leaves_plain(trees, ranks, sums);
}

/// Plain implementation, in loops over all documents: the compiler turns those into vector instructions.
#[inline(always)]
fn add_leaves_plain<const N: usize>(trees: MaskedTrees<'_>, ranks: &[[i16; N]], sums: &mut [f64; N]) {
    for tree in trees.first_planes.windows(2) {
        let (first, end) = (tree[0] as usize, tree[1] as usize);
        // The first plane in which a document has a leaf left, and its leaves.
        let (mut first_leaf, mut left) = ([0u8; N], [0u8; N]);
        for plane in first..end {
            let mut bits = [u8::MAX; N];
            let start = if plane == 0 { 0 } else { trees.plane_ends[plane - 1] };
            for clear in &trees.clears[start as usize..trees.plane_ends[plane] as usize] {
                let (rank, kept) = (clear.rank, clear.kept);
                for (bits, of_document) in bits.iter_mut().zip(&ranks[usize::from(clear.cell)]) {
                    *bits &= if *of_document > rank { kept } else { u8::MAX };
                }
            }
            let leaf = ((plane - first) * PLANE_LEAVES) as u8;
            for ((first_leaf, left), bits) in first_leaf.iter_mut().zip(&mut left).zip(&bits) {
                *first_leaf = if *left == 0 { leaf } else { *first_leaf };
                *left = if *left == 0 { *bits } else { *left };
            }
        }
        let values = &trees.values[first * PLANE_LEAVES..end * PLANE_LEAVES];
        for ((sum, first_leaf), left) in sums.iter_mut().zip(&first_leaf).zip(&left) {
            *sum += values[usize::from(*first_leaf) + left.trailing_zeros() as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_form_adds_what_the_plain_one_does(
            ranks in prop::collection::vec(prop::array::uniform32(-3i16..4), 2..4),
            planes in prop::collection::vec(prop::collection::vec((0u16..2, -3i16..4, any::<u8>()), 0..6), 1..9),
        ) {
            let (mut plane_ends, mut clears) = (Vec::new(), Vec::new());
            for plane in planes {
                // As in a tree, one leaf is left whatever the ranks are.
                clears.extend(plane.into_iter().map(|(cell, rank, kept)| LeafClear { cell, rank, kept: kept | 128 }));
                plane_ends.push(clears.len() as u32);
            }
            let values: Vec<f64> = (0..plane_ends.len() * PLANE_LEAVES).map(|leaf| leaf as f64).collect();
            let end = plane_ends.len() as u32;
            let first_planes = [0, end / 2, end];
            let trees = MaskedTrees {
                // A tree has at least one plane.
                first_planes: &first_planes[usize::from(end == 1)..],
                plane_ends: &plane_ends,
                clears: &clears,
                values: &values,
            };
            let (mut sums, mut plain) = ([0.5; 32], [0.5; 32]);
            add_leaves(trees, &ranks, &mut sums);
            add_leaves_plain(trees, &ranks, &mut plain);
            prop_assert_eq!(sums, plain);
        }
    }
}
