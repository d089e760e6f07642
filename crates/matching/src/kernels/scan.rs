//! Search for token numbers in a sequence of token numbers.

/// Maximum number of ranges per scan.
pub(crate) const RANGES: usize = 4;

/// Appends to `found` the indices in `ids` whose number lies in one of `ranges` (both ends included),
/// ascending.
///
/// Ranges past the first [`RANGES`] are ignored.
pub(crate) fn find_narrow(ids: &[u16], ranges: &[(u16, u16)], found: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the check above found the CPU feature that the functions need.
            return unsafe {
                match ranges {
                    [] => {}
                    [a] => x86::find_avx512(ids, [*a], found),
                    [a, b] => x86::find_avx512(ids, [*a, *b], found),
                    [a, b, c] => x86::find_avx512(ids, [*a, *b, *c], found),
                    [a, b, c, d, ..] => x86::find_avx512(ids, [*a, *b, *c, *d], found),
                }
            };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the check above found the CPU feature that the functions need.
            return unsafe {
                match ranges {
                    [] => {}
                    [a] => x86::find_avx2(ids, [*a], found),
                    [a, b] => x86::find_avx2(ids, [*a, *b], found),
                    [a, b, c] => x86::find_avx2(ids, [*a, *b, *c], found),
                    [a, b, c, d, ..] => x86::find_avx2(ids, [*a, *b, *c, *d], found),
                }
            };
        }
    }
    find_plain(ids, 0, &ranges[..ranges.len().min(RANGES)], found);
}

/// [`find_narrow`] for chunks with more words than 16 bits can number.
pub(crate) fn find_wide(ids: &[u32], ranges: &[(u32, u32)], found: &mut Vec<u32>) {
    let ranges = &ranges[..ranges.len().min(RANGES)];
    let within = |id: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&id));
    found.extend(ids.iter().enumerate().filter(|(_, id)| within(**id)).map(|(position, _)| position as u32));
}

/// Appends to `found` the indices in `ids` whose bit in `table` is set, ascending. Bits past the end of the
/// table are not set.
pub(crate) fn find_in_table(ids: &[u16], table: &[u64], found: &mut Vec<u32>) {
    /// Number of ids for which a byte for each number is worth clearing: testing it takes fewer instructions
    /// than testing a bit.
    const BYTES_MIN: usize = 1 << 14;
    // With an entry for each number, no access needs a check.
    if ids.len() < BYTES_MIN {
        let mut words = [0; 1 << 10];
        let len = table.len().min(words.len());
        words[..len].copy_from_slice(&table[..len]);
        find_bits(ids, |id| words[usize::from(id) >> 6] >> (id & 63), found);
    } else {
        let mut bytes = [0u8; 1 << 16];
        for (bytes, word) in bytes.as_chunks_mut::<64>().0.iter_mut().zip(table) {
            let mut rest = *word;
            while rest != 0 {
                bytes[rest.trailing_zeros() as usize] = 1;
                rest &= rest - 1;
            }
        }
        find_bits(ids, |id| u64::from(bytes[usize::from(id)]), found);
    }
}

/// [`find_in_table`] for chunks with more words than 16 bits can number.
pub(crate) fn find_in_wide_table(ids: &[u32], table: &[u64], found: &mut Vec<u32>) {
    let bit = |id: u32| table.get(id as usize >> 6).copied().unwrap_or_default() >> (id & 63);
    find_bits(ids, bit, found);
}

/// Appends to `found` the indices in `ids` for which the lowest bit of `bit` is set, ascending.
///
/// The share of the numbers before that was found decides which way is taken for the next.
#[inline(always)]
fn find_bits<T: Copy>(ids: &[T], bit: impl Fn(T) -> u64 + Copy, found: &mut Vec<u32>) {
    /// Numbers that are searched one way.
    const PIECE: usize = 1 << 12;
    /// With more than one of this number found, a branch for eight numbers cannot be predicted.
    const MANY: usize = 12;
    let mut is_dense = false;
    for (number, piece) in ids.chunks(PIECE).enumerate() {
        let (base, before) = (number * PIECE, found.len());
        match is_dense {
            true => find_dense(piece, bit, base, found),
            false => find_sparse(piece, bit, base, found),
        }
        is_dense = (found.len() - before) * MANY > piece.len();
    }
}

