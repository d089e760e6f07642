//! Search in sorted texts that lie one after another.

/// Sorted texts by their offsets.
#[derive(Clone, Copy)]
pub(crate) struct SortedTexts<'a> {
    /// Start of each text in `bytes`, followed by the end of the last.
    pub offsets: &'a [u32],
    pub bytes: &'a [u8],
}

impl<'a> SortedTexts<'a> {
    /// Text at `index`.
    pub fn get(self, index: usize) -> &'a [u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Index of the first text that is not below `wanted`. Costs a binary search.
    pub fn first_not_below(self, wanted: &[u8]) -> usize {
        let head = head(wanted);
        let (mut low, mut high) = (0, self.offsets.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_below(middle, wanted, head) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// For each of `wanted` what [`SortedTexts::first_not_below`] finds. The searches take each step together
    /// and without a branch: while one waits for memory, so do the others.
    pub fn first_not_below_each(self, wanted: &[&[u8]]) -> Vec<usize> {
        let heads: Vec<u64> = wanted.iter().map(|wanted| head(wanted)).collect();
        let mut lows = vec![0; wanted.len()];
        // What is wanted is among so many texts from the low end on, or after them.
        let mut among = self.offsets.len() - 1;
        while among > 0 {
            let half = among.div_ceil(2);
            for ((low, wanted), head) in lows.iter_mut().zip(wanted).zip(&heads) {
                *low += half * usize::from(self.is_below(*low + half - 1, wanted, *head));
            }
            among -= half;
        }
        lows
    }

    /// True if the text at `index` is below `wanted`, whose [`head`] is given.
    fn is_below(self, index: usize, wanted: &[u8], head: u64) -> bool {
        let text = self.get(index);
        // Most texts differ in their first bytes, which costs less than to compare slices.
        match self.head(index, text).cmp(&head) {
            std::cmp::Ordering::Equal => text < wanted,
            order => order.is_lt(),
        }
    }

    /// The [`head`] of the text at `index`: in one load, unless it is one of the last texts.
    fn head(self, index: usize, text: &[u8]) -> u64 {
        match self.bytes[self.offsets[index] as usize..].first_chunk::<8>() {
            Some(_) if text.is_empty() => 0,
            Some(first) => u64::from_be_bytes(*first) & u64::MAX << (64 - 8 * text.len().min(8)),
            None => head(text),
        }
    }
}

/// The first eight bytes of a text as a number, with zeros after its end: of two texts with different ones
/// the lower text has the lower one.
pub(crate) fn head(text: &[u8]) -> u64 {
    let mut first = [0; 8];
    let len = text.len().min(8);
    first[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_found_where_a_plain_comparison_finds_it(
            mut texts in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..12), 0..40),
            wanted in proptest::collection::vec(0u8..3, 0..12),
        ) {
            texts.sort();
            let mut offsets = vec![0];
            let mut bytes = Vec::new();
            for text in &texts {
                bytes.extend_from_slice(text);
                offsets.push(bytes.len() as u32);
            }
            let sorted = SortedTexts { offsets: &offsets, bytes: &bytes };
            prop_assert_eq!(sorted.first_not_below(&wanted), texts.partition_point(|text| *text < wanted));
            let all: Vec<&[u8]> = texts.iter().chain([&wanted]).map(Vec::as_slice).collect();
            let expected: Vec<usize> =
                all.iter().map(|wanted| texts.partition_point(|text| text.as_slice() < *wanted)).collect();
            prop_assert_eq!(sorted.first_not_below_each(&all), expected);
        }
    }
}
