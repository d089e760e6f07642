//! Search in sorted texts that lie one after another.

/// Number of texts from one whose [`head`] is sampled to the next.
const SAMPLED: usize = 16;

/// Sorted texts by their offsets.
#[derive(Clone, Copy)]
pub(crate) struct SortedTexts<'a> {
    /// Start of each text in `bytes`, followed by the end of the last.
    pub offsets: &'a [u32],
    pub bytes: &'a [u8],
    /// Heads of some of the texts, from [`sampled`].
    pub samples: &'a [u64],
}

/// The heads of some of the texts, which lie side by side: a search goes through them first, and then through
/// few of the texts, which lie apart.
pub(crate) fn sampled(offsets: &[u32], bytes: &[u8]) -> Box<[u64]> {
    let texts = SortedTexts { offsets, bytes, samples: &[] };
    (0..offsets.len() - 1).step_by(SAMPLED).map(|index| texts.head(index, texts.get(index))).collect()
}

impl<'a> SortedTexts<'a> {
    /// Text at `index`.
    pub fn get(self, index: usize) -> &'a [u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Index of the first text that is not below `wanted`. Costs a binary search.
    pub fn first_not_below(self, wanted: &[u8]) -> usize {
        let head = head(wanted);
        let below = self.samples.partition_point(|sample| *sample < head);
        // Texts with this head can be on both sides of what is wanted.
        let same = match self.samples.get(below) {
            Some(sample) if *sample == head => {
                self.samples[below..].partition_point(|sample| *sample == head)
            }
            _ => 0,
        };
        let mut low = below.checked_sub(1).map_or(0, |last| last * SAMPLED + 1);
        let mut high = ((below + same) * SAMPLED).min(self.offsets.len() - 1);
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
            mut texts in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..12), 0..200),
            common in proptest::collection::vec(0u8..3, 0..12),
            alike in 0usize..200,
            wanted in proptest::collection::vec(0u8..3, 0..12),
        ) {
            // Many that begin alike for more and for fewer bytes than a head has.
            texts.iter_mut().take(alike).for_each(|text| {
                drop(text.splice(0..0, common.iter().copied()));
            });
            texts.sort();
            let mut offsets = vec![0];
            let mut bytes = Vec::new();
            for text in &texts {
                bytes.extend_from_slice(text);
                offsets.push(bytes.len() as u32);
            }
            let samples = sampled(&offsets, &bytes);
            let sorted = SortedTexts { offsets: &offsets, bytes: &bytes, samples: &samples };
            for wanted in texts.iter().chain([&wanted, &common]) {
                let expected = texts.partition_point(|text| text < wanted);
                prop_assert_eq!(sorted.first_not_below(wanted), expected);
            }
        }
    }
}