/// [`find_bits`] where most numbers are found or not at no pattern: without a branch for each.
#[inline(always)]
fn find_dense<T: Copy>(ids: &[T], bit: impl Fn(T) -> u64, base: usize, found: &mut Vec<u32>) {
    let (blocks, rest) = ids.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        push_places(mask_of(block, &bit), base + number * 64, found);
    }
    push_places(mask_of(rest, &bit), base + blocks.len() * 64, found);
}

/// [`find_bits`] where few numbers are found: eight are decided at once.
#[inline(always)]
fn find_sparse<T: Copy>(ids: &[T], bit: impl Fn(T) -> u64 + Copy, base: usize, found: &mut Vec<u32>) {
    let (blocks, rest) = ids.as_chunks::<8>();
    for (number, block) in blocks.iter().enumerate() {
        if block.iter().fold(0, |any, id| any | bit(*id)) & 1 == 1 {
            push_found(block, bit, base + number * 8, found);
        }
    }
    push_places(mask_of(rest, &bit), base + blocks.len() * 8, found);
}

/// Kept out of the loop over blocks, most of which have none.
#[inline(never)]
fn push_found<T: Copy>(ids: &[T; 8], bit: impl Fn(T) -> u64, base: usize, found: &mut Vec<u32>) {
    push_places(mask_of(ids, &bit), base, found);
}

/// The lowest bits of at most 64 numbers' `bit`.
#[inline(always)]
fn mask_of<T: Copy>(ids: &[T], bit: &impl Fn(T) -> u64) -> u64 {
    ids.iter().enumerate().fold(0, |mask, (index, id)| mask | (bit(*id) & 1) << index)
}

/// Appends the indices of the bits of `mask`, counted from `base`.
#[inline(always)]
fn push_places(mut mask: u64, base: usize, found: &mut Vec<u32>) {
    if mask == 0 {
        return;
    }
    // The length is known, so that each position is stored without a check for room.
    found.extend((0..mask.count_ones()).map(|_| {
        let position = base as u32 + mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        position
    }));
}

