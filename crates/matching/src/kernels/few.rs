//! Search for a few token numbers that no ranges have: by the halves of their bytes, of which one instruction
//! looks up 32.

/// A few token numbers of 16 bits.
///
/// They are in buckets, eight of which share four tables: one for each half of a byte of a number, with a bit
/// for each bucket that has a number with this half. A number whose four halves have a bit in common may be
/// in that bucket.
#[derive(Debug)]
// Other processors look each number up in its table.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) struct FewNumbers {
    groups: [[[u8; 16]; 4]; GROUPS_MAX],
    /// Number of groups of buckets that have numbers: a power of two.
    used: usize,
}

/// Maximum number of groups of buckets: with more, a look at a table for each number is as fast.
const GROUPS_MAX: usize = 4;

/// Maximum number of numbers in one group of buckets: with more, too many others seem to be in a bucket.
const NUMBERS_OF_GROUP: usize = 32;

impl FewNumbers {
    /// The numbers whose bits are set in a table. `None` if there are too many, or if the processor lacks the
    /// instructions.
    pub(crate) fn of(table: &[u64]) -> Option<Self> {
        let count: usize = table.iter().map(|word| word.count_ones() as usize).sum();
        if !has_instructions() || count > GROUPS_MAX * NUMBERS_OF_GROUP {
            return None;
        }
        let used = count.div_ceil(NUMBERS_OF_GROUP).next_power_of_two();
        let of_bucket = count.div_ceil(8 * used).max(1);
        let mut groups = [[[0u8; 16]; 4]; GROUPS_MAX];
        let (mut index, mut base) = (0, 0);
        for word in table {
            let mut rest = *word;
            while rest != 0 {
                // Those that follow each other have most halves in common.
                let (number, bucket) = (base + rest.trailing_zeros() as usize, index / of_bucket);
                for (nibble, halves) in groups[bucket / 8].iter_mut().enumerate() {
                    halves[number >> (4 * nibble) & 15] |= 1 << (bucket % 8);
                }
                index += 1;
                rest &= rest - 1;
            }
            base += 64;
        }
        Some(FewNumbers { groups, used })
    }

    /// Appends to `found` the indices in `ids` of the numbers, ascending. `table` is that which they are of.
    pub(crate) fn find(&self, ids: &[u16], table: &[u64], found: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the check above found the CPU feature that the functions need.
            return unsafe {
                match self.used {
                    1 => x86::find_avx2::<1>(&self.groups, ids, table, found),
                    2 => x86::find_avx2::<2>(&self.groups, ids, table, found),
                    _ => x86::find_avx2::<GROUPS_MAX>(&self.groups, ids, table, found),
                }
            };
        }
        find_plain(ids, 0, table, found);
    }

    /// True if any of `ids` is one of the numbers. `table` is that which they are of.
    pub(crate) fn is_any_in(&self, ids: &[u16], table: &[u64]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the check above found the CPU feature that the functions need.
            return unsafe {
                match self.used {
                    1 => x86::is_any_avx2::<1>(&self.groups, ids, table),
                    2 => x86::is_any_avx2::<2>(&self.groups, ids, table),
                    _ => x86::is_any_avx2::<GROUPS_MAX>(&self.groups, ids, table),
                }
            };
        }
        ids.iter().any(|id| is_in(table, *id))
    }

    /// True if a number seems to be one of them.
    #[cfg(test)]
    fn may_have(&self, number: u16) -> bool {
        let halves = |(nibble, halves): (usize, &[u8; 16])| halves[usize::from(number) >> (4 * nibble) & 15];
        let in_group =
            |group: &[[u8; 16]; 4]| group.iter().enumerate().map(halves).fold(u8::MAX, |a, b| a & b);
        self.groups[..self.used].iter().any(|group| in_group(group) != 0)
    }
}

/// True if the processor has the instructions of the fast form.
#[cfg(target_arch = "x86_64")]
fn has_instructions() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
const fn has_instructions() -> bool {
    false
}

/// True if the bit of a number is set.
#[inline(always)]
fn is_in(table: &[u64], number: u16) -> bool {
    table.get(usize::from(number) >> 6).is_some_and(|word| word >> (number & 63) & 1 == 1)
}

