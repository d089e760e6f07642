//! Labels and other short texts as numbers.

/// A text of at most 15 bytes as one number, with its length: it is hashed and compared without a loop over
/// its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortText(u128);

/// Each byte of a number is 1.
const EACH_BYTE: u128 = u128::MAX / 0xff;

/// The highest bit of each byte, which characters of ASCII do not have.
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
            _ => match (text.first_chunk(), text.last_chunk()) {
                (Some(first), Some(last)) => {
                    let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
                    u128::from(first) | u128::from(last) << (8 * (length - 4))
                }
                _ => text.iter().rev().fold(0, |bytes, byte| bytes << 8 | u128::from(*byte)),
            },
        };
        Some(ShortText(bytes | (length as u128) << (8 * Self::BYTES_MAX)))
    }

    /// The text with small letters instead of capital ones; `None` if not all of it is ASCII.
    #[inline]
    pub fn lowercase_ascii(self) -> Option<Self> {
        if self.0 & HIGHEST_BITS != 0 {
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::ShortText;

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
                let lower = text.is_ascii().then(|| text.to_ascii_lowercase());
                let expected = lower.and_then(|lower| ShortText::new(&lower));
                let found = ShortText::new(&text).and_then(ShortText::lowercase_ascii);
                assert_eq!(found, expected, "{byte} in {length}");
            }
        }
    }
}
