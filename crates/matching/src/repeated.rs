//! Texts of which many are the same, so that each is tested once.

use millrace_tensor::ShortText;

use crate::matched::MatchedValues;

/// Binary logarithm of the number of texts that are remembered.
const SLOTS_LOG: u32 = 9;

/// Number of texts after which each time it shows whether at least half of them were there before.
const SAMPLE: usize = 128;

/// Texts without most of their repetitions.
pub(crate) struct RepeatedTexts<'t> {
    /// Texts of which few are the same.
    pub(crate) distinct: Vec<&'t [u8]>,
    /// For each of all texts, the index of an equal one among these.
    of: Vec<u32>,
}

impl<'t> RepeatedTexts<'t> {
    /// `None` if the texts are few, or repeat so little that to find it out costs more than it saves.
    pub(crate) fn new(texts: &[&'t [u8]]) -> Option<Self> {
        if texts.len() < SAMPLE {
            return None;
        }
        // Index of the last distinct text with a hash.
        let mut slots = [u32::MAX; 1 << SLOTS_LOG];
        let (mut distinct, mut of): (Vec<&[u8]>, _) = (Vec::new(), Vec::with_capacity(texts.len()));
        for (seen, text) in texts.iter().enumerate() {
            if seen.is_multiple_of(SAMPLE) && distinct.len() * 2 > seen {
                return None;
            }
            let slot = &mut slots[(hash(text) >> (u64::BITS - SLOTS_LOG)) as usize];
            if distinct.get(*slot as usize).is_none_or(|known| known != text) {
                *slot = distinct.len() as u32;
                distinct.push(*text);
            }
            of.push(*slot);
        }
        Some(RepeatedTexts { distinct, of })
    }

    /// The matches among all texts, by those among the distinct ones.
    pub(crate) fn matched(&self, matched: &MatchedValues) -> MatchedValues {
        let mut weights = vec![None; self.distinct.len()];
        matched.iter().for_each(|value| weights[value.index] = Some(value.weight));
        MatchedValues::weighed(&self.of, |of| weights[*of as usize])
    }
}

/// A number whose highest bits differ for most texts; texts that were chosen for it cost time alone.
fn hash(text: &[u8]) -> u64 {
    let mixed = |part: &[u8]| ShortText::new(part).map_or(0, ShortText::mixed);
    match text.len().checked_sub(ShortText::BYTES_MAX) {
        None | Some(0) => mixed(text),
        Some(rest) => {
            let ends = mixed(&text[..ShortText::BYTES_MAX]) ^ mixed(&text[rest..]).rotate_left(1);
            ends ^ (text.len() as u64).reverse_bits()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_text_has_its_equal_among_the_distinct_ones(
            pool in prop::collection::vec("[ab]{0,3}|[ab]{14,18}|x{40}[ab]", 1..400),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..1000),
        ) {
            let texts: Vec<&[u8]> = picks.iter().map(|pick| pick.get(&pool).as_bytes()).collect();
            if let Some(repeated) = RepeatedTexts::new(&texts) {
                let equals: Vec<&[u8]> =
                    repeated.of.iter().map(|of| repeated.distinct[*of as usize]).collect();
                prop_assert_eq!(&equals, &texts);
                let holds = |text: &[u8]| text.first() == Some(&b'a');
                let found = |texts: &[&[u8]]| MatchedValues::passing(texts, |text| holds(text));
                let indices = |matched: MatchedValues| -> Vec<usize> {
                    matched.iter().map(|value| value.index).collect()
                };
                let by_distinct = repeated.matched(&found(&repeated.distinct));
                prop_assert_eq!(indices(by_distinct), indices(found(&texts)));
            }
        }
    }

    #[test]
    fn few_texts_and_those_that_do_not_repeat_are_left_alone() {
        let text = |number: usize| (number % 500).to_string().into_bytes();
        let all: Vec<Vec<u8>> = (0..1000).map(text).collect();
        let texts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        assert!(RepeatedTexts::new(&texts).is_none());
        let many = [&b"one"[..], b"two", b"a text that is longer than others"].repeat(100);
        assert_eq!(RepeatedTexts::new(&many).map(|repeated| repeated.distinct.len()), Some(3));
        assert!(RepeatedTexts::new(&many[..20]).is_none());
    }
}