/// Plain implementation of [`FewNumbers::find`], over the ids from `start` on.
fn find_plain(ids: &[u16], start: usize, table: &[u64], found: &mut Vec<u32>) {
    let positions = ids.iter().enumerate().skip(start).filter(|(_, id)| is_in(table, **id));
    found.extend(positions.map(|(position, _)| position as u32));
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{GROUPS_MAX, find_plain, is_in};

    /// Scan with AVX2 for the numbers of the first groups.
    #[target_feature(enable = "avx2")]
    pub(super) fn find_avx2<const GROUPS: usize>(
        groups: &[[[u8; 16]; 4]; GROUPS_MAX],
        ids: &[u16],
        table: &[u64],
        found: &mut Vec<u32>,
    ) {
        let tables = tables_of::<GROUPS>(groups);
        let (blocks, rest) = ids.as_chunks::<32>();
        for (number, block) in blocks.iter().enumerate() {
            let mut candidates = candidates(&tables, block);
            while candidates != 0 {
                let index = candidates.trailing_zeros() as usize;
                if is_in(table, block[index]) {
                    found.push((number * 32 + index) as u32);
                }
                candidates &= candidates - 1;
            }
        }
        find_plain(ids, ids.len() - rest.len(), table, found);
    }

    /// Search with AVX2 for any number of the first groups.
    #[target_feature(enable = "avx2")]
    pub(super) fn is_any_avx2<const GROUPS: usize>(
        groups: &[[[u8; 16]; 4]; GROUPS_MAX],
        ids: &[u16],
        table: &[u64],
    ) -> bool {
        let tables = tables_of::<GROUPS>(groups);
        let (blocks, rest) = ids.as_chunks::<32>();
        for block in blocks {
            if is_any_of_block(&tables, block, table) {
                return true;
            }
        }
        match ids.last_chunk() {
            _ if rest.is_empty() => false,
            // Numbers that were looked at before are so again.
            Some(last) => is_any_of_block(&tables, last, table),
            None => rest.iter().any(|id| is_in(table, *id)),
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn is_any_of_block<const GROUPS: usize>(
        tables: &[[__m256i; 4]; GROUPS],
        block: &[u16; 32],
        table: &[u64],
    ) -> bool {
        let mut candidates = candidates(tables, block);
        while candidates != 0 {
            if is_in(table, block[candidates.trailing_zeros() as usize]) {
                return true;
            }
            candidates &= candidates - 1;
        }
        false
    }

    /// The tables of the first groups, in both halves of registers.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn tables_of<const GROUPS: usize>(groups: &[[[u8; 16]; 4]; GROUPS_MAX]) -> [[__m256i; 4]; GROUPS] {
        let mut tables = [[_mm256_setzero_si256(); 4]; GROUPS];
        for (tables, group) in tables.iter_mut().zip(groups) {
            for (of_half, bytes) in tables.iter_mut().zip(group) {
                // SAFETY: there are the 16 bytes that the load reads; they need no alignment.
                let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
                *of_half = _mm256_broadcastsi128_si256(bytes);
            }
        }
        tables
    }

    /// The numbers of a block that may be in a bucket, as bits.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn candidates<const GROUPS: usize>(tables: &[[__m256i; 4]; GROUPS], block: &[u16; 32]) -> u32 {
        let (low_byte, low_half) = (_mm256_set1_epi16(0xff), _mm256_set1_epi8(0x0f));
        // SAFETY: the block has the 32 numbers that the two loads read; they need no alignment.
        let (first, second) = unsafe {
            (_mm256_loadu_si256(block.as_ptr().cast()), _mm256_loadu_si256(block[16..].as_ptr().cast()))
        };
        let low = _mm256_packus_epi16(_mm256_and_si256(first, low_byte), _mm256_and_si256(second, low_byte));
        let high = _mm256_packus_epi16(_mm256_srli_epi16::<8>(first), _mm256_srli_epi16::<8>(second));
        let halves = [
            _mm256_and_si256(low, low_half),
            _mm256_and_si256(_mm256_srli_epi16::<4>(low), low_half),
            _mm256_and_si256(high, low_half),
            _mm256_and_si256(_mm256_srli_epi16::<4>(high), low_half),
        ];
        let mut any = _mm256_setzero_si256();
        for tables in tables {
            let mut common = _mm256_set1_epi8(-1);
            for (of_half, half) in tables.iter().zip(halves) {
                common = _mm256_and_si256(common, _mm256_shuffle_epi8(*of_half, half));
            }
            any = _mm256_or_si256(any, common);
        }
        let none = _mm256_cmpeq_epi8(any, _mm256_setzero_si256());
        // Packing works on register halves, so the quarters come out as 0, 2, 1, 3.
        let none = _mm256_permute4x64_epi64::<0b11_01_10_00>(none);
        !(_mm256_movemask_epi8(none) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_few_numbers_are_found_as_one_by_one(
            numbers in proptest::collection::btree_set(prop_oneof![0u16..100, any::<u16>()], 0..160),
            others in proptest::collection::vec(prop_oneof![0u16..100, any::<u16>()], 0..200),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let mut table = vec![0u64; 1 << 10];
            numbers.iter().for_each(|number| table[usize::from(*number) / 64] |= 1 << (number % 64));
            // Words of zeros at the end may be missing.
            table.truncate(table.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1));
            let all: Vec<u16> = numbers.iter().copied().chain(others).chain([0]).collect();
            let ids: Vec<u16> = order.iter().map(|at| *at.get(&all)).collect();
            let expected: Vec<u32> =
                (0..ids.len() as u32).filter(|at| numbers.contains(&ids[*at as usize])).collect();
            let mut plain = Vec::new();
            find_plain(&ids, 0, &table, &mut plain);
            prop_assert_eq!(&plain, &expected);
            match FewNumbers::of(&table) {
                Some(few) => {
                    prop_assert!(numbers.len() <= GROUPS_MAX * NUMBERS_OF_GROUP);
                    prop_assert!(numbers.iter().all(|number| few.may_have(*number)));
                    let mut found = Vec::new();
                    few.find(&ids, &table, &mut found);
                    prop_assert_eq!(&found, &expected);
                    for end in (0..ids.len()).step_by(7) {
                        let is_any = expected.first().is_some_and(|first| (*first as usize) < end);
                        prop_assert_eq!(few.is_any_in(&ids[..end], &table), is_any, "{}", end);
                    }
                }
                None => prop_assert!(numbers.len() > GROUPS_MAX * NUMBERS_OF_GROUP || !has_instructions()),
            }
        }
    }

    #[test]
    fn few_other_numbers_seem_to_be_among_a_few() {
        for count in [1, 8, 32, 64, 128] {
            // As the words with a common end are in a dictionary of some ten thousand.
            let number = |at: usize| (at * 0x9e37 + 11) % 12_000;
            let mut table = vec![0u64; 1 << 10];
            (0..count).map(number).for_each(|number| table[number / 64] |= 1 << (number % 64));
            let Some(few) = FewNumbers::of(&table) else { return };
            let seeming = (0..12_000).filter(|number| few.may_have(*number)).count();
            assert!(seeming < 12_000 / 8, "{seeming} of {count}");
        }
    }
}
