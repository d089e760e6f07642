//! Labels and other short texts as numbers.

use std::collections::HashMap;

/// A text of at most 15 bytes as one number, with its length: it is hashed and compared without a loop over
/// its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ShortText(u128);

/// A number whose bytes are all 1.
const EACH_BYTE: u128 = u128::MAX / 0xff;

/// The highest bit of each byte, which is 0 in ASCII characters.
const HIGHEST_BITS: u128 = EACH_BYTE * 0x80;

impl ShortText {
    /// Maximum number of bytes. The last byte of the number is for the length.
    pub const BYTES_MAX: usize = 15;

    /// The text; `None` if it is longer.
    #[inline]
    pub fn new(text: &[u8]) -> Option<Self> {
        let length = text.len();
        // Two parts that overlap have all bytes.
        let bytes = match (text.first_chunk(), text.last_chunk()) {
            _ if length > Self::BYTES_MAX => return None,
            (Some(first), Some(last)) => {
                let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
                u128::from(first) | u128::from(last) << (8 * (length - 8))
            }
            // Numbers of 64 bits are shifted by one instruction.
            _ => u128::from(match (text.first_chunk(), text.last_chunk()) {
                (Some(first), Some(last)) => {
                    let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
                    u64::from(first) | u64::from(last) << (8 * (length - 4))
                }
                _ => match *text {
                    [] => 0,
                    // So few bytes are the first, the middle and the last one, some of them more than once.
                    [first, ..] => {
                        let byte = |at: usize| u64::from(text[at]) << (8 * at);
                        u64::from(first) | byte(length / 2) | byte(length - 1)
                    }
                },
            }),
        };
        Some(ShortText(bytes | (length as u128) << (8 * Self::BYTES_MAX)))
    }

    /// A number of which few texts have the same highest bits, unless they were chosen for that: for caches
    /// and filters, where those cost time alone.
    #[inline]
    pub fn mixed(self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        ((self.0 as u64).wrapping_mul(ODD) ^ (self.0 >> 64) as u64).wrapping_mul(ODD)
    }

    /// True if all of the text is ASCII.
    #[inline]
    pub fn is_ascii(self) -> bool {
        self.0 & HIGHEST_BITS == 0
    }

    /// The text with small letters instead of capital ones; `None` if not all of it is ASCII.
    #[inline]
    pub fn lowercase_ascii(self) -> Option<Self> {
        if !self.is_ascii() {
            return None;
        }
        // No sum of two bytes below 128 is carried into the next byte.
        let from_a = self.0 + EACH_BYTE * u128::from(0x80 - b'A');
        let after_z = self.0 + EACH_BYTE * u128::from(0x7f - b'Z');
        let capitals = from_a & !after_z & HIGHEST_BITS;
        // From the highest bit to that in which the letters differ.
        Some(ShortText(self.0 | capitals >> 2))
    }
}

/// Filter of texts that are looked up among a few: most that are not among them are known by one bit,
/// without a look into a hash table. It decides nothing alone, so that texts that share a bit cost time, and
/// no answer.
#[derive(Debug, Clone, Default)]
struct ShortTextFilter {
    /// A power of two of bits; none without texts.
    bits: Vec<u64>,
    /// Number of the lowest bits of a mixed text that do not number a bit.
    shift: u32,
}

impl ShortTextFilter {
    /// Number of bits for a text.
    const BITS: usize = 16;

    /// The filter of some texts.
    fn new(texts: impl ExactSizeIterator<Item = ShortText>) -> Self {
        let count = texts.len();
        if count == 0 {
            return ShortTextFilter::default();
        }
        let bits = (count * Self::BITS).next_power_of_two().max(64);
        let mut filter = ShortTextFilter { bits: vec![0; bits / 64], shift: 64 - bits.trailing_zeros() };
        for text in texts {
            let bit = filter.bit(text);
            filter.bits[bit / 64] |= 1 << (bit % 64);
        }
        filter
    }

    /// False if a text is certainly none of those of the filter.
    #[inline]
    fn may_have(&self, text: ShortText) -> bool {
        let bit = self.bit(text);
        self.bits.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    #[inline]
    fn bit(&self, text: ShortText) -> usize {
        (text.mixed() >> self.shift) as usize
    }
}

/// Values by different short texts, for many look-ups of which most find none, or one by the first look.
#[derive(Debug, Clone)]
pub struct ShortTextMap<V> {
    filter: ShortTextFilter,
    /// A power of two of slots, and some after them. The value of a text is in one of the [`Self::PROBES`]
    /// slots from that on which its highest bits number.
    slots: Vec<(ShortText, Option<V>)>,
    /// Number of the lowest bits of a mixed text that do not number a slot.
    shift: u32,
    /// Texts whose slots were taken: queries may choose them so. Their hash is keyed.
    others: HashMap<ShortText, V>,
}

impl<V: Copy> ShortTextMap<V> {
    /// Number of slots for a text.
    const SLOTS: usize = 4;
    /// Number of slots that are looked at.
    const PROBES: usize = 4;