/// Plain implementation of [`find_narrow`], over the ids from `start` on.
fn find_plain(ids: &[u16], start: usize, ranges: &[(u16, u16)], found: &mut Vec<u32>) {
    let within = |id: u16| ranges.iter().any(|(low, high)| (*low..=*high).contains(&id));
    let positions = ids.iter().enumerate().skip(start).filter(|(_, id)| within(**id));
    found.extend(positions.map(|(position, _)| position as u32));
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{find_plain, push_places};

    /// Scan with AVX-512. A number is in a range if its wrapping distance from the low end is at most the
    /// range's length.
    #[target_feature(enable = "avx512bw")]
    pub(super) fn find_avx512<const N: usize>(ids: &[u16], ranges: [(u16, u16); N], found: &mut Vec<u32>) {
        let lows = ranges.map(|(low, _)| _mm512_set1_epi16(low as i16));
        let spans = ranges.map(|(low, high)| _mm512_set1_epi16(high.wrapping_sub(low) as i16));
        let empty = ranges.map(|(low, high)| if low <= high { u32::MAX } else { 0 });
        let (blocks, rest) = ids.as_chunks::<64>();
        for (number, block) in blocks.iter().enumerate() {
            // SAFETY: the block has the 64 numbers that the two loads read; they need no alignment.
            let (first, second) = unsafe {
                (_mm512_loadu_si512(block.as_ptr().cast()), _mm512_loadu_si512(block[32..].as_ptr().cast()))
            };
            let mut mask = 0u64;
            for range in 0..N {
                let low = _mm512_cmple_epu16_mask(_mm512_sub_epi16(first, lows[range]), spans[range]);
                let high = _mm512_cmple_epu16_mask(_mm512_sub_epi16(second, lows[range]), spans[range]);
                mask |= u64::from(low & empty[range]) | u64::from(high & empty[range]) << 32;
            }
            push_places(mask, number * 64, found);
        }
        find_plain(ids, ids.len() - rest.len(), &ranges, found);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn find_avx2<const N: usize>(ids: &[u16], ranges: [(u16, u16); N], found: &mut Vec<u32>) {
        let lows = ranges.map(|(low, _)| _mm256_set1_epi16(low as i16));
        let spans = ranges.map(|(low, high)| _mm256_set1_epi16(high.wrapping_sub(low) as i16));
        let empty = ranges.map(|(low, high)| _mm256_set1_epi16(if low <= high { -1 } else { 0 }));
        let (blocks, rest) = ids.as_chunks::<32>();
        for (number, block) in blocks.iter().enumerate() {
            // SAFETY: the block has the 32 numbers that the two loads read; they need no alignment.
            let (first, second) = unsafe {
                (_mm256_loadu_si256(block.as_ptr().cast()), _mm256_loadu_si256(block[16..].as_ptr().cast()))
            };
            let mut hits = [_mm256_setzero_si256(); 2];
            for range in 0..N {
                for (hit, ids) in hits.iter_mut().zip([first, second]) {
                    // There is no unsigned `<=`: a number is at most the span if it is the minimum of both.
                    let distance = _mm256_sub_epi16(ids, lows[range]);
                    let within = _mm256_cmpeq_epi16(_mm256_min_epu16(distance, spans[range]), distance);
                    *hit = _mm256_or_si256(*hit, _mm256_and_si256(within, empty[range]));
                }
            }
            // Packing works on register halves, so the quarters come out as 0, 2, 1, 3.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(hits[0], hits[1]));
            push_places(u64::from(_mm256_movemask_epi8(packed) as u32), number * 32, found);
        }
        find_plain(ids, ids.len() - rest.len(), &ranges, found);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_form_finds_what_the_plain_one_does(
            ids in proptest::collection::vec(prop_oneof![0u16..20, any::<u16>()], 0..300),
            repeated in prop_oneof![Just(1usize), Just(30), Just(100)],
            ranges in proptest::collection::vec(prop_oneof![(0u16..20, 0u16..20), any::<(u16, u16)>()], 0..=RANGES),
        ) {
            // More than one piece, where what was found before decides.
            let ids = ids.repeat(repeated);
            let mut plain = Vec::new();
            find_plain(&ids, 0, &ranges, &mut plain);
            let mut found = Vec::new();
            find_narrow(&ids, &ranges, &mut found);
            prop_assert_eq!(&found, &plain);

            let wide: Vec<u32> = ids.iter().map(|id| u32::from(*id)).collect();
            let mut table = vec![0u64; 1 << 10];
            for id in ranges.iter().flat_map(|(low, high)| *low..=*high) {
                table[usize::from(id) / 64] |= 1 << (id % 64);
            }
            // Words of zeros at the end may be missing.
            let end = table.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            found.clear();
            find_in_table(&ids, &table[..end], &mut found);
            prop_assert_eq!(&found, &plain);
            found.clear();
            find_in_wide_table(&wide, &table[..end], &mut found);
            prop_assert_eq!(&found, &plain);

            let wide_ranges: Vec<(u32, u32)> = ranges.iter().map(|(low, high)| (u32::from(*low), u32::from(*high))).collect();
            found.clear();
            find_wide(&wide, &wide_ranges, &mut found);
            prop_assert_eq!(&found, &plain);

            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2")
                && let &[a, b] = ranges.as_slice()
            {
                found.clear();
                // SAFETY: the check above found the CPU feature that the function needs.
                unsafe { x86::find_avx2(&ids, [a, b], &mut found) };
                prop_assert_eq!(&found, &plain);
            }
        }
    }
}