    /// The map of some texts, each of them once.
    pub fn new(texts: &[(ShortText, V)]) -> Self {
        Self::with_slots(texts, (texts.len() * Self::SLOTS).next_power_of_two().max(2))
    }

    fn with_slots(texts: &[(ShortText, V)], slots: usize) -> Self {
        let mut map = ShortTextMap {
            filter: ShortTextFilter::new(texts.iter().map(|(text, _)| *text)),
            slots: vec![(ShortText::default(), None); slots + Self::PROBES - 1],
            shift: 64 - slots.trailing_zeros(),
            others: HashMap::new(),
        };
        for (text, value) in texts {
            let first = map.first(*text);
            match map.slots[first..first + Self::PROBES].iter_mut().find(|(_, value)| value.is_none()) {
                Some(slot) => *slot = (*text, Some(*value)),
                None => {
                    map.others.insert(*text, *value);
                }
            }
        }
        map
    }

    /// The value of a text.
    #[inline]
    pub fn get(&self, text: ShortText) -> Option<V> {
        if !self.filter.may_have(text) {
            return None;
        }
        let first = self.first(text);
        for (known, value) in &self.slots[first..first + Self::PROBES] {
            match value {
                None => return None,
                Some(value) if *known == text => return Some(*value),
                Some(_) => {}
            }
        }
        self.others.get(&text).copied()
    }

    #[inline]
    fn first(&self, text: ShortText) -> usize {
        (text.mixed() >> self.shift) as usize
    }
}

impl<V: Copy> Default for ShortTextMap<V> {
    fn default() -> Self {
        ShortTextMap::new(&[])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ShortText, ShortTextFilter, ShortTextMap};

    #[test]
    fn a_map_has_the_values_of_its_texts_and_no_others() {
        let text = |number: usize| ShortText::new(format!("tag{number}").as_bytes()).expect("it is short");
        for count in [0, 1, 2, 5, 100, 1000] {
            let texts: Vec<(ShortText, usize)> = (0..count).map(|number| (text(number), number)).collect();
            // With few slots most texts are in none of theirs.
            for map in [ShortTextMap::new(&texts), ShortTextMap::with_slots(&texts, 2)] {
                for number in 0..count + 1000 {
                    assert_eq!(map.get(text(number)), (number < count).then_some(number), "{count}");
                }
            }
        }
        assert_eq!(ShortTextMap::<u8>::default().get(ShortText::default()), None);
    }

    #[test]
    fn a_filter_has_its_texts_and_few_others() {
        let text = |number: usize| ShortText::new(format!("tag{number}").as_bytes()).expect("it is short");
        assert!(!ShortTextFilter::new(std::iter::empty::<ShortText>()).may_have(text(0)));
        for count in [1, 2, 3, 10, 100, 1000] {
            let filter = ShortTextFilter::new((0..count).map(text));
            assert!((0..count).all(|number| filter.may_have(text(number))), "{count}");
            let others = (count..count + 10_000).filter(|number| filter.may_have(text(*number))).count();
            assert!(others < 2_000, "{others} beside {count}");
        }
    }

    #[test]
    fn each_text_up_to_the_maximum_is_another_number() {
        let all = "aB\0zZ@[`{é 019";
        let mut texts: HashSet<&[u8]> = HashSet::new();
        for from in 0..all.len() {
            texts.extend((from..=all.len()).map(|to| &all.as_bytes()[from..to]));
        }
        texts.extend([b"\0".as_slice(), b"\0\0", &[0; 8], &[0; 15], &[0xff; 15], b"abcabcabcabcabc"]);
        let numbers: HashSet<ShortText> = texts.iter().filter_map(|text| ShortText::new(text)).collect();
        assert_eq!(numbers.len(), texts.len());
        assert_eq!(ShortText::new(&[b'a'; 16]), None);
    }

    #[test]
    fn capital_letters_of_ascii_become_small() {
        for byte in 0..=u8::MAX {
            for length in 1..=ShortText::BYTES_MAX {
                let mut text = vec![b'Q'; length];
                text[length / 2] = byte;
                assert_eq!(ShortText::new(&text).map(ShortText::is_ascii), Some(text.is_ascii()));
                let lower = text.is_ascii().then(|| text.to_ascii_lowercase());
                let expected = lower.and_then(|lower| ShortText::new(&lower));
                let found = ShortText::new(&text).and_then(ShortText::lowercase_ascii);
                assert_eq!(found, expected, "{byte} in {length}");
            }
        }
    }
}
